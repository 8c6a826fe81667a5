/* follow.h - what the ranks of a cluster print, line by line, harmless, and without a gap where the
 * connection breaks. Uses frames, harmless, http. */
#ifndef RNP_CMD_REGISTER_CUSTOMER_FOLLOW_H
#define RNP_CMD_REGISTER_CUSTOMER_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/rnp-register/customer/frames.h"
#include "cmd/rnp-register/customer/harmless.h"
#include "common/http/http.h"
#include "common/record/key.h"

/* A rank's log as far as it is read. */
struct follow_rank {
	int64_t at; /* of the next byte */
	struct harmless harmless;
	struct buf line; /* that has begun */
};

struct follow {
	const char *base, *ca;
	const struct key *key; /* the customer's */
	const char *cluster;
	int rank;                       /* -1: all */
	bool follow;                    /* what comes later, too */
	const struct http_abort *abort; /* or NULL */
	/* Takes whole lines of a rank, with their ends. Returns 0, or -1 with err_set. */
	int (*lines)(void *ctx, int rank, const char *text, size_t len);
	/* Told of bytes that were dropped between; may be NULL. */
	void (*dropped)(void *ctx, int rank, int64_t bytes);
	void *ctx;
	struct follow_rank ranks[FRAMES_RANKS_MAX]; /* zeros at first */
};

/* Reads to the end, or until the cluster is over; goes on where the connection breaks, six
 * times in a row without a byte. Returns 0, or -1: as http_fetch, 69 what answers is no
 * registry's log, or what lines set. */
int follow_run(struct follow *f, struct http *http);
void follow_release(struct follow *f);

#endif
