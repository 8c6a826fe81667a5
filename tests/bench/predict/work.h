/* work.h - how long the kernels of a step should take on a GPU: pure, from the step's
 * sizes, the GPU's datasheet and what the compiler made of the kernels. Uses common/lm/model alone.
 *
 * A kernel takes the longest of five times, and then 1 us a launch besides, which is what a graph
 * takes for a kernel that does nothing: the next begins when the last block of the one before has
 * ended. The times are: its bytes at 0.9 of the memory's bandwidth; its matrix products at 0.75 of
 * the tensor cores' peak by cuBLASLt, at 0.7 by wgmma (work.c: why), or at 0.85 of what
 * mma.sync reaches; its instructions at 0.75 of four a clock and multiprocessor, and of
 * exponentials at 0.9 of 16; what it moves through shared memory at 0.9 of 128 bytes a clock and
 * multiprocessor, as if each lane had words of its own and no two met in a bank; and its longest
 * chain of loads of which each waits for the one before, by the latency of the memory or of the
 * level-2 cache (work.c). For each time that the host waits for a copy there are 8 us more.
 * Instructions and shared memory are counted from the hot loop: for each MMA where it has any, for
 * each multiply-add where these are the work, else for each byte that it moves. Kernels of many
 * phases are counted loop by loop, for the turns that warps take through each; how long a block
 * waits for the one thread that plans its codes is not seen.
 *
 * This is a model, to find what is worth changing: only a measurement says how long it takes. The
 * first one, on an H200 (tests/bench/results/2026-11-28-nvidia-h200.jsonl), took 1.4 times as long
 * for a step of training the preset small: products by cuBLASLt 1.04 times, norms, rotations and
 * AdamW 1.0 to 1.2, gradients of norms and the loss 1.7 to 1.8, SwiGLU with its products 1.5 and
 * 2.2, attention 1.9 to 2.5; a token of the preset 7b 2.5 times with q8_0 and 3.7 with q4_0, and a
 * prompt of 2,048 tokens 10 times. */
#ifndef RNP_TESTS_BENCH_PREDICT_WORK_H
#define RNP_TESTS_BENCH_PREDICT_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/lm/model/config.h"

/* A GPU by its datasheet. */
struct predict_gpu {
	const char *name, *arch; /* arch: whose compiled code it runs */
	uint32_t sm_count, clock_mhz;
	double memory_bps, bf16_flops;
	/* what mma.sync reaches of bf16_flops; wgmma is needed for the rest */
	double mma_share;
	double host_bps; /* of pinned memory: PCI Express 4 or 5, 16 lanes */
};

#define PREDICT_LOOPS_MAX     12
#define PREDICT_FUNCTIONS_MAX 40
#define PREDICT_PHASES_MAX    16

/* A function that is not inlined, or the kernel's own code: its loops, the longest first. */
struct predict_function {
	char name[64];
	uint32_t all; /* instructions */
	unsigned loops;
	uint32_t instructions[PREDICT_LOOPS_MAX], bytes[PREDICT_LOOPS_MAX],
		shared_cycles[PREDICT_LOOPS_MAX];
};

/* What the compiler made of a kernel; zeros: unknown. */
struct predict_code {
	char kernel[128];
	uint64_t hot_instructions, hot_bytes, mmas, fmas;
	uint64_t hot_shared_cycles; /* of an SM's shared memory, for a warp */
	unsigned functions;
	struct predict_function function[PREDICT_FUNCTIONS_MAX];
};

/* Turns of warps through a loop of a function: the one of this rank by length, or where shared is
 * not 0 the shortest that takes so many cycles of shared memory and moves bytes of the GPU's; or
 * through all of a function that has no loop. */
#define PREDICT_ALL PREDICT_LOOPS_MAX
struct predict_phase {
	const char *function;
	unsigned loop, shared;
	double turns;
	/* instead of turns: symbols, of which a lane takes one for each cycle of shared memory */
	double symbols;
};

