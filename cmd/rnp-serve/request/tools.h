/* tools.h - the functions that a request lets the model call. Uses jansson, mem. Pure. */
#ifndef RNP_SERVE_REQUEST_TOOLS_H
#define RNP_SERVE_REQUEST_TOOLS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOOLS_MAX        128
#define TOOLS_NAME_BYTES 64

enum tools_mode {
	TOOLS_OFF,     /* the request has no tools, or forbids calls */
	TOOLS_AUTO,    /* the model decides whether it calls one */
	TOOLS_REQUIRED /* the answer is one call or several */
};

struct tool {
	const char *name; /* borrowed from the request: letters, digits, '_' and '-' */
	/* of its arguments, of an object; null: what was given is no such one, see tool_grammar;
	 * owned */
	json_t *schema;
	bool strict; /* the arguments must keep to it */
};

struct tools {
	struct tool *at; /* those that may be called, sorted by name */
	uint32_t count;
	enum tools_mode mode;
	bool parallel; /* an answer may have several calls */
};

/* What is wrong with a request's tools. */
struct tools_error {
	char where[64]; /* "tools[3].function.name" */
	char what[160]; /* what it must be */
};

/* Reads the `tools` and the `tool_choice` of a chat; either may be NULL. Both are borrowed until
 * release; parameters that are no object become an empty one there. Returns 0, or -1 with e.
 * Release out either way. */
int tools_read(struct tools *out, const json_t *tools, const json_t *choice,
	bool parallel, struct tools_error *e);
void tools_release(struct tools *t);

/* Returns whether a text is the name of a tool that may be called. */
bool tools_have(const struct tools *t, const char *name, size_t len);

/* Whether a byte may be part of a name. */
bool tools_name_byte(char c);

#endif
