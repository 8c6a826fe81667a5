/* kcheck.c - compares every fast version of every kernel, on every device, with its reference; long
 * because its cases, its table and the tests of itself are one program.
 *
 * usage: kcheck [--bench | [--each] --only COLUMN | --but COLUMN] [kernel ...] --each: of cases
 * that differ in their sizes alone one of each order of magnitude, once: for an emulation that
 * watches every access. One line per kernel, one column per version: ok (cases), FAIL, or SKIP
 * where the machine lacks it. Without --only the self-test runs too: results damaged on purpose
 * must be detected. Exit 1 on a failure. A kernel that faults ends kcheck with FAIL in its row,
 * one that hangs does when SIGTERM comes; both tell the case. */
#include "tests/kernels/kcheck.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/dev/half.h"

#define GUARD_BYTES  256
#define GUARD        0xb7
#define BENCH_NS_MIN 100000000

int rnp_emu_open(int version, struct dev *d, int n);

static const struct {
	const char *name;
	void (*check)(struct kcheck *k);
} kernels[] = {
#define KCHECK_ROW(name) { #name, check_##name },
	KCHECKS(KCHECK_ROW)
#undef KCHECK_ROW
};

/* bf16 and plain: AVX-512 without AMX, and without all later extensions */
static const char *const columns[] = { "ref", "avx2", "avx512", "bf16", "plain", "dnnl",
	"emu", "cuda" };
enum { REF, AVX2, AVX512, BF16, PLAIN, DNNL, EMU, GPU };

#define COLUMNS (sizeof columns / sizeof *columns)
#define KERNELS (sizeof kernels / sizeof *kernels)

/* Returns 0, or -1 with d->error if this machine lacks the column. */
static int open_column(struct dev *d, size_t column)
{
	setenv("RNP_DNNL", column == DNNL ? "1" : "0", 1);
	setenv("RNP_ISA_WITHOUT",
		column == BF16 || column == DNNL ? "amx" :
			column == PLAIN          ? "sha,vnni,bf16" :
						   "",
		1);
	switch (column) {
	case BF16:
	case PLAIN:
		return dev_open_cpu(d, CPU_AVX512);
	case DNNL:
		if (!product_dnnl_there())
			return dev_fail(d, 69, "dnnl: libdnnl.so.2 is not installed");
		return dev_open_cpu(d, cpu_level_best());
	case EMU:
		return rnp_emu_open(DEV_VERSION, d, 0);
	case GPU:
		return dev_open(d, "cuda");
	default:
		return dev_open_cpu(d, (enum cpu_level)column);
	}
}

/* What runs, for who ends kcheck; one text, so that the handler has nothing to put together. */
static char running[256];

static void told_to_end(int signal)
{
	(void)signal;
	(void)!write(STDERR_FILENO, running, strlen(running));
	_exit(1);
}

static void now_runs(const struct kcheck *k)
{
	snprintf(running, sizeof running, "kcheck: ended in %s: %s: %s\n", k->column,
		k->kernel, k->label ? k->label : "before its first case");
}

/* After a fault a device does nothing more: the row is ended here. */
static void must(struct kcheck *k, int rc)
{
	if (rc == 0)
		return;
	fprintf(stderr, "kcheck: %s: %s: %s%s%s\n", k->column, k->kernel,
		k->label ? k->label : "", k->label ? ": " : "", k->dev.error);
	if (!k->bench)
		printf(" FAIL %d/%d\n", k->failures + 1, k->cases);
	exit(1);
}

static void *host_memory(uint64_t bytes)
{
	void *p = malloc(bytes ? bytes : 1);

	if (!p) {
		fprintf(stderr, "kcheck: no memory\n");
		exit(71);
	}
	return p;
}

static void *device_memory(struct kcheck *k, uint64_t bytes)
{
	struct area *a = &k->areas[k->areas_used];

	if (k->areas_used == (int)(sizeof k->areas / sizeof *k->areas)) {
		fprintf(stderr, "kcheck: too many inputs in one case\n");
		exit(70);
	}
	must(k, k->dev.ops->alloc(&k->dev, &a->base, bytes));
	a->bytes = bytes;
	k->areas_used++;
	return a->base;
}

static void free_areas(struct kcheck *k)
{
	while (k->areas_used)
		k->dev.ops->free(&k->dev, k->areas[--k->areas_used].base);
}

