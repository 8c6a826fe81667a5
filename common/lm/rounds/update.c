/* update.c - the passes of update.h over the containers: what the rule looks at, the step, and the
 * container of the update, which is decoded again as the workers will. */
#include "common/lm/rounds/update.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/sha256.h"
#include "common/base/threads.h"
#include "common/lm/rounds/judge.h"

const char *const update_names[] = { [UPDATE_NESTEROV] = "nesterov",
	[UPDATE_SPARSE] = "sparse",
	[UPDATE_DN] = "dn",
	[UPDATE_MEAN] = "mean" };

int update_parse(enum update_rule *r, const char *text)
{
	for (size_t i = 0; i < sizeof update_names / sizeof *update_names; i++)
		if (strcmp(update_names[i], text) == 0) {
			*r = (enum update_rule)i;
			return 0;
		}
	return err_set(EX_USAGE, "'%.40s' is no outer rule: nesterov, sparse, dn, mean",
		text);
}

/* --- the deltas ----------------------------------------------------------------------------- */

struct update {
	struct dev *d;
	const struct update_options *o;
	const struct update_arrays *a;
	size_t k;
	uint64_t elements,
		piece; /* elements of a piece: whole chunks of every container */
	struct grad_reader *readers; /* [k] */
	float **x;                   /* [k][piece] */
	double *sum;                 /* [piece]: d */
	float *last;                 /* [piece] */
	int threads;
	size_t side; /* deltas that a thread decodes side by side */
	struct grad_chunk_decoder **decoders; /* [threads][side] */
	struct aggregate aggregate;
	struct judge_copies copies;
	uint64_t *bins; /* of ecq without :chunk: the spread of theta - published */
};

static int open_readers(struct update *u, const struct update_delta *deltas)
{
	u->readers = xcalloc(u->k + 1, sizeof *u->readers);
	u->piece = QUANT_CHUNK;
	u->side = GRAD_READERS;
	for (size_t i = 0; i < u->k; i++) {
		if (grad_reader_open(&u->readers[i], deltas[i].read, deltas[i].ctx,
			    deltas[i].bytes, u->elements) < 0)
			return err_add("delta %zu", i);
		if (u->readers[i].chunk > u->piece)
			u->piece = u->readers[i].chunk;
		if (u->readers[i].chunk != u->readers[0].chunk)
			u->side = 1;
	}
	return 0;
}

static void make_room(struct update *u)
{
	u->threads = threads_max();
	/* no thread idles while another has several */
	while (u->side > 1 && (u->side - 1) * (size_t)u->threads >= u->k)
		u->side--;
	u->decoders = xcalloc((size_t)u->threads * u->side + 1, sizeof *u->decoders);
	for (size_t i = 0; i < (size_t)u->threads * u->side; i++)
		u->decoders[i] = grad_chunk_decoder_new(u->d);
	u->x = xcalloc(u->k + 1, sizeof *u->x);
	for (size_t i = 0; i < u->k; i++)
		u->x[i] = xmalloc(u->piece * sizeof **u->x);
	u->sum = xmalloc(u->piece * sizeof *u->sum);
	u->last = xmalloc(u->piece * sizeof *u->last);
}

static void release(struct update *u)
{
	for (size_t i = 0; u->readers && i < u->k; i++)
		grad_reader_close(&u->readers[i]);
	for (size_t i = 0; u->x && i < u->k; i++)
		free(u->x[i]);
	for (size_t i = 0; u->decoders && i < (size_t)u->threads * u->side; i++)
		grad_chunk_decoder_free(u->decoders[i]);
	free(u->readers);
	free(u->x);
	free(u->decoders);
	free(u->sum);
	free(u->last);
	free(u->bins);
	aggregate_release(&u->aggregate);
	judge_copies_release(&u->copies);
}

/* The deltas [first, first + count) of the piece at element `at`; all have chunks of one length.
 * Returns 0, or -1 with err_set() and the delta in *failed. */
