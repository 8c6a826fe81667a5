/* compile.c - alternatives into a program: nodes, automata over keys, and which of it can be
 * satisfied; long because each kind of container has its own automaton. */
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/lm/grammar/schema.h"

#define NODES_MAX  20000
#define PREFIX_MAX 4096
/* automata of an object's keys, times the schemas that are joined in it */
#define KEYS_MAX 20000
#define WAYS_MAX 24 /* of one value, at the same time */

/* Which schemas a node stands for. */
struct node_schemas {
	struct pointers *at;
	size_t cap;
};

struct compiler {
	struct lm_grammar *g;
	struct schema s;
	struct node_schemas known; /* by node */
	size_t done;               /* nodes whose ways are there */
	uint32_t number_any;
	/* automata of strings that have one of the schema, which all of them share */
	struct {
		const struct lm_dfa *of;
		uint32_t dfa;
	} * shared;
	size_t shared_count, shared_cap;
	/* strings that have one of these and a greatest length, by their least length */
	struct bounded {
		const struct lm_dfa *of;
		uint64_t min;
		uint32_t string;
	} * bounded;
	size_t bounded_count, bounded_cap;
};

/* --- adding to the program ---------------------------------------------------------------- */

static uint32_t add_dfa(struct lm_grammar *g, const struct lm_dfa *d)
{
	g->dfas = xgrow(g->dfas, &g->dfas_cap, g->dfa_count + 1, sizeof *g->dfas);
	g->dfas[g->dfa_count] = *d;
	return (uint32_t)g->dfa_count++;
}

static void *take(struct lm_grammar *g, size_t bytes)
{
	return arena_alloc(g->arena, bytes ? bytes : 1);
}

static int by_pointer(const void *a, const void *b)
{
	const void *x = *(const void *const *)a, *y = *(const void *const *)b;

	return (x > y) - (x < y);
}

/* The node of a set of schemas; new ones get their ways later. */
static int node_of(struct compiler *c, struct pointers *set, uint32_t *out)
{
	struct lm_grammar *g = c->g;

	if (set->n)
		qsort(set->at, set->n, sizeof *set->at, by_pointer);
	dfa_use(&c->s.budget, set->n, 0);
	for (uint32_t i = 1; i < g->node_count; i++) {
		const struct pointers *k = &c->known.at[i];

		if (k->n == set->n &&
			(!set->n ||
				memcmp(k->at, set->at, set->n * sizeof *set->at) == 0)) {
			*out = i;
			return dfa_spend(&c->s.budget, 0, i / 4 + 1);
		}
	}
	if (g->node_count == NODES_MAX)
		return err_set(EX_DATAERR, "schema: it has too many parts");
	if (dfa_spend(&c->s.budget, 0, g->node_count + 50) < 0)
		return -1;
	g->nodes = xgrow(g->nodes, &g->nodes_cap, g->node_count + 1, sizeof *g->nodes);
	c->known.at = xgrow(c->known.at, &c->known.cap, g->node_count + 1,
		sizeof *c->known.at);
	g->nodes[g->node_count] = (struct gnode){ .height = NEVER };
	c->known.at[g->node_count] = *set;
	*out = (uint32_t)g->node_count++;
	return 0;
}

/* --- arrays ------------------------------------------------------------------------------- */

static size_t prefix_length(const struct alt *a)
{
	size_t limit = 0;

	for (size_t i = 0; i < a->parts.n; i++) {
		const json_t *items = schema_keyword(a->parts.at[i], "items");
		const json_t *prefix = json_is_array(items) ?
			items :
			schema_keyword(a->parts.at[i], "prefixItems");

		if (json_array_size(prefix) > limit)
			limit = json_array_size(prefix);
	}
	return limit;
}

static int item_node(struct compiler *c, const struct alt *a, size_t i, uint32_t *out)
{
	struct pointers set = { 0 };

	*out = 0;
	return schema_item(&c->s, a, i, &set) ? node_of(c, &set, out) : 0;
}

/* Gives an array whose items differ a node for each value that they can have. Returns 0 where these
 * are too many or not known: the word is then left out, or -1. */
static int compile_values(struct compiler *c, const struct alt *a, struct garray *array)
{
	struct pointers values = { 0 };
	int rc = array->prefix_count ? 0 : schema_item_values(&c->s, a, &values);

	if (rc < 0)
		return -1;
	if (!rc)
		return schema_leave_out(&c->s, a->unique, "uniqueItems",
			"this is only held where items are of at most %d known values",
			UNIQUE_MAX);
	array->value_count = (uint32_t)values.n;
	array->values = take(c->g, values.n * sizeof *array->values);
	for (size_t i = 0; i < values.n; i++) {
		struct pointers set = { 0 };

		pointers_add(&c->s, &set, values.at[i]);
		if (node_of(c, &set, &array->values[i]) < 0)
			return -1;
	}
	if (array->max > array->value_count)
		array->max = array->value_count;
	return 0;
}

