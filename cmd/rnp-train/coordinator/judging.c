/* judging.c - decodes a delta, draws windows of its text and of nobody's, and measures both. */
#include "cmd/rnp-train/coordinator/judging.h"

#include <sodium.h>
#include <stdlib.h>

#include "cmd/rnp-train/wire/container.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"
#include "common/lm/train/flat.h"

/* Of each text, for a delta: some thousand tokens, whatever their length, for the noise of a loss
 * falls with the root of their number. */
#define WINDOWS_MIN   16
#define WINDOWS_MAX   512
#define WINDOW_TOKENS 4096
/* sequences of nobody that windows are drawn from */
#define OTHER_RANGE (UINT64_C(1) << 20)
#define EVAL_TOKENS 256 /* of a pass, so that none is larger than a group of windows */

int judging_loop(struct lm_loop *l, struct dev *d, const struct training *run)
{
	uint64_t rows = EVAL_TOKENS / run->length;
	struct lm_loop_options o = { .batch = rows ? rows : 1 };

	lm_train_defaults(&o.train, &run->config);
	o.train.batch = (uint32_t)o.batch;
	o.train.positions = run->length;
	o.train.dtype = run->f32 ? LM_DTYPE_F32 : LM_DTYPE_BF16;
	o.train.eval_only = true;
	return lm_loop_open(l, d, &o);
}

static uint64_t windows_of(const struct training *run)
{
	uint64_t n = WINDOW_TOKENS / run->length;

	return n < WINDOWS_MIN ? WINDOWS_MIN : n > WINDOWS_MAX ? WINDOWS_MAX : n;
}

int judging_open(struct judging *j, const char *dir, const char *name, uint64_t round)
{
	uint64_t elements;

	j->nranges = training_ranges(j->run, round - 1, &j->ranges, &elements);
	j->other = xcalloc(windows_of(j->run), sizeof *j->other);
	for (uint64_t i = 0; i < windows_of(j->run); i++)
		j->other[i] = j->fresh + judging_draw(OTHER_RANGE);
	j->published = j->delta = (struct flatfile)FLATFILE_INIT;
	if (flatfile_open(&j->published, dir, name, j->run->parameters) < 0 ||
		flatfile_make(&j->delta, dir, "judged", j->run->parameters) < 0)
		return -1;
	return lm_flat_set(j->eval->train, LM_STATE_PARAMETER, 0, j->published.n,
		j->published.x);
}

void judging_close(struct judging *j)
{
	flatfile_close(&j->published);
	flatfile_close(&j->delta);
	free(j->ranges);
	free(j->other);
	j->ranges = NULL;
	j->other = NULL;
}

static int read_sequence(void *arg, uint64_t n, uint32_t *ids)
{
	const struct judging *j = arg;

	return lm_shards_get(j->data, shuffle_at(j->shuffle, n),
		(uint64_t)j->run->length + 1, ids);
}

uint64_t judging_draw(uint64_t below)
{
	uint64_t v;

	randombytes_buf(&v, sizeof v);
	return below ? v % below : 0;
}

static int decode(struct judging *j, const char *path)
{
	struct container in = CONTAINER_INIT;
	int rc = container_open(&in, j->cpu, path, j->run->method,
		update_elements(j->ranges, j->nranges));

	for (size_t i = 0; rc == 0 && i < j->nranges; i++)
		rc = container_read(&in, j->delta.x + j->ranges[i].first,
			j->ranges[i].count);
	container_close(&in);
	return rc;
}

int judging_measure(struct judging *j, const char *path, uint64_t first,
	uint64_t sequences, struct judge_losses *out)
{
	uint64_t own[WINDOWS_MAX];
	struct judge_windows w = { .sequence = read_sequence,
		.arg = j,
		.own = own,
		.other = j->other,
		.nown = windows_of(j->run),
		.nother = windows_of(j->run),
		.seed = judging_draw(UINT64_MAX) };

	if (w.nown > sequences)
		w.nown = sequences ? sequences : 1;
	/* one of each of nown equal parts: none comes twice, but in neighbouring parts by rounding
	 */
	for (uint64_t i = 0; i < w.nown; i++)
		own[i] = first + (i * sequences + judging_draw(sequences)) / w.nown;
	return decode(j, path) < 0 ?
		-1 :
		judge_measure(j->eval, j->published.x, j->delta.x, &w, out);
}

void judging_write(json_t *member, const struct judge_losses *losses)
{
	json_set_i64(member, "own_nanonats", losses->own);
	json_set_i64(member, "other_nanonats", losses->other);
	json_set_i64(member, "error_nanonats", losses->error);
	if (losses->own > 0)
		json_set_i64(member, "chance_nanonats", losses->chance);
}