static int decode_some(struct update *u, size_t first, size_t count, uint64_t at,
	uint64_t n, size_t *failed)
{
	const struct grad_reader *r = &u->readers[first];
	float *to[GRAD_READERS];
	size_t which = 0;

	for (uint64_t done = 0; done < n; done += r->chunk) {
		for (size_t i = 0; i < count; i++)
			to[i] = u->x[first + i] + done;
		if (grad_reader_get(r, u->decoders + (size_t)thread_number() * u->side,
			    count, (at + done) / r->chunk, to, &which) < 0) {
			*failed = first + which;
			return err_add("delta %zu", *failed);
		}
	}
	return 0;
}

/* All deltas of a piece. */
static int decode(struct update *u, uint64_t at, uint64_t n)
{
	struct err error = { 0 };
	size_t failed = u->k;

#pragma omp parallel for schedule(dynamic) if (u->k > 1)
	for (size_t i = 0; i < u->k; i += u->side) {
		size_t mine = u->k;

		if (decode_some(u, i, u->k - i < u->side ? u->k - i : u->side, at, n,
			    &mine) < 0)
#pragma omp critical(update_failed)
			if (mine < failed) {
				failed = mine;
				err_save(&error);
			}
	}
	return failed < u->k ? err_restore(&error) : 0;
}

/* Copies the elements [at, at + n) of the ranges out of a flat array. w: where that is. */
static void gather(struct update_walk w, float *to, const float *flat, uint64_t n)
{
	uint64_t at, some;

	for (uint64_t done = 0; done < n; done += some) {
		some = update_walk_step(&w, n - done, &at);
		memcpy(to + done, flat + at, some * sizeof *to);
	}
}

static uint64_t piece_at(const struct update *u, uint64_t at)
{
	return u->elements - at < u->piece ? u->elements - at : u->piece;
}

static struct update_walk begin_walk(const struct update *u)
{
	return (struct update_walk){ .ranges = u->a->ranges, .n = u->a->nranges };
}

static void skip(struct update_walk *w, uint64_t n)
{
	uint64_t at;

	while (n)
		n -= update_walk_step(w, n, &at);
}

static const float *last_of(struct update *u, const struct update_walk *w, uint64_t n)
{
	if (!u->a->last)
		return NULL;
	gather(*w, u->last, u->a->last, n);
	return u->last;
}

static int look(struct update *u)
{
	while (aggregate_looks(&u->aggregate)) {
		struct update_walk w = begin_walk(u);

		for (uint64_t at = 0; at < u->elements; at += u->piece) {
			uint64_t n = piece_at(u, at);

			if (decode(u, at, n) < 0)
				return -1;
			aggregate_look(&u->aggregate, (const float *const *)u->x,
				last_of(u, &w, n), n);
			skip(&w, n);
		}
		aggregate_look_end(&u->aggregate);
	}
	return 0;
}

/* --- the step ------------------------------------------------------------------------------- */

/* Steps theta by the piece's d, range by range, and counts what u will be. */
static void step_piece(struct update *u, struct update_walk *w, uint64_t n,
	double *theta_norm)
{
	const struct update_arrays *a = u->a;
	uint64_t at, some;

	for (uint64_t done = 0; done < n; done += some) {
		some = update_walk_step(w, n - done, &at);
		for (uint64_t i = 0; i < some; i++)
			*theta_norm += (double)a->theta[at + i] *
				(double)a->theta[at + i];
		if (u->o->rule == UPDATE_NESTEROV)
			outer_nesterov(a->theta + at, a->v + at, u->sum + done, some,
				&u->o->nesterov);
		else
			outer_mean(a->theta + at, u->sum + done, some);
		for (uint64_t i = 0; a->last && i < some; i++)
			a->last[at + i] = (float)u->sum[done + i];
	}
}

/* Delayed Nesterov takes the deltas of a piece one by one: their steps are those of the whole. */
static void step_dn(struct update *u, struct update_walk *w,
	const struct outer_dn_step *steps, uint64_t n, double *theta_norm)
{
	const struct update_arrays *a = u->a;
	uint64_t at, some;

	for (uint64_t done = 0; done < n; done += some) {
		some = update_walk_step(w, n - done, &at);
		for (uint64_t i = 0; i < some; i++)
			*theta_norm += (double)a->theta[at + i] *
				(double)a->theta[at + i];
		for (size_t j = 0; j < u->k; j++)
			outer_dn(a->theta + at, a->v + at, a->buffer + at, u->x[j] + done,
				some, &steps[j]);
	}
}

