/* opt.c - parses options, and prints what there is of them: usage lines, help, the SYNOPSIS of man
 * pages. */
#include "common/cli/opt.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/money.h"
#include "common/base/num.h"
#include "common/base/suggest.h"
#include "common/cli/human.h"

static bool takes_value(const struct opt *o)
{
	return o->kind != OPT_FLAG && o->kind != OPT_COUNT;
}

static const struct opt *find_in(const struct opt *o, const char *name, size_t len,
	char letter)
{
	for (; o && o->kind != OPT_END; o++)
		if (letter ? o->letter == letter :
			     strlen(o->name) == len && memcmp(o->name, name, len) == 0)
			return o;
	return NULL;
}

/* Formats a limit in the unit of its option. */
static void add_limit(struct buf *out, enum opt_kind kind, int64_t v)
{
	if (kind == OPT_DURATION)
		human_duration(out, (double)v / 1e3);
	else if (kind == OPT_SIZE)
		human_bytes(out, (double)v);
	else if (kind == OPT_USD)
		human_usd(out, v);
	else
		buf_add_i64(out, v);
}

static int in_range(const struct opt *o, const char *what, const char *text, int64_t v)
{
	/* { .min = 1 } alone has no upper end */
	int64_t max = o->max || o->min < 0 ? o->max : INT64_MAX;
	struct buf limit = BUF_INIT;

	if (v >= o->min && v <= max)
		return 0;
	add_limit(&limit, o->kind, v < o->min ? o->min : max);
	err_set(EX_USAGE, "%s: %s is %s %s", what, text, v < o->min ? "below" : "above",
		limit.data);
	buf_release(&limit);
	return -1;
}

/* Whether text is one of the choices. */
static int check_choice(const struct opt *o, const char *what, const char *text)
{
	struct suggest near = { .wanted = text };
	size_t n = strlen(text);
	char words[100];

	for (const char *s = o->choices; *s;) {
		size_t len = strcspn(s, "|");

		if (len == n && memcmp(s, text, n) == 0)
			return 0;
		s += len + (s[len] == '|');
	}
	suggest_choices(&near, o->choices);
	return err_set(EX_USAGE, "%s: '%.40s' is not one of %s%s", what, text, o->choices,
		suggest_text(&near, words, sizeof words));
}

static int check_address(const struct opt *o, const char *what, const char *text)
{
	unsigned char bytes[ADDRESS_BYTES];

	return o->address ? address_parse(text, what, bytes) : 0;
}

static void append(struct opt_list *l, const char *text)
{
	l->items = xrealloc(l->items, (size_t)(l->n + 1) * sizeof *l->items);
	l->items[l->n++] = text;
}

static int set_u64(const struct opt *o, const char *what, const char *text)
{
	uint64_t v;

	if (num_u64(text, what, &v) < 0)
		return -1;
	if (o->max && v > (uint64_t)o->max)
		return err_set(EX_USAGE, "%s: %s is more than %lld", what, text,
			(long long)o->max);
	*(uint64_t *)o->to = v;
	return 0;
}

static int set_value(const struct opt *o, const char *text)
{
	char what[64];
	int64_t v = 0;
	int rc = 0;

	what[0] = what[1] = '-';
	strncpy(what + 2, o->name, sizeof what - 3);
	what[sizeof what - 1] = '\0';
	switch (o->kind) {
	case OPT_TEXT:
		if (check_address(o, what, text) < 0)
			return -1;
		*(const char **)o->to = text;
		return 0;
	case OPT_CHOICE:
		if (check_choice(o, what, text) < 0)
			return -1;
		*(const char **)o->to = text;
		return 0;
	case OPT_LIST:
		if (o->choices && check_choice(o, what, text) < 0)
			return -1;
		if (check_address(o, what, text) < 0)
			return -1;
		append(o->to, text);
		return 0;
	case OPT_U64:
		return set_u64(o, what, text);
	case OPT_F64:
		return num_f64(text, what, o->to);
	case OPT_TIME:
		return clock_parse(text, what, o->to);
	case OPT_I64:
		rc = num_i64(text, what, INT64_MIN, INT64_MAX, &v);
		break;
	case OPT_SIZE:
		rc = num_size(text, what, &v);
		break;
	case OPT_DURATION:
		rc = num_duration_ms(text, what, &v);
		break;
	case OPT_USD:
		rc = num_decimal(text, what, MONEY_USD_DECIMALS, 0, &v);
		break;
	case OPT_RENDER:
		rc = num_decimal(text, what, MONEY_RENDER_DECIMALS, 0, &v);
		break;
	default:
		bug("option --%s has no value", o->name);
	}
	if (rc < 0 || in_range(o, what, text, v) < 0)
		return -1;
	*(int64_t *)o->to = v;
	return 0;
}

