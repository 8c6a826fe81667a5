/* huff.c - the operations of huff.h on the CPU: the team shares chunks. */
#include "kernels/grad/cpu/cpu.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "kernels/dev/dev_cpu.h"
#include "kernels/grad/huff_parts.h"

#ifdef _OPENMP
#include <omp.h>
#endif

const struct huff_kernels *huff_kernels(enum cpu_level level)
{
#ifdef __x86_64__
	const struct huff_kernels *fast = level >= CPU_AVX2 ? huff_kernels_x86(level) :
							      NULL;

	if (fast)
		return fast;
#endif
	(void)level;
	return &huff_kernels_ref;
}

void huff_cpu_choose(struct huff_cpu *out, enum cpu_level level)
{
	out->kernels = huff_kernels(level);
}

CPU_OPEN(huff)

static const struct huff_kernels *kernels_of(struct dev *d)
{
	return cpu_of(d)->huff->kernels;
}

static struct huff_work *work_new(void)
{
	void *work = NULL;

	return posix_memalign(&work, 64, sizeof(struct huff_work)) ? NULL : work;
}

static int no_memory(struct dev *d)
{
	return dev_fail(d, EX_OSERR, "cpu: no memory to code chunks");
}

static int bad_chunk(struct dev *d, uint32_t chunk)
{
	return dev_fail(d, EX_SOFTWARE, "cpu: chunks of %u symbols", (unsigned)chunk);
}

static uint32_t symbols_of(uint64_t c, uint64_t n, uint32_t chunk)
{
	return n - c * chunk < chunk ? (uint32_t)(n - c * chunk) : chunk;
}

static int cpu_count(struct dev *d, uint32_t *counts, const unsigned char *in, uint64_t n)
{
	const struct huff_kernels *k = kernels_of(d);
	const uint64_t part = 1 << 20;
	uint64_t parts = huff_chunks(n, (uint32_t)part);

	if (cpu_settle(d) < 0)
		return -1;
	memset(counts, 0, 256 * sizeof *counts);
#pragma omp parallel for if (parts > 1)
	for (uint64_t p = 0; p < parts; p++) {
		uint32_t mine[256];

		k->count(mine, in + p * part, symbols_of(p, n, (uint32_t)part));
		for (unsigned v = 0; v < 256; v++)
			__atomic_fetch_add(&counts[v], mine[v], __ATOMIC_RELAXED);
	}
	return 0;
}

/* Where the output of one thread's piece begins; its chunks follow one another. */
#define PIECE (UINT64_C(1) << 63)

/* at[c + 1] holds the size of chunk c at first */
static bool encode_piece(const struct huff_kernels *k, unsigned char *out, uint64_t *at,
	const unsigned char *in, uint64_t n, uint32_t chunk, uint64_t from, uint64_t to)
{
	struct huff_work *work = from < to ? work_new() : NULL;
	unsigned char *next = out + from * (chunk + UINT64_C(1) * HUFF_SLACK);

	if (from < to && !work)
		return false;
	for (uint64_t c = from; c < to; c++) {
		uint32_t bytes = k->encode(work, next, in + c * chunk,
			symbols_of(c, n, chunk));

		at[c + 1] = bytes | (c == from ? PIECE : 0);
		next += bytes;
	}
	free(work);
	return true;
}

/* Each thread encodes a piece to a place with enough space for the worst case; then the pieces
 * are moved together. */
static int cpu_encode(struct dev *d, unsigned char *out, uint64_t *at,
	const unsigned char *in, uint64_t n, uint32_t chunk)
{
	const struct huff_kernels *k = kernels_of(d);
	uint64_t chunks, moved = 0;
	bool good = true;

	if (chunk < 1 || chunk > HUFF_CHUNK_MAX)
		return bad_chunk(d, chunk);
	if (cpu_settle(d) < 0)
		return -1;
	chunks = huff_chunks(n, chunk);
#ifdef _OPENMP
#pragma omp parallel if (chunks > 1) reduction(&& : good)
	{
		uint64_t team = (uint64_t)omp_get_num_threads();
		uint64_t me = (uint64_t)omp_get_thread_num();

		good = encode_piece(k, out, at, in, n, chunk, chunks * me / team,
			chunks * (me + 1) / team);
	}
#else
	good = encode_piece(k, out, at, in, n, chunk, 0, chunks);
#endif
	if (!good)
		return no_memory(d);
	at[0] = 0;
	for (uint64_t c = 0; c < chunks; c++) {
		uint64_t bytes = at[c + 1] & ~PIECE;

		if (at[c + 1] & PIECE)
			moved = c * (chunk + UINT64_C(1) * HUFF_SLACK) - at[c];
		if (moved)
			memmove(out + at[c], out + at[c] + moved, bytes);
		at[c + 1] = at[c] + bytes;
	}
	return 0;
}

static int cpu_decode(struct dev *d, unsigned char *out, uint32_t *bad,
	const unsigned char *in, uint64_t bytes, const uint64_t *at, uint64_t n,
	uint32_t chunk)
{
	const struct huff_kernels *k = kernels_of(d);
	uint64_t chunks;
	uint32_t failed = 0;
	bool good = true;

	if (chunk < 1 || chunk > HUFF_CHUNK_MAX)
		return bad_chunk(d, chunk);
	if (cpu_settle(d) < 0)
		return -1;
	chunks = huff_chunks(n, chunk);
#pragma omp parallel if (chunks > 1) reduction(+ : failed) reduction(&& : good)
	{
		struct huff_work *work = work_new();

		good = work != NULL;
#pragma omp for
		for (uint64_t c = 0; c < chunks; c++)
			if (work)
				failed += at[c] > at[c + 1] || at[c + 1] > bytes ||
					k->decode(work, out + c * chunk,
						symbols_of(c, n, chunk), in + at[c],
						at[c + 1] - at[c]) < 0;
		free(work);
	}
	*bad = failed;
	return good ? 0 : no_memory(d);
}

CPU_TABLE(huff, HUFF_OPS);
