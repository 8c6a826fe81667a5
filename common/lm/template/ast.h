/* ast.h - a parsed template: tokens, nodes, and the functions that make them. For
 * common/lm/template only. */
#ifndef RNP_COMMON_LM_TEMPLATE_AST_H
#define RNP_COMMON_LM_TEMPLATE_AST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/mem.h"

enum tpl_token_kind {
	TOK_END,
	TOK_DATA, /* text outside of tags */
	TOK_NAME,
	TOK_STRING,
	TOK_INT,
	TOK_FLOAT,
	TOK_OP,    /* text has one or two characters */
	TOK_PRINT, /* {{ */
	TOK_PRINT_END,
	TOK_TAG, /* {% */
	TOK_TAG_END
};

struct tpl_token {
	enum tpl_token_kind kind;
	int line;
	const char *text; /* DATA, NAME, OP, and STRING without its escapes */
	size_t len;
	int64_t i;
	double f;
};

enum tpl_node_kind {
	/* expressions */
	NODE_STRING,
	NODE_INT,
	NODE_FLOAT,
	NODE_CONST,  /* i: 0 false, 1 true, 2 none */
	NODE_NAME,   /* name */
	NODE_LIST,   /* list */
	NODE_TUPLE,  /* list */
	NODE_MAP,    /* list of NODE_PAIR: a, b */
	NODE_PAIR,   /* a: b */
	NODE_ATTR,   /* a.name */
	NODE_ITEM,   /* a[b] */
	NODE_SLICE,  /* a[b:c:d], each may be NULL */
	NODE_CALL,   /* a(list), list with NODE_KEYWORD last */
	NODE_FILTER, /* a | builtin(list); a NULL in a filter block */
	NODE_TEST,   /* a is builtin(list) */
	NODE_KEYWORD,
	NODE_NOT,
	NODE_NEGATE,
	NODE_PLUS,
	NODE_BINARY,  /* a op b */
	NODE_COMPARE, /* a, then a list of NODE_COMPARED: op, a */
	NODE_COMPARED,
	NODE_AND,
	NODE_OR,
	NODE_IF_ELSE, /* a if b else c */
	/* statements */
	NODE_DATA,
	NODE_PRINT,    /* a */
	NODE_IF,       /* list of NODE_BRANCH */
	NODE_BRANCH,   /* a (NULL: else), body */
	NODE_FOR,      /* target a, in b, if c, body, otherwise d */
	NODE_SET,      /* target a = b */
	NODE_SET_BODY, /* target a, filters b (innermost a NULL) or NULL, body */
	NODE_MACRO,    /* name, list of NODE_KEYWORD (a may be NULL), body */
	NODE_CALLER,   /* call a with body; list: parameters */
	NODE_FILTERED, /* filters a, body */
	NODE_GROUP,    /* body in a scope of its own, or not: generation */
	NODE_BREAK,
	NODE_CONTINUE
};

enum tpl_op {
	OP_ADD,
	OP_SUB,
	OP_MUL,
	OP_DIV,
	OP_FLOOR_DIV,
	OP_MOD,
	OP_POW,
	OP_CONCAT,
	OP_EQ,
	OP_NE,
	OP_LT,
	OP_LE,
	OP_GT,
	OP_GE,
	OP_IN,
	OP_NOT_IN
};

struct tpl_node {
	uint8_t kind, op;
	uint16_t depth;   /* of the tree below */
	uint16_t builtin; /* number of a filter, test or method */
	int line;
	uint32_t name;                  /* interned */
	struct tpl_node *a, *b, *c, *d; /* as enum tpl_node_kind says */
	struct tpl_node *list, *body;
	struct tpl_node *next; /* of the list that it is in */
	const char *text;
	size_t len;
	int64_t i;
	double f;
};

struct lm_template {
	struct arena arena;
	char *text;        /* line breaks normalised */
	const char *where; /* in the arena */
	struct tpl_token *tokens;
	size_t token_count, tokens_cap;
	struct tpl_node *body;
	/* names, by number; index is a hash table of numbers + 1 */
	const char **names;
	size_t *name_lens;
	size_t name_count, names_cap, lens_cap;
	uint32_t *index;
	uint32_t index_mask;
};

/* Splits t->text into t->tokens. */
int tpl_lex(struct lm_template *t, size_t bytes);

/* Returns the number of a name. */
uint32_t tpl_intern(struct lm_template *t, const char *text, size_t len);
/* The same without adding it: UINT32_MAX when no such name occurs. */
uint32_t tpl_find_name(const struct lm_template *t, const char *text, size_t len);

/* Parsing: the cursor, and what statements need of expressions. */
struct tpl_parser {
	struct lm_template *t;
	size_t at;
	unsigned nesting;
	unsigned loops; /* open for blocks */
};

const struct tpl_token *tpl_peek(const struct tpl_parser *p);
bool tpl_peek_op(const struct tpl_parser *p, const char *op);
bool tpl_peek_name(const struct tpl_parser *p, const char *name);
bool tpl_take_op(struct tpl_parser *p, const char *op);
bool tpl_take_name(struct tpl_parser *p, const char *name);
/* Fails with the line, the expected form, and the word that was found. Returns NULL. */
void *tpl_unexpected(const struct tpl_parser *p, const char *expected);
/* Fails with line and sentence. Returns NULL. */
void *tpl_refuse(const struct tpl_parser *p, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
struct tpl_node *tpl_node(struct tpl_parser *p, enum tpl_node_kind kind);

struct tpl_node *tpl_parse_expression(struct tpl_parser *p);
/* An expression or a tuple of some without brackets; inline_if: with `if` allowed. */
struct tpl_node *tpl_parse_tuple(struct tpl_parser *p, bool inline_if);
struct tpl_node *tpl_parse_target(struct tpl_parser *p, bool attributes);
/* | filter | filter ..., beginning at a filter's name; a: what is filtered, or NULL */
struct tpl_node *tpl_parse_filters(struct tpl_parser *p, struct tpl_node *a);

/* Numbers of what templates may name, or -1. */
int tpl_filter_find(const char *name, size_t len);
int tpl_test_find(const char *name, size_t len);
int tpl_method_find(const char *name, size_t len);

#endif
