/* team.c - the team of threads. One list of operations runs at a time. Threads claim pieces of
 * its open operation; the thread that completes the last piece opens the next operation, and
 * wakes sleepers only if there are more pieces than threads awake. A thread that holds no piece
 * delays nobody, even if the system has preempted it; so beside other programs the team
 * continues with the threads that have a CPU. */
#include "kernels/dev/team.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/dev/cpus.h"
#include "kernels/dev/team_parts.h"

/* of a slot's word for its next piece; the others are the operation's tag */
#define CLAIM_BITS 16
#define PIECES_MAX ((UINT32_C(1) << CLAIM_BITS) - 1)
/* operations by which a list's need for threads is judged before it begins */
#define LOOK_AHEAD 4

/* A thread's range of the open operation: tag << CLAIM_BITS | number of its pieces that are
 * claimed. A word with the tag of an earlier operation means none claimed, so that nobody has
 * to reset the words between two operations. */
struct slot {
	_Alignas(TEAM_LINE) _Atomic uint64_t claimed;
};

/* The list that is running. The tags of its operations are first, first + 1 ... and are never
 * reused. */
struct list {
	const struct team_op *ops;
	size_t count;
	uint64_t first;
	_Atomic size_t open;     /* index of the open operation; count: all are done */
	_Atomic uint64_t undone; /* pieces of it not yet completed */
};

/* How an operation is divided. */
struct split {
	uint64_t grain, grains;
	uint64_t parts, pieces; /* ranges, and pieces per range */
};

static struct team {
	int size; /* 0: not started */
	int wanted;
	pthread_t *threads;
	struct slot *slots;
	uint64_t tags;      /* tags used so far */
	_Atomic bool ended; /* threads are to exit */
	_Atomic(struct list *) list;
	_Alignas(TEAM_LINE) _Atomic uint32_t bell; /* changes when an operation opens */
	_Alignas(TEAM_LINE) struct team_word call; /* sleeping workers wait here */
	/* whether the caller sleeps, waiting for the end of the list */
	_Atomic bool caller_asleep;
	_Alignas(TEAM_LINE) struct team_word
		active; /* threads other than the caller that access the list */
	_Alignas(TEAM_LINE) struct team_word
		serving; /* ticket of the caller whose turn it is */
	_Atomic uint32_t tickets;
	uint64_t runs, ops;
} team;

__thread struct team_here team_here = { .threads = 1 };

/* --- operations ---------------------------------------------------------------------------- */

static struct split split_of(const struct team_op *op)
{
	struct split c = { .grain = op->grain ? op->grain : 1 };
	uint64_t wanted = op->pieces ? op->pieces : 1, max;

	c.grains = op->n / c.grain + (op->n % c.grain != 0);
	c.parts = c.grains < (uint64_t)team.size ? c.grains : (uint64_t)team.size;
	if (c.parts && op->n <= op->alone)
		return (struct split){ op->n, 1, 1, 1 };
	max = c.parts ? c.grains / c.parts : 0;
	c.pieces = wanted < max ? wanted : max;
	c.pieces = c.pieces < PIECES_MAX ? c.pieces : PIECES_MAX;
	return c;
}

/* Ensures that that number of threads is awake. A thread not yet counted as asleep looks once
 * more before it sleeps. */
static void have_awake(uint64_t parts)
{
	int more = (int)parts - team.size + atomic_load(&team.call.asleep);

	if (more <= 0)
		return;
	atomic_fetch_add(&team.call.value, 1);
	team_call(&team.call, more, TEAM_WORKER | TEAM_CALLER);
}

/* Opens the first operation from i on that has something to do. Returns its number of ranges;
 * 0: there is none. */
static uint64_t open_from(struct list *l, size_t i)
{
	struct split c = { 0 };

	for (; i < l->count; i++) {
		c = split_of(&l->ops[i]);
		if (c.parts)
			break;
	}
	atomic_store_explicit(&l->undone, c.parts * c.pieces, memory_order_relaxed);
	atomic_store(&l->open, i);
	return c.parts;
}

