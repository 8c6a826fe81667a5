/* akash.c - what a deployment on Akash costs per block: see akash.h. */
#include "cmd/rnp-price/publish/akash.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cmd/rnp-price/text/keys.h"
#include "common/base/err.h"
#include "common/base/num.h"
#include "common/json/json.h"

/* a million dollars a month, for one of anything */
#define UUSD_MAX      INT64_C(1000000000000)
#define RESOURCES_MAX 1000
#define COUNT_MAX     INT64_C(100000)
#define MILLI_MAX     INT64_C(1000000000) /* a million cores */
#define BYTES_MAX     (INT64_C(1) << 53)
#define PRECISION_MAX 18
#define GIB           (INT64_C(1) << 30)
#define MILLI         1000
/* what the sum is counted in: thousandths of a core, and bytes of a GiB */
#define UNIT    ((__int128)MILLI * GIB)
#define SUM_MAX ((__int128)1 << 106)

const char bid_example[] =
	"{\n"
	"  \"kind\": \"rnp.akash\",\n"
	"  \"cpu\": \"1.60 USD\",\n"
	"  \"memory\": \"0.80 USD\",\n"
	"  \"ephemeral\": \"0.02 USD\",\n"
	"  \"hdd\": \"0.01 USD\",\n"
	"  \"ssd\": \"0.03 USD\",\n"
	"  \"nvme\": \"0.04 USD\",\n"
	"  \"endpoint\": \"0.05 USD\",\n"
	"  \"ip\": \"5.00 USD\",\n"
	"  \"gpus\": {\"a100.80Gi.sxm4\": \"900 USD\", \"rtx4090\": \"220 USD\"},\n"
	"  \"free\": {\"a100.80Gi.sxm4\": 8, \"rtx4090\": 4},\n"
	"  \"tokens\": {\"uakt\": \"0.43 USD\"},\n"
	"  \"deny\": []\n"
	"}\n";

/* Akash's own defaults, in uusd a month. */
static const int64_t defaults[BID_ITEMS] = { 1600000, 800000, 20000, 10000, 30000, 40000,
	50000, 5000000 };

/* Tokens that are dollars. */
static const char *const dollars[] = { "uact", "uusdc",
	"ibc/12C6A0C374171B595A0A9E18B83FA09D295FB1F2D8C6DAA3AC28683471752D84",
	"ibc/170C677610AC31DF0904FFE09CD3B5C657492170E7E52372E48756B71E56F2F1", NULL };

/* --- prices ------------------------------------------------------------------------------- */

/* The row of a key, made when it is new. NULL: there is no place. */
static struct bid_gpu *gpu_row(struct bid_prices *p, const char *key)
{
	char lower[sizeof p->gpus[0].key];
	size_t n = 0;

	for (; key[n] && n < sizeof lower - 1; n++)
		lower[n] = (char)tolower((unsigned char)key[n]);
	lower[n] = '\0';
	for (size_t i = 0; i < p->ngpus; i++)
		if (strcmp(p->gpus[i].key, lower) == 0)
			return &p->gpus[i];
	if (p->ngpus == BID_GPUS_MAX || key[n] || !n)
		return NULL;
	p->gpus[p->ngpus] = (struct bid_gpu){ .uusd = -1, .free = -1 };
	memcpy(p->gpus[p->ngpus].key, lower, n + 1);
	return &p->gpus[p->ngpus++];
}

static int read_gpus(struct bid_prices *p, const json_t *obj, const char *where,
	bool stock)
{
	const char *what = stock ? "free" : "gpus", *key;
	json_t *all = json_object_get(obj, what), *v;

	if (!all)
		return 0;
	if (!json_is_object(all))
		return err_set(EX_DATAERR, "%s: %s: not an object of models", where,
			what);
	json_object_foreach(all, key, v) {
		struct bid_gpu *g = gpu_row(p, key);
		char path[200];

		snprintf(path, sizeof path, "%s: %s: %.80s", where, what, key);
		if (!g)
			return err_set(EX_DATAERR,
				"%s: the name is too long, or there are over %d", path,
				BID_GPUS_MAX);
		if (!stock &&
			keys_amount_of(v, path, &amount_per_month, NULL, UUSD_MAX,
				&g->uusd) < 0)
			return -1;
		if (!stock)
			continue;
		if (!json_is_integer(v) || json_integer_value(v) < 0 ||
			json_integer_value(v) > COUNT_MAX)
			return err_set(EX_DATAERR, "%s: not a number of GPUs", path);
		g->free = json_integer_value(v);
	}
	p->stock = p->stock || stock;
	return 0;
}

