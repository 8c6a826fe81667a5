/* frames.h - reads the frames in which a registry sends logs (market/logs.h). Pure. Uses err. */
#ifndef RNP_CMD_REGISTER_CUSTOMER_FRAMES_H
#define RNP_CMD_REGISTER_CUSTOMER_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAMES_RANKS_MAX 64

/* Takes bytes of a rank's log, which stand at `at` in it. Returns 0, or -1 with err_set. */
typedef int (*frames_fn)(void *ctx, int rank, int64_t at, const char *data, size_t len);

/* A reader of pieces of any size; all zeros: nothing came yet. */
struct frames {
	char head[64];
	size_t nhead;
	int rank;
	int64_t at, left; /* of the frame that is being read */
	bool ended;       /* nothing more will come */
};

/* Reads the next piece. Returns 0, or -1: what fn set, or 69: these are no frames. */
int frames_read(struct frames *f, const char *data, size_t len, frames_fn fn, void *ctx);

#endif
