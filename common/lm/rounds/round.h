/* round.h - which member does what in which round: assignments, deadline, late deltas, and ranges
 * of sequences that are handed out once, and again when their delta did not count. Pure: time comes
 * in with every event, in ms of a clock of the caller's, real or virtual, that does not go back.
 * Uses json for keeping it, and nothing else of the outside.
 *
 * `rnp-train coordinate` and `rnp-train simulate` run on this. A round's life:
 *
 *     ROUND_GATHERING   fewer members than the quorum ask for work
 *     ROUND_OPEN        members work; round_tick says when it is to be closed
 *     ROUND_CLOSED      the set of deltas is fixed: the caller judges (round_refuse), takes the
 *                       outer step, and calls round_publish: the next round gathers
 *
 * The turn of an assignment is the number of the round that was open when it was given, and names
 * the parameters that it begins with: those that turn - 1 ended with. Rounds are counted from 0. */
#ifndef RNP_COMMON_LM_ROUNDS_ROUND_H
#define RNP_COMMON_LM_ROUNDS_ROUND_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROUND_OFFSETS     32        /* arrival offsets that the deadline is made of */
#define ROUND_OFFSETS_MIN 4         /* fewer have no deviation */
#define ROUND_NEVER       INT64_MAX /* a time that does not come */

struct round_policy {
	/* deltas that a round needs, and members that it opens with: from 1 */
	uint64_t quorum;
	uint64_t members_max; /* 0: no bound */
	uint64_t steps;       /* H */
	uint64_t batch;       /* sequences of a step */
	uint64_t length;      /* tokens of a sequence */
	/* A late delta counts in the next round with half its tokens, never later; else it is
	 * dropped. */
	bool late_count;
	/* The least that the deadline lies after the median of the arrivals: machines that are
	 * all equal have no deviation. 0: the formula alone. */
	int64_t slack_ms;
	/* Delayed Nesterov: a round closes grace_ms after its first arrival; a member that has
	 * not delivered works on, and its delta counts in the round in which it arrives,
	 * whatever its turn. */
	bool asynchronous;
	int64_t grace_ms;
	/* A member's steps by its speed (outer_dylu_steps), against that of the fastest, or 16
	 * times the median if that is less: what one says of itself does not shorten everybody's
	 * turns. */
	bool dylu;
	/* Streaming: who works on the open round, or has delivered, gets its assignment in the next
	 * one, of ahead_steps (0: there is none); nobody waits for a round to close. The caller
	 * sets steps and ahead_steps after each round_publish. */
	bool ahead;
	uint64_t ahead_steps;
};

enum round_phase { ROUND_GATHERING, ROUND_OPEN, ROUND_CLOSED };

struct round_range {
	uint64_t first, count; /* sequences */
};

struct round_assignment {
	uint64_t turn, steps;
	struct round_range range; /* steps times batch */
	int64_t at;               /* when it was given */
	int64_t deadline;         /* of its round as known then; ROUND_NEVER: not known */
};

/* A member, by its number: they are given from 0 on and never again. */
struct round_member {
	bool here;                    /* joined and not left */
	bool asks;                    /* waits for work */
	bool works;                   /* has an assignment that is not delivered */
	bool expected;                /* the open round waits for it */
	bool done;                    /* the last assignment was delivered */
	bool dropped;                 /* or came too late to count */
	uint64_t speed;               /* tokens/s that it measured; 0: not known */
	struct round_assignment work; /* the last one given */
	uint64_t counts;              /* done: the round that its delta is in */
	bool has_next; /* works, and has the assignment behind that, too: */
	struct round_assignment next;
};

/* A delta of the open or closed round. */
struct round_delta {
	uint64_t member, turn, steps;
	struct round_range range; /* after it: steps times batch */
	uint64_t weight_tokens;   /* halved when late */
	int64_t at;
	bool late, refused;
};

