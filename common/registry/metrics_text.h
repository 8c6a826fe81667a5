/* metrics_text.h - reads Prometheus' text format (exposition format 0.0.4), the form of /metrics,
 * into rnp.metric records. Pure. Uses json, num, utf8. */
#ifndef RNP_COMMON_REGISTRY_METRICS_TEXT_H
#define RNP_COMMON_REGISTRY_METRICS_TEXT_H

#include <jansson.h>
#include <stddef.h>

#define METRICS_LABELS_MAX  32
#define METRICS_BUCKETS_MAX 256

/* Gets one record, borrowed for the call. Returns 0 to continue, or -1 with err_set. */
typedef int (*metrics_fn)(void *ctx, const json_t *record);

/* Calls fn for each sample of a text, in the text's order; a histogram is one record, with p50 and
 * p99 interpolated within their buckets, and without them if nothing was counted. text need not end
 * in NUL. where names it in errors. Returns 0; -1 if fn did; or -1 with err_set(EX_DATAERR): the
 * line that is not of the format. */
int metrics_parse(const char *text, size_t len, const char *where, metrics_fn fn,
	void *ctx);

#endif
