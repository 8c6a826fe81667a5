/* infer.c - answering computes what training computes; a row's bits are its own, whatever goes with
 * it in a pass, however a prompt was cut and wherever its pages lie, at every level of the CPU and
 * for every type of weights, packed or not; pages are nobody's, one's or shared, and no other, and
 * their memory is there before they are; tokens that a GPU replays; refusals. long because all of
 * it runs the same small models. */
#include "common/lm/infer/stream.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/lm/export/export.h"
#include "common/lm/train/checkpoint.h"
#include "tests/unit/test.h"

enum {
	VOCAB = 41,
	DIM = 32,
	HIDDEN = 52,
	LAYERS = 2,
	HEADS = 4,
	KV_HEADS = 2,
	CONTEXT = 96,
	LENGTH = 90
};

static uint32_t ids[LENGTH];

/* a number of about one, the same in every run */
static float number(uint64_t i)
{
	return (float)((i * 2654435761u + 12345) % 2000003) / 1000001.5f - 1;
}

/* A llama2.c model: its header is seven int32, its arrays lie one after the other. */
static void write_model(const char *path)
{
	int32_t header[7] = { DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, VOCAB, CONTEXT };
	uint64_t kv = KV_HEADS * (DIM / HEADS), at = 0;
	uint64_t counts[] = { VOCAB * DIM, LAYERS * DIM, LAYERS * DIM * DIM,
		LAYERS * kv * DIM, LAYERS * kv * DIM, LAYERS * DIM * DIM, LAYERS * DIM,
		LAYERS * HIDDEN * DIM, LAYERS * HIDDEN * DIM, LAYERS * HIDDEN * DIM, DIM,
		CONTEXT * (DIM / HEADS) };
	FILE *f = fopen(path, "wb");

	CHECK(f && fwrite(header, sizeof header, 1, f) == 1);
	for (unsigned k = 0; k < sizeof counts / sizeof *counts; k++)
		for (uint64_t i = 0; i < counts[k]; i++) {
			bool is_norm = k == 1 || k == 6 || k == 10;
			float x = is_norm ? 1 + number(at) / 4 : number(at) / 3;

			at++;
			CHECK(fwrite(&x, sizeof x, 1, f) == 1);
		}
	CHECK(fclose(f) == 0);
}

/* the loss of ids as training computes it, in f32 */
static double trained_loss(struct dev *d, const struct model_file *s)
{
	struct lm_train_options o;
	struct lm_train *t = NULL;
	uint32_t targets[LENGTH];
	uint64_t counted = 0;
	double loss = 0;

	lm_train_defaults(&o, model_file_config(s));
	o.positions = LENGTH;
	o.dtype = LM_DTYPE_F32;
	o.eval_only = true;
	CHECK(lm_train_open(&t, d, &o) == 0);
	CHECK(lm_train_load(t, s) == 0);
	for (int i = 0; i < LENGTH; i++)
		targets[i] = i + 1 < LENGTH ? ids[i + 1] : LM_NO_TARGET;
	CHECK(lm_train_eval(t, ids, targets, &loss, &counted) == 0);
	CHECK_I64(LENGTH - 1, (int64_t)counted);
	lm_train_close(t);
	return loss;
}

static void same_as_training(struct dev *d, const struct model_file *s,
	struct lm_stream *stream)
{
	double want = trained_loss(d, s), got = 0;
	uint64_t counted = 0;

	CHECK(lm_stream_score(stream, ids, LENGTH, &got, &counted) == 0);
	CHECK_I64(LENGTH - 1, (int64_t)counted);
	CHECK(fabs(got - want) < 1e-5 * want);
}

/* However the text is split, the predictions have the same bits. */
static void pieces(struct lm_stream *stream)
{
	static const uint32_t cuts[] = { 1, 2, 3, 5, 8, 16, 31, LENGTH };
	float whole[VOCAB], parts[VOCAB];

	lm_stream_truncate(stream, 0);
	CHECK(lm_stream_feed(stream, ids, LENGTH, whole) == 0);
	for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
		lm_stream_truncate(stream, 0);
		for (uint32_t i = 0; i < LENGTH; i += cuts[c]) {
			uint32_t n = LENGTH - i < cuts[c] ? LENGTH - i : cuts[c];

			CHECK(lm_stream_feed(stream, ids + i, n, parts) == 0);
		}
		CHECK_I64(LENGTH, lm_stream_length(stream));
		CHECK(memcmp(whole, parts, sizeof parts) == 0);
	}
	lm_stream_truncate(stream, LENGTH - 1);
	CHECK(lm_stream_feed(stream, ids + LENGTH - 1, 1, parts) == 0);
	CHECK(memcmp(whole, parts, sizeof parts) == 0);
}

