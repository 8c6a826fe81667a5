#include "common/cli/opt.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/money.h"
#include "common/base/num.h"

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

static int in_range(const struct opt *o, const char *what, const char *text, int64_t v)
{
	/* { .min = 1 } alone has no upper end */
	int64_t max = o->max || o->min < 0 ? o->max : INT64_MAX;

	if (v >= o->min && v <= max)
		return 0;
	if (max == INT64_MAX)
		return err_set(EX_USAGE, "%s: %s is less than %lld", what, text,
			(long long)o->min);
	return err_set(EX_USAGE, "%s: %s is not between %lld and %lld", what, text,
		(long long)o->min, (long long)o->max);
}

static int choose(const struct opt *o, const char *what, const char *text)
{
	size_t n = strlen(text);

	for (const char *s = o->choices; *s;) {
		size_t len = strcspn(s, "|");

		if (len == n && memcmp(s, text, n) == 0) {
			*(const char **)o->to = text;
			return 0;
		}
		s += len + (s[len] == '|');
	}
	return err_set(EX_USAGE, "%s: '%.40s' is not one of %s", what, text, o->choices);
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
		*(const char **)o->to = text;
		return 0;
	case OPT_CHOICE:
		return choose(o, what, text);
	case OPT_LIST:
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

/* one parse: where it stands in argv, and which required options were seen */
struct parse {
	const struct command *command;
	const struct opt *common;
	int argc, at;
	char **argv;
	uint64_t seen;
};

/* options of its own that the last opt_parse met, by their place in the table */
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

static int parse_long(struct parse *p, const char *arg)
{
	size_t n = strcspn(arg, "=");
	const char *value = arg[n] == '=' ? arg + n + 1 : NULL;
	const struct opt *o = find_in(p->command->opts, arg, n, 0);

	if (!o)
		o = find_in(p->common, arg, n, 0);
	if (!o)
		return err_set(EX_USAGE, "there is no option --%.*s",
			(int)(n > 40 ? 40 : n), arg);
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
	return check_complete(&p, *nargs);
}

int opt_preset(const struct command *c, const char *name, const char *value)
{
	const struct opt *o = find_in(c->opts, name, strlen(name), 0);
	struct parse p = { .command = c };

	if (!o || takes_value(o) != (value != NULL))
		return err_set(EX_USAGE,
			!o            ? "there is no option '%.40s'" :
				value ? "'%.40s' is true or false" :
					"'%.40s' needs a value",
			name);
	if (last_seen >> (o - c->opts) & 1)
		return 0;
	if (apply(&p, o, value) < 0)
		return -1;
	last_seen |= p.seen;
	return 0;
}

bool opt_given(const struct command *c, const char *name)
{
	const struct opt *o = find_in(c->opts, name, strlen(name), 0);

	if (!o)
		bug("there is no option --%s", name);
	return last_seen >> (o - c->opts) & 1;
}

static void usage_option(struct buf *out, const struct opt *o)
{
	buf_addf(out, o->required ? " --%s" : " [--%s", o->name);
	if (takes_value(o))
		buf_addf(out, " %s", o->choices ? o->choices : o->metavar);
	if (!o->required)
		buf_addc(out, ']');
	if (o->kind == OPT_LIST || o->kind == OPT_COUNT)
		buf_adds(out, "...");
}

void opt_usage(struct buf *out, const char *program, const struct command *c)
{
	buf_addf(out, "usage: %s %s", program, c->name);
	for (const struct opt *o = c->opts; o && o->kind != OPT_END; o++)
		if (o->required)
			usage_option(out, o);
	for (const struct opt *o = c->opts; o && o->kind != OPT_END; o++)
		if (!o->required)
			usage_option(out, o);
	if (c->arguments)
		buf_addf(out, " %s", c->arguments);
	buf_addc(out, '\n');
}

static void option_label(struct buf *out, const struct opt *o)
{
	buf_reset(out);
	if (o->letter)
		buf_addf(out, "-%c, ", o->letter);
	buf_addf(out, "--%s", o->name);
	if (takes_value(o))
		buf_addf(out, " %s", o->choices ? o->choices : o->metavar);
}

void opt_help(struct buf *out, const char *program, const struct command *c)
{
	struct buf label = BUF_INIT;
	size_t width = 0;

	opt_usage(out, program, c);
	buf_addf(out, "\n%s\n", c->summary);
	for (const struct opt *o = c->opts; o && o->kind != OPT_END; o++) {
		option_label(&label, o);
		if (label.len > width && label.len <= 30)
			width = label.len;
	}
	for (const struct opt *o = c->opts; o && o->kind != OPT_END; o++) {
		option_label(&label, o);
		buf_adds(out, o == c->opts ? "\n" : "");
		if (label.len > width)
			buf_addf(out, "  %s\n  %*s  %s\n", label.data, (int)width, "",
				o->help);
		else
			buf_addf(out, "  %-*s  %s\n", (int)width, label.data, o->help);
	}
	if (c->details)
		buf_addf(out, "\n%s\n", c->details);
	buf_addf(out, "\nSee %s(1).\n", program);
	buf_release(&label);
}

void opt_list_release(struct opt_list *l)
{
	free(l->items);
	*l = (struct opt_list){ 0 };
}
