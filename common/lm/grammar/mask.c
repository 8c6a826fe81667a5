/* mask.c - which tokens of a vocabulary a grammar allows.
 *
 * What a token does above the frame on top of the stack depends on that frame alone: it is found
 * once by a walk over the trie and kept. Where the walk leaves the frame (a string's closing quote)
 * it notes where in the trie, and from there it goes on below, which depends on the stack. Within
 * any string most of the vocabulary is allowed: that walk is made once for the vocabulary, and
 * copied from wherever a text is in such a string. Strings of bounded length differ from it in the
 * tokens that are too long for what is left, or close the string too early. */
#include "common/lm/grammar/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"

#define LOCALS_MAX 256
#define MASKS_MAX  8

struct mask {
	struct place at[2];
	uint32_t count;
	uint64_t *bits;
};

struct lm_matcher {
	struct lm_grammar *g;
	const struct lm_vocabulary *v;
	struct pool pool;
	struct places now;
	struct local *locals;
	size_t local_count, locals_cap;
	struct places *levels; /* of a walk, by depth */
	struct mask masks[MASKS_MAX];
	unsigned next_mask;
	uint64_t *bits;
};

/* --- walks -------------------------------------------------------------------------------- */

struct walk {
	struct lm_matcher *m;
	struct pool *pool;
	uint64_t *bits;
	struct local *local; /* gets where the walk leaves; NULL: it does not */
};

static void add_pop(struct local *l, uint32_t node, uint32_t label)
{
	if (l->pop_count && l->pops[l->pop_count - 1].node == node &&
		l->pops[l->pop_count - 1].label == label)
		return;
	l->pops = xgrow(l->pops, &l->pops_cap, l->pop_count + 1, sizeof *l->pops);
	l->pops[l->pop_count++] = (struct pop){ node, label };
}

static void walk_below(struct walk *w, uint32_t node, unsigned level);

/* Whether a text at this place is in a string (or key) that takes every character, and then what
 * its end leaves behind: a label. */
static bool is_plain(const struct lm_grammar *g, const struct place *at, uint32_t *label)
{
	*label = LABEL_NONE;
	if (at->top.phase != PLAIN)
		return false;
	if (at->top.kind == FRAME_STRING)
		return at->top.id == 0;
	if (at->top.kind == FRAME_KEY) {
		const struct gobject *o = &g->objects[at->top.id];
		uint32_t plain = o->plain[at->top.state];

		*label = plain - 1;
		return plain &&
			g->nodes[o->labels[*label].node].height <=
			LM_GRAMMAR_DEPTH_MAX - at->depth;
	}
	return false;
}

/* The tokens below a node from a plain text; level: where the places go that are after it. */
static void walk_plain(struct walk *w, uint32_t node, const struct place *at,
	uint32_t label, unsigned level)
{
	const struct lm_vocabulary *v = w->m->v;
	const struct local *plain = &v->plain;
	uint32_t end = v->nodes[node].skip;
	uint32_t first = v->nodes[node].first;
	uint32_t last = end < v->node_count ? v->nodes[end].first : v->order_count;
	size_t low = 0, high = plain->pop_count;

	if (!node) {
		for (uint32_t i = 0; i < v->words; i++)
			w->bits[i] |= plain->bits[i];
	} else {
		for (uint32_t i = first + v->nodes[node].tokens; i < last; i++) {
			uint32_t token = v->order[i];

			w->bits[token / 64] |= plain->bits[token / 64] &
				UINT64_C(1) << token % 64;
		}
	}
	while (low < high) { /* the first one after the node */
		size_t middle = (low + high) / 2;

		if (plain->pops[middle].node <= node)
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t i = low; i < plain->pop_count && plain->pops[i].node < end; i++) {
		struct places *to = &w->m->levels[level];

		if (w->pool->at[at->below].frame.kind == FRAME_BASE) {
			if (w->local)
				add_pop(w->local, plain->pops[i].node, label);
			continue;
		}
		to->count = to->based_count = 0;
		step_out(w->m->g, w->pool, at->below, label, to);
		walk_below(w, plain->pops[i].node, level);
	}
}

