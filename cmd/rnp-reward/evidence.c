/* evidence.c - decides which signed records count, and reads those of files on all cores. */
#include "cmd/rnp-reward/evidence.h"

#include <string.h>

#include "common/base/err.h"
#include "common/base/lines.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/json/schema.h"
#include "common/record/key.h"
#include "common/record/signature.h"

int evidence_check(const struct evidence *e)
{
	unsigned char key[KEY_PUBLIC_BYTES];

	for (int i = 0; i < e->trust.n; i++)
		if (address_parse(e->trust.items[i], "--trust", key) < 0)
			return err_set(EX_USAGE, "--trust: '%.60s' is not an address",
				e->trust.items[i]);
	return 0;
}

static bool trusted(const struct evidence *e, const char *address)
{
	for (int i = 0; i < e->trust.n; i++)
		if (strcmp(e->trust.items[i], address) == 0)
			return true;
	return false;
}

/* Returns why a record does not count, or NULL. Nodes may speak for themselves; only trusted
 * signers may speak about others. */
static const char *why_not(const struct evidence *e, const json_t *record,
	const struct signature_result *proof)
{
	const char *kind = json_string_value(json_object_get(record, "kind"));

	if (!proof->valid)
		return proof->reason;
	if (strcmp(kind, "rnp.node") == 0 || strcmp(kind, "rnp.heartbeat") == 0)
		return !json_object_get(record, "node") ? "names no node" :
			proof->ok                       ? NULL :
							  proof->reason;
	/* the author that it names, if any, must be among the signers */
	if (json_object_get(record, "signer") && !proof->ok)
		return proof->reason;
	for (int i = 0; i < proof->nsigners; i++)
		if (trusted(e, proof->signers[i]))
			return NULL;
	return "nobody who is trusted has signed it (--trust)";
}

static bool about_usage(const struct evidence *e, const char *kind)
{
	static const char *const kinds[] = { "rnp.node", "rnp.heartbeat", "rnp.verdict",
		"rnp.receipt", "rnp.uptime" };

	if (!e->heartbeats && strcmp(kind, "rnp.heartbeat") == 0)
		return false;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(kinds[i], kind) == 0)
			return true;
	return false;
}

/* How a record without its signatures stands. */
enum standing { STANDS, FALLS, MUST_BE_SIGNED };

static enum standing stands(const struct evidence *e, const json_t *record)
{
	const char *kind = json_string_value(json_object_get(record, "kind"));

	if (strcmp(kind, "rnp.usage") == 0)
		return e->claims ? STANDS : FALLS;
	return about_usage(e, kind) ? MUST_BE_SIGNED : FALLS;
}

static bool counts(const struct evidence *e, const json_t *record,
	const struct signature_result *proof, const char *where)
{
	const char *reason = why_not(e, record, proof);

	if (reason && where) {
#pragma omp critical(warn)
		prog_warn("%s: left out: %s", where, reason);
	}
	return !reason;
}

bool evidence_counts(const struct evidence *e, const json_t *record, const char *where)
{
	enum standing s = stands(e, record);
	struct signature_result proof;

	if (s != MUST_BE_SIGNED)
		return s == STANDS;
	signature_verify(record, &proof);
	return counts(e, record, &proof, where);
}

static void pass_on(struct lines_job *job)
{
	buf_add(&job->out, job->line, job->len);
	/* the file and line are passed on for records that gathering itself refuses */
	buf_addc(&job->out, '\0');
	buf_adds(&job->out, job->where);
}

/* Signatures are verified together: eight cost little more than one. */
static void check_lines(void *ctx, struct lines_job *jobs, int n)
{
	const struct evidence *e = ctx;
	struct signature_result proofs[LINES_GROUP];
	const json_t *to_verify[LINES_GROUP] = { NULL };
	json_t *records[LINES_GROUP];
	int of[LINES_GROUP], nverify = 0;

	for (int i = 0; i < n; i++) {
		struct lines_job *j = &jobs[i];
		int rc = -1;

		records[i] = json_parse_object(j->line, j->len, j->where);
		if (records[i])
			rc = schema_check(records[i], j->where, NULL);
		lines_job_done(j, rc);
		if (rc < 0)
			continue;
		switch (stands(e, records[i])) {
		case STANDS:
			pass_on(j);
			break;
		case MUST_BE_SIGNED:
			of[nverify] = i;
			to_verify[nverify++] = records[i];
			break;
		case FALLS:
			break;
		}
	}
	signature_verify_many(to_verify, (size_t)nverify, proofs);
	for (int k = 0; k < nverify; k++)
		if (counts(e, to_verify[k], &proofs[k], jobs[of[k]].where))
			pass_on(&jobs[of[k]]);
	for (int i = 0; i < n; i++)
		json_decref(records[i]);
}

struct reading {
	struct evidence evidence; /* first: check_lines gets it */
	evidence_fn fn;
	void *ctx;
};

static int take_line(void *ctx, const char *data, size_t len)
{
	const struct reading *r = ctx;
	size_t n = strlen(data);
	json_t *record;
	int rc;

	(void)len;
	record = json_parse_object(data, n, data + n + 1);
	rc = record ? r->fn(r->ctx, record, data + n + 1) : -1;
	json_decref(record);
	return rc;
}

int evidence_read(const struct evidence *e, char **files, int n, evidence_fn fn,
	void *ctx)
{
	struct reading r = { *e, fn, ctx };
	struct lines l;
	int rc;

	lines_open(&l, files, n, JSON_RECORD_BYTES_MAX);
	rc = lines_map_groups(&l, check_lines, take_line, &r);
	lines_close(&l);
	return rc;
}
