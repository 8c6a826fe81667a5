/* options.h - rows of option tables that several subcommands have: the same names, bounds and words
 * for the same things. Uses opt.h. */
#ifndef RNP_TRAIN_OPTIONS_H
#define RNP_TRAIN_OPTIONS_H

#include "cmd/rnp-train/protocol.h"
#include "common/cli/opt.h"
#include "common/lm/model/config.h"

/* clang-format off */

/* --- text --------------------------------------------------------------------------------------- */

#define OPT_SHARDS(to_, ...) \
	{ .name = "data", .kind = OPT_TEXT, .to = (to_), .metavar = "SHARDS", \
		.help = "token shards that tokenize wrote", __VA_ARGS__ }
#define OPT_RUN_SHARDS(to_) \
	{ .name = "data", .kind = OPT_TEXT, .to = (to_), .metavar = "SHARDS", \
		.help = "the run's token shards (default: fetched from the coordinator)" }
#define OPT_VALID(to_, when) \
	{ .name = "valid", .kind = OPT_TEXT, .to = (to_), .metavar = "SHARDS", \
		.help = "text to measure the loss on" when }
#define OPT_EVAL_TOKENS(to_) \
	{ .name = "eval-tokens", .kind = OPT_I64, .to = (to_), .metavar = "N", .min = 1, \
		.help = "on so many of its tokens (default 65536)" }
#define OPT_EVAL_EVERY(to_, what) \
	{ .name = "eval-every", .kind = OPT_I64, .to = (to_), .metavar = "N", .min = 0, \
		.help = "measure it after every N " what "; at the end in any case" }

/* --- a step ------------------------------------------------------------------------------------- */

#define OPT_BATCH(to_, of) \
	{ .name = "batch", .kind = OPT_I64, .to = (to_), .metavar = "B", .min = 1, .max = 1 << 20, \
		.help = "sequences of " of " (default 8)" }
#define OPT_MICRO_BATCH(to_, usual) \
	{ .name = "micro-batch", .kind = OPT_I64, .to = (to_), .metavar = "B", .min = 1, .max = 1 << 20, \
		.help = "sequences at once, gradients add up (default: " usual ")" }
#define OPT_LENGTH(to_) \
	{ .name = "length", .kind = OPT_I64, .to = (to_), .metavar = "T", .min = 1, .max = LM_CONTEXT_MAX, \
		.help = "tokens of a sequence (default: the model's context, at most 512)" }
/* lr, lr-min, warmup, weight-decay: fields lr, lr_min, warmup, decay of o */
#define OPTS_RATE(o) \
	{ .name = "lr", .kind = OPT_F64, .to = &(o).lr, .metavar = "R", \
		.help = "learning rate (default 4e-4)" }, \
	{ .name = "lr-min", .kind = OPT_F64, .to = &(o).lr_min, .metavar = "P", \
		.help = "part of it that the cosine ends with (default 0.1)" }, \
	{ .name = "warmup", .kind = OPT_I64, .to = &(o).warmup, .metavar = "N", .min = 0, \
		.help = "steps of linear warm-up (default: a tenth, at most 100)" }, \
	{ .name = "weight-decay", .kind = OPT_F64, .to = &(o).decay, .metavar = "W", \
		.help = "of matrices (default 0.1)" }
/* beta1, beta2, clip: fields of o */
#define OPTS_ADAMW(o) \
	{ .name = "beta1", .kind = OPT_F64, .to = &(o).beta1, .metavar = "B", \
		.help = "of AdamW (default 0.9)" }, \
	{ .name = "beta2", .kind = OPT_F64, .to = &(o).beta2, .metavar = "B", \
		.help = "of AdamW (default 0.95)" }, \
	{ .name = "clip", .kind = OPT_F64, .to = &(o).clip, .metavar = "N", \
		.help = "largest norm of the gradient; 0: any (default 1)" }
#define OPT_ORDER_SEED(to_, more) \
	{ .name = "seed", .kind = OPT_U64, .to = (to_), .metavar = "S", \
		.help = "of the order of the data" more " (default 0)" }
#define OPT_PRECISION(to_) \
	{ .name = "precision", .kind = OPT_CHOICE, .to = (to_), .metavar = "P", .choices = "bf16|f32", \
		.help = "of products and activations (default bf16)" }
#define OPT_STEP_EVERY(to_, usual) \
	{ .name = "every", .kind = OPT_I64, .to = (to_), .metavar = "N", .min = 1, \
		.help = "one rnp.step record every N steps (default " usual ")" }
