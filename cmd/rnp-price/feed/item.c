/* item.c - fields of one offer in a market's JSON: see item.h. */
#include "cmd/rnp-price/feed/item.h"

#include <stdio.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/num.h"
#include "common/json/canon.h"
#include "common/json/json.h"

const json_t *item_field(const struct item *it, const char *key)
{
	const json_t *v = json_object_get(it->obj, key);

	return json_is_null(v) ? NULL : v;
}

int item_wrong(const struct item *it, const char *key, const char *wanted)
{
	return err_set(EX_DATAERR, "%s.%s: not %s", it->where, key, wanted);
}

/* Reads a number as a decimal: an integer's own digits, otherwise the shortest digits that mean
 * the same double. Returns 1, 0 if the field is unknown, -1 on error. */
static int item_decimal(const struct item *it, const char *key, struct buf *out)
{
	const json_t *v = item_field(it, key);

	buf_reset(out);
	if (!v)
		return 0;
	if (json_is_integer(v))
		buf_addf(out, "%lld", (long long)json_integer_value(v));
	else if (json_is_real(v))
		canon_number(out, json_real_value(v));
	else
		return item_wrong(it, key, "a number");
	return 1;
}

int item_scaled(const struct item *it, const char *key, int decimals, int64_t unit,
	int64_t *out)
{
	struct buf text = BUF_INIT;
	char what[400];
	int64_t v;
	int rc = item_decimal(it, key, &text);

	snprintf(what, sizeof what, "%s.%s", it->where, key);
	if (rc > 0) {
		rc = num_decimal(buf_text(&text), what, decimals, 1, &v);
		if (rc == 0 && (v < 0 || v > JSON_SAFE_INTEGER_MAX / unit))
			rc = err_set(EX_DATAERR, "%s: %.60s is out of range", what,
				buf_text(&text));
		if (rc == 0)
			*out = v * unit;
	}
	buf_release(&text);
	return rc;
}

int item_price(const struct item *it, const char *key, int64_t gpus, int64_t *uusd)
{
	struct buf text = BUF_INIT;
	char what[400];
	int rc = item_decimal(it, key, &text);

	*uusd = 0;
	snprintf(what, sizeof what, "%s.%s", it->where, key);
	if (rc > 0)
		rc = feed_price(buf_text(&text), gpus * 1000000, what, uusd);
	buf_release(&text);
	return rc;
}

int item_price_text(const struct item *it, const char *key, int64_t *uusd)
{
	const char *text = NULL;
	char what[400];

	*uusd = 0;
	snprintf(what, sizeof what, "%s.%s", it->where, key);
	if (item_text(it, key, &text) < 0)
		return -1;
	return text ? feed_price(text, 1000000, what, uusd) : 0;
}

int item_text(const struct item *it, const char *key, const char **out)
{
	const json_t *v = item_field(it, key);

	if (!v)
		return 0;
	if (!json_is_string(v))
		return item_wrong(it, key, "a text");
	if (json_string_length(v) > 200)
		return item_wrong(it, key, "of at most 200 bytes");
	*out = json_string_value(v);
	return 0;
}

int item_flag(const struct item *it, const char *key, int *out)
{
	const json_t *v = item_field(it, key);

	if (!v)
		return 0;
	if (!json_is_boolean(v))
		return item_wrong(it, key, "true or false");
	*out = json_is_true(v);
	return 0;
}

int item_id(const struct item *it, const char *key, char out[64])
{
	const json_t *v = item_field(it, key);

	out[0] = '\0';
	if (json_is_integer(v))
		snprintf(out, 64, "%lld", (long long)json_integer_value(v));
	else if (json_is_string(v) && json_string_length(v) < 64)
		snprintf(out, 64, "%s", json_string_value(v));
	else if (v)
		return item_wrong(it, key, "an id");
	return 0;
}
