/* opt_help.c - prints what there is of options: usage lines, help, the SYNOPSIS of man pages. */
#include "common/cli/opt.h"

#include <string.h>

static void synopsis_option(struct buf *out, const struct opt *o)
{
	buf_addf(out, o->required ? " --%s" : " [--%s", o->name);
	if (opt_takes_value(o))
		buf_addf(out, " %s", o->choices ? o->choices : o->metavar);
	if (!o->required)
		buf_addc(out, ']');
	if (o->kind == OPT_LIST || o->kind == OPT_COUNT)
		buf_adds(out, "...");
}

void opt_synopsis(struct buf *out, const char *program, const struct command *c)
{
	buf_addf(out, "%s %s", program, c->name);
	for (const struct opt *o = c->opts; o && o->kind != OPT_END; o++)
		if (o->required)
			synopsis_option(out, o);
	for (const struct opt *o = c->opts; o && o->kind != OPT_END; o++)
		if (!o->required)
			synopsis_option(out, o);
	if (c->arguments)
		buf_addf(out, " %s", c->arguments);
	buf_addc(out, '\n');
}

/* Appends one word of a usage line; a line that would reach 80 columns is continued below. */
static void usage_word(struct buf *out, size_t *column, const char *word)
{
	size_t n = strlen(word);

	if (*column + 1 + n >= 80) {
		buf_adds(out, "\n      ");
		*column = 6;
	}
	buf_addf(out, " %s", word);
	*column += 1 + n;
}

void opt_usage(struct buf *out, const char *program, const struct command *c)
{
	struct buf word = BUF_INIT;
	size_t begin = out->len, column;
	bool optional = false;

	buf_addf(out, "usage: %s %s", program, c->name);
	column = out->len - begin;
	for (const struct opt *o = c->opts; o && o->kind != OPT_END; o++) {
		optional |= !o->required;
		if (!o->required)
			continue;
		buf_reset(&word);
		buf_addf(&word, "--%s", o->name);
		if (opt_takes_value(o))
			buf_addf(&word, " %s", o->choices ? o->choices : o->metavar);
		buf_adds(&word, o->kind == OPT_LIST ? "..." : "");
		usage_word(out, &column, word.data);
	}
	if (optional)
		usage_word(out, &column, "[options]");
	if (c->arguments)
		usage_word(out, &column, c->arguments);
	buf_addc(out, '\n');
	buf_release(&word);
}

#define HELP_COLUMNS 79

/* Appends choices, in further lines where they are more than one holds. */
static void add_choices(struct buf *out, const char *choices)
{
	size_t column = out->len + 2; /* labels are indented by two */

	while (*choices) {
		size_t n = strcspn(choices, "|");

		n += choices[n] == '|';
		if (column + n > HELP_COLUMNS) {
			buf_adds(out, "\n        ");
			column = 8;
		}
		buf_add(out, choices, n);
		column += n;
		choices += n;
	}
}

static void option_label(struct buf *out, const struct opt *o)
{
	buf_reset(out);
	if (o->letter)
		buf_addf(out, "-%c, ", o->letter);
	buf_addf(out, "--%s", o->name);
	if (opt_takes_value(o))
		buf_addc(out, ' ');
	if (opt_takes_value(o) && o->choices)
		add_choices(out, o->choices);
	else if (opt_takes_value(o))
		buf_adds(out, o->metavar);
}

/* The commands of the man page's EXAMPLES by "PROGRAM SUBCOMMAND", see scripts/examples. */
extern const char *const examples_embedded_kinds[], *const examples_embedded_texts[];

/* The first commands that the program's page has for a subcommand, lines that begin with two
 * blanks; or NULL. */
static const char *opt_examples(const char *program, const char *command)
{
	size_t n = strlen(program);

	for (int i = 0; examples_embedded_kinds[i]; i++) {
		const char *kind = examples_embedded_kinds[i];

		if (strncmp(kind, program, n) == 0 && kind[n] == ' ' &&
			strcmp(kind + n + 1, command) == 0)
			return examples_embedded_texts[i];
	}
	return NULL;
}

void opt_overview_examples(struct buf *out, const char *program)
{
	for (int i = 0; examples_embedded_kinds[i]; i++)
		if (strcmp(examples_embedded_kinds[i], program) == 0)
			buf_addf(out, "\nExamples:\n\n%s", examples_embedded_texts[i]);
}

/* If there are more options than this, the first few stand apart. */
#define OPTIONS_MANY   8
#define OPTIONS_COMMON 5

void opt_wrap(struct buf *out, const char *text, size_t column)
{
	size_t at = column;

	while (*text) {
		size_t n = strcspn(text, " \n");

		if (at > column && at + 1 + n > HELP_COLUMNS) {
			buf_addf(out, "\n%*s", (int)column, "");
			at = column;
		}
		if (at > column)
			buf_addc(out, ' ');
		buf_add(out, text, n);
		at += n + (at > column);
		text += n;
		text += strspn(text, " \n");
	}
	buf_addc(out, '\n');
}

static void help_options(struct buf *out, const struct opt *opts)
{
	struct buf label = BUF_INIT;
	size_t width = 0;
	int n = 0, at = 0;

	for (const struct opt *o = opts; o && o->kind != OPT_END; o++, n++) {
		option_label(&label, o);
		if (label.len > width && label.len <= 30)
			width = label.len;
	}
	for (const struct opt *o = opts; o && o->kind != OPT_END; o++, at++) {
		option_label(&label, o);
		if (at == 0)
			buf_addc(out, '\n');
		if (at == OPTIONS_COMMON && n > OPTIONS_MANY)
			buf_adds(out, "\nFurther options:\n\n");
		if (label.len > width)
			buf_addf(out, "  %s\n  %*s  ", label.data, (int)width, "");
		else
			buf_addf(out, "  %-*s  ", (int)width, label.data);
		opt_wrap(out, o->help, width + 4);
	}
	buf_release(&label);
}

void opt_help(struct buf *out, const char *program, const struct command *c)
{
	const char *examples = opt_examples(program, c->name);

	opt_usage(out, program, c);
	buf_addf(out, "\n%s\n", c->summary);
	help_options(out, c->opts);
	if (c->details) {
		buf_addc(out, '\n');
		opt_wrap(out, c->details, 0);
	}
	if (examples)
		buf_addf(out, "\nExamples:\n\n%s", examples);
	buf_addf(out, "\nSee %s(1).\n", program);
}
