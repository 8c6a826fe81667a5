/* draft.c - passes of a draft model: over what it has not read yet, then over its own proposals. */
#include "common/lm/engine/draft.h"

#include <stdlib.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/lm/infer/choose.h"

struct lm_draft {
	struct lm_cache *cache;
	struct lm_prefix *prefix;
	struct lm_forward *forward;
	uint64_t computed;
	struct lm_draft_limits limits;
	uint32_t vocab;
	struct lm_row *rows;
	struct lm_draft_text **of; /* the text of each row */
	uint32_t row_count, rows_max;
	struct lm_chooser chooser;
};

static struct lm_forward_limits forward_limits(const struct lm_draft_limits *l)
{
	return (struct lm_forward_limits){ .rows = l->rows + l->texts,
		.sequences = l->texts,
		.context = l->context,
		.logits = l->logits };
}

uint64_t lm_draft_bytes(const struct lm_config *c, const struct lm_draft_limits *limits)
{
	struct lm_forward_limits l = forward_limits(limits);
	uint64_t tables, work;

	lm_forward_bytes(c, &l, &tables, &work);
	return lm_cache_page_bytes(c, limits->cache) * limits->pages + tables + work;
}

int lm_draft_open(struct lm_draft **out, const struct lm_weights *w,
	const struct lm_draft_limits *limits)
{
	struct lm_forward_limits l = forward_limits(limits);
	struct lm_draft *d = xcalloc(1, sizeof *d);

	*out = NULL;
	d->limits = *limits;
	d->vocab = lm_weights_config(w)->vocab;
	d->rows_max = l.rows;
	d->rows = xcalloc(l.rows, sizeof *d->rows);
	d->of = xcalloc(l.rows, sizeof *d->of);
	if (lm_cache_open(&d->cache, w, limits->pages, limits->cache) < 0 ||
		lm_forward_open(&d->forward, w, d->cache, &l) < 0) {
		lm_draft_close(d);
		return -1;
	}
	d->prefix = lm_prefix_open(d->cache);
	*out = d;
	return 0;
}

void lm_draft_close(struct lm_draft *d)
{
	if (!d)
		return;
	lm_prefix_close(d->prefix);
	lm_forward_close(d->forward);
	lm_cache_close(d->cache);
	lm_chooser_release(&d->chooser);
	free(d->rows);
	free(d->of);
	free(d);
}

void lm_draft_forget(struct lm_draft *d, struct lm_draft_read *r)
{
	for (uint32_t i = r->sequence.n; i-- > 0;)
		lm_prefix_touch(d->prefix, r->sequence.pages[i]);
	lm_sequence_release(&r->sequence, d->cache);
	r->hashed = 0;
}

uint64_t lm_draft_rows(const struct lm_draft *d)
{
	return d->computed;
}

bool lm_draft_sound(const struct lm_draft *d, const struct lm_draft_read *const *texts,
	uint32_t n)
{
	const struct lm_sequence **all = xcalloc((size_t)n + 1, sizeof *all);
	struct lm_sequence kept = { 0 };
	bool sound;

	for (uint32_t i = 0; i < n; i++)
		all[i] = &texts[i]->sequence;
	kept.pages = lm_prefix_pages(d->prefix, &kept.n);
	all[n] = &kept;
	sound = lm_cache_sound(d->cache, all, n + 1);
	free(kept.pages);
	free(all);
	return sound;
}

/* --- beginnings that texts share ------------------------------------------------------------- */

/* Adopts the pages that the index has of what is to be read. The last token is always read: what
 * follows it is wanted. */
static void adopt(struct lm_draft *d, struct lm_draft_text *t)
{
	struct lm_draft_read *r = t->read;
	struct lm_prefix_hash hash;
	int64_t page;

	while (r->sequence.length == (uint64_t)r->hashed * LM_PAGE &&
		r->sequence.length + LM_PAGE < t->length) {
		if (!r->hashed)
			lm_prefix_root(&r->hash, t->space, 0);
		lm_prefix_next(&hash, &r->hash, t->tokens + r->sequence.length);
		page = lm_prefix_find(d->prefix, &hash);
		if (page < 0)
			return;
		lm_sequence_adopt(&r->sequence, d->cache, (uint32_t)page);
		r->hash = hash;
		r->hashed++;
	}
}

