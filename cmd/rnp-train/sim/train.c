/* train.c - real training steps of simulated workers, and the outer step over their
 * containers. */
#include "cmd/rnp-train/sim/train.h"

#include <math.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/hw/device.h"
#include "common/lm/train/flat.h"

#define FRESH_WARMUP 50 /* warm-up steps of a joiner's AdamW */
#define NO_SEED      0x73696d75

static const char *const evils[] = { [SIM_HONEST] = "none",
	[SIM_FLIP] = "flip",
	[SIM_SCALE] = "scale",
	[SIM_RANDOM] = "random",
	[SIM_STALE] = "stale",
	[SIM_IDLE] = "idle",
	[SIM_COPY] = "copy" };

int sim_evil_parse(enum sim_evil *e, const char *name)
{
	for (size_t i = 0; i < sizeof evils / sizeof *evils; i++)
		if (strcmp(evils[i], name) == 0) {
			*e = (enum sim_evil)i;
			return 0;
		}
	return err_set(EX_USAGE,
		"'%.40s' is no hostile worker: flip, scale, random, stale, idle, copy",
		name);
}

/* --- opening -------------------------------------------------------------------------------- */

static float *zeros(uint64_t n)
{
	return xcalloc(n, sizeof(float));
}

static struct lm_train *trainer(const struct sim_train *t)
{
	return t->s.loop.train;
}

static int get(struct sim_train *t, enum lm_state what, float *to)
{
	return lm_flat_get(trainer(t), what, 0, t->count, to);
}

static int set(struct sim_train *t, enum lm_state what, const float *from)
{
	return lm_flat_set(trainer(t), what, 0, t->count, from);
}

/* Makes the loop's parameters the initial ones of all workers. */
static int take_start(struct sim_train *t)
{
	if (get(t, LM_STATE_PARAMETER, t->theta) < 0)
		return -1;
	memcpy(t->published, t->theta, t->count * sizeof *t->published);
	t->start_steps = t->s.loop.step;
	t->adamw_start = lm_train_steps(trainer(t));
	if (!t->adamw_start)
		return 0;
	if (!t->m0) {
		t->m0 = zeros(t->count);
		t->v0 = zeros(t->count);
	}
	return get(t, LM_STATE_M, t->m0) < 0 || get(t, LM_STATE_V, t->v0) < 0 ? -1 : 0;
}

int sim_train_open(struct sim_train *t, const struct session_options *s,
	const struct sim_train_options *o)
{
	*t = (struct sim_train){ .s = SESSION_INIT, .o = *o, .cpu = DEV_INIT };
	if (session_open(&t->s, s) < 0 || session_begin(&t->s) < 0 ||
		device_open(&t->cpu, "cpu") < 0)
		return -1;
	t->cpu_open = true;
	t->count = lm_flat_count(trainer(t));
	t->all = (struct update_range){ 0, t->count };
	t->theta = zeros(t->count);
	t->published = zeros(t->count);
	t->v = zeros(t->count);
	t->delta = zeros(t->count);
	if (o->update.rule == UPDATE_DN)
		t->buffer = zeros(t->count);
	if (o->update.aggregate.kind == AGGREGATE_CCLIP)
		t->last = zeros(t->count);
	t->states = xcalloc(o->workers, sizeof *t->states);
	return take_start(t);
}

void sim_train_close(struct sim_train *t)
{
	for (uint64_t i = 0; t->states && i < t->o.workers; i++) {
		free(t->states[i].m);
		free(t->states[i].v);
		free(t->states[i].e);
		buf_release(&t->states[i].delta[0]);
		buf_release(&t->states[i].delta[1]);
		buf_release(&t->states[i].first);
	}
	free(t->states);
	free(t->theta);
	free(t->published);
	free(t->v);
	free(t->buffer);
	free(t->last);
	free(t->m0);
	free(t->v0);
	free(t->delta);
	update_result_release(&t->result);
	if (t->cpu_open)
		dev_close(&t->cpu);
	session_release(&t->s);
}

int sim_train_start(struct sim_train *t, uint64_t steps)
{
	struct lm_loop *l = &t->s.loop;
	uint64_t batch = l->o.batch;

	l->o.batch = batch * t->o.workers;
	for (uint64_t i = 0; i < steps; i++) {
		struct lm_step step;

		if (session_step(&t->s, &step) < 0)
			return -1;
		t->loss = step.loss;
	}
	l->o.batch = batch;
	return take_start(t);
}

/* --- a worker's turn -------------------------------------------------------------------------- */

/* Restores a worker's AdamW: the run's initial state for workers of the first round, else zeros
 * and a warm-up of its own. */
