/* sim.h - simulates a run over a network in virtual time: workers behind links, coordinators, a
 * tree of them. Rounds are those of common/lm/rounds/round.h; what workers compute and what an
 * update is come from callbacks: real steps (train.h) or only sizes. Pure except for the callbacks.
 */
#ifndef RNP_TRAIN_SIM_SIM_H
#define RNP_TRAIN_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "common/lm/rounds/round.h"

/* A kind of worker, one line of --links. */
struct sim_link {
	char name[64];
	double share; /* of the workers, divided by largest remainder */
	int64_t up_bps, down_bps;
	int64_t latency_ms; /* one way */
	int64_t loss_ppm;
	int64_t tokens_per_s;
	int64_t turn_ms; /* of a turn beside steps and transfers: parameters, delta, saving */
	int64_t up_s,
		away_s; /* mean durations of presence and absence; 0: never absent */
};

/* Reads rnp.link lines, also without a kind, from a file or "-". *links: to be freed. Returns
 * 0, or -1 with err_set(): 65 a line, 66. */
int sim_links_read(struct sim_link **links, size_t *n, const char *path);

/* Returns the bits/s that parallel connections reach on a link with losses: Mathis et al., The
 * macroscopic behavior of the TCP congestion avoidance algorithm (1997), at most the link's. */
double sim_bps(const struct sim_link *l, int64_t bps);

/* A coordinator's figures of a closed round. */
struct sim_round {
	const struct round *r; /* the closed round */
	int64_t from, to;      /* times of opening and publishing, ms */
	uint64_t workers, dropped, tokens;
	uint64_t received,
		sent; /* bytes on its links in this round, without the parent's */
	int64_t compute_ppm; /* fraction of the counted workers' time from assignment to publish */
};

struct sim_callbacks {
	/* A worker of the root does this work: returns the bytes of its container, or -1.
	 * Called when the work is assigned, with the parameters of that turn. */
	int64_t (*work)(void *arg, uint64_t worker, const struct round_assignment *a);
	/* Turns the closed round's deltas into an update: returns its bytes, or -1. May call
	 * round_refuse. */
	int64_t (*update)(void *arg, struct round *r, const uint64_t *worker_of);
	/* Called after publish, only for the root. Returns 0, or -1 to end with an error; *end:
	 * stop. */
	int (*report)(void *arg, const struct sim_round *s, bool *end);
	void *arg;
};

struct sim_options {
	struct round_policy policy;
	uint64_t first_sequence, warm;
	uint64_t workers;
	/* worker i has the link at its position in their shares */
	const struct sim_link *links;
	size_t nlinks;
	uint64_t rounds, seed;
	int64_t server_up_bps, server_down_bps; /* of each coordinator */
	/* size of all parameters, as a joiner fetches them */
	uint64_t whole_bytes;
	/* time of an outer step: a fixed part, and one for each byte of the deltas; ns */
	double update_ns, update_ns_byte;
	uint64_t groups, group_rounds; /* 0: a star */
	const struct sim_link *trunk;  /* from a group to the root */
};

struct sim_totals {
	int64_t ms;
	uint64_t rounds, tokens, joins;
	uint64_t received, sent;           /* bytes on the root's links */
	uint64_t near_received, near_sent; /* bytes between groups and their workers */
	uint64_t events;
	double compute_ms, present_ms;
};

/* The link of worker i: each has its share of them. */
const struct sim_link *sim_link_of(const struct sim_options *o, uint64_t i);

/* Runs the simulation. Returns 0, or -1 with err_set(): a callback's, or 75: no event is left. */
int sim_run(const struct sim_options *o, const struct sim_callbacks *c,
	struct sim_totals *out);

#endif
