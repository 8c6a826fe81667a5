/* yaml_tree.c - from libyaml's events to a tree, and from its complaints to lines that help. */
#include "cmd/rnp-register/customer/yaml_tree.h"

#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "cmd/rnp-register/customer/yaml_json.h"
#include "common/base/err.h"
#include "common/base/utf8.h"

#define TAG "tag:yaml.org,2002:"

struct reader {
	struct arena *arena;
	yaml_parser_t parser;
	const char *where, *text;
	size_t len, values;
	/* open lists and maps; of each its last item, and of a map the field that waits for its
	 * value */
	struct yaml *open[YAML_DEPTH_MAX], *last[YAML_DEPTH_MAX], *field[YAML_DEPTH_MAX];
	int depth;
	struct yaml *root;
	bool ended;
};

static int refuse_at(const struct reader *r, yaml_mark_t at, const char *text)
{
	return err_set(EX_DATAERR, "%s:%zu:%zu: %s", r->where, at.line + 1, at.column + 1,
		text);
}

/* --- libyaml's complaints ----------------------------------------------------------------- */

/* The line of the text that a mark stands in, and how long it is. */
static const char *line_of(const struct reader *r, size_t number, size_t *len)
{
	const char *p = r->text, *end = r->text + r->len, *next;

	for (; number && (next = memchr(p, '\n', (size_t)(end - p))); number--)
		p = next + 1;
	next = memchr(p, '\n', (size_t)(end - p));
	*len = (size_t)((next ? next : end) - p);
	return p;
}

/* Whether the indentation of a line has a tab. */
static bool has_tab(const struct reader *r, size_t number)
{
	size_t len;
	const char *line = line_of(r, number, &len);

	for (size_t i = 0; i < len && (line[i] == ' ' || line[i] == '\t'); i++)
		if (line[i] == '\t')
			return true;
	return false;
}

static const struct {
	const char *problem, *instead; /* one %zu: the line where the context begins */
} complaints[] = {
	{ "mapping values are not allowed",
		"a ':' stands where none can be: put a text that has ': ' in it in quotes, and indent fields as their neighbours" },
	{ "did not find expected key",
		"this is not a field of the block that begins on line %zu: indent it as the lines there, and put a text with quotes, '{' or ': ' in it in quotes" },
	{ "did not find expected '-' indicator",
		"this is no item of the list that begins on line %zu: items begin with '- ' and are indented alike" },
	{ "block sequence entries are not allowed",
		"a list cannot begin here: put its '- ' on a line of its own, indented" },
	{ "could not find expected ':'",
		"a field without its ':': write name: value, and indent the lines of a text below 'name: |'" },
	{ "did not find expected ',' or '}'",
		"the '{' of line %zu is not closed here: ',' or '}' is missing" },
	{ "did not find expected ',' or ']'",
		"the '[' of line %zu is not closed here: ',' or ']' is missing" },
	{ "found unexpected end of stream",
		"the quotes that begin on line %zu are not closed" },
	{ "found unknown escape character",
		"no such escape in a text in \"\": write \\\\ for a backslash, or use ''" },
	{ "found character that cannot start any token",
		"a text cannot begin with this character: put it in quotes" },
	{ "did not find expected <document start>",
		"the file goes on after its end: is this line indented less than the first?" },
	{ "did not find expected comment or line break",
		"after '|' or '>' the text begins on the next line" },
	{ "found undefined tag handle", "tags ('!') are not read here: leave it out" },
	{ "did not find expected alphabetic",
		"anchors and aliases ('&', '*') are not read here: put a text that begins so in quotes" },
	{ "found incompatible YAML document", "only YAML 1.1 and 1.2 are read here" },
};

static const char *remedy_of(const char *problem)
{
	for (size_t i = 0; i < sizeof complaints / sizeof *complaints; i++)
		if (strncmp(problem, complaints[i].problem,
			    strlen(complaints[i].problem)) == 0)
			return complaints[i].instead;
	return NULL;
}

/* What is not UTF-8, or no character of a text. */
static int refuse_bytes(const struct reader *r)
{
	size_t at = r->parser.problem_offset, line = 1, start = 0;

	if (r->len >= 2 &&
		(memcmp(r->text, "\xff\xfe", 2) == 0 ||
			memcmp(r->text, "\xfe\xff", 2) == 0))
		return err_set(EX_DATAERR, "%s: is UTF-16: save it as UTF-8", r->where);
	at = at < r->len ? at : r->len;
	for (size_t i = 0; i < at; i++)
		if (r->text[i] == '\n') {
			line++;
			start = i + 1;
		}
	return err_set(EX_DATAERR, "%s:%zu:%zu: %s", r->where, line,
		utf8_prefix(r->text + start, at - start) + 1,
		utf8_valid(r->text, r->len) ?
			"a control character stands here: in a text in \"\" write it as \\xNN" :
			"this is not UTF-8: save the file as UTF-8");
}

