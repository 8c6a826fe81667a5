/* reputation.c - rnp-reward reputation: rates how reliable nodes are, from signed verdicts. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-reward/challenge_rule.h"
#include "cmd/rnp-reward/commands.h"
#include "cmd/rnp-reward/reputation_core.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/cli/records.h"
#include "common/json/canon.h"
#include "common/json/json.h"
#include "common/json/schema.h"
#include "common/record/party.h"
#include "common/record/signature.h"
#include "common/record/uptime.h"

static struct {
	struct opt_list trust;
	int64_t at_ms, half_life_ms;
} opts = { { NULL, 0 }, -1, INT64_C(2592000000) };

static const struct opt options[] = {
	{ .name = "at",
		.kind = OPT_TIME,
		.required = true,
		.to = &opts.at_ms,
		.metavar = "T",
		.help = "as of this moment; what is later does not count" },
	{ .name = "trust",
		.kind = OPT_LIST,
		.address = true,
		.to = &opts.trust,
		.metavar = "ADDRESS",
		.help = "verdicts signed by this key count; may be given again" },
	{ .name = "half-life",
		.kind = OPT_DURATION,
		.to = &opts.half_life_ms,
		.metavar = "TIME",
		.help = "a verdict of this age counts half (default 30 days)",
		.min = 1000,
		.max = INT64_C(315360000000) },
	{ .kind = OPT_END },
};

/* A verdict. */
struct event {
	char node[KEY_ADDRESS_MAX];
	int64_t at_ms;
	int64_t asked_ms; /* when the challenge was issued */
	bool passed;
	bool names_challenge; /* passed, and says on which challenge */
	bool on_anothers;     /* it is that of another node, who passed it first */
	unsigned char challenge[CANON_HASH_BYTES];
	unsigned char sha256[CANON_HASH_BYTES];
};

/* A heartbeat. There may be many of them. */
struct beat {
	char node[KEY_ADDRESS_MAX];
	int64_t at_ms;
	int32_t away_ms; /* how long a maintenance lasts by it; 0: the node is in another state */
};

struct events {
	struct event *list;
	size_t n, cap;
	struct beat *beats;
	size_t nbeats, beats_cap;
};

static const char *why_not(const json_t *record)
{
	static struct signature_result signature;
	const char *who;

	signature_verify(record, &signature);
	switch (party_check(record, &signature, opts.trust.items, opts.trust.n, &who)) {
	case PARTY_GOOD:
		return NULL;
	case PARTY_BAD_SIGNATURE:
		return signature.reason;
	default:
		return "nobody entitled has signed it (--trust)";
	}
}

/* Reads the challenge of a verdict that is passed. */
static void read_challenge(const json_t *record, struct event *e)
{
	const char *hex = json_string_value(json_object_get(record, "challenge_sha256"));
	size_t n;

	e->names_challenge = e->passed && hex &&
		sodium_hex2bin(e->challenge, sizeof e->challenge, hex, strlen(hex), NULL,
			&n, NULL) == 0 &&
		n == sizeof e->challenge;
}

static int read_verdict(const struct record *r, struct event *e)
{
	const char *node;
	int64_t elapsed_ns = 0;

	if (json_get_text(r->json, r->where, "node", &node) < 0 ||
		json_get_time(r->json, r->where, "at", &e->at_ms) < 0 ||
		json_get_bool(r->json, r->where, "passed", &e->passed) < 0 ||
		json_opt_i64(r->json, r->where, "elapsed_ns", 0, JSON_SAFE_INTEGER_MAX,
			&elapsed_ns) < 0 ||
		canon_hash_record(e->sha256, r->json) < 0)
		return -1;
	snprintf(e->node, sizeof e->node, "%s", node);
	e->asked_ms = e->at_ms - elapsed_ns / 1000000;
	read_challenge(r->json, e);
	return 0;
}

static int read_beat(const struct record *r, struct beat *b)
{
	const char *node, *state = "";
	int64_t interval_s;

	if (json_get_text(r->json, r->where, "node", &node) < 0 ||
		json_get_time(r->json, r->where, "at", &b->at_ms) < 0 ||
		json_get_text(r->json, r->where, "state", &state) < 0 ||
		json_get_i64(r->json, r->where, "interval_s", 1, 86400, &interval_s) < 0)
		return -1;
	snprintf(b->node, sizeof b->node, "%s", node);
	if (strcmp(state, "maintenance") == 0)
		b->away_ms = (int32_t)(interval_s * 1000);
	return 0;
}

