/* worker.h - the parts of a worker. join.c asks for work (ask.c); params.c gets the parameters that
 * an assignment begins with, data.c its text; turn.c trains, or stream.c, which trains on while
 * deltas are under way; deliver.c sends the delta, and persist.c makes all of it durable meanwhile.
 */
#ifndef RNP_TRAIN_WORKER_WORKER_H
#define RNP_TRAIN_WORKER_WORKER_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

#include "cmd/rnp-train/worker/client.h"
#include "cmd/rnp-train/worker/state.h"
#include "common/base/err.h"
#include "common/lm/token/shard.h"
#include "common/lm/train/loop.h"
#include "common/lm/train/shuffle.h"

struct worker_options {
	const char *url, *data, *state, *key, *device, *ca, *proxy;
	int64_t micro, every, give_up_ms, up_max, down_max, disk, quota;
	bool once, plan, mpi;
};

/* persist.c: what is becoming durable on a thread of its own. */
#define PERSIST_FILES 4
struct persisting {
	struct flatfile files[PERSIST_FILES];
	int n;
	char *container; /* a file beside them that is to be flushed, too; NULL: none */
	pthread_t thread;
	bool runs;
	struct err failed; /* code 0: not */
};

/* A connection that deltas go over, from one assignment to the next. */
struct uplink {
	struct client client;
	struct net_bytes counted; /* bytes that the worker's client has counted */
};
#define UPLINKS_KEPT 4 /* while nothing is sent: a coordinator has so many sockets */

/* data.c: the text. */
struct worker_text {
	struct lm_shards shards; /* open where the text is on this machine */
	struct shuffle shuffle;
	bool by_assignment; /* each assignment's text is fetched into `now`: */
	struct buf now;     /* sequences from `first` on */
	uint64_t first;
	struct buf next; /* of the assignment after it, for stream.c */
};

/* data.c: what --quota counts. */
struct worker_quota {
	uint64_t counted; /* bytes that the month's count has already */
	int64_t last; /* bytes of the month when the last assignment began; 0: none did */
};

/* ranks.c: the processes that train as this worker. */
struct worker_group {
	struct ddp *ranks; /* NULL: a single process, of rank 0 and size 1 */
	int rank, size, gpus;
	int local; /* ranks of this machine, all of them with --mpi and several --device */
	bool apart; /* a rank failed alone: the ranks are in different places */
	bool alike; /* the last failure was the same on all ranks */
};

/* deliver.c: the delta that is sent. */
struct upload;
struct worker_delivery {
	struct uplink *uplinks; /* [CLIENT_CONNECTIONS_MAX]; NULL: nothing was sent yet */
	uint64_t body_bytes;    /* that a PUT may carry; 0: not known yet */
	struct upload *upload;  /* of worker_deliver_begin; NULL: none */
	/* the turn whose delta this process made and has not begun to send; 0: there is none */
	uint64_t made;
	bool dropped; /* the last delta does not count: its turn was over */
	int rejected; /* deltas in a row that the coordinator found wrong */
};

/* turn.c: what was trained. */
struct worker_work {
	uint64_t tokens;       /* of all assignments, also of those not kept yet */
	uint64_t tokens_per_s; /* measured; 0: not yet */
	bool waiting;          /* ask.c: there may be no work at once */
	char waits[200]; /* ask.c: what the coordinator waited for, as it was said last */
	/* time of the present assignment that went neither into steps nor into transfers */
	int64_t overhead_ns;
};

/* Each part below belongs to the file that its struct names; the others are read by all.
 *
 * Threads: the main thread owns a worker. Beside it run, each until the main thread has joined it,
 * - persist.c's, which has `persisting` and `state` between worker_persist and worker_persisted;
 * - stream.c's, which has `coder`, `client`, `state`, `delivery` and `text.next` meanwhile;
 * - deliver.c's, one a connection, which have their uplink, and read `run` and `key`.
 * There is one lock, that of struct upload in deliver.c, over which pieces are taken; no other is
 * taken with it. `stopped` is atomic. */