static int refuse_syntax(const struct reader *r)
{
	const yaml_parser_t *p = &r->parser;
	const char *problem = p->problem ? p->problem : "cannot be read", *instead;
	yaml_mark_t at = p->problem_mark;
	char text[400];

	if (p->error == YAML_READER_ERROR)
		return refuse_bytes(r);
	if (p->error == YAML_MEMORY_ERROR)
		return err_set(EX_OSERR, "%s: no memory to read it", r->where);
	if (strstr(problem, " tab ") || has_tab(r, at.line))
		return refuse_at(r, at, "a tab indents this line: YAML wants blanks");
	instead = remedy_of(problem);
	if (strstr(problem, "unexpected end of stream") ||
		strstr(problem, "expected ':'"))
		at = p->context_mark;
	if (instead)
		/* the remedies above take this one argument, or none */
		snprintf(text, sizeof text, instead, p->context_mark.line + 1);
	else
		snprintf(text, sizeof text, "%s: %s", p->context ? p->context : "YAML",
			problem);
	return refuse_at(r, at, text);
}

/* --- values ------------------------------------------------------------------------------- */

static struct yaml *new_value(struct reader *r, yaml_mark_t at)
{
	struct yaml *v = arena_alloc(r->arena, sizeof *v);

	v->line = (int)at.line + 1;
	v->column = (int)at.column + 1;
	return v;
}

/* Puts a value into what is open. */
static int place_value(struct reader *r, struct yaml *v, yaml_mark_t at)
{
	int d = r->depth - 1;

	if (++r->values > YAML_VALUES_MAX)
		return refuse_at(r, at, "more than 8192 values: a job file has fewer");
	if (d < 0) {
		if (v->type != YAML_MAP)
			return refuse_at(r, at,
				"a job file is fields, as in 'run: echo hello'; this is something else");
		r->root = v;
		return 0;
	}
	if (r->field[d]) {
		v->key = r->field[d]->text;
		v->key_line = r->field[d]->line;
		v->key_column = r->field[d]->column;
		r->field[d] = NULL;
	}
	if (r->last[d])
		r->last[d]->next = v;
	else
		r->open[d]->first = v;
	r->last[d] = v;
	return 0;
}

static int refuse_twice(const struct reader *r, const struct yaml *key,
	const struct yaml *before)
{
	return err_set(EX_DATAERR, "%s:%d:%d: '%.80s' is there already, on line %d",
		r->where, key->line, key->column, key->text, before->key_line);
}

/* A scalar where a field's name is due. */
static int place_field(struct reader *r, struct yaml *key)
{
	struct yaml *map = r->open[r->depth - 1], *before;

	if (key->type != YAML_TEXT || key->doubt)
		return err_set(EX_DATAERR,
			"%s:%d:%d: the name of a field is text, and '%.40s' is %s: put it in quotes",
			r->where, key->line, key->column, key->text,
			key->doubt                     ? key->doubt :
				key->type == YAML_NULL ? "nothing" :
				key->type == YAML_BOOL ? "true or false" :
							 "a number");
	before = yaml_get(map, key->text);
	if (before)
		return refuse_twice(r, key, before);
	r->field[r->depth - 1] = key;
	return 0;
}

static bool wants_field(const struct reader *r)
{
	return r->depth && r->open[r->depth - 1]->type == YAML_MAP &&
		!r->field[r->depth - 1];
}

/* Anchors and tags of a value. tag: what is left of it behind the core schema's prefix, or NULL. */
static int check_marks(const struct reader *r, const yaml_event_t *e,
	const yaml_char_t *anchor, const yaml_char_t *full, const char **tag)
{
	*tag = NULL;
	if (anchor)
		return refuse_at(r, e->start_mark,
			"an anchor ('&'): write the value where it is needed, each time; in a text put it in quotes");
	if (!full)
		return 0;
	*tag = (const char *)full + strlen(TAG);
	if (strncmp((const char *)full, TAG, strlen(TAG)) == 0)
		for (const char *p = "str|int|bool|null|float|map|seq"; *p;
			p += strcspn(p, "|"), p += *p == '|')
			if (strlen(*tag) == strcspn(p, "|") &&
				strncmp(p, *tag, strlen(*tag)) == 0)
				return 0;
	return refuse_at(r, e->start_mark,
		"a tag ('!') that is not of YAML's core schema: leave it out; in a text put it in quotes");
}

/* A scalar with a tag has to be what the tag says. */
static int check_tag(const struct reader *r, const yaml_event_t *e, struct yaml *v,
	const char *tag)
{
	enum yaml_type want = *tag == 'i' ? YAML_INT :
		*tag == 'b'               ? YAML_BOOL :
		*tag == 'n'               ? YAML_NULL :
					    YAML_REAL;

	if (strcmp(tag, "str") == 0)
		return 0;
	yaml_resolve(v);
	if (strcmp(tag, "map") == 0 || strcmp(tag, "seq") == 0 || v->type != want)
		return refuse_at(r, e->start_mark, "the value is not what its tag says");
	return 0;
}