static int compile_array(struct compiler *c, const struct alt *a, uint32_t *out)
{
	struct lm_grammar *g = c->g;
	struct garray array = { .min = (uint32_t)a->min,
		.max = a->max == UINT64_MAX ? NO_MAX : (uint32_t)a->max };

	array.prefix_count = (uint32_t)prefix_length(a);
	if (array.prefix_count > PREFIX_MAX)
		return err_set(EX_DATAERR, "schema: prefixItems has too many items");
	array.prefix = take(g, array.prefix_count * sizeof *array.prefix);
	for (uint32_t i = 0; i < array.prefix_count; i++)
		if (item_node(c, a, i, &array.prefix[i]) < 0)
			return -1;
	if (item_node(c, a, array.prefix_count, &array.rest) < 0 ||
		(a->unique && array.max > 1 && compile_values(c, a, &array) < 0))
		return -1;
	g->arrays = xgrow(g->arrays, &g->arrays_cap, g->array_count + 1,
		sizeof *g->arrays);
	g->arrays[g->array_count] = array;
	*out = (uint32_t)g->array_count++;
	return 0;
}

/* --- objects ------------------------------------------------------------------------------ */

/* The keys of an object: its names, then each pattern, then what propertyNames allow. */
struct keys {
	const struct alt *a;
	const char **names;
	size_t name_count, names_cap;
	/* automata: 0 the names; then of each pattern, with the part that it is of */
	const struct lm_dfa **dfas;
	size_t *part_of, dfa_count;
	/* of patterns; NULL: every key of the part must be accepted */
	const json_t **values;
	const uint32_t *cuts;
};

static int add_name(struct keys *k, const char *name)
{
	for (size_t i = 0; i < k->name_count; i++)
		if (strcmp(k->names[i], name) == 0)
			return 0;
	if (k->name_count == LM_GRAMMAR_PROPERTIES_MAX)
		return err_set(EX_DATAERR, "schema: an object with more than %d names",
			LM_GRAMMAR_PROPERTIES_MAX);
	k->names = xgrow(k->names, &k->names_cap, k->name_count + 1, sizeof *k->names);
	k->names[k->name_count++] = name;
	return 0;
}

static int find_keys(struct compiler *c, struct keys *k)
{
	const struct alt *a = k->a;
	size_t patterns = 0, n = 1;
	const char *key;
	json_t *v;

	for (size_t i = 0; i < a->parts.n; i++) {
		patterns += json_object_size(
			schema_keyword(a->parts.at[i], "patternProperties"));
		json_object_foreach(schema_keyword(a->parts.at[i], "properties"), key, v)
			if (add_name(k, key) < 0)
				return -1;
	}
	for (size_t i = 0; i < a->names.n; i++)
		if (add_name(k, a->names.at[i]) < 0)
			return -1;
	patterns += a->parts.n + 1;
	k->dfas = xcalloc(patterns, sizeof *k->dfas);
	k->part_of = xcalloc(patterns, sizeof *k->part_of);
	k->values = xcalloc(patterns, sizeof *k->values);
	for (size_t i = 0; i < a->parts.n; i++) {
		json_t *map = schema_keyword(a->parts.at[i], "patternProperties");

		json_object_foreach(map, key, v) {
			k->dfas[n] = schema_pattern(&c->s, map, key, strlen(key), v);
			if (!k->dfas[n])
				return -1;
			k->part_of[n] = i;
			k->values[n++] = v;
		}
		if (schema_names(&c->s, a->parts.at[i], &k->dfas[n]) < 0)
			return -1;
		if (k->dfas[n])
			k->part_of[n++] = i;
	}
	k->dfa_count = n;
	/* each state of the keys' automaton is held against all of them, part by part */
	if (n * a->parts.n > KEYS_MAX)
		return err_set(EX_DATAERR,
			"schema: an object with too many patternProperties and propertyNames");
	return 0;
}

static bool at_accept(const struct keys *k, const uint32_t *states, size_t i)
{
	return states[i] != DFA_DEAD && k->dfas[i]->accept[states[i]];
}

/* The steps that other_key() takes. */
static uint64_t other_steps(const struct keys *k)
{
	return k->dfa_count * k->a->parts.n / 8 + 4 * k->a->parts.n + 1;
}

/* The schemas that a key's value has to satisfy, by the states of the automata. False: the key
 * is not allowed. */
static bool other_key(struct schema *s, const struct keys *k, const uint32_t *states,
	struct pointers *out)
{
	for (size_t i = 0; i < k->a->parts.n; i++) {
		const json_t *rest = schema_keyword(k->a->parts.at[i],
			"additionalProperties");
		bool found = false;

		for (size_t j = 1; j < k->dfa_count; j++) {
			if (k->part_of[j] != i)
				continue;
			if (!k->values[j] && !at_accept(k, states, j))
				return false;
			if (!k->values[j] || !at_accept(k, states, j))
				continue;
			found = true;
			if (json_is_false(k->values[j]))
				return false;
			if (s && !json_is_true(k->values[j]))
				pointers_add(s, out, k->values[j]);
		}
		if (found)
			continue;
		if (json_is_false(rest))
			return false;
		if (s && rest && !json_is_true(rest))
			pointers_add(s, out, rest);
	}
	return true;
}

static bool keys_step(const void *ctx, const void *key, uint32_t interval, void *next)
{
	const struct keys *k = ctx;
	const uint32_t *state = key;
	uint32_t *to = next;

	for (size_t i = 0; i < k->dfa_count; i++)
		to[i] = state[i] == DFA_DEAD ?
			DFA_DEAD :
			k->dfas[i]->next[(size_t)state[i] * k->dfas[i]->intervals +
				dfa_interval(k->dfas[i], k->cuts[interval])];
	return true;
}

