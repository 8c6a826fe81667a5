/* step.c - one byte further in a grammar; long because its kinds of frames lead into each other. */
#include "common/lm/grammar/step.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/fnv.h"
#include "common/base/mem.h"

#define BLANKS_MAX 42 /* a line break, and 40 blanks */

/* --- the pool ----------------------------------------------------------------------------- */

void pool_init(struct pool *p)
{
	*p = (struct pool){ 0 };
	p->mask = 255;
	p->index = xcalloc(p->mask + 1, sizeof *p->index);
	p->at = xgrow(p->at, &p->cap, 2, sizeof *p->at);
	memset(p->at, 0, 2 * sizeof *p->at);
	p->at[0].frame.kind = FRAME_END;
	p->at[1].frame.kind = FRAME_BASE;
	p->count = 2;
}

void pool_release(struct pool *p)
{
	free(p->at);
	free(p->index);
}

static uint32_t hash_below(const struct frame *f, uint32_t below)
{
	uint64_t h = fnv1a(FNV1A + below, f, sizeof *f);

	return (uint32_t)(h ^ h >> 31);
}

static void grow_index(struct pool *p)
{
	p->mask = p->mask * 2 + 1;
	free(p->index);
	p->index = xcalloc(p->mask + 1, sizeof *p->index);
	for (uint32_t i = 2; i < p->count; i++) {
		uint32_t *slot =
			&p->index[hash_below(&p->at[i].frame, p->at[i].below) & p->mask];

		p->at[i].next = *slot;
		*slot = i;
	}
}

/* The number of a frame on a stack. */
static uint32_t pool_push(struct pool *p, const struct frame *f, uint32_t below,
	uint32_t depth)
{
	uint32_t *slot = &p->index[hash_below(f, below) & p->mask];

	for (uint32_t i = *slot; i; i = p->at[i].next)
		if (p->at[i].below == below && memcmp(&p->at[i].frame, f, sizeof *f) == 0)
			return i;
	p->at = xgrow(p->at, &p->cap, p->count + 1, sizeof *p->at);
	p->at[p->count] = (struct below){ *f, below, depth, *slot };
	*slot = (uint32_t)p->count++;
	if (p->count > p->mask)
		grow_index(p);
	return (uint32_t)p->count - 1;
}

void places_add(struct places *to, const struct frame *top, uint32_t below,
	uint32_t depth)
{
	for (uint32_t i = 0; i < to->count; i++)
		if (to->at[i].below == below &&
			memcmp(&to->at[i].top, top, sizeof *top) == 0)
			return;
	if (to->count == PLACES_MAX) {
		to->overflow = true;
		return;
	}
	to->at[to->count++] = (struct place){ *top, below, depth };
}

static void add_based(struct places *to, uint32_t label)
{
	for (uint32_t i = 0; i < to->based_count; i++)
		if (to->based[i] == label)
			return;
	if (to->based_count < PLACES_MAX)
		to->based[to->based_count++] = label;
	else
		to->overflow = true;
}

/* --- texts -------------------------------------------------------------------------------- */

/* The next characters that a text allows: of a string, or of a key. */
struct reader {
	const struct lm_grammar *g;
	const struct frame *f;
	const struct lm_dfa *dfa;
	const struct gobject *object; /* of keys */
	uint32_t room;                /* containers that may still be opened */
	bool bare;                    /* of a text without quotes: nothing is counted */
};

/* Whether an object has room only for names that it must have and has not. */
static bool wants_required(const struct gobject *o, const struct frame *f)
{
	uint32_t missing = 0;

	for (uint32_t w = 0; w < SEEN_WORDS; w++)
		missing += (uint32_t)__builtin_popcountll(o->required[w] & ~f->seen[w]);
	return o->max != NO_MAX && f->count + missing >= o->max;
}

