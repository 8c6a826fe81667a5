/* feed_rnp.c - reads the nodes of an rnp registry with their quotes.
 *
 * A registry is a stranger too: a price counts only with the node's own signature over it, and for
 * the GPUs that the node itself signed for. The price is what the customer pays, as with every
 * other market. Nodes of one wallet are one host. */
#include "cmd/rnp-price/feed_item.h"

#include <stdio.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/money.h"
#include "common/json/json.h"
#include "common/json/schema.h"
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

/* The GPUs of a node are of one kind, or there is no price for one of them. */
static bool read_gpus(struct feed *f, struct offer *o, const json_t *record,
	const char *where)
{
	const json_t *gpus = json_object_get(record, "gpus"), *g;
	const char *name = NULL;
	int64_t memory = 0;
	size_t i;

	json_array_foreach(gpus, i, g) {
		const char *model = json_string_value(json_object_get(g, "model"));

		if (!model || !*model || strlen(model) > 200 ||
			(name && strcmp(name, model) != 0))
			return false;
		name = model;
		memory = json_integer_value(json_object_get(g, "memory_bytes"));
	}
	o->gpu_count = (int64_t)json_array_size(gpus);
	if (o->gpu_count < 1 || o->gpu_count > 1024)
		return false;
	if (memory > 0)
		o->gpu_memory_bytes = memory;
	feed_name_model(f, o, offer_list_find(&f->offers, name, memory > 0 ? memory : 0),
		name, where);
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
	if (!read_gpus(f, o, record, it->where))
		return "a node whose GPUs are of several kinds, left out";
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

static void take_node(struct feed *f, const struct item *it)
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
}

int feed_rnp(struct feed *f, const char *text, size_t len, const char *name)
{
	json_t *doc = json_parse_object(text, len, name), *nodes = NULL;
	const char *next = "";
	struct item it;
	int rc = -1;

	if (doc && json_get_array(doc, name, "nodes", &nodes) == 0 &&
		json_opt_text(doc, name, "next", &next) == 0)
		rc = 0;
	if (rc == 0 && strlen(next) >= sizeof f->next)
		rc = err_set(EX_DATAERR, "%s: next: longer than %zu bytes", name,
			sizeof f->next - 1);
	if (rc == 0)
		snprintf(f->next, sizeof f->next, "%s", next);
	for (size_t i = 0; rc == 0 && i < json_array_size(nodes); i++) {
		it.obj = json_array_get(nodes, i);
		snprintf(it.where, sizeof it.where, "%.200s: nodes[%ld]", name, f->rows);
		take_node(f, &it);
	}
	json_decref(doc);
	return rc;
}
