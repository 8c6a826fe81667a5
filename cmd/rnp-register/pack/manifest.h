/* manifest.h - what a packed directory consists of: its files in order, and the blobs into which
 * their bytes, one file after the other, are cut. Pure. Uses json, buf, err, mem.
 *
 * The bytes of all files, in the order of the list, are one stream; the blobs are that stream in
 * pieces. So the sizes of the blobs add up to those of the files, and nothing small unpacks into
 * something large. */
#ifndef RNP_CMD_REGISTER_PACK_MANIFEST_H
#define RNP_CMD_REGISTER_PACK_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/sha256.h"

#define MANIFEST_BYTES_MAX      ((size_t)64 << 20)
#define MANIFEST_ENTRIES_MAX    500000
#define MANIFEST_BLOBS_MAX      100000
#define MANIFEST_BLOB_BYTES_MAX ((int64_t)16 << 20)
#define MANIFEST_PATH_MAX       4000 /* bytes of a path, or of what a link says */
#define MANIFEST_DEPTH_MAX      128

struct manifest_entry {
	char *path; /* relative, of plain names, no "." or ".." */
	enum manifest_type { MANIFEST_FILE, MANIFEST_DIR, MANIFEST_LINK } type;
	uint32_t mode;                      /* 0 to 0777 */
	int64_t bytes;                      /* of a file */
	unsigned char sha256[SHA256_BYTES]; /* of a file */
	char *target;                       /* of a link */
};

struct manifest_blob {
	unsigned char sha256[SHA256_BYTES];
	int64_t bytes;
};

/* All zeros: empty. */
struct manifest {
	struct manifest_entry *entries; /* see manifest_order */
	size_t nentries, entries_cap;
	struct manifest_blob *blobs;
	size_t nblobs, blobs_cap;
	int64_t bytes; /* of all files */
};

void manifest_release(struct manifest *m);

/* Appends an entry or a blob; takes the texts of the entry. */
struct manifest_entry *manifest_add(struct manifest *m,
	const struct manifest_entry *takes);
struct manifest_blob *manifest_add_blob(struct manifest *m);

/* Compares paths: by their bytes, with "/" before all others, so that what is in a directory
 * follows it at once. */
int manifest_order(const char *a, const char *b);

/* Reads 64 lower-case digits. Returns 0, or -1 without an error. */
int manifest_hash_read(unsigned char out[SHA256_BYTES], const char *hex);

/* Checks a path that comes from a directory or a stranger. Returns NULL, or what is wrong with it:
 * "has a part '..'". */
const char *manifest_path_fault(const char *path);

/* The same for what a symbolic link says, which lies at path: it must lead to a place in the tree,
 * whatever other links are there. So ".." may stand at its beginning only. */
const char *manifest_link_fault(const char *path, const char *target);

/* Appends the canonical form (RFC 8785) of the rnp.manifest record. */
void manifest_write(struct buf *out, const struct manifest *m);

/* Reads a manifest from a stranger: paths are plain, in order and once, below directories that are
 * none of them a link or a file, links stay within, sizes add up. Returns 0, or -1 (65) with m
 * empty. */
int manifest_read(struct manifest *m, const char *text, size_t len, const char *where);

#endif
