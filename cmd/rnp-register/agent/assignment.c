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
#define RANK_MAX  (ASSIGNMENT_RANKS_MAX - 1)
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
		json_opt_bool(o, WHERE, "halt", &a->halt) < 0 ||
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

static int read_peers(struct assignment *a, const json_t *entry)
{
	const json_t *list = json_object_get(entry, "peers"), *peer;
	size_t i;

	json_array_foreach((json_t *)list, i, peer) {
		int64_t rank;

		if (json_get_i64(peer, "peer", "rank", 0, RANK_MAX, &rank) < 0)
			return -1;
		if (a->peers[rank])
			return err_set(EX_DATAERR, "work: rank %d is there twice",
				(int)rank);
		a->peers[rank] = peer;
	}
	a->kept = json_object_get(entry, "kept");
	a->keys = json_object_get(entry, "keys");
	return 0;
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
	return read_peers(a, entry) < 0 ? -1 : read_booking(a);
}

void assignment_address(const struct assignment *a, int rank, char out[PLACE_TEXT_MAX])
{
	place_text(place_rank(a->cluster, PLACE_RANKS_APART, rank), out);
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

static const json_t *nodes_of(const struct assignment *a)
{
	const json_t *offers = json_object_get(json_object_get(a->booking, "proposal"),
		"offers");
	json_int_t offer = json_integer_value(json_object_get(a->booking, "offer"));

	return json_object_get(json_array_get(offers, (size_t)offer), "nodes");
}

/* Whether a part of the offer that the customer took, or one of the spares, is such a one. */
static bool has_part(const struct assignment *a, const char *address,
	bool (*is)(const struct assignment *a, const json_t *part, const char *address))
{
	const json_t *lists[] = {
		nodes_of(a),
		json_object_get(json_object_get(a->booking, "proposal"), "spares"),
	};

	for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
		for (size_t i = 0; i < json_array_size(lists[l]); i++)
			if (is(a, json_array_get(lists[l], i), address))
				return true;
	return false;
}

static int check_offer(const struct assignment *a, const char *address)
{
	if (has_part(a, address, is_part))
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

static bool is_node(const struct assignment *a, const json_t *part, const char *address)
{
	const char *node = json_string_value(json_object_get(part, "node"));

	(void)a;
	return node && strcmp(node, address) == 0;
}

static int check_peers(const struct assignment *a)
{
	int nodes = (int)json_array_size(nodes_of(a));

	for (int rank = 0; rank < ASSIGNMENT_RANKS_MAX; rank++) {
		const char *node = json_string_value(
			json_object_get(a->peers[rank], "node"));

		if (!a->peers[rank])
			continue;
		if (!node || rank >= nodes || !has_part(a, node, is_node))
			return REFUSE(
				"the registry names '%.60s' as rank %d of %d, which the booking does not",
				node ? node : "", rank, nodes);
	}
	return 0;
}

/* A manifest is what start.sh puts back into places of the container's root. */
static int check_kept(const struct assignment *a)
{
	const json_t *e = a->kept;
	const char *node, *cluster;
	struct signature_result r;
	int64_t rank;

	if (!e)
		return 0;
	if (schema_check(e, "kept", "rnp.event") < 0 ||
		json_get_text(e, "kept", "node", &node) < 0 ||
		json_get_text(e, "kept", "cluster", &cluster) < 0 ||
		json_get_i64(e, "kept", "rank", 0, RANK_MAX, &rank) < 0)
		return -1;
	signature_verify(e, &r);
	if (!r.ok || !signature_is_by(&r, node) || !has_part(a, node, is_node))
		return REFUSE(
			"the registry gives artifacts that no node of the booking has signed");
	if (strcmp(cluster, a->cluster) != 0 || rank != a->rank ||
		!json_object_get(e, "artifacts"))
		return REFUSE("the registry gives artifacts of another rank or cluster");
	return 0;
}

static int check_keys(const struct assignment *a)
{
	const char *cluster, *action;
	struct signature_result r;

	if (!a->keys)
		return 0;
	if (schema_check(a->keys, "keys", "rnp.action") < 0 ||
		json_get_text(a->keys, "keys", "cluster", &cluster) < 0 ||
		json_get_text(a->keys, "keys", "action", &action) < 0)
		return -1;
	signature_verify(a->keys, &r);
	if (!r.ok || !signature_is_by(&r, a->customer))
		return REFUSE("the registry gives keys that the customer has not signed");
	if (strcmp(cluster, a->cluster) != 0 || strcmp(action, "keys") != 0 ||
		!json_object_get(a->keys, "ssh_keys"))
		return REFUSE("the registry gives keys of another cluster");
	return 0;
}

int assignment_verify_others(const struct assignment *a)
{
	return check_peers(a) < 0 || check_kept(a) < 0 ? -1 : check_keys(a);
}

int assignment_verify(const struct assignment *a, const struct assignment_node *node)
{
	struct image_name image;

	if (check_signature(a) < 0 || check_offer(a, node->address) < 0 ||
		check_price(a, node) < 0 || check_gpus(a, node) < 0 ||
		assignment_verify_others(a) < 0)
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
		same = strcasecmp(a->gpus[i], b->gpus[i]) == 0;
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
