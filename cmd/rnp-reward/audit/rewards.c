/* rewards.c - compares the rewards and the epoch that were read with recomputed ones: see
 * rewards.h. */
#include "cmd/rnp-reward/audit/rewards.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/rnp-reward/epoch/recompute.h"
#include "cmd/rnp-reward/epoch/write.h"
#include "common/base/err.h"
#include "common/base/lines.h"
#include "common/base/mem.h"
#include "common/cli/out.h"
#include "common/cli/records.h"
#include "common/json/json.h"
#include "common/json/schema.h"
#include "common/record/signature.h"

/* --- reports ------------------------------------------------------------------------------ */

int rewards_report(struct rewards *s, const char *what, const char *reason)
{
	json_t *record = json_record("rnp.check");
	int rc;

	json_set_bool(record, "ok", reason == NULL);
	json_set_text(record, "what", what);
	json_set_text(record, "reason", reason);
	s->all_ok = s->all_ok && !reason;
	s->any = true;
	rc = out_record(record);
	json_decref(record);
	return rc;
}

/* --- an epoch in itself -------------------------------------------------------------------- */

static bool differs(const json_t *epoch, const char *key, int64_t found,
	struct buf *reason)
{
	int64_t stated = -1;

	if (!json_object_get(epoch, key))
		return false;
	if (json_get_i64(epoch, "epoch", key, 0, INT64_MAX, &stated) == 0 &&
		stated == found)
		return false;
	err_clear();
	buf_addf(reason, "%s is %lld by the rewards, %lld by the epoch", key,
		(long long)found, (long long)stated);
	return true;
}

/* Checks what no usage tells: the fields of a ledger's row. A signature covers them, or a ledger
 * has them. */
static void check_row_fields(const struct rewards *s, struct buf *reason)
{
	static const char *const fields[] = { "sequence", "previous", "seen_sha256" };
	struct signature_result signature;

	if (json_object_get(s->epoch, "proof")) {
		signature_verify(s->epoch, &signature);
		if (!signature.valid)
			buf_adds(reason, signature.reason);
		return;
	}
	for (size_t i = 0; i < sizeof fields / sizeof *fields && !s->in_ledger; i++)
		if (json_object_get(s->epoch, fields[i])) {
			buf_addf(reason,
				"%s is neither signed nor hashed here: look it up with --store",
				fields[i]);
			return;
		}
}

int rewards_check_epoch(struct rewards *s)
{
	const char *stated = json_string_value(json_object_get(s->epoch, "merkle_root"));
	struct buf reason = BUF_INIT;
	int rc;

	if (!differs(s->epoch, "nodes", (int64_t)s->claims.nodes, &reason) &&
		!differs(s->epoch, "total_base_units", s->claims.total_base_units,
			&reason) &&
		!differs(s->epoch, "claimants", (int64_t)s->claims.n, &reason) &&
		strcmp(stated ? stated : "", s->root) != 0)
		buf_addf(&reason, "merkle_root is %s by the rewards, %s by the epoch",
			s->root[0] ? s->root : "none", stated ? stated : "none");
	if (!reason.len)
		check_row_fields(s, &reason);
	rc = rewards_report(s, "epoch", reason.len ? reason.data : NULL);
	buf_release(&reason);
	return rc;
}

/* --- lines by their hashes ----------------------------------------------------------------- */

/* secret, so that nobody can make another line with the same hash */
static unsigned char key[crypto_shorthash_KEYBYTES];

void rewards_init(void)
{
	randombytes_buf(key, sizeof key);
}

static struct line_hash hash_line(const char *line, size_t len)
{
	struct line_hash h;

	crypto_shorthash(h.bytes, (const unsigned char *)line, len, key);
	return h;
}

void rewards_note(void *rewards, const char *line, size_t len, struct buf *out)
{
	const struct rewards *s = rewards;
	struct line_hash hash = hash_line(line, len);

	buf_add(out, &hash, sizeof hash);
	if (!s->nfiles)
		buf_add(out, line, len);
}

void rewards_keep(void *rewards, const char *note, size_t len)
{
	struct rewards *s = rewards;

	s->hashes = xgrow(s->hashes, &s->hashes_cap, s->nhashes + 1, sizeof *s->hashes);
	memcpy(&s->hashes[s->nhashes++], note, sizeof *s->hashes);
	if (s->nfiles)
		return;
	buf_add(&s->rewards, note + sizeof *s->hashes, len - sizeof *s->hashes);
	buf_addc(&s->rewards, '\n');
}

