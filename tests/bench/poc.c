/* poc.c - benchmark of the proof of compute.
 *
 * uses: cmd/rnp-bench */
/* Measures whether the proof of compute keeps its promises:
 *
 *   verdict   time and memory of verifying a full answer, n = 8192, on one core
 *   half      how much longer a prover takes that stores only a part of the memory
 *   deadline  by the class of this machine: a prover that stores half misses it; an honest one
 *             meets it while other threads take half of the machine
 *   cheats    attempts of each kind at n = 512
 *   honest    honest answers while all cores are busy: none may be refused
 *   class     the same for the challenges that the registry gives a CPU of this kind by its
 *             claims: several numbers of passes over the memory, within the deadline of
 *             the class
 *
 * It makes 40 of each, so that `make bench` ends within the hour; the figures in README.md are
 * those of RNP_POC_EACH=10000 (3,000 honest); one of each cheat takes half a second of a core.
 * RNP_POC_SECONDS ends the cheats earlier, with the same number of each kind, and RNP_POC_FIRST
 * continues from there: attempts are numbered, and the same in every run.
 *
 * Arguments: the names of the parts to run. Everything is computed in full, with all 2^18
 * hashes for the indices, but an honest answer from which several cheats start is computed only
 * once. Prints records to standard output; exit 1 when a promise is broken. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "kernels/dev/cpu.h"
#include "kernels/crypto/sha256_chain.h"
#include "tests/poc/cheats.h"
#include "tests/poc/miser.h"

#define VERDICT_LIMIT_S     2.0
#define VERDICT_LIMIT_BYTES ((int64_t)1 << 30)
#define EACH                40
#define HONEST_MAX          3000

static void record_range(const char *test, const char *unit, double median, double low,
	double high, int samples, const char *params)
{
	char at[CLOCK_TEXT_MAX];

	clock_format(at, clock_now_ms());
	printf("{\"kind\":\"rnp.bench\",\"v\":1,\"at\":\"%s\",\"suite\":\"poc\",\"test\":\"%s\","
	       "\"unit\":\"%s\",\"median\":%.6g,\"low\":%.6g,\"high\":%.6g,\"samples\":%d,"
	       "\"params\":{%s}}\n",
		at, test, unit, median, low, high, samples, params);
	fflush(stdout);
}

static void record(const char *test, const char *unit, double value, const char *params)
{
	record_range(test, unit, value, value, value, 1, params);
}

static void threads(int n)
{
#ifdef _OPENMP
	omp_set_num_threads(n);
#else
	(void)n;
#endif
}

/* --- verdict ------------------------------------------------------------------------------ */

static double cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The prover is a separate process, so that its memory is not counted. */
static int write_answer(struct bed *b, const struct poc_challenge *c, const char *path)
{
	pid_t pid = fork();
	int status = 1;

	if (pid == 0) {
		json_t *answer = answer_of(b, c, NULL);
		struct buf text = BUF_INIT;

		json_write(&text, answer);
		_exit(io_replace(path, text.data, text.len, 0600) < 0);
	}
	return pid < 0 || waitpid(pid, &status, 0) < 0 || status ? -1 : 0;
}

