/* outer.c - the functions of outer.h: what is per element is in kernels/grad/outer.h. */
#include "common/lm/rounds/outer.h"

#include "common/base/err.h"

#define MANY_ROUNDS 100 /* with fewer rounds momentum 0.9 does not pay off */

int outer_weights(double *w, const uint64_t *tokens, size_t k)
{
	double sum = 0;

	for (size_t i = 0; i < k; i++)
		sum += (double)tokens[i];
	if (!(sum > 0))
		return err_set(EX_DATAERR, "%s",
			k ? "there are no tokens behind the deltas" :
			    "there are no deltas");
	for (size_t i = 0; i < k; i++)
		w[i] = (double)tokens[i] / sum;
	return 0;
}

void outer_mean_begin(double *d, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		d[i] = 0;
}

/* The kernels of the level that RNP_ISA or the CPU chose. */
static const struct outer_kernels *kernels(void)
{
	static _Atomic(const struct outer_kernels *) chosen;
	const struct outer_kernels *k = chosen;
	enum cpu_level level;

	if (!k) {
		cpu_level_chosen(&level);
		chosen = k = outer_kernels(level);
	}
	return k;
}

void outer_mean_add(double *d, const float *delta, double w, uint64_t n)
{
	kernels()->sum(d, delta, w, n);
}

void outer_mean(float *theta, const double *d, uint64_t n)
{
	kernels()->mean(theta, d, n);
}

struct outer_nesterov outer_nesterov_defaults(uint64_t rounds)
{
	bool few = rounds && rounds < MANY_ROUNDS;

	return (struct outer_nesterov){ .rate = few ? 0.9 : 0.7,
		.momentum = few ? 0.6 : 0.9 };
}

void outer_nesterov(float *theta, float *v, const double *d, uint64_t n,
	const struct outer_nesterov *o)
{
	kernels()->nesterov(theta, v, d, o, n);
}

struct outer_dn_step outer_dn_arrive(struct outer_dn *o, uint32_t live)
{
	struct outer_dn_step s = { .rate = o->rate, .beta = o->beta, .c = o->c };

	if (!live)
		bug("a delta of nobody");
	if (!o->members) {
		o->members = live;
		o->arrived = 0;
	}
	s.members = o->members;
	s.closes = ++o->arrived == o->members;
	if (s.closes)
		o->members = o->arrived = 0;
	return s;
}

void outer_dn(float *theta, float *m, float *buffer, const float *g, uint64_t n,
	const struct outer_dn_step *s)
{
	kernels()->dn(theta, m, buffer, g, s, n);
}

uint64_t outer_dylu_steps(uint64_t steps, uint64_t speed, uint64_t fastest)
{
	unsigned __int128 product = (unsigned __int128)steps * speed;

	if (speed >= fastest)
		return steps ? steps : 1;
	steps = (uint64_t)(product / fastest);
	return steps ? steps : 1;
}

uint64_t outer_round_steps(uint64_t inner_steps, uint64_t warm, uint64_t done)
{
	uint64_t quarter, steps = inner_steps;

	if (done < warm) {
		quarter = (uint64_t)((unsigned __int128)done * 4 / warm);
		steps = (uint64_t)((unsigned __int128)inner_steps * (1u << quarter) / 10);
	}
	return steps ? steps : 1;
}

void outer_delta(float *delta, const float *began, const float *ended, uint64_t n)
{
	kernels()->delta(delta, began, ended, n);
}

void outer_feedback_add(float *e, const float *delta, double decay, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		e[i] = (float)(decay * (double)e[i] + (double)delta[i]);
}

void outer_feedback_sent(float *e, const float *sent, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		e[i] -= sent[i];
}

void outer_publish(float *published, const float *u, uint64_t n)
{
	kernels()->add(published, u, 1, n);
}

void outer_merge(float *theta, const float *published, double a, uint64_t n)
{
	kernels()->merge(theta, published, a, n);
}

static bool in_a_layer(enum lm_part part)
{
	return part != LM_EMBED && part != LM_OUT_NORM && part != LM_OUTPUT;
}

uint32_t outer_fragment(const struct lm_place *place, uint32_t fragments)
{
	return in_a_layer(place->part) ? place->layer % fragments : fragments - 1;
}

bool outer_fragment_due(uint32_t p, uint32_t fragments, uint64_t inner_steps,
	uint64_t steps)
{
	uint64_t due = (uint64_t)((unsigned __int128)p * inner_steps / fragments);

	return steps > 0 && inner_steps > 0 && steps % inner_steps == due;
}
