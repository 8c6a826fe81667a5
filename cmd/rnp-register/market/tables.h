/* tables.h - the market's tables, and their rows. All of them are private but listings and leases:
 * nothing of them is under /v1/records. Uses store. */
#ifndef RNP_CMD_REGISTER_MARKET_TABLES_H
#define RNP_CMD_REGISTER_MARKET_TABLES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cmd/rnp-register/market/states.h"
#include "common/record/key.h"
#include "common/store/modules.h"

extern const struct store_module market_tables;

/* A cluster's name: 128 random bits in hex. */
#define CLUSTER_NAME_MAX 33
#define CAUSE_MAX        501
#define LEASE_TEXT_MAX   201

enum on_failure { ON_FAILURE_RESTART, ON_FAILURE_CONTINUE, ON_FAILURE_END };

/* `run` of a cluster: it begins on all ranks at once, and an error on one ends it on all. */
enum run_state { RUN_WAITS, RUN_ON, RUN_FAILS };

/* In place of an exit code: the run has not ended, or it was ended because another's failed. */
#define EXIT_NONE (-1)
#define EXIT_WITH (-2)

struct cluster_row {
	int64_t id;
	char name[CLUSTER_NAME_MAX], customer[KEY_ADDRESS_MAX], booking[65];
	char cause[CAUSE_MAX];
	enum node_state state;
	bool live;                         /* some node has a lease */
	int64_t booked_ms, hours, ends_ms; /* ends_ms 0: its time has not begun */
	int64_t due_ms; /* when something is due by time or money, see change_due; 0: never */
	int64_t deadline_ms; /* it ends then in any case; 0: none */
	int64_t seq;         /* of its last event */
	int64_t spent_uusd, held_uusd;
	int64_t limit_uusd;   /* it ends before it costs more */
	int64_t replace_uusd; /* a replacement's price; -1: as the node before */
	enum on_failure on_failure;
	int warned; /* minutes, see market_warning */
	enum run_state run;
	int64_t restarts; /* how often run has begun again */
	int64_t errors;   /* how often of these because it had failed by itself */
};

struct member_row {
	int64_t id, cluster; /* number of the cluster's row */
	int rank, turn;
	char node[KEY_ADDRESS_MAX], quote[65];
	char gpus[3000]; /* a JSON array of uuids; "[]": a node without */
	char cause[CAUSE_MAX], address[65], ssh[LEASE_TEXT_MAX];
	char artifacts[65]; /* manifest of what was kept last; "": nothing */
	enum node_state state;
	int64_t since_ms, heard_ms;
	int64_t uusd_per_hour, node_uusd_per_hour;
	int64_t ready_at_ms; /* when its ready arrived; 0: not yet */
	int64_t ready_ms;    /* of its time that was charged so far */
	/* by our own clock: for how long all were ready and its run had not ended, up to the
	 * last change of that; and since when they are now, 0: not now */
	int64_t counted_ms, counting_ms;
	int64_t charged_uusd;
	int64_t node_seq; /* the last number of its own events */
	int64_t exit;     /* of its run; EXIT_NONE, EXIT_WITH */
	int64_t bytes, bytes_total;
	bool leaves; /* once it is released another is to have its rank */
};

/* For how long its time counts so far, by our own clock. */
int64_t member_own_ms(const struct member_row *w, int64_t now_ms);

/* The number of a lease on its gateway (place.h), while it lives. */
int64_t member_number(int64_t id);