static void open_next(struct list *l, size_t i)
{
	uint64_t parts = open_from(l, i);

	atomic_fetch_add(&team.bell, 1);
	if (parts > 1) {
		have_awake(parts);
	} else if (!parts && atomic_load(&team.caller_asleep)) {
		atomic_fetch_add(&team.call.value, 1);
		team_call(&team.call, 1, TEAM_CALLER);
	}
}

/* Claims a piece of a range. */
static bool claim(struct slot *s, uint64_t tag, uint64_t pieces, uint64_t *piece)
{
	uint64_t word = atomic_load_explicit(&s->claimed, memory_order_relaxed), next;

	do {
		if (word >> CLAIM_BITS > tag)
			return false;
		next = word >> CLAIM_BITS == tag ? word & PIECES_MAX : 0;
		if (next >= pieces)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(&s->claimed, &word,
		tag << CLAIM_BITS | (next + 1), memory_order_acq_rel,
		memory_order_relaxed));
	*piece = next;
	return true;
}

static void do_piece(const struct team_op *op, const struct split *c, uint64_t part,
	uint64_t piece)
{
	uint64_t lo = c->grains * part / c->parts, hi = c->grains * (part + 1) / c->parts;
	uint64_t from = (lo + (hi - lo) * piece / c->pieces) * c->grain;
	uint64_t to = (lo + (hi - lo) * (piece + 1) / c->pieces) * c->grain;

	op->part(op->work, from, to < op->n && to >= from ? to : op->n);
}

/* Runs all pieces of operation i that can be claimed, this thread's own range first. Returns
 * how many. */
static uint64_t do_claimed(struct list *l, size_t i, int thread)
{
	const struct team_op *op = &l->ops[i];
	struct split c = split_of(op);
	uint64_t did = 0, piece;

	for (uint64_t k = 0; k < c.parts; k++) {
		uint64_t part = ((uint64_t)thread + k) % c.parts;

		while (claim(&team.slots[part], l->first + i, c.pieces, &piece)) {
			do_piece(op, &c, part, piece);
			did++;
		}
	}
	return did;
}

/* Works on the list until there is nothing to claim. Returns whether anything was done. */
static bool take_part(struct list *l, int thread)
{
	size_t i, now = atomic_load(&l->open);
	bool any = false;

	team_here.threads = team.size;

	do {
		uint64_t did;

		i = now;
		if (i == l->count)
			break;
		did = do_claimed(l, i, thread);
		any |= did > 0;
		if (did &&
			atomic_fetch_sub_explicit(&l->undone, did,
				memory_order_acq_rel) == did)
			open_next(l, i + 1);
		now = atomic_load(&l->open);
	} while (now != i);
	return any;
}

/* --- threads ------------------------------------------------------------------------------- */

/* A list stays valid while any thread is active; a thread that comes later finds none. */
static bool visit(int thread)
{
	struct list *l;
	bool any = false;

	atomic_fetch_add(&team.active.value, 1);
	l = atomic_load(&team.list);
	if (l)
		any = take_part(l, thread);
	if (atomic_fetch_sub(&team.active.value, 1) == 1)
		team_wake(&team.active, 1);
	return any;
}

/* Waits for something to do: spins until the deadline, then sleeps. Returns the time from which
 * the next deadline counts. */
static int64_t idle(int thread, int64_t since)
{
	uint32_t rung = atomic_load(&team.bell), call;

	if (visit(thread))
		return team_now_ns();
	if (team_spin(&team.bell, rung, since))
		return since;
	call = atomic_load(&team.call.value);
	atomic_fetch_add(&team.call.asleep, 1);
	if (visit(thread) || atomic_load(&team.ended))
		atomic_fetch_sub(&team.call.asleep, 1);
	else
		team_sleep(&team.call, call, TEAM_WORKER);
	return team_now_ns();
}

static void *thread_main(void *arg)
{
	int thread = (int)(intptr_t)arg;
	int64_t since = 0;

	team_here = (struct team_here){ .me = thread, .threads = 1, .inside = true };
	while (!atomic_load(&team.ended))
		since = idle(thread, since);
	return NULL;
}

int team_cpus(void)
{
	return cpus_usable();
}

