/* engine.c - what all engines have in common: adoption, lists, and how a pull is told. */
#include "cmd/rnp-register/agent/engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void engine_list_release(struct engine_list *l)
{
	free(l->items);
	*l = (struct engine_list){ 0 };
}

void engine_log_close(struct engine_log *at)
{
	if (at->fd >= 0)
		close(at->fd);
	at->fd = -1;
}

int engine_adopt(struct engine *e, const char *label, const char *value,
	char id[ENGINE_ID_MAX])
{
	struct engine_list list = { 0 };
	int rc = e->ops->probe(e, label, &list);

	for (size_t i = 0; rc == 0 && i < list.n; i++)
		if (strcmp(list.items[i].label, value) == 0) {
			snprintf(id, ENGINE_ID_MAX, "%s", list.items[i].id);
			rc = 1;
		}
	engine_list_release(&list);
	return rc;
}

/* A number of bytes in the unit of `of`, which is named by the caller. */
static double in_unit(int64_t bytes, const char **unit, int64_t of)
{
	static const char *const units[] = { "kB", "MB", "GB", "TB" };
	double v = (double)bytes / 1000;
	size_t i = 0;

	for (; of >= 1000000 && i + 1 < sizeof units / sizeof *units; of /= 1000, i++)
		v /= 1000;
	*unit = units[i];
	return v;
}

void engine_pull_words(struct buf *out, const struct engine_pull *p)
{
	const char *unit, *join = "";
	double all;

	if (p->layers_total) {
		buf_addf(out, "%d of %d layers", p->layers, p->layers_total);
		join = ", ";
	}
	if (p->bytes_total) {
		all = in_unit(p->bytes_total, &unit, p->bytes_total);
		buf_addf(out, "%s%.1f of %.1f %s", join,
			in_unit(p->bytes, &unit, p->bytes_total), all, unit);
		join = ", ";
	} else if (p->bytes) {
		all = in_unit(p->bytes, &unit, p->bytes);
		buf_addf(out, "%s%.1f %s", join, all, unit);
		join = ", ";
	}
	if (p->bytes_per_s) {
		all = in_unit(p->bytes_per_s, &unit, p->bytes_per_s);
		buf_addf(out, "%s%.0f %s/s", join, all, unit);
	}
}
