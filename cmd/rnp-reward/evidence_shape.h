/* evidence_shape.h - tables of the fields of signed records, in canonical order, for the reader in
 * evidence_plain.c. Pure. Uses gather_item, plain.
 *
 * They repeat the schemas in common/json/schema/ and may be narrower, but not wider: the unit test
 * tries each field at, below and beyond the bounds of its schema. */
#ifndef RNP_CMD_REWARD_EVIDENCE_SHAPE_H
#define RNP_CMD_REWARD_EVIDENCE_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/rnp-reward/gather_item.h"

enum shape_type {
	SHAPE_TEXT,    /* of min to max characters */
	SHAPE_WHOLE,   /* number of min to max */
	SHAPE_BOOL,    /* number: 1 or 0 */
	SHAPE_TIME,    /* number: ms */
	SHAPE_SHA256,  /* lower-case hex */
	SHAPE_ADDRESS, /* base58 */
	SHAPE_KIND,    /* number: enum gather_kind */
	SHAPE_ENUM,    /* one of words */
	SHAPE_UUID,    /* a GPU's own name, of at most max characters */
	SHAPE_COUNTRY,
	SHAPE_HOURS,
	SHAPE_OBJECT, /* of shape */
	SHAPE_LIST,   /* of at most max items */
	SHAPE_TEXTS, /* object of at most max fields: those of shape, if any, and others, each as item */
	SHAPE_SPANS,
	SHAPE_READINGS, /* object of shape, which is of use to gathering; so are: */
	SHAPE_PROVEN,
	SHAPE_GPUS, /* list whose uuids differ */
	SHAPE_PROOF
};

struct shape_field {
	const char *key; /* as it is written, with quotes and colon; "" for items */
	size_t len;      /* of key */
	enum shape_type type;
	int64_t min, max;
	const struct shape *shape;
	const struct shape_field *item;
	const char *const *words; /* ends with NULL */
};

#define SHAPE_GUESSES    128 /* a power of 2 */
#define SHAPE_FIELDS_MAX 64
#define SHAPE_GPUS_MAX   64

/* An object's fields in canonical order (all are ASCII, so UTF-16 order is that of bytes). */
struct shape {
	const struct shape_field *fields;
	int n;
	uint64_t required;  /* a bit for each field that must be there */
	uint64_t facts;     /* of a node's objects: those that gather_item_facts has */
	signed char *guess; /* the field that a key may be; -1: none. See shape_find */
	int number;         /* of the shape */
};

#define SHAPES 12

#define SHAPE_BIT(i) (UINT64_C(1) << (i))

/* Fields of records, of all kinds: a name means the same type in each. */
enum {
	RECORD_AT,
	RECORD_BEATS,
	RECORD_BEATS_SHA256,
	RECORD_CHALLENGE_SHA256,
	RECORD_CHECKS,
	RECORD_CPU,
	RECORD_CREDITS,
	RECORD_DISKS,
	RECORD_EARNED_UUSD,
	RECORD_ELAPSED_NS,
	RECORD_FROM,
	RECORD_GPU_SECONDS,
	RECORD_GPUS,
	RECORD_JOB,
	RECORD_JOINT,
	RECORD_KIND,
	RECORD_LABELS,
	RECORD_LIMITS,
	RECORD_MEMORY_BANDWIDTH,
	RECORD_MEMORY_BYTES,
	RECORD_NAME,
	RECORD_NETWORK,
	RECORD_NODE,
	RECORD_NODE_RECORD,
	RECORD_NONCE,
	RECORD_OS,
	RECORD_PASSED,
	RECORD_POLICY,
	RECORD_PROOF,
	RECORD_PROVEN,
	RECORD_PROVES,
	RECORD_READINGS,
	RECORD_ROOTS_NS,
	RECORD_ROUNDTRIP_NS,
	RECORD_SCORE_PPM,
	RECORD_SIGNER,
	RECORD_SPANS,
	RECORD_TO,
	RECORD_TOKENS,
	RECORD_UNKNOWN,
	RECORD_UP_MS,
	RECORD_VERSION,
	RECORD_WALLET,
	RECORD_WITHHELD,
	RECORD_FIELDS
};

/* Fields of a proof. */
enum {
	PROOF_CREATED,
	PROOF_SUITE,
	PROOF_PURPOSE,
	PROOF_VALUE,
	PROOF_TYPE,
	PROOF_METHOD,
	PROOF_FIELDS
};

extern const struct shape shape_record, shape_proof;

/* What a record of a kind must hold, and what else it may hold. A signer is not required by every
 * schema, but by the reader. */
struct shape_kind {
	uint64_t required, optional;
};

extern const struct shape_kind shape_kinds[];

/* Call it once, before shape_find. */
void shape_init(void);

/* Returns the field of that name, which is not empty, or -1. */
int shape_find(const struct shape *shape, const char *key, size_t len);

#endif
