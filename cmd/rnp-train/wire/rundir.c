/* rundir.c - lock, resume and checkpoint of a run's directory. */
#include "cmd/rnp-train/wire/rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/lock.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/lm/export/export.h"

static void path_in(struct buf *out, const char *dir, const char *name)
{
	buf_reset(out);
	buf_addf(out, "%s/%s", dir, name);
}

bool rundir_has(const char *path, const char *name)
{
	struct buf file = BUF_INIT;
	bool there;

	path_in(&file, path, name);
	there = access(file.data, F_OK) == 0;
	buf_release(&file);
	return there;
}

bool rundir_resumes(const char *path)
{
	return rundir_has(path, RUNDIR_CHECKPOINT);
}

int rundir_hold(struct rundir *r, const char *path)
{
	if (r->lock_fd)
		return 0;
	r->path = path;
	if (io_make_dirs(path, 0777) < 0)
		return -1;
	if (access(path, W_OK | X_OK) < 0)
		return err_sys(errno == EACCES || errno == EROFS ? EX_NOPERM : 0,
			"cannot write into '%s'", path);
	r->lock_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return r->lock_fd < 0 ?
		0 :
		lock_take_if_kept(r->lock_fd, path, "another run writes into it");
}

void rundir_release(struct rundir *r)
{
	if (r->lock_fd > 0)
		close(r->lock_fd);
	r->lock_fd = 0;
}

int rundir_peek(const char *path, json_t **texts)
{
	struct buf file = BUF_INIT;
	struct lm_progress at;
	int rc = 0;

	*texts = NULL;
	path_in(&file, path, RUNDIR_CHECKPOINT);
	if (rundir_resumes(path))
		rc = lm_checkpoint_peek(file.data, &at, texts);
	buf_release(&file);
	return rc;
}

/* A resumed run uses the data that it began with, otherwise its bits would differ from those of
 * an uninterrupted run. */
static int check_same(const struct lm_progress *at, const struct lm_progress *want,
	const char *file, const char *data_name)
{
	if (at->seed != want->seed || at->length != want->length)
		return err_set(EX_USAGE,
			"%s: was made with --seed %llu --length %u, not %llu and %u",
			file, (unsigned long long)at->seed, at->length,
			(unsigned long long)want->seed, want->length);
	if (memcmp(at->data, want->data, sizeof want->data) != 0)
		return err_set(EX_USAGE, "%s: was made with another text than '%s'", file,
			data_name);
	return 0;
}

int rundir_load(const char *path, struct lm_train *t, const struct lm_progress *want,
	const char *data_name, struct lm_progress *at)
{
	struct buf file = BUF_INIT;
	int rc;

	path_in(&file, path, RUNDIR_CHECKPOINT);
	rc = lm_checkpoint_load(file.data, t, at);
	if (rc == 0)
		rc = check_same(at, want, file.data, data_name);
	buf_release(&file);
	return rc;
}

/* Reads tensor i of what learns, whole. */
static int read_whole(void *ctx, uint32_t i, float *to)
{
	struct lm_train *t = ctx;
	struct lm_learned p;

	lm_train_tensor(t, i, &p);
	if (lm_train_get(t, LM_STATE_PARAMETER, i, to) < 0)
		return -1;
	for (uint64_t k = 0; k < p.place.count; k++)
		if (!isfinite(to[k]))
			return err_set(EX_DATAERR, "step %llu: a parameter is not finite",
				(unsigned long long)lm_train_steps(t));
	return 0;
}

/* The tensor that export reads, complete. */
struct reading {
	struct lm_train *t;
	float *values;
	int64_t tensor; /* -1: none */
};

static int read_parameter(void *ctx, uint32_t i, uint64_t from, uint64_t count, float *to)
{
	struct reading *r = ctx;

	if (r->tensor != (int64_t)i) {
		struct lm_place p;

		lm_layout_at(lm_train_config(r->t), i, &p);
		r->values = xrealloc(r->values, p.count * sizeof *r->values);
		if (read_whole(r->t, i, r->values) < 0)
			return -1;
		r->tensor = i;
	}
	memcpy(to, r->values + from, count * sizeof *to);
	return 0;
}

static int save_model(const char *path, struct lm_train *t, const struct lm_token *token)
{
	struct reading r = { .t = t, .tensor = -1 };
	struct lm_export e = { .config = *lm_train_config(t),
		.read = read_parameter,
		.ctx = &r,
		.token = token };
	int rc = lm_export_directory(path, &e, LM_F32);

	free(r.values);
	return rc;
}

static int save_adapter(const char *path, struct lm_train *t,
	const struct rundir_base *base)
{
	struct lm_adapter_export e = { .config = *lm_train_config(t),
		.lora = *lm_train_lora(t),
		.base_name = base->name,
		.base = base->digest,
		.read = read_whole,
		.ctx = t };

	return lm_export_adapter(path, &e);
}

int rundir_save(const char *path, struct lm_train *t, const struct lm_token *token,
	const struct rundir_base *base, const struct lm_progress *at, const json_t *texts)
{
	struct buf file = BUF_INIT;
	int rc = lm_train_frozen(t) ? save_adapter(path, t, base) :
				      save_model(path, t, token);

	path_in(&file, path, RUNDIR_CHECKPOINT);
	if (rc == 0)
		rc = lm_checkpoint_save(file.data, t, at, texts);
	buf_release(&file);
	return rc;
}
