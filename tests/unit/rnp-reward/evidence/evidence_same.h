/* evidence_same.h - compares what cmd/rnp-reward/evidence/plain.c reads from a line with what JSON
 * and schema say of it, for the unit test and the fuzz target. */
#ifndef RNP_TESTS_UNIT_RNP_REWARD_EVIDENCE_EVIDENCE_SAME_H
#define RNP_TESTS_UNIT_RNP_REWARD_EVIDENCE_EVIDENCE_SAME_H

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-reward/evidence/evidence.h"
#include "cmd/rnp-reward/evidence/plain.h"
#include "common/base/err.h"
#include "common/json/canon.h"
#include "common/json/json.h"
#include "common/json/schema.h"

static inline const char *same_verdict(const struct collect_item *a,
	const struct collect_item *b)
{
	for (int i = 0; i < COLLECT_READINGS; i++) {
		const json_t *v = json_object_get(b->readings, collect_readings[i]);

		if (a->reading[i] != (v ? json_integer_value(v) : -1) ||
			(v && !json_is_integer(v)))
			return "another reading";
	}
	if (a->passed != b->passed || a->score_ppm != b->score_ppm ||
		a->names_record != b->names_record ||
		a->names_challenge != b->names_challenge ||
		memcmp(&a->challenge, &b->challenge, sizeof a->challenge) != 0 ||
		memcmp(a->node_record, b->node_record, sizeof a->node_record) != 0)
		return "another verdict";
	return NULL;
}

static inline bool same_devices(const struct collect_item *a,
	const struct collect_item *b)
{
	return a->nproven == b->nproven &&
		memcmp(a->proven, b->proven, (size_t)a->nproven * sizeof *a->proven) == 0;
}

/* Whether what was appended of a node is what JSON gives. */
static inline bool same_facts(const json_t *record, const struct buf *more)
{
	struct buf facts = BUF_INIT;
	bool same;

	collect_item_facts(record, &facts);
	same = facts.len == more->len && memcmp(facts.data, more->data, more->len) == 0;
	buf_release(&facts);
	return same;
}

/* a is that of the text, b that of JSON. */
static inline const char *same_item(const struct collect_item *a,
	const struct collect_item *b, const struct buf *more)
{
	size_t bytes = b->nspans * sizeof *b->spans;

	if (a->kind != b->kind || strcmp(a->node, b->node) != 0)
		return "another kind or node";
	if (a->from_ms != b->from_ms || a->to_ms != b->to_ms || a->at_ms != b->at_ms)
		return "another time";
	if (a->kind == COLLECT_NODE)
		return same_facts(b->record, more) ? NULL : "other facts";
	if (a->nspans != b->nspans || more->len != bytes ||
		(bytes && memcmp(more->data, b->spans, bytes) != 0))
		return "other spans";
	if (a->gpu_s != b->gpu_s || a->earned_uusd != b->earned_uusd ||
		a->credits != b->credits)
		return "another receipt";
	if (!same_devices(a, b))
		return "other devices";
	return a->kind == COLLECT_VERDICT ? same_verdict(a, b) : NULL;
}

/* Whether the two hashes that are signed are those of the record. */
static inline bool same_hashes(const struct evidence_plain *p, const json_t *record)
{
	unsigned char hashes[2 * CANON_HASH_BYTES];
	struct buf proof = BUF_INIT;
	bool same = canon_write_without(&proof, json_object_get(record, "proof"),
			    "proofValue") == 0 &&
		canon_hash_record(hashes + CANON_HASH_BYTES, record) == 0;

	if (same)
		crypto_hash_sha256(hashes, (const unsigned char *)proof.data, proof.len);
	buf_release(&proof);
	return same && memcmp(hashes, p->message, sizeof hashes) == 0 &&
		memcmp(hashes + CANON_HASH_BYTES, p->item.sha256, CANON_HASH_BYTES) == 0;
}

static inline const char *same_record(const struct evidence_plain *p,
	const struct buf *more, const struct evidence_key *key, const json_t *record)
{
	const char *trusted[] = { key->address }, *differs;
	struct evidence e = { .trust = { trusted, 1 } };
	struct collect_item item;
	bool good;

	if (!record || schema_check(record, "line", NULL) < 0)
		return "it fits no schema";
	if (collect_item_read(&item, p->item.kind, record, "line") < 0)
		return "it cannot be read";
	differs = same_item(&p->item, &item, more);
	collect_item_release(&item);
	if (differs)
		return differs;
	if (!same_hashes(p, record))
		return "something else is signed";
	good = crypto_sign_verify_detached(p->signature, p->message, sizeof p->message,
		       p->public_key) == 0;
	return evidence_counts(&e, record, NULL) == good ? NULL : "another signature";
}

/* Reads a line both ways; *plain: the plain reader took it. Returns what it should not have taken
 * or took wrongly, or NULL. */
static inline const char *evidence_same(const struct evidence_key *key, const char *line,
	size_t len, bool *plain)
{
	struct evidence_scratch scratch = EVIDENCE_SCRATCH_INIT;
	struct buf more = BUF_INIT;
	struct evidence_plain p;
	const char *differs = NULL;
	json_t *record;

	err_clear();
	*plain = evidence_plain_read(&p, &more, &scratch, key, 1, line, len);
	if (*plain)
		evidence_plain_hash(&p, 1, &scratch);
	if (err_get()->code)
		differs = "an error is left behind";
	if (*plain && !differs) {
		record = json_parse_object(line, len, "line");
		differs = same_record(&p, &more, key, record);
		json_decref(record);
	}
	evidence_scratch_release(&scratch);
	buf_release(&more);
	if (!differs)
		err_clear();
	return differs;
}

#endif
