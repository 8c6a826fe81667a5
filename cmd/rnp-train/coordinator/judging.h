/* judging.h - what a delta does to the loss, from its container: for the coordinator, and for
 * whoever judges from outside. What follows from it is judge.h's. Uses common/lm/rounds/judge.h,
 * wire/container.h. */
#ifndef RNP_TRAIN_COORDINATOR_JUDGING_H
#define RNP_TRAIN_COORDINATOR_JUDGING_H

#include "cmd/rnp-train/wire/flatfile.h"
#include "cmd/rnp-train/wire/protocol.h"
#include "common/lm/token/shard.h"
#include "common/lm/rounds/judge.h"
#include "common/lm/train/shuffle.h"

struct judging {
	const struct training *run;
	const struct lm_shards *data;
	const struct shuffle *shuffle;
	struct dev *cpu;      /* decodes containers */
	struct lm_loop *eval; /* as judging_loop opens it; its parameters are published */
	struct flatfile published, delta;
	/* that the round exchanges; the rest of delta is 0 */
	struct update_range *ranges;
	size_t nranges;
	uint64_t *other; /* sequences of nobody, the same for all deltas of a round */
	uint64_t fresh;  /* from this sequence on, nobody was given any */
};

/* Opens a loop that measures losses of the run's sequences, on d. Returns 0, or -1 with err_set();
 * close it either way. */
int judging_loop(struct lm_loop *l, struct dev *d, const struct training *run);

/* Opens published, the file `name` in dir, and room for a delta of a round (from 1) there, and
 * gives the loop published. Everything else of j is set. Returns 0, or -1 with err_set(); close
 * either way. */
int judging_open(struct judging *j, const char *dir, const char *name, uint64_t round);
void judging_close(struct judging *j);

/* Measures the container at path, which was made on sequences [first, first + sequences): on
 * windows that are drawn now, so that nobody could train on them alone. Returns 0, or -1 with
 * err_set(): 65 it is no container of this run. */
int judging_measure(struct judging *j, const char *path, uint64_t first,
	uint64_t sequences, struct judge_losses *out);

/* What was measured, as members of rnp.round and rnp.judgement have it. */
void judging_write(json_t *member, const struct judge_losses *losses);

/* A random number below `below`; 0 where that is 0. */
uint64_t judging_draw(uint64_t below);

#endif
