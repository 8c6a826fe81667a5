/* rules.h - a policy compiled into fields, tables and expressions. Pure except for reading the
 * policy.
 *
 * The vocabulary (rnp-reward(1), POLICIES): constants, fields of the usage, earlier terms, sum,
 * product, weighted, divide, least, most, relative, scale, tiers, table. A term that needs an
 * absent field is 0, whatever its operator, unless the field has an "unknown" value. */
#ifndef RNP_CMD_REWARD_POLICY_RULES_H
#define RNP_CMD_REWARD_POLICY_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/rnp-reward/policy/expr.h"
#include "cmd/rnp-reward/policy/fields.h"
#include "cmd/rnp-reward/policy/frac.h"
#include "common/base/index.h"
#include "common/base/buf.h"
#include "common/record/key.h"
#include "common/record/policy.h"

#define RULES_MONTH_S    INT64_C(2629800) /* a twelfth of 365.25 days */
#define RULES_NO_MODEL   FIELD_NO_MODEL
#define RULES_TERMS_MAX  EXPR_TERMS_MAX
#define RULES_TABLES_MAX EXPR_TABLES_MAX

/* A GPU model as usages name it, and its row in each table. */
struct model {
	char *raw; /* as written */
	int64_t memory_bytes;
	char *name; /* canonical, or raw */
	struct expr_rows rows;
};

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
	bool shares;                  /* some part of the pay is a share of a pool */
	struct frac pool_part[PAY_N]; /* part of the pool that each share splits */
	int64_t per_node_base_units;  /* -1: the pool has no such limit */
	int64_t month_base_units; /* largest amount per month (RULES_MONTH_S); -1: no such limit */
	int64_t wallet_base_units; /* largest amount per claimant; -1: no such limit */
	int64_t stake_uusd;        /* earnings up to this are locked; -1: none */
	int64_t slash_below_ppm; /* of challenges passed: below it the stake is lost; -1: never */
	int64_t release_after_s; /* of absence, after which the stake is released; -1: never */
	bool needs_price;        /* some expression has price_uusd */
	int64_t epoch_s;
	bool epoch_from_usage;
	const json_t *tables[RULES_TABLES_MAX]; /* in the order of scope.tables */
	struct expr_scope scope;                /* owns its arena */
	struct model *models;
	size_t nmodels, models_cap;
	/* by a hash with a secret key: strangers may write a new model in each record, and
	 * choose its hash */
	struct hash_index by_model;
	unsigned char model_key[16];
};

/* Compiles a policy; takes it (also on failure). Returns 0, or -1 with EX_DATAERR naming the
 * policy, the path and the reason. */
int rules_compile(struct rules *r, struct policy *takes_policy);

/* Calls policy_load and rules_compile. */
int rules_load(struct rules *r, const char *name_or_path);
void rules_release(struct rules *r);

/* Returns the index of a GPU model, which is entered if it is new; on any thread. */
uint32_t rules_model(struct rules *r, const char *raw, int64_t memory_bytes);

/* The results for one node. */
struct eval {
	const struct rules *rules;
	struct expr_env env;
	struct frac term[RULES_TERMS_MAX];
	uint32_t missing[RULES_TERMS_MAX]; /* fields that each term lacked */
};

/* Prepares e for one node; most as in struct expr_env. */
void rules_eval_init(struct eval *e, const struct rules *r, const struct usage *u,
	int64_t epoch_s, int64_t price_uusd, const int64_t *max);

/* Computes all terms of a node. Returns 0, or -1 with EX_DATAERR: a value does not fit 128
 * bits. */
int rules_eval_terms(struct eval *e);

/* Evaluates another expression over the terms. */
int rules_eval(struct eval *e, const struct expr *x, struct frac *out);

/* Whether requirement i is met; *unknown: the field is absent. */
bool rules_met(const struct rules *r, int i, const struct usage *u, bool *unknown);

#endif
