/* batch_line.h - the lines of batch files, of requests and of answers, as texts. Uses json, buf.
 * Pure. */
#ifndef RNP_SERVE_REQUEST_BATCH_LINE_H
#define RNP_SERVE_REQUEST_BATCH_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How the answer to a line begins, with the line's number. */
#define BATCH_LINE_BEGIN "{\"id\":\"batch_req_%lld"
/* and how each ends */
#define BATCH_LINE_END "},\"error\":null}"

/* Counts the whole lines of an earlier run's answers, which must be answers from the first on, with
 * beginning and end: another file, such as the questions themselves, is never cut or added to, and
 * a damaged one is not taken for done. where names it in errors. Returns 0 and *out, or -1 with
 * err_set(EX_DATAERR). */
int batch_line_count(int64_t *out, const char *text, size_t len, const char *where);

/* Whether the answer to line n, one of those counted, can be that of a line with this custom_id. A
 * line whose answer has none was refused before its own was read. */
bool batch_line_answers(const char *answer, int64_t n, const char *custom_id);

/* Returns the custom_id in the beginning of a line, if it is whole there, else NULL; the caller
 * frees it. */
char *batch_line_custom_id(const char *line);

#endif
