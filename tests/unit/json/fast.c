/* fast.c - tests common/json/fast.h: what it takes by the tables of scripts/shapes JSON and
 * schema take, too, and the canonical form is that of canon.h. Each field is tried at, below and
 * beyond the bounds of its schema. */
#include "common/json/fast.h"

#include <stdlib.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/canon.h"
#include "common/json/json.h"
#include "common/json/schema.h"
#include "tests/unit/test.h"

#define ADDRESS "7Rs4zKWK8KxYTDqjWZTDyQhrbj3H8BrYxYzHLxYnJ6Gb"
#define HASH    "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define TIMES   "\"from\":\"2026-11-16T00:00:00Z\",\"to\":\"2026-11-17T00:00:00Z\""

static const struct {
	const struct fast_shape *shape;
	const char *text;
} samples[] = {
	{ &fast_usage,
		"{\"kind\":\"rnp.usage\",\"v\":1,\"node\":\"" ADDRESS "\"," TIMES
		",\"wallet\":\"" ADDRESS "\",\"gpu_model\":\"RTX 4090\",\"gpu_count\":2,"
		"\"up_s\":0,\"score_ppm\":999999999999999,\"devices\":[\"a\",\"b\"],"
		"\"verdict_sha256\":\"" HASH "\",\"unknown\":{\"z\":\"\",\"a\":\"b\"}}" },
	{ &fast_offer,
		"{\"kind\":\"rnp.offer\",\"v\":1,\"market\":\"vast\",\"offer_id\":\"7\","
		"\"at\":\"2026-11-16T00:00:00Z\",\"gpu_model\":\"RTX 4090\",\"gpu_count\":8,"
		"\"gpu_share_ppm\":5,\"uusd_per_gpu_hour\":350000,\"spot\":false,\"own\":true,"
		"\"country\":\"US\",\"region\":\"Texas\",\"reliability_ppm\":990000}" },
	{ &fast_record,
		"{\"kind\":\"rnp.uptime\",\"v\":1,\"node\":\"" ADDRESS
		"\",\"signer\":\"" ADDRESS "\",\"at\":\"2026-11-17T00:10:00.250Z\"," TIMES
		",\"beats\":2880,\"beats_sha256\":\"" HASH
		"\",\"up_ms\":80000000,\"spans\":[[0,40000000],[46400000,86400000]]}" },
	{ &fast_record,
		"{\"kind\":\"rnp.node\",\"v\":1,\"at\":\"2026-11-16T03:00:00Z\",\"gpus\":[{"
		"\"uuid\":\"GPU-1\",\"model\":\"H200\",\"ecc\":true,\"unknown\":{\"z\":\"\"}},"
		"{\"model\":\"H200\"}],\"cpu\":{\"cores\":96,\"isa\":[\"avx2\",\"sha_ni\"]},"
		"\"labels\":{\"rack\":\"3\",\"country\":\"US\",\"compliance\":[\"SOC2\"],"
		"\"peak_hours\":\"17-22\",\"host_type\":\"miner\"},\"withheld\":[]}" },
};

/* Reads a line both ways. Returns whether the fast one took it. */
static bool read_both(const struct fast_shape *shape, const char *line, size_t len)
{
	static struct fast_order order[sizeof samples / sizeof *samples];
	struct fast_scratch scratch = { BUF_INIT, BUF_INIT };
	struct buf pairs = BUF_INIT, fast = BUF_INIT, canon = BUF_INIT;
	struct fast_piece pieces[FAST_FIELDS_MAX];
	struct fast r = { .scan = { line, line + len },
		.scratch = &scratch,
		.pairs = &pairs };
	uint64_t seen;
	json_t *record;
	bool taken;

	for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
		if (samples[i].shape == shape)
			r.order = &order[i];
	err_clear();
	taken = fast_read(&r, shape, pieces, &seen);
	CHECK(!err_get()->code);
	if (taken) {
		record = json_parse_object(line, len, "line");
		/* what each of several kinds must have their reader checks */
		CHECK(schema_check(record, "line", NULL) == 0 ||
			(shape == &fast_record && strstr(err_get()->text, "is missing")));
		fast_write(&fast, &r, shape, pieces, seen);
		CHECK(canon_write(&canon, record) == 0);
		CHECK_TEXT(buf_text(&canon), buf_text(&fast));
		json_decref(record);
	}
	buf_release(&scratch.canon);
	buf_release(&scratch.inner);
	buf_release(&pairs);
	buf_release(&fast);
	buf_release(&canon);
	return taken;
}

static size_t taken;
static const struct fast_shape *shape_tried;

