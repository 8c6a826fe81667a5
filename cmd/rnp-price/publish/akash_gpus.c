/* akash_gpus.c - which of a provider's GPUs an order on Akash gets, and at which price. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cmd/rnp-price/publish/akash.h"
#include "common/base/buf.h"

#define VENDORS_MAX 16 /* an order names one or two */

/* "80Gi" and "80gi" are the same. */
static void join(char *out, size_t size, const char *a, const char *b, const char *c)
{
	snprintf(out, size, "%s%s%s%s%s", a, b ? "." : "", b ? b : "", c ? "." : "",
		c ? c : "");
	for (; *out; out++)
		*out = (char)tolower((unsigned char)*out);
}

static int find_key(const struct bid_prices *p, const char *key)
{
	for (size_t i = 0; i < p->ngpus; i++)
		if (strcmp(p->gpus[i].key, key) == 0)
			return (int)i;
	return -1;
}

/* Whether the words of a row's key after the model have this one, or say nothing. */
static bool has_word(const char *row, const char *word)
{
	const char *dot = strchr(row, '.');
	char lower[96];

	if (!word || !dot)
		return true;
	join(lower, sizeof lower, word, NULL, NULL);
	for (; dot; dot = strchr(dot + 1, '.'))
		if (strncmp(dot + 1, lower, strlen(lower)) == 0 &&
			(dot[1 + strlen(lower)] == '.' || !dot[1 + strlen(lower)]))
			return true;
	return false;
}

/* Whether a row of the file is a GPU such as was ordered; what either leaves open fits. */
static bool is_such(const char *row, const char *model, const char *ram,
	const char *interface)
{
	char lower[96];
	size_t n;

	join(lower, sizeof lower, model, NULL, NULL);
	n = strlen(lower);
	return strncmp(row, lower, n) == 0 && (!row[n] || row[n] == '.') &&
		has_word(row, ram) && has_word(row, interface);
}

/* The price row for an order's words: the most specific one that the file has, else the dearest
 * of those that the order leaves open. */
static int price_row(const struct bid_prices *p, const char *model, const char *ram,
	const char *interface)
{
	const char *const words[][2] = { { ram, interface }, { ram, NULL },
		{ interface, NULL }, { NULL, NULL } };
	char key[300];
	int best = -1;

	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		int row;

		join(key, sizeof key, model, words[i][0] ? words[i][0] : words[i][1],
			words[i][0] ? words[i][1] : NULL);
		row = find_key(p, key);
		if (row >= 0 && p->gpus[row].uusd >= 0)
			return row;
	}
	for (size_t i = 0; i < p->ngpus; i++)
		if (p->gpus[i].uusd >= 0 &&
			is_such(p->gpus[i].key, model, ram, interface) &&
			(best < 0 || p->gpus[i].uusd > p->gpus[best].uusd))
			best = (int)i;
	return best;
}

/* A GPU of any model: the cheapest of which enough are free, or the price of "*". */
static int any_row(const struct bid_prices *p, const int64_t *left, int64_t units)
{
	int best = -1, star = find_key(p, "*");

	for (size_t i = 0; p->stock && i < p->ngpus; i++) {
		char word[96], *dot;
		int row = (int)i;

		if (left[i] < units)
			continue;
		memcpy(word, p->gpus[i].key, sizeof word);
		/* a stock without a price of its own has that of the plainer name */
		while (row >= 0 && p->gpus[row].uusd < 0) {
			dot = strrchr(word, '.');
			if (!dot)
				break;
			*dot = '\0';
			row = find_key(p, word);
		}
		if (row >= 0 && p->gpus[row].uusd >= 0 &&
			(best < 0 || p->gpus[row].uusd < p->gpus[best].uusd))
			best = row;
	}
	return p->stock ? best : star >= 0 && p->gpus[star].uusd >= 0 ? star : -1;
}

/* What an order wants of one vendor; ram and interface may be NULL, and the model "*". */
struct wanted {
	const char *model, *ram, *interface;
};

/* The first stock of such GPUs of which enough are free; -1: there is none. */
static int find_stock(const struct bid_prices *p, const int64_t *left,
	const struct wanted *w, int64_t units)
{
	for (size_t i = 0; i < p->ngpus; i++)
		if (left[i] >= units &&
			(strcmp(w->model, "*") == 0 ||
				is_such(p->gpus[i].key, w->model, w->ram, w->interface)))
			return (int)i;
	return -1;
}

static const char *attribute(const json_t *vendor, const char *key)
{
	const char *text = json_string_value(json_object_get(vendor, key));

	return text && *text && strlen(text) < 64 ? text : NULL;
}

/* Of what any of these vendors may deliver: a row with a price, of which enough are free. Where the
 * stock is known we choose, and it is the cheapest; else the dearest, as where an order leaves a
 * word open. Returns -1: there is none; *priced: there is one with a price. */
static int choose_row(const struct bid_prices *p, const int64_t *left,
	const struct wanted *list, int n, int64_t units, int *chosen, bool *priced)
{
	int best = -1;

	for (int i = 0; i < n; i++) {
		bool any = strcmp(list[i].model, "*") == 0;
		int row = any ?
			any_row(p, left, units) :
			price_row(p, list[i].model, list[i].ram, list[i].interface);
		struct wanted of = list[i];

		if (row < 0)
			continue;
		*priced = true;
		of.model = any ? p->gpus[row].key : of.model;
		if (p->stock && find_stock(p, left, &of, units) < 0)
			continue;
		if (best >= 0 &&
			(p->stock ? p->gpus[row].uusd >= p->gpus[best].uusd :
				    p->gpus[row].uusd <= p->gpus[best].uusd))
			continue;
		best = row;
		*chosen = i;
	}
	return best;
}

static int read_wanted(const json_t *gpu, struct wanted list[VENDORS_MAX])
{
	json_t *vendors = json_object_get(json_object_get(gpu, "attributes"), "vendor"),
	       *vendor;
	const char *name;
	int n = 0;

	json_object_foreach(vendors, name, vendor) {
		const char *model = attribute(vendor, "model");

		if (n == VENDORS_MAX)
			break;
		list[n++] = (struct wanted){ model ? model : "*",
			attribute(vendor, "ram"), attribute(vendor, "interface") };
	}
	if (!n)
		list[n++] = (struct wanted){ "*", NULL, NULL };
	return n;
}

int bid_take_gpus(const struct bid_prices *p, int64_t left[BID_GPUS_MAX],
	const json_t *gpu, int64_t units, char *why, size_t why_size)
{
	struct wanted list[VENDORS_MAX];
	struct buf names = BUF_INIT;
	bool priced = false;
	int chosen = 0, n = read_wanted(gpu, list), stock;
	int row = choose_row(p, left, list, n, units, &chosen, &priced);

	if (row < 0) {
		for (int i = 0; i < n; i++)
			buf_addf(&names, "%s%.60s", i ? "' or '" : "", list[i].model);
		snprintf(why, why_size,
			priced ? "not enough GPUs '%s' are free" :
				 "no price, or not enough free, for GPU model '%s'",
			buf_text(&names));
		buf_release(&names);
		return -1;
	}
	if (strcmp(list[chosen].model, "*") == 0)
		list[chosen].model = p->gpus[row].key;
	stock = p->stock ? find_stock(p, left, &list[chosen], units) : -1;
	if (stock >= 0)
		left[stock] -= units;
	return row;
}