static bool key_lives(const struct reader *r, uint32_t state)
{
	const struct gobject *o = r->object;
	bool required = wants_required(o, r->f);

	if (!required && o->free_height[state] <= r->room)
		return true;
	for (uint32_t w = 0; w < SEEN_WORDS; w++) {
		uint64_t left = o->reach[state][w] & ~r->f->seen[w] &
			(required ? o->required[w] : UINT64_MAX);

		while (left) {
			uint32_t p = w * 64 + (uint32_t)__builtin_ctzll(left);

			if (o->property_height[p] <= r->room)
				return true;
			left &= left - 1;
		}
	}
	return false;
}

/* Whether a string may end after one more character, which leads to state: without more characters
 * than it may have. */
static bool has_room(const struct reader *r, uint32_t state)
{
	const struct gstring *s = &r->g->strings[r->f->id];

	return !s->distance || (uint64_t)r->f->count + 1 + s->distance[state] <= s->max;
}

static bool lives(const struct reader *r, uint32_t state)
{
	if (state == DFA_DEAD)
		return false;
	return r->bare || (r->object ? key_lives(r, state) : has_room(r, state));
}

/* Whether one of the characters low..high may come. */
static bool any_of(const struct reader *r, uint32_t low, uint32_t high)
{
	const struct lm_dfa *d = r->dfa;

	for (uint32_t i = dfa_interval(d, low); i < d->intervals && d->cuts[i] <= high;
		i++)
		if (lives(r, d->next[(size_t)r->f->state * d->intervals + i]))
			return true;
	return false;
}

static bool take_char(const struct reader *r, uint32_t c, struct frame *to)
{
	const struct gstring *s = r->object || r->bare ? NULL : &r->g->strings[r->f->id];

	to->state = dfa_step(r->dfa, r->f->state, c);
	if (!lives(r, to->state))
		return false;
	to->phase = PLAIN;
	to->left = 0;
	to->code = to->high = 0;
	/* counted as far as it matters */
	if (s && (s->max != NO_MAX || to->count < s->min))
		to->count++;
	return true;
}

static bool take_utf8(const struct reader *r, uint8_t byte, struct frame *to)
{
	uint32_t smallest = 0, low, high;

	if (r->f->phase == PLAIN) {
		if (byte < 0xc2 || byte > 0xf4)
			return false;
		to->left = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
		to->code = byte & (0x3fu >> to->left);
		to->phase = UTF8;
		/* the shortest form: high says how many bytes there are */
		to->high = to->left;
	} else {
		if ((byte & 0xc0) != 0x80)
			return false;
		to->code = r->f->code << 6 | (byte & 63u);
		to->left--;
	}
	smallest = to->high == 1 ? 0x80 : to->high == 2 ? 0x800 : 0x10000;
	low = to->code << 6 * to->left;
	high = low | ((1u << 6 * to->left) - 1);
	if (low < smallest)
		low = smallest;
	if (high > 0x10ffff)
		high = 0x10ffff;
	if (low > high)
		return false;
	return to->left ? any_of(r, low, high) : take_char(r, to->code, to);
}

static int hex_digit(uint8_t c)
{
	return c >= '0' && c <= '9'  ? c - '0' :
		c >= 'a' && c <= 'f' ? c - 'a' + 10 :
		c >= 'A' && c <= 'F' ? c - 'A' + 10 :
				       -1;
}

/* Whether what begins with these digits can be a character, or half of one. */
static bool any_unit(const struct reader *r, uint32_t low, uint32_t high)
{
	uint32_t a = low > 0xd800 ? low : 0xd800, b = high < 0xdbff ? high : 0xdbff;

	if (any_of(r, low, high))
		return true;
	return a <= b &&
		any_of(r, 0x10000 + ((a & 0x3ff) << 10), 0x103ff + ((b & 0x3ff) << 10));
}

