/* parts.h - what the files of core.h share: the state of a cluster, and what may be done
 * with it. */
#ifndef RNP_COMMON_MARKET_PARTS_H
#define RNP_COMMON_MARKET_PARTS_H

#include "common/market/core.h"
#include "common/market/place.h"
#include "common/base/index.h"

/* --- heap.c: binary heaps of nodes by score, with removal from the middle ------------------------
 *
 * A node is in one heap at a time and knows its place in it (heap_at). */

#define MATCH_HEAP_NONE 1e300 /* a score that no node has */

struct match_heap {
	struct match_heap_entry {
		double score;
		size_t node;
	} * at; /* freed by the owner */
	size_t n, cap;
};

/* Equal scores go to the lower index. */
bool match_heap_less(const struct match_heap_entry *a, const struct match_heap_entry *b);
void match_heap_push(struct match_heap *h, double score, size_t node,
	struct match_node *nodes);
void match_heap_remove(struct match_heap *h, size_t place, struct match_node *nodes);

/* --- the state -------------------------------------------------------------------------------- */

/* Nodes that are alike for every job but for price, load and reputation. */
struct group {
	const char *model, *country, *region;
	int64_t memory_bytes;
	uint32_t compliance;
	bool spot;
	int gpus; /* of each node: with no GPU shared, as many free ones are the same state */
	size_t members, first; /* first: of them in by_price */
	/* heaps[f]: the members with f whole GPUs free, best first; partial: those with a GPU
	 * of which a part is taken */
	struct match_heap heaps[MATCH_GPUS_MAX + 1];
	double best[MATCH_GPUS_MAX + 1]; /* score of the best one with f or more free */
	size_t *partial, npartial, partial_cap;
};

/* A node in a list by group and price. */
struct priced {
	size_t group;
	int64_t uusd;
	size_t node;
};

struct running {
	int64_t start_ms, end_ms;
	size_t order; /* of their start: ties end in this order */
	size_t job;   /* or MATCH_NO_JOB */
	size_t owner;
	int64_t uusd;
	int64_t work_ms; /* of the job's work, that it does in this time */
	double speed;    /* see match_speed */
	struct match_part *parts;
	int nparts;
};

/* A customer's account: what all his matches serve him until they end, see match_served. At the
 * instant left_at_ms, `left` of it is still to come. */
struct owner {
	const char *name;
	double served, left;
	int64_t left_at_ms;
};

/* A match that may be stopped, as it ran at an instant. nparts 0: it was. */
struct candidate {
	struct running r;
	double lost; /* of what it served since its last checkpoint */
};

#define MATCH_FAILED_MAX 8

/* What may be stopped at an instant. */
struct stoppable {
	int64_t at_ms;          /* INT64_MIN: not known */
	struct candidate *list; /* the least loss first */
	size_t n, cap, gone;
	/* a bound by which most jobs see at once that they stop nobody */
	int least_rank;
	double most_served; /* for its owner's share, of those of the least rank */
	/* jobs that had no place although all was tried, since something was stopped */
	struct failed {
		const struct match_job *job;
		size_t owner;
	} failed[MATCH_FAILED_MAX];
	size_t nfailed;
};

struct match {
	enum match_algorithm algorithm;
	struct match_node *nodes;
	size_t n;
	struct group *groups;
	size_t ngroups, groups_cap;
	struct running *running; /* a heap by end */
	size_t nrunning, running_cap, started;
	struct owner *owners;
	size_t nowners, owners_cap;
	struct hash_index owner_index; /* of owners, by name */
	struct stoppable stoppable;
	struct priced *by_price; /* all nodes; NULL until it is asked why a job waits */
	struct place_classes *classes; /* of the jobs, for fgd */
	double dearest;                /* price of all */
	bool preempts;
};

/* --- state.c ------------------------------------------------------------------------ */

/* The rank of a node for any job: lower is better. For fgd, nodes with a shared GPU come after
 * all others of their heap, because they are examined one by one. */
