/* train.c - gradients of every kind of parameter are those of finite differences of a
 * model in f64 that shares no code with ours; steps are AdamW's; accumulation, recomputation
 * and hooks change nothing; refusals. (long because the model in f64 stands beside its
 * gradients) */
#include "common/lm/train/flat.h"
#include "common/lm/rounds/outer.h"
#include "common/lm/train/train.h"

#include <math.h>
#include <stdlib.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "tests/unit/test.h"

enum { VOCAB = 37, DIM = 24, HIDDEN = 40, LAYERS = 2, HEAD = 8, BATCH = 2, LENGTH = 11 };
enum { ROWS = BATCH * LENGTH, WIDTH_MAX = 128 };

/* --- a model in f64, written for this test ------------------------------------------------ */

struct model {
	struct lm_config c;
	double **w; /* by index of the layout */
};

static double *part(const struct model *m, enum lm_part p, uint32_t layer)
{
	int64_t i = lm_layout_index(&m->c, p, layer);

	return i < 0 ? NULL : m->w[i];
}

static void times(double *y, const double *x, const double *w, const double *bias,
	uint32_t outputs, uint32_t inputs)
{
	for (uint32_t o = 0; o < outputs; o++) {
		y[o] = bias ? bias[o] : 0;
		for (uint32_t i = 0; i < inputs; i++)
			y[o] += w[o * inputs + i] * x[i];
	}
}

static void rms_norm(double *y, const double *x, const double *w, double eps)
{
	double sum = 0;

	for (int i = 0; i < DIM; i++)
		sum += x[i] * x[i];
	for (int i = 0; i < DIM; i++)
		y[i] = x[i] / sqrt(sum / DIM + eps) * w[i];
}

/* The angle of pair i at a position, from the text of each kind's description. */
static double angle(const struct lm_rope *r, int i, int position)
{
	double base = r->base, f;

	if (r->kind == LM_ROPE_NTK && LENGTH > r->original_context)
		base *= pow(r->factor * LENGTH / r->original_context - (r->factor - 1),
			HEAD / (HEAD - 2.0));
	f = 1 / pow(base, 2.0 * i / HEAD);
	if (r->kind == LM_ROPE_LINEAR)
		f /= r->factor;
	if (r->kind == LM_ROPE_LLAMA3) {
		double turns = r->original_context * f / (2 * acos(-1.0));
		double smooth = (turns - r->low_freq_factor) /
			(r->high_freq_factor - r->low_freq_factor);

		smooth = smooth < 0 ? 0 : smooth > 1 ? 1 : smooth;
		f = smooth * f + (1 - smooth) * f / r->factor;
	}
	return position * f;
}

static void turn(double *head, const struct lm_rope *r, int position)
{
	for (int i = 0; i < HEAD / 2; i++) {
		double *a = head + (r->interleaved ? 2 * i : i);
		double *b = head + (r->interleaved ? 2 * i + 1 : i + HEAD / 2);
		double x = *a, y = *b, t = angle(r, i, position);

		*a = x * cos(t) - y * sin(t);
		*b = x * sin(t) + y * cos(t);
	}
}