static void take_node(struct walk *w, uint32_t node, unsigned level)
{
	const struct lm_vocabulary *v = w->m->v;
	const struct node *n = &v->nodes[node];
	const struct places *at = &w->m->levels[level];

	for (uint32_t i = 0; i < n->tokens; i++)
		allow(w->bits, v->order[n->first + i]);
	if (!w->local || n->skip == node + 1)
		return;
	for (uint32_t i = 0; i < at->based_count; i++)
		add_pop(w->local, node, at->based[i]);
	for (uint32_t i = 0; i < at->count; i++)
		if (step_done(w->m->g, w->pool, &at->at[i], FRAME_BASE)) {
			add_pop(w->local, node, LABEL_NONE);
			break;
		}
}

/* Notes what the plain walk does at a node: `from` led `to` there. The count of its places, which
 * a string without bounds does not need, is that of the characters. */
static void note_within(struct within *n, const struct places *from, struct places *to)
{
	uint32_t chars = from->at[0].top.count;

	n->closes = to->based_count > 0;
	n->plain = to->count && to->at[0].top.phase == PLAIN;
	chars += n->plain;
	if (to->count)
		to->at[0].top.count = chars;
	n->chars = (uint16_t)(chars + (to->count && !n->plain));
}

/* Walks the nodes below `node` from the places of levels[level]. */
static void walk_below(struct walk *w, uint32_t node, unsigned level)
{
	const struct lm_vocabulary *v = w->m->v;
	uint32_t end = v->nodes[node].skip, base = v->nodes[node].depth, label;
	const struct places *start = &w->m->levels[level];

	if (start->count == 1 && w->local != &v->plain && v->within[node].plain &&
		is_plain(w->m->g, &start->at[0], &label)) {
		struct place at = start->at[0];

		walk_plain(w, node, &at, label, level + 1);
		return;
	}
	for (uint32_t i = node + 1; i < end;) {
		const struct node *n = &v->nodes[i];
		unsigned here = level + n->depth - base;
		const struct places *from = &w->m->levels[here - 1];
		struct places *to = &w->m->levels[here];

		to->count = to->based_count = 0;
		for (uint32_t k = 0; k < from->count; k++)
			step(w->m->g, w->pool, &from->at[k], n->byte, to);
		if (!to->count && !to->based_count) {
			i = n->skip;
			continue;
		}
		take_node(w, i, here);
		if (w->local == &v->plain)
			note_within(&v->within[i], from, to);
		else if (to->count == 1 && v->within[i].plain && !to->based_count &&
			is_plain(w->m->g, &to->at[0], &label)) {
			struct place at = to->at[0];

			if (n->skip > i + 1)
				walk_plain(w, i, &at, label, here + 1);
			i = n->skip;
			continue;
		}
		i = to->count ? i + 1 : n->skip;
	}
}

void local_release(struct local *l)
{
	free(l->bits);
	free(l->pops);
}

/* Finds what tokens do above l->frame. */
static void find_local(struct lm_matcher *m, struct local *l)
{
	struct pool pool;
	struct walk w = { m, &pool, NULL, l };
	struct places *start = &m->levels[0];

	l->bits = w.bits = xcalloc(m->v->words, sizeof *l->bits);
	pool_init(&pool);
	start->count = start->based_count = 0;
	places_add(start, &l->frame, 1, LM_GRAMMAR_DEPTH_MAX - l->slack);
	if (step_done(m->g, &pool, &start->at[0], FRAME_BASE))
		add_pop(l, 0, LABEL_NONE);
	walk_below(&w, 0, 0);
	pool_release(&pool);
}

void mask_find_plain(struct lm_vocabulary *v)
{
	struct lm_matcher *m = lm_matcher_new(v->any, v);

	find_local(m, &v->plain);
	lm_matcher_free(m);
}

/* What is left of a string that takes every character: at least `min` characters, at most max. */
struct left {
	uint32_t min, max;
};

/* Whether a place is in such a string, at the end of a character. */
static bool is_counted(const struct lm_grammar *g, const struct frame *f,
	struct left *left)
{
	const struct gstring *s;