static int take(void *ctx, const struct record *r)
{
	const char *kind = json_string_value(json_object_get(r->json, "kind")), *reason;
	struct events *all = ctx;
	struct event e = { .passed = false };
	struct beat b = { .away_ms = 0 };
	bool verdict;

	if (schema_check(r->json, r->where, NULL) < 0)
		return -1;
	verdict = strcmp(kind, "rnp.verdict") == 0;
	if (!verdict && strcmp(kind, "rnp.heartbeat") != 0)
		return 0;
	if ((verdict ? read_verdict(r, &e) : read_beat(r, &b)) < 0)
		return -1;
	if ((verdict ? e.at_ms : b.at_ms) > opts.at_ms)
		return 0;
	reason = why_not(r->json);
	if (reason) {
		prog_warn("%s: left out: %s", r->where, reason);
		return 0;
	}
	if (verdict) {
		all->list = xgrow(all->list, &all->cap, all->n + 1, sizeof *all->list);
		all->list[all->n++] = e;
	} else {
		all->beats = xgrow(all->beats, &all->beats_cap, all->nbeats + 1,
			sizeof *all->beats);
		all->beats[all->nbeats++] = b;
	}
	return 0;
}

/* Compares by node, then by time; equal verdicts are adjacent. */
static int by_node(const void *a, const void *b)
{
	const struct event *x = a, *y = b;
	int order = strcmp(x->node, y->node);

	if (!order)
		order = (x->at_ms > y->at_ms) - (x->at_ms < y->at_ms);
	return order ? order : memcmp(x->sha256, y->sha256, sizeof x->sha256);
}

/* Of one instant the states that end a maintenance come last. */
static int by_beat(const void *a, const void *b)
{
	const struct beat *x = a, *y = b;
	int order = strcmp(x->node, y->node);

	if (!order)
		order = (x->at_ms > y->at_ms) - (x->at_ms < y->at_ms);
	return order ? order : (x->away_ms < y->away_ms) - (x->away_ms > y->away_ms);
}

/* A time for which a node had announced, early enough, that it would be away. */
struct away {
	int64_t from_ms, to_ms;
};

/* Writes the maintenances of a node, whose heartbeats are in order, to out; returns how many there are. A
 * heartbeat in another state ends what those before it have announced. */
static size_t find_maintenances(const struct beat *list, size_t n, struct away *out)
{
	size_t found = 0;
	int64_t back_ms =
		INT64_MAX; /* the first time from here on at which it is in another state */

	/* from the last one to the first, so that back_ms is known */
	for (size_t i = n; i-- > 0;) {
		/* Whoever is asked what he cannot answer could still announce a maintenance that has
		 * begun, or prolong one that has just ended: so a heartbeat tells nothing of the time by
		 * which it may be dated back. */
		struct away a = { list[i].at_ms + UPTIME_SKEW_MS,
			list[i].at_ms + list[i].away_ms };

		if (!list[i].away_ms)
			back_ms = list[i].at_ms;
		if (a.to_ms > back_ms)
			a.to_ms = back_ms;
		if (a.from_ms < a.to_ms)
			out[found++] = a;
	}
	/* in order, and each reaches as far as any before it */
	for (size_t i = 0; i < found / 2; i++) {
		struct away one = out[i];

		out[i] = out[found - 1 - i];
		out[found - 1 - i] = one;
	}
	for (size_t i = 1; i < found; i++)
		if (out[i].to_ms < out[i - 1].to_ms)
			out[i].to_ms = out[i - 1].to_ms;
	return found;
}

/* Whether a node had announced that it would be away when it was asked. */
static bool in_maintenance(const struct away *list, size_t n, int64_t asked_ms)
{
	size_t low = 0, high = n; /* the first that was announced too late */

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (list[mid].from_ms > asked_ms)
			high = mid;
		else
			low = mid + 1;
	}
	return low && asked_ms < list[low - 1].to_ms;
}

/* Summarises the verdicts of one node. verdicts_sha256 is over the hashes of the counted
 * verdicts, in order: anyone who has the verdicts can check that it covers exactly these. */
