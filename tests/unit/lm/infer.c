/* infer: answering computes what training computes; pieces, cuts and number types change nothing they should not; refusals. */
#include "common/lm/infer/infer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

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

/* A llama2.c model: its header is seven int32, its arrays lie one behind the other. */
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

/* Whatever the pieces, what follows is predicted alike; and exactly so when a piece is fed again. */
static void pieces(struct lm_stream *stream)
{
	float whole[VOCAB], parts[VOCAB], again[VOCAB];

	lm_stream_truncate(stream, 0);
	CHECK(lm_stream_feed(stream, ids, LENGTH, whole) == 0);
	lm_stream_truncate(stream, 0);
	for (uint32_t i = 0; i < LENGTH; i++)
		CHECK(lm_stream_feed(stream, ids + i, 1, parts) == 0);
	CHECK_I64(LENGTH, lm_stream_length(stream));
	lm_stream_truncate(stream, LENGTH - 1);
	CHECK(lm_stream_feed(stream, ids + LENGTH - 1, 1, again) == 0);
	CHECK(memcmp(parts, again, sizeof parts) == 0);
	for (int i = 0; i < VOCAB; i++)
		CHECK(fabsf(whole[i] - parts[i]) < 1e-4f);
}

static void refusals(struct lm_infer *m, struct lm_stream *stream)
{
	uint32_t bad = VOCAB;
	struct lm_stream *none;

	lm_stream_truncate(stream, 5);
	CHECK_FAILS(EX_DATAERR, lm_stream_feed(stream, &bad, 1, NULL));
	CHECK_I64(5, lm_stream_length(stream));
	lm_stream_truncate(stream, 0);
	CHECK(lm_stream_feed(stream, ids, LENGTH, NULL) == 0);
	CHECK_FAILS(EX_DATAERR, lm_stream_feed(stream, ids, LENGTH, NULL));
	CHECK_FAILS(EX_USAGE, lm_stream_open(&none, m, LM_CONTEXT_MAX + 1));
	CHECK(!none);
}

int main(void)
{
	char path[] = "/tmp/rnp-infer-XXXXXX";
	int fd = mkstemp(path);
	struct model_file *s = NULL;
	struct lm_infer *m = NULL;
	struct lm_stream *stream = NULL;
	struct lm_infer_plan plan;
	struct dev d = DEV_INIT;

	for (uint32_t i = 0; i < LENGTH; i++)
		ids[i] = (i * i + 7 * i) % VOCAB;
	CHECK(fd >= 0);
	close(fd);
	write_model(path);
	CHECK(dev_open(&d, "cpu") == 0);
	CHECK(model_file_open(&s, path) == 0);
	CHECK(lm_infer_plan(&plan, s, 0) == 0);
	CHECK(plan.total == plan.weights + plan.tables + plan.cache + plan.work);
	CHECK_I64((int64_t)2 * LAYERS * CONTEXT * KV_HEADS * (DIM / HEADS) * 4,
		(int64_t)plan.cache);
	CHECK(lm_infer_open(&m, &d, s) == 0);
	CHECK(lm_stream_open(&stream, m, 0) == 0);
	CHECK_I64(CONTEXT, lm_stream_context(stream));
	same_as_training(&d, s, stream);
	pieces(stream);
	refusals(m, stream);
	lm_stream_close(stream);
	lm_infer_close(m);
	model_file_close(s);
	dev_close(&d);
	unlink(path);
	TEST_END();
}
