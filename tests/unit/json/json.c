/* json.c - tests which texts are refused, which values are preserved, and that messages state
 * the place. */
#include "common/json/json.h"

#include "tests/unit/test.h"

static json_t *parse(const char *text)
{
	return json_parse(text, strlen(text), JSON_DEPTH_MAX, "f:1");
}

static void refused(const char *text, size_t len, const char *reason)
{
	json_t *v = json_parse(text, len, JSON_DEPTH_MAX, "f:1");

	CHECK(v == NULL);
	CHECK_I64(EX_DATAERR, err_get()->code);
	CHECK(strncmp(err_get()->text, "f:1: ", 5) == 0);
	CHECK(strstr(err_get()->text, reason) != NULL);
	json_decref(v);
}

static void check_refused(void)
{
	char deep[80];

	refused("", 0, "not JSON");
	refused("{\"a\":1,\"a\":2}", 13, "duplicate");
	refused("{} {}", 5, "end of file");
	refused(" {\r", 3, "one record a line: jq -c .");
	refused("[", 1, "one record a line: jq -c '.[]'");
	refused("[1,]", 4, "not JSON");
	refused("[01]", 4, "not JSON");
	refused("NaN", 3, "not JSON");
	refused("1e999", 5, "not JSON");
	refused("\"\xff\"", 3, "byte 0xff");
	refused("\"\xed\xa0\x80\"", 5, "byte 0xed");
	refused("\"\\ud800\"", 8, "invalid Unicode");
	refused("\"a\0b\"", 5, "NUL");
	refused("1\0", 2, "NUL");
	refused("\"\\u0000\"", 8, "u0000");
	refused("{\"\\u0000\":1}", 12, "u0000");
	memset(deep, '[', 33);
	memset(deep + 33, ']', 33);
	refused(deep, 66, "deeper than 32");
	memset(deep, '[', 32);
	memset(deep + 32, ']', 32);
	json_decref(json_parse(deep, 64, JSON_DEPTH_MAX, "f"));
	/* brackets in strings are no depth, and an escaped quote does not end a string */
	json_decref(parse(
		"\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[[[[[[[[[[[[[[[[[\""));
	CHECK_TEXT("", (err_clear(), err_get()->text));
	CHECK(json_parse_object("[]", 2, "f:2") == NULL);
	CHECK_TEXT("f:2: not a JSON object", err_get()->text);
	err_clear();
}

/* expected NULL: the text itself */
static void rewritten(const char *text, const char *expected)
{
	struct buf out = BUF_INIT;
	json_t *v = parse(text);

	CHECK(v != NULL);
	json_write(&out, v);
	CHECK_TEXT(expected ? expected : text, out.data);
	buf_release(&out);
	json_decref(v);
}

static void check_write(void)
{
	rewritten("{\"b\":1,\"a\":[true,false,null,{}],\"\":\"\"}", NULL);
	rewritten(" [ 1.50 , 1e2 , -0.0 ] ", "[1.5,100,0]");
	rewritten("[9007199254740993,-9223372036854775808]", NULL);
	/* a real beyond 64 bits must not become an integer, which would make the reader
	 * round the number beside it */
	rewritten("[9007199254740993,1e20]", "[9007199254740993,1e+20]");
	rewritten("[9007199254740993,-1.5e19]", "[9007199254740993,-1.5e+19]");
	rewritten("[1e21,1e300,5e-324]", "[1e+21,1e+300,5e-324]");
	rewritten("\"\\u001f\\u007f\\/\\\"\\\\\\t\"", "\"\\u001f\x7f/\\\"\\\\\\t\"");
}

