/* dev_cuda.cu - the CUDA backend of dev.h: the plug-in librnp_cuda.so. It prints nothing;
 * errors stay in the device. */
#include "kernels/dev/cuda/cuda.cuh"
#include "kernels/dev/cuda/lt.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define ENTER                          \
	do {                           \
		if (cuda_enter(d) < 0) \
			return -1;     \
	} while (0)

/* --- memory, order, time ------------------------------------------------------------------- */

static int dev_alloc(struct dev *d, void **out, uint64_t bytes)
{
	*out = NULL;
	ENTER;
	/* to whole 16 bytes: memcheck takes a copy of fewer to shared memory for one of 16 */
	if (cudaError_t e = cudaMalloc(out, bytes ? (bytes + 15) / 16 * 16 : 1)) {
		*out = NULL;
		cuda_fail(d, e, "cudaMalloc");
		return dev_fail(d, cuda_exit_code(e), "%s: no memory for %llu bytes: %s",
			d->name, (unsigned long long)bytes, cudaGetErrorName(e));
	}
	return 0;
}

static void dev_free(struct dev *d, void *p)
{
	if (p && cuda_enter(d) == 0)
		cudaFree(p);
}

static int dev_put_later(struct dev *d, void *to, const void *host, uint64_t bytes)
{
	ENTER;
	CUDA_TRY(cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice,
		cuda_of(d)->stream));
	return 0;
}

static int dev_put(struct dev *d, void *to, const void *host, uint64_t bytes)
{
	if (dev_put_later(d, to, host, bytes) < 0)
		return -1;
	CUDA_TRY(cudaStreamSynchronize(cuda_of(d)->stream));
	return 0;
}

static int dev_get(struct dev *d, void *host, const void *from, uint64_t bytes)
{
	ENTER;
	CUDA_TRY(cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost,
		cuda_of(d)->stream));
	CUDA_TRY(cudaStreamSynchronize(cuda_of(d)->stream));
	return 0;
}

static int dev_mem_free(struct dev *d, uint64_t *bytes)
{
	size_t free_bytes, all;

	ENTER;
	CUDA_TRY(cudaMemGetInfo(&free_bytes, &all));
	*bytes = free_bytes;
	return 0;
}

static int dev_pin(struct dev *d, void **out, uint64_t bytes)
{
	*out = NULL;
	ENTER;
	CUDA_TRY(cudaHostAlloc(out, bytes ? bytes : 1, cudaHostAllocDefault));
	return 0;
}

static void dev_unpin(struct dev *d, void *p)
{
	if (p && cuda_enter(d) == 0)
		cudaFreeHost(p);
}

/* Enables peer access once, if the GPUs can reach each other; otherwise the copy goes through
 * the host. */
static int reach(struct dev *d, int other)
{
	int can = 0;
	cudaError_t e;

	CUDA_TRY(cudaDeviceCanAccessPeer(&can, cuda_of(d)->number, other));
	if (!can)
		return 0;
	e = cudaDeviceEnablePeerAccess(other, 0);
	if (e == cudaErrorPeerAccessAlreadyEnabled) {
		cudaGetLastError();
		return 0;
	}
	return e == cudaSuccess ? 0 : cuda_fail(d, e, "cudaDeviceEnablePeerAccess");
}

static int dev_from_peer(struct dev *d, void *to, struct dev *other, const void *from,
	uint64_t bytes)
{
	struct cuda *mine = cuda_of(d), *theirs = cuda_of(other);

	ENTER;
	if (mine->number != theirs->number && mine->peer != theirs->number + 1) {
		if (reach(d, theirs->number) < 0)
			return -1;
		mine->peer = theirs->number + 1;
	}
	/* waits until the other device's pending writes are done */
	CUDA_TRY(cudaStreamSynchronize(theirs->stream));
	CUDA_TRY(cudaMemcpyPeerAsync(to, mine->number, from, theirs->number, bytes,
		mine->stream));
	return 0;
}

static int dev_sync(struct dev *d)
{
	ENTER;
	CUDA_TRY(cudaStreamSynchronize(cuda_of(d)->stream));
	return 0;
}

static int dev_timer_start(struct dev *d)
{
	ENTER;
	CUDA_TRY(cudaEventRecord(cuda_of(d)->from, cuda_of(d)->stream));
	return 0;
}

static int dev_timer_stop(struct dev *d, int64_t *ns)
{
	float ms;

	ENTER;
	CUDA_TRY(cudaEventRecord(cuda_of(d)->to, cuda_of(d)->stream));
	CUDA_TRY(cudaEventSynchronize(cuda_of(d)->to));
	CUDA_TRY(cudaEventElapsedTime(&ms, cuda_of(d)->from, cuda_of(d)->to));
	*ns = (int64_t)((double)ms * 1e6);
	return 0;
}

