/* signature.c - data Integrity proofs: what is hashed, how a proof set is verified, how one is
 * added. */
#include "common/record/signature.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/base58.h"
#include "common/json/canon.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/base/sha256.h"
#include "common/base/mem.h"
#include "common/record/party.h"
#include "common/base/utf8.h"
#include "kernels/crypto/ed25519.h"

#define HASH_BYTES     SHA256_BYTES
#define INTEGER_EXACT  9007199254740992.0                    /* 2^53 */
#define SIGNATURE_TEXT (KEY_SIGNATURE_BYTES * 138 / 100 + 4) /* 'z', base58, NUL */

static const char purpose[] = "assertionMethod", suite[] = "eddsa-jcs-2022";

/* --- what is hashed ---------------------------------------------------------------------- */

/* Computes the SHA-256 of the canonical form of an object without one of its fields. */
static int hash_without(unsigned char out[HASH_BYTES], const json_t *obj,
	const char *left_out, struct buf *scratch)
{
	buf_reset(scratch);
	if (canon_write_without(scratch, obj, left_out) < 0)
		return -1;
	sha256(out, scratch->data, scratch->len);
	return 0;
}

/* Refuses numbers that two readers could understand differently. Returns 0 or -1. */
static int check_numbers(const json_t *v)
{
	const char *key;
	json_t *item;
	size_t i;

	switch (json_typeof(v)) {
	case JSON_OBJECT:
		json_object_foreach((json_t *)v, key, item)
			if (check_numbers(item) < 0)
				return json_is_number(item) ?
					err_add("field '%.60s'", key) :
					-1;
		return 0;
	case JSON_ARRAY:
		json_array_foreach(v, i, item)
			if (check_numbers(item) < 0)
				return -1;
		return 0;
	case JSON_INTEGER:
		if (json_integer_value(v) <= INT64_C(9007199254740992) &&
			json_integer_value(v) >= -INT64_C(9007199254740992))
			return 0;
		break;
	case JSON_REAL:
		/* beyond 2^53 every double is whole */
		if (json_real_value(v) <= INTEGER_EXACT &&
			json_real_value(v) >= -INTEGER_EXACT)
			return 0;
		break;
	default:
		return 0;
	}
	return err_set(EX_DATAERR,
		"a whole number beyond 2^53 is not allowed in kinds of ours");
}

static const char *text_of(const json_t *obj, const char *key)
{
	return json_string_value(json_object_get(obj, key));
}

static int check_record(const json_t *record)
{
	const char *kind;

	if (!json_is_object(record))
		return err_set(EX_DATAERR, "not a JSON object");
	kind = text_of(record, "kind");
	return kind && strncmp(kind, "rnp.", 4) == 0 ? check_numbers(record) : 0;
}

/* --- verify ------------------------------------------------------------------------------ */

/* Gets a text: NULL where the field is absent; a field of another type is an error. */
static int get_text(const json_t *proof, const char *key, const char **out)
{
	const json_t *v = json_object_get(proof, key);

	*out = json_string_value(v);
	if (v && !*out)
		return err_set(EX_DATAERR, "proof: field '%s' is not a string", key);
	return 0;
}

static int expect(const json_t *proof, const char *key, const char *wanted)
{
	const char *text;

	if (get_text(proof, key, &text) < 0)
		return -1;
	if (!text)
		return err_set(EX_DATAERR, "proof: field '%s' is missing", key);
	if (strcmp(text, wanted) != 0)
		return err_set(EX_DATAERR, "proof: %s '%.60s' is not '%s'", key, text,
			wanted);
	return 0;
}

/* Reads an optional dateTimeStamp of XML Schema: RFC 3339 in upper case and without leap
 * second. */
static int get_time(const json_t *proof, const char *key, bool *there, int64_t *ms)
{
	const char *text;

	*there = false;
	if (get_text(proof, key, &text) < 0)
		return -1;
	if (!text)
		return 0;
	*there = true;
	if (strpbrk(text, "tz ") || clock_parse(text, key, ms) < 0)
		return err_set(EX_DATAERR, "proof: %s '%.40s' is not a time", key, text);
	return 0;
}

static int check_times(const json_t *proof)
{
	int64_t created, expires;
	bool there;

	if (get_time(proof, "created", &there, &created) < 0 ||
		get_time(proof, "expires", &there, &expires) < 0)
		return -1;
	if (there && expires <= clock_now_ms())
		return err_set(EX_DATAERR, "proof: expired at %s",
			text_of(proof, "expires"));
	return 0;
}

