/* speed.c - times parts of small proofs: what a part takes beyond what is known already is the
 * work that grows with its size.
 *
 * On the CPU the time is that of the processors, because the speed is to be what the machine can
 * do: if others use it just now, a challenge that comes later must not be refused for that. */
#include "cmd/rnp-bench/prove/speed.h"

#include <math.h>
#include <time.h>

#include "cmd/rnp-bench/prove/prove.h"
#include "common/base/clock.h"
#include "common/base/threads.h"
#include "common/hw/figure.h"
#include "common/json/json.h"
#include "kernels/dev/dev.h"

#define MEASURE_MS 400
/* Proofs grow until a part takes so long, or to these sizes. */
#define PART_NS   5000000
#define FILL_S    0.004
#define N_HOST    1024
#define N_GPU     8192
#define FILL_HOST ((int64_t)32 << 20)
#define FILL_GPU  ((int64_t)1 << 30)
#define N_MIN     256
#define FILL_MIN  ((int64_t)8 << 20)
#define MEMORY    ((int64_t)256 << 20) /* for rounds that may be opened */

struct probe {
	struct dev *dev;
	struct poc_challenge c; /* nobody's */
	struct poc_device d;
	const struct poc_speed *known;
	int threads; /* whose processor time is taken together; 0: the time of the clock is taken */
	int64_t from_ns,
		part_ns; /* when the part began; the shortest of the second half */
};

static int64_t now_ns(const struct probe *p)
{
	struct timespec t;

	if (!p->threads || clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) < 0)
		return clock_mono_ns();
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int on_part(void *ctx, const struct poc_device *d, enum prove_test test,
	int64_t done, int64_t all)
{
	struct probe *p = ctx;
	int64_t at_ns = now_ns(p), ns = at_ns - p->from_ns;

	(void)d, (void)test;
	/* the first half warms up, and blocks of the first pass have fewer parents */
	if (2 * done > all && p->from_ns && (!p->part_ns || ns < p->part_ns))
		p->part_ns = ns > 0 ? ns : 1;
	p->from_ns = at_ns;
	return 0;
}

/* Proves p->d. Returns 0 with the time of its shortest part, or -1. */
static int run_probe(struct probe *p)
{
	const struct prove_hooks hooks = { .ctx = p, .part = on_part };
	json_t *part = p->d.segments ? prove_chain(&p->c, &p->d, &hooks) :
		p->d.n ? prove_matmul(&p->c, &p->d, p->dev, MEMORY, &hooks) :
			 prove_memory(&p->c, &p->d, p->dev, &hooks);

	if (!part)
		return -1;
	json_decref(part);
	return 0;
}

/* Returns the seconds of the shortest part that exceed `known`, which one thread takes; at least a
 * tenth of the part. */
static double beyond(const struct probe *p, double known_s)
{
	double s = (double)p->part_ns / 1e9;

	return fmax(s - known_s, s / 10) / (p->threads ? p->threads : 1);
}

static int batch(struct probe *p)
{
	p->from_ns = p->part_ns = 0;
	return run_probe(p);
}

static int batch_chain(void *ctx, double *rate)
{
	struct probe *p = ctx;

	p->d = (struct poc_device){ .segments = 8, .steps = 1 << 15 };
	p->threads = p->dev->is_host;
	if (batch(p) < 0)
		return -1;
	*rate = (double)p->d.steps / beyond(p, 0);
	return 0;
}

static int batch_rounds(void *ctx, double *rate)
{
	struct probe *p = ctx;

	/* microseconds: of many rounds one is not disturbed */
	p->d = (struct poc_device){ .n = POC_N_MIN, .rounds = 32 };
	p->threads = 0;
	if (batch(p) < 0)
		return -1;
	*rate = 1 / beyond(p, 0);
	return 0;
}

static int batch_matmul(void *ctx, double *rate)
{
	struct probe *p = ctx;
	double n = (double)p->d.n;

	p->threads = p->dev->is_host ? threads_max() : 0;
	if (batch(p) < 0)
		return -1;
	*rate = 2 * n * n * n / beyond(p, 1 / p->known->rounds);
	return 0;
}

