/* opt.c - parses options. */
#include "common/cli/opt.h"
#include "common/cli/settings.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/address.h"
#include "common/base/amount.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "common/base/suggest.h"
#include "common/cli/human.h"

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
	else if (kind == OPT_PPM)
		amount_text(out, v, &amount_ppm);
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

static int check_url(const struct opt *o, const char *what, const char *text)
{
	if (!o->url || strncasecmp(text, "http://", 7) == 0 ||
		strncasecmp(text, "https://", 8) == 0)
		return 0;
	return err_set(EX_USAGE, "%s: '%.80s' is not an http or https URL (http://HOST)",
		what, text);
}

void opt_list_add(struct opt_list *l, const char *text)
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
		if (check_address(o, what, text) < 0 || check_url(o, what, text) < 0)
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
		opt_list_add(o->to, text);
		return 0;
	case OPT_U64:
		return set_u64(o, what, text);
	case OPT_F64:
		return num_f64(text, what, o->to);
	case OPT_TIME:
		return clock_parse_people(text, what, o->to);
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
		rc = amount_read(text, what, &amount_usd, "", NULL, &v);
		break;
	case OPT_RENDER:
		rc = amount_read(text, what, &amount_render, "", NULL, &v);
		break;
	case OPT_PPM:
		rc = amount_read(text, what, &amount_ppm, "ppm", NULL, &v);
		break;
	default:
		bug("option --%s has no value", o->name);
	}
	if (rc < 0 || in_range(o, what, text, v) < 0 ||
		(o->kind == OPT_PPM && amount_doubt(v, what, &amount_ppm) < 0))
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

static const struct opt_elsewhere *elsewhere;

void opt_use_elsewhere(const struct opt_elsewhere *names)
{
	elsewhere = names;
}

/* Returns what an option of another program is here, or NULL. */
static const char *here(const struct parse *p, const char *name)
{
	for (const struct opt_elsewhere *e = elsewhere; e && e->name; e++) {
		bool is_option = strncmp(e->here, "--", 2) == 0;
		const char *option = e->here + (is_option ? 2 : 0);

		if (strcmp(e->name, name) == 0 &&
			(is_option ? find_in(p->command->opts, option,
					     strcspn(option, " "), 0) != NULL :
				     p->command->args_max == 1))
			return e->here;
	}
	return NULL;
}

static int no_letter(const struct parse *p, char letter)
{
	const char name[] = { '-', letter, '\0' }, *ours = here(p, name);

	return err_set(EX_USAGE, "there is no option %s%s%s", name,
		ours ? "; here it is " : "", ours ? ours : "");
}

static int no_option(const struct parse *p, const char *arg, size_t len)
{
	char name[41];
	struct suggest near = { .wanted = name };

	if (len >= sizeof name)
		len = sizeof name - 1;
	memcpy(name, arg, len);
	name[len] = '\0';
	if (here(p, name))
		return err_set(EX_USAGE, "there is no option --%s; here it is %s", name,
			here(p, name));
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
	if (value && !opt_takes_value(o))
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
			return no_letter(p, *letters);
		if (opt_takes_value(o))
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

/* A command that takes no arguments got one: it may be the value. Of a setting it says who would
 * write it for every day. */
static int lacks(const struct parse *p, const struct opt *o, int nargs)
{
	bool found = nargs == 1 && p->command->args_max == 0;
	char variable[64];

	if (o->setting && !found) {
		settings_variable(o->name, variable, sizeof variable);
		return err_set(EX_USAGE,
			"option --%s %s is required; or set %s, or run rnp-register setup",
			o->name, o->metavar, variable);
	}

	return err_set(EX_USAGE, "option --%s %s is required%s%s%s%.60s%s", o->name,
		o->metavar ? o->metavar : "", found ? "; did you mean --" : "",
		found ? o->name : "", found ? " " : "", found ? p->argv[1] : "",
		found ? "?" : "");
}

static int check_complete(const struct parse *p, int nargs)
{
	const struct command *c = p->command;

	for (int i = 0; c->opts && c->opts[i].kind != OPT_END; i++)
		if (c->opts[i].required && !(p->seen >> i & 1))
			return lacks(p, &c->opts[i], nargs);
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
	if (opt_takes_value(o) != (value != NULL))
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

/* Forgets the value of an option that a setting gave. */
static void forget(const struct opt *o)
{
	if (o->kind == OPT_TEXT)
		*(const char **)o->to = NULL;
	else if (o->kind == OPT_LIST)
		((struct opt_list *)o->to)->n = 0;
	else
		bug("a setting --%s is neither a text nor a list", o->name);
}

int opt_settings_again(const struct command *c)
{
	struct parse p = { .command = c, .seen = last_seen };

	for (const struct opt *o = c->opts; o && o->kind != OPT_END; o++)
		if (o->setting && !opt_given(c, o->name))
			forget(o);
	return apply_settings(&p);
}

bool opt_given(const struct command *c, const char *name)
{
	const struct opt *o = find_in(c->opts, name, strlen(name), 0);

	if (!o)
		bug("there is no option --%s", name);
	return last_seen >> (o - c->opts) & 1;
}

void opt_list_release(struct opt_list *l)
{
	free(l->items);
	*l = (struct opt_list){ 0 };
}
