/* weights_pack.c - copies quantised matrices in the order in which vectors take them, in the
 * background. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/lm/infer/parts.h"
#include "common/lm/infer/weights.h"
#include "kernels/dev/team.h"

#define ALIGNMENT 4096          /* of a copy: no page holds parts of two */
#define OUTPUTS   UINT64_C(512) /* that are copied between looks at `stop` */
#define NICE      10            /* of the thread: answers come first */

struct lm_packing {
	pthread_t thread;
	bool started;
	_Atomic bool stop, done;
	unsigned char *memory;
	uint64_t bytes;
};

static uint64_t bytes_of(const struct lm_matrix *m)
{
	return m->n * lm_weight_row_bytes(m->type, m->k);
}

static uint64_t room_of(const struct lm_matrix *m)
{
	return (bytes_of(m) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Returns matrix i of all, or NULL after the last. */
static struct lm_matrix *matrix_at(struct lm_weights *w, uint32_t i)
{
	struct lm_layer *l = &w->layers[i / 7];

	if (i == 7 * w->config.layers)
		return &w->output;
	if (i > 7 * w->config.layers)
		return NULL;
	return (struct lm_matrix *[]){ &l->q, &l->k, &l->v, &l->o, &l->gate, &l->up,
		&l->down }[i % 7];
}

/* Gives back the pages that lie wholly within a matrix of a mapped file: read again, they come from
 * the file. */
static void give_back(const struct lm_matrix *m)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = ((uintptr_t)m->w + page - 1) / page * page;
	uintptr_t to = ((uintptr_t)m->w + bytes_of(m)) / page * page;

	if (from < to)
		madvise((void *)from, to - from, MADV_DONTNEED);
}

/* Returns false if it was told to stop. */
static bool pack(struct lm_weights *w, struct lm_matrix *m, unsigned char *to)
{
	uint64_t row = lm_weight_row_bytes(m->type, m->k);
	uint32_t outputs = lm_pack_outputs(w->d, m->type);

	for (uint64_t j = 0, n; j < m->n; j += n) {
		if (atomic_load(&w->packing->stop))
			return false;
		n = m->n - j < OUTPUTS ? m->n - j : OUTPUTS;
		lm_pack(to + j * row, (const unsigned char *)m->w + j * row, m->type, n,
			m->k, outputs);
	}
	return true;
}

/* Whether a matrix is copied: one of a GGUF file, as other formats have no quantised ones. */
static bool is_copied(const struct lm_weights *w, const struct lm_matrix *m)
{
	return model_file_format(w->model_file) == LM_FORMAT_GGUF &&
		lm_pack_outputs(w->d, m->type) && !model_file_owns(w->model_file, m->w);
}

static void *run(void *arg)
{
	struct lm_weights *w = arg;
	unsigned char *to = w->packing->memory;
	struct lm_matrix *m;

	/* of this thread alone, as Linux has it */
	(void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
	for (uint32_t i = 0; (m = matrix_at(w, i)); i++) {
		if (!is_copied(w, m))
			continue;
		if (!pack(w, m, to))
			return NULL;
		atomic_store_explicit(&m->packed, to, memory_order_release);
		give_back(m);
		to += room_of(m);
	}
	atomic_store(&w->packing->done, true);
	return NULL;
}

/* A matrix that is packed where it lies, and the outputs of a group. */
struct packed_place {
	const struct lm_matrix *m;
	uint32_t outputs;
};

static void pack_groups(void *work, uint64_t from, uint64_t to)
{
	const struct packed_place *p = work;
	uint64_t bytes = p->outputs * lm_weight_row_bytes(p->m->type, p->m->k);
	unsigned char *group = xmalloc(bytes);
	unsigned char *at = (unsigned char *)(uintptr_t)p->m->w;

	for (uint64_t i = from; i < to; i++) {
		memcpy(group, at + i * bytes, bytes);
		lm_pack(at + i * bytes, group, p->m->type, p->outputs, p->m->k,
			p->outputs);
	}
	free(group);
}

/* Packs a matrix in the model's own memory, unless rows of it are embeddings, too. */
static void pack_in_place(struct lm_weights *w, struct lm_matrix *m)
{
	struct packed_place p = { m, lm_pack_outputs(w->d, m->type) };
	struct team_op op = { pack_groups, &p, 0, 1, 0, 1 };

	if (!p.outputs || !model_file_owns(w->model_file, m->w) || m->w == w->embed->data)
		return;
	op.n = m->n / p.outputs;
	team_run(&op, 1);
	atomic_store_explicit(&m->packed, m->w, memory_order_release);
}

void lm_weights_pack(struct lm_weights *w)
{
	struct lm_packing *p;
	struct lm_matrix *m;
	uint64_t bytes = 0;
	void *memory;

	for (uint32_t i = 0; (m = matrix_at(w, i)); i++) {
		pack_in_place(w, m);
		if (is_copied(w, m))
			bytes += room_of(m);
	}
	if (!bytes)
		return;
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return;
	(void)madvise(memory, bytes, MADV_HUGEPAGE);
	p = w->packing = xcalloc(1, sizeof *p);
	p->memory = memory;
	p->bytes = bytes;
	p->started = pthread_create(&p->thread, NULL, run, w) == 0;
}

bool lm_weights_packing(const struct lm_weights *w)
{
	return w->packing && w->packing->started && !atomic_load(&w->packing->done);
}

void lm_weights_unpack(struct lm_weights *w)
{
	struct lm_packing *p = w->packing;

	if (!p)
		return;
	atomic_store(&p->stop, true);
	if (p->started)
		pthread_join(p->thread, NULL);
	munmap(p->memory, p->bytes);
	free(p);
	w->packing = NULL;
}
