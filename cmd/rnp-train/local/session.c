/* session.c - opens everything that a run needs, in the order in which it can fail, and passes
 * steps, losses and checkpoints on. */
#include "cmd/rnp-train/local/session.h"

#include <math.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-train/local/settings.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/hw/device.h"
#include "common/json/json.h"
#include "common/lm/export/export.h"

/* of the metadata of an adapter's checkpoint: the digest of its model */
#define BASE "base"

/* --- open ------------------------------------------------------------------------------------- */

static int check_vocab(const struct lm_shards *set, const char *path,
	const struct lm_config *c)
{
	if (set->vocab <= c->vocab)
		return 0;
	return err_set(EX_DATAERR,
		"%s: a vocabulary of %u tokens does not go with a model of %u", path,
		set->vocab, c->vocab);
}

/* The id of a run's text is the hash of the digests of its shards. */
static void data_digest(unsigned char out[32], const struct lm_shards *set)
{
	crypto_generichash_state h;

	crypto_generichash_init(&h, NULL, 0, 32);
	for (uint32_t i = 0; i < set->n; i++)
		crypto_generichash_update(&h, set->shards[i].digest,
			sizeof set->shards[i].digest);
	crypto_generichash_final(&h, out, 32);
}

/* A resumed run takes options that were not given from its checkpoint. */
static int take_settings(struct session *s)
{
	struct buf path = BUF_INIT;
	int rc;

	if (!s->o.resume || !s->o.out)
		return 0;
	rc = rundir_peek(s->o.out, &s->saved);
	buf_addf(&path, "%s/%s", s->o.out, RUNDIR_CHECKPOINT);
	if (s->saved)
		rc = settings_resume(&s->o, s->size, s->saved, path.data);
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

/* Which matrices are adapted. */
static int open_adapter(struct session *s)
{
	const struct lm_config *c = model_file_config(s->model_file);
	const struct session_options *o = &s->o;

	if (!o->lora)
		return 0;
	if (lm_config_need_llama(c, "adapted") < 0)
		return err_add("%s", o->model);
	if (o->lora_target && lm_lora_choose(&s->targets, c, o->lora_target) < 0)
		return err_add("--lora-target");
	return 0;
}

static void set_train_options(struct session *s)
{
	const struct lm_config *c = model_file_config(s->model_file);
	struct lm_train_options *t = &s->train_options;
	struct session_options *o = &s->o;

	lm_train_defaults(t, c);
	if (!o->length)
		o->length = c->context < 512 ? c->context : 512;
	t->batch = (uint32_t)o->micro;
	t->positions = (uint32_t)o->length;
	t->dtype = strcmp(o->precision, "f32") == 0 ? LM_DTYPE_F32 : LM_DTYPE_BF16;
	t->recompute = o->recompute;
	t->no_graph = o->no_graph;
	t->beta1 = (float)o->beta1;
	t->beta2 = (float)o->beta2;
	t->decay = (float)o->decay;
	t->clip = (float)o->clip;
	t->lora = (struct lm_lora){ .rank = (uint32_t)o->lora,
		.alpha = o->lora_alpha > 0 ? o->lora_alpha : 2 * (double)o->lora,
		.rslora = o->rslora,
		.targets = s->targets };
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

static int open_device(struct session *s)
{
	const char *spec = s->o.device;
	int local, ranks;

	if (s->o.n_devices) {
		if (ddp_local_rank(s->ranks, &local, &ranks) < 0)
			return -1;
		spec = s->o.devices[local % s->o.n_devices];
	}
	return device_open(&s->d, spec);
}

/* Checks that both sets of tokens are of this tokenizer, as far as their headers say. */
static int check_tokens(const struct session *s, const struct lm_token *t,
	const char *path)
{
	unsigned char print[32];

	lm_token_fingerprint(t, print);
	if (lm_shards_suit(&s->data, s->o.data, print, path) < 0)
		return -1;
	return s->o.valid ? lm_shards_suit(&s->valid, s->o.valid, print, path) : 0;
}

/* Chooses the tokenizer that is saved with the model: the data's; else the model's own, if it
 * has one; else the one that a resumed run had when it began. "" in path: none. */
static void choose_token(const struct session *s, struct buf *path)
{
	const char *own = model_file_tokenizer(s->model_file);

	buf_adds(path, "");
	if (rundir_has(s->o.data, "tokenizer.json"))
		buf_addf(path, "%s/tokenizer.json", s->o.data);
	else if (own)
		buf_adds(path, own);
	else if (s->o.resume && s->o.out && rundir_resumes(s->o.out) &&
		rundir_has(s->o.out, "tokenizer.json"))
		buf_addf(path, "%s/tokenizer.json", s->o.out);
}

/* The model's own tokenizer must agree with the data, too, unless it cannot be read. */
static int check_own_token(const struct session *s, const char *chosen)
{
	const char *own = model_file_tokenizer(s->model_file);
	struct lm_token *learnt = NULL;
	int rc = 0;

	if (!own || strcmp(own, chosen) == 0)
		return 0;
	if (lm_token_open(&learnt, own, model_file_config(s->model_file)->vocab) == 0)
		rc = check_tokens(s, learnt, own);
	else
		err_clear();
	lm_token_close(learnt);
	return rc;
}

static int open_token(struct session *s)
{
	uint32_t vocab = model_file_config(s->model_file)->vocab;
	struct buf path = BUF_INIT;
	int rc = 0;

	choose_token(s, &path);
	if (path.len) {
		rc = lm_token_open(&s->token, path.data, vocab);
		if (rc == 0)
			rc = check_tokens(s, s->token, path.data);
		if (rc == 0)
			rc = check_own_token(s, path.data);
	}
	buf_release(&path);
	if (rc == 0 && s->o.out)
		rc = lm_export_place(s->o.out, s->token);
	return rc;
}

static int open_data(struct session *s)
{
	const struct lm_config *c = model_file_config(s->model_file);
	const struct session_options *o = &s->o;

	if (lm_shards_open_as(&s->data, o->data, o->ids) < 0 ||
		check_vocab(&s->data, o->data, c) < 0)
		return -1;
	if (!o->valid)
		return 0;
	if (lm_shards_open_as(&s->valid, o->valid, o->ids) < 0 ||
		check_vocab(&s->valid, o->valid, c) < 0)
		return -1;
	return lm_shards_suit(&s->valid, o->valid, s->data.tokenizer, o->data);
}

static int check_valid(const struct session *s)
{
	if (!s->o.valid || s->valid.count > (uint64_t)s->o.length)
		return 0;
	return err_set(EX_DATAERR,
		"%s: %llu tokens are no sequence of %lld and what follows it", s->o.valid,
		(unsigned long long)s->valid.count, (long long)s->o.length);
}

int session_open(struct session *s, const struct session_options *o)
{
	*s = (struct session)SESSION_INIT;
	s->o = *o;
	s->first_loss = s->last_loss = s->valid_loss = NAN;
	if (model_file_open(&s->model_file, o->model) < 0 || open_ranks(s) < 0 ||
		take_settings(s) < 0 || check_options(s) < 0 || open_adapter(s) < 0)
		return -1;
	set_train_options(s);
	if (open_data(s) < 0 || open_token(s) < 0 || check_valid(s) < 0)
		return -1;
	data_digest(s->data_digest, &s->data);
	if (shuffle_init(&s->shuffle, s->data.count, (uint32_t)s->o.length, s->o.seed) <
		0)
		return err_add("%s", o->data);
	return open_device(s);
}

/* --- begin ------------------------------------------------------------------------------------ */

/* lm_sequence_fn: sequence n of the shuffled training text, window n of the validation text. */
static int read_data(void *arg, uint64_t n, uint32_t *ids)
{
	struct session *s = arg;

	return lm_shards_get(&s->data, shuffle_at(&s->shuffle, n),
		(uint64_t)s->o.length + 1, ids);
}

static int read_valid(void *arg, uint64_t n, uint32_t *ids)
{
	struct session *s = arg;
	uint64_t length = (uint64_t)s->o.length;

	return lm_shards_get(&s->valid, n * length, length + 1, ids);
}

static int open_loop(struct session *s)
{
	const struct session_options *o = &s->o;
	struct lm_loop_options l = { .train = s->train_options,
		.batch = (uint64_t)o->batch,
		.schedule = { .lr = o->lr,
			.lr_min = o->lr_min,
			.warmup = (uint64_t)o->warmup,
			.steps = (uint64_t)o->steps },
		.sequence = read_data,
		.arg = s,
		.ranks = s->ranks,
		.stop_flags = o->stop_flags };

	return lm_loop_open(&s->loop, &s->d, &l);
}

/* Returns the run's progress, as its checkpoint holds it. */
static struct lm_progress progress(const struct session *s)
{
	struct lm_progress at = { .steps = s->loop.step,
		.sequences = lm_loop_next(&s->loop),
		.tokens = s->loop.tokens,
		.seed = s->o.seed,
		.length = (uint32_t)s->o.length };

	memcpy(at.data, s->data_digest, sizeof at.data);
	return at;
}

/* Adds all sequences of the shuffle, from `first` on, to the loop. */
static void give_all(struct session *s, uint64_t first)
{
	lm_loop_take_back(&s->loop);
	lm_loop_give(&s->loop,
		(struct lm_range){ .first = first, .count = UINT64_MAX - first });
}

/* Which model the adapter is of. All of it is read, so a plan does without. */
static int know_base(struct session *s)
{
	const char *kept = json_string_value(json_object_get(s->saved, BASE));

	if (!s->o.lora)
		return 0;
	s->base.name = s->o.model;
	lm_base_digest(s->base.digest, s->model_file);
	if (kept && strcmp(kept, s->base.digest) != 0)
		return err_set(EX_USAGE, "'%s' adapts another model than '%s'", s->o.out,
			s->o.model);
	return 0;
}

static int load_parameters(struct session *s)
{
	struct lm_progress at = progress(s), want = at;
	bool begins = !s->o.out || !rundir_resumes(s->o.out);

	if ((begins || s->o.lora) && lm_train_load(s->loop.train, s->model_file) < 0)
		return -1;
	if (begins)
		return s->o.lora ? lm_train_init(s->loop.train, s->o.seed) : 0;
	if (!s->o.resume)
		return err_set(EX_CANTCREAT,
			"'%s/%s' is there already: --resume goes on with it, another --out starts a new run",
			s->o.out, RUNDIR_CHECKPOINT);
	if (rundir_load(s->o.out, s->loop.train, &want, s->o.data, &at) < 0)
		return -1;
	s->loop.step = at.steps;
	s->loop.tokens = at.tokens;
	give_all(s, at.sequences);
	return 0;
}

static int agree(struct session *s)
{
	unsigned char same[sizeof s->o.seed + sizeof s->data_digest];

	memcpy(same, &s->o.seed, sizeof s->o.seed);
	memcpy(same + sizeof s->o.seed, s->data_digest, sizeof s->data_digest);
	return lm_loop_agree(&s->loop, same, sizeof same);
}

/* Fails now rather than after hours of training. */
static int hold(struct session *s)
{
	return s->rank || !s->o.out ? 0 : rundir_hold(&s->dir, s->o.out);
}

int session_roof(struct session *s, bool again)
{
	return roof_of(&s->roof, &s->d,
		s->train_options.dtype == LM_DTYPE_F32 ? PRODUCT_F32 : PRODUCT_BF16,
		again);
}

int session_begin(struct session *s)
{
	/* rank 0 alone tells it; the others wait at the first step */
	if ((s->rank == 0 && session_roof(s, false) < 0) || open_loop(s) < 0)
		return -1;
	give_all(s, 0);
	/* a run that cannot begin creates no directory */
	if (s->o.out && rundir_has(s->o.out, "") && hold(s) < 0)
		return -1;
	if (know_base(s) < 0 || load_parameters(s) < 0 || agree(s) < 0)
		return -1;
	return hold(s);
}

void session_release(struct session *s)
{
	ddp_close(s->ranks); /* first, because it sums the trainer's gradients */
	lm_loop_close(&s->loop);
	dev_close(&s->d);
	lm_shards_close(&s->data);
	lm_shards_close(&s->valid);
	lm_token_close(s->token);
	model_file_close(s->model_file);
	rundir_release(&s->dir);
	json_decref(s->saved);
	free(s->targets);
}

/* --- steps ------------------------------------------------------------------------------------ */

int session_step(struct session *s, struct lm_step *out)
{
	if (lm_loop_step(&s->loop, out) < 0)
		return -1;
	if (isnan(s->first_loss))
		s->first_loss = out->loss;
	s->last_loss = out->loss;
	return 0;
}

int session_eval(struct session *s, double *loss)
{
	uint64_t length = (uint64_t)s->o.length, windows = (s->valid.count - 1) / length;
	uint64_t max = (uint64_t)s->o.eval_tokens / length;

	if (windows > max)
		windows = max ? max : 1;
	if (lm_loop_eval(&s->loop, read_valid, s, windows, loss) < 0)
		return -1;
	s->valid_loss = *loss;
	return 0;
}

int session_save(struct session *s)
{
	struct lm_progress at = progress(s);
	json_t *settings;
	int rc;

	if (agree(s) < 0)
		return -1;
	if (s->rank)
		return 0;
	settings = settings_of(&s->o, s->size);
	if (s->o.lora)
		json_set_text(settings, BASE, s->base.digest);
	rc = rundir_save(s->o.out, s->loop.train, s->token, &s->base, &at, settings);
	json_decref(settings);
	return rc;
}