/* One layer on the rows of one sequence, in place. */
static void layer(const struct model *m, uint32_t l, double x[LENGTH][DIM])
{
	const struct lm_config *c = &m->c;
	double q[LENGTH][WIDTH_MAX], k[LENGTH][WIDTH_MAX], v[LENGTH][WIDTH_MAX];
	uint32_t nq = c->heads * HEAD, nkv = c->kv_heads * HEAD;
	double h[DIM], out[WIDTH_MAX], gate[HIDDEN], up[HIDDEN];

	for (int t = 0; t < LENGTH; t++) {
		rms_norm(h, x[t], part(m, LM_ATTN_NORM, l), c->rms_eps);
		times(q[t], h, part(m, LM_Q, l), part(m, LM_Q_BIAS, l), nq, DIM);
		times(k[t], h, part(m, LM_K, l), part(m, LM_K_BIAS, l), nkv, DIM);
		times(v[t], h, part(m, LM_V, l), part(m, LM_V_BIAS, l), nkv, DIM);
		for (uint32_t n = 0; n < c->heads; n++)
			turn(q[t] + n * HEAD, &c->rope, t);
		for (uint32_t n = 0; n < c->kv_heads; n++)
			turn(k[t] + n * HEAD, &c->rope, t);
	}
	for (int t = 0; t < LENGTH; t++) {
		for (uint32_t n = 0; n < c->heads; n++) {
			uint32_t at = n * HEAD, kv = n / (c->heads / c->kv_heads) * HEAD;
			int first = c->window && t >= (int)c->window ?
				t - (int)c->window + 1 :
				0;
			double p[LENGTH], sum = 0;

			for (int j = first; j <= t; j++) {
				p[j] = 0;
				for (int i = 0; i < HEAD; i++)
					p[j] += q[t][at + i] * k[j][kv + i];
				p[j] = exp(p[j] / sqrt(HEAD));
				sum += p[j];
			}
			for (int i = 0; i < HEAD; i++) {
				out[at + i] = 0;
				for (int j = first; j <= t; j++)
					out[at + i] += p[j] / sum * v[j][kv + i];
			}
		}
		times(h, out, part(m, LM_O, l), NULL, DIM, nq);
		for (int i = 0; i < DIM; i++)
			x[t][i] += h[i];
		rms_norm(h, x[t], part(m, LM_FFN_NORM, l), c->rms_eps);
		times(gate, h, part(m, LM_GATE, l), NULL, HIDDEN, DIM);
		times(up, h, part(m, LM_UP, l), NULL, HIDDEN, DIM);
		for (int i = 0; i < HIDDEN; i++)
			up[i] *= gate[i] / (1 + exp(-gate[i]));
		times(h, up, part(m, LM_DOWN, l), NULL, DIM, HIDDEN);
		for (int i = 0; i < DIM; i++)
			x[t][i] += h[i];
	}
}

/* Sum of the losses; *counted targets. */
static double model_loss(const struct model *m, const uint32_t *tokens,
	const uint32_t *targets, int *counted)
{
	const double *out = part(m, m->c.tied ? LM_EMBED : LM_OUTPUT, 0);
	double loss = 0;

	*counted = 0;
	for (int b = 0; b < BATCH; b++) {
		double x[LENGTH][DIM], h[DIM], logits[VOCAB];

		for (int t = 0; t < LENGTH; t++)
			memcpy(x[t], part(m, LM_EMBED, 0) + tokens[b * LENGTH + t] * DIM,
				sizeof x[t]);
		for (uint32_t l = 0; l < LAYERS; l++)
			layer(m, l, x);
		for (int t = 0; t < LENGTH; t++) {
			uint32_t target = targets[b * LENGTH + t];
			double sum = 0;

			if (target == LM_NO_TARGET)
				continue;
			rms_norm(h, x[t], part(m, LM_OUT_NORM, 0), m->c.rms_eps);
			times(logits, h, out, NULL, VOCAB, DIM);
			for (int i = 0; i < VOCAB; i++)
				sum += exp(logits[i]);
			loss += log(sum) - logits[target];
			++*counted;
		}
	}
	return loss;
}

/* --- gradients against differences -------------------------------------------------------- */

static struct lm_config config(uint32_t heads, uint32_t kv_heads)
{
	return (struct lm_config){ .vocab = VOCAB,
		.dim = DIM,
		.hidden = HIDDEN,
		.layers = LAYERS,
		.heads = heads,
		.kv_heads = kv_heads,
		.head_dim = HEAD,
		.context = LENGTH,
		.rms_eps = 1e-5,
		.rope = { .kind = LM_ROPE_PLAIN, .base = 100, .factor = 1 },
		.bos = -1 };
}

static void batch(uint32_t *tokens, uint32_t *targets, uint64_t seed)
{
	struct rng r;

	rng_seed(&r, seed, 1);
	for (int i = 0; i < ROWS; i++) {
		tokens[i] = (uint32_t)rng_below(&r, VOCAB);
		targets[i] = (uint32_t)rng_below(&r, VOCAB);
	}
	targets[3] = LM_NO_TARGET;
}

static struct lm_train *must_open(struct dev *d, const struct lm_train_options *o)
{
	struct lm_train *t = NULL;