#define OPT_GPUS(to_) \
	{ .name = "device", .kind = OPT_TEXT, .to = (to_), .metavar = "D", \
		.help = "auto, cpu, cuda:N; several GPUs: cuda:0,cuda:1 or cuda:all (default $RNP_DEVICE, else auto)" }

/* --- rounds ------------------------------------------------------------------------------------- */

#define OPT_INNER_STEPS(to_) \
	{ .name = "inner-steps", .kind = OPT_I64, .to = (to_), .metavar = "H", .min = 1, .max = 1000000, \
		.help = "of each worker in a round (default 50)" }
#define OPT_WARM(to_) \
	{ .name = "warm", .kind = OPT_I64, .to = (to_), .metavar = "N", .min = 0, .max = PROTOCOL_WARM_MAX, \
		.help = "the first N inner steps in rounds of H/10, H/5, 2H/5 and 4H/5 (default 0)" }
#define OPT_OVERLAP(to_) \
	{ .name = "overlap", .kind = OPT_I64, .to = (to_), .metavar = "TAU", .min = 0, .max = 1000000, \
		.help = "workers make so many steps until they need an update (default 0)" }
#define OPT_OUTER(to_) \
	{ .name = "outer", .kind = OPT_CHOICE, .to = (to_), .metavar = "RULE", \
		.choices = "nesterov|sparse|dn|mean", .help = "the outer rule (default nesterov)" }
#define OPT_OUTER_RATE(to_) \
	{ .name = "outer-rate", .kind = OPT_F64, .to = (to_), .metavar = "R", \
		.help = "of nesterov and dn (default 0.7; 0.9 for fewer than 100 rounds)" }
#define OPT_OUTER_MOMENTUM(to_) \
	{ .name = "outer-momentum", .kind = OPT_F64, .to = (to_), .metavar = "M", \
		.help = "of nesterov and dn (default 0.9; 0.6 for fewer than 100 rounds)" }
#define OPT_FRAGMENTS(to_) \
	{ .name = "fragments", .kind = OPT_I64, .to = (to_), .metavar = "P", .min = 1, .max = 1000000, \
		.help = "exchange the layers in P parts, one after the other (default 1)" }
#define OPT_JUDGE(to_) \
	{ .name = "judge", .kind = OPT_I64, .to = (to_), .metavar = "N", .min = 0, .max = 100000, \
		.help = "judge so many deltas a round by what they do to the loss" }
#define OPT_AGGREGATE(to_) \
	{ .name = "aggregate", .kind = OPT_TEXT, .to = (to_), .metavar = "RULE", \
		.help = "mean, clip, trimmed:F, cclip or krum:F (default mean)" }
#define OPT_LATE(to_) \
	{ .name = "late", .kind = OPT_CHOICE, .to = (to_), .metavar = "L", .choices = "drop|count", \
		.help = "what comes after the deadline: drop (default), or count half in the next round" }
#define OPT_GRACE(to_) \
	{ .name = "grace", .kind = OPT_DURATION, .to = (to_), .metavar = "D", .min = 0, .max = 86400000, \
		.help = "of dn: take who comes so soon after the first (default 1s)" }
#define OPT_DELTA_METHOD(to_) \
	{ .name = "method", .kind = OPT_TEXT, .to = (to_), .metavar = "M", \
		.help = "how deltas are compressed, see compress (default q4)" }
#define OPT_UPDATE_METHOD(to_) \
	{ .name = "method-down", .kind = OPT_TEXT, .to = (to_), .metavar = "M", \
		.help = "how updates are (default: as deltas)" }

/* --- a coordinator that is asked ---------------------------------------------------------------- */

#define OPT_GIVE_UP(to_, who) \
	{ .name = "give-up", .kind = OPT_DURATION, .to = (to_), .metavar = "D", .min = 1000, \
		.max = INT64_C(31536000000), .help = "end when the " who " is away for so long (default 600s)" }
#define OPT_STATE(to_, what) \
	{ .name = "state", .kind = OPT_TEXT, .to = (to_), .metavar = "DIR", \
		.help = "where it keeps " what " (default $XDG_STATE_HOME/rnp/train)" }
#define OPT_CA(to_) \
	{ .name = "ca", .kind = OPT_TEXT, .to = (to_), .metavar = "F", \
		.help = "trust these certificates (PEM), not the system's" }
#define OPT_PROXY(to_) \
	{ .name = "proxy", .kind = OPT_TEXT, .to = (to_), .metavar = "URL", \
		.help = "http://, https:// or socks5h:// (default: the environment's)" }

/* clang-format on */

#endif
