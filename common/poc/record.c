/* record.c - challenges as records, with their limits. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "common/json/canon.h"
#include "common/base/err.h"
#include "common/base/sha256.h"
#include "common/base/utf8.h"
#include "common/json/json.h"
#include "common/poc/poc.h"
#include "common/record/signature.h"
#include "common/json/schema.h"

/* Reads a size that is within limits, so that products with other sizes do not overflow. */
static int size_of(const json_t *test, const char *where, const char *key, int64_t max,
	int64_t *out)
{
	return json_get_i64(test, where, key, 1, max, out);
}

static int product_within(const char *where, const char *what, int64_t a, int64_t b,
	int64_t min, int64_t max)
{
	if (a > max / b || a * b < min)
		return err_set(EX_DATAERR, "%s: %s is not between %lld and %lld", where,
			what, (long long)min, (long long)max);
	return 0;
}

static int read_matmul(struct poc_device *d, const json_t *test, const char *where)
{
	if (!test)
		return 0;
	if (size_of(test, where, "n", POC_N_MAX, &d->n) < 0 ||
		size_of(test, where, "rounds", POC_LEAVES_MAX, &d->rounds) < 0)
		return -1;
	if (d->n % POC_N_MIN)
		return err_set(EX_DATAERR, "%s: matmul.n is not a multiple of %d", where,
			POC_N_MIN);
	return product_within(where, "matmul.n * rounds", d->rounds, d->n, POC_OPENINGS,
		POC_LEAVES_MAX);
}

static int read_memory(struct poc_device *d, const json_t *test, const char *where)
{
	if (!test)
		return 0;
	if (size_of(test, where, "lanes", POC_LANES_MAX, &d->lanes) < 0 ||
		size_of(test, where, "per_slice", POC_LEAVES_MAX, &d->per_slice) < 0 ||
		size_of(test, where, "passes", POC_PASSES_MAX, &d->passes) < 0)
		return -1;
	return product_within(where, "memory.lanes * per_slice", d->per_slice, d->lanes,
		POC_OPENINGS, POC_LEAVES_MAX);
}

static int read_chain(struct poc_device *d, const json_t *test, const char *where)
{
	if (!test)
		return 0;
	if (size_of(test, where, "segments", POC_SEGMENTS_MAX, &d->segments) < 0 ||
		size_of(test, where, "steps", POC_STEPS_MAX, &d->steps) < 0)
		return -1;
	return product_within(where, "chain.segments * steps", d->steps, d->segments, 1,
		POC_HASHES_MAX);
}

static int read_device(struct poc_device *d, const json_t *v, const char *where)
{
	const char *uuid;

	if (json_get_text(v, where, "device", &uuid) < 0 ||
		read_matmul(d, json_object_get(v, "matmul"), where) < 0 ||
		read_memory(d, json_object_get(v, "memory"), where) < 0 ||
		read_chain(d, json_object_get(v, "chain"), where) < 0)
		return -1;
	if (!d->n && !d->lanes && !d->segments)
		return err_set(EX_DATAERR, "%s: nothing is asked of it", where);
	/* the schema bounds its length */
	snprintf(d->uuid, sizeof d->uuid, "%s", uuid);
	return 0;
}

static int read_devices(struct poc_challenge *c, const json_t *list, const char *where)
{
	c->ndevices = (int)json_array_size(list);
	for (int i = 0; i < c->ndevices; i++) {
		char there[256];

		snprintf(there, sizeof there, "%.200s: devices[%d]", where, i);
		if (read_device(&c->devices[i], json_array_get(list, (size_t)i), there) <
			0)
			return -1;
		for (int k = 0; k < i; k++)
			if (strcmp(c->devices[k].uuid, c->devices[i].uuid) == 0)
				return err_set(EX_DATAERR, "%s: named twice", there);
	}
	return 0;
}

/* Builds the record except for its signature. */
static int read_body(struct poc_challenge *c, const json_t *record, const char *where)
{
	const char *node, *signer;

	*c = (struct poc_challenge){ 0 };
	if (schema_check(record, where, "rnp.challenge") < 0 ||
		json_get_text(record, where, "node", &node) < 0 ||
		json_get_text(record, where, "signer", &signer) < 0 ||
		address_parse(node, "node", c->node_key) < 0 ||
		json_get_time(record, where, "issued_at", &c->issued_ms) < 0 ||
		json_get_i64(record, where, "deadline_ms", 1, POC_DEADLINE_MS_MAX,
			&c->deadline_ms) < 0 ||
		json_opt_i64(record, where, "roots_ms", 1, POC_DEADLINE_MS_MAX,
			&c->roots_ms) < 0 ||
		read_devices(c, json_object_get(record, "devices"), where) < 0)
		return -1;
	if (!poc_get_hash(json_object_get(record, "nonce"), c->nonce))
		return err_set(EX_DATAERR, "%s: nonce is not a hash", where);
	c->of_record = poc_get_hash(json_object_get(record, "node_record"),
		c->node_record);
	c->of_joint = poc_get_hash(json_object_get(record, "joint"), c->joint);
	snprintf(c->node, sizeof c->node, "%s", node);
	snprintf(c->signer, sizeof c->signer, "%s", signer);
	return canon_hash_record(c->sha256, record);
}

