/* outer.h - the outer optimisers of training over a network: how a coordinator applies the
 * deltas of its workers, and how a worker applies the update that comes back. Pure: values in,
 * values out, element by element, so that callers may process parameters in chunks of any size
 * with the same bits. The arithmetic is that of kernels/grad/outer.h, which devices have as
 * operations, too: these functions are for arrays in host memory, on the calling thread.
 *
 * A delta is a worker's initial parameters minus its final ones: steps subtract it. Arrays are
 * f32; each formula is evaluated in f64 and rounded once per array. n: elements. Arrays of one
 * call do not overlap. */
#ifndef RNP_COMMON_LM_ROUNDS_OUTER_H
#define RNP_COMMON_LM_ROUNDS_OUTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/lm/model/layout.h"
#include "kernels/grad/outer.h"

/* --- the deltas of a round ------------------------------------------------------------------ */

/* w[i] = tokens[i] / the sum of all k. Returns 0, or -1 with err_set(EX_DATAERR): there are no
 * deltas, or they stand for no tokens. */
int outer_weights(double *w, const uint64_t *tokens, size_t k);

/* d = 0; then d += w delta for each delta, in an order that is the same wherever the round is
 * computed. */
void outer_mean_begin(double *d, uint64_t n);
void outer_mean_add(double *d, const float *delta, double w, uint64_t n);

/* --- steps ---------------------------------------------------------------------------------- */

/* theta <- theta - d, for mean, and for sparse with d the sum of what the workers sent. */
void outer_mean(float *theta, const double *d, uint64_t n);

/* Returns rate and momentum for a run of that number of rounds: 0.7 and 0.9 from 100 rounds on,
 * 0.9 and 0.6 for fewer (0: no end is known, as for many). */
struct outer_nesterov outer_nesterov_defaults(uint64_t rounds);

/* v <- m v + d ;  theta <- theta - e (d + m v). v begins with zeros. */
void outer_nesterov(float *theta, float *v, const double *d, uint64_t n,
	const struct outer_nesterov *o);

/* Delayed Nesterov applies deltas as they arrive; the momentum is updated once per buffer of N
 * deltas. */
struct outer_dn {
	double rate, beta, c; /* beta 0.9, c 0 */
	uint32_t members;     /* N of the open buffer; 0: none is open */
	uint32_t arrived;     /* deltas in the open buffer */
};

/* Counts a delta. live: members now, at least 1; the value at the first delta of a buffer is
 * its N. */
struct outer_dn_step outer_dn_arrive(struct outer_dn *o, uint32_t live);

/* D <- D + g. If the buffer closes: m <- b m + D/N ; theta <- theta - e ((1 - cN + c) b m +
 * g/N) ; D <- 0. Else: theta <- theta - e (c b m + g/N). m and D (buffer) begin as zeros. */
void outer_dn(float *theta, float *m, float *buffer, const float *g, uint64_t n,
	const struct outer_dn_step *s);

/* Dynamic local updates: returns the inner steps of a worker of some speed if the fastest makes
 * `steps`: floor(speed / fastest steps), at least 1. Speeds are above 0, in the same unit. */
uint64_t outer_dylu_steps(uint64_t steps, uint64_t speed, uint64_t fastest);

/* Inner steps of the round that begins after `done` of them, H a round: the first `warm` steps of
 * a run that starts cold come in four quarters of H/10, H/5, 2H/5 and 4H/5 a round. At least 1. */
uint64_t outer_round_steps(uint64_t inner_steps, uint64_t warm, uint64_t done);

/* --- on the worker -------------------------------------------------------------------------- */

/* delta = began - ended. */
void outer_delta(float *delta, const float *began, const float *ended, uint64_t n);

/* Error feedback before lossy compression: e <- decay e + delta, of which Q(e) is sent (decay
 * 0.95 for topk, else 1). */
void outer_feedback_add(float *e, const float *delta, double decay, uint64_t n);
/* Error feedback after compression: e <- e - sent. */
void outer_feedback_sent(float *e, const float *sent, uint64_t n);

/* Applies an update to the published parameters, as every worker does: published <- published +
 * u. */
void outer_publish(float *published, const float *u, uint64_t n);

/* Mixes a worker's current parameters with the published ones: theta <- a theta + (1 - a)
 * published. a = 0 gives published, bit for bit. */
void outer_merge(float *theta, const float *published, double a, uint64_t n);

/* Returns the fragment, of P >= 1, that holds a tensor: layer l is in l mod P, tensors outside
 * the layers in the last. */
uint32_t outer_fragment(const struct lm_place *place, uint32_t fragments);

/* Whether fragment p of P is due after some number of inner steps, with H steps per round:
 * steps mod H equals p H / P rounded down (0: after H). */
bool outer_fragment_due(uint32_t p, uint32_t fragments, uint64_t inner_steps,
	uint64_t steps);

#endif
