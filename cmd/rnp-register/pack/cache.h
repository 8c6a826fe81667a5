/* cache.h - what was known of a directory's files when it was packed last: their hashes, by what
 * stat(2) says, and those of blobs by what is in them. Uses walk, io, sha256. */
#ifndef RNP_CMD_REGISTER_PACK_CACHE_H
#define RNP_CMD_REGISTER_PACK_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/rnp-register/pack/walk.h"
#include "common/base/buf.h"
#include "common/base/sha256.h"

struct cache_file {
	const char *path; /* within text */
	struct walk_stat stat;
	unsigned char sha256[SHA256_BYTES];
};

/* key: the hash of the hashes of what is in the blob */
struct cache_blob {
	unsigned char key[SHA256_BYTES], sha256[SHA256_BYTES];
};

struct pack_cache {
	char *path; /* NULL: nothing is kept */
	struct buf text;
	struct cache_file *files;
	size_t nfiles, files_cap;
	struct cache_blob *blobs; /* in the order of their keys, up to nsorted */
	size_t nblobs, blobs_cap, nsorted;
};

/* Opens what is kept of a directory; nothing, where it is damaged, or there is no place for it. */
void cache_open(struct pack_cache *c, const char *dir);
void cache_release(struct pack_cache *c);

/* Reads the text of a cache, as it stands in the file; c->text is set. Returns 0, or -1 without an
 * error and with nothing in c: it is damaged. */
int cache_parse(struct pack_cache *c);

/* Gives each file of w that is known its hash, and sets known[i] for it. */
void cache_recall(const struct pack_cache *c, struct walk *w, bool *known);

/* Looks a blob up among those that were kept. Returns false where it is not known. */
bool cache_blob_find(const struct pack_cache *c, const unsigned char key[SHA256_BYTES],
	unsigned char sha256[SHA256_BYTES]);
void cache_blob_add(struct pack_cache *c, const unsigned char key[SHA256_BYTES],
	const unsigned char sha256[SHA256_BYTES]);

/* Keeps the files of w that have a hash (known), and the blobs that were added. A file that changed
 * less than two seconds before begun_ns (of the time of day) is left out: another change could
 * follow within the same tick of the file system's clock. Failures are passed over. */
void cache_save(struct pack_cache *c, const struct walk *w, const bool *known,
	int64_t begun_ns);

#endif