/* Adds the full pages of the text itself, without proposals, to the index. */
static void keep(struct lm_draft *d, struct lm_draft_text *t)
{
	struct lm_draft_read *r = t->read;

	while ((uint64_t)(r->hashed + 1) * LM_PAGE <= r->sequence.length) {
		if (!r->hashed)
			lm_prefix_root(&r->hash, t->space, 0);
		lm_prefix_next(&r->hash, &r->hash, t->tokens + r->hashed * LM_PAGE);
		lm_prefix_add(d->prefix, &r->hash, r->sequence.pages[r->hashed]);
		r->hashed++;
	}
}

/* --- passes ---------------------------------------------------------------------------------- */

/* Adds the next `take` tokens of a text to the pass; with last, proposals follow. A proposal is
 * read from out. */
static void add_rows(struct lm_draft *d, struct lm_draft_text *t, uint32_t take,
	bool last)
{
	t->step_rows = take;
	for (uint32_t i = 0; i < take; i++) {
		uint32_t at = t->read->sequence.length + i, row = d->row_count++;

		d->rows[row] = (struct lm_row){ .sequence = &t->read->sequence,
			.token = at < t->length ? t->tokens[at] : t->out[at - t->length],
			.position = at,
			.logits = last && i + 1 == take };
		d->of[row] = t;
	}
}

static int on_scores(void *arg, const uint32_t *rows, uint32_t n, const float *logits)
{
	struct lm_choice choices[LM_LOGITS_MAX];
	struct lm_draft *d = arg;

	/* as the engine will draw the token of this position */
	for (uint32_t i = 0; i < n; i++)
		choices[i] = (struct lm_choice){ .logits = logits +
				(uint64_t)i * d->vocab,
			.sampling = d->of[rows[i]]->sampling,
			.position = (uint64_t)d->rows[rows[i]].position + 1 };
	lm_choose(&d->chooser, choices, n, d->vocab);
	for (uint32_t i = 0; i < n; i++) {
		struct lm_draft_text *t = d->of[rows[i]];

		t->out[t->count++] = choices[i].token;
	}
	return 0;
}

/* Reserves pages of a text up to its last proposal. */
static bool has_room(struct lm_draft *d, struct lm_draft_text *t)
{
	struct lm_sequence *s = &t->read->sequence;
	uint32_t end = t->length + t->wanted, pages = lm_cache_pages(end);

	/* and one for a copy of a page that others share */
	lm_prefix_make_room(d->prefix, (pages > s->n ? pages - s->n : 0) + 1);
	if (end <= d->limits.context &&
		lm_sequence_grow(&t->read->sequence, d->cache,
			end - t->read->sequence.length) == 0)
		return true;
	err_clear();
	return false;
}

/* The first pass: what the texts have that was not read. */
static uint32_t plan_reading(struct lm_draft *d, struct lm_draft_text *texts, uint32_t n)
{
	uint32_t left = d->limits.rows;

	d->row_count = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct lm_draft_text *t = &texts[i];
		uint32_t take;

		t->count = t->step_rows = 0;
		if (!t->wanted)
			continue;
		adopt(d, t);
		if (!has_room(d, t))
			continue;
		take = t->length - t->read->sequence.length;
		/* one that has only its last token to read always gets its row */
		if (take > 1 && take > left)
			take = left;
		left -= take > 1 ? take : 0;
		add_rows(d, t, take, t->read->sequence.length + take == t->length);
	}
	return d->row_count;
}

/* A further pass: the latest proposal of each text that wants more. */
static uint32_t plan_next(struct lm_draft *d, struct lm_draft_text *texts, uint32_t n)
{
	d->row_count = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct lm_draft_text *t = &texts[i];

		if (t->count && t->count < t->wanted)
			add_rows(d, t, 1, true);
	}
	return d->row_count;
}

int lm_draft_propose(struct lm_draft *d, struct lm_draft_text *texts, uint32_t n)
{
	int rc = 0;

	if (n > d->limits.texts)
		bug("a draft for %u texts", n);
	plan_reading(d, texts, n);
	while (rc == 0 && d->row_count) {
		d->computed += d->row_count;
		rc = lm_forward_scores(d->forward, d->rows, d->row_count, on_scores, d);
		if (rc == 0)
			plan_next(d, texts, n);
	}
	for (uint32_t i = 0; i < n; i++) {
		struct lm_draft_text *t = &texts[i];

		if (rc < 0)
			t->count = 0;
		/* what becomes of the proposals is not known yet */
		if (t->read->sequence.length > t->length)
			lm_sequence_truncate(&t->read->sequence, d->cache, t->length);
		keep(d, t);
	}
	return rc;
}
