/* session_parts.h - what the files of session_serve share; not for callers. */
#ifndef RNP_CMD_REGISTER_AGENT_SESSION_PARTS_H
#define RNP_CMD_REGISTER_AGENT_SESSION_PARTS_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "cmd/rnp-register/agent/door.h"
#include "cmd/rnp-register/agent/process.h"
#include "cmd/rnp-register/agent/ranks.h"
#include "cmd/rnp-register/agent/session_serve.h"

#define SESSION_CHILDREN_MAX 128 /* connections and sessions at a time */
#define SESSION_WAITING_MAX  32  /* that have not said what they want */

/* The way to one peer; of the same index as its ranks_peer. */
struct session_link {
	struct process process; /* of the higher rank: the ssh that brings the stream */
	const char *argv[8];
	char name[32];
	int control; /* of the lower rank: the session that brought it; -1: none */
};

struct session_state {
	const struct session_serve *serve;
	struct session_file file;
	struct stat last; /* of session.json */
	uid_t uid;
	gid_t gid;
	int door, sock, identity, signals;
	char identity_path[64];
	struct sshkey host_key;
	struct buf config, forward; /* paths of ssh_config; "ADDRESS:2200:door.sock" */
	struct process tunnel;
	const char *tunnel_argv[12];
	struct ranks ranks;
	struct session_link *links;
	int waiting[SESSION_WAITING_MAX];
	size_t nwaiting;
	pid_t children[SESSION_CHILDREN_MAX];
	size_t nchildren;
};

/* --- session_setup.c ------------------------------------------------------------------------ */

/* Finds the user, opens the sockets, makes key and files. Returns 0, or -1. */
int session_open(struct session_state *s);
void session_close(struct session_state *s);
/* Writes what follows from session.json. Returns 0, or -1. */
int session_write(struct session_state *s);

/* --- session_door.c ------------------------------------------------------------------------- */

/* Takes a connection of the tunnel: an sshd for it, in the lease's network, without rights. */
void session_let_in(struct session_state *s);
/* Takes a connection of a session, and what it wants once it says so. */
void session_take(struct session_state *s);
void session_hear(struct session_state *s, size_t i);
void session_reap(struct session_state *s);

/* --- session_links.c ------------------------------------------------------------------------ */

/* Opens the device and begins links as session.json has them. Returns 0, or -1. */
int session_links_open(struct session_state *s);
void session_links_close(struct session_state *s);
/* Keeps the links of which we are the higher rank. */
void session_links_keep(struct session_state *s);
/* A link has no stream any more. */
void session_link_drop(struct session_state *s, size_t i);
/* Takes the stream that a higher rank brings. Returns false where there is no such peer; the
 * descriptors are then the caller's. */
bool session_link_take(struct session_state *s, int64_t rank, int in, int out,
	int control);

#endif
