/* stream.c - the steps, exchanges and merges of streaming workers, in lockstep. */
#include "cmd/rnp-train/sim/stream.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/lm/train/flat.h"

/* A worker's parameters between its steps, and what its next deltas are measured from. */
struct streamer {
	float *theta, *base;
};

struct stream {
	struct sim_train *t;
	const struct sim_stream_options *o;
	const struct sim_options *links;
	struct streamer *workers;
	struct update_range **ranges; /* [fragments] */
	size_t *nranges;
	struct buf *deltas; /* [workers] */
	double *arrives; /* [fragments] when the update of the last exchange is there, ms */
	uint64_t done;   /* steps */
	double now_ms, stalled_ms;
	uint64_t received, sent;
};

static uint64_t workers(const struct stream *s)
{
	return s->t->o.workers;
}

static int open_stream(struct stream *s)
{
	struct sim_train *t = s->t;
	const struct lm_config *c = lm_train_config(t->s.loop.train);
	uint32_t fragments = s->o->fragments;

	if (fragments > c->layers || fragments > s->o->inner_steps ||
		s->o->overlap >= s->o->inner_steps / fragments)
		return err_set(EX_USAGE,
			"%" PRIu32 " fragments and an overlap of %" PRIu64
			" do not go into %" PRIu32 " layers and rounds of %" PRIu64
			" steps",
			fragments, s->o->overlap, c->layers, s->o->inner_steps);
	s->ranges = xcalloc(fragments, sizeof *s->ranges);
	s->nranges = xcalloc(fragments, sizeof *s->nranges);
	s->arrives = xcalloc(fragments, sizeof *s->arrives);
	for (uint32_t p = 0; p < fragments; p++)
		s->nranges[p] = update_fragment(c, p, fragments, &s->ranges[p]);
	s->workers = xcalloc(workers(s), sizeof *s->workers);
	s->deltas = xcalloc(workers(s), sizeof *s->deltas);
	for (uint64_t i = 0; i < workers(s); i++) {
		s->workers[i].theta = xmalloc(t->count * sizeof(float));
		s->workers[i].base = xmalloc(t->count * sizeof(float));
		memcpy(s->workers[i].theta, t->published, t->count * sizeof(float));
		memcpy(s->workers[i].base, t->published, t->count * sizeof(float));
	}
	return 0;
}

static void close_stream(struct stream *s)
{
	for (uint32_t p = 0; s->ranges && p < s->o->fragments; p++)
		free(s->ranges[p]);
	for (uint64_t i = 0; s->workers && i < workers(s); i++) {
		free(s->workers[i].theta);
		free(s->workers[i].base);
		buf_release(&s->deltas[i]);
	}
	free(s->ranges);
	free(s->nranges);
	free(s->arrives);
	free(s->workers);
	free(s->deltas);
}

/* --- steps -------------------------------------------------------------------------------- */

/* Sequences of a worker from its step `from` of this round on. */
static struct lm_range range_of(const struct stream *s, uint64_t worker, uint64_t from,
	uint64_t steps)
{
	uint64_t batch = s->t->s.loop.o.batch, round = s->done / s->o->inner_steps;
	uint64_t first = (round * workers(s) + worker) * s->o->inner_steps + from;

	return (struct lm_range){ s->o->first_sequence + first * batch, steps * batch };
}

/* All workers make that number of steps. */
static int make_steps(struct stream *s, uint64_t steps)
{
	uint64_t from = s->done % s->o->inner_steps;
	double slowest = 0;

	for (uint64_t i = 0; i < workers(s); i++) {
		const struct sim_link *l = sim_link_of(s->links, i);
		double ms = (double)(steps * s->t->s.loop.o.batch) *
			(double)s->links->policy.length * 1000 / (double)l->tokens_per_s;

		slowest = fmax(slowest, ms);
		if (sim_train_steps(s->t, i, s->done, range_of(s, i, from, steps), steps,
			    s->workers[i].theta) < 0)
			return -1;
	}
	s->now_ms += slowest;
	s->done += steps;
	return 0;
}

/* --- exchanges ---------------------------------------------------------------------------- */

/* delta = base - theta of a fragment, one range after the other. */
static uint64_t measure(struct stream *s, uint64_t worker, uint32_t p)
{
	struct streamer *w = &s->workers[worker];
	uint64_t n = 0;

	for (size_t r = 0; r < s->nranges[p]; r++) {
		const struct update_range *range = &s->ranges[p][r];

		outer_delta(s->t->delta + n, w->base + range->first,
			w->theta + range->first, range->count);
		n += range->count;
	}
	return n;
}

