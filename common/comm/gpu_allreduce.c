/* gpu_allreduce.c - sums ranges of GPU memory over ranks, by NCCL or through the memory of the
 * host. */
#include "common/comm/gpu_allreduce.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/hw/device.h"
#include "kernels/dev/dev.h"

struct gpu_allreduce {
	struct dev d;
	struct comm *over, nccl; /* nccl is closed where it is not used */
	float *stage; /* GPU_ALLREDUCE_PIECE floats of host memory; NULL with NCCL */
	char why[ERR_TEXT_MAX];
};

static int failed(const struct gpu_allreduce *s)
{
	return device_failed(&s->d);
}

static void try_nccl(struct gpu_allreduce *s)
{
	const char *colon = strchr(s->d.name, ':');
	int gpu = colon ? atoi(colon + 1) : 0;

	if (comm_nccl_open(&s->nccl, s->over, gpu) == 0)
		return;
	memcpy(s->why, err_get()->text, sizeof s->why);
	err_clear();
}

int gpu_allreduce_open(struct gpu_allreduce **out, const char *device, struct comm *over,
	bool nccl)
{
	struct gpu_allreduce *s = xcalloc(1, sizeof *s);
	int rc;

	*out = NULL;
	s->over = over;
	s->nccl = (struct comm)COMM_INIT;
	rc = device_open(&s->d, device);
	if (rc == 0 && nccl)
		try_nccl(s);
	if (rc == 0 && !s->nccl.ops &&
		s->d.ops->pin(&s->d, (void **)&s->stage,
			GPU_ALLREDUCE_PIECE * sizeof(float)) < 0)
		rc = failed(s);
	if (rc == 0)
		*out = s;
	else
		gpu_allreduce_close(s);
	return rc;
}

void gpu_allreduce_close(struct gpu_allreduce *s)
{
	if (!s)
		return;
	comm_close(&s->nccl);
	if (s->d.ops)
		s->d.ops->unpin(&s->d, s->stage);
	dev_close(&s->d);
	free(s);
}

/* NCCL has a stream of its own, which knows nothing of ours: the sum begins when the range is
 * written and has ended when the call returns. */
static int by_nccl(struct gpu_allreduce *s, float *data, uint64_t n)
{
	if (s->d.ops->sync(&s->d) < 0)
		return failed(s);
	return comm_allreduce(&s->nccl, data, n);
}

static int through_host(struct gpu_allreduce *s, float *data, uint64_t n)
{
	uint64_t bytes = n * sizeof *data;

	if (s->d.ops->get(&s->d, s->stage, data, bytes) < 0)
		return failed(s);
	if (comm_allreduce(s->over, s->stage, n) < 0)
		return -1;
	return s->d.ops->put(&s->d, data, s->stage, bytes) < 0 ? failed(s) : 0;
}

int gpu_allreduce_sum(struct gpu_allreduce *s, float *data, uint64_t n, void *event)
{
	int rc = s->d.ops->event_wait(&s->d, event) < 0 ? failed(s) : 0;

	while (rc == 0 && n) {
		uint64_t piece = n < GPU_ALLREDUCE_PIECE ? n : GPU_ALLREDUCE_PIECE;

		rc = s->nccl.ops ? by_nccl(s, data, piece) : through_host(s, data, piece);
		data += piece;
		n -= piece;
	}
	return rc;
}

const char *gpu_allreduce_backend(const struct gpu_allreduce *s)
{
	return s->nccl.ops ? s->nccl.ops->name : s->over->ops->name;
}

const char *gpu_allreduce_why(const struct gpu_allreduce *s)
{
	return s->why;
}
