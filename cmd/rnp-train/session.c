#include "cmd/rnp-train/session.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cmd/rnp-train/settings.h"
#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/lm/export/export.h"
#include "common/base/mem.h"

/* --- open ------------------------------------------------------------------------------------- */

static void path_in(struct buf *out, const char *dir, const char *name)
{
	buf_reset(out);
	buf_addf(out, "%s/%s", dir, name);
}

static int check_vocab(const struct lm_shards *set, const char *path,
	const struct lm_config *c)
{
	if (set->vocab <= c->vocab)
		return 0;
	return err_set(EX_DATAERR,
		"%s: a vocabulary of %u tokens does not go with a model of %u", path,
		set->vocab, c->vocab);
}

/* The text of a run is known by the digests of its shards. */
static void data_digest(unsigned char out[32], const struct lm_shards *set)
{
	crypto_generichash_state h;

	crypto_generichash_init(&h, NULL, 0, 32);
	for (uint32_t i = 0; i < set->n; i++)
		crypto_generichash_update(&h, set->shards[i].digest,
			sizeof set->shards[i].digest);
	crypto_generichash_final(&h, out, 32);
}

/* A run goes on with what it began with. */
static int take_settings(struct session *s)
{
	struct buf path = BUF_INIT;
	struct lm_progress at;
	json_t *kept = NULL;
	int rc = 0;

	if (!s->o.resume || !s->o.out)
		return 0;
	path_in(&path, s->o.out, SESSION_CHECKPOINT);
	if (access(path.data, F_OK) == 0)
		rc = lm_checkpoint_peek(path.data, &at, &kept);
	if (kept)
		rc = settings_resume(&s->o, s->size, kept, path.data);
	json_decref(kept);
	buf_release(&path);
	return rc;
}

static int check_options(struct session *s)
{
	struct session_options *o = &s->o;

	if (o->batch % s->size)
		return err_set(EX_USAGE, "--batch %lld cannot be shared by %d ranks",
			(long long)o->batch, s->size);
	if (!o->micro)
		o->micro = o->batch / s->size;
	if (o->batch / s->size % o->micro)
		return err_set(EX_USAGE,
			"--batch %lld is not a multiple of --micro-batch %lld%s",
			(long long)o->batch, (long long)o->micro,
			s->size > 1 ? " on each rank" : "");
	if (o->lr_min > 1)
		return err_set(EX_USAGE, "--lr-min: a part of --lr, at most 1");
	if (o->warmup < 0)
		o->warmup = o->steps && o->steps < 1000 ? o->steps / 10 : 100;
	if (o->eval_every && !o->valid)
		return err_set(EX_USAGE, "--eval-every needs --valid");
	return 0;
}

static void set_train_options(struct session *s)
{
	const struct lm_config *c = model_file_config(s->source);
	struct lm_train_options *t = &s->train_options;
	struct session_options *o = &s->o;

	lm_train_defaults(t, c);
	if (!o->length)
		o->length = c->context < 512 ? c->context : 512;
	t->batch = (uint32_t)o->micro;
	t->positions = (uint32_t)o->length;
	t->dtype = strcmp(o->precision, "f32") == 0 ? LM_DTYPE_F32 : LM_DTYPE_BF16;
	t->recompute = o->recompute;
	t->each = o->no_graph;
	t->beta1 = (float)o->beta1;
	t->beta2 = (float)o->beta2;
	t->decay = (float)o->decay;
	t->clip = (float)o->clip;
	if (s->ranks) {
		t->grad_ready = ddp_grad_ready;
		t->grad_sync = ddp_grad_sync;
		t->arg = s->ranks;
	}
}

static int open_ranks(struct session *s)
{
	struct ddp_options o = { .open = s->o.join,
		.arg = s->o.join_arg,
		.overlap = !s->o.no_overlap,
		.stop_flags = s->o.stop_flags };

	s->size = s->o.ranks ? s->o.ranks : 1;
	if (!s->o.join)
		return 0;
	if (ddp_open(&s->ranks, &o) < 0)
		return -1;
	s->rank = ddp_rank(s->ranks);
	s->size = ddp_size(s->ranks);
	return 0;
}

/* Processes with the same answer see the same GPUs, in the same order: a boot of a machine, and a container on it. */
static uint64_t machine(void)
{
	struct buf id = BUF_INIT;
	struct utsname u;
	uint64_t hash;

	if (io_read(&id, "/proc/sys/kernel/random/boot_id", 256) < 0)
		err_clear();
	if (uname(&u) == 0)
		buf_adds(&id, u.nodename);
	crypto_generichash((unsigned char *)&hash, sizeof hash,
		(const unsigned char *)buf_text(&id), id.len, NULL, 0);
	buf_release(&id);
	return hash;
}

