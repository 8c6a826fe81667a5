/* core.h - decides which job runs on which GPUs of which nodes, at which price. Pure:
 * values in, values out, no clock. The live command and simulations call the same function, so
 * a log of jobs that is played again gives the same matches.
 *
 * Time passes in events: jobs arrive, and matches end and give their GPUs back. At each event
 * the waiting jobs are tried in an order, rendering before computing (RNP-019), and each is
 * placed on the best GPUs that are free and fit it. Jobs that fit nowhere wait; others may
 * overtake them. Nothing that runs is interrupted unless match_preempt() allows it: then a job
 * that has no place stops running ones that agreed to it (spot) and come after it, see
 * stop.c.
 *
 * Nodes that are alike but for price and load share a group with heaps by free GPUs, so that a
 * placement costs the number of kinds of nodes and not the number of nodes. */
#ifndef RNP_COMMON_MARKET_CORE_H
#define RNP_COMMON_MARKET_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MATCH_GPUS_MAX    64   /* of one node */
#define MATCH_MILLI       1000 /* thousandths of a GPU */
#define MATCH_MODELS_MAX  24   /* that one job accepts */
#define MATCH_PLACES_MAX  8    /* of one job */
#define MATCH_PARTS_MAX   4096 /* nodes of one job */
#define MATCH_EXCLUDE_MAX 1024 /* nodes that a job does not want */
#define MATCH_NO_LIMIT    INT64_MAX
#define MATCH_NO_JOB      SIZE_MAX
#define MATCH_MS_MAX      100000000000000 /* a match is no longer, however slow its GPU */

enum match_algorithm {
	MATCH_CHEAPEST, /* the lowest price; among jobs that wait, who pays most comes first */
	MATCH_ROTATION, /* RNP-019: the node with the least work for its uptime comes next */
	MATCH_LAS, /* the owner with the least GPU time relative to his share comes first */
	MATCH_GAVEL, /* the least cost for the work: prices over measured throughputs
			 * (Narayanan et al., OSDI 2020, the cost policy); the owner with the
			 * least work done relative to his share comes first (their fairness) */
	MATCH_FGD,   /* the least growth of fragmentation (Weng et al., ATC 2023) */
	MATCH_ALGORITHMS
};
extern const char *const match_names[MATCH_ALGORITHMS];

/* Where a node stands; names as in rnp.node's labels. */
enum match_host {
	MATCH_HOST_UNKNOWN, /* in a wish: any */
	MATCH_HOST_DATA_CENTER,
	MATCH_HOST_MINER,
	MATCH_HOST_PARTNER,
	MATCH_HOSTS
};
extern const char *const match_host_names[MATCH_HOSTS];

/* A node for sale. Texts are borrowed and interned: equal texts are the same pointer. */
struct match_node {
	const char *id;
	const char *model;            /* NULL: it has no GPUs */
	const char *country, *region; /* NULL: not known */
	int64_t gpu_memory_bytes;     /* of one GPU; 0: not known, as in the next ones */
	int64_t memory_bytes, disk_bytes,
		cpu_cores; /* a part of it has its share of these */
	int64_t ping_us;
	int64_t uusd; /* for one GPU and hour, or a node without GPUs, as its customer pays */
	/* for all its GPUs and an hour; a part costs its share, rounded up. 0: uusd for each */
	int64_t all_uusd;
	int64_t reputation_ppm; /* -1: not known */
	int64_t uptime_ppm;     /* of this epoch; rotation divides work by it */
	uint32_t compliance;    /* a bit for each that the node has */
	int tier; /* of its link: 1 none, 2 low ... 6 ultra high; 0: not known */
	enum match_host host_type;
	bool spot;
	int gpus;
	int part_gpus; /* let in multiples of so many; 0: as 1 */
	/* where these are in its record, a bit for each place; 0: from place 0 on */
	uint64_t places;
	/* state */
	int free_gpus;                /* whole ones; without GPUs: whether it is free */
	int16_t left[MATCH_GPUS_MAX]; /* thousandths of each */
	uint64_t leased;              /* of an index: by place */
	int64_t worked_ms;            /* GPU-milliseconds in this epoch */
	size_t heap_at, group;        /* of the core */
};

/* Sorts ids by their pointers, as `exclude` of a job wants them. */
void match_sort_ids(const char **ids, size_t n);

/* Returns the place in the node's record of its GPU number i, and the other way; -1: there is none.
 */
int match_place_of(const struct match_node *n, int i);
int match_gpu_at(const struct match_node *n, int place);

/* A place where a part of a job's nodes is to be. */
struct match_place {
	const char *country, *region; /* both where both are given; NULL: any */
	int64_t share_ppm; /* of the nodes, by largest remainder; all add up to 10^6 */
};