static bool keys_accept(const void *ctx, const void *key)
{
	const struct keys *k = ctx;

	return at_accept(k, key, 0) || other_key(NULL, k, key, NULL);
}

static uint32_t add_label(struct gobject *o, struct lm_grammar *g, int32_t property,
	uint32_t node)
{
	(void)g;
	for (uint32_t i = 0; i < o->label_count; i++)
		if (o->labels[i].property == property && o->labels[i].node == node)
			return i;
	o->labels[o->label_count] = (struct glabel){ property, node };
	return o->label_count++;
}

/* Follows a name through the automaton. */
static uint32_t state_after(const struct lm_dfa *d, const char *s)
{
	uint32_t state = d->states ? 0 : DFA_DEAD;

	while (*s && state != DFA_DEAD) {
		const unsigned char *p = (const unsigned char *)s;
		unsigned n = *p < 0x80 ? 1 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4;
		uint32_t c = n == 1 ? *p : *p & (0x7fu >> n);

		for (unsigned i = 1; i < n; i++)
			c = c << 6 | (p[i] & 63u);
		state = dfa_step(d, state, c);
		s += n;
	}
	return state;
}

static int label_states(struct compiler *c, struct keys *k, struct gobject *o,
	const struct lm_dfa *d, const uint32_t *tuples)
{
	struct lm_grammar *g = c->g;

	o->label_of = take(g, d->states * sizeof *o->label_of);
	o->labels = take(g, (d->states + 1) * sizeof *o->labels);
	memset(o->label_of, 0xff, d->states * sizeof *o->label_of);
	for (size_t i = 0; i < k->name_count; i++) {
		uint32_t state = state_after(d, k->names[i]), node = 0;
		struct pointers set = { 0 };

		for (size_t j = 0; j < k->a->names.n; j++)
			if (strcmp(k->a->names.at[j], k->names[i]) == 0)
				o->required[i / 64] |= UINT64_C(1) << i % 64;
		if (state == DFA_DEAD)
			continue;
		if ((schema_value(&c->s, k->a, k->names[i], &set) &&
			    node_of(c, &set, &node) < 0) ||
			dfa_spend(&c->s.budget, 0, 1) < 0)
			return -1;
		o->label_of[state] = add_label(o, g, (int32_t)i, node);
	}
	for (uint32_t i = 0; i < d->states; i++) {
		struct pointers set = { 0 };
		uint32_t node = 0;

		if (!d->accept[i] || o->label_of[i] != UINT32_MAX)
			continue;
		if (dfa_spend(&c->s.budget, 0, other_steps(k)) < 0)
			return -1;
		if (other_key(&c->s, k, tuples + (size_t)i * k->dfa_count, &set) &&
			node_of(c, &set, &node) < 0)
			return -1;
		o->label_of[i] = add_label(o, g, -1, node);
		if (dfa_spend(&c->s.budget, 0, o->label_count) < 0)
			return -1;
	}
	return 0;
}

static int compile_keys(struct compiler *c, struct keys *k, struct gobject *o)
{
	struct dfa_text *texts = xcalloc(k->name_count + 1, sizeof *texts);
	uint32_t *start = xcalloc(k->dfa_count, sizeof *start), *cuts = NULL, intervals;
	struct lm_dfa names = { 0 }, d;
	void *tuples = NULL;
	int rc = -1;

	for (size_t i = 0; i < k->name_count; i++)
		texts[i] = (struct dfa_text){ k->names[i], strlen(k->names[i]) };
	if (dfa_texts(&names, texts, k->name_count, &c->s.budget) < 0)
		goto out;
	k->dfas[0] = &names;
	if (dfa_join_cuts(k->dfas, k->dfa_count, &cuts, &intervals, &c->s.budget) < 0)
		goto out;
	k->cuts = cuts;
	for (size_t i = 0; i < k->dfa_count; i++)
		start[i] = k->dfas[i]->states ? 0 : DFA_DEAD;
	struct dfa_maker m = { .cuts = cuts,
		.intervals = intervals,
		.key_bytes = k->dfa_count * sizeof *start,
		.weight = k->dfa_count,
		.accept_weight = other_steps(k),
		.step = keys_step,
		.accept = keys_accept,
		.ctx = k };

	if (dfa_make(&d, &m, start, &c->s.budget, &tuples) < 0)
		goto out;
	o->dfa = add_dfa(c->g, &d);
	rc = label_states(c, k, o, &d, tuples);
out:
	free(tuples);
	free(cuts);
	free(start);
	free(texts);
	dfa_release(&names);
	return rc;
}

/* Sets how many properties there are. A name that is free may come twice, so that not more than one
 * property can be told from such names. */
static int set_sizes(struct compiler *c, const struct alt *a, struct gobject *o)
{
	o->min = a->min < NO_MAX ? (uint32_t)a->min : NO_MAX;
	o->max = a->max < NO_MAX ? (uint32_t)a->max : NO_MAX;
	for (uint32_t i = 0; o->min > 1 && i < o->label_count; i++)
		if (o->labels[i].property < 0 && o->labels[i].node) {
			o->min = 1;
			return schema_leave_out(&c->s, a->sized, "minProperties",
				"more than 1 is only held where all names are known (additionalProperties false)");
		}
	return 0;
}

