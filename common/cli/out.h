/* out.h - records on standard output: JSON Lines, or with --table columns for people.
 *
 * One thread at a time. Uses json, buf, err. */
#ifndef RNP_COMMON_CLI_OUT_H
#define RNP_COMMON_CLI_OUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Set by prog_main before the subcommand runs. columns: comma-separated paths into a record
 * ("node,gpus.0.model"), NULL: the plain fields of the first record. Borrowed. */
void out_use_table(bool table, const char *columns);

/* Other columns than the subcommand's usual ones; before the first record. */
void out_columns(const char *columns);

/* Write one record as a line and flush it (in a table: keep it until out_close). Returns 0,
 * or -1 with err_set(EX_IOERR). */
int out_record(const json_t *record);

/* Plain text or lines that are already JSON; flushed by out_flush or out_close. In a table,
 * out_lines reads them back as records. ctx is not used: the signature is lines_sink's. */
int out_text(const char *data, size_t len);
int out_lines(void *ctx, const char *data, size_t len);
int out_flush(void);

/* Print the table, flush, and check that everything arrived. Called by prog_main. */
int out_close(void);

#endif
