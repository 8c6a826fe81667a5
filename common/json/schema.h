/* schema.h - the JSON Schema of every record kind, and validation against it.
 *
 * The schemas are common/json/schema/KIND.json (JSON Schema 2020-12), embedded at build time:
 * the same text is printed by --schema, described by rnp-json(5) and enforced by readers. */
#ifndef RNP_COMMON_JSON_SCHEMA_H
#define RNP_COMMON_JSON_SCHEMA_H

#include <jansson.h>

/* Returns the schema of a kind ("rnp.node") as JSON text, or NULL if the kind is unknown. */
const char *schema_text(const char *kind);

/* Returns all kinds, in alphabetical order, ending with NULL. */
const char *const *schema_kinds(void);

/* Checks a record against the schema of its own kind; kind NULL accepts any that is known. Also
 * refuses an unknown "v". Returns 0, or -1 with EX_DATAERR naming where, the path and the
 * reason ("nodes.jsonl:3: gpus[0].memory_bytes: -1 is less than 0"). Thread-safe. Understands
 * the keywords that our schemas use: type, const, enum, required, properties,
 * additionalProperties, items, minItems, maxItems, minLength, maxLength, minimum, maximum,
 * pattern-free formats "date-time", "rnp-address", "rnp-sha256", "rnp-country", "rnp-hours";
 * anything else is a bug(). */
int schema_check(const json_t *record, const char *where, const char *kind);

#endif