/* Reads did:key:zKEY#zKEY, where both keys have to be the same. */
static int method_key(const json_t *proof, unsigned char public_key[KEY_PUBLIC_BYTES])
{
	const size_t prefix = sizeof KEY_DID_PREFIX - 1;
	char did[KEY_METHOD_MAX];
	const char *text, *mark;

	if (get_text(proof, "verificationMethod", &text) < 0)
		return -1;
	if (!text)
		return err_set(EX_DATAERR,
			"proof: field 'verificationMethod' is missing");
	mark = strchr(text, '#');
	if (!mark || mark - text >= KEY_DID_MAX || mark - text <= (long)prefix)
		return err_set(EX_DATAERR,
			"proof: verificationMethod '%.80s' is not a did:key "
			"with its key after '#'",
			text);
	memcpy(did, text, (size_t)(mark - text));
	did[mark - text] = '\0';
	if (key_parse_did(did, "proof: verificationMethod", public_key) < 0)
		return -1;
	if (strcmp(mark + 1, did + prefix) != 0)
		return err_set(EX_DATAERR,
			"proof: verificationMethod names another key after '#'");
	return 0;
}

static int get_signature(const json_t *proof, unsigned char out[KEY_SIGNATURE_BYTES])
{
	const char *text;

	if (get_text(proof, "proofValue", &text) < 0)
		return -1;
	if (!text)
		return err_set(EX_DATAERR, "proof: field 'proofValue' is missing");
	if (text[0] != 'z' || strlen(text) >= SIGNATURE_TEXT ||
		base58_decode(out, KEY_SIGNATURE_BYTES, text + 1) != KEY_SIGNATURE_BYTES)
		return err_set(EX_DATAERR,
			"proof: proofValue is not 'z' and base58btc of 64 bytes");
	return 0;
}

/* Returns a context as a list: one that is not an array is its only entry. */
static const json_t *context_at(const json_t *context, size_t i)
{
	if (json_is_array(context))
		return json_array_get(context, i);
	return i == 0 ? context : NULL;
}

/* Whether the record's @context begins with that of the proof, which was signed. A later signer
 * may have appended contexts. */
static int check_context(const json_t *record, const json_t *of_proof)
{
	const json_t *of_record = json_object_get(record, "@context"), *want;

	if (!of_record)
		return err_set(EX_DATAERR,
			"proof: has an @context and the record has none");
	for (size_t i = 0; (want = context_at(of_proof, i)); i++)
		if (!json_equal(want, context_at(of_record, i)))
			return err_set(EX_DATAERR,
				"proof: the record's @context does not begin with the proof's");
	return 0;
}

/* One proof that is sound but for its signature, which is verified with those of others. */
struct pending {
	unsigned char public_key[KEY_PUBLIC_BYTES], signature[KEY_SIGNATURE_BYTES];
	unsigned char hashes[2 * HASH_BYTES];
	int at; /* which proof of its record */
};

struct pendings {
	struct pending *items;
	size_t n, cap;
	struct buf scratch;
};

/* A record and what all its proofs share: they usually have the same context. */
struct subject {
	const json_t *record;
	struct signature_result *out;
	size_t first, end; /* its pending proofs */
	int failed_at;     /* its first bad proof, or -1; out->reason says why */
	const json_t *hashed_context; /* the context that document was computed for */
	bool hashed;
	unsigned char document[HASH_BYTES];
	bool whole_known; /* the hash of the record with all its contexts */
	unsigned char whole[HASH_BYTES];
};

/* context is that of the proof, which is used if the record's is longer. */
static int hash_document(struct subject *s, json_t *context, struct buf *scratch)
{
	json_t *other, *own = json_object_get(s->record, "@context");
	int rc;

	if (s->hashed && s->hashed_context == context)
		return 0;
	s->hashed_context = context;
	if (!context || json_equal(context, own)) {
		rc = hash_without(s->document, s->record, "proof", scratch);
		memcpy(s->whole, s->document, sizeof s->whole);
		s->whole_known = rc == 0;
	} else {
		other = json_copy((json_t *)s->record);
		json_object_set(other, "@context", context);
		rc = hash_without(s->document, other, "proof", scratch);
		json_decref(other);
	}
	s->hashed = rc == 0;
	return rc;
}

/* Checks all of a proof but its signature. */
static int read_proof(struct subject *s, const json_t *proof, struct pending *p,
	struct buf *scratch)
{
	json_t *context = json_object_get(proof, "@context");

