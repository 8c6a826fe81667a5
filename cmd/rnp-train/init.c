/* init.c - rnp-train init: a model directory with random parameters. */
#include "common/lm/model/init.h"

#include <unistd.h>

#include "cmd/rnp-train/commands.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/lm/export/export.h"
#include "common/cli/prog.h"

static const char *preset, *out, *tokenizer, *type_name = "f32";
static int64_t vocab;
static uint64_t seed;

static const struct opt opts[] = {
	OPT(CHOICE, "preset", &preset, "P",
		"shape: 1M, 11M, 124M, 360M, 1.1G, 6.7G parameters", .required = true,
		.choices = "nano|mini|small|medium|1b|7b"),
	OPT_IN(I64, "vocab", &vocab, "N", 1, LM_VOCAB_MAX,
		"tokens (default: the preset's)"),
	OPT(TEXT, "tokenizer", &tokenizer, "F",
		"tokenizer.json, GGUF file or tok*.bin to go along: its tokens are the vocabulary"),
	OPT(U64, "seed", &seed, "S", "of the random parameters (default 0)"),
	OPT(CHOICE, "type", &type_name, "T", "of the matrices (default f32)",
		.choices = "f32|bf16|f16"),
	OPT(TEXT, "out", &out, "DIR", "directory to make", .required = true),
	{ 0 },
};

static int read_random(void *ctx, uint32_t i, uint64_t from, uint64_t count, float *to)
{
	lm_init_read(to, ctx, seed, i, from, count);
	return 0;
}

static enum lm_type chosen_type(void)
{
	return type_name[0] == 'b' ? LM_BF16 : type_name[1] == '1' ? LM_F16 : LM_F32;
}

/* The shape; of a tokenizer its vocabulary and ends. */
static int make_config(struct lm_config *c, const struct lm_token *t)
{
	if (lm_config_preset(c, preset, t ? lm_token_count(t) : (uint32_t)vocab) < 0)
		return -1;
	if (t) {
		c->bos = lm_token_bos(t);
		if (lm_token_eos(t) >= 0)
			c->eos[c->eos_count++] = lm_token_eos(t);
	}
	return lm_config_check(c, tokenizer ? tokenizer : preset);
}

/* Random numbers over what somebody trained would be a loss; export and run say themselves what
 * they replace. */
static int check_free(const char *dir)
{
	static const char *const names[] = { "config.json", "model.safetensors",
		"model.safetensors.index.json" };
	struct buf path = BUF_INIT;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof names / sizeof *names; i++) {
		buf_reset(&path);
		buf_addf(&path, "%s/%s", dir, names[i]);
		if (access(path.data, F_OK) == 0)
			rc = err_set(EX_CANTCREAT,
				"'%s' is there already, and a model is never overwritten",
				path.data);
	}
	buf_release(&path);
	return rc;
}

static int run(int nargs, char **args)
{
	struct lm_export e = { .read = read_random };
	struct lm_token *token = NULL;
	int rc;

	(void)nargs, (void)args;
	if (vocab && tokenizer) {
		err_set(EX_USAGE, "give one of --vocab N and --tokenizer F");
		return err_report();
	}
	if (tokenizer && lm_token_open(&token, tokenizer, 0) < 0)
		return err_report();
	rc = check_free(out);
	if (rc == 0)
		rc = make_config(&e.config, token);
	e.ctx = &e.config;
	e.token = token;
	if (rc == 0)
		rc = lm_export_directory(out, &e, chosen_type());
	lm_token_close(token);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_init = {
	.name = "init",
	.args_max = 0,
	.summary = "Make a model directory with random parameters.",
	.details =
		"config.json, model.safetensors and tokenizer.json of a Llama. The same preset, vocabulary and seed\n"
		"give the same bytes on every machine. Writes nothing on standard output.",
	.opts = opts,
	.run = run,
};
