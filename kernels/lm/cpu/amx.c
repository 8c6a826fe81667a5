/* amx.c - block products on AMX (Sapphire Rapids and later): tiles of 16 rows of 64 bytes.
 * Packing and epilogue are those of AVX-512. */
#include "kernels/lm/cpu/x86.h"

#if defined __x86_64__ && defined __linux__
#include <immintrin.h>
#include <string.h>

#define AMX __attribute__((target("amx-tile,amx-bf16,avx512f")))

struct tile_config {
	uint8_t palette, start_row, reserved[14];
	uint16_t row_bytes[16];
	uint8_t rows[16];
} __attribute__((packed));

/* Tiles 0..3 are the quarters of C, 4 and 5 the halves of A, 6 and 7 the two panels of B. */
AMX static void configure(uint64_t rows)
{
	struct tile_config c = { .palette = 1 };
	uint8_t upper = (uint8_t)(rows < 16 ? rows : 16);
	uint8_t lower = (uint8_t)(rows > 16 ? rows - 16 :
					      16); /* unused if there are fewer rows */

	for (int i = 0; i < 8; i++) {
		c.row_bytes[i] = 64;
		c.rows[i] = 16;
	}
	c.rows[0] = c.rows[1] = c.rows[4] = upper;
	c.rows[2] = c.rows[3] = c.rows[5] = lower;
	/* gcc 12 does not know that the instruction reads all of the configuration */
	__asm__ volatile("" : : "r"(&c) : "memory");
	_tile_loadconfig(&c);
}

AMX void lm_amx_begin(void)
{
	configure(LM_TILE);
}

AMX void lm_amx_end(void)
{
	_tile_release();
}

#define C_STRIDE (LM_TILE * 4)

AMX static inline __attribute__((always_inline)) void quarters(bool two_rows,
	bool two_panels, float *c, const char *a, uint64_t lda, const char *b,
	uint64_t panel_bytes, uint64_t k, bool add)
{
	if (add) {
		_tile_loadd(0, c, C_STRIDE);
		if (two_panels)
			_tile_loadd(1, c + 16, C_STRIDE);
		if (two_rows)
			_tile_loadd(2, c + 16 * LM_TILE, C_STRIDE);
		if (two_rows && two_panels)
			_tile_loadd(3, c + 16 * LM_TILE + 16, C_STRIDE);
	} else {
		_tile_zero(0);
		_tile_zero(1);
		_tile_zero(2);
		_tile_zero(3);
	}
	for (uint64_t t = 0; t < k; t += 32) {
		_tile_loadd(4, a + 2 * t, lda);
		_tile_loadd(6, b + t * 32, 64);
		_tile_dpbf16ps(0, 4, 6);
		if (two_rows) {
			_tile_loadd(5, a + 16 * lda + 2 * t, lda);
			_tile_dpbf16ps(2, 5, 6);
		}
		if (two_panels) {
			_tile_loadd(7, b + panel_bytes + t * 32, 64);
			_tile_dpbf16ps(1, 4, 7);
		}
		if (two_rows && two_panels)
			_tile_dpbf16ps(3, 5, 7);
	}
	_tile_stored(0, c, C_STRIDE);
	if (two_panels)
		_tile_stored(1, c + 16, C_STRIDE);
	if (two_rows)
		_tile_stored(2, c + 16 * LM_TILE, C_STRIDE);
	if (two_rows && two_panels)
		_tile_stored(3, c + 16 * LM_TILE + 16, C_STRIDE);
}

AMX void lm_amx_mul(float *c, const void *a, uint64_t lda, uint64_t rows, const void *b,
	uint64_t panel_bytes, uint64_t panels, uint64_t k, bool add)
{
	if (rows == LM_TILE && panels == 2) {
		quarters(true, true, c, a, lda, b, panel_bytes, k, add);
		return;
	}
	if (rows < LM_TILE)
		configure(rows);
	if (rows > 16 && panels == 2)
		quarters(true, true, c, a, lda, b, panel_bytes, k, add);
	else if (rows > 16)
		quarters(true, false, c, a, lda, b, panel_bytes, k, add);
	else if (panels == 2)
		quarters(false, true, c, a, lda, b, panel_bytes, k, add);
	else
		quarters(false, false, c, a, lda, b, panel_bytes, k, add);
	if (rows < LM_TILE)
		configure(LM_TILE);
}
#endif
