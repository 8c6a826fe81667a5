/* verify.c - verifies an answer: a list of checks, measurements, and a verdict. */
#include <stdio.h>
#include <string.h>

#include "common/base/err.h"
#include "common/json/json.h"
#include "common/poc/poc.h"
#include "common/record/signature.h"
#include "common/json/schema.h"

#define PROVES \
	"work of this size was done within the time on some device that the node controls"

struct verification {
	const struct poc_challenge *c;
	const struct poc_conditions *j;
	json_t *checks;
	bool good;
	int64_t elapsed_ns, roundtrip_ns;
	int64_t work_ns;   /* time until the work was done: the divisor of all rates */
	double operations; /* of all matrix products that passed */
	int64_t memory_bytes, hashes;
	bool matmul, memory, chain; /* whether the test was asked of any device */
};

static bool check(struct verification *g, const char *name, const char *device,
	bool passed, const char *reason)
{
	json_t *v = json_object();

	json_set_text(v, "check", name);
	json_set_bool(v, "passed", passed);
	json_set_text(v, "device", device);
	if (!passed)
		json_set_text(v, "reason", reason);
	json_push(g->checks, v);
	g->good = g->good && passed;
	return passed;
}

/* Checks what the answer says about itself: form, signature, node and challenge. */
static bool check_record(struct verification *g, const json_t *answer)
{
	const char *node = json_string_value(json_object_get(answer, "node"));
	unsigned char sha256[POC_HASH_BYTES];
	const struct signature_result *known = g->j->signature;
	struct signature_result r;
	bool form = known || schema_check(answer, "answer", "rnp.answer") == 0;

	if (!check(g, "form", NULL, form, err_get()->text)) {
		err_clear();
		return false;
	}
	if (!check(g, "node", NULL, strcmp(node, g->c->node) == 0,
		    "the answer is another node's") ||
		!check(g, "challenge", NULL,
			poc_get_hash(json_object_get(answer, "challenge_sha256"),
				sha256) &&
				memcmp(sha256, g->c->sha256, sizeof sha256) == 0,
			"the answer is to another challenge"))
		return false;
	if (!known)
		signature_verify(answer, &r);
	else
		r = *known;
	return check(g, "signature", NULL, r.ok, r.reason);
}

/* Checks that the answer's devices are exactly those of the challenge, in the same order. */
static bool check_devices(struct verification *g, const json_t *list)
{
	bool same = json_array_size(list) == (size_t)g->c->ndevices;

	for (int i = 0; same && i < g->c->ndevices; i++)
		same = strcmp(json_string_value(
				      json_object_get(json_array_get(list, (size_t)i),
					      "device")),
			       g->c->devices[i].uuid) == 0;
	return check(g, "devices", NULL, same,
		"the answer is not by the devices that were asked");
}

static void check_deadline(struct verification *g)
{
	char reason[POC_REASON_MAX];

	snprintf(reason, sizeof reason, "late: %.2f s passed, %.2f s were allowed",
		(double)g->elapsed_ns / 1e9, (double)g->c->deadline_ms / 1e3);
	if (g->elapsed_ns < 0)
		snprintf(reason, sizeof reason, "the answer came before the challenge");
	check(g, "deadline", NULL,
		g->elapsed_ns >= 0 && g->elapsed_ns / 1000000 <= g->c->deadline_ms,
		reason);
}

/* Checks that the roots came in time and are those of the answer. */
static void check_roots(struct verification *g, const json_t *answer)
{
	char reason[POC_REASON_MAX];
	unsigned char hash[POC_HASH_BYTES];

	if (!g->c->roots_ms)
		return;
	if (!g->j->has_roots) {
		check(g, "roots", NULL, false, "no roots came before the answer");
		return;
	}
	snprintf(reason, sizeof reason,
		"late: %.2f s passed before the roots came, %.2f s were allowed",
		(double)g->j->roots_ns / 1e9, (double)g->c->roots_ms / 1e3);
	if (!check(g, "roots", NULL,
		    g->j->roots_ns >= 0 && g->j->roots_ns / 1000000 <= g->c->roots_ms,
		    reason))
		return;
	poc_roots_hash(hash, answer);
	check(g, "commitment", NULL, memcmp(hash, g->j->roots, sizeof hash) == 0,
		"the answer has other roots than were sent before it");
}

static void verify_device(struct verification *g, const struct poc_device *d,
	const json_t *part)
{
	char reason[POC_REASON_MAX] = "";

	/* verification ends at the first failed test: the others are not worth the verifier's
	 * time */
	if (d->n &&
		check(g, "matmul", d->uuid,
			poc_verify_matmul(g->c, d, json_object_get(part, "matmul"),
				reason),
			reason))
		g->operations += 2.0 * (double)d->n * (double)d->n * (double)d->n *
			(double)d->rounds;
	if (g->good && d->lanes &&
		check(g, "memory", d->uuid,
			poc_verify_memory(g->c, d, json_object_get(part, "memory"),
				reason),
			reason))
		g->memory_bytes += MEMFILL_SLICES * MEMFILL_BYTES * poc_step_leaves(d);
	if (g->good && d->segments &&
		check(g, "chain", d->uuid,
			poc_verify_chain(g->c, d, json_object_get(part, "chain"), reason),
			reason)) {
		if (d->segments * d->steps > g->hashes)
			g->hashes = d->segments * d->steps;
	}
}

/* Fills in the facts that a passed challenge has proven: its devices, and the memory that each
 * filled. */