	if (!json_is_object(proof))
		return err_set(EX_DATAERR, "proof: not an object");
	if (json_object_get(proof, "previousProof"))
		return err_set(EX_DATAERR,
			"proof: previousProof (proof chains) is not supported");
	if (expect(proof, "type", "DataIntegrityProof") < 0 ||
		expect(proof, "cryptosuite", suite) < 0 ||
		expect(proof, "proofPurpose", purpose) < 0 || check_times(proof) < 0 ||
		method_key(proof, p->public_key) < 0 ||
		get_signature(proof, p->signature) < 0 ||
		(context && check_context(s->record, context) < 0) ||
		hash_document(s, context, scratch) < 0 ||
		hash_without(p->hashes, proof, "proofValue", scratch) < 0)
		return -1;
	memcpy(p->hashes + HASH_BYTES, s->document, HASH_BYTES);
	return 0;
}

/* Copies the pending error, truncated. */
static void tell(struct signature_result *out)
{
	size_t n = strnlen(err_get()->text, sizeof out->reason - 1);

	memcpy(out->reason, err_get()->text, n);
	out->reason[n] = '\0';
	utf8_clean_line(out->reason);
}

/* Reads all proofs of a record. Returns 0, or -1 if it has none that could be good. */
static int read_proofs(struct subject *s, struct pendings *all)
{
	const json_t *proof = json_object_get(s->record, "proof");
	size_t n = json_is_array(proof) ? json_array_size(proof) : 1;

	if (!proof)
		return err_set(EX_DATAERR, "no proof");
	if (!n || n > PROOF_SIGNERS_MAX)
		return err_set(EX_DATAERR, "a set of %zu proofs, not 1 to %d", n,
			PROOF_SIGNERS_MAX);
	for (size_t i = 0; i < n; i++) {
		const json_t *one = json_is_array(proof) ? json_array_get(proof, i) :
							   proof;

		if (all->n == all->cap) {
			all->cap = all->cap ? 2 * all->cap : 8;
			all->items = xrealloc(all->items, all->cap * sizeof *all->items);
		}
		all->items[all->n].at = (int)i;
		if (read_proof(s, one, &all->items[all->n], &all->scratch) == 0) {
			all->n++;
		} else if (s->failed_at < 0) { /* the first reason is reported */
			s->failed_at = (int)i;
			tell(s->out);
		}
	}
	return 0;
}

/* Verifies the signatures of all records, many at a time, and the bare ones. Sets good of each:
 * in verdicts, which has space for all, of each pending proof. */
static void verify_pending(const struct pendings *all, struct ed25519 *verdicts,
	struct ed25519 *bare, size_t nbare)
{
	for (size_t i = 0; i < all->n; i++)
		verdicts[i] = (struct ed25519){ all->items[i].signature,
			all->items[i].public_key, all->items[i].hashes, NULL, false };
	for (size_t i = 0; i < nbare; i++)
		verdicts[all->n + i] = bare[i];
	ed25519_verify(verdicts, all->n + nbare);
	for (size_t i = 0; i < nbare; i++)
		bare[i].good = verdicts[all->n + i].good;
}

/* Collects the signers of a record. Returns 0, or -1: a proof is bad. */
static int conclude(struct subject *s, const struct pendings *all,
	const struct ed25519 *verdicts)
{
	struct signature_result *out = s->out;

	for (size_t i = s->first; i < s->end; i++) {
		const struct pending *p = &all->items[i];

		if (verdicts[i].good) {
			address_format(p->public_key, out->signers[out->nsigners++]);
		} else if (s->failed_at < 0 || s->failed_at > p->at) {
			s->failed_at = p->at;
			err_set(EX_DATAERR,
				"proof: the signature does not fit the record");
			tell(out);
		}
	}
	return s->failed_at >= 0 ? err_set(EX_DATAERR, "%s", out->reason) : 0;
}

static int check_party(const json_t *record, const struct signature_result *r)
{
	const char *field = party_names_signer(text_of(record, "kind")) &&
			json_object_get(record, "signer") ?
		"signer" :
		"node";
	const json_t *party = json_object_get(record, field);

	if (!party)
		return 0;
	if (!json_is_string(party))
		return err_set(EX_DATAERR, "field '%s' is not a string", field);
	if (!signature_is_by(r, json_string_value(party)))
		return err_set(EX_DATAERR, "signed by %s, not by its %s %.60s",
			r->signers[0], field, json_string_value(party));
	return 0;
}

bool signature_is_by(const struct signature_result *r, const char *address)
{
	for (int i = 0; i < r->nsigners; i++)
		if (strcmp(r->signers[i], address) == 0)
			return true;
	return false;
}

static void begin(struct subject *s, struct pendings *all)
{
	struct signature_result *out = s->out;

	out->ok = out->valid = false;
	out->nsigners = 0;
	out->reason[0] = '\0';
	s->failed_at = -1;
	s->first = all->n;
	/* valid: so far nothing speaks against it */
	out->valid = check_record(s->record) == 0 && read_proofs(s, all) == 0;
	if (!out->valid)
		tell(out);
	s->end = all->n;
	err_clear();
}

