/* parts.h - what the files of core.h share: the state of a cluster, and what may be done
 * with it. */
#ifndef RNP_COMMON_MARKET_PARTS_H
#define RNP_COMMON_MARKET_PARTS_H

#include "common/market/index.h"
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

void match_heap_push(const struct match_index *ix, struct match_heap *h, double score,
	size_t node);
void match_heap_remove(const struct match_index *ix, struct match_heap *h, size_t place);

/* --- groups.c: what is for sale ---------------------------------------------------------- */

/* The members of a group with so many whole GPUs free, best first. */
struct match_level {
	int free;
	struct match_heap heap;
};

/* Nodes that are alike for every job but for price, load, and what match_facts has. */
struct group {
	const char *model;
	int64_t gpu_memory_bytes;
	int gpus; /* of each node: with no GPU shared, as many free ones are the same state */
	int part_gpus;
	size_t members, first; /* members 0: not in use; first: of them in by_price */
	struct match_level *levels; /* in any order */
	int nlevels;
	/* those with a GPU of which a part is taken */
	size_t *partial, npartial, partial_cap;
	size_t model_no, model_at; /* which it is of all, and this group in its list */
};

/* The groups of a model, so that a job looks at no others. */
struct model {
	const char *name;
	size_t *groups, n, cap;
	size_t members; /* of all of them */
};

/* What of a node is asked one by one, close together. */
struct match_facts {
	int64_t all_uusd; /* -1: it is not for sale */
	int64_t memory_bytes, disk_bytes;
	int32_t cpu_cores, reputation_ppm;
	uint32_t ping_us, area, group;
	uint8_t tier, host_type, free;
	uint8_t compliance; /* and FACT_SPOT */
};

#define FACT_SPOT 0x80

/* A country and region where nodes are. */
struct match_area {
	const char *country, *region;
	size_t nodes;
};

struct match_text;

struct match_index {
	enum match_algorithm algorithm;
	bool grows; /* nodes are its own, and come and go; else they are borrowed */
	struct match_node *nodes;
	struct match_facts *facts; /* beside each */
	size_t n, nodes_cap, facts_cap;
	struct group *groups;
	size_t ngroups, groups_cap;
	struct hash_index group_index;
	struct model *models;
	size_t nmodels, models_cap;
	struct hash_index model_index;
	size_t nspot; /* nodes that are */
	struct match_area *areas;
	size_t nareas, areas_cap, *free_areas, nfree_areas, free_areas_cap;
	struct hash_index area_index;
	struct place_classes *classes; /* of the jobs, for fgd */
	/* of one that grows: the nodes without id and the groups without members, which are
	 * taken first; nodes by id, and texts */
	size_t *free_nodes, nfree_nodes, free_nodes_cap;
	size_t *free_groups, nfree_groups, free_groups_cap;
	size_t count;
	struct hash_index ids, text_index;
	struct match_text *texts;
	size_t ntexts, texts_cap, *free_texts, nfree_texts, free_texts_cap;
};

/* Makes groups of n nodes, which it borrows; all GPUs are free. */
void match_index_fill(struct match_index *ix, enum match_algorithm a,
	struct match_node *nodes, size_t n);
void match_groups_release(struct match_index *ix);

/* The rank of a node for any job: lower is better. For fgd, nodes with a shared GPU come after
 * all others of their heap, because they are examined one by one. */
double match_score_of(const struct match_index *ix, const struct match_node *n);

/* Of nodes with equal scores, whether the first is taken: by number, or by id where numbers are
 * an accident. */
bool match_goes_before(const struct match_index *ix, size_t a, size_t b);

/* Put a node into its heap, and take it out, around a change of its score or free GPUs. */
void match_enter(struct match_index *ix, size_t node);
void match_withdraw(struct match_index *ix, size_t node);

/* Finds or makes the group of a node, and makes it a member; and the other way. Outside of
 * heaps. */
void match_join_group(struct match_index *ix, size_t node);
void match_leave_group(struct match_index *ix, size_t node);

/* Notes what a node has, when it is new or has changed, before it enters. */
void match_note_facts(struct match_index *ix, size_t node);

/* Take (sign 1) or give back (-1) the GPUs of a part. */
void match_change(struct match_index *ix, const struct match_part *p, int sign);

/* --- walk.c: nodes for a job, the best first ----------------------------------------------- */

