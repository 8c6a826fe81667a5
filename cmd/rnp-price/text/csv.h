/* csv.h - reads untrusted CSV, strictly as RFC 4180. Pure; uses buf, err.
 *
 * Fields are separated by commas, rows end with LF or CRLF, the last one may lack it. A field
 * with a comma, quote or line break is quoted, and a quote within it is doubled. A quote
 * anywhere else, text after a closing quote, a CR alone, a NUL, bad UTF-8 and a row whose
 * number of fields differs from the first are errors: a truncated feed must not pass. A UTF-8
 * byte order mark at the beginning is skipped. */
#ifndef RNP_PRICE_TEXT_CSV_H
#define RNP_PRICE_TEXT_CSV_H

#include <stddef.h>

#include "common/base/buf.h"

#define CSV_FIELDS_MAX      64
#define CSV_FIELD_BYTES_MAX 65536

struct csv {
	const char *text; /* borrowed */
	size_t len, at;
	const char *name; /* of the file, for errors; borrowed */
	long line;        /* line number at which the last row began */
	long next_line;
	int nfields;      /* in every row; 0 before the first */
	struct buf bytes; /* the fields of the row, each with a NUL */
	const char *fields[CSV_FIELDS_MAX];
};

void csv_open(struct csv *c, const char *text, size_t len, const char *name);
void csv_close(struct csv *c);

/* Reads the next row into c->fields, borrowed until the next call. Returns 1, 0 at the end, -1
 * with EX_DATAERR naming file and line. */
int csv_next(struct csv *c);

#endif