void kcheck_random(void *out, uint64_t bytes, uint64_t seed)
{
	struct philox p = { .seed = seed, .stream = 0x6b636865636b };

	philox_fill_ref(out, bytes, &p);
}

void *kcheck_put(struct kcheck *k, const void *host, uint64_t bytes, unsigned offset)
{
	/* exactly the needed size: on the CPU the sanitizer sees a read beyond it */
	char *at = (char *)device_memory(k, bytes + offset) + offset;

	must(k, k->dev.ops->put(&k->dev, at, host, bytes));
	return at;
}

static void complain(struct kcheck *k, const struct kcase *c, const char *what,
	uint64_t at)
{
	k->failures++;
	if (k->spoil == SPOIL_NOTHING)
		fprintf(stderr, "%s: %s: %s: %s at byte %llu\n", k->column, k->kernel,
			c->label, what, (unsigned long long)at);
}

static void spoil(const struct kcheck *k, const struct kcase *c, unsigned char *area)
{
	uint64_t middle = c->out_bytes / 8 * 4;
	float *value = (float *)(void *)(area + GUARD_BYTES + middle);

	if (k->spoil == SPOIL_GUARD)
		area[GUARD_BYTES + c->out_bytes] ^= 1;
	else if (k->spoil == SPOIL_RESULT && c->bound)
		*value += 2.5f * c->bound[middle / 4] + 1e-30f;
	else if (k->spoil == SPOIL_RESULT)
		area[GUARD_BYTES + middle] ^= 0x40;
}

/* Four bytes, or as many as there are. */
static uint32_t word_at(const struct kcase *c, const unsigned char *p, uint64_t at)
{
	uint32_t word = 0;

	memcpy(&word, p + at, c->out_bytes - at < 4 ? c->out_bytes - at : 4);
	return word;
}

static bool is_right(const struct kcase *c, uint64_t at, uint32_t got, uint32_t want)
{
	if (!c->bound)
		return got == want;
	/* false for NaN */
	return fabsf(half_float_of_bits(got) - half_float_of_bits(want)) <=
		c->bound[at / 4];
}

/* Tells the first that is wrong, and how many are: one number is another fault than a tile of
 * them. */
static void compare(struct kcheck *k, const struct kcase *c, const unsigned char *got)
{
	uint64_t wrong = 0, first = 0, last = 0;
	uint32_t is, wanted;
	char what[256], bound[40] = "";

	for (uint64_t i = 0; i < c->out_bytes; i += 4) {
		if (is_right(c, i, word_at(c, got, i), word_at(c, c->want, i)))
			continue;
		first = wrong++ ? first : i;
		last = i;
	}
	if (!wrong)
		return;
	is = word_at(c, got, first), wanted = word_at(c, c->want, first);
	if (c->bound)
		snprintf(bound, sizeof bound, " within %.3g",
			(double)c->bound[first / 4]);
	snprintf(what, sizeof what,
		"%s: %llu of %llu words, to byte %llu; the first is 0x%08x (%.9g), wanted 0x%08x (%.9g)%s,",
		c->bound ? "is farther from the reference than the bound" :
			   "differs from the reference",
		(unsigned long long)wrong, (unsigned long long)(c->out_bytes + 3) / 4,
		(unsigned long long)last, is, (double)half_float_of_bits(is), wanted,
		(double)half_float_of_bits(wanted), bound);
	complain(k, c, what, first);
}

static void check_guards(struct kcheck *k, const struct kcase *c,
	const unsigned char *area)
{
	for (uint64_t i = 0; i < GUARD_BYTES; i++)
		if (area[i] != GUARD || area[GUARD_BYTES + c->out_bytes + i] != GUARD) {
			complain(k, c, "wrote outside its result", i);
			return;
		}
}

/* Times it until it has run for BENCH_NS_MIN; best of three. */
static void bench(struct kcheck *k, const struct kcase *c, void *out)
{
	double best = 0;

	for (int round = 0; round < 3; round++) {
		int64_t ns = 0;
		int64_t runs = 0;

		must(k, k->dev.ops->timer_start(&k->dev));
		do {
			must(k, c->run(&k->dev, out, c->arguments));
			runs++;
			/* timer_stop waits for the device, so it is called rarely */
			if ((runs & (runs - 1)) == 0)
				must(k, k->dev.ops->timer_stop(&k->dev, &ns));
		} while (ns < BENCH_NS_MIN);
		must(k, k->dev.ops->timer_stop(&k->dev, &ns));
		if (c->work * (double)runs / (double)ns > best)
			best = c->work * (double)runs / (double)ns;
	}
	printf("%-12s %-8s %-40s %10.3f G%s/s\n", k->kernel, k->column, c->label, best,
		c->unit);
}

