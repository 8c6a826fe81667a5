/* evidence.c - decides which signed records count, and reads those of files on all cores. */
#include "cmd/rnp-reward/evidence/evidence.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-reward/evidence/plain.h"
#include "common/base/err.h"
#include "common/base/lines.h"
#include "common/base/mem.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/json/schema.h"
#include "common/record/key.h"
#include "common/record/signature.h"
#include "kernels/crypto/ed25519.h"

static bool trusted(const struct evidence *e, const char *address)
{
	for (int i = 0; i < e->trust.n; i++)
		if (strcmp(e->trust.items[i], address) == 0)
			return true;
	return false;
}

static const char untrusted[] = "nobody who is trusted has signed it (--trust)";

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
	return untrusted;
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

/* What is decided about a record before its signatures are looked at. */
enum admission { ADMITTED, IGNORED, NEEDS_SIGNATURE };

static enum admission admission_of(const struct evidence *e, const json_t *record)
{
	const char *kind = json_string_value(json_object_get(record, "kind"));

	if (strcmp(kind, "rnp.usage") == 0)
		return e->claims ? ADMITTED : IGNORED;
	return about_usage(e, kind) ? NEEDS_SIGNATURE : IGNORED;
}

static bool counts(const struct evidence *e, const json_t *record,
	const struct signature_result *proof, const char *where)
{
	const char *reason = why_not(e, record, proof);

	if (reason && where) {
		const char *kind = json_string_value(json_object_get(record, "kind"));
		/* whose signature it is, so that who knows the key can trust it */
		bool tell = reason == untrusted && proof->nsigners;

#pragma omp critical(warn)
		if (tell)
			prog_warn("%s: left out: nobody who is trusted has signed it "
				  "(%s of %s; --trust)",
				where, kind, proof->signers[0]);
		else
			prog_warn("%s: left out: %s", where, reason);
	}
	return !reason;
}

bool evidence_counts(const struct evidence *e, const json_t *record, const char *where)
{
	enum admission s = admission_of(e, record);
	struct signature_result proof;

	if (s != NEEDS_SIGNATURE)
		return s == ADMITTED;
	signature_verify(record, &proof);
	return counts(e, record, &proof, where);
}

void evidence_count_many(const struct evidence *e, const json_t *const *records, size_t n,
	const char *where, bool *counted)
{
	struct signature_result proofs[EVIDENCE_MANY];
	const json_t *to_verify[EVIDENCE_MANY] = { NULL };
	size_t of[EVIDENCE_MANY], nverify = 0;

	for (size_t i = 0; i < n; i++) {
		enum admission s = admission_of(e, records[i]);

		counted[i] = s == ADMITTED;
		if (s == NEEDS_SIGNATURE) {
			of[nverify] = i;
			to_verify[nverify++] = records[i];
		}
	}
	signature_verify_many(to_verify, nverify, proofs);
	for (size_t k = 0; k < nverify; k++)
		counted[of[k]] = counts(e, to_verify[k], &proofs[k], where);
}

/* --- files ---------------------------------------------------------------------------------- */

struct reading {
	struct evidence evidence;
	struct evidence_key *keys; /* those of trust */
	int nkeys;
	evidence_fn fn;
	evidence_item_fn item;
	evidence_prefetch_fn prefetch; /* or NULL */
	void *ctx;
};

/* The first byte of what is passed on of a line. AS_ITEM: a struct passed without its devices
 * follows, then the spans of an uptime, the facts of a node with their NUL, or the devices of a
 * verdict. AS_TEXT: the line follows, a NUL, and its place. */
enum { AS_ITEM, AS_TEXT };

/* The place of a line is formatted only if the line is refused. */
struct passed_head {
	char as; /* AS_ITEM */
	const char *file;
	long number;
};

struct passed {
	struct passed_head head;
	struct collect_item item;
};

#define PASSED_BYTES \
	(offsetof(struct passed, item) + offsetof(struct collect_item, proven))
#define HASHED_TOGETHER 16 /* records */
_Static_assert(PASSED_BYTES % _Alignof(struct span) == 0, "spans follow it");

static void pass_text(struct lines_job *job)
{
	buf_addc(&job->out, AS_TEXT);
	buf_add(&job->out, job->line, job->len);
	/* the place, for records that collect.h refuses */
	buf_addc(&job->out, '\0');
	buf_adds(&job->out, lines_job_where(job));
}

/* Passes on a record that was read as JSON and counts. A node's is made into an item here,
 * because this runs on all cores, and the record is parsed and hashed already. */
