/* parent.h - a coordinator whose group is one worker of a coordinator above (a tree): it takes
 * turns from the parent, its group trains them in as many rounds as the turn's tokens take, and
 * what came of it goes up as one delta. Uses worker/worker.h.
 *
 * The turn ends with the first round after which the group has counted as many tokens as the turn
 * has. Before that round is committed the delta, parent - theta, is delivered, and theta and the
 * array "parent" become what the parent's round made of all deltas. What is sent is kept first, in
 * the state of p->w: theta-N.f32, began-N.f32 (what the container left out) and the container, of
 * turn `unmerged`. So a kill sends the same bytes again, which the parent takes once.
 *
 * While nobody answers, the round is closed without the parent, and the group trains on, over the
 * turn's text again. What it learns beyond the delta that was kept stays in theta: the parameters
 * become P' + (theta now - theta when sent), and the difference goes with the next delta. */
#ifndef RNP_TRAIN_COORDINATOR_PARENT_H
#define RNP_TRAIN_COORDINATOR_PARENT_H

#include "cmd/rnp-train/coordinator/coordinator.h"
#include "cmd/rnp-train/worker/worker.h"

struct parent {
	struct worker w; /* the group, as the parent sees it */
	struct http_abort abort;
	_Atomic int stopped;
	struct assignment a; /* the turn that the group works on */
	uint64_t began;      /* the group's round in which it began */
	int64_t began_ms;
	/* for the page, too: since when nobody answers, as time of day; 0: somebody does */
	_Atomic int64_t away_ms;
	int64_t tried_ns; /* the end of the last try then */
};

/* Reads the parent's run, and takes seed, length and rounds from it; after the text and the key.
 * mine: of the model. Returns 0, or -1 with err_set(): as `join`; 64, 65 the two runs do not go
 * together. */
int coordinate_parent_open(struct coordinator *g, const struct lm_config *mine);
/* For a new run: becomes a member, and gets the first turn and the parameters that it begins with,
 * in w.state.published. Returns 0, or -1. */
int coordinate_parent_begin(struct coordinator *g);
/* Ends what is under way to the parent, from another thread. */
void coordinate_parent_stop(struct coordinator *g);
void coordinate_parent_close(struct coordinator *g);

/* What is known of the parent, from any thread and with the lock; g->parent is not NULL. The URL is
 * without a user's name and password. */
struct parent_facts {
	char url[256];
	uint64_t turn, round;         /* round: of the parent, that the turn belongs to */
	int64_t answered_ms, away_ms; /* times of day; 0: never; somebody answers */
	uint64_t sent, received;      /* bytes at the sockets since the start */
};
void coordinate_parent_facts(const struct coordinator *g, struct parent_facts *f);

/* With the lock: whether the closed round ends the turn; then x->up has its facts. Returns 0, or
 * -1. */
int coordinate_parent_due(struct coordinator *g, struct closed *x);

/* Delivers parent - theta, waits for the parent's round, and gets the next turn: x->up. All arrays
 * have g->run.parameters elements and are changed in place: theta and parent become the parent's
 * parameters, rest what the container left out. A turn that the parent did not count goes on from
 * theta. Returns 0, with x->up.away where nobody answers and nothing is changed, or -1 with
 * err_set(): as `join`. */
int coordinate_parent_turn(struct coordinator *g, struct closed *x, float *theta,
	float *parent, float *rest);

#endif
