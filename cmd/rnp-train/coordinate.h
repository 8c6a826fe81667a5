/* coordinate.h - the coordinator of a run over a network, put together. A handler gets it as its
 * context.
 *
 * coordinate_open makes or finds the run in DIR/coordinate; coordinate_db keeps turns, ranges and
 * rounds; coordinate_api takes what workers say; coordinate_work hands out turns and answers long
 * polls; coordinate_close computes what a round's deltas make of the parameters; coordinate_round
 * decides when, and has records made; coordinate_print prints them. */
#ifndef RNP_TRAIN_COORDINATE_H
#define RNP_TRAIN_COORDINATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "cmd/rnp-train/flatfile.h"
#include "cmd/rnp-train/protocol.h"
#include "cmd/rnp-train/protocol_sign.h"
#include "cmd/rnp-train/rundir.h"
#include "common/base/err.h"
#include "common/lm/token/shard.h"
#include "common/lm/train/judge.h"
#include "common/lm/train/loop.h"
#include "common/lm/train/round.h"
#include "common/lm/train/shuffle.h"
#include "common/lm/train/update.h"
#include "common/net/httpd.h"
#include "common/record/policy.h"
#include "common/store/store.h"

struct coordinator_options {
	const char *model, *data, *valid, *key, *device, *registry;
	/* with registry: what its nodes have to meet; NULL: nothing */
	const struct policy *policy;
	const char *parent, *ca,
		*proxy; /* of the coordinator above; NULL: there is none */
	int64_t give_up_ms;
	int64_t workers, workers_max, rounds, inner_steps, batch, length, warmup, warm,
		fragments, overlap, eval_tokens;
	double lr, lr_min, beta1, beta2, decay, clip, outer_rate, outer_momentum;
	uint64_t seed;
	int64_t grace_ms, judge, keep_deltas;
	double score_min;
	const char *outer, *aggregate, *method, *method_down, *precision, *late;
	int64_t uusd_per_million_tokens, credits_per_million_tokens;
	const char *const *allow; /* addresses; none: anybody */
	int nallow;
	bool (*given)(const char *option);
};

/* A request for work that waits. */
struct waiter {
	struct waiter *next;
	struct httpd_request *q;
	struct httpd_reply *r;
	char node[KEY_ADDRESS_MAX];
	uint64_t round; /* waits for the parameters after this round; 0: for work */
	bool update;    /* for the update that leads to them, of q->arg */
	bool replaced;  /* the same member asks for work again */
	int64_t until_ns;
};

/* The thread that writes the model and the records of rounds that are closed; with the lock. */
struct writer {
	pthread_t thread;
	bool runs, done;
	struct err failed; /* code 0: not */
};

/* The thread that prints records; with the lock. */
struct printer {
	pthread_t thread;
	pthread_cond_t wake;
	bool wanted, ends; /* wanted: there may be something to print */
	struct err failed; /* code 0: not */
};

/* An answer that is under way before its round is on the disk: coordinate_early.c. */
struct early;

/* A delta's record that came before the last pieces of its container: coordinate_delta.c. */
struct held;

struct coordinator {
	struct coordinator_options o;
	struct training run;
	char *run_text; /* the signed record */
	struct key key;
	char *dir; /* DIR/coordinate */
	struct rundir hold;
	struct lm_token *token;
	struct lm_shards data, valid;
	struct shuffle shuffle;
	struct dev d;        /* for validation */
	struct dev cpu;      /* of the round's thread: containers */
	struct lm_loop eval; /* open where there is --valid */
	struct protocol_nonces *nonces;

	struct dev check; /* for containers that arrive, one at a time */
	pthread_mutex_t check_lock;
	pthread_mutex_t pieces_lock; /* coordinate_pieces.h: of files, and */
	uint64_t pieces_closed; /* the turn whose pieces are being checked; 0: none */
	struct held *held;      /* with pieces_lock: one a turn at most */
	struct httpd *server;
	struct parent *parent;       /* coordinate_parent.h; NULL: none */
	int64_t post_ns;             /* receipts are posted again from then on */
	_Atomic uint64_t data_bytes; /* of text, that were sent */

