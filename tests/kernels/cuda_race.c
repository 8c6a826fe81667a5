/* cuda_race.c - finds data races of kernels that run in the emulation: it does what
 * compute-sanitizer's racecheck does on a chip, and more.
 *
 * The .cu files are compiled with gcc's -fsanitize=thread, which calls a function before every
 * access to memory; this file defines these functions in place of gcc's runtime. Two accesses
 * to a byte by two threads of a grid, one of them a write, must be ordered by __syncthreads or
 * __syncwarp: votes and shuffles order nothing, as PTX says, whatever order the lanes happened
 * to run in. Atomics do not race with each other. The rules are the same for shared and global
 * memory. A race ends the process with a message that names both places.
 *
 * For each byte it stores the last write and the last read (Flanagan and Freund, FastTrack,
 * 2009, with one reader): a race with an earlier reader may be missed in one order and is found
 * in another, which is why several seeds are run. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/kernels/cuda_emu.h"

/* block 0: no access */
struct access {
	uint32_t block, time,
		place; /* place: address of the instruction, relative to the program */
	uint16_t thread, atomic;
};

#define PAGE  1024
#define TABLE (1u << 20)

struct page {
	uintptr_t number;
	struct access wrote[PAGE], read[PAGE];
};

static struct page *table[TABLE], *last;
static int atomic_depth;
static uintptr_t base;

void emu_atomic_begin(void)
{
	atomic_depth++;
}

void emu_atomic_end(void)
{
	atomic_depth--;
}

static struct page *page_of(uintptr_t at, bool make)
{
	uintptr_t number = at / PAGE + 1;
	uint32_t slot;

	if (last && last->number == number)
		return last;
	slot = (uint32_t)(number * 0x9e3779b97f4a7c15u >> 44);
	while (table[slot] && table[slot]->number != number)
		slot = (slot + 1) % TABLE;
	if (!table[slot] && make) {
		table[slot] = calloc(1, sizeof **table);
		if (!table[slot])
			abort();
		table[slot]->number = number;
	}
	if (table[slot])
		last = table[slot];
	return table[slot];
}

/* New memory at an old address counts as not accessed. */
void emu_race_forget(const void *p, size_t bytes)
{
	for (uintptr_t at = (uintptr_t)p; at < (uintptr_t)p + bytes; at++) {
		struct page *q = page_of(at, false);

		if (!q)
			continue;
		q->wrote[at % PAGE].block = 0;
		q->read[at % PAGE].block = 0;
	}
}

static void name_place(uint32_t place)
{
	char command[256];

	snprintf(command, sizeof command, "addr2line -sfCpe /proc/%d/exe 0x%x >&2",
		(int)getpid(), place - 1);
	if (system(command) != 0)
		fprintf(stderr, "at 0x%x\n", place);
}

static void report(const struct access *before, bool before_wrote,
	const struct access *now, bool writes)
{
	fprintf(stderr,
		"cuda emulation: race: thread %u %s what thread %u of block %u %s, and "
		"no barrier is between them:\n",
		now->thread, writes ? "writes" : "reads", before->thread, before->block,
		before_wrote ? "wrote" : "read");
	fflush(stderr);
	name_place(before->place);
	name_place(now->place);
	abort();
}

static void check(const struct access *before, bool before_wrote,
	const struct access *now, bool writes)
{
	if (!before->block || (before->atomic && now->atomic) ||
		emu_ordered(before->block, before->thread, before->time))
		return;
	report(before, before_wrote, now, writes);
}

static void touch(const void *p, size_t bytes, bool writes, const void *pc)
{
	struct access now;
	Dl_info image;

	if (!emu_self || emu_own_stack(p))
		return;
	if (!base && dladdr((const void *)touch, &image))
		base = (uintptr_t)image.dli_fbase;
	now.place = (uint32_t)((uintptr_t)pc - base);
	now.atomic = atomic_depth > 0;
	emu_whereabouts(&now.block, &now.thread, &now.time);
	for (uintptr_t at = (uintptr_t)p; at < (uintptr_t)p + bytes; at++) {
		struct page *q = page_of(at, true);
		struct access *wrote = &q->wrote[at % PAGE], *read = &q->read[at % PAGE];

		check(wrote, true, &now, writes);
		if (writes) {
			check(read, false, &now, true);
			*wrote = now;
		} else {
			*read = now;
		}
	}
}

/* --- what the compiler calls ----------------------------------------------------------------- */

#define HERE __builtin_return_address(0)

#define ACCESS(n)                                \
	void __tsan_read##n(void *p);            \
	void __tsan_write##n(void *p);           \
	void __tsan_unaligned_read##n(void *p);  \
	void __tsan_unaligned_write##n(void *p); \
	void __tsan_read##n(void *p)             \
	{                                        \
		touch(p, n, false, HERE);        \
	}                                        \
	void __tsan_write##n(void *p)            \
	{                                        \
		touch(p, n, true, HERE);         \
	}                                        \
	void __tsan_unaligned_read##n(void *p)   \
	{                                        \
		touch(p, n, false, HERE);        \
	}                                        \
	void __tsan_unaligned_write##n(void *p)  \
	{                                        \
		touch(p, n, true, HERE);         \
	}
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)

void __tsan_read_range(void *p, size_t n);
void __tsan_write_range(void *p, size_t n);
void __tsan_init(void);
void __tsan_func_entry(void *pc);
void __tsan_func_exit(void);

void __tsan_read_range(void *p, size_t n)
{
	touch(p, n, false, HERE);
}

void __tsan_write_range(void *p, size_t n)
{
	touch(p, n, true, HERE);
}

void __tsan_init(void)
{
}

void __tsan_func_entry(void *pc)
{
	(void)pc;
}

void __tsan_func_exit(void)
{
}
