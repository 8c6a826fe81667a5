/* dev.h - the contract of a device: memory, order, time, graphs, and tables of operations. libc
 * only.
 *
 * Code above it is written once and runs on the CPU and on a GPU. Pointers given to an
 * operation belong to the device (dev_alloc), except host pointers, which are named so.
 * Operations on one device run in the order of the calls; those of a GPU may still be running
 * when the call returns: get, sync and timer_stop wait. One thread at a time uses a device; a
 * device that was opened twice has two orders, the same memory, and a thread for each. Every
 * function returns 0, or -1 with code and message in d->code and d->error; a GPU's error may be
 * reported by a later call.
 *
 * This header depends on nothing: the tables of operations are declared in the folders that
 * define them (kernels/poc/ops.h, ...), each as one list from which slots, wrappers, names and
 * checks are generated (kernels/dev/ops.h). A new operation touches:
 *
 *     kernels/FOLDER/NAME.h        its formula, shapes and error bound, its reference's prototype
 *     kernels/FOLDER/NAME.c        the reference; cpu/NAME_x86.c and cuda/NAME.cu are fast versions
 *     kernels/FOLDER/ops.h         one line in the list
 *     kernels/FOLDER/cpu/cpu.c, .h cpu_NAME, which runs the kernel of the level on the team
 *     tests/kernels/check_NAME.c   its cases, one line in the list of kcheck.h
 *
 * If a part is forgotten, either it does not compile or kcheck names the operation that no case
 * has called. DEV_VERSION rises with every change of a table. A new table is one line in
 * DEV_TABLES. */
#ifndef RNP_KERNELS_DEV_DEV_H
#define RNP_KERNELS_DEV_DEV_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "kernels/dev/cpu.h"
#include "kernels/dev/philox.h"

/* The version of the interface that plug-ins share with the programs. */
#define DEV_VERSION 18

/* The tables of operations by purpose, T(table, its list). struct TABLE_ops is in the ops.h
 * beside its kernels; so are the lists, which are needed only where T uses its second argument. */
#define DEV_TABLES(T)       \
	T(bulk, BULK_OPS)   \
	T(poc, POC_OPS)     \
	T(lm, LM_OPS)       \
	T(quant, QUANT_OPS) \
	T(huff, HUFF_OPS)   \
	T(outer, OUTER_OPS)

#define DEV_DECLARE_TABLE(table, list) struct table##_ops;
DEV_TABLES(DEV_DECLARE_TABLE)
#undef DEV_DECLARE_TABLE

struct dev;

struct dev_ops {
	/* Memory. alloc returns memory aligned to 256 bytes, with undefined contents. */
	int (*alloc)(struct dev *d, void **out, uint64_t bytes);
	/* Waits for operations that use it; NULL is fine. */
	void (*free)(struct dev *d, void *p);
	int (*put)(struct dev *d, void *to, const void *host, uint64_t bytes);
	int (*get)(struct dev *d, void *host, const void *from, uint64_t bytes);
	/* As put, from memory of pin, and returns before the copy is made: it reads what `host` has
	 * at any time before the next get or sync ends. */
	int (*put_later)(struct dev *d, void *to, const void *host, uint64_t bytes);
	/* Reads how many bytes of memory are free at present. */
	int (*mem_free)(struct dev *d, uint64_t *bytes);
	/* Allocates host memory with which put and get run at the full speed of the link. */
	int (*pin)(struct dev *d, void **out, uint64_t bytes);
	void (*unpin)(struct dev *d, void *p); /* NULL is fine */
	/* Copies from the memory of another device of this backend, over their own link if they
	 * have one. */
	int (*from_peer)(struct dev *d, void *to, struct dev *other, const void *from,
		uint64_t bytes);
	int (*copy)(struct dev *d, void *to, const void *from,
		uint64_t bytes); /* mem.h */
	int (*fill)(struct dev *d, uint32_t *to, uint32_t word, uint64_t words);
	int (*philox)(struct dev *d, void *out, uint64_t bytes, const struct philox *p);

	/* Time. *ns is how long the operations between start and stop took, on the device's
	 * clock. */
	int (*timer_start)(struct dev *d);
	int (*timer_stop)(struct dev *d, int64_t *ns);

