/* offer.c - offers of a registry. */
#include "cmd/rnp-register/customer/offer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/rnp-register/customer/customer.h"
#include "common/base/err.h"
#include "common/base/money.h"
#include "common/base/utf8.h"
#include "common/json/json.h"
#include "common/json/schema.h"
#include "common/record/signature.h"

static int64_t whole(const json_t *v, const char *key, int64_t absent)
{
	const json_t *n = json_object_get(v, key);

	return json_is_integer(n) ? json_integer_value(n) : absent;
}

const json_t *offer_first(const json_t *proposal)
{
	return json_array_get(json_object_get(proposal, "offers"), 0);
}

int64_t offer_uusd_per_hour(const json_t *proposal)
{
	return whole(offer_first(proposal), "uusd_per_hour", INT64_MAX);
}

/* --- checks ------------------------------------------------------------------------------- */

/* Signed by the party that it names. */
static int check_signed(const json_t *record, const char *what, const char *signer)
{
	struct signature_result proof;

	signature_verify(record, &proof);
	if (!proof.valid)
		return err_set(EX_DATAERR, "the registry's %s: %s", what, proof.reason);
	if (!signer || !signature_is_by(&proof, signer))
		return err_set(EX_DATAERR,
			"the registry's %s is not signed by the registry", what);
	return 0;
}

/* The sums of an offer are those of its nodes. */
static int check_sums(const json_t *offer, int64_t nodes, int64_t gpus)
{
	const json_t *list = json_object_get(offer, "nodes"), *node;
	int64_t uusd = 0, n = 0;
	size_t i;

	json_array_foreach((json_t *)list, i, node) {
		uusd += whole(node, "uusd_per_hour", 0);
		n += (int64_t)json_array_size(json_object_get(node, "gpus"));
	}
	if ((int64_t)json_array_size(list) != nodes)
		return err_set(EX_DATAERR,
			"the registry offers %zu nodes, and the job wants %" PRId64,
			json_array_size(list), nodes);
	if (n < gpus)
		return err_set(EX_DATAERR,
			"the registry offers %" PRId64
			" GPUs, and the job wants %" PRId64,
			n, gpus);
	if (uusd != whole(offer, "uusd_per_hour", -1))
		return err_set(EX_DATAERR,
			"the registry's offer costs another sum than its nodes");
	return 0;
}

int offer_check(const json_t *proposal, const json_t *wish)
{
	const json_t *offer = offer_first(proposal);
	int64_t limit = whole(wish, "max_uusd_per_hour", INT64_MAX);

	if (schema_check(proposal, "the registry's proposal", "rnp.proposal") < 0 ||
		check_signed(proposal, "proposal",
			json_string_value(json_object_get(proposal, "signer"))) < 0)
		return -1;
	if (!json_equal(json_object_get(proposal, "request"), wish))
		return err_set(EX_DATAERR, "the registry's proposal is for another job");
	if (!offer)
		return 0;
	if (check_sums(offer, whole(wish, "nodes", 1), whole(wish, "gpu_count", 1)) < 0)
		return -1;
	if (offer_uusd_per_hour(proposal) > limit)
		return err_set(EX_DATAERR,
			"the registry's offer costs more than the job's limit");
	return 0;
}

/* The dearest of these that costs no more than that; -1: there is none. */
static int64_t dearest(const json_t *nodes, int64_t most)
{
	const json_t *node;
	int64_t found = -1;
	size_t i;

	json_array_foreach((json_t *)nodes, i, node) {
		int64_t uusd = whole(node, "uusd_per_hour", INT64_MAX);

		if (uusd <= most && uusd > found)
			found = uusd;
	}
	return found;
}

void offer_set_replacement(json_t *booking, const json_t *proposal)
{
	const json_t *wish = json_object_get(proposal, "request");
	const char *on_failure = json_string_value(
		json_object_get(booking, "on_node_failure"));
	const json_t *nodes = json_object_get(offer_first(proposal), "nodes");
	int64_t most = dearest(nodes, JSON_SAFE_INTEGER_MAX), limit, uusd;

	if (most < 0 || (on_failure && strcmp(on_failure, "end") == 0))
		return;
	most += most / 2;
	limit = whole(wish, "max_uusd_per_hour", INT64_MAX) / whole(wish, "nodes", 1);
	uusd = dearest(json_object_get(proposal, "spares"), most < limit ? most : limit);
	if (uusd >= 0)
		json_set_i64(booking, "replace_uusd_per_hour", uusd);
}