static int step_all(struct update *u, struct outer_dn *dn, struct update_result *out)
{
	struct outer_dn_step *steps = NULL;
	struct update_walk w = begin_walk(u);
	double theta_norm = 0;
	int rc = -1;

	if (u->o->rule == UPDATE_DN) {
		steps = xcalloc(u->k + 1, sizeof *steps);
		for (size_t j = 0; j < u->k; j++)
			steps[j] = outer_dn_arrive(dn, u->o->live);
	}
	for (uint64_t at = 0; at < u->elements; at += u->piece) {
		uint64_t n = piece_at(u, at);
		const float *const *x = (const float *const *)u->x;

		if (decode(u, at, n) < 0)
			goto out;
		if (u->o->copies)
			judge_copies_look(&u->copies, x, n);
		aggregate_chunk(&u->aggregate, u->sum, x, last_of(u, &w, n), n);
		if (steps)
			step_dn(u, &w, steps, n, &theta_norm);
		else
			step_piece(u, &w, n, &theta_norm);
	}
	aggregate_end(&u->aggregate);
	out->theta_norm = sqrt(theta_norm);
	rc = 0;
out:
	free(steps);
	return rc;
}

static void tell(const struct update *u, struct update_result *out)
{
	out->elements = u->elements;
	out->norm = xcalloc(u->k + 1, sizeof *out->norm);
	out->weight = xcalloc(u->k + 1, sizeof *out->weight);
	out->cosine_ppm = xcalloc(u->k + 1, sizeof *out->cosine_ppm);
	out->copied = xcalloc(u->k + 1, sizeof *out->copied);
	out->d_norm = u->aggregate.d_norm;
	for (size_t i = 0; i < u->k; i++) {
		out->norm[i] = u->aggregate.norm[i];
		out->weight[i] = u->aggregate.w[i];
		out->cosine_ppm[i] = aggregate_cosine_ppm(&u->aggregate, i);
	}
	if (u->o->copies)
		judge_copies_find(&u->copies, out->copied);
}

/* --- the update ------------------------------------------------------------------------------- */

/* The container of u on its way out: a copy waits to be decoded. */
struct way {
	grad_write_fn write;
	void *ctx;
	struct sha256_state hash;
	uint64_t bytes;
	struct buf waits;
	size_t read; /* of it */
};

static int pass_on(void *ctx, const void *data, size_t len)
{
	struct way *w = ctx;

	sha256_update(&w->hash, data, len);
	w->bytes += len;
	buf_add(&w->waits, data, len);
	return w->write(w->ctx, data, len);
}

static int take_back(void *ctx, void *data, size_t len)
{
	struct way *w = ctx;

	if (len > w->waits.len - w->read)
		bug("an update is decoded before it was encoded");
	memcpy(data, w->waits.data + w->read, len);
	w->read += len;
	if (w->read == w->waits.len) {
		buf_reset(&w->waits);
		w->read = 0;
	}
	return 0;
}

/* u = theta - published of the next n elements. */
static void difference(const struct update_arrays *a, struct update_walk w, float *to,
	uint64_t n)
{
	uint64_t at, some;

	for (uint64_t done = 0; done < n; done += some) {
		some = update_walk_step(&w, n - done, &at);
		for (uint64_t i = 0; i < some; i++)
			to[done + i] = a->theta[at + i] - a->published[at + i];
	}
}

/* ecq has one step for the whole update: a pass finds it. */
static int find_step(struct update *u, struct grad *g, float *scratch, uint64_t batch)
{
	struct update_walk w = begin_walk(u);

	if (g->q.method != QUANT_ECQ || g->each)
		return 0;
	u->bins = xcalloc(QUANT_BINS, sizeof *u->bins);
	for (uint64_t at = 0; at < u->elements; at += batch) {
		uint64_t n = u->elements - at < batch ? u->elements - at : batch;

		difference(u->a, w, scratch, n);
		if (grad_spread(u->d, g, scratch, NULL, n, u->bins) < 0)
			return -1;
		skip(&w, n);
	}
	grad_step(&g->step, u->bins, g->error, true);
	return 0;
}

