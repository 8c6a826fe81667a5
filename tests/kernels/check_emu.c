/* check_emu.c - tests the emulation itself: every thread of every block runs, barriers and
 * warps work, and errors that are undefined on a chip end the process. Kernel bodies are plain
 * functions. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kernels/cuda_emu.h"
#include "tests/kernels/kcheck.h"

#define BLOCKS  7
#define THREADS 96

struct seen {
	unsigned sums[BLOCKS], order[BLOCKS], started, lanes_wrong;
};

/* The first thread adds up the values that all others wrote before the barrier. */
static void meet(void *arguments)
{
	static const char place;
	struct seen *s = arguments;
	unsigned *left = emu_shared(&place, THREADS * sizeof *left);
	unsigned t = emu_self->thread.x, b = emu_self->block.x;
	const uint64_t *all;

	if (t == 0)
		s->order[s->started++] = b;
	left[t] = t;
	emu_block_barrier();
	if (t == 0)
		for (unsigned i = 0; i < THREADS; i++)
			s->sums[b] += left[i];
	all = emu_warp_exchange(0xffffffff, t);
	s->lanes_wrong += all[31 - emu_self->lane] != t / 32 * 32 + 31 - emu_self->lane;
}

static void split_barrier(void *arguments)
{
	(void)arguments;
	if (emu_self->thread.x < 32)
		emu_block_barrier();
	else
		emu_warp_exchange(emu_self->thread.x < 64 ? 3 : 0xffffffff, 0);
}

static void absent_lane(void *arguments)
{
	(void)arguments;
	if (emu_self->lane != 5)
		emu_warp_exchange(0xffffffff, 0);
}

/* The device's memory is known as such, to its last byte and no further, until it is given back. */
static bool knows_memory(void)
{
	void *p = NULL, *too_much;
	bool good = emu_take(&p, 100, emu_used() + 100) && emu_is_device(p, 100) &&
		emu_is_device((char *)p + 99, 1) && !emu_is_device((char *)p + 99, 2) &&
		!emu_is_device(&p, 1) && !emu_take(&too_much, 1, emu_used());

	return good && emu_give(p) && !emu_is_device(p, 1) && !emu_give(p);
}

static bool aborts(emu_body_fn body)
{
	struct emu_index one = { 1, 1, 1 }, threads = { THREADS, 1, 1 };
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		fclose(stderr);
		signal(SIGABRT, SIG_DFL);
		emu_run(one, threads, body, NULL);
		_exit(0);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status != 0;
}

bool emu_works(void)
{
	struct emu_index grid = { BLOCKS, 1, 1 }, threads = { THREADS, 1, 1 };
	struct seen s = { .started = 0 };
	bool in_order = true;

	emu_run(grid, threads, meet, &s);
	for (unsigned i = 0; i < BLOCKS; i++) {
		if (s.sums[i] != THREADS * (THREADS - 1) / 2)
			return false;
		in_order = in_order && s.order[i] == i;
	}
	return s.started == BLOCKS && !s.lanes_wrong && !in_order &&
		aborts(split_barrier) && aborts(absent_lane) && knows_memory();
}
