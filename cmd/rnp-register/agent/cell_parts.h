/* cell_parts.h - what both ends of a cell say to each other; not for callers. */
#ifndef RNP_CMD_REGISTER_AGENT_CELL_PARTS_H
#define RNP_CMD_REGISTER_AGENT_CELL_PARTS_H

#include <stdint.h>

#include "cmd/rnp-register/pack/manifest.h"

/* A message is its head and `bytes` bytes. Both ends are one program: numbers are as they are. */
struct cell_head {
	uint32_t type; /* enum cell_type */
	uint32_t code; /* of CELL_ERROR: an exit code */
	int64_t bytes;
};

enum cell_type {
	CELL_USERS = 1, /* child: gives itself users; agent: it has */
	CELL_UNPACK,    /* agent: struct cell_unpack */
	CELL_GET,       /* child: struct cell_get; agent: CELL_BLOB or CELL_ERROR */
	CELL_PACK,      /* agent: struct cell_pack_name; child: CELL_BLOBS */
	CELL_BLOBS,     /* child: struct manifest_blob, the manifest's last */
	CELL_READ,      /* agent: an int64_t, which; child: CELL_BLOB */
	CELL_BLOB,      /* bytes */
	CELL_DONE,      /* child: unpacked */
	CELL_ERROR,     /* a sentence */
};

#define CELL_NAME_MAX 256
#define CELL_BLOB_MAX ((int64_t)MANIFEST_BYTES_MAX)

struct cell_unpack {
	char sha256_hex[65], path[CELL_NAME_MAX];
	int64_t bytes_max;
};

struct cell_get {
	char sha256_hex[65];
	int64_t max;
};

struct cell_pack_name {
	char name[CELL_NAME_MAX];
	int64_t bytes_max;
};

/* Takes all rights from this process but those of a container's root over its files, and moves it
 * into the folder open at dir (cell_bars.c). users_given waits until the agent has given it users.
 * Returns 0, or -1 with err_set (71). */
int cell_bars(int dir, int (*users_given)(void));

#endif