/* --- rows of many sequences ----------------------------------------------------------------- */

enum { MANY = 9, ROWS = 24, ROWS_MAX = MANY * 26, PAGES = 64 };

/* Token i of conversation s. */
static uint32_t spoken(int s, uint32_t i)
{
	return (uint32_t)((i * 5 + i * i + (uint32_t)s * 11 +
				  (i > 20 ? (uint32_t)s : 0)) %
		VOCAB);
}

/* Logits of every position of each conversation, and how often they were handed over. */
struct heard {
	float logits[MANY][LENGTH][VOCAB];
	int calls;
	const struct lm_row *rows;
	const int *of; /* the conversation of each row */
};

static int hear(void *arg, uint32_t row, const float *logits)
{
	struct heard *h = arg;

	memcpy(h->logits[h->of[row]][h->rows[row].position], logits,
		sizeof h->logits[0][0]);
	h->calls++;
	return 0;
}

/* Conversation s alone, token by token. */
static void alone(struct lm_weights *w, int s, float logits[LENGTH][VOCAB])
{
	struct lm_stream *stream = NULL;

	CHECK(lm_stream_open(&stream, w, LENGTH, LM_CACHE_F32) == 0);
	for (uint32_t i = 0; i < LENGTH; i++) {
		uint32_t id = spoken(s, i);

		CHECK(lm_stream_feed(stream, &id, 1, logits[i]) == 0);
	}
	lm_stream_close(stream);
}

/* Passes of a changing mix of conversations and pieces, and the logits that each received. One in
 * four is so large that the last layer is not restricted to the rows whose logits are wanted. */
static void together(struct lm_weights *w, uint32_t logits, struct heard *h)
{
	struct lm_forward_limits limits = { .rows = ROWS_MAX,
		.sequences = MANY,
		.context = LENGTH,
		.logits = logits };
	struct lm_sequence all[MANY] = { 0 };
	const struct lm_sequence *list[MANY];
	struct lm_forward *f = NULL;
	struct lm_cache *c = NULL;
	unsigned turn = 0, left = MANY;

	CHECK(lm_cache_open(&c, w, PAGES, LM_CACHE_F32) == 0);
	CHECK(lm_forward_open(&f, w, c, &limits) == 0);
	for (int s = 0; s < MANY; s++)
		list[s] = &all[s];
	while (left) {
		struct lm_row rows[ROWS_MAX];
		int of[ROWS_MAX];
		uint32_t n = 0, most = turn % 4 == 3 ? ROWS_MAX : ROWS;

		left = 0;
		for (int k = 0; k < MANY; k++) {
			int s = (k * 4 + (int)turn) % MANY;
			uint32_t some = (turn * 7 + (unsigned)k * 3) %
				(most == ROWS ? 6 : 26);

			if (all[s].length + some > LENGTH)
				some = LENGTH - all[s].length;
			if (some > most - n)
				some = most - n;
			left += all[s].length + some < LENGTH;
			CHECK(lm_sequence_grow(&all[s], c, some) == 0);
			for (uint32_t i = 0; i < some; i++, n++) {
				rows[n] = (struct lm_row){ .sequence = &all[s],
					.position = all[s].length + i,
					.token = spoken(s, all[s].length + i),
					.logits = (turn + n) % 3 != 0 };
				of[n] = s;
			}
		}
		turn++;
		h->rows = rows;
		h->of = of;
		if (n)
			CHECK(lm_forward_rows(f, rows, n, hear, h) == 0);
		CHECK(lm_cache_sound(c, list, MANY));
	}
	for (int s = 0; s < MANY; s++)
		lm_sequence_release(&all[s], c);
	CHECK_I64(PAGES, lm_cache_free_pages(c));
	lm_forward_close(f);
	lm_cache_close(c);
}