static int read_tokens(struct bid_prices *p, const json_t *obj, const char *where)
{
	json_t *all = json_object_get(obj, "tokens"), *v;
	const char *key;

	p->tokens = json_object();
	if (all && !json_is_object(all))
		return err_set(EX_DATAERR, "%s: tokens: not an object of denoms", where);
	json_object_foreach(all, key, v) {
		int64_t uusd = 0;
		char path[200];

		snprintf(path, sizeof path, "%s: tokens: %.80s", where, key);
		if (keys_amount_of(v, path, &amount_usd, NULL, UUSD_MAX, &uusd) < 0)
			return -1;
		if (!uusd)
			return err_set(EX_DATAERR, "%s: a price of 0", path);
		json_set_i64(p->tokens, key, uusd);
	}
	return 0;
}

static int read_owners(json_t **to, const json_t *obj, const char *where, const char *key)
{
	json_t *list = json_object_get(obj, key);

	if (list && !json_is_array(list))
		return err_set(EX_DATAERR, "%s: %s: not a list of owners", where, key);
	for (size_t i = 0; i < json_array_size(list); i++)
		if (!json_is_string(json_array_get(list, i)))
			return err_set(EX_DATAERR, "%s: %s[%zu]: not a text", where, key,
				i);
	*to = list ? json_incref(list) : NULL;
	return 0;
}

int bid_parse(struct bid_prices *p, json_t *obj, const char *where)
{
	static const char *const items[BID_ITEMS] = { "cpu", "memory", "ephemeral", "hdd",
		"ssd", "nvme", "endpoint", "ip" };
	static const char *const names[] = { "kind", "v", "cpu", "memory", "ephemeral",
		"hdd", "ssd", "nvme", "endpoint", "ip", "gpus", "free", "tokens", "allow",
		"deny", NULL };

	memset(p, 0, sizeof *p);
	memcpy(p->uusd, defaults, sizeof defaults);
	if (keys_check(obj, where, names) < 0)
		return -1;
	for (int i = 0; i < BID_ITEMS; i++) {
		const json_t *v = json_object_get(obj, items[i]);
		char path[200];

		snprintf(path, sizeof path, "%s: %s", where, items[i]);
		if (v &&
			keys_amount_of(v, path, &amount_per_month, NULL, UUSD_MAX,
				&p->uusd[i]) < 0)
			return -1;
	}
	return read_gpus(p, obj, where, false) < 0 ||
			read_gpus(p, obj, where, true) < 0 ||
			read_tokens(p, obj, where) < 0 ||
			read_owners(&p->allow, obj, where, "allow") < 0 ||
			read_owners(&p->deny, obj, where, "deny") < 0 ?
		-1 :
		0;
}

void bid_release(struct bid_prices *p)
{
	json_decref(p->tokens);
	json_decref(p->allow);
	json_decref(p->deny);
	memset(p, 0, sizeof *p);
}

int bid_set_hourly(struct bid_prices *p, const char *key, int64_t uusd_per_hour)
{
	struct bid_gpu *g = gpu_row(p, key);

	if (!g)
		return err_set(EX_DATAERR,
			"%.80s: the name is too long, or there are over %d", key,
			BID_GPUS_MAX);
	if (g->uusd < 0 && uusd_per_hour <= UUSD_MAX / 1000)
		g->uusd = (uusd_per_hour * 730488 + 999) /
			1000; /* 30.437 days of 24 hours */
	return 0;
}

bool bid_owner_allowed(const struct bid_prices *p, const char *owner)
{
	bool allowed = !p->allow;

	for (size_t i = 0; i < json_array_size(p->allow); i++)
		allowed = allowed ||
			strcmp(json_string_value(json_array_get(p->allow, i)), owner) ==
				0;
	for (size_t i = 0; i < json_array_size(p->deny); i++)
		if (strcmp(json_string_value(json_array_get(p->deny, i)), owner) == 0)
			return false;
	return allowed;
}

/* --- an order ----------------------------------------------------------------------------- */

struct tally {
	const struct bid_prices *p;
	__int128 sum; /* uusd a month, in UNITs */
	int64_t left[BID_GPUS_MAX];
	char *why;
	size_t why_size;
};

