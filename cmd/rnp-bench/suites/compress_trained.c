/* compress_trained.c - trains a small model to get realistic gradients without a file. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-bench/suites/compress_data.h"
#include "common/base/err.h"
#include "common/hw/device.h"
#include "common/lm/train/train.h"
#include "common/base/mem.h"
#include "common/base/rng.h"

#define BATCH  4
#define LENGTH 128
#define TOKENS (BATCH * LENGTH)
#define BEFORE 8 /* steps before the first gradient that is used */
#define RATE   1e-3f

/* An artificial language: word frequencies follow Zipf (1949), and three of four words are
 * determined by the one before. */
static uint32_t word_after(struct rng *r, uint32_t word, uint32_t vocab)
{
	double u = rng_f64(r);

	if (rng_below(r, 4))
		return (uint32_t)((word * UINT64_C(2654435761) + 12345) % vocab);
	return (uint32_t)exp(u * log(vocab)) % vocab;
}

static void speak(uint32_t *tokens, uint32_t *targets, struct rng *r, uint32_t vocab)
{
	for (int i = 0; i < TOKENS; i++) {
		tokens[i] = i % LENGTH ? targets[i - 1] : word_after(r, 0, vocab);
		targets[i] = word_after(r, tokens[i], vocab);
	}
}

static int train(struct lm_train *t, float *out, uint64_t n)
{
	uint64_t count = lm_train_flat_count(t), got = 0;
	uint32_t tokens[TOKENS], targets[TOKENS];
	struct lm_step step;
	struct rng r;

	rng_seed(&r, 7, 0);
	for (int i = 0; got < n; i++) {
		speak(tokens, targets, &r, lm_train_config(t)->vocab);
		if (lm_train_add(t, tokens, targets, true) < 0)
			return -1;
		if (i >= BEFORE) {
			uint64_t part = n - got < count ? n - got : count;

			memcpy(out + got, lm_train_flat(t, LM_STATE_GRADIENT), part * 4);
			got += part;
		}
		if (lm_train_apply(t, RATE, &step) < 0)
			return -1;
	}
	return 0;
}

int compress_trained(float *out, uint64_t n)
{
	struct lm_train_options o;
	struct lm_train *t = NULL;
	struct lm_config c;
	struct dev d;
	int rc = -1;

	if (device_open(&d, "cpu") < 0)
		return -1;
	if (lm_config_preset(&c, "nano", 0) < 0)
		goto out;
	lm_train_defaults(&o, &c);
	o.batch = BATCH;
	o.positions = LENGTH;
	if (lm_train_open(&t, &d, &o) == 0 && lm_train_init(t, 1) == 0)
		rc = train(t, out, n);
out:
	lm_train_close(t);
	dev_close(&d);
	return rc;
}
