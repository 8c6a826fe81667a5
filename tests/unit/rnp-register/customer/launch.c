/* launch.c - which offer is taken, how it is told, what a script becomes, and how a cluster
 * ended. */
/* uses: cmd/rnp-register */
#include "cmd/rnp-register/customer/course.h"
#include "cmd/rnp-register/customer/offer.h"
#include "cmd/rnp-register/customer/ship.h"
#include "common/json/json.h"

#include "tests/unit/test.h"

static json_t *parse(const char *text)
{
	json_t *v = json_parse_object(text, strlen(text), "test");

	if (!v)
		fprintf(stderr, "%s\n", err_get()->text);
	return v;
}

static void check_choice(void)
{
	json_t *none = parse(
		"{\"offers\":[],\"left_out\":{\"price\":7,\"memory\":22,\"place\":12},"
		"\"nearest\":{\"wish\":\"memory_bytes\",\"to\":64000000000,\"nodes\":9}}");
	json_t *dear = parse(
		"{\"offers\":[{\"nodes\":[{\"gpus\":[\"a\",\"b\"],\"gpu_model\":\"GPU A\",\"country\":\"DE\"},{\"gpus\":[\"c\"],\"country\":\"SI\",\"image_there\":true}],"
		"\"uusd_per_hour\":820000,\"up_to_uusd\":3280000},"
		"{\"nodes\":[],\"uusd_per_hour\":910000}],\"left_out\":{\"price\":1}}");
	json_t *cheap = parse(
		"{\"offers\":[{\"nodes\":[{\"image_there\":true}],\"uusd_per_hour\":5,\"up_to_uusd\":20}]}");
	const json_t *all[] = { none, dear, cheap, cheap };
	struct buf words = BUF_INIT;

	CHECK_I64(2, (int64_t)offer_choose(all, 4, false));
	CHECK_I64(1, (int64_t)offer_choose(all, 4, true));
	CHECK_I64(1, (int64_t)offer_choose(all, 1, false));
	offer_words(&words, dear);
	CHECK_TEXT(
		"2 x GPU A, 1 GPU on 2 nodes (DE, SI), image on 1 of them, 0.82 $/h, at most 3.28 $; next 0.91 $/h; 1 node left out: 1 price",
		buf_text(&words));
	buf_reset(&words);
	offer_words(&words, cheap);
	CHECK_TEXT("1 node, image there, 0.000005 $/h, at most 0.000020 $",
		buf_text(&words));
	buf_reset(&words);
	offer_none_words(&words, none);
	CHECK_TEXT(
		"nothing fits; 41 nodes left out: 22 memory, 12 place, 7 price; 9 would with 64 GB of memory",
		buf_text(&words));
	buf_release(&words);
	json_decref(none);
	json_decref(dear);
	json_decref(cheap);
}

static void check_script(void)
{
	json_t *task = parse("{\"envs\":{\"A\":\"it's $HOME\",\"B\":\"\"}}");
	struct buf text = BUF_INIT;

	ship_script(&text, task, "echo $A\n");
	CHECK_TEXT("export A='it'\\''s $HOME'\nexport B=''\necho $A\n", buf_text(&text));
	buf_release(&text);
	json_decref(task);
}

static void check_end(const char *cluster, enum course_end want, int code, int64_t gpu_s,
	int64_t restarts)
{
	json_t *c = parse(cluster), *seconds = parse("{\"ready\":2900}"), *record;
	enum course_end end;
	int exit_code;

	record = course_record(c, seconds, &end, &exit_code);
	CHECK_I64(want, end);
	CHECK_I64(code, exit_code);
	CHECK_I64(gpu_s, json_integer_value(json_object_get(record, "gpu_seconds")));
	CHECK_I64(restarts, json_integer_value(json_object_get(record, "restarts")));
	CHECK_I64(2,
		json_integer_value(
			json_object_get(json_object_get(record, "seconds"), "ready")));
	json_decref(record);
	json_decref(seconds);
	json_decref(c);
}

static void check_ends(void)
{
	check_end("{\"cluster\":\"c\",\"state\":\"released\",\"nodes\":["
		  "{\"rank\":0,\"gpus\":[\"a\",\"b\"],\"ready_ms\":1500,\"exit\":0},"
		  "{\"rank\":1,\"gpus\":[\"c\"],\"ready_ms\":1200,\"exit\":0}]}",
		COURSE_DONE, 0, 4, 0);
	check_end("{\"cluster\":\"c\",\"state\":\"released\",\"nodes\":["
		  "{\"rank\":0,\"exit\":0},{\"rank\":1,\"exit\":9}]}",
		COURSE_FAILED, 9, 0, 0);
	/* what a node said that was replaced does not count */
	check_end("{\"cluster\":\"c\",\"state\":\"released\",\"restarts\":1,\"nodes\":["
		  "{\"rank\":0,\"exit\":137},{\"rank\":0,\"turn\":1,\"exit\":0}]}",
		COURSE_DONE, 0, 0, 1);
	check_end("{\"cluster\":\"c\",\"state\":\"failed\",\"nodes\":[{\"rank\":0}]}",
		COURSE_ENDED, 0, 0, 0);
	check_end(
		"{\"cluster\":\"c\",\"state\":\"ready\",\"nodes\":[{\"rank\":0,\"exit\":0}]}",
		COURSE_DETACHED, 0, 0, 0);
}

int main(void)
{
	check_choice();
	check_script();
	check_ends();
	TEST_END();
}
