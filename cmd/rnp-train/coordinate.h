/* coordinate.h - the coordinator of a run over a network, put together. A handler gets it as its
 * context.
 *
 * coordinate_open makes or finds the run in DIR/coordinate; coordinate_db keeps turns, ranges and
 * rounds; coordinate_api takes what workers say; coordinate_work hands out turns and answers long
 * polls; coordinate_close computes what a round's deltas make of the parameters; coordinate_round
 * decides when, and writes records. */
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
#include "common/lm/train/loop.h"
#include "common/net/httpd.h"
#include "common/store/store.h"

struct coordinator_options {
	const char *model, *data, *valid, *key, *device;
	int64_t workers, workers_max, rounds, inner_steps, batch, length, warmup,
		eval_tokens;
	double lr, lr_min, beta1, beta2, decay, clip, outer_rate, outer_momentum;
	uint64_t seed;
	const char *outer, *method, *method_down, *precision, *late;
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
	int64_t until_ns;
};

struct coordinator {
	struct coordinator_options o;
	struct training run;
	char *run_text; /* the signed record */
	struct key key;
	char *dir; /* DIR/coordinate */
	struct rundir hold;
	struct lm_token *token;
	struct lm_shards data, valid;
	struct dev d;        /* of the round's thread: containers, validation */
	struct lm_loop eval; /* open where there is --valid */
	struct protocol_nonces *nonces;

	struct dev check; /* for containers that arrive, one at a time */
	pthread_mutex_t check_lock;

	/* Everything below is held by lock. */
	pthread_mutex_t lock;
	pthread_cond_t wake; /* of the round's thread */
	struct store db;
	uint64_t round, step,
		next; /* round that is open, from 1; next: sequence never given */
	char base[PROTOCOL_HEX]; /* of pub */
	uint64_t tokens;         /* counted so far */
	int64_t opened_ns,
		first_ns; /* monotonic: of the round, of its first delta (0: none) */
	int64_t opened_ms;
	bool closing, over, stop;
	struct waiter *waiters;
	int nwaiters;
	struct err failed; /* code 0: not */
	uint64_t refused;
};

/* Opens a run, new or not. Returns 0, or -1 with err_set(). Close either way. */
int coordinate_open(struct coordinator *g, const struct coordinator_options *o);
void coordinate_close_all(struct coordinator *g);

/* Names of files in g->dir; the result is freed by the caller. */
char *coordinate_path(const struct coordinator *g, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* --- coordinate_round.c --------------------------------------------------------------------- */

/* Closes rounds when it is time, answers long polls, until g->stop or the last round. To be run on a
 * thread of its own. Writes records to standard output. */
void *coordinate_rounds(void *g);
/* Writes records of rounds that were closed and not written, as behind a kill. */
int coordinate_records(struct coordinator *g);

/* --- coordinate_close.c --------------------------------------------------------------------- */

/* A delta that counts, in the order of members. */
struct counted {
	uint64_t turn, tokens;
	char node[KEY_ADDRESS_MAX];
	double norm, weight, cosine;
};

struct closed {
	char model[PROTOCOL_HEX];
	uint64_t update_bytes;
	double outer_norm, theta_norm;
};

/* Computes round g->round from its deltas into new files, all of them on the disk when it returns.
 * Fills in weight and cosine. Returns 0, or -1 with err_set(); what is in use is untouched. */
int coordinate_compute(struct coordinator *g, struct counted *c, size_t k,
	struct closed *out);

/* Writes pub as the model that others read. */
int coordinate_export(struct coordinator *g);

/* --- coordinate_work.c ---------------------------------------------------------------------- */

/* With the lock: the record of the turn that a member may work on now, made where it has none; NULL:
 * none at present. Returns 0, or -1 with err_set(). */
int coordinate_assign(struct coordinator *g, const char *node, json_t **record);
/* Answers the requests that wait: those that may have a turn, and those that waited long enough. */
void coordinate_answer(struct coordinator *g);
/* The monotonic time at which the next of them has waited long enough; INT64_MAX: nobody waits. */
int64_t coordinate_next_answer(const struct coordinator *g);
/* Whether a node is a member. */
bool coordinate_is_member(struct coordinator *g, const char *node);
/* With the lock: receipts for what was counted and has none, of a node or (NULL) of all. */
int coordinate_receipts(struct coordinator *g, const char *node);

/* --- coordinate_api.c ----------------------------------------------------------------------- */

extern const struct httpd_route coordinate_routes[];
void coordinate_metrics(void *g, struct buf *out);

#endif