/* logits: rows that are scored together. */
static void rows_are_their_own(struct lm_weights *w, uint32_t logits)
{
	struct heard *h = xcalloc(1, sizeof *h);
	float(*want)[VOCAB] = xcalloc(LENGTH, sizeof *want);
	static const float silence[VOCAB];
	int compared = 0;

	together(w, logits, h);
	for (int s = 0; s < MANY; s++) {
		alone(w, s, want);
		for (uint32_t i = 0; i < LENGTH; i++) {
			if (memcmp(h->logits[s][i], silence, sizeof silence) == 0)
				continue; /* not wanted */
			CHECK(memcmp(h->logits[s][i], want[i], sizeof want[i]) == 0);
			compared++;
		}
	}
	CHECK_I64(h->calls, compared);
	CHECK(compared > MANY * LENGTH / 2);
	free(h);
	free(want);
}

/* The same text in every type that products take. */
static void every_type(struct dev *d)
{
	static const enum lm_type types[] = { LM_F32, LM_F16, LM_BF16, LM_Q8_0, LM_Q4_0 };
	struct lm_config c;

	CHECK(lm_config_preset(&c, "nano", VOCAB) == 0);
	c.dim = 96;
	c.hidden = 160;
	c.layers = 2;
	c.heads = 6;
	c.kv_heads = 2;
	c.head_dim = 16;
	c.context = LENGTH;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		struct model_file *s = NULL;
		struct lm_weights *w = NULL;

		c.window = i % 2 ? 21 : 0;
		CHECK(model_file_make(&s, NULL, &c, types[i], 5) == 0);
		CHECK(lm_weights_open(&w, d, s) == 0);
		rows_are_their_own(w, 0);
		lm_weights_close(w);
		model_file_close(s);
	}
}

/* While matrices of a file are packed, and afterwards, a text has the bits that it had before;
 * closing does not wait until all are. */
static void packed(struct dev *d, const struct model_file *made, enum lm_type type,
	float before[][VOCAB], float now[][VOCAB])
{
	char path[] = "/tmp/rnp-infer-XXXXXX";
	struct model_file *s = NULL;
	struct lm_weights *w = NULL;
	struct lm_export e;
	int fd = mkstemp(path);

	CHECK(fd >= 0);
	close(fd);
	lm_export_model_file(&e, made);
	CHECK(lm_export_gguf(path, &e, type) == 0);
	CHECK(model_file_open(&s, path) == 0);
	CHECK(lm_weights_open(&w, d, s) == 0);
	CHECK(!lm_weights_packing(w));
	alone(w, 0, before);
	lm_weights_pack(w);
	alone(w, 0, now);
	CHECK(memcmp(before, now, LENGTH * sizeof *now) == 0);
	for (int i = 0; i < 6000 && lm_weights_packing(w); i++)
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	CHECK(!lm_weights_packing(w));
	rows_are_their_own(w, 3);
	alone(w, 0, now);
	CHECK(memcmp(before, now, LENGTH * sizeof *now) == 0);
	lm_weights_close(w);
	CHECK(lm_weights_open(&w, d, s) == 0);
	lm_weights_pack(w);
	lm_weights_close(w);
	model_file_close(s);
	unlink(path);
}

/* The same of a model in memory, which is packed where it lies. */
static void packed_in_place(struct dev *d, const struct lm_config *c, enum lm_type type,
	float before[][VOCAB], float now[][VOCAB])
{
	struct model_file *s = NULL;
	struct lm_weights *w = NULL;

	CHECK(model_file_make(&s, NULL, c, type, 5) == 0);
	CHECK(model_file_owns(s, model_file_tensor(s, 0)->data));
	CHECK(lm_weights_open(&w, d, s) == 0);
	alone(w, 0, before);
	lm_weights_pack(w);
	CHECK(!lm_weights_packing(w));
	alone(w, 0, now);
	CHECK(memcmp(before, now, LENGTH * sizeof *now) == 0);
	rows_are_their_own(w, LM_LOGITS_MAX);
	lm_weights_close(w);
	model_file_close(s);
}

static void packs(struct dev *d)
{
	static const enum lm_type types[] = { LM_F32, LM_Q8_0, LM_Q4_0 };
	float(*logits)[VOCAB] = xcalloc((size_t)2 * LENGTH, sizeof *logits);
	struct model_file *made = NULL;
	struct lm_config c;

	CHECK(lm_config_preset(&c, "nano", VOCAB) == 0);
	c.context = LENGTH;
	CHECK(model_file_make(&made, NULL, &c, LM_F32, 5) == 0);
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		packed(d, made, types[i], logits, logits + LENGTH);
	model_file_close(made);
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		c.tied = i % 2;
		packed_in_place(d, &c, types[i], logits, logits + LENGTH);
	}
	free(logits);
}