	/* Everything below is held by lock. */
	pthread_mutex_t lock;
	pthread_cond_t wake; /* of the round's thread */
	struct store db;
	struct round r;          /* who works on what */
	uint64_t round;          /* that is open or gathers, from 1: r.number + 1 */
	char base[PROTOCOL_HEX]; /* of pub */
	uint64_t tokens;         /* counted so far */
	struct outer_dn dn;
	int64_t opened_ms;   /* time of day at which the round was opened; 0: not yet */
	struct heard *heard; /* [heard_cap] by member's number: coordinate_work.c */
	size_t heard_cap;
	int64_t took_max_ms; /* the longest turn that was delivered since the start */
	/* bytes at the sockets up to the last round */
	uint64_t was_sent, was_received, was_data;
	/* of the last round that was closed here, and sums since the start, for /metrics */
	int64_t loss_micronats, valid_micronats; /* -1: none yet */
	uint64_t counted, counted_total, dropped_total;
	bool over, stop;
	struct waiter *waiters;
	int nwaiters, nupdates; /* of them: that wait for work or a base; for an update */
	struct err failed;      /* code 0: not */
	struct writer writer;
	struct printer printer;
	uint64_t refused;

	/* coordinate_early.h */
	pthread_mutex_t early_lock;
	struct early *early;  /* answers that were begun before their round's end */
	uint64_t early_round; /* that is not committed yet; 0: none */
};

/* Opens a run, new or not. Returns 0, or -1 with err_set(). Close either way. */
int coordinate_open(struct coordinator *g, const struct coordinator_options *o);
void coordinate_close_all(struct coordinator *g);

/* The name of a set of shards: the hash of their digests. */
void coordinate_digest(const struct lm_shards *set, char hex[PROTOCOL_HEX]);

/* --- coordinate_start.c --------------------------------------------------------------------- */

#define COORDINATE_STATE_METHOD "bf16"

/* Where the model's directory has the checkpoint of a run on one machine, g->run begins after it, and
 * AdamW's state lies in g->dir. Before the run is signed. Returns 0, or -1 with err_set(). */
int coordinate_start(struct coordinator *g);