/* What a round is kept as: rows of whole numbers, by part and key. */
enum round_part {
	ROUND_WHOLE,   /* one row */
	ROUND_ARRIVED, /* one row: offsets */
	ROUND_MEMBERS, /* by number */
	ROUND_DELTAS,  /* by place in deltas */
	ROUND_LATER,   /* by place in the late ones */
	ROUND_FREE,    /* by the first sequence */
	ROUND_PARTS
};

/* Keys of rows that changed since round_kept; all: every row of the part. */
struct round_touched {
	uint64_t *keys;
	size_t n, cap;
	bool all;
};

struct round {
	struct round_policy policy;
	uint64_t number;
	enum round_phase phase;
	struct round_member *members;
	size_t nmembers;
	size_t here, asking, working, expected; /* how many of them */
	/* of this round, in order of arrival until it is closed, then of (member, turn) */
	struct round_delta *deltas;
	size_t ndeltas;
	size_t on_time; /* of them neither late nor refused: what the quorum counts */
	int64_t began;  /* of the phase */
	int64_t opened, first_arrival, last_arrival; /* ROUND_NEVER: not yet */
	/* what was waited for in this round, ms by name: see round_waits */
	int64_t waited[4];

	/* private */
	size_t members_cap, deltas_cap, late_cap, free_cap;
	struct round_delta *late; /* for the next round */
	uint64_t fastest;         /* speed */
	uint64_t fastest_max; /* of the members when the round was opened; 0: not known */
	size_t nlate;
	struct round_range *free; /* to be handed out again: ascending, apart */
	size_t nfree;
	uint64_t next; /* the first sequence that was never handed out */
	int64_t offsets[ROUND_OFFSETS];
	uint64_t noffsets;     /* ever: the last ROUND_OFFSETS are kept */
	int64_t opened_before; /* when the round before was opened, for late arrivals */
	struct round_touched touched[ROUND_PARTS];
	int64_t clock; /* while rows are read: that of their times */
	bool arrived;  /* and whether that of ROUND_ARRIVED was there */
	bool counted;  /* and whether the whole's says how many each part has: */
	uint64_t rows[ROUND_PARTS];
};

/* Names of round.waited: "members" until the quorum asks, "first" until the first delta,
 * "deadline" from the last delta to a close by the deadline, "quorum" after the deadline. */
extern const char *const round_waits[4];

void round_init(struct round *r, const struct round_policy *p, uint64_t first_sequence,
	int64_t now);
void round_release(struct round *r);

/* --- events --------------------------------------------------------------------------------- */

/* A new member. Returns its number, or -1 with err_set(EX_TEMPFAIL): members_max are here. */
int64_t round_join(struct round *r, uint64_t speed, int64_t now);

/* A member that left has returned, under its number: leaving and returning takes no further
 * memory. Returns 0, also if it was present, or -1 with err_set(EX_TEMPFAIL): members_max are
 * present. */
int round_return(struct round *r, uint64_t member, uint64_t speed);

/* Another node takes the number of one that left and is not to return. As round_return. */
int round_replace(struct round *r, uint64_t member, uint64_t speed);

/* A member left or has been silent: its range is handed out again. Deltas that it delivered
 * count. Unknown numbers are ignored. */
void round_leave(struct round *r, uint64_t member, int64_t now);

/* A member asks for work. An assignment of the open round that it has not delivered is given again;
 * one of an older turn it has given up. */
enum round_answer {
	ROUND_WORK,
	ROUND_WAIT, /* for the next round: ask again */
	ROUND_GONE  /* not a member: join again */
};
enum round_answer round_ask(struct round *r, uint64_t member, int64_t now,
	struct round_assignment *out);

/* A member that works on a round that is not closed asks for its assignment in the next one, which
 * is the same if it asks again. ROUND_WAIT: there is none ahead. */
enum round_answer round_ask_ahead(struct round *r, uint64_t member, int64_t now,
	struct round_assignment *out);

/* A sound delta came, of so many steps, 1 .. those assigned; the rest of its range is handed out
 * again. */