static void set_proven(const struct verification *g, json_t *verdict)
{
	json_t *list = json_array();

	for (int i = 0; i < g->c->ndevices; i++) {
		const struct poc_device *d = &g->c->devices[i];
		json_t *one = json_object();

		json_set_text(one, "device", d->uuid);
		if (d->lanes)
			json_set_i64(one, "memory_bytes",
				MEMFILL_SLICES * MEMFILL_BYTES * poc_step_leaves(d));
		json_push(list, one);
	}
	json_set(verdict, "proven", list);
}

/* --- readings ----------------------------------------------------------------------------- */

static void reading(json_t *readings, json_t *unknown, const char *name, double value,
	const char *why_not)
{
	char path[64];

	if (!why_not) {
		json_set_i64(readings, name,
			value > 9e15 ? JSON_SAFE_INTEGER_MAX : (int64_t)value);
		return;
	}
	snprintf(path, sizeof path, "readings.%s", name);
	json_set_text(unknown, path, why_not);
}

static void set_readings(const struct verification *g, json_t *verdict)
{
	json_t *readings = json_object(), *unknown = json_object();
	int64_t ns = g->work_ns - g->roundtrip_ns;
	double seconds = (double)ns / 1e9;
	const char *failed = g->good ? NULL : "the challenge was not passed";
	const char *still = ns > 0 ? NULL : "no time passed on the verifier's clock";
	const char *unasked = "not asked in this challenge";

#define WHY(asked, timed) (failed ? failed : !(asked) ? unasked : (timed) ? still : NULL)
	reading(readings, unknown, "bandwidth", (double)g->j->bandwidth_bps,
		failed                          ? failed :
			g->j->bandwidth_bps > 0 ? NULL :
						  g->j->no_bandwidth);
	reading(readings, unknown, "memory", (double)g->memory_bytes,
		WHY(g->memory, false));
	reading(readings, unknown, "clock", ns > 0 ? (double)g->hashes / seconds : 0,
		WHY(g->chain, true));
	reading(readings, unknown, "teraflops", ns > 0 ? g->operations / seconds : 0,
		WHY(g->matmul, true));
#undef WHY
	json_set(verdict, "readings", readings);
	if (json_object_size(unknown))
		json_set(verdict, "unknown", unknown);
	else
		json_decref(unknown);
}

static void set_score(const struct verification *g, json_t *verdict)
{
	const struct policy *policy = g->j->policy;
	int64_t ppm = -1;

	/* a failed challenge scores 0 */
	if (!g->good)
		ppm = 0;
	else if (policy)
		ppm = policy_score_ppm(policy, json_object_get(verdict, "readings"));
	if (policy)
		json_set_text(verdict, "policy", policy->name);
	if (ppm >= 0)
		json_set_i64(verdict, "score_ppm", ppm);
}

json_t *poc_verify(const struct poc_challenge *c, const json_t *answer,
	const struct poc_conditions *j, bool *passed)
{
	struct verification g = { .c = c, .j = j, .checks = json_array(), .good = true };
	json_t *verdict = json_record("rnp.verdict"), *devices;

	g.elapsed_ns = j->elapsed_ns ? j->elapsed_ns :
				       (j->received_ms - c->issued_ms) * 1000000;
	g.work_ns = j->has_roots && c->roots_ms ? j->roots_ns : g.elapsed_ns;
	g.roundtrip_ns = j->roundtrip_ns < g.work_ns / POC_ROUNDTRIP_PART ?
		j->roundtrip_ns :
		g.work_ns / POC_ROUNDTRIP_PART;
	for (int i = 0; i < c->ndevices; i++) {
		g.matmul = g.matmul || c->devices[i].n;
		g.memory = g.memory || c->devices[i].lanes;
		g.chain = g.chain || c->devices[i].segments;
	}
	devices = json_object_get(answer, "devices");
	if (check_record(&g, answer) && check_devices(&g, devices)) {
		check_deadline(&g);
		check_roots(&g, answer);
		/* a late answer is not worth the verifier's time */
		for (int i = 0; g.good && i < c->ndevices; i++)
			verify_device(&g, &c->devices[i],
				json_array_get(devices, (size_t)i));
	}
	json_set_text(verdict, "node", c->node);
	json_set_text(verdict, "signer", c->signer);
	json_set_time(verdict, "at", j->received_ms);
	poc_set_hash(verdict, "challenge_sha256", c->sha256);
	poc_set_hash(verdict, "nonce", c->nonce);
	if (c->of_record)
		poc_set_hash(verdict, "node_record", c->node_record);
	if (c->of_joint)
		poc_set_hash(verdict, "joint", c->joint);
	json_set_i64(verdict, "elapsed_ns", g.elapsed_ns > 0 ? g.elapsed_ns : 0);
	if (j->has_roots && c->roots_ms)
		json_set_i64(verdict, "roots_ns", j->roots_ns > 0 ? j->roots_ns : 0);
	if (g.roundtrip_ns > 0)
		json_set_i64(verdict, "roundtrip_ns", g.roundtrip_ns);
	json_set_bool(verdict, "passed", g.good);
	json_set(verdict, "checks", g.checks);
	if (g.good) {
		json_set_text(verdict, "proves", PROVES);
		set_proven(&g, verdict);
	}
	set_readings(&g, verdict);
	set_score(&g, verdict);
	*passed = g.good;
	return verdict;
}

json_t *poc_verify_nothing(const struct poc_challenge *c, const struct poc_conditions *j,
	const char *reason)
{
	json_t *nothing = json_object(), *check = json_object(), *checks = json_array();
	bool passed;
	json_t *verdict = poc_verify(c, nothing, j, &passed);

	json_set_text(check, "check", "answer");
	json_set_bool(check, "passed", false);
	json_set_text(check, "reason", reason);
	json_push(checks, check);
	json_set(verdict, "checks", checks);
	json_decref(nothing);
	return verdict;
}