/* --- one case of each kind ----------------------------------------------------------------- */

static bool each; /* --each */

/* Whether a text was there before; it is remembered. */
static bool seen_before(const char *text)
{
	static char(*texts)[128];
	static size_t n;

	for (size_t i = 0; i < n; i++)
		if (strcmp(texts[i], text) == 0)
			return true;
	texts = realloc(texts, (n + 1) * sizeof *texts);
	if (!texts)
		abort();
	snprintf(texts[n++], sizeof *texts, "%s", text);
	return false;
}

/* Whether a case is of the kind of an earlier one. Its kind is its label without numbers, the
 * magnitude of its output, and, unless that is large, whether the same label was there before: a
 * second time inputs are aligned otherwise. */
static bool is_known_kind(const struct kcheck *k, const struct kcase *c)
{
	char text[128], kind[128];
	int magnitude = c->out_bytes >= 4096, n;
	bool again;

	snprintf(text, sizeof text, "%d%s %s", k->spoil, k->kernel, c->label);
	again = seen_before(text) && c->out_bytes < 65536;
	n = snprintf(kind, sizeof kind, "%c%d%d ", 'a' + (int)k->spoil, magnitude, again);
	for (const char *p = text; *p && n + 1 < (int)sizeof kind; p++)
		if (*p < '0' || *p > '9')
			kind[n++] = *p;
	kind[n] = '\0';
	return seen_before(kind);
}

void kcheck_case(struct kcheck *k, const struct kcase *c)
{
	uint64_t bytes = c->out_bytes + (uint64_t)2 * GUARD_BYTES;
	unsigned char *first = host_memory(bytes), *second = host_memory(bytes);
	unsigned char *base = device_memory(k, bytes + c->offset);
	unsigned char *area = base + c->offset;
	/* what the sanitizers see, they see the first time */
#if defined(__SANITIZE_ADDRESS__)
	int times = c->want ? 1 : 0;
#else
	int times = !c->want ? 0 : each || k->spoil != SPOIL_NOTHING ? 1 : 2;
#endif

	/* damage is noticed by what all cases of a kind have in common */
	if ((each || k->spoil != SPOIL_NOTHING) && is_known_kind(k, c)) {
		free_areas(k);
		free(first);
		free(second);
		return;
	}
	k->cases++;
	k->label = c->label;
	now_runs(k);
	for (int time = 0; time < times; time++) {
		unsigned char *host = time ? second : first;

		memset(host, GUARD, bytes);
		memset(host + GUARD_BYTES, time ? 0x5a : 0xff, c->out_bytes);
		must(k, k->dev.ops->put(&k->dev, area, host, bytes));
		must(k, c->run(&k->dev, area + GUARD_BYTES, c->arguments));
		must(k, k->dev.ops->get(&k->dev, host, area, bytes));
	}
	if (c->want) {
		spoil(k, c, first);
		check_guards(k, c, first);
		compare(k, c, first + GUARD_BYTES);
		if (times > 1 && k->spoil == SPOIL_NOTHING &&
			memcmp(first, second, bytes) != 0)
			complain(k, c, "is not the same the second time", 0);
	}
	if (k->bench && c->work > 0)
		bench(k, c, area + GUARD_BYTES);
	k->label = NULL;
	free_areas(k);
	free(first);
	free(second);
}

/* --- which operations the cases call ------------------------------------------------------- */

/* Tables that count calls are put in front of the device's tables, so that an operation without
 * a case is noticed. Each operation has one counter, in the order of the lists. */
#define COUNTER(table, name, parameters, arguments) OP_##table##_##name,
#define COUNTERS(table, LIST)                       LIST(COUNTER, table)
enum { DEV_TABLES(COUNTERS) OPERATIONS };
#undef COUNTERS

#define NAMES(table, LIST) LIST(DEV_NAME, table)
static const char *const operation_names[] = { DEV_TABLES(NAMES) };
#undef NAMES

static long calls[OPERATIONS];
static struct dev_ops counting_ops;
static const struct dev_ops *counted; /* the device's own */