static bool verdict(void)
{
	const struct poc_device size = { .n = 8192,
		.rounds = 8,
		.lanes = 256,
		.per_slice = 1024,
		.passes = 2,
		.segments = 1024,
		.steps = 16384 };
	const char *dir = getenv("TMPDIR");
	struct buf text = BUF_INIT;
	struct poc_challenge c;
	struct rusage used;
	char path[4096];
	json_t *answer;
	struct bed b;
	double from, took;
	bool good;

	bed_init(&b, &size);
	ask(&b, &c, ALL, &b.node, 1);
	snprintf(path, sizeof path, "%s/answer-%d.json", dir ? dir : "/tmp",
		(int)getpid());
	if (write_answer(&b, &c, path) < 0 ||
		io_read(&text, path, POC_ANSWER_BYTES_MAX) < 0) {
		fprintf(stderr, "poc: no answer: %s\n", err_get()->text);
		return false;
	}
	unlink(path);
	threads(1);
	from = cpu_s();
	answer = json_parse_object(text.data, text.len, "answer");
	good = answer && passes(&c, answer);
	took = cpu_s() - from;
	getrusage(RUSAGE_SELF, &used);
	record("verdict", "s", took, "\"n\":8192,\"hashes\":16777216,\"threads\":1");
	record("verdict memory", "B", (double)used.ru_maxrss * 1024, "\"n\":8192");
	if (!good || took > VERDICT_LIMIT_S ||
		used.ru_maxrss * 1024 > VERDICT_LIMIT_BYTES) {
		fprintf(stderr, "poc: verdict: passed %d, %.2f s, %ld KiB\n", good, took,
			used.ru_maxrss);
		good = false;
	}
	buf_release(&text);
	bed_release(&b);
	return good;
}

/* --- a part of the memory ----------------------------------------------------------------- */

