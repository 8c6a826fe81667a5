/* blob_files.h - blobs as files, and parts of those that are still being sent. It knows no HTTP and
 * no accounts. Safe from any thread. Uses sha256, io, err. */
#ifndef RNP_CMD_REGISTER_MARKET_BLOB_FILES_H
#define RNP_CMD_REGISTER_MARKET_BLOB_FILES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/sha256.h"

#define BLOB_NAME_MAX   65 /* 64 digits of its SHA-256 */
#define BLOB_HOLDER_MAX 96
#define BLOB_BYTES_MAX  ((int64_t)4 << 30)
/* What each blob takes of a quota beside its bytes. */
#define BLOB_OVERHEAD_BYTES 4096
/* Parts at a time, of all and of one holder. */
#define BLOB_PARTS_MAX        2048
#define BLOB_PARTS_HOLDER_MAX 32

/* What came so far of a blob that somebody sends. */
struct blob_part {
	struct blob_part *next;
	char holder[BLOB_HOLDER_MAX], name[BLOB_NAME_MAX];
	uint64_t number;       /* of its file */
	int fd;                /* while somebody sends; else -1 */
	_Atomic int64_t bytes; /* now; read by others while somebody sends */
	int64_t will_be;       /* when the request is over */
	int64_t flushing;      /* how many of them are on their way to the disk */
	struct sha256_state state;
	int64_t used_ns;
};

struct blob_files {
	int fd; /* of the folder */
	char *dir;
	pthread_mutex_t lock;
	struct blob_part *parts;
	size_t nparts;
	uint64_t numbers;
};

/* Opens the folder, which is made where it is not there; parts of an earlier run go. Returns 0, or
 * -1: 73, 77. */
int blob_files_open(struct blob_files *f, const char *dir);
void blob_files_close(struct blob_files *f);

/* Whether a text is a blob's name. */
bool blob_name_valid(const char *name);

/* How many bytes of a blob a holder has sent so far. */
int64_t blob_part_bytes(struct blob_files *f, const char *holder, const char *name);
/* What all blobs that a holder sends, but that of a name, take of a quota when their requests are
 * over; with `below` those of "HOLDER/..." too. */
int64_t blob_parts_bytes(struct blob_files *f, const char *holder, bool below,
	const char *but);

enum blob_begun {
	BLOB_BEGUN,
	BLOB_BUSY,   /* another request sends it */
	BLOB_OTHER,  /* so many bytes are not here: see blob_part_bytes */
	BLOB_MANY,   /* parts */
	BLOB_FAILED, /* err_set */
};

/* Goes on with a blob of which `from` bytes are here, up to `to`; from 0 begins anew. */
enum blob_begun blob_part_begin(struct blob_files *f, const char *holder,
	const char *name, int64_t from, int64_t to, struct blob_part **out);

/* Appends bytes, not beyond `to`. Returns 0, or -1 with errno. */
int blob_part_write(struct blob_part *p, const void *data, size_t len);

/* The request is over, and the rest may come later. */
void blob_part_leave(struct blob_files *f, struct blob_part *p);

/* Whether the bytes are those that the name says; afterwards nothing can be appended. */
bool blob_part_whole(struct blob_part *p);
/* Flushes it to the disk. Returns 0, or -1 with errno. */
int blob_part_flush(struct blob_part *p);
/* Gives it its name; as a part it stays until blob_part_drop. Not at the same time as blob_remove.
 * Returns 0, or -1 with err_set. */
int blob_part_name(struct blob_files *f, struct blob_part *p);
/* Removes it, where it has no name yet; p is gone. */
void blob_part_drop(struct blob_files *f, struct blob_part *p);

/* Removes parts to which nothing was added for so long. */
void blob_parts_sweep(struct blob_files *f, int64_t idle_ns);

/* Opens a blob. Returns a descriptor and its bytes, or -1 with errno. */
int blob_open(struct blob_files *f, const char *name, int64_t *bytes);
bool blob_is_there(struct blob_files *f, const char *name);
/* Removes a blob. Returns 0, also where there is none, or -1 with err_set. */
int blob_remove(struct blob_files *f, const char *name);

/* Calls fn for each blob that is there. fn may remove it. Returns 0 or -1. */
int blob_each(struct blob_files *f, void (*fn)(void *ctx, const char *name), void *ctx);

#endif