struct worker {
	struct worker_options o;
	struct training run;
	struct key key;
	bool own_key; /* made for this run: nobody pays for it */
	struct client client;
	struct join_state state;
	json_t *record; /* of the run */
	struct dev d;
	struct dev coder; /* streaming: the CPU, for containers while d makes steps */
	struct lm_loop loop;
	const _Atomic int *stopped; /* set by a signal; other threads look, too */
	uint64_t update_bytes;      /* of the last update; 0: none yet */
	struct persisting persisting;
	struct worker_text text;
	struct worker_quota quota;
	struct worker_group group;
	struct worker_delivery delivery;
	struct worker_work work;
};

#define WORKER_INIT                                                                   \
	{                                                                             \
		.d = DEV_INIT, .coder = DEV_INIT, .group = { .size = 1, .local = 1 }, \
		.loop = LM_LOOP_INIT, .key = KEY_INIT, .client = {                    \
			.http = HTTP_INIT                                             \
		}                                                                     \
	}

/* Opens all of w but its text and its loop, from w->o: signals, the run, the state (in `below` of
 * its place; NULL: there), key and device. Returns 0, or -1 with err_set(). Close either way. */
int worker_open(struct worker *w, const char *below);
void worker_close(struct worker *w);
/* For a process that is a coordinator, too: the run, and the state in w->o.state, with what the
 * process has already, all of it borrowed; no device. Returns 0, or -1 with err_set(). */
int worker_open_as(struct worker *w, const struct key *key,
	const struct http_abort *abort, const _Atomic int *stopped);

/* Becomes a member. Returns 0; 1: the run is over; -1. */
int worker_join(struct worker *w);
/* Waits until a round, from 1, is closed. Returns 0 and the parameters after it; 1: stopped; 2:
 * join again; -1. */
int worker_wait_round(struct worker *w, uint64_t round, char base[PROTOCOL_HEX],
	uint64_t *version);
/* Watches SIGTERM and SIGINT, and with ranks SIGUSR1, which mpirun passes on. Returns 0, or -1 with
 * err_set(). */
int worker_watch(struct worker *w);
/* The signal that came; 0: none. */
int worker_stop_signal(void);

/* The options of a loop whose passes have `rows` sequences; text as worker_read_text. */
void worker_loop_options(struct worker *w, uint64_t rows, struct lm_loop_options *l);

/* Makes the parameters with this hash, those after `version` rounds, the worker's own. It applies
 * updates to the parameters that are here, one after the other; where that does not lead to them,
 * it fetches all parameters. They are durable after worker_persisted. Returns 0; 1: the coordinator
 * does not have them any more (ask for work again); -1 with err_set(): 65 what came does not fit
 * its hash, 74, 75. */
int worker_fetch_params(struct worker *w, const char params_hash[PROTOCOL_HEX],
	uint64_t version);

/* Applies the update from the parameters that are here. Returns 0; 1: the coordinator has none; -1
 * as above. */
int worker_apply_update(struct worker *w);

/* Holds the run against --disk and the memory that is free, and decides where the text comes from;
 * with --plan only says it. Returns 0, or -1 with err_set(): 65 it is too large. */
int worker_plan(struct worker *w, const struct lm_train_options *o);
/* Holds the memory that is free against all ranks that share it; every rank calls it, and fails
 * where the memory of any does not suffice. Returns 0, or -1 with err_set(): 65 the run is too
 * large, with w->alike; as ddp_allgather. */
int worker_plan_ranks(struct worker *w, const struct lm_train_options *o);

/* Opens the text, or fetches it. Returns 0, or -1 with err_set(). */
int worker_open_data(struct worker *w);
/* Fetches the text of a turn into text, where it is not here. */
int worker_get_text(struct worker *w, const struct assignment *a, struct buf *text);
/* lm_sequence_fn over it; arg: the worker. */
int worker_read_text(void *arg, uint64_t n, uint32_t *ids);

