/* plain.h - reads a signed rnp.uptime, rnp.verdict, rnp.receipt or rnp.node from its text,
 * without building objects. Pure. Uses collect_item, json's fast and plain, key, sha256.
 *
 * Such records are nearly all of the evidence, and reading them as JSON takes several times as long
 * as verifying their signatures. Plain means here, beside json/plain.h: only fields of the schema,
 * each once, in any order, and one proof: of a node by its own key, of other kinds by a key that
 * the caller trusts and that the record names as its signer. Whatever else a line is, JSON and
 * schema decide. */
#ifndef RNP_CMD_REWARD_EVIDENCE_PLAIN_H
#define RNP_CMD_REWARD_EVIDENCE_PLAIN_H

#include <stdbool.h>
#include <stddef.h>

#include "cmd/rnp-reward/evidence/collect_item.h"
#include "common/base/buf.h"
#include "common/json/fast.h"
#include "common/record/key.h"

/* A key whose records are read this way. */
struct evidence_key {
	unsigned char public_key[KEY_PUBLIC_BYTES];
	char address[KEY_ADDRESS_MAX];
	char method[KEY_METHOD_MAX]; /* the verificationMethod of its proofs */
	struct ed25519_table *table; /* owned; NULL: none (kernels/crypto/ed25519.h) */
};

void evidence_key_init(struct evidence_key *k,
	const unsigned char public_key[KEY_PUBLIC_BYTES]);
void evidence_key_release(struct evidence_key *k);

/* A record that is good if its signature is. */
struct evidence_plain {
	struct collect_item item; /* its spans or text: see evidence_plain_read */
	unsigned char signature[KEY_SIGNATURE_BYTES];
	/* what is signed: hashes of proof and record */
	unsigned char message[2 * CANON_HASH_BYTES];
	const unsigned char *public_key;   /* who signed: of one of keys, or node_key */
	const struct ed25519_table *table; /* of that key, or NULL */
	unsigned char node_key[KEY_PUBLIC_BYTES];
	size_t proof_bytes, record_bytes; /* of what is to be hashed, in scratch->texts */
};

/* Memory that is kept from line to line; EVIDENCE_SCRATCH_INIT at first. */
struct evidence_scratch {
	struct fast_order order;
	struct fast_scratch values;
	struct buf facts;
	struct buf texts; /* proof and record of each that was read and not yet hashed */
};
/* clang-format off */
#define EVIDENCE_SCRATCH_INIT { .facts = BUF_INIT }
/* clang-format on */

void evidence_scratch_release(struct evidence_scratch *s);

/* Reads a line and appends to `more` the spans of an uptime, as struct span, or
 * collect_item_facts of a node; item.spans and item.text are left NULL, because they may move;
 * message and item.sha256 are set by evidence_plain_hash. Returns true only if json_parse_object
 * and schema_check accept the line and, once the signature is verified, evidence_counts says so
 * too when all keys are trusted. On false, more may have grown. Leaves no error behind. */
bool evidence_plain_read(struct evidence_plain *p, struct buf *more,
	struct evidence_scratch *scratch, const struct evidence_key *keys, int nkeys,
	const char *line, size_t len);

/* Sets message and item.sha256 of all that were read, in that order, since it was last called with
 * this scratch. */
void evidence_plain_hash(struct evidence_plain *p, size_t n,
	struct evidence_scratch *scratch);

#endif
