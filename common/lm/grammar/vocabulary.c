/* vocabulary.c - builds the trie of a vocabulary. */
#include "common/lm/grammar/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"

static int by_text(const void *a, const void *b, void *tokens)
{
	const struct lm_vocabulary_token *t = tokens;
	const struct lm_vocabulary_token *x = &t[*(const uint32_t *)a],
					 *y = &t[*(const uint32_t *)b];
	size_t min = x->len < y->len ? x->len : y->len;
	int c = min ? memcmp(x->text, y->text, min) : 0;

	return c ? c : (x->len > y->len) - (x->len < y->len);
}

static void add_node(struct lm_vocabulary *v, uint32_t depth, uint8_t byte,
	uint32_t first)
{
	v->nodes = xgrow(v->nodes, &v->nodes_cap, v->node_count + 1, sizeof *v->nodes);
	v->nodes[v->node_count++] = (struct node){ .first = first,
		.depth = (uint16_t)depth,
		.byte = byte };
}

/* The nodes in the order of a walk: the texts are sorted. */
static void build_trie(struct lm_vocabulary *v)
{
	uint32_t *open = xcalloc(v->depth_max + 2, sizeof *open); /* nodes on the way */
	uint32_t at = 0;

	add_node(v, 0, 0, 0);
	for (uint32_t i = 0; i < v->order_count; i++) {
		const struct lm_vocabulary_token *t = &v->tokens[v->order[i]];
		uint32_t same = 0;

		while (same < at && same < t->len &&
			v->nodes[open[same + 1]].byte == (uint8_t)t->text[same])
			same++;
		for (; at > same; at--)
			v->nodes[open[at]].skip = (uint32_t)v->node_count;
		for (; at < t->len; at++) {
			open[at + 1] = (uint32_t)v->node_count;
			add_node(v, at + 1, (uint8_t)t->text[at], i);
		}
		v->nodes[v->node_count - 1].tokens++;
	}
	for (; at; at--)
		v->nodes[open[at]].skip = (uint32_t)v->node_count;
	v->nodes[0].skip = (uint32_t)v->node_count;
	free(open);
}

/* Sorts the tokens that any string allows by the characters that must fit. */
static void sort_fits(struct lm_vocabulary *v)
{
	const struct node *n = v->nodes, *end = n + v->node_count;
	uint32_t *at = v->fits_end, start = 0;

	for (; n < end; n++)
		for (uint32_t i = n->first; i < n->first + n->tokens; i++)
			at[v->within[n - v->nodes].chars] += allows(v->plain.bits,
				v->order[i]);
	for (uint32_t i = 0; i < v->node_count; i++)
		if (v->within[i].closes)
			v->closes[v->close_count++] = i;
	for (uint32_t i = 0; i <= v->depth_max; i++) {
		uint32_t count = at[i];

		at[i] = start;
		start += count;
	}
	for (n = v->nodes; n < end; n++)
		for (uint32_t i = n->first; i < n->first + n->tokens; i++)
			if (allows(v->plain.bits, v->order[i]))
				v->fits[at[v->within[n - v->nodes].chars]++] =
					v->order[i];
}

struct lm_vocabulary *lm_vocabulary_new(const struct lm_vocabulary_token *tokens,
	uint32_t count)
{
	struct lm_vocabulary *v = xcalloc(1, sizeof *v);
	size_t bytes = 0;
	json_t *schema;
	char *at;

	v->count = count;
	v->words = (count + 63) / 64;
	v->tokens = xmalloc((count + 1) * sizeof *v->tokens);
	v->order = xmalloc((count + 1) * sizeof *v->order);
	for (uint32_t i = 0; i < count; i++)
		bytes += tokens[i].len;
	at = v->pool = xmalloc(bytes + 1);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t opens = 0;

		v->tokens[i] = tokens[i];
		v->tokens[i].text = at;
		if (!tokens[i].len || tokens[i].ends)
			continue;
		memcpy(at, tokens[i].text, tokens[i].len);
		for (size_t k = 0; k < tokens[i].len; k++)
			opens += at[k] == '[' || at[k] == '{';
		at += tokens[i].len;
		/* longer ones than a walk's levels are never allowed */
		if (tokens[i].len > 512)
			continue;
		v->order[v->order_count++] = i;
		if (tokens[i].len > v->depth_max)
			v->depth_max = (uint32_t)tokens[i].len;
		if (opens > v->opens_max)
			v->opens_max = opens;
	}
	qsort_r(v->order, v->order_count, sizeof *v->order, by_text, v->tokens);
	build_trie(v);
	schema = json_true();
	if (lm_grammar_schema(&v->any, schema) < 0)
		bug("the schema of any value is refused");
	v->within = xcalloc(v->node_count, sizeof *v->within);
	v->within[0].plain = true;
	v->plain.frame.kind = FRAME_STRING;
	v->plain.frame.phase = PLAIN;
	mask_find_plain(v);
	v->fits = xmalloc((v->order_count + 1) * sizeof *v->fits);
	v->closes = xmalloc(v->node_count * sizeof *v->closes);
	v->fits_end = xcalloc(v->depth_max + 1, sizeof *v->fits_end);
	sort_fits(v);
	return v;
}

void lm_vocabulary_free(struct lm_vocabulary *v)
{
	if (!v)
		return;
	local_release(&v->plain);
	free(v->within);
	free(v->fits);
	free(v->closes);
	free(v->fits_end);
	lm_grammar_free(v->any);
	free(v->tokens);
	free(v->pool);
	free(v->order);
	free(v->nodes);
	free(v);
}
