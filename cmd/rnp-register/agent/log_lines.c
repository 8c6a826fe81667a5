/* log_lines.c - undoes what conmon puts before each line. */
#include "cmd/rnp-register/agent/log_lines.h"

#include <string.h>

/* Returns where the text begins in a line without its newline; NULL: it is no line of a log.
 * *whole: whether the container ended it. */
static const char *text_of(const char *line, const char *end, int *whole)
{
	const char *at = memchr(line, ' ', (size_t)(end - line));

	if (!at || end - at < 10)
		return NULL;
	if (memcmp(at, " stdout ", 8) != 0 && memcmp(at, " stderr ", 8) != 0)
		return NULL;
	at += 8;
	if ((*at != 'F' && *at != 'P') || at[1] != ' ')
		return NULL;
	*whole = *at == 'F';
	return at + 2;
}

size_t log_lines_read(struct buf *out, const char *text, size_t len)
{
	const char *at = text, *end = text + len, *newline;
	int whole = 0;

	while (at < end && (newline = memchr(at, '\n', (size_t)(end - at)))) {
		const char *says = text_of(at, newline, &whole);

		if (says) {
			buf_add(out, says, (size_t)(newline - says));
			if (whole)
				buf_addc(out, '\n');
		}
		at = newline + 1;
	}
	return (size_t)(at - text);
}
