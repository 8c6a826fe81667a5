/* rnp.c - reads the nodes of an rnp registry with their quotes.
 *
 * A registry is a stranger too: a price counts only with the node's own signature over it, and for
 * the GPUs that the node itself signed for. The price is what the customer pays, as with every
 * other market. Nodes of one wallet are one host. */
#include "cmd/rnp-price/feed/item.h"

#include <string.h>

#include "common/base/err.h"
#include "common/base/money.h"
#include "common/json/json.h"
#include "common/json/schema.h"
#include "common/record/gpus.h"
#include "common/record/party.h"
#include "common/record/signature.h"

static bool signed_by(const json_t *record, const char *node)
{
	const char *of = json_string_value(json_object_get(record, "node")), *who;
	struct signature_result r;

	if (!of || strcmp(of, node) != 0)
		return false;
	signature_verify(record, &r);
	return party_check(record, &r, NULL, 0, &who) == PARTY_GOOD;
}

/* Of GPUs of several models those are offered that the quote is for; without a word of it the most
 * powerful ones. */
static bool read_gpus(struct feed *f, struct offer *o, const json_t *record,
	const json_t *quote, const char *where)
{
	const char *priced = json_string_value(
		json_object_get(json_object_get(quote, "spec"), "gpu_model"));
	struct gpu_group groups[GPUS_MAX];
	int n = gpus_group(record, groups), i = 0;
	const json_t *first;
	const char *name;

	while (priced && i < n && strcmp(groups[i].model, priced) != 0)
		i++;
	if (i >= n)
		i = 0;
	if (!n || !*groups[i].model || strlen(groups[i].model) > 200)
		return false;
	first = json_array_get(groups[i].gpus, (size_t)groups[i].at[0]);
	name = json_string_value(json_object_get(first, "model"));
	o->gpu_count = groups[i].count;
	if (groups[i].memory_bytes)
		o->gpu_memory_bytes = groups[i].memory_bytes;
	feed_name_model(f, o, groups[i].known, name, where);
	return true;
}

static void read_facts(struct offer *o, const json_t *item, const json_t *record)
{
	const json_t *net = json_object_get(record, "network"),
		     *labels = json_object_get(record, "labels"),
		     *state = json_object_get(item, "state"),
		     *down = json_object_get(net, "down_bps"),
		     *up = json_object_get(net, "up_bps"),
		     *memory = json_object_get(record, "memory_bytes"),
		     *cores = json_object_get(json_object_get(record, "cpu"), "cores");
	const char *country = json_string_value(json_object_get(labels, "country")),
		   *type = json_string_value(json_object_get(labels, "host_type")),
		   *now = json_string_value(state);

	o->down_bps = json_is_integer(down) ? json_integer_value(down) : OFFER_UNKNOWN;
	o->up_bps = json_is_integer(up) ? json_integer_value(up) : OFFER_UNKNOWN;
	o->memory_bytes = json_is_integer(memory) ? json_integer_value(memory) :
						    OFFER_UNKNOWN;
	o->cpu_cores = json_is_integer(cores) ? json_integer_value(cores) : OFFER_UNKNOWN;
	if (country && strlen(country) == 2)
		o->country = country;
	if (type)
		o->secure = strcmp(type, "data-center") == 0;
	o->verified = !json_is_true(json_object_get(item, "pending"));
	o->rented = now && (strcmp(now, "busy") == 0 || strcmp(now, "render") == 0);
	o->rentable = json_is_true(json_object_get(item, "online")) && now &&
		strcmp(now, "maintenance") != 0 && !o->rented;
}

/* Reads the price of one GPU, of a quote that fits the node. Returns why there is none, or NULL. */
static const char *read_quote(struct offer *o, const json_t *quote)
{
	const json_t *spec = json_object_get(quote, "spec"),
		     *count = json_object_get(spec, "gpu_count"),
		     *customer = json_object_get(quote, "customer_uusd");

	if (!json_is_integer(customer) || json_integer_value(customer) < 0 ||
		json_integer_value(customer) > JSON_SAFE_INTEGER_MAX ||
		json_opt_time(quote, "quote", "at", &o->at_ms) < 0)
		return "a quote that is malformed, left out";
	if (count && json_integer_value(count) != o->gpu_count)
		return "a quote for other GPUs than the node's, left out";
	if (money_muldiv(json_integer_value(customer), 1, o->gpu_count, MONEY_HALF_UP,
		    &o->uusd_per_gpu_hour) < 0 ||
		!o->uusd_per_gpu_hour)
		return "a node without a price, left out";
	return NULL;
}

/* Reads a node. Returns why it is no offer, or NULL: a single liar must not spoil the list. */
static const char *read_node(struct feed *f, const struct item *it, struct offer *o)
{
	const json_t *record = item_field(it, "record"), *quote = item_field(it, "quote");
	const char *node = json_string_value(json_object_get(it->obj, "node")), *why;

	if (!node || !json_is_object(record))
		return "not a node with its record, left out";
	if (!quote)
		return "a node without a quote, left out";
	if (schema_check(record, it->where, "rnp.node") < 0 ||
		schema_check(quote, it->where, "rnp.quote") < 0)
		return "a node whose record or quote is malformed, left out";
	if (!signed_by(record, node) || !signed_by(quote, node))
		return "a node whose record or quote it has not signed, left out";
	if (!json_array_size(json_object_get(record, "gpus")))
		return "a node without a GPU, left out";
	if (!read_gpus(f, o, record, quote, it->where))
		return "a node whose GPUs have no name, left out";
	why = read_quote(o, quote);
	if (why)
		return why;
	o->market = "rnp";
	o->id = o->machine = node;
	o->host = json_string_value(json_object_get(record, "wallet"));
	if (!o->host || !*o->host)
		o->host = node;
	read_facts(o, it->obj, record);
	return NULL;
}

static int take_node(struct feed *f, const struct item *it)
{
	struct offer o;
	const char *why;

	f->rows++;
	offer_init(&o);
	why = read_node(f, it, &o);
	err_clear();
	if (why)
		feed_note(f, it->where, "%s", why);
	else
		feed_add(f, &o, it->where);
	return 0;
}

static int read_field(struct feed_list *l, const char *key, const json_t *v)
{
	const char *next = json_string_value(v);

	if (strcmp(key, "next") != 0)
		return 0;
	if (!next)
		return err_set(EX_DATAERR, "%s: field 'next' is not a text", l->name);
	if (strlen(next) >= sizeof l->feed->next)
		return err_set(EX_DATAERR, "%s: next: longer than %zu bytes", l->name,
			sizeof l->feed->next - 1);
	memcpy(l->feed->next, next, strlen(next) + 1);
	return 0;
}

int feed_rnp(struct feed *f, const char *text, size_t len, const char *name)
{
	static const struct feed_form form = {
		.list = "nodes",
		.no_list = "no 'nodes': not the list of a registry",
		.item = take_node,
		.field = read_field,
	};

	f->next[0] = '\0';
	return feed_list_read(f, &form, text, len, name);
}
