/* value.h - what a template computes with: values whose strings know where each byte came from.
 * For common/lm/template only.
 *
 * All memory belongs to the run's arena and lives until the end of the rendering. Functions
 * that can fail return -1 with err_set(); tpl_fail adds the line. */
#ifndef RNP_COMMON_LM_TEMPLATE_VALUE_H
#define RNP_COMMON_LM_TEMPLATE_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/mem.h"
#include "common/lm/template/ast.h"
#include "common/lm/template/template.h"

enum tpl_kind {
	TPL_UNDEFINED,
	TPL_NONE,
	TPL_BOOL,
	TPL_INT,
	TPL_FLOAT,
	TPL_STRING,
	TPL_LIST,
	TPL_MAP,
	TPL_NAMESPACE, /* a map whose fields can be set */
	TPL_LOOP,
	TPL_FUNCTION, /* i: its number */
	TPL_MACRO
};

struct tpl_value {
	uint8_t kind;
	uint8_t origin; /* enum lm_template_origin, of what is no string */
	union {
		bool b;
		int64_t i;
		double f;
		const struct tpl_string *s;
		struct tpl_list *list;
		struct tpl_map *map;
		struct tpl_loop *loop;
		const struct tpl_macro *macro;
		const char *name; /* of what is undefined; may be NULL */
	};
};

struct tpl_string {
	const char *data; /* not NUL-terminated */
	size_t len;
	const char *from; /* an origin for each byte, or NULL: all are `origin` */
	char origin;
	bool safe; /* Jinja's Markup: what is added to it with + is escaped for HTML */
};

struct tpl_list {
	struct tpl_value *items;
	size_t count, cap;
	bool tuple;
};

struct tpl_pair {
	struct tpl_value key, value;
};

struct tpl_map {
	struct tpl_pair *pairs; /* in the order of insertion */
	size_t count, cap;
};

struct tpl_scope {
	struct tpl_scope *up;
	struct tpl_variable {
		uint32_t name;
		struct tpl_value value;
	} * variables;
	size_t count, cap;
};

struct tpl_macro {
	const struct tpl_node *node; /* NODE_MACRO or NODE_CALLER: list, body */
	struct tpl_scope *scope;     /* where it was defined */
};

struct tpl_loop {
	const struct tpl_value *items;
	size_t index, count;
	struct tpl_value changed; /* what loop.changed() was called with last */
	bool has_changed;
};

struct tpl_args {
	struct tpl_value *positional;
	size_t count;
	struct tpl_keyword {
		uint32_t name;
		struct tpl_value value;
	} * keywords;
	size_t keyword_count;
};

struct tpl_run {
	const struct lm_template *t;
	const struct lm_template_env *env;
	struct arena arena;
	size_t memory;
	int64_t steps;
	unsigned depth, calls;
	int line;
	struct tpl_scope *scope;
	struct lm_template_text *out;
	size_t out_base; /* length of out before this rendering */
};