/* Adds quantity x count x price, which is below 2^121, to a sum that is refused from SUM_MAX on. */
static void add(struct tally *t, int64_t quantity, int64_t count, int64_t uusd,
	int64_t per_unit)
{
	if (t->sum < SUM_MAX)
		t->sum += (__int128)quantity * count * uusd * (UNIT / per_unit);
}

static int no_bid(struct tally *t, const char *fmt, const char *what)
{
	snprintf(t->why, t->why_size, fmt, what);
	return 0;
}

/* Returns 1, 0 no bid, -1. */
static int add_gpus(struct tally *t, const json_t *r, const char *where, int64_t count)
{
	const json_t *gpu = json_object_get(r, "gpu");
	int64_t units = 0;
	int row;

	if (!gpu || json_is_null(gpu))
		return 1;
	if (!json_is_object(gpu))
		return err_set(EX_DATAERR, "%s: gpu: not an object", where);
	if (json_opt_i64(gpu, where, "units", 0, COUNT_MAX, &units) < 0)
		return -1;
	if (!units)
		return 1;
	row = bid_take_gpus(t->p, t->left, gpu, units * count, t->why, t->why_size);
	if (row < 0)
		return 0;
	add(t, units, count, t->p->gpus[row].uusd, 1);
	return 1;
}

static int add_storage(struct tally *t, const json_t *r, const char *where, int64_t count)
{
	static const struct {
		const char *name;
		enum bid_item item;
	} classes[] = { { "ephemeral", BID_EPHEMERAL }, { "default", BID_EPHEMERAL },
		{ "ram", BID_MEMORY }, { "beta1", BID_HDD }, { "beta2", BID_SSD },
		{ "beta3", BID_NVME } };
	json_t *list = json_object_get(r, "storage"), *one;
	size_t i;

	if (list && !json_is_array(list))
		return err_set(EX_DATAERR, "%s: storage: not a list", where);
	json_array_foreach(list, i, one) {
		const char *class = json_string_value(json_object_get(one, "class"));
		int64_t size = 0;
		size_t k = 0;

		if (json_get_i64(one, where, "size", 0, BYTES_MAX, &size) < 0)
			return -1;
		while (k < sizeof classes / sizeof *classes &&
			(!class || strcmp(classes[k].name, class) != 0))
			k++;
		if (k == sizeof classes / sizeof *classes)
			return no_bid(t, "no price for storage class '%.60s'",
				class ? class : "(none)");
		add(t, size, count, t->p->uusd[classes[k].item], GIB);
	}
	return 1;
}

static int add_resource(struct tally *t, const json_t *r, const char *where)
{
	int64_t count = 1, cpu = 0, memory = 0, endpoints = 0, ips = 0;
	int rc;

	if (!json_is_object(r))
		return err_set(EX_DATAERR, "%s: not an object", where);
	if (json_opt_i64(r, where, "count", 1, COUNT_MAX, &count) < 0 ||
		json_opt_i64(r, where, "cpu", 0, MILLI_MAX, &cpu) < 0 ||
		json_opt_i64(r, where, "memory", 0, BYTES_MAX, &memory) < 0 ||
		json_opt_i64(r, where, "endpoint_quantity", 0, COUNT_MAX, &endpoints) <
			0 ||
		json_opt_i64(r, where, "ip_lease_quantity", 0, COUNT_MAX, &ips) < 0)
		return -1;
	add(t, cpu, count, t->p->uusd[BID_CPU], MILLI);
	add(t, memory, count, t->p->uusd[BID_MEMORY], GIB);
	add(t, endpoints, count, t->p->uusd[BID_ENDPOINT], 1);
	add(t, ips, count, t->p->uusd[BID_IP], 1);
	rc = add_storage(t, r, where, count);
	return rc > 0 ? add_gpus(t, r, where, count) : rc;
}

/* uusd of a whole token; 0: the file does not say. */
static int64_t token_price(const struct bid_prices *p, const char *denom)
{
	int64_t uusd = json_integer_value(json_object_get(p->tokens, denom));

	for (int i = 0; dollars[i] && !uusd; i++)
		if (strcmp(dollars[i], denom) == 0)
			uusd = 1000000;
	return uusd;
}

/* sum / (UNIT x blocks x token), rounded up at the last of `places`, as a decimal; sum is below
 * 2^127, the divisor below 2^100. False: the whole part is beyond every price. */
