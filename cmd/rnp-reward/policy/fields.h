/* fields.h - the compact form of one node's usage: the fields and factors of rnp.usage. Pure;
 * the lowest layer of the core: expressions, rules and readers depend on it. */
#ifndef RNP_CMD_REWARD_POLICY_FIELDS_H
#define RNP_CMD_REWARD_POLICY_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/address.h"

/* Whole-number fields of rnp.usage, in the order of the record; then those of the whole epoch. */
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
	FIELD_GPU_WORKED_S,
	FIELD_CHALLENGES_PASSED,
	FIELD_PASSED_PPM,
	FIELD_REPUTATION_PPM,
	FIELD_STAKED_UUSD,
	FIELD_USAGE, /* number of fields in a usage */
	FIELD_EPOCH_S = FIELD_USAGE,
	FIELD_PRICE_UUSD, /* of a token, for the whole epoch */
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

/* Return an index by name, -1 if there is none; name may be NULL. */
int field_find(const char *name);
int factor_find(const char *name);

/* Fields that each group of equal GPUs of a node has its own of: fields of the GPUs, and the work
 * that they did. */
#define FIELD_GROUP_N 6
extern const enum field field_of_group[FIELD_GROUP_N];

#define FIELD_NO_MODEL    UINT32_MAX
#define FIELD_NANO        UINT64_C(1000000000)
#define FIELD_READING_MAX INT64_C(9007199254740991)

/* One rnp.usage. An epoch has millions: epoch/usage_rows.h keeps them in less. */
struct usage {
	unsigned char node[ADDRESS_BYTES];
	unsigned char wallet[ADDRESS_BYTES];
	bool has_wallet;
	uint8_t overridden; /* bit per factor */
	uint16_t file;      /* index of the input file, and line, for messages */
	uint32_t known;     /* bit per field below FIELD_USAGE */
	uint32_t line;
	uint32_t model;         /* index of rules' models, or FIELD_NO_MODEL */
	int64_t from_ms, to_ms; /* -1: not in the record */
	int64_t value[FIELD_USAGE];
	int64_t factor_nano[FACTOR_N];
};

/* A further group of equal GPUs of a node: struct usage is of the first. */
struct usage_group {
	uint32_t row;   /* of its node */
	uint32_t model; /* index of rules' models, or FIELD_NO_MODEL */
	uint32_t known; /* as in struct usage */
	int64_t value[FIELD_GROUP_N];
};

#endif