static void every_level(void)
{
	for (enum cpu_level level = CPU_REF; level <= CPU_AVX512; level++) {
		struct dev d = DEV_INIT;

		if (dev_open_cpu(&d, level) < 0)
			continue;
		every_type(&d);
		dev_close(&d);
	}
}

/* --- pages ---------------------------------------------------------------------------------- */

static int keep_last(void *arg, uint32_t row, const float *logits)
{
	(void)row;
	memcpy(arg, logits, VOCAB * sizeof *logits);
	return 0;
}

/* Reads tokens from..to of a conversation; the logits of the last. */
static int keep_each(void *arg, uint32_t row, const float *logits)
{
	memcpy((float *)arg + row * VOCAB, logits, VOCAB * 4);
	return 0;
}

static void read_on(struct lm_forward *f, struct lm_cache *c, struct lm_sequence *s,
	int conversation, uint32_t to, float *logits)
{
	while (s->length < to) {
		uint32_t n = to - s->length < ROWS ? to - s->length : ROWS;
		struct lm_row rows[ROWS];

		CHECK(lm_sequence_grow(s, c, n) == 0);
		for (uint32_t i = 0; i < n; i++)
			rows[i] = (struct lm_row){ .sequence = s,
				.token = spoken(conversation, s->length + i),
				.position = s->length + i,
				.logits = s->length + i + 1 == to };
		CHECK(lm_forward_rows(f, rows, n, keep_last, logits) == 0);
	}
}

/* Two conversations with the same beginning share pages until one continues within a shared
 * one; each gets the bits that it gets alone. */
static void shared_pages(struct lm_weights *w)
{
	struct lm_forward_limits limits = { .rows = ROWS,
		.sequences = 2,
		.context = LENGTH };
	struct lm_sequence a = { 0 }, b = { 0 };
	const struct lm_sequence *both[] = { &a, &b };
	float(*want)[VOCAB] = xcalloc(LENGTH, sizeof *want), got[VOCAB];
	struct lm_forward *f = NULL;
	struct lm_cache *c = NULL;

	CHECK(lm_cache_open(&c, w, 8, LM_CACHE_F32) == 0);
	CHECK(lm_forward_open(&f, w, c, &limits) == 0);
	read_on(f, c, &a, 0, 40, got);
	CHECK_I64(5, lm_cache_free_pages(c));
	lm_sequence_fork(&b, &a, c,
		20); /* 0 and 1 agree on the first 20 but for an offset: b goes on as 0 does */
	CHECK_I64(5, lm_cache_free_pages(c));
	CHECK(lm_cache_sound(c, both, 2));
	read_on(f, c, &b, 0, 60, got);
	CHECK(lm_cache_sound(c, both, 2));
	CHECK(a.pages[0] == b.pages[0] && a.pages[1] != b.pages[1]);
	CHECK_I64(2, lm_cache_free_pages(c));
	alone(w, 0, want);
	CHECK(memcmp(got, want[59], sizeof got) == 0);
	/* a has not noticed */
	read_on(f, c, &a, 0, 41, got);
	CHECK(memcmp(got, want[40], sizeof got) == 0);
	/* too few pages: nothing changes */
	CHECK_FAILS(EX_TEMPFAIL, lm_sequence_grow(&b, c, 70));
	CHECK_I64(60, b.length);
	CHECK(lm_cache_sound(c, both, 2));
	/* back into a shared page, and on: the page is not a's any more */
	lm_sequence_truncate(&b, c, 5);
	CHECK_I64(1, b.n);
	read_on(f, c, &b, 0, 7, got);
	CHECK(a.pages[0] != b.pages[0]);
	CHECK(memcmp(got, want[6], sizeof got) == 0);
	read_on(f, c, &a, 0, 50, got);
	CHECK(memcmp(got, want[49], sizeof got) == 0);
	CHECK(lm_cache_sound(c, both, 2));
	/* copies of whole pages, over and over: b goes on as a did after 32 */
	lm_sequence_release(&b, c);
	lm_sequence_truncate(&a, c, 32);
	CHECK(lm_sequence_repeat(&b, &a, c, 32) == 0);
	CHECK(a.pages[0] != b.pages[0] && lm_cache_sound(c, both, 2));
	read_on(f, c, &b, 0, 33, got);
	CHECK(memcmp(got, want[32], sizeof got) == 0);
	lm_sequence_release(&b, c);
	CHECK(lm_sequence_repeat(&b, &a, c, 70) == 0);
	CHECK(b.n == 5 && b.length == 70 && lm_cache_sound(c, both, 2));
	lm_sequence_release(&a, c);
	CHECK(!lm_cache_sound(c, both, 0));
	lm_sequence_release(&b, c);
	CHECK(lm_cache_sound(c, both, 0));
	CHECK_I64(8, lm_cache_free_pages(c));
	lm_forward_close(f);
	lm_cache_close(c);
	free(want);
}

