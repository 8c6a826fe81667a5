/* coordinator.h - the coordinator of a run over a network, put together. A handler gets it as its
 * context.
 *
 * coordinate_open makes or finds the run in DIR/coordinate; coordinate_db keeps turns, ranges and
 * rounds; coordinate_api takes what workers say; coordinate_work hands out turns and answers long
 * polls; coordinate_close computes what a round's deltas make of the parameters; coordinate_round
 * decides when, and has records made; coordinate_print prints them. */
#ifndef RNP_TRAIN_COORDINATOR_COORDINATOR_H
#define RNP_TRAIN_COORDINATOR_COORDINATOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "cmd/rnp-train/wire/flatfile.h"
#include "cmd/rnp-train/wire/protocol.h"
#include "cmd/rnp-train/wire/sign.h"
#include "cmd/rnp-train/wire/rundir.h"
#include "common/base/err.h"
#include "common/lm/token/shard.h"
#include "common/lm/rounds/judge.h"
#include "common/lm/rounds/sketch.h"
#include "common/lm/train/loop.h"
#include "common/lm/rounds/round.h"
#include "common/lm/train/shuffle.h"
#include "common/lm/rounds/update.h"
#include "common/httpd/httpd.h"
#include "common/record/policy.h"
#include "common/store/store.h"

#define JUDGE_TENTH (-1) /* a tenth of a round's deltas, rounded up */

struct coordinator_options {
	const char *model, *data, *valid, *key, *device, *registry;
	/* with registry: what its nodes have to meet; NULL: nothing */
	const struct policy *policy;
	const char *parent, *ca,
		*proxy; /* of the coordinator above; NULL: there is none */
	int64_t give_up_ms;
	int64_t workers, workers_max, per_address, rounds, inner_steps, batch, length,
		warmup, warm, fragments, overlap, eval_tokens;
	double lr, lr_min, beta1, beta2, decay, clip, outer_rate, outer_momentum;
	uint64_t seed;
	int64_t grace_ms, keep_deltas;
	int64_t judge; /* deltas of a round; JUDGE_TENTH */
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

/* The open round and what the database says of the run; all of it with lock. */
struct rounds {
	pthread_mutex_t lock;
	pthread_cond_t wake; /* of the round's thread */
	struct store db;
	struct round r; /* who works on what */
	uint64_t round; /* that is open or gathers, from 1: r.number + 1 */
	char params_hash[PROTOCOL_HEX]; /* of published, that the round begins with */
	uint64_t tokens;                /* counted so far */
	struct outer_dn dn;
	int64_t opened_ms; /* time of day at which the round was opened; 0: not yet */
	bool over, stop;
	struct err failed; /* code 0: not */
};

/* Deltas that arrive. */
struct intake {
	struct dev check; /* with check_lock: for containers, one at a time */
	pthread_mutex_t check_lock;
	pthread_mutex_t pieces_lock;
	struct upload *uploads; /* with pieces_lock: pieces.c */
	/* when there was no room for a piece; 0: the last was taken */
	_Atomic int64_t full_ns;
	uint64_t sketch_seed; /* of this key and run: nobody else knows it */
};

/* Requests that wait for an answer; with rounds.lock. */
struct waiting {
	struct waiter *first;
	int n;
};

/* Of a member, since the start. */
struct heard {
	int64_t at;      /* when it was heard of, as the round's times */
	int64_t took_ms; /* the longest turn that it delivered */
	uint64_t from;   /* whose place it has: httpd_client_group; 0: not known */
};

/* When members were heard of, since the start; with rounds.lock. */
struct activity {
	struct heard *heard; /* [cap] by member's number: work.c */
	size_t cap;
	int64_t took_max_ms; /* the longest turn that was delivered */
	char said[200]; /* waits.c: what the run waited for when that was said last */
};

/* What is written behind a round; with rounds.lock. */
struct printing {
	struct printer printer;
	struct writer writer;
};

/* For /metrics and the records of rounds; with rounds.lock. */
struct figures {
	/* bytes at the sockets up to the last round */
	uint64_t was_sent, was_received, was_data;
	/* of the last round that was closed here, and sums since the start */
	int64_t loss_micronats, valid_micronats; /* -1: none yet */
	uint64_t counted, counted_total, dropped_total, judged_total;
	int64_t judging_ns; /* since the start */
	uint64_t refused;
	_Atomic uint64_t data_bytes; /* of text, that were sent; without the lock */
};

/* Whoever holds more than one lock has taken them in this order:
 *
 *     intake.check_lock, rounds.lock, the lock of one upload (pieces.c), intake.pieces_lock
 *
 * No thread takes two uploads' locks. */
struct coordinator {
	/* set while the run is opened, before there are threads */
	struct coordinator_options o;
	struct training run;
	char *run_text; /* the signed record */
	struct key key;
	char *dir; /* DIR/coordinate */
	struct rundir hold;
	struct lm_token *token;
	struct lm_shards data, valid;
	struct shuffle shuffle;
	struct nonces *nonces; /* has a lock of its own */
	struct httpd *server;
	struct parent *parent; /* parent.h; NULL: none */
	int64_t post_ns; /* of the main thread: receipts are posted again from then on */

	/* of the thread that closes rounds, and of the one that writes the last round's record */
	struct dev cpu;      /* containers */
	struct dev d;        /* validation and judging */
	struct lm_loop eval; /* open where there is --valid or --judge */

