/* agent_parts.h - what the files of the agent share; not for callers. */
#ifndef RNP_REGISTER_AGENT_AGENT_PARTS_H
#define RNP_REGISTER_AGENT_AGENT_PARTS_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "cmd/rnp-register/agent/agent.h"
#include "cmd/rnp-register/agent/assignment.h"
#include "cmd/rnp-register/agent/images.h"
#include "cmd/rnp-register/agent/journal.h"
#include "cmd/rnp-register/agent/process.h"
#include "cmd/rnp-register/market/sshkey.h"

#define AGENT_LEASES_MAX 64
#define AGENT_REFUSED    64
#define AGENT_FIRST_ID   UINT32_C(0x10000000) /* users of slot 0; each has so many: */
#define AGENT_IDS        UINT32_C(65536)
#define AGENT_LABEL      "rnp.lease"
#define AGENT_LOG_MAX    ((int64_t)64 << 20) /* of a container, on its disk */

struct agent;

/* A lease that runs. */
struct lease {
	struct agent *agent;
	struct lease_row row; /* its thread's alone once that runs */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	char *news; /* what the registry says now, as text; NULL: nothing new; under lock */
	bool vanished; /* the registry lists it no more; under lock */
	/* until then it sends what its job kept at the end, though it is to end; 0: it does not;
	 * under lock */
	int64_t last_until_ns;
	_Atomic int over;
	struct http_abort abort; /* of what it sends and fetches while it is wanted */

	/* of its thread alone */
	json_t *entry; /* what now is read from */
	struct assignment now;
	bool ends;    /* vanished, as its thread has seen it */
	bool doubted; /* that the registry names others than the booking was said */
	struct engine *engine;
	struct http http;
	struct engine_log log;
	int gate;          /* the container's, open; -1 */
	struct buf unsent; /* of the log */
	int64_t seen_ns;   /* when it was last seen to run; 0: does not */
	int64_t told_ns, kept_ns,
		logged_ns; /* last report, last row written, last piece of log */
	int64_t collected; /* how often its artifacts were collected when they were sent last */
	int64_t lost;          /* when they last could not be collected, likewise */
	int64_t kept_again_ns; /* they are not looked at before */
	bool kept_told;        /* that they cannot be sent */
	struct buf nodes;      /* what the container's list of ranks has */
	/* SSH (lease_session.c): its program, and what that was told; directory empty: none */
	struct process session;
	const char *argv[12];
	struct buf session_dir, session_text, program;
	json_t *gateway;
};

struct agent {
	const struct agent_config *c;
	const volatile int *stop;
	_Atomic int ends; /* the sale is over, and the last lease */
	struct journal journal;
	struct sandbox_place place;
	bool has_ssh; /* sessions can begin here, at a server with this key */
	struct sshkey host_key;
	struct images images; /* brought one after the other, under images_lock */
	pthread_mutex_t images_lock;
	struct http_abort abort; /* of everything that waits for the registry */

	/* of the thread that asks for work */
	struct lease *leases[AGENT_LEASES_MAX];
	size_t nleases;
	struct assignment_quote *quotes;
	size_t nquotes, quotes_cap;
	int64_t quotes_ns;                         /* when they were last asked for */
	char refused[AGENT_REFUSED][LEASE_ID_MAX]; /* of what was refused: said once */
	size_t nrefused;
	int64_t after; /* of the registry's list */
	int64_t cleaned_ns;
	int busy;          /* what state_to has; -1: nothing */
	bool closed;       /* nothing new is taken on (sell.h) */
	int64_t listed_ns; /* when the registry took our listing last; 0: it has none */

	pthread_mutex_t mail_lock;
	pthread_cond_t mail; /* there are events to be sent */
};

/* --- events (agent_events.c) ------------------------------------------------------------------ */

/* What an event says beside its states. */
struct event_news {
	const char *cause;              /* NULL: nothing */
	const struct engine_pull *pull; /* NULL: no pull */
	const char *artifacts;          /* name of their manifest; NULL: nothing new */
	bool exit;                      /* the run has ended, with row->exit */
	bool booked; /* it failed because of what the customer booked */
};

/* Moves a lease to a state, or tells news of the one it is in: its row and the event are on the
 * disk when this returns, and are sent by themselves. Returns 0, or -1 with err_set. */
