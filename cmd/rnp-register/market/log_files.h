/* log_files.h - what the ranks of a cluster printed, as files: of each rank the first MiB and the
 * last 15, in pieces of a MiB. It knows no HTTP and no accounts. Uses io, err.
 *
 * A rank's log is one text, counted from its first byte on, whatever is dropped in between. A node
 * that takes another's place (a later turn) begins where that had ended. */
#ifndef RNP_CMD_REGISTER_MARKET_LOG_FILES_H
#define RNP_CMD_REGISTER_MARKET_LOG_FILES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_PIECE_BYTES   ((int64_t)1 << 20)
#define LOG_PIECES_LAST   15
#define LOG_CLUSTER_CHARS 32
#define LOG_RANKS_MAX     64

struct log_files {
	int fd; /* of the folder */
	char *dir;
	pthread_mutex_t lock; /* of all that is appended */
};

/* Opens the folder, which is made where it is not there. Returns 0 or -1 (73, 77). */
int log_files_open(struct log_files *f, const char *dir);
void log_files_close(struct log_files *f);

/* Whether a text is a cluster's name, 32 digits. */
bool log_cluster_valid(const char *cluster);

/* How many bytes a rank's log has; 0: there is none. */
int64_t log_bytes(struct log_files *f, const char *cluster, int rank);

/* Appends what a node printed from its own byte `offset` on; what of it is there already is
 * passed over, and where bytes before it never came a line of the log says so. turn: of the
 * node. *have: how many bytes of that turn are there now. Returns 0; -1 with err_set: 74, or
 * 75 where the disk is full. */
int log_append(struct log_files *f, const char *cluster, int rank, int turn,
	int64_t offset, const void *data, size_t len, int64_t *have);

/* Reads up to cap bytes from *at on. Where they were dropped, *at moves to the next that are there.
 * Returns how many; 0: that is the end; -1 with err_set. */
long log_read(struct log_files *f, const char *cluster, int rank, int64_t *at, void *to,
	size_t cap);

/* Finds the ranks of a cluster that have printed something, in order. Returns how many, at most
 * cap. */
size_t log_ranks(struct log_files *f, const char *cluster, int *ranks, size_t cap);

/* A cluster is alive: its log stays. */
void log_touch(struct log_files *f, const char *cluster);
/* Calls fn for each cluster with its age, since it was touched or appended to. fn may remove it. */
int log_each(struct log_files *f,
	void (*fn)(void *ctx, const char *cluster, int64_t age_ms), void *ctx);
int log_remove(struct log_files *f, const char *cluster);

#endif