	CHECK(lm_train_open(&t, d, o) == 0);
	if (!t)
		exit(1);
	return t;
}

/* The results of the model in f64, which every device is compared with. */
struct truth {
	struct model m; /* of an adapter: what it makes of the frozen matrices */
	struct lm_lora lora;
	double **base;  /* of an adapter: the frozen model; by index of the layout */
	double **learn; /* by index of what learns */
	uint32_t tokens[ROWS], targets[ROWS];
	double loss; /* sum */
	int counted;
	double **slope; /* NAN: not taken */
};

/* Random numbers, larger than init's, so that nothing is nearly linear; as f32 has them. */
static double *numbers(struct rng *r, const struct lm_place *p, double offset)
{
	double *w = xcalloc(p->count, sizeof *w);

	for (uint64_t k = 0; k < p->count; k++)
		w[k] = (double)(float)((rng_f64(r) - 0.5) * 0.8 + offset);
	return w;
}

/* W + scale B A of the matrix that tensor i of an adapter belongs to. */
static void adapt(struct truth *w, uint32_t i)
{
	const struct lm_config *c = &w->m.c;
	uint32_t half = lm_learned_count(c, &w->lora) / 2, at;
	const double *a = w->learn[i % half], *b = w->learn[i % half + half];
	struct lm_learned down, up;

	lm_learned_at(c, &w->lora, i % half, &down);
	lm_learned_at(c, &w->lora, i % half + half, &up);
	at = (uint32_t)lm_layout_index(c, up.place.part, up.place.layer);
	for (uint64_t o = 0; o < up.place.shape[0]; o++)
		for (uint64_t k = 0; k < down.place.shape[1]; k++) {
			double sum = 0;

			for (uint64_t r = 0; r < w->lora.rank; r++)
				sum += b[o * w->lora.rank + r] *
					a[r * down.place.shape[1] + k];
			w->m.w[at][o * down.place.shape[1] + k] =
				w->base[at][o * down.place.shape[1] + k] +
				lm_lora_scale(&w->lora) * sum;
		}
}

static double loss_at(struct truth *w, uint32_t i, uint64_t k, double value)
{
	int counted;

	w->learn[i][k] = value;
	if (w->lora.rank)
		adapt(w, i);
	return model_loss(&w->m, w->tokens, w->targets, &counted);
}

/* The slope of the mean loss along parameter k of tensor i of those that learn. */
static double slope(struct truth *w, uint32_t i, uint64_t k)
{
	double was = w->learn[i][k], h = 1e-5;
	double up = loss_at(w, i, k, was + h), down = loss_at(w, i, k, was - h);

	w->learn[i][k] = was;
	if (w->lora.rank)
		adapt(w, i);
	return (up - down) / (2 * h) / w->counted;
}

/* Takes some of the slopes of a tensor; of a matrix in all its columns. */
static double *slopes(struct truth *w, uint32_t i)
{
	struct lm_learned t;
	double *out;

	lm_learned_at(&w->m.c, &w->lora, i, &t);
	out = xcalloc(t.place.count, sizeof *out);
	for (uint64_t k = 0; k < t.place.count; k++)
		out[k] = k %
				(t.place.dims == 1       ? 3 :
						t.factor ? 11 :
							   53) ?
			NAN :
			slope(w, i, k);
	return out;
}

static void truth_init(struct truth *w, const struct lm_config *c,
	const struct lm_lora *lora)
{
	uint32_t count = lm_layout_count(c), learn = lm_learned_count(c, lora);
	struct lm_learned t;
	struct rng r;

	*w = (struct truth){ .m = { .c = *c }, .lora = *lora };
	w->m.w = xcalloc(count, sizeof *w->m.w);
	w->base = xcalloc(count, sizeof *w->base);
	w->slope = xcalloc(learn, sizeof *w->slope);
	batch(w->tokens, w->targets, 5);
	rng_seed(&r, 11, 2);
	for (uint32_t i = 0; i < count; i++) {
		struct lm_place p;

		lm_layout_at(c, i, &p);
		w->m.w[i] = numbers(&r, &p, p.dims == 1 ? 0.7 : 0);
		if (!lora->rank)
			continue;
		w->base[i] = xcalloc(p.count, sizeof **w->base);
		memcpy(w->base[i], w->m.w[i], p.count * sizeof **w->base);
	}
	w->learn = lora->rank ? xcalloc(learn, sizeof *w->learn) : w->m.w;
	for (uint32_t i = 0; lora->rank && i < learn; i++) {
		lm_learned_at(c, lora, i, &t);
		w->learn[i] = numbers(&r, &t.place, 0);
	}
	for (uint32_t i = 0; lora->rank && i < learn / 2; i++)
		adapt(w, i);
	w->loss = model_loss(&w->m, w->tokens, w->targets, &w->counted);
	for (uint32_t i = 0; i < learn; i++)
		w->slope[i] = slopes(w, i);
}