static void pass_record(struct lines_job *job, const json_t *record,
	const struct signature_result *proof)
{
	struct passed passed;
	const char *kind = json_string_value(json_object_get(record, "kind"));

	if (strcmp(kind, "rnp.node") != 0) {
		pass_text(job);
		return;
	}
	memset(&passed, 0, sizeof passed);
	passed.head = (struct passed_head){ AS_ITEM, job->file, job->number };
	if (collect_item_read(&passed.item, COLLECT_NODE, record, lines_job_where(job)) <
		0) {
		lines_job_done(job, -1);
		return;
	}
	memcpy(passed.item.sha256, proof->sha256, sizeof passed.item.sha256);
	passed.item.record = NULL;
	buf_add(&job->out, &passed, PASSED_BYTES);
	collect_item_facts(record, &job->out);
	buf_addc(&job->out, '\0');
}

/* Reads lines as JSON. Verifies their signatures together with `bare`, those of lines that
 * needed no JSON, because eight at once cost little more than one. */
static void check_as_json(const struct evidence *e, struct lines_job **jobs, int n,
	struct ed25519 *bare, int nbare)
{
	struct signature_result proofs[LINES_GROUP];
	const json_t *to_verify[LINES_GROUP] = { NULL };
	json_t *records[LINES_GROUP];
	int of[LINES_GROUP], nverify = 0;

	for (int i = 0; i < n; i++) {
		struct lines_job *j = jobs[i];
		int rc = -1;

		records[i] = json_parse_object(j->line, j->len, lines_job_where(j));
		if (records[i])
			rc = schema_check(records[i], lines_job_where(j), NULL);
		lines_job_done(j, rc);
		if (rc < 0)
			continue;
		switch (admission_of(e, records[i])) {
		case ADMITTED:
			pass_text(j);
			break;
		case NEEDS_SIGNATURE:
			of[nverify] = i;
			to_verify[nverify++] = records[i];
			break;
		case IGNORED:
			break;
		}
	}
	signature_verify_beside(to_verify, (size_t)nverify, proofs, bare, (size_t)nbare);
	for (int k = 0; k < nverify; k++)
		if (counts(e, to_verify[k], &proofs[k], lines_job_where(jobs[of[k]])))
			pass_record(jobs[of[k]], to_verify[k], &proofs[k]);
	for (int i = 0; i < n; i++)
		json_decref(records[i]);
}

/* Reads a line without JSON and writes its item to the job's output. Returns false and leaves
 * the output empty if the line needs JSON. */
static bool read_plain(const struct reading *r, struct lines_job *job,
	struct evidence_plain *plain, struct evidence_scratch *scratch)
{
	const struct passed_head head = { AS_ITEM, job->file, job->number };
	struct buf *out = &job->out;

	/* the reader appends spans and facts: leave space for the item before them */
	buf_reserve(out, PASSED_BYTES);
	out->len = PASSED_BYTES;
	if (!evidence_plain_read(plain, out, scratch, r->keys, r->nkeys, job->line,
		    job->len)) {
		buf_reset(out);
		return false;
	}
	memcpy(out->data, &head, sizeof head);
	memcpy(out->data + offsetof(struct passed, item), &plain->item,
		offsetof(struct collect_item, proven));
	if (plain->item.kind == COLLECT_NODE)
		buf_addc(out, '\0');
	buf_add(out, plain->item.proven,
		(size_t)plain->item.nproven * sizeof *plain->item.proven);
	return true;
}

/* Hashes the records from..to - 1, and sets their hashes in what is passed on of them. */
static void hash_plain(struct lines_job *const *jobs, struct evidence_plain *plain,
	int from, int to, struct evidence_scratch *scratch)
{
	evidence_plain_hash(plain + from, (size_t)(to - from), scratch);
	for (int i = from; i < to; i++)
		memcpy(jobs[i]->out.data + offsetof(struct passed, item) +
				offsetof(struct collect_item, sha256),
			plain[i].item.sha256, CANON_HASH_BYTES);
}