/* ThreadSanitizer keeps a shadow as large as what is touched, and it is resident, too: of 33.9 MB
 * that 16.8 MB of pages took, half lay below all our addresses. AddressSanitizer's is an eighth,
 * for which bounds have room. */
#ifdef __SANITIZE_THREAD__
#define MEASURES false
#else
#define MEASURES true
#endif

static uint64_t resident(void)
{
	unsigned long long all, pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	CHECK(f && fscanf(f, "%llu %llu", &all, &pages) == 2);
	fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* The first tokens of a text find the memory of what they write, to a huge page, and not that of a
 * part of each layer: 6 ms for 2 MB in a virtual machine, while other streams wait. */
static void found_where_written(struct lm_weights *w)
{
	enum { PAGES_ALL = 16384 };
	struct lm_forward_limits limits = { .rows = ROWS,
		.sequences = 1,
		.context = LENGTH };
	struct lm_sequence a = { 0 };
	float got[VOCAB];
	struct lm_forward *f = NULL;
	struct lm_cache *c = NULL;
	uint64_t before;

	CHECK(lm_cache_open(&c, w, PAGES_ALL, LM_CACHE_F32) == 0);
	CHECK(lm_forward_open(&f, w, c, &limits) == 0);
	before = resident();
	read_on(f, c, &a, 0, 20, got);
	CHECK(!MEASURES || resident() < before + (3 << 20));
	lm_sequence_release(&a, c);
	lm_forward_close(f);
	lm_cache_close(c);
}

/* The memory of pages that nobody had is there before they are used, no more than was asked for at
 * a time; what a text has is not touched, also where it takes pages meanwhile. */
static void touched(struct lm_weights *w)
{
	enum { PAGES_ALL = 16384, AHEAD = 4096 };
	struct lm_forward_limits limits = { .rows = ROWS,
		.sequences = 1,
		.context = LENGTH };
	struct lm_sequence a = { 0 };
	float(*want)[VOCAB] = xcalloc(LENGTH, sizeof *want), got[VOCAB];
	uint64_t bytes = lm_cache_page_bytes(lm_weights_config(w), LM_CACHE_F32), before;
	struct lm_forward *f = NULL;
	struct lm_cache *c = NULL;
	int calls = 0;

	if (!MEASURES)
		fprintf(stderr,
			"SKIP that memory is not more than was asked for: ThreadSanitizer's shadow is resident, too\n");
	alone(w, 0, want);
	CHECK(lm_cache_open(&c, w, PAGES_ALL, LM_CACHE_F32) == 0);
	CHECK(lm_forward_open(&f, w, c, &limits) == 0);
	read_on(f, c, &a, 0, 20, got);
	before = resident();
	CHECK(lm_cache_touch(c, AHEAD));
	read_on(f, c, &a, 0, 50, got);
	CHECK(memcmp(got, want[49], sizeof got) == 0);
	while (lm_cache_touch(c, AHEAD) && calls < 1000)
		calls++;
	CHECK(calls > 2 * LAYERS && calls < 1000);
	CHECK(resident() - before > AHEAD * bytes * 3 / 4);
	CHECK(!MEASURES || resident() - before < AHEAD * bytes * 3 / 2);
	read_on(f, c, &a, 0, LENGTH, got);
	CHECK(memcmp(got, want[LENGTH - 1], sizeof got) == 0);
	CHECK(lm_cache_touch(c, AHEAD)); /* for the pages it took */
	for (calls = 0; lm_cache_touch(c, UINT32_MAX) && calls < 1000;)
		calls++;
	CHECK(calls < 1000 && resident() - before > PAGES_ALL * bytes * 3 / 4);
	CHECK(!lm_cache_touch(c, UINT32_MAX));
	lm_sequence_truncate(&a, c, 50);
	read_on(f, c, &a, 0, 60, got);
	CHECK(memcmp(got, want[59], sizeof got) == 0);
	lm_sequence_release(&a, c);
	CHECK_I64(PAGES_ALL, lm_cache_free_pages(c));
	lm_forward_close(f);
	lm_cache_close(c);
	free(want);
}

/* --- graphs ------------------------------------------------------------------------------- */

static struct dev_ops counting;
static const struct dev_ops *counted;
static struct lm_ops counting_lm;
static int replayed, captured, grouped;
static bool one_by_one;

static int count_group(struct dev *d, const struct lm_project_group *g)
{
	int rc = one_by_one ? 1 : counted->lm->project_group(d, g);

	grouped += rc == 0;
	return rc;
}

static int count_launch(struct dev *d, void *graph)
{
	replayed++;
	return counted->graph_launch(d, graph);
}

static int count_end(struct dev *d, void **graph)
{
	captured += graph != NULL;
	return counted->graph_end(d, graph);
}

/* The CUDA kernels, compiled for the CPU. */
static bool open_emulation(struct dev *d)
{
	const char *build = getenv("RNP_BUILD");
	char path[4096];

	snprintf(path, sizeof path, "%s/emu/librnp_cuda.so", build ? build : "build");
	if (access(path, F_OK) < 0) {
		fprintf(stderr, "SKIP emulation: '%s' is not there: make kcheck\n", path);
		return false;
	}
	setenv("RNP_CUDA_PLUGIN", path, 1);
	CHECK(dev_open(d, "cuda:0") == 0);
	counted = d->ops;
	counting = *counted;
	counting.graph_launch = count_launch;
	counting.graph_end = count_end;
	counting_lm = *counted->lm;
	counting_lm.project_group = count_group;
	counting.lm = &counting_lm;
	d->ops = &counting;
	return true;
}

enum { TEXT = 138, BESIDE = 4 }; /* beyond the positions that one graph is for */

/* A text whose beginning is read at once and whose last twelve tokens one by one, each beside two
 * of `BESIDE` others where `more`. */
static void speak(struct lm_weights *w, bool more, float logits[12][VOCAB])
{
	struct lm_forward_limits limits = { .rows = TEXT,
		.sequences = 3,
		.context = TEXT };
	struct lm_sequence s[3] = { 0 };
	struct lm_forward *f = NULL;
	struct lm_cache *c = NULL;
	float heard[3][VOCAB];
	struct lm_row rows[TEXT];

	CHECK(lm_cache_open(&c, w, 64, LM_CACHE_F16) == 0);
	CHECK(lm_forward_open(&f, w, c, &limits) == 0);
	for (uint32_t i = 0; i < 3; i++)
		CHECK(lm_sequence_grow(&s[i], c, TEXT) == 0);
	for (uint32_t i = 0; i < TEXT - 12; i++)
		rows[i] = (struct lm_row){ .sequence = &s[0],
			.token = spoken(0, i),
			.position = i };
	CHECK(lm_forward_rows(f, rows, TEXT - 12, NULL, NULL) == 0);
	for (uint32_t i = 0; i < 12; i++) {
		uint32_t n = more && i % BESIDE ? 3 : 1;

		for (uint32_t k = 0; k < n; k++)
			rows[k] = (struct lm_row){ .sequence = &s[k],
				.token = spoken((int)k, s[k].length),
				.position = s[k].length,
				.logits = true };
		CHECK(lm_forward_rows(f, rows, n, keep_each, heard) == 0);
		memcpy(logits[i], heard[0], sizeof heard[0]);
	}
	for (uint32_t i = 0; i < 3; i++)
		lm_sequence_release(&s[i], c);
	lm_forward_close(f);
	lm_cache_close(c);
}

/* Tokens that a GPU replays as graphs have the bits of those that are launched; graphs are made
 * anew where attention is divided another way; a device that captures nothing goes on. */
static void graphs(const struct model_file *s)
{
	static float want[12][VOCAB], got[12][VOCAB];
	struct dev d = DEV_INIT;
	struct lm_weights *w = NULL;

	if (!open_emulation(&d))
		return;
	CHECK(lm_weights_open(&w, &d, s) == 0);
	setenv("CUDA_EMU_CAPTURE", "begin", 1);
	speak(w, false, want);
	CHECK_I64(0, replayed);
	unsetenv("CUDA_EMU_CAPTURE");
	speak(w, false, got);
	CHECK(memcmp(want, got, sizeof want) == 0);
	/* 126 and 127 are of the first 128 positions; the first of the others is launched, too */
	CHECK_I64(2, captured);
	CHECK_I64(1 + 9, replayed);
	replayed = captured = 0;
	speak(w, true, got);
	CHECK(memcmp(want, got, sizeof want) == 0);
	/* alone 126, 130, 134, beside others 127, 128 and so on */
	CHECK_I64(2, captured);
	CHECK_I64(1 + 7, replayed);
	setenv("CUDA_EMU_CAPTURE", "end", 1);
	replayed = 0;
	speak(w, false, got);
	CHECK(memcmp(want, got, sizeof want) == 0);
	CHECK_I64(0, replayed);
	/* what is captured and then not launched is launched one by one from there on */
	setenv("CUDA_EMU_CAPTURE", "launch", 1);
	speak(w, false, got);
	CHECK(memcmp(want, got, sizeof want) == 0);
	CHECK_I64(1, replayed);
	unsetenv("CUDA_EMU_CAPTURE");
	lm_weights_close(w);
	dev_close(&d);
}

/* Tokens whose layers a GPU makes together have the bits of those of which it makes each by
 * itself. */
static void groups(enum lm_type type)
{
	static float want[12][VOCAB], got[12][VOCAB];
	struct dev d = DEV_INIT;
	struct model_file *s = NULL;
	struct lm_weights *w = NULL;
	struct lm_config c;

	if (!open_emulation(&d))
		return;
	CHECK(lm_config_preset(&c, "nano", VOCAB) == 0);
	c.dim = 96;
	c.hidden = type == LM_BF16 ? 168 : 192;
	c.layers = 2;
	c.heads = 6;
	c.kv_heads = 2;
	c.head_dim = 16;
	c.context = TEXT;
	CHECK(model_file_make(&s, NULL, &c, type, 5) == 0);
	CHECK(lm_weights_open(&w, &d, s) == 0);
	grouped = 0;
	one_by_one = true;
	speak(w, true, want);
	one_by_one = false;
	CHECK_I64(0, grouped);
	speak(w, true, got);
	CHECK(memcmp(want, got, sizeof want) == 0);
	/* of each layer q, k and v, and g and u, and what quantises its input: of passes that are
	 * launched or captured; with bf16 of the prompt, too, of which nobody wants logits: those
	 * of the first layer */
	CHECK(grouped > 2 && grouped % 4 == (type == LM_BF16 ? 2 : 0));
	lm_weights_close(w);
	model_file_close(s);
	dev_close(&d);
}

enum { CUT_TEXT = 170, PIECES_MAX = 7 };

/* The logits of all tokens of two conversations side by side, of which the first is read in pieces
 * of these sizes, the second in one of each as long. */
static void read_in_pieces(struct lm_weights *w, enum lm_cache_type type,
	const uint32_t *pieces, float (*logits)[VOCAB])
{
	struct lm_forward_limits limits = { .rows = 2 * CUT_TEXT,
		.sequences = 2,
		.context = CUT_TEXT };
	static float heard[2 * CUT_TEXT][VOCAB];
	static struct lm_row rows[2 * CUT_TEXT];
	struct lm_sequence s[2] = { 0 };
	struct lm_forward *f = NULL;
	struct lm_cache *c = NULL;

	CHECK(lm_cache_open(&c, w, 64, type) == 0);
	CHECK(lm_forward_open(&f, w, c, &limits) == 0);
	for (uint32_t i = 0; i < 2; i++)
		CHECK(lm_sequence_grow(&s[i], c, CUT_TEXT) == 0);
	for (; *pieces; pieces++) {
		uint32_t first = s[0].length, n = 0;

		for (uint32_t k = 0; k < 2; k++)
			for (uint32_t i = 0; i < *pieces; i++)
				rows[n++] = (struct lm_row){ .sequence = &s[k],
					.token = spoken((int)k, s[k].length + i),
					.position = s[k].length + i,
					.logits = true };
		CHECK(lm_forward_rows(f, rows, n, keep_each, heard) == 0);
		for (uint32_t i = 0; i < n; i++)
			memcpy(logits[i / *pieces * CUT_TEXT + first + i % *pieces],
				heard[i], sizeof heard[i]);
	}
	CHECK(s[0].length == CUT_TEXT);
	for (uint32_t i = 0; i < 2; i++)
		lm_sequence_release(&s[i], c);
	lm_forward_close(f);
	lm_cache_close(c);
}

/* On a GPU, too, a row's bits are its own: other kernels make one row, eight, 32, 64 and more of
 * each type of weights, and attention of few rows and of many. */
static void cut_anywhere(void)
{
	static const uint32_t sizes[][PIECES_MAX] = { { CUT_TEXT },
		{ 1, 3, 5, 17, 40, 104 }, { 129, 2, 30, 8, 1 } };
	static const enum lm_type types[] = { LM_BF16, LM_Q8_0, LM_Q4_0 };
	static float want[2 * CUT_TEXT][VOCAB], got[2 * CUT_TEXT][VOCAB];
	struct dev d = DEV_INIT;
	struct lm_config c;

	if (!open_emulation(&d))
		return;
	CHECK(lm_config_preset(&c, "nano", VOCAB) == 0);
	c.dim = 128;
	c.hidden = 192;
	c.layers = 1;
	c.heads = 4;
	c.kv_heads = 2;
	c.head_dim = 64;
	c.context = CUT_TEXT;
	for (unsigned i = 0; i < 3; i++) {
		enum lm_cache_type type = i == 1 ? LM_CACHE_Q8_0 : LM_CACHE_F16;
		struct model_file *s = NULL;
		struct lm_weights *w = NULL;

		CHECK(model_file_make(&s, NULL, &c, types[i], 7) == 0);
		CHECK(lm_weights_open(&w, &d, s) == 0);
		read_in_pieces(w, type, sizes[0], want);
		for (unsigned k = 1; k < sizeof sizes / sizeof *sizes; k++) {
			memset(got, 0, sizeof got);
			read_in_pieces(w, type, sizes[k], got);
			CHECK(memcmp(want, got, sizeof want) == 0);
		}
		lm_weights_close(w);
		model_file_close(s);
	}
	dev_close(&d);
}

static void refusals(struct lm_weights *m, struct lm_stream *stream)
{
	uint32_t bad = VOCAB;
	struct lm_stream *none;

	lm_stream_truncate(stream, 5);
	CHECK_FAILS(EX_DATAERR, lm_stream_feed(stream, &bad, 1, NULL));
	CHECK_I64(5, lm_stream_length(stream));
	lm_stream_truncate(stream, 0);
	CHECK(lm_stream_feed(stream, ids, LENGTH, NULL) == 0);
	CHECK_FAILS(EX_DATAERR, lm_stream_feed(stream, ids, LENGTH, NULL));
	CHECK_FAILS(EX_USAGE, lm_stream_open(&none, m, LM_CONTEXT_MAX + 1, LM_CACHE_F16));
	CHECK(!none);
}

int main(void)
{
	char path[] = "/tmp/rnp-infer-XXXXXX";
	int fd = mkstemp(path);
	struct model_file *s = NULL;
	struct lm_weights *m = NULL;
	struct lm_stream *stream = NULL;
	struct lm_stream_plan plan;
	struct dev d = DEV_INIT;

	for (uint32_t i = 0; i < LENGTH; i++)
		ids[i] = (i * i + 7 * i) % VOCAB;
	CHECK(fd >= 0);
	close(fd);
	write_model(path);
	CHECK(dev_open(&d, "cpu") == 0);
	CHECK(model_file_open(&s, path) == 0);
	CHECK(lm_stream_plan(&plan, s, 0, LM_CACHE_F32) == 0);
	CHECK(plan.total == plan.weights + plan.tables + plan.cache + plan.work);
	CHECK_I64((int64_t)2 * LAYERS * CONTEXT * KV_HEADS * (DIM / HEADS) * 4,
		(int64_t)plan.cache);
	CHECK(lm_weights_open(&m, &d, s) == 0);
	CHECK(lm_stream_open(&stream, m, 0, LM_CACHE_F32) == 0);
	CHECK_I64(CONTEXT, lm_stream_context(stream));
	same_as_training(&d, s, stream);
	pieces(stream);
	refusals(m, stream);
	shared_pages(m);
	found_where_written(m);
	touched(m);
	every_level();
	packs(&d);
	graphs(s);
	groups(LM_BF16);
	groups(LM_Q8_0);
	groups(LM_Q4_0);
	cut_anywhere();
	lm_stream_close(stream);
	lm_weights_close(m);
	model_file_close(s);
	dev_close(&d);
	unlink(path);
	TEST_END();
}