double match_score_of(const struct match *m, const struct match_node *n);

/* Put a node into its heap, and take it out, around a change of its score or free GPUs. */
void match_enter(struct match *m, size_t node);
void match_withdraw(struct match *m, size_t node);

/* Take (sign 1) or give back (-1) the GPUs of a part. */
void match_change(struct match *m, const struct match_part *p, int sign);

/* Adds work to a node, for rotation. */
void match_count_work(struct match *m, const struct match_part *p, int64_t length_ms);

/* The index of an owner's account, made when it is new. */
size_t match_owner_of(struct match *m, const char *name);

/* Takes the GPUs and notes when they are given back. r: copied, with its parts. */
void match_start(struct match *m, const struct running *r);

/* What a match serves its owner in so many milliseconds: thousandths of GPUs times milliseconds
 * times its speed. Such numbers are exact up to 2^53, so that a log that is read again adds up to
 * the same. */
double match_served(const struct running *r, int64_t length_ms);

/* Adds to an owner's account what begins to be served now, or takes off what no more will be. */
void match_account(struct match *m, size_t owner, double served, int64_t now_ms);

/* Whether those who were served least come first. */
bool match_is_fair(const struct match *m);

/* Takes out the running match whose GPUs were given back already. The caller frees its parts. */
struct running match_take_out(struct match *m, size_t order);

/* Gives back the GPUs of all that end by now. Returns whether there were any. */
bool match_give_back(struct match *m, int64_t now_ms);

/* --- choose.c ------------------------------------------------------------------------ */

/* Where a job would go. */
struct choice {
	struct match_part parts[MATCH_PARTS_MAX];
	int nparts;
	double score;
	int64_t uusd;
};

/* The price of n GPUs, or of a part of one, rounded up; MATCH_NO_LIMIT: it does not fit an
 * amount. */
int64_t match_price_of(int64_t uusd, int gpus, int milli);

bool match_wants_model(const struct match_job *j, const char *model);
bool match_wants_place(const struct match_job *j, const char *country,
	const char *region);

/* How much work a GPU-hour of this model does for the job, relative to others. */
double match_work_of(const struct match *m, const struct match_job *j, const char *model);

/* The same over the mean of all GPUs for sale of the models that it names, so that jobs compare:
 * what an hour there serves its owner. A multiple of 2^-10; 1 but for gavel. */
double match_speed(const struct match *m, const struct match_job *j, const char *model);

/* Whether the nodes of a group have what the job asks for, but perhaps the size and the price. */
bool match_group_fits(const struct match_job *j, const struct group *g);

/* Classes of the jobs, by which fgd knows what fragments are. */
void match_classify(struct match *m, const struct match_job *jobs, size_t n);

/* The best place for a job now; false: there is none. Fewest nodes first. */
bool match_choose(struct match *m, const struct match_job *j, struct choice *best);

/* --- why.c --------------------------------------------------------------------------- */

/* Whether a job would have a place if nothing ran. May say so of several nodes together that
 * have none. */
bool match_could_fit(struct match *m, const struct match_job *j);

/* --- stop.c -------------------------------------------------------------------------- */

/* Jobs of a higher rank come first. */
int match_rank(const struct match *m, const struct match_job *j);

/* Of what a match did until now_ms, the work that its job keeps when it is stopped. */
int64_t match_kept_ms(const struct running *r, const struct match_job *j, int64_t now_ms);

/* Finds running matches that are stopped for job j of an owner so that it has a place, best; gives
 * back their GPUs and writes their order numbers to *stopped, which the caller frees. Returns how
 * many they are; 0: it has no place in any case, and nothing has changed. */
size_t match_make_room(struct match *m, const struct match_job *jobs,
	const struct match_job *j, size_t owner, int64_t now_ms, struct choice *best,
	size_t **stopped);

/* Why a match of job `low` is stopped for a job. */
const char *match_stop_why(const struct match_job *high, const struct match_job *low);

#endif
