/* forward.c - passes of a model over rows of many sequences: work space, indices, embeddings, the
 * layers one after the other, and the logits that are wanted. What a layer is: forward_layer.c. */
#include "common/lm/infer/forward.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/hw/device.h"
#include "common/lm/infer/forward_parts.h"
#include "common/lm/model/rope.h"
#include "kernels/dev/team.h"

#define KEYS_STEP 128 /* positions with which a GPU divides attention alike */
/* rows up to which the CPU may make gates and what quantises them together */
#define TOGETHER_ROWS 8
/* Up to so many numbers one thread embeds sooner than others wake up. */
#define EMBED_ALONE 65536

/* --- sizes ---------------------------------------------------------------------------------- */

/* Sizes of the buffers, in numbers of 4 bytes. The bounds in config.h keep every product below
 * 2^63. */
struct sizes {
	uint64_t table, x, q, kv, gu, y, x8, y8, gathered, logits, indices;
};

/* Returns the size of the widest activations that a quantised matrix can take. */
static uint64_t x8_size(const struct lm_config *c, uint64_t rows)
{
	uint64_t max = c->hidden > c->dim ? c->hidden : c->dim;

	max = max > lm_q_dim(c) ? max : lm_q_dim(c);
	return rows * (max / LM_WEIGHT_BLOCK) * (sizeof(struct lm_block8) / 4);
}

static uint32_t logits_rows(const struct lm_forward_limits *l)
{
	uint32_t n = l->logits ? l->logits : LM_LOGITS;

	return n < LM_LOGITS_MAX ? n : LM_LOGITS_MAX;
}

static struct sizes sizes_of(const struct lm_config *c, const struct lm_forward_limits *l)
{
	uint64_t rows = l->rows;

	return (struct sizes){ .table = (uint64_t)l->context * lm_config_rotary(c),
		.x = rows * c->dim,
		.q = rows * lm_q_dim(c),
		.kv = rows * lm_kv_dim(c),
		.gu = rows * 2 * c->hidden,
		.y = rows * c->hidden,
		.x8 = x8_size(c, rows),
		.y8 = (rows < TOGETHER_ROWS ? rows : TOGETHER_ROWS) *
			(c->hidden / LM_WEIGHT_BLOCK) * (sizeof(struct lm_block8) / 4),
		.gathered = (rows < FORWARD_LAST_ROWS ? rows : FORWARD_LAST_ROWS) *
			c->dim,
		.logits = logits_rows(l) * (uint64_t)c->vocab,
		.indices = COLUMNS * rows +
			(uint64_t)l->sequences * lm_cache_pages(l->context) };
}

void lm_forward_bytes(const struct lm_config *c, const struct lm_forward_limits *limits,
	uint64_t *tables, uint64_t *work)
{
	struct sizes z = sizes_of(c, limits);

	*tables = 4 * z.table * (c->rope.local_base > 0 ? 2 : 1);
	*work = 4 *
		(3 * z.x + 2 * z.q + 2 * z.kv + z.gu + z.y + z.x8 + z.y8 + z.gathered +
			2 * z.logits + 2 * z.indices);
}

/* --- open and close ------------------------------------------------------------------------- */

static int put_table(struct lm_forward *f, float **to, uint64_t count, bool local)
{
	struct dev *d = f->w->d;
	float *table;
	int rc;

	if (lm_infer_alloc(d, to, count) < 0)
		return -1;
	table = xmalloc(4 * count);
	lm_rope_table(table, &f->w->config, f->limits.context, local);
	rc = d->ops->put(d, *to, table, 4 * count);
	free(table);
	return rc < 0 ? device_failed(d) : 0;
}

/* Allocates host memory that the device copies at full speed. */
static int pin(struct lm_forward *f, float **out, uint64_t count)
{
	void *p;

	if (f->w->d->ops->pin(f->w->d, &p, 4 * count) < 0)
		return device_failed(f->w->d);
	*out = p;
	return 0;
}

