/* export.c - what is written is the model that was read: every parameter in a directory
 * bit for bit, in a GGUF file the same answers; types, places and refusals. */
#include "common/lm/export/export.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/lm/infer/stream.h"
#include "tests/unit/test.h"

enum { VOCAB = 41, LENGTH = 24 };

static char dir[] = "/tmp/rnp-export-XXXXXX";
static struct dev d = DEV_INIT;

static const char *in_dir(const char *name)
{
	static char path[2][128];
	static int which;

	which = !which;
	snprintf(path[which], sizeof path[which], "%s/%s", dir, name);
	return path[which];
}

static struct lm_config small(bool tied)
{
	struct lm_config c;

	CHECK(lm_config_preset(&c, "nano", VOCAB) == 0);
	c.dim = 64;
	c.hidden = 96;
	c.layers = 2;
	c.heads = 4;
	c.kv_heads = 2;
	c.head_dim = 16;
	c.context = LENGTH;
	c.tied = tied;
	return c;
}

/* -log p of a fixed text: the same for the same model, however its rows lie. */
static double loss(const struct model_file *s)
{
	struct lm_weights *w = NULL;
	struct lm_stream *stream = NULL;
	uint32_t ids[LENGTH];
	uint64_t counted = 0;
	double sum = 0;

	for (uint32_t i = 0; i < LENGTH; i++)
		ids[i] = (i * i + 3 * i) % VOCAB;
	CHECK(lm_weights_open(&w, &d, s) == 0);
	CHECK(lm_stream_open(&stream, w, LENGTH, LM_CACHE_F32) == 0);
	CHECK(lm_stream_score(stream, ids, LENGTH, &sum, &counted) == 0);
	CHECK_I64(LENGTH - 1, (int64_t)counted);
	lm_stream_close(stream);
	lm_weights_close(w);
	return sum / LENGTH;
}

static void same_parameters(const struct model_file *a, const struct model_file *b)
{
	const struct lm_config *c = model_file_config(a);

	CHECK_I64(lm_layout_count(c), lm_layout_count(model_file_config(b)));
	for (uint32_t i = 0; i < lm_layout_count(c); i++) {
		const struct lm_tensor *x = model_file_tensor(a, i);
		const struct lm_tensor *y = model_file_tensor(b, i);

		CHECK(x->count == y->count && x->type == y->type && x->bytes == y->bytes);
		CHECK(memcmp(x->data, y->data, x->bytes) == 0);
	}
}

static void directory(const struct model_file *s)
{
	struct model_file *back = NULL;
	struct lm_export e;

	lm_export_model_file(&e, s);
	CHECK(lm_export_directory(in_dir("m"), &e, LM_TYPE_UNCHANGED) == 0);
	CHECK(model_file_open(&back, in_dir("m")) == 0);
	same_parameters(s, back);
	CHECK(loss(s) == loss(back));
	model_file_close(back);
	/* again over itself: whole at every instant, the same in the end */
	CHECK(lm_export_directory(in_dir("m"), &e, LM_BF16) == 0);
	CHECK(model_file_open(&back, in_dir("m")) == 0);
	CHECK(model_file_tensor(back, 0)->type == LM_BF16);
	CHECK(fabs(loss(s) - loss(back)) < 0.02);
	model_file_close(back);
}

static void gguf(const struct model_file *s, enum lm_type type, double bound)
{
	struct model_file *back = NULL;
	struct lm_export e;

	lm_export_model_file(&e, s);
	CHECK(lm_export_gguf(in_dir("m.gguf"), &e, type) == 0);
	CHECK(model_file_open(&back, in_dir("m.gguf")) == 0);
	CHECK(model_file_tensor(back, 2)->type == type);
	CHECK(model_file_config(back)->tied == model_file_config(s)->tied);
	CHECK(fabs(loss(s) - loss(back)) <= bound);
	model_file_close(back);
}

/* Parameters from a callback, in whatever pieces it is asked for. */
struct made {
	const struct model_file *s;
	int fail_at; /* tensor; -1: none */
};

static int read_made(void *ctx, uint32_t i, uint64_t from, uint64_t count, float *to)
{
	struct made *m = ctx;
	const struct lm_tensor *t = model_file_tensor(m->s, i);

	if ((int)i == m->fail_at)
		return err_set(EX_TEMPFAIL, "not today");
	CHECK(count <= t->count && from <= t->count - count);
	memcpy(to, (const float *)t->data + from, count * sizeof *to);
	return 0;
}

static void from_callback(const struct model_file *s)
{
	struct made made = { .s = s, .fail_at = -1 };
	struct lm_export e = { .config = *model_file_config(s),
		.read = read_made,
		.ctx = &made };
	struct model_file *back = NULL;
	struct buf before = BUF_INIT, after = BUF_INIT;

	CHECK(lm_export_directory(in_dir("c"), &e, LM_F32) == 0);
	CHECK(model_file_open(&back, in_dir("c")) == 0);
	same_parameters(s, back);
	model_file_close(back);
	/* a source that fails leaves what was there */
	CHECK(io_read(&before, in_dir("c/model.safetensors"), 1 << 24) == 0);
	made.fail_at = 5;
	CHECK_FAILS(EX_TEMPFAIL, lm_export_directory(in_dir("c"), &e, LM_F32));
	CHECK(io_read(&after, in_dir("c/model.safetensors"), 1 << 24) == 0);
	CHECK(before.len == after.len &&
		memcmp(before.data, after.data, before.len) == 0);
	CHECK_FAILS(EX_TEMPFAIL, lm_export_gguf(in_dir("c.gguf"), &e, LM_F32));
	CHECK(access(in_dir("c.gguf"), F_OK) < 0);
	buf_release(&before);
	buf_release(&after);
}

/* A model without a tokenizer does not go where another's is: perhaps the only copy. */
static void places(const struct model_file *s)
{
	struct lm_export e;

	lm_export_model_file(&e, s);
	CHECK(lm_export_place(in_dir("nowhere"), NULL) == 0);
	CHECK(lm_export_place(in_dir("m"), NULL) == 0);
	CHECK(io_replace(in_dir("m/tokenizer.json"), "{}", 2, 0666) == 0);
	CHECK_FAILS(EX_CANTCREAT, lm_export_place(in_dir("m"), NULL));
	CHECK_FAILS(EX_CANTCREAT, lm_export_directory(in_dir("m"), &e, LM_F32));
}

int main(void)
{
	char command[160];

	CHECK(mkdtemp(dir) != NULL);
	CHECK(dev_open(&d, "cpu") == 0);
	for (int tied = 0; tied < 2; tied++) {
		struct lm_config c = small(tied);
		struct model_file *s = NULL;

		CHECK(model_file_make(&s, NULL, &c, LM_F32, 3) == 0);
		directory(s);
		gguf(s, LM_F32, 1e-6);
		gguf(s, LM_F16, 1e-3);
		gguf(s, LM_Q8_0, 0.02);
		gguf(s, LM_Q4_0, 0.2);
		from_callback(s);
		if (tied)
			places(s);
		model_file_close(s);
	}
	dev_close(&d);
	snprintf(command, sizeof command, "rm -rf '%s'", dir);
	CHECK(system(command) == 0);
	TEST_END();
}
