/* schema.c - tests that the embedded schemas are sound, and that a message names the place
 * where a record breaks them. */
#include "common/json/schema.h"

#include "common/base/err.h"
#include "common/json/json.h"
#include "tests/unit/test.h"

static int check(const char *record)
{
	json_t *v = json_parse(record, strlen(record), JSON_DEPTH_MAX, "test");
	int rc;

	CHECK(v != NULL);
	rc = schema_check(v, "f:1", "rnp.error");
	json_decref(v);
	return rc;
}

static void refused(const char *record, const char *message)
{
	CHECK_I64(-1, check(record));
	CHECK_I64(EX_DATAERR, err_get()->code);
	CHECK_TEXT(message, err_get()->text);
	err_clear();
}

#define ERROR "\"kind\":\"rnp.error\",\"v\":1"

static void check_records(void)
{
	CHECK(check("{" ERROR ",\"code\":65,\"message\":\"x\"}") == 0);
	CHECK(check("{" ERROR ",\"code\":65.0,\"message\":\"\",\"other\":{}}") == 0);
	CHECK(check("{\"kind\":\"rnp.error\",\"v\":1.0,\"code\":65,\"message\":\"\"}") ==
		0);
	refused("[]", "f:1: not a JSON object");
	refused("{" ERROR ",\"code\":65}", "f:1: message: is missing");
	refused("{" ERROR ",\"code\":0,\"message\":\"\"}", "f:1: code: 0 is less than 1");
	refused("{" ERROR ",\"code\":256,\"message\":\"\"}",
		"f:1: code: 256 is more than 255");
	refused("{" ERROR ",\"code\":1.5,\"message\":\"\"}",
		"f:1: code: 1.5 is not of type integer");
	refused("{" ERROR ",\"code\":1e300,\"message\":\"\"}",
		"f:1: code: 1e+300 is not of type integer");
	refused("{" ERROR ",\"code\":9007199254740993,\"message\":\"\"}",
		"f:1: code: 9007199254740993 is not of type integer");
	refused("{" ERROR ",\"code\":\"65\",\"message\":\"\"}",
		"f:1: code: \"65\" is not of type integer");
	refused("{" ERROR ",\"code\":65,\"message\":null}",
		"f:1: message: null is not of type string");
	refused("{\"kind\":\"rnp.error\",\"v\":2,\"code\":65,\"message\":\"\"}",
		"f:1: version 2 of rnp.error is not known here, only 1");
	refused("{\"kind\":\"rnp.nothing\",\"v\":1}",
		"f:1: kind 'rnp.nothing' is not rnp.error");
	refused("{\"v\":1}", "f:1: field 'kind' is missing");
}

/* any kind; the message without "f:1: " */
static void says(const char *record, const char *message)
{
	json_t *v = json_parse(record, strlen(record), JSON_DEPTH_MAX, "test");
	int rc = schema_check(v, "f:1", NULL);

	CHECK(v != NULL);
	CHECK_I64(message ? -1 : 0, rc);
	if (message)
		CHECK_TEXT(message, err_get()->text + strlen("f:1: "));
	err_clear();
	json_decref(v);
}

#define USAGE \
	"\"kind\":\"rnp.usage\",\"v\":1,\"node\":\"11111111111111111111111111111111\""

/* formats, lists of types, nested fields, lengths */
static void check_words_of_kinds(void)
{
	says("{" USAGE "}", NULL);
	says("{\"kind\":\"rnp.usage\",\"v\":1,\"node\":\"1111111111111111111111111111111\"}",
		"node: \"1111111111111111111111111111111\" is not a base58 address");
	says("{" USAGE ",\"from\":\"2026-11-21\"}",
		"from: \"2026-11-21\" is not an RFC 3339 time");
	says("{" USAGE ",\"up_s\":\"3600\"}", NULL);
	says("{" USAGE ",\"up_s\":-1}", "up_s: -1 is less than 0");
	says("{" USAGE ",\"up_s\":true}", "up_s: true is not of type integer or string");
	says("{" USAGE ",\"up_s\":\"12345678901234567890\"}",
		"up_s: \"12345678901234567890\" is longer than 19");
	says("{" USAGE ",\"gpu_model\":\"\"}", "gpu_model: \"\" is shorter than 1");
	/* 80 characters of two bytes each are 80 */
	says("{" USAGE ",\"gpu_model\":\"éééééééééééééééééééééééééééééééééééééééé"
	     "éééééééééééééééééééééééééééééééééééééééé\"}",
		NULL);
	says("{" USAGE ",\"gpu_model\":\"ééééééééééééééééééééééééééééééééééééééééé"
	     "éééééééééééééééééééééééééééééééééééééééé\"}",
		"gpu_model: \"éééééééééééééééééééééééééééé... is longer than 80");
	says("{\"kind\":\"rnp.heartbeat\",\"v\":1,\"node\":\"11111111111111111111111111111111\","
	     "\"at\":\"2026-11-21T00:00:00Z\",\"interval_s\":60,\"state\":\"asleep\"}",
		"state: \"asleep\" is not one of [\"idle\",\"busy\",\"render\",\"maintenance\"]");
}

