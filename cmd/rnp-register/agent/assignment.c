/* assignment.c - reads what a registry assigns, and holds it against the customer's signature
 * and the node's own prices. */
#include "cmd/rnp-register/agent/assignment.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cmd/rnp-register/agent/image.h"
#include "common/base/err.h"
#include "common/json/canon.h"
#include "common/json/json.h"
#include "common/json/schema.h"
#include "common/record/signature.h"

#define WHERE     "work"
#define RANK_MAX  63
#define TURN_MAX  1000
#define CORES_MAX 65536
#define HOUR_MS   INT64_C(3600000)
#define SKEW_MS   INT64_C(300000)

/* --- reading --------------------------------------------------------------------------------- */

static int read_state(struct assignment *a, const json_t *o)
{
	const char *state, *want;
	int found;

	if (json_get_text(o, WHERE, "state", &state) < 0 ||
		json_get_text(o, WHERE, "want", &want) < 0)
		return -1;
	found = lease_state_find(state);
	if (found < 0)
		return err_set(EX_DATAERR, "work: state '%.40s' is none that we know",
			state);
	a->state = (enum lease_state)found;
	if (strcmp(want, "run") != 0 && strcmp(want, "release") != 0)
		return err_set(EX_DATAERR, "work: what is wanted is '%.40s'", want);
	a->release = *want == 'r' && want[1] == 'e';
	return 0;
}

/* Reads an array of short texts. */
static int read_texts(const json_t *o, const char *key, const char **out, size_t max,
	size_t *n)
{
	json_t *list = json_object_get(o, key), *item;
	size_t i;

	*n = 0;
	if (!list)
		return 0;
	if (!json_is_array(list) || json_array_size(list) > max)
		return err_set(EX_DATAERR, "work: '%s' is no list of at most %zu", key,
			max);
	json_array_foreach(list, i, item) {
		const char *text = json_string_value(item);

		if (!text || !*text || strlen(text) >= LEASE_GPU_BYTES)
			return err_set(EX_DATAERR,
				"work: '%s' has something else than names", key);
		out[(*n)++] = text;
	}
	return 0;
}

static bool is_hex(const char *text, size_t n)
{
	return strlen(text) == n && strspn(text, "0123456789abcdef") == n;
}

static int read_lease(struct assignment *a, const json_t *o)
{
	int64_t rank, turn = 0;

	a->cause = "";
	if (json_get_text(o, WHERE, "cluster", &a->cluster) < 0 ||
		json_get_i64(o, WHERE, "rank", 0, RANK_MAX, &rank) < 0 ||
		json_opt_i64(o, WHERE, "turn", 0, TURN_MAX, &turn) < 0 ||
		json_opt_i64(o, WHERE, "number", 0, INT64_MAX, &a->number) < 0 ||
		json_get_text(o, WHERE, "customer", &a->customer) < 0 ||
		json_get_text(o, WHERE, "booking_sha256", &a->booking_sha256) < 0 ||
		json_get_text(o, WHERE, "quote", &a->quote) < 0 ||
		json_opt_text(o, WHERE, "cause", &a->cause) < 0 ||
		json_opt_i64(o, WHERE, "restarts", 0, INT32_MAX, &a->restarts) < 0 ||
		json_opt_i64(o, WHERE, "seq", 0, JSON_SAFE_INTEGER_MAX, &a->seq) < 0 ||
		json_opt_i64(o, WHERE, "ready_ms", 0, JSON_SAFE_INTEGER_MAX,
			&a->ready_ms) < 0 ||
		json_get_i64(o, WHERE, "uusd_per_hour", 0, JSON_SAFE_INTEGER_MAX,
			&a->uusd_per_hour) < 0 ||
		json_get_i64(o, WHERE, "node_uusd_per_hour", 0, JSON_SAFE_INTEGER_MAX,
			&a->node_uusd_per_hour) < 0 ||
		json_opt_bool(o, WHERE, "go", &a->go) < 0 ||
		read_texts(o, "gpus", a->gpus, LEASE_GPUS_MAX, &a->ngpus) < 0)
		return -1;
	if (!is_hex(a->cluster, LEASE_CLUSTER - 1) || !is_hex(a->booking_sha256, 64))
		return err_set(EX_DATAERR, "work: cluster and booking are no hashes");
	a->rank = (int)rank;
	a->turn = (int)turn;
	snprintf(a->id, sizeof a->id, "%s-%d-%d", a->cluster, a->rank, a->turn);
	return 0;
}