static bool take_hex(const struct reader *r, uint8_t byte, struct frame *to)
{
	int digit = hex_digit(byte);
	uint32_t low, high;

	if (digit < 0)
		return false;
	to->code = r->f->code << 4 | (uint32_t)digit;
	to->left--;
	low = to->code << 4 * to->left;
	high = low | ((1u << 4 * to->left) - 1);
	if (r->f->phase == LOW_HEX) {
		uint32_t base = 0x10000 + ((r->f->high & 0x3ff) << 10);

		low = low > 0xdc00 ? low : 0xdc00;
		high = high < 0xdfff ? high : 0xdfff;
		if (low > high)
			return false;
		return to->left ? any_of(r, base + (low & 0x3ff), base + (high & 0x3ff)) :
				  take_char(r, base + (to->code & 0x3ff), to);
	}
	if (to->left)
		return any_unit(r, low, high);
	if (to->code >= 0xd800 && to->code < 0xdc00) {
		to->high = to->code;
		to->code = 0;
		to->phase = LOW_ESCAPE;
		return any_of(r, 0x10000 + ((to->high & 0x3ff) << 10),
			0x103ff + ((to->high & 0x3ff) << 10));
	}
	return take_char(r, to->code, to);
}

static bool take_escape(const struct reader *r, uint8_t byte, struct frame *to)
{
	static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
	const char *known = byte ? strchr(from, byte) : NULL;

	if (byte == 'u') {
		to->phase = HEX;
		to->left = 4;
		to->code = 0;
		return any_unit(r, 0, 0xffff);
	}
	return known && take_char(r, (uint8_t)into[known - from], to);
}

/* Whether any character can come that is escaped. */
static bool can_escape(const struct reader *r)
{
	return any_of(r, 0, 0x10ffff);
}

enum read { READ_DEAD, READ_ON, READ_CLOSED };

static enum read read_text(const struct reader *r, uint8_t byte, struct frame *to)
{
	const struct gstring *s = r->object ? NULL : &r->g->strings[r->f->id];
	bool full = s && s->max != NO_MAX && r->f->count >= s->max, good;

	*to = *r->f;
	switch (r->f->phase) {
	case PLAIN:
		if (byte == '"')
			return READ_CLOSED;
		if (full || byte < 0x20)
			return READ_DEAD;
		if (byte == '\\') {
			to->phase = ESCAPE;
			return can_escape(r) ? READ_ON : READ_DEAD;
		}
		good = byte < 0x80 ? take_char(r, byte, to) : take_utf8(r, byte, to);
		break;
	case UTF8:
		good = take_utf8(r, byte, to);
		break;
	case ESCAPE:
		good = take_escape(r, byte, to);
		break;
	case LOW_ESCAPE:
		to->phase = LOW_U;
		good = byte == '\\';
		break;
	case LOW_U:
		to->phase = LOW_HEX;
		to->left = 4;
		to->code = 0;
		good = byte == 'u';
		break;
	default:
		good = take_hex(r, byte, to);
	}
	return good ? READ_ON : READ_DEAD;
}

/* The same of a text without quotes. Returns whether the byte may come. */
static bool read_bare(const struct lm_grammar *g, const struct frame *f, uint8_t byte,
	struct frame *to)
{
	const struct reader r = { .g = g, .f = f, .dfa = &g->dfas[f->id], .bare = true };

	*to = *f;
	return f->phase == PLAIN && byte < 0x80 ? take_char(&r, byte, to) :
						  take_utf8(&r, byte, to);
}

/* --- values ------------------------------------------------------------------------------- */