int poc_challenge_read(struct poc_challenge *c, const json_t *record, const char *where)
{
	struct signature_result r;

	if (read_body(c, record, where) < 0)
		return -1;
	signature_verify(record, &r);
	if (!r.ok)
		return err_set(EX_DATAERR, "%s: the challenge is not signed: %s", where,
			r.reason);
	return 0;
}

static json_t *test_of(const char *a, int64_t av, const char *b, int64_t bv)
{
	json_t *v = json_object();

	json_set_i64(v, a, av);
	json_set_i64(v, b, bv);
	return v;
}

static json_t *device_of(const struct poc_device *d)
{
	json_t *v = json_object(), *test;

	json_set_text(v, "device", d->uuid);
	if (d->n)
		json_set(v, "matmul", test_of("n", d->n, "rounds", d->rounds));
	if (d->lanes) {
		test = test_of("lanes", d->lanes, "per_slice", d->per_slice);
		json_set_i64(test, "passes", d->passes);
		json_set(v, "memory", test);
	}
	if (d->segments)
		json_set(v, "chain", test_of("segments", d->segments, "steps", d->steps));
	return v;
}

json_t *poc_challenge_write(struct poc_challenge *c)
{
	json_t *record = json_record("rnp.challenge"), *devices = json_array();
	struct poc_challenge again;

	json_set_text(record, "node", c->node);
	json_set_text(record, "signer", c->signer);
	poc_set_hash(record, "nonce", c->nonce);
	json_set_time(record, "issued_at", c->issued_ms);
	json_set_i64(record, "deadline_ms", c->deadline_ms);
	if (c->roots_ms)
		json_set_i64(record, "roots_ms", c->roots_ms);
	if (c->of_record)
		poc_set_hash(record, "node_record", c->node_record);
	if (c->of_joint)
		poc_set_hash(record, "joint", c->joint);
	for (int i = 0; i < c->ndevices; i++)
		json_push(devices, device_of(&c->devices[i]));
	json_set(record, "devices", devices);
	if (read_body(&again, record, "challenge") < 0) {
		json_decref(record);
		return NULL;
	}
	*c = again;
	return record;
}

/* Returns a field's text if it is a string. */
static void add_text(struct buf *line, const json_t *v)
{
	if (json_is_string(v))
		buf_addf(line, " %s", json_string_value(v));
}

static void add_device(struct buf *line, const json_t *device)
{
	const json_t *memory = json_object_get(device, "memory"), *root;
	const json_t *chain = json_object_get(json_object_get(device, "chain"),
		"checkpoints");
	unsigned char hash[POC_HASH_BYTES];
	char hex[2 * POC_HASH_BYTES + 1];
	const char *name = json_string_value(json_object_get(device, "device"));
	size_t i;

	buf_adds(line, name ? name : "");
	add_text(line, json_object_get(json_object_get(device, "matmul"), "root"));
	json_array_foreach(json_object_get(memory, "roots"), i, root)
		add_text(line, root);
	if (json_is_string(chain)) {
		sha256(hash, json_string_value(chain), json_string_length(chain));
		sodium_bin2hex(hex, sizeof hex, hash, sizeof hash);
		buf_addf(line, " %s", hex);
	}
	buf_addc(line, '\n');
}

void poc_roots_hash(unsigned char out[POC_HASH_BYTES], const json_t *answer)
{
	struct buf lines = BUF_INIT;
	const json_t *device;
	size_t i;

	json_array_foreach(json_object_get(answer, "devices"), i, device)
		add_device(&lines, device);
	sha256(out, buf_text(&lines), lines.len);
	buf_release(&lines);
}

json_t *poc_roots_write(const struct poc_challenge *c, const json_t *answer)
{
	json_t *record = json_record("rnp.roots");
	unsigned char hash[POC_HASH_BYTES];

	poc_roots_hash(hash, answer);
	json_set_text(record, "node", c->node);
	poc_set_hash(record, "challenge_sha256", c->sha256);
	poc_set_hash(record, "roots_sha256", hash);
	return record;
}

json_t *poc_unanswered_write(const struct poc_challenge *c, const char *reason)
{
	json_t *record = json_record("rnp.unanswered");
	char text[POC_UNANSWERED_MAX];

	snprintf(text, sizeof text, "%s", reason);
	utf8_clean_line(text); /* a character may have been cut in two */
	json_set_text(record, "node", c->node);
	poc_set_hash(record, "challenge_sha256", c->sha256);
	json_set_text(record, "reason", text);
	return record;
}

const char *poc_unanswered_read(const json_t *record, const char *where,
	unsigned char challenge[POC_HASH_BYTES])
{
	struct signature_result r;

	if (schema_check(record, where, "rnp.unanswered") < 0)
		return NULL;
	signature_verify(record, &r);
	if (!r.ok) {
		err_set(EX_NOPERM, "%s", r.reason);
		return NULL;
	}
	poc_get_hash(json_object_get(record, "challenge_sha256"), challenge);
	return json_string_value(json_object_get(record, "reason"));
}

json_t *poc_answer_parse(const char *text, size_t len, const char *where)
{
	size_t values = 0;

	/* Every value but the first of an array or object follows a comma; strings in an answer
	 * contain none. */
	for (size_t i = 0; i < len; i++)
		values += (text[i] == ',') | (text[i] == '[') | (text[i] == '{');
	if (values <= POC_ANSWER_VALUES_MAX)
		return json_parse_object(text, len, where);
	err_set(EX_DATAERR, "%s: holds more than %d values", where,
		POC_ANSWER_VALUES_MAX);
	return NULL;
}