enum predict_limit {
	PREDICT_HBM,
	PREDICT_TENSOR,
	PREDICT_ISSUE,
	PREDICT_LAUNCH,
	PREDICT_SHARED,
	PREDICT_LATENCY,
	PREDICT_LIMITS
};

/* A kernel of a step: what all its launches do together. */
struct predict_kernel {
	const char *kernel, *part; /* kernel: "cuBLASLt" or a name of ours */
	uint64_t launches;
	double bytes; /* of the GPU's memory */
	double waits; /* of the host for copies, which are of host_bytes; then no kernel of ours */
	double host_bytes;
	double moved;      /* bytes that its threads load and store; 0: as bytes */
	double operations; /* of matrix products on tensor cores */
	bool is_int8;
	double repeated; /* how many operations of tensor cores one takes; 0: as 1 */
	bool by_fma;     /* operations are made by multiply-adds, not by tensor cores */
	/* operations are made by wgmma. after: instructions of warps while tensor cores wait,
	 * before the products of a block's next tile; what phases issue is beside them */
	bool by_wgmma;
	double after;
	/* of tiles that are computed whole they are as repeated as operations */
	double exponentials;
	/* of a launch, of equal sizes, which a block of each multiprocessor makes one after the
	 * other: in the last turn some have none. 0: not counted, as where a part is of products of
	 * many sizes */
	double tiles;
	/* loads one after the other in the longest chain: of the memory, and of the level-2
	 * cache */
	double trips, near_trips;
	/* the part of hot_shared_cycles that is left where lanes load the same words; 0: all */
	double shared_part;
	/* of a kernel that is counted loop by loop; ends with a NULL function */
	struct predict_phase phases[PREDICT_PHASES_MAX];
};

struct predict_time {
	double hbm_ns, tensor_ns, issue_ns, shared_ns, latency_ns, launch_ns, ns;
	enum predict_limit limit;
	bool issue_known; /* and shared_ns, but for a library's kernels */
};

#define PREDICT_KERNELS_MAX 40

/* How values of f32 become symbols: int8 by the sigma of a chunk, or as rnp-train's methods q8, q4
 * and ecq do. */
enum predict_method { PREDICT_SIGMA, PREDICT_Q8, PREDICT_Q4, PREDICT_ECQ };

/* What is asked for. */
struct predict_step {
	struct lm_config model;
	uint64_t tokens, length; /* training: tokens of a step, and of a sequence */
	uint64_t context;        /* serving: keys that a token sees; prompt: its length */
	/* serving: bytes of 32 weights, and whether they are quantised */
	double weight_bytes_32;
	const char *rows_kernel, *tensor_kernel; /* of quantised weights, else NULL */
	bool library;                            /* cuBLASLt is there */
	bool wgmma; /* the GPU runs what is made for sm_90a */
	/* compression: values; skewed: nine of ten are zero, else they are Gaussian; feedback: what
	 * was not sent is added first, and kept afterwards */
	uint64_t values;
	bool skewed, feedback;
	enum predict_method method;
};

/* NULL: there is none of that name. */
const struct predict_gpu *predict_gpu_find(const char *name);
extern const struct predict_gpu predict_gpus[]; /* ends with a NULL name */

/* Each sets the kernels of a step, and returns how many. */
int predict_train(struct predict_kernel *out, const struct predict_step *s);
int predict_token(struct predict_kernel *out, const struct predict_step *s);
int predict_prompt(struct predict_kernel *out, const struct predict_step *s);
int predict_encode(struct predict_kernel *out, const struct predict_step *s);
int predict_decode(struct predict_kernel *out, const struct predict_step *s);
/* Values of f32 are made symbols, then encoded; and the reverse. */
int predict_compress(struct predict_kernel *out, const struct predict_step *s);
int predict_expand(struct predict_kernel *out, const struct predict_step *s);

/* code may be NULL. */
struct predict_time predict_time_of(const struct predict_gpu *gpu,
	const struct predict_kernel *k, const struct predict_code *code);

#endif