/* Begins a value of a node with a byte; `below` lies under it. */
static void begin(const struct lm_grammar *g, uint32_t node, uint32_t below,
	uint32_t depth, uint8_t byte, struct places *to)
{
	const struct gnode *n = &g->nodes[node];

	for (uint32_t i = 0; i < n->count; i++) {
		const struct way *w = &n->ways[i];
		struct frame f, first;

		memset(&f, 0, sizeof f);
		f.id = w->id;
		switch (w->kind) {
		case WAY_BYTES:
			f.kind = FRAME_BYTES;
			f.phase = PLAIN;
			if (read_bare(g, &f, byte, &first))
				places_add(to, &first, below, depth);
			break;
		case WAY_STRING:
			f.kind = FRAME_STRING;
			f.phase = PLAIN;
			if (byte == '"')
				places_add(to, &f, below, depth);
			break;
		default:
			f.kind = w->kind == WAY_ARRAY ? FRAME_ARRAY : FRAME_OBJECT;
			f.phase = OPENED;
			if (byte == (w->kind == WAY_ARRAY ? '[' : '{') &&
				depth + w->height <= LM_GRAMMAR_DEPTH_MAX)
				places_add(to, &f, below, depth + 1);
		}
	}
}

static bool take_blank(const struct frame *f, uint8_t byte, struct frame *to)
{
	*to = *f;
	if (byte == '\n' && f->blanks == 0)
		to->blanks = 2;
	else if (byte == ' ' && f->blanks == 0)
		to->blanks = 1;
	else if ((byte == ' ' || byte == '\t') && f->blanks >= 2 &&
		f->blanks < BLANKS_MAX)
		to->blanks++;
	else
		return false;
	return true;
}

static void leave(const struct lm_grammar *g, struct pool *p, const struct place *from,
	uint32_t label, struct places *to);

static bool complete(const struct gobject *o, const struct frame *f)
{
	for (uint32_t w = 0; w < SEEN_WORDS; w++)
		if (o->required[w] & ~f->seen[w])
			return false;
	return f->count >= o->min;
}

static struct reader key_reader(const struct lm_grammar *g, const struct frame *f,
	uint32_t depth)
{
	const struct gobject *o = &g->objects[f->id];

	return (struct reader){ g, f, &g->dfas[o->dfa], o, LM_GRAMMAR_DEPTH_MAX - depth,
		false };
}

static bool can_key(const struct lm_grammar *g, const struct place *from)
{
	struct reader r = key_reader(g, &from->top, from->depth);

	return r.dfa->states && key_lives(&r, 0);
}

static void step_object(const struct lm_grammar *g, struct pool *p,
	const struct place *from, uint8_t byte, struct places *to)
{
	const struct gobject *o = &g->objects[from->top.id];
	struct frame f;

	if (from->top.phase != KEYED && take_blank(&from->top, byte, &f)) {
		places_add(to, &f, from->below, from->depth);
		return;
	}
	f = from->top;
	f.blanks = 0;
	switch (from->top.phase) {
	case OPENED:
	case WANTS_KEY:
		if (byte == '"' && can_key(g, from)) {
			struct frame key = f;

			/* the key lies on its object, and leaves it with a label */
			f.phase = KEYED;
			f.state = 0;
			key.kind = FRAME_KEY;
			key.phase = PLAIN;
			key.state = 0;
			places_add(to, &key, pool_push(p, &f, from->below, from->depth),
				from->depth);
		}
		if (byte == '}' && from->top.phase == OPENED && complete(o, &f))
			leave(g, p, from, LABEL_NONE, to);
		break;
	case KEYED:
		f.phase = WANTS_VALUE;
		if (byte == ':')
			places_add(to, &f, from->below, from->depth);
		break;
	case WANTS_VALUE: {
		uint32_t node = f.state;

		f.phase = VALUED;
		f.state = 0;
		begin(g, node, pool_push(p, &f, from->below, from->depth), from->depth,
			byte, to);
		break;
	}
	default:
		if (byte == ',' && can_key(g, from)) {
			f.phase = WANTS_KEY;
			places_add(to, &f, from->below, from->depth);
		}
		if (byte == '}' && complete(o, &f))
			leave(g, p, from, LABEL_NONE, to);
	}
}

static uint32_t item_of(const struct garray *a, uint32_t i)
{
	return i < a->prefix_count ? a->prefix[i] : a->rest;
}