static void finish(struct subject *s, const struct pendings *all,
	const struct ed25519 *verdicts)
{
	struct signature_result *out = s->out;

	if (out->valid) {
		out->valid = conclude(s, all, verdicts) == 0;
		out->ok = out->valid && check_party(s->record, out) == 0;
		if (!out->ok)
			tell(out);
	}
	err_clear();
	if (s->whole_known)
		memcpy(out->sha256, s->whole, sizeof out->sha256);
	else if (!out->valid || canon_hash_record(out->sha256, s->record) < 0)
		memset(out->sha256, 0, sizeof out->sha256);
	err_clear();
}

void signature_verify_beside(const json_t *const *records, size_t n,
	struct signature_result *out, struct ed25519 *bare, size_t nbare)
{
	struct subject *subjects = xcalloc(n, sizeof *subjects);
	struct pendings all = { .n = 0 };
	struct ed25519 *verdicts;

	for (size_t i = 0; i < n; i++) {
		subjects[i].record = records[i];
		subjects[i].out = &out[i];
		begin(&subjects[i], &all);
	}
	verdicts = xcalloc(all.n + nbare, sizeof *verdicts);
	verify_pending(&all, verdicts, bare, nbare);
	for (size_t i = 0; i < n; i++)
		finish(&subjects[i], &all, verdicts);
	free(verdicts);
	free(subjects);
	free(all.items);
	buf_release(&all.scratch);
}

void signature_verify_many(const json_t *const *records, size_t n,
	struct signature_result *out)
{
	signature_verify_beside(records, n, out, NULL, 0);
}

void signature_verify(const json_t *record, struct signature_result *out)
{
	signature_verify_many(&record, 1, out);
}

/* --- sign -------------------------------------------------------------------------------- */

static json_t *new_proof(const json_t *record, const struct key *k, int64_t created_ms)
{
	json_t *proof = json_object(), *context = json_object_get(record, "@context");
	char did[KEY_DID_MAX], method[KEY_METHOD_MAX];

	key_did(k->public_key, did);
	snprintf(method, sizeof method, "%s#%s", did, did + sizeof KEY_DID_PREFIX - 1);
	json_set_text(proof, "type", "DataIntegrityProof");
	json_set_text(proof, "cryptosuite", suite);
	json_set_time(proof, "created", created_ms);
	json_set_text(proof, "verificationMethod", method);
	json_set_text(proof, "proofPurpose", purpose);
	if (context)
		json_set(proof, "@context", json_deep_copy(context));
	return proof;
}

static int sign_hashes(json_t *proof, const json_t *record, const struct key *k)
{
	unsigned char hashes[2 * HASH_BYTES], signature[KEY_SIGNATURE_BYTES];
	struct buf scratch = BUF_INIT;
	char text[SIGNATURE_TEXT] = "z";
	int rc = -1;

	if (hash_without(hashes, proof, "proofValue", &scratch) == 0 &&
		hash_without(hashes + HASH_BYTES, record, "proof", &scratch) == 0) {
		crypto_sign_detached(signature, NULL, hashes, sizeof hashes, k->secret);
		base58_encode(text + 1, signature, sizeof signature);
		json_set_text(proof, "proofValue", text);
		rc = 0;
	}
	buf_release(&scratch);
	return rc;
}

static void add_proof(json_t *record, json_t *old, json_t *takes_proof)
{
	if (json_is_array(old)) {
		json_push(old, takes_proof);
	} else if (old) {
		json_t *set = json_array();

		json_array_append(set, old);
		json_push(set, takes_proof);
		json_set(record, "proof", set);
	} else {
		json_set(record, "proof", takes_proof);
	}
}

int signature_add(json_t *record, const struct key *k, int64_t created_ms)
{
	json_t *old, *proof;

	if (check_record(record) < 0)
		return -1;
	old = json_object_get(record, "proof");
	if (old && !json_is_object(old) && !json_is_array(old))
		return err_set(EX_DATAERR,
			"field 'proof' is neither a proof nor a set of them");
	if (json_array_size(old) >= PROOF_SIGNERS_MAX)
		return err_set(EX_DATAERR, "has %d proofs already, the most there may be",
			PROOF_SIGNERS_MAX);
	proof = new_proof(record, k, created_ms);
	if (sign_hashes(proof, record, k) < 0) {
		json_decref(proof);
		return -1;
	}
	add_proof(record, old, proof);
	return 0;
}