static double fill_s(struct bed *b, struct dev *dev)
{
	int64_t from_ns;
	struct poc_challenge c;
	json_t *part;

	ask(b, &c, MEMORY, &b->node, 1);
	from_ns = clock_mono_ns();
	part = prove_memory(&c, &c.devices[0], dev, NULL);
	json_decref(part);
	return part ? (double)(clock_mono_ns() - from_ns) / 1e9 : NAN;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Measures how many times longer a prover takes that stores only a part of the memory: the
 * deadline has to be shorter than that. */
static bool half(void)
{
	const struct poc_device size = { .lanes = 256, .per_slice = 256, .passes = 2 };
	double blocks = 4.0 * 2 * (double)poc_step_leaves(&size);
	struct bed b;
	bool good = true;

	bed_init(&b, &size);
	for (uint64_t keep = 2; keep <= 4; keep += 2) {
		double ratio[5];
		int n = keep == 2 ? 5 : 1;
		struct miser m;
		char params[200];

		for (int i = 0; i < n; i++) {
			struct dev dev = DEV_INIT;
			double all = INFINITY;

			if (dev_open(&dev, "cpu") < 0 || miser_open(&m, keep) < 0)
				return false;
			/* the better of two, so that other processes matter less */
			for (int k = 0; k < 2; k++)
				all = fmin(all, fill_s(&b, &dev));
			ratio[i] = fill_s(&b, &m.dev) / all;
			dev_close(&dev);
			dev_close(&m.dev);
		}
		qsort(ratio, (size_t)n, sizeof *ratio, by_size);
		snprintf(params, sizeof params,
			"\"keeps_one_of\":%d,\"passes\":2,\"bytes\":268435456,"
			"\"blocks_ratio\":%.2f",
			(int)keep, (double)m.computed / blocks);
		record_range("part of the memory", "ratio", ratio[n / 2], ratio[0],
			ratio[n - 1], n, params);
		good = good && ratio[n / 2] > POC_SLACK;
	}
	bed_release(&b);
	return good;
}

/* --- many lanes --------------------------------------------------------------------------- */

/* Attempts run in many threads. A thread that needs its 2^18 hashes waits until 16 threads do,
 * or until no thread has anything else to do. */
#define ATTEMPTS 40
#define LANES    16

struct waiting {
	unsigned char *x;
	bool done;
	struct waiting *next;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t some, done;
	struct waiting *first;
	int waiting, blocked, active; /* blocked: waiting or being hashed */
	bool end;
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER,
	.some = PTHREAD_COND_INITIALIZER,
	.done = PTHREAD_COND_INITIALIZER };

static bool pool_ready(void)
{
	return pool.end || pool.waiting >= LANES ||
		(pool.waiting && pool.blocked >= pool.active);
}

static void pool_fold(unsigned char *x, uint64_t count, uint64_t steps)
{
	struct waiting own = { .x = x };

	if (count != 1 || steps != poc_folds)
		abort();
	pthread_mutex_lock(&pool.lock);
	own.next = pool.first;
	pool.first = &own;
	pool.waiting++;
	pool.blocked++;
	if (pool_ready())
		pthread_cond_signal(&pool.some);
	while (!own.done)
		pthread_cond_wait(&pool.done, &pool.lock);
	pthread_mutex_unlock(&pool.lock);
}

static void *pool_work(void *arg)
{
	unsigned char states[LANES][POC_HASH_BYTES];
	struct waiting *mine[LANES];
	int n;

	pthread_mutex_lock(&pool.lock);
	for (;;) {
		while (!pool_ready())
			pthread_cond_wait(&pool.some, &pool.lock);
		for (n = 0; n < LANES && pool.first; n++) {
			mine[n] = pool.first;
			pool.first = pool.first->next;
			memcpy(states[n], mine[n]->x, POC_HASH_BYTES);
		}
		if (!n)
			break;
		pool.waiting -= n;
		pthread_mutex_unlock(&pool.lock);
		sha256_chain_fast()(states[0], (uint64_t)n, poc_folds);
		pthread_mutex_lock(&pool.lock);
		for (int i = 0; i < n; i++) {
			memcpy(mine[i]->x, states[i], POC_HASH_BYTES);
			mine[i]->done = true;
		}
		pool.blocked -= n;
		pthread_cond_broadcast(&pool.done);
	}
	pthread_mutex_unlock(&pool.lock);
	return arg;
}

/* Counts one attempting thread more or less. */
static void pool_count(int change)
{
	pthread_mutex_lock(&pool.lock);
	pool.active += change;
	pool.end = !pool.active;
	pthread_cond_broadcast(&pool.some);
	pthread_mutex_unlock(&pool.lock);
}

/* --- many --------------------------------------------------------------------------------- */

static const struct poc_device small = { .n = 512,
	.rounds = 8,
	.lanes = 8,
	.per_slice = 33,
	.passes = 1,
	.segments = 64,
	.steps = 64 };

static int64_t number(const char *name, int64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoll(text, NULL, 10) : otherwise;
}

static bool report(const struct bed *b, size_t kind, uint64_t each, uint64_t passed)
{
	const char *name = kind < NCHEATS ? cheats[kind].name : "honest";
	bool good = kind < NCHEATS ? as_promised(b, kind, each, passed) : passed == each;
	double promised = kind == NCHEATS ? (double)each :
		cheats[kind].passes       ? (double)each * cheats[kind].passes(b) :
					    0;
	char params[200];

	snprintf(params, sizeof params,
		"\"what\":\"%s\",\"of\":%llu,\"promised\":%.3g,\"n\":%d,\"folds\":%llu",
		name, (unsigned long long)each, promised, (int)b->size.n,
		(unsigned long long)poc_folds);
	record("passed", "1", (double)passed, params);
	if (!good)
		fprintf(stderr, "poc: %s: %llu of %llu passed\n", name,
			(unsigned long long)passed, (unsigned long long)each);
	return good;
}

struct tally {
	struct bed bed;
	_Atomic int64_t next;
	_Atomic uint64_t done, passed[NCHEATS];
	int64_t first, end, until_ns;
};

/* One attempting thread: makes all kinds of one number, then takes the next number. */
static void attempts(struct tally *t)
{
	struct bed mine = t->bed;
	int64_t i;

	while ((i = atomic_fetch_add(&t->next, 1)) < t->end &&
		clock_mono_ns() < t->until_ns) {
		for (size_t kind = 0; kind < NCHEATS; kind++)
			if (attempt(&mine, kind, (uint64_t)i))
				atomic_fetch_add(&t->passed[kind], 1);
		atomic_fetch_add(&t->done, 1);
	}
	pool_count(-1);
	bed_forget(&mine);
}

static bool all_cheats(void)
{
	int64_t seconds = number("RNP_POC_SECONDS", 86400);
	static struct tally t;
	pthread_t workers[64];
	int n = 1;
	bool good = true;

#ifdef _OPENMP
	n = omp_get_num_procs() < 64 ? omp_get_num_procs() : 64;
#endif
	bed_init(&t.bed, &small);
	t.next = t.first = number("RNP_POC_FIRST", 0);
	t.end = t.first + number("RNP_POC_EACH", EACH);
	t.until_ns = clock_mono_ns() + seconds * 1000000000;
	poc_sha256_chain = pool_fold;
	pool_count(ATTEMPTS);
	for (int i = 0; i < n; i++)
		if (pthread_create(&workers[i], NULL, pool_work, NULL))
			abort();
#pragma omp parallel for schedule(static, 1) num_threads(ATTEMPTS)
	for (int i = 0; i < ATTEMPTS; i++)
		attempts(&t);
	for (int i = 0; i < n; i++)
		pthread_join(workers[i], NULL);
	poc_sha256_chain = NULL;
	for (size_t kind = 0; kind < NCHEATS; kind++)
		good = report(&t.bed, kind, t.done, t.passed[kind]) && good;
	bed_release(&t.bed);
	return good && t.done;
}

static atomic_bool stop;

static void *burn(void *arg)
{
	volatile double x = 1;

	while (!atomic_load(&stop))
		x = x * 1.0000001;
	return arg;
}

/* Runs while twice as many busy threads as there are cores compete with it. */
static bool honest_under_load(void)
{
	int64_t each = number("RNP_POC_EACH", EACH), first = number("RNP_POC_FIRST", 0);
	_Atomic uint64_t passed = 0;
	pthread_t busy[4];
	struct bed b;
	bool good;

	if (each > HONEST_MAX)
		each = HONEST_MAX;
	atomic_store(&stop, false);
	bed_init(&b, &small);
	for (int i = 0; i < 4; i++)
		pthread_create(&busy[i], NULL, burn, NULL);
#pragma omp parallel for schedule(dynamic, 1)
	for (int64_t i = first; i < first + each; i++) {
		struct bed mine = b;

		if (attempt(&mine, NCHEATS, (uint64_t)i))
			passed++;
	}
	atomic_store(&stop, true);
	for (int i = 0; i < 4; i++)
		pthread_join(busy[i], NULL);
	good = report(&b, NCHEATS, (uint64_t)each, passed);
	bed_release(&b);
	return good;
}

/* How many seconds the class of this machine computes in the deadline test. */
#define DEADLINE_S 6

static bool deadline(void)
{
	struct poc_device size = { .lanes = 256, .per_slice = 256, .passes = 2 };
	struct poc_class of = { 1, INFINITY, 1 };
	struct dev dev = DEV_INIT;
	struct poc_challenge c;
	double best = INFINITY, honest, cheating, allowed;
	pthread_t busy[64];
	int cores = 1;
	char params[100];
	struct miser m;
	struct bed b;

#ifdef _OPENMP
	cores = omp_get_num_procs() < 64 ? omp_get_num_procs() : 64;
#endif
	bed_init(&b, &size);
	if (dev_open(&dev, "cpu") < 0 || miser_open(&m, 2) < 0)
		return false;
	for (int i = 0; i < 5; i++)
		best = fmin(best, fill_s(&b, &dev));
	of.fill_bytes = 2 * 4096.0 * (double)poc_step_leaves(&size) / best;
	b.size.per_slice = (int64_t)(256 * DEADLINE_S / best);
	ask(&b, &c, MEMORY, &b.node, 1);
	allowed = (double)poc_plan_deadline_ms(&c, &of) / 1e3;
	cheating = fill_s(&b, &m.dev);
	atomic_store(&stop, false);
	for (int i = 0; i < cores; i++)
		pthread_create(&busy[i], NULL, burn, NULL);
	honest = fill_s(&b, &dev);
	atomic_store(&stop, true);
	for (int i = 0; i < cores; i++)
		pthread_join(busy[i], NULL);
	snprintf(params, sizeof params, "\"deadline_s\":%.1f,\"class_bps\":%.3g", allowed,
		of.fill_bytes);
	record("honest under load", "s", honest, params);
	record("half the memory", "s", cheating, params);
	dev_close(&dev);
	dev_close(&m.dev);
	bed_release(&b);
	return honest <= allowed && cheating > allowed;
}

/* Plans the challenge that a registry gives one thread of a CPU of this kind, with memory for
 * which the fill takes `passes` passes. Here all threads may answer it. */
static bool plan_passes(struct bed *b, struct poc_challenge *c, int64_t passes)
{
	enum cpu_level level;
	const char *isa = cpu_level_chosen(&level) < 0 ? "" :
		level == CPU_AVX512                    ? "avx512_vnni" :
		level == CPU_AVX2                      ? "avx2" :
							 "";
	double memory = (double)((int64_t)16 << 30);

	rng_seed(&b->rng, (uint64_t)passes, 0);
	ask(b, c, ALL, &b->node, 1);
	do {
		json_t *claims = json_pack("{s:{s:i,s:[s]},s:I}", "cpu", "threads", 1,
			"isa", isa, "memory_bytes", (json_int_t)memory);

		poc_plan_node(c, claims);
		json_decref(claims);
		memory *= 0.97;
	} while (c->devices[0].passes < passes && memory > 1 << 20);
	json_decref(poc_challenge_write(c));
	return c->devices[0].passes == passes;
}

/* Runs while as many other threads as there are cores are busy: POC_SLACK allows for that. */
static bool honest_by_class(void)
{
	static const int64_t passes[] = { 4, 5, 7, 8 };
	pthread_t busy[64];
	int cores = 1;
	bool good = true;
	struct bed b;

#ifdef _OPENMP
	cores = omp_get_num_procs() < 64 ? omp_get_num_procs() : 64;
#endif
	bed_init(&b, &small);
	atomic_store(&stop, false);
	for (int i = 0; i < cores; i++)
		pthread_create(&busy[i], NULL, burn, NULL);
	for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
		int64_t from_ns = clock_mono_ns(), took_ms;
		struct poc_challenge c;
		char params[200];
		json_t *answer;

		if (!plan_passes(&b, &c, passes[i])) {
			fprintf(stderr, "poc: no claim is asked for %d passes\n",
				(int)passes[i]);
			good = false;
			continue;
		}
		answer = answer_of(&b, &c, NULL);
		took_ms = (clock_mono_ns() - from_ns) / 1000000;
		snprintf(params, sizeof params,
			"\"passes\":%d,\"bytes\":%lld,\"deadline_s\":%.1f",
			(int)passes[i],
			(long long)poc_step_leaves(&c.devices[0]) * MEMFILL_SLICES *
				MEMFILL_BYTES,
			(double)c.deadline_ms / 1e3);
		record("honest by class", "s", (double)took_ms / 1e3, params);
		if (!passes_at(&c, answer, took_ms)) {
			fprintf(stderr,
				"poc: by class, %d passes: refused after %lld ms\n",
				(int)passes[i], (long long)took_ms);
			good = false;
		}
	}
	atomic_store(&stop, true);
	for (int i = 0; i < cores; i++)
		pthread_join(busy[i], NULL);
	bed_release(&b);
	return good;
}

static bool asked_for(int argc, char **argv, const char *name)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return true;
	return argc < 2;
}

int main(int argc, char **argv)
{
	bool good = true;

	/* it forks, so it must run before any other thread exists */
	if (asked_for(argc, argv, "verdict"))
		good = verdict() && good;
	if (asked_for(argc, argv, "half"))
		good = half() && good;
	if (asked_for(argc, argv, "deadline"))
		good = deadline() && good;
#ifdef _OPENMP
	threads(omp_get_num_procs());
#endif
	if (asked_for(argc, argv, "cheats"))
		good = all_cheats() && good;
	if (asked_for(argc, argv, "honest"))
		good = honest_under_load() && good;
	if (asked_for(argc, argv, "class"))
		good = honest_by_class() && good;
	return !good;
}