size_t offer_choose(const json_t *const *proposals, size_t n, bool in_order)
{
	size_t best = n;

	for (size_t i = 0; i < n; i++) {
		if (!offer_first(proposals[i]))
			continue;
		if (best == n ||
			(!in_order &&
				offer_uusd_per_hour(proposals[i]) <
					offer_uusd_per_hour(proposals[best])))
			best = i;
	}
	return best;
}

int offer_check_cluster(const json_t *proposal, const json_t *cluster)
{
	const json_t *offered = json_object_get(offer_first(proposal), "nodes"), *node;
	json_t *nodes;
	size_t i;

	if (schema_check(cluster, "the registry's cluster", "rnp.cluster") < 0 ||
		check_signed(cluster, "cluster",
			json_string_value(json_object_get(proposal, "signer"))) < 0 ||
		json_get_array(cluster, "cluster", "nodes", &nodes) < 0)
		return -1;
	if (!customer_is_cluster(json_string_value(json_object_get(cluster, "cluster"))))
		return err_set(EX_DATAERR,
			"the registry's cluster has no cluster's name");
	if (json_array_size(nodes) != json_array_size(offered))
		return err_set(EX_DATAERR,
			"the registry has booked %zu nodes, and %zu were offered",
			json_array_size(nodes), json_array_size(offered));
	json_array_foreach(nodes, i, node) {
		const json_t *wanted = json_array_get(offered, i);

		if (!json_equal(json_object_get(node, "node"),
			    json_object_get(wanted, "node")) ||
			whole(node, "uusd_per_hour", -1) !=
				whole(wanted, "uusd_per_hour", -2))
			return err_set(EX_DATAERR,
				"the registry has booked another node, or another price, for rank %zu",
				i);
	}
	return 0;
}

/* --- words -------------------------------------------------------------------------------- */

void offer_add_dollars(struct buf *out, int64_t uusd)
{
	if (uusd % 10000 == 0)
		money_format(out, uusd / 10000, 2);
	else
		money_format(out, uusd, MONEY_USD_DECIMALS);
}

/* "41 nodes left out: 22 memory, 12 place": the most first, six at most. */
static void add_left_out(struct buf *out, const json_t *left)
{
	const char *names[6] = { NULL }, *reason;
	json_int_t counts[6] = { 0 }, all = 0;
	json_t *n;

	json_object_foreach((json_t *)left, reason, n) {
		json_int_t count = json_integer_value(n);

		all += count;
		for (int i = 0; i < 6 && count > 0; i++)
			if (count > counts[i]) {
				memmove(names + i + 1, names + i,
					(size_t)(5 - i) * sizeof *names);
				memmove(counts + i + 1, counts + i,
					(size_t)(5 - i) * sizeof *counts);
				names[i] = reason;
				counts[i] = count;
				break;
			}
	}
	if (!all)
		return;
	buf_addf(out, "; %lld node%s left out", (long long)all, all == 1 ? "" : "s");
	for (int i = 0; i < 6 && counts[i]; i++)
		buf_addf(out, "%s%lld %.60s", i ? ", " : ": ", (long long)counts[i],
			names[i]);
}

/* Notes a text with how often it is there, in an object. Nodes may say what they like. */
static void count_text(json_t *counts, const char *text, json_int_t n)
{
	char clean[64];

	if (!text || !n)
		return;
	snprintf(clean, sizeof clean, "%s", text);
	utf8_clean_line(clean);
	json_set_i64(counts, clean,
		json_integer_value(json_object_get(counts, clean)) + n);
}

/* "2 x NVIDIA GeForce RTX 4090, 1 x NVIDIA L4"; of GPUs whose model is not said "3 GPUs". */
static void add_gpus(struct buf *out, const json_t *models, size_t gpus)
{
	const char *model;
	json_int_t named = 0;
	json_t *n;

	json_object_foreach((json_t *)models, model, n) {
		buf_addf(out, "%s%lld x %s", named ? ", " : "",
			(long long)json_integer_value(n), model);
		named += json_integer_value(n);
	}
	if ((size_t)named < gpus)
		buf_addf(out, "%s%zu GPU%s", named ? ", " : "", gpus - (size_t)named,
			gpus - (size_t)named == 1 ? "" : "s");
}

