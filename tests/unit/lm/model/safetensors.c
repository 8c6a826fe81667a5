/* safetensors.c - lm/safetensors: what is written reads back; gaps, overlaps, sizes that lie
 * and names that lead elsewhere are refused. */
#include "common/lm/model/safetensors.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/io.h"
#include "common/json/json.h"
#include "common/base/mem.h"
#include "tests/unit/test.h"

static char dir[] = "/tmp/rnp-st-XXXXXX";

static const char *in_dir(const char *name)
{
	static struct buf path;

	buf_reset(&path);
	buf_addf(&path, "%s/%s", dir, name);
	return path.data;
}

/* 0: it reads; else the exit code. The memory is exactly as long as the file. */
static int code_of(const struct buf *b)
{
	struct safetensors *s = NULL;
	char *copy = xmalloc(b->len);
	int rc;

	if (b->len)
		memcpy(copy, b->data, b->len);
	rc = safetensors_read(&s, copy, b->len, "test");
	rc = rc < 0 ? err_get()->code : 0;
	safetensors_close(s);
	free(copy);
	return rc;
}

static int code_of_text(const char *header, size_t data_bytes)
{
	struct buf b = BUF_INIT;
	uint64_t n = strlen(header);
	int code;

	buf_add(&b, &n, sizeof n);
	buf_adds(&b, header);
	for (size_t i = 0; i < data_bytes; i++)
		buf_addc(&b, 'x');
	code = code_of(&b);
	buf_release(&b);
	return code;
}

#define A(dtype, shape, from, to)                                                      \
	"\"a\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" from \
	"," to "]}"

static void check_good(void)
{
	CHECK_I64(0, code_of_text("{}", 0));
	CHECK_I64(0, code_of_text("{" A("F32", "2,2", "0", "16") "}   ", 16));
	CHECK_I64(0, code_of_text("{" A("F64", "", "0", "8") "}", 8)); /* a scalar */
	CHECK_I64(0, code_of_text("{" A("F4", "3,2", "0", "3") "}", 3));
	CHECK_I64(0, code_of_text("{" A("BF16", "5,0", "0", "0") "}", 0));
	CHECK_I64(0,
		code_of_text(
			"{\"__metadata__\":{\"k\":\"v\"}," A("I8", "4", "2",
				"6") ",\"b\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,2]},"
				     "\"c\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[2,2]}}",
			6));
}

static void check_bad(void)
{
	static const struct {
		const char *header;
		size_t bytes;
		const char *says;
	} bad[] = {
		{ "", 0, "does not begin with {" },
		{ " {}", 0, "does not begin with {" },
		{ "{]", 0, "not JSON" },
		{ "{}", 1, "1 bytes behind the last tensor" },
		{ "{" A("F32", "2,2", "0", "16") "}", 17, "1 bytes behind the last" },
		{ "{" A("F32", "2,2", "0", "16") "}", 15, "outside the data" },
		{ "{" A("F32", "2,2", "1", "17") "}", 17, "a gap" },
		{ "{" A("F32", "2,2", "0", "12") "}", 12, "shape do not" },
		{ "{" A("F32", "2,2", "16", "0") "}", 16, "ends before it begins" },
		{ "{" A("F32", "-2", "0", "8") "}", 8, "no size" },
		{ "{" A("F32", "2.0", "0", "8") "}", 8, "no size" },
		{ "{" A("F32", "4294967296,4294967296", "0", "0") "}", 0, "too large" },
		{ "{" A("F32", "4611686018427387904", "0", "0") "}", 0, "shape do not" },
		{ "{" A("F4", "3", "0", "1") "}", 1, "shape do not" },
		{ "{" A("F32", "1,1,1,1,1,1,1,1,1", "0", "4") "}", 4, "8 dimensions" },
		{ "{" A("Q4", "1", "0", "4") "}", 4, "no dtype" },
		{ "{" A("F32", "1", "0", "4") "," A("F32", "1", "0", "4") "}", 4,
			"overlaps" },
		{ "{" A("F32", "0", "0", "0") "," A("F32", "0", "0", "0") "}", 0,
			"duplicate" },
		{ "{\"__metadata__\":{},\"__metadata__\":{}}", 0, "duplicate" },
		{ "{" A("F32", "0", "0", "0") ",}", 0, "not JSON" },
		{ "{," A("F32", "0", "0", "0") "}", 0, "not JSON" },
		{ "{" A("F32", "0", "0", "0") A("F32", "0", "0", "0") "}", 0,
			"not JSON" },
		{ "{" A("F32", "0", "0", "0") "} x", 0, "not JSON" },
		{ "{" A("F32", "0", "0", "0"), 0, "not JSON" },
		{ "{\"a", 0, "not JSON" },
		{ "{\"a\\\"", 0, "not JSON" },
		{ "{\"a\":", 0, "not JSON" },
		{ "{\"a\":{\"dtype\":[}}", 0, "not JSON" },
		{ "{7:{}}", 0, "not JSON" },
		{ "{\"a\":}", 0, "JSON" },
		{ "{\"a\" {}}", 0, "JSON" },
		{ "{" A("F32", "1", "0",
			  "4") ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}",
			6, "overlaps" },
		{ "{\"a\":7}", 0, "is not an object" },
		{ "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets" },
		{ "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "no shape" },
		{ "{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no dtype" },
		{ "{\"\":{}}", 0, "name is empty" },
		{ "{\"a\\nb\":{}}", 0, "not printable" },
		{ "{\"__metadata__\":[]}", 0, "__metadata__ is not" },
		{ "{\"__metadata__\":{\"k\":1}}", 0, "is not a text" },
	};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		CHECK_I64(EX_DATAERR, code_of_text(bad[i].header, bad[i].bytes));
		CHECK(strstr(err_get()->text, bad[i].says));
		err_clear();
	}
}