/* state of a parse: the position in argv, and which required options were seen */
struct parse {
	const struct command *command;
	const struct opt *common;
	int argc, at;
	char **argv;
	uint64_t seen;
};

/* which options of the command the last opt_parse met, by their index in the table */
static uint64_t last_seen;

static int apply(struct parse *p, const struct opt *o, const char *value)
{
	const struct opt *own = p->command->opts;

	if (o->kind == OPT_FLAG) {
		*(bool *)o->to = true;
	} else if (o->kind == OPT_COUNT) {
		++*(int *)o->to;
	} else {
		if (!value) {
			if (p->at + 1 >= p->argc)
				return err_set(EX_USAGE, "option --%s needs a value (%s)",
					o->name, o->metavar);
			value = p->argv[++p->at];
		}
		if (set_value(o, value) < 0) {
			struct err e;

			err_save(&e);
			e.code = EX_USAGE;
			return err_restore(&e);
		}
	}
	for (int i = 0; own && own[i].kind != OPT_END && i < 64; i++)
		if (o == own + i)
			p->seen |= UINT64_C(1) << i;
	return 0;
}

static int no_option(const struct parse *p, const char *arg, size_t len)
{
	char name[41];
	struct suggest near = { .wanted = name };

	if (len >= sizeof name)
		len = sizeof name - 1;
	memcpy(name, arg, len);
	name[len] = '\0';
	for (const struct opt *o = p->command->opts; o && o->kind != OPT_END; o++)
		suggest_offer(&near, o->name, strlen(o->name));
	for (const struct opt *o = p->common; o && o->kind != OPT_END; o++)
		suggest_offer(&near, o->name, strlen(o->name));
	return err_set(EX_USAGE, "there is no option --%s%s%s%s", name,
		near.best[0] ? "; did you mean --" : "", near.best,
		near.best[0] ? "?" : "");
}

static int parse_long(struct parse *p, const char *arg)
{
	size_t n = strcspn(arg, "=");
	const char *value = arg[n] == '=' ? arg + n + 1 : NULL;
	const struct opt *o = find_in(p->command->opts, arg, n, 0);

	if (!o)
		o = find_in(p->common, arg, n, 0);
	if (!o)
		return no_option(p, arg, n);
	if (value && !takes_value(o))
		return err_set(EX_USAGE, "option --%s takes no value", o->name);
	return apply(p, o, value);
}

static int parse_letters(struct parse *p, const char *letters)
{
	for (; *letters; letters++) {
		const struct opt *o = find_in(p->command->opts, NULL, 0, *letters);

		if (!o)
			o = find_in(p->common, NULL, 0, *letters);
		if (!o)
			return err_set(EX_USAGE, "there is no option -%c", *letters);
		if (takes_value(o))
			return apply(p, o, letters[1] ? letters + 1 : NULL);
		if (apply(p, o, NULL) < 0)
			return -1;
	}
	return 0;
}

static opt_setting_fn find_setting;

void opt_use_settings(opt_setting_fn find)
{
	find_setting = find;
}

/* The items of lists from settings; lists borrow them until the next parse. */
static char *list_items[16];
static int nlist_items;

/* A setting gives a list in one line, "country=DE; region=Saxony". */
static int apply_list(struct parse *p, const struct opt *o, const char *value)
{
	while (*value) {
		size_t len = strcspn(value, ";"), from = strspn(value, " \t"), to = len;

		while (to > from && strchr(" \t", value[to - 1]))
			to--;
		if (to > from) {
			if (nlist_items == (int)(sizeof list_items / sizeof *list_items))
				return err_set(EX_USAGE, "setting %s: more than %d items",
					o->name, nlist_items);
			list_items[nlist_items] = xstrndup(value + from, to - from);
			if (apply(p, o, list_items[nlist_items++]) < 0)
				return -1;
		}
		value += len + (value[len] == ';');
	}
	return 0;
}