/* "2 x NVIDIA GeForce RTX 4090 on 2 nodes (SI), image there". */
static void add_nodes(struct buf *out, const json_t *nodes)
{
	json_t *models = json_object(), *places = json_object(), *node, *any;
	size_t gpus = 0, there = 0, i, n = json_array_size(nodes);
	const char *place, *between = " (";

	json_array_foreach((json_t *)nodes, i, node) {
		size_t own = json_array_size(json_object_get(node, "gpus"));

		gpus += own;
		there += json_is_true(json_object_get(node, "image_there"));
		count_text(models, json_string_value(json_object_get(node, "gpu_model")),
			(json_int_t)own);
		count_text(places, json_string_value(json_object_get(node, "country")),
			1);
	}
	add_gpus(out, models, gpus);
	if (!gpus || n != 1)
		buf_addf(out, "%s%zu node%s", gpus ? " on " : "", n, n == 1 ? "" : "s");
	json_object_foreach(places, place, any) {
		buf_addf(out, "%s%s", between, place);
		between = ", ";
	}
	if (json_object_size(places))
		buf_adds(out, ")");
	if (there && there == n)
		buf_adds(out, ", image there");
	else if (there)
		buf_addf(out, ", image on %zu of them", there);
	json_decref(models);
	json_decref(places);
}

void offer_words(struct buf *out, const json_t *proposal)
{
	const json_t *offers = json_object_get(proposal, "offers"),
		     *offer = json_array_get(offers, 0),
		     *next = json_array_get(offers, 1);

	add_nodes(out, json_object_get(offer, "nodes"));
	buf_adds(out, ", ");
	offer_add_dollars(out, whole(offer, "uusd_per_hour", 0));
	buf_adds(out, " $/h, at most ");
	offer_add_dollars(out, whole(offer, "up_to_uusd", 0));
	buf_adds(out, " $");
	if (next) {
		buf_adds(out, "; next ");
		offer_add_dollars(out, whole(next, "uusd_per_hour", 0));
		buf_adds(out, " $/h");
	}
	add_left_out(out, json_object_get(proposal, "left_out"));
}

/* What the nearest wish is called in words, and what one of its units is: 0: dollars. */
static const struct {
	const char *wish, *before, *after;
	double unit;
} nearest_words[] = {
	{ "memory_bytes", "", " GB of memory", 1e9 },
	{ "disk_bytes", "a disk of ", " GB", 1e9 },
	{ "gpu_memory_bytes", "GPUs of ", " GB", 1e9 },
	{ "cpu_cores", "", " cores", 1 },
	{ "gpu_count", "", " GPUs", 1 },
	{ "nodes", "", " nodes", 1 },
	{ "nodes_max", "the GPUs on ", " nodes", 1 },
	{ "ping_us", "a ping of ", " ms", 1e3 },
	{ "max_uusd_per_hour", "", " $ an hour", 0 },
	{ "max_uusd", "", " $ in all", 0 },
};

/* "64 GB of memory"; a wish that has no words of its own: "tier 2", or its name. */
static void add_wish(struct buf *out, const char *wish, const json_t *to)
{
	struct buf value = BUF_INIT;

	for (size_t i = 0; i < sizeof nearest_words / sizeof *nearest_words; i++) {
		if (strcmp(wish, nearest_words[i].wish) != 0 || !json_is_integer(to))
			continue;
		buf_adds(out, nearest_words[i].before);
		if (nearest_words[i].unit > 0)
			buf_addf(out, "%.4g",
				(double)json_integer_value(to) / nearest_words[i].unit);
		else
			offer_add_dollars(out, json_integer_value(to));
		buf_adds(out, nearest_words[i].after);
		return;
	}
	if (strcmp(wish, "gpu_model") == 0 && json_is_string(to)) {
		buf_addf(out, "accelerators: %.60s", json_string_value(to));
		return;
	}
	if (to)
		json_write(&value, to);
	buf_addf(out, "%.60s%s%.60s", wish, to ? " " : "", buf_text(&value));
	buf_release(&value);
}

void offer_none_words(struct buf *out, const json_t *proposal)
{
	const json_t *nearest = json_object_get(proposal, "nearest"),
		     *to = json_object_get(nearest, "to"),
		     *left_out = json_object_get(proposal, "left_out");
	const char *wish = json_string_value(json_object_get(nearest, "wish"));

	buf_adds(out, "nothing fits");
	add_left_out(out, left_out);
	if (!wish && !json_object_size(left_out))
		buf_adds(out, ": no node is for sale at present");
	if (!wish)
		return;
	buf_addf(out, "; %lld would %s ", (long long)whole(nearest, "nodes", 0),
		to ? "with" : "without");
	add_wish(out, wish, to);
}
