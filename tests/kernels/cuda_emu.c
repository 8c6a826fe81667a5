/* cuda_emu.c - runs the grids of cuda_emu.h: fibers, the scheduler, barriers, shared memory;
 * long because all of these change the same state of a block. */
#include "tests/kernels/cuda_emu.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/kernels/cuda_emu_wgmma.h"
#include "tests/kernels/cuda_fiber.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define LEAVE(keep, to) __sanitizer_start_switch_fiber(keep, (to)->stack, STACK_BYTES)
#define LEAVE_TO_MAIN(keep) \
	__sanitizer_start_switch_fiber(keep, main_stack, main_stack_bytes)
#define ARRIVE(kept) __sanitizer_finish_switch_fiber(kept, NULL, NULL)
#define CLEAN(p, n)  __asan_unpoison_memory_region(p, n)
#define CLOSE(p, n)  __asan_poison_memory_region(p, n)
static const void *main_stack;
static size_t main_stack_bytes;
#define ARRIVE_FROM_MAIN(kept) \
	__sanitizer_finish_switch_fiber(kept, &main_stack, &main_stack_bytes)
#else
#define LEAVE(keep, to)        (void)(to)
#define LEAVE_TO_MAIN(keep)    (void)0
#define ARRIVE(kept)           (void)(kept)
#define ARRIVE_FROM_MAIN(kept) (void)(kept)
#define CLEAN(p, n)            (void)0
#define CLOSE(p, n)            (void)0
#endif

#define STACK_BYTES ((size_t)128 << 10)
#define BLOCKS_MAX  3
#define THREADS_MAX 1024
#define ARRAYS_MAX  16
#define COPIES_MAX  256 /* asynchronous copies of a thread that are under way */

struct fiber {
	struct emu_thread self; /* must be first: emu_self points here */
	emu_context context;
	void *stack, *fake;
	struct block *block;
	unsigned index; /* in its block */
	uint32_t time;  /* time of its last barrier */
	/* up to which time this fiber sees the writes of each lane of its warp; and, by mbarriers,
	 * of each thread of its block: NULL: none */
	uint32_t known[32], *seen;
	bool late; /* its asynchronous copies are done as late as possible */
	struct emu_late_copy *copies; /* COPIES_MAX, allocated for the first */
	unsigned first_copy, copies_end;
	uint32_t group;     /* of the copies that are started now */
	const void *awaits; /* where it sleeps */
};

/* What the lanes of a warp do: each is in one of the first four sets. */
struct warp {
	uint32_t ready, at_barrier, meeting, done;
	uint32_t syncing; /* of those that meet: at a barrier, not at a vote */
	uint32_t mask;    /* of all that meet, unless they are */
	bool mixed;
	uint32_t masks[32];
};

struct block {
	struct fiber fibers[THREADS_MAX];
	struct warp warps[THREADS_MAX / 32];
	unsigned count, left, waiting;
	uint32_t number,
		/* number: among all blocks of all grids; met: time when all threads last met */
		met;
	uint64_t deposits[THREADS_MAX], values[THREADS_MAX]; /* by warp and lane */
	struct {
		const void *place;
		char *at;
		void *memory; /* that it lies in */
		size_t bytes;
		unsigned address; /* in the window of shared memory */
	} arrays[ARRAYS_MAX];
	unsigned shared_end; /* of that window */
	void *own;           /* of cuda_emu_wgmma.c */
};

struct emu_index emu_grid_dim, emu_block_dim;
struct emu_thread *emu_self;

static struct block *blocks[BLOCKS_MAX];
static emu_context scheduler;
static void *scheduler_fake;
static bool from_scheduler; /* the last switch was from it, not between fibers */
static emu_body_fn body_of_grid;
static void *arguments_of_grid;
static uint64_t seed;
static unsigned habit; /* how the next fiber is chosen: see cuda_emu.h */
static uint32_t started, first_of_grid,
	/* started: blocks so far; first_of_grid: blocks before this grid; clock_now: barriers
	 * so far */
	clock_now = 1;

static void die(const char *why)
{
	const struct emu_thread *t = emu_self;

	fprintf(stderr, "cuda emulation: block %u, thread %u: %s\n", t ? t->block.x : 0,
		t ? t->thread.x : 0, why);
	abort();
}

/* xorshift64*, which decides which fiber runs next */
static unsigned below(unsigned n)
{
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return (unsigned)((seed * 0x2545f4914f6cdd1du >> 32) * n >> 32);
}

