/* files.c - names of a coordinator's files and of its run's arrays, and the clock of its rounds. */
#include "cmd/rnp-train/coordinator/files.h"

#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/base/buf.h"
#include "common/base/clock.h"

int64_t coordinate_now(const struct coordinator *g)
{
	(void)g;
	return clock_mono_ns() / 1000000;
}

char *coordinate_path(const struct coordinator *g, const char *fmt, ...)
{
	struct buf path = BUF_INIT;
	char name[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(name, sizeof name, fmt, args);
	va_end(args);
	buf_addf(&path, "%s/%s", g->dir, name);
	return buf_take(&path);
}

/* As run's checkpoints have it. */
void coordinate_digest(const struct lm_shards *set, char hex[PROTOCOL_HEX])
{
	crypto_generichash_state h;
	unsigned char all[32];

	crypto_generichash_init(&h, NULL, 0, 32);
	for (uint32_t i = 0; i < set->n; i++)
		crypto_generichash_update(&h, set->shards[i].digest, 32);
	crypto_generichash_final(&h, all, 32);
	protocol_hex(hex, all);
}

void coordinate_array_names(const struct coordinator *g,
	const char *names[COORDINATE_ARRAYS])
{
	const struct training *t = &g->run;
	bool dn = t->outer == UPDATE_DN;

	names[THETA] = "theta";
	names[PUBLISHED] = "pub";
	names[V] = dn || t->outer == UPDATE_NESTEROV ? "v" : NULL;
	names[BUFFER] = dn ? "d" : NULL;
	names[LAST] = t->aggregate.kind == AGGREGATE_CCLIP ? "last" : NULL;
	names[PARENT] = g->parent ? "parent" : NULL;
	names[REST] = g->parent ? "rest" : NULL;
}

void coordinate_arrays(const struct coordinator *g,
	const char *names[COORDINATE_ARRAYS + 1])
{
	const char *all[COORDINATE_ARRAYS];
	int n = 0;

	coordinate_array_names(g, all);
	for (int i = 0; i < COORDINATE_ARRAYS; i++)
		if (all[i])
			names[n++] = all[i];
	names[n] = NULL;
}