/* A way through the heaps of groups, from their roots down. Nothing changes meanwhile. All zeros at
 * first. */
struct walk {
	const struct match_index *ix;
	const struct match_job *job;
	int gpus; /* of the job on each node */
	struct walk_heap {
		struct walk_entry {
			double cost;
			uint32_t node, group;
			/* in its level's heap; UINT32_MAX: what is below was looked at */
			uint32_t at;
			uint8_t level, mask;
		} * at;
		size_t n, cap;
	} heap, kept;           /* kept: those that came since walk_again */
	struct walk_entry last; /* that came; node UINT32_MAX: none */
	struct walk_level {
		uint32_t group;
		int level;
	} * levels; /* that were added */
	size_t nlevels, levels_cap, members, in_vain;
	/* masks of shares that no more are wanted of */
	bool closed[1u << MATCH_PLACES_MAX];
};

/* Begins without nodes; adds those of a model that may serve so many GPUs of the job. */
void walk_begin(struct walk *w, const struct match_index *ix, const struct match_job *j,
	int gpus);
void walk_add(struct walk *w, const struct model *m);
void walk_add_level(struct walk *w, size_t group, int level);

/* The next node that fits, its price included, or NULL. used: a bit for each node that is passed
 * over, or NULL. */
const struct walk_entry *walk_next(struct walk *w, const uint64_t *used);

/* From now on nodes that count to just these shares are left aside. */
void walk_close(struct walk *w, unsigned mask);

/* Begins again from the best. */
void walk_again(struct walk *w);
void walk_release(struct walk *w);

/* --- choose.c ------------------------------------------------------------------------ */

/* Where a job would go. */
struct choice {
	/* kept from one choice to the next; freed by the owner */
	struct match_part *parts;
	int nparts;
	size_t cap;
	double score;
	int64_t uusd;
};

/* Looks for places for a job, one after the other. All zeros at first; of one thread. */
struct chooser {
	const struct match_index *ix;
	const struct match_job *job;
	int parts;                 /* nodes of each choice */
	size_t found;              /* choices so far */
	const struct choice *last; /* NULL: none */
	/* one for each model, or for all where it is one node */
	struct lane {
		size_t model_no; /* in rising order */
		struct walk walk;
		struct choice best;
		bool known; /* what is the best here */
		/* what a node may cost beside the cheapest others of the first choice */
		int64_t room_uusd;
	} * lanes;
	size_t nlanes, lanes_cap;
	uint64_t *used; /* a bit for each node of a choice before; NULL: none */
};
void chooser_begin(struct chooser *c, const struct match_index *ix,
	const struct match_job *j);

/* The best place that shares no node with those before; false: there is none. Borrowed until the
 * next call. The first has the fewest nodes that are possible, the others as many. */
const struct choice *chooser_next(struct chooser *c);

/* What a node of a model may cost beside the cheapest others, so that all is within the limit: less
 * than 0 where these are not. */
int64_t chooser_room(const struct chooser *c, size_t model_no);
void chooser_release(struct chooser *c);

/* GPUs of a node of a group, or the node where that has none. */
static inline int match_group_units(const struct group *g)
{
	return g->gpus ? g->gpus : 1;
}

/* How many GPUs of a node are let where a job wants so many of it: a multiple of the node's parts.
 * Of a node without GPUs: 1. */
int match_let(const struct group *g, int gpus);

/* The price of a node for an hour; and of `gpus` of its GPUs, or of a part of one, rounded up;
 * MATCH_NO_LIMIT: it does not fit an amount. */
int64_t match_price_of_all(const struct match_node *n);
int64_t match_price_of(const struct match_index *ix, size_t node, int gpus, int milli);

bool match_wants_model(const struct match_job *j, const char *model);
bool match_wants_place(const struct match_job *j, const char *country,
	const char *region);

/* The places of the job's shares that a node can be counted to, a bit for each. */
unsigned match_share_mask(const struct match_index *ix, const struct match_job *j,
	size_t node);

/* Whether the job has wishes that are asked node by node. */
bool match_asks_each(const struct match_index *ix, const struct match_job *j);

/* How many nodes of `parts` are to be in each of the job's shares, by largest remainder: of equal
 * ones the first. */
void match_share_out(const struct match_job *j, int parts, int out[MATCH_PLACES_MAX]);