static bool can_item(const struct lm_grammar *g, const struct garray *a, uint32_t count,
	uint32_t depth)
{
	uint32_t height = g->nodes[item_of(a, count)].height;

	return count < a->max && height != NEVER &&
		depth + height <= LM_GRAMMAR_DEPTH_MAX;
}

/* Begins each of the values that an array does not have yet. */
static void begin_unseen(const struct lm_grammar *g, struct pool *p,
	const struct place *from, uint8_t byte, struct places *to)
{
	const struct garray *a = &g->arrays[from->top.id];

	for (uint32_t i = 0; i < a->value_count; i++) {
		struct frame f = from->top;
		struct places one = { .count = 0 };

		if (f.seen[0] >> i & 1)
			continue;
		begin(g, a->values[i], 1, from->depth, byte, &one);
		if (!one.count)
			continue;
		f.blanks = 0;
		f.phase = VALUED;
		f.count++;
		f.seen[0] |= UINT64_C(1) << i;
		begin(g, a->values[i], pool_push(p, &f, from->below, from->depth),
			from->depth, byte, to);
	}
}

static void step_array(const struct lm_grammar *g, struct pool *p,
	const struct place *from, uint8_t byte, struct places *to)
{
	const struct garray *a = &g->arrays[from->top.id];
	bool ended = byte == ']' && from->top.phase != WANTS_VALUE &&
		from->top.count >= a->min;
	struct frame f;

	if (take_blank(&from->top, byte, &f)) {
		places_add(to, &f, from->below, from->depth);
		return;
	}
	if (ended) {
		leave(g, p, from, LABEL_NONE, to);
		return;
	}
	f = from->top;
	f.blanks = 0;
	if (from->top.phase == VALUED) {
		f.phase = WANTS_VALUE;
		if (byte == ',' && can_item(g, a, f.count, from->depth))
			places_add(to, &f, from->below, from->depth);
		return;
	}
	if (!can_item(g, a, f.count, from->depth))
		return;
	if (a->value_count) {
		begin_unseen(g, p, from, byte, to);
		return;
	}
	uint32_t node = item_of(a, f.count);

	f.phase = VALUED;
	/* counted as far as it matters */
	if (a->max != NO_MAX || f.count < a->min || f.count < a->prefix_count)
		f.count++;
	begin(g, node, pool_push(p, &f, from->below, from->depth), from->depth, byte, to);
}

/* --- sequences ---------------------------------------------------------------------------- */

/* Puts what follows an item below it; nothing, where the item is the last. */
static uint32_t behind_item(const struct lm_grammar *g, struct pool *p,
	const struct place *from)
{
	struct frame f = from->top;

	f.state++;
	f.count = 0;
	return f.state == g->sequences[f.id].count ?
		from->below :
		pool_push(p, &f, from->below, from->depth);
}

static struct place chosen(const struct place *from, uint32_t sequence, uint32_t below)
{
	struct place to = { .below = below, .depth = from->depth };

	memset(&to.top, 0, sizeof to.top);
	to.top.kind = FRAME_SEQUENCE;
	to.top.id = sequence;
	return to;
}

static void step_sequence(const struct lm_grammar *g, struct pool *p,
	const struct place *from, uint8_t byte, struct places *to)
{
	const struct gsequence *s = &g->sequences[from->top.id];
	const struct gitem *item;
	struct frame f = from->top;

	if (f.state == s->count) {
		leave(g, p, from, LABEL_NONE, to);
		return;
	}
	item = &s->items[f.state];
	if (item->kind == LM_GRAMMAR_TEXT) {
		if (f.count < item->len && (uint8_t)item->text[f.count] != byte)
			return;
		if (++f.count >= item->len) {
			f.state++;
			f.count = 0;
		}
		places_add(to, &f, from->below, from->depth);
	} else if (item->kind == LM_GRAMMAR_SCHEMA) {
		begin(g, item->node, behind_item(g, p, from), from->depth, byte, to);
	} else if (item->kind == LM_GRAMMAR_CHOICE) {
		uint32_t below = behind_item(g, p, from);

		for (uint32_t i = 0; i < item->choice_count; i++) {
			struct place one = chosen(from, item->choices[i], below);

			step(g, p, &one, byte, to);
		}
	}
}

