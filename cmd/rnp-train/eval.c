/* eval.c - rnp-train eval: how well a model predicts a text. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/rnp-train/commands.h"
#include "cmd/rnp-train/options.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/hw/device.h"
#include "common/json/json.h"
#include "common/lm/train/checkpoint.h"
#include "common/lm/text/corpus.h"
#include "common/lm/token/shard.h"
#include "common/lm/token/token.h"
#include "common/base/mem.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/cli/progress.h"

static const char *model, *data, *raw_ids, *tokenizer, *device, *precision = "f32";
static struct corpus_form text_form;
static int64_t length, batch, tokens_limit;

static const struct opt opts[] = {
	OPT_MODEL(&model),
	OPT(TEXT, "data", &data, "D", "token shards, or a text", .required = true),
	OPT_RAW_IDS(&raw_ids),
	OPT_SWITCH("bytes", &text_form.any_bytes,
		"take a text that is no UTF-8 as it is"),
	OPT_TOKENIZER(&tokenizer),
	OPT_IN(I64, "length", &length, "T", 1, LM_CONTEXT_MAX,
		"tokens that are read together (default: the model's context, at most 2048)"),
	OPT_IN(I64, "batch", &batch, "B", 1, 1 << 16,
		"sequences at once (default: about 2048 tokens)"),
	OPT(I64, "tokens", &tokens_limit, "N", "predict only the first N (default: all)",
		.min = 1),
	OPT(CHOICE, "precision", &precision, "P",
		"of products and activations (default f32)", .choices = "bf16|f32"),
	OPT_DEVICE(&device),
	{ 0 },
};

struct evaluation {
	struct dev d;
	struct model_file *model_file;
	/* NULL: the data is tokens, and nobody knows their bytes */
	struct lm_token *token;
	struct lm_shards shards;
	struct buf ids; /* uint32_t */
	uint64_t count; /* of ids */
	struct lm_train *train;
	double loss_sum;
	uint64_t predicted, bytes;
};

/* --- the text --------------------------------------------------------------------------------- */

static bool is_shards(const char *path)
{
	struct stat st;

	return raw_ids || (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) ||
		lm_shard_is_one(path);
}

/* path: of the tokenizer */
static int read_shards(struct evaluation *e, const char *path)
{
	unsigned char print[32];

	if (lm_shards_open_as(&e->shards, data, raw_ids) < 0)
		return -1;
	if (e->token) {
		lm_token_fingerprint(e->token, print);
		if (lm_shards_suit(&e->shards, data, print, path) < 0)
			return -1;
	}
	/* all of it is read anyway */
	if (lm_shards_check(&e->shards, NULL, NULL) < 0)
		return err_add("%s", data);
	e->count = e->shards.count;
	if (e->count > SIZE_MAX / 8)
		return err_set(EX_DATAERR, "%s: too long", data);
	buf_reserve(&e->ids, e->count * sizeof(uint32_t));
	e->ids.len = e->count * sizeof(uint32_t);
	return lm_shards_get(&e->shards, 0, e->count, (uint32_t *)(void *)e->ids.data);
}

static int add_ids(void *ctx, const uint32_t *ids, size_t n, bool ends)
{
	(void)ends;
	buf_add(ctx, ids, n * sizeof *ids);
	return 0;
}

static int read_text(struct evaluation *e)
{
	int64_t bos;
	int rc;

	if (!e->token)
		return err_set(EX_USAGE,
			"'%s' is a text, and the model has no tokenizer: name one with --tokenizer",
			data);
	if ((bos = lm_token_bos(e->token)) >= 0 && lm_token_adds_bos(e->token)) {
		uint32_t id = (uint32_t)bos;

		buf_add(&e->ids, &id, sizeof id);
	}
	rc = corpus_encode(data, &text_form, e->token, false, add_ids, &e->ids, NULL);
	e->count = e->ids.len / sizeof(uint32_t);
	return rc;
}

static int open_all(struct evaluation *e)
{
	const char *path = tokenizer;
	uint32_t vocab;

	if (model_file_open(&e->model_file, model) < 0)
		return -1;
	vocab = model_file_config(e->model_file)->vocab;
	if (!path)
		path = model_file_tokenizer(e->model_file);
	if (path && lm_token_open(&e->token, path, vocab) < 0)
		return -1;
	if ((is_shards(data) ? read_shards(e, path) : read_text(e)) < 0)
		return -1;
	if (tokens_limit && e->count > (uint64_t)tokens_limit + 1)
		e->count = (uint64_t)tokens_limit + 1;
	if (e->count < 2)
		return err_set(EX_DATAERR, "%s: less than two tokens: nothing to predict",
			data);
	if (device_open(&e->d, device) < 0)
		return -1;
	return 0;
}

/* --- the model -------------------------------------------------------------------------------- */