static int take_scalar(struct reader *r, const yaml_event_t *e)
{
	struct yaml *v = new_value(r, e->start_mark);
	const char *value = (const char *)e->data.scalar.value, *tag;
	size_t len = e->data.scalar.length;
	char *copy;

	if (check_marks(r, e, e->data.scalar.anchor, e->data.scalar.tag, &tag) < 0)
		return -1;
	if (memchr(value, '\0', len))
		return refuse_at(r, e->start_mark, "a text holds a NUL");
	copy = arena_alloc(r->arena, len + 1);
	memcpy(copy, value, len);
	v->text = copy;
	v->type = YAML_TEXT;
	if (tag && check_tag(r, e, v, tag) < 0)
		return -1;
	if (!tag && e->data.scalar.plain_implicit)
		yaml_resolve(v);
	return wants_field(r) ? place_field(r, v) : place_value(r, v, e->start_mark);
}

static int take_start(struct reader *r, const yaml_event_t *e, enum yaml_type type)
{
	struct yaml *v = new_value(r, e->start_mark);
	bool map = type == YAML_MAP;
	const char *tag;

	v->type = type;
	if (check_marks(r, e,
		    map ? e->data.mapping_start.anchor : e->data.sequence_start.anchor,
		    map ? e->data.mapping_start.tag : e->data.sequence_start.tag,
		    &tag) < 0)
		return -1;
	if (tag && strcmp(tag, map ? "map" : "seq") != 0)
		return refuse_at(r, e->start_mark, "the value is not what its tag says");
	if (wants_field(r))
		return refuse_at(r, e->start_mark,
			"the name of a field is text: put one that begins with '{' or '[' in quotes");
	if (place_value(r, v, e->start_mark) < 0)
		return -1;
	if (r->depth == YAML_DEPTH_MAX)
		return refuse_at(r, e->start_mark, "more than 32 levels deep");
	r->open[r->depth] = v;
	r->last[r->depth] = r->field[r->depth] = NULL;
	r->depth++;
	return 0;
}

static int take_event(struct reader *r, const yaml_event_t *e)
{
	switch (e->type) {
	case YAML_DOCUMENT_START_EVENT:
		if (r->root)
			return refuse_at(r, e->start_mark,
				"a second document begins here: one file is one job, so write two files");
		return 0;
	case YAML_ALIAS_EVENT:
		return refuse_at(r, e->start_mark,
			"an alias ('*'): write the value itself; put a text that begins so in quotes");
	case YAML_SCALAR_EVENT:
		return take_scalar(r, e);
	case YAML_SEQUENCE_START_EVENT:
		return take_start(r, e, YAML_LIST);
	case YAML_MAPPING_START_EVENT:
		return take_start(r, e, YAML_MAP);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		r->depth--;
		return 0;
	case YAML_STREAM_END_EVENT:
		r->ended = true;
		return 0;
	default:
		return 0;
	}
}

static int read_events(struct reader *r)
{
	yaml_event_t event;
	int rc = 0;

	while (!rc && !r->ended) {
		if (!yaml_parser_parse(&r->parser, &event))
			return refuse_syntax(r);
		rc = take_event(r, &event);
		yaml_event_delete(&event);
	}
	if (!rc && !r->root)
		return err_set(EX_DATAERR,
			"%s: is empty: it needs at least 'run: COMMAND'", r->where);
	return rc;
}

struct yaml *yaml_read(struct arena *a, const char *text, size_t len, const char *where)
{
	/* a byte order mark is no column: libyaml would take the first line for indented */
	size_t mark = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
	struct reader r = { .arena = a,
		.where = where,
		.text = text + mark,
		.len = len - mark };
	struct err refused;
	int rc;

	if (len > YAML_BYTES_MAX) {
		err_set(EX_DATAERR,
			"%s: is larger than 1 MiB: data goes into workdir or file_mounts",
			where);
		return NULL;
	}
	if (!yaml_parser_initialize(&r.parser)) {
		err_set(EX_OSERR, "%s: no memory to read it", where);
		return NULL;
	}
	yaml_parser_set_input_string(&r.parser, (const unsigned char *)r.text, r.len);
	yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
	rc = read_events(&r);
	yaml_parser_delete(&r.parser);
	if (rc < 0 && r.text[strspn(r.text, " \t\r\n")] == '{') {
		err_save(&refused);
		r.root = yaml_from_json(a, r.text, r.len);
		if (!r.root)
			err_restore(&refused);
		else
			rc = 0;
	}
	return rc < 0 ? NULL : r.root;
}

/* --- the tree ----------------------------------------------------------------------------- */

struct yaml *yaml_get(const struct yaml *map, const char *key)
{
	struct yaml *v = map && map->type == YAML_MAP ? map->first : NULL;

	while (v && strcmp(v->key, key) != 0)
		v = v->next;
	return v;
}

size_t yaml_count(const struct yaml *list)
{
	size_t n = 0;

	for (const struct yaml *v = list ? list->first : NULL; v; v = v->next)
		n++;
	return n;
}

const char *yaml_place(char *out, size_t size, const char *where, const struct yaml *v)
{
	if (v && v->line)
		snprintf(out, size, "%s:%d:%d", where, v->line, v->column);
	else
		snprintf(out, size, "%s", where);
	return out;
}