	/* Order. event_record moves *event, a new one if it is NULL, to the present end of d's
	 * order. After event_wait, everything called on d runs after the event. The event may
	 * belong to another handle of the same device, used by another thread at the same time;
	 * it may be recorded again only when everything that waits for it is done. */
	int (*sync)(struct dev *d);
	int (*event_record)(struct dev *d, void **event);
	int (*event_wait)(struct dev *d, void *event);
	void (*event_free)(struct dev *d, void *event); /* NULL is fine */

	/* Batches. Between batch_begin and batch_end, operations of lm, copy and fill may be
	 * deferred and run together: at batch_end, or before any other call on the device. On
	 * the CPU the team of threads is woken once for all of them. */
	int (*batch_begin)(struct dev *d);
	int (*batch_end)(struct dev *d);

	/* Graphs. Launching a small operation on a GPU takes longer than running it, and so
	 * does waking a team of threads. Between graph_begin and graph_end, operations (on the
	 * CPU those of lm), copy and fill are not run but recorded with their arguments, and no
	 * other call is allowed; graph_launch runs all of them on the contents of memory at
	 * that time. *graph is NULL if nothing was recorded; graph_end(d, NULL) discards the
	 * recording. On -1 this device or driver cannot make graphs and nothing is left of the
	 * attempt. */
	int (*graph_begin)(struct dev *d);
	int (*graph_end)(struct dev *d, void **graph);
	int (*graph_launch)(struct dev *d, void *graph);
	void (*graph_free)(struct dev *d, void *graph); /* NULL is fine */

	void (*close)(struct dev *d);

#define DEV_TABLE_POINTER(table, list) const struct table##_ops *table;
	DEV_TABLES(DEV_TABLE_POINTER)
#undef DEV_TABLE_POINTER
};

struct dev {
	const struct dev_ops *ops; /* NULL: not open */
	void *state;               /* private to the backend */
	bool is_host;              /* device memory is host memory: pointers serve both */
	char name[16];             /* "cpu", "cuda:0" */
	char model[128];           /* "": unknown */
	char isa[16];              /* "avx512", "sm_90" */
	unsigned char uuid[16];    /* of a GPU, else zeros */
	uint64_t memory_bytes;     /* all of it */
	char kernel
		[16]; /* what computed the last product: "oneDNN", "cuBLASLt", else isa */
	char note[256]; /* what works less well than it could, and why; "": nothing */
	int code;       /* of the last error, from sysexits.h */
	char error[512];
};

#define DEV_INIT  \
	{         \
		0 \
	}

/* Stores an error in d: for backends. It is here because a plug-in has nothing else of ours.
 * Returns -1. */
__attribute__((format(printf, 3, 4))) static inline int dev_fail(struct dev *d, int code,
	const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(d->error, sizeof d->error, fmt, args);
	va_end(args);
	d->code = code;
	return -1;
}

KERNELS_BEGIN

/* These four are in kernels/backend/, where alone all tables are known. */

/* Opens a device. spec: "auto" (the first GPU, else the CPU; d->note then says why there is no
 * GPU), "cpu", "cuda" or "cuda:N"; NULL or "" means the value of RNP_DEVICE, else auto. Code
 * 64: no such name; 69: requested by name and not present. On failure d holds the error and
 * nothing to close. */
int dev_open(struct dev *d, const char *spec);
void dev_close(struct dev *d); /* safe if not open */

/* Opens the CPU with the kernels of a level, whatever RNP_ISA says; code 69: the CPU does not
 * support it. Above ref, oneDNN multiplies matrices if it is installed, unless RNP_DNNL=0. */
int dev_open_cpu(struct dev *d, enum cpu_level level);

/* Counts GPUs: 0 or more, or -1 with code and message in d: no plug-in, no driver. A process
 * that has called this must not fork. */
int dev_cuda_count(struct dev *d);

/* The plug-in's entry point: opens GPU n. version: DEV_VERSION of the caller. */
#define DEV_CUDA_OPEN "rnp_cuda_open"
int rnp_cuda_open(int version, struct dev *d, int n);
typedef int (*dev_cuda_open_fn)(int version, struct dev *d, int n);

/* The plug-in's count of GPUs, as dev_cuda_count. */
#define DEV_CUDA_COUNT "rnp_cuda_count"
int rnp_cuda_count(int version, struct dev *d);
typedef int (*dev_cuda_count_fn)(int version, struct dev *d);

KERNELS_END

#endif
