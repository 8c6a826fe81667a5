/* opt.h - one table per subcommand gives the parser, the usage line, --help and completion.
 *
 * Uses num, err, buf. Prints nothing. */
#ifndef RNP_COMMON_CLI_OPT_H
#define RNP_COMMON_CLI_OPT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"

enum opt_kind {
	OPT_END,      /* the last row of every table */
	OPT_FLAG,     /* bool */
	OPT_COUNT,    /* int, one more each time: -v -v */
	OPT_TEXT,     /* const char * */
	OPT_CHOICE,   /* const char *, one of choices */
	OPT_LIST,     /* struct opt_list, one more each time */
	OPT_I64,      /* int64_t within min and max */
	OPT_U64,      /* uint64_t, at most max where there is one */
	OPT_F64,      /* double */
	OPT_SIZE,     /* int64_t, bytes: "64MiB" */
	OPT_DURATION, /* int64_t, milliseconds: "250ms", a bare number is seconds */
	OPT_TIME,     /* int64_t, milliseconds since 1970: RFC 3339 */
	OPT_USD,      /* int64_t, uusd: "1.90" */
	OPT_RENDER,   /* int64_t, base units: "75000" */
};

struct opt_list {
	const char **items; /* borrowed texts, array freed by opt_list_release */
	int n;
};

struct opt {
	const char *name; /* "registry", without the dashes */
	char letter;      /* 0: none */
	enum opt_kind kind;
	bool required;
	bool setting; /* the environment and config files may give it, see settings.h */
	void *to;     /* where the value goes, by kind; keeps its value when absent */
	const char *metavar; /* "URL"; NULL for flags */
	const char *help;    /* one lower-case phrase; units and default in it */
	int64_t min, max;    /* numbers; max 0 with min >= 0: no upper end */
	const char *choices; /* "a|b|c" */
};

struct command {
	const char *name;      /* "quote" */
	const char *arguments; /* what stands behind the options: "[file ...]", or NULL */
	int args_min, args_max; /* how many; -1: any number */
	const char *summary;    /* one sentence, capital and full stop */
	const char *details;    /* what is read and written; may have several lines */
	const char *columns;    /* of a table, see struct out_form; NULL: plain fields */
	bool card;              /* for people a line per field: a single answer */
	const struct opt *opts; /* NULL: none of its own */
	/* args: what stood behind the options, n of them. Returns an exit code, or
	 * err_report(). */
	int (*run)(int n, char **args);
};

/* Read the options of a command and those common to all (may be NULL) from argv[1..argc).
 * Options end at "--" or mix freely with arguments; "-" is an argument. The arguments are
 * moved to argv[1..] and their number is stored. Returns 0, or -1 with err_set(EX_USAGE). */
int opt_parse(const struct command *c, const struct opt *common, int argc, char **argv,
	int *nargs);

/* Give an option of c the value that a file has for it, unless the last opt_parse met it on the
 * command line. value: NULL for flags; borrowed like an argument. Returns 0, or -1 with
 * err_set(EX_USAGE): there is no such option, or no such value. */
int opt_preset(const struct command *c, const char *name, const char *value);

/* Where opt_parse finds the value of an option that the command line leaves out (the
 * environment, config files): returns it, borrowed, or NULL. Set once by prog_main. */
typedef const char *(*opt_setting_fn)(const char *name);
void opt_use_settings(opt_setting_fn find);

/* Gives an option of c that the command line left out the value of a setting (NULL: none is set, and
 * the option keeps its value), in place of one that another setting gave it. Returns 0, or -1 with
 * err_set(EX_USAGE). */
int opt_setting(const struct command *c, const char *name, const char *value);

/* Whether the last opt_parse met the option of c, or opt_preset set it since. */
bool opt_given(const struct command *c, const char *name);

/* "usage: rnp-price floor --costs F [options] [file]\n": what is required, in lines of under 80
 * columns. */
void opt_usage(struct buf *out, const char *program, const struct command *c);

/* "rnp-price floor --costs F [--explain] [file]\n": all options, for the SYNOPSIS of man pages. */
void opt_synopsis(struct buf *out, const char *program, const struct command *c);

/* The first commands that the program's page has for a subcommand, lines that begin with two blanks;
 * or NULL. */
const char *opt_examples(const char *program, const char *command);

/* The whole --help text in lines of under 80 columns: usage, summary, one row per option in the
 * table's order (the five commonest first), details, and the examples of the man page. */
void opt_help(struct buf *out, const char *program, const struct command *c);

void opt_list_release(struct opt_list *l);

#endif