static struct fiber *running(void)
{
	return (struct fiber *)emu_self;
}

static struct warp *warp_of(struct fiber *f)
{
	return &f->block->warps[f->index / 32];
}

static struct fiber *next_fiber(void);

/* What a fiber does first when it runs again. */
static void arrive(void *fake)
{
	if (from_scheduler)
		ARRIVE_FROM_MAIN(fake);
	else
		ARRIVE(fake);
}

/* Switches to the next fiber, or to the scheduler when none can run; returns when this fiber is
 * next. */
static void suspend(void)
{
	struct fiber *f = running(), *next = next_fiber();

	if (next == f)
		return;
	from_scheduler = false;
	if (next) {
		emu_self = &next->self;
		LEAVE(&f->fake, next);
		SWITCH(&f->context, &next->context);
	} else {
		LEAVE_TO_MAIN(&f->fake);
		SWITCH(&f->context, &scheduler);
	}
	arrive(f->fake);
}

static void release_barrier(struct block *b)
{
	if (!b->left || b->waiting < b->left)
		return;
	b->met = ++clock_now;
	for (unsigned i = 0; i < b->count; i++)
		if (b->warps[i / 32].at_barrier >> i % 32 & 1)
			b->fibers[i].time = clock_now;
	for (unsigned w = 0; w * 32 < b->count; w++) {
		b->warps[w].ready |= b->warps[w].at_barrier;
		b->warps[w].at_barrier = 0;
	}
	b->waiting = 0;
}

void emu_block_barrier(void)
{
	struct fiber *f = running();
	uint32_t me = (uint32_t)1 << f->self.lane;

	warp_of(f)->ready &= ~me;
	warp_of(f)->at_barrier |= me;
	f->block->waiting++;
	release_barrier(f->block);
	suspend();
}

/* From now on, each lane of mask sees what all of them wrote before they met. */
static void order_lanes(struct fiber *lanes, unsigned mask)
{
	uint32_t known[32] = { 0 };

	for (unsigned k = 0; k < 32; k++) {
		if (!(mask >> k & 1))
			continue;
		lanes[k].known[k] = lanes[k].time;
		for (unsigned l = 0; l < 32; l++)
			if (lanes[k].known[l] > known[l])
				known[l] = lanes[k].known[l];
	}
	clock_now++;
	for (unsigned k = 0; k < 32; k++)
		if (mask >> k & 1) {
			memcpy(lanes[k].known, known, sizeof known);
			lanes[k].time = clock_now;
		}
}

static const uint64_t *meet_warp(unsigned mask, uint64_t value, bool syncs)
{
	struct fiber *f = running();
	struct block *b = f->block;
	struct warp *w = warp_of(f);
	unsigned first = f->index & ~31u;
	uint32_t me = (uint32_t)1 << f->self.lane, others = 0;
	uint32_t live = b->count - first < 32 ? ((uint32_t)1 << (b->count - first)) - 1 :
						~(uint32_t)0;

	if (!(mask >> f->self.lane & 1))
		die("takes part in a warp operation whose mask leaves it out");
	if (mask & (w->done | ~live))
		die("a warp operation waits for a thread that is not there");
	if (!w->meeting) {
		w->mask = mask;
		w->mixed = false;
	}
	w->mixed = w->mixed || w->mask != mask;
	for (unsigned k = 0; w->mixed && k < 32; k++)
		others |= (uint32_t)(w->masks[k] != mask) << k;
	if (mask & w->meeting & (others | (syncs ? ~w->syncing : w->syncing)))
		die("threads meet in different warp operations, or with different masks");
	b->deposits[first + f->self.lane] = value;
	w->masks[f->self.lane] = mask;
	w->syncing = syncs ? w->syncing | me : w->syncing & ~me;
	w->ready &= ~me;
	w->meeting |= me;
	if ((w->meeting & mask) == mask) {
		if (syncs)
			order_lanes(&b->fibers[first], mask);
		for (unsigned k = 0; k < 32; k++)
			if (mask >> k & 1)
				b->values[first + k] = b->deposits[first + k];
		w->meeting &= ~mask;
		w->ready |= mask;
	}
	suspend();
	return &b->values[first];
}

const uint64_t *emu_warp_exchange(unsigned mask, uint64_t value)
{
	return meet_warp(mask, value, false);
}

