/* upload.h - copies much of the host's memory to a device. Uses kernels/dev/dev.h and team.h.
 *
 * A GPU copies pageable memory at a tenth of the link's speed. So bytes pass through two buffers of
 * pinned memory: the team of threads fills one, which finds the pages of a mapped file, too, while
 * the other is copied. */
#ifndef RNP_COMMON_LM_INFER_UPLOAD_H
#define RNP_COMMON_LM_INFER_UPLOAD_H

#include <stdbool.h>

#include "kernels/dev/dev.h"

#define LM_UPLOAD_BYTES (UINT64_C(16) << 20) /* of a buffer */

struct lm_upload {
	struct dev *d;
	void *stage[2];
	bool turn, copying;
};

/* Begins. Where no memory can be pinned, and on a device that is the host, bytes are copied
 * directly. d is borrowed until the end. */
void lm_upload_begin(struct lm_upload *u, struct dev *d);

/* Copies bytes; `host` is read before it returns, `to` has them when end returns. Returns 0, or -1:
 * the device holds the error. */
int lm_upload_put(struct lm_upload *u, void *to, const void *host, uint64_t bytes);

/* Waits for the copies and frees the buffers, whatever it returns: 0, or -1: the device holds the
 * error. */
int lm_upload_end(struct lm_upload *u);

#endif