/* n tensors without data. */
static void many(struct buf *text, int n)
{
	buf_reset(text);
	buf_addc(text, '{');
	for (int i = 0; i < n; i++)
		buf_addf(text,
			"%s\"%d\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}",
			i ? "," : "", i);
	buf_addc(text, '}');
}

static int64_t peak_bytes(void)
{
	struct rusage u;

	return getrusage(RUSAGE_SELF, &u) == 0 ? (int64_t)u.ru_maxrss * 1024 : 0;
}

/* A header's memory is bounded by its own bytes; a limit on their number bounds the rest. */
static void check_many(void)
{
	struct buf text = BUF_INIT;
	int64_t before, after;

	many(&text, SAFETENSORS_TENSORS_MAX);
	before = peak_bytes();
	CHECK_I64(0, code_of_text(text.data, 0));
	after = peak_bytes();
#ifndef __SANITIZE_ADDRESS__
	CHECK(after - before < 16 * (int64_t)text.len);
#endif
	many(&text, SAFETENSORS_TENSORS_MAX + 1);
	CHECK_I64(EX_DATAERR, code_of_text(text.data, 0));
	CHECK(strstr(err_get()->text, "more than 262144 tensors"));
	err_clear();
	buf_release(&text);
	(void)before, (void)after;
}

static void check_length(void)
{
	struct buf b = BUF_INIT;

	for (size_t n = 0; n < 9; n++) {
		buf_reset(&b);
		buf_add(&b, "\2\0\0\0\0\0\0\0{", n);
		CHECK_I64(EX_DATAERR, code_of(&b));
	}
	buf_reset(&b);
	buf_add(&b, "\377\377\377\377\377\377\377\377{}", 10);
	CHECK_I64(EX_DATAERR, code_of(&b));
	CHECK(strstr(err_get()->text, "not at most 100000000"));
	err_clear();
	buf_release(&b);
}

/* --- writing ------------------------------------------------------------------------------ */

/* Every byte of tensor i is 'a' + i. */
static int fill(void *ctx, uint64_t i, struct io_part *out)
{
	const struct lm_tensor *tensors = ctx;
	char byte = (char)('a' + i);
	uint64_t bytes = 0;

	CHECK_I64(0, lm_type_bytes(tensors[i].type, tensors[i].count, &bytes));
	for (uint64_t k = 0; k < bytes; k++)
		if (io_part_write(out, &byte, 1) < 0)
			return -1;
	return 0;
}

static struct lm_tensor three[] = {
	{ .name = "small", .type = LM_I8, .dims = 1, .shape = { 3 }, .count = 3 },
	{ .name = "half", .type = LM_BF16, .dims = 2, .shape = { 2, 5 }, .count = 10 },
	{ .name = "full", .type = LM_F32, .dims = 2, .shape = { 3, 1 }, .count = 3 },
};

static void check_three(const struct safetensors *s)
{
	CHECK_I64(3, (int64_t)safetensors_count(s));
	for (int i = 0; i < 3; i++) {
		const struct lm_tensor *t = safetensors_find(s, three[i].name);

		CHECK(t && t->type == three[i].type && t->dims == three[i].dims &&
			t->shape[0] == three[i].shape[0] && t->count == three[i].count);
		if (t)
			CHECK(*(const char *)t->data == 'a' + i &&
				((const char *)t->data)[t->bytes - 1] == 'a' + i);
		if (t)
			CHECK((uintptr_t)t->data % lm_type_block_bytes(t->type) == 0);
	}
	CHECK(!safetensors_find(s, "other"));
}

