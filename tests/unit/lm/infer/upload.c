/* upload.c - what is copied later is what was asked for: weights through two buffers, and the rows
 * of passes that nobody waits for. The device is the CPU with memory that is its own as far as the
 * program knows; it makes copies as late as dev.h allows, from what is in the host's memory then,
 * and none may use memory again that another may still read. */
#include "common/lm/infer/upload.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/lm/infer/stream.h"
#include "tests/unit/test.h"

enum { LATER_MAX = 8, TOKENS = 3 * LM_STREAM_ROWS + 5 };

static const struct dev_ops *cpu;
static struct dev_ops late;
static struct {
	void *to;
	const void *host;
	uint64_t bytes;
} later[LATER_MAX];
static int later_count, made, pins_left, pinned;
static bool makes_late;

static int put_later(struct dev *d, void *to, const void *host, uint64_t bytes)
{
	if (!makes_late)
		return cpu->put_later(d, to, host, bytes);
	CHECK(later_count < LATER_MAX);
	for (int i = 0; i < later_count; i++)
		CHECK((const char *)later[i].host + later[i].bytes <=
				(const char *)host ||
			(const char *)host + bytes <= (const char *)later[i].host);
	later[later_count].to = to;
	later[later_count].host = host;
	later[later_count++].bytes = bytes;
	return 0;
}

static void make_all(void)
{
	for (; made < later_count; made++)
		memcpy(later[made].to, later[made].host, later[made].bytes);
}

/* What waits: the host's memory is free again. */
static int settle(struct dev *d)
{
	make_all();
	later_count = made = 0;
	return cpu->sync(d);
}

static int put(struct dev *d, void *to, const void *host, uint64_t bytes)
{
	make_all();
	return cpu->put(d, to, host, bytes);
}

static int get(struct dev *d, void *host, const void *from, uint64_t bytes)
{
	(void)settle(d);
	return cpu->get(d, host, from, bytes);
}

/* The operations of a pass, which a GPU begins when its copies are made, run at once here. */
static int batch_begin(struct dev *d)
{
	make_all();
	return cpu->batch_begin(d);
}

static int pin(struct dev *d, void **out, uint64_t bytes)
{
	if (!pins_left)
		return dev_fail(d, EX_OSERR, "late: no memory to pin");
	pins_left--;
	pinned++;
	return cpu->pin(d, out, bytes);
}

static void unpin(struct dev *d, void *p)
{
	pinned -= p != NULL;
	cpu->unpin(d, p);
}

static void open_late(struct dev *d)
{
	CHECK(dev_open(d, "cpu") == 0);
	cpu = d->ops;
	late = *cpu;
	late.put_later = put_later;
	late.put = put;
	late.get = get;
	late.sync = settle;
	late.batch_begin = batch_begin;
	late.pin = pin;
	late.unpin = unpin;
	d->ops = &late;
	d->is_host = false;
}

/* Sizes around those of the buffers; pins: how many the device has. */
static void bytes_are_right(struct dev *d, int pins)
{
	static const uint64_t sizes[] = { 1, 0, 5, LM_UPLOAD_BYTES - 1, LM_UPLOAD_BYTES,
		3 * LM_UPLOAD_BYTES + 7, 100, 2 * LM_UPLOAD_BYTES + 1 };
	enum { N = sizeof sizes / sizeof *sizes };
	struct lm_upload u;
	unsigned char *to[N];

	pins_left = pins;
	lm_upload_begin(&u, d);
	CHECK(!d->error[0] && pinned == (pins == 2 ? 2 : 0));
	for (int i = 0; i < N; i++) {
		unsigned char *from = malloc(sizes[i] + 1);
		uint32_t x = (uint32_t)i + 1;

		to[i] = calloc(1, sizes[i] + 1);
		for (uint64_t k = 0; k < sizes[i]; k++, x = x * 1664525 + 1013904223)
			from[k] = (unsigned char)(x >> 24);
		CHECK(lm_upload_put(&u, to[i], from, sizes[i]) == 0);
		memset(from, 0xee, sizes[i]); /* it was read */
		free(from);
	}
	CHECK(lm_upload_end(&u) == 0);
	CHECK(pinned == 0 && later_count == 0);
	for (int i = 0; i < N; i++) {
		uint32_t x = (uint32_t)i + 1;
		uint64_t k = 0;

		for (; k < sizes[i] && to[i][k] == x >> 24; k++)
			x = x * 1664525 + 1013904223;
		CHECK_I64((int64_t)sizes[i], (int64_t)k);
		CHECK(to[i][k] == 0);
		free(to[i]);
	}
}

/* A prompt in pieces, of which only the last waits for its logits. */
static void read_prompt(struct dev *d, const struct model_file *file, float *logits)
{
	struct lm_weights *w;
	struct lm_stream *s;
	uint32_t ids[TOKENS];

	pins_left = 100;
	for (uint32_t i = 0; i < TOKENS; i++)
		ids[i] = i * 7 % model_file_config(file)->vocab;
	CHECK(lm_weights_open(&w, d, file) == 0);
	CHECK(lm_stream_open(&s, w, TOKENS, LM_CACHE_F16) == 0);
	CHECK(lm_stream_feed(s, ids, TOKENS, logits) == 0);
	lm_stream_close(s);
	lm_weights_close(w);
	CHECK(pinned == 0);
}

static void passes_are_right(struct dev *d)
{
	struct model_file *file;
	struct lm_config c;
	float *soon, *later_on;

	CHECK(lm_config_preset(&c, "nano", 0) == 0);
	CHECK(model_file_make(&file, NULL, &c, LM_Q8_0, 3) == 0);
	soon = calloc(c.vocab, sizeof *soon);
	later_on = calloc(c.vocab, sizeof *later_on);
	makes_late = false;
	read_prompt(d, file, soon);
	makes_late = true;
	read_prompt(d, file, later_on);
	CHECK(memcmp(soon, later_on, c.vocab * sizeof *soon) == 0);
	CHECK(soon[0] != soon[1]);
	free(soon);
	free(later_on);
	model_file_close(file);
}

int main(void)
{
	struct dev d;

	open_late(&d);
	makes_late = true;
	for (int pins = 0; pins < 3; pins++)
		bytes_are_right(&d, pins);
	passes_are_right(&d);
	d.ops = cpu;
	dev_close(&d);
	TEST_END();
}
