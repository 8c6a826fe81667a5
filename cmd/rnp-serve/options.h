/* options.h - the option rows that subcommands of rnp-serve share. */
#ifndef RNP_SERVE_OPTIONS_H
#define RNP_SERVE_OPTIONS_H

#include "common/cli/prog.h"
#include "common/lm/engine/engine.h"
#include "common/lm/model/config.h"
#include "kernels/dev/team.h"

/* clang-format off */
/* The row `--type T`: as model_handles_open takes it. */
#define OPT_TYPE(to_text) \
	OPT(CHOICE, "type", (to_text), "q8_0|q4_0", \
		"quantise the weights as they are loaded (default: as in the file)", .choices = "q8_0|q4_0")

/* The row `--cache-type T`: as lm_cache_type_find takes it, NULL if absent. */
#define OPT_CACHE_TYPE(to_text) \
	OPT(TEXT, "cache-type", (to_text), "T", \
		"numbers of the cache: f16, f32 or q8_0 (default f16)")

/* The row `--threads N`: int64_t, 0 if absent; for team_resize. */
#define OPT_THREADS(to_n) \
	OPT_IN(I64, "threads", (to_n), "N", 1, TEAM_MAX, \
		"of the CPU that compute (default $OMP_NUM_THREADS, else one per core)")

/* The rows of an engine, which answers several at a time. */
#define OPT_ENGINE(to_context, to_cache, to_cache_type, to_streams, to_speculate, \
	to_pack) \
	OPT_IN(I64, "context", (to_context), "N", 2, LM_CONTEXT_MAX, \
		"tokens of a text (default: all the model was made for)"), \
	OPT(SIZE, "cache", (to_cache), "SIZE", \
		"keys and values of all texts together (default: what fits)", .min = 1), \
	OPT_CACHE_TYPE(to_cache_type), \
	OPT_IN(I64, "streams", (to_streams), "N", 1, 1024, \
		"answers that are computed at the same time (default 16)"), \
	OPT_IN(I64, "speculate", (to_speculate), "N", 0, LM_PROPOSED_MAX, \
		"guess at most this many tokens ahead (default 8; 0: none)"), \
	OPT(CHOICE, "pack", (to_pack), "auto|never", \
		"copy quantised weights into the order that the CPU reads fastest (default auto)", .choices = "auto|never")
/* clang-format on */

#define OPT_STREAMS_DEFAULT 16

#endif
