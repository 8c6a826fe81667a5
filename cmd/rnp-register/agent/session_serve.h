/* session_serve.h - the program beside a lease's container: keeps its tunnel to the gateway,
 * lets in who comes through it, and carries the packets of its rank. Uses session_file, door,
 * ranks, talk, process, podman, key, err. */
#ifndef RNP_CMD_REGISTER_AGENT_SESSION_SERVE_H
#define RNP_CMD_REGISTER_AGENT_SESSION_SERVE_H

#include "common/record/key.h"

struct session_serve {
	const char *directory; /* the lease's own: session.json, and what is made there */
	const struct key *key; /* of the node */
	const char *program;   /* ours, a whole path */
	const char *sshd, *ssh;        /* theirs */
	void (*say)(const char *text); /* is told of what people should know */
};

/* Serves until SIGTERM or SIGINT, which the caller has blocked. session.json is read again when it
 * changes. Returns 0, or -1 with err_set. */
int session_serve(const struct session_serve *s);

/* The name of the socket at which sessions ask; directory is the lease's. Returns 0, or -1
 * (64): the path is too long for one. */
struct sockaddr_un;
int session_socket(const char *directory, struct sockaddr_un *out);

#endif
