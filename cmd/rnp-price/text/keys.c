/* keys.c - reads files that people write: only known keys, with a suggestion for others, and
 * amounts with their units. */
#include "cmd/rnp-price/text/keys.h"

#include <stdio.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/suggest.h"
#include "common/json/json.h"

int keys_check(const json_t *obj, const char *where, const char *const *names)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)obj, key, v) {
		struct suggest near = { .wanted = key };
		const char *const *n = names;
		char hint[96];

		while (*n && strcmp(*n, key) != 0)
			n++;
		if (*n)
			continue;
		for (n = names; *n; n++) {
			size_t len = strlen(*n);

			/* who writes hardware_usd means dollars, not hardware_uusd */
			if (strncmp(key, *n, len) == 0 &&
				strcmp(key + len, "_usd") == 0) {
				snprintf(near.best, sizeof near.best, "%s", *n);
				break;
			}
			suggest_offer(&near, *n, len);
		}
		return err_set(EX_DATAERR, "%s: there is no '%.60s'%s", where, key,
			suggest_text(&near, hint, sizeof hint));
	}
	return 0;
}

int keys_amount_of(const json_t *v, const char *what, const struct amount_kind *of,
	const struct amount_rate *rates, int64_t max_uusd, int64_t *uusd)
{
	struct buf shown = BUF_INIT;

	if (json_is_string(v)) {
		if (amount_read(json_string_value(v), what, of, NULL, rates, uusd) < 0)
			return -1;
		if (*uusd < 0 || *uusd > max_uusd) {
			amount_text(&shown, *uusd, of);
			err_set(EX_DATAERR, "%s: %s is out of range", what,
				buf_text(&shown));
			buf_release(&shown);
			return -1;
		}
	} else if (!json_is_integer(v) || json_integer_value(v) < 0 ||
		json_integer_value(v) > max_uusd) {
		return err_set(EX_DATAERR,
			"%s: not a whole number of uusd, nor a text such as \"%s\"", what,
			of->example);
	} else {
		*uusd = json_integer_value(v);
	}
	return amount_doubt(*uusd, what, of);
}

int keys_amount(const json_t *obj, const char *where, const struct keys_amount *a,
	const struct amount_rate *rates, int64_t *uusd)
{
	const json_t *v = json_object_get(obj, a->dollars);
	const char *key = v ? a->dollars : a->micro;
	char what[400];

	if (v && json_object_get(obj, a->micro))
		return err_set(EX_DATAERR, "%s: '%s' and '%s' exclude each other", where,
			a->micro, a->dollars);
	snprintf(what, sizeof what, "%.300s: %s", where, key);
	if (v && !json_is_string(v))
		return err_set(EX_DATAERR,
			"%s: not a text such as \"%s\"; a number of micro-dollars goes "
			"into '%s'",
			what, a->of->example, a->micro);
	if (v)
		return keys_amount_of(v, what, a->of, rates, a->max_uusd, uusd);
	if (a->required ? json_get_i64(obj, where, a->micro, 0, a->max_uusd, uusd) < 0 :
			  json_opt_i64(obj, where, a->micro, 0, a->max_uusd, uusd) < 0)
		return -1;
	return json_object_get(obj, a->micro) ? amount_doubt(*uusd, what, a->of) : 0;
}

int keys_whole(const json_t *obj, const char *where, const char *key, bool required,
	const struct amount_kind *of, int64_t min, int64_t max, int64_t *out)
{
	const json_t *v = json_object_get(obj, key);
	char what[400];

	snprintf(what, sizeof what, "%.300s: %s", where, key);
	if (json_is_string(v)) {
		if (amount_read(json_string_value(v), what, of, NULL, NULL, out) < 0)
			return -1;
		if (*out < min || *out > max)
			return err_set(EX_DATAERR, "%s: '%.40s' is out of range", what,
				json_string_value(v));
	} else if (required ? json_get_i64(obj, where, key, min, max, out) < 0 :
			      json_opt_i64(obj, where, key, min, max, out) < 0) {
		return -1;
	}
	return v ? amount_doubt(*out, what, of) : 0;
}

int keys_rates(const json_t *obj, const char *where,
	struct amount_rate to[KEYS_RATES_MAX + 1])
{
	json_t *all = json_object_get(obj, "usd_per"), *v;
	const char *key;
	size_t n = 0;

	to[0].name[0] = '\0';
	if (all && !json_is_object(all))
		return err_set(EX_DATAERR, "%s: usd_per: not an object of currencies",
			where);
	json_object_foreach(all, key, v) {
		char what[400];

		snprintf(what, sizeof what, "%.300s: usd_per: %.20s", where, key);
		if (strlen(key) != 3 || n == KEYS_RATES_MAX)
			return err_set(EX_DATAERR,
				"%s: not one of at most %d names such as EUR", what,
				KEYS_RATES_MAX);
		if (!json_is_string(v))
			return err_set(EX_DATAERR, "%s: not a text such as \"1.16\"",
				what);
		if (amount_read(json_string_value(v), what, &amount_usd, "", NULL,
			    &to[n].uusd) < 0)
			return -1;
		if (to[n].uusd < 1 || to[n].uusd > 1000000000)
			return err_set(EX_DATAERR, "%s: %.20s is out of range", what,
				json_string_value(v));
		memcpy(to[n++].name, key, 4);
		to[n].name[0] = '\0';
	}
	return 0;
}