static int allocate(struct lm_forward *f)
{
	struct sizes z = sizes_of(&f->w->config, &f->limits);
	struct {
		float **to;
		uint64_t count;
	} all[] = { { &f->x, z.x }, { &f->h, z.x }, { &f->q, z.q + z.kv }, { &f->a, z.q },
		{ &f->v, z.kv }, { &f->gu, z.gu }, { &f->y, z.y },
		{ &f->gathered, z.gathered }, { &f->logits, z.logits } };
	float *indices, *x8, *y8, *host;
	uint64_t rank = 0;

	for (uint32_t i = 0; i < f->w->adapter_count; i++)
		if (lm_adapter_rank(f->w->adapters[i]) > rank)
			rank = lm_adapter_rank(f->w->adapters[i]);
	if (rank && lm_infer_alloc(f->w->d, &f->low, f->limits.rows * rank) < 0)
		return -1;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (lm_infer_alloc(f->w->d, all[i].to, all[i].count) < 0)
			return -1;
	if (lm_infer_alloc(f->w->d, &x8, z.x8) < 0)
		return -1;
	f->x8 = (struct lm_block8 *)(void *)x8;
	if (lm_infer_alloc(f->w->d, &y8, z.y8) < 0)
		return -1;
	f->y8 = (struct lm_block8 *)(void *)y8;
	if (lm_infer_alloc(f->w->d, &indices, z.indices) < 0)
		return -1;
	f->indices = (uint32_t *)(void *)indices;
	if (pin(f, &f->embedded, z.x) < 0 || pin(f, &f->scores, z.logits) < 0 ||
		pin(f, &host, z.indices) < 0)
		return -1;
	f->host = (uint32_t *)(void *)host;
	if (f->w->config.rope.local_base > 0 &&
		put_table(f, &f->local_table, z.table, true) < 0)
		return -1;
	return put_table(f, &f->table, z.table, false);
}

int lm_forward_open(struct lm_forward **out, const struct lm_weights *w,
	struct lm_cache *c, const struct lm_forward_limits *limits)
{
	struct lm_forward *f;

	*out = NULL;
	if (limits->context > LM_CONTEXT_MAX)
		return err_set(EX_USAGE, "a context has at most %u tokens",
			LM_CONTEXT_MAX);
	f = xcalloc(1, sizeof *f);
	f->w = w;
	f->cache = c;
	f->limits = *limits;
	if (allocate(f) < 0) {
		lm_forward_close(f);
		return -1;
	}
	*out = f;
	return 0;
}

void lm_forward_close(struct lm_forward *f)
{
	if (!f)
		return;
	void *all[] = { f->table, f->local_table, f->x, f->h, f->q, f->a, f->v, f->gu,
		f->y, f->x8, f->y8, f->low, f->gathered, f->logits, f->indices };

	if (f->sent)
		(void)f->w->d->ops->sync(f->w->d);
	lm_replays_free(&f->replays, f->w->d);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		f->w->d->ops->free(f->w->d, all[i]);
	f->w->d->ops->unpin(f->w->d, f->embedded);
	f->w->d->ops->unpin(f->w->d, f->scores);
	f->w->d->ops->unpin(f->w->d, f->host);
	free(f);
}

/* --- a pass --------------------------------------------------------------------------------- */

static int check(const struct lm_forward *f, const struct lm_row *rows, uint32_t n)
{
	const struct lm_sequence *last = NULL;
	uint32_t next = 0, sequences = 0;

	if (!n || n > f->limits.rows)
		bug("a pass of %u rows", n);
	for (uint32_t i = 0; i < n; i++) {
		const struct lm_row *r = &rows[i];

		if (r->token >= f->w->config.vocab)
			return err_set(EX_DATAERR,
				"token %u is not in a vocabulary of %u", r->token,
				f->w->config.vocab);
		if (r->position >= f->limits.context)
			return err_set(EX_DATAERR, "the context of %u tokens is full",
				f->limits.context);
		if (r->sequence != last) {
			last = r->sequence;
			next = last->length;
			sequences++;
		}
		if (r->position != next++ || r->position / LM_PAGE >= r->sequence->n ||
			r->adapter > f->w->adapter_count)
			bug("row %u of a pass is not where its sequence goes on", i);
	}
	if (sequences > f->limits.sequences)
		bug("a pass of %u sequences", sequences);
	return 0;
}

/* Copies to the device where each row lies in the cache, and the page lists of the sequences,
 * one after the other. */