int event_tell(struct agent *a, struct lease_row *row, enum lease_state to,
	const struct event_news *news);
int event_say(struct agent *a, struct lease_row *row, enum lease_state to,
	const char *cause);
/* The same for what was never taken on: there is no row. */
int event_refuse(struct agent *a, const struct assignment *as, enum lease_state to,
	const char *cause);

/* Says what this node sells, where it was not said lately (agent_listing.c). */
void listing_tell(struct agent *a, struct http *http);
/* Looks whether its operator has ended the sale, or begun it again. */
void listing_look_closed(struct agent *a);
/* Says how it stands; away: the registry is. */
void listing_tell_stand(const struct agent *a, bool away);
/* Whether the sale has ended and nothing is left to be done. */
bool listing_is_over(struct agent *a);

/* Opens the disk for images, and says how large it is (agent_images.c). Returns 0, or -1. */
int agent_open_images(struct agent *a, const char *dir, const char *run);

/* The thread that sends events, in their order, until the registry takes or refuses them. */
void *events_thread(void *agent);

/* --- leases (lease.c, lease_files.c, lease_run.c)
 * ---------------------------------------------- */

/* Begins a lease's thread. assignment: JSON. Returns NULL with err_set. */
struct lease *lease_start(struct agent *a, const struct lease_row *row,
	const char *assignment);
/* The registry says this of it now; NULL: it lists it no more. wanted: it is to go on. */
void lease_tell(struct lease *l, const char *assignment, bool wanted);
/* Waits for its thread, and frees it. */
void lease_join(struct lease *l);

/* Takes account of news; waits for them until wait_ms are over. */
void lease_look(struct lease *l, int64_t wait_ms);
/* Whether it is to end, or we are. */
bool lease_is_ending(const struct lease *l);
bool agent_is_stopping(const struct agent *a);

/* The states, each until the next. Return 0, or -1 with err_set: the lease has failed. */
int lease_pull(struct lease *l);
int lease_begin(struct lease *l);
int lease_watch(struct lease *l);
/* Ends container, disk and network. */
int lease_remove(struct lease *l);

/* SSH. Whether this node can have it at all: returns 0, or -1 with err_set and what lacks. */
int session_prepare(struct agent *a);
/* Begins SSH of a lease whose container runs; tries: and goes the way of its customer once.
 * Returns 0, also where there is none to be had, or -1: no session begins. keep: now and then;
 * close: before the container ends. */
int lease_session_open(struct lease *l, bool tries);
void lease_session_keep(struct lease *l);
void lease_session_close(struct lease *l);

/* Files that the container sees at SANDBOX_IN. */
int lease_write_start(struct lease *l); /* before it is made */
int lease_write_go(struct lease *l);    /* all ranks are ready */
int lease_write_nodes(struct lease *l); /* who they are now, where that has changed */
void lease_forget_go(struct lease *l);  /* another run will wait again */
void lease_kick(struct lease *l);       /* whoever waits looks again */
void lease_leave_gate(struct lease *l); /* before its file goes */
/* Fetches a blob of the booking to a file or a buffer, and checks its hash. */
int lease_fetch(struct lease *l, const char *sha256, size_t max, struct buf *out);
/* lease_unpack.c: unpacks the work directory, the mounts, and what was kept of this rank before. */
int lease_unpack(struct lease *l);

/* Sends what the log has; all: to its end. */
void lease_send_log(struct lease *l, bool all);

/* lease_artifacts.c: the paths that a booking wants kept, a line each, and how often, for the
 * container; the name of what was kept of this rank before, or NULL. */
void lease_artifact_lines(struct buf *paths, struct buf *every, const struct lease *l);
const char *lease_artifacts_before(const struct lease *l);
/* Sends on what the container has collected since the last time; name: of its manifest, "" where
 * there is nothing new. It ends where the lease is to (75). Returns 0, or -1 with err_set. */
int lease_send_artifacts(struct lease *l, char name[65]);

/* The first of its users on this machine. */
uint32_t lease_first_id(const struct lease *l);
/* What one lease gets of the disk. */
int64_t lease_disk_bytes(const struct lease *l);
/* Whether what its thread does should end: for cells, with a lease as ctx. */
bool lease_is_unwanted(void *lease);

#endif
