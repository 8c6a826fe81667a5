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

bool evidence_counts(const struct evidence *e, const json_t *record, const char *where)
{
	const char *kind = json_string_value(json_object_get(record, "kind"));
	struct signature_result proof;
	const char *reason;

	if (strcmp(kind, "rnp.usage") == 0)
		return e->claims;
	if (!about_usage(e, kind))
		return false;
	signature_verify(record, &proof);
	reason = why_not(e, record, &proof);
	if (reason && where) {
#pragma omp critical(warn)
		prog_warn("%s: left out: %s", where, reason);
	}
	return !reason;
}

static int check_line(void *ctx, char *line, size_t len, const char *where,
	struct buf *out)
{
	json_t *record = json_parse_object(line, len, where);
	int rc = record ? schema_check(record, where, NULL) : -1;

	if (rc == 0 && evidence_counts(ctx, record, where)) {
		buf_add(out, line, len);
		/* the file and line are passed on for records that gathering itself refuses */
		buf_addc(out, '\0');
		buf_adds(out, where);
	}
	json_decref(record);
	return rc;
}

struct reading {
	struct evidence evidence; /* first: check_line gets it */
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
	rc = lines_map(&l, check_line, take_line, &r);
	lines_close(&l);
	return rc;
}
