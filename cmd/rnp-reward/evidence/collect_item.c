/* collect_item.c - reads from JSON what collect.h uses of a node, an uptime, a verdict or a
 * receipt. */
#include "cmd/rnp-reward/evidence/collect_item.h"

#include <sodium.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"

#define SCORE_MAX INT64_C(1000000000000000)

const char *const collect_readings[COLLECT_READINGS] = { "bandwidth", "clock", "memory",
	"teraflops" };

const char *const collect_facts_whole[] = { "at", "wallet", "unknown", "withheld", NULL };
const char *const collect_facts_cpu[] = { "cores", "clock_max_mhz", NULL };
const char *const collect_facts_network[] = { "down_bps", "up_bps", NULL };
const char *const collect_facts_gpu[] = { "uuid", "model", "memory_bytes",
	"clock_max_mhz", "memory_bandwidth_bps", NULL };

bool collect_item_kind(const char *kind, enum collect_kind *out)
{
	static const char *const kinds[] = { [COLLECT_UPTIME] = "rnp.uptime",
		[COLLECT_VERDICT] = "rnp.verdict",
		[COLLECT_RECEIPT] = "rnp.receipt",
		[COLLECT_NODE] = "rnp.node" };

	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		if (strcmp(kind, kinds[i]) != 0)
			continue;
		*out = (enum collect_kind)i;
		return true;
	}
	return false;
}

void collect_device_key(const char *uuid, struct device_key *out)
{
	char lower[160];
	size_t n = 0;

	/* a uuid in upper case names the same device */
	for (; uuid[n] && n < sizeof lower; n++)
		lower[n] = uuid[n] >= 'A' && uuid[n] <= 'Z' ? (char)(uuid[n] + 32) :
							      uuid[n];
	crypto_generichash(out->bytes, sizeof out->bytes, (const unsigned char *)lower, n,
		NULL, 0);
}

/* Returns an object's fields of those names, which end with NULL; NULL: it is no object. */
static json_t *some_of(const json_t *object, const char *const *names)
{
	json_t *some = json_is_object(object) ? json_object() : NULL;

	for (; some && *names; names++)
		if (json_object_get(object, *names))
			json_set(some, *names,
				json_incref(json_object_get(object, *names)));
	return some;
}

void collect_item_facts(const json_t *record, struct buf *out)
{
	const json_t *gpus = json_object_get(record, "gpus"), *gpu;
	json_t *facts = some_of(record, collect_facts_whole), *list;
	size_t i;

	if (json_object_get(record, "cpu"))
		json_set(facts, "cpu",
			some_of(json_object_get(record, "cpu"), collect_facts_cpu));
	if (json_object_get(record, "network"))
		json_set(facts, "network",
			some_of(json_object_get(record, "network"),
				collect_facts_network));
	if (gpus) {
		list = json_array();
		json_array_foreach(gpus, i, gpu)
			json_push(list, some_of(gpu, collect_facts_gpu));
		json_set(facts, "gpus", list);
	}
	if (canon_write(out, facts) < 0)
		bug("%s", err_get()->text);
	json_decref(facts);
}

static int read_uptime(struct collect_item *item, const json_t *record, const char *where)
{
	const json_t *spans = json_object_get(record, "spans"), *pair;
	struct span *list;
	size_t i;

	if (json_get_time(record, where, "from", &item->from_ms) < 0 ||
		json_get_time(record, where, "to", &item->to_ms) < 0)
		return -1;
	item->nspans = json_array_size(spans);
	if (!item->nspans)
		return 0;
	item->spans = list = xcalloc(item->nspans, sizeof *list);
	json_array_foreach(spans, i, pair)
		list[i] = (struct span){ json_integer_value(json_array_get(pair, 0)),
			json_integer_value(json_array_get(pair, 1)) };
	return 0;
}

static bool read_hash(const json_t *record, const char *key,
	unsigned char out[CANON_HASH_BYTES])
{
	const char *text = json_string_value(json_object_get(record, key));
	size_t n;

	return text &&
		sodium_hex2bin(out, CANON_HASH_BYTES, text, strlen(text), NULL, &n,
			NULL) == 0 &&
		n == CANON_HASH_BYTES;
}

static int read_verdict(struct collect_item *item, const json_t *record,
	const char *where)
{
	unsigned char challenge[CANON_HASH_BYTES];
	const json_t *device;
	size_t i;

	item->score_ppm = -1;
	if (json_get_time(record, where, "at", &item->at_ms) < 0 ||
		json_get_bool(record, where, "passed", &item->passed) < 0 ||
		json_opt_i64(record, where, "score_ppm", 0, SCORE_MAX, &item->score_ppm) <
			0)
		return -1;
	item->names_record = read_hash(record, "node_record", item->node_record);
	item->names_challenge = read_hash(record, "challenge_sha256", challenge);
	if (item->names_challenge)
		memcpy(item->challenge.bytes, challenge, sizeof item->challenge.bytes);
	item->readings = json_object_get(record, "readings");
	json_array_foreach(json_object_get(record, "proven"), i, device) {
		if (item->nproven == COLLECT_DEVICES_MAX)
			break;
		collect_device_key(json_string_value(json_object_get(device, "device")),
			&item->proven[item->nproven++]);
	}
	return 0;
}

static int read_receipt(struct collect_item *item, const json_t *record,
	const char *where)
{
	const json_t *device;
	size_t i;

	item->gpu_s = item->earned_uusd = item->credits = -1;
	json_array_foreach(json_object_get(record, "devices"), i, device) {
		if (item->nproven == COLLECT_DEVICES_MAX)
			break;
		collect_device_key(json_string_value(device),
			&item->proven[item->nproven++]);
	}
	if (json_get_time(record, where, "from", &item->from_ms) < 0 ||
		json_get_time(record, where, "to", &item->to_ms) < 0 ||
		json_opt_i64(record, where, "gpu_seconds", 0, JSON_SAFE_INTEGER_MAX,
			&item->gpu_s) < 0 ||
		json_opt_i64(record, where, "earned_uusd", 0, JSON_SAFE_INTEGER_MAX,
			&item->earned_uusd) < 0)
		return -1;
	return json_opt_i64(record, where, "credits", 0, JSON_SAFE_INTEGER_MAX,
		&item->credits);
}

int collect_item_read(struct collect_item *item, enum collect_kind kind,
	const json_t *record, const char *where)
{
	const char *node;

	memset(item, 0, offsetof(struct collect_item, proven));
	item->kind = kind;
	item->record = record;
	if (json_get_text(record, where, "node", &node) < 0)
		return -1;
	snprintf(item->node, sizeof item->node, "%s", node);
	switch (kind) {
	case COLLECT_UPTIME:
		return read_uptime(item, record, where);
	case COLLECT_VERDICT:
		return read_verdict(item, record, where);
	case COLLECT_NODE:
		return json_get_time(record, where, "at", &item->at_ms);
	case COLLECT_RECEIPT:
		break;
	}
	return read_receipt(item, record, where);
}

void collect_item_release(struct collect_item *item)
{
	free((void *)item->spans);
	item->spans = NULL;
}