/* Which of the ranks on this machine we are, from 0. */
static int local_rank(struct session *s, int *local)
{
	uint64_t mine = machine(), *all = xcalloc((size_t)s->size, sizeof *all);
	int rc = ddp_allgather(s->ranks, &mine, 1, all);

	*local = 0;
	for (int r = 0; rc == 0 && r < s->rank; r++)
		*local += all[r] == mine;
	free(all);
	return rc;
}

static int open_device(struct session *s)
{
	const char *spec = s->o.device;
	int local;

	if (s->o.n_devices) {
		if (local_rank(s, &local) < 0)
			return -1;
		spec = s->o.devices[local % s->o.n_devices];
	}
	return dev_open(&s->d, spec) < 0 ? err_set(s->d.code, "%s", s->d.error) : 0;
}

static bool is_in(struct buf *path, const char *dir, const char *name)
{
	path_in(path, dir, name);
	return access(path->data, F_OK) == 0;
}

/* Both sets of tokens are of this tokenizer, as far as they say. */
static int check_tokens(const struct session *s, const struct lm_token *t,
	const char *path)
{
	unsigned char print[32];

	lm_token_fingerprint(t, print);
	if (lm_shards_suit(&s->data, s->o.data, print, path) < 0)
		return -1;
	return s->o.valid ? lm_shards_suit(&s->valid, s->o.valid, print, path) : 0;
}

/* The tokenizer of the data goes with the model that it teaches; else the model's own, where it has one; else what the run that goes on
 * had when it began. */
static int open_token(struct session *s)
{
	const struct lm_config *c = model_file_config(s->source);
	const char *own = model_file_tokenizer(s->source), *chosen = NULL;
	struct lm_token *learnt = NULL;
	struct buf path = BUF_INIT;
	int rc = 0;

	if (is_in(&path, s->o.data, "tokenizer.json"))
		chosen = path.data;
	else if (own)
		chosen = own;
	else if (s->o.resume && s->o.out && is_in(&path, s->o.out, SESSION_CHECKPOINT) &&
		is_in(&path, s->o.out, "tokenizer.json"))
		chosen = path.data;
	if (chosen)
		rc = lm_token_open(&s->token, chosen, c->vocab);
	if (rc == 0 && chosen)
		rc = check_tokens(s, s->token, chosen);
	/* one that we cannot read says nothing */
	if (rc == 0 && own && chosen != own) {
		if (lm_token_open(&learnt, own, c->vocab) == 0)
			rc = check_tokens(s, learnt, own);
		else
			err_clear();
	}
	lm_token_close(learnt);
	buf_release(&path);
	if (rc == 0 && s->o.out)
		rc = lm_export_place(s->o.out, s->token);
	return rc;
}

int session_open(struct session *s, const struct session_options *o)
{
	*s = (struct session){ .o = *o,
		.d = DEV_INIT,
		.first_loss = NAN,
		.last_loss = NAN,
		.valid_loss = NAN };
	if (model_file_open(&s->source, o->model) < 0 || open_ranks(s) < 0 ||
		take_settings(s) < 0 || check_options(s) < 0)
		return -1;
	set_train_options(s);
	if (lm_shards_open(&s->data, o->data) < 0 ||
		check_vocab(&s->data, o->data, model_file_config(s->source)) < 0)
		return -1;
	if (o->valid &&
		(lm_shards_open(&s->valid, o->valid) < 0 ||
			check_vocab(&s->valid, o->valid, model_file_config(s->source)) <
				0 ||
			lm_shards_suit(&s->valid, o->valid, s->data.tokenizer, o->data) <
				0))
		return -1;
	if (open_token(s) < 0)
		return -1;
	if (o->valid && s->valid.count <= (uint64_t)s->o.length)
		return err_set(EX_DATAERR,
			"%s: %llu tokens are no sequence of %lld and what follows it",
			o->valid, (unsigned long long)s->valid.count,
			(long long)s->o.length);
	s->at = (struct lm_progress){ .seed = s->o.seed,
		.length = (uint32_t)s->o.length };
	data_digest(s->at.data, &s->data);
	if (shuffle_init(&s->order, s->data.count, s->at.length, s->at.seed) < 0)
		return err_add("%s", o->data);
	return open_device(s);
}

/* --- begin ------------------------------------------------------------------------------------ */

