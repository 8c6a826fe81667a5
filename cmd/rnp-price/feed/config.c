/* config.c - reads which markets are asked, and how: see config.h. */
#include "cmd/rnp-price/feed/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/text/keys.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "common/json/json.h"

static const char *const entry_keys[] = { "market", "name", "url", "file", "key_file",
	"ca", "max_age", "own", "state", NULL };

static int text_of(const json_t *obj, const char *where, const char *key,
	const char **out)
{
	if (json_opt_text(obj, where, key, out) < 0)
		return -1;
	return *out && !**out ? err_set(EX_DATAERR, "%s: %s is empty", where, key) : 0;
}

/* own: the array is the caller's, the texts belong to the entry */
static int own_of(const json_t *obj, const char *where, struct feed_job *job,
	const char ***own_ids)
{
	const json_t *list = json_object_get(obj, "own"), *id;
	size_t i;

	if (!list)
		return 0;
	if (!json_is_array(list))
		return err_set(EX_DATAERR, "%s: own: not an array of ids", where);
	*own_ids = xcalloc(json_array_size(list) + 1, sizeof **own_ids);
	job->own = *own_ids;
	json_array_foreach(list, i, id) {
		if (!json_is_string(id))
			return err_set(EX_DATAERR, "%s: own[%zu]: not a text", where, i);
		(*own_ids)[job->nown++] = json_string_value(id);
	}
	return 0;
}

int feed_name_check(const char *name, const char *where, int code)
{
	if (!name || (*name && strlen(name) <= FEED_NAME_MAX))
		return 0;
	return err_set(code, "%s has 1 to %d bytes", where, FEED_NAME_MAX);
}

/* Reads one entry. *own_ids is freed by the caller. */
static int job_of(const json_t *entry, const char *where, const struct feed_job *defaults,
	struct feed_job *job, const char ***own_ids)
{
	const char *of = NULL, *url = NULL, *file = NULL, *age = NULL;
	char what[400];

	*job = *defaults;
	if (!json_is_object(entry))
		return err_set(EX_DATAERR, "%s: not an object", where);
	if (keys_check(entry, where, entry_keys) < 0 ||
		json_get_text(entry, where, "market", &of) < 0 ||
		text_of(entry, where, "name", &job->name) < 0 ||
		text_of(entry, where, "url", &url) < 0 ||
		text_of(entry, where, "file", &file) < 0 ||
		text_of(entry, where, "key_file", &job->source.key_file) < 0 ||
		text_of(entry, where, "ca", &job->source.ca) < 0 ||
		text_of(entry, where, "max_age", &age) < 0 ||
		text_of(entry, where, "state", &job->state_path) < 0 ||
		own_of(entry, where, job, own_ids) < 0)
		return -1;
	job->source.market = feed_market_find(of);
	if (!job->source.market)
		return err_set(EX_DATAERR, "%s: market: '%.40s' is none of %s", where, of,
			FEED_MARKETS);
	snprintf(what, sizeof what, "%.300s: name", where);
	if (feed_name_check(job->name, what, EX_DATAERR) < 0)
		return -1;
	if (!url == !file)
		return err_set(EX_DATAERR, "%s: either url or file", where);
	if (url && !feed_is_url(url))
		return err_set(EX_DATAERR, "%s: url: '%.80s' is neither http nor https",
			where, url);
	if (file && job->source.key_file)
		return err_set(EX_DATAERR, "%s: key_file is for a url", where);
	job->source.place = url ? url : file;
	snprintf(what, sizeof what, "%.300s: max_age", where);
	if (age && num_duration_ms(age, what, &job->max_age_ms) < 0)
		return -1;
	return 0;
}

const char *feed_job_label(const struct feed_job *job)
{
	return job->name ? job->name : job->source.market->name;
}

/* With one name two entries would be one market with two states; with one state each would be held
 * against the other's history. */
static int check_alike(const struct feed_config *c, const struct feed_job *job,
	const char *where)
{
	for (const struct feed_job *k = c->jobs; k < job; k++) {
		if (strcmp(feed_job_label(k), feed_job_label(job)) == 0)
			return err_set(EX_DATAERR,
				"%s: another market is called '%s': give it a name",
				where, feed_job_label(job));
		if (k->state_path && job->state_path &&
			strcmp(k->state_path, job->state_path) == 0)
			return err_set(EX_DATAERR,
				"%s: state: '%.200s' is another market's", where,
				job->state_path);
	}
	return 0;
}

int feed_config_parse(struct feed_config *c, const char *text, size_t len,
	const char *path, const struct feed_job *defaults)
{
	static const char *const keys[] = { "kind", "v", "markets", NULL };
	json_t *list = NULL, *entry;
	char where[400];
	size_t i;

	*c = (struct feed_config){ .doc = json_parse_object(text, len, path) };
	if (!c->doc || keys_check(c->doc, path, keys) < 0 ||
		(json_object_get(c->doc, "kind") &&
			json_check_kind(c->doc, path, "rnp.markets") < 0) ||
		json_get_array(c->doc, path, "markets", &list) < 0)
		return -1;
	if (!json_array_size(list) || json_array_size(list) > FEED_CONFIG_MAX)
		return err_set(EX_DATAERR, "%s: markets: not 1 to %d of them", path,
			FEED_CONFIG_MAX);
	json_array_foreach(list, i, entry) {
		struct feed_job *job = &c->jobs[i];

		snprintf(where, sizeof where, "%.300s: markets[%zu]", path, i);
		c->n = (int)i + 1;
		if (job_of(entry, where, defaults, job, &c->own[i]) < 0 ||
			check_alike(c, job, where) < 0)
			return -1;
	}
	return 0;
}

void feed_config_release(struct feed_config *c)
{
	for (int i = 0; i < c->n; i++)
		free(c->own[i]);
	json_decref(c->doc);
	*c = (struct feed_config){ .n = 0 };
}
