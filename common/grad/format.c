/* format.c - writes and reads the header of a container. */
#include "common/grad/format.h"

#include <math.h>
#include <sodium.h>
#include <string.h>

#include "common/base/err.h"

enum {
	FLAG_BF16 = 1,
	FLAG_SIGMA = 2,
	FLAG_STOCHASTIC = 4,
	FLAG_EACH = 8,
	FLAG_FEEDBACK = 16
};

void grad_put32(unsigned char *to, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		to[i] = (unsigned char)(v >> 8 * i);
}

void grad_put64(unsigned char *to, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		to[i] = (unsigned char)(v >> 8 * i);
}

uint32_t grad_get32(const unsigned char *from)
{
	uint32_t v = 0;

	for (int i = 3; i >= 0; i--)
		v = v << 8 | from[i];
	return v;
}

uint64_t grad_get64(const unsigned char *from)
{
	return grad_get32(from) | (uint64_t)grad_get32(from + 4) << 32;
}

static void put_float(unsigned char *to, float f)
{
	grad_put32(to, half_bits_of_float(f));
}

static float get_float(const unsigned char *from)
{
	return half_float_of_bits(grad_get32(from));
}

void grad_step_write(unsigned char out[GRAD_STEP_BYTES], const struct quant_step *s)
{
	put_float(out, s->step);
	put_float(out + 4, s->inverse);
	put_float(out + 8, s->rounding);
	put_float(out + 12, s->first);
	put_float(out + 16, s->shift);
}

int grad_step_read(struct quant_step *s, const unsigned char in[GRAD_STEP_BYTES])
{
	s->step = get_float(in);
	s->inverse = get_float(in + 4);
	s->rounding = get_float(in + 8);
	s->first = get_float(in + 12);
	s->shift = get_float(in + 16);
	if (s->step >= 0 && isfinite(s->step) && s->inverse >= 0 &&
		isfinite(s->inverse) && s->rounding >= 0 && s->rounding <= 0.5f &&
		isfinite(s->first) && isfinite(s->shift))
		return 0;
	return err_set(EX_DATAERR, "the step of its quantiser is no number");
}

size_t grad_header_write(unsigned char out[GRAD_HEADER_MAX], const struct grad *g,
	unsigned char check[GRAD_CHECK_BYTES])
{
	const struct quant *q = &g->q;
	size_t len = GRAD_HEADER_MIN - GRAD_CHECK_BYTES;

	memset(out, 0, GRAD_HEADER_MAX);
	memcpy(out, "RNPG", 4);
	out[4] = GRAD_VERSION;
	out[5] = (unsigned char)q->method;
	out[6] = (unsigned char)((g->bf16 ? FLAG_BF16 : 0) | (q->sigma ? FLAG_SIGMA : 0) |
		(q->stochastic ? FLAG_STOCHASTIC : 0) | (g->each ? FLAG_EACH : 0) |
		(g->feedback ? FLAG_FEEDBACK : 0));
	out[7] = (unsigned char)g->rank;
	grad_put64(out + 8, g->elements);
	grad_put32(out + 16, q->block);
	grad_put32(out + 20, q->levels);
	grad_put64(out + 24, q->seed);
	out[32] = (unsigned char)quant_log2(quant_chunk(q->method));
	put_float(out + 36, (float)g->error);
	put_float(out + 40, g->feedback ? g->carry : 0);
	grad_step_write(out + 44, &g->step);
	for (int i = 0; i < g->rank; i++, len += 8)
		grad_put64(out + len, g->dims[i]);
	crypto_generichash(check, GRAD_CHECK_BYTES, out, len, NULL, 0);
	memcpy(out + len, check, GRAD_CHECK_BYTES);
	return len + GRAD_CHECK_BYTES;
}

