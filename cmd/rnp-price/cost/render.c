/* render.c - amounts of RENDER beside amounts of dollars: see render.h. */
#include "cmd/rnp-price/cost/render.h"

#include <ctype.h>
#include <unistd.h>

#include "common/base/amount.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/json/json.h"
#include "common/json/schema.h"

#define BASE_UNITS INT64_C(100000000)

static int from_file(const char *path, int64_t *price_uusd)
{
	struct buf text = BUF_INIT;
	json_t *r = NULL;
	int rc = io_read(&text, path, JSON_RECORD_BYTES_MAX);

	if (rc == 0)
		r = json_parse_object(buf_text(&text), text.len, path);
	rc = r && schema_check(r, path, "rnp.price") == 0 ?
		json_get_i64(r, path, "price_uusd", 1, RENDER_PRICE_MAX, price_uusd) :
		-1;
	json_decref(r);
	buf_release(&text);
	return rc;
}

int render_price(const char *text, int64_t *price_uusd)
{
	/* "1.90", "1.90 USD", "$1.90": no file is called so, or it is meant */
	if ((!isdigit((unsigned char)*text) && *text != '$') || access(text, F_OK) == 0)
		return from_file(text, price_uusd);
	if (amount_read(text, "--render", &amount_usd, "", NULL, price_uusd) < 0)
		return -1;
	if (*price_uusd < 1 || *price_uusd > RENDER_PRICE_MAX)
		return err_set(EX_USAGE, "--render: %.40s $ is no price of RENDER", text);
	return 0;
}

int64_t render_base_units(int64_t uusd, int64_t price_uusd)
{
	__int128 units = (__int128)uusd * BASE_UNITS;
	__int128 whole = units / price_uusd;

	if (units < 0 && whole * price_uusd != units)
		whole--;
	return whole > JSON_SAFE_INTEGER_MAX   ? JSON_SAFE_INTEGER_MAX :
		whole < -JSON_SAFE_INTEGER_MAX ? -JSON_SAFE_INTEGER_MAX :
						 (int64_t)whole;
}
