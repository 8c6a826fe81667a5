/* container.h - gradient containers as files: the delta that a worker sends, and the update
 * that a coordinator sends. Uses grad.h, dev.h, io. */
#ifndef RNP_TRAIN_WIRE_CONTAINER_H
#define RNP_TRAIN_WIRE_CONTAINER_H

#include <stdint.h>
#include <stdio.h>

#include "common/grad/grad.h"
#include "common/lm/rounds/update.h"

/* The end of a file, of its index: root, length, "GPNR". */
#define CONTAINER_TAIL_BYTES (GRAD_ROOT_BYTES + 12)
#define CONTAINER_FLOATS     ((uint64_t)1 << 20) /* that pass through memory at a time */

struct container_facts {
	uint64_t bytes;
	unsigned char sha256[32], root[GRAD_ROOT_BYTES];
};

/* Writes n floats as a container at path, which appears whole and on the disk. feedback: the
 * residual, in and out, or NULL. The values are read twice where the method needs a first pass.
 * Returns 0 and *facts (may be NULL), or -1 with err_set(): 64 no such method, 74. */
int container_write(struct dev *d, const char *method, const float *x, float *feedback,
	uint64_t n, const char *path, struct container_facts *facts);

/* Writes the values from..from + n - 1 of a container that is made where they are: to device
 * memory. Ranges are asked for in order, all of them once or, where the method needs a first
 * pass, twice. Returns 0, or -1 with err_set(). */
typedef int (*container_fill_fn)(void *arg, uint64_t from, uint64_t n, float *out);

/* The same with values that need never be in host memory all at once: only the container and the
 * residual, which is there, leave the device. later: the caller flushes the file and its directory.
 */
int container_write_filled(struct dev *d, const char *method, container_fill_fn fill,
	void *arg, float *feedback, uint64_t n, const char *path, bool later,
	struct container_facts *facts);

/* The most bytes that a container of n floats may have. Returns 0 where there is no such method. */
uint64_t container_bytes_max(const char *method, uint64_t n);

/* Reading, a piece at a time, whatever the container's own pieces are. */
struct container {
	FILE *file;
	struct grad_decoder *decoder;
	float *values; /* [grad_batch] that were decoded */
	uint64_t have, used, n, done;
	char *path;
};
#define CONTAINER_INIT \
	{              \
		0      \
	}

/* Opens a container, which must be of n floats and, where method is not NULL, of that method.
 * Returns 0, or -1 with err_set(): 66, 65. Close either way. */
int container_open(struct container *c, struct dev *d, const char *path,
	const char *method, uint64_t n);
/* The next count values, checked; with the last of them the index is checked, too. Returns 0, or
 * -1 with err_set(EX_DATAERR). */
int container_read(struct container *c, float *to, uint64_t count);
void container_close(struct container *c);

/* Reads a whole container that nobody has checked yet. Returns 0, the norm of its values and a
 * sketch of them, which was begun (NULL: none), or -1 with err_set(EX_DATAERR): not a container
 * of n values of that method, one is not finite. */
int container_check(struct dev *d, const char *path, const char *method, uint64_t n,
	double *norm, struct sketch *sketch);

/* Applies the update in a file to published, as update_take does. Returns 0, or -1 with err_set():
 * 65, 66, 74; published may then hold a part. */
int container_take(struct dev *d, const char *path, const char *method, float *published,
	const struct update_range *ranges, size_t nranges);

#endif