static void truth_release(struct truth *w)
{
	for (uint32_t i = 0; i < lm_learned_count(&w->m.c, &w->lora); i++) {
		free(w->slope[i]);
		if (w->lora.rank)
			free(w->learn[i]);
	}
	for (uint32_t i = 0; i < lm_layout_count(&w->m.c); i++) {
		free(w->m.w[i]);
		free(w->base[i]);
	}
	if (w->lora.rank)
		free(w->learn);
	free(w->base);
	free(w->m.w);
	free(w->slope);
}

static void check_tensor(const struct truth *w, struct lm_train *t, uint32_t i,
	double bound, const char *what)
{
	double max = 0, worst = 0;
	struct lm_learned p;
	float *g;

	lm_learned_at(&w->m.c, &w->lora, i, &p);
	g = xcalloc(p.place.count, sizeof *g);
	CHECK(lm_train_get(t, LM_STATE_GRADIENT, i, g) == 0);
	for (uint64_t k = 0; k < p.place.count; k++) {
		double want = w->slope[i][k];

		if (isnan(want))
			continue;
		max = fmax(max, fabs(want));
		worst = fmax(worst, fabs((double)g[k] * ROWS / w->counted - want));
	}
	test_checks++;
	if (!(worst <= bound * max) || max == 0) {
		char name[LM_NAME_BYTES_MAX];

		lm_learned_name(name, &p);
		fprintf(stderr, "%s: %s: off by %.3g of %.3g\n", what, name, worst, max);
		test_failures++;
	}
	free(g);
}

/* What lm_train_put and lm_train_put_base have in common. */
static void put(struct lm_train *t, bool base, uint32_t i, const double *w,
	uint64_t count)
{
	float *f = xcalloc(count, sizeof *f);

	for (uint64_t k = 0; k < count; k++)
		f[k] = (float)w[k];
	CHECK((base ? lm_train_put_base(t, i, f) :
		      lm_train_put(t, LM_STATE_PARAMETER, i, f)) == 0);
	free(f);
}

static void put_all(const struct truth *w, struct lm_train *t)
{
	for (uint32_t i = 0; w->lora.rank && i < lm_layout_count(&w->m.c); i++) {
		struct lm_place p;

		lm_layout_at(&w->m.c, i, &p);
		put(t, true, i, w->base[i], p.count);
	}
	for (uint32_t i = 0; i < lm_learned_count(&w->m.c, &w->lora); i++) {
		struct lm_learned p;

		lm_learned_at(&w->m.c, &w->lora, i, &p);
		put(t, false, i, w->learn[i], p.place.count);
	}
}

/* In f32 each gradient agrees to 2e-5 of the tensor's largest, in bf16 to 15%: three digits, and
 * differences of like terms. */
