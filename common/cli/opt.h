/* opt.h - option tables: one table per subcommand gives the parser, the usage line, --help and
 * completion.
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
	OPT_COUNT,    /* int, incremented each time: -v -v */
	OPT_TEXT,     /* const char * */
	OPT_CHOICE,   /* const char *, one of choices */
	OPT_LIST,     /* struct opt_list, one more item each time */
	OPT_I64,      /* int64_t within min and max */
	OPT_U64,      /* uint64_t, at most max if it is set */
	OPT_F64,      /* double */
	OPT_SIZE,     /* int64_t, bytes: "64MiB" */
	OPT_DURATION, /* int64_t, milliseconds: "250ms", a bare number is seconds */
	OPT_TIME,     /* int64_t, milliseconds since 1970: RFC 3339, "today", "-7d" */
	OPT_USD,      /* int64_t, uusd: "1.90", "1.90 USD", "190 ct" */
	OPT_RENDER,   /* int64_t, base units: "75000" */
	OPT_PPM,      /* int64_t, millionths: "20000" or "2%" */
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
	void *to;     /* destination of the value, by kind; unchanged if absent */
	const char *metavar; /* "URL"; NULL for flags */
	const char *help;    /* one lower-case phrase; units and default in it */
	int64_t min, max;    /* numbers; max 0 with min >= 0: no upper end */
	const char *choices; /* "a|b|c", of a choice or of each item of a list */
	/* "a|b|c", what a text may be beside a path: for shells to offer */
	const char *words;
	bool url;     /* the text is an http or https URL */
	bool address; /* the text, or each item of a list, is an address (address.h) */
};

/* A row of a table: kind without its OPT_, name, destination, metavar and help; then what else is
 * set, as in `.required = true`. OPT_IN has the least and the greatest number before the help;
 * OPT_SWITCH is a flag. */
#define OPT(kind_, name_, to_, metavar_, help_, ...)                                \
	{                                                                           \
		.name = name_, .kind = OPT_##kind_, .to = to_, .metavar = metavar_, \
		.help = help_, ##__VA_ARGS__                                        \
	}
#define OPT_IN(kind_, name_, to_, metavar_, min_, max_, help_, ...) \
	OPT(kind_, name_, to_, metavar_, help_, .min = min_, .max = max_, ##__VA_ARGS__)
#define OPT_SWITCH(name_, to_, help_, ...) \
	OPT(FLAG, name_, to_, NULL, help_, ##__VA_ARGS__)

static inline bool opt_takes_value(const struct opt *o)
{
	return o->kind != OPT_FLAG && o->kind != OPT_COUNT;
}

struct command {
	const char *name; /* "quote" */
	/* the arguments after the options: "[file ...]", or NULL */
	const char *arguments;
	int args_min, args_max; /* how many; -1: any number */
	const char *summary;    /* one sentence, capital and full stop */
	const char *details;    /* what is read and written; may have several lines */
	const char *columns;    /* of a table, see struct out_form; NULL: plain fields */
	bool card;              /* for people a line per field: a single answer */
	/* whom it is for, where a program serves several: the overview has a heading for each run
	 * of commands of one group. NULL: none */
	const char *group;
	const char *example;    /* a file that people write, see OPT_EXAMPLE; or NULL */
	const struct opt *opts; /* NULL: none of its own */
	/* args: the n arguments. Returns an exit code, or err_report(). */
	int (*run)(int n, char **args);
};

/* What other programs call an option, "port" or "-m", and what it is here: "--listen HOST:PORT", or
 * words for what is the one argument of a command. */
struct opt_elsewhere {
	const char *name, *here;
};

/* Sets what is answered to such names where the command has the option; ends with a row of NULL.
 * NULL: nothing is. */
void opt_use_elsewhere(const struct opt_elsewhere *names);

/* Reads the options of a command and those common to all (may be NULL) from argv[1..argc).
 * Options end at "--" or mix freely with arguments; "-" is an argument. The arguments are moved
 * to argv[1..] and their number is stored. Returns 0, or -1 with err_set(EX_USAGE). */
int opt_parse(const struct command *c, const struct opt *common, int argc, char **argv,
	int *nargs);

/* Sets an option of c to the value from a file, unless the last opt_parse met it on the command
 * line. value: NULL for flags; borrowed like an argument. Returns 0, or -1 with
 * err_set(EX_USAGE): unknown option, or invalid value. */
int opt_preset(const struct command *c, const char *name, const char *value);

/* Looks up the value of an option that is not on the command line (in the environment or config
 * files): returns it, borrowed, or NULL. Set once by prog_main. */
typedef const char *(*opt_setting_fn)(const char *name);
void opt_use_settings(opt_setting_fn find);

/* Looks up the settings again, after another source of them was opened: each option of c that may
 * be one and is not on the command line gets its new value, and is as if never given where there is
 * none any more (a text NULL, a list empty). The values of before stay readable. Returns 0, or -1
 * with err_set(EX_USAGE). */
int opt_settings_again(const struct command *c);

/* Whether the last opt_parse met the option of c, or opt_preset set it since. */
bool opt_given(const struct command *c, const char *name);

/* Appends "usage: rnp-price floor --costs F [options] [file]\n": required options, in lines of
 * under 80 columns. */
void opt_usage(struct buf *out, const char *program, const struct command *c);

/* Appends "rnp-price floor --costs F [--explain] [file]\n": all options, for the SYNOPSIS of
 * man pages. */
void opt_synopsis(struct buf *out, const char *program, const struct command *c);

/* Appends the words of a text to a line of `column` columns, and a newline; further lines have so
 * many blanks before them. Line breaks of the text are blanks, too. */
void opt_wrap(struct buf *out, const char *text, size_t column);

/* The whole --help text in lines of under 80 columns: usage, summary, one row per option in the
 * table's order (the five commonest first), details, and the examples of the man page. */
void opt_help(struct buf *out, const char *program, const struct command *c);

/* Appends the three commands of the man page's EXAMPLES that are marked for it. */
void opt_overview_examples(struct buf *out, const char *program);

void opt_list_add(struct opt_list *l, const char *text); /* text is borrowed */
void opt_list_release(struct opt_list *l);

#endif