static int load_model(struct evaluation *e)
{
	const struct lm_config *c = model_file_config(e->model_file);
	struct lm_train_options o;
	int64_t pieces;

	lm_train_defaults(&o, c);
	if (!length)
		length = c->context < 2048 ? c->context : 2048;
	if (!batch)
		batch = length < 2048 ? 2048 / length : 1;
	/* rows that would have nothing to predict take time and memory all the same */
	pieces = (int64_t)((e->count - 2) / (uint64_t)length) + 1;
	if (batch > pieces)
		batch = pieces;
	o.positions = (uint32_t)length;
	o.batch = (uint32_t)batch;
	o.dtype = strcmp(precision, "f32") == 0 ? LM_DTYPE_F32 : LM_DTYPE_BF16;
	o.eval_only = true;
	if (lm_train_open(&e->train, &e->d, &o) < 0)
		return -1;
	return lm_train_load(e->train, e->model_file);
}

/* The batch that begins with token `at`: whole sequences, and where the text ends nothing to
 * predict. */
static void fill_batch(const struct evaluation *e, uint64_t at, uint32_t *tokens,
	uint32_t *targets)
{
	const uint32_t *ids = (const uint32_t *)(const void *)e->ids.data;

	for (uint64_t i = 0; i < (uint64_t)(batch * length); i++) {
		bool there = at + i + 1 < e->count;

		tokens[i] = there ? ids[at + i] : 0;
		targets[i] = there ? ids[at + i + 1] : LM_NO_TARGET;
	}
}

static int predict(struct evaluation *e)
{
	uint64_t step = (uint64_t)(batch * length);
	uint32_t *tokens = xmalloc(step * sizeof *tokens),
		 *targets = xmalloc(step * sizeof *targets);
	struct progress bar;
	int rc = 0;

	progress_start(&bar, "evaluating", "tokens", (int64_t)e->count);
	for (uint64_t at = 0; rc == 0 && at + 1 < e->count; at += step) {
		double sum = 0;
		uint64_t n = 0;

		fill_batch(e, at, tokens, targets);
		rc = lm_train_eval(e->train, tokens, targets, &sum, &n);
		e->loss_sum += sum;
		e->predicted += n;
		progress_update(&bar, (int64_t)at);
	}
	progress_end(&bar);
	free(tokens);
	free(targets);
	return rc;
}

/* The predicted tokens as text, without the blank that SentencePiece puts before it. */
static int count_bytes(struct evaluation *e)
{
	const uint32_t *ids = (const uint32_t *)(const void *)e->ids.data;
	bool begins = ids[0] == lm_token_bos(e->token);
	struct buf piece = BUF_INIT;
	int rc = 0;

	for (uint64_t i = 1; rc == 0 && i < e->count; i++) {
		buf_reset(&piece);
		rc = ids[i] < lm_token_count(e->token) ?
			lm_token_piece(e->token, &piece, ids[i], begins && i == 1,
				false) :
			0;
		e->bytes += piece.len;
	}
	buf_release(&piece);
	return rc;
}

static void set_unknown(json_t *r, const char *field, const char *why)
{
	json_t *unknown = json_object();

	json_set_text(unknown, field, why);
	json_set(r, "unknown", unknown);
}

static int write_result(const struct evaluation *e, int64_t ns)
{
	double loss = e->loss_sum / (double)e->predicted;
	json_t *r = json_record("rnp.eval");
	int rc;

	json_set_text(r, "model", model);
	json_set_text(r, "data", data);
	json_set_text(r, "device", e->d.name);
	json_set_text(r, "precision", precision);
	json_set_i64(r, "length", length);
	json_set_i64(r, "tokens", (int64_t)e->predicted);
	json_set_f64(r, "loss", loss);
	if (isfinite(exp(loss)))
		json_set_f64(r, "perplexity", exp(loss));
	else
		set_unknown(r, "perplexity", "larger than the largest number");
	if (e->bytes) {
		json_set_i64(r, "bytes", (int64_t)e->bytes);
		json_set_f64(r, "bits_per_byte", e->loss_sum / M_LN2 / (double)e->bytes);
	}
	json_set_i64(r, "tokens_per_s",
		(int64_t)((double)e->predicted * 1e9 / (double)ns));
	rc = out_record(r);
	json_decref(r);
	return rc;
}

static int evaluate(struct evaluation *e)
{
	int64_t began;

	if (open_all(e) < 0 || load_model(e) < 0)
		return -1;
	began = clock_mono_ns();
	if (predict(e) < 0)
		return -1;
	began = clock_mono_ns() - began;
	if (!isfinite(e->loss_sum))
		return err_set(EX_DATAERR, "%s: the loss is not finite", model);
	if (e->token && count_bytes(e) < 0)
		return -1;
	return write_result(e, began);
}

static int run(int nargs, char **args)
{
	struct evaluation e = { .d = DEV_INIT };
	int rc = evaluate(&e);

	(void)nargs, (void)args;
	lm_train_close(e.train);
	dev_close(&e.d);
	lm_shards_close(&e.shards);
	lm_token_close(e.token);
	model_file_close(e.model_file);
	buf_release(&e.ids);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_eval = {
	.name = "eval",
	.args_max = 0,
	.summary = "How well a model predicts a text: loss, perplexity, bits per byte.",
	.details =
		"The text is cut into pieces of --length tokens, which are read one by one; every token but the\n"
		"first is predicted from those before it in its piece. Writes one rnp.eval record.",
	.columns = "model,data,tokens,loss,perplexity,bits_per_byte,tokens_per_s",
	.card = true,
	.opts = opts,
	.run = run,
};