static void check_gradients(const struct truth *w, struct dev *d, enum lm_dtype dtype,
	bool recompute, const char *what)
{
	struct lm_train_options o;
	struct lm_train *t;
	char label[96];
	uint64_t counted;
	double sum;

	snprintf(label, sizeof label, "%s %s%s: %s", d->isa,
		dtype == LM_DTYPE_F32 ? "f32" : "bf16", recompute ? " again" : "", what);
	lm_train_defaults(&o, &w->m.c);
	o.batch = BATCH;
	o.positions = LENGTH;
	o.dtype = dtype;
	o.lora = w->lora;
	o.recompute = recompute;
	t = must_open(d, &o);
	put_all(w, t);
	CHECK(lm_train_eval(t, w->tokens, w->targets, &sum, &counted) == 0);
	CHECK_I64(w->counted, (int64_t)counted);
	test_checks++;
	if (!(fabs(sum - w->loss) <= (dtype == LM_DTYPE_F32 ? 1e-5 : 1e-2) * w->loss)) {
		fprintf(stderr, "%s: loss %.9g, not %.9g\n", label, sum, w->loss);
		test_failures++;
	}
	CHECK(lm_train_add(t, w->tokens, w->targets, true) == 0);
	for (uint32_t i = 0; i < lm_train_tensors(t); i++)
		check_tensor(w, t, i, dtype == LM_DTYPE_F32 ? 2e-5 : 0.15, label);
	lm_train_close(t);
}

static void check_adapter(struct dev *devices, int count, const struct lm_config *c,
	const struct lm_lora *lora, const char *what)
{
	struct truth w;

	truth_init(&w, c, lora);
	for (int i = 0; i < count; i++) {
		check_gradients(&w, &devices[i], LM_DTYPE_F32, false, what);
		check_gradients(&w, &devices[i], LM_DTYPE_BF16, lora->rank > 0, what);
	}
	truth_release(&w);
}

static void check_kind(struct dev *devices, int count, const struct lm_config *c,
	const char *what)
{
	check_adapter(devices, count, c, &(struct lm_lora){ 0 }, what);
}

/* Adapters of all matrices, and of a choice that leaves none, one or some of a product's. */
static void check_adapters(struct dev *d, int n, int slow)
{
	struct lm_config c = config(3, 3);
	struct lm_lora all = { .rank = 3, .alpha = 5 };
	uint8_t some[LAYERS] = { 1 << LM_ADAPTED_K | 1 << LM_ADAPTED_O |
			1 << LM_ADAPTED_UP,
		1 << LM_ADAPTED_Q | 1 << LM_ADAPTED_V | 1 << LM_ADAPTED_DOWN };
	struct lm_lora chosen = { .rank = 5,
		.alpha = 3,
		.rslora = true,
		.targets = some };

	check_adapter(d, n, &c, &all, "adapter");
	c = config(4, 2);
	c.qkv_bias = true;
	c.tied = true;
	c.rope.interleaved = true;
	check_adapter(d, n + slow, &c, &chosen, "adapter of some");
}

/* The first n devices take all kinds; `slow` more, which emulate, one that has most in it. */
static void check_kinds(struct dev *d, int n, int slow)
{
	struct lm_config c = config(3, 3);

	check_kind(d, n, &c, "plain");
	c = config(4, 2);
	c.qkv_bias = true;
	c.tied = true;
	check_kind(d, n, &c, "grouped, bias, tied");
	c.window = 4;
	c.rope.interleaved = true;
	check_kind(d, n + slow, &c, "window, interleaved");
	c = config(4, 1);
	c.rope.kind = LM_ROPE_LINEAR;
	c.rope.factor = 2;
	check_kind(d, n, &c, "linear, one kv head");
	c.rope.kind = LM_ROPE_NTK;
	c.rope.original_context = 8;
	check_kind(d, n, &c, "NTK");
	c.rope = (struct lm_rope){ .kind = LM_ROPE_LLAMA3,
		.base = 100,
		.factor = 8,
		.low_freq_factor = 1,
		.high_freq_factor = 4,
		.original_context = 64 };
	check_kind(d, n, &c, "Llama 3");
}

/* --- steps -------------------------------------------------------------------------------- */

static void options(struct lm_train_options *o, enum lm_dtype dtype)
{
	struct lm_config c = config(4, 2);

	c.tied = true;
	c.qkv_bias = true;
	lm_train_defaults(o, &c);
	o->batch = BATCH;
	o->positions = LENGTH;
	o->dtype = dtype;
}

static float *all(struct lm_train *t, enum lm_state what)
{
	uint64_t n = lm_train_flat_count(t);
	float *flat = xcalloc(n, sizeof *flat);

	memcpy(flat, lm_train_flat(t, what),
		n * sizeof *flat); /* the CPU's memory is the host's */
	return flat;
}