static int read_booking(struct assignment *a)
{
	static const char *const failures[] = { "restart", "continue", "end" };
	const json_t *b = a->booking, *proposal, *request;
	const char *on_failure = "restart";

	if (json_opt_text(b, "booking", "image", &a->image) < 0 ||
		json_opt_text(b, "booking", "run_sha256", &a->run) < 0 ||
		json_opt_text(b, "booking", "setup_sha256", &a->setup) < 0 ||
		json_opt_text(b, "booking", "on_node_failure", &on_failure) < 0 ||
		json_get_i64(b, "booking", "hours", 1, INT32_MAX, &a->hours) < 0 ||
		json_get_time(b, "booking", "at", &a->booked_ms) < 0 ||
		read_texts(b, "blobs", a->blobs, ASSIGNMENT_BLOBS_MAX, &a->nblobs) < 0)
		return -1;
	for (size_t i = 0; i < sizeof failures / sizeof *failures; i++)
		if (strcmp(on_failure, failures[i]) == 0)
			a->on_failure = (enum assignment_failure)i;
	if ((a->run && !is_hex(a->run, 64)) || (a->setup && !is_hex(a->setup, 64)))
		return err_set(EX_DATAERR, "booking: run and setup are no hashes");
	for (size_t i = 0; i < a->nblobs; i++)
		if (!is_hex(a->blobs[i], 64))
			return err_set(EX_DATAERR, "booking: a blob is no hash");
	proposal = json_object_get(b, "proposal");
	request = json_object_get(proposal, "request");
	/* the job's, or the registry's own: the customer has signed the proposal as a whole */
	if (!a->image && json_opt_text(proposal, "proposal", "image", &a->image) < 0)
		return -1;
	if (json_opt_i64(request, "job", "nodes", 1, RANK_MAX + 1, &a->nodes) < 0 ||
		json_opt_i64(request, "job", "cpu_cores", 0, CORES_MAX, &a->cpu_cores) <
			0 ||
		json_opt_i64(request, "job", "memory_bytes", 0, JSON_SAFE_INTEGER_MAX,
			&a->memory_bytes) < 0)
		return -1;
	return json_opt_i64(request, "job", "disk_bytes", 0, JSON_SAFE_INTEGER_MAX,
		&a->disk_bytes);
}

int assignment_parse(struct assignment *a, const json_t *entry)
{
	json_t *booking;

	*a = (struct assignment){ 0 };
	if (!json_is_object(entry))
		return err_set(EX_DATAERR, "work: an entry is no object");
	if (read_lease(a, entry) < 0 || read_state(a, entry) < 0 ||
		json_get_object(entry, WHERE, "booking", &booking) < 0)
		return -1;
	a->booking = booking;
	a->peers = json_object_get(entry, "peers");
	return read_booking(a);
}

/* --- what is owed ---------------------------------------------------------------------------- */

#define REFUSE(...) err_set(EX_NOPERM, __VA_ARGS__)

/* The hash of the booking is that which is named, and its customer has signed it. */
static int check_signature(const struct assignment *a)
{
	struct signature_result r;
	const char *signer = json_string_value(json_object_get(a->booking, "signer"));
	char hex[65];

	if (schema_check(a->booking, "booking", "rnp.booking") < 0)
		return -1;
	signature_verify(a->booking, &r);
	if (!r.valid || !signer || strcmp(signer, a->customer) != 0 ||
		!signature_is_by(&r, a->customer))
		return REFUSE("the booking is not signed by customer '%.60s'",
			a->customer);
	sodium_bin2hex(hex, sizeof hex, r.sha256, sizeof r.sha256);
	if (strcmp(hex, a->booking_sha256) != 0)
		return REFUSE("the booking is not that of the hash which is named");
	return 0;
}

static bool same_gpus(const struct assignment *a, const json_t *part)
{
	const json_t *gpus = json_object_get(part, "gpus");

	if (json_array_size(gpus) != a->ngpus)
		return false;
	for (size_t i = 0; i < a->ngpus; i++) {
		const char *uuid = json_string_value(json_array_get(gpus, i));

		if (!uuid || strcasecmp(uuid, a->gpus[i]) != 0)
			return false;
	}
	return true;
}

/* Whether the node's part of an offer is what is assigned. */
static bool is_part(const struct assignment *a, const json_t *part, const char *address)
{
	const char *node = json_string_value(json_object_get(part, "node"));
	const char *quote = json_string_value(json_object_get(part, "quote"));

	return node && quote && strcmp(node, address) == 0 &&
		strcmp(quote, a->quote) == 0 &&
		json_integer_value(json_object_get(part, "node_uusd_per_hour")) ==
		a->node_uusd_per_hour &&
		same_gpus(a, part);
}

