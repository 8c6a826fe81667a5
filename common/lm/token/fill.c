/* fill.c - the tokens around a gap that a code model fills, by their usual names: those that
 * llama.cpp looks for, too. */
#include <string.h>

#include "common/lm/token/inside.h"

#define BAR       "\xef\xbd\x9c" /* U+FF5C */
#define NAMES_MAX 9

static const char *const names[TOKEN_FILLS][NAMES_MAX] = {
	[TOKEN_FILL_PREFIX] = { "<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>",
		"<" BAR "fim" TOKEN_BLANK "begin" BAR ">", "<PRE>", TOKEN_BLANK "<PRE>",
		"<|code_prefix|>", "<|prefix|>" },
	[TOKEN_FILL_SUFFIX] = { "<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>",
		"<" BAR "fim" TOKEN_BLANK "hole" BAR ">", "<SUF>", TOKEN_BLANK "<SUF>",
		"<|code_suffix|>", "<|suffix|>" },
	[TOKEN_FILL_MIDDLE] = { "<|fim_middle|>", "<fim-middle>", "<fim_middle>",
		"<" BAR "fim" TOKEN_BLANK "end" BAR ">", "<MID>", TOKEN_BLANK "<MID>",
		"<|code_middle|>", "<|middle|>" },
	[TOKEN_FILL_PAD] = { "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]" },
	[TOKEN_FILL_REPO] = { "<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>",
		"<reponame>" },
	[TOKEN_FILL_FILE] = { "<|file_sep|>" },
};

/* llama.cpp takes the first in the order of a hash table. */
uint32_t token_fill_by_name(const struct lm_token *t, enum token_fill which)
{
	uint32_t first = TOKEN_NONE;

	for (const char *const *name = names[which]; *name; name++) {
		uint32_t id = token_find(t, *name, strlen(*name));

		if (id < t->count && id < first)
			first = id;
	}
	return first;
}

void token_guess_fills(struct lm_token *t)
{
	for (int i = 0; i < TOKEN_FILLS; i++) {
		uint32_t id = token_fill_by_name(t, (enum token_fill)i);

		if (id != TOKEN_NONE && t->pieces[id].type != LM_TOKEN_NORMAL)
			t->fill[i] = id;
	}
	if (t->eot < 0) /* Code Llama's */
		t->eot = lm_token_find(t, TOKEN_BLANK "<EOT>", TOKEN_BLANK_BYTES + 5);
}

bool lm_token_fill(const struct lm_token *t, struct lm_token_fill *out)
{
	const int64_t *id = t->fill;

	*out = (struct lm_token_fill){ (uint32_t)id[TOKEN_FILL_PREFIX],
		(uint32_t)id[TOKEN_FILL_SUFFIX], (uint32_t)id[TOKEN_FILL_MIDDLE] };
	return id[TOKEN_FILL_PREFIX] >= 0 && id[TOKEN_FILL_SUFFIX] >= 0 &&
		id[TOKEN_FILL_MIDDLE] >= 0;
}

bool token_ends_fill(const struct lm_token *t, uint32_t id)
{
	struct lm_token_fill f;

	return lm_token_fill(t, &f) &&
		(id == t->fill[TOKEN_FILL_PAD] || id == t->fill[TOKEN_FILL_REPO] ||
			id == t->fill[TOKEN_FILL_FILE] || id == t->eot);
}
