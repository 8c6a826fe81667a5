/* state.h - what a worker keeps between turns and across kills: parameters, AdamW's state,
 * residual, and a delta that is not delivered yet. Uses wire/flatfile.h, json, io.
 *
 * A directory of files that are written beside each other; state.json names those that belong
 * together, and is replaced last. */
#ifndef RNP_TRAIN_WORKER_STATE_H
#define RNP_TRAIN_WORKER_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/rnp-train/wire/flatfile.h"
#include "cmd/rnp-train/wire/protocol.h"

struct join_state {
	char *dir;
	int lock_fd;
	uint64_t n; /* parameters */
	/* what state.json says; numbers of files, 0: there is none */
	uint64_t published, adam,
		residual; /* published-N.f32; m-N.f32 and v-N.f32; e-N.f32 */
	uint64_t next;    /* number of the next file */
	char params_hash
		[PROTOCOL_HEX]; /* of published: "base" in the file, as on the wire */
	uint64_t adam_steps, turns, tokens;
	/* Streaming: theta-N.f32 and began-N.f32 after round `done`, the update of round `unmerged`
	 * not applied to them; all counted from 1, 0: there is none. */
	uint64_t theta, done, unmerged;
	uint64_t version;   /* rounds that published is behind */
	bool fresh;         /* its AdamW began in a run that others had begun */
	bool pending;       /* delta-TURN.rnpg waits to be delivered */
	struct delta delta; /* what it is, then */
};
#define JOIN_STATE_INIT \
	{               \
		0       \
	}

/* The default place: $XDG_STATE_HOME/rnp/train or $HOME/.local/state/rnp/train. Appends it. Returns
 * 0, or -1 with err_set(). */
struct buf;
int join_state_default(struct buf *out);

/* Opens the state of a run below root, makes its directory, and takes it for this process. Returns
 * 0, or -1 with err_set(): 73, 77, 75 another worker has it, 65 malformed. Close either way. */
int join_state_open(struct join_state *s, const char *root, const struct training *t);
void join_state_close(struct join_state *s);

/* A path in it, to be freed. */
char *join_state_path(const struct join_state *s, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Makes what s says durable, and removes files that it names no more. Returns 0, or -1. */
int join_state_save(struct join_state *s);

#endif