/* Every worker sends fragment p, and the coordinator makes its step: the update is there later. */
static int exchange(struct stream *s, uint32_t p)
{
	struct sim_train *t = s->t;
	double slowest = 0;
	int64_t update;

	for (uint64_t i = 0; i < workers(s); i++)
		if (sim_train_encode(t, i, s->ranges[p], s->nranges[p], measure(s, i, p),
			    &s->deltas[i]) < 0)
			return -1;
	update = sim_train_step_fragment(t, s->deltas, s->ranges[p], s->nranges[p]);
	if (update < 0)
		return -1;
	for (uint64_t i = 0; i < workers(s); i++) {
		const struct sim_link *l = sim_link_of(s->links, i);
		double up = (double)s->deltas[i].len * 8000 / sim_bps(l, l->up_bps);
		double down = (double)update * 8000 / sim_bps(l, l->down_bps);

		/* it is kept before it is sent, and steps go on meanwhile */
		slowest = fmax(slowest,
			up + down + 4 * (double)l->latency_ms + (double)l->turn_ms);
		s->received += s->deltas[i].len;
		s->sent += (uint64_t)update;
	}
	s->arrives[p] = s->now_ms + slowest + s->links->update_ns / 1e6;
	return 0;
}

/* theta_p <- a theta_p + (1 - a) pub_p : what the next delta is measured from. Waits for the update
 * where it is not there yet. */
static void merge(struct stream *s, uint32_t p)
{
	double wait = fmax(0, s->arrives[p] - s->now_ms);

	s->stalled_ms += wait;
	s->now_ms += wait;
	for (uint64_t i = 0; i < workers(s); i++)
		for (size_t r = 0; r < s->nranges[p]; r++) {
			uint64_t at = s->ranges[p][r].first, n = s->ranges[p][r].count;

			outer_merge(s->workers[i].theta + at, s->t->published + at,
				s->o->keep, n);
			memcpy(s->workers[i].base + at, s->workers[i].theta + at,
				n * sizeof(float));
		}
}

static bool due(const struct stream *s, uint32_t p, uint64_t behind)
{
	return s->done > behind &&
		outer_fragment_due(p, s->o->fragments, s->o->inner_steps,
			s->done - behind);
}

/* Steps until something is due: a fragment's exchange or its merge. */
static uint64_t until_due(const struct stream *s)
{
	struct stream later = *s;

	for (later.done = s->done + 1;; later.done++)
		for (uint32_t p = 0; p < s->o->fragments; p++)
			if (due(&later, p, 0) || due(&later, p, s->o->overlap))
				return later.done - s->done;
}

static int go_on(struct stream *s)
{
	uint64_t left = s->o->inner_steps - s->done % s->o->inner_steps;
	uint64_t steps = until_due(s);

	if (make_steps(s, steps < left ? steps : left) < 0)
		return -1;
	for (uint32_t p = 0; p < s->o->fragments; p++)
		if (due(s, p, 0) && exchange(s, p) < 0)
			return -1;
	for (uint32_t p = 0; p < s->o->fragments; p++)
		if (due(s, p, s->o->overlap))
			merge(s, p);
	return 0;
}

/* --- all of it ------------------------------------------------------------------------------ */

static struct sim_round describe(const struct stream *s, const struct round *r,
	double from)
{
	double ms = s->now_ms - from;

	return (struct sim_round){ .r = r,
		.from = (int64_t)from,
		.to = (int64_t)s->now_ms,
		.workers = workers(s),
		.tokens = workers(s) * s->o->inner_steps * s->links->policy.batch *
			s->links->policy.length,
		.received = s->received,
		.sent = s->sent,
		.compute_ppm = ms > 0 ? llround(1e6 * (ms - s->stalled_ms) / ms) : 0 };
}

int sim_stream(struct sim_train *t, const struct sim_stream_options *o,
	const struct sim_options *links,
	int (*report)(void *arg, const struct sim_round *s, bool *end), void *arg,
	struct sim_totals *out)
{
	struct stream s = { .t = t, .o = o, .links = links };
	int rc = open_stream(&s);

	*out = (struct sim_totals){ .joins = t->o.workers };
	for (uint64_t n = 0; rc == 0 && n < o->rounds; n++) {
		double from = s.now_ms, stalled = s.stalled_ms;
		struct round r = { .number = n };
		struct sim_round d;
		bool end;

		s.received = s.sent = 0;
		s.stalled_ms = 0;
		while (rc == 0 && s.done < (n + 1) * o->inner_steps)
			rc = go_on(&s);
		if (rc < 0)
			break;
		d = describe(&s, &r, from);
		out->rounds++;
		out->tokens += d.tokens;
		out->received += d.received;
		out->sent += d.sent;
		out->compute_ms += (double)workers(&s) * (s.now_ms - from - s.stalled_ms);
		s.stalled_ms += stalled;
		rc = report(arg, &d, &end);
	}
	out->ms = (int64_t)s.now_ms;
	out->present_ms = (double)t->o.workers * s.now_ms;
	close_stream(&s);
	return rc;
}
