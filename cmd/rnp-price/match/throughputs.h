/* throughputs.h - reads how much work each GPU model does for each type of job. Uses jansson. */
#ifndef RNP_PRICE_MATCH_THROUGHPUTS_H
#define RNP_PRICE_MATCH_THROUGHPUTS_H

#include <stddef.h>

#define THROUGHPUTS_BYTES_MAX (64L << 20)

/* Called for each type and model of a file. where: the file's name, for errors. Returns 0, or
 * -1 with err_set(), which ends reading. */
typedef int (*throughputs_fn)(void *ctx, const char *where, const char *type,
	const char *model, double rate);

/* Reads {"TYPE": {"MODEL": NUMBER}}: work in any unit per time in any unit, not negative. Returns
 * 0, or -1: 65 naming type and model, 66, 74, or what fn returned. */
int throughputs_each(const char *path, throughputs_fn fn, void *ctx);
int throughputs_parse(const char *text, size_t len, const char *name, throughputs_fn fn,
	void *ctx);

#endif