static int write_node(const struct event *list, size_t n, const struct beat *beats,
	size_t nbeats)
{
	struct away *away = xcalloc(nbeats + 1, sizeof *away);
	size_t naway = find_maintenances(beats, nbeats, away);
	struct reputation r = { 0 };
	crypto_hash_sha256_state hash;
	unsigned char sum[crypto_hash_sha256_BYTES];
	char hex[2 * crypto_hash_sha256_BYTES + 1];
	int64_t announced = 0, void_verdicts = 0;
	json_t *record;
	int rc;

	crypto_hash_sha256_init(&hash);
	for (size_t i = 0; i < n; i++) {
		if (i &&
			memcmp(list[i].sha256, list[i - 1].sha256, CANON_HASH_BYTES) == 0)
			continue;
		if (list[i].on_anothers) {
			void_verdicts++;
			continue;
		}
		if (in_maintenance(away, naway, list[i].asked_ms)) {
			announced++;
			continue;
		}
		reputation_add(&r, list[i].passed, opts.at_ms - list[i].at_ms,
			opts.half_life_ms);
		crypto_hash_sha256_update(&hash, list[i].sha256, CANON_HASH_BYTES);
	}
	free(away);
	crypto_hash_sha256_final(&hash, sum);
	sodium_bin2hex(hex, sizeof hex, sum, sizeof sum);
	record = json_record("rnp.reputation");
	json_set_text(record, "node", list[0].node);
	json_set_time(record, "at", opts.at_ms);
	json_set_i64(record, "half_life_s", opts.half_life_ms / 1000);
	json_set_i64(record, "trials", r.trials);
	json_set_i64(record, "passed", r.passed);
	json_set_i64(record, "maintenance", announced);
	json_set_i64(record, "void", void_verdicts);
	json_set_i64(record, "reputation_ppm", reputation_lower_ppm(&r));
	json_set_text(record, "verdicts_sha256", hex);
	rc = out_record(record);
	json_decref(record);
	return rc;
}

/* Compares by challenge, then by who passed it first. */
static int by_challenge(const void *a, const void *b)
{
	const struct event *x = *(struct event *const *)a, *y = *(struct event *const *)b;
	int order = memcmp(x->challenge, y->challenge, sizeof x->challenge);

	return order ? order : challenge_order(x->at_ms, x->node, y->at_ms, y->node);
}

/* Marks the verdicts that are void (challenge_rule.h). */
static void mark_void(struct events *all)
{
	struct event **asked = xcalloc(all->n, sizeof *asked), *first = NULL;
	size_t n = 0;

	for (size_t i = 0; i < all->n; i++)
		if (all->list[i].names_challenge)
			asked[n++] = &all->list[i];
	if (n)
		qsort(asked, n, sizeof *asked, by_challenge);
	for (size_t i = 0; i < n; i++) {
		if (!first ||
			memcmp(first->challenge, asked[i]->challenge,
				sizeof first->challenge) != 0)
			first = asked[i];
		asked[i]->on_anothers = strcmp(first->node, asked[i]->node) != 0;
	}
	free(asked);
}

static int write_all(struct events *all)
{
	size_t beat = 0, beats_end;
	int rc = 0;

	if (all->n)
		qsort(all->list, all->n, sizeof *all->list, by_node);
	if (all->nbeats)
		qsort(all->beats, all->nbeats, sizeof *all->beats, by_beat);
	mark_void(all);
	for (size_t i = 0, end; i < all->n && rc == 0; i = end, beat = beats_end) {
		const char *node = all->list[i].node;

		for (end = i + 1; end < all->n && strcmp(all->list[end].node, node) == 0;)
			end++;
		/* there may be heartbeats of nodes without a verdict */
		while (beat < all->nbeats && strcmp(all->beats[beat].node, node) < 0)
			beat++;
		for (beats_end = beat; beats_end < all->nbeats &&
			strcmp(all->beats[beats_end].node, node) == 0;)
			beats_end++;
		rc = write_node(all->list + i, end - i, all->beats + beat,
			beats_end - beat);
	}
	return rc;
}

static int run(int n, char **args)
{
	struct events all = { .n = 0 };
	int rc = records_each(args, n, JSON_RECORD_BYTES_MAX, take, &all);

	if (rc == 0)
		rc = write_all(&all);
	free(all.list);
	free(all.beats);
	opt_list_release(&opts.trust);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_reputation = {
	.name = "reputation",
	.arguments = "[file ...]",
	.args_max = -1,
	.summary = "How far nodes can be relied on, from their verdicts.",
	.details =
		"Reads rnp.verdict records, and rnp.heartbeat records, which announce maintenance and end it;\n"
		"writes one rnp.reputation for each node. Other kinds are passed over.",
	.columns = "node,reputation_ppm,trials,passed,maintenance",
	.opts = options,
	.run = run,
};
