/* wish.h - reads what a customer looks for (rnp.job), and what a node has (rnp.node, rnp.listing).
 * Uses jansson, schema, gpu, gpus, pool, core.h. Pure. */
#ifndef RNP_COMMON_MARKET_WISH_H
#define RNP_COMMON_MARKET_WISH_H

#include <jansson.h>
#include <stdint.h>

#include "common/base/mem.h"
#include "common/market/core.h"
#include "common/market/index.h"

/* Texts are compared by their pointers: `one` returns the pointer that stands for a text, which
 * lives as long as what is read. Models come by their canonical names. */
enum match_word { MATCH_WORD_MODEL, MATCH_WORD_PLACE, MATCH_WORD_NODE, MATCH_WORD_OTHER };

struct match_words {
	const char *(*one)(void *ctx, enum match_word what, const char *text);
	void *ctx;
	struct arena *arena; /* lists of a job are in it */
};

/* The words of an index. A text that no node has is itself: it equals none of theirs. What was read
 * with them holds until the index changes, and as long as the record. */
struct match_words match_index_words(const struct match_index *ix, struct arena *arena);

/* Reads an rnp.job, checked against its schema. now_ms: of a job without a time. A GPU that is
 * named without its form or memory ("A100") is any of those. Returns 0, or -1 with err_set(): 65
 * naming where, the field and what is wrong with it. */
int match_wish_read(const json_t *r, const char *where, int64_t now_ms,
	const struct match_words *w, struct match_job *out);

/* Reads what an rnp.node says, which has passed its schema: GPUs (of several models the most
 * powerful), memory, cores, disk, link and labels. *out is set anew, without id, price and
 * state; uptime is 10^6 and reputation not known. */
void match_node_read(const json_t *r, const struct match_words *w,
	struct match_node *out);

/* Puts in their place what an rnp.listing has for sale. */
void match_listing_read(const json_t *r, struct match_node *out);

/* The bits of labels.compliance or of a job's compliance. */
uint32_t match_compliance_bits(const json_t *list);

/* The name by which GPUs are compared: the table's, or what was given. */
const char *match_model_name(const char *name, int64_t memory_bytes);

#endif
