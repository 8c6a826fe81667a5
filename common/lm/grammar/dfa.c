/* dfa.c - making, joining and pruning automata. */
#include "common/lm/grammar/dfa.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/fnv.h"
#include "common/base/mem.h"

void dfa_release(struct lm_dfa *d)
{
	free(d->cuts);
	free(d->next);
	free(d->accept);
	*d = (struct lm_dfa){ 0 };
}

uint32_t dfa_interval(const struct lm_dfa *d, uint32_t c)
{
	uint32_t low = 0, high = d->intervals;

	while (high - low > 1) {
		uint32_t middle = (low + high) / 2;

		*(d->cuts[middle] <= c ? &low : &high) = middle;
	}
	return low;
}

uint32_t dfa_next_char(const char **s, const char *end)
{
	const unsigned char *p = (const unsigned char *)*s;
	unsigned n = *p < 0x80 ? 1 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4;
	uint32_t c = n == 1 ? *p : *p & (0x7fu >> n);

	if (n > (size_t)(end - *s))
		n = (unsigned)(end - *s);
	for (unsigned i = 1; i < n; i++)
		c = c << 6 | (p[i] & 63u);
	*s += n;
	return c;
}

bool dfa_accepts(const struct lm_dfa *d, const char *text, size_t len)
{
	const char *end = text + len;
	uint32_t state = d->states ? 0 : DFA_DEAD;

	while (text < end && state != DFA_DEAD)
		state = dfa_step(d, state, dfa_next_char(&text, end));
	return state != DFA_DEAD && d->accept[state];
}

int dfa_spend(struct lm_budget *b, uint64_t states, uint64_t steps)
{
	if (b->states < states)
		return err_set(EX_DATAERR, "the schema needs too many states");
	if (b->steps < steps)
		return err_set(EX_DATAERR, "the schema takes too long to compile");
	b->states -= states;
	b->steps -= steps;
	return 0;
}

int dfa_hold(struct lm_budget *b, uint64_t words)
{
	if (b->words < words)
		return err_set(EX_DATAERR, "the schema needs too much memory");
	b->words -= words;
	return 0;
}