void emu_warp_barrier(unsigned mask)
{
	meet_warp(mask, 0, true);
}

void emu_whereabouts(uint32_t *block, uint16_t *thread, uint32_t *time)
{
	const struct fiber *f = running();

	*block = f->block->number;
	*thread = (uint16_t)f->index;
	*time = f->time;
}

bool emu_ordered(uint32_t block, uint16_t thread, uint32_t time)
{
	const struct fiber *f = running();
	unsigned me = f->index;

	if (block <= first_of_grid || (block == f->block->number && thread == me))
		return true; /* the access was in an earlier grid, or its own */
	if (block != f->block->number)
		return false;
	return time < f->block->met ||
		(thread / 32 == me / 32 && time <= f->known[thread % 32]) ||
		(f->seen && time <= f->seen[thread]);
}

/* A warp's barrier passes on what its lanes have written, not what they see by mbarriers: then an
 * order is missed, never invented. */
void emu_release(uint32_t *seen)
{
	struct fiber *f = running();

	for (unsigned t = 0; t < f->block->count; t++) {
		uint32_t time = t / 32 == f->index / 32 ? f->known[t % 32] : 0;

		time = t == f->index ? f->time : time;
		if (f->seen && f->seen[t] > time)
			time = f->seen[t];
		seen[t] = time > seen[t] ? time : seen[t];
	}
	f->time = ++clock_now;
}

void emu_acquire(const uint32_t *seen)
{
	struct fiber *f = running();

	if (!f->seen)
		f->seen = calloc(THREADS_MAX, sizeof *f->seen);
	if (!f->seen)
		die("no memory");
	for (unsigned t = 0; t < f->block->count; t++)
		f->seen[t] = seen[t] > f->seen[t] ? seen[t] : f->seen[t];
}

bool emu_own_stack(const void *p)
{
	const char *stack = running()->stack;

	return (const char *)p >= stack && (const char *)p < stack + STACK_BYTES;
}

__attribute__((weak)) void emu_atomic_begin(void)
{
}

__attribute__((weak)) void emu_atomic_end(void)
{
}

__attribute__((weak)) void emu_race_forget(const void *p, size_t bytes)
{
	(void)p, (void)bytes;
}

bool emu_copy_later(const struct emu_late_copy *c)
{
	struct fiber *f = running();
	struct emu_late_copy *kept;

	if (!f->late)
		return false;
	if (!f->copies)
		f->copies = malloc(COPIES_MAX * sizeof *f->copies);
	if (!f->copies || f->copies_end - f->first_copy == COPIES_MAX)
		die("too many asynchronous copies");
	kept = &f->copies[f->copies_end++ % COPIES_MAX];
	*kept = *c;
	kept->group = f->group;
	return true;
}

void emu_copy_commit(void)
{
	running()->group++;
}

bool emu_copy_next(struct emu_late_copy *c, unsigned groups)
{
	struct fiber *f = running();

	if (f->first_copy == f->copies_end)
		return false;
	*c = f->copies[f->first_copy % COPIES_MAX];
	/* a copy of a group that is not committed is waited for by nobody */
	if (c->group >= f->group || c->group + groups >= f->group)
		return false;
	f->first_copy++;
	return true;
}

void emu_yield(void)
{
	if (below(4) == 0)
		suspend();
}

void emu_die(const char *why)
{
	die(why);
}

unsigned emu_below(unsigned n)
{
	return below(n);
}

unsigned emu_habit(void)
{
	return habit;
}

unsigned emu_index(void)
{
	return running()->index;
}

void **emu_block_own(void)
{
	return &running()->block->own;
}

void emu_sleep(const void *place)
{
	struct fiber *f = running();

	f->awaits = place;
	warp_of(f)->ready &= ~((uint32_t)1 << f->self.lane);
	suspend();
}

void emu_wake(const void *place)
{
	for (int n = 0; n < BLOCKS_MAX; n++)
		for (unsigned i = 0; i < blocks[n]->count; i++) {
			struct fiber *f = &blocks[n]->fibers[i];

			if (f->awaits != place)
				continue;
			f->awaits = NULL;
			warp_of(f)->ready |= (uint32_t)1 << f->self.lane;
		}
}

unsigned emu_shared_address(const void *p)
{
	struct block *b = running()->block;

	for (int i = 0; i < ARRAYS_MAX && b->arrays[i].place; i++)
		if ((const char *)p >= b->arrays[i].at &&
			(const char *)p < b->arrays[i].at + b->arrays[i].bytes)
			return b->arrays[i].address +
				(unsigned)((const char *)p - b->arrays[i].at);
	die("an address that is not in shared memory");
	return 0;
}