/* A run goes on with what it began with, or its bits would not be those of a run that was never stopped. */
static int resume(struct session *s, const char *path)
{
	struct lm_progress want = s->at;

	if (lm_checkpoint_load(path, s->train, &s->at) < 0)
		return -1;
	if (s->at.seed != want.seed || s->at.length != want.length)
		return err_set(EX_USAGE,
			"%s: was made with --seed %llu --length %u, not %llu and %u",
			path, (unsigned long long)s->at.seed, s->at.length,
			(unsigned long long)want.seed, want.length);
	if (memcmp(s->at.data, want.data, sizeof want.data) != 0)
		return err_set(EX_USAGE, "%s: was made with another text than '%s'", path,
			s->o.data);
	return 0;
}

#define MATRIX_MIN     256
#define MATRIX_MAX     2048
#define MATRIX_LONG_NS 50000000 /* a product that takes so long is large enough */

/* One product of n x n: what it took, and the best rate so far. */
static int time_product(struct session *s, struct product *p, uint64_t n, int64_t *ns)
{
	const struct dev_ops *ops = s->d.ops;
	double rate;

	p->m = p->n = p->k = p->lda = p->ldb = p->ldc = n;
	if (ops->timer_start(&s->d) < 0 || ops->product(&s->d, p) < 0 ||
		ops->timer_stop(&s->d, ns) < 0)
		return -1;
	rate = *ns > 0 ? 2e9 * (double)(n * n * n) / (double)*ns : 0;
	if (rate > s->matrix_flops)
		s->matrix_flops = rate;
	return 0;
}

/* Large products in the type of the run, for a fifth of a second: what the model's speed is measured against. A device that is slow is
 * asked for smaller ones. */
static int measure_matrix(struct session *s)
{
	const struct dev_ops *ops = s->d.ops;
	bool f32 = s->train_options.dtype == LM_DTYPE_F32;
	uint64_t n = MATRIX_MAX, bytes = n * n * (f32 ? 4 : 2);
	struct product p = { .type = f32 ? PRODUCT_F32 : PRODUCT_BF16 };
	void *a = NULL, *c = NULL;
	int64_t until, ns = 0;
	int rc = -1;

	if (ops->alloc(&s->d, &a, bytes) < 0 || ops->alloc(&s->d, &c, n * n * 4) < 0 ||
		ops->fill(&s->d, a, 0, bytes / 4) < 0)
		goto out;
	p.a = p.b = a;
	p.c = c;
	n = MATRIX_MIN / 2;
	do {
		n *= 2;
		/* the first of a size loads a library, or makes its code */
		rc = time_product(s, &p, n, &ns) < 0 || time_product(s, &p, n, &ns) < 0 ?
			-1 :
			0;
	} while (rc == 0 && n < MATRIX_MAX && ns < MATRIX_LONG_NS);
	until = clock_mono_ns() + 200000000;
	do
		rc = rc < 0 ? -1 : time_product(s, &p, n, &ns);
	while (rc == 0 && clock_mono_ns() < until);
out:
	ops->free(&s->d, a);
	ops->free(&s->d, c);
	return rc < 0 ? err_set(s->d.code, "%s", s->d.error) : 0;
}

/* A flat array of the trainer, wherever it is. */
static int hash_flat(crypto_generichash_state *h, struct session *s, enum lm_state what)
{
	const char *at = (const char *)lm_train_flat(s->train, what);
	uint64_t left = lm_train_flat_count(s->train) * sizeof(float);
	uint64_t most = UINT64_C(4) << 20;
	bool here = strcmp(s->d.name, "cpu") == 0;
	unsigned char *copy = here ? NULL : xmalloc(most);
	int rc = 0;

	while (rc == 0 && left) {
		uint64_t n = left < most ? left : most;

		if (!here && s->d.ops->get(&s->d, copy, at, n) < 0)
			rc = err_set(s->d.code, "%s", s->d.error);
		crypto_generichash_update(h, here ? (const unsigned char *)at : copy, n);
		at += n;
		left -= n;
	}
	free(copy);
	return rc;
}