static int compile_object(struct compiler *c, const struct alt *a, uint32_t *out)
{
	struct lm_grammar *g = c->g;
	struct keys k = { .a = a };
	struct gobject o = { 0 };
	int rc = find_keys(c, &k);

	if (rc == 0)
		rc = compile_keys(c, &k, &o);
	if (rc == 0)
		rc = set_sizes(c, a, &o);
	if (rc == 0) {
		o.property_count = (uint32_t)k.name_count;
		g->objects = xgrow(g->objects, &g->objects_cap, g->object_count + 1,
			sizeof *g->objects);
		g->objects[g->object_count] = o;
		*out = (uint32_t)g->object_count++;
	}
	free(k.names);
	free(k.dfas);
	free(k.part_of);
	free(k.values);
	return rc;
}

/* --- nodes -------------------------------------------------------------------------------- */

static uint32_t add_string(struct lm_grammar *g, uint32_t dfa, uint32_t min, uint32_t max)
{
	for (uint32_t i = 0; i < g->string_count; i++)
		if (g->strings[i].dfa == dfa && g->strings[i].min == min &&
			g->strings[i].max == max)
			return i;
	g->strings = xgrow(g->strings, &g->strings_cap, g->string_count + 1,
		sizeof *g->strings);
	g->strings[g->string_count] = (struct gstring){ dfa, min, max, NULL, 0 };
	return (uint32_t)g->string_count++;
}

static void add_way(struct lm_grammar *g, struct gnode *n, enum way_kind kind,
	uint32_t id, size_t cap)
{
	if (!n->ways)
		n->ways = take(g, cap * sizeof *n->ways);
	n->ways[n->count++] = (struct way){ (uint8_t)kind, id, NEVER };
}

/* Numbers, or strings without counts, of one node together. */
static int unite(struct compiler *c, struct lm_dfa *parts, size_t n, struct lm_dfa *out)
{
	const struct lm_dfa **at = xmalloc((n + 1) * sizeof *at);
	int rc;

	for (size_t i = 0; i < n; i++)
		at[i] = &parts[i];
	rc = dfa_product(out, at, n, false, &c->s.budget);
	free(at);
	return rc;
}

/* Returns the automaton that is all there is of the strings among alternatives, or NULL. */
static const struct lm_dfa *only_dfa(const struct alts *alts)
{
	const struct lm_dfa *only = NULL;
	size_t strings = 0;

	for (size_t i = 0; i < alts->n; i++) {
		strings += alts->at[i].type == ALT_STRING;
		if (alts->at[i].type == ALT_STRING)
			only = schema_one_dfa(&alts->at[i]);
	}
	return strings == 1 ? only : NULL;
}

/* Lets strings of this node be what an automaton of the schema accepts. A format that many
 * properties have takes its states once. */
static int add_shared(struct compiler *c, struct gnode *node, const struct lm_dfa *of,
	size_t cap)
{
	struct lm_dfa copy;
	size_t i = 0;

	if (!of->states)
		return 0;
	while (i < c->shared_count && c->shared[i].of != of)
		i++;
	if (i == c->shared_count) {
		if (dfa_copy(&copy, of, &c->s.budget) < 0)
			return -1;
		c->shared = xgrow(c->shared, &c->shared_cap, i + 1, sizeof *c->shared);
		c->shared[i].of = of;
		c->shared[i].dfa = add_dfa(c->g, &copy);
		c->shared_count++;
	}
	add_way(c->g, node, WAY_STRING, add_string(c->g, c->shared[i].dfa, 0, NO_MAX),
		cap);
	return 0;
}

/* The fewest characters from each state to an accepting one; all states have some. */
static int find_distances(struct compiler *c, const struct lm_dfa *d, uint32_t *out)
{
	bool changed = true;

	for (uint32_t i = 0; i < d->states; i++)
		out[i] = d->accept[i] ? 0 : UINT32_MAX;
	while (changed) {
		changed = false;
		if (dfa_spend(&c->s.budget, 0, (uint64_t)d->states * d->intervals / 4) <
			0)
			return -1;
		for (uint32_t i = d->states; i-- > 0;)
			for (uint32_t j = 0; j < d->intervals; j++) {
				uint32_t to = d->next[(size_t)i * d->intervals + j];

				if (to == DFA_DEAD || out[to] == UINT32_MAX ||
					out[to] + 1 >= out[i])
					continue;
				out[i] = out[to] + 1;
				changed = true;
			}
	}
	return 0;
}

/* Adds a string that differs from another one in its greatest length alone. */
static void add_bounded_way(struct compiler *c, struct gnode *node, uint32_t like,
	uint64_t max, size_t cap)
{
	struct lm_grammar *g = c->g;
	struct gstring s = g->strings[like];
	uint32_t id;

	if (s.distance[0] > max)
		return;
	id = add_string(g, s.dfa, 0, (uint32_t)max);
	g->strings[id].distance = s.distance;
	g->strings[id].farthest = s.farthest;
	add_way(g, node, WAY_STRING, id, cap);
}

/* Whether a string with this automaton and least length is there; *like is it. */
static bool find_bounded(const struct compiler *c, const struct alt *a, uint32_t *like)
{
	for (size_t i = 0; a->dfas.n == 1 && i < c->bounded_count; i++)
		if (c->bounded[i].of == a->dfas.at[0] && c->bounded[i].min == a->min) {
			*like = c->bounded[i].string;
			return true;
		}
	return false;
}

