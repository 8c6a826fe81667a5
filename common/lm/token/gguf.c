/* gguf.c - the tokenizer in a GGUF file: its tokenizer.ggml.* keys. What llama.cpp knows
 * about some models by their name, because the format has no key for it, is known here too. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/err.h"
#include "common/lm/model/gguf.h"
#include "common/lm/token/inside.h"
#include "common/base/mem.h"

#define KEY "tokenizer.ggml."

static char *text_of(const struct gguf *g, const char *key)
{
	const char *text = NULL;
	uint64_t bytes = 0;

	if (gguf_get_text(g, key, &text, &bytes) < 0)
		return NULL;
	return xstrndup(text ? text : "", text ? bytes : 0);
}

static int read_tokens(struct lm_token *t, const struct gguf *g)
{
	const struct gguf_value *texts = NULL, *scores = gguf_find(g, KEY "scores");
	const struct gguf_value *types = gguf_find(g, KEY "token_type");
	const char *where = gguf_where(g);
	const unsigned char *at;

	if (gguf_get_array(g, KEY "tokens", GGUF_TEXT, &texts) < 0)
		return -1;
	if (!texts)
		return err_set(EX_DATAERR, "%s: no " KEY "tokens", where);
	if (texts->count > TOKEN_COUNT_MAX)
		return err_set(EX_DATAERR, "%s: more than %u tokens", where,
			TOKEN_COUNT_MAX);
	if (scores &&
		(scores->kind != GGUF_ARRAY || scores->count < texts->count ||
			(scores->item != GGUF_F32 && scores->item != GGUF_I32)))
		return err_set(EX_DATAERR, "%s: " KEY "scores is not one number a token",
			where);
	if (types &&
		(types->kind != GGUF_ARRAY || types->count < texts->count ||
			(types->item != GGUF_I32 && types->item != GGUF_U32)))
		return err_set(EX_DATAERR,
			"%s: " KEY "token_type is not one number a token", where);
	at = texts->data;
	for (uint64_t i = 0; i < texts->count; i++) {
		uint64_t bytes;
		const char *text = gguf_next_text(&at, &bytes);
		int64_t type = types ? gguf_item_i64(types, i) : LM_TOKEN_NORMAL;

		if (memchr(text, 0, bytes))
			return err_set(EX_DATAERR, "%s: token %llu has a NUL", where,
				(unsigned long long)i);
		if (type < LM_TOKEN_NORMAL || type > LM_TOKEN_BYTE)
			type = LM_TOKEN_UNUSED;
		if (token_add(t, text, bytes,
			    scores ? (float)gguf_item_f64(scores, i) : 0,
			    (enum lm_token_type)type, where) < 0)
			return -1;
	}
	return token_index(t, where);
}

static int read_merges(struct lm_token *t, const struct gguf *g)
{
	const struct gguf_value *merges = NULL;
	const unsigned char *at;

	if (gguf_get_array(g, KEY "merges", GGUF_TEXT, &merges) < 0)
		return -1;
	if (!merges)
		return err_set(EX_DATAERR, "%s: no " KEY "merges", gguf_where(g));
	at = merges->data;
	for (uint64_t i = 0; i < merges->count; i++) {
		uint64_t bytes;
		const char *text = gguf_next_text(&at, &bytes);
		const char *blank = bytes > 1 ? memchr(text + 1, ' ', bytes - 1) : NULL;

		if (!blank)
			return err_set(EX_DATAERR, "%s: merge %llu is not two texts",
				gguf_where(g), (unsigned long long)i);
		if (token_add_merge(t, text, (size_t)(blank - text), blank + 1,
			    bytes - (size_t)(blank + 1 - text), true, gguf_where(g)) < 0)
			return -1;
	}
	return 0;
}

static int read_id(const struct gguf *g, const char *key, int64_t *id)
{
	uint64_t v = UINT64_MAX;

	if (gguf_get_u64(g, key, UINT32_MAX, &v) < 0)
		return -1;
	if (v == UINT32_MAX)
		*id = -1; /* present, but means none */
	else if (v != UINT64_MAX)
		*id = (int64_t)v;
	return 0;
}