static int put_indices(struct lm_forward *f, const struct lm_row *rows)
{
	uint32_t *lists = f->host + COLUMNS * (uint64_t)f->limits.rows, from = 0,
		 used = 0;
	struct dev *d = f->w->d;

	f->keys_max = f->wanted = 0;
	f->apart = true;
	for (uint32_t i = 0; i < f->rows; i++) {
		const struct lm_sequence *s = rows[i].sequence;
		uint32_t at = rows[i].position, page = s->pages[at / LM_PAGE];

		if (i == 0 || s != rows[i - 1].sequence) {
			from = used;
			memcpy(lists + from, s->pages, s->n * sizeof *lists);
			used += s->n;
		} else {
			f->apart = false;
		}
		forward_host_column(f, POSITION)[i] = at;
		forward_host_column(f, SLOT)[i] = page * LM_PAGE + at % LM_PAGE;
		forward_host_column(f, TABLE)[i] = from;
		if (at >= f->keys_max)
			f->keys_max = at + 1;
		if (!rows[i].logits)
			continue;
		forward_host_column(f, CHOSEN)[f->wanted] = i;
		forward_host_column(f, CHOSEN_POSITION)[f->wanted] = at;
		forward_host_column(f, CHOSEN_TABLE)[f->wanted++] = from;
	}
	f->sent = true;
	if (d->ops->put_later(d, f->indices, f->host,
		    4 * (COLUMNS * (uint64_t)f->limits.rows + used)) < 0)
		return device_failed(d);
	return 0;
}

/* Embeds rows from .. to - 1 of the pass, on the host. */
static void embed_rows(void *work, uint64_t from, uint64_t to)
{
	const struct lm_forward *f = work;
	const struct lm_tensor *e = f->w->embed;
	uint64_t dim = f->w->config.dim, row_bytes = e->bytes / e->shape[0];
	float scale = sqrtf((float)dim);

	for (uint64_t i = from; i < to; i++) {
		float *x = f->embedded + i * dim;

		lm_to_f32(x, (const char *)e->data + f->pass[i].token * row_bytes,
			e->type, dim);
		for (uint64_t k = 0; f->w->config.scaled_embed && k < dim; k++)
			x[k] *= scale;
	}
}

static int put_embeddings(struct lm_forward *f)
{
	uint64_t dim = f->w->config.dim;
	struct dev *d = f->w->d;
	struct team_op op = { embed_rows, f, f->rows, 1, 1, EMBED_ALONE / dim + 1 };

	team_run(&op, 1);
	if (d->ops->put_later(d, f->x, f->embedded, 4 * (uint64_t)f->rows * dim) < 0)
		return device_failed(d);
	return 0;
}

/* Waits until the device has read what the last pass gave it, if nothing did since. */
static int take_back(struct lm_forward *f)
{
	if (f->sent && f->w->d->ops->sync(f->w->d) < 0)
		return device_failed(f->w->d);
	f->sent = false;
	return 0;
}

/* Returns how many rows are scored next, of those that want logits and are not yet. */
static uint32_t next_scored(const struct lm_forward *f)
{
	uint32_t left = f->wanted - f->scored, most = logits_rows(&f->limits);

	return left < most ? left : most;
}

/* Returns the chosen rows of x, contiguous: in place if they already are, else gathered. */
static const float *gather(struct lm_forward *f, uint32_t n)
{
	const uint32_t *chosen = forward_host_column(f, CHOSEN) + f->scored;
	struct lm_embed e = { .dtype = LM_DTYPE_F32,
		.x = f->gathered,
		.w = f->x,
		.token = forward_column(f, CHOSEN) + f->scored,
		.rows = n,
		.dim = f->w->config.dim,
		.vocab = f->rows };

	if (f->narrowed)
		return f->gathered + f->scored * (uint64_t)f->w->config.dim;
	if (chosen[n - 1] - chosen[0] == n - 1)
		return f->x + chosen[0] * (uint64_t)f->w->config.dim;
	if (forward_ops(f)->embed(f->w->d, &e) < 0)
		return NULL;
	return f->gathered;
}

/* Computes the logits of the n chosen rows. */
static int score_chosen(struct lm_forward *f, uint32_t n)
{
	const float *x = gather(f, n);

	return x ? forward_logits(f, x, n) : -1;
}