static bool same(struct lm_train *a, struct lm_train *b, enum lm_state what)
{
	return memcmp(lm_train_flat(a, what), lm_train_flat(b, what),
		       lm_train_flat_count(a) * sizeof(float)) == 0;
}

/* What a worker sends and merges is computed where its parameters are, with the host's bits. */
static void check_worker(struct dev *d)
{
	struct lm_train_options o;
	struct lm_train *t;
	float *x, *other, *want, *got;
	void *there = NULL;
	uint64_t n;

	options(&o, LM_DTYPE_BF16);
	t = must_open(d, &o);
	CHECK(lm_train_init(t, 1) == 0);
	n = lm_flat_count(t);
	x = xmalloc(n * sizeof *x);
	other = xmalloc(n * sizeof *x);
	want = xmalloc(n * sizeof *x);
	got = xmalloc(n * sizeof *x);
	CHECK(lm_flat_get(t, LM_STATE_PARAMETER, 0, n, x) == 0);
	for (uint64_t i = 0; i < n; i++)
		other[i] = x[i] * 1.1f + 1e-3f * (float)(i % 7);
	CHECK(d->ops->alloc(d, &there, n * sizeof *x) == 0);
	CHECK(lm_flat_delta(t, 5, n - 9, other + 5, there) == 0);
	CHECK(d->ops->get(d, got, there, (n - 9) * sizeof *x) == 0);
	outer_delta(want, other + 5, x + 5, n - 9);
	CHECK(memcmp(want, got, (n - 9) * sizeof *x) == 0);
	memcpy(want, x, n * sizeof *x);
	outer_merge(want + 3, other + 3, 0.3, n - 7);
	CHECK(lm_flat_merge(t, 3, n - 7, other + 3, 0.3) == 0);
	CHECK(lm_flat_get(t, LM_STATE_PARAMETER, 0, n, got) == 0);
	CHECK(memcmp(want, got, n * sizeof *x) == 0);
	CHECK(lm_flat_merge(t, 0, n, other, 0) == 0);
	CHECK(lm_flat_get(t, LM_STATE_PARAMETER, 0, n, got) == 0);
	CHECK(memcmp(other, got, n * sizeof *x) == 0);
	d->ops->free(d, there);
	free(x), free(other), free(want), free(got);
	lm_train_close(t);
}

/* One step is AdamW in PyTorch's order, with the gradient clipped to norm 1. */
static void check_adamw(struct dev *d)
{
	uint32_t tokens[ROWS], targets[ROWS];
	struct lm_train_options o;
	struct lm_step step;
	struct lm_train *t;
	double squares = 0;
	float *before, *g;
	double scale, worst = 0;

	options(&o, LM_DTYPE_F32);
	o.clip = 0.01f;
	t = must_open(d, &o);
	CHECK(lm_train_init(t, 1) == 0);
	batch(tokens, targets, 3);
	before = all(t, LM_STATE_PARAMETER);
	CHECK(lm_train_step(t, tokens, targets, 1e-3f, &step) == 0);
	CHECK_I64(ROWS - 1, (int64_t)step.targets);
	CHECK(step.loss > 3.4 && step.loss < 3.8); /* log 37 is 3.61 */
	g = all(t, LM_STATE_GRADIENT);
	for (uint64_t i = 0; i < lm_train_flat_count(t); i++)
		squares += (double)g[i] * (double)g[i];
	scale = (double)ROWS / (ROWS - 1);
	CHECK(fabs(step.norm - sqrt(squares) * scale) < 1e-5 * step.norm);
	scale *= 0.01 / step.norm;
	for (uint32_t i = 0; i < lm_layout_count(&o.config); i++) {
		struct lm_place p;

		lm_layout_at(&o.config, i, &p);
		for (uint64_t k = lm_train_offset(t, i);
			k < lm_train_offset(t, i) + p.count; k++) {
			double gk = scale * (double)g[k];
			double want = (double)before[k] *
				(1 - (p.dims == 2 ? 1e-3 * 0.1 : 0));

			want -= 1e-3 * gk / (fabs(gk) + 1e-8);
			worst = fmax(worst,
				fabs(want -
					(double)lm_train_flat(t, LM_STATE_PARAMETER)[k]));
		}
	}
	CHECK(worst < 1e-6);
	CHECK_I64(1, (int64_t)lm_train_steps(t));
	free(before), free(g);
	lm_train_close(t);
}

