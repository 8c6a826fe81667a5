/* evidence.h - which signed records count as evidence of what nodes did, and reads those of files
 * on all cores. Uses signature, schema, lines, evidence_plain, prog (for warnings). */
#ifndef RNP_CMD_REWARD_EVIDENCE_H
#define RNP_CMD_REWARD_EVIDENCE_H

#include <jansson.h>
#include <stdbool.h>

#include "common/cli/opt.h"

struct evidence {
	struct opt_list trust; /* whose words about others count */
	bool heartbeats;       /* a node's own heartbeats count */
	bool claims; /* rnp.usage records are passed on, too: claims, which need no signature */
};

/* The row `--trust ADDRESS`; list is a struct opt_list. */
/* clang-format off */
#define OPT_TRUST(list, text)                                                              \
	{ .name = "trust", .kind = OPT_LIST, .address = true, .to = &(list),     \
		.metavar = "ADDRESS", .help = text }
/* clang-format on */

/* Whether a record that fits its schema counts. One that does not is reported as a warning, unless
 * where is NULL: a stranger who sends a bad record must not be able to stop everybody's pay.
 * Thread-safe. */
bool evidence_counts(const struct evidence *e, const json_t *record, const char *where);

/* The same for n records, at most EVIDENCE_MANY, whose signatures are verified together, in a fraction of
 * the time; sets counted of each. */
#define EVIDENCE_MANY 64
void evidence_count_many(const struct evidence *e, const json_t *const *records, size_t n,
	const char *where, bool *counted);

/* Receives a record that counts; returns 0, or -1 with err_set. */
typedef int (*evidence_fn)(void *ctx, json_t *record, const char *where);

/* Receives what gathering takes of one that counts; the same. What it refuses must have changed nothing: it
 * gets it without a place, "", and if it refuses it again with the place, for the message. */
struct gather_item;
typedef int (
	*evidence_item_fn)(void *ctx, const struct gather_item *item, const char *where);

/* Is told of an item that is passed on a little later: only of what is in it, not of what it points to. */
typedef void (*evidence_ahead_fn)(void *ctx, const struct gather_item *item);

/* Reads the records of files (none: standard input). For each that counts it calls item or fn, in
 * order, on one thread: item for an rnp.node and for those that could be read from their text alone
 * (evidence_plain.h), fn for all others; ahead, which may be NULL, before. Returns 0, or -1 with the first error: fn's or item's, or
 * of a line that fits no schema. */
int evidence_read(const struct evidence *e, char **files, int n, evidence_fn fn,
	evidence_item_fn item, evidence_ahead_fn ahead, void *ctx);

#endif