/* Returns how long a step took beyond what steps without blocks take. */
static double fill_s(const struct probe *p)
{
	const struct poc_device nothing = { .lanes = p->d.lanes, .passes = p->d.passes };
	struct poc_speed speed = *p->known;
	double known[3];

	speed.class.operations = speed.class.fill_bytes = 1; /* of none */
	poc_plan_work_s(known, &nothing, &speed);
	return beyond(p, known[2] / (double)(MEMFILL_SLICES * p->d.passes));
}

static int batch_fill(void *ctx, double *rate)
{
	struct probe *p = ctx;

	p->threads = p->dev->is_host ? threads_max() : 0;
	if (batch(p) < 0)
		return -1;
	*rate = (double)poc_step_leaves(&p->d) * MEMFILL_BYTES / fill_s(p);
	return 0;
}

/* Finds how large a proof must be for its parts to take long enough. */
static int grow_matmul(struct probe *p)
{
	int64_t max = p->dev->is_host ? N_HOST : N_GPU;
	double rate;

	for (p->d = (struct poc_device){ .n = N_MIN, .rounds = 6 }; p->d.n <= max;
		p->d.n *= 2)
		if (batch_matmul(p, &rate) < 0 || p->part_ns >= PART_NS || p->d.n == max)
			break;
	return p->part_ns ? 0 : -1;
}

static int grow_fill(struct probe *p)
{
	int64_t max = p->dev->is_host ? FILL_HOST : FILL_GPU, bytes = FILL_MIN;
	double rate;

	for (;; bytes *= 2) {
		int64_t lanes = p->dev->is_host ? 64 : 1024;

		p->d = (struct poc_device){ .lanes = lanes,
			.per_slice = bytes / (MEMFILL_SLICES * MEMFILL_BYTES) / lanes,
			.passes = 2 };
		if (p->d.per_slice < 1)
			continue;
		if (batch_fill(p, &rate) < 0)
			return -1;
		if (fill_s(p) >= FILL_S || bytes >= max)
			return 0;
	}
}

/* Takes what is kept, or grows the proof, where that is needed, and measures. Returns 0, 1 if it
 * has measured, or -1. */
static int take(double *to, struct probe *p, const char *test, const char *unit,
	int (*grow)(struct probe *), figure_batch_fn fn, bool again)
{
	struct figure f;

	figure_init(&f, p->dev, "challenge", test, unit);
	again = again || !figure_kept(&f);
	if (again && ((grow && grow(p) < 0) || figure_measure(&f, fn, p, MEASURE_MS) < 0))
		return -1;
	*to = f.best;
	return again;
}

int speed_of(struct poc_speed *out, struct dev *dev, bool again)
{
	struct probe p = { .dev = dev, .known = out };
	uint64_t folds = poc_folds;
	const struct {
		double *to;
		const char *test, *unit;
		int (*grow)(struct probe *);
		figure_batch_fn batch;
	} rows[] = {
		{ &out->class.hashes, "chain", "1/s", NULL, batch_chain },
		{ &out->rounds, "rounds", "1/s", NULL, batch_rounds },
		{ &out->class.operations, "matmul", "OP/s", grow_matmul, batch_matmul },
		{ &out->class.fill_bytes, "fill", "B/s", grow_fill, batch_fill },
	};
	int rc = 0, measured = 0;

	*out = (struct poc_speed){ 0 };
	/* nobody sees these proofs, and folds would be most of their time */
	poc_folds = 1;
	for (size_t i = 0; rc >= 0 && i < sizeof rows / sizeof *rows; i++) {
		rc = take(rows[i].to, &p, rows[i].test, rows[i].unit, rows[i].grow,
			rows[i].batch, again);
		measured |= rc == 1;
	}
	poc_folds = folds;
	return rc < 0 ? -1 : measured;
}
