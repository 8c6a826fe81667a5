/* dev_cpu.c - the CPU as a device: memory, order, time, and the tables of all folders. */
#include "kernels/dev/dev_cpu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sysexits.h>
#include <unistd.h>

#include "kernels/dev/team.h"

#define HUGE_BYTES (UINT64_C(2) << 20)
#define ALIGNMENT  256

/* --- memory, order, time ------------------------------------------------------------------ */

/* Requests huge pages for large areas: products and random reads gain. */
static int cpu_alloc(struct dev *d, void **out, uint64_t bytes)
{
	uint64_t align = bytes >= 2 * HUGE_BYTES ? HUGE_BYTES : ALIGNMENT;
	int failed = bytes > d->memory_bytes ?
		ENOMEM :
		posix_memalign(out, align, bytes ? bytes : 1);

	if (failed) {
		*out = NULL;
		return dev_fail(d, EX_OSERR, "cpu: no memory for %llu bytes",
			(unsigned long long)bytes);
	}
	if (align == HUGE_BYTES)
		madvise(*out, bytes & ~(HUGE_BYTES - 1), MADV_HUGEPAGE);
	return 0;
}

static void cpu_free(struct dev *d, void *p)
{
	(void)cpu_settle(d);
	free(p);
}

/* Allocates in the ordinary way: there is no link, and all host memory is equally near. */
static int cpu_pin(struct dev *d, void **out, uint64_t bytes)
{
	return cpu_alloc(d, out, bytes);
}

struct copy {
	mem_copy_fn copy;
	char *to;
	const char *from;
};

static void copy_part(void *work, uint64_t from, uint64_t to)
{
	struct copy *c = work;

	c->copy(c->to + from, c->from + from, to - from);
}

static int cpu_copy(struct dev *d, void *to, const void *from, uint64_t bytes)
{
	struct copy c = { cpu_of(d)->mem.copy, to, from };
	const struct team_op op = { copy_part, &c, bytes, 1 << 18, 1, 0 };

	return cpu_do(d, &op, sizeof c);
}

/* Copies at once, since the host's memory may change after the call. */
static int cpu_move(struct dev *d, void *to, const void *from, uint64_t bytes)
{
	struct copy c = { cpu_of(d)->mem.copy, to, from };

	return cpu_in_parts(d, bytes, 1 << 18, copy_part, &c);
}

static int cpu_from_peer(struct dev *d, void *to, struct dev *other, const void *from,
	uint64_t bytes)
{
	(void)other;
	return cpu_move(d, to, from, bytes);
}

/* Every call is complete when it returns, so all events are already in the past. */
static int cpu_event_record(struct dev *d, void **event)
{
	*event = d;
	return cpu_settle(d);
}

static int cpu_event_wait(struct dev *d, void *event)
{
	(void)d, (void)event;
	return 0;
}

static void cpu_event_free(struct dev *d, void *event)
{
	(void)d, (void)event;
}

static int cpu_mem_free(struct dev *d, uint64_t *bytes)
{
	FILE *f = fopen("/proc/meminfo", "r");
	char line[128];
	unsigned long long kib = 0;

	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
			break;
	if (f)
		fclose(f);
	*bytes = kib ? (uint64_t)kib * 1024 : d->memory_bytes / 2;
	return 0;
}

static int cpu_sync(struct dev *d)
{
	return cpu_settle(d);
}

static int cpu_timer_start(struct dev *d)
{
	if (cpu_settle(d) < 0)
		return -1;
	cpu_of(d)->started_ns = team_now_ns();
	return 0;
}

static int cpu_timer_stop(struct dev *d, int64_t *ns)
{
	if (cpu_settle(d) < 0)
		return -1;
	*ns = team_now_ns() - cpu_of(d)->started_ns;
	return 0;
}