static void check_lines(void *ctx, struct lines_job *jobs, int n)
{
	const struct reading *r = ctx;
	struct evidence_plain plain[LINES_GROUP];
	struct evidence_scratch scratch = EVIDENCE_SCRATCH_INIT;
	struct ed25519 bare[LINES_GROUP];
	struct lines_job *quick[LINES_GROUP] = { NULL }, *slow[LINES_GROUP];
	int nquick = 0, nslow = 0, hashed = 0;

	for (int i = 0; i < n; i++) {
		struct evidence_plain *p = &plain[nquick];

		if (!read_plain(r, &jobs[i], p, &scratch)) {
			slow[nslow++] = &jobs[i];
			continue;
		}
		bare[nquick] = (struct ed25519){ p->signature, p->public_key, p->message,
			p->table, false };
		quick[nquick++] = &jobs[i];
		/* hash while the texts are still in the nearest cache */
		if (nquick - hashed == HASHED_TOGETHER) {
			hash_plain(quick, plain, hashed, nquick, &scratch);
			hashed = nquick;
		}
	}
	hash_plain(quick, plain, hashed, nquick, &scratch);
	evidence_scratch_release(&scratch);
	check_as_json(&r->evidence, slow, nslow, bare, nquick);
	/* the JSON reader says why a signature is not good */
	nslow = 0;
	for (int k = 0; k < nquick; k++)
		if (bare[k].good) {
			lines_job_done(quick[k], 0);
		} else {
			buf_reset(&quick[k]->out);
			slow[nslow++] = quick[k];
		}
	if (nslow)
		check_as_json(&r->evidence, slow, nslow, NULL, 0);
}

/* Passes on a refused item, which has changed nothing, once more with its place. */
static int refuse_item(const struct reading *r, const struct collect_item *item,
	const char *data)
{
	struct passed_head head;
	struct buf where = BUF_INIT;
	int rc;

	err_clear();
	memcpy(&head, data, sizeof head);
	buf_addf(&where, "%s:%ld", head.file, head.number);
	rc = r->item(r->ctx, item, where.data);
	buf_release(&where);
	return rc;
}

static int take_item(const struct reading *r, const char *data)
{
	struct collect_item item;
	const char *behind = data + PASSED_BYTES;

	memcpy(&item, data + offsetof(struct passed, item),
		offsetof(struct collect_item, proven));
	/* as aligned as the start of the buffer is */
	item.spans = (const void *)behind;
	behind += item.nspans * sizeof *item.spans;
	if (item.kind == COLLECT_NODE) {
		item.text = behind;
		behind += strlen(behind) + 1;
	}
	memcpy(item.proven, behind, (size_t)item.nproven * sizeof *item.proven);
	return r->item(r->ctx, &item, "") == 0 ? 0 : refuse_item(r, &item, data);
}

static int take_text(const struct reading *r, const char *text)
{
	size_t n = strlen(text);
	const char *where = text + n + 1;
	json_t *record = json_parse_object(text, n, where);
	int rc = record ? r->fn(r->ctx, record, where) : -1;

	json_decref(record);
	return rc;
}

static int take_line(void *ctx, const char *data, size_t len)
{
	(void)len;
	return data[0] == AS_ITEM ? take_item(ctx, data) : take_text(ctx, data + 1);
}

static void prefetch_line(void *ctx, const char *data, size_t len)
{
	const struct reading *r = ctx;

	(void)len;
	/* as aligned as the start of the buffer is */
	if (r->prefetch && data[0] == AS_ITEM)
		r->prefetch(r->ctx, (const void *)(data + offsetof(struct passed, item)));
}

/* Returns the keys that are trusted; the caller releases and frees them. */
static struct evidence_key *trusted_keys(const struct evidence *e, int *n)
{
	struct evidence_key *keys = xcalloc((size_t)e->trust.n, sizeof *keys);
	unsigned char key[KEY_PUBLIC_BYTES];

	*n = 0;
	for (int i = 0; i < e->trust.n; i++)
		if (address_parse(e->trust.items[i], "--trust", key) == 0)
			evidence_key_init(&keys[(*n)++], key);
	err_clear();
	return keys;
}

int evidence_read(const struct evidence *e, char **files, int n, evidence_fn fn,
	evidence_item_fn item, evidence_prefetch_fn prefetch, void *ctx)
{
	struct reading r = { .evidence = *e,
		.fn = fn,
		.item = item,
		.prefetch = prefetch,
		.ctx = ctx };
	struct lines l;
	int rc;

	r.keys = trusted_keys(e, &r.nkeys);
	lines_open(&l, files, n, JSON_RECORD_BYTES_MAX);
	rc = lines_map_groups(&l, check_lines, take_line, prefetch_line, &r);
	lines_close(&l);
	for (int i = 0; i < r.nkeys; i++)
		evidence_key_release(&r.keys[i]);
	free(r.keys);
	return rc;
}