/* How much work a GPU-hour of this model does for the job, relative to others. */
double match_work_of(const struct match_index *ix, const struct match_job *j,
	const char *model);

/* What a node costs the job that is let so many of its GPUs, over the work that they do; of
 * rotation, its rank. score: its own. */
double match_cost_of(const struct match_index *ix, const struct match_job *j, size_t node,
	double score, int let);

/* The same over the mean of all GPUs for sale of the models that it names, so that jobs compare:
 * what an hour there serves its owner. A multiple of 2^-10; 1 but for gavel. */
double match_speed(const struct match_index *ix, const struct match_job *j,
	const char *model);

/* The first wish that no node of a group meets, or MATCH_REASONS; size, price and what is asked
 * node by node aside. */
enum match_reason match_group_lacks(const struct match_job *j, const struct group *g);
static inline bool match_group_fits(const struct match_job *j, const struct group *g)
{
	return g->members && match_group_lacks(j, g) == MATCH_REASONS;
}

/* The first of the wishes of match_asks_each that the node does not meet, when so many of its GPUs
 * are let, or MATCH_REASONS. */
enum match_reason match_node_lacks(const struct match_index *ix,
	const struct match_job *j, size_t node, int let);

/* Whether a node asks too much for `gpus` of the job's GPUs. Of several nodes together their sum is
 * looked at later; where they come by other things than price, each has its share of the limit. */
bool match_is_dear(const struct match_index *ix, const struct match_job *j, size_t node,
	int gpus);

/* Whether a node may serve `gpus` of the job's GPUs, its price included. */
bool match_node_fits(const struct match_index *ix, const struct match_job *j, size_t node,
	int gpus);

/* Classes of the jobs, by which fgd knows what fragments are. */
void match_classify(struct match_index *ix, const struct match_job *jobs, size_t n);

/* The best place for a job now; false: there is none. Fewest nodes first. */
bool match_choose(const struct match_index *ix, struct chooser *c,
	const struct match_job *j, struct choice *best);

/* Adds `gpus` of a node's GPUs, or a multiple of its parts, with cost and price, which is returned;
 * the parts of another choice. */
int64_t choice_add(struct choice *c, const struct match_index *ix,
	const struct walk_entry *e, int gpus);
void choice_append(struct choice *c, const struct choice *other);
void choice_release(struct choice *c);

/* --- census.c ------------------------------------------------------------------------ */

/* A node in a list by group and price. */
struct priced {
	size_t group;
	int64_t uusd; /* of all its GPUs */
	size_t node;
};

/* All nodes, those of each group by price; from group.first on. Freed by the caller. */
struct priced *match_sort_by_price(struct match_index *ix);

/* How many nodes lack what a job asks for, each counted once. */
struct census {
	size_t left_out[MATCH_REASONS];
	size_t fit;
	int64_t cheapest_uusd; /* of those that have all but the price, for the whole job */
	int max;               /* GPUs of the largest that has all but the number */
};

/* Counts all nodes. With `rooms`, which has found what there is, the prices are of one node and
 * held against what is left beside the others, and busy ones are told from those that fit;
 * cheapest_uusd is not set. Without, each is as if it served the whole job, and busy ones fit.
 * sorted: from match_sort_by_price, if nodes and prices are as they were then, or NULL. */
void match_census(const struct match_index *ix, const struct match_job *j,
	const struct priced *sorted, const struct chooser *rooms, struct census *out);

/* Looks for the wish that, relaxed alone, makes the job possible with the most nodes. */
void match_find_nearest(const struct match_index *ix, const struct match_job *wish,
	const struct census *census, struct match_nearest *out);

/* The most nodes over which a job may be spread in equal parts. */
int match_parts_most(const struct match_job *j);

/* --- the state -------------------------------------------------------------------------------- */

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
	struct match_index ix;
	struct chooser chooser;
	struct running *running; /* a heap by end */
	size_t nrunning, running_cap, started;
	struct owner *owners;
	size_t nowners, owners_cap;
	struct hash_index owner_index; /* of owners, by name */
	struct stoppable stoppable;
	struct priced *by_price; /* all nodes; NULL until it is asked why a job waits */
	double dearest;          /* price of all */
	bool preempts;
};

/* --- state.c ------------------------------------------------------------------------ */

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
