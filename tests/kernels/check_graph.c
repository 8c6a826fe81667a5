/* check_graph.c - tests captured operations: nothing runs before a replay, each replay works on
 * the contents of memory at that time, and gives the same bits as operations that are launched
 * one by one. The test case is the end of a training step, whose rates are in the device's
 * memory. */
#include <stdlib.h>
#include <string.h>

#include "kernels/dev/dev.h"
#include "tests/kernels/kcheck.h"

#define COUNT (LM_SQUARES_BLOCK + 4321)
#define PARTS ((COUNT + LM_SQUARES_BLOCK - 1) / LM_SQUARES_BLOCK)
#define STEPS 4

struct step {
	bool captured;
	float *g, *m, *v, *host; /* host [COUNT] */
	double *part;
	struct lm_rates *rates;
};

static int operations(struct dev *d, const struct step *s, float *p)
{
	const struct lm_ops *lm = d->ops->lm;
	struct lm_squares squares = { .part = s->part, .g = s->g, .n = COUNT };
	struct lm_clip clip = { .rates = s->rates, .part = s->part, .parts = PARTS };
	struct lm_adamw adamw = { .p = p,
		.m = s->m,
		.v = s->v,
		.g = s->g,
		.rates = s->rates,
		.n = COUNT,
		.beta1 = 0.9f,
		.beta2 = 0.95f,
		.eps = 1e-8f,
		.decay = 0.1f };

	return lm->squares(d, &squares) < 0 || lm->clip(d, &clip) < 0 ||
			lm->adamw(d, &adamw) < 0 ?
		-1 :
		0;
}

/* Gradients and rates of a step; both vary. */
static int prepare(struct dev *d, const struct step *s, int step)
{
	struct lm_rates r = { .lr = 0.01f / (float)(step + 1),
		.correct1 = 2.0f / (float)(step + 1),
		.correct2 = 3.0f / (float)(step + 1),
		.unit = 0.5f + (float)step,
		.clip = step % 2 ? 1 : 0 };

	for (uint64_t i = 0; i < COUNT; i++)
		s->host[i] = (float)((i * 2654435761u + (uint64_t)step * 40503u) % 997) /
				500.0f -
			1;
	return d->ops->put(d, s->g, s->host, COUNT * sizeof(float)) < 0 ||
			d->ops->put(d, s->rates, &r, sizeof r) < 0 ?
		-1 :
		0;
}

static int clear(struct dev *d, const struct step *s, float *p)
{
	return d->ops->fill(d, (uint32_t *)(void *)p, 0, COUNT) < 0 ||
			d->ops->fill(d, (uint32_t *)(void *)s->m, 0, COUNT) < 0 ||
			d->ops->fill(d, (uint32_t *)(void *)s->v, 0, COUNT) < 0 ?
		-1 :
		0;
}

/* Runs some steps on parameters that start as zeros. */
static int train(struct dev *d, void *out, const void *arguments)
{
	const struct step *s = arguments;
	void *graph = NULL;
	int rc = clear(d, s, out);

	for (int step = 0; rc == 0 && step < STEPS; step++) {
		rc = prepare(d, s, step);
		/* the first step launches each operation separately, as a trainer does */
		if (rc == 0 && s->captured && step == 1)
			rc = d->ops->graph_begin(d) < 0 || operations(d, s, out) < 0 ||
					d->ops->graph_end(d, &graph) < 0 ?
				-1 :
				0;
		if (rc == 0)
			rc = graph ? d->ops->graph_launch(d, graph) :
				     operations(d, s, out);
	}
	if (rc == 0)
		rc = d->ops->sync(d);
	d->ops->graph_free(d, graph);
	return rc;
}

