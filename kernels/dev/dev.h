/* dev.h - the contract of a device: memory, order, time, and a table of operations. libc only.
 *
 * Code above it is written once and runs on the CPU and on a GPU. Pointers given to an operation belong
 * to the device (dev_alloc), except where it says host. Operations on one device happen in the
 * order of the calls; those of a GPU may still be running when the call returns: get, sync and stop wait. One
 * thread at a time uses a device; one that was opened twice has two orders, the same memory, and a thread for each. Every function returns 0, or -1 with code and sentence in
 * d->code and d->error; a GPU's error may come out at a later call.
 *
 * A new operation: its trio NAME.h, NAME.c, NAME_x86.c and NAME.cu; a slot in struct dev_ops here and in
 * struct cpu_kernels (dev_cpu.h); a wrapper in dev_cpu.c and dev_cuda.cu; a check in tests/kernels.
 * A unit test fails while a slot is empty. */
#ifndef RNP_KERNELS_DEV_DEV_H
#define RNP_KERNELS_DEV_DEV_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "kernels/bulk/bulk.h"
#include "kernels/dev/cpu.h"
#include "kernels/grad/huff.h"
#include "kernels/poc/int8.h"
#include "kernels/lm/ops.h"
#include "kernels/poc/memfill.h"
#include "kernels/dev/philox.h"
#include "kernels/bulk/product.h"
#include "kernels/grad/quant.h"
#include "kernels/poc/sha256_rows.h"

/* Of everything a plug-in shares with us: this and the headers above. Raise it with every change. */
#define DEV_VERSION 9

struct dev;

struct dev_ops {
	/* memory: what alloc gives is aligned to 256 bytes and holds anything */
	int (*alloc)(struct dev *d, void **out, uint64_t bytes);
	void (*free)(struct dev *d, void *p); /* NULL is fine; waits */
	int (*put)(struct dev *d, void *to, const void *host, uint64_t bytes);
	int (*get)(struct dev *d, void *host, const void *from, uint64_t bytes);
	int (*mem_free)(struct dev *d, uint64_t *bytes); /* free memory now */
	/* host memory from which put and get run at the full speed of the link */
	int (*pin)(struct dev *d, void **out, uint64_t bytes);
	void (*unpin)(struct dev *d, void *p); /* NULL is fine */
	/* from the memory of another device of this backend, on their own link where they have one */
	int (*from_peer)(struct dev *d, void *to, struct dev *other, const void *from,
		uint64_t bytes);

	/* order and time: ns of the operations between start and stop, on the device's clock */
	int (*sync)(struct dev *d);
	int (*timer_start)(struct dev *d);
	int (*timer_stop)(struct dev *d, int64_t *ns);
	/* mark: *mark, a new one where it is NULL, becomes the place in d's order where it is now. after: what is asked of d from now on
	 * happens behind a mark's place. The mark may be that of another handle of the same device, used by another thread at the
	 * same time; it is moved again only when all that comes after it is done. unmark: NULL is fine. */
	int (*event_record)(struct dev *d, void **mark);
	int (*event_wait)(struct dev *d, void *mark);
	void (*event_free)(struct dev *d, void *mark);
	/* A GPU takes longer to be asked for a small operation than to do it. Between capture and captured operations, copy and fill are not
	 * done but noted, with their arguments, and nothing else is asked; *graph does all of them when it is replayed, on what is in memory
	 * then (NULL: nothing was asked). graph NULL: throw them away. -1: this device or driver cannot, and nothing is left of it. drop: NULL
	 * is fine. */
	int (*graph_begin)(struct dev *d);
	int (*graph_end)(struct dev *d, void **graph);
	int (*graph_launch)(struct dev *d, void *graph);
	void (*graph_free)(struct dev *d, void *graph);
	void (*close)(struct dev *d);

	/* operations */
	int (*copy)(struct dev *d, void *to, const void *from, uint64_t bytes);
	int (*fill)(struct dev *d, uint32_t *to, uint32_t word, uint64_t words);
	int (*triad)(struct dev *d, double *a, const double *b, const double *c, double s,
		uint64_t n);
	int (*random)(struct dev *d, uint64_t *sum, const struct bulk_random *r);
	int (*product)(struct dev *d, const struct product *p);
	int (*philox)(struct dev *d, void *out, uint64_t bytes, const struct philox *p);
	int (*sha256)(struct dev *d, unsigned char *out, const struct sha256_rows *in);
	int (*memfill)(struct dev *d, const struct memfill *m); /* all lanes of a step */
	int (*balance)(struct dev *d, int8_t *x, uint64_t count);
	int (*mix)(struct dev *d, int8_t *out, const struct int8_mix *m);

	const struct lm_ops *lm;       /* what a language model is made of */
	const struct quant_ops *quant; /* level 1 of the gradient compressor */
	const struct huff_ops *huff;   /* the entropy coder */
};

struct dev {
	const struct dev_ops *ops; /* NULL: not open */
	void *state;               /* the backend's */
	char name[16];             /* "cpu", "cuda:0" */
	char model[128];           /* "" unknown */
	char isa[16];              /* "avx512", "sm_90" */
	unsigned char uuid[16];    /* of a GPU, else zeros */
	uint64_t memory_bytes;     /* all of it */
	char kernel[16]; /* what did the last product: "oneDNN", "cuBLASLt", else isa */
	int code;        /* of the last error: sysexits.h */
	char error[512];
};

#define DEV_INIT  \
	{         \
		0 \
	}

/* Keep an error: for backends. Here, because a plug-in has nothing else of ours. Returns -1. */
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

/* Open a device. spec: "auto" (the first GPU there is, else the CPU), "cpu", "cuda" or "cuda:N"; NULL or ""
 * is what RNP_DEVICE says, else auto. code 64: no such name; 69: asked for by name and not there.
 * On failure d holds the error and nothing to close. */
int dev_open(struct dev *d, const char *spec);
void dev_close(struct dev *d); /* safe on what is not open */

/* The CPU with the kernels of a level, whatever RNP_ISA says; code 69: the CPU has not got them. Above ref, oneDNN
 * multiplies matrices where it is installed, unless RNP_DNNL=0. */
int dev_open_cpu(struct dev *d, enum cpu_level level);

/* How many GPUs there are: 0, or -1 with code and sentence in d: no plug-in, no driver. A process that has
 * asked must not fork. */
int dev_cuda_count(struct dev *d);

/* The plug-in's entry: open GPU n. version: DEV_VERSION of the caller. */
#define DEV_CUDA_OPEN "rnp_cuda_open"
int rnp_cuda_open(int version, struct dev *d, int n);
typedef int (*dev_cuda_open_fn)(int version, struct dev *d, int n);

/* And how many there are, as dev_cuda_count. */
#define DEV_CUDA_COUNT "rnp_cuda_count"
int rnp_cuda_count(int version, struct dev *d);
typedef int (*dev_cuda_count_fn)(int version, struct dev *d);

KERNELS_END

#endif
