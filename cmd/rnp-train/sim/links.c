/* links.c - reads kinds of workers from JSON Lines. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-train/sim/sim.h"
#include "common/base/err.h"
#include "common/base/lines.h"
#include "common/base/mem.h"
#include "common/base/suggest.h"
#include "common/json/json.h"

#define CONNECTIONS 4      /* in parallel, per transfer */
#define SEGMENT     1448.0 /* bytes of a TCP segment */
#define BPS_MAX     INT64_C(1000000000000)

static int check_keys(const json_t *o, const char *where)
{
	static const char *const known[] = { "kind", "v", "name", "share", "up_bps",
		"down_bps", "latency_ms", "loss_ppm", "tokens_per_s", "turn_ms", "up_s",
		"away_s" };
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)o, key, value) {
		struct suggest near = { .wanted = key };
		size_t i = 0, n = sizeof known / sizeof *known;
		char words[100];

		for (; i < n && strcmp(known[i], key) != 0; i++)
			suggest_offer(&near, known[i], strlen(known[i]));
		if (i == n)
			return err_set(EX_DATAERR, "%s: a link has no '%.40s'%s", where,
				key, suggest_text(&near, words, sizeof words));
	}
	return 0;
}

static int read_link(struct sim_link *l, const json_t *o, const char *where)
{
	const char *name = "";

	*l = (struct sim_link){ .share = 1, .latency_ms = 20 };
	if (check_keys(o, where) < 0 || json_opt_text(o, where, "name", &name) < 0 ||
		json_opt_f64(o, where, "share", &l->share) < 0 ||
		json_get_i64(o, where, "up_bps", 1, BPS_MAX, &l->up_bps) < 0 ||
		json_get_i64(o, where, "down_bps", 1, BPS_MAX, &l->down_bps) < 0 ||
		json_opt_i64(o, where, "latency_ms", 0, 100000, &l->latency_ms) < 0 ||
		json_opt_i64(o, where, "loss_ppm", 0, 500000, &l->loss_ppm) < 0 ||
		json_get_i64(o, where, "tokens_per_s", 1, INT64_C(1) << 40,
			&l->tokens_per_s) < 0 ||
		json_opt_i64(o, where, "turn_ms", 0, 86400000, &l->turn_ms) < 0 ||
		json_opt_i64(o, where, "up_s", 1, INT64_C(1) << 32, &l->up_s) < 0 ||
		json_opt_i64(o, where, "away_s", 1, INT64_C(1) << 32, &l->away_s) < 0)
		return -1;
	if (!(l->share > 0) || !isfinite(l->share))
		return err_set(EX_DATAERR, "%s: 'share' is above 0", where);
	if (!l->up_s != !l->away_s)
		return err_set(EX_DATAERR, "%s: 'up_s' and 'away_s' go together", where);
	snprintf(l->name, sizeof l->name, "%s", name);
	return 0;
}

int sim_links_read(struct sim_link **links, size_t *n, const char *path)
{
	char *files[] = { (char *)(uintptr_t)path }, *text;
	size_t cap = 0, len;
	struct lines lines;
	int more, rc = 0;

	*links = NULL;
	*n = 0;
	lines_open(&lines, files, 1, JSON_RECORD_BYTES_MAX);
	while (rc == 0 && (more = lines_next(&lines, &text, &len)) != 0) {
		json_t *o = more < 0 ? NULL :
				       json_parse_object(text, len, lines_where(&lines));

		*links = xgrow(*links, &cap, *n + 1, sizeof **links);
		rc = o ? read_link(*links + *n, o, lines_where(&lines)) : -1;
		*n += rc == 0;
		json_decref(o);
	}
	lines_close(&lines);
	if (rc == 0 && !*n)
		rc = err_set(EX_DATAERR, "%s: there is no link in it", path);
	return rc;
}

double sim_bps(const struct sim_link *l, int64_t bps)
{
	double trip = 2 * (double)l->latency_ms / 1000, max;

	if (!l->loss_ppm || !l->latency_ms)
		return (double)bps;
	max = CONNECTIONS * 8 * SEGMENT / trip * sqrt(1.5 / ((double)l->loss_ppm / 1e6));
	return fmin((double)bps, max);
}
