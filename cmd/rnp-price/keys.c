/* keys.c - reads files that people write: only known keys, with a suggestion for others, and
 * amounts in micro-dollars or dollars. */
#include "cmd/rnp-price/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/money.h"
#include "common/base/num.h"
#include "common/base/suggest.h"
#include "common/json/json.h"

#define CENT_UUSD 10000

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

/* "1599.00 USD", "USD 0.15", "$0.15" or "0.15 $" */
static int dollars(const char *text, const char *what, int64_t max_uusd, int64_t *uusd)
{
	char number[64];
	size_t n;
	bool unit = false;

	if (*text == '$' || strncmp(text, "USD", 3) == 0) {
		text += *text == '$' ? 1 : 3;
		unit = true;
	}
	text += strspn(text, " ");
	n = strcspn(text, " $U");
	if (n >= sizeof number)
		return err_set(EX_DATAERR, "%s: '%.40s' is no amount", what, text);
	memcpy(number, text, n);
	number[n] = '\0';
	text += n;
	text += strspn(text, " ");
	if (strcmp(text, "USD") == 0 || strcmp(text, "$") == 0) {
		if (unit)
			return err_set(EX_DATAERR, "%s: the unit is there twice", what);
		unit = true;
		text += strlen(text);
	}
	if (*text || !unit)
		return err_set(EX_DATAERR,
			"%s: not an amount such as \"1599.00 USD\" or a whole number of "
			"millionths",
			what);
	if (num_decimal(number, what, MONEY_USD_DECIMALS, 0, uusd) < 0)
		return -1;
	if (*uusd < 0 || *uusd > max_uusd)
		return err_set(EX_DATAERR, "%s: %s $ is out of range", what, number);
	return 0;
}

int keys_amount_of(const json_t *v, const char *what, int64_t max_uusd, int64_t *uusd)
{
	if (json_is_string(v))
		return dollars(json_string_value(v), what, max_uusd, uusd);
	if (!json_is_integer(v) || json_integer_value(v) < 0 ||
		json_integer_value(v) > max_uusd)
		return err_set(EX_DATAERR,
			"%s: not a whole number of uusd, nor a text such as \"0.15 USD\"",
			what);
	*uusd = json_integer_value(v);
	return 0;
}

int keys_amount(const json_t *obj, const char *where, const struct keys_amount *a,
	int64_t *uusd, const char **doubtful)
{
	const json_t *v = json_object_get(obj, a->dollars);
	char what[400];

	if (v && json_object_get(obj, a->micro))
		return err_set(EX_DATAERR, "%s: '%s' and '%s' exclude each other", where,
			a->micro, a->dollars);
	if (v) {
		snprintf(what, sizeof what, "%.300s: %s", where, a->dollars);
		if (!json_is_string(v))
			return err_set(EX_DATAERR,
				"%s: not a text such as \"1599.00 USD\"; a number of "
				"micro-dollars goes into '%s'",
				what, a->micro);
		return keys_amount_of(v, what, a->max_uusd, uusd);
	}
	if (a->required ? json_get_i64(obj, where, a->micro, 0, a->max_uusd, uusd) < 0 :
			  json_opt_i64(obj, where, a->micro, 0, a->max_uusd, uusd) < 0)
		return -1;
	if (doubtful && a->cents_at_least && *uusd > 0 && *uusd < CENT_UUSD)
		*doubtful = a->micro;
	return 0;
}