static void check_whole_numbers(void)
{
	json_t *o = parse("{\"a\":5,\"s\":\"9007199254740993\",\"big\":9007199254740993,"
			  "\"r\":7.0,\"h\":7.5,\"x\":\"7 \",\"t\":true,\"e\":1e300,"
			  "\"rbig\":9007199254740993.0,\"n\":null}");
	static const char *const bad[] = { "big", "h", "x", "t", "e", "rbig", "n",
		"none" };
	int64_t v = -7;

	CHECK(json_get_i64(o, "f:1", "a", 0, 10, &v) == 0 && v == 5);
	CHECK(json_get_i64(o, "f:1", "r", 0, 10, &v) == 0 && v == 7);
	CHECK(json_get_i64(o, "f:1", "s", 0, INT64_MAX, &v) == 0 &&
		v == 9007199254740993);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_FAILS(EX_DATAERR,
			json_get_i64(o, "f:1", bad[i], INT64_MIN, INT64_MAX, &v));
	CHECK_I64(9007199254740993, v);
	CHECK(json_get_i64(o, "f:1", "a", 6, 10, &v) < 0);
	CHECK_TEXT("f:1: field 'a' is 5, not between 6 and 10", err_get()->text);
	CHECK(json_opt_i64(o, "f:1", "none", 0, 10, &v) == 0 && v == 9007199254740993);
	CHECK_FAILS(EX_DATAERR, json_opt_i64(o, "f:1", "n", 0, 10, &v));
	json_decref(o);
}

static void check_fields(void)
{
	json_t *o = parse("{\"t\":\"x\",\"b\":false,\"f\":-2.5,\"i\":3,\"o\":{},\"a\":[],"
			  "\"at\":\"2026-11-21T00:00:00Z\"}");
	const char *text = NULL;
	json_t *v = NULL;
	int64_t ms = 0;
	double f = 0;
	bool b = true;

	CHECK(json_get_text(o, "f", "t", &text) == 0 && strcmp(text, "x") == 0);
	CHECK(json_get_bool(o, "f", "b", &b) == 0 && !b);
	CHECK(json_get_f64(o, "f", "f", &f) == 0 && f == -2.5);
	CHECK(json_get_f64(o, "f", "i", &f) == 0 && f == 3);
	CHECK(json_get_object(o, "f", "o", &v) == 0 && json_is_object(v));
	CHECK(json_get_array(o, "f", "a", &v) == 0 && json_is_array(v));
	CHECK(json_get_time(o, "f", "at", &ms) == 0 && ms == INT64_C(1795219200000));
	CHECK(json_opt_f64(o, "f", "none", &f) == 0 && f == 3);
	CHECK(json_opt_bool(o, "f", "none", &b) == 0 && !b);
	CHECK_FAILS(EX_DATAERR, json_get_text(o, "f", "i", &text));
	CHECK_FAILS(EX_DATAERR, json_get_bool(o, "f", "i", &b));
	CHECK_FAILS(EX_DATAERR, json_get_f64(o, "f", "t", &f));
	CHECK_FAILS(EX_DATAERR, json_get_object(o, "f", "a", &v));
	CHECK_FAILS(EX_DATAERR, json_get_array(o, "f", "o", &v));
	CHECK_FAILS(EX_DATAERR, json_get_time(o, "f", "t", &ms));
	CHECK_FAILS(EX_DATAERR, json_get_text(o, "f", "none", &text));
	CHECK(json_opt_text(o, "f", "none", &text) == 0 && strcmp(text, "x") == 0);
	CHECK(json_opt_time(o, "f", "none", &ms) == 0);
	CHECK(json_get_text(o, "g:3", "none", &text) < 0);
	CHECK_TEXT("g:3: field 'none' is missing", err_get()->text);
	err_clear();
	json_decref(o);
}

static int kind_of(const char *text, const char *kind)
{
	json_t *v = parse(text);
	int rc = json_check_kind(v, "f", kind);

	json_decref(v);
	return rc;
}

static void check_kinds(void)
{
	CHECK(kind_of("{\"kind\":\"rnp.x\",\"v\":1}", "rnp.x") == 0);
	CHECK(kind_of("{\"kind\":\"rnp.x\",\"v\":1}", NULL) == 0);
	CHECK_FAILS(EX_DATAERR, kind_of("{\"kind\":\"rnp.x\",\"v\":1}", "rnp.y"));
	CHECK_FAILS(EX_DATAERR, kind_of("{\"kind\":\"w3c.x\",\"v\":1}", NULL));
	CHECK_FAILS(EX_DATAERR, kind_of("{\"kind\":\"rnp.x\",\"v\":2}", NULL));
	CHECK_FAILS(EX_DATAERR, kind_of("{\"kind\":\"rnp.x\"}", NULL));
	CHECK_FAILS(EX_DATAERR, kind_of("{\"v\":1}", NULL));
	CHECK_FAILS(EX_DATAERR, kind_of("[]", NULL));
}

