/* lt.cu - products on tensor cores by cuBLASLt. Its column-major C^T = B A^T is our row-major C
 * = A B^T: our B is its first matrix, transposed, our A its second. For matrices stored as k x
 * m or k x n, transposition is the other way round. */
#include "kernels/dev/cuda/lt.cuh"

#include "kernels/dev/cuda/cuda.cuh"

#if defined(CUDA_EMU) || !__has_include(<cublasLt.h>)
int cuda_lt_multiply(struct dev *d, const struct lt_product *p)
{
	(void)d, (void)p;
	return 1;
}

int cuda_lt_prepare(struct dev *d, uint64_t *bytes)
{
	(void)d;
	*bytes = 0;
	return 0;
}

void cuda_lt_close(struct dev *d)
{
	(void)d;
}
#else
#include <cublasLt.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define WORKSPACE_BYTES ((size_t)32 << 20)
#define ALIGNMENT       16 /* bytes */
#define SHAPES_CACHED   64 /* cached shapes; a training step has about 20 */

static struct {
	decltype(&cublasLtCreate) create;
	decltype(&cublasLtDestroy) destroy;
	decltype(&cublasLtMatmulDescCreate) desc_create;
	decltype(&cublasLtMatmulDescDestroy) desc_destroy;
	decltype(&cublasLtMatmulDescSetAttribute) desc_set;
	decltype(&cublasLtMatrixLayoutCreate) layout_create;
	decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
	decltype(&cublasLtMatmulPreferenceCreate) preference_create;
	decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
	decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
	decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
	decltype(&cublasLtMatmul) matmul;
} blas;

/* The properties that an algorithm depends on. A is m x k, or k x m if a_turned; B is n x k, or
 * k x n. */
struct shape {
	enum lt_type in, out;
	bool a_turned, b_turned;
	uint64_t m, n, k, lda, ldb, ldc;
};

/* a product as the library describes it */
struct plan {
	struct shape shape;
	bool useless; /* the library does not support it */
	cublasLtMatmulDesc_t desc;
	cublasLtMatrixLayout_t a, b, c;
	cublasLtMatmulAlgo_t algorithm;
};

struct lt {
	cublasLtHandle_t handle;
	void *workspace;
	struct plan plans[SHAPES_CACHED];
	int next;
};

static bool find(void *library, const char *name, void *to)
{
	void *f = dlsym(library, name);

	memcpy(to, &f, sizeof f);
	return f != NULL;
}

static bool open_library(void)
{
	/* first the version whose header this was compiled with: enumerators are the same in
	 * both */
	static const char *const names[] = {
#if CUDART_VERSION < 13000
		"libcublasLt.so.12",
		"libcublasLt.so.13"
#else
		"libcublasLt.so.13",
		"libcublasLt.so.12"
#endif
	};
	void *l = NULL;

	for (int i = 0; !l && i < 2; i++)
		l = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	return l && find(l, "cublasLtCreate", &blas.create) &&
		find(l, "cublasLtDestroy", &blas.destroy) &&
		find(l, "cublasLtMatmulDescCreate", &blas.desc_create) &&
		find(l, "cublasLtMatmulDescDestroy", &blas.desc_destroy) &&
		find(l, "cublasLtMatmulDescSetAttribute", &blas.desc_set) &&
		find(l, "cublasLtMatrixLayoutCreate", &blas.layout_create) &&
		find(l, "cublasLtMatrixLayoutDestroy", &blas.layout_destroy) &&
		find(l, "cublasLtMatmulPreferenceCreate", &blas.preference_create) &&
		find(l, "cublasLtMatmulPreferenceDestroy", &blas.preference_destroy) &&
		find(l, "cublasLtMatmulPreferenceSetAttribute", &blas.preference_set) &&
		find(l, "cublasLtMatmulAlgoGetHeuristic", &blas.heuristic) &&
		find(l, "cublasLtMatmul", &blas.matmul);
}

static bool library_there(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static int state; /* 0: not tried, 1: present, 2: missing */
	int is;

	pthread_mutex_lock(&lock);
	if (!state)
		state = open_library() ? 1 : 2;
	is = state;
	pthread_mutex_unlock(&lock);
	return is == 1;
}

/* Products continue without the library, and the device says so in its note. */
static struct lt *without(struct dev *d, const char *why)
{
	snprintf(d->note, sizeof d->note,
		"%s: matrix products take our own kernels, which are slower than cuBLASLt: %s",
		d->name, why);
	return NULL;
}