/* Returns the first number of OMP_NUM_THREADS, which has one for each nesting level; 0: none. */
__attribute__((unused)) static int asked_for(void)
{
	const char *text = getenv("OMP_NUM_THREADS");
	char *end;
	long n;

	if (!text)
		return 0;
	n = strtol(text, &end, 10);
	while (*end == ' ')
		end++;
	if (end == text || (*end && *end != ',') || n < 1)
		return 0;
	return n < TEAM_MAX ? (int)n : TEAM_MAX;
}

static int default_size(void)
{
#ifdef _OPENMP
	int n = asked_for();

	n = n ? n : team_cpus();
	return n < TEAM_MAX ? n : TEAM_MAX;
#else
	return 1; /* the kernels are not built for more: sanitizers, fuzzers */
#endif
}

/* The child of a fork has only the thread that called it. */
static void after_fork(void)
{
	memset(&team.call, 0, sizeof team.call);
	atomic_store(&team.caller_asleep, false);
	memset(&team.active, 0, sizeof team.active);
	memset(&team.serving, 0, sizeof team.serving);
	atomic_store(&team.tickets, 0);
	atomic_store(&team.list, NULL);
	team.size =
		0; /* its memory is leaked, since another thread may have been using it */
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, after_fork);
}

/* Signals go to the program's own threads. */
static void start_threads(void)
{
	int n = team.wanted ? team.wanted : default_size(), made = 1;
	sigset_t all, before;
	void *slots;

	team.threads = calloc((size_t)n, sizeof *team.threads);
	if (!team.threads ||
		posix_memalign(&slots, TEAM_LINE, (size_t)n * sizeof *team.slots))
		abort(); /* only a few kilobytes at start */
	team.slots = memset(slots, 0, (size_t)n * sizeof *team.slots);
	atomic_store(&team.ended, false);
	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGILL);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (; made < n; made++)
		if (pthread_create(&team.threads[made], NULL, thread_main,
			    (void *)(intptr_t)made))
			break;
	team.size = made;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* --- turns --------------------------------------------------------------------------------- */

static void turn_begin(void)
{
	uint32_t mine = atomic_fetch_add(&team.tickets, 1), now;
	int64_t since = 0;

	while ((now = atomic_load(&team.serving.value)) != mine) {
		since = since ? since : team_now_ns();
		team_wait(&team.serving, now, since);
	}
}

static void turn_end(void)
{
	atomic_fetch_add(&team.serving.value, 1);
	team_wake(&team.serving, INT_MAX);
}

/* Called within a turn. */
static void ready_team(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (team.size)
		return;
	pthread_once(&once, watch_forks);
	start_threads();
}

int team_size(void)
{
	int n;

	if (team_here.inside)
		return team.size;
	turn_begin();
	ready_team();
	n = team.size;
	turn_end();
	return n;
}

void team_resize(int n)
{
	turn_begin();
	atomic_store(&team.ended, true);
	atomic_fetch_add(&team.bell, 1);
	atomic_fetch_add(&team.call.value, 1);
	team_call(&team.call, INT_MAX, TEAM_WORKER);
	for (int i = 1; i < team.size; i++)
		pthread_join(team.threads[i], NULL);
	if (team.size) {
		free(team.threads);
		free(team.slots);
	}
	team.size = 0;
	team.wanted = n < TEAM_MAX ? n : TEAM_MAX;
	turn_end();
}

int team_me(void)
{
	return team_here.me;
}

int team_threads(void)
{
	return team_here.threads;
}

bool team_inside(void)
{
	return team_here.inside;
}

void team_counts(struct team_counts *out)
{
	turn_begin();
	out->runs = team.runs;
	out->ops = team.ops;
	out->wakes = atomic_load(&team_wakes);
	turn_end();
}

/* --- lists --------------------------------------------------------------------------------- */

static void run_alone(const struct team_op *ops, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (ops[i].n)
			ops[i].part(ops[i].work, 0, ops[i].n);
}

static bool has_parts(const struct team_op *op)
{
	return op->n > 1 && op->n > op->grain && op->n > op->alone;
}

static bool worth_sharing(const struct team_op *ops, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (has_parts(&ops[i]))
			return true;
	return false;
}

/* Threads wake up while the first operations run. */
static void wake_early(const struct team_op *ops, size_t count)
{
	uint64_t max = 1;

	for (size_t i = 1; i < count && i < LOOK_AHEAD; i++) {
		struct split c = split_of(&ops[i]);

		max = c.parts > max ? c.parts : max;
	}
	if (max > 1)
		have_awake(max);
}

