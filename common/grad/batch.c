#include "common/grad/batch.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "common/err.h"
#include "common/grad/format.h"
#include "common/mem.h"

#define CHUNKS_MIN 32
#define CHUNKS_MAX 1024

int grad_thread(void)
{
#ifdef _OPENMP
	return omp_get_thread_num();
#else
	return 0;
#endif
}

static int team(void)
{
#ifdef _OPENMP
	return omp_get_max_threads();
#else
	return 1;
#endif
}

uint64_t grad_batch(const struct grad *g)
{
	uint64_t chunks = 8 * (uint64_t)team();

	chunks = chunks < CHUNKS_MIN ? CHUNKS_MIN :
		chunks > CHUNKS_MAX  ? CHUNKS_MAX :
				       chunks;
	/* a chunk of topk is 16 others */
	if (quant_chunk(g->q.method) > QUANT_CHUNK)
		chunks /= 8;
	return chunks * quant_chunk(g->q.method);
}

bool grad_on_host(const struct dev *d)
{
	return strcmp(d->name, "cpu") == 0;
}

int grad_dev(const struct grad_batch *b, int rc)
{
	return rc < 0 ? err_set(b->d->code, "%s", b->d->error) : 0;
}

int grad_alloc(struct grad_batch *b, void **out, uint64_t bytes)
{
	return grad_dev(b, b->d->ops->alloc(b->d, out, bytes));
}

/* Memory that host and device share where they can. */
static int alloc_both(struct grad_batch *b, void **host, void **device, uint64_t bytes)
{
	if (grad_alloc(b, device, bytes) < 0)
		return -1;
	*host = b->host ? *device : xmalloc(bytes);
	return 0;
}

static void free_both(struct grad_batch *b, void *host, void *device)
{
	b->d->ops->free(b->d, device);
	if (!b->host)
		free(host);
}

int grad_batch_init(struct grad_batch *b, struct dev *d, const struct grad *g)
{
	enum cpu_level level;

	memset(b, 0, sizeof *b);
	b->d = d;
	b->g = *g;
	b->g.q.bf16 = g->bf16 &&
		(g->q.method == QUANT_NONE || g->q.method == QUANT_LOSSLESS);
	b->host = grad_on_host(d);
	b->chunk = quant_chunk(g->q.method);
	b->elements = grad_batch(g);
	if (g->elements < b->elements)
		b->elements = (g->elements + b->chunk - 1) / b->chunk * b->chunk;
	if (!b->elements)
		b->elements = b->chunk;
	b->chunks_max = b->elements / b->chunk;
	if (sodium_init() < 0)
		return err_set(EX_SOFTWARE, "libsodium does not start");
	cpu_level_chosen(&level);
	b->huff = huff_kernels(level);
	b->work = xmalloc((size_t)team() * sizeof *b->work);
	quant_layout(&b->layout, &b->g.q, b->chunk);
	b->slot_bytes = (GRAD_CHUNK_BYTES + grad_payload_max(&b->g, b->chunk) +
				QUANT_PLANES_MAX * HUFF_SLACK + 63) &
		~UINT64_C(63);
	b->slots = xmalloc(b->slot_bytes * b->chunks_max);
	if (alloc_both(b, (void **)&b->planes, (void **)&b->d_planes,
		    b->layout.chunk_bytes * b->chunks_max) < 0 ||
		alloc_both(b, (void **)&b->used, (void **)&b->d_used,
			b->chunks_max * sizeof *b->used) < 0 ||
		alloc_both(b, (void **)&b->steps, (void **)&b->d_steps,
			b->chunks_max * sizeof *b->steps) < 0 ||
		grad_alloc(b, (void **)&b->bad, sizeof *b->bad) < 0)
		return -1;
	if (g->each &&
		grad_alloc(b, (void **)&b->bins, b->chunks_max * QUANT_BINS * 4) < 0)
		return -1;
	if (g->bf16 && !b->g.q.bf16 &&
		grad_alloc(b, (void **)&b->floats, b->elements * 4) < 0)
		return -1;
	return 0;
}

void grad_batch_release(struct grad_batch *b)
{
	free_both(b, b->planes, b->d_planes);
	free_both(b, b->used, b->d_used);
	free_both(b, b->steps, b->d_steps);
	b->d->ops->free(b->d, b->bad);
	b->d->ops->free(b->d, b->bins);
	b->d->ops->free(b->d, b->floats);
	free(b->slots);
	free(b->work);
}

uint32_t grad_batch_length(const struct grad_batch *b, uint64_t c, uint64_t n)
{
	uint64_t left = n - c * b->chunk;

	return (uint32_t)(left < b->chunk ? left : b->chunk);
}

int grad_batch_job(struct grad_batch *b, struct quant_job *j, uint64_t first, uint64_t n)
{
	*j = (struct quant_job){ .q = b->g.q,
		.first = first,
		.n = n,
		.planes = b->d_planes,
		.used = b->d_used,
		.steps = b->d_steps,
		.bad = b->bad };
	if (b->host || b->g.q.method != QUANT_ECQ)
		return 0;
	return grad_dev(b,
		b->d->ops->put(b->d, b->d_steps, b->steps, b->chunks * sizeof *b->steps));
}

int grad_batch_get(struct grad_batch *b)
{
	struct dev *d = b->d;

	if (b->host)
		return 0;
	if (grad_dev(b,
		    d->ops->get(d, b->planes, b->d_planes,
			    b->layout.chunk_bytes * b->chunks)) < 0)
		return -1;
	return grad_dev(b, d->ops->get(d, b->used, b->d_used, b->chunks * 4));
}

int grad_batch_put(struct grad_batch *b)
{
	struct dev *d = b->d;

	if (b->host)
		return 0;
	if (grad_dev(b,
		    d->ops->put(d, b->d_planes, b->planes,
			    b->layout.chunk_bytes * b->chunks)) < 0)
		return -1;
	return grad_dev(b, d->ops->put(d, b->d_used, b->used, b->chunks * 4));
}
