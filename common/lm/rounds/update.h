/* update.h - the outer step of a round: containers of deltas in, new parameters and the container
 * of the update out. Uses aggregate.h, outer.h, judge.h, common/grad; runs on the CPU.
 *
 * theta are the coordinator's parameters, published those that all workers have. A round does
 *
 *     d = rule(deltas) ;  theta, v <- outer rule
 *     u = Q(theta - published) ;  published <- published + decode(u)
 *
 * so that what Q left out stays in theta - published and goes with a later update. Every array is
 * read and written in pieces, in order, so that mapped files do. The result is a function of the
 * set of deltas: not of threads or of the order in which they came, as long as the caller has them
 * in the order of members. Memory: one piece for a delta (1 MiB; topk 4 MiB), and a fixed part. */
#ifndef RNP_COMMON_LM_ROUNDS_UPDATE_H
#define RNP_COMMON_LM_ROUNDS_UPDATE_H

#include "common/grad/reader.h"
#include "common/lm/rounds/aggregate.h"
#include "common/lm/rounds/outer.h"
#include "common/lm/rounds/sketch.h"

enum update_rule { UPDATE_NESTEROV, UPDATE_SPARSE, UPDATE_DN, UPDATE_MEAN };

/* Parses "nesterov", "sparse", "dn" and "mean". Returns 0, or -1 with err_set(EX_USAGE). */
int update_parse(enum update_rule *r, const char *text);
extern const char *const update_names[];

struct update_options {
	enum update_rule rule;
	struct outer_nesterov nesterov; /* of nesterov */
	/* of all but dn, which takes deltas one by one */
	struct aggregate_rule aggregate;
	struct grad down; /* Q, as grad_parse has it */
	/* Whether to look for copies, on blocks that this seed draws: nobody knows it before the
	 * deltas are there. */
	bool copies;
	uint64_t copies_seed;
	uint32_t live; /* dn: members now */
};

/* Part of the flat parameters: [first, first + count). */
struct update_range {
	uint64_t first, count;
};

/* The ranges of fragment p of P, in the order of the layout, ascending, and joined where they
 * touch. *ranges: to be freed. Returns how many. P = 1: one range, all. */
size_t update_fragment(const struct lm_config *c, uint32_t p, uint32_t fragments,
	struct update_range **ranges);

/* Elements of all ranges. */
uint64_t update_elements(const struct update_range *ranges, size_t n);

/* Where a walk over ranges is: elements are taken in order. */
struct update_walk {
	const struct update_range *ranges;
	size_t n, i;
	uint64_t done; /* of range i */
};

/* The next elements that lie in one piece, 0 .. most of them, and *at, their place in the flat
 * array. */
uint64_t update_walk_step(struct update_walk *w, uint64_t max, uint64_t *at);

/* published <- published + u  for the next n elements of a walk. */
void update_publish(float *published, struct update_walk *w, const float *u, uint64_t n);

/* The run's arrays, over all parameters; a step of a fragment touches only its ranges. Borrowed. */
struct update_arrays {
	float *theta, *published;
	float *v;      /* nesterov: velocity; dn: m; else NULL */
	float *buffer; /* dn: D; else NULL */
	float *last;   /* cclip: the last d; else NULL */
	const struct update_range *ranges;
	size_t nranges;
};

/* A worker's container, in the order of members. */
struct update_delta {
	grad_read_at_fn read;
	void *ctx;
	uint64_t bytes;
	uint64_t weight_tokens;
};

struct update_result {
	uint64_t elements;         /* of the ranges */
	double *norm, *weight;     /* [k] */
	int64_t *cosine_ppm;       /* [k] to d; dn: 0 */
	bool *copied;              /* [k] */
	double d_norm, theta_norm; /* of d; of the parameters in the ranges, before */
	unsigned char hash[32];    /* of the container of u: SHA-256 */
	uint64_t bytes;            /* of it */
};

void update_result_release(struct update_result *r);

/* Makes the step of k deltas; of none nothing but what the last updates left out is published. dn:
 * the state of delayed Nesterov, in and out, NULL for other rules. The container of u goes to
 * write. Returns 0, or -1 with err_set(): what a container has wrong (65, naming the delta's place
 * from 0), a rule that needs more deltas, write's and read's errors. On failure the arrays may hold
 * a part of the step: callers work on copies. Release *out either way. */
int update_make(struct dev *cpu, const struct update_options *o, struct outer_dn *dn,
	const struct update_arrays *a, const struct update_delta *deltas, size_t k,
	grad_write_fn write, void *ctx, struct update_result *out);

/* Whether a container is of `elements` f32 and, where method is not NULL, of that method. Returns
 * 0, or -1 with err_set(EX_DATAERR). */
int update_header(const struct grad *g, const char *method, uint64_t elements);

/* What a worker does with an update:  published <- published + decode(u)  on the ranges. method: of
 * the container; NULL: any. Reads no further than the container's end. Returns 0, or -1 with
 * err_set(): 65 the container is damaged or of another size or method; published may then hold a
 * part; read's error. / */
int update_take(struct dev *dev, const char *method, float *published,
	const struct update_range *ranges, size_t nranges, grad_read_fn read, void *ctx);

/* Reads a container from a stranger whole: structure, checks, method (NULL: any), number of
 * elements, finite numbers. *norm: its L2 norm. The values are added to sketch, which was begun;
 * NULL: none. Returns 0, or -1 with err_set(EX_DATAERR), or read's error. */
int update_check(struct dev *dev, const char *method, uint64_t elements,
	grad_read_fn read, void *ctx, double *norm, struct sketch *sketch);

#endif
