/* reputation.c - rnp-reward reputation: rates how reliable nodes are, from signed verdicts. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-reward/evidence/challenge_rule.h"
#include "cmd/rnp-reward/commands.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/sha256.h"
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
	OPT(TIME, "at", &opts.at_ms, "T",
		"as of this moment; what is later does not count", .required = true),
	OPT(LIST, "trust", &opts.trust, "ADDRESS",
		"verdicts signed by this key count; may be given again", .address = true),
	OPT_IN(DURATION, "half-life", &opts.half_life_ms, "TIME", 1000,
		INT64_C(315360000000),
		"a verdict of this age counts half (default 30 days)"),
	{ .kind = OPT_END },
};

/* --- the rating: pure, integers only -------------------------------------------------------- */

/* A trial has the weight 2^(-age / half-life). With s the weights of the passed ones and n of
 * all, the reputation is the lower bound of Wilson's interval of s / n at z = 1.96 (E. B.
 * Wilson, Probable Inference, the Law of Succession, and Statistical Inference, 1927): few
 * trials give little reputation, whatever their result. Integers, so that every machine gets the
 * same result: it may decide about pay. */
struct reputation {
	int64_t trials, passed;         /* the trials that count */
	uint64_t passed_weight, weight; /* in units of 2^-32 */
};

typedef unsigned __int128 u128;

#define ONE_63 (UINT64_C(1) << 63)

/* floor(sqrt(v)), bit by bit. */
static uint64_t root(u128 v)
{
	u128 r = 0;

	for (int bit = 63; bit >= 0; bit--) {
		u128 t = r | (u128)1 << bit;

		if (t * t <= v)
			r = t;
	}
	return (uint64_t)r;
}

/* 2^(-age / half_life) in units of 2^-32, rounded down; age >= 0, half_life > 0. */
static uint64_t reputation_weight(int64_t age_ms, int64_t half_life_ms)
{
	int64_t halvings = age_ms / half_life_ms;
	uint64_t fraction = (uint64_t)(((u128)(age_ms % half_life_ms) << 32) /
		(u128)half_life_ms);
	uint64_t w = ONE_63, step = ONE_63 / 2; /* 2^-1 in units of 2^-63 */

	if (halvings >= 32)
		return 0;
	/* 2^-0.f = product of 2^(-2^-k) over the bits of f, each the root of the one before */
	for (int bit = 31; bit >= 0; bit--) {
		step = root((u128)step << 63);
		if (fraction >> bit & 1)
			w = (uint64_t)((u128)w * step >> 63);
	}
	return w >> 31 >> halvings;
}

/* Adds a trial of that age. */
static void reputation_add(struct reputation *r, bool passed, int64_t age_ms,
	int64_t half_life_ms)
{
	uint64_t w = reputation_weight(age_ms, half_life_ms);

	r->trials++;
	r->passed += passed;
	r->weight += w;
	r->passed_weight += passed ? w : 0;
}

/* Returns the lower bound in millionths, rounded down; 0 without trials. */
static int64_t reputation_lower_ppm(const struct reputation *r)
{
	const u128 z = ((u128)196 << 32) / 100, z2 = ((u128)38416 << 32) / 10000;
	u128 s = r->passed_weight, n = r->weight, spread, top;

	if (!n)
		return 0;
	/* (s + z^2/2 - z sqrt(s (n - s) / n + z^2/4)) / (n + z^2) */
	spread = root((s * (n - s) / n + z2 / 4) << 32);
	top = s + z2 / 2;
	spread = z * spread >> 32;
	return top > spread ? (int64_t)((top - spread) * 1000000 / (n + z2)) : 0;
}

/* --- records -------------------------------------------------------------------------------- */

/* A verdict. */
struct event {
	char node[KEY_ADDRESS_MAX];
	int64_t at_ms;
	int64_t asked_ms; /* when the challenge was issued */
	bool passed;
	bool names_challenge; /* it is passed, and names its challenge */
	bool on_anothers;     /* another node has passed the same challenge first */
	unsigned char challenge[CANON_HASH_BYTES];
	unsigned char sha256[CANON_HASH_BYTES];
};

/* A heartbeat. There may be many of them. */
struct beat {
	char node[KEY_ADDRESS_MAX];
	int64_t at_ms;
	int32_t away_ms; /* announced length of a maintenance; 0: another state */
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

/* Reads the challenge of a passed verdict. */
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

static int add_record(void *ctx, const struct record *r)
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

/* Compares by node, then by time; at one instant, a state that ends a maintenance comes last. */
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

/* Writes the maintenances of a node, whose heartbeats are in order, to out; returns how many
 * there are. A heartbeat in another state ends what those before it have announced. */
static size_t find_maintenances(const struct beat *list, size_t n, struct away *out)
{
	size_t found = 0;
	/* the first time after this at which the node is in another state */
	int64_t back_ms = INT64_MAX;

	/* from the last one to the first, so that back_ms is known */
	for (size_t i = n; i-- > 0;) {
		/* A node that cannot answer a challenge could announce a maintenance afterwards, or
		 * prolong one, with a heartbeat that is dated back. So an announcement counts only
		 * from UPTIME_SKEW_MS after its heartbeat on. */
		struct away a = { list[i].at_ms + UPTIME_SKEW_MS,
			list[i].at_ms + list[i].away_ms };

		if (!list[i].away_ms)
			back_ms = list[i].at_ms;
		if (a.to_ms > back_ms)
			a.to_ms = back_ms;
		if (a.from_ms < a.to_ms)
			out[found++] = a;
	}
	/* into the order of time, where each lasts at least as long as those before it */
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
	struct sha256_state hash;
	unsigned char sum[SHA256_BYTES];
	char hex[2 * SHA256_BYTES + 1];
	int64_t announced = 0, void_verdicts = 0;
	json_t *record;
	int rc;

	sha256_init(&hash);
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
		sha256_update(&hash, list[i].sha256, CANON_HASH_BYTES);
	}
	free(away);
	sha256_final(&hash, sum);
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

/* Compares by challenge, then by the time at which it was passed. */
static int by_challenge(const void *a, const void *b)
{
	const struct event *x = *(struct event *const *)a, *y = *(struct event *const *)b;
	int order = memcmp(x->challenge, y->challenge, sizeof x->challenge);

	return order ? order : challenge_order(x->at_ms, x->node, y->at_ms, y->node);
}

/* Marks the verdicts that are void (evidence/challenge_rule.h). */
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
	int rc = records_each(args, n, JSON_RECORD_BYTES_MAX, add_record, &all);

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
