/* verify.c - rnp-register verify: checks the signatures of records, in order, on all cores. */
#include <stdatomic.h>
#include <string.h>

#include "cmd/rnp-register/commands.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/base/lines.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/record/signature.h"

/* The address that the result is about: the required signer if he signed, else the first
 * signer. */
static const char *signer_of(const json_t *record, const struct signature_result *r)
{
	const char *node = json_string_value(json_object_get(record, "node"));

	if (node && signature_is_by(r, node))
		return node;
	return r->nsigners ? r->signers[0] : NULL;
}

static json_t *check_of(const json_t *record, const struct signature_result *r)
{
	json_t *check = json_record("rnp.check"), *signers;

	json_set_bool(check, "ok", r->ok);
	json_set_text(check, "signer", signer_of(record, r));
	if (r->nsigners > 1) {
		signers = json_array();
		for (int i = 0; i < r->nsigners; i++)
			json_push_text(signers, r->signers[i]);
		json_set(check, "signers", signers);
	}
	if (!r->ok)
		json_set_text(check, "reason", r->reason);
	return check;
}

static void write_check(struct lines_job *job, const json_t *record,
	const struct signature_result *r)
{
	json_t *check = check_of(record, r);

	json_write(&job->out, check);
	buf_addc(&job->out, '\n');
	json_decref(check);
}

struct verified {
	atomic_bool any, any_bad;
};

/* Signatures are verified together: eight cost little more than one. */
static void verify_lines(void *ctx, struct lines_job *jobs, int n)
{
	struct verified *v = ctx;
	struct signature_result r[LINES_GROUP];
	json_t *records[LINES_GROUP] = { NULL };
	int of[LINES_GROUP], nrecords = 0;

	for (int i = 0; i < n; i++) {
		struct lines_job *j = &jobs[i];
		json_t *record = json_parse_object(j->line, j->len, lines_job_where(j));

		lines_job_done(j, record ? 0 : -1);
		if (!record)
			continue;
		of[nrecords] = i;
		records[nrecords++] = record;
	}
	signature_verify_many((const json_t *const *)records, (size_t)nrecords, r);
	for (int i = 0; i < nrecords; i++) {
		if (!r[i].ok)
			atomic_store(&v->any_bad, true);
		atomic_store(&v->any, true);
		write_check(&jobs[of[i]], records[i], &r[i]);
		json_decref(records[i]);
	}
}

static int run(int nargs, char **args)
{
	struct verified v = { false, false };
	struct lines l;
	int rc;

	lines_open(&l, args, nargs, JSON_RECORD_BYTES_MAX);
	rc = lines_map_groups(&l, verify_lines, out_lines, NULL, &v);
	lines_close(&l);
	/* what made no record, such as a command before in the pipe, has not shown anything */
	if (rc == 0 && !atomic_load(&v.any))
		rc = err_set(EX_DATAERR, "there is nothing to verify");
	if (rc < 0)
		return err_report();
	return atomic_load(&v.any_bad) ? EXIT_NO : EX_OK;
}

const struct command command_verify = {
	.name = "verify",
	.arguments = "[file ...]",
	.args_max = -1,
	.summary = "Check the proofs of JSON records.",
	.details =
		"Reads JSON objects, one a line; writes one rnp.check record each, in the same order.\n"
		"Exit status 1 when any of them is bad.",
	.columns = "ok,signer,reason",
	.group = "node",
	.run = run,
};
