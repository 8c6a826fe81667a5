/* walk.h - finds the files of a directory that go into a pack. Reads directories, not files. Uses
 * manifest, ignore, err, io. */
#ifndef RNP_CMD_REGISTER_PACK_WALK_H
#define RNP_CMD_REGISTER_PACK_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "cmd/rnp-register/pack/manifest.h"

/* By what a file is known again without reading it. */
struct walk_stat {
	uint64_t device, inode;
	int64_t bytes, modified_ns, changed_ns;
};

#define WALK_EXAMPLES 3
/* Names that are looked at, those that rules leave out included. */
#define WALK_NAMES_MAX 2000000

/* What stays behind for one reason, with the first of them by name. */
struct walk_left {
	size_t n;
	char *examples[WALK_EXAMPLES];
};

struct walk {
	int fd; /* of the directory; -1: not open */
	struct manifest manifest;
	struct walk_stat *stats; /* of each entry of the manifest */
	size_t stats_cap;
	/* by rules (a directory counts once), links that lead out, and what is neither file,
	 * directory nor link */
	struct walk_left ignored, links, special;
	size_t names;      /* that were looked at */
	size_t text_bytes; /* of paths and links in the manifest */
};
#define WALK_INIT        \
	{                \
		.fd = -1 \
	}

/* Lists the directory: entries with modes, sizes and links' texts, but without hashes. With rules,
 * `.rnpignore` or `.skyignore` alone says what stays behind, else the `.gitignore` files and
 * `.git/info/exclude` of the repository in which the directory lies. `.git` goes along in any case.
 * What vanishes meanwhile was never there. Returns 0, or -1 with w released: 66 no such directory,
 * 77 a part may not be read, 65 a name that cannot be packed, a directory within itself, more than
 * fits into a manifest, or more than bytes_max bytes in its files (0: no bound but the manifest's):
 * holes count, and a file counts under each of its names. */
int walk_directory(struct walk *w, const char *dir, bool rules, int64_t bytes_max);
void walk_directory_release(struct walk *w);

void walk_stat_of(struct walk_stat *out, const struct stat *st);

#endif