static int load_state(struct sim_train *t, struct sim_state *w, uint64_t turn)
{
	struct lm_loop *l = &t->s.loop;
	float *m = w->m, *v = w->v;

	l->o.schedule.fresh_warmup = 0;
	if (!m) {
		w->m = zeros(t->count);
		w->v = zeros(t->count);
		m = turn || !t->m0 ? w->m : t->m0;
		v = turn || !t->m0 ? w->v : t->v0;
		w->adamw_steps = turn ? 0 : t->adamw_start;
		w->fresh = turn > 0;
	}
	if (w->fresh)
		l->o.schedule.fresh_warmup = t->o.inner_steps < FRESH_WARMUP ?
			t->o.inner_steps :
			FRESH_WARMUP;
	lm_train_set_steps(l->train, w->adamw_steps);
	return set(t, LM_STATE_M, m) < 0 || set(t, LM_STATE_V, v) < 0 ? -1 : 0;
}

static int save_state(struct sim_train *t, struct sim_state *w)
{
	w->adamw_steps = lm_train_steps(trainer(t));
	return get(t, LM_STATE_M, w->m) < 0 || get(t, LM_STATE_V, w->v) < 0 ? -1 : 0;
}

/* Steps on a range from the parameters that the loop holds; step: of the run. */
static int make_steps(struct sim_train *t, struct sim_state *w, uint64_t step,
	struct lm_range range, uint64_t steps)
{
	uint64_t tail = steps - steps / 10, counted = 0;
	struct lm_loop *l = &t->s.loop;

	l->step = step;
	lm_loop_take_back(l);
	lm_loop_give(l, range);
	w->loss = 0;
	for (uint64_t i = 0; i < steps; i++) {
		struct lm_step made;

		if (session_step(&t->s, &made) < 0)
			return -1;
		if (i >= tail || steps < 10) {
			w->loss += made.loss;
			counted++;
		}
	}
	w->loss /= (double)counted;
	return save_state(t, w);
}

static int train(struct sim_train *t, struct sim_state *w,
	const struct round_assignment *a)
{
	struct lm_range range = { a->range.first, a->range.count };

	if (set(t, LM_STATE_PARAMETER, t->published) < 0 ||
		load_state(t, w, a->turn) < 0 ||
		make_steps(t, w, t->start_steps + t->round_steps, range, a->steps) < 0 ||
		get(t, LM_STATE_PARAMETER, t->delta) < 0)
		return -1;
	outer_delta(t->delta, t->published, t->delta, t->count);
	return 0;
}

int sim_train_steps(struct sim_train *t, uint64_t worker, uint64_t done,
	struct lm_range range, uint64_t steps, float *theta)
{
	struct sim_state *w = &t->states[worker];

	if (set(t, LM_STATE_PARAMETER, theta) < 0 || load_state(t, w, 0) < 0 ||
		make_steps(t, w, t->start_steps + done, range, steps) < 0)
		return -1;
	return get(t, LM_STATE_PARAMETER, theta);
}

static double norm_of(const float *x, uint64_t n)
{
	double sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum += (double)x[i] * (double)x[i];
	return sqrt(sum);
}

static void add_noise(float *x, uint64_t n, double scale, uint64_t seed, uint64_t stream)
{
	struct rng rng;

	rng_seed(&rng, seed, stream);
	for (uint64_t i = 0; i < n; i++)
		x[i] += (float)(scale * (2 * rng_f64(&rng) - 1));
}

/* Turns an honest delta into a hostile one. */
static int spoil(struct sim_train *t, uint64_t worker, uint64_t turn)
{
	double norm = norm_of(t->delta, t->count), each = norm / sqrt((double)t->count);
	uint64_t stream = worker * 100003 + turn;

	switch (t->o.evil) {
	case SIM_FLIP:
		for (uint64_t i = 0; i < t->count; i++)
			t->delta[i] = -t->delta[i];
		break;
	case SIM_SCALE:
		for (uint64_t i = 0; i < t->count; i++)
			t->delta[i] *= 100;
		break;
	case SIM_RANDOM:
	case SIM_IDLE:
		memset(t->delta, 0, t->count * sizeof *t->delta);
		add_noise(t->delta, t->count,
			t->o.evil == SIM_IDLE ? 1e-3 * each : sqrt(3) * each, t->o.seed,
			stream);
		break;
	case SIM_COPY:
		if (t->states[0].delta[turn % 2].len &&
			grad_decode(&t->cpu, NULL, t->states[0].delta[turn % 2].data,
				t->states[0].delta[turn % 2].len, t->delta, t->count,
				false) < 0)
			return -1;
		add_noise(t->delta, t->count, 0.05 * each, t->o.seed, stream);
		break;
	default:
		break;
	}
	return 0;
}

