/* team_wait.c - how threads of the team wait: they spin for a bounded time, then they sleep in
 * a futex. */
#include <linux/futex.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "kernels/dev/team_parts.h"

#define PAUSES 16 /* pause instructions between two readings of the clock */

_Atomic uint64_t team_wakes;

int64_t team_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static long futex_wait(_Atomic uint32_t *word, uint32_t old, uint32_t bits)
{
	return syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, old, NULL,
		NULL, bits);
}

static long futex_wake(_Atomic uint32_t *word, int n, uint32_t bits)
{
	atomic_fetch_add_explicit(&team_wakes, 1, memory_order_relaxed);
	return syscall(SYS_futex, word, FUTEX_WAKE_BITSET | FUTEX_PRIVATE_FLAG, n, NULL,
		NULL, bits);
}

static inline void relax(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

bool team_spin(_Atomic uint32_t *word, uint32_t old, int64_t since)
{
	do {
		for (int i = 0; i < PAUSES; i++) {
			if (atomic_load_explicit(word, memory_order_acquire) != old)
				return true;
			relax();
		}
	} while (team_now_ns() - since < TEAM_SPIN_NS);
	return false;
}

/* The thread that wakes a sleeper decrements the count; a thread that does not sleep after all
 * does so itself. */
void team_sleep(struct team_word *w, uint32_t old, uint32_t bits)
{
	if (futex_wait(&w->value, old, bits) != 0)
		atomic_fetch_sub(&w->asleep, 1);
}

void team_call(struct team_word *w, int n, uint32_t bits)
{
	long woken = futex_wake(&w->value, n, bits);

	if (woken > 0)
		atomic_fetch_sub(&w->asleep, (int32_t)woken);
}

void team_wait(struct team_word *w, uint32_t old, int64_t since)
{
	if (team_spin(&w->value, old, since))
		return;
	atomic_fetch_add(&w->asleep, 1);
	team_sleep(w, old, TEAM_WORKER);
}

void team_wake(struct team_word *w, int n)
{
	if (atomic_load(&w->asleep) > 0)
		team_call(w, n, TEAM_WORKER);
}

void team_wait_word(_Atomic uint32_t *word, uint32_t old)
{
	if (!team_spin(word, old, team_now_ns()))
		futex_wait(word, old, TEAM_WORKER);
}

void team_wake_one(_Atomic uint32_t *word)
{
	futex_wake(word, 1, TEAM_WORKER);
}
