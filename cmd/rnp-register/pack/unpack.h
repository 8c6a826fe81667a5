/* unpack.h - makes a directory from a manifest and its blobs, whole or not at all. The manifest and
 * the blobs come from strangers. Uses manifest, beneath, err. */
#ifndef RNP_CMD_REGISTER_PACK_UNPACK_H
#define RNP_CMD_REGISTER_PACK_UNPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cmd/rnp-register/pack/manifest.h"
#include "common/base/buf.h"

struct unpack_config {
	int64_t bytes_max;  /* of all files; 0: no bound */
	size_t entries_max; /* files, directories and links; 0: no bound */
	bool flush;         /* to the disk, before it has its name */
	/* to whom all of it belongs; (uid_t)-1: to whoever unpacks */
	uid_t uid;
	gid_t gid;
	/* Fetches a blob into out, which is empty. Its hash is checked here. Returns 0, or -1 with
	 * err_set. */
	int (*fetch)(void *ctx, const struct manifest_blob *b, struct buf *out);
	void *ctx;
};

/* Unpacks to the directory at path, which must not exist, or be empty: until all of it is there it
 * lies beside it, and goes where that fails. No link is followed, none that is made leads out.
 * Returns 0, or -1: 65 too large, or a blob or file is not of its hash, 73 the place is taken, 74
 * it cannot be written, or the disk has not so much left, or what fetch set. */
int unpack(const struct manifest *m, const char *path,
	const struct unpack_config *config);

#endif
