/* handles.c - opens and closes device, model file, tokenizer and weights in order. */
#include "cmd/rnp-serve/model/handles.h"

#include <string.h>

#include "common/base/err.h"
#include "common/base/io.h"
#include "common/hw/device.h"

static int open_token(struct model_handles *h, const char *model, const char *path)
{
	uint32_t vocab = model_file_config(h->model_file)->vocab;

	if (!path)
		path = model_file_tokenizer(h->model_file);
	if (!path) {
		err_set(EX_USAGE, "%s: the model has no tokenizer of its own", model);
		err_hint("name one with --tokenizer");
		return -1;
	}
	if (lm_token_open(&h->token, path, vocab) < 0)
		return -1;
	if (lm_token_count(h->token) > vocab)
		return err_set(EX_DATAERR,
			"%s: a tokenizer of %u tokens does not go with a model of %u",
			path, lm_token_count(h->token), vocab);
	return 0;
}

int model_handles_open(struct model_handles *h, const char *model, const char *tokenizer,
	const char *device, const char *type)
{
	if (model_file_open(&h->model_file, model) < 0 ||
		open_token(h, model, tokenizer) < 0)
		return -1;
	if (device_open(&h->d, device) < 0)
		return -1;
	if (type &&
		model_file_quantise(h->model_file,
			strcmp(type, "q4_0") == 0 ? LM_Q4_0 : LM_Q8_0) < 0)
		return -1;
	return 0;
}

int model_handles_weights(struct model_handles *h)
{
	return lm_weights_open(&h->weights, &h->d, h->model_file);
}

void model_handles_release(struct model_handles *h)
{
	lm_weights_close(h->weights);
	dev_close(&h->d);
	lm_token_close(h->token);
	model_file_close(h->model_file);
}

bool model_handles_ends(const struct model_handles *h, uint32_t id)
{
	const struct lm_config *c = model_file_config(h->model_file);

	for (uint32_t i = 0; i < c->eos_count; i++)
		if (c->eos[i] == id)
			return true;
	/* llama2.c's models begin and end every text with BOS */
	if (model_file_format(h->model_file) == LM_FORMAT_LLAMA2C &&
		lm_token_bos(h->token) == id)
		return true;
	return id < lm_token_count(h->token) && lm_token_ends(h->token, id);
}

/* Reads a template's file. What has no slash may be a format's name that is mistyped. */
static int read_template(struct buf *text, const char *path)
{
	struct buf names = BUF_INIT;

	if (io_read(text, path, LM_TEMPLATE_BYTES_MAX) == 0)
		return 0;
	lm_chat_names(&names);
	if (!strchr(path, '/'))
		err_hint("the formats with a name are %s", buf_text(&names));
	buf_release(&names);
	return -1;
}

/* A file that is no template, such as a README, is a template all the same: one whose text is the
 * whole prompt, whatever is asked. */
static int check_template(const struct lm_chat *c, const char *where)
{
	if (lm_chat_reads_messages(c))
		return 0;
	err_set(EX_DATAERR,
		"%s: it does not use 'messages', and no question would reach the model",
		where);
	return err_hint(
		"give a Jinja template, or a format's name, with --chat-template");
}

int model_handles_chat(const struct model_handles *h, const char *name,
	const char *template, struct lm_chat **out)
{
	const char *where = template ? template : "the model's chat template", *named;
	struct buf text = BUF_INIT;
	int rc = 0;

	if (!template && !lm_token_chat_template(h->token)) {
		template = lm_chat_fallback(h->token);
		err_warn(
			"%s has no chat template: chats are written in the form '%s' (--chat-template has others)",
			name, template);
	}
	named = template ? lm_chat_named(template) : NULL;
	if (named)
		buf_adds(&text, named);
	else if (template)
		rc = read_template(&text, template);
	if (rc == 0)
		rc = lm_chat_open(out, h->token, template ? buf_text(&text) : NULL,
			text.len, where);
	if (rc == 0)
		rc = check_template(*out, where);
	buf_release(&text);
	return rc;
}

void model_handles_check_context(const struct model_file *model, const char *name,
	int64_t context)
{
	uint32_t made_for = model_file_config(model)->context;

	if (context > made_for)
		err_warn(
			"%s was made for %u tokens: beyond these, of --context %lld, it says little that makes sense",
			name, made_for, (long long)context);
}