static void cpu_close(struct dev *d)
{
	struct cpu *c = cpu_of(d);

#define CLOSE(table, list) table##_cpu_close(c->table);
	DEV_TABLES(CLOSE)
#undef CLOSE
	cpu_notes_free(c->notes);
	free(c);
}

/* --- operations on memory ------------------------------------------------------------------ */

struct fill {
	mem_fill_fn fill;
	uint32_t *to, word;
};

static void fill_part(void *work, uint64_t from, uint64_t to)
{
	struct fill *f = work;

	f->fill(f->to + from, f->word, to - from);
}

static int cpu_fill(struct dev *d, uint32_t *to, uint32_t word, uint64_t words)
{
	struct fill f = { cpu_of(d)->mem.fill, to, word };
	const struct team_op op = { fill_part, &f, words, 1 << 16, 1, 0 };

	return cpu_do(d, &op, sizeof f);
}

struct philox_work {
	philox_fill_fn fill;
	char *out;
	const struct philox *p;
};

static void philox_part(void *work, uint64_t from, uint64_t to)
{
	struct philox_work *w = work;
	struct philox p = *w->p;

	p.block += from / PHILOX_BLOCK_BYTES;
	w->fill(w->out + from, to - from, &p);
}

static int cpu_philox(struct dev *d, void *out, uint64_t bytes, const struct philox *p)
{
	struct philox_work w = { cpu_of(d)->mem.philox, out, p };

	return cpu_in_parts(d, bytes, 1 << 14, philox_part, &w);
}

static const struct dev_ops dev_cpu_ops = { .alloc = cpu_alloc,
	.free = cpu_free,
	.put = cpu_move,
	.get = cpu_move,
	.put_later = cpu_move,
	.mem_free = cpu_mem_free,
	.pin = cpu_pin,
	.unpin = cpu_free,
	.from_peer = cpu_from_peer,
	.copy = cpu_copy,
	.fill = cpu_fill,
	.philox = cpu_philox,
	.timer_start = cpu_timer_start,
	.timer_stop = cpu_timer_stop,
	.sync = cpu_sync,
	.event_record = cpu_event_record,
	.event_wait = cpu_event_wait,
	.event_free = cpu_event_free,
	.batch_begin = cpu_batch_begin,
	.batch_end = cpu_batch_end,
	.graph_begin = cpu_graph_begin,
	.graph_end = cpu_graph_end,
	.graph_launch = cpu_graph_launch,
	.graph_free = cpu_graph_free,
	.close = cpu_close,
#define TABLE(table, list) .table = &table##_cpu_ops,
	DEV_TABLES(TABLE)
#undef TABLE
};

/* Opens every folder's kernels. Returns whether there was enough memory. */
static bool open_tables(struct cpu *c)
{
#define OPEN(table, list)                      \
	c->table = table##_cpu_open(c->level); \
	if (!c->table)                         \
		return false;
	DEV_TABLES(OPEN)
#undef OPEN
	return true;
}

int dev_open_cpu(struct dev *d, enum cpu_level level)
{
	struct cpu *c;

	*d = (struct dev)DEV_INIT;
	if (level > cpu_level_best())
		return dev_fail(d, EX_UNAVAILABLE, "cpu: this one has no %s",
			cpu_level_names[level]);
	c = calloc(1, sizeof *c);
	if (!c)
		return dev_fail(d, EX_OSERR, "cpu: no memory");
	d->state = c;
	c->level = level;
	mem_cpu_choose(&c->mem, level);
	if (!open_tables(c)) {
		cpu_close(d);
		d->state = NULL;
		return dev_fail(d, EX_OSERR, "cpu: no memory");
	}
	d->ops = &dev_cpu_ops;
	d->is_host = true;
	snprintf(d->name, sizeof d->name, "cpu");
	snprintf(d->isa, sizeof d->isa, "%s", cpu_level_names[level]);
	d->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) *
		(uint64_t)sysconf(_SC_PAGESIZE);
	return 0;
}
