/* options.h - the option rows that subcommands of rnp-serve share. */
#ifndef RNP_SERVE_OPTIONS_H
#define RNP_SERVE_OPTIONS_H

#include "common/cli/prog.h"
#include "common/lm/engine/engine.h"
#include "common/lm/model/config.h"
#include "kernels/dev/team.h"

/* clang-format off */
/* The row `--type T`: as loaded_open takes it. */
#define OPT_TYPE(to_text) \
	{ .name = "type", .kind = OPT_CHOICE, .to = (to_text), .metavar = "q8_0|q4_0", \
		.choices = "q8_0|q4_0", \
		.help = "quantise the weights as they are loaded (default: as in the file)" }

/* The row `--cache-type T`: as lm_cache_type_find takes it, NULL if absent. */
#define OPT_CACHE_TYPE(to_text) \
	{ .name = "cache-type", .kind = OPT_TEXT, .to = (to_text), .metavar = "T", \
		.help = "numbers of the cache: f16, f32 or q8_0 (default f16)" }

/* The row `--threads N`: int64_t, 0 if absent; for team_resize. */
#define OPT_THREADS(to_n) \
	{ .name = "threads", .kind = OPT_I64, .to = (to_n), .metavar = "N", .min = 1, \
		.max = TEAM_MAX, \
		.help = "of the CPU that compute (default $OMP_NUM_THREADS, else one per core)" }

/* The rows of an engine, which answers several at a time. */
#define OPT_ENGINE(to_context, to_cache, to_cache_type, to_streams, to_speculate, \
	to_pack) \
	{ .name = "context", .kind = OPT_I64, .to = (to_context), .metavar = "N", .min = 2, \
		.max = LM_CONTEXT_MAX, \
		.help = "tokens of a text (default: all the model was made for)" }, \
	{ .name = "cache", .kind = OPT_SIZE, .to = (to_cache), .metavar = "SIZE", .min = 1, \
		.help = "keys and values of all texts together (default: what fits)" }, \
	OPT_CACHE_TYPE(to_cache_type), \
	{ .name = "streams", .kind = OPT_I64, .to = (to_streams), .metavar = "N", .min = 1, \
		.max = 1024, \
		.help = "answers that are computed at the same time (default 16)" }, \
	{ .name = "speculate", .kind = OPT_I64, .to = (to_speculate), .metavar = "N", \
		.min = 0, .max = LM_PROPOSED_MAX, \
		.help = "tokens of an answer guessed ahead at most (default 8; 0: none)" }, \
	{ .name = "pack", .kind = OPT_CHOICE, .to = (to_pack), .metavar = "auto|never", \
		.choices = "auto|never", \
		.help = "copy quantised weights as the CPU reads them soonest (default auto)" }
/* clang-format on */

#define OPT_STREAMS_DEFAULT 16

#endif