/* Without timing: such an event costs less to wait for. */
static int dev_event_record(struct dev *d, void **event)
{
	ENTER;
	if (!*event)
		CUDA_TRY(cudaEventCreateWithFlags((cudaEvent_t *)event,
			cudaEventDisableTiming));
	CUDA_TRY(cudaEventRecord((cudaEvent_t)*event, cuda_of(d)->stream));
	return 0;
}

static int dev_event_wait(struct dev *d, void *event)
{
	ENTER;
	CUDA_TRY(cudaStreamWaitEvent(cuda_of(d)->stream, (cudaEvent_t)event, 0));
	return 0;
}

static void dev_event_free(struct dev *d, void *event)
{
	if (event && cuda_enter(d) == 0)
		cudaEventDestroy((cudaEvent_t)event);
}

/* Thread-local mode: other threads may call anything, this one nothing that a capture forbids. */
static int dev_graph_begin(struct dev *d)
{
	ENTER;
	CUDA_TRY(cudaStreamBeginCapture(cuda_of(d)->stream,
		cudaStreamCaptureModeThreadLocal));
	return 0;
}

static int dev_graph_end(struct dev *d, void **graph)
{
	cudaGraphExec_t ready = NULL;
	cudaGraph_t captured = NULL;
	size_t nodes = 0;
	cudaError_t e;

	ENTER;
	e = cudaStreamEndCapture(cuda_of(d)->stream, &captured);
	if (e == cudaSuccess)
		e = cudaGraphGetNodes(captured, NULL, &nodes);
	if (e == cudaSuccess && graph && nodes)
		e = cudaGraphInstantiate(&ready, captured, 0);
	if (captured)
		cudaGraphDestroy(captured);
	if (e != cudaSuccess)
		return cuda_fail(d, e, "capture");
	if (graph)
		*graph = ready;
	return 0;
}

static int dev_graph_launch(struct dev *d, void *graph)
{
	ENTER;
	CUDA_TRY(cudaGraphLaunch((cudaGraphExec_t)graph, cuda_of(d)->stream));
	return 0;
}

static void dev_graph_free(struct dev *d, void *graph)
{
	if (graph && cuda_enter(d) == 0)
		cudaGraphExecDestroy((cudaGraphExec_t)graph);
}

/* A stream already is a batch. */
static int dev_batch(struct dev *d)
{
	(void)d;
	return 0;
}

static void dev_shut(struct dev *d)
{
	struct cuda *c = cuda_of(d);

	/* whatever its result, the error to report is the one that d already holds */
	if (cudaSetDevice(c->number) == cudaSuccess) {
		cuda_lt_close(d);
		if (c->scratch)
			cudaFree(c->scratch);
		if (c->lm_room != c->lm_scratch)
			cudaFree(c->lm_room);
		if (c->lm_scratch)
			cudaFree(c->lm_scratch);
		if (c->from)
			cudaEventDestroy(c->from);
		if (c->to)
			cudaEventDestroy(c->to);
		if (c->stream)
			cudaStreamDestroy(c->stream);
	}
	free(c);
	d->state = NULL;
}

/* --- operations ---------------------------------------------------------------------------- */

static int dev_copy(struct dev *d, void *to, const void *from, uint64_t bytes)
{
	ENTER;
	return cuda_copy(d, to, from, bytes);
}

static int dev_fill(struct dev *d, uint32_t *to, uint32_t word, uint64_t words)
{
	ENTER;
	return cuda_fill(d, to, word, words);
}

static int dev_philox(struct dev *d, void *out, uint64_t bytes, const struct philox *p)
{
	ENTER;
	return cuda_philox(d, out, bytes, p);
}

static struct dev_ops make_ops(void)
{
	struct dev_ops ops = {};

	ops.alloc = dev_alloc;
	ops.free = dev_free;
	ops.put = dev_put;
	ops.get = dev_get;
	ops.put_later = dev_put_later;
	ops.mem_free = dev_mem_free;
	ops.pin = dev_pin;
	ops.unpin = dev_unpin;
	ops.from_peer = dev_from_peer;
	ops.sync = dev_sync;
	ops.timer_start = dev_timer_start;
	ops.timer_stop = dev_timer_stop;
	ops.event_record = dev_event_record;
	ops.event_wait = dev_event_wait;
	ops.event_free = dev_event_free;
	ops.batch_begin = dev_batch;
	ops.batch_end = dev_batch;
	ops.graph_begin = dev_graph_begin;
	ops.graph_end = dev_graph_end;
	ops.graph_launch = dev_graph_launch;
	ops.graph_free = dev_graph_free;
	ops.close = dev_shut;
	ops.copy = dev_copy;
	ops.fill = dev_fill;
	ops.philox = dev_philox;
#define TABLE(table, list) ops.table = &table##_cuda_ops;
	DEV_TABLES(TABLE)
#undef TABLE
	return ops;
}