#define COUNT(table, name, parameters, arguments)      \
	static int count_##table##_##name parameters   \
	{                                              \
		calls[OP_##table##_##name]++;          \
		return counted->table->name arguments; \
	}
#define COUNT_SLOT(table, name, parameters, arguments) .name = count_##table##_##name,
#define COUNT_TABLE(table, LIST) \
	LIST(COUNT, table)       \
	static const struct table##_ops counting_##table = { LIST(COUNT_SLOT, table) };
DEV_TABLES(COUNT_TABLE)

static void count_calls(struct dev *d)
{
	counted = d->ops;
	counting_ops = *counted;
#define COUNTING(table, list) counting_ops.table = &counting_##table;
	DEV_TABLES(COUNTING)
#undef COUNTING
	d->ops = &counting_ops;
}

/* Checks that every operation of every list was called by some case. */
static bool all_called(void)
{
	bool all = true;

	for (int i = 0; i < OPERATIONS; i++)
		if (!calls[i]) {
			fprintf(stderr, "kcheck: no case calls %s\n", operation_names[i]);
			all = false;
		}
	return all;
}

/* Runs the ref column with every result damaged: a case that still passes checks nothing. */
static int self_test(size_t which, int spoil)
{
	struct kcheck k = { .column = "ref", .kernel = kernels[which].name };

	k.spoil = spoil;
	if (open_column(&k.dev, 0) < 0)
		return -1;
	count_calls(&k.dev);
	now_runs(&k);
	kernels[which].check(&k);
	dev_close(&k.dev);
	if (k.failures >= k.cases && k.cases)
		return 0;
	fprintf(stderr, "kcheck: self-test: %s: %d of %d spoiled results were noticed\n",
		k.kernel, k.failures, k.cases);
	return -1;
}

static bool wanted(int argc, char **argv, const char *name)
{
	bool any = false;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], name) == 0)
			return true;
		any = any || argv[i][0] != '-';
	}
	return !any;
}

/* The name of an unknown kernel would check nothing and succeed. */
static bool known(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		bool found = i == 1 && strcmp(argv[i], "--bench") == 0;

		for (size_t k = 0; k < KERNELS; k++)
			found = found || strcmp(argv[i], kernels[k].name) == 0;
		if (!found) {
			fprintf(stderr, "kcheck: there is no kernel '%s'\n", argv[i]);
			return false;
		}
	}
	return true;
}

static bool known_column(const char *name)
{
	for (size_t c = 0; c < COLUMNS; c++)
		if (strcmp(columns[c], name) == 0)
			return true;
	fprintf(stderr, "kcheck: there is no column '%s'\n", name);
	return false;
}

/* Checks that no slot of a table is empty. */
static bool full(const struct dev *d, const void *table, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += sizeof(void (*)(void))) {
		void *slot;

		memcpy(&slot, (const char *)table + i, sizeof slot);
		if (slot)
			continue;
		fprintf(stderr, "kcheck: %s: slot %zu of a table is empty\n", d->name,
			i / sizeof slot);
		return false;
	}
	return true;
}

static bool complete(const struct dev *d)
{
	bool all = full(d, d->ops, sizeof *d->ops);

#define FULL(table, list) all = all && full(d, d->ops->table, sizeof *d->ops->table);
	DEV_TABLES(FULL)
#undef FULL
	return all;
}

/* Checks errors and their codes: too much memory, a missing device, another version. */
static bool errors_kept(struct dev *d, size_t column)
{
	struct dev other;
	void *p = d;

	if (d->ops->alloc(d, &p, UINT64_MAX / 4) == 0 || p || d->code != 71 || !*d->error)
		return false;
	if (column != EMU)
		return true;
	if (rnp_emu_open(DEV_VERSION, &other, 1) == 0 || other.code != 69 || other.ops)
		return false;
	if (rnp_cuda_count(DEV_VERSION, &other) != 1 ||
		rnp_cuda_count(DEV_VERSION + 1, &other) != -1 || other.code != 69)
		return false;
	return rnp_emu_open(DEV_VERSION + 1, &other, 0) < 0 && other.code == 69 &&
		!other.ops;
}

/* A second handle of the device sees what the first one wrote before an event, also after the
 * event was recorded again. */