	struct rounds rounds;
	struct intake intake;
	struct waiting waiting;
	struct activity activity;
	struct printing printing;
	struct figures figures;
};

/* Opens a run, new or not. Returns 0, or -1 with err_set(). Close either way. */
int coordinate_open(struct coordinator *g, const struct coordinator_options *o);
void coordinate_close_all(struct coordinator *g);

/* --- start.c --------------------------------------------------------------------- */

#define COORDINATE_STATE_METHOD "bf16"

/* Where the model's directory has the checkpoint of a run on one machine, g->run begins after it,
 * and AdamW's state lies in g->dir. Before the run is signed. Returns 0, or -1 with err_set(). */
int coordinate_start(struct coordinator *g);

/* --- round.c --------------------------------------------------------------------- */

/* Closes rounds when it is time and answers long polls, until rounds.stop or the last round. To be
 * run on a thread of its own. */
void *coordinate_rounds(void *g);

/* --- waits.c --------------------------------------------------------------------- */

/* With the lock: appends what the run waits for, where that is workers, as a sentence without its
 * full stop; nothing where it waits for none. */
void coordinate_waits(struct coordinator *g, struct buf *out);
/* With the lock, which it lets go of meanwhile: says on standard error when that has changed. */
void coordinate_say_waits(struct coordinator *g);

/* --- record.c -------------------------------------------------------------------- */

struct turn;
struct closed;

/* Facts of the record of a round that was closed and computed, for the database; with the lock. */
json_t *coordinate_facts(struct coordinator *g, const struct turn *all, size_t n,
	const struct closed *x);
/* Makes and signs the records of rounds that were closed and have none, for the database; they are
 * printed then. Returns 0, or -1 with err_set(). */
int coordinate_records(struct coordinator *g);

/* --- print.c --------------------------------------------------------------------- */

/* Prints records of rounds, and receipts, on a thread of its own, until the end, which waits until
 * all are printed. Both return 0, or -1 with err_set(): of the end, also what went wrong before
 * it. */
int coordinate_print_begin(struct coordinator *g);
int coordinate_print_end(struct coordinator *g);
/* With the lock: there may be something to print. */
void coordinate_print(struct coordinator *g);

/* --- close.c --------------------------------------------------------------------- */

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
	bool drawn; /* to be judged */
	bool judged, refused;
	/* of its member, after this turn; final: it is the member's last of the round */
	struct judge_block block;
	enum judge_pay pay;
	bool final;
};

/* Of a round that ends a turn of the parent. */
struct parent_sync {
	bool ends, counted, over; /* over: the parent's run */
	/* away: the parent did not answer, and the group trains on; again: the group has used up
	 * the turn's text and begins it anew */
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
	int64_t judging_ns; /* that judging took, of njudged deltas */
	size_t njudged;
	struct outer_dn dn;
	struct parent_sync up;
	float sketch[SKETCH_N]; /* of the update */
};

/* Computes the closed round from deltas x->c into new files, all of them on the disk when it
 * returns, and fills in the rest of x. live: members now. Returns 0, or -1 with err_set(); what is
 * in use is untouched. */
int coordinate_compute(struct coordinator *g, struct closed *x, uint32_t live);

/* --- judge.c --------------------------------------------------------------------- */

/* Judges the deltas of x->c that were drawn, and moves those that do not count behind the others.
 * Returns 0, or -1 with err_set(). */
int coordinate_judge(struct coordinator *g, struct closed *x);
/* After coordinate_compute: a copy speaks for no other turn, whatever it does to the loss. */
void coordinate_judge_copies(struct closed *x);

/* Writes published as the model that others read. */
int coordinate_export(struct coordinator *g);

/* --- work.c ---------------------------------------------------------------------- */

/* With the lock: the number of a member, who was just heard of; -1: it is none. */
int64_t coordinate_member(struct coordinator *g, const char *node);
/* With the lock: whether there is a place for a node that asks from this address
 * (httpd_client_group). Cheap: what is refused here is looked at no further. Returns 0, or -1 with
 * err_set(EX_TEMPFAIL). */
int coordinate_has_place(struct coordinator *g, const char *node, uint64_t from);
/* With the lock: makes a node a member of the round, or takes its speed. Returns 0, or -1 as
 * coordinate_has_place. */
int coordinate_join(struct coordinator *g, const char *node, const char *facts,
	uint64_t speed, uint64_t from);
/* With the lock: a member leaves; its text is handed out again. */
int coordinate_leave(struct coordinator *g, const char *node);

/* With the lock: the turn after the one that a member works on, if it is given ahead. Returns 0
 * with the record of an assignment, or NULL: there is none at present; 1: the node is no member;
 * -1. */
int coordinate_assign_ahead(struct coordinator *g, const char *node, json_t **record);

/* With the lock: a member's rnp.member record, not signed yet. */
json_t *coordinate_member_record(struct coordinator *g, const char *node);

/* With the lock: answers the requests that wait, those that may have a turn and those that waited
 * long enough. Returns 0, or -1 with err_set(): the database. */
int coordinate_answer(struct coordinator *g);
/* The monotonic time at which the next waiting request has waited long enough; INT64_MAX: nobody
 * waits. */
int64_t coordinate_next_answer(const struct coordinator *g);
/* With the lock: members that were not heard of for longer than what they do takes have left; their
 * text is handed out again. Returns 0, or -1 with err_set(): the database. */
int coordinate_miss(struct coordinator *g);
/* With the lock: a member has delivered its turn. */
struct turn;
void coordinate_took(struct coordinator *g, const struct turn *t);
/* With the lock: receipts for what was counted and has none, of a node or (NULL) of all. */
int coordinate_receipts(struct coordinator *g, const char *node);

/* --- api.c ----------------------------------------------------------------------- */

extern const struct httpd_route coordinate_routes[];
void coordinate_metrics(void *g, struct buf *out);

#endif
