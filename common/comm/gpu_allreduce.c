#include "common/comm/gpu_allreduce.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "kernels/dev/dev.h"

struct lm_sums {
	struct dev d;
	struct comm *over, nccl; /* nccl: closed where it is not used */
	float *stage;            /* LM_SUMS_PIECE floats of the host; NULL with NCCL */
	char why[ERR_TEXT_MAX];
};

static int failed(const struct lm_sums *s)
{
	return err_set(s->d.code, "%s", s->d.error);
}

static void try_nccl(struct lm_sums *s)
{
	const char *colon = strchr(s->d.name, ':');
	int gpu = colon ? atoi(colon + 1) : 0;

	if (comm_nccl_open(&s->nccl, s->over, gpu) == 0)
		return;
	memcpy(s->why, err_get()->text, sizeof s->why);
	err_clear();
}

int lm_sums_open(struct lm_sums **out, const char *device, struct comm *over, bool nccl)
{
	struct lm_sums *s = xcalloc(1, sizeof *s);
	int rc;

	*out = NULL;
	s->over = over;
	s->nccl = (struct comm)COMM_INIT;
	rc = dev_open(&s->d, device) < 0 ? failed(s) : 0;
	if (rc == 0 && nccl)
		try_nccl(s);
	if (rc == 0 && !s->nccl.ops &&
		s->d.ops->pin(&s->d, (void **)&s->stage, LM_SUMS_PIECE * sizeof(float)) <
			0)
		rc = failed(s);
	if (rc == 0)
		*out = s;
	else
		lm_sums_close(s);
	return rc;
}

void lm_sums_close(struct lm_sums *s)
{
	if (!s)
		return;
	comm_close(&s->nccl);
	if (s->d.ops)
		s->d.ops->unpin(&s->d, s->stage);
	dev_close(&s->d);
	free(s);
}

/* NCCL has a stream of its own, which knows nothing of ours: it begins when the range is written, and has ended when the call returns. */
static int by_nccl(struct lm_sums *s, float *data, uint64_t n)
{
	if (s->d.ops->sync(&s->d) < 0)
		return failed(s);
	return comm_allreduce(&s->nccl, data, n);
}

static int through_host(struct lm_sums *s, float *data, uint64_t n)
{
	uint64_t bytes = n * sizeof *data;

	if (s->d.ops->get(&s->d, s->stage, data, bytes) < 0)
		return failed(s);
	if (comm_allreduce(s->over, s->stage, n) < 0)
		return -1;
	return s->d.ops->put(&s->d, data, s->stage, bytes) < 0 ? failed(s) : 0;
}

int lm_sums_add(struct lm_sums *s, float *data, uint64_t n, void *mark)
{
	int rc = s->d.ops->after(&s->d, mark) < 0 ? failed(s) : 0;

	while (rc == 0 && n) {
		uint64_t piece = n < LM_SUMS_PIECE ? n : LM_SUMS_PIECE;

		rc = s->nccl.ops ? by_nccl(s, data, piece) : through_host(s, data, piece);
		data += piece;
		n -= piece;
	}
	return rc;
}

const char *lm_sums_by(const struct lm_sums *s)
{
	return s->nccl.ops ? s->nccl.ops->name : s->over->ops->name;
}

const char *lm_sums_why(const struct lm_sums *s)
{
	return s->why;
}
