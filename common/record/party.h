/* party.h - who may sign which kind of record: one table for all programs that accept records.
 *
 * Uses jansson, signature. Pure. */
#ifndef RNP_COMMON_RECORD_PARTY_H
#define RNP_COMMON_RECORD_PARTY_H

#include <jansson.h>
#include <stdbool.h>

#include "common/record/signature.h"

/* Who may sign a kind: the node that the record is about, and parties that the accepting
 * program trusts (verifiers, coordinators, registries). */
struct party_rule {
	const char *kind;
	bool by_node, by_trusted;
};

/* Returns the rule of a kind, or NULL: no node's pay or place depends on that kind. */
const struct party_rule *party_rule(const char *kind);

enum party {
	PARTY_GOOD,
	PARTY_BAD_SIGNATURE, /* r->reason says why */
	PARTY_NOT_AUTHOR, /* the record names its author in `signer`, who has not signed it */
	PARTY_OTHER,      /* neither the node nor a trusted party has signed it */
	PARTY_NO_RULE, /* the kind is not in the table */
};

/* Decides whether the signers of a record, as signature_verify found them, are those who may sign
 * it. trusted has ntrusted addresses. Where the result is PARTY_GOOD, *who (may be NULL) is the
 * signer that counts, borrowed from r. */
enum party party_check(const json_t *record, const struct signature_result *r,
	const char *const *trusted, int ntrusted, const char **who);

/* True for kinds that somebody else writes about a node and that name their author in `signer`. */
bool party_names_signer(const char *kind);

#endif
