/* Products on tensor cores by cuBLASLt, which is opened on the first one: it has 517 MB, and a node with just the
 * driver works without it. Its column-major C^T = B A^T is our row-major C = A B^T: our B is its first
 * matrix, transposed, our A its second. What is stored as k x m or k x n is not transposed, or is, the other way round. */
#include "kernels/dev/cuda.cuh"

#if defined(CUDA_EMU) || !__has_include(<cublasLt.h>)
int cuda_product_lt(struct dev *d, const struct product *p)
{
	(void)d, (void)p;
	return 1;
}

int cuda_gemm_lt(struct dev *d, const struct lm_gemm *g)
{
	(void)d, (void)g;
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
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define WORKSPACE_BYTES ((size_t)32 << 20)
#define ALIGNMENT       16 /* bytes */
#define KEPT            64 /* shapes; a step of training has about 20 */

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

/* What an algorithm depends on: A is m x k, or k x m when `a_turned`; B n x k, or k x n. */
struct shape {
	cudaDataType_t in, out;
	bool a_turned, b_turned;
	uint64_t m, n, k, lda, ldb, ldc;
};

/* a product as the library wants it */
struct plan {
	struct shape shape;
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

static cublasStatus_t make_layout(cublasLtMatrixLayout_t *out, cudaDataType_t type,
	uint64_t rows, uint64_t columns, uint64_t ld)
{
	return blas.layout_create(out, type, rows, columns, (int64_t)ld);
}

/* What an algorithm may do: 32 MiB of workspace, addresses that are multiples of 16 bytes, and partial sums in f32 only, as a sum in
 * bf16 would lose the bound. */
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

/* Describe the product and ask for an algorithm. Returns whether there is one. */
static bool plan(struct lt *lt, struct plan *q, const struct shape *s)
{
	cublasComputeType_t compute = s->out == CUDA_R_32I ? CUBLAS_COMPUTE_32I :
							     CUBLAS_COMPUTE_32F;
	cudaDataType_t scale = s->out == CUDA_R_32I ? CUDA_R_32I : CUDA_R_32F;
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
		make_layout(&q->a, s->in, s->b_turned ? s->n : s->k,
			s->b_turned ? s->k : s->n, s->ldb) == CUBLAS_STATUS_SUCCESS &&
		make_layout(&q->b, s->in, s->a_turned ? s->m : s->k,
			s->a_turned ? s->k : s->m, s->lda) == CUBLAS_STATUS_SUCCESS &&
		make_layout(&q->c, s->out, s->n, s->m, s->ldc) == CUBLAS_STATUS_SUCCESS &&
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

	for (int i = 0; i < KEPT; i++)
		if (lt->plans[i].shape.m && same_shape(&lt->plans[i].shape, s))
			return &lt->plans[i];
	q = &lt->plans[lt->next++ % KEPT];
	forget(q);
	if (!plan(lt, q, s)) {
		forget(q);
		q->useless = true;
	}
	q->shape = *s;
	return q;
}

static uint64_t type_bytes(cudaDataType_t type)
{
	switch (type) {
	case CUDA_R_32F:
	case CUDA_R_32I:
		return 4;
	case CUDA_R_16BF:
	case CUDA_R_16F:
		return 2;
	default:
		return 1;
	}
}

/* C = A B + from; from may be NULL or c. As cuda_product_lt. */
static int multiply(struct dev *d, const struct shape *s, void *c, const void *a,
	const void *b, const void *from)
{
	static const float one = 1, zero = 0;
	static const int32_t one_i = 1, zero_i = 0;
	bool whole = s->out == CUDA_R_32I;
	const void *alpha = whole ? (const void *)&one_i : &one;
	const void *none = whole ? (const void *)&zero_i : &zero;
	/* tensor cores load 16 bytes at a time; below that the library would go wrong or say no */
	uint64_t in = type_bytes(s->in), out = type_bytes(s->out);
	bool aligned = ((uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)from |
			       s->lda * in | s->ldb * in | s->ldc * out) %
			ALIGNMENT ==
		0;
	struct lt *lt;
	struct plan *q;
	cublasStatus_t status;

	if (!s->m || !s->n || !s->k || !aligned)
		return 1;
	lt = lt_of(d);
	if (!lt)
		return 1;
	q = plan_for(lt, s);
	if (q->useless)
		return 1;
	status = blas.matmul(lt->handle, q->desc, alpha, b, q->a, a, q->b,
		from ? alpha : none, from ? from : c, q->c, c, q->c, &q->algorithm,
		lt->workspace, WORKSPACE_BYTES, cuda_of(d)->stream);
	if (status != CUBLAS_STATUS_SUCCESS)
		return dev_fail(d, EX_SOFTWARE, "%s: cublasLtMatmul: status %d", d->name,
			(int)status);
	return 0;
}

int cuda_product_lt(struct dev *d, const struct product *p)
{
	struct shape s = {};

	s.in = type_of(p->type);
	s.out = p->type == PRODUCT_I8 ? CUDA_R_32I : CUDA_R_32F;
	s.m = p->m, s.n = p->n, s.k = p->k;
	s.lda = p->lda, s.ldb = p->ldb, s.ldc = p->ldc;
	return multiply(d, &s, p->c, p->a, p->b, NULL);
}

int cuda_gemm_lt(struct dev *d, const struct lm_gemm *g)
{
	struct shape s = {};

	s.in = g->as == LM_DTYPE_F32 ? CUDA_R_32F : CUDA_R_16BF;
	s.out = g->out == LM_DTYPE_F32 ? CUDA_R_32F : CUDA_R_16BF;
	s.a_turned = g->form == LM_XTX;
	s.b_turned = g->form != LM_XWT;
	s.m = g->m, s.n = g->n, s.k = g->k;
	s.lda = g->lda, s.ldb = g->ldb, s.ldc = g->ldc;
	return multiply(d, &s, g->c, g->a, g->b, g->from);
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
	for (int i = 0; i < KEPT; i++)
		forget(&lt->plans[i]);
	cudaFree(lt->workspace);
	blas.destroy(lt->handle);
	free(lt);
	cuda_of(d)->lt = NULL;
}
#endif
