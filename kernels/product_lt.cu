/* Products on tensor cores by cuBLASLt, which is opened on the first one: it has 517 MB, and a node with just the
 * driver works without it. Its column-major C^T = B A^T is our row-major C = A B^T: our B is its first
 * matrix, transposed, our A its second. */
#include "kernels/cuda.cuh"

#if defined(CUDA_EMU) || !__has_include(<cublasLt.h>)
int cuda_product_lt(struct dev *d, const struct product *p)
{
	(void)d, (void)p;
	return 1;
}

void cuda_lt_close(struct dev *d)
{
	(void)d;
}
#else
#include <cublasLt.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define WORKSPACE_BYTES ((size_t)32 << 20)
#define KEPT            16

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

/* a product as the library wants it */
struct plan {
	struct product shape;
	bool useless; /* the library does not do it */
	cublasLtMatmulDesc_t desc;
	cublasLtMatrixLayout_t a, b, c;
	cublasLtMatmulAlgo_t algorithm;
};

struct lt {
	cublasLtHandle_t handle;
	void *workspace;
	struct plan plans[KEPT];
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
	static const char *const names[] = { "libcublasLt.so.13", "libcublasLt.so.12" };
	void *l = NULL;

	/* the one whose header we were compiled with: enumerators are the same in both */
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
	static int state; /* 0 untried, 1 there, 2 not */
	int is;

	pthread_mutex_lock(&lock);
	if (!state)
		state = open_library() ? 1 : 2;
	is = state;
	pthread_mutex_unlock(&lock);
	return is == 1;
}

static struct lt *lt_of(struct dev *d)
{
	struct lt *lt = (struct lt *)cuda_of(d)->lt;

	if (lt || !library_there())
		return lt;
	lt = (struct lt *)calloc(1, sizeof *lt);
	if (!lt)
		return NULL;
	if (blas.create(&lt->handle) != CUBLAS_STATUS_SUCCESS) {
		free(lt);
		return NULL;
	}
	if (cudaMalloc(&lt->workspace, WORKSPACE_BYTES) != cudaSuccess) {
		cudaGetLastError(); /* forget it: there is a way without */
		blas.destroy(lt->handle);
		free(lt);
		return NULL;
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

static cudaDataType_t type_of(enum product_type type)
{
	switch (type) {
	case PRODUCT_F32:
		return CUDA_R_32F;
	case PRODUCT_BF16:
		return CUDA_R_16BF;
	case PRODUCT_F16:
		return CUDA_R_16F;
	case PRODUCT_F8:
		return CUDA_R_8F_E4M3;
	default:
		return CUDA_R_8I;
	}
}

/* Describe the product and ask for an algorithm. Returns whether there is one. */
static bool plan(struct lt *lt, struct plan *q, const struct product *p)
{
	cudaDataType_t in = type_of(p->type);
	cudaDataType_t out = p->type == PRODUCT_I8 ? CUDA_R_32I : CUDA_R_32F;
	cublasComputeType_t compute = p->type == PRODUCT_I8 ? CUBLAS_COMPUTE_32I :
							      CUBLAS_COMPUTE_32F;
	cublasOperation_t turned = CUBLAS_OP_T;
	cublasLtMatmulPreference_t preference = NULL;
	cublasLtMatmulHeuristicResult_t result;
	size_t workspace = WORKSPACE_BYTES;
	int8_t fast = 0;
	int found = 0;
	bool good;

	good = blas.desc_create(&q->desc, compute, out) == CUBLAS_STATUS_SUCCESS &&
		blas.desc_set(q->desc, CUBLASLT_MATMUL_DESC_TRANSA, &turned,
			sizeof turned) == CUBLAS_STATUS_SUCCESS &&
		blas.desc_set(q->desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast,
			sizeof fast) == CUBLAS_STATUS_SUCCESS &&
		blas.layout_create(&q->a, in, p->k, p->n, (int64_t)p->ldb) ==
			CUBLAS_STATUS_SUCCESS &&
		blas.layout_create(&q->b, in, p->k, p->m, (int64_t)p->lda) ==
			CUBLAS_STATUS_SUCCESS &&
		blas.layout_create(&q->c, out, p->n, p->m, (int64_t)p->ldc) ==
			CUBLAS_STATUS_SUCCESS &&
		blas.preference_create(&preference) == CUBLAS_STATUS_SUCCESS &&
		blas.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
			&workspace, sizeof workspace) == CUBLAS_STATUS_SUCCESS &&
		blas.heuristic(lt->handle, q->desc, q->a, q->b, q->c, q->c, preference, 1,
			&result, &found) == CUBLAS_STATUS_SUCCESS &&
		found > 0;
	if (preference)
		blas.preference_destroy(preference);
	if (good)
		q->algorithm = result.algo;
	return good;
}

static bool same_shape(const struct product *a, const struct product *b)
{
	return a->type == b->type && a->m == b->m && a->n == b->n && a->k == b->k &&
		a->lda == b->lda && a->ldb == b->ldb && a->ldc == b->ldc;
}

static struct plan *plan_for(struct lt *lt, const struct product *p)
{
	struct plan *q;

	for (int i = 0; i < KEPT; i++)
		if (lt->plans[i].shape.m && same_shape(&lt->plans[i].shape, p))
			return &lt->plans[i];
	q = &lt->plans[lt->next++ % KEPT];
	forget(q);
	if (!plan(lt, q, p)) {
		forget(q);
		q->useless = true;
	}
	q->shape = *p;
	return q;
}

int cuda_product_lt(struct dev *d, const struct product *p)
{
	static const float one = 1, zero = 0;
	static const int32_t one_i = 1, zero_i = 0;
	bool whole = p->type == PRODUCT_I8;
	const void *alpha = whole ? (const void *)&one_i : &one;
	const void *beta = whole ? (const void *)&zero_i : &zero;
	/* tensor cores load 16 bytes at a time; below that the library would go wrong or say no */
	uint64_t bytes = product_element_bytes(p->type);
	bool aligned = ((uintptr_t)p->a | (uintptr_t)p->b | (uintptr_t)p->c |
			       p->lda * bytes | p->ldb * bytes | p->ldc * 4) %
			16 ==
		0;
	struct lt *lt;
	struct plan *q;
	cublasStatus_t status;

	if (!p->m || !p->n || !p->k || !aligned)
		return 1;
	lt = lt_of(d);
	if (!lt)
		return 1;
	q = plan_for(lt, p);
	if (q->useless)
		return 1;
	status = blas.matmul(lt->handle, q->desc, alpha, p->b, q->a, p->a, q->b, beta,
		p->c, q->c, p->c, q->c, &q->algorithm, lt->workspace, WORKSPACE_BYTES,
		cuda_of(d)->stream);
	if (status != CUBLAS_STATUS_SUCCESS)
		return dev_fail(d, EX_SOFTWARE, "%s: cublasLtMatmul: status %d", d->name,
			(int)status);
	return 0;
}

void cuda_lt_close(struct dev *d)
{
	struct lt *lt = (struct lt *)cuda_of(d)->lt;

	if (!lt)
		return;
	for (int i = 0; i < KEPT; i++)
		forget(&lt->plans[i]);
	cudaFree(lt->workspace);
	blas.destroy(lt->handle);
	free(lt);
	cuda_of(d)->lt = NULL;
}
#endif
