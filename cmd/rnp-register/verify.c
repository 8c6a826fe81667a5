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

static int verify_line(void *ctx, char *line, size_t len, const char *where,
	struct buf *out)
{
	json_t *record = json_parse_object(line, len, where), *check;
	atomic_bool *any_bad = ctx;
	struct signature_result r;

	if (!record)
		return -1;
	signature_verify(record, &r);
	if (!r.ok)
		atomic_store(any_bad, true);
	check = check_of(record, &r);
	json_write(out, check);
	buf_addc(out, '\n');
	json_decref(check);
	json_decref(record);
	return 0;
}

static int run(int nargs, char **args)
{
	atomic_bool any_bad = false;
	struct lines l;
	int rc;

	lines_open(&l, args, nargs, JSON_RECORD_BYTES_MAX);
	rc = lines_map(&l, verify_line, out_lines, &any_bad);
	lines_close(&l);
	if (rc < 0)
		return err_report();
	return atomic_load(&any_bad) ? EXIT_NO : EX_OK;
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
	.run = run,
};