static int read_special(struct lm_token *t, const struct gguf *g)
{
	bool prefix = t->prefix != TOKEN_PREFIX_NEVER;
	const char *text = NULL, *with_tools = NULL;
	uint64_t bytes = 0, with_tools_bytes = 0;

	if (read_id(g, KEY "bos_token_id", &t->bos) < 0 ||
		read_id(g, KEY "eos_token_id", &t->eos) < 0 ||
		read_id(g, KEY "eot_token_id", &t->eot) < 0 ||
		read_id(g, KEY "unknown_token_id", &t->unknown) < 0 ||
		read_id(g, KEY "padding_token_id", &t->pad) < 0 ||
		gguf_get_bool(g, KEY "add_bos_token", &t->adds_bos) < 0 ||
		gguf_get_bool(g, KEY "add_eos_token", &t->adds_eos) < 0 ||
		gguf_get_bool(g, KEY "add_space_prefix", &prefix) < 0 ||
		gguf_get_text(g, "tokenizer.chat_template", &text, &bytes) < 0 ||
		gguf_get_text(g, "tokenizer.chat_template.tool_use", &with_tools,
			&with_tools_bytes) < 0)
		return -1;
	/* llama.cpp always adds it, whatever the file says: Gemma 4's first files were wrong */
	if (strcmp(t->pre.name, "gemma4") == 0 ||
		strcmp(t->pre.name, "granite-embed-multi-311m") == 0)
		t->adds_bos = true;
	if (t->how == TOKEN_SCORES)
		t->prefix = prefix ? TOKEN_PREFIX_EACH : TOKEN_PREFIX_NEVER;
	if (with_tools &&
		token_set_template(&t->tool_template, with_tools, with_tools_bytes,
			gguf_where(g)) < 0)
		return -1;
	return text ? token_set_template(&t->chat_template, text, bytes, gguf_where(g)) :
		      0;
}

/* --- what a token is by its name, whatever the file says ---------------------------------- */

/* Tokens around a gap that a code model is to fill: the key with the token's id, and its older
 * name. Without a key, they are known by their names. */
static int set_fills(struct lm_token *t, const struct gguf *g)
{
	static const struct {
		const char *key, *older;
	} keys[TOKEN_FILLS] = {
		[TOKEN_FILL_PREFIX] = { KEY "fim_pre_token_id", KEY "prefix_token_id" },
		[TOKEN_FILL_SUFFIX] = { KEY "fim_suf_token_id", KEY "suffix_token_id" },
		[TOKEN_FILL_MIDDLE] = { KEY "fim_mid_token_id", KEY "middle_token_id" },
		[TOKEN_FILL_PAD] = { KEY "fim_pad_token_id", NULL },
		[TOKEN_FILL_REPO] = { KEY "fim_rep_token_id", NULL },
		[TOKEN_FILL_FILE] = { KEY "fim_sep_token_id", NULL },
	};

	for (int i = 0; i < TOKEN_FILLS; i++) {
		int64_t told = -1, older = -1;
		uint32_t id;

		if (read_id(g, keys[i].key, &told) < 0 ||
			(keys[i].older && read_id(g, keys[i].older, &older) < 0))
			return -1;
		if (told < 0 || told >= t->count)
			told = older;
		if (told >= 0 && told < t->count) {
			t->fill[i] = told;
			continue;
		}
		id = token_fill_by_name(t, (enum token_fill)i);
		if (id == TOKEN_NONE)
			continue;
		t->pieces[id].type = LM_TOKEN_CONTROL;
		t->fill[i] = id;
	}
	return 0;
}

static void set_type(struct lm_token *t, const char *name, enum lm_token_type type)
{
	uint32_t id = token_find(t, name, strlen(name));

	if (id < t->count)
		t->pieces[id].type = (uint8_t)type;
}

static bool has(const struct lm_token *t, const char *name)
{
	return token_find(t, name, strlen(name)) < t->count;
}

/* llama.cpp corrects the kinds of some tokens by their names alone, since converters were wrong
 * about them; they decide which names are found in a text with and without --special. */