static struct lt *lt_of(struct dev *d)
{
	struct lt *lt = (struct lt *)cuda_of(d)->lt;
	cublasStatus_t status;
	char why[64];

	if (lt || cuda_of(d)->lt_tried)
		return lt;
	cuda_of(d)->lt_tried = true;
	if (!library_there())
		return without(d, "libcublasLt.so is not here");
	lt = (struct lt *)calloc(1, sizeof *lt);
	if (!lt)
		return without(d, "no memory");
	status = blas.create(&lt->handle);
	if (status != CUBLAS_STATUS_SUCCESS) {
		free(lt);
		snprintf(why, sizeof why, "cublasLtCreate: status %d", (int)status);
		return without(d, why);
	}
	if (cudaMalloc(&lt->workspace, WORKSPACE_BYTES) != cudaSuccess) {
		cudaGetLastError(); /* clears the error: there is a way without it */
		blas.destroy(lt->handle);
		free(lt);
		return without(d, "no memory on the GPU for its workspace");
	}
	cuda_of(d)->lt = lt;
	return lt;
}

static void forget(struct plan *q)
{
	if (q->desc)
		blas.desc_destroy(q->desc);
	if (q->a)
		blas.layout_destroy(q->a);
	if (q->b)
		blas.layout_destroy(q->b);
	if (q->c)
		blas.layout_destroy(q->c);
	memset(q, 0, sizeof *q);
}

static const struct {
	cudaDataType_t is;
	uint64_t bytes;
} types[] = { { CUDA_R_32F, 4 }, { CUDA_R_16BF, 2 }, { CUDA_R_16F, 2 },
	{ CUDA_R_8F_E4M3, 1 }, { CUDA_R_8I, 1 }, { CUDA_R_32I, 4 } };

static cublasStatus_t make_layout(cublasLtMatrixLayout_t *out, cudaDataType_t type,
	uint64_t rows, uint64_t columns, uint64_t ld)
{
	return blas.layout_create(out, type, rows, columns, (int64_t)ld);
}

/* Limits of an algorithm: 32 MiB of workspace, addresses that are multiples of 16 bytes, and
 * partial sums in f32 only, because a sum in bf16 would exceed the error bound. */
static bool prefer(cublasLtMatmulPreference_t p)
{
	static const cublasLtMatmulPreferenceAttributes_t aligned[] = {
		CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
		CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
		CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
		CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES
	};
	uint32_t bytes = ALIGNMENT, sums = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
	size_t workspace = WORKSPACE_BYTES;

	for (int i = 0; i < 4; i++)
		if (blas.preference_set(p, aligned[i], &bytes, sizeof bytes) !=
			CUBLAS_STATUS_SUCCESS)
			return false;
	return blas.preference_set(p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums,
		       sizeof sums) == CUBLAS_STATUS_SUCCESS &&
		blas.preference_set(p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
			&workspace, sizeof workspace) == CUBLAS_STATUS_SUCCESS;
}

/* Describes the product and asks for an algorithm. Returns whether there is one. */
static bool plan(struct lt *lt, struct plan *q, const struct shape *s)
{
	cublasComputeType_t compute = s->out == LT_I32 ? CUBLAS_COMPUTE_32I :
							 CUBLAS_COMPUTE_32F;
	cudaDataType_t scale = s->out == LT_I32 ? CUDA_R_32I : CUDA_R_32F;
	cublasOperation_t first = s->b_turned ? CUBLAS_OP_N : CUBLAS_OP_T;
	cublasOperation_t second = s->a_turned ? CUBLAS_OP_T : CUBLAS_OP_N;
	cublasLtMatmulPreference_t preference = NULL;
	cublasLtMatmulHeuristicResult_t result;
	int8_t fast = 0;
	int found = 0;
	bool good;

	good = blas.desc_create(&q->desc, compute, scale) == CUBLAS_STATUS_SUCCESS &&
		blas.desc_set(q->desc, CUBLASLT_MATMUL_DESC_TRANSA, &first,
			sizeof first) == CUBLAS_STATUS_SUCCESS &&
		blas.desc_set(q->desc, CUBLASLT_MATMUL_DESC_TRANSB, &second,
			sizeof second) == CUBLAS_STATUS_SUCCESS &&
		blas.desc_set(q->desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast,
			sizeof fast) == CUBLAS_STATUS_SUCCESS &&
		make_layout(&q->a, types[s->in].is, s->b_turned ? s->n : s->k,
			s->b_turned ? s->k : s->n, s->ldb) == CUBLAS_STATUS_SUCCESS &&
		make_layout(&q->b, types[s->in].is, s->a_turned ? s->m : s->k,
			s->a_turned ? s->k : s->m, s->lda) == CUBLAS_STATUS_SUCCESS &&
		make_layout(&q->c, types[s->out].is, s->n, s->m, s->ldc) ==
			CUBLAS_STATUS_SUCCESS &&
		blas.preference_create(&preference) == CUBLAS_STATUS_SUCCESS &&
		prefer(preference) &&
		blas.heuristic(lt->handle, q->desc, q->a, q->b, q->c, q->c, preference, 1,
			&result, &found) == CUBLAS_STATUS_SUCCESS &&
		found > 0;
	if (preference)
		blas.preference_destroy(preference);
	if (good)
		q->algorithm = result.algo;
	return good;
}

