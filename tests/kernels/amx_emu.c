/* amx_emu.c - the products of kernels/lm/cpu/integer_amx.c with tiles in memory in place of
 * registers, for CPUs that have none: the instructions as Intel's manual describes them, and
 * complaints where that says that they fail. */
#if defined __x86_64__ && defined __linux__
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/lm/cpu/x86.h"

#define TILES     8
#define ROWS_MOST 16
#define ROW_BYTES 64

struct emulated {
	bool configured;
	unsigned rows, bytes; /* of a row */
	int8_t cell[ROWS_MOST][ROW_BYTES];
};

static _Thread_local struct emulated tile[TILES];

static void refuse(const char *what)
{
	fprintf(stderr, "kcheck: tiles: %s\n", what);
	abort();
}

static struct emulated *configured(int n)
{
	if (n < 0 || n >= TILES || !tile[n].configured)
		refuse("used before they are configured");
	return &tile[n];
}

static void load_config(const void *from)
{
	const unsigned char *c = from;

	if (c[0] != 1 || c[1])
		refuse("configured with another palette, or in the middle");
	for (int i = 0; i < TILES; i++) {
		uint16_t bytes;

		memset(&tile[i], 0, sizeof tile[i]);
		memcpy(&bytes, c + 16 + 2 * i, 2);
		tile[i].bytes = bytes;
		tile[i].rows = c[48 + i];
		if (bytes > ROW_BYTES || tile[i].rows > ROWS_MOST)
			refuse("configured too large");
		tile[i].configured = bytes && tile[i].rows;
	}
}

static void release(void)
{
	memset(tile, 0, sizeof tile);
}

static void zero(int n)
{
	memset(configured(n)->cell, 0, sizeof tile->cell);
}

static void load(int n, const void *from, uint64_t stride)
{
	struct emulated *t = configured(n);

	memset(t->cell, 0, sizeof t->cell);
	for (unsigned r = 0; r < t->rows; r++)
		memcpy(t->cell[r], (const char *)from + r * stride, t->bytes);
}

static void store(int n, void *to, uint64_t stride)
{
	const struct emulated *t = configured(n);

	for (unsigned r = 0; r < t->rows; r++)
		memcpy((char *)to + r * stride, t->cell[r], t->bytes);
}

static void multiply(int sums, int left, int right)
{
	struct emulated *c = configured(sums);
	const struct emulated *a = configured(left), *b = configured(right);

	if (c->rows != a->rows || c->bytes != b->bytes || a->bytes != 4 * b->rows)
		refuse("multiplied whose sizes do not fit");
	for (unsigned m = 0; m < c->rows; m++)
		for (unsigned n = 0; n < c->bytes / 4; n++) {
			int32_t sum;

			memcpy(&sum, &c->cell[m][4 * n], 4);
			for (unsigned k = 0; k < a->bytes; k++)
				sum += a->cell[m][k] * b->cell[k / 4][4 * n + k % 4];
			memcpy(&c->cell[m][4 * n], &sum, 4);
		}
}

bool lm_amx_emulated_released(void)
{
	for (int i = 0; i < TILES; i++)
		if (tile[i].configured)
			return false;
	return true;
}

#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbssd
#define _tile_loadconfig                load_config
#define _tile_release                   release
#define _tile_zero                      zero
#define _tile_loadd(n, from, stride)    load(n, from, stride)
#define _tile_stored(n, to, stride)     store(n, to, stride)
#define _tile_dpbssd(sums, left, right) multiply(sums, left, right)

#define INTEGER_EMULATED
#include "kernels/lm/cpu/integer_amx.c"
#endif