static int set_kinds(struct lm_token *t, const struct gguf *g)
{
	bool call = has(t, "<|call|>") || has(t, "<|calls|>");

	if (set_fills(t, g) < 0)
		return -1;
	/* text that looks like an end-of-answer token never becomes one */
	for (uint32_t id = 0; id < t->count; id++)
		if (token_ends_by_name(t->pool.data + t->pieces[id].at,
			    t->pieces[id].bytes))
			t->pieces[id].type = LM_TOKEN_CONTROL;
	/* gpt-oss shows these */
	set_type(t, "<|channel|>", LM_TOKEN_USER_DEFINED);
	set_type(t, "<|message|>", LM_TOKEN_USER_DEFINED);
	set_type(t, "<|start|>", LM_TOKEN_USER_DEFINED);
	set_type(t, "<|constrain|>", LM_TOKEN_USER_DEFINED);
	/* together with these it ends only a part of an answer: gpt-oss, Solar Open */
	if (call && (has(t, "<|return|>") || has(t, "<|flush|>")))
		set_type(t, "<|end|>", LM_TOKEN_USER_DEFINED);
	/* in Gemma 4 it is HTML */
	if (has(t, "<|tool_response>"))
		set_type(t, "</s>", LM_TOKEN_NORMAL);
	return 0;
}

/* Sets the tokens that strip the blanks beside them, which llama.cpp knows by the models'
 * names. */
static void set_strips(struct lm_token *t, const char *name, const char *pre)
{
	static const char *const plain[] = { "<unk>", "<s>", "<|endoftext|>" };

	if (strncmp(pre, "jina-v2-", 8) == 0) {
		uint32_t mask = token_find(t, "<mask>", 6);

		if (mask < t->count)
			t->pieces[mask].lstrip = true;
	} else if (strcasestr(name, "phi-3") || strcasestr(name, "phi3")) {
		for (uint32_t id = 0; id < t->count; id++) {
			uint8_t type = t->pieces[id].type;

			t->pieces[id].rstrip = type == LM_TOKEN_CONTROL ||
				type == LM_TOKEN_USER_DEFINED || type == LM_TOKEN_UNKNOWN;
		}
		for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
			uint32_t id = token_find(t, plain[i], strlen(plain[i]));

			if (id < t->count)
				t->pieces[id].rstrip = false;
		}
	}
}

static int begin(struct lm_token **out, const struct gguf *g, const char *model,
	const char *pre)
{
	struct pre_habits habits = { 0 };
	struct lm_token *t;

	if (strcmp(model, "llama") == 0) {
		t = token_new(TOKEN_SCORES);
		t->unknown = 0;
		t->bos = 1;
		t->eos = 2;
		t->adds_bos = t->blanks = true;
		t->prefix = TOKEN_PREFIX_EACH;
		*out = t;
		return 0;
	}
	if (strcmp(model, "gpt2") != 0 && strcmp(model, "gemma4") != 0)
		return err_set(EX_DATAERR, "%s: unknown tokenizer model '%.40s'",
			gguf_where(g), model);
	t = token_new(TOKEN_BYTES);
	if (pre_by_name(&t->pre,
		    strcmp(model, "gemma4") == 0 ? model :
			    *pre                 ? pre :
						   "default",
		    &habits) < 0) {
		lm_token_close(t);
		return err_add("%s", gguf_where(g));
	}
	t->ignore_merges = habits.ignore_merges;
	t->adds_bos = habits.adds_bos;
	if (habits.no_bytes) {
		t->how = TOKEN_CHARS;
		t->blanks = true;
	}
	*out = t;
	return 0;
}

int lm_token_read_gguf(struct lm_token **out, const struct gguf *g)
{
	char *model = text_of(g, KEY "model"), *pre = text_of(g, KEY "pre");
	char *name = text_of(g, "general.name");
	struct lm_token *t = NULL;
	int rc = model && pre && name ? 0 : -1;

	*out = NULL;
	if (rc == 0 && !*model)
		rc = err_set(EX_DATAERR, "%s: no tokenizer in this file (" KEY "model)",
			gguf_where(g));
	if (rc == 0)
		rc = begin(&t, g, model, pre);
	if (rc == 0 &&
		(read_tokens(t, g) < 0 ||
			(t->how != TOKEN_SCORES && read_merges(t, g) < 0) ||
			read_special(t, g) < 0 || set_kinds(t, g) < 0))
		rc = -1;
	if (rc == 0) {
		set_strips(t, name, pre);
		rc = token_finish(t, gguf_where(g));
	}
	if (rc == 0)
		*out = t;
	else
		lm_token_close(t);
	free(model);
	free(pre);
	free(name);
	return rc;
}

int token_read_gguf(struct lm_token **out, const char *path)
{
	struct gguf *g;
	int rc;

	if (gguf_open(&g, path) < 0)
		return -1;
	rc = lm_token_read_gguf(out, g);
	gguf_close(g);
	return rc;
}
