/* verify_rewards.c - holds the lines of rewards against what is computed again. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/rnp-reward/again.h"
#include "cmd/rnp-reward/verify_parts.h"
#include "cmd/rnp-reward/write.h"
#include "common/base/err.h"
#include "common/base/lines.h"
#include "common/base/mem.h"
#include "common/cli/records.h"
#include "common/json/json.h"
#include "common/json/schema.h"

/* --- lines by their hashes ----------------------------------------------------------------- */

/* With a secret key, so that nobody can write another line of the same hash. */
static unsigned char key[crypto_shorthash_KEYBYTES];

void seen_init(void)
{
	randombytes_buf(key, sizeof key);
}

static struct line_hash hash_line(const char *line, size_t len)
{
	struct line_hash h;

	crypto_shorthash(h.bytes, (const unsigned char *)line, len, key);
	return h;
}

void seen_note(void *seen, const char *line, size_t len, struct buf *out)
{
	const struct seen *s = seen;
	struct line_hash hash = hash_line(line, len);

	buf_add(out, &hash, sizeof hash);
	if (!s->nfiles)
		buf_add(out, line, len);
}

void seen_keep(void *seen, const char *note, size_t len)
{
	struct seen *s = seen;

	s->hashes = xgrow(s->hashes, &s->hashes_cap, s->nhashes + 1, sizeof *s->hashes);
	memcpy(&s->hashes[s->nhashes++], note, sizeof *s->hashes);
	if (s->nfiles)
		return;
	buf_add(&s->rewards, note + sizeof *s->hashes, len - sizeof *s->hashes);
	buf_addc(&s->rewards, '\n');
}

bool seen_regular(char **files, int n)
{
	struct stat st;

	for (int i = 0; i < n; i++)
		if (strcmp(files[i], "-") == 0 || stat(files[i], &st) < 0 ||
			!S_ISREG(st.st_mode))
			return false;
	return true;
}

/* --- one by one ---------------------------------------------------------------------------- */

static bool record_differs(const char *line, size_t len, const char *computed, size_t n,
	const char *what, struct buf *reason)
{
	json_t *a, *b;
	bool found;

	/* usually the same bytes */
	if (len == n && memcmp(line, computed, n) == 0)
		return false;
	a = json_parse_object(line, len, what);
	if (!a || schema_check(a, what, NULL) < 0) {
		buf_adds(reason, err_get()->text);
		err_clear();
		json_decref(a);
		return true;
	}
	b = json_parse_object(computed, n, what);
	buf_addf(reason, "%s: ", what);
	found = again_difference(a, b, reason);
	if (!found)
		buf_reset(reason);
	json_decref(a);
	json_decref(b);
	return found;
}

/* A second look at the lines of rewards, once one is not the same bytes. */
struct second_look {
	const struct epoch *epoch;
	size_t i;
	struct buf line, *reason;
};

static void compare_reward(struct second_look *look, const char *text, size_t len)
{
	char what[64];
	size_t i = look->i++;

	if (look->reason->len || i >= look->epoch->n)
		return;
	buf_reset(&look->line);
	reward_write(&look->line, look->epoch, i);
	snprintf(what, sizeof what, "reward %zu", i + 1);
	record_differs(text, len, look->line.data, look->line.len - 1, what,
		look->reason);
}

static int look_again(void *ctx, const struct record *r)
{
	if (strcmp(json_string_value(json_object_get(r->json, "kind")), "rnp.reward") ==
		0)
		compare_reward(ctx, r->text, r->len);
	return 0;
}

/* Compares record by record: another form of the same record is fine, too. */
static int compare_records(const struct seen *s, const struct epoch *e,
	struct buf *reason)
{
	const char *at = buf_text(&s->rewards), *end = at + s->rewards.len, *stop;
	struct second_look look = { .epoch = e, .reason = reason };
	int rc = 0;

	if (s->nfiles)
		rc = records_each(s->files, s->nfiles, JSON_RECORD_BYTES_MAX, look_again,
			&look);
	for (; at < end && (stop = memchr(at, '\n', (size_t)(end - at))); at = stop + 1)
		compare_reward(&look, at, (size_t)(stop - at));
	buf_release(&look.line);
	return rc;
}