/* Encodes and decodes a batch of elements at a time: the decoder takes a batch whenever one is
 * whole, and the last when the index is there, too. */
static int send(struct update *u, const struct grad *g, struct way *way, float *scratch,
	uint64_t batch)
{
	struct grad_encoder *e = grad_encoder_new(u->d, g, pass_on, way, NULL);
	struct grad_decoder *d = e ? grad_decoder_new(u->d, take_back, way) : NULL;
	struct update_walk from = begin_walk(u), to = from;
	uint64_t taken = 0, n;
	int rc = -1;

	if (!e || !d)
		goto out;
	for (uint64_t at = 0; at < u->elements; at += n) {
		n = u->elements - at < batch ? u->elements - at : batch;
		difference(u->a, from, scratch, n);
		skip(&from, n);
		if (grad_encoder_add_host(e, scratch, n, NULL) < 0)
			goto out;
		if (at + n == u->elements)
			break;
		if (grad_decoder_next_host(d, scratch, &n) < 0)
			goto out;
		update_publish(u->a->published, &to, scratch, n);
		taken += n;
	}
	if (grad_encoder_end(e) < 0)
		goto out;
	do {
		if (grad_decoder_next_host(d, scratch, &n) < 0)
			goto out;
		update_publish(u->a->published, &to, scratch, n);
		taken += n;
	} while (n);
	if (taken != u->elements)
		bug("an update of %llu elements came back as %llu",
			(unsigned long long)u->elements, (unsigned long long)taken);
	rc = 0;
out:
	grad_encoder_free(e);
	grad_decoder_free(d);
	return rc;
}

static int make_container(struct update *u, grad_write_fn write, void *ctx,
	struct update_result *out)
{
	struct grad g = u->o->down;
	struct way way = { .write = write, .ctx = ctx, .waits = BUF_INIT };
	uint64_t batch;
	float *scratch;
	int rc = -1;

	g.elements = u->elements;
	g.feedback = false; /* theta - published keeps what is left out */
	g.rank = 0;
	batch = grad_batch(&g);
	scratch = xmalloc(batch * sizeof *scratch);
	sha256_init(&way.hash);
	if (find_step(u, &g, scratch, batch) == 0)
		rc = send(u, &g, &way, scratch, batch);
	sha256_final(&way.hash, out->hash);
	out->bytes = way.bytes;
	buf_release(&way.waits);
	free(scratch);
	return rc;
}

/* --- all of it ------------------------------------------------------------------------------ */

void update_result_release(struct update_result *r)
{
	free(r->norm);
	free(r->weight);
	free(r->cosine_ppm);
	free(r->copied);
	*r = (struct update_result){ 0 };
}

static int begin(struct update *u, const struct update_delta *deltas)
{
	static const struct aggregate_rule mean = { .kind = AGGREGATE_MEAN };
	bool dn = u->o->rule == UPDATE_DN;
	uint64_t *tokens = xcalloc(u->k + 1, sizeof *tokens);
	int rc;

	for (size_t i = 0; i < u->k; i++)
		tokens[i] = deltas[i].weight_tokens;
	rc = u->k ? aggregate_begin(&u->aggregate, dn ? &mean : &u->o->aggregate, tokens,
			    u->k) :
		    0;
	free(tokens);
	if (rc < 0 || open_readers(u, deltas) < 0)
		return -1;
	make_room(u);
	judge_copies_init(&u->copies, u->k, u->elements, u->o->copies_seed);
	return 0;
}

int update_make(struct dev *cpu, const struct update_options *o, struct outer_dn *dn,
	const struct update_arrays *a, const struct update_delta *deltas, size_t k,
	grad_write_fn write, void *ctx, struct update_result *out)
{
	struct update u = { .d = cpu,
		.o = o,
		.a = a,
		.k = k,
		.elements = update_elements(a->ranges, a->nranges) };
	int rc = -1;

	*out = (struct update_result){ 0 };
	if (begin(&u, deltas) == 0 &&
		(!k || (look(&u) == 0 && step_all(&u, dn, out) == 0))) {
		tell(&u, out);
		rc = make_container(&u, write, ctx, out);
	}
	release(&u);
	return rc;
}
