/* given.h - the options that epoch and explain share: how much an epoch may pay. */
#ifndef RNP_CMD_REWARD_GIVEN_H
#define RNP_CMD_REWARD_GIVEN_H

#include "cmd/rnp-reward/core.h"
#include "common/cli/opt.h"

struct given {
	const char *policy, *job_scale, *availability_scale;
	int64_t pool, left, epochs, price_uusd;
};

#define GIVEN_INIT                     \
	{                              \
		.pool = -1, .left = -1 \
	}

/* Entries for an option table; g is a struct given. */
/* clang-format off */
#define GIVEN_POLICY(g)                                                                        \
	{ .name = "policy", .kind = OPT_TEXT, .required = true, .to = &(g).policy,             \
		.metavar = "P", .help = "name of a policy, or path of its file" }
#define GIVEN_POOL(g)                                                                          \
	{ .name = "pool", .kind = OPT_RENDER, .to = &(g).pool, .metavar = "RENDER",            \
		.help = "the pool of this epoch; where the policy pays rates, the most it "    \
			"pays" },                                                              \
	{ .name = "left", .kind = OPT_RENDER, .to = &(g).left, .metavar = "RENDER",            \
		.help = "instead of --pool: what is left for --epochs, of which this is one "  \
			"part" },                                                              \
	{ .name = "epochs", .kind = OPT_I64, .to = &(g).epochs, .metavar = "N",                \
		.help = "how many epochs --left is for, this one included",                    \
		.min = 1, .max = 1000000 },                                                    \
	{ .name = "price", .kind = OPT_USD, .to = &(g).price_uusd, .metavar = "USD",           \
		.help = "price of a token in this epoch, see twap",                            \
		.min = 1, .max = INT64_C(1000000000000) },                                     \
	{ .name = "job-scale", .kind = OPT_TEXT, .to = &(g).job_scale, .metavar = "X",         \
		.help = "job rates times X, as far as the policy allows (default 1)" },        \
	{ .name = "availability-scale", .kind = OPT_TEXT, .to = &(g).availability_scale,       \
		.metavar = "X", .help = "availability rates times X (default 1)" }
/* clang-format on */

/* Stores pool and scales in e. Returns 0, or -1 with EX_USAGE. */
int given_apply(const struct given *g, struct epoch *e);

#endif