static void check_write(void)
{
	json_t *metadata = json_object();
	struct safetensors *s = NULL;

	json_set_text(metadata, "format", "pt");
	CHECK_I64(0,
		safetensors_write(in_dir("one.safetensors"), three, 3, metadata, fill,
			three));
	CHECK_I64(0, safetensors_open(&s, in_dir("one.safetensors")));
	if (s) {
		check_three(s);
		CHECK_TEXT("pt",
			json_string_value(
				json_object_get(safetensors_metadata(s), "format")));
		/* the larger elements come first, the data at a multiple of 64 */
		CHECK_TEXT("full", safetensors_at(s, 0)->name);
		CHECK_I64(0, (int64_t)((uintptr_t)safetensors_at(s, 0)->data % 64));
	}
	safetensors_close(s);
	three[0].type = LM_Q8_0;
	CHECK_FAILS(EX_DATAERR,
		safetensors_write(in_dir("one.safetensors"), three, 3, NULL, fill,
			three));
	three[0].type = LM_I8;
	CHECK_FAILS(EX_NOINPUT, safetensors_open(&s, in_dir("none.safetensors")));
	json_decref(metadata);
}

static void check_model(void)
{
	struct safetensors *s = NULL;

	CHECK_I64(0, safetensors_write_model(dir, three, 3, NULL, 100, fill, three));
	CHECK_I64(0, safetensors_open_model(&s, dir));
	if (s)
		check_three(s);
	if (s)
		CHECK_I64(1, safetensors_shards(s));
	safetensors_close(s);
	CHECK_I64(0, safetensors_write_model(dir, three, 3, NULL, 23, fill, three));
	CHECK(access(in_dir("model.safetensors"), F_OK) < 0);
	CHECK_I64(0, safetensors_open_model(&s, dir));
	if (s)
		check_three(s);
	if (s)
		CHECK_I64(2, safetensors_shards(s));
	safetensors_close(s);
	/* every tensor larger than a shard may be */
	CHECK_I64(0, safetensors_write_model(dir, three, 3, NULL, 1, fill, three));
	CHECK_I64(0, safetensors_open_model(&s, dir));
	if (s)
		CHECK_I64(3, safetensors_shards(s));
	safetensors_close(s);
}

static void check_index(void)
{
	static const struct {
		const char *index, *says;
	} bad[] = {
		{ "{\"weight_map\":{\"half\":\"../model-00002-of-00003.safetensors\"}}",
			"no plain name" },
		{ "{\"weight_map\":{\"half\":\"/etc/x.safetensors\"}}", "no plain name" },
		{ "{\"weight_map\":{\"half\":\".safetensors\"}}", "no plain name" },
		{ "{\"weight_map\":{\"half\":\"..\"}}", "no plain name" },
		{ "{\"weight_map\":{\"half\":\"a\\nb.safetensors\"}}", "no plain name" },
		{ "{\"weight_map\":{\"half\":7}}", "no plain name" },
		/* an index that names itself */
		{ "{\"weight_map\":{\"half\":\"model.safetensors.index.json\"}}",
			"no plain name" },
		{ "{\"weight_map\":{}}", "names 0 shards" },
		{ "{}", "'weight_map' is missing" },
		{ "{\"weight_map\":[]}", "weight_map" },
		{ "{\"weight_map\":{\"half\":\"model-00001-of-00003.safetensors\"}}",
			"'half' is not in" },
		{ "{\"weight_map\":{\"none\":\"model-00002-of-00003.safetensors\"}}",
			"'none' is not in" },
		{ "{\"weight_map\":{\"a\":\"model-00002-of-00003.safetensors\","
		  "\"b\":\"again.safetensors\"}}",
			"is in two shards" },
	};
	struct safetensors *s = NULL;

	CHECK(symlink("model-00002-of-00003.safetensors", in_dir("again.safetensors")) ==
		0);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		CHECK_I64(0,
			io_replace(in_dir("model.safetensors.index.json"), bad[i].index,
				strlen(bad[i].index), 0600));
		CHECK_I64(-1, safetensors_open_model(&s, dir));
		CHECK_I64(EX_DATAERR, err_get()->code);
		CHECK(strstr(err_get()->text, bad[i].says));
		err_clear();
	}
	CHECK_I64(0,
		io_replace(in_dir("model.safetensors.index.json"),
			"{\"weight_map\":{\"a\":\"gone.safetensors\"}}", 39, 0600));
	CHECK_FAILS(EX_NOINPUT, safetensors_open_model(&s, dir));
}

int main(void)
{
	struct buf command = BUF_INIT;

	CHECK(mkdtemp(dir) != NULL);
	check_good();
	check_bad();
	check_length();
	check_many();
	check_write();
	check_model();
	check_index();
	buf_addf(&command, "rm -r '%s'", dir);
	CHECK_I64(0, system(command.data));
	buf_release(&command);
	TEST_END();
}