static const struct dev_ops ops = make_ops();

/* --- open ---------------------------------------------------------------------------------- */

/* Checks the GPU now instead of at the first operation: it may be older than this build
 * supports, or the driver may be unable to compile its PTX for a newer one. Returns 0 or -1. */
static int check_kernels(struct dev *d, const char *model)
{
	cudaError_t e = cuda_try_kernel();

	if (e == cudaSuccess)
		return 0;
	cudaGetLastError();
	if (cuda_exit_code(e) != EX_UNAVAILABLE)
		return cuda_fail(d, e, "cudaFuncGetAttributes");
	return dev_fail(d, EX_UNAVAILABLE,
		"%s: this build has no kernels for %.64s (%s) with this driver: %s (%s)",
		d->name, model, d->isa, cudaGetErrorString(e), cudaGetErrorName(e));
}

/* Does everything that can fail; what it creates is stored in the device, and the caller closes
 * that. */
static int open_device(struct dev *d, int n)
{
	struct cuda *c = cuda_of(d);
	int count = 0, major = 0, minor = 0;
	cudaDeviceProp p;

	CUDA_TRY(cudaGetDeviceCount(&count));
	if (n >= count)
		return dev_fail(d, EX_UNAVAILABLE, "%s: there are %d GPUs", d->name,
			count);
	CUDA_TRY(cudaSetDevice(n));
	CUDA_TRY(cudaGetDeviceProperties(&p, n));
	CUDA_TRY(cudaDeviceGetAttribute(&c->sm_count, cudaDevAttrMultiProcessorCount, n));
	CUDA_TRY(cudaDeviceGetAttribute(&c->shared_bytes,
		cudaDevAttrMaxSharedMemoryPerBlockOptin, n));
	CUDA_TRY(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, n));
	CUDA_TRY(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, n));
	c->major = major;
#ifdef CUDA_EMU
	c->wgmma = true;
#else
	c->wgmma = major == 9 && minor == 0;
#endif
	snprintf(d->isa, sizeof d->isa, "sm_%d%d", major, minor);
	if (check_kernels(d, p.name) < 0)
		return -1;
	if (c->wgmma && !cuda_wgmma_maps()) {
		c->wgmma = false;
		snprintf(d->note, sizeof d->note,
			"%s: some matrix products are slower than they could be: the driver has no tensor maps",
			d->name);
	}
	CUDA_TRY(cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking));
	CUDA_TRY(cudaEventCreate(&c->from));
	CUDA_TRY(cudaEventCreate(&c->to));
	snprintf(d->model, sizeof d->model, "%.127s", p.name);
	memcpy(d->uuid, p.uuid.bytes, sizeof d->uuid);
	d->memory_bytes = p.totalGlobalMem;
	return 0;
}

/* All drivers of the same major version run what a toolkit of that version made (CUDA's minor
 * version compatibility): 525 and later for 12, 580 for 13. Read before anything is called. */
#ifdef CUDART_VERSION
extern "C" const int rnp_cuda_needs = CUDART_VERSION / 1000 * 1000;
#endif

static int check_version(int version, struct dev *d)
{
	if (version == DEV_VERSION)
		return 0;
	return dev_fail(d, EX_UNAVAILABLE,
		"cuda: librnp_cuda.so is of another version (%d, not %d)", DEV_VERSION,
		version);
}

extern "C" int rnp_cuda_count(int version, struct dev *d)
{
	int n = 0;
	cudaError_t e;

	memset(d, 0, sizeof *d);
	snprintf(d->name, sizeof d->name, "cuda");
	if (check_version(version, d) < 0)
		return -1;
	e = cudaGetDeviceCount(&n);
	if (e == cudaErrorNoDevice)
		return 0;
	return e == cudaSuccess ? n : cuda_fail(d, e, "cudaGetDeviceCount");
}

extern "C" int rnp_cuda_open(int version, struct dev *d, int n)
{
	struct cuda *c;

	memset(d, 0, sizeof *d);
	if (check_version(version, d) < 0)
		return -1;
	snprintf(d->name, sizeof d->name, "cuda:%d", n);
	c = (struct cuda *)calloc(1, sizeof *c);
	if (!c)
		return dev_fail(d, EX_OSERR, "%s: no memory", d->name);
	c->number = n;
	d->state = c;
	if (open_device(d, n) < 0) {
		dev_shut(d);
		d->ops = NULL;
		return -1;
	}
	d->ops = &ops;
	return 0;
}