/* The customer took an offer that has this node, or it is one of the spares. */
static int check_offer(const struct assignment *a, const char *address)
{
	const json_t *proposal = json_object_get(a->booking, "proposal");
	const json_t *offers = json_object_get(proposal, "offers");
	json_int_t offer = json_integer_value(json_object_get(a->booking, "offer"));
	const json_t *lists[] = {
		json_object_get(json_array_get(offers, (size_t)offer), "nodes"),
		json_object_get(proposal, "spares"),
	};

	for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
		for (size_t i = 0; i < json_array_size(lists[l]); i++)
			if (is_part(a, json_array_get(lists[l], i), address))
				return 0;
	return REFUSE(
		"the booking has no such part for this node: quote %.12s, %lld uusd/h, %zu GPUs",
		a->quote, (long long)a->node_uusd_per_hour, a->ngpus);
}

static int check_price(const struct assignment *a, const struct assignment_node *node)
{
	for (size_t i = 0; i < node->nquotes; i++) {
		const struct assignment_quote *q = &node->quotes[i];
		int64_t least = q->ask_uusd;

		if (strcmp(q->sha256, a->quote) != 0)
			continue;
		if (q->gpus > 0 && a->ngpus > 0)
			least = (int64_t)((__int128)q->ask_uusd * (int64_t)a->ngpus /
				q->gpus);
		if (a->node_uusd_per_hour < least)
			return REFUSE(
				"the price is %lld uusd/h, and this node quoted %lld",
				(long long)a->node_uusd_per_hour, (long long)least);
		if (q->until_ms && a->booked_ms > q->until_ms + SKEW_MS)
			return REFUSE("the quote was over when it was booked");
		return 0;
	}
	return REFUSE("this node has not quoted %.12s", a->quote);
}

static int check_gpus(const struct assignment *a, const struct assignment_node *node)
{
	for (size_t i = 0; i < a->ngpus; i++) {
		bool here = false;

		for (size_t k = 0; k < i; k++)
			if (strcasecmp(a->gpus[i], a->gpus[k]) == 0)
				return REFUSE("GPU '%.60s' is assigned twice",
					a->gpus[i]);
		for (size_t k = 0; k < node->ngpus; k++)
			here |= strcasecmp(a->gpus[i], node->gpus[k]) == 0;
		if (!here)
			return REFUSE("this node has no GPU '%.60s'", a->gpus[i]);
	}
	return 0;
}

int assignment_verify(const struct assignment *a, const struct assignment_node *node)
{
	struct image_name image;

	if (check_signature(a) < 0 || check_offer(a, node->address) < 0 ||
		check_price(a, node) < 0 || check_gpus(a, node) < 0)
		return -1;
	if (a->booked_ms > node->now_ms + SKEW_MS)
		return REFUSE("the booking is of a time to come: whose clock is wrong?");
	if (a->booked_ms + a->hours * HOUR_MS < node->now_ms)
		return REFUSE("the booking's hours are over");
	if (!a->image)
		return err_set(EX_DATAERR, "the booking names no image");
	return image_name_parse(&image, a->image);
}

bool assignment_same(const struct assignment *a, const struct assignment *b)
{
	bool same = strcmp(a->id, b->id) == 0 && strcmp(a->customer, b->customer) == 0 &&
		strcmp(a->booking_sha256, b->booking_sha256) == 0 &&
		strcmp(a->quote, b->quote) == 0 && a->number == b->number &&
		a->uusd_per_hour == b->uusd_per_hour &&
		a->node_uusd_per_hour == b->node_uusd_per_hour && a->ngpus == b->ngpus;

	for (size_t i = 0; same && i < a->ngpus; i++)
		same = strcmp(a->gpus[i], b->gpus[i]) == 0;
	return same && json_equal(a->booking, b->booking);
}

int assignment_quote_read(struct assignment_quote *out, const json_t *quote,
	const char *address)
{
	struct signature_result r;
	const json_t *spec = json_object_get(quote, "spec");
	const char *node;

	*out = (struct assignment_quote){ 0 };
	if (schema_check(quote, "quote", "rnp.quote") < 0 ||
		json_get_text(quote, "quote", "node", &node) < 0 ||
		json_get_i64(quote, "quote", "ask_uusd", 0, JSON_SAFE_INTEGER_MAX,
			&out->ask_uusd) < 0 ||
		json_opt_time(quote, "quote", "until", &out->until_ms) < 0 ||
		json_opt_i64(spec, "quote", "gpu_count", 0, LEASE_GPUS_MAX, &out->gpus) <
			0)
		return -1;
	signature_verify(quote, &r);
	if (!r.ok || strcmp(node, address) != 0 || !signature_is_by(&r, address))
		return REFUSE("the quote is not signed by this node");
	sodium_bin2hex(out->sha256, sizeof out->sha256, r.sha256, sizeof r.sha256);
	return 0;
}