struct match_job {
	const char *id, *owner;               /* owner: NULL is an owner, too */
	const char *type;                     /* of work, for throughputs; may be NULL */
	const char *models[MATCH_MODELS_MAX]; /* nmodels 0: any */
	double throughput[MATCH_MODELS_MAX];  /* of each model; 0: not known. For gavel */
	int nmodels, named; /* named: so many were, the others are what these may mean */
	/* countries or regions; nplaces 0: anywhere */
	const char *places[MATCH_PLACES_MAX];
	int nplaces;
	struct match_place shares[MATCH_PLACES_MAX]; /* beside that */
	int nshares;
	int64_t gpu_memory_bytes;                    /* of one GPU, at least */
	int64_t memory_bytes, disk_bytes, cpu_cores; /* of each node, at least */
	int64_t ping_us;                             /* at most; 0: any */
	int tier;                                    /* at least; 0: any */
	enum match_host host_type;
	int64_t reputation_ppm;     /* at least; 0: any */
	int64_t limit_uusd;         /* per hour, for all its GPUs; MATCH_NO_LIMIT */
	const char *const *exclude; /* ids of nodes, sorted by their pointers */
	size_t nexclude;
	int64_t at_ms, length_ms;
	int64_t start_by_ms; /* it does not start later; 0: whenever */
	int64_t since_ms;    /* submitted then, however often it was stopped: for ties */
	size_t order;        /* in its file, for ties */
	int64_t share_ppm;   /* of its owner, 10^6 as everybody; for las and gavel */
	uint32_t compliance; /* all of these */
	int gpus,
		milli; /* gpus 0: on nodes without; milli: of each GPU, below 1000 only for one */
	/* over how many nodes, in equal parts; min 0: as 1 */
	int nodes_min, nodes_max;
	int64_t checkpoint_ms; /* it saves its work so often; 0: stopped, it starts over */
	bool spot; /* may run where it can be interrupted, and may be stopped */
	bool render;
	bool begun; /* an earlier call decided: it does not arrive, but may be stopped */
	bool elsewhere; /* known from its match only: stopped, it does not wait here */
};

/* Whether a job asks for what nodes of one kind have more or less of: cores, memory, disk, a link,
 * a reputation, or not to be on some. */
bool match_asks_nodes(const struct match_job *j);

/* A job's GPUs on one node. */
struct match_part {
	size_t node;
	int gpus, milli;            /* gpus 0: a node without */
	int8_t gpu[MATCH_GPUS_MAX]; /* which */
};

/* What of a node it has: its GPUs, or the node where that has none. */
static inline int match_units(const struct match_part *p)
{
	return p->gpus ? p->gpus : 1;
}

/* What a job counts as where GPUs are counted: without GPUs each of its nodes. */
static inline int match_gpus_of(const struct match_job *j)
{
	return j->gpus ? j->gpus : j->nodes_max;
}

struct match_result {
	size_t job;
	int64_t start_ms, end_ms;
	int64_t uusd_per_hour; /* for all GPUs */
	int nparts;            /* 0: it waits, see match_why */
	struct match_part *parts;
	/* not NULL: end_ms is the time at which it was stopped for this job, for this reason,
	 * and left_ms of its work are left */
	const struct match_job *stopped_for;
	const char *why;
	int64_t left_ms;
};

struct match;

/* Takes borrowed nodes, whose state it changes; all GPUs are free at first. Nothing is random:
 * of equal choices the lower index is taken. fgd takes nodes of at most PLACE_GPUS_MAX GPUs. */
struct match *match_open(enum match_algorithm a, struct match_node *nodes, size_t n);
void match_close(struct match *m);

/* From now on waiting jobs may stop running ones. */
void match_preempt(struct match *m);

/* Occupies GPUs for a match that runs until r->end_ms: what an earlier call decided. r->job: its
 * index among the jobs of match_run, or MATCH_NO_JOB, which is never stopped. Returns false
 * when these GPUs are not free. */
bool match_occupy(struct match *m, const char *owner, const struct match_result *r);

/* Counts an earlier match of job j up to end_ms: for whom (las, gavel) and by which nodes
 * (rotation). match_occupy does not count. */
void match_count(struct match *m, const char *owner, const struct match_job *j,
	const struct match_result *r);

/* Plays n jobs, sorted by at_ms, until all have started or nothing happens any more before
 * until_ms; emit is called for each match and each stop in the order of time, and for the jobs that
 * still wait in the order of the input at the end. The result is borrowed for the call. emit
 * returns 0, or -1 to end; match_run returns that. */
typedef int (*match_emit)(void *ctx, const struct match_result *r);
int match_run(struct match *m, const struct match_job *jobs, size_t n, int64_t until_ms,
	match_emit emit, void *ctx);

/* Why a job is placed nowhere now: how many nodes each of its wishes leaves. */
void match_why(struct match *m, const struct match_job *job, char *out, size_t size);

#endif
