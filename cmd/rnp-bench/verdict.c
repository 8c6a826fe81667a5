/* verdict.c - rnp-bench verdict: verifies the answer to a challenge, and signs the verdict. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "cmd/rnp-bench/commands.h"
#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/json/json.h"
#include "common/record/key.h"
#include "common/base/lines.h"
#include "common/cli/out.h"
#include "common/poc/poc.h"
#include "common/record/policy.h"
#include "common/cli/prog.h"
#include "common/record/signature.h"
#include "common/json/schema.h"

static const char *challenge_path, *bandwidth_path, *key_path, *policy_name = "rnp-004";

static const struct opt opts[] = {
	OPT(TEXT, "challenge", &challenge_path, "F", "the challenge that was answered",
		.required = true),
	OPT(TEXT, "bandwidth", &bandwidth_path, "F",
		"what your rnp-bench serve wrote about exchanges"),
	OPT(TEXT, "policy", &policy_name, "P",
		"whose reference node scores 1 (default rnp-004)", .words = POLICY_NAMES),
	OPT_KEY(&key_path),
	{ 0 },
};

static json_t *read_object(struct buf *text, const char *path, size_t max_bytes)
{
	if (io_read(text, path, max_bytes) < 0)
		return NULL;
	return json_parse_object(buf_text(text), text->len,
		strcmp(path, "-") == 0 ? "standard input" : path);
}

static int read_challenge(struct poc_challenge *c, const struct key *k)
{
	struct buf text = BUF_INIT;
	json_t *record = read_object(&text, challenge_path, POC_CHALLENGE_BYTES_MAX);
	int rc = record ? poc_challenge_read(c, record, challenge_path) : -1;

	/* issued_at is trusted because it is covered by our own signature */
	if (rc == 0 && strcmp(c->signer, k->address) != 0)
		rc = err_set(EX_DATAERR,
			"%s: the challenge is by %s, not by this key's %s",
			challenge_path, c->signer, k->address);
	json_decref(record);
	buf_release(&text);
	return rc;
}

/* Whether it is a record of our own rnp-bench serve about this challenge. Sets the measurement. */
static int take_reading(const json_t *record, const char *where, const struct key *k,
	const char *id, int64_t *bytes_per_s)
{
	const json_t *params = json_object_get(record, "params");
	const char *of = json_string_value(json_object_get(params, "challenge_sha256"));
	struct signature_result r;

	if (schema_check(record, where, "rnp.bench") < 0)
		return -1;
	if (!of || strcmp(of, id) != 0)
		return 0;
	signature_verify(record, &r);
	if (!r.valid || !signature_is_by(&r, k->address))
		return err_set(EX_DATAERR, "%s: not signed by this key's %s", where,
			k->address);
	return json_get_i64(record, where, "median", 1, JSON_SAFE_INTEGER_MAX,
		bytes_per_s);
}

/* Of several records about one challenge the last counts. */
static int read_bandwidth(const struct poc_challenge *c, const struct key *k,
	struct poc_conditions *j)
{
	char id[2 * POC_HASH_BYTES + 1];
	char *args[1] = { (char *)bandwidth_path };
	struct lines l;
	size_t len;
	char *line;
	int rc = 0, more = 1;

	if (!bandwidth_path)
		return 0;
	sodium_bin2hex(id, sizeof id, c->sha256, sizeof c->sha256);
	j->no_bandwidth = "the node exchanged no bytes with the verifier";
	lines_open(&l, args, 1, JSON_RECORD_BYTES_MAX);
	while (rc == 0 && (more = lines_next(&l, &line, &len)) > 0) {
		json_t *record = json_parse_object(line, len, lines_where(&l));

		rc = record ?
			take_reading(record, lines_where(&l), k, id, &j->bandwidth_bps) :
			-1;
		json_decref(record);
	}
	lines_close(&l);
	return rc < 0 || more < 0 ? -1 : 0;
}

/* Returns the verdict without signature, which the caller owns, or NULL. */
static json_t *verify(const struct poc_challenge *c, const json_t *answer,
	const struct poc_conditions *j, bool *passed)
{
	unsigned char sha256[POC_HASH_BYTES];
	char why[POC_UNANSWERED_MAX + 32];
	const char *reason;

	if (json_check_kind(answer, "answer", "rnp.answer") == 0)
		return poc_verify(c, answer, j, passed);
	err_clear();
	reason = poc_unanswered_read(answer, "answer", sha256);
	if (!reason)
		return NULL;
	if (memcmp(sha256, c->sha256, sizeof sha256) != 0) {
		err_set(EX_DATAERR, "answer: it is about another challenge");
		return NULL;
	}
	snprintf(why, sizeof why, "the node says: %s", reason);
	return poc_verify_nothing(c, j, why);
}

/* Returns 1 passed, 0 failed, -1 error. */
static int verify_answer(const json_t *answer, int64_t received_ms)
{
	struct poc_conditions j = { .received_ms = received_ms,
		.no_bandwidth = "there is no network between the programs of a pipe" };
	struct policy policy = POLICY_INIT;
	struct key k = KEY_INIT;
	struct poc_challenge c;
	json_t *verdict = NULL;
	bool passed = false;
	int rc = -1;

	if (key_load(&k, key_path, NULL) < 0 || policy_load(&policy, policy_name) < 0 ||
		read_challenge(&c, &k) < 0 || read_bandwidth(&c, &k, &j) < 0)
		goto out;
	j.policy = &policy;
	verdict = verify(&c, answer, &j, &passed);
	if (verdict && signature_add(verdict, &k, received_ms / 1000 * 1000) == 0)
		rc = out_record(verdict);
out:
	json_decref(verdict);
	policy_release(&policy);
	key_release(&k);
	return rc < 0 ? -1 : passed;
}

static int run(int nargs, char **args)
{
	struct buf text = BUF_INIT;
	/* the clock stops when the answer has arrived; in a pipe the challenge is complete by
	 * then */
	int rc = io_read(&text, nargs ? args[0] : "-", POC_ANSWER_BYTES_MAX);
	int64_t received_ms = clock_now_ms();
	json_t *answer = NULL;

	if (rc == 0 && !text.len)
		rc = err_set(EX_DATAERR, "there is no answer");
	if (rc == 0) {
		answer = poc_answer_parse(buf_text(&text), text.len, "answer");
		rc = answer ? 0 : -1;
	}
	if (rc == 0 && json_check_kind(answer, "answer", "rnp.unanswered") < 0) {
		err_clear();
		rc = json_check_kind(answer, "answer", "rnp.answer");
	}
	buf_release(&text);
	if (rc == 0)
		rc = verify_answer(answer, received_ms);
	json_decref(answer);
	if (rc < 0)
		return err_report();
	return rc ? EX_OK : EXIT_NO;
}

const struct command command_verdict = {
	.name = "verdict",
	.arguments = "[file]",
	.args_max = 1,
	.summary = "Verify the answer to a challenge.",
	.details =
		"Reads one rnp.answer, writes a signed rnp.verdict with every check, the readings and the\n"
		"score. Exit status 1 when the answer did not pass.",
	.columns = "node,passed,score_ppm,elapsed_ns",
	.card = true,
	.opts = opts,
	.run = run,
};
