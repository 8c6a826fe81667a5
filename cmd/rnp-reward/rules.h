/* rules.h - a policy made ready to compute with: fields, tables, expressions. Pure but for
 * the policy it is compiled from.
 *
 * The vocabulary (rnp-reward(1), POLICIES): constants, fields of the usage, earlier terms,
 * sum, product, weighted, divide, least, most, relative, scale, tiers, table. What an absent
 * field feeds into counts 0, whatever the operator, unless the field names its "unknown". */
#ifndef RNP_CMD_REWARD_RULES_H
#define RNP_CMD_REWARD_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/rnp-reward/frac.h"
#include "common/base/buf.h"
#include "common/record/key.h"
#include "common/record/policy.h"

/* Whole-number fields of rnp.usage, in the order of the record, and the epoch's length. */
enum field {
	FIELD_GPU_COUNT,
	FIELD_GPU_MEMORY_BYTES,
	FIELD_GPU_CLOCK_MHZ,
	FIELD_GPU_MEMORY_BANDWIDTH_BPS,
	FIELD_CPU_CORES,
	FIELD_CPU_CLOCK_MHZ,
	FIELD_WORKED_S,
	FIELD_UP_S,
	FIELD_EARNED_UUSD,
	FIELD_CREDITS,
	FIELD_DOWN_BPS,
	FIELD_UP_BPS,
	FIELD_SCORE_PPM,
	FIELD_USAGE, /* how many there are in a usage */
	FIELD_EPOCH_S = FIELD_USAGE,
	FIELD_N
};
extern const char *const field_names[FIELD_N];

enum factor {
	FACTOR_GPU,
	FACTOR_VRAM,
	FACTOR_NETWORK,
	FACTOR_CLOCK,
	FACTOR_MEMORY_BANDWIDTH,
	FACTOR_CPU,
	FACTOR_N
};
extern const char *const factor_names[FACTOR_N];

#define RULES_NO_MODEL    UINT32_MAX
#define RULES_TERMS_MAX   32
#define RULES_TABLES_MAX  16
#define RULES_NANO        UINT64_C(1000000000)
#define RULES_READING_MAX INT64_C(9007199254740991)

/* One rnp.usage, compact: an epoch has a million. */
struct usage {
	char node[KEY_ADDRESS_MAX];
	char wallet[KEY_ADDRESS_MAX]; /* "": none */
	uint16_t file;                /* which input file, and its line, for messages */
	uint16_t known;               /* bit per field below FIELD_USAGE */
	uint8_t overridden;           /* bit per factor */
	uint32_t line;
	uint32_t model;         /* index of rules' models, or RULES_NO_MODEL */
	int64_t from_ms, to_ms; /* -1: not in the record */
	int64_t value[FIELD_USAGE];
	int64_t factor_nano[FACTOR_N];
};

/* A GPU model as usages name it, and what each table says of it. */
struct model {
	char *raw; /* as written */
	int64_t memory_bytes;
	char *name; /* canonical, or raw */
	bool in_table[RULES_TABLES_MAX];
	struct frac row[RULES_TABLES_MAX];
};

struct expr;

struct term {
	const char *name;
	int override; /* enum factor, or -1 */
	const struct expr *value;
	const char *note; /* or NULL */
	const json_t *formula;
};

enum pay_part { PAY_JOB, PAY_AVAILABILITY, PAY_N };
extern const char *const pay_names[PAY_N];

struct pay {
	const struct expr *amount, *share; /* at most one is set */
	const json_t *formula;
	struct frac scale_max;
};

struct rules {
	struct policy policy; /* owned */
	struct policy_need needs[POLICY_NEEDS_MAX];
	int need_field[POLICY_NEEDS_MAX];    /* enum field, or -1 wallet, -2 gpu_model */
	int need_override[POLICY_NEEDS_MAX]; /* enum factor, or -1 */
	int nneeds;
	bool needs_wallet;
	struct term terms[RULES_TERMS_MAX];
	int nterms;
	struct pay pay[PAY_N];
	bool shares;                 /* some part is a share of a pool */
	int64_t per_node_base_units; /* -1: the pool has no such limit */
	int64_t epoch_s;
	bool epoch_from_usage;
	const char *table_names[RULES_TABLES_MAX];
	const json_t *tables[RULES_TABLES_MAX];
	int ntables;
	unsigned relative; /* bit per field whose greatest value is needed */
	struct model *models;
	size_t nmodels, models_cap;
	struct arena *arena;
};

/* Compile a policy; takes it (also on failure). Returns 0, or -1 with EX_DATAERR naming the
 * policy, the path and the reason. */
int rules_compile(struct rules *r, struct policy *takes_policy);

/* policy_load and rules_compile. */
int rules_load(struct rules *r, const char *name_or_path);
void rules_release(struct rules *r);

/* The index of a model, entered when it is new. Not thread-safe: see rules_model_find. */
uint32_t rules_model_add(struct rules *r, const char *raw, int64_t memory_bytes);
/* The same without entering it: RULES_NO_MODEL when it is new. */
uint32_t rules_model_find(const struct rules *r, const char *raw, int64_t memory_bytes);

/* What is computed of one node. */
struct eval {
	const struct rules *rules;
	const struct usage *usage;
	int64_t epoch_s;
	const int64_t *most; /* greatest value of each field among the qualified nodes */
	struct frac term[RULES_TERMS_MAX];
	uint16_t missing[RULES_TERMS_MAX]; /* fields that a term lacked */
	uint16_t lacking;                  /* of the expression at hand */
};

/* All terms of a node. Returns 0, or -1 with EX_DATAERR: a value does not fit 128 bits. */
int rules_eval_terms(struct eval *e);

/* One more expression over the terms. */
int rules_eval(struct eval *e, const struct expr *x, struct frac *out);

/* Whether need i is met; *unknown: the field is absent. */
bool rules_met(const struct rules *r, int i, const struct usage *u, bool *unknown);

#endif