static bool same_shape(const struct shape *a, const struct shape *b)
{
	return a->in == b->in && a->out == b->out && a->a_turned == b->a_turned &&
		a->b_turned == b->b_turned && a->m == b->m && a->n == b->n &&
		a->k == b->k && a->lda == b->lda && a->ldb == b->ldb && a->ldc == b->ldc;
}

static struct plan *plan_for(struct lt *lt, const struct shape *s)
{
	struct plan *q;

	for (int i = 0; i < SHAPES_CACHED; i++)
		if (lt->plans[i].shape.m && same_shape(&lt->plans[i].shape, s))
			return &lt->plans[i];
	q = &lt->plans[lt->next++ % SHAPES_CACHED];
	forget(q);
	if (!plan(lt, q, s)) {
		forget(q);
		q->useless = true;
	}
	q->shape = *s;
	return q;
}

int cuda_lt_multiply(struct dev *d, const struct lt_product *p)
{
	static const float one = 1, zero = 0;
	static const int32_t one_i = 1, zero_i = 0;
	bool whole = p->out == LT_I32;
	const void *alpha = whole ? (const void *)&one_i : &one;
	const void *none = whole ? (const void *)&zero_i : &zero;
	/* tensor cores load 16 bytes at a time; with less alignment the library would compute
	 * wrongly or refuse */
	uint64_t in = types[p->in].bytes, out = types[p->out].bytes;
	bool aligned = ((uintptr_t)p->a | (uintptr_t)p->b | (uintptr_t)p->c |
			       (uintptr_t)p->from | p->lda * in | p->ldb * in |
			       p->ldc * out) %
			ALIGNMENT ==
		0;
	struct shape s = { p->in, p->out, p->a_turned, p->b_turned, p->m, p->n, p->k,
		p->lda, p->ldb, p->ldc };
	struct lt *lt;
	struct plan *q;
	cublasStatus_t status;

	if (!p->m || !p->n || !p->k || !aligned)
		return 1;
	lt = lt_of(d);
	if (!lt)
		return 1;
	q = plan_for(lt, &s);
	if (q->useless)
		return 1;
	status = blas.matmul(lt->handle, q->desc, alpha, p->b, q->a, p->a, q->b,
		p->from ? alpha : none, p->from ? p->from : p->c, q->c, p->c, q->c,
		&q->algorithm, lt->workspace, WORKSPACE_BYTES, cuda_of(d)->stream);
	if (status != CUBLAS_STATUS_SUCCESS)
		return dev_fail(d, EX_SOFTWARE, "%s: cublasLtMatmul: status %d", d->name,
			(int)status);
	return 0;
}

int cuda_lt_prepare(struct dev *d, uint64_t *bytes)
{
	*bytes = lt_of(d) ? WORKSPACE_BYTES : 0;
	return 0;
}

void cuda_lt_close(struct dev *d)
{
	struct lt *lt = (struct lt *)cuda_of(d)->lt;

	if (!lt)
		return;
	for (int i = 0; i < SHAPES_CACHED; i++)
		forget(&lt->plans[i]);
	cudaFree(lt->workspace);
	blas.destroy(lt->handle);
	free(lt);
	cuda_of(d)->lt = NULL;
}
#endif