/* Applies values from the environment and config files to options that were not given. */
static int apply_settings(struct parse *p)
{
	const struct opt *own = p->command->opts;

	while (nlist_items)
		free(list_items[--nlist_items]);
	for (int i = 0; find_setting && own && own[i].kind != OPT_END && i < 64; i++) {
		const char *value;
		int rc = 0;

		if (!own[i].setting || p->seen >> i & 1)
			continue;
		value = find_setting(own[i].name);
		if (value)
			rc = own[i].kind == OPT_LIST ? apply_list(p, &own[i], value) :
						       apply(p, &own[i], value);
		if (rc < 0)
			return -1;
	}
	return 0;
}

static int check_complete(const struct parse *p, int nargs)
{
	const struct command *c = p->command;

	for (int i = 0; c->opts && c->opts[i].kind != OPT_END; i++)
		if (c->opts[i].required && !(p->seen >> i & 1))
			return err_set(EX_USAGE, "option --%s %s is required",
				c->opts[i].name,
				c->opts[i].metavar ? c->opts[i].metavar : "");
	if (nargs < c->args_min)
		return err_set(EX_USAGE, "%s is missing", c->arguments);
	if (c->args_max >= 0 && nargs > c->args_max)
		return err_set(EX_USAGE, "unexpected argument '%.60s'",
			p->argv[c->args_max + 1]);
	return 0;
}

int opt_parse(const struct command *c, const struct opt *common, int argc, char **argv,
	int *nargs)
{
	struct parse p = { .command = c, .common = common, .argc = argc, .argv = argv };
	bool options = true;

	*nargs = 0;
	for (p.at = 1; p.at < argc; p.at++) {
		char *arg = argv[p.at];
		int rc = 0;

		if (options && strcmp(arg, "--") == 0)
			options = false;
		else if (options && strncmp(arg, "--", 2) == 0)
			rc = parse_long(&p, arg + 2);
		else if (options && arg[0] == '-' && arg[1])
			rc = parse_letters(&p, arg + 1);
		else
			argv[++*nargs] = arg;
		if (rc < 0)
			return -1;
	}
	last_seen = p.seen;
	if (apply_settings(&p) < 0)
		return -1;
	return check_complete(&p, *nargs);
}

int opt_preset(const struct command *c, const char *name, const char *value)
{
	const struct opt *o = find_in(c->opts, name, strlen(name), 0);
	struct parse p = { .command = c };

	if (!o) {
		struct suggest near = { .wanted = name };
		char words[100];

		for (o = c->opts; o && o->kind != OPT_END; o++)
			suggest_offer(&near, o->name, strlen(o->name));
		return err_set(EX_USAGE, "there is no option '%.40s'%s", name,
			suggest_text(&near, words, sizeof words));
	}
	if (takes_value(o) != (value != NULL))
		return err_set(EX_USAGE,
			value ? "'%.40s' is true or false" : "'%.40s' needs a value",
			name);
	if (last_seen >> (o - c->opts) & 1)
		return 0;
	if (apply(&p, o, value) < 0)
		return -1;
	last_seen |= p.seen;
	return 0;
}

int opt_setting(const struct command *c, const char *name, const char *value)
{
	const struct opt *o = find_in(c->opts, name, strlen(name), 0);
	struct parse p = { .command = c };

	if (!value || opt_given(c, name))
		return 0;
	if (o->kind != OPT_LIST)
		return apply(&p, o, value);
	((struct opt_list *)o->to)->n = 0;
	return apply_list(&p, o, value);
}

bool opt_given(const struct command *c, const char *name)
{
	const struct opt *o = find_in(c->opts, name, strlen(name), 0);

	if (!o)
		bug("there is no option --%s", name);
	return last_seen >> (o - c->opts) & 1;
}

static void synopsis_option(struct buf *out, const struct opt *o)
{
	buf_addf(out, o->required ? " --%s" : " [--%s", o->name);
	if (takes_value(o))
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
		if (takes_value(o))
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
	if (takes_value(o))
		buf_addc(out, ' ');
	if (takes_value(o) && o->choices)
		add_choices(out, o->choices);
	else if (takes_value(o))
		buf_adds(out, o->metavar);
}

/* The commands of the man page's EXAMPLES by "PROGRAM SUBCOMMAND", see scripts/examples. */
extern const char *const examples_embedded_kinds[], *const examples_embedded_texts[];

const char *opt_examples(const char *program, const char *command)
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

void opt_list_release(struct opt_list *l)
{
	free(l->items);
	*l = (struct opt_list){ 0 };
}