static bool is_evil(const struct sim_train *t, uint64_t worker)
{
	return worker >= t->o.workers - t->o.n_evil;
}

/* Lossy containers leave an error, which is added to the next delta. */
static int encode(struct sim_train *t, struct sim_state *w, struct buf *to, bool evil)
{
	struct grad g = t->o.method;
	bool lossy = g.q.method != QUANT_NONE && g.q.method != QUANT_LOSSLESS;

	g.elements = t->count;
	if (lossy && !w->e && !evil)
		w->e = zeros(t->count);
	buf_reset(to);
	return grad_encode(&t->cpu, &g, t->delta, lossy && !evil ? w->e : NULL, to, NULL);
}

int64_t sim_train_work(void *arg, uint64_t worker, const struct round_assignment *a)
{
	struct sim_train *t = arg;
	struct sim_state *w = &t->states[worker];
	struct buf *to = &w->delta[a->turn % 2];
	bool evil = is_evil(t, worker);

	if (evil && t->o.evil == SIM_STALE && w->first.len) {
		buf_reset(to);
		buf_add(to, w->first.data, w->first.len);
		return (int64_t)to->len;
	}
	if (train(t, w, a) < 0 || (evil && spoil(t, worker, a->turn) < 0) ||
		encode(t, w, to, evil) < 0)
		return -1;
	if (evil && !w->first.len)
		buf_add(&w->first, to->data, to->len);
	return (int64_t)to->len;
}

/* --- judging ---------------------------------------------------------------------------------- */

struct text {
	struct sim_train *t;
};

static int read_text(void *arg, uint64_t n, uint32_t *ids)
{
	struct session *s = &((struct text *)arg)->t->s;

	return lm_shards_get(&s->data, shuffle_at(&s->shuffle, n),
		(uint64_t)s->o.length + 1, ids);
}

enum { WINDOWS = 8 };

/* Draws windows of a member's range, and of sequences far beyond all that was assigned. */
static int judge_one(struct sim_train *t, const struct round *r,
	const struct round_delta *d, const struct sim_state *w, struct judge_losses *out)
{
	uint64_t own[WINDOWS], other[WINDOWS];
	const struct buf *sent = &w->delta[d->turn % 2];
	struct text text = { t };
	struct judge_windows windows = { read_text, &text, own, other, WINDOWS, WINDOWS,
		t->o.seed };

	for (uint64_t i = 0; i < WINDOWS; i++) {
		own[i] = d->range.first + i * d->range.count / WINDOWS;
		other[i] = round_fresh(r) + (r->number % 16 + 1) * 100000 + i;
	}
	if (grad_decode(&t->cpu, NULL, sent->data, sent->len, t->delta, t->count, false) <
			0 ||
		set(t, LM_STATE_PARAMETER, t->published) < 0)
		return -1;
	return judge_measure(&t->s.loop, t->published, t->delta, &windows, out);
}

/* Verifies some of the deltas; those that fail are refused. */
static int judge(struct sim_train *t, struct round *r, const uint64_t *worker_of)
{
	size_t n = r->ndeltas, k = 0;
	bool *chosen = xcalloc(n + 1, sizeof *chosen);
	struct judge_losses *losses = xcalloc(n + 1, sizeof *losses);
	enum judge_verdict *verdicts = xcalloc(n + 1, sizeof *verdicts);
	int rc = 0;

	judge_draw(chosen, n, t->o.judge, t->o.seed * 7919 + r->number);
	for (size_t i = 0; rc == 0 && i < n; i++)
		if (chosen[i])
			rc = judge_one(t, r, &r->deltas[i],
				&t->states[worker_of[r->deltas[i].member]], &losses[k++]);
	judge_decide(verdicts, losses, k);
	k = 0;
	for (size_t i = 0; rc == 0 && i < n; i++) {
		struct sim_state *w = &t->states[worker_of[r->deltas[i].member]];

		if (chosen[i])
			w->score_ppm = judge_score(w->score_ppm, verdicts[k]);
		if ((chosen[i] && verdicts[k] != JUDGE_GOOD) ||
			w->score_ppm < t->o.score_min_ppm)
			t->refused += round_refuse(r, r->deltas[i].member,
				r->deltas[i].turn);
		k += chosen[i];
	}
	free(chosen);
	free(losses);
	free(verdicts);
	return rc;
}

