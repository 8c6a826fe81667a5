/* picture.h - draws what `run` measured as one SVG file: bars for each suite, and a roofline.
 * Uses plot. */
#ifndef RNP_BENCH_FIGURES_PICTURE_H
#define RNP_BENCH_FIGURES_PICTURE_H

#include <jansson.h>

#include "common/base/buf.h"

/* Draws the file. records: an array of rnp.bench. Returns 0, or -1 with err_set (73, 74, 77). */
int picture_save(const json_t *records, const char *path);

/* Appends the same picture as an <svg> element of a page. */
void picture_write(struct buf *out, const json_t *records, const char *title);

#endif