/* Two batches added are one of their sum, whatever is kept; a model learns what it is shown, twice
 * alike. */
static void check_learning(struct dev *d, enum lm_dtype dtype)
{
	uint32_t tokens[ROWS], targets[ROWS];
	struct lm_train_options o;
	struct lm_train *a, *b;
	struct lm_step first = { 0 }, step, other;

	options(&o, dtype);
	a = must_open(d, &o);
	o.recompute = true;
	b = must_open(d, &o);
	CHECK(lm_train_init(a, 7) == 0 && lm_train_init(b, 7) == 0);
	CHECK(same(a, b, LM_STATE_PARAMETER));
	for (int i = 0; i < 60; i++) {
		double sum;
		uint64_t counted;

		batch(tokens, targets, 100 + (uint64_t)i % 2);
		CHECK(lm_train_add(a, tokens, targets, false) == 0);
		CHECK(lm_train_add(b, tokens, targets, false) == 0);
		CHECK(lm_train_eval(a, tokens, targets, &sum, &counted) == 0);
		batch(tokens, targets, 100 + (uint64_t)(i + 1) % 2);
		CHECK(lm_train_step(a, tokens, targets, 3e-3f, &step) == 0);
		CHECK(lm_train_step(b, tokens, targets, 3e-3f, &other) == 0);
		CHECK(step.loss == other.loss && step.norm == other.norm);
		CHECK_I64(2 * (ROWS - 1), (int64_t)step.targets);
		if (i == 0)
			first = step;
	}
	CHECK(same(a, b, LM_STATE_PARAMETER) && same(a, b, LM_STATE_V));
	CHECK(step.loss < 0.7 * first.loss);
	lm_train_close(a);
	lm_train_close(b);
}

struct hooks {
	uint64_t next_end, calls;
	double factor;
};

static int on_ready(void *arg, uint64_t from, uint64_t count)
{
	struct hooks *h = arg;

	CHECK(h->next_end == 0 || from + count == h->next_end);
	h->next_end = from;
	h->calls++;
	return 0;
}

static int on_settle(void *arg, double *loss_sum, uint64_t *targets)
{
	struct hooks *h = arg;

	CHECK_I64(0, (int64_t)h->next_end); /* all of it was ready */
	*loss_sum *= h->factor;
	*targets *= 2;
	return 0;
}

static void check_hooks(struct dev *d)
{
	uint32_t tokens[ROWS], targets[ROWS];
	struct hooks h = { .factor = 3 };
	struct lm_train_options o;
	struct lm_step step;
	struct lm_train *t;
	double sum;
	uint64_t counted;

	options(&o, LM_DTYPE_F32);
	o.grad_ready = on_ready;
	o.grad_sync = on_settle;
	o.arg = &h;
	t = must_open(d, &o);
	CHECK(lm_train_init(t, 7) == 0);
	batch(tokens, targets, 1);
	CHECK(lm_train_eval(t, tokens, targets, &sum, &counted) == 0);
	CHECK(lm_train_add(t, tokens, targets, false) == 0);
	CHECK_I64(0, (int64_t)h.calls);
	CHECK(lm_train_step(t, tokens, targets, 1e-3f, &step) == 0);
	CHECK_I64(LAYERS + 2, (int64_t)h.calls);
	CHECK_I64((int64_t)(4 * counted), (int64_t)step.targets);
	CHECK(fabs(step.loss - 1.5 * sum / (double)counted) < 1e-9);
	h.factor = NAN;
	h.next_end = 0;
	CHECK(lm_train_step(t, tokens, targets, 1e-3f, &step) == -1);
	CHECK_I64(EX_DATAERR, err_get()->code);
	CHECK(strstr(err_get()->text, "step 2: the loss is not finite"));
	CHECK_I64(1, (int64_t)lm_train_steps(t));
	lm_train_close(t);
}

