/* logits.c - lm/logits: with a model file, a number of tokens to be fed at once and token ids,
 * prints the logits after each of the tokens, one line each: tests/rnp-train/lm-parity.bats holds
 * them against another engine. Alone it has nothing to check. */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/lm/infer/stream.h"

static int print(void *arg, uint32_t row, const float *logits)
{
	uint32_t vocab = *(const uint32_t *)arg;

	(void)row;
	for (uint32_t i = 0; i < vocab; i++)
		printf("%.9g%c", (double)logits[i], i + 1 < vocab ? ' ' : '\n');
	return 0;
}

static int feed(struct lm_forward *f, struct lm_cache *c, uint32_t vocab,
	uint32_t at_once, const uint32_t *ids, uint32_t n)
{
	struct lm_row *rows = xcalloc(at_once, sizeof *rows);
	struct lm_sequence s = { 0 };
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < n; i += at_once) {
		uint32_t some = n - i < at_once ? n - i : at_once;

		for (uint32_t k = 0; k < some; k++)
			rows[k] = (struct lm_row){ .sequence = &s,
				.token = ids[i + k],
				.position = i + k,
				.logits = true };
		rc = lm_sequence_grow(&s, c, some);
		if (rc == 0)
			rc = lm_forward_rows(f, rows, some, print, &vocab);
	}
	lm_sequence_release(&s, c);
	free(rows);
	return rc;
}

int main(int argc, char **argv)
{
	struct lm_forward_limits limits = { .sequences = 1 };
	struct model_file *model = NULL;
	struct lm_weights *w = NULL;
	struct lm_forward *f = NULL;
	struct lm_cache *c = NULL;
	struct dev d = DEV_INIT;
	uint32_t ids[4096], n = 0;
	int rc;

	if (argc < 4)
		return 0;
	limits.rows = (uint32_t)atoi(argv[2]);
	while ((int)n + 3 < argc && n < sizeof ids / sizeof *ids) {
		ids[n] = (uint32_t)atoi(argv[n + 3]);
		n++;
	}
	rc = dev_open(&d, NULL) < 0 ? err_set(d.code, "%s", d.error) : 0;
	if (rc == 0)
		rc = model_file_open(&model, argv[1]);
	if (rc == 0)
		rc = lm_weights_open(&w, &d, model);
	if (rc == 0) {
		limits.context = lm_weights_config(w)->context;
		rc = lm_cache_open(&c, w, lm_cache_pages(limits.context), LM_CACHE_F16);
	}
	if (rc == 0)
		rc = lm_forward_open(&f, w, c, &limits);
	if (rc == 0)
		rc = feed(f, c, lm_weights_config(w)->vocab, limits.rows, ids, n);
	if (rc < 0)
		fprintf(stderr, "logits: %s\n", err_get()->text);
	lm_forward_close(f);
	lm_cache_close(c);
	lm_weights_close(w);
	model_file_close(model);
	dev_close(&d);
	return rc < 0;
}