enum round_arrival {
	ROUND_COUNTED,
	ROUND_LATE,    /* counts in the next round */
	ROUND_DROPPED, /* too late */
	ROUND_AGAIN,   /* it was delivered before */
	ROUND_UNKNOWN  /* nothing of that turn is assigned to that member */
};
enum round_arrival round_deliver(struct round *r, uint64_t member, uint64_t turn,
	uint64_t steps, int64_t now);

/* What a member sent of its turn in the open round is no delta. The round does not wait for it any
 * longer, nor does its quorum have one more; what it sends better in time counts. */
void round_excuse(struct round *r, uint64_t member, uint64_t turn);

/* A delta of this round does not count: its range is handed out again. Returns whether there was
 * one. Not after round_publish. */
bool round_refuse(struct round *r, uint64_t member, uint64_t turn);

/* --- time ----------------------------------------------------------------------------------- */

/* When the open round closes as far as is known: median + 3 MAD of the last offsets from opening to
 * arrival, while there are fewer than the quorum or ROUND_OFFSETS_MIN three times the first
 * arrival; a quorum is needed besides. ROUND_NEVER: not known yet. */
int64_t round_deadline(const struct round *r);

/* Opens a round whose quorum asks, and says whether the open one is to be closed now. Call it
 * after events and at round_next. */
bool round_tick(struct round *r, int64_t now);
/* When round_tick may say something else, if no event comes. */
int64_t round_next(const struct round *r);

/* Closes the open round: r->deltas are sorted by (member, turn). */
void round_close(struct round *r, int64_t now);

/* The parameters of the next round are ready: a member that is behind in a synchronous round
 * has lost its range (late_count: keeps it one round more). */
void round_publish(struct round *r, int64_t now);

/* From now on sequences are handed out from `first`, and those that came back are not handed out
 * again: between rounds of a group whose parent gave it another range. */
void round_move(struct round *r, uint64_t first);

/* --- figures -------------------------------------------------------------------------------- */

/* Members that wait for work, have some or delivered the last: who registered and no more is
 * none. */
size_t round_live(const struct round *r);
/* Whether a closed round lacks a member's delta that it was to deliver. */
bool round_absent(const struct round *r, uint64_t member);
/* Sequences: never handed out; those to be handed out again, by which tests see that no text is
 * lost. */
uint64_t round_fresh(const struct round *r);
uint64_t round_returned(const struct round *r);

/* --- keeping it ----------------------------------------------------------------------------- */

/* Receives a row that changed: an array of whole numbers and nulls as JSON; NULL: the row is gone,
 * and with ROUND_ALL every row of the part is. Returns 0, or -1. */
#define ROUND_ALL UINT64_MAX
typedef int (
	*round_row_fn)(void *ctx, enum round_part part, uint64_t key, const char *row);

/* Gives fn the rows that changed since round_kept, the whole's always; `now` goes with them. They
 * stay changed until round_kept says that they are kept. Returns 0, or what fn returned. */
int round_keep(const struct round *r, int64_t now, round_row_fn fn, void *ctx);
void round_kept(struct round *r);

/* Reads a round back: round_read empties it, but for the policy; then comes each row, in the order
 * of parts and keys, and round_read_end, which notices rows that are missing. Times are as far from
 * `now` as they were from that of the last round_keep, so that a clock may begin anew. All rows
 * count as changed. Return 0, or -1 with err_set(EX_DATAERR); where names the file. */
void round_read(struct round *r);
int round_read_row(struct round *r, enum round_part part, uint64_t key, const char *row,
	const char *where);
int round_read_end(struct round *r, int64_t now, const char *where);

/* Reads what versions before these rows kept, one JSON object. Returns 0, or -1 with
 * err_set(EX_DATAERR). */
int round_load(struct round *r, const json_t *saved, int64_t now, const char *where);

/* Notes that a row changes; for round.c and what reads rows. */
void round_touch(struct round *r, enum round_part part, uint64_t key);
void round_touch_all(struct round *r, enum round_part part);

#endif
