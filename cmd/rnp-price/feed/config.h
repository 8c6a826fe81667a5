/* config.h - the file of feed --config: which markets are asked, and how. Pure; uses
 * feed_run, json. */
#ifndef RNP_PRICE_FEED_CONFIG_H
#define RNP_PRICE_FEED_CONFIG_H

#include <jansson.h>
#include <stddef.h>

#include "cmd/rnp-price/feed/run.h"

#define FEED_CONFIG_BYTES_MAX ((size_t)1 << 20)
#define FEED_CONFIG_MAX       64 /* markets */

/* The texts of the jobs belong to the document. */
struct feed_config {
	json_t *doc;
	struct feed_job jobs[FEED_CONFIG_MAX];
	const char **own[FEED_CONFIG_MAX]; /* their lists of own ids; owned */
	int n;
};

/* Reads a file's text, which is called path in messages. defaults: what holds where an entry is
 * silent. Returns 0, or -1 with EX_DATAERR naming the entry and its field; released in any case. */
int feed_config_parse(struct feed_config *c, const char *text, size_t len,
	const char *path, const struct feed_job *defaults);
void feed_config_release(struct feed_config *c);

/* Returns the name of a job's market in records and messages. */
const char *feed_job_label(const struct feed_job *job);

/* Checks a name that the user gives a market, or NULL. Returns 0, or -1 with the code. */
int feed_name_check(const char *name, const char *where, int code);

#endif