/* --- the outer step --------------------------------------------------------------------------- */

static void hash_model(struct sim_train *t)
{
	crypto_generichash(t->model, sizeof t->model, (const unsigned char *)t->published,
		t->count * sizeof *t->published, NULL, 0);
}

static int drop(void *ctx, const void *data, size_t len)
{
	(void)ctx, (void)data, (void)len;
	return 0;
}

static size_t list_deltas(struct sim_train *t, const struct round *r,
	const uint64_t *worker_of, struct update_delta *list)
{
	size_t k = 0;

	t->loss = 0;
	for (size_t i = 0; i < r->ndeltas; i++) {
		const struct round_delta *d = &r->deltas[i];
		struct sim_state *w = &t->states[worker_of[d->member]];

		if (d->refused)
			continue;
		t->loss += w->loss;
		list[k++] = (struct update_delta){ grad_read_buf, &w->delta[d->turn % 2],
			w->delta[d->turn % 2].len, d->weight_tokens };
	}
	t->loss /= (double)(k ? k : 1);
	return k;
}

/* Adds the part of a fragment that its last container left out to the same place of e. */
static void move_rest(float *e, float *some, const struct update_range *ranges, size_t n,
	bool out)
{
	for (size_t r = 0; r < n; some += ranges[r++].count)
		memcpy(out ? some : e + ranges[r].first, out ? e + ranges[r].first : some,
			ranges[r].count * sizeof *e);
}

int sim_train_encode(struct sim_train *t, uint64_t worker,
	const struct update_range *ranges, size_t nranges, uint64_t n, struct buf *out)
{
	struct sim_state *w = &t->states[worker];
	struct grad g = t->o.method;
	bool lossy = g.q.method != QUANT_NONE && g.q.method != QUANT_LOSSLESS;
	float *rest = lossy ? zeros(n) : NULL;
	int rc;

	g.elements = n;
	if (lossy && !w->e)
		w->e = zeros(t->count);
	if (lossy)
		move_rest(w->e, rest, ranges, nranges, true);
	buf_reset(out);
	rc = grad_encode(&t->cpu, &g, t->delta, rest, out, NULL);
	if (lossy)
		move_rest(w->e, rest, ranges, nranges, false);
	free(rest);
	return rc;
}

int64_t sim_train_step_fragment(struct sim_train *t, const struct buf *deltas,
	const struct update_range *ranges, size_t nranges)
{
	struct update_arrays a = { t->theta, t->published, t->v, t->buffer, t->last,
		ranges, nranges };
	struct update_delta list[SIM_WORKERS_MAX];
	int rc;

	t->loss = 0;
	for (uint64_t i = 0; i < t->o.workers; i++) {
		list[i] = (struct update_delta){ grad_read_buf,
			(void *)(uintptr_t)&deltas[i], deltas[i].len, 1 };
		t->loss += t->states[i].loss / (double)t->o.workers;
	}
	update_result_release(&t->result);
	rc = update_make(&t->cpu, &t->o.update, &t->o.dn, &a, list, t->o.workers, drop,
		NULL, &t->result);
	hash_model(t);
	return rc < 0 ? -1 : (int64_t)t->result.bytes;
}

int64_t sim_train_update(void *arg, struct round *r, const uint64_t *worker_of)
{
	struct sim_train *t = arg;
	struct update_arrays a = { t->theta, t->published, t->v, t->buffer, t->last,
		&t->all, 1 };
	struct update_options o = t->o.update;
	struct update_delta *list;
	size_t k;
	int rc = 0;

	t->refused = t->copied = 0;
	if (t->o.judge && judge(t, r, worker_of) < 0)
		return -1;
	list = xcalloc(r->ndeltas + 1, sizeof *list);
	k = list_deltas(t, r, worker_of, list);
	o.live = (uint32_t)(r->here ? r->here : 1);
	o.copies_seed = t->o.seed ^ NO_SEED ^ r->number;
	update_result_release(&t->result);
	if (k) /* otherwise all were refused and nothing changes */
		rc = update_make(&t->cpu, &o, &t->o.dn, &a, list, k, drop, NULL,
			&t->result);
	for (size_t i = 0; rc == 0 && i < k; i++)
		t->copied += t->result.copied[i];
	free(list);
	t->round_steps += r->policy.steps;
	hash_model(t);
	return rc < 0 ? -1 : (int64_t)t->result.bytes;
}

int sim_train_eval(struct sim_train *t, double *loss)
{
	return set(t, LM_STATE_PARAMETER, t->published) < 0 ? -1 :
							      session_eval(&t->s, loss);
}