	if (f->kind != FRAME_STRING || f->phase != PLAIN)
		return false;
	s = &g->strings[f->id];
	if (s->dfa != g->strings[0].dfa)
		return false;
	left->min = s->min > f->count ? s->min - f->count : 0;
	left->max = s->max == NO_MAX ? NO_MAX : s->max - f->count;
	return true;
}

/* Finds what tokens do in a string with bounds: what they do in any string, but those that need
 * more characters than are left, and those that close it too early. */
static void find_counted(const struct lm_vocabulary *v, struct local *l,
	const struct left *left)
{
	uint32_t max = left->max < v->depth_max ? left->max : v->depth_max;
	uint32_t fitting = v->fits_end[max], all = v->fits_end[v->depth_max];

	l->bits = xcalloc(v->words, sizeof *l->bits);
	if (fitting < all / 2) {
		for (uint32_t i = 0; i < fitting; i++)
			allow(l->bits, v->fits[i]);
	} else {
		memcpy(l->bits, v->plain.bits, v->words * sizeof *l->bits);
		for (uint32_t i = fitting; i < all; i++)
			forbid(l->bits, v->fits[i]);
	}
	for (uint32_t i = 0; i < v->close_count; i++) {
		const struct node *n = &v->nodes[v->closes[i]];

		for (uint32_t k = 0; k < n->tokens; k++)
			if (v->within[v->closes[i]].chars < left->min)
				forbid(l->bits, v->order[n->first + k]);
	}
	for (size_t i = 0; i < v->plain.pop_count; i++) {
		uint32_t chars = v->within[v->plain.pops[i].node].chars;

		if (chars >= left->min && chars <= left->max)
			add_pop(l, v->plain.pops[i].node, LABEL_NONE);
	}
}

/* The place by which a local walk is known. While no token can come near the greatest length of a
 * string, how many characters it has makes no difference. */
static struct frame frame_of(const struct lm_matcher *m, const struct frame *top)
{
	const struct gstring *s = top->kind == FRAME_STRING ? &m->g->strings[top->id] :
							      NULL;
	struct frame out = *top;

	if (s && s->distance &&
		(uint64_t)top->count + m->v->depth_max + s->farthest <= s->max)
		out.count = 0;
	return out;
}

static const struct local *local_of(struct lm_matcher *m, const struct place *at)
{
	const struct frame key = frame_of(m, &at->top);
	struct left left;
	bool counted = is_counted(m->g, &at->top, &left);
	uint32_t max = m->g->height_max + m->v->opens_max;
	uint32_t slack = LM_GRAMMAR_DEPTH_MAX - at->depth;
	struct local *l;

	if (slack > max)
		slack = max;
	if (at->top.kind == FRAME_STRING || at->top.kind == FRAME_BYTES)
		slack = 0;
	if (counted && !left.min && left.max >= m->v->depth_max)
		return &m->v->plain;
	for (size_t i = 0; i < m->local_count; i++)
		if (m->locals[i].slack == slack &&
			memcmp(&m->locals[i].frame, &key, sizeof key) == 0)
			return &m->locals[i];
	if (m->local_count == LOCALS_MAX) {
		while (m->local_count)
			local_release(&m->locals[--m->local_count]);
	}
	m->locals = xgrow(m->locals, &m->locals_cap, m->local_count + 1,
		sizeof *m->locals);
	l = &m->locals[m->local_count++];
	*l = (struct local){ .frame = key, .slack = slack };
	if (counted)
		find_counted(m->v, l, &left);
	else
		find_local(m, l);
	return l;
}

/* --- matchers ----------------------------------------------------------------------------- */

struct lm_matcher *lm_matcher_new(struct lm_grammar *g, const struct lm_vocabulary *v)
{
	struct lm_matcher *m = xcalloc(1, sizeof *m);
	struct frame f;

	m->g = g;
	m->v = v;
	pool_init(&m->pool);
	memset(&f, 0, sizeof f);
	f.kind = FRAME_SEQUENCE;
	places_add(&m->now, &f, 0, 0);
	if (v) {
		/* a token's walk goes on below strings that end in it, at most once a byte */
		m->levels = xcalloc(2 * v->depth_max + 4, sizeof *m->levels);
		m->bits = xcalloc(v->words + 1, sizeof *m->bits);
	}
	return m;
}

