/* evidence.h - which signed records count as evidence of what nodes did, and reads those of files
 * on all cores. Uses signature, schema, lines, evidence_plain, prog (for warnings). */
#ifndef RNP_CMD_REWARD_EVIDENCE_EVIDENCE_H
#define RNP_CMD_REWARD_EVIDENCE_EVIDENCE_H

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
	OPT(LIST, "trust", &(list), "ADDRESS", text, .address = true)
/* clang-format on */

/* Whether a record that fits its schema counts. One that does not is reported as a warning, unless
 * where is NULL: a stranger who sends a bad record must not be able to stop everybody's pay.
 * Thread-safe. */
bool evidence_counts(const struct evidence *e, const json_t *record, const char *where);

/* Sets counted[i] to evidence_counts of record i, for n records, at most EVIDENCE_MANY. Verifies
 * their signatures together, in a fraction of the time. */
#define EVIDENCE_MANY 64
void evidence_count_many(const struct evidence *e, const json_t *const *records, size_t n,
	const char *where, bool *counted);

/* Receives a record that counts; returns 0, or -1 with err_set. */
typedef int (*evidence_fn)(void *ctx, json_t *record, const char *where);

/* Receives the item of a record that counts; the same returns. A refused item must have changed
 * nothing: at first `where` is "", and after a refusal it is called again with the real place,
 * for the message. */
struct collect_item;
typedef int (
	*evidence_item_fn)(void *ctx, const struct collect_item *item, const char *where);

/* Called shortly before the item is passed on, to prefetch memory for it. May read what is in
 * the item, not what it points to. */
typedef void (*evidence_prefetch_fn)(void *ctx, const struct collect_item *item);

/* Reads the records of files (none: standard input). For each that counts it calls item or fn,
 * in order, on one thread: item for an rnp.node and for those that could be read from their text
 * alone (plain.h), fn for all others; before each item it calls prefetch, which may be NULL.
 * Returns 0, or -1 with the first error: fn's or item's, or of a line that fits no schema. */
int evidence_read(const struct evidence *e, char **files, int n, evidence_fn fn,
	evidence_item_fn item, evidence_prefetch_fn prefetch, void *ctx);

#endif