/* A capture of an operation that cannot be captured fails, and the device continues to work. */
static bool spoiled_capture(struct dev *d, const struct step *s, float *p)
{
	void *graph = NULL;
	float one = 1;
	int got, ended;

	if (clear(d, s, p) < 0 || d->ops->graph_begin(d) < 0 || operations(d, s, p) < 0)
		return false;
	got = d->ops->get(d, &one, p, sizeof one);
	ended = d->ops->graph_end(d, &graph);
	return got < 0 && ended < 0 && !graph &&
		d->ops->get(d, &one, p, sizeof one) == 0 && one == 0;
}

/* So does one beside which the thread asks for memory, gives some back, or waits, which the
 * emulation refuses as a driver may: nothing is freed then. */
static bool forbidden_calls(struct dev *d, const struct step *s, float *p)
{
	void *pinned, *memory, *graph = NULL;
	bool good = d->ops->pin(d, &pinned, 4096) == 0 &&
		d->ops->alloc(d, &memory, 4096) == 0;

	for (int call = 0; good && call < 5; call++) {
		uint32_t word = 7 + (uint32_t)call, got = 0;
		void *other = NULL;

		memcpy(pinned, &word, sizeof word);
		if (clear(d, s, p) < 0 || d->ops->graph_begin(d) < 0 ||
			operations(d, s, p) < 0)
			return false;
		if (call == 0)
			d->ops->free(d, memory);
		else if (call == 1)
			d->ops->unpin(d, pinned);
		else if (call == 2)
			good = d->ops->pin(d, &other, 64) < 0 && !other;
		else if (call == 3)
			good = d->ops->alloc(d, &other, 64) < 0 && !other;
		else
			good = d->ops->sync(d) < 0;
		/* nothing was freed, and the device goes on */
		good = d->ops->graph_end(d, &graph) < 0 && !graph && good &&
			d->ops->put(d, memory, pinned, sizeof word) == 0 &&
			d->ops->get(d, &got, memory, sizeof got) == 0 && got == word;
	}
	d->ops->free(d, memory);
	d->ops->unpin(d, pinned);
	return good;
}

/* A capture runs nothing, a discarded one leaves nothing, and an empty one gives no graph. */
static bool empty_captures(struct dev *d, const struct step *s, float *p)
{
	void *graph = &graph;
	float one = 1;

	if (clear(d, s, p) < 0 || prepare(d, s, 0) < 0 || d->ops->graph_begin(d) < 0 ||
		operations(d, s, p) < 0 || d->ops->graph_end(d, NULL) < 0 ||
		d->ops->graph_begin(d) < 0 || d->ops->graph_end(d, &graph) < 0)
		return false;
	return !graph && d->ops->get(d, &one, p, sizeof one) == 0 && one == 0;
}

void check_graph(struct kcheck *k)
{
	uint64_t bytes = COUNT * sizeof(float);
	struct step s = { .host = malloc(bytes), .captured = true };
	float *want = calloc(COUNT, sizeof *want);
	struct kcase c = { .label = "steps replayed",
		.run = train,
		.arguments = &s,
		.want = want,
		.out_bytes = bytes };
	struct dev *d = &k->dev;
	bool good = false;
	float *p;

	s.part = kcheck_put(k, want, PARTS * sizeof *s.part, 0);
	s.rates = kcheck_put(k, want, sizeof *s.rates, 0);
	s.g = kcheck_put(k, want, bytes, 0);
	s.m = kcheck_put(k, want, bytes, 0);
	s.v = kcheck_put(k, want, bytes, 0);
	p = kcheck_put(k, want, bytes, 0);
	if (d->ops->lm->prepare(d, NULL) < 0) {
		k->failures++;
	} else {
		good = spoiled_capture(d, &s, p) && empty_captures(d, &s, p) &&
			(strcmp(k->column, "emu") != 0 || forbidden_calls(d, &s, p));
	}
	if (!good)
		k->failures++;
	if (train(d, p, &(struct step){ false, s.g, s.m, s.v, s.host, s.part, s.rates }) <
			0 ||
		d->ops->get(d, want, p, bytes) < 0)
		k->failures++;
	kcheck_case(k, &c);
	free(want);
	free(s.host);
}
