/* signature.h - finds the signers of a record: W3C Data Integrity proofs, cryptosuite
 * eddsa-jcs-2022. Uses libsodium, ed25519, canon, party, key, json, clock. Verification cannot
 * fail: its result is yes or no. */
#ifndef RNP_COMMON_RECORD_SIGNATURE_H
#define RNP_COMMON_RECORD_SIGNATURE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/record/key.h"

#define PROOF_SIGNERS_MAX 16

struct signature_result {
	bool ok;    /* every proof is good, and the right party is among the signers */
	bool valid; /* every proof is good, whoever signed */
	int nsigners; /* addresses of the keys whose proofs are good, in the record's order */
	char signers[PROOF_SIGNERS_MAX][KEY_ADDRESS_MAX];
	/* if valid: the result of canon_hash_record for the record */
	unsigned char sha256[32];
	char reason[256]; /* why not ok, one line; "" when it is */
};

/* Verifies the proof, or every proof of the proof set, of a record of any kind and shape.
 *
 * A proof is good if it is a DataIntegrityProof of eddsa-jcs-2022 for assertionMethod, by a
 * did:key, without previousProof, not expired (the clock is read only if `expires` is present),
 * and its Ed25519 signature over SHA-256(canonical proof without proofValue) ||
 * SHA-256(canonical record without proof) is good by libsodium's strict rules. Proofs of a set
 * are independent of each other and all must be good. A record of ours (kind rnp.*) holds no
 * number beyond +-2^53, where readers would differ.
 *
 * The right party: if the record has `node`, that key must have signed. Kinds that are by
 * definition written by somebody else about a node (rnp.challenge, rnp.verdict, rnp.receipt,
 * rnp.usage, rnp.reward) name their author in `signer` instead, and that key must have signed;
 * without `signer` the rule of `node` applies to them too. Whether that signer may say such a
 * thing is for the caller to decide. */
void signature_verify(const json_t *record, struct signature_result *out);

/* The same for n records, each with its own result: those of one alone, in a fraction of the time
 * if there are eight or more (kernels/crypto/ed25519.h). */
void signature_verify_many(const json_t *const *records, size_t n,
	struct signature_result *out);

struct ed25519;

/* The same, and sets good of nbare more signatures (kernels/crypto/ed25519.h), whose messages the
 * caller has computed: verified together with those of the records, they fill the lanes. */
void signature_verify_beside(const json_t *const *records, size_t n,
	struct signature_result *out, struct ed25519 *bare, size_t nbare);

/* Adds a proof by k to the record, created at that moment. If the record has one already, it
 * gets a set; existing proofs are not checked. Returns 0, or -1 with EX_DATAERR and the record
 * as it was: not an object, `proof` is neither object nor array, too many proofs, a number that
 * is not allowed. */
int signature_add(json_t *record, const struct key *k, int64_t created_ms);

/* Whether that key made one of the good proofs. */
bool signature_is_by(const struct signature_result *r, const char *address);

#endif
