/* cell.h - a child without rights, in which what strangers wrote is parsed, unpacked and packed:
 * the files of a lease. Uses pack, manifest, unpack, process, err. Needs root.
 *
 * The child is our own program anew (`rnp-register work --files`), so that nothing of the agent is
 * in its memory, neither its key. It is root of a user namespace with the users of the lease, in a
 * network of its own without links, and its root is one folder: it may there what the lease's
 * container may, and elsewhere nothing. What it wants beyond its folder it asks for: blobs, by
 * their hashes. It ends with the agent, and when it is closed, whatever it does. */
#ifndef RNP_CMD_REGISTER_AGENT_CELL_H
#define RNP_CMD_REGISTER_AGENT_CELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cmd/rnp-register/pack/manifest.h"
#include "common/base/buf.h"

struct cell_config {
	const char *program;    /* NULL: this one */
	int dir;                /* the open folder that is its root; borrowed */
	uint32_t first_id, ids; /* its users on this machine */
	/* asked several times a second while it works: true ends it (75). NULL: never */
	bool (*stop)(void *ctx);
	void *ctx;
	int64_t timeout_ms; /* each thing that it does has to be done by then (75) */
};

struct cell {
	const struct cell_config *config;
	pid_t pid; /* 0: none */
	int fd;
	int64_t until_ns;
};
#define CELL_INIT         \
	{                 \
		.fd = -1, \
	}

/* Starts the child. Returns 0, or -1 with err_set (71, 75); to be closed in any case. */
int cell_open(struct cell *c, const struct cell_config *config);
/* Kills it, and waits until it is gone. */
void cell_close(struct cell *c);

struct cell_unpacking {
	const char *sha256_hex; /* of the manifest */
	const char *path;       /* relative; must not exist */
	int64_t bytes_max;      /* of all files */
	/* appends a blob of at most max bytes, and sees to its hash */
	int (*fetch)(void *ctx, const char *sha256_hex, size_t max, struct buf *out);
	void *ctx;
};
/* Unpacks a directory. Returns 0, or -1 as unpack and fetch. */
int cell_unpack(struct cell *c, const struct cell_unpacking *u);

/* Packs the directory of that name. *blobs, which the caller frees, and *n get its blobs, the last
 * of which is the manifest. Returns 0, or -1 as pack_directory; 66: there is none. */
int cell_pack(struct cell *c, const char *name, int64_t bytes_max,
	struct manifest_blob **blobs, size_t *n);
/* Reads a blob of what was packed last into out, which is emptied. Returns 0, or -1: 75 a file has
 * changed. The bytes are the child's word: whoever takes them looks at their hash. */
int cell_read(struct cell *c, size_t blob, int64_t bytes, struct buf *out);

/* The child: does what it is told through descriptor 0 in the folder that is open at 3, and does
 * not return. */
int cell_serve(void);

#endif
