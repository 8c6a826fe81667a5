/* fuzz_chat.c - fuzz target: a hostile conversation in a stranger's template, as the tokens of a
 * prompt, and as what a server makes of it when it is a request.
 *
 * uses: cmd/rnp-serve
 *
 * The input is the template, a byte 0, and the variables or the request in JSON. It checks that an
 * error has a message and code 65; that ids are below the count; and the promise that people's
 * words never become special tokens: where a template has none of the bytes of such a token's name,
 * and nothing that makes a byte out of others, none is in the prompt. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-serve/chat/prompt.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/lm/infer/chat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

#define SPECIAL 3 /* the tokens from here on are special, and named "@...@" */

static struct lm_token *letters(void)
{
	static struct lm_token *t;
	static const char json[] =
		"{\"added_tokens\":["
		"{\"id\":3,\"content\":\"@s@\",\"special\":true},"
		"{\"id\":4,\"content\":\"@system@\",\"special\":true,\"lstrip\":true},"
		"{\"id\":5,\"content\":\"@end@\",\"special\":true,\"rstrip\":true},"
		"{\"id\":6,\"content\":\"@@\",\"special\":true}],\"model\":"
		"{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[[\"a\",\"b\"]]},"
		"\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false}}";
	/* BOS is an ordinary token: a template has it as bos_token */
	static const char config[] = "{\"bos_token\":\"ab\"}";

	if (!t &&
		lm_token_read_json(&t, json, sizeof json - 1, config, sizeof config - 1,
			"letters") < 0)
		abort();
	return t;
}

static void must_be_refused(void)
{
	must(err_get()->code == EX_DATAERR && err_get()->text[0]);
	err_clear();
}

static void check(const struct lm_chat *c, const json_t *v, bool may_be_special)
{
	struct buf text = BUF_INIT, ids = BUF_INIT;

	if (lm_chat_apply(c, v, 0, &text, &ids) < 0)
		must_be_refused();
	for (size_t i = 0; i + sizeof(uint32_t) <= ids.len; i += sizeof(uint32_t)) {
		uint32_t id;

		memcpy(&id, ids.data + i, sizeof id);
		must(id < lm_token_count(letters()));
		must(may_be_special || id < SPECIAL);
	}
	buf_release(&text);
	buf_release(&ids);
}

/* As the server does: messages with one text each, tools in the template's form or told. */
static void check_request(struct lm_chat *c, const char *body, size_t len)
{
	struct model_slot m = { .name = (char *)"m",
		.chat = c,
		.handles.token = letters() };
	struct api_error e = { 0 };
	struct buf text = BUF_INIT;
	struct request q;

	call_format_learn(&m.calls, c, letters());
	if (request_parse(&q, REQUEST_TEMPLATE, body, len, &e) < 0 ||
		prompt_text(&text, &m, &q, &e) < 0)
		must(e.status >= 400 && err_get()->text[0]);
	err_clear();
	request_release(&q);
	call_format_release(&m.calls);
	buf_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	const char *zero = size ? memchr(text, 0, size) : NULL;
	size_t bytes = zero ? (size_t)(zero - text) : size;
	struct lm_chat *c = NULL;
	json_t *v = zero ? json_parse_object(zero + 1, size - bytes - 1, "fuzz") : NULL;

	if (!v) {
		err_clear();
		return 0;
	}
	if (lm_chat_open(&c, letters(), text, bytes, "fuzz") < 0) {
		must_be_refused();
	} else {
		check_request(c, zero + 1, size - bytes - 1);
		check(c, v, memchr(text, '@', bytes) || memchr(text, '\\', bytes));
	}
	lm_chat_close(c);
	json_decref(v);
	return 0;
}