/* Lets strings of this node be what an alternative with automata and a greatest length allows. The
 * length is counted as the text comes: with it in the automaton, a URL of at most 2,083 characters
 * would have 2,083 times as many states. A least length is in the automaton, unless nothing shorter
 * is accepted anyway. */
static int add_bounded(struct compiler *c, struct gnode *node, const struct alt *a,
	size_t cap)
{
	struct lm_grammar *g = c->g;
	struct alt free = *a;
	struct lm_dfa all;
	uint32_t *distance, dfa, like;

	if (find_bounded(c, a, &like)) {
		add_bounded_way(c, node, like, a->max, cap);
		return 0;
	}
	free.max = UINT64_MAX;
	free.min = 0;
	if (schema_string(&c->s, &free, &all) < 0)
		return -1;
	if (!all.states) {
		dfa_release(&all);
		return 0;
	}
	dfa = add_dfa(g, &all);
	distance = take(g, g->dfas[dfa].states * sizeof *distance);
	if (find_distances(c, &g->dfas[dfa], distance) < 0)
		return -1;
	if (distance[0] < a->min) {
		if (dfa_length(&all, &g->dfas[dfa], a->min, UINT64_MAX, &c->s.budget) < 0)
			return -1;
		if (!all.states) {
			dfa_release(&all);
			return 0;
		}
		dfa = add_dfa(g, &all);
		distance = take(g, g->dfas[dfa].states * sizeof *distance);
		if (find_distances(c, &g->dfas[dfa], distance) < 0)
			return -1;
	}
	if (distance[0] <= a->max) {
		uint32_t id = add_string(g, dfa, 0, (uint32_t)a->max);

		g->strings[id].distance = distance;
		for (uint32_t i = 0; i < g->dfas[dfa].states; i++)
			if (distance[i] > g->strings[id].farthest)
				g->strings[id].farthest = distance[i];
		add_way(g, node, WAY_STRING, id, cap);
		if (a->dfas.n == 1) {
			c->bounded = xgrow(c->bounded, &c->bounded_cap,
				c->bounded_count + 1, sizeof *c->bounded);
			c->bounded[c->bounded_count++] = (struct bounded){ a->dfas.at[0],
				a->min, id };
		}
	}
	return 0;
}

static int compile_texts(struct compiler *c, struct gnode *node, const struct alts *alts,
	enum alt_type type, size_t cap)
{
	struct lm_grammar *g = c->g;
	struct lm_dfa *parts = xcalloc(alts->n + 1, sizeof *parts), all;
	const struct lm_dfa *only = type == ALT_STRING ? only_dfa(alts) : NULL;
	size_t n = 0;
	int rc = 0;

	if (only) {
		free(parts);
		return add_shared(c, node, only, cap);
	}
	for (size_t i = 0; i < alts->n && rc == 0; i++) {
		const struct alt *a = &alts->at[i];

		if (a->type != type)
			continue;
		if (type == ALT_STRING && a->dfas.n && a->max != UINT64_MAX) {
			rc = add_bounded(c, node, a, cap);
			continue;
		}
		if (type == ALT_STRING && !a->dfas.n) {
			/* counted as it comes */
			add_way(g, node, WAY_STRING,
				add_string(g, g->strings[0].dfa, (uint32_t)a->min,
					a->max == UINT64_MAX ? NO_MAX : (uint32_t)a->max),
				cap);
			continue;
		}
		rc = type == ALT_STRING ? schema_string(&c->s, a, &parts[n]) :
					  schema_number(&c->s, a, &parts[n]);
		if (rc == 0 && !parts[n].states)
			dfa_release(&parts[n]);
		else if (rc == 0)
			n++;
	}
	if (rc == 0 && n == 1) {
		all = parts[0];
		n = 0;
	} else if (rc == 0 && n) {
		rc = unite(c, parts, n, &all);
	} else {
		all.states = 0;
	}
	for (size_t i = 0; i < n; i++)
		dfa_release(&parts[i]);
	free(parts);
	if (rc == 0 && all.states) {
		uint32_t dfa = add_dfa(g, &all);

		if (type == ALT_STRING)
			add_way(g, node, WAY_STRING, add_string(g, dfa, 0, NO_MAX), cap);
		else
			add_way(g, node, WAY_BYTES, dfa, cap);
	}
	return rc;
}

static int compile_words(struct compiler *c, struct gnode *node, const struct alts *alts,
	size_t cap)
{
	struct dfa_text words[3];
	unsigned bools = 0;
	struct lm_dfa d;
	size_t n = 0;

	for (size_t i = 0; i < alts->n; i++) {
		if (alts->at[i].type == ALT_NULL)
			bools |= 4;
		if (alts->at[i].type == ALT_BOOL)
			bools |= alts->at[i].bools;
	}
	if (bools & 1)
		words[n++] = (struct dfa_text){ "false", 5 };
	if (bools & 2)
		words[n++] = (struct dfa_text){ "true", 4 };
	if (bools & 4)
		words[n++] = (struct dfa_text){ "null", 4 };
	if (!n)
		return 0;
	if (dfa_texts(&d, words, n, &c->s.budget) < 0)
		return -1;
	add_way(c->g, node, WAY_BYTES, add_dfa(c->g, &d), cap);
	return 0;
}