/* The caller works, until all is done. */
static void take_part_to_end(struct list *l)
{
	int64_t since = team_now_ns();

	for (;;) {
		uint32_t rung = atomic_load(&team.bell), call;

		if (take_part(l, 0))
			since = team_now_ns();
		if (atomic_load(&l->open) == l->count)
			return;
		if (team_spin(&team.bell, rung, since))
			continue;
		call = atomic_load(&team.call.value);
		atomic_fetch_add(&team.call.asleep, 1);
		atomic_store(&team.caller_asleep, true);
		if (take_part(l, 0) || atomic_load(&l->open) == l->count)
			atomic_fetch_sub(&team.call.asleep, 1);
		else
			team_sleep(&team.call, call, TEAM_CALLER);
		atomic_store(&team.caller_asleep, false);
		since = team_now_ns();
	}
}

/* Called within a turn. */
static void run_shared(const struct team_op *ops, size_t count)
{
	struct list l = { .ops = ops, .count = count, .first = team.tags + 1 };
	struct team_here before = team_here;
	int64_t since;
	uint64_t parts;
	uint32_t n;

	team.tags += count;
	team.runs++;
	team.ops += count;
	parts = open_from(&l, 0);
	atomic_store(&team.list, &l);
	atomic_fetch_add(&team.bell, 1);
	if (parts > 1)
		have_awake(parts);
	else
		wake_early(ops, count);
	team_here = (struct team_here){ .threads = team.size, .inside = true };
	take_part_to_end(&l);
	team_here = before;
	/* no thread accesses the list any more */
	atomic_store(&team.list, NULL);
	since = team_now_ns();
	while ((n = atomic_load(&team.active.value)) != 0)
		team_wait(&team.active, n, since);
}

void team_run(const struct team_op *ops, size_t count)
{
	if (team_here.inside || !worth_sharing(ops, count)) {
		run_alone(ops, count);
		return;
	}
	turn_begin();
	ready_team();
	if (team.size > 1)
		run_shared(ops, count);
	turn_end();
	if (team.size == 1)
		run_alone(ops, count);
}

/* --- regions ------------------------------------------------------------------------------- */

static void region_part(void *work, uint64_t from, uint64_t to)
{
	struct team_region *r = work;
	struct team_here before = team_here;

	for (uint64_t i = from; i < to; i++) {
		team_here = (struct team_here){ .me = (int)i,
			.threads = r->threads,
			.inside = before.inside,
			.region = r };
		r->fn(r->data);
	}
	team_here = before;
}

void team_each_loop(int threads, void (*fn)(void *), void *data,
	const struct team_loop *loop)
{
	struct team_region r = { .fn = fn, .data = data, .threads = 1 };
	struct team_op op = { region_part, &r, 1, 1, 1, 0 };

	if (loop) {
		struct team_loop *l = &r.loops[0];

		l->start = loop->start, l->step = loop->step;
		l->total = loop->total, l->chunk = loop->chunk;
	}
	if (team_here.inside || threads == 1) {
		region_part(&r, 0, 1);
		return;
	}
	turn_begin();
	ready_team();
	r.threads = threads > 0 && threads < team.size ? threads : team.size;
	op.n = (uint64_t)r.threads;
	if (r.threads > 1)
		run_shared(&op, 1);
	turn_end();
	if (r.threads == 1)
		region_part(&r, 0, 1);
}

void team_each(int threads, void (*fn)(void *), void *data)
{
	team_each_loop(threads, fn, data, NULL);
}

void team_barrier(void)
{
	struct team_region *r = team_here.region;
	uint32_t round;

	if (!r || r->threads == 1)
		return;
	round = atomic_load_explicit(&r->round.value, memory_order_acquire);
	if (atomic_fetch_add(&r->arrived, 1) + 1 == (uint32_t)r->threads) {
		atomic_store_explicit(&r->arrived, 0, memory_order_relaxed);
		atomic_fetch_add(&r->round.value, 1);
		team_wake(&r->round, INT_MAX);
	} else {
		int64_t since = team_now_ns();

		while (atomic_load(&r->round.value) == round)
			team_wait(&r->round, round, since);
	}
}
