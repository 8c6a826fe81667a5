/* compress_data.h - data for measuring compressors, and other people's compressors to compare
 * with. Uses rng, lm/train. */
#ifndef RNP_BENCH_SUITES_COMPRESS_DATA_H
#define RNP_BENCH_SUITES_COMPRESS_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum compress_kind {
	COMPRESS_GAUSS,
	COMPRESS_LAPLACE,
	COMPRESS_GRADIENT,
	COMPRESS_TRAINED,
	COMPRESS_ADVERSE,
	COMPRESS_KINDS
};

extern const char *const compress_kinds
	[COMPRESS_KINDS]; /* "gauss", "laplace", "gradient", "trained", "adverse" */

/* Generates n floats, the same every time. gauss: standard deviation 0.001; laplace: likewise;
 * gradient: layers of 32 Ki to 512 Ki elements with scales of 10^-6 to 10^-2, whose rows of 256
 * each have a scale of their own (log-normal, 0.8) times a bell curve, every eighth row zero,
 * like embeddings of tokens that did not occur; trained: see compress_trained; adverse: any
 * finite bits. Returns 0, or -1 with err_set, for trained only. */
int compress_data(float *out, uint64_t n, enum compress_kind kind);

/* Trains the preset nano on the CPU and returns the gradients of one step after the other, from
 * the 9th on, on an artificial language with Zipf's frequencies. They are the same for one kind
 * of CPU and number of threads. Returns 0, or -1 with err_set. */
int compress_trained(float *out, uint64_t n);

/* Reads the first n floats of a file of raw f32; returns how many there were, 0 for none. */
uint64_t compress_data_file(float *out, uint64_t n, const char *path);

/* A byte compressor that is opened on demand. */
struct compress_peer {
	const char *name; /* "zstd -1" */
	/* Each returns the bytes that it wrote, 0 when it failed. out holds bound(n). */
	size_t (*compress)(void *out, size_t cap, const void *in, size_t n);
	size_t (*expand)(void *out, size_t n, const void *in, size_t bytes);
	size_t (*bound)(size_t n);
};

/* Opens "zstd -1", "zstd -3", "lz4", or "huff0" of the library that RNP_HUFF0 names; NULL: it
 * is not there. */
const struct compress_peer *compress_peer(const char *name);

#endif