static int compile_node(struct compiler *c, uint32_t number)
{
	struct pointers set = c->known.at[number];
	struct gnode node = { .height = NEVER };
	struct alts alts;
	uint32_t id = 0;

	if (schema_alts(&c->s, &set, &alts) < 0)
		return -1;
	if (compile_words(c, &node, &alts, alts.n + 3) < 0 ||
		compile_texts(c, &node, &alts, ALT_NUMBER, alts.n + 3) < 0 ||
		compile_texts(c, &node, &alts, ALT_STRING, alts.n + 3) < 0)
		return -1;
	for (size_t i = 0; i < alts.n; i++) {
		const struct alt *a = &alts.at[i];

		if (a->type != ALT_ARRAY && a->type != ALT_OBJECT)
			continue;
		if ((a->type == ALT_ARRAY ? compile_array(c, a, &id) :
					    compile_object(c, a, &id)) < 0)
			return -1;
		add_way(c->g, &node, a->type == ALT_ARRAY ? WAY_ARRAY : WAY_OBJECT, id,
			alts.n + 3);
	}
	if (node.count > WAYS_MAX)
		return err_set(EX_DATAERR,
			"schema: anyOf has more than %d branches of objects and arrays",
			WAYS_MAX);
	c->g->nodes[number] = node;
	return 0;
}

/* --- what can be satisfied ---------------------------------------------------------------- */

