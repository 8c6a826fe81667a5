/* token.c - writes a tokenizer as the metadata of a GGUF file. */
#include "common/lm/export/token.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"

#define KEY "tokenizer.ggml."

/* GGUF represents the merges of characters by scores alone: the earlier a merge, the higher the
 * score of its result. */
static void score_merges(float *scores, const struct lm_token *t, uint32_t count,
	uint32_t merges)
{
	struct buf text = BUF_INIT;

	for (uint32_t i = merges; i-- > 0;) {
		char *blank;
		int64_t id;

		buf_reset(&text);
		lm_token_merge(t, i, &text);
		blank = memchr(text.data + 1, ' ', text.len - 1);
		if (!blank)
			bug("merge %" PRIu32 " without a blank", i);
		memmove(blank, blank + 1, (size_t)(text.data + text.len - (blank + 1)));
		id = lm_token_find(t, text.data, text.len - 1);
		if (id >= 0 && id < count)
			scores[id] = -(float)i;
	}
	buf_release(&text);
}

static void put_tokens(struct gguf_meta *m, const struct lm_token *t,
	const struct lm_token_about *about, uint32_t vocab)
{
	uint32_t count = about->count;
	int32_t *types = xcalloc(vocab, sizeof *types);
	float *scores = xcalloc(vocab, sizeof *scores);

	gguf_put_texts(m, KEY "tokens");
	for (uint32_t id = 0; id < vocab; id++) {
		char padding[24];
		size_t bytes;
		const char *text = padding;

		if (id < count) {
			text = lm_token_text(t, id, &bytes);
			types[id] = (int32_t)lm_token_type(t, id);
			scores[id] = lm_token_score(t, id);
		} else {
			bytes = (size_t)snprintf(padding, sizeof padding,
				"[PAD%" PRIu32 "]", id);
			types[id] = LM_TOKEN_UNUSED;
		}
		gguf_add_text(m, text, bytes);
	}
	gguf_put_i32s(m, KEY "token_type", types, vocab);
	if (strcmp(about->model, "gpt2")) {
		score_merges(scores, t, count, about->merges);
		gguf_put_f32s(m, KEY "scores", scores, vocab);
	}
	free(types);
	free(scores);
}

static void put_merges(struct gguf_meta *m, const struct lm_token *t, uint32_t merges)
{
	struct buf text = BUF_INIT;

	gguf_put_texts(m, KEY "merges");
	for (uint32_t i = 0; i < merges; i++) {
		buf_reset(&text);
		lm_token_merge(t, i, &text);
		gguf_add_text(m, text.data, text.len);
	}
	buf_release(&text);
}

static void put_id(struct gguf_meta *m, const char *key, int64_t id)
{
	if (id >= 0)
		gguf_put_u32(m, key, (uint32_t)id);
}

int export_token_gguf(struct gguf_meta *m, const struct lm_token *t, uint32_t vocab)
{
	struct lm_token_about about;

	if (!t) {
		gguf_put_text(m, KEY "model", "none", 4);
		return 0;
	}
	lm_token_describe(t, &about);
	if (about.count > vocab)
		return err_set(EX_DATAERR,
			"the tokenizer has %" PRIu32 " tokens, the model %" PRIu32,
			about.count, vocab);
	if (!about.pre[0])
		return err_set(EX_DATAERR,
			"GGUF has no name for the way in which the tokenizer cuts words");
	gguf_put_text(m, KEY "model", about.model, strlen(about.model));
	gguf_put_text(m, KEY "pre", about.pre, strlen(about.pre));
	put_tokens(m, t, &about, vocab);
	if (strcmp(about.model, "gpt2") == 0)
		put_merges(m, t, about.merges);
	put_id(m, KEY "bos_token_id", about.bos);
	put_id(m, KEY "eos_token_id", about.eos);
	put_id(m, KEY "unknown_token_id", about.unknown);
	put_id(m, KEY "padding_token_id", about.pad);
	gguf_put_bool(m, KEY "add_bos_token", about.adds_bos);
	gguf_put_bool(m, KEY "add_eos_token", about.adds_eos);
	gguf_put_bool(m, KEY "add_space_prefix", about.adds_space_prefix);
	if (about.chat_template)
		gguf_put_text(m, "tokenizer.chat_template", about.chat_template,
			strlen(about.chat_template));
	if (about.tool_template)
		gguf_put_text(m, "tokenizer.chat_template.tool_use", about.tool_template,
			strlen(about.tool_template));
	return 0;
}

static int write_text(const char *dir, const char *name, const struct buf *text)
{
	struct buf path = BUF_INIT;
	int rc;

	buf_addf(&path, "%s/%s", dir, name);
	rc = io_replace(path.data, text->data, text->len, 0644);
	buf_release(&path);
	return rc;
}

int export_token_directory(const char *dir, const struct lm_token *t)
{
	struct buf text = BUF_INIT;
	int rc = lm_token_write_json(t, &text);

	if (rc == 0)
		rc = write_text(dir, "tokenizer.json", &text);
	buf_reset(&text);
	if (rc == 0) {
		lm_token_write_config(t, &text);
		rc = write_text(dir, "tokenizer_config.json", &text);
	}
	buf_release(&text);
	return rc;
}
