/* texts.c - automata of sets of texts: the tree of their beginnings. */
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/lm/grammar/dfa.h"

/* A text as characters, for the tree of a set. */
struct texts {
	uint32_t *chars; /* of all texts */
	const uint32_t *cuts;
	uint32_t intervals;
	struct {
		size_t begin, end;
	} * texts;
	size_t n;
};

/* A node of the tree: the sorted texts that share a beginning of some length. */
struct text_key {
	uint32_t first, last, depth;
};

/* The first of a node's texts whose next character is `least` or a later one. Those that end here
 * come before all others, as they are sorted. */
static uint32_t first_from(const struct texts *t, const struct text_key *k,
	uint64_t least)
{
	uint32_t low = k->first, high = k->last;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		size_t at = t->texts[middle].begin + k->depth;

		if (at < t->texts[middle].end && t->chars[at] >= least)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static bool texts_step(const void *ctx, const void *key, uint32_t interval, void *next)
{
	const struct texts *t = ctx;
	const struct text_key *k = key;
	struct text_key *to = next;

	*to = (struct text_key){ first_from(t, k, t->cuts[interval]), 0, k->depth + 1 };
	to->last = first_from(t, k, (uint64_t)t->cuts[interval] + 1);
	return to->first < to->last;
}

static bool texts_accept(const void *ctx, const void *key)
{
	const struct texts *t = ctx;
	const struct text_key *k = key;

	return k->first < k->last &&
		t->texts[k->first].begin + k->depth == t->texts[k->first].end;
}

static int by_text(const void *a, const void *b)
{
	const struct dfa_text *x = a, *y = b;
	size_t smallest = x->len < y->len ? x->len : y->len;
	int c = smallest ? memcmp(x->data, y->data, smallest) : 0;

	return c ? c : (x->len > y->len) - (x->len < y->len);
}

int dfa_texts(struct lm_dfa *out, const struct dfa_text *given, size_t n,
	struct lm_budget *b)
{
	struct texts t = { .n = n };
	struct dfa_text *sorted = xmalloc((n + 1) * sizeof *sorted);
	size_t total = 0, count = 0;
	uint32_t *cuts;
	int rc = -1;

	if (n) {
		memcpy(sorted, given, n * sizeof *sorted);
		qsort(sorted, n, sizeof *sorted, by_text);
	}
	for (size_t i = 0; i < n; i++)
		total += sorted[i].len;
	t.chars = xmalloc((total + 1) * sizeof *t.chars);
	t.texts = xmalloc((n + 1) * sizeof *t.texts);
	cuts = xmalloc((2 * total + 6) * sizeof *cuts);
	for (size_t i = 0; i < n; i++) {
		const char *s = sorted[i].data, *end = s + sorted[i].len;

		t.texts[i].begin = count;
		while (s < end)
			t.chars[count++] = dfa_next_char(&s, end);
		t.texts[i].end = count;
	}
	for (size_t i = 0; i < count; i++) {
		cuts[2 * i] = t.chars[i];
		cuts[2 * i + 1] = t.chars[i] + 1;
	}
	t.intervals = dfa_sort_cuts(cuts, (uint32_t)(2 * count));
	t.cuts = cuts;
	if (t.intervals > DFA_CUT_MAX) {
		err_set(EX_DATAERR, "the schema tells too many characters apart");
	} else {
		struct dfa_maker m = { .cuts = cuts,
			.intervals = t.intervals,
			.key_bytes = sizeof(struct text_key),
			.step = texts_step,
			.accept = texts_accept,
			.ctx = &t };
		struct text_key start = { 0, (uint32_t)n, 0 };

		rc = dfa_make(out, &m, &start, b, NULL);
	}
	free(cuts);
	free(t.chars);
	free(t.texts);
	free(sorted);
	return rc;
}