static uint32_t max_height(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static uint32_t array_height(const struct lm_grammar *g, const struct garray *a)
{
	uint32_t height = 0;

	for (uint32_t i = 0; i < a->min && i <= a->prefix_count; i++)
		height = max_height(height,
			g->nodes[i < a->prefix_count ? a->prefix[i] : a->rest].height);
	if (a->min > a->max)
		return NEVER;
	return height == NEVER ? NEVER : height + 1;
}

static int by_height(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* The least height of the properties that an object has beside its `required` ones, so many that
 * there are enough. */
static uint32_t others_height(const struct lm_grammar *g, const struct gobject *o,
	uint32_t required)
{
	uint32_t *heights, n = 0, height = NEVER;

	if (o->min <= required)
		return 0;
	heights = xmalloc((o->label_count + 1) * sizeof *heights);
	for (uint32_t i = 0; i < o->label_count; i++) {
		int32_t p = o->labels[i].property;

		if (p < 0 || !(o->required[p / 64] >> p % 64 & 1))
			heights[n++] = g->nodes[o->labels[i].node].height;
	}
	qsort(heights, n, sizeof *heights, by_height);
	if (o->min - required <= n)
		height = heights[o->min - required - 1];
	free(heights);
	return height;
}

static uint32_t object_height(const struct lm_grammar *g, const struct gobject *o)
{
	uint64_t found[SEEN_WORDS] = { 0 };
	uint32_t height = 0, required = 0;

	for (uint32_t i = 0; i < o->label_count; i++) {
		int32_t p = o->labels[i].property;

		if (p < 0 || !(o->required[p / 64] >> p % 64 & 1))
			continue;
		found[p / 64] |= UINT64_C(1) << p % 64;
		height = max_height(height, g->nodes[o->labels[i].node].height);
	}
	for (uint32_t i = 0; i < SEEN_WORDS; i++) {
		if (found[i] != o->required[i])
			return NEVER;
		required += (uint32_t)__builtin_popcountll(found[i]);
	}
	if (o->max < required || o->max < o->min)
		return NEVER;
	height = max_height(height, others_height(g, o, required));
	return height == NEVER ? NEVER : height + 1;
}

/* The steps that a look at a way's height takes. */
static uint64_t way_steps(const struct lm_grammar *g, const struct way *w)
{
	return w->kind == WAY_ARRAY   ? g->arrays[w->id].prefix_count / 8 :
		w->kind == WAY_OBJECT ? g->objects[w->id].label_count / 4 :
					0;
}

/* The least number of containers that a value needs, from the innermost outwards. */
static int find_heights(struct compiler *c)
{
	struct lm_grammar *g = c->g;
	bool changed = true;

	while (changed) {
		changed = false;
		for (size_t i = 1; i < g->node_count; i++) {
			struct gnode *n = &g->nodes[i];

			if (dfa_spend(&c->s.budget, 0, n->count + 1) < 0)
				return -1;
			for (uint32_t k = 0; k < n->count; k++) {
				struct way *w = &n->ways[k];

				if (dfa_spend(&c->s.budget, 0, way_steps(g, w)) < 0)
					return -1;
				uint32_t height = w->kind == WAY_ARRAY ?
					array_height(g, &g->arrays[w->id]) :
					w->kind == WAY_OBJECT ?
					object_height(g, &g->objects[w->id]) :
					0;

				if (height < w->height) {
					w->height = height;
					changed = true;
				}
				if (height < n->height)
					n->height = height;
			}
		}
	}
	return 0;
}

/* Removes ways that cannot be gone, and shortens arrays to what can be in them. */
static void prune_ways(struct lm_grammar *g)
{
	for (size_t i = 0; i < g->node_count; i++) {
		struct gnode *n = &g->nodes[i];
		uint32_t kept = 0;

		for (uint32_t k = 0; k < n->count; k++) {
			if (n->ways[k].height == NEVER)
				continue;
			if (n->ways[k].height > g->height_max)
				g->height_max = n->ways[k].height;
			n->ways[kept++] = n->ways[k];
		}
		n->count = kept;
	}
	for (size_t i = 0; i < g->array_count; i++) {
		struct garray *a = &g->arrays[i];

		for (uint32_t k = 0; k <= a->prefix_count && k < a->max; k++)
			if (g->nodes[k < a->prefix_count ? a->prefix[k] : a->rest]
					.height == NEVER)
				a->max = k;
	}
}

/* From each state of an object's keys: what can still be reached. */
static int find_reach(struct compiler *c, struct gobject *o)
{
	struct lm_grammar *g = c->g;
	const struct lm_dfa *d = &g->dfas[o->dfa];
	bool changed = true;

	o->reach = take(g, d->states * sizeof *o->reach);
	o->free_height = take(g, d->states * sizeof *o->free_height);
	o->plain = take(g, d->states * sizeof *o->plain);
	o->property_height = take(g, o->property_count * sizeof *o->property_height);
	memset(o->free_height, 0xff, d->states * sizeof *o->free_height);
	for (uint32_t i = 0; i < o->label_count; i++)
		if (o->labels[i].property >= 0)
			o->property_height[o->labels[i].property] =
				g->nodes[o->labels[i].node].height;
	for (uint32_t i = 0; i < d->states; i++) {
		const struct glabel *l;

		if (o->label_of[i] == UINT32_MAX)
			continue;
		l = &o->labels[o->label_of[i]];
		if (g->nodes[l->node].height == NEVER)
			o->label_of[i] = UINT32_MAX;
		else if (l->property < 0)
			o->free_height[i] = g->nodes[l->node].height;
		else
			o->reach[i][l->property / 64] |= UINT64_C(1) << l->property % 64;
	}
	while (changed) {
		changed = false;
		if (dfa_spend(&c->s.budget, 0, (uint64_t)d->states * d->intervals / 4) <
			0)
			return -1;
		for (uint32_t i = d->states; i-- > 0;)
			for (uint32_t j = 0; j < d->intervals; j++) {
				uint32_t to = d->next[(size_t)i * d->intervals + j];

				if (to == DFA_DEAD)
					continue;
				for (uint32_t w = 0; w < SEEN_WORDS; w++) {
					changed |= (o->reach[to][w] & ~o->reach[i][w]) !=
						0;
					o->reach[i][w] |= o->reach[to][w];
				}
				if (o->free_height[to] < o->free_height[i]) {
					o->free_height[i] = o->free_height[to];
					changed = true;
				}
			}
	}
	for (uint32_t i = 0; i < d->states; i++) {
		bool plain = o->label_of[i] != UINT32_MAX &&
			o->labels[o->label_of[i]].property < 0;

		for (uint32_t j = 0; j < d->intervals; j++) {
			uint32_t to = d->next[(size_t)i * d->intervals + j];

			plain &= d->cuts[j] == 0 || d->cuts[j] == 0xd800 ? true : to == i;
		}
		o->plain[i] = plain ? o->label_of[i] + 1 : 0;
	}
	return 0;
}

/* --- schemas and sequences ---------------------------------------------------------------- */

static int compile_nodes(struct compiler *c)
{
	while (c->done < c->g->node_count) {
		if (compile_node(c, (uint32_t)c->done) < 0)
			return -1;
		c->done++;
	}
	return 0;
}

static int compile_schema(struct compiler *c, const json_t *schema, uint32_t *node)
{
	struct pointers set = { 0 };
	char *text;
	size_t bytes;

	text = json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY);
	bytes = text ? strlen(text) : 0;
	free(text);
	if (bytes > LM_GRAMMAR_BYTES_MAX)
		return err_set(EX_DATAERR, "schema: %zu bytes are more than %zu", bytes,
			LM_GRAMMAR_BYTES_MAX);
	c->s.root = schema;
	*node = 0;
	if (json_is_false(schema))
		return 0;
	if (json_is_object(schema))
		pointers_add(&c->s, &set, schema);
	else if (!json_is_true(schema))
		return err_set(EX_DATAERR, "schema: must be an object");
	return node_of(c, &set, node) < 0 ? -1 : compile_nodes(c);
}

struct sequences {
	const struct lm_grammar_part **at; /* by number */
	size_t n, cap;
};

static uint32_t sequence_of(struct compiler *c, struct sequences *l,
	const struct lm_grammar_part *p)
{
	struct lm_grammar *g = c->g;

	for (size_t i = 0; i < l->n; i++)
		if (l->at[i] == p)
			return (uint32_t)i;
	l->at = xgrow(l->at, &l->cap, l->n + 1, sizeof *l->at);
	l->at[l->n] = p;
	g->sequences = xgrow(g->sequences, &g->sequences_cap, l->n + 1,
		sizeof *g->sequences);
	g->sequences[l->n] = (struct gsequence){ 0 };
	g->sequence_count = l->n + 1;
	return (uint32_t)l->n++;
}

/* Adds a node whose values are the texts that a regular expression accepts. */
static int compile_pattern(struct compiler *c, const char *text, uint32_t *node)
{
	struct lm_grammar *g = c->g;
	struct gnode made = { .height = NEVER };
	struct pointers set = { 0 };
	struct lm_dfa d;

	if (compile_nodes(c) < 0 ||
		dfa_regex(&d, text, strlen(text), "pattern", &c->s.budget) < 0)
		return -1;
	pointers_add(&c->s, &set, text); /* no other node is made of this */
	if (node_of(c, &set, node) < 0) {
		dfa_release(&d);
		return -1;
	}
	add_way(g, &made, WAY_BYTES, add_dfa(g, &d), 1);
	g->nodes[*node] = made;
	c->done = g->node_count;
	return 0;
}

static int compile_sequence(struct compiler *c, struct sequences *l, uint32_t number)
{
	const struct lm_grammar_part *p = l->at[number];
	struct gsequence s = { 0 };
	uint32_t n = 0;

	while (p[n].kind != LM_GRAMMAR_END)
		n++;
	s.items = take(c->g, n * sizeof *s.items);
	for (uint32_t i = 0; i < n; i++) {
		struct gitem *item = &s.items[s.count];

		if (p[i].kind == LM_GRAMMAR_TEXT && !*p[i].text)
			continue;
		s.count++;
		item->kind = p[i].kind;
		item->token = p[i].token;
		if (p[i].kind == LM_GRAMMAR_TEXT) {
			item->text = arena_strdup(c->g->arena, p[i].text);
			item->len = (uint32_t)strlen(p[i].text);
		} else if (p[i].kind == LM_GRAMMAR_SCHEMA) {
			c->s.leaves_out = p[i].left_out != NULL;
			if (compile_schema(c, p[i].schema, &item->node) < 0)
				return -1;
			if (p[i].left_out)
				schema_tell_left_out(&c->s, p[i].left_out);
		} else if (p[i].kind == LM_GRAMMAR_PATTERN) {
			item->kind = LM_GRAMMAR_SCHEMA;
			if (compile_pattern(c, p[i].text, &item->node) < 0)
				return -1;
		} else if (p[i].kind == LM_GRAMMAR_CHOICE) {
			while (p[i].choices[item->choice_count])
				item->choice_count++;
			item->choices = take(c->g,
				item->choice_count * sizeof *item->choices);
			for (uint32_t k = 0; k < item->choice_count; k++)
				item->choices[k] = sequence_of(c, l, p[i].choices[k]);
		}
	}
	c->g->sequences[number] = s;
	return 0;
}

static int finish(struct compiler *c)
{
	struct lm_grammar *g = c->g;

	if (find_heights(c) < 0)
		return -1;
	prune_ways(g);
	for (size_t i = 0; i < g->object_count; i++)
		if (find_reach(c, &g->objects[i]) < 0)
			return -1;
	for (size_t i = 0; i < g->sequence_count; i++)
		for (uint32_t k = 0; k < g->sequences[i].count; k++) {
			const struct gitem *item = &g->sequences[i].items[k];

			if (item->kind == LM_GRAMMAR_SCHEMA &&
				g->nodes[item->node].height > LM_GRAMMAR_DEPTH_MAX)
				return err_set(EX_DATAERR,
					"schema: no value can satisfy it");
		}
	return 0;
}

int lm_grammar_parts(struct lm_grammar **out, const struct lm_grammar_part *parts)
{
	struct lm_budget all = LM_GRAMMAR_BUDGET;

	return lm_grammar_parts_within(out, parts, &all);
}

int lm_grammar_parts_within(struct lm_grammar **out, const struct lm_grammar_part *parts,
	struct lm_budget *b)
{
	struct lm_grammar *g = xcalloc(1, sizeof *g);
	struct compiler c = { .g = g, .s = { .budget = *b } };
	struct sequences l = { 0 };
	struct pointers any = { 0 };
	struct lm_dfa d;
	uint32_t node;
	int rc = -1;

	g->arena = xcalloc(1, sizeof *g->arena);
	/* node 0 is nothing, node 1 anything; string 0 is any string */
	g->nodes = xgrow(g->nodes, &g->nodes_cap, 1, sizeof *g->nodes);
	c.known.at = xgrow(c.known.at, &c.known.cap, 1, sizeof *c.known.at);
	g->nodes[0] = (struct gnode){ .height = NEVER };
	c.known.at[0] = (struct pointers){ 0 };
	g->node_count = c.done = 1;
	if (dfa_any(&d, &c.s.budget) < 0)
		goto out;
	add_string(g, add_dfa(g, &d), 0, NO_MAX);
	if (node_of(&c, &any, &node) < 0)
		goto out;
	sequence_of(&c, &l, parts);
	for (uint32_t i = 0; i < l.n; i++)
		if (compile_sequence(&c, &l, i) < 0)
			goto out;
	rc = compile_nodes(&c) < 0 ? -1 : finish(&c);
out:
	free(l.at);
	free(c.known.at);
	free(c.shared);
	free(c.bounded);
	*b = c.s.budget;
	schema_release(&c.s);
	if (rc < 0)
		lm_grammar_free(g);
	else
		*out = g;
	return rc;
}

int lm_grammar_schema(struct lm_grammar **out, const json_t *schema)
{
	const struct lm_grammar_part parts[] = { { .kind = LM_GRAMMAR_SCHEMA,
							 .schema = schema },
		{ .kind = LM_GRAMMAR_END } };

	return lm_grammar_parts(out, parts);
}

void lm_grammar_free(struct lm_grammar *g)
{
	if (!g)
		return;
	for (size_t i = 0; i < g->dfa_count; i++)
		dfa_release(&g->dfas[i]);
	free(g->dfas);
	free(g->nodes);
	free(g->strings);
	free(g->arrays);
	free(g->objects);
	free(g->sequences);
	arena_release(g->arena);
	free(g->arena);
	free(g);
}
