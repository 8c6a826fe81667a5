/* index.c - nodes for sale that come and go: see index.h. */
#include "common/market/index.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/market/parts.h"
#include "common/market/text.h"
#include "common/base/err.h"
#include "common/base/fnv.h"
#include "common/base/mem.h"

/* A text that nodes have: a model, a country, a region. */
struct match_text {
	char *text; /* NULL: not in use */
	size_t nodes;
};

static uint32_t fold(uint64_t h)
{
	return (uint32_t)((h ^ (h >> 32)) * 0x9e3779b97f4a7c15u >> 32);
}

/* --- texts --------------------------------------------------------------------------------- */

static bool is_text(const void *texts, uint32_t i, const void *text)
{
	return strcasecmp(((const struct match_text *)texts)[i].text, text) == 0;
}

static size_t take_free(size_t *list, size_t *n, size_t *all)
{
	return *n ? list[--*n] : (*all)++;
}

static void note_free(size_t **list, size_t *n, size_t *cap, size_t i)
{
	*list = xgrow(*list, cap, *n + 1, sizeof **list);
	(*list)[(*n)++] = i;
}

/* The index's own of a text, which one more node has. */
static const char *hold_text(struct match_index *ix, const char *text)
{
	uint32_t hash;
	uint64_t *slot;
	size_t i;

	if (!text)
		return NULL;
	hash = match_text_hash(text);
	hash_index_reserve(&ix->text_index);
	slot = hash_index_slot(&ix->text_index, hash, is_text, ix->texts, text);
	if (!*slot) {
		i = take_free(ix->free_texts, &ix->nfree_texts, &ix->ntexts);
		ix->texts = xgrow(ix->texts, &ix->texts_cap, ix->ntexts,
			sizeof *ix->texts);
		ix->texts[i] = (struct match_text){ xstrdup(text), 0 };
		hash_index_set(&ix->text_index, slot, hash, i);
	}
	i = (uint32_t)*slot - 1;
	ix->texts[i].nodes++;
	return ix->texts[i].text;
}

static void drop_text(struct match_index *ix, const char *text)
{
	uint64_t *slot;
	size_t i;

	if (!text)
		return;
	slot = hash_index_slot(&ix->text_index, match_text_hash(text), is_text, ix->texts,
		text);
	i = (uint32_t)*slot - 1;
	if (--ix->texts[i].nodes)
		return;
	hash_index_remove(&ix->text_index, slot);
	free(ix->texts[i].text);
	ix->texts[i].text = NULL;
	note_free(&ix->free_texts, &ix->nfree_texts, &ix->free_texts_cap, i);
}

const char *match_index_text(const struct match_index *ix, const char *text)
{
	uint32_t i = hash_index_find(&ix->text_index, match_text_hash(text), is_text,
		ix->texts, text);

	return i == UINT32_MAX ? NULL : ix->texts[i].text;
}

/* --- nodes --------------------------------------------------------------------------------- */

static uint32_t hash_of_id(const char *id)
{
	return fold(fnv1a(hash_seed(), id, strlen(id)));
}

static bool is_id(const void *nodes, uint32_t i, const void *id)
{
	return strcmp(((const struct match_node *)nodes)[i].id, id) == 0;
}

/* The number of a node; SIZE_MAX: it is not there. */
static size_t number_of(const struct match_index *ix, const char *id)
{
	uint32_t i = hash_index_find(&ix->ids, hash_of_id(id), is_id, ix->nodes, id);

	return i == UINT32_MAX ? SIZE_MAX : i;
}

static uint64_t units_mask(int units)
{
	return units >= 64 ? UINT64_MAX : ((uint64_t)1 << units) - 1;
}

struct match_index *match_index_new(void)
{
	struct match_index *ix = xcalloc(1, sizeof *ix);

	ix->algorithm = MATCH_CHEAPEST;
	ix->grows = true;
	return ix;
}

static void free_id(const char *id)
{
	free((char *)(uintptr_t)id);
}

void match_index_free(struct match_index *ix)
{
	if (!ix)
		return;
	for (size_t i = 0; i < ix->n; i++)
		free_id(ix->nodes[i].id);
	for (size_t i = 0; i < ix->ntexts; i++)
		free(ix->texts[i].text);
	match_groups_release(ix);
	hash_index_release(&ix->ids);
	hash_index_release(&ix->text_index);
	free(ix->nodes);
	free(ix->texts);
	free(ix->free_nodes);
	free(ix->free_groups);
	free(ix->free_texts);
	free(ix);
}

/* What is free follows from what is leased. */
static void set_free(struct match_node *n)
{
	n->free_gpus = 0;
	for (int place = 0, i = 0; place < MATCH_GPUS_MAX; place++) {
		if (!(n->places >> place & 1))
			continue;
		n->left[i] = n->leased >> place & 1 ? 0 : MATCH_MILLI;
		n->free_gpus += n->left[i++] == MATCH_MILLI;
	}
}

