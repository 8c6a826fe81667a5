/* ask.c - what a wish is best served by: see index.h. */
#include <stdlib.h>
#include <string.h>

#include "common/market/parts.h"
#include "common/base/mem.h"

static void add_offers(struct chooser *c, size_t max, struct match_answer *out,
	struct choice *parts)
{
	const struct choice *choice;

	out->offers = xcalloc(max + 1, sizeof *out->offers);
	while (out->noffers < max && (choice = chooser_next(c))) {
		out->offers[out->noffers++] = (struct match_offer){
			.uusd_per_hour = choice->uusd,
			.nparts = (size_t)choice->nparts
		};
		choice_append(parts, choice);
	}
}

/* Nodes that may take the place of one of the first offer: of its model, at a price with which all
 * stays within the limit. */
static void add_spares(const struct match_index *ix, const struct match_job *wish,
	const struct chooser *c, size_t max, struct match_answer *out,
	struct choice *parts)
{
	struct match_job one = *wish;
	struct walk walk = { .ix = ix };
	size_t n = out->noffers ? out->offers[0].nparts : 0;
	uint64_t *used = xcalloc(ix->n / 64 + 1, sizeof *used);
	size_t model_no = n ? ix->groups[ix->facts[parts->parts[0].node].group].model_no :
			      0;
	const struct walk_entry *e;

	for (size_t i = 0; i < n; i++)
		used[parts->parts[i].node / 64] |= (uint64_t)1
			<< parts->parts[i].node % 64;
	one.limit_uusd = chooser_room(c, model_no);
	if (n) {
		one.gpus = wish->gpus / (int)n;
		one.nodes_min = one.nodes_max = 1;
		walk_begin(&walk, ix, &one, one.gpus);
		walk_add(&walk, &ix->models[model_no]);
	}
	for (; n && out->nspares < max && (e = walk_next(&walk, used)); out->nspares++)
		choice_add(parts, ix, e, one.gpus);
	walk_release(&walk);
	free(used);
}

void match_index_ask(const struct match_index *ix, const struct match_job *wish,
	size_t offers_max, size_t spares_max, struct match_answer *out)
{
	struct chooser chooser = { .ix = ix };
	struct choice parts = { .nparts = 0 };
	const struct match_part *at;
	struct census census;

	memset(out, 0, sizeof *out);
	chooser_begin(&chooser, ix, wish);
	add_offers(&chooser, offers_max, out, &parts);
	add_spares(ix, wish, &chooser, spares_max, out, &parts);
	match_census(ix, wish, NULL, &chooser, &census);
	memcpy(out->left_out, census.left_out, sizeof out->left_out);
	out->fit = census.fit;
	if (!out->noffers)
		match_find_nearest(ix, wish, &census, &out->nearest);
	at = out->parts = parts.parts;
	for (size_t i = 0; i < out->noffers; i++) {
		out->offers[i].parts = at;
		at += out->offers[i].nparts;
	}
	out->spares = at;
	chooser_release(&chooser);
}

void match_answer_release(struct match_answer *a)
{
	free(a->offers);
	free(a->parts);
	memset(a, 0, sizeof *a);
}