static bool order_kept(struct dev *d, size_t column)
{
	struct dev other;
	uint32_t *p = NULL, seen[2] = { 0 };
	void *mark = NULL;
	bool kept = open_column(&other, column) == 0 &&
		d->ops->alloc(d, (void **)&p, 1 << 24) == 0;

	for (uint32_t word = 1; kept && word <= 3; word++)
		kept = d->ops->fill(d, p, word, 1 << 22) == 0 &&
			d->ops->event_record(d, &mark) == 0 &&
			other.ops->event_wait(&other, mark) == 0 &&
			other.ops->get(&other, &seen[0], p, 4) == 0 &&
			other.ops->get(&other, &seen[1], p + (1 << 22) - 1, 4) == 0 &&
			seen[0] == word && seen[1] == word;
	d->ops->event_free(d, mark);
	d->ops->free(d, p);
	dev_close(&other);
	return kept;
}

/* Returns the number of failures; cell: the text for the table. */
static int check_column(size_t which, size_t column, bool timing, char cell[24])
{
	struct kcheck k = { .column = columns[column], .kernel = kernels[which].name };
	static bool said[COLUMNS];

	k.bench = timing;
	k.slow = column == EMU;
	if (timing && k.slow)
		return 0; /* its speed is meaningless */
	if (open_column(&k.dev, column) < 0) {
		snprintf(cell, 24, "SKIP");
		if (!said[column])
			fprintf(stderr, "kcheck: SKIP %s: %s\n", columns[column],
				k.dev.error);
		said[column] = true;
		return 0;
	}
	if (!complete(&k.dev) || !errors_kept(&k.dev, column) ||
		(which == 0 && !order_kept(&k.dev, column))) {
		fprintf(stderr, "kcheck: %s: table, errors or order: %s\n",
			columns[column], k.dev.error);
		k.failures++;
	}
	now_runs(&k);
	kernels[which].check(&k);
	/* of kernels that are not used others are checked in their place */
	if (*k.dev.note)
		fprintf(stderr, "kcheck: note: %s: %s\n", k.kernel, k.dev.note);
	dev_close(&k.dev);
	snprintf(cell, 24, k.failures ? "FAIL %d/%d" : "ok %d",
		k.failures ? k.failures : k.cases, k.cases);
	return k.failures;
}

static bool shown(size_t column, const char *only, const char *but)
{
	return (!only || strcmp(columns[column], only) == 0) &&
		(!but || strcmp(columns[column], but) != 0);
}

int main(int argc, char **argv)
{
	bool timing = argc > 1 && strcmp(argv[1], "--bench") == 0;
	const char *only = NULL; /* only this column, without self-test */
	const char *but = NULL;  /* all columns but this one */
	int failures = 0;

	if (argc > 3 && strcmp(argv[1], "--each") == 0) {
		each = true;
		argc--, argv++;
	}
	if (argc > 2 && strcmp(argv[1], "--only") == 0) {
		only = argv[2];
		argc -= 2, argv += 2;
		if (!known_column(only))
			return 64;
	} else if (argc > 2 && strcmp(argv[1], "--but") == 0) {
		but = argv[2];
		argc -= 2, argv += 2;
		if (!known_column(but))
			return 64;
	}

	if (!known(argc, argv))
		return 64;
	signal(SIGTERM, told_to_end);
	if (!timing && !emu_works()) {
		fprintf(stderr, "kcheck: the emulation does not do what it says\n");
		return 1;
	}
	if (!timing) {
		printf("%-12s", "kernel");
		for (size_t c = 0; c < COLUMNS; c++)
			if (shown(c, only, but))
				printf(" %-8s", columns[c]);
		printf(only ? "\n" : " self-test\n");
	}
	for (size_t i = 0; i < KERNELS; i++) {
		if (!wanted(argc, argv, kernels[i].name))
			continue;
		if (!timing)
			printf("%-12s", kernels[i].name);
		for (size_t c = 0; c < COLUMNS; c++) {
			char cell[24] = "-";

			if (!shown(c, only, but))
				continue;
			failures += check_column(i, c, timing, cell);
			if (!timing)
				printf(" %-8s", cell);
			fflush(stdout);
		}
		if (!timing && only)
			printf("\n");
		else if (!timing) {
			int blind = self_test(i, SPOIL_RESULT) |
				self_test(i, SPOIL_GUARD);

			printf(" %s\n", blind ? "FAIL" : "ok");
			failures += blind != 0;
		}
	}
	if (!timing && !only && argc == 1 && !all_called())
		failures++;
	return failures != 0;
}