/* Statements, which a connection keeps (store_keep). */
enum rows_statement {
	ROWS_CLUSTER_BY_NAME,
	ROWS_CLUSTER_BY_ID,
	ROWS_CLUSTER_BY_BOOKING,
	ROWS_CLUSTERS_OF,
	ROWS_CLUSTER_INSERT,
	ROWS_CLUSTER_UPDATE,
	ROWS_CLUSTER_BODY,
	ROWS_MEMBERS_OF,
	ROWS_MEMBER_BY_RANK,
	ROWS_MEMBER_INSERT,
	ROWS_MEMBER_UPDATE,
	ROWS_MEMBERS_TOUCH,
	ROWS_MEMBERS_COUNT,
	ROWS_MEMBERS_AGAIN,
	ROWS_MEMBERS_LEAVE,
	ROWS_KEPT_PUT,
	ROWS_KEPT,
	ROWS_LEASE_INSERT,
	ROWS_LEASE_END,
	ROWS_DISPUTED,
	ROWS_SQUATTERS,
	ROWS_EVENT_INSERT,
	ROWS_EVENTS_AFTER,
	ROWS_ACTION_INSERT,
	ROWS_ACTION,
	ROWS_ACCOUNT,
	ROWS_ACCOUNT_ADD,
	ROWS_ACCOUNT_HOLD,
	ROWS_ACCOUNT_MOVE,
	ROWS_DEPOSIT_INSERT,
	ROWS_DEPOSIT,
	ROWS_LISTING_PUT,
	ROWS_NODE,
	ROWS_GATEWAY_PUT,
	ROWS_GATEWAYS,
	ROWS_GATEWAY,
	ROWS_ACCESS,
	ROWS_KEYS_PUT,
	ROWS_KEYS_ACTION,
	ROWS_WORK_SEQ,
	ROWS_WORK,
	ROWS_LIVE,
	ROWS_LATE,
	ROWS_DUE,
	ROWS_LISTING,
	ROWS_SAVE,
	ROWS_BACK,
	ROWS_SAVED,
	ROWS_STATEMENTS
};

struct rows {
	struct store *s;
	sqlite3_stmt *q[ROWS_STATEMENTS];
};

void rows_open(struct rows *r, struct store *s);
void rows_close(struct rows *r); /* fine if it was not opened */

/* Returns the statement, reset, or NULL with err_set. */
sqlite3_stmt *rows_get(struct rows *r, enum rows_statement which);

/* Sets a key of an object to the record that a statement, bound, has as the text of its row; not
 * where there is none, or "". Resets it. Returns 0, or -1 with err_set. */
int rows_set_record(struct rows *r, sqlite3_stmt *q, json_t *to, const char *key);

/* Runs a statement that returns no row: rows_run(r, ROWS_X, "ti", text, number). */
#define rows_run(r, which, ...)                                       \
	({                                                            \
		sqlite3_stmt *rows_q = rows_get((r), (which));        \
		rows_q ? store_run((r)->s, rows_q, __VA_ARGS__) : -1; \
	})

/* A part of a transaction that may be undone; one at a time. Return 0 or -1. */
int rows_save(struct rows *r);
int rows_saved(struct rows *r, bool undo);

/* Find a row. Return 1, 0: there is none, or -1. */
int cluster_by_name(struct rows *r, const char *name, struct cluster_row *out);
int cluster_by_id(struct rows *r, int64_t id, struct cluster_row *out);
int cluster_by_booking(struct rows *r, const char *sha256, struct cluster_row *out);
/* The newest turn of a rank. */
int member_by_rank(struct rows *r, int64_t cluster, int64_t rank, struct member_row *out);

/* Read the row that a statement of clusters, or of members, is at. */
void cluster_read(sqlite3_stmt *q, struct cluster_row *out);
void member_read(sqlite3_stmt *q, struct member_row *out);

/* Calls fn for each member of a cluster, in the order of rank and turn, until it returns other than
 * 0. Returns that, 0, or -1. fn may run other statements. */
typedef int (*member_fn)(void *ctx, struct member_row *w);
int members_each(struct rows *r, int64_t cluster, member_fn fn, void *ctx);

/* Write what has changed of a row, within a transaction; insert sets id. Return 0 or -1. */
int cluster_insert(struct rows *r, struct cluster_row *c, const char *body);
int cluster_update(struct rows *r, const struct cluster_row *c);
int member_insert(struct rows *r, struct member_row *w);
int member_update(struct rows *r, const struct member_row *w);

#endif
