/* db.h - what a coordinator must not forget: members, turns, ranges, rounds, updates, in
 * SQLite. All functions are called with the coordinator's lock, or before there are threads. Each
 * returns 0, or -1 with err_set(), where it says nothing else. Uses store.h. */
#ifndef RNP_TRAIN_COORDINATOR_DB_H
#define RNP_TRAIN_COORDINATOR_DB_H

#include "cmd/rnp-train/coordinator/coordinator.h"

int coordinate_db_open(struct coordinator *g);
void coordinate_db_close(struct coordinator *g);
int coordinate_db_begin_run(struct coordinator *g, const char *base);
/* Round, base and place of the run into g. */
int coordinate_db_load(struct coordinator *g);
/* Removes files that nothing in the database names: what a kill left. */
void coordinate_db_sweep(struct coordinator *g);

/* A member, its number in the round, and the round's state. facts NULL: as they were. */
int coordinate_db_join(struct coordinator *g, const char *node, const char *facts,
	int64_t number);
/* Returns 1 and its number, 0: never joined, or -1. */
int coordinate_db_member(struct coordinator *g, const char *node, int64_t *number);
/* The node of a number. Returns 1, 0 or -1. */
int coordinate_db_node(struct coordinator *g, int64_t number, char node[KEY_ADDRESS_MAX]);
/* Whether it never delivered a delta, and has no turn: 1, 0 or -1. */
int coordinate_db_idle(struct coordinator *g, int64_t number);
/* The number is nobody's, with the next change. */
int coordinate_db_forget(struct coordinator *g, int64_t number);

/* Reasons of turns that were given up: what comes of them does not count. */
#define TURN_LEFT   "left"
#define TURN_SILENT "silent"
/* and of one that counted, in a block whose judged delta was not good */
#define TURN_UNPAID "unpaid"

struct turn {
	uint64_t turn, member, round, first, sequences, step, steps, tokens, bytes;
	char node[KEY_ADDRESS_MAX], base[PROTOCOL_HEX], sha256[PROTOCOL_HEX];
	char state[16]; /* open, delivered, counted, late, refused, absent */
	char reason
		[256]; /* why what came of it was refused, "": nothing was, or see counted_in */
	double norm;
	int64_t assigned_ms, delivered_ms, seconds, loss_first, loss_last;
	/* borrowed, kept with the turn that is delivered; NULL: none, as in all that are read */
	const float *sketch;
};

/* How long a delivered turn was worked on, of what the worker says (in seconds, rounded up): never
 * longer than from assignment to delivery. */
int64_t turn_busy_ms(const struct turn *t);

/* Whether the member left, or was silent, and nothing of it came. */
bool turn_is_given_up(const struct turn *t);

/* A turn by its number, the one that a member was given in a round (from 1), or the last of a node.
 * Returns 1, 0 none, or -1. */
int coordinate_db_turn(struct coordinator *g, uint64_t number, struct turn *t);
int coordinate_db_turn_of(struct coordinator *g, uint64_t member, uint64_t round,
	struct turn *t);
/* Whether these bytes were the delta of another turn: of a closed round, which anybody could fetch,
 * or of the same node. 1, 0 or -1. */
int coordinate_db_was_sent(struct coordinator *g, const char *sha256, const char *node,
	uint64_t turn);
/* Whether a delta with this sketch is nearly a multiple, also a negative one, of one of those of
 * other turns, among the last SKETCHES_KEPT of the run that exchanged the same parameters, or of as
 * many rounds' updates: 1, 0 or -1. */
#define SKETCHES_KEPT 4096
int coordinate_db_resembles(struct coordinator *g, const struct turn *t,
	const float sketch[SKETCH_N]);
int coordinate_db_last_turn(struct coordinator *g, const char *node, struct turn *t);
/* The last of a node's turns that are open. */
int coordinate_db_open_turn(struct coordinator *g, const char *node, struct turn *t);
/* Makes a turn, and sets its number. This and what follows keep rounds.r in the same
 * transaction. */
int coordinate_db_new_turn(struct coordinator *g, struct turn *t);
/* Hands one that was given up out again, to its member, with what t says. */
int coordinate_db_revive_turn(struct coordinator *g, struct turn *t);
/* Keeps the reason why a delta of an open turn was refused. The turn stays open: its member may
 * send a sound delta. */
int coordinate_db_refuse(struct coordinator *g, uint64_t turn, const char *reason);
/* The state and facts of a turn. */
int coordinate_db_set_turn(struct coordinator *g, const struct turn *t,
	const char *reason);

/* All turns that were given in a round (from 1), and late ones that count in it, in the order of
 * members; *n of them, to be freed. */
int coordinate_db_turns(struct coordinator *g, uint64_t round, struct turn **all,
	size_t *n);

/* Whether the run is over with the open round: a group's is when its parent's is. */
bool coordinate_db_is_over(const struct coordinator *g, const struct closed *x);

/* The round is over, and rounds.r in the next: what x has was counted; facts: of its record. One
 * transaction. On success g is in the next round. */
int coordinate_db_commit_round(struct coordinator *g, const struct closed *x,
	const char *facts);

/* A member's block of turns, as its last turn left it; none where it is no member. */
int coordinate_db_block(struct coordinator *g, const char *node, struct judge_block *b);

/* A node's results of judging so far. */
int coordinate_db_score(struct coordinator *g, const char *node, int64_t *ppm);

/* Records of rounds: the first that is closed and has none (1, 0 none, -1), and its record. */
int coordinate_db_unwritten(struct coordinator *g, uint64_t *round, json_t **facts);
int coordinate_db_write(struct coordinator *g, uint64_t round, const char *record);
/* The first whose record is written here and perhaps not on standard output yet (1, 0 none, -1),
 * and that it is there. */
int coordinate_db_unprinted(struct coordinator *g, uint64_t *round, json_t **record);
int coordinate_db_printed(struct coordinator *g, uint64_t round);

/* The turn of a closed round whose delta has this SHA-256 and can be fetched. Returns 1, 0: there
 * is none, or -1. */
int coordinate_db_find_delta(struct coordinator *g, const char *sha256, int64_t *turn);

/* The turn of the parent that the group works on, and the group's round in which it began; into
 * g->parent, where there is one. get returns 1, 0: there is none, or -1. */
int coordinate_db_set_parent(struct coordinator *g, const struct assignment *a,
	uint64_t began);
int coordinate_db_get_parent(struct coordinator *g);
/* Of the closed round and those before it from `began` on: tokens that were counted, of the first
 * the mean loss of the first steps, of the closed one that of the last. */
int coordinate_db_turn_facts(struct coordinator *g, uint64_t began, uint64_t *tokens,
	int64_t *loss_first, int64_t *loss_last);
/* g->rounds.r as it is now. */
int coordinate_db_keep(struct coordinator *g);

/* The update from a base: its bytes, 0 where it is not kept. */
int coordinate_db_update(struct coordinator *g, const char *base, uint64_t *bytes);

#endif
