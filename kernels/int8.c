#include "kernels/int8.h"

void int8_balance_ref(int8_t *x, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		x[i] = x[i] == INT8_MIN ? 0 : x[i];
}

/* 64 x 64 at a time: a line of cache serves 64 reads or writes before it goes */
void int8_turn_ref(int8_t *out, const int8_t *in, uint64_t n, uint64_t from, uint64_t to)
{
	const uint64_t side = 64;

	for (uint64_t j0 = from; j0 < to; j0 += side)
		for (uint64_t i0 = 0; i0 < n; i0 += side)
			for (uint64_t j = j0; j < j0 + side && j < to; j++)
				for (uint64_t i = i0; i < i0 + side && i < n; i++)
					out[j * n + i] = in[i * n + j];
}

void int8_mix_ref(int8_t *out, const struct int8_mix *m)
{
	for (uint64_t i = 0; i < m->rows; i++)
		for (uint64_t j = 0; j < m->n; j++)
			out[i * m->n + j] = int8_mixed(m->c[i * m->n + j], m->row_salt[i],
				m->column_salt[j]);
}
