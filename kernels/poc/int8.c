/* int8.c - reference of what the matmul test does to int8 matrices between products. */
#include "kernels/poc/int8.h"

void int8_balance_ref(int8_t *x, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		x[i] = x[i] == INT8_MIN ? 0 : x[i];
}

void int8_mix_ref(int8_t *out, const struct int8_mix *m)
{
	for (uint64_t i = 0; i < m->rows; i++)
		for (uint64_t j = 0; j < m->n; j++)
			out[i * m->n + j] = int8_mixed(m->c[i * m->n + j], m->row_salt[i],
				m->column_salt[j]);
}
