/* gomp.c - the functions that gcc calls for OpenMP pragmas, on the team of team.h: the part of
 * libgomp's interface that our sources and oneDNN need. The programs export them, so that
 * oneDNN, which is opened with dlopen and was built for libgomp, finds these and uses our
 * threads. A pragma that needs more does not link. libgomp itself spins for milliseconds unless
 * OMP_WAIT_POLICY is passive, and then never: each product pays for waking a thread. */
#ifdef _OPENMP
#include <limits.h>
#include <omp.h>

#include "kernels/dev/team_parts.h"

/* libgomp's functions, declared in no header */
void GOMP_parallel(void (*fn)(void *), void *data, unsigned threads, unsigned flags);
void GOMP_parallel_loop_nonmonotonic_dynamic(void (*fn)(void *), void *data,
	unsigned threads, long start, long end, long step, long chunk, unsigned flags);
void GOMP_barrier(void);
void GOMP_critical_start(void);
void GOMP_critical_end(void);
void GOMP_critical_name_start(void **lock);
void GOMP_critical_name_end(void **lock);
void GOMP_atomic_start(void);
void GOMP_atomic_end(void);
bool GOMP_loop_nonmonotonic_dynamic_start(long start, long end, long step, long chunk,
	long *from, long *to);
bool GOMP_loop_nonmonotonic_dynamic_next(long *from, long *to);
bool GOMP_loop_ull_nonmonotonic_dynamic_start(bool up, unsigned long long start,
	unsigned long long end, unsigned long long step, unsigned long long chunk,
	unsigned long long *from, unsigned long long *to);
bool GOMP_loop_ull_nonmonotonic_dynamic_next(unsigned long long *from,
	unsigned long long *to);
void GOMP_loop_end(void);
void GOMP_loop_end_nowait(void);

/* --- locks --------------------------------------------------------------------------------- */

/* 0: free; 1: locked; 2: locked, and somebody may be asleep. The lock itself is the word that
 * waiters sleep on. */
static void lock_take(uint32_t *lock)
{
	_Atomic uint32_t *word = (_Atomic uint32_t *)lock;
	uint32_t free = 0;

	if (atomic_compare_exchange_strong(word, &free, 1))
		return;
	while (atomic_exchange(word, 2) != 0)
		team_wait_word(word, 2);
}

static void lock_release(uint32_t *lock)
{
	_Atomic uint32_t *word = (_Atomic uint32_t *)lock;

	if (atomic_exchange(word, 0) == 2)
		team_wake_one(word);
}

static uint32_t critical, atomic_lock;

void GOMP_critical_start(void)
{
	lock_take(&critical);
}

void GOMP_critical_end(void)
{
	lock_release(&critical);
}

/* each critical name has a pointer of its own, initially NULL, which holds the lock */
void GOMP_critical_name_start(void **lock)
{
	lock_take((uint32_t *)(void *)lock);
}

void GOMP_critical_name_end(void **lock)
{
	lock_release((uint32_t *)(void *)lock);
}

void GOMP_atomic_start(void)
{
	lock_take(&atomic_lock);
}

void GOMP_atomic_end(void)
{
	lock_release(&atomic_lock);
}

/* --- loops --------------------------------------------------------------------------------- */

/* Outside every region a thread is a team of one. */
static __thread struct team_region alone = { .threads = 1 };

static struct team_region *region(void)
{
	return team_here.region ? team_here.region : &alone;
}

static struct team_loop *loop_now(void)
{
	return &region()->loops[team_here.loop % TEAM_LOOPS];
}

/* The first thread to reach a loop sets it up, in a slot that all threads have left. */
static void loop_begin(uint64_t start, uint64_t step, uint64_t total, uint64_t chunk)
{
	struct team_region *r = region();
	uint64_t number = ++team_here.loop;
	struct team_loop *l = loop_now();
	/* total departures from loops in this slot by then; it never decreases, so that a
	 * waiter cannot miss it */
	uint32_t all = (uint32_t)((number - 1) / TEAM_LOOPS * (uint64_t)r->threads), left;
	int64_t since = 0;

	lock_take(&r->lock);
	while (l->number != number && (left = atomic_load(&l->left.value)) != all) {
		lock_release(&r->lock);
		since = since ? since : team_now_ns();
		team_wait(&l->left, left, since);
		lock_take(&r->lock);
	}
	if (l->number != number) {
		l->number = number;
		l->start = start, l->step = step;
		l->total = total, l->chunk = chunk ? chunk : 1;
		atomic_store(&l->next, 0);
	}
	lock_release(&r->lock);
}