/* Copies the logits of n rows to the host. */
static int fetch(struct lm_forward *f, uint32_t n)
{
	struct dev *d = f->w->d;

	if (d->ops->get(d, f->scores, f->logits, 4 * n * (uint64_t)f->w->config.vocab) <
		0)
		return -1;
	f->sent = false;
	return 0;
}

int lm_forward_hidden(struct lm_forward *f, uint32_t i, float *out)
{
	uint64_t dim = f->w->config.dim;
	struct dev *d = f->w->d;

	return d->ops->get(d, out, f->h + i * dim, 4 * dim) < 0 ? device_failed(d) : 0;
}

/* Runs all layers and computes the logits of the first chosen rows. */
static int compute(void *arg)
{
	struct lm_forward *f = arg;
	uint32_t rows = f->rows;
	float *x = f->x;
	int rc = 0;

	for (uint32_t i = 0; i < f->w->config.layers && rc == 0; i++)
		rc = forward_layer(f, i);
	if (rc == 0 && f->wanted)
		rc = score_chosen(f, next_scored(f));
	f->x = x;
	f->rows = rows;
	return rc;
}

/* Whether the pass is one of those that come again on a GPU: a token of each of a few sequences.
 * Then the bound of its keys becomes that of the next passes, too. */
static bool repeats(struct lm_forward *f)
{
	uint64_t keys = ((uint64_t)f->keys_max + KEYS_STEP - 1) / KEYS_STEP * KEYS_STEP;

	if (f->w->d->is_host || f->adapts || f->wanted != f->rows ||
		f->rows > logits_rows(&f->limits) || f->rows > LM_REPLAYS)
		return false;
	f->keys_max = keys < f->limits.context ? (uint32_t)keys : f->limits.context;
	return true;
}

/* The same as one batch of the device, and copies the logits to the host. */
static int pass(struct lm_forward *f)
{
	struct dev *d = f->w->d;
	bool repeated = repeats(f);
	unsigned kind = f->rows - 1;
	int rc;

	f->narrowed = false;
	f->scored = 0;
	if (repeated)
		lm_replay_prepare(&f->replays, d, kind, f->keys_max, compute, f);
	if (d->ops->batch_begin(d) < 0)
		return -1;
	rc = repeated ? lm_replay_run(&f->replays, d, kind, compute, f) : compute(f);
	if (rc == 0 && f->wanted)
		rc = fetch(f, next_scored(f));
	return d->ops->batch_end(d) < 0 ? -1 : rc;
}

int lm_forward_scores(struct lm_forward *f, const struct lm_row *rows, uint32_t n,
	lm_scores_fn scores, void *arg)
{
	if (check(f, rows, n) < 0)
		return -1;
	f->rows = n;
	f->k = f->q + n * lm_q_dim(&f->w->config);
	f->pass = rows;
	f->adapts = false;
	for (uint32_t i = 0; i < n; i++)
		f->adapts |= rows[i].adapter != 0;
	if (take_back(f) < 0 || put_indices(f, rows) < 0 || put_embeddings(f) < 0)
		return -1;
	if (pass(f) < 0)
		return device_failed(f->w->d);
	for (uint32_t i = 0; i < n; i++)
		rows[i].sequence->length++;
	for (uint32_t k; (k = next_scored(f)); f->scored += k) {
		if (f->scored && (score_chosen(f, k) < 0 || fetch(f, k) < 0))
			return device_failed(f->w->d);
		if (scores(arg, forward_host_column(f, CHOSEN) + f->scored, k,
			    f->scores) < 0)
			return -1;
	}
	return 0;
}

/* Passes the logits of several rows on one by one. */
struct one_by_one {
	lm_logits_fn logits;
	void *arg;
	uint32_t vocab;
};

static int tell_each(void *arg, const uint32_t *rows, uint32_t n, const float *logits)
{
	const struct one_by_one *o = arg;

	for (uint32_t i = 0; i < n; i++)
		if (o->logits(o->arg, rows[i], logits + (uint64_t)i * o->vocab) < 0)
			return -1;
	return 0;
}

int lm_forward_rows(struct lm_forward *f, const struct lm_row *rows, uint32_t n,
	lm_logits_fn logits, void *arg)
{
	struct one_by_one o = { logits, arg, f->w->config.vocab };

	return lm_forward_scores(f, rows, n, tell_each, &o);
}
