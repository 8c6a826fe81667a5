/* yaml_tree.h - a YAML file as a tree, each value with its line and column; for files that a person
 * writes.
 *
 * Read by libyaml's events. Refused, with the place: what makes a file mean more than it shows
 * (anchors, aliases, merge keys, tags other than the core schema's), duplicate fields, several
 * documents, and more than the limits. Where YAML 1.1 (PyYAML's safe_load, so SkyPilot) and YAML
 * 1.2's core schema read a plain word differently, as in yes, 0644 or 12:30, the value says so: its
 * reader takes it as nothing but what both mean. JSON is read as the YAML that it is. Uses jansson,
 * libyaml, err, mem. */
#ifndef RNP_REGISTER_CUSTOMER_YAML_TREE_H
#define RNP_REGISTER_CUSTOMER_YAML_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/mem.h"

#define YAML_BYTES_MAX  ((size_t)1 << 20)
#define YAML_DEPTH_MAX  32
#define YAML_VALUES_MAX 8192

enum yaml_type {
	YAML_NULL,
	YAML_BOOL,
	YAML_INT,
	YAML_REAL,
	YAML_TEXT,
	YAML_LIST,
	YAML_MAP
};

struct yaml {
	enum yaml_type type;
	int line, column; /* from 1; 0: not known */
	/* as written, without quotes, terminated; of a list or map NULL */
	const char *text;
	/* why readers do not agree on what it is ("a number to some readers, ..."), or NULL. Its
	 * type is then TEXT. */
	const char *doubt;
	bool yes;      /* of a BOOL */
	int64_t whole; /* of an INT */
	/* of a value in a map: its field's name, and where that stands */
	const char *key;
	int key_line, key_column;
	struct yaml *first, *next; /* items of a list or map in the file's order */
};

/* Reads one document, which must be a map, from len bytes with a NUL behind them. The tree lives in
 * the arena. where names the file. Returns NULL with err_set(EX_DATAERR): one line,
 * "job.yaml:3:5: ..." with what to write instead. */
struct yaml *yaml_read(struct arena *a, const char *text, size_t len, const char *where);

/* The value of a field of a map, or NULL. A field that is null is there. */
struct yaml *yaml_get(const struct yaml *map, const char *key);

/* How many items a list or map has. */
size_t yaml_count(const struct yaml *list);

/* Gives a scalar of plain text its type by both versions of YAML: type, doubt, yes and whole.
 * Pure. */
void yaml_resolve(struct yaml *v);

/* The place of a value that may be NULL, as "job.yaml:3:5" in `out`. Returns out. */
const char *yaml_place(char *out, size_t size, const char *where, const struct yaml *v);

#endif