void *emu_shared_at(unsigned address, unsigned bytes)
{
	struct block *b = running()->block;

	for (int i = 0; i < ARRAYS_MAX && b->arrays[i].place; i++)
		if (address >= b->arrays[i].address &&
			address + bytes <= b->arrays[i].address + b->arrays[i].bytes)
			return b->arrays[i].at + (address - b->arrays[i].address);
	return NULL;
}

void *emu_shared(const void *place, size_t bytes)
{
	struct block *b = running()->block;

	for (int i = 0; i < ARRAYS_MAX; i++) {
		if (b->arrays[i].place == place)
			return b->arrays[i].at;
		if (b->arrays[i].place)
			continue;
		b->arrays[i].place = place;
		/* 128 bytes further than a multiple of 1024: who needs more sees to it */
		if (posix_memalign(&b->arrays[i].memory, 1024, bytes + 128))
			die("no memory");
		b->arrays[i].at = (char *)b->arrays[i].memory + 128;
		CLOSE(b->arrays[i].memory, 128);
		b->arrays[i].bytes = bytes;
		b->arrays[i].address = (b->shared_end + 1023) / 1024 * 1024 + 128;
		b->shared_end = b->arrays[i].address + (unsigned)bytes;
		for (size_t k = 0; k < bytes; k++)
			((unsigned char *)b->arrays[i].at)[k] = (unsigned char)below(256);
		emu_race_forget(b->arrays[i].at, bytes);
		return b->arrays[i].at;
	}
	die("too many shared arrays");
	return NULL;
}

static void fiber_main(void)
{
	struct fiber *f;

	arrive(NULL);
	body_of_grid(arguments_of_grid);
	f = running();
	if (f->first_copy != f->copies_end)
		die("a thread ends before its asynchronous copies");
	emu_wgmma_fiber_end();
	warp_of(f)->ready &= ~((uint32_t)1 << f->self.lane);
	warp_of(f)->done |= (uint32_t)1 << f->self.lane;
	f->block->left--;
	release_barrier(f->block);
	LEAVE_TO_MAIN(NULL);
	SWITCH(&f->context, &scheduler);
}

static void start_fiber(struct fiber *f)
{
	if (!f->stack) {
		f->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (f->stack == MAP_FAILED)
			die("no memory for stacks");
	}
	CLEAN(f->stack, STACK_BYTES);
	context_at(&f->context, f->stack, STACK_BYTES, fiber_main);
	f->fake = NULL;
	f->time = clock_now;
	memset(f->known, 0, sizeof f->known);
	free(f->seen);
	f->seen = NULL;
	f->late = below(2);
	f->first_copy = f->copies_end = 0;
	f->group = 0;
	f->awaits = NULL;
}

static void start_block(struct block *b, uint64_t number)
{
	struct emu_index at, n = emu_block_dim;

	at.x = (unsigned)(number % emu_grid_dim.x);
	at.y = (unsigned)(number / emu_grid_dim.x % emu_grid_dim.y);
	at.z = (unsigned)(number / emu_grid_dim.x / emu_grid_dim.y);
	b->count = b->left = n.x * n.y * n.z;
	b->waiting = 0;
	b->number = ++started;
	b->met = 0;
	memset(b->warps, 0, sizeof b->warps);
	for (unsigned i = 0; i < b->count; i++) {
		struct fiber *f = &b->fibers[i];

		f->self.block = at;
		f->self.thread.x = i % n.x;
		f->self.thread.y = i / n.x % n.y;
		f->self.thread.z = i / n.x / n.y;
		f->self.lane = i % 32;
		f->block = b;
		f->index = i;
		b->warps[i / 32].ready |= (uint32_t)1 << i % 32;
		start_fiber(f);
	}
}

static void end_block(struct block *b)
{
	emu_wgmma_block_end(b->own);
	b->own = NULL;
	for (int i = 0; i < ARRAYS_MAX; i++) {
		if (b->arrays[i].memory)
			CLEAN(b->arrays[i].memory, 128);
		free(b->arrays[i].memory);
	}
	memset(b->arrays, 0, sizeof b->arrays);
	b->shared_end = 0;
	b->count = 0;
}