static int check_node(const struct match_node *n)
{
	if (!n->id || !*n->id)
		return err_set(EX_DATAERR, "a node for sale without an id");
	if (n->gpus < 0 || n->gpus > MATCH_GPUS_MAX || !n->model != !n->gpus)
		return err_set(EX_DATAERR, "node %.80s: %d GPUs of model '%.80s'", n->id,
			n->gpus, n->model ? n->model : "");
	if (n->places && n->gpus && __builtin_popcountll(n->places) != n->gpus)
		return err_set(EX_DATAERR, "node %.80s: %d GPUs at %d places", n->id,
			n->gpus, __builtin_popcountll(n->places));
	if (n->uusd < 0 || n->all_uusd < 0 || n->gpu_memory_bytes < 0 ||
		n->memory_bytes < 0 || n->disk_bytes < 0 || n->cpu_cores < 0 ||
		n->ping_us < 0 || n->tier < 0 || n->part_gpus < 0)
		return err_set(EX_DATAERR, "node %.80s: an amount is negative", n->id);
	return 0;
}

/* A number for a node that is new. */
static size_t add_node(struct match_index *ix, const char *id)
{
	size_t i = take_free(ix->free_nodes, &ix->nfree_nodes, &ix->n);
	uint32_t hash = hash_of_id(id);
	uint64_t *slot;

	ix->nodes = xgrow(ix->nodes, &ix->nodes_cap, ix->n, sizeof *ix->nodes);
	ix->nodes[i] = (struct match_node){ .id = xstrdup(id) };
	hash_index_reserve(&ix->ids);
	slot = hash_index_slot(&ix->ids, hash, is_id, ix->nodes, id);
	hash_index_set(&ix->ids, slot, hash, i);
	ix->count++;
	return i;
}

/* Takes a node out of all but its number. */
static void take_out(struct match_index *ix, size_t i)
{
	struct match_node *n = &ix->nodes[i];

	match_withdraw(ix, i);
	match_leave_group(ix, i);
	drop_text(ix, n->model);
	drop_text(ix, n->country);
	drop_text(ix, n->region);
}

int match_index_put(struct match_index *ix, const struct match_node *what)
{
	struct match_node n = *what;
	size_t i;

	if (check_node(what) < 0)
		return -1;
	if (!n.gpus)
		n.places = 1;
	else if (!n.places)
		n.places = units_mask(n.gpus);
	/* held first, so that texts which stay are not made anew */
	n.model = hold_text(ix, n.model);
	n.country = hold_text(ix, n.country);
	n.region = hold_text(ix, n.region);
	i = number_of(ix, n.id);
	if (i == SIZE_MAX)
		i = add_node(ix, n.id);
	else
		take_out(ix, i);
	n.id = ix->nodes[i].id;
	n.leased = ix->nodes[i].leased;
	n.worked_ms = 0;
	set_free(&n);
	ix->nodes[i] = n;
	match_note_facts(ix, i);
	match_join_group(ix, i);
	match_enter(ix, i);
	return 0;
}

bool match_index_remove(struct match_index *ix, const char *id)
{
	size_t i = number_of(ix, id);

	if (i == SIZE_MAX)
		return false;
	take_out(ix, i);
	hash_index_remove(&ix->ids,
		hash_index_slot(&ix->ids, hash_of_id(id), is_id, ix->nodes, id));
	free_id(ix->nodes[i].id);
	memset(&ix->nodes[i], 0, sizeof ix->nodes[i]);
	note_free(&ix->free_nodes, &ix->nfree_nodes, &ix->free_nodes_cap, i);
	ix->count--;
	return true;
}

bool match_index_price(struct match_index *ix, const char *id, int64_t all_uusd)
{
	size_t i = number_of(ix, id);

	if (i == SIZE_MAX || all_uusd < 0)
		return false;
	match_withdraw(ix, i);
	ix->nodes[i].all_uusd = all_uusd;
	ix->nodes[i].uusd = 0;
	match_enter(ix, i);
	return true;
}

static void set_leased(struct match_index *ix, size_t i, uint64_t leased)
{
	match_withdraw(ix, i);
	ix->nodes[i].leased = leased;
	set_free(&ix->nodes[i]);
	match_enter(ix, i);
}

bool match_index_lease(struct match_index *ix, const char *id, uint64_t gpus)
{
	size_t i = number_of(ix, id);

	if (i == SIZE_MAX || !gpus || gpus & ~match_free_places(&ix->nodes[i]))
		return false;
	set_leased(ix, i, ix->nodes[i].leased | gpus);
	return true;
}

bool match_index_release(struct match_index *ix, const char *id, uint64_t gpus)
{
	size_t i = number_of(ix, id);

	if (i == SIZE_MAX || !gpus || gpus & ~ix->nodes[i].leased)
		return false;
	set_leased(ix, i, ix->nodes[i].leased & ~gpus);
	return true;
}

/* --- reading ------------------------------------------------------------------------------- */

const struct match_node *match_index_find(const struct match_index *ix, const char *id)
{
	size_t i = number_of(ix, id);

	return i == SIZE_MAX ? NULL : &ix->nodes[i];
}

const struct match_node *match_index_at(const struct match_index *ix, size_t node)
{
	return &ix->nodes[node];
}

const char *match_index_id(const struct match_index *ix, const char *id)
{
	size_t i = number_of(ix, id);

	return i == SIZE_MAX ? NULL : ix->nodes[i].id;
}

size_t match_index_count(const struct match_index *ix)
{
	return ix->count;
}

uint64_t match_free_places(const struct match_node *n)
{
	return n->places & ~n->leased;
}
