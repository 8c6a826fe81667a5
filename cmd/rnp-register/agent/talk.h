/* talk.h - one session in a container: bytes between whoever logged in and a command, sizes of the
 * terminal, the exit code. Uses engine, session_file, json, err. */
#ifndef RNP_CMD_REGISTER_AGENT_TALK_H
#define RNP_CMD_REGISTER_AGENT_TALK_H

#include <jansson.h>
#include <stddef.h>

#include "cmd/rnp-register/agent/engine.h"

#define TALK_MESSAGE_MAX 131072 /* a command with its line */

/* What somebody wants who logged in. */
struct talk {
	const char *command; /* NULL: a shell */
	bool terminal;
	int rows, columns;
	const char *term; /* of the environment, or NULL */
};

/* Reads it from a message. Texts are borrowed. Returns 0, or -1 (65). */
int talk_read(struct talk *t, const json_t *message);

/* Holds a session in a container from its begin to its end. in, out and err are the customer's;
 * sizes of the terminal come by control, {"rows":R,"columns":C} a packet, whose end is the
 * customer's. Does not return before. Returns the exit code, or -1 with err_set. */
int talk_hold(struct engine *e, const char *container, const struct talk *t, int in,
	int out, int err, int control);

/* Takes a session's frames apart (see struct engine_talk): appends to the two, and keeps what
 * is not whole. Returns 0, or -1 (69): no frames. Pure. */
struct talk_frames {
	unsigned char head[8];
	size_t nhead, left;
};
int talk_frames_take(struct talk_frames *f, const unsigned char *data, size_t len,
	struct buf *out, struct buf *err);

#endif