/* All ranks have the same parameters, optimiser, place in the data and share of a step: or their sums would mean nothing. */
static int check_agreement(struct session *s)
{
	uint64_t mine[4], *all;
	crypto_generichash_state h;
	int rc;

	if (!s->ranks)
		return 0;
	crypto_generichash_init(&h, NULL, 0, sizeof mine);
	for (enum lm_state w = LM_STATE_PARAMETER; w <= LM_STATE_V; w++)
		if (hash_flat(&h, s, w) < 0)
			return -1;
	for (size_t i = 0; i < 5; i++) {
		uint64_t number = (const uint64_t[]){ s->at.steps, s->at.sequences,
			s->at.seed, (uint64_t)s->o.batch, (uint64_t)s->o.micro }[i];

		crypto_generichash_update(&h, (const unsigned char *)&number,
			sizeof number);
	}
	crypto_generichash_update(&h, s->at.data, sizeof s->at.data);
	crypto_generichash_final(&h, (unsigned char *)mine, sizeof mine);
	all = xcalloc((size_t)s->size, sizeof mine);
	rc = ddp_allgather(s->ranks, mine, 4, all);
	for (int r = 1; rc == 0 && r < s->size; r++)
		if (memcmp(all, all + 4 * r, sizeof mine) != 0)
			rc = err_set(EX_DATAERR,
				"rank %d has another model, text or place in it than rank 0",
				r);
	free(all);
	return rc;
}

/* Better now than after hours of training. Two runs would each replace what the other learnt. */
static int hold_out(struct session *s)
{
	const char *dir = s->o.out;

	if (s->rank)
		return 0;
	if (io_make_dirs(dir, 0777) < 0)
		return -1;
	if (access(dir, W_OK | X_OK) < 0)
		return err_sys(errno == EACCES || errno == EROFS ? EX_NOPERM : 0,
			"cannot write into '%s'", dir);
	/* a file system without locks is one without this help */
	s->out_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->out_fd >= 0 && flock(s->out_fd, LOCK_EX | LOCK_NB) < 0 &&
		errno == EWOULDBLOCK)
		return err_set(EX_TEMPFAIL, "another run writes into '%s'", dir);
	return 0;
}

int session_begin(struct session *s)
{
	struct buf path = BUF_INIT;
	size_t count = (size_t)(s->o.micro * s->o.length);
	int rc;

	if (measure_matrix(s) < 0 ||
		lm_train_open(&s->train, &s->d, &s->train_options) < 0)
		return -1;
	s->tokens = xmalloc(count * sizeof *s->tokens);
	s->targets = xmalloc(count * sizeof *s->targets);
	s->window = xmalloc(((size_t)s->o.length + 1) * sizeof *s->window);
	path_in(&path, s->o.out, SESSION_CHECKPOINT);
	if (access(s->o.out, F_OK) == 0 && hold_out(s) < 0)
		rc = -1;
	else if (s->o.resume && access(path.data, F_OK) == 0)
		rc = resume(s, path.data);
	else if (access(path.data, F_OK) == 0)
		rc = err_set(EX_CANTCREAT,
			"'%s' is there already: --resume goes on with it, another --out begins anew",
			path.data);
	else
		rc = lm_train_load(s->train, s->source);
	buf_release(&path);
	if (rc == 0 && s->ranks)
		rc = ddp_bind(s->ranks, &s->d,
			lm_train_flat(s->train, LM_STATE_GRADIENT));
	if (rc < 0 || check_agreement(s) < 0)
		return -1;
	/* a run that cannot begin makes no directory */
	return s->out_fd ? 0 : hold_out(s);
}

void session_release(struct session *s)
{
	ddp_close(s->ranks); /* first: it sums what the trainer has */
	lm_train_close(s->train);
	dev_close(&s->d);
	lm_shards_close(&s->data);
	lm_shards_close(&s->valid);
	lm_token_close(s->token);
	model_file_close(s->source);
	free(s->tokens);
	free(s->targets);
	free(s->window);
	if (s->out_fd > 0)
		close(s->out_fd);
}

/* --- steps ------------------------------------------------------------------------------------ */

double session_rate(const struct session_options *o, uint64_t step)
{
	double part, done = (double)step, warmup = (double)o->warmup;

	if (done < warmup)
		return o->lr * (done + 1) / warmup;
	if (!o->steps || step >= (uint64_t)o->steps)
		return o->steps ? o->lr * o->lr_min : o->lr;
	part = (done - warmup) / ((double)o->steps - warmup);
	return o->lr * (o->lr_min + (1 - o->lr_min) * (1 + cos(M_PI * part)) / 2);
}

/* length tokens from `at` on and what follows each, as row r of the batch */
static int put_window(struct session *s, const struct lm_shards *set, uint64_t at,
	int64_t r)
{
	size_t length = (size_t)s->o.length, bytes = length * sizeof *s->tokens;

	if (lm_shards_get(set, at, length + 1, s->window) < 0)
		return -1;
	memcpy(s->tokens + (size_t)r * length, s->window, bytes);
	memcpy(s->targets + (size_t)r * length, s->window + 1, bytes);
	return 0;
}

