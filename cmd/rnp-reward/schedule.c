/* schedule.c - reads rnp.schedule: decimals in strings, converted to whole base units and
 * millionths. */
#include "cmd/rnp-reward/schedule.h"

#include <stdlib.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/money.h"
#include "common/base/num.h"
#include "common/json/json.h"
#include "common/json/schema.h"

#define SCHEDULE_BYTES_MAX ((size_t)1 << 16)

static int read_one(const json_t *doc, const char *key, int decimals, int64_t max,
	int64_t *out)
{
	const char *text = json_string_value(json_object_get(doc, key));

	*out = 0;
	if (!text)
		return 0;
	if (num_decimal(text, key, decimals, 0, out) < 0)
		return -1;
	return *out < 0 || *out > max ? err_set(EX_DATAERR, "%s: is out of range", key) :
					0;
}

static int read_all(struct supply_schedule *s, const json_t *doc)
{
	if (read_one(doc, "supply", MONEY_RENDER_DECIMALS, INT64_MAX / 2,
		    &s->start_base_units) < 0 ||
		read_one(doc, "first_month", MONEY_RENDER_DECIMALS, INT64_MAX / 2,
			&s->first_month_base_units) < 0 ||
		read_one(doc, "damping", 6, MONEY_PPM, &s->damping_ppm) < 0 ||
		read_one(doc, "cap", 6, MONEY_PPM, &s->cap_ppm) < 0)
		return -1;
	return read_one(doc, "recycling", 6, MONEY_PPM, &s->recycling_ppm);
}

int schedule_load(struct supply_schedule *s, const char *path)
{
	struct buf text = BUF_INIT;
	json_t *doc = NULL;
	int rc = -1;

	if (io_read(&text, path, SCHEDULE_BYTES_MAX) < 0)
		goto out;
	doc = json_parse_object(buf_text(&text), text.len, path);
	if (!doc || schema_check(doc, path, "rnp.schedule") < 0)
		goto out;
	rc = read_all(s, doc);
	if (rc < 0)
		err_add("%s", path);
out:
	json_decref(doc);
	buf_release(&text);
	return rc;
}