bool rewards_can_reread(char **files, int n)
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

	/* the bytes are usually the same */
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
	found = recompute_difference(a, b, reason);
	if (!found)
		buf_reset(reason);
	json_decref(a);
	json_decref(b);
	return found;
}

/* A second pass over the lines of rewards, once the bytes of one differ. */
struct second_pass {
	const struct epoch *epoch;
	size_t i;
	struct buf line, *reason;
};

static void compare_reward(struct second_pass *pass, const char *text, size_t len)
{
	char what[64];
	size_t i = pass->i++;

	if (pass->reason->len || i >= pass->epoch->n)
		return;
	buf_reset(&pass->line);
	reward_write(&pass->line, pass->epoch, i);
	snprintf(what, sizeof what, "reward %zu", i + 1);
	record_differs(text, len, pass->line.data, pass->line.len - 1, what,
		pass->reason);
}

static int compare_next(void *ctx, const struct record *r)
{
	if (strcmp(json_string_value(json_object_get(r->json, "kind")), "rnp.reward") ==
		0)
		compare_reward(ctx, r->text, r->len);
	return 0;
}

/* Compares record by record, so that another form of the same record is accepted. */
static int compare_records(const struct rewards *s, const struct epoch *e,
	struct buf *reason)
{
	const char *at = buf_text(&s->rewards), *end = at + s->rewards.len, *stop;
	struct second_pass pass = { .epoch = e, .reason = reason };
	int rc = 0;

	if (s->nfiles)
		rc = records_each(s->files, s->nfiles, JSON_RECORD_BYTES_MAX,
			compare_next, &pass);
	for (; at < end && (stop = memchr(at, '\n', (size_t)(end - at))); at = stop + 1)
		compare_reward(&pass, at, (size_t)(stop - at));
	buf_release(&pass.line);
	return rc;
}

/* Whether all lines are the bytes that reward_write writes. Uses all cores, since formatting
 * takes as long as computing. */
static bool same_lines(const struct rewards *s, const struct epoch *e)
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

int rewards_compare(void *rewards, const struct epoch *e, struct buf *reason)
{
	const struct rewards *s = rewards;
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

/* Appends the hash of a reward, or any other line unchanged; the first byte tells which. */
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

static int keep_hash_or_epoch(void *rewards, const char *data, size_t len)
{
	struct rewards *s = rewards;

	if (data[0]) {
		rewards_keep(s, data + 1, len - 1);
		return 0;
	}
	if (s->epoch)
		return -1;
	s->epoch = json_parse_object(data + 1, len - 1, "epoch");
	return s->epoch ? schema_check(s->epoch, "epoch", "rnp.epoch") : -1;
}

static int compare_same(void *ctx, const struct epoch *e, struct buf *reason)
{
	struct rewards *s = ctx;

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

static int read_hashes(struct rewards *s)
{
	struct lines in;
	int rc;

	lines_open(&in, s->files, s->nfiles, JSON_RECORD_BYTES_MAX);
	rc = lines_map(&in, hash_or_line, keep_hash_or_epoch, s);
	lines_close(&in);
	return rc;
}

int rewards_same(struct rewards *s, char **files, int n, const char *usage,
	const char *policy)
{
	struct recompute_hook hook = { compare_same, s };
	struct buf reason = BUF_INIT;
	char *usages = (char *)usage;
	int rc = 0;

	if (!n || !rewards_can_reread(files, n) || !rewards_can_reread(&usages, 1))
		return 0;
	s->files = files;
	s->nfiles = n;
	if (read_hashes(s) < 0 || !s->epoch || !s->nhashes ||
		recompute_compare(s->epoch, policy, &usages, 1, &hook, &reason) < 0) {
		err_clear();
		json_decref(s->epoch);
		s->epoch = NULL;
		s->nhashes = 0;
		goto out;
	}
	rc = 1;
	if (rewards_check_epoch(s) < 0 ||
		rewards_report(s, "recomputed", reason.len ? reason.data : NULL) < 0)
		rc = -1;
out:
	buf_release(&reason);
	return rc;
}