static bool leaves(const struct lm_grammar *g, const struct frame *f)
{
	if (f->kind == FRAME_BYTES)
		return f->phase == PLAIN && g->dfas[f->id].accept[f->state];
	return f->kind == FRAME_SEQUENCE && f->state == g->sequences[f->id].count;
}

void step_tokens(const struct lm_grammar *g, struct pool *p, const struct place *from,
	int64_t want, struct places *to, token_fn tell, void *ctx)
{
	const struct gsequence *s;
	const struct gitem *item;
	struct frame f = from->top;

	if (leaves(g, &f) && p->at[from->below].frame.kind == FRAME_SEQUENCE) {
		struct place below = { p->at[from->below].frame, p->at[from->below].below,
			p->at[from->below].depth };

		step_tokens(g, p, &below, want, to, tell, ctx);
	}
	if (f.kind != FRAME_SEQUENCE || f.state == g->sequences[f.id].count)
		return;
	s = &g->sequences[f.id];
	item = &s->items[f.state];
	if (item->kind == LM_GRAMMAR_TOKEN) {
		if (tell)
			tell(ctx, item->token);
		f.state++;
		f.count = 0;
		if (want == item->token)
			places_add(to, &f, from->below, from->depth);
	} else if (item->kind == LM_GRAMMAR_CHOICE) {
		uint32_t behind = behind_item(g, p, from);

		for (uint32_t i = 0; i < item->choice_count; i++) {
			struct place one = chosen(from, item->choices[i], behind);

			step_tokens(g, p, &one, want, to, tell, ctx);
		}
	}
}

/* --- a step ------------------------------------------------------------------------------- */

/* Gives a key's object what its label says. */
static bool apply_label(const struct lm_grammar *g, struct frame *f, uint32_t label)
{
	const struct gobject *o = &g->objects[f->id];
	const struct glabel *l = &o->labels[label];
	uint32_t word = l->property < 0 ? 0 : (uint32_t)l->property / 64;
	uint64_t bit = l->property < 0 ? 0 : UINT64_C(1) << l->property % 64;

	if ((f->seen[word] & bit) || (wants_required(o, f) && !(o->required[word] & bit)))
		return false;
	f->state = l->node;
	f->seen[word] |= bit;
	/* counted as far as it matters */
	if (o->max != NO_MAX || f->count < o->min)
		f->count++;
	return true;
}

void step_out(const struct lm_grammar *g, struct pool *p, uint32_t below, uint32_t label,
	struct places *to)
{
	struct frame f = p->at[below].frame;

	if (label != LABEL_NONE && !apply_label(g, &f, label))
		return;
	places_add(to, &f, p->at[below].below, p->at[below].depth);
}

static void leave(const struct lm_grammar *g, struct pool *p, const struct place *from,
	uint32_t label, struct places *to)
{
	if (p->at[from->below].frame.kind == FRAME_BASE)
		add_based(to, label);
	else
		step_out(g, p, from->below, label, to);
}

static void step_key(const struct lm_grammar *g, struct pool *p, const struct place *from,
	uint8_t byte, struct places *to)
{
	struct reader r = key_reader(g, &from->top, from->depth);
	uint32_t label;
	struct frame f;

	switch (read_text(&r, byte, &f)) {
	case READ_ON:
		places_add(to, &f, from->below, from->depth);
		break;
	case READ_CLOSED:
		label = r.object->label_of[from->top.state];
		if (label != UINT32_MAX) {
			const struct glabel *l = &r.object->labels[label];

			f = from->top;
			if (g->nodes[l->node].height <= r.room &&
				apply_label(g, &f, label))
				leave(g, p, from, label, to);
		}
		break;
	default:
		break;
	}
}

