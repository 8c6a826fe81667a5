/* cell.h - cells of tables for people. Pure. Uses human, json, buf, mem. */
#ifndef RNP_COMMON_CLI_CELL_H
#define RNP_COMMON_CLI_CELL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Returns the text of the value at a path ("gpus.0.model"; "median|low|high" is a figure with its
 * interval: "80.6 GFLOP/s (66.1 to 144)"), owned by the caller; NULL if the record has no such
 * field. Its unit is named by the record's field "unit", by the path's last name, or by the name
 * before that. now_ms: times are relative to it. */
char *cell_text(const json_t *record, const char *path, int64_t now_ms);

/* Whether the value at a path is absent, or one number: then its column is aligned right. */
bool cell_is_number(const json_t *record, const char *path);

#endif
