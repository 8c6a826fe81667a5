/* inputs.h - the options that epoch and explain share: how much an epoch may pay. */
#ifndef RNP_CMD_REWARD_EPOCH_INPUTS_H
#define RNP_CMD_REWARD_EPOCH_INPUTS_H

#include "cmd/rnp-reward/epoch/core.h"
#include "common/cli/opt.h"
#include "common/record/policy.h"

struct epoch_inputs {
	const char *policy, *job_scale, *availability_scale;
	int64_t pool, left, epochs, price_uusd;
};

#define EPOCH_INPUTS_INIT              \
	{                              \
		.pool = -1, .left = -1 \
	}

/* Entries for an option table; g is a struct epoch_inputs. */
/* clang-format off */
#define EPOCH_INPUTS_POLICY(g)                                                                        \
	OPT(TEXT, "policy", &(g).policy, "P", \
		"name of a policy, or path of its file", .required = true, .words = POLICY_NAMES)
#define EPOCH_INPUTS_POOL(g)                                                                          \
	OPT(RENDER, "pool", &(g).pool, "TOKENS", \
		"the pool of this epoch; where the policy pays rates, the most it " "pays"),                                                              \
	OPT(RENDER, "left", &(g).left, "TOKENS", \
		"instead of --pool: what is left for --epochs, of which this is one " "part"),                                                              \
	OPT_IN(I64, "epochs", &(g).epochs, "N", 1, 1000000, \
		"how many epochs --left is for, this one included"),                                                    \
	OPT_IN(USD, "price", &(g).price_uusd, "USD", 1, INT64_C(1000000000000), \
		"price of a token in this epoch, see twap"),                                     \
	OPT(TEXT, "job-scale", &(g).job_scale, "X", \
		"job rates times X, as far as the policy allows (default 1)"),        \
	OPT(TEXT, "availability-scale", &(g).availability_scale, "X", \
		"availability rates times X (default 1)")
/* clang-format on */

/* Stores pool, price and scales in e. Returns 0, or -1 with EX_USAGE. */
int epoch_inputs_apply(const struct epoch_inputs *g, struct epoch *e);

#endif