/* Names that only a challenge's devices could fail on: names that mean the CPU, and two equal
 * ones. */
static void check_uuids(void)
{
#define NODE(gpus)                                                                       \
	"{\"kind\":\"rnp.node\",\"v\":1,\"at\":\"2026-11-21T00:00:00Z\",\"gpus\":[" gpus \
	"]}"
	says(NODE("{\"model\":\"x\",\"uuid\":\"a\"},{\"model\":\"x\"},{\"model\":\"x\",\"uuid\":\"a\"}"),
		"gpus[2].uuid: is there twice");
	says(NODE("{\"model\":\"x\",\"uuid\":\"cpu\"}"),
		"gpus[0].uuid: \"cpu\" cannot be a GPU's uuid");
	says(NODE("{\"model\":\"x\",\"uuid\":\"Cpu:0\"}"),
		"gpus[0].uuid: \"Cpu:0\" cannot be a GPU's uuid");
	says(NODE("{\"model\":\"x\",\"uuid\":\"a b\"}"),
		"gpus[0].uuid: \"a b\" cannot be a GPU's uuid");
	says(NODE("{\"model\":\"x\",\"uuid\":\"a\"},{\"model\":\"x\"},{\"model\":\"x\",\"uuid\":\"A\"}"),
		NULL);
#undef NODE
}

static void check_unknown_kind(void)
{
	json_t *v = json_record("rnp.nothing");

	CHECK_I64(-1, schema_check(v, "f:1", NULL));
	CHECK_TEXT("f:1: kind 'rnp.nothing' is not known", err_get()->text);
	err_clear();
	json_decref(v);
	CHECK(schema_text("rnp.nothing") == NULL);
	CHECK(schema_text("") == NULL);
}

/* Words that the checker does not know are a bug(): walk every part of every schema. */
static void check_words(const json_t *schema, const char *kind)
{
	static const char *const known[] = { "$schema", "$id", "title", "description",
		"examples", "$comment", "type", "const", "enum", "required", "items",
		"format", "properties", "additionalProperties", "minimum", "maximum",
		"minLength", "maxLength", "minItems", "maxItems", "maxProperties" };
	const char *word, *name;
	json_t *rule, *part;

	json_object_foreach((json_t *)schema, word, rule) {
		bool found = false;

		for (size_t i = 0; i < sizeof known / sizeof *known; i++)
			found |= strcmp(known[i], word) == 0;
		if (!found)
			fprintf(stderr, "%s: keyword %s\n", kind, word);
		CHECK(found);
		if (strcmp(word, "properties") == 0)
			json_object_foreach(rule, name, part)
				check_words(part, kind);
		else if (strcmp(word, "items") == 0 ||
			strcmp(word, "additionalProperties") == 0)
			check_words(rule, kind);
	}
}

/* A program may meet a record of any kind: there is no last one that does not fit. */
static void check_every_kind(void)
{
	for (const char *const *kind = schema_kinds(); *kind; kind++) {
		json_t *v = json_object();

		json_set_text(v, "kind", *kind);
		CHECK_I64(-1, schema_check(v, "f:1", *kind)); /* it has no "v" */
		err_clear();
		json_decref(v);
	}
}

static void check_embedded(void)
{
	const char *const *kinds = schema_kinds();
	const char *before = "";

	for (int i = 0; kinds[i]; i++) {
		const char *text = schema_text(kinds[i]);
		json_t *schema = json_parse(text, strlen(text), JSON_DEPTH_MAX, kinds[i]);
		json_t *record = json_record(kinds[i]);
		const char *title = NULL;

		CHECK(strcmp(before, kinds[i]) < 0);
		before = kinds[i];
		CHECK(schema != NULL);
		CHECK(json_get_text(schema, kinds[i], "title", &title) == 0);
		CHECK_TEXT(kinds[i], title ? title : "");
		check_words(schema, kinds[i]);
		/* whatever the table of those that are parsed has room for */
		(void)schema_check(record, "empty", kinds[i]);
		err_clear();
		json_decref(record);
		json_decref(schema);
	}
}

int main(void)
{
	check_records();
	check_words_of_kinds();
	check_uuids();
	check_unknown_kind();
	check_embedded();
	check_every_kind();
	TEST_END();
}