static void check_set(void)
{
	json_t *o = json_record("rnp.x");
	struct buf out = BUF_INIT;

	json_set_text(o, "absent", NULL);
	json_set_text(o, "cut", "\xc3\xa9\x80 \xff\xe2\x82");
	json_set_i64(o, "safe", JSON_SAFE_INTEGER_MAX);
	json_set_i64(o, "big", -JSON_SAFE_INTEGER_MAX - 1);
	json_set_f64(o, "f", 0.1);
	json_set_bool(o, "b", true);
	json_set_time(o, "at", 1);
	json_set(o, "a", json_array());
	json_push_text(json_object_get(o, "a"), "\xf0\x9f\x98\x80\xf5");
	json_push(json_object_get(o, "a"), json_integer(1));
	json_write(&out, o);
	CHECK_TEXT("{\"kind\":\"rnp.x\",\"v\":1,\"cut\":\"é\xef\xbf\xbd \xef\xbf\xbd"
		   "\xef\xbf\xbd\xef\xbf\xbd\",\"safe\":9007199254740991,"
		   "\"big\":\"-9007199254740992\",\"f\":0.1,\"b\":true,"
		   "\"at\":\"1970-01-01T00:00:00.001Z\",\"a\":[\"😀\xef\xbf\xbd\",1]}",
		out.data);
	buf_release(&out);
	json_decref(o);
}

/* a value written by itself has the bytes that it has in a record */
static void check_write_one(void)
{
	static const char *const texts[] = { "", "H100 \"SXM\"\n", "\x01\x1f\\/", "é😀",
		"\xc3\xa9\x80 \xff", "cut within a character \xe2\x82" };
	static const int64_t numbers[] = { 0, -1, JSON_SAFE_INTEGER_MAX,
		JSON_SAFE_INTEGER_MAX + 1, INT64_MAX, -JSON_SAFE_INTEGER_MAX,
		-JSON_SAFE_INTEGER_MAX - 1, INT64_MIN };
	json_t *o = json_object();
	struct buf out = BUF_INIT, expected = BUF_INIT;

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		json_set_text(o, "t", texts[i]);
		buf_reset(&expected), buf_reset(&out);
		json_write(&expected, json_object_get(o, "t"));
		json_write_text(&out, texts[i]);
		CHECK_TEXT(expected.data, out.data);
	}
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		json_set_i64(o, "n", numbers[i]);
		buf_reset(&expected), buf_reset(&out);
		json_write(&expected, json_object_get(o, "n"));
		json_write_i64(&out, numbers[i]);
		CHECK_TEXT(expected.data, out.data);
	}
	CHECK_TEXT("\"-9223372036854775808\"", out.data);
	buf_release(&expected);
	buf_release(&out);
	json_decref(o);
}

/* The values of a stranger's text take no more than is said, whatever they are. */
static void check_bounded(void)
{
	static const char *const items[] = { "1", "0.5", "\"a\"", "[]", "{}", "{\"a\":1}",
		"true" };
	struct buf text = BUF_INIT;
	json_t *v;

	for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
		buf_reset(&text);
		buf_addc(&text, '[');
		for (int k = 0; k < 20000; k++)
			buf_addf(&text, k ? ",%s" : "%s", items[i]);
		buf_addc(&text, ']');
		v = json_parse_bounded(text.data, text.len, 5, 20000 * 500, "t");
		CHECK(v && json_array_size(v) == 20000);
		json_decref(v);
		CHECK(!json_parse_bounded(text.data, text.len, 5, 20000 * 20, "t"));
		CHECK(strstr(err_get()->text, "more than 400000 bytes of memory") !=
			NULL);
	}
	/* a long text is not read again for the reason */
	text.data[text.len - 1] = '!';
	CHECK(!json_parse_bounded(text.data, text.len, 5, SIZE_MAX - 1, "t"));
	CHECK_TEXT("t: not JSON (byte 100000)", err_get()->text);
	CHECK(!json_parse_bounded("[1,", 3, 5, 1000, "t"));
	CHECK(strstr(err_get()->text, "t: not JSON: ") != NULL);
	err_clear();
	buf_release(&text);
}

int main(void)
{
	check_refused();
	check_bounded();
	check_write();
	check_whole_numbers();
	check_fields();
	check_kinds();
	check_set();
	check_write_one();
	TEST_END();
}
