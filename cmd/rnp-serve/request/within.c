/* within.c - what stands within the values of a request's fields: parts of a content, and fields
 * that nobody reads. */
#include <stdio.h>
#include <string.h>

#include "cmd/rnp-serve/request/parts.h"
#include "common/json/json.h"

bool request_is_blank(const json_t *v)
{
	return json_is_null(v) || (json_is_array(v) && !json_array_size(v)) ||
		(json_is_object(v) && !json_object_size(v));
}

static bool is_word_of(const char *words, const char *word)
{
	size_t len = strlen(word);

	for (; *words; words += strspn(words, " ")) {
		size_t n = strcspn(words, " ");

		if (n == len && memcmp(words, word, n) == 0)
			return true;
		words += n;
	}
	return false;
}

int request_only(const json_t *object, const char *where, const char *known,
	struct api_error *e)
{
	const char *key;
	char param[96];
	json_t *v;

	json_object_foreach((json_t *)object, key, v) {
		if (is_word_of(known, key) || request_is_blank(v))
			continue;
		snprintf(param, sizeof param, "%.50s.%.40s", where, key);
		return api_error_set(e, 400, "unsupported_parameter", param,
			"'%s' is not supported by this server", param);
	}
	return 0;
}

int request_content(struct buf *out, const json_t *content, const char *where,
	struct api_error *e)
{
	char at[96];
	json_t *part;
	size_t i;

	if (!content || json_is_null(content))
		return 0;
	if (json_is_string(content)) {
		buf_add(out, json_string_value(content), json_string_length(content));
		return 0;
	}
	if (!json_is_array(content))
		return api_error_set(e, 400, "invalid_value", where,
			"'%s' must be a text or an array of parts", where);
	json_array_foreach(content, i, part) {
		const char *type = json_string_value(json_object_get(part, "type"));
		const json_t *text = json_object_get(part, "text");

		snprintf(at, sizeof at, "%.60s[%zu]", where, i);
		if (type && strcmp(type, "text") != 0 &&
			strcmp(type, "input_text") != 0 &&
			strcmp(type, "output_text") != 0)
			return api_error_set(e, 400, "unsupported_parameter", at,
				"'%s': parts of type '%.40s' are not supported", at,
				type);
		if (!type || !json_is_string(text))
			return api_error_set(e, 400, "invalid_value", at,
				"'%s' must be a part with 'type' and 'text'", at);
		/* of an earlier answer, and a hint to servers that sell their cache */
		if (request_only(part, at, "type text annotations logprobs cache_control",
			    e) < 0)
			return -1;
		buf_add(out, json_string_value(text), json_string_length(text));
	}
	return 0;
}
