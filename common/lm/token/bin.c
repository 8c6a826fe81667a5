/* bin.c - llama2.c's tokenizer files: an int32 with the length of the longest piece, then
 * for each piece a float score, an int32 length and the bytes. They spell blanks as blanks; ids
 * 0 to 2 are "unknown", begin and end of a text. */
#include <stdio.h>
#include <string.h>

#include "common/base/err.h"
#include "common/lm/token/inside.h"
#include "common/base/mem.h"

static enum lm_token_type type_of(uint32_t id, const char *text, size_t bytes)
{
	unsigned value;
	char behind;

	if (id == 0)
		return LM_TOKEN_UNKNOWN;
	if (id <= 2)
		return LM_TOKEN_CONTROL;
	if (bytes == 6) {
		char copy[7];

		memcpy(copy, text, 6);
		copy[6] = '\0';
		if (sscanf(copy, "<0x%2X%c", &value, &behind) == 2 && behind == '>')
			return LM_TOKEN_BYTE;
	}
	return LM_TOKEN_NORMAL;
}

/* Converts a piece to our spelling. The file has line breaks around the names of special
 * pieces. */
static void spell(struct buf *out, uint32_t id, const char *text, size_t bytes)
{
	buf_reset(out);
	for (size_t i = 0; i < bytes; i++)
		if (text[i] == ' ')
			buf_adds(out, TOKEN_BLANK);
		else if (text[i] != '\n' || id > 2)
			buf_addc(out, text[i]);
}

int lm_token_read_bin(struct lm_token **out, const void *data, size_t bytes,
	uint32_t vocab, const char *where)
{
	const char *at = data, *end = at + bytes;
	struct lm_token *t = token_new(TOKEN_SCORES);
	struct buf text = BUF_INIT;
	int32_t longest = 0, len;
	float score;

	*out = NULL;
	t->blanks = true;
	t->prefix = TOKEN_PREFIX_EACH;
	t->unknown = 0;
	t->bos = 1;
	t->eos = 2;
	t->adds_bos = true;
	if (bytes >= 4)
		memcpy(&longest, at, 4);
	if (longest < 1 || (size_t)longest > TOKEN_BYTES_MAX) {
		err_set(EX_DATAERR,
			"'%s' is no tokenizer: neither tokenizer.json, GGUF nor llama2.c's",
			where);
		goto fail;
	}
	for (at += 4; at < end; at += len) {
		if (vocab && t->count == vocab) {
			err_set(EX_DATAERR, "'%s' has more than the model's %u tokens",
				where, vocab);
			goto fail;
		}
		if (end - at < 8)
			goto cut;
		memcpy(&score, at, 4);
		memcpy(&len, at + 4, 4);
		at += 8;
		if (len < 0 || len > longest) {
			err_set(EX_DATAERR,
				"'%s': piece %u has %d bytes, and the longest should have %d",
				where, t->count, len, longest);
			goto fail;
		}
		if (end - at < len)
			goto cut;
		spell(&text, t->count, at, (size_t)len);
		if (token_add(t, buf_text(&text), text.len, score,
			    type_of(t->count, at, (size_t)len), where) < 0)
			goto fail;
	}
	if (token_index(t, where) < 0 || token_finish(t, where) < 0)
		goto fail;
	buf_release(&text);
	*out = t;
	return 0;
cut:
	err_set(EX_DATAERR, "'%s' ends within piece %u", where, t->count);
fail:
	buf_release(&text);
	lm_token_close(t);
	return -1;
}