static void step_string(const struct lm_grammar *g, struct pool *p,
	const struct place *from, uint8_t byte, struct places *to)
{
	const struct gstring *s = &g->strings[from->top.id];
	struct reader r = { g, &from->top, &g->dfas[s->dfa], NULL, 0, false };
	struct frame f;

	switch (read_text(&r, byte, &f)) {
	case READ_ON:
		places_add(to, &f, from->below, from->depth);
		break;
	case READ_CLOSED:
		if (r.dfa->accept[from->top.state] && from->top.count >= s->min)
			leave(g, p, from, LABEL_NONE, to);
		break;
	default:
		break;
	}
}

static void step_below(const struct lm_grammar *g, struct pool *p,
	const struct place *from, uint8_t byte, struct places *to)
{
	struct place below = { p->at[from->below].frame, p->at[from->below].below,
		p->at[from->below].depth };

	if (below.top.kind != FRAME_BASE && below.top.kind != FRAME_END)
		step(g, p, &below, byte, to);
}

void step(const struct lm_grammar *g, struct pool *p, const struct place *from,
	uint8_t byte, struct places *to)
{
	struct frame f = from->top;

	switch (from->top.kind) {
	case FRAME_BYTES:
		if (read_bare(g, &from->top, byte, &f))
			places_add(to, &f, from->below, from->depth);
		if (leaves(g, &from->top))
			step_below(g, p, from, byte, to);
		break;
	case FRAME_STRING:
		step_string(g, p, from, byte, to);
		break;
	case FRAME_KEY:
		step_key(g, p, from, byte, to);
		break;
	case FRAME_OBJECT:
		step_object(g, p, from, byte, to);
		break;
	case FRAME_ARRAY:
		step_array(g, p, from, byte, to);
		break;
	case FRAME_SEQUENCE:
		if (f.state == g->sequences[f.id].count)
			step_below(g, p, from, byte, to);
		else
			step_sequence(g, p, from, byte, to);
		break;
	default:
		break;
	}
}

/* Whether a choice has an empty sequence, or nothing but what may be empty. */
static bool may_be_empty(const struct lm_grammar *g, uint32_t sequence, unsigned depth)
{
	const struct gsequence *s = &g->sequences[sequence];

	for (uint32_t i = 0; i < s->count; i++) {
		bool empty = s->items[i].kind == LM_GRAMMAR_TEXT && !s->items[i].len;

		for (uint32_t k = 0; s->items[i].kind == LM_GRAMMAR_CHOICE && depth < 8 &&
			k < s->items[i].choice_count;
			k++)
			empty |= may_be_empty(g, s->items[i].choices[k], depth + 1);
		if (!empty)
			return false;
	}
	return true;
}

bool step_done(const struct lm_grammar *g, const struct pool *p, const struct place *from,
	enum frame_kind lowest)
{
	struct place at = *from;

	for (;;) {
		if (at.top.kind == FRAME_END || at.top.kind == FRAME_BASE)
			return at.top.kind == lowest;
		if (at.top.kind == FRAME_SEQUENCE) {
			const struct gsequence *s = &g->sequences[at.top.id];

			while (at.top.state < s->count && !at.top.count &&
				s->items[at.top.state].kind == LM_GRAMMAR_CHOICE) {
				const struct gitem *item = &s->items[at.top.state];
				bool empty = false;

				for (uint32_t k = 0; k < item->choice_count; k++)
					empty |= may_be_empty(g, item->choices[k], 0);
				if (!empty)
					break;
				at.top.state++;
			}
			if (at.top.state < s->count)
				return false;
		} else if (!leaves(g, &at.top)) {
			return false;
		}
		at = (struct place){ p->at[at.below].frame, p->at[at.below].below,
			p->at[at.below].depth };
	}
}
