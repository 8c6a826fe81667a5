/* fuzz_market.c - fuzz target: what strangers say to a market's index - rnp.node and rnp.listing
 * records of nodes, and rnp.job records of customers.
 *
 * Each line is a record. Nodes come, change and have their first GPU leased or given back; every
 * job is asked. It checks that what is offered was free, is of one model and within the limit, that
 * no two offers share a node, that every node is counted once, and that with the nearest wish
 * that is an amount there is an offer. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/json/json.h"
#include "common/json/schema.h"
#include "common/market/index.h"
#include "common/market/wish.h"

#define LINES_MAX 60

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

static void be_quiet(const char *text)
{
	(void)text;
}

/* As the index copies texts, they may be borrowed. */
static const char *same_word(void *ctx, enum match_word what, const char *text)
{
	(void)ctx, (void)what;
	return text;
}

static void take_node(struct match_index *ix, const json_t *r, int line)
{
	struct match_words words = { same_word, NULL, NULL };
	const char *id = json_string_value(json_object_get(r, "node"));
	struct match_node n;

	if (!id)
		return;
	match_node_read(r, &words, &n);
	n.id = id;
	n.all_uusd = 1000 * (line * 37 % 101 + 1);
	must(match_index_put(ix, &n) == 0);
	must(match_index_find(ix, id) != NULL);
	if (line % 3 == 0)
		match_index_lease(ix, id, n.gpus ? n.places & -n.places : 1);
	else if (line % 3 == 1)
		match_index_release(ix, id, n.gpus ? n.places & -n.places : 1);
	else if (line % 7 == 2)
		must(match_index_remove(ix, id) && !match_index_find(ix, id));
}

static void take_listing(struct match_index *ix, const json_t *r)
{
	const struct match_node *old = match_index_find(ix,
		json_string_value(json_object_get(r, "node")));
	struct match_node n;

	if (!old)
		return;
	n = *old;
	match_listing_read(r, &n);
	must(match_index_put(ix, &n) == 0);
}

static void check_offers(const struct match_index *ix, const struct match_job *j,
	const struct match_answer *a)
{
	for (size_t i = 0; i < a->noffers; i++) {
		const struct match_offer *o = &a->offers[i];
		const char *model = match_index_at(ix, o->parts->node)->model;

		must(o->uusd_per_hour >= 0 && o->uusd_per_hour <= j->limit_uusd);
		must(!i || o->uusd_per_hour >= a->offers[i - 1].uusd_per_hour);
		must(o->nparts >= 1 && o->nparts <= (size_t)j->nodes_max);
		for (size_t k = 0; k < o->nparts; k++) {
			const struct match_part *p = &o->parts[k];
			const struct match_node *n = match_index_at(ix, p->node);

			must(n->model == model && !model == !j->gpus);
			for (int g = 0; g < p->gpus; g++)
				must(match_free_places(n) >>
						match_place_of(n, p->gpu[g]) &
					1);
			for (const struct match_part *b = a->parts; b < p; b++)
				must(b->node != p->node);
		}
	}
}

static void check_nearest(const struct match_index *ix, const struct match_job *wish,
	const struct match_nearest *n)
{
	struct match_job j = *wish;
	struct match_answer a;

	if (strcmp(n->wish, "memory_bytes") == 0)
		j.memory_bytes = n->value > 0 ? n->value : 0;
	else if (strcmp(n->wish, "ping_us") == 0)
		j.ping_us = n->value > 0 ? n->value : 0;
	else if (strcmp(n->wish, "max_uusd_per_hour") == 0)
		j.limit_uusd = n->value;
	else
		return;
	match_index_ask(ix, &j, 1, 0, &a);
	must(a.noffers == 1 && a.fit == n->nodes);
	match_answer_release(&a);
}

static void ask(const struct match_index *ix, const json_t *r)
{
	struct arena lists = ARENA_INIT;
	struct match_words words = match_index_words(ix, &lists);
	struct match_answer a;
	struct match_job j;

	if (match_wish_read(r, "job", 0, &words, &j) == 0 && j.milli == MATCH_MILLI) {
		size_t all = 0;

		match_index_ask(ix, &j, 3, 4, &a);
		check_offers(ix, &j, &a);
		for (int i = 0; i < MATCH_REASONS; i++)
			all += a.left_out[i];
		must(all + a.fit == match_index_count(ix));
		if (a.nearest.any)
			check_nearest(ix, &j, &a.nearest);
		match_answer_release(&a);
	}
	arena_release(&lists);
}

static void take_line(struct match_index *ix, const char *text, size_t len, int line)
{
	json_t *r = json_parse_object(text, len, "line");
	const char *kind = json_string_value(json_object_get(r, "kind"));

	if (kind && strcmp(kind, "rnp.job") == 0)
		ask(ix, r);
	else if (kind && schema_check(r, "line", NULL) == 0 &&
		strcmp(kind, "rnp.node") == 0)
		take_node(ix, r, line);
	else if (kind && schema_check(r, "line", NULL) == 0 &&
		strcmp(kind, "rnp.listing") == 0)
		take_listing(ix, r);
	json_decref(r);
	err_clear();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *at = (const char *)data, *end = at + size;
	struct match_index *ix = match_index_new();

	err_listen(be_quiet);
	for (int line = 0; at < end && line < LINES_MAX; line++) {
		const char *next = memchr(at, '\n', (size_t)(end - at));

		next = next ? next : end;
		take_line(ix, at, (size_t)(next - at), line);
		at = next + 1;
	}
	match_index_free(ix);
	return 0;
}
