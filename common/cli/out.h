/* out.h - records on standard output: JSON Lines for programs, tables and cards for people.
 *
 * One thread at a time. Uses json, table, human, buf, err. */
#ifndef RNP_COMMON_CLI_OUT_H
#define RNP_COMMON_CLI_OUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* How records are shown to people. All texts are borrowed. */
struct out_form {
	bool people; /* readable by people; else JSON Lines */
	bool card;   /* a line per field, for commands with a single answer */
	/* For a table: comma-separated paths into a record, each with its heading unless that
	 * is the field's name: "node,gpus.0.model=GPU". "median|low|high=figure" shows a
	 * figure with its interval. Further tables of other kinds follow a ';':
	 * "step,loss;rnp.plan:tokens,bytes;rnp.run:", and one without columns is a card a record,
	 * as are kinds that are not named; the first such kind has the table without a name.
	 * NULL: the plain fields of the first record of each kind. "+suite,test": each suite has
	 * a table of its own. Columns that no row has a value for are left out; a later row that
	 * has one begins the table again. */
	const char *columns;
	bool colour;
};

/* Whether standard output is a terminal that people look at, and whether colours are wanted:
 * when is "auto", "always" or "never" (NULL: auto); NO_COLOR and TERM=dumb turn auto off. */
bool out_is_terminal(void);
bool out_wants_colour(const char *when, int fd);

/* Set by prog_main before the subcommand runs. */
void out_use(const struct out_form *form);

/* Sets other columns than the subcommand's usual ones, in a table; call it before the first
 * record. */
void out_columns(const char *columns);

/* Whether the output is for people: a command may then write its own text instead of records. */
bool out_for_people(void);

/* Returns the width of that output in characters; 0: no limit. */
size_t out_width(void);

/* Writes one record as a line and flushes it. For people, the first rows are held for 150 ms,
 * to find the columns' widths; if it is not a terminal, until out_close. Returns 0, or -1 with
 * err_set(EX_IOERR). */
int out_record(const json_t *record);

/* Write plain text, or lines that are already JSON; flushed by out_flush or out_close. For
 * people, out_lines parses them back into records. ctx is unused: the signature is that of
 * lines_sink. */
int out_text(const char *data, size_t len);
int out_lines(void *ctx, const char *data, size_t len);
int out_flush(void);

/* Whether the reader of a pipe has closed it: the command then ends without a message. */
bool out_reader_left(void);

/* From now on a thread of its own asks stops() again and again, which may take a second to answer.
 * Once it has said yes, standard output or standard error that takes nothing for five seconds
 * (nobody reads the pipe, a terminal was stopped) ends the process at once with EX_IOERR, and one
 * line where standard error takes it. For programs whose state survives a kill: their end would
 * wait for a reader. Returns 0, or -1 with err_set(EX_OSERR). */
int out_end_where_blocked(bool (*stops)(void));

/* Prints held rows, flushes, and checks that everything was written. Called by prog_main. */
int out_close(void);

#endif
