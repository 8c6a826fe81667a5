/* export.c - rnp-train export: a model for other engines, as GGUF file or directory. */
#include "common/lm/export/export.h"

#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-train/commands.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/cli/prog.h"

static const char *model, *gguf, *out, *type_name, *tokenizer;

static const struct opt opts[] = {
	OPT_MODEL(&model),
	OPT(TEXT, "gguf", &gguf, "F", "write a GGUF file"),
	OPT(CHOICE, "type", &type_name, "T",
		"of the matrices (default: as they are); a directory takes no q8_0 and q4_0",
		.choices = "f32|f16|bf16|q8_0|q4_0"),
	OPT_TOKENIZER(&tokenizer),
	OPT(TEXT, "out", &out, "DIR",
		"write config.json, model.safetensors, tokenizer.json"),
	{ 0 },
};

static enum lm_type chosen_type(void)
{
	for (enum lm_type t = LM_F32; type_name && t < LM_TYPES; t++)
		if (strcmp(type_name, lm_type_name(t)) == 0)
			return t;
	return LM_TYPE_UNCHANGED;
}

/* The last part of M's name without its ending: what other engines show. */
static char *name_of(const char *path)
{
	size_t n = strlen(path);
	const char *end, *start, *dot;

	while (n > 1 && path[n - 1] == '/')
		n--;
	end = path + n;
	for (start = end; start > path && start[-1] != '/'; start--)
		continue;
	dot = memrchr(start, '.', (size_t)(end - start));
	if (dot && dot > start)
		end = dot;
	return xstrndup(start, (size_t)(end - start));
}

/* Properties that the written format cannot express. */
static void warn_of_losses(const struct lm_config *c, const struct lm_export *e)
{
	if (gguf && c->rope.kind == LM_ROPE_NTK)
		prog_warn(
			"GGUF has no dynamic rope scaling: the context is the original %u",
			c->rope.original_context);
	if (gguf && c->window)
		prog_warn(
			"other engines may not use the sliding window of %u tokens of '%s'",
			c->window, gguf);
	if (gguf && e->token) {
		struct lm_token_about about;

		lm_token_describe(e->token, &about);
		if (strcmp(about.model, "gpt2") == 0 && about.adds_space_prefix)
			prog_warn(
				"GGUF cannot say that this tokenizer puts a blank before a text: from '%s' none does",
				gguf);
	}
	if (!e->token && (out || !e->model_file || !model_file_gguf(e->model_file)))
		prog_warn("'%s' has no tokenizer: '%s' gets none (--tokenizer F)", model,
			out ? out : gguf);
}

/* The one that is named, else the model's; one that goes from GGUF file to GGUF file need not be
 * understood. */
static int open_token(struct lm_token **token, const struct model_file *s)
{
	const struct gguf *g = model_file_gguf(s);
	const char *path = tokenizer ? tokenizer : model_file_tokenizer(s);
	uint32_t vocab = model_file_config(s)->vocab;

	*token = NULL;
	if (!tokenizer &&
		(!path || (g && (gguf || !gguf_find(g, "tokenizer.ggml.tokens")))))
		return 0;
	if (lm_token_open(token, path, vocab) < 0)
		return -1;
	if (lm_token_count(*token) > vocab)
		return err_set(EX_DATAERR,
			"%s: the tokenizer has %u tokens, the model %u", path,
			lm_token_count(*token), vocab);
	return 0;
}

/* Settings that the model's own files leave open. */
static void fill_ends(struct lm_config *c, const struct lm_token *t)
{
	if (c->bos < 0 && lm_token_bos(t) < c->vocab)
		c->bos = lm_token_bos(t);
	if (!c->eos_count && lm_token_eos(t) >= 0 && lm_token_eos(t) < c->vocab)
		c->eos[c->eos_count++] = lm_token_eos(t);
}

static int run(int nargs, char **args)
{
	struct model_file *s = NULL;
	struct lm_token *token = NULL;
	struct lm_export e;
	enum lm_type type = chosen_type();
	char *name;
	int rc;

	(void)nargs, (void)args;
	if (!gguf == !out) {
		err_set(EX_USAGE, "give one of --gguf F and --out DIR");
		return err_report();
	}
	if (out && (type == LM_Q8_0 || type == LM_Q4_0)) {
		err_set(EX_USAGE, "--type %s is for --gguf", type_name);
		return err_report();
	}
	if (model_file_open(&s, model) < 0)
		return err_report();
	if (open_token(&token, s) < 0) {
		lm_token_close(token);
		model_file_close(s);
		return err_report();
	}
	lm_export_model_file(&e, s);
	name = name_of(model);
	e.name = name;
	e.token = token;
	if (token)
		fill_ends(&e.config, token);
	rc = gguf ? lm_export_gguf(gguf, &e, type) : lm_export_directory(out, &e, type);
	if (rc == 0)
		warn_of_losses(&e.config, &e);
	free(name);
	lm_token_close(token);
	model_file_close(s);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_export = {
	.name = "export",
	.args_max = 0,
	.summary = "Write a model for other engines.",
	.details =
		"Norms and biases of a GGUF are f32; rows that are no multiple of 32 stay f16 where\n"
		"q8_0 or q4_0 is asked for. Writes nothing on standard output.",
	.opts = opts,
	.run = run,
};