/* Tries the record with another value of a field; v NULL: without it. */
static void try_value(json_t *record, json_t *obj, const char *name, json_t *takes_v)
{
	json_t *old = json_incref(json_object_get(obj, name));
	struct buf line = BUF_INIT;

	if (takes_v)
		json_object_set_new(obj, name, takes_v);
	else
		json_object_del(obj, name);
	json_write(&line, record);
	taken += read_both(shape_tried, line.data, line.len);
	json_object_set_new(obj, name, old);
	buf_release(&line);
}

static json_t *letters(int64_t n)
{
	char *text = xmalloc((size_t)n + 1);
	json_t *v;

	memset(text, 'x', (size_t)n);
	v = json_stringn(text, (size_t)n);
	free(text);
	return v;
}

static json_t *copies(const json_t *array, int64_t n)
{
	json_t *v = json_array();

	while (n--)
		json_array_append(v, json_array_get(array, 0));
	return v;
}

static void try_bounds(const json_t *rule, json_t *record, json_t *obj, const char *name)
{
	static const char *const lower[] = { "minimum", "minLength", "minItems" };
	static const char *const upper[] = { "maximum", "maxLength", "maxItems" };

	for (int beyond = 0; beyond < 2; beyond++)
		for (int i = 0; i < 6; i++) {
			const json_t *bound = json_object_get(rule,
				i < 3 ? lower[i] : upper[i - 3]);
			int64_t n = json_integer_value(bound) +
				(i < 3 ? -beyond : beyond);

			if (!bound || (n < 0 && i % 3))
				continue;
			try_value(record, obj, name,
				i % 3 == 0 ? json_integer(n) :
					i % 3 == 1 ?
					     letters(n) :
					     copies(json_object_get(obj, name), n));
		}
}

static void try_fields(const json_t *schema, json_t *record, json_t *obj)
{
	const char *name;
	json_t *rule, *v;

	json_object_foreach(json_object_get(schema, "properties"), name, rule) {
		v = json_object_get(obj, name);
		if (!v)
			continue;
		try_bounds(rule, record, obj, name);
		try_value(record, obj, name, NULL);
		try_value(record, obj, name, json_integer(7));
		try_value(record, obj, name, json_real(7.5));
		try_value(record, obj, name, json_string(""));
		try_value(record, obj, name, json_string("x"));
		try_value(record, obj, name, json_true());
		try_value(record, obj, name, json_null());
		try_value(record, obj, name, json_array());
		try_value(record, obj, name, json_object());
		try_fields(rule, record, v);
		try_fields(json_object_get(rule, "items"), record, json_array_get(v, 0));
	}
}

static void test_bounds(const struct fast_shape *shape, const char *text)
{
	json_t *record = json_parse_object(text, strlen(text), "sample");
	const char *kind = json_string_value(json_object_get(record, "kind"));
	json_t *schema = json_parse_object(schema_text(kind), strlen(schema_text(kind)),
		kind);

	shape_tried = shape;
	CHECK(read_both(shape, text, strlen(text)));
	try_fields(schema, record, record);
	json_decref(schema);
	json_decref(record);
}

/* Replaces the first `from` of the first offer. */
static bool takes(const char *from, const char *to)
{
	struct buf line = BUF_INIT;
	const char *text = samples[1].text, *at = strstr(text, from);
	bool plain;

	buf_add(&line, text, (size_t)(at - text));
	buf_adds(&line, to);
	buf_adds(&line, at + strlen(from));
	plain = read_both(samples[1].shape, line.data, line.len);
	buf_release(&line);
	return plain;
}

static void test_spelling(void)
{
	CHECK(takes("\"spot\":false", " \"spot\" :\tfalse "));
	CHECK(takes("990000}", "990000}  "));
	CHECK(!takes("990000}", "990000}{}"));
	CHECK(!takes("990000}", "990000,}"));
	CHECK(!takes("990000}", "990000"));
	CHECK(!takes("\"spot\":", "\"spot\":true,\"spot\":"));
	CHECK(!takes("\"spot\":", "\"s\\u0070ot\":"));
	CHECK(!takes("\"spot\":", "\"\":1,\"spot\":"));
	CHECK(!takes("\"own\":", "\"others\":"));
	CHECK(!takes("Texas", "T\\u0065xas"));
	CHECK(!takes("350000", "350000.0"));
	CHECK(!takes("350000", "3.5e5"));
	CHECK(!takes("350000", "0350000"));
	CHECK(!takes("350000", "1000000000000000")); /* 16 digits */
}

int main(void)
{
	for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
		test_bounds(samples[i].shape, samples[i].text);
	CHECK(taken > 100);
	test_spelling();
	TEST_END();
}