/* Checks the ranges of the header's numbers, after its checksum proved them intact. */
static int check_header(const struct grad *g, const unsigned char *in)
{
	uint64_t product = 1;

	if (!quant_valid(&g->q))
		return err_set(EX_DATAERR,
			"method %u with block %u and %u levels is none", in[5],
			g->q.block, g->q.levels);
	if (in[6] & ~31 || memcmp(in + 33, "\0\0", 3) != 0 ||
		in[32] != quant_log2(quant_chunk(g->q.method)))
		return err_set(EX_DATAERR,
			"its header has flags or a chunk of another kind");
	if (g->q.method == QUANT_ECQ ? !(g->error > 0 && g->error < 1) :
				       g->error != 0 || g->each)
		return err_set(EX_DATAERR, "the error in its header is none");
	if (!(g->carry >= 0 && g->carry <= 1))
		return err_set(EX_DATAERR, "its factor of error feedback is not 0 .. 1");
	for (int i = 0; i < g->rank; i++)
		if (__builtin_mul_overflow(product, g->dims[i], &product))
			return err_set(EX_DATAERR, "its shape is too large");
	if (g->rank && (product != g->elements || g->elements == GRAD_UNKNOWN))
		return err_set(EX_DATAERR, "its shape is not that of its elements");
	return 0;
}

int grad_header_read(struct grad *g, unsigned char check[GRAD_CHECK_BYTES],
	const unsigned char *in, size_t have, size_t *len)
{
	unsigned char want[GRAD_CHECK_BYTES];
	size_t body;

	*g = (struct grad){ 0 };
	if (have < 8 || memcmp(in, "RNPG", 4) != 0)
		return err_set(EX_DATAERR, "this is no gradient container");
	if (in[4] != GRAD_VERSION)
		return err_set(EX_DATAERR,
			"it is of version %u, and this program reads %u", in[4],
			GRAD_VERSION);
	if (in[5] >= QUANT_METHODS)
		return err_set(EX_DATAERR, "its method %u is not known here", in[5]);
	if (in[7] > GRAD_RANK_MAX)
		return err_set(EX_DATAERR, "its shape has %u dimensions", in[7]);
	body = GRAD_HEADER_MIN - GRAD_CHECK_BYTES + 8 * (size_t)in[7];
	if (have < body + GRAD_CHECK_BYTES)
		return err_set(EX_DATAERR, "it ends within its header");
	crypto_generichash(want, sizeof want, in, body, NULL, 0);
	if (memcmp(want, in + body, sizeof want) != 0)
		return err_set(EX_DATAERR, "the checksum of its header is wrong");
	memcpy(check, want, sizeof want);
	g->q = (struct quant){ .method = (enum quant_method)in[5],
		.sigma = in[6] & FLAG_SIGMA,
		.stochastic = in[6] & FLAG_STOCHASTIC,
		.block = grad_get32(in + 16),
		.levels = grad_get32(in + 20),
		.seed = grad_get64(in + 24) };
	g->bf16 = in[6] & FLAG_BF16;
	g->q.bf16 = g->bf16 && (in[5] == QUANT_NONE || in[5] == QUANT_LOSSLESS);
	g->each = in[6] & FLAG_EACH;
	g->feedback = in[6] & FLAG_FEEDBACK;
	g->rank = in[7];
	g->elements = grad_get64(in + 8);
	g->error = (double)get_float(in + 36);
	g->carry = get_float(in + 40);
	for (int i = 0; i < g->rank; i++)
		g->dims[i] = grad_get64(in + 64 + 8 * i);
	*len = body + GRAD_CHECK_BYTES;
	return check_header(g, in) < 0 || grad_step_read(&g->step, in + 44) < 0 ? -1 : 0;
}

uint64_t grad_payload_max(const struct grad *g, uint32_t n)
{
	uint64_t bytes = g->each ? GRAD_STEP_BYTES : 0;
	struct quant_layout l;

	quant_layout(&l, &g->q, n);
	for (int i = 0; i < l.planes; i++)
		bytes += l.plane[i].bytes +
			(l.plane[i].coded                   ? 4 :
					l.plane[i].variable ? 3 :
							      0);
	return bytes;
}