static bool print_rate(__int128 sum, int64_t token_uusd, int places,
	char out[BID_RATE_MAX])
{
	__int128 divisor = UNIT * BID_BLOCKS_A_MONTH * token_uusd, rest = sum % divisor;
	char digits[BID_RATE_MAX];
	int n, i;

	if (sum / divisor > INT64_C(1000000000000000000))
		return false;
	/* a zero in front, for the one that rounding may carry */
	n = snprintf(digits, sizeof digits, "0%lld", (long long)(sum / divisor));
	for (i = 0; i < places; i++) {
		rest *= 10;
		digits[n++] = (char)('0' + (int)(rest / divisor));
		rest %= divisor;
	}
	for (i = n - 1; rest && digits[i] == '9'; i--)
		digits[i] = '0';
	digits[i < 0 ? 0 : i] = (char)(digits[i < 0 ? 0 : i] + (rest != 0));
	i = digits[0] == '0';
	snprintf(out, BID_RATE_MAX, "%.*s%s%.*s", n - places - i, digits + i,
		places ? "." : "", places, digits + n - places);
	return true;
}

/* Compares two decimals digit by digit. */
static bool exceeds(const char *a, const char *b)
{
	size_t whole_a, whole_b;
	int order;

	a += strspn(a, "0");
	b += strspn(b, "0");
	whole_a = strcspn(a, ".");
	whole_b = strcspn(b, ".");
	if (whole_a != whole_b)
		return whole_a > whole_b;
	order = strncmp(a, b, whole_a);
	if (order)
		return order > 0;
	a += whole_a + (a[whole_a] == '.');
	b += whole_b + (b[whole_b] == '.');
	while (*a || *b) {
		char x = *a ? *a++ : '0', y = *b ? *b++ : '0';

		if (x != y)
			return x > y;
	}
	return false;
}

static int read_price(const json_t *order, const char *where, const char **denom,
	const char **amount, int64_t *precision)
{
	json_t *price = json_object_get(order, "price");

	*denom = json_string_value(json_object_get(price, "denom"));
	*amount = json_string_value(json_object_get(price, "amount"));
	if (!*denom || !*amount)
		return err_set(EX_DATAERR, "%s: price: denom and amount are missing",
			where);
	if (strlen(*amount) > 60 || strspn(*amount, "0123456789.") != strlen(*amount) ||
		!strpbrk(*amount, "0123456789") ||
		strchr(*amount, '.') != strrchr(*amount, '.'))
		return err_set(EX_DATAERR, "%s: price: amount: '%.40s' is not a decimal",
			where, *amount);
	return json_opt_i64(order, where, "price_precision", 0, PRECISION_MAX, precision);
}

int bid_rate(const struct bid_prices *p, const json_t *order, const char *where,
	char rate[BID_RATE_MAX], char *why, size_t why_size)
{
	struct tally t = { .p = p, .why = why, .why_size = why_size };
	json_t *list = json_object_get(order, "resources");
	int64_t precision = 6, token;
	const char *denom, *amount;
	int rc = 1;

	if (!json_is_array(list) || !json_array_size(list) ||
		json_array_size(list) > RESOURCES_MAX)
		return err_set(EX_DATAERR, "%s: resources: not a list of 1 to %d", where,
			RESOURCES_MAX);
	if (read_price(order, where, &denom, &amount, &precision) < 0)
		return -1;
	for (size_t i = 0; i < p->ngpus; i++)
		t.left[i] = p->gpus[i].free;
	for (size_t i = 0; i < json_array_size(list) && rc > 0; i++) {
		char path[200];

		snprintf(path, sizeof path, "%.100s: resources[%zu]", where, i);
		rc = add_resource(&t, json_array_get(list, i), path);
		if (rc > 0 && t.sum >= SUM_MAX)
			return err_set(EX_DATAERR, "%s: an order beyond every price",
				path);
	}
	if (rc <= 0)
		return rc;
	token = token_price(p, denom);
	if (!token)
		return no_bid(&t, "no price for the token '%.80s'", denom);
	if (!print_rate(t.sum * 1000000, token, (int)precision, rate))
		return err_set(EX_DATAERR, "%s: an order beyond every price", where);
	if (exceeds(rate, amount))
		return no_bid(&t, "the tenant offers less than %s per block", rate);
	return 1;
}
