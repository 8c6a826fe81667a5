/* fuzz_grammar.c - fuzz target: a stranger's JSON schema, and a text that matches it or not.
 *
 * The input is the schema, then a byte 0, then the text. It checks that an error has a message
 * and code 65; that a mask allows some token until the text is complete; that a token that a
 * mask allows is accepted; and that a text that may end is JSON. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/json/json.h"
#include "common/lm/grammar/grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

static struct lm_vocabulary *bytes(void)
{
	static struct lm_vocabulary_token tokens[260];
	static char text[256];

	for (uint32_t i = 0; i < 256; i++) {
		text[i] = (char)i;
		tokens[i] = (struct lm_vocabulary_token){ text + i, 1, false };
	}
	tokens[256] = (struct lm_vocabulary_token){ "\": \"", 4, false };
	tokens[257] = (struct lm_vocabulary_token){ "\"},{\"", 5, false };
	tokens[258] = (struct lm_vocabulary_token){ "e\":[", 4, false };
	tokens[259] = (struct lm_vocabulary_token){ "", 0, true };
	return lm_vocabulary_new(tokens, 260);
}

static void check_mask(struct lm_matcher *m)
{
	const uint64_t *bits = lm_matcher_mask(m);
	bool any = false;

	for (uint32_t i = 0; i < 5; i++)
		any |= bits[i] != 0;
	must(any);
	must(!lm_matcher_done(m) || (bits[259 / 64] >> 259 % 64 & 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct lm_vocabulary *v;
	const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
	size_t n = zero ? (size_t)(zero - data) : size, i;
	const char *text = zero ? (const char *)zero + 1 : "{\"a\":[1]}";
	size_t len = zero ? size - n - 1 : strlen(text);
	json_t *schema = json_parse_spelled((const char *)data, n, 64, "fuzz"), *value;
	struct lm_grammar *g = NULL;
	struct lm_matcher *m;

	if (!v)
		v = bytes();
	if (!schema || lm_grammar_schema(&g, schema) < 0) {
		must(err_get()->code == EX_DATAERR && err_get()->text[0]);
		err_clear();
		json_decref(schema);
		return 0;
	}
	m = lm_matcher_new(g, v);
	for (i = 0; i < len; i++) {
		const uint64_t *bits = i < 24 ? lm_matcher_mask(m) : NULL;
		uint8_t c = (uint8_t)text[i];
		bool allowed = bits && (bits[c / 64] >> c % 64 & 1);
		bool taken = lm_matcher_push(m, text + i, 1) == 1;

		must(!bits || allowed == taken);
		if (!taken)
			break;
		if (i < 24)
			check_mask(m);
	}
	if (i == len && lm_matcher_done(m)) {
		value = json_parse_spelled(text, len, 96, "made");
		must(value || strstr(err_get()->text, "uplicate"));
		json_decref(value);
		err_clear();
	}
	lm_matcher_free(m);
	lm_grammar_free(g);
	json_decref(schema);
	return 0;
}
