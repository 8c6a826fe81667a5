/* fuzz_batch.c - fuzz target: lines of batch files: a request of which only the beginning is there,
 * or with the first byte 'r' the file of `rnp-serve batch --resume`.
 *
 * uses: cmd/rnp-serve
 *
 * It checks that a custom_id is a text that can be written as JSON, and that of a line that is
 * whole JSON after all it is the one that a parser finds, if any; that a file of which answers were
 * counted has as many lines, that what follows the last one does not count, and that anything
 * else is refused with its line. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-serve/request/batch_line.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"
#include "common/json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

static void check_line(const char *text)
{
	json_t *whole = json_parse(text, strlen(text), JSON_DEPTH_MAX, "line");
	const char *want = json_string_value(json_object_get(whole, "custom_id"));
	char *id = batch_line_custom_id(text);

	must(!id || utf8_valid(id, strlen(id)));
	/* a key may be spelled with escapes, which only the parser reads */
	if (json_is_object(whole) && id)
		must(want && strcmp(id, want) == 0);
	free(id);
	json_decref(whole);
	err_clear();
}

static void check_answers(const char *text, size_t len)
{
	int64_t n = -1, again = -1, lines = 0;
	size_t whole = 0;

	for (size_t i = 0; i < len; i++)
		if (text[i] == '\n') {
			lines++;
			whole = i + 1;
		}
	if (batch_line_count(&n, text, len, "fuzz") < 0) {
		must(n == -1 && err_get()->code == EX_DATAERR && err_get()->text[0]);
		err_clear();
		return;
	}
	must(n == lines);
	must(batch_line_count(&again, text, whole, "fuzz") == 0 && again == n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = xstrndup((const char *)data, size);

	if (size && *data == 'r')
		check_answers((const char *)data + 1, size - 1);
	else if (!strchr(text, '\n'))
		check_line(text);
	free(text);
	return 0;
}