int session_step(struct session *s, struct lm_step *out)
{
	int64_t passes = s->o.batch / s->o.micro / s->size;
	uint64_t next = s->at.sequences + (uint64_t)s->rank;

	for (int64_t pass = 0; pass < passes; pass++) {
		for (int64_t r = 0; r < s->o.micro; r++, next += (uint64_t)s->size)
			if (put_window(s, &s->data, shuffle_at(&s->order, next), r) < 0)
				return -1;
		if (lm_train_add(s->train, s->tokens, s->targets, pass + 1 == passes) < 0)
			return -1;
	}
	if (lm_train_apply(s->train, (float)session_rate(&s->o, s->at.steps), out) < 0)
		return -1;
	s->at.steps = lm_train_steps(s->train);
	s->at.sequences += (uint64_t)s->o.batch;
	s->at.tokens += out->targets;
	if (isnan(s->first_loss))
		s->first_loss = out->loss;
	s->last_loss = out->loss;
	return 0;
}

unsigned session_stop_flags(const struct session *s)
{
	if (s->ranks)
		return ddp_stop_flags(s->ranks);
	return s->o.stop_flags ? s->o.stop_flags() : 0;
}

int session_eval(struct session *s, double *loss)
{
	uint64_t length = (uint64_t)s->o.length, windows = (s->valid.count - 1) / length;
	uint64_t most = (uint64_t)s->o.eval_tokens / length, counted = 0;
	double sum = 0;

	if (windows > most)
		windows = most ? most : 1;
	for (uint64_t w = 0; w < windows; w += (uint64_t)s->o.micro) {
		double part;
		uint64_t n;

		for (int64_t r = 0; r < s->o.micro; r++) {
			bool there = w + (uint64_t)r < windows;

			/* a last batch that is not full repeats a window and does not count it */
			if (put_window(s, &s->valid,
				    (there ? w + (uint64_t)r : w) * length, r) < 0)
				return -1;
			for (uint64_t i = 0; i < length && !there; i++)
				s->targets[(uint64_t)r * length + i] = LM_NO_TARGET;
		}
		if (lm_train_eval(s->train, s->tokens, s->targets, &part, &n) < 0)
			return -1;
		sum += part;
		counted += n;
	}
	*loss = s->valid_loss = sum / (double)counted;
	if (!isfinite(*loss))
		return err_set(EX_DATAERR,
			"step %llu: the loss on the validation text is not finite",
			(unsigned long long)s->at.steps);
	return 0;
}

/* --- saving ----------------------------------------------------------------------------------- */

/* The tensor that export is reading, whole. The model is written before the checkpoint: one that is spoilt replaces neither. */
struct reading {
	struct lm_train *t;
	float *values;
	int64_t tensor; /* -1: none */
};

static int read_parameter(void *ctx, uint32_t i, uint64_t from, uint64_t count, float *to)
{
	struct reading *r = ctx;

	if (r->tensor != (int64_t)i) {
		struct lm_place p;

		lm_layout_at(lm_train_config(r->t), i, &p);
		r->values = xrealloc(r->values, p.count * sizeof *r->values);
		if (lm_train_get(r->t, LM_STATE_PARAMETER, i, r->values) < 0)
			return -1;
		for (uint64_t k = 0; k < p.count; k++)
			if (!isfinite(r->values[k]))
				return err_set(EX_DATAERR,
					"step %llu: a parameter is not finite",
					(unsigned long long)lm_train_steps(r->t));
		r->tensor = i;
	}
	memcpy(to, r->values + from, count * sizeof *to);
	return 0;
}

int session_save(struct session *s)
{
	struct reading r = { .t = s->train, .tensor = -1 };
	struct buf path = BUF_INIT;
	json_t *kept;
	struct lm_export e = { .config = *lm_train_config(s->train),
		.read = read_parameter,
		.ctx = &r };
	int rc;

	if (check_agreement(s) < 0)
		return -1;
	if (s->rank)
		return 0;
	e.token = s->token;
	path_in(&path, s->o.out, SESSION_CHECKPOINT);
	rc = lm_export_directory(s->o.out, &e, LM_F32);
	kept = settings_of(&s->o, s->size);
	if (rc == 0)
		rc = lm_checkpoint_save(path.data, s->train, &s->at, kept);
	json_decref(kept);
	free(r.values);
	buf_release(&path);
	return rc;
}