/* --- plan and refusals -------------------------------------------------------------------- */

static void check_refusals(struct dev *d)
{
	uint32_t tokens[ROWS], targets[ROWS];
	struct lm_train_options o;
	struct lm_train_plan plan, less;
	struct lm_train *t;
	double sum;
	uint64_t counted;

	options(&o, LM_DTYPE_BF16);
	CHECK(lm_train_plan(&plan, d, &o) == 0);
	CHECK_I64((int64_t)plan.total,
		(int64_t)(plan.parameters + plan.copies + plan.gradients +
			plan.optimiser + plan.activations + plan.scratch));
	CHECK(plan.parameters >= 4 * lm_config_params(&o.config) &&
		plan.copies * 2 - plan.parameters <= 512 &&
		plan.gradients == plan.parameters &&
		plan.optimiser == 2 * plan.parameters);
	o.recompute = true;
	CHECK(lm_train_plan(&less, NULL, &o) == 0);
	CHECK(less.activations < plan.activations);
	o.eval_only = true;
	CHECK(lm_train_plan(&less, d, &o) == 0);
	CHECK(less.gradients == 0 && less.optimiser == 0);
	t = must_open(d, &o);
	CHECK(lm_train_init(t, 1) == 0);
	batch(tokens, targets, 1);
	CHECK(lm_train_eval(t, tokens, targets, &sum, &counted) == 0);
	tokens[4] = VOCAB;
	CHECK(lm_train_eval(t, tokens, targets, &sum, &counted) == -1);
	CHECK_I64(EX_DATAERR, err_get()->code);
	CHECK(strstr(err_get()->text, "token 4 of the batch has id 37"));
	lm_train_close(t);
	o.batch = 0;
	CHECK(lm_train_open(&t, d, &o) == -1);
	CHECK_I64(EX_USAGE, err_get()->code);
	CHECK(!t);
	o.batch = LM_CONTEXT_MAX;
	o.positions = LM_CONTEXT_MAX;
	CHECK(lm_train_plan(&plan, d, &o) == 0); /* large, but a number */
	CHECK(lm_train_open(&t, d, &o) == -1);
	CHECK_I64(EX_OSERR, err_get()->code);
	o.config.heads = 0;
	CHECK(lm_train_plan(&plan, d, &o) == -1);
	CHECK_I64(EX_DATAERR, err_get()->code);
	lm_train_close(NULL);
}

/* The CUDA kernels, compiled for the CPU (tests/kernels/cuda_emu.h): a step from tokens to
 * parameters on them. */
static int open_emulation(struct dev *d)
{
	const char *build = getenv("RNP_BUILD");
	char path[4096];

	snprintf(path, sizeof path, "%s/emu/librnp_cuda.so", build ? build : "build");
	if (access(path, F_OK) < 0)
		return dev_fail(d, EX_UNAVAILABLE,
			"emulation: '%s' is not there: make kcheck", path);
	setenv("RNP_CUDA_PLUGIN", path, 1);
	return dev_open(d, "cuda:0");
}

int main(void)
{
	struct dev devices[CPU_LEVELS + 1];
	int count = 0, emulated;

	for (int level = 0; level < CPU_LEVELS; level++)
		if (dev_open_cpu(&devices[count], (enum cpu_level)level) == 0)
			count++;
		else
			fprintf(stderr, "SKIP %s\n", devices[count].error);
	emulated = open_emulation(&devices[count]) == 0;
	if (!emulated)
		fprintf(stderr, "SKIP %s\n", devices[count].error);
	check_kinds(devices, count, emulated);
	check_adapters(devices, count, emulated);
	if (emulated) { /* learning and hooks would take long there, and say nothing new */
		check_adamw(&devices[count]);
		check_worker(&devices[count]);
		check_refusals(&devices[count]);
		dev_close(&devices[count]);
	}
	for (int i = 0; i < count; i++) {
		struct dev *d = &devices[i];

		check_adamw(d);
		check_worker(d);
		check_learning(d, LM_DTYPE_F32);
		check_learning(d, LM_DTYPE_BF16);
		check_hooks(d);
		check_refusals(d);
		dev_close(d);
	}
	TEST_END();
}