void dfa_use(struct lm_budget *b, uint64_t steps, uint64_t words)
{
	if (b->steps < steps || b->words < words) {
		b->steps = 0;
		return;
	}
	b->steps -= steps;
	b->words -= words;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

uint32_t dfa_sort_cuts(uint32_t *cuts, uint32_t n)
{
	static const uint32_t always[] = { 0, 1, 0xd800, 0xe000 };
	uint32_t kept = 0;

	memcpy(cuts + n, always, sizeof always);
	n += 4;
	qsort(cuts, n, sizeof *cuts, by_number);
	for (uint32_t i = 0; i < n; i++)
		if (cuts[i] < 0x110000 && (!kept || cuts[i] != cuts[kept - 1]))
			cuts[kept++] = cuts[i];
	return kept;
}

int dfa_join_cuts(const struct lm_dfa *const *parts, size_t n, uint32_t **cuts,
	uint32_t *intervals, struct lm_budget *b)
{
	uint32_t total = 0;

	for (size_t i = 0; i < n; i++)
		total += parts[i]->intervals;
	*cuts = NULL;
	if (dfa_spend(b, 0, total) < 0)
		return -1;
	*cuts = xmalloc((total + 6) * sizeof **cuts);
	total = 0;
	for (size_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < parts[i]->intervals; j++)
			(*cuts)[total++] = parts[i]->cuts[j];
	*intervals = dfa_sort_cuts(*cuts, total);
	if (*intervals > DFA_CUT_MAX) {
		free(*cuts);
		*cuts = NULL;
		return err_set(EX_DATAERR, "the schema tells too many characters apart");
	}
	return 0;
}

/* --- exploring ---------------------------------------------------------------------------- */

struct explorer {
	const struct dfa_maker *m;
	struct lm_budget *b;
	uint64_t held; /* words that are freed when it is made */
	unsigned char *keys;
	size_t count, cap;
	uint32_t *index, mask;
};

static uint64_t hash(const void *key, size_t n)
{
	uint64_t h = fnv1a(FNV1A, key, n);

	return h ^ h >> 29;
}

/* The state of a key. One that is new is paid for before it is kept. */
static int find_key(struct explorer *x, const void *key, uint32_t *out)
{
	size_t n = x->m->key_bytes, words = n / sizeof(uint32_t) + 5;

	if ((x->count + 1) * 2 > x->mask) {
		uint32_t size = x->index ? (x->mask + 1) * 2 : 256;

		free(x->index);
		x->index = xcalloc(size, sizeof *x->index);
		x->mask = size - 1;
		for (size_t i = 0; i < x->count; i++) {
			uint32_t at = (uint32_t)hash(x->keys + i * n, n) & x->mask;

			while (x->index[at])
				at = (at + 1) & x->mask;
			x->index[at] = (uint32_t)i + 1;
		}
	}
	uint32_t at = (uint32_t)hash(key, n) & x->mask;

	while (x->index[at]) {
		*out = x->index[at] - 1;
		if (memcmp(x->keys + *out * n, key, n) == 0)
			return 0;
		at = (at + 1) & x->mask;
	}
	if (dfa_spend(x->b, 1, 0) < 0 || dfa_hold(x->b, words) < 0)
		return -1;
	x->held += words;
	x->keys = xgrow(x->keys, &x->cap, x->count + 1, n);
	memcpy(x->keys + x->count * n, key, n);
	*out = (uint32_t)x->count;
	x->index[at] = (uint32_t)++x->count;
	return 0;
}

static bool forbidden(uint32_t cut)
{
	return cut == 0 || cut == 0xd800;
}

/* Which states lead to acceptance: backwards from those that accept. */
static void find_live(const struct lm_dfa *d, bool *live)
{
	size_t n = d->states, cells = n * d->intervals, depth = 0;
	uint32_t *first = xcalloc(n + 2, sizeof *first);
	uint32_t *from = xmalloc((cells + 1) * sizeof *from);
	uint32_t *stack = xmalloc((n + 1) * sizeof *stack);

	for (size_t i = 0; i < cells; i++)
		if (d->next[i] != DFA_DEAD)
			first[d->next[i] + 2]++;
	for (size_t i = 2; i < n + 2; i++)
		first[i] += first[i - 1];
	for (size_t i = 0; i < cells; i++)
		if (d->next[i] != DFA_DEAD)
			from[first[d->next[i] + 1]++] = (uint32_t)(i / d->intervals);
	for (uint32_t i = 0; i < n; i++)
		if (d->accept[i]) {
			live[i] = true;
			stack[depth++] = i;
		}
	while (depth) {
		uint32_t state = stack[--depth];

		for (uint32_t i = first[state]; i < first[state + 1]; i++)
			if (!live[from[i]]) {
				live[from[i]] = true;
				stack[depth++] = from[i];
			}
	}
	free(first);
	free(from);
	free(stack);
}

/* Removes states from which nothing is accepted. */
static void prune(struct lm_dfa *d, unsigned char *keys, size_t key_bytes)
{
	uint32_t n = d->states, w = d->intervals, kept = 0;
	uint32_t *number = xmalloc((n + 1) * sizeof *number);
	bool *live = xcalloc(n + 1, 1);

	find_live(d, live);
	for (uint32_t i = 0; i < n; i++)
		number[i] = live[i] ? kept++ : DFA_DEAD;
	if (n && !live[0])
		kept = 0;
	for (uint32_t i = 0; i < n && kept; i++) {
		if (!live[i])
			continue;
		for (uint32_t j = 0; j < w; j++) {
			uint32_t to = d->next[(size_t)i * w + j];

			d->next[(size_t)number[i] * w + j] = to == DFA_DEAD ? to :
									      number[to];
		}
		d->accept[number[i]] = d->accept[i];
		if (keys)
			memmove(keys + number[i] * key_bytes, keys + i * key_bytes,
				key_bytes);
	}
	d->states = kept;
	free(number);
	free(live);
}

int dfa_make(struct lm_dfa *out, const struct dfa_maker *m, const void *start,
	struct lm_budget *b, void **keys)
{
	struct explorer x = { .m = m, .b = b };
	unsigned char *key = xcalloc(2, m->key_bytes), *to = key + m->key_bytes;
	size_t next_cap = 0, accept_cap = 0;
	uint64_t steps = m->intervals * (m->weight ? m->weight : 1) + m->accept_weight;
	uint32_t first;
	int rc = -1;

	*out = (struct lm_dfa){ .intervals = m->intervals };
	out->cuts = xmalloc(m->intervals * sizeof *out->cuts);
	memcpy(out->cuts, m->cuts, m->intervals * sizeof *out->cuts);
	if (find_key(&x, start, &first) < 0)
		goto out;
	for (size_t i = 0; i < x.count; i++) {
		/* half of the words are those that find_live() takes */
		if (dfa_spend(b, 0, steps) < 0 || dfa_hold(b, 2 * m->intervals) < 0)
			goto out;
		x.held += m->intervals;
		out->next = xgrow(out->next, &next_cap, (i + 1) * m->intervals,
			sizeof *out->next);
		out->accept = xgrow(out->accept, &accept_cap, i + 1, sizeof *out->accept);
		memcpy(key, x.keys + i * m->key_bytes, m->key_bytes);
		out->accept[i] = m->accept(m->ctx, key);
		for (uint32_t j = 0; j < m->intervals; j++) {
			uint32_t *next = &out->next[i * m->intervals + j];

			*next = DFA_DEAD;
			memset(to, 0, m->key_bytes);
			if (!forbidden(m->cuts[j]) && m->step(m->ctx, key, j, to) &&
				find_key(&x, to, next) < 0)
				goto out;
		}
	}
	out->states = (uint32_t)x.count;
	prune(out, x.keys, m->key_bytes);
	for (uint32_t c = 0; c < 128; c++)
		out->ascii[c] = dfa_interval(out, c);
	rc = 0;
out:
	if (rc == 0 && keys)
		*keys = x.keys;
	else
		free(x.keys);
	free(x.index);
	free(key);
	b->words += x.held;
	if (rc < 0)
		dfa_release(out);
	return rc;
}

/* --- simple ones -------------------------------------------------------------------------- */

static bool any_step(const void *ctx, const void *key, uint32_t interval, void *next)
{
	(void)ctx, (void)key, (void)interval, (void)next;
	return true;
}

static bool any_accept(const void *ctx, const void *key)
{
	(void)ctx, (void)key;
	return true;
}

int dfa_any(struct lm_dfa *out, struct lm_budget *b)
{
	uint32_t cuts[8];
	struct dfa_maker m = { .cuts = cuts,
		.intervals = dfa_sort_cuts(cuts, 0),
		.key_bytes = 1,
		.step = any_step,
		.accept = any_accept };

	return dfa_make(out, &m, "", b, NULL);
}

/* --- joining ------------------------------------------------------------------------------ */

/* Which of the parts accept. */
enum joined { JOINED_ANY, JOINED_ALL, JOINED_FIRST_ALONE };

struct product {
	const struct lm_dfa *const *parts;
	size_t n;
	enum joined how;
	const uint32_t *cuts;
};

static bool product_step(const void *ctx, const void *key, uint32_t interval, void *next)
{
	const struct product *p = ctx;
	const uint32_t *state = key;
	uint32_t *to = next;
	bool any = false;

	for (size_t i = 0; i < p->n; i++) {
		to[i] = state[i] == DFA_DEAD ?
			DFA_DEAD :
			p->parts[i]->next[(size_t)state[i] * p->parts[i]->intervals +
				dfa_interval(p->parts[i], p->cuts[interval])];
		if (to[i] == DFA_DEAD &&
			(p->how == JOINED_ALL || (p->how == JOINED_FIRST_ALONE && !i)))
			return false;
		any |= to[i] != DFA_DEAD;
	}
	return any;
}

static bool product_accept(const void *ctx, const void *key)
{
	const struct product *p = ctx;
	const uint32_t *state = key;
	bool all = p->how == JOINED_ALL;

	for (size_t i = 0; i < p->n; i++) {
		bool is = state[i] != DFA_DEAD && p->parts[i]->accept[state[i]];

		if (p->how == JOINED_FIRST_ALONE ? is == (i > 0) : is != all)
			return p->how == JOINED_ANY;
	}
	return p->how != JOINED_ANY;
}

static int product(struct lm_dfa *out, const struct product *how, struct lm_budget *b)
{
	uint32_t *start = xcalloc(how->n + 1, sizeof *start), *cuts, intervals;
	struct product p = *how;
	int rc = dfa_join_cuts(p.parts, p.n, &cuts, &intervals, b);

	for (size_t i = 0; i < p.n; i++)
		start[i] = p.parts[i]->states ? 0 : DFA_DEAD;
	if (rc == 0) {
		struct dfa_maker m = { .cuts = cuts,
			.intervals = intervals,
			.key_bytes = p.n * sizeof *start,
			.weight = p.n,
			.accept_weight = p.n,
			.step = product_step,
			.accept = product_accept,
			.ctx = &p };

		p.cuts = cuts;
		rc = dfa_spend(b, 0, p.n);
		if (rc == 0)
			rc = dfa_make(out, &m, start, b, NULL);
		free(cuts);
	}
	free(start);
	return rc;
}

int dfa_product(struct lm_dfa *out, const struct lm_dfa *const *parts, size_t n, bool all,
	struct lm_budget *b)
{
	struct product p = { .parts = parts,
		.n = n,
		.how = all ? JOINED_ALL : JOINED_ANY };

	if (all)
		for (size_t i = 0; i < n; i++)
			if (!parts[i]->states)
				return dfa_copy(out, parts[i], b);
	return product(out, &p, b);
}

int dfa_without(struct lm_dfa *out, const struct lm_dfa *a, const struct lm_dfa *b,
	struct lm_budget *budget)
{
	const struct lm_dfa *parts[] = { a, b };
	struct product p = { .parts = parts, .n = 2, .how = JOINED_FIRST_ALONE };

	return a->states ? product(out, &p, budget) : dfa_copy(out, a, budget);
}

int dfa_copy(struct lm_dfa *out, const struct lm_dfa *d, struct lm_budget *b)
{
	size_t cells = (size_t)d->states * d->intervals;

	if (dfa_spend(b, d->states, cells) < 0 || dfa_hold(b, cells) < 0)
		return -1;
	*out = *d;
	out->cuts = xmalloc((d->intervals + 1) * sizeof *out->cuts);
	out->next = xmalloc((cells + 1) * sizeof *out->next);
	out->accept = xmalloc(d->states + 1);
	memcpy(out->cuts, d->cuts, d->intervals * sizeof *out->cuts);
	if (cells)
		memcpy(out->next, d->next, cells * sizeof *out->next);
	if (d->states)
		memcpy(out->accept, d->accept, d->states);
	return 0;
}

struct length {
	const struct lm_dfa *d;
	uint64_t min, max;
};

struct length_key {
	uint32_t state, count;
};

static bool length_step(const void *ctx, const void *key, uint32_t interval, void *next)
{
	const struct length *l = ctx;
	const struct length_key *k = key;
	struct length_key *to = next;

	to->state = l->d->next[(size_t)k->state * l->d->intervals + interval];
	to->count = k->count + 1;
	if (l->max == UINT64_MAX && to->count > l->min)
		to->count = (uint32_t)l->min;
	return to->state != DFA_DEAD && to->count <= l->max;
}

static bool length_accept(const void *ctx, const void *key)
{
	const struct length *l = ctx;
	const struct length_key *k = key;

	return l->d->accept[k->state] && k->count >= l->min;
}

int dfa_length(struct lm_dfa *out, const struct lm_dfa *d, uint64_t min, uint64_t max,
	struct lm_budget *b)
{
	struct length l = { d, min, max };
	struct dfa_maker m = { .cuts = d->cuts,
		.intervals = d->intervals,
		.key_bytes = sizeof(struct length_key),
		.step = length_step,
		.accept = length_accept,
		.ctx = &l };
	struct length_key start = { 0, 0 };

	if (!d->states)
		return dfa_copy(out, d, b);
	if (min > UINT32_MAX - 1)
		return err_set(EX_DATAERR,
			"a text of this many characters is not supported");
	return dfa_make(out, &m, &start, b, NULL);
}