void lm_matcher_free(struct lm_matcher *m)
{
	if (!m)
		return;
	pool_release(&m->pool);
	for (size_t i = 0; i < m->local_count; i++)
		local_release(&m->locals[i]);
	for (size_t i = 0; i < MASKS_MAX; i++)
		free(m->masks[i].bits);
	free(m->locals);
	free(m->levels);
	free(m->bits);
	free(m);
}

static bool push_byte(struct lm_matcher *m, uint8_t byte)
{
	struct places to = { .count = 0 };

	for (uint32_t i = 0; i < m->now.count; i++)
		step(m->g, &m->pool, &m->now.at[i], byte, &to);
	if (!to.count)
		return false;
	m->now.count = to.count;
	memcpy(m->now.at, to.at, to.count * sizeof *to.at);
	return true;
}

size_t lm_matcher_push(struct lm_matcher *m, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!push_byte(m, (uint8_t)text[i]))
			return i;
	return len;
}

bool lm_matcher_take(struct lm_matcher *m, uint32_t token)
{
	struct places to = { .count = 0 };
	const struct lm_vocabulary_token *t;

	if (!m->v || token >= m->v->count)
		return false;
	t = &m->v->tokens[token];
	if (t->ends)
		return lm_matcher_done(m);
	for (uint32_t i = 0; i < m->now.count; i++)
		step_tokens(m->g, &m->pool, &m->now.at[i], token, &to, NULL, NULL);
	if (to.count) {
		m->now = to;
		return true;
	}
	return t->len && lm_matcher_push(m, t->text, t->len) == t->len;
}

bool lm_matcher_done(const struct lm_matcher *m)
{
	for (uint32_t i = 0; i < m->now.count; i++)
		if (step_done(m->g, &m->pool, &m->now.at[i], FRAME_END))
			return true;
	return false;
}

static void allow_token(void *ctx, uint32_t token)
{
	struct lm_matcher *m = ctx;

	if (token < m->v->count)
		allow(m->bits, token);
}

static void add_place(struct lm_matcher *m, const struct place *at)
{
	struct walk w = { m, &m->pool, m->bits, NULL };
	const struct local *l;

	step_tokens(m->g, &m->pool, at, -1, NULL, allow_token, m);
	if (at->top.kind == FRAME_END)
		return;
	l = local_of(m, at);
	for (uint32_t i = 0; i < m->v->words; i++)
		m->bits[i] |= l->bits[i];
	if (m->pool.at[at->below].frame.kind == FRAME_END)
		return;
	for (size_t i = 0; i < l->pop_count; i++) {
		struct places *to = &m->levels[0];
		uint32_t node = l->pops[i].node;

		to->count = to->based_count = 0;
		step_out(m->g, &m->pool, at->below, l->pops[i].label, to);
		if (to->count)
			walk_below(&w, node, 0);
	}
}

const uint64_t *lm_matcher_mask(struct lm_matcher *m)
{
	const struct lm_vocabulary *v = m->v;
	bool done = lm_matcher_done(m), any = false;

	for (unsigned i = 0; i < MASKS_MAX && m->now.count <= 2; i++)
		if (m->masks[i].bits && m->masks[i].count == m->now.count &&
			memcmp(m->masks[i].at, m->now.at,
				m->now.count * sizeof *m->now.at) == 0)
			return m->masks[i].bits;
	memset(m->bits, 0, v->words * sizeof *m->bits);
	for (uint32_t i = 0; i < m->now.count; i++)
		add_place(m, &m->now.at[i]);
	for (uint32_t i = 0; i < v->words && !any; i++)
		any = m->bits[i] != 0;
	for (uint32_t i = 0; i < v->count && (done || !any); i++)
		if (v->tokens[i].ends)
			allow(m->bits, i);
	if (m->now.count <= 2) {
		struct mask *k = &m->masks[m->next_mask++ % MASKS_MAX];
		uint64_t *bits = k->bits;

		k->bits = m->bits;
		m->bits = bits ? bits : xcalloc(v->words + 1, sizeof *bits);
		k->count = m->now.count;
		memcpy(k->at, m->now.at, m->now.count * sizeof *k->at);
		return k->bits;
	}
	return m->bits;
}
