/* batch_line.c - lines of batch files: which have been answered, and what can be told of a line
 * that is cut. */
#include "cmd/rnp-serve/request/batch_line.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/canon.h"
#include "common/json/json.h"

/* --- answers ------------------------------------------------------------------------------ */

/* Writes how the answer to line n begins; returns its length. */
static size_t begin_of(char begin[64], int64_t n)
{
	return (size_t)snprintf(begin, 64,
		BATCH_LINE_BEGIN "\",\"custom_id\":", (long long)n);
}

int batch_line_count(int64_t *out, const char *text, size_t len, const char *where)
{
	const size_t tail = strlen(BATCH_LINE_END);
	const char *at = text, *end = at + len, *newline;
	int64_t lines = 0;
	char begin[64];

	for (; (newline = memchr(at, '\n', (size_t)(end - at))); at = newline + 1) {
		size_t n = begin_of(begin, lines + 1), bytes = (size_t)(newline - at);

		if (bytes < n || memcmp(at, begin, n) != 0)
			return err_set(EX_DATAERR, "%s:%lld: not the answer to line %lld",
				where, (long long)lines + 1, (long long)lines + 1);
		if (bytes < n + tail || memcmp(newline - tail, BATCH_LINE_END, tail) != 0)
			return err_set(EX_DATAERR,
				"%s:%lld: the end of the answer is missing", where,
				(long long)lines + 1);
		lines++;
	}
	/* nor what a process that was killed left of the next one */
	if (at < end && *at &&
		memcmp(at, BATCH_LINE_BEGIN, end - at < 5 ? (size_t)(end - at) : 5) != 0)
		return err_set(EX_DATAERR, "%s:%lld: not the beginning of an answer",
			where, (long long)lines + 1);
	*out = lines;
	return 0;
}

bool batch_line_answers(const char *answer, int64_t n, const char *custom_id)
{
	struct buf want = BUF_INIT;
	char begin[64];
	const char *has = answer + begin_of(begin, n);
	bool is_it;

	if (!custom_id || strncmp(has, "null,", 5) == 0)
		return true;
	canon_string(&want, custom_id, strlen(custom_id));
	buf_addc(&want, ',');
	is_it = strncmp(has, buf_text(&want), want.len) == 0;
	buf_release(&want);
	return is_it;
}

/* --- a line's beginning ------------------------------------------------------------------- */

static const char *after_space(const char *at)
{
	return at + strspn(at, " \t\r");
}

/* Returns what follows the string that begins at `at`; NULL: it does not end. */
static const char *after_string(const char *at)
{
	for (at++; *at && *at != '"'; at++)
		if (*at == '\\' && at[1])
			at++;
	return *at ? at + 1 : NULL;
}

/* Returns the value of a member of an object whose beginning is here; NULL: it has none, or not
 * here. */
static const char *value_in(const char *at, const char *key)
{
	size_t len = strlen(key);
	int depth = 1;

	if (*at++ != '{')
		return NULL;
	for (const char *end; *at && depth > 0; at = end) {
		const char *next;

		end = at + 1;
		depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
		if (*at != '"')
			continue;
		end = after_string(at);
		if (!end)
			return NULL;
		next = after_space(end);
		if (depth == 1 && *next == ':' && strncmp(at, key, len) == 0)
			return after_space(next + 1);
	}
	return NULL;
}

char *batch_line_custom_id(const char *line)
{
	const char *value = value_in(after_space(line), "\"custom_id\"");
	const char *end = value && *value == '"' ? after_string(value) : NULL;
	struct buf member = BUF_INIT;
	char *id = NULL;
	json_t *o;

	if (!end)
		return NULL;
	buf_adds(&member, "{\"custom_id\":");
	buf_add(&member, value, (size_t)(end - value));
	buf_addc(&member, '}');
	o = json_parse_object(member.data, member.len, "custom_id");
	if (o)
		id = xstrdup(json_string_value(json_object_get(o, "custom_id")));
	json_decref(o);
	buf_release(&member);
	return id;
}
