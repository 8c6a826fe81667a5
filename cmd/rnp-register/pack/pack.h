/* pack.h - packs a directory by its content: a manifest, and blobs that are read from the files
 * when somebody wants them. Uses walk, manifest, cache, sha256, err.
 *
 * Small files are joined, up to 4 MiB a blob, so that ten thousand are not ten thousand requests;
 * where one blob ends is decided by the names of files, so that a file that is new changes a blob
 * or two. Large ones are cut into pieces of 16 MiB. What is known of unchanged files is kept below
 * $XDG_CACHE_HOME, and they are not read again. */
#ifndef RNP_CMD_REGISTER_PACK_PACK_H
#define RNP_CMD_REGISTER_PACK_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/rnp-register/pack/walk.h"
#include "common/base/buf.h"
#include "common/base/sha256.h"

#define PACK_JOINED_BYTES_MAX ((int64_t)4 << 20)

/* Where the bytes of a blob are: from byte `offset` of an entry on, and of the files behind it. */
struct pack_piece {
	size_t entry;
	int64_t offset;
};

struct pack_config {
	bool rules;        /* see walk_directory */
	bool cache;        /* keep what is known of the files */
	int64_t bytes_max; /* see walk_directory */
	/* told of each file that had to be read, and how many bytes; may be NULL */
	void (*progress)(void *ctx, int64_t bytes);
	void *ctx;
};

struct pack {
	struct walk walk;
	struct pack_piece *pieces; /* of each blob of the manifest */
	size_t pieces_cap;
	struct buf text;                    /* the manifest */
	unsigned char sha256[SHA256_BYTES]; /* of text: the name of the whole */
	int64_t read_bytes; /* of files that were read, and not known already */
};

/* Packs. Tries again where a file changes meanwhile. Returns 0, or -1 with p released: as
 * walk_directory, 75 a file changes all the time. A cache that cannot be written is no failure. */
int pack_directory(struct pack *p, const char *dir, const struct pack_config *config);
void pack_release(struct pack *p);

/* Reads the bytes of a blob into out, which is emptied. Returns 0, or -1: 75 a file has changed
 * since it was packed. */
int pack_read(const struct pack *p, size_t blob, struct buf *out);

/* Returns the blobs, and the manifest behind them, which the caller frees. */
struct manifest_blob *pack_blobs(const struct pack *p);

/* Appends what stayed behind as one line for people; nothing where nothing did. */
void pack_left_text(struct buf *out, const struct pack *p);

/* Cuts the files of w into blobs without hashes, and says where they begin. Returns 0, or -1 (65):
 * more than a manifest may have. Pure, but for memory. */
int pack_cut(struct pack *p);

#endif