/* Counts what was carried this month; *bytes out. Returns 0, or -1 with err_set(EX_IOERR). */
int worker_count_bytes(struct worker *w, int64_t *bytes);
/* Before a turn: counts for --quota. Returns 0, or -1 with err_set(EX_TEMPFAIL): it is used up, or
 * has no room for another turn. */
int worker_quota(struct worker *w);

/* Holds the BLAKE2b-256 of a file that came against its name. Returns 0, or -1 with err_set(). */
int worker_check_file(const char *path, const char hash[PROTOCOL_HEX]);

/* Asks for a turn, or (ahead) for the one after the present. Returns 0 and a; 1: there is none yet;
 * 2: join again; -1. */
int worker_ask(struct worker *w, bool ahead, struct assignment *a);

/* Streaming: turns one after the other while deltas and updates are under way, as long as there is
 * one. As worker_train and worker_deliver. Returns also 2: join again. */
int worker_stream(struct worker *w);

/* --- turn.c, for stream.c too ------------------------------------------------------- */

/* Arrays NAME-NUMBER.f32 of the state, opened, made, and to the trainer. */
int worker_open_array(const struct worker *w, struct flatfile *f, const char *name,
	uint64_t number);
int worker_make_array(const struct worker *w, struct flatfile *f, const char *name,
	uint64_t number);
int worker_load_array(struct worker *w, enum lm_state what, const char *name,
	uint64_t number);
/* AdamW's state for a turn that follows the last one kept. */
int worker_load_adam(struct worker *w, const struct assignment *a);
/* The loop's place: steps and sequences of the turn. */
void worker_set_place(struct worker *w, const struct assignment *a);
/* Makes a turn's steps; before step i, before(arg, i). Returns 0 and the facts in d; 1: stopped;
 * -1. */
int worker_make_steps(struct worker *w, const struct assignment *a, struct delta *d,
	int (*before)(void *arg, uint64_t i), void *arg);
/* Whether what a method leaves out goes with a later turn. */
bool worker_has_residual(const char *method);
/* The residual of the last turn, copied into a file of the next number: encoding changes it. */
int worker_copy_residual(struct worker *w, struct flatfile *residual);
/* Writes a finished assignment into w->state: its delta is pending, AdamW has made adam_steps steps
 * in all, and the residual, if there is one, is the newest. The caller makes the state durable. */
void worker_state_delta(struct worker *w, const struct delta *d, uint64_t adam_steps,
	bool residual);

/* A delta is kept, which was begun then: says what the turn took beside its steps and transfers. */
void worker_count_beside(struct worker *w, int64_t from_ns);

/* Trains a turn and makes its delta durable. Returns 0; 1: stopped before its end; -1. */
int worker_train(struct worker *w, const struct assignment *a);

/* --- persist.c ------------------------------------------------------------------------------ */

/* Gives the n files their names, and begins to make them and then w->state durable on a thread;
 * they are closed in any case. Until worker_persisted nobody changes w->state or makes other files
 * of it. Returns 0, or -1 with err_set(). */
int worker_persist(struct worker *w, struct flatfile *files, int n);
/* Waits until what worker_persist began is durable. Returns 0, or -1 with err_set(): it is not, and
 * never will be; state.json still says what it said before. */
int worker_persisted(struct worker *w);

/* Sends the delta that is pending. Returns 0: it is delivered, or nobody wants it any more; -1. */
int worker_deliver(struct worker *w);
/* Begins to send the container of a delta that will be pending, where that is possible;
 * worker_deliver goes on with it. Its record is sent there. Returns 0, or -1 with err_set(). */
int worker_deliver_begin(struct worker *w, const struct delta *d);
/* Ends what was begun, and is not to be gone on with. */
void worker_deliver_drop(struct worker *w);

#endif
