/* fuzz_template.c - fuzz target: a stranger's chat template with a stranger's conversation.
 *
 * The input is the template, then a byte 0, then variables in JSON (if missing, a small
 * conversation). It checks that an error has a message and code 65; that the text has an origin
 * for each byte and stays within its bound; and that a template that is only text gives that
 * text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/json/json.h"
#include "common/lm/template/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

static void must_be_refused(void)
{
	must(err_get()->code == EX_DATAERR && err_get()->text[0]);
	err_clear();
}

static const char usual[] =
	"{\"messages\":[{\"role\":\"system\",\"content\":\"Be \\u010d\"},"
	"{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\" Hi \"}]},"
	"{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"a\",\"type\":\"function\","
	"\"function\":{\"name\":\"f\",\"arguments\":{\"x\":1.5}}}]}],"
	"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}],"
	"\"add_generation_prompt\":true}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct lm_template_env env = { "<s>", "</s>", 0 };
	const char *text = (const char *)data;
	const char *zero = size ? memchr(text, 0, size) : NULL;
	size_t bytes = zero ? (size_t)(zero - text) : size;
	struct lm_template_text out = { 0 };
	struct lm_template *t = NULL;
	json_t *v = zero ? json_parse_object(zero + 1, size - bytes - 1, "fuzz") :
			   json_parse_object(usual, strlen(usual), "usual");

	if (!v) {
		must_be_refused();
		return 0;
	}
	if (lm_template_parse(&t, text, bytes, "fuzz") < 0) {
		must_be_refused();
	} else {
		if (lm_template_render(t, v, &env, &out) < 0)
			must_be_refused();
		else if (!memchr(text, '{', bytes) && !memchr(text, '\r', bytes) &&
			bytes && text[bytes - 1] != '\n')
			must(out.text.len == bytes &&
				memcmp(out.text.data, text, bytes) == 0);
		must(out.text.len == out.from.len && out.text.len <= LM_TEMPLATE_OUT_MAX);
	}
	lm_template_text_release(&out);
	lm_template_free(t);
	json_decref(v);
	return 0;
}