/* Names of files in g->dir; the result is freed by the caller. */
char *coordinate_path(const struct coordinator *g, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* --- coordinate_round.c --------------------------------------------------------------------- */

/* Closes rounds when it is time, answers long polls, until g->stop or the last round. To be run on a
 * thread of its own. */
void *coordinate_rounds(void *g);

/* --- coordinate_record.c -------------------------------------------------------------------- */

struct turn;
struct closed;

/* Facts of the record of a round that was closed and computed, for the database; with the lock. */
json_t *coordinate_facts(struct coordinator *g, const struct turn *all, size_t n,
	const struct closed *x);
/* Makes and signs the records of rounds that were closed and have none, for the database; they are printed
 * then. Returns 0, or -1 with err_set(). */
int coordinate_records(struct coordinator *g);

/* --- coordinate_print.c --------------------------------------------------------------------- */

/* Prints records of rounds, and receipts, on a thread of its own, until the end, which waits until all are
 * printed. Both return 0, or -1 with err_set(): of the end, also what went wrong before it. */
int coordinate_print_begin(struct coordinator *g);
int coordinate_print_end(struct coordinator *g);
/* With the lock: there may be something to print. */
void coordinate_print(struct coordinator *g);

/* --- coordinate_close.c --------------------------------------------------------------------- */

/* A delta of a closed round, in the order of members: addresses, then turns. */
struct counted {
	uint64_t turn, member, round, weight_tokens, bytes;
	char node[KEY_ADDRESS_MAX], sha256[PROTOCOL_HEX];
	double norm, weight;
	int64_t cosine_ppm;
	bool copied;
	/* of judging */
	uint64_t first, sequences;
	struct judge_losses losses;
	enum judge_verdict verdict;
	bool judged, refused;
};

/* Of a round that ends a turn of the parent. */
struct climbed {
	bool ends, counted, over; /* over: the parent's run */
	/* away: nobody answers, and the group trains on; again: over the turn's text once more */
	bool away, again;
	int64_t loss_first, loss_last, ms;
	uint64_t round; /* of the parent, that its parameters are behind */
	char model[PROTOCOL_HEX];
	struct assignment next;
};

struct closed {
	struct counted *c; /* [k], borrowed; after them those that judging refused */
	size_t k, refused;
	char model[PROTOCOL_HEX];
	uint64_t update_bytes;
	double d_norm, theta_norm;
	struct outer_dn dn;
	struct climbed up;
};

/* The arrays that the run has, by names of files; ends with NULL. */
#define COORDINATE_ARRAYS 7
void coordinate_arrays(const struct coordinator *g,
	const char *names[COORDINATE_ARRAYS + 1]);

/* Computes round g->round from deltas x->c into new files, all of them on the disk when it returns,
 * and fills in the rest of x. live: members now. Returns 0, or -1 with err_set(); what is in use is
 * untouched. */
int coordinate_compute(struct coordinator *g, struct closed *x, uint32_t live);

/* --- coordinate_judge.c --------------------------------------------------------------------- */

/* Judges --judge deltas of x->c, and moves those that do not count behind the others. Returns 0, or
 * -1 with err_set(). */
int coordinate_judge(struct coordinator *g, struct closed *x);

/* Writes pub as the model that others read. */
int coordinate_export(struct coordinator *g);

/* --- coordinate_work.c ---------------------------------------------------------------------- */

/* The time of r's events: milliseconds of a clock that does not go back. */
int64_t coordinate_now(const struct coordinator *g);

/* With the lock: the number of a member, who was just heard of; -1: it is none. */
int64_t coordinate_member(struct coordinator *g, const char *node);
/* With the lock: makes a node a member of the round, or takes its speed. Returns 0, or -1. */
int coordinate_join(struct coordinator *g, const char *node, const char *facts,
	uint64_t speed);
/* With the lock: a member leaves; its text is handed out again. */
int coordinate_leave(struct coordinator *g, const char *node);

/* With the lock: the turn after the one that a member works on, if it is given ahead. Returns 0 with
 * the record of an assignment, or NULL: there is none at present; 1: the node is no member; -1. */
int coordinate_assign_ahead(struct coordinator *g, const char *node, json_t **record);

/* With the lock: a member's rnp.member record, not signed yet. */
json_t *coordinate_member_record(struct coordinator *g, const char *node);

/* With the lock: answers the requests that wait, those that may have a turn and those that waited
 * long enough. Returns 0, or -1 with err_set(): the database. */
int coordinate_answer(struct coordinator *g);
/* Refuses the records that were held for so long; all: every one. From any thread. */
void coordinate_refuse_held(struct coordinator *g, int64_t now_ns, bool all);
/* Counts them. */
size_t coordinate_held(struct coordinator *g);
/* The monotonic time at which the next waiting request has waited long enough; INT64_MAX: nobody waits. */
int64_t coordinate_next_answer(const struct coordinator *g);
/* With the lock: members that were not heard of for longer than what they do takes have left; their text is
 * handed out again. Returns 0, or -1 with err_set(): the database. */
int coordinate_miss(struct coordinator *g);
/* With the lock: a member has delivered its turn. */
struct turn;
void coordinate_took(struct coordinator *g, const struct turn *t);
/* With the lock: receipts for what was counted and has none, of a node or (NULL) of all. */
int coordinate_receipts(struct coordinator *g, const char *node);

/* --- coordinate_api.c ----------------------------------------------------------------------- */

extern const struct httpd_route coordinate_routes[];
/* Answers with the update from these parameters, or 404. From any thread. */
void coordinate_reply_update(const struct coordinator *g, struct httpd_reply *r,
	const char *hash);
void coordinate_metrics(void *g, struct buf *out);

#endif
