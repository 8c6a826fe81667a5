/* json_read.c - compares our reader with jansson: both accept and refuse the same texts and
 * read the same values. */
#include "common/json/read.h"

#include <stdlib.h>

#include "common/base/buf.h"
#include "common/json/canon.h"
#include "common/base/rng.h"
#include "tests/unit/test.h"

static json_t *by_jansson(const char *text, size_t len)
{
	const size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY;
	json_error_t error;
	json_t *v = json_loadb(text, len, flags, &error);

	if (!v && json_error_code(&error) == json_error_numeric_overflow)
		v = json_loadb(text, len, flags | JSON_DECODE_INT_AS_REAL, &error);
	return v;
}

static void compare(const char *text, size_t len)
{
	/* of exactly that size, so that a sanitizer sees a step too far */
	char *copy = memcpy(malloc(len ? len : 1), text, len);
	json_t *ours, *theirs;
	struct buf a = BUF_INIT, b = BUF_INIT;

	ours = json_read(copy, len, 64, false);
	theirs = by_jansson(copy, len);
	CHECK((ours != NULL) == (theirs != NULL));
	if ((ours != NULL) != (theirs != NULL))
		fprintf(stderr, "%s: %.*s\n", ours ? "taken" : "refused", (int)len, text);
	if (ours && theirs) {
		CHECK(canon_write(&a, ours) == 0 && canon_write(&b, theirs) == 0);
		CHECK_TEXT(buf_text(&b), buf_text(&a));
	}
	json_decref(ours);
	json_decref(theirs);
	buf_release(&a);
	buf_release(&b);
	free(copy);
}

static const char *const texts[] = { "", " ", "null", "nul", "nulll", "true", "false",
	"tru e", "0", "-0", "-", "00", "01", "-01", "1.", ".5", "1.5", "1e5", "1e", "1e+",
	"1E-5", "1e+05", "+1", "0x1", "1e999", "-1e999", "1e-999", "123456789012345678",
	"1234567890123456789", "9223372036854775807", "9223372036854775808",
	"-9223372036854775808", "-9223372036854775809", "[9223372036854775808,1]",
	"12345678901234567890123",
	"0.1000000000000000055511151231257827021181583404541015625000000000000000000000001",
	"1000000000000000000000000000000000000000000000000000000000000000000000000000000000",
	"[]", "[ ]", "[1]", "[1,]", "[,1]", "[1 2]", "[1", "]", "[[]", "[[],[]]", "{}",
	"{ }", "{", "{\"a\"}", "{\"a\":}", "{\"a\":1}", "{\"a\":1,}", "{,}",
	"{\"a\":1,\"a\":2}", "{\"a\":1,\"\\u0061\":2}", "{\"a\":{\"a\":1}}", "{a:1}",
	"{1:1}", "{\"\":1}", "{ \"a\" : [ 1 , { \"b\" : null } ] } ", "\"\"", "\"", "\"a",
	"\"a\\\"", "\"a\\\"b\"", "\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\x\"", "\"\\",
	"\"\\u\"", "\"\\u12\"", "\"\\u12g4\"", "\"\\u0041\\u00e9\\u20AC\"",
	"\"\\ud83d\\ude00\"", "\"\\ud83d\"", "\"\\ud83dx\"", "\"\\ud83d\\u0041\"",
	"\"\\ude00\"", "\"\\u0000\"", "\"\\ud83d\\ud83d\"", "\"\\uDBFF\\uDFFF\"",
	"\"12345678\\n12345678\"", "\"1234567\x7f\"", "\"1234567\x1f\"", "\"\xc3\xa9\"",
	"\"\xc3\"", "\"\xff\"", "\"\xc0\xaf\"", "\"\xed\xa0\x80\"",
	"\"\xf4\x90\x80\x80\"", "\"\xf0\x9f\x98\x80\"", "\"\xc3\\n\xa9\"",
	"\"\\u00e9\xc3\xa9\"", "1 1", "1,",
	"\xef\xbb\xbf"
	"1",
	"'a'", "NaN", "Infinity", "-Infinity", "/**/1", "\v1",
	"\xc2\xa0"
	"1",
	"{\"12345678901234567890\":\"12345678901234567890\"}" };

/* Real records, cut at every place and with one byte changed. */
static void check_mutations(void)
{
	static const char record[] =
		"{\"kind\":\"rnp.node\",\"v\":1,\"gpus\":[{\"memory_bytes\":25757220864,"
		"\"ecc\":false,\"x\":-1.5e-3}],\"name\":\"\\u20ac \xc3\xa9 \\\"q\\\"\","
		"\"t\":[true,null,{}],\"z\":\"\\ud83d\\ude00\"}";
	static const char odd[] = "\"\\{}[],:0-+.eEunt \x01\x80\xc3\xff";
	char text[sizeof record];
	struct rng r;

	rng_seed(&r, 3, 0);
	for (size_t len = 0; len < sizeof record; len++)
		compare(record, len);
	for (int i = 0; i < 20000; i++) {
		memcpy(text, record, sizeof record);
		for (uint64_t k = 1 + rng_below(&r, 2); k; k--)
			text[rng_below(&r, sizeof record - 1)] =
				odd[rng_below(&r, sizeof odd - 1)];
		compare(text, sizeof record - 1);
	}
}

static void check_depth(void)
{
	json_t *v = json_read("[[[1]]]", 7, 3, false);

	CHECK(v != NULL);
	json_decref(v);
	CHECK(json_read("[[[1]]]", 7, 2, false) == NULL);
	CHECK(json_read("[[[]]]", 6, 2, false) == NULL);
	CHECK(json_read("{\"a\":{}}", 8, 1, false) == NULL);
	v = json_read("[[],[],[[]]]", 12, 3,
		false); /* levels that were closed do not count */
	CHECK(v != NULL);
	json_decref(v);
	/* of a document with one huge integer the others stay what they are */
	v = json_read("[9223372036854775808,1]", 23, 3, false);
	CHECK(json_is_real(json_array_get(v, 0)) &&
		json_is_integer(json_array_get(v, 1)));
	json_decref(v);
}

/* A signature covers 3600, so that 3.6e3 must be read as the same. */
static void check_spelling(void)
{
	static const char text[] =
		"[3.6e3,3600.0,36e2,-0.0,-5.0,9007199254740991.0,0.5,9007199254740994.0,1e300]";
	static const json_int_t whole[] = { 3600, 3600, 3600, 0, -5, 9007199254740991 };
	json_t *v = json_read(text, strlen(text), 3, false), *item;
	size_t i;

	CHECK(json_array_size(v) == 9);
	json_array_foreach(v, i, item) {
		CHECK(json_is_integer(item) == (i < 6));
		if (i < 6)
			CHECK_I64(whole[i], json_integer_value(item));
	}
	json_decref(v);
	v = json_read(text, strlen(text), 3, true);
	json_array_foreach(v, i, item)
		CHECK(json_is_real(item));
	json_decref(v);
}

int main(void)
{
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		compare(texts[i], strlen(texts[i]));
	compare("\"a\0b\"", 5);
	CHECK(json_read("1\0", 2, 64, false) == NULL); /* jansson skips it */
	CHECK(json_read("\0", 1, 64, false) == NULL);
	check_mutations();
	check_depth();
	check_spelling();
	TEST_END();
}