/* Whether all rewards are the bytes that reward_write writes. On all cores: formatting takes as
 * long as computing. */
static bool same_lines(const struct seen *s, const struct epoch *e)
{
	size_t n = e->n < s->nhashes ? e->n : s->nhashes;
	bool same = true;

#pragma omp parallel reduction(&& : same) if (n > 1024)
	{
		struct buf line = BUF_INIT;
		struct line_hash hash;

#pragma omp for schedule(static)
		for (size_t i = 0; i < n; i++) {
			if (!same)
				continue;
			buf_reset(&line);
			reward_write(&line, e, i);
			hash = hash_line(line.data, line.len - 1);
			same = memcmp(&hash, &s->hashes[i], sizeof hash) == 0;
		}
		buf_release(&line);
	}
	return same;
}

int seen_compare(void *seen, const struct epoch *e, struct buf *reason)
{
	const struct seen *s = seen;
	int rc = 0;

	if (!same_lines(s, e))
		rc = compare_records(s, e, reason);
	if (rc == 0 && !reason->len && e->n > s->nhashes) {
		char node[ADDRESS_MAX];

		address_format(usage_rows_node(e->usages, s->nhashes), node);
		buf_addf(reason, "node %s has no reward", node);
	}
	if (rc == 0 && !reason->len && s->nhashes > e->n)
		buf_adds(reason, "there are more rewards than usages");
	return rc;
}

/* --- rewards that are the bytes that were computed ------------------------------------------ */

#define REWARD_START "{\"kind\":\"rnp.reward\","

/* A reward's hash, or any other line as it is. */
static int hash_or_line(void *ctx, char *line, size_t len, const char *where,
	struct buf *out)
{
	bool reward = strncmp(line, REWARD_START, strlen(REWARD_START)) == 0;
	struct line_hash hash;

	(void)ctx, (void)where;
	buf_addc(out, reward);
	if (!reward) {
		buf_add(out, line, len);
		return 0;
	}
	hash = hash_line(line, len);
	buf_add(out, &hash, sizeof hash);
	return 0;
}

static int keep_hash_or_epoch(void *seen, const char *data, size_t len)
{
	struct seen *s = seen;

	if (data[0]) {
		seen_keep(s, data + 1, len - 1);
		return 0;
	}
	if (s->epoch)
		return -1;
	s->epoch = json_parse_object(data + 1, len - 1, "epoch");
	return s->epoch ? schema_check(s->epoch, "epoch", "rnp.epoch") : -1;
}

static int compare_same(void *ctx, const struct epoch *e, struct buf *reason)
{
	struct seen *s = ctx;

	(void)reason;
	if (e->n != s->nhashes || !same_lines(s, e))
		return -1;
	s->claims.nodes = e->n;
	s->claims.qualified = e->qualified;
	s->claims.total_base_units = e->total_base_units;
	s->claims.n = e->claimants;
	if (e->claimants)
		sodium_bin2hex(s->root, sizeof s->root, e->root, sizeof e->root);
	return 0;
}

static int read_hashes(struct seen *s)
{
	struct lines in;
	int rc;

	lines_open(&in, s->files, s->nfiles, JSON_RECORD_BYTES_MAX);
	rc = lines_map(&in, hash_or_line, keep_hash_or_epoch, s);
	lines_close(&in);
	return rc;
}

int seen_same(struct seen *s, char **files, int n, const char *usage, const char *policy)
{
	struct again_also also = { compare_same, s };
	struct buf reason = BUF_INIT;
	char *usages = (char *)usage;
	int rc = 0;

	if (!n || !seen_regular(files, n) || !seen_regular(&usages, 1))
		return 0;
	s->files = files;
	s->nfiles = n;
	if (read_hashes(s) < 0 || !s->epoch || !s->nhashes ||
		again_compare(s->epoch, policy, &usages, 1, &also, &reason) < 0) {
		err_clear();
		json_decref(s->epoch);
		s->epoch = NULL;
		s->nhashes = 0;
		goto out;
	}
	rc = 1;
	if (seen_check_epoch(s) < 0 ||
		seen_report(s, "recomputed", reason.len ? reason.data : NULL) < 0)
		rc = -1;
out:
	buf_release(&reason);
	return rc;
}