static void go_on(struct fiber *f)
{
	emu_self = &f->self;
	from_scheduler = true;
	LEAVE(&scheduler_fake, f);
	SWITCH(&scheduler, &f->context);
	ARRIVE(scheduler_fake);
}

/* Returns the first fiber of b that can run, from the one numbered first around to it, or b->count:
 * none. */
static unsigned ready_from(const struct block *b, unsigned first)
{
	unsigned warps = (b->count + 31) / 32, w = first / 32;
	uint32_t ready = b->warps[w].ready & ~(uint32_t)0 << first % 32;

	for (unsigned k = 0; k <= warps; k++) {
		if (ready)
			return w * 32 + (unsigned)__builtin_ctz(ready);
		w = w + 1 < warps ? w + 1 : 0;
		ready = b->warps[w].ready;
	}
	return b->count;
}

/* The same downwards, from the last. */
static unsigned last_ready(const struct block *b)
{
	for (unsigned w = (b->count + 31) / 32; w-- > 0;)
		if (b->warps[w].ready)
			return w * 32 + 31 - (unsigned)__builtin_clz(b->warps[w].ready);
	return b->count;
}

/* Chooses who runs next; NULL: nobody can. */
static struct fiber *ready_fiber(void)
{
	static unsigned again; /* the fiber that ran last */
	unsigned which = habit ? 0 : below(BLOCKS_MAX);

	for (unsigned k = 0; k < BLOCKS_MAX; k++) {
		struct block *b = blocks[which];
		unsigned first = 0, at;

		which = which + 1 < BLOCKS_MAX ? which + 1 : 0;
		if (!b->count)
			continue;
		if (habit == 0)
			first = below(b->count);
		else if (habit == 3)
			first = again % b->count;
		at = habit == 2 ? last_ready(b) : ready_from(b, first);
		if (at == b->count)
			continue;
		again = at;
		return &b->fibers[at];
	}
	return NULL;
}

/* The same; copies that are under way may come first, and do where everybody waits. */
static struct fiber *next_fiber(void)
{
	struct fiber *f;

	emu_wgmma_step(false);
	do
		f = ready_fiber();
	while (!f && emu_wgmma_step(true));
	return f;
}

/* Runs fibers until all wait or one ends. */
static bool step(void)
{
	struct fiber *f = next_fiber();

	if (f)
		go_on(f);
	return f;
}

static void shuffled(uint64_t *order, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		uint64_t k = below((unsigned)(i + 1));

		order[i] = order[k];
		order[k] = i;
	}
}

static void prepare(void)
{
	const char *wanted = getenv("CUDA_EMU_SEED");

	if (!seed) {
		seed = wanted ? strtoull(wanted, NULL, 0) : 4;
		habit = seed % 4;
		seed = seed * 0x9e3779b97f4a7c15u | 1;
	}
	for (int i = 0; i < BLOCKS_MAX; i++)
		if (!blocks[i]) {
			blocks[i] = calloc(1, sizeof *blocks[i]);
			if (!blocks[i])
				die("no memory");
		}
}

void emu_run(struct emu_index grid, struct emu_index block, emu_body_fn body,
	void *arguments)
{
	uint64_t n = (uint64_t)grid.x * grid.y * grid.z, next = 0;
	unsigned threads = block.x * block.y * block.z;
	uint64_t *order = malloc((n ? n : 1) * sizeof *order);
	bool busy;

	emu_self = NULL;
	if (!n || !threads || threads > THREADS_MAX || grid.y > 65535 || grid.z > 65535 ||
		!order)
		die("a grid or block of impossible size");
	prepare();
	emu_grid_dim = grid;
	emu_block_dim = block;
	body_of_grid = body;
	arguments_of_grid = arguments;
	shuffled(order, n);
	first_of_grid = started;
	do {
		busy = false;
		for (int i = 0; i < BLOCKS_MAX; i++) {
			if (blocks[i]->count && !blocks[i]->left)
				end_block(blocks[i]);
			if (!blocks[i]->count && next < n)
				start_block(blocks[i], order[next++]);
			busy = busy || blocks[i]->count;
		}
		if (busy && !step())
			for (int i = 0; i < BLOCKS_MAX; i++)
				if (blocks[i]->count && blocks[i]->left)
					emu_wgmma_waiting(blocks[i]->own),
						die("threads wait for each other in different places");
	} while (busy);
	emu_self = NULL;
	free(order);
}
