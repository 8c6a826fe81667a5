/* options.h - rows of option tables that several subcommands have: the same names, bounds and words
 * for the same things. Uses opt.h. */
#ifndef RNP_TRAIN_OPTIONS_H
#define RNP_TRAIN_OPTIONS_H

#include "cmd/rnp-train/wire/protocol.h"
#include "common/cli/opt.h"
#include "common/lm/model/config.h"

/* clang-format off */

/* --- text ------------------------------------------------------------------------------------- */

#define OPT_SHARDS(to_) OPT(TEXT, "data", (to_), "SHARDS", "token shards: of tokenize, or of llm.c")
#define OPT_RAW_IDS(to_) \
	OPT(CHOICE, "ids", (to_), NULL, \
		"shards are nothing but ids of 2 or 4 bytes, as nanoGPT's", .choices = "u16|u32")
#define OPT_RUN_SHARDS(to_) \
	OPT(TEXT, "data", (to_), "SHARDS", \
		"the run's token shards (default: fetched from the coordinator)")
#define OPT_VALID(to_, when) \
	OPT(TEXT, "valid", (to_), "SHARDS", "text to measure the loss on" when)
#define OPT_EVAL_TOKENS(to_) \
	OPT(I64, "eval-tokens", (to_), "N", \
		"how many of its tokens to measure on (default 65536)", .min = 1)
#define OPT_EVAL_EVERY(to_, what) \
	OPT(I64, "eval-every", (to_), "N", \
		"measure it after every N " what "; at the end in any case", .min = 0)

/* --- a step ----------------------------------------------------------------------------------- */

#define OPT_BATCH(to_, of) \
	OPT_IN(I64, "batch", (to_), "B", 1, 1 << 20, "sequences of " of " (default 8)")
#define OPT_MICRO_BATCH(to_, usual) \
	OPT_IN(I64, "micro-batch", (to_), "B", 1, 1 << 20, \
		"sequences at once, gradients add up (default: " usual ")")
#define OPT_LENGTH(to_) \
	OPT_IN(I64, "length", (to_), "T", 1, LM_CONTEXT_MAX, \
		"tokens of a sequence (default: the model's context, at most 512)")
/* lr, lr-min, warmup, weight-decay: fields lr, lr_min, warmup, decay of o */
#define OPTS_RATE(o) \
	OPT(F64, "lr", &(o).lr, "R", "learning rate (default 4e-4)"), \
	OPT(F64, "lr-min", &(o).lr_min, "P", \
		"the cosine ends with this part of it (default 0.1)"), \
	OPT(I64, "warmup", &(o).warmup, "N", \
		"steps of linear warm-up (default: a tenth, at most 100)", .min = 0), \
	OPT(F64, "weight-decay", &(o).decay, "W", "of matrices (default 0.1)")
/* beta1, beta2, clip: fields of o */
#define OPTS_ADAMW(o) \
	OPT(F64, "beta1", &(o).beta1, "B", "of AdamW (default 0.9)"), \
	OPT(F64, "beta2", &(o).beta2, "B", "of AdamW (default 0.95)"), \
	OPT(F64, "clip", &(o).clip, "N", \
		"largest norm of the gradient; 0: any (default 1)")
#define OPT_ORDER_SEED(to_, more) \
	OPT(U64, "seed", (to_), "S", "of the order of the data" more " (default 0)")
#define OPT_PRECISION(to_) \
	OPT(CHOICE, "precision", (to_), "P", \
		"of products and activations (default bf16)", .choices = "bf16|f32")
#define OPT_STEP_EVERY(to_, usual) \
	OPT(I64, "every", (to_), "N", \
		"one rnp.step record every N steps (default " usual ")", .min = 1)
#define OPT_GPUS(to_) \
	OPT(TEXT, "device", (to_), "D", \
		"auto, cpu, cuda:N; several GPUs: cuda:0,cuda:1 or cuda:all (default $RNP_DEVICE, else auto)")

/* --- rounds ----------------------------------------------------------------------------------- */

#define OPT_INNER_STEPS(to_) \
	OPT_IN(I64, "inner-steps", (to_), "H", 1, 1000000, \
		"of each worker in a round (default 50)")
#define OPT_WARM(to_) \
	OPT_IN(I64, "warm", (to_), "N", 0, PROTOCOL_WARM_MAX, \
		"the first N inner steps in rounds of H/10, H/5, 2H/5 and 4H/5 (default 0)")
#define OPT_OVERLAP(to_) \
	OPT_IN(I64, "overlap", (to_), "TAU", 0, 1000000, \
		"workers may go on for this many steps without the update (default 0)")
#define OPT_OUTER(to_) \
	OPT(CHOICE, "outer", (to_), "RULE", \
		"the outer rule (default nesterov)", .choices = "nesterov|sparse|dn|mean")
#define OPT_OUTER_RATE(to_) \
	OPT(F64, "outer-rate", (to_), "R", \
		"of nesterov and dn (default 0.7; 0.9 for fewer than 100 rounds)")
#define OPT_OUTER_MOMENTUM(to_) \
	OPT(F64, "outer-momentum", (to_), "M", \
		"of nesterov and dn (default 0.9; 0.6 for fewer than 100 rounds)")
#define OPT_FRAGMENTS(to_) \
	OPT_IN(I64, "fragments", (to_), "P", 1, 1000000, \
		"exchange the layers in P parts, one after the other (default 1)")
#define OPT_JUDGE(to_, more) \
	OPT_IN(I64, "judge", (to_), "N", 0, 100000, \
		"judge this many deltas a round by what they do to the loss" more)
#define OPT_AGGREGATE(to_) \
	OPT(TEXT, "aggregate", (to_), "RULE", \
		"mean, clip, trimmed:F, cclip or krum:F (default mean)")
#define OPT_LATE(to_, usual) \
	OPT(CHOICE, "late", (to_), "L", \
		"a late delta: drop it, or count half of it in the next round (default: " usual ")", .choices = "drop|count")
#define OPT_GRACE(to_) \
	OPT_IN(DURATION, "grace", (to_), "D", 0, 86400000, \
		"dn: close a round so long after its first delta (default 1s)")
#define OPT_DELTA_METHOD(to_) \
	OPT(TEXT, "method", (to_), "M", \
		"how deltas are compressed, see compress (default q4)")
#define OPT_UPDATE_METHOD(to_) \
	OPT(TEXT, "method-down", (to_), "M", "how updates are (default: as deltas)")

/* --- a coordinator that is asked -------------------------------------------------------------- */

#define OPT_GIVE_UP(to_, who) \
	OPT_IN(DURATION, "give-up", (to_), "D", 1000, INT64_C(31536000000), \
		"end when the " who " is away for so long (default 600s)")
#define OPT_STATE(to_, what) \
	OPT(TEXT, "state", (to_), "DIR", \
		"where it keeps " what " (default $XDG_STATE_HOME/rnp/train)")
#define OPT_CA(to_) \
	OPT(TEXT, "ca", (to_), "F", "trust these certificates (PEM), not the system's")
#define OPT_PROXY(to_) \
	OPT(TEXT, "proxy", (to_), "URL", \
		"http://, https:// or socks5h:// (default: the environment's)")

/* clang-format on */

#endif
