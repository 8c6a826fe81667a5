/* canon.c - the published values of RFC 8785. */
#include "common/json/canon.h"

#include <math.h>
#include <stdlib.h>

#include "common/json/json.h"
#include "common/base/rng.h"
#include "tests/unit/test.h"

static double of_bits(uint64_t bits)
{
	double v;

	memcpy(&v, &bits, sizeof v);
	return v;
}

static const char *number(double v)
{
	static char text[64];
	struct buf out = BUF_INIT;

	canon_number(&out, v);
	snprintf(text, sizeof text, "%s", buf_text(&out));
	buf_release(&out);
	return text;
}

/* RFC 8785, appendix B: IEEE 754 bits and what ECMAScript prints. */
static void check_numbers(void)
{
	static const struct {
		uint64_t bits;
		const char *text;
	} known[] = {
		{ 0x0000000000000000, "0" },
		{ 0x8000000000000000, "0" },
		{ 0x0000000000000001, "5e-324" },
		{ 0x8000000000000001, "-5e-324" },
		{ 0x7fefffffffffffff, "1.7976931348623157e+308" },
		{ 0xffefffffffffffff, "-1.7976931348623157e+308" },
		{ 0x4340000000000000, "9007199254740992" },
		{ 0xc340000000000000, "-9007199254740992" },
		{ 0x4430000000000000, "295147905179352830000" },
		{ 0x44b52d02c7e14af5, "9.999999999999997e+22" },
		{ 0x44b52d02c7e14af6, "1e+23" },
		{ 0x44b52d02c7e14af7, "1.0000000000000001e+23" },
		{ 0x444b1ae4d6e2ef4e, "999999999999999700000" },
		{ 0x444b1ae4d6e2ef4f, "999999999999999900000" },
		{ 0x444b1ae4d6e2ef50, "1e+21" },
		{ 0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7" },
		{ 0x3eb0c6f7a0b5ed8d, "0.000001" },
		{ 0x41b3de4355555553, "333333333.3333332" },
		{ 0x41b3de4355555554, "333333333.33333325" },
		{ 0x41b3de4355555555, "333333333.3333333" },
		{ 0x41b3de4355555556, "333333333.3333334" },
		{ 0x41b3de4355555557, "333333333.33333343" },
		{ 0xbecbf647612f3696, "-0.0000033333333333333333" },
		{ 0x43143ff3c1cb0959, "1424953923781206.2" },
	};

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		CHECK_TEXT(known[i].text, number(of_bits(known[i].bits)));
	/* 2^-1074, the smallest normal number, and powers of two, where doubles are denser below */
	CHECK_TEXT("2.2250738585072014e-308", number(of_bits(0x0010000000000000)));
	CHECK_TEXT("2.225073858507201e-308", number(of_bits(0x000fffffffffffff)));
	CHECK_TEXT("9007199254740994", number(9007199254740994.0));
	CHECK_TEXT("100000000000000000000", number(1e20));
	CHECK_TEXT("1.5", number(1.5));
}

/* No shorter text reads back, and the text itself does. */
static void check_shortest(double v)
{
	char text[64], fewer[64];
	int digits = 0;

	snprintf(text, sizeof text, "%s", number(v));
	CHECK(strtod(text, NULL) == v);
	for (const char *s = text; *s && *s != 'e'; s++)
		digits += *s >= '0' && *s <= '9' && (digits || *s != '0');
	if (digits < 2 || digits > 17)
		return; /* leading or trailing zeros of the plain notation */
	snprintf(fewer, sizeof fewer, "%.*e", digits - 2, v);
	if (strchr(text, '.') || strchr(text, 'e'))
		CHECK(strtod(fewer, NULL) != v);
}

static void check_random_numbers(void)
{
	struct rng r;

	rng_seed(&r, 8785, 0);
	for (int i = 0; i < 20000; i++) {
		double v = of_bits(rng_u64(&r));

		if (isfinite(v) && v != 0)
			check_shortest(v);
	}
	for (int e = -1074; e < 1024; e++) {
		check_shortest(ldexp(1, e));
		check_shortest(
			nextafter(ldexp(1, e), 0) != 0 ? nextafter(ldexp(1, e), 0) : 1);
		check_shortest(nextafter(ldexp(1, e), INFINITY));
	}
}

static void canonical(const char *text, const char *expected)
{
	json_t *v = json_parse(text, strlen(text), JSON_DEPTH_MAX, "test");
	struct buf out = BUF_INIT;

	CHECK(v != NULL && canon_write(&out, v) == 0);
	CHECK_TEXT(expected, buf_text(&out));
	json_decref(v);
	buf_release(&out);
}

/* RFC 8785, 3.2.2 and 3.2.3. */
static void check_rfc_values(void)
{
	canonical(
		"{\"numbers\":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"
		"\"string\":\"\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\\"\\/\","
		"\"literals\":[null,true,false]}",
		"{\"literals\":[null,true,false],"
		"\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],"
		"\"string\":\"\xe2\x82\xac$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}");
	canonical("{\"\\u20ac\":1,\"\\r\":2,\"\\ufb33\":3,\"1\":4,\"\\ud83d\\ude00\":5,"
		  "\"\\u0080\":6,\"\\u00f6\":7}",
		"{\"\\r\":2,\"1\":4,\"\xc2\x80\":6,\"\xc3\xb6\":7,\"\xe2\x82\xac\":1,"
		"\"\xf0\x9f\x98\x80\":5,\"\xef\xac\xb3\":3}");
}

static void check_strings(void)
{
	canonical("\"\\b\\t\\n\\f\\r\\u0001\\u001F\\u007f\\u2028\\/<>&\"",
		"\"\\b\\t\\n\\f\\r\\u0001\\u001f\x7f\xe2\x80\xa8/<>&\"");
	for (int at = 0; at < 40; at++) { /* an escape at every place of a long string */
		char text[64], expected[64];

		memset(text, 'x', sizeof text);
		text[0] = text[41] = '"';
		text[42] = '\0';
		memcpy(expected, text, sizeof text);
		canonical(text, expected);
		if (at == 39)
			break;
		memcpy(text + 1 + at, "\\\\", 2);
		memcpy(expected + 1 + at, "\\\\", 2);
		canonical(text, expected);
	}
}

/* Every pair of keys sorts as its UTF-16 does; many fields sort as few. */
static void check_order(void)
{
	static const char *const sorted[] = { "", "\x01", "1", "10", "2", "A", "a", "aa",
		"b", "\x7f", "\xc2\x80", "\xed\x9f\xbf", "\xf0\x90\x80\x80",
		"\xf0\x90\x80\x80z", "\xf4\x8f\xbf\xbf", "\xee\x80\x80", "\xef\xbf\xbf" };
	const size_t n = sizeof sorted / sizeof *sorted;
	struct buf out = BUF_INIT;
	json_t *many = json_object();
	char key[24], *at;

	for (size_t a = 0; a < n; a++)
		for (size_t b = a + 1; b < n; b++) {
			json_t *v = json_object();

			json_object_set_new(v, sorted[b], json_integer(2));
			json_object_set_new(v, sorted[a], json_integer(1));
			buf_reset(&out);
			CHECK(canon_write(&out, v) == 0);
			CHECK(strstr(out.data, ":1") < strstr(out.data, ":2"));
			json_decref(v);
		}
	for (int i = 999; i >= 0; i--) {
		snprintf(key, sizeof key, "%03d", i);
		json_object_set_new(many, key, json_integer(i));
	}
	buf_reset(&out);
	CHECK(canon_write(&out, many) == 0);
	at = out.data;
	for (int i = 0; i < 1000; i++) {
		snprintf(key, sizeof key, "\"%03d\"", i);
		at = strstr(at, key);
		CHECK(at != NULL);
		if (!at)
			break;
	}
	json_decref(many);
	buf_release(&out);
}

static void check_refused(void)
{
	json_t *v = json_array();
	struct buf out = BUF_INIT;

	buf_adds(&out, "kept");
	json_array_append_new(v, json_string_nocheck("\xff"));
	CHECK_FAILS(EX_DATAERR, canon_write(&out, v));
	CHECK_TEXT("kept", out.data);
	json_decref(v);
	buf_release(&out);
}

static void check_without(void)
{
	json_t *v = json_pack("{s:i, s:{s:i}, s:i}", "proof", 1, "b", "proof", 2, "a", 3);
	struct buf out = BUF_INIT;

	CHECK(canon_write_without(&out, v, "proof") == 0);
	CHECK_TEXT("{\"a\":3,\"b\":{\"proof\":2}}", out.data);
	json_decref(v);
	buf_release(&out);
}

int main(void)
{
	check_numbers();
	check_random_numbers();
	check_rfc_values();
	check_strings();
	check_order();
	check_refused();
	check_without();
	TEST_END();
}
