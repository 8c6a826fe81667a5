/* change.h - what happens to a cluster and its nodes, within the transaction of a job
 * (market_write). Each function returns 0, or -1 with err_set and the transaction fails. */
#ifndef RNP_CMD_REGISTER_MARKET_CHANGE_H
#define RNP_CMD_REGISTER_MARKET_CHANGE_H

#include "cmd/rnp-register/market/parts.h"

/* A node, w of c, goes to a state, or stays in its own with news. event: the signed record that
 * says so; NULL: the registry says it. Rows are written, the event is stored, leases end where the
 * state has none, and whoever waits will hear of it. */
int change_move(struct market *m, struct cluster_row *c, struct member_row *w,
	enum node_state to, const char *cause, const char *event, int64_t now_ms);

/* A reading of the meter: w was ready for so long by its own count. The least of that, of our own
 * clock (while all were ready, and its run had not ended) and of what the limit pays for is
 * charged, and what is held is fitted to it. Where nothing
 * was ready yet it changes nothing. Writes no row but the account's: change_move follows. */
int change_read_meter(struct market *m, struct cluster_row *c, struct member_row *w,
	int64_t ready_ms, int64_t now_ms);

/* All nodes of c that have a lease are to be released; rank >= 0: that one alone. */
int change_release(struct market *m, struct cluster_row *c, int64_t rank,
	const char *cause, int64_t now_ms);

/* w has failed: as change_move, and then what the customer wished for that case. */
int change_fail(struct market *m, struct cluster_row *c, struct member_row *w,
	const char *cause, const char *event, int64_t now_ms);

/* w cannot be started because of what the customer booked, as its node says: others could not,
 * either. The cluster ends. */
int change_refused(struct market *m, struct cluster_row *c, struct member_row *w,
	const char *cause, const char *event, int64_t now_ms);

/* Puts the next spare of the booking in the place of w, which has failed or is released; look:
 * only finds out whether one could be. Returns 1, 0: there is none that is free and not dearer, or
 * -1. */
int change_replace(struct market *m, struct cluster_row *c, struct member_row *w,
	bool look, int64_t now_ms);

/* w has left its rank: a spare gets it; without one the cluster is released, or goes on. */
int change_left(struct market *m, struct cluster_row *c, struct member_row *w,
	const char *cause, int64_t now_ms);

/* The run of a rank has ended, as its row says. An error ends it on all; when it has ended on all
 * it begins again, if that is wished for, or the cluster is released (run.c). */
int change_run_ended(struct market *m, struct cluster_row *c, int64_t now_ms);

/* run begins again on all ranks as soon as all are ready. Writes no row of the cluster: a change
 * follows. */
int change_run_again(struct market *m, struct cluster_row *c);

/* Something is due by c->due_ms: a warning, or its end. */
int change_due(struct market *m, struct cluster_row *c, int64_t now_ms);

/* Takes leases on the devices of a member. Returns 1, 0: one of them has a lease already, or -1. */
int change_lease(struct market *m, const struct member_row *w, int64_t now_ms);

/* Sets what is held for a cluster to its next hour, as far as the account has it. */
int change_hold(struct market *m, struct cluster_row *c, int64_t now_ms);

/* After the commit, on the writer's thread: tells whoever waits, and what is for sale. */
void change_tell(struct market *m);
/* The transaction failed: nothing is told. */
void change_forget(struct market *m);

#endif
