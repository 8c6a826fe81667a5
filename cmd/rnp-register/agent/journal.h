/* journal.h - what an agent has taken on, how long each lease was ready, and which events its
 * registry has not taken yet: what a kill must not lose. Uses store, record/key.
 *
 * Any thread may call; each call is one transaction and on the disk when it returns. */
#ifndef RNP_REGISTER_AGENT_JOURNAL_H
#define RNP_REGISTER_AGENT_JOURNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/store/store.h"

#define LEASE_ID_MAX    48 /* "CLUSTER-RANK-TURN", with the NUL */
#define LEASE_CLUSTER   33
#define LEASE_CAUSE_MAX 480
#define LEASE_GPUS_MAX  64
#define LEASE_GPU_BYTES 100

/* In their order; the names are those of rnp.event. */
enum lease_state {
	LEASE_RESERVED,
	LEASE_PROVING,
	LEASE_PULLING,
	LEASE_STARTING,
	LEASE_READY,
	LEASE_RELEASING,
	LEASE_RELEASED,
	LEASE_FAILED,
	LEASE_STATES
};
extern const char *const lease_state_names[LEASE_STATES];
int lease_state_find(const char *name); /* -1: none of ours */

/* One lease, as the journal keeps it. */
struct lease_row {
	char id[LEASE_ID_MAX], cluster[LEASE_CLUSTER], booking[65];
	int rank, turn;
	int slot; /* its range of users; no two live leases have the same */
	enum lease_state state;
	int64_t seq;      /* of its last event */
	int64_t ready_ms; /* for how long it ran so far, by the monotonic clock */
	int64_t restarts; /* the run that it is in */
	bool gone;        /* `run` has begun, in this run */
	int exit;         /* of the run; -1: has not ended */
	char container[65];
	/* where the reader of its log is, and what of it the registry has */
	uint64_t log_file;
	int64_t log_bytes, log_sent;
};

struct journal {
	struct store store;
	pthread_mutex_t lock;
	int lock_fd; /* one agent at a time */
};
#define JOURNAL_INIT                                                                  \
	{                                                                             \
		.store = STORE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER, .lock_fd = -1 \
	}

/* Opens DIR/agent.db. Returns 0, or -1: 75 another agent has it, and as store_open. */
int journal_open(struct journal *j, const char *dir);
void journal_close(struct journal *j);

/* Takes a lease on: writes its row, with a free slot and state reserved, and the devices, each of
 * which may be in one live lease alone. assignment: as it was verified, JSON. Returns 0; -1 with
 * err_set: 1 a device is in another lease, or the booking was here before and is over; 75. */
int journal_take(struct journal *j, struct lease_row *row, const char *assignment,
	const char *const *devices, size_t ndevices);

/* Replaces the text of its assignment: the registry has news. */
int journal_assign(struct journal *j, const char *id, const char *assignment);

/* Calls fn for each live lease, in the order of their ids. */
int journal_each(struct journal *j,
	int (*fn)(void *ctx, const struct lease_row *row, const char *assignment),
	void *ctx);

/* Writes what has changed of a row; event: its next one, signed, whose number is row->seq, or NULL.
 * A row in state released or failed is over: it frees its devices, and is kept some time so that
 * the booking is not taken twice. */
int journal_put(struct journal *j, const struct lease_row *row, const char *event);

/* Reads the oldest event that is not acknowledged. Returns 1 with its id and text, 0: there is
 * none, or -1. skip: those of ids up to this one are passed over. */
int journal_next_event(struct journal *j, int64_t skip, int64_t *event_id,
	char lease_id[LEASE_ID_MAX], struct buf *text);
int journal_ack(struct journal *j, int64_t event_id);

/* Whether the lease has events that are not acknowledged. Returns 1, 0 or -1. */
int journal_is_waiting(struct journal *j, const char *lease_id);

#endif