/* Sets the error with the template's name and line. Returns -1. */
int tpl_fail(struct tpl_run *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Counts work; -1 when there was too much. */
int tpl_steps(struct tpl_run *r, size_t n);
/* Zeroed memory, or NULL with an error when the rendering uses too much. */
void *tpl_alloc(struct tpl_run *r, size_t bytes);

/* --- making values ---------------------------------------------------------------------------- */

struct tpl_value tpl_undefined(const char *name);
struct tpl_value tpl_none(void);
struct tpl_value tpl_bool(bool b);
struct tpl_value tpl_int(int64_t i, int origin);
struct tpl_value tpl_float(double f, int origin);

/* A string of len bytes, which are copied unless borrow. */
int tpl_text(struct tpl_run *r, const char *data, size_t len, int origin, bool borrow,
	struct tpl_value *out);
/* A part of a string, which shares its bytes. */
int tpl_part(struct tpl_run *r, const struct tpl_string *s, size_t begin, size_t end,
	struct tpl_value *out);

/* Strings are built at the end of the output and taken from there. */
size_t tpl_mark(const struct tpl_run *r);
int tpl_emit(struct tpl_run *r, const char *data, size_t len, int origin);
int tpl_emit_string(struct tpl_run *r, const struct tpl_string *s, size_t begin,
	size_t end);
int tpl_take(struct tpl_run *r, size_t mark, struct tpl_value *out);

struct tpl_list *tpl_list_new(struct tpl_run *r, size_t cap); /* NULL with an error */
int tpl_list_push(struct tpl_run *r, struct tpl_list *l, struct tpl_value v);
struct tpl_value tpl_of_list(struct tpl_list *l);
struct tpl_map *tpl_map_new(struct tpl_run *r, size_t cap);
int tpl_map_put(struct tpl_run *r, struct tpl_map *m, struct tpl_value key,
	struct tpl_value v);
/* NULL: no such key, or (with r->steps spent) too much work */
const struct tpl_value *tpl_map_get(struct tpl_run *r, const struct tpl_map *m,
	struct tpl_value key);
const struct tpl_value *tpl_map_get_text(struct tpl_run *r, const struct tpl_map *m,
	const char *key, size_t len);

/* A JSON value; strings stay where they are. trusted: of which origin. */
int tpl_from_json(struct tpl_run *r, const json_t *v, int origin, unsigned depth,
	struct tpl_value *out);

/* --- using values ------------------------------------------------------------------------- */

const char *tpl_kind_name(struct tpl_value v);
bool tpl_true(struct tpl_value v);
/* 1 equal, 0 not, -1 error */
int tpl_equal(struct tpl_run *r, struct tpl_value a, struct tpl_value b);
/* Compares two numbers, strings or lists: *out below 0, 0 or above. */
int tpl_order(struct tpl_run *r, struct tpl_value a, struct tpl_value b, int *out);
/* 1 when item is in container, 0 not, -1 error */
int tpl_contains(struct tpl_run *r, struct tpl_value container, struct tpl_value item);
bool tpl_is_number(struct tpl_value v); /* bool too */
double tpl_number(struct tpl_value v);
bool tpl_is(struct tpl_value v, const char *text); /* a string with this text */
int tpl_origin(struct tpl_value v); /* of the whole; a string of both kinds is input */

/* Appends str(v) to the output; tpl_emit_repr: repr(v). */
int tpl_emit_value(struct tpl_run *r, struct tpl_value v);
int tpl_emit_repr(struct tpl_run *r, struct tpl_value v, unsigned depth);
int tpl_to_string(struct tpl_run *r, struct tpl_value v, const struct tpl_string **out);

/* indent below 0: on one line */
struct tpl_json_style {
	int indent;
	bool ascii, sorted;
	const char *item, *colon; /* separators */
	size_t item_len, colon_len;
};
int tpl_emit_json(struct tpl_run *r, struct tpl_value v,
	const struct tpl_json_style *style, unsigned depth);

/* The items of what can be looped over: a list's, a map's keys, a string's characters. */
int tpl_items(struct tpl_run *r, struct tpl_value v, struct tpl_list **out);
size_t tpl_length(const struct tpl_string *s); /* characters */
size_t tpl_next_char(const struct tpl_string *s,
	size_t at); /* where the next one begins */

/* a.name and a[key]; what is not there is undefined */
int tpl_attribute(struct tpl_run *r, struct tpl_value a, uint32_t name,
	struct tpl_value *out);
int tpl_item(struct tpl_run *r, struct tpl_value a, struct tpl_value key,
	struct tpl_value *out);
int tpl_slice(struct tpl_run *r, struct tpl_value a, const struct tpl_value *bounds,
	struct tpl_value *out);
int tpl_binary(struct tpl_run *r, enum tpl_op op, struct tpl_value a, struct tpl_value b,
	struct tpl_value *out);

/* a < b and its kin: 1, 0, or -1 with an error */
int tpl_compare(struct tpl_run *r, enum tpl_op op, struct tpl_value a,
	struct tpl_value b);

/* --- what templates call ------------------------------------------------------------------ */

/* The argument with this place and name, or NULL. */
const struct tpl_value *tpl_arg(const struct tpl_run *r, const struct tpl_args *a,
	size_t at, const char *name);
int tpl_arg_int(struct tpl_run *r, const struct tpl_args *a, size_t at, const char *name,
	int64_t unless, int64_t *out);

int tpl_filter(struct tpl_run *r, unsigned number, struct tpl_value v,
	const struct tpl_args *a, struct tpl_value *out);
/* 1 yes, 0 no, -1 error */
int tpl_test(struct tpl_run *r, unsigned number, struct tpl_value v,
	const struct tpl_args *a);
int tpl_method(struct tpl_run *r, unsigned number, struct tpl_value on,
	const struct tpl_args *a, struct tpl_value *out);
int tpl_function(struct tpl_run *r, unsigned number, const struct tpl_args *a,
	struct tpl_value *out);
/* The number of a function, or -1. */
int tpl_function_find(const char *name, size_t len);
/* A string trimmed of these characters (NULL: white space). */
int tpl_strip(struct tpl_run *r, const struct tpl_string *s,
	const struct tpl_string *chars, bool left, bool right, struct tpl_value *out);
int tpl_replace(struct tpl_run *r, const struct tpl_string *s,
	const struct tpl_string *from, const struct tpl_string *to, int64_t max,
	struct tpl_value *out);
int tpl_escape(struct tpl_run *r, const struct tpl_string *s, struct tpl_value *out);
enum tpl_case { TPL_UPPER, TPL_LOWER, TPL_CAPITAL, TPL_TITLE };
int tpl_case(struct tpl_run *r, const struct tpl_string *s, enum tpl_case to,
	struct tpl_value *out);

#endif