static bool loop_next(uint64_t *from, uint64_t *to)
{
	struct team_loop *l = loop_now();
	uint64_t at = atomic_load_explicit(&l->next, memory_order_relaxed), n;

	do {
		if (at >= l->total)
			return false;
		n = l->total - at < l->chunk ? l->total - at : l->chunk;
	} while (!atomic_compare_exchange_weak(&l->next, &at, at + n));
	*from = l->start + l->step * at;
	*to = l->start + l->step * (at + n);
	return true;
}

static void loop_end(void)
{
	struct team_loop *l = loop_now();

	atomic_fetch_add(&l->left.value, 1);
	team_wake(&l->left, INT_MAX);
}

static uint64_t iterations(uint64_t distance, uint64_t step)
{
	return distance / step + (distance % step != 0);
}

static uint64_t total_of(long start, long end, long step)
{
	if (step > 0)
		return start < end ?
			iterations((uint64_t)end - (uint64_t)start, (uint64_t)step) :
			0;
	return start > end ?
		iterations((uint64_t)start - (uint64_t)end, 0 - (uint64_t)step) :
		0;
}

bool GOMP_loop_nonmonotonic_dynamic_start(long start, long end, long step, long chunk,
	long *from, long *to)
{
	loop_begin((uint64_t)start, (uint64_t)step, total_of(start, end, step),
		(uint64_t)chunk);
	return GOMP_loop_nonmonotonic_dynamic_next(from, to);
}

bool GOMP_loop_nonmonotonic_dynamic_next(long *from, long *to)
{
	uint64_t f, t;

	if (!loop_next(&f, &t))
		return false;
	*from = (long)f;
	*to = (long)t;
	return true;
}

/* up: step is positive; else it is a negative number modulo 2^64 */
bool GOMP_loop_ull_nonmonotonic_dynamic_start(bool up, unsigned long long start,
	unsigned long long end, unsigned long long step, unsigned long long chunk,
	unsigned long long *from, unsigned long long *to)
{
	uint64_t total = up ? start < end ? iterations(end - start, step) : 0 :
		start > end ? iterations(start - end, 0 - step) :
			      0;

	loop_begin(start, step, total, chunk);
	return GOMP_loop_ull_nonmonotonic_dynamic_next(from, to);
}

bool GOMP_loop_ull_nonmonotonic_dynamic_next(unsigned long long *from,
	unsigned long long *to)
{
	uint64_t f, t;

	if (!loop_next(&f, &t))
		return false;
	*from = f;
	*to = t;
	return true;
}

void GOMP_loop_end_nowait(void)
{
	loop_end();
}

void GOMP_loop_end(void)
{
	loop_end();
	team_barrier();
}

/* --- regions ------------------------------------------------------------------------------- */

/* flags: how threads are bound to CPUs, which we ignore */
void GOMP_parallel(void (*fn)(void *), void *data, unsigned threads, unsigned flags)
{
	(void)flags;
	team_each(threads < TEAM_MAX ? (int)threads : TEAM_MAX, fn, data);
}

void GOMP_parallel_loop_nonmonotonic_dynamic(void (*fn)(void *), void *data,
	unsigned threads, long start, long end, long step, long chunk, unsigned flags)
{
	struct team_loop loop = { .start = (uint64_t)start,
		.step = (uint64_t)step,
		.total = total_of(start, end, step),
		.chunk = chunk > 0 ? (uint64_t)chunk : 1 };

	(void)flags;
	team_each_loop(threads < TEAM_MAX ? (int)threads : TEAM_MAX, fn, data, &loop);
}

void GOMP_barrier(void)
{
	team_barrier();
}

int omp_get_thread_num(void)
{
	return team_here.region ? team_here.me : 0;
}

int omp_get_num_threads(void)
{
	return team_here.region ? team_here.threads : 1;
}

int omp_get_max_threads(void)
{
	return team_size();
}

int omp_in_parallel(void)
{
	return team_inside();
}

int omp_get_num_procs(void)
{
	return team_cpus();
}

void omp_set_num_threads(int n)
{
	team_resize(n);
}
#endif
