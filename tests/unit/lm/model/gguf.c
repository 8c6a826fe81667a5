/* gguf.c - tests lm/gguf: a written file reads back, and a file that breaks a rule of the
 * container is refused, wherever it is truncated. */
#include "common/lm/model/gguf.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "tests/unit/test.h"

/* --- files put together by hand ----------------------------------------------------------- */

static void u32(struct buf *b, uint32_t v)
{
	buf_add(b, &v, sizeof v);
}

static void u64(struct buf *b, uint64_t v)
{
	buf_add(b, &v, sizeof v);
}

static void text(struct buf *b, const char *s)
{
	u64(b, strlen(s));
	buf_adds(b, s);
}

static void head(struct buf *b, uint32_t version, uint64_t tensors, uint64_t values)
{
	buf_reset(b);
	buf_adds(b, "GGUF");
	u32(b, version);
	u64(b, tensors);
	u64(b, values);
}

static void info(struct buf *b, const char *name, uint32_t type, uint64_t offset,
	uint32_t dims, uint64_t d0, uint64_t d1)
{
	text(b, name);
	u32(b, dims);
	if (dims > 0)
		u64(b, d0);
	for (uint32_t i = 1; i < dims; i++)
		u64(b, d1);
	u32(b, type);
	u64(b, offset);
}

static void data(struct buf *b, uint64_t bytes)
{
	while (b->len % 32)
		buf_addc(b, 0);
	for (uint64_t i = 0; i < bytes; i++)
		buf_addc(b, 7);
}

/* 0: it reads; else the exit code. The memory is exactly as long as the file. */
static int code_of(const struct buf *b)
{
	struct gguf *g = NULL;
	char *copy = xmalloc(b->len);
	int rc;

	if (b->len)
		memcpy(copy, b->data, b->len);
	rc = gguf_read(&g, copy, b->len, "test");
	rc = rc < 0 ? err_get()->code : 0;
	gguf_close(g);
	free(copy);
	return rc;
}

#define REFUSED(word)                                                                   \
	do {                                                                            \
		CHECK_I64(EX_DATAERR, code_of(&b));                                     \
		if (!strstr(err_get()->text, word)) {                                   \
			test_failures++;                                                \
			fprintf(stderr, "%s:%d: '%s' lacks '%s'\n", __FILE__, __LINE__, \
				err_get()->text, word);                                 \
		}                                                                       \
		err_clear();                                                            \
	} while (0)

static void check_header(void)
{
	struct buf b = BUF_INIT;

	REFUSED("ends too early");
	head(&b, 3, 0, 0);
	CHECK_I64(0, code_of(&b));
	head(&b, 2, 0, 0);
	CHECK_I64(0, code_of(&b));
	head(&b, 1, 0, 0);
	REFUSED("version 1");
	head(&b, 4, 0, 0);
	REFUSED("version 4");
	head(&b, 0x03000000, 0, 0);
	REFUSED("big-endian");
	head(&b, 3, 0, 0);
	b.data[3] = 'g';
	REFUSED("does not begin");
	head(&b, 3, UINT64_MAX, 0);
	REFUSED("ends too early");
	head(&b, 3, 0, UINT64_MAX / 2);
	REFUSED("ends too early");
	head(&b, 3, 0, 0);
	buf_add(&b, "\0\0\0\0\0\0\0\0", 8); /* padding to 32 */
	CHECK_I64(0, code_of(&b));
	buf_addc(&b, 0);
	REFUSED("what it holds ends at");
	buf_release(&b);
}

static void check_values(void)
{
	struct buf b = BUF_INIT;

	head(&b, 3, 0, 2);
	text(&b, "a"), u32(&b, GGUF_U32), u32(&b, 1);
	text(&b, "a"), u32(&b, GGUF_BOOL), buf_addc(&b, 1);
	REFUSED("'a' stands there twice");
	b.data[b.len - 6] = 'b';
	CHECK_I64(0, code_of(&b));
	b.data[b.len - 1] = 2;
	REFUSED("a boolean is 2");
	for (uint32_t kind = 13; kind != 0; kind = kind == 13 ? UINT32_MAX : 0) {
		head(&b, 3, 0, 1);
		text(&b, "a"), u32(&b, kind), u64(&b, 0);
		REFUSED("there is no kind");
	}
	head(&b, 3, 0, 1);
	text(&b, ""), u32(&b, GGUF_U32), u32(&b, 1);
	REFUSED("is empty");
	head(&b, 3, 0, 1);
	text(&b, "a\nb"), u32(&b, GGUF_U32), u32(&b, 1);
	REFUSED("not printable");
	head(&b, 3, 0, 1);
	text(&b, "a"), u32(&b, GGUF_TEXT), u64(&b, UINT64_MAX - 3);
	REFUSED("ends too early");
	head(&b, 3, 0, 1);
	text(&b, "a"), u32(&b, GGUF_ARRAY), u32(&b, GGUF_U64), u64(&b, UINT64_C(1) << 61);
	REFUSED("ends too early");
	head(&b, 3, 0, 1); /* arrays in arrays: as deep as is allowed, and deeper */
	text(&b, "a"), u32(&b, GGUF_ARRAY);
	for (int i = 1; i < GGUF_DEPTH_MAX; i++)
		u32(&b, GGUF_ARRAY), u64(&b, 1);
	u32(&b, GGUF_U8), u64(&b, 0);
	CHECK_I64(0, code_of(&b));
	b.len -= 12;
	for (int i = 0; i < 2; i++)
		u32(&b, GGUF_ARRAY), u64(&b, 1);
	REFUSED("nested deeper");
	buf_release(&b);
}

static void check_alignment(void)
{
	static const uint32_t bad[] = { 0, 1, 4, 24, 33, 0x80000001 };
	struct buf b = BUF_INIT;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		head(&b, 3, 0, 1);
		text(&b, "general.alignment"), u32(&b, GGUF_U32), u32(&b, bad[i]);
		REFUSED("no power of two");
	}
	head(&b, 3, 0, 1);
	text(&b, "general.alignment"), u32(&b, GGUF_U64), u64(&b, 32);
	REFUSED("is u64");
	head(&b, 3, 1, 1); /* 24 + 37 + 41 bytes: the data begins at 104 */
	text(&b, "general.alignment"), u32(&b, GGUF_U32), u32(&b, 8);
	info(&b, "a", 24, 0, 1, 3, 0);
	while (b.len % 8)
		buf_addc(&b, 0);
	buf_adds(&b, "abc");
	CHECK_I64(0, code_of(&b));
	buf_release(&b);
}

static void check_tensors(void)
{
	struct buf b = BUF_INIT;

	head(&b, 3, 2, 0); /* 18 bytes of Q4_0, padded; 6 bytes of BF16 */
	info(&b, "a", 2, 0, 2, 32, 1);
	info(&b, "b", 30, 32, 1, 3, 0);
	data(&b, 32 + 6);
	CHECK_I64(0, code_of(&b));
	data(&b, 0); /* the last one's padding */
	CHECK_I64(0, code_of(&b));
	buf_addc(&b, 0);
	REFUSED("what it holds ends at");
	head(&b, 3, 2, 0);
	info(&b, "a", 2, 0, 2, 32, 1);
	info(&b, "b", 30, 32, 1, 3, 0);
	data(&b, 32 + 5);
	REFUSED("ends behind the file");
	head(&b, 3, 2, 0);
	info(&b, "a", 0, 0, 1, 8, 0);
	info(&b, "a", 0, 32, 1, 8, 0);
	data(&b, 64);
	REFUSED("stands there twice");
	head(&b, 3, 2, 0); /* the other way round */
	info(&b, "a", 0, 32, 1, 8, 0);
	info(&b, "b", 0, 0, 1, 8, 0);
	data(&b, 64);
	REFUSED("begins at 32 of the data, not at 0");
	head(&b, 3, 2, 0); /* one over the other */
	info(&b, "a", 0, 0, 1, 8, 0);
	info(&b, "b", 0, 0, 1, 8, 0);
	data(&b, 64);
	REFUSED("begins at 0 of the data, not at 32");
	head(&b, 3, 2, 0); /* a gap */
	info(&b, "a", 0, 0, 1, 8, 0);
	info(&b, "b", 0, 64, 1, 8, 0);
	data(&b, 96);
	REFUSED("begins at 64 of the data, not at 32");
	buf_release(&b);
}

static void check_shapes(void)
{
	struct buf b = BUF_INIT;

	head(&b, 3, 1, 0);
	info(&b, "a", 0, 0, 5, 1, 1);
	data(&b, 4);
	REFUSED("5 dimensions");
	head(&b, 3, 1, 0);
	info(&b, "a", 0, 0, 2, 0, 4);
	data(&b, 4);
	REFUSED("dimension of 0");
	head(&b, 3, 1, 0);
	info(&b, "a", 0, 0, 2, UINT64_C(1) << 32, UINT64_C(1) << 32);
	data(&b, 4);
	REFUSED("too large");
	head(&b, 3, 1, 0);
	info(&b, "a", 0, 0, 1, UINT64_C(1) << 62, 0);
	data(&b, 4);
	REFUSED("too large");
	head(&b, 3, 1, 0);
	info(&b, "a", 0, 0, 1, UINT64_C(1) << 61, 0); /* 2^63 bytes */
	data(&b, 4);
	REFUSED("ends behind the file");
	head(&b, 3, 1, 0);
	info(&b, "a", 8, 0, 2, 48, 2); /* rows that are not whole blocks */
	data(&b, 102);
	REFUSED("rows of 48");
	for (uint32_t type = 4; type < 200; type = type == 4 ? 199 : 200) {
		head(&b, 3, 1, 0);
		info(&b, "a", type, 0, 1, 32, 0);
		data(&b, 64);
		REFUSED("unknown type");
	}
	head(&b, 3, 1, 0); /* a scalar */
	info(&b, "a", 0, 0, 0, 0, 0);
	data(&b, 4);
	CHECK_I64(0, code_of(&b));
	buf_release(&b);
}

/* --- round trip --------------------------------------------------------------------------- */

static int fill(void *ctx, uint64_t i, struct io_part *out)
{
	static const unsigned char one[6] = "abcdef";
	unsigned char zeros[36] = { 0 };

	(void)ctx;
	return i == 0 ? io_part_write(out, one, sizeof one) :
			io_part_write(out, zeros, sizeof zeros);
}

static void put_some(struct gguf_meta *m)
{
	static const int32_t numbers[] = { 1, -2, 3 };
	static const float reals[] = { 0.5f, -1 };

	gguf_put_text(m, "general.architecture", "llama", 5);
	gguf_put_u32(m, "u32", UINT32_MAX);
	gguf_put_u64(m, "u64", UINT64_MAX);
	gguf_put_f32(m, "f32", 0.25f);
	gguf_put_bool(m, "bool", true);
	gguf_put_i32s(m, "i32s", numbers, 3);
	gguf_put_f32s(m, "f32s", reals, 2);
	gguf_put_texts(m, "texts");
	gguf_add_text(m, "a\0b", 3);
	gguf_add_text(m, "", 0);
	gguf_put_u32(m, "last", 7);
}

static void check_read_back(const struct gguf *g)
{
	const struct gguf_value *v;
	const struct lm_tensor *t;
	const unsigned char *at;
	const char *s = NULL;
	uint64_t n = 0;
	double x = 0;
	bool yes = false;

	CHECK_I64(9, (int64_t)gguf_values(g));
	CHECK_TEXT("bool", gguf_kind_name(gguf_value_at(g, 4)->kind));
	CHECK(gguf_get_text(g, "general.architecture", &s, &n) == 0 && n == 5 &&
		memcmp(s, "llama", 5) == 0);
	CHECK(gguf_get_u64(g, "u64", UINT64_MAX, &n) == 0 && n == UINT64_MAX);
	CHECK_FAILS(EX_DATAERR, gguf_get_u64(g, "u64", INT64_MAX, &n));
	CHECK_FAILS(EX_DATAERR, gguf_get_u64(g, "f32", UINT64_MAX, &n));
	CHECK(gguf_get_u64(g, "absent", 1, &n) == 0 && n == UINT64_MAX);
	CHECK(gguf_get_f64(g, "f32", &x) == 0 && x == 0.25);
	CHECK(gguf_get_f64(g, "last", &x) == 0 && x == 7);
	CHECK_FAILS(EX_DATAERR, gguf_get_f64(g, "bool", &x));
	CHECK(gguf_get_bool(g, "bool", &yes) == 0 && yes);
	CHECK(gguf_get_array(g, "i32s", GGUF_I32, &v) == 0 && v->count == 3);
	CHECK_I64(-2, gguf_item_i64(v, 1));
	CHECK_FAILS(EX_DATAERR, gguf_get_array(g, "i32s", GGUF_F32, &v));
	CHECK(gguf_get_array(g, "f32s", GGUF_F32, &v) == 0 && gguf_item_f64(v, 1) == -1);
	CHECK(gguf_get_array(g, "texts", GGUF_TEXT, &v) == 0 && v->count == 2);
	at = v->data;
	s = gguf_next_text(&at, &n);
	CHECK(n == 3 && memcmp(s, "a\0b", 3) == 0);
	gguf_next_text(&at, &n);
	CHECK(n == 0 && at == v->data + v->bytes);
	CHECK_I64(2, (int64_t)gguf_tensors(g));
	t = gguf_find_tensor(g, "b");
	CHECK(t && t->dims == 2 && t->shape[0] == 2 && t->shape[1] == 32 &&
		t->bytes == 36);
	t = gguf_find_tensor(g, "a");
	CHECK(t && t->type == LM_BF16 && memcmp(t->data, "abcdef", 6) == 0);
	CHECK(!gguf_find_tensor(g, "c"));
}

static void check_write(void)
{
	char path[] = "/tmp/rnp-gguf-XXXXXX";
	struct lm_tensor tensors[2] = {
		{ .name = "a", .type = LM_BF16, .dims = 1, .shape = { 3 }, .count = 3 },
		{ .name = "b",
			.type = LM_Q4_0,
			.dims = 2,
			.shape = { 2, 32 },
			.count = 64 },
	};
	struct gguf_meta m = GGUF_META_INIT, copy = GGUF_META_INIT;
	struct buf whole = BUF_INIT, b = BUF_INIT;
	struct gguf *g = NULL;

	close(mkstemp(path));
	put_some(&m);
	CHECK_I64(0, gguf_write(path, &m, tensors, 2, fill, NULL));
	CHECK_I64(0, gguf_open(&g, path));
	if (g) {
		check_read_back(g);
		for (uint64_t i = 0; i < gguf_values(g); i++)
			gguf_put_value(&copy, gguf_value_at(g, i));
		CHECK(copy.count == m.count && copy.bytes.len == m.bytes.len &&
			memcmp(copy.bytes.data, m.bytes.data, m.bytes.len) == 0);
	}
	/* cut anywhere, it is refused; but for the last one's padding */
	CHECK_I64(0, io_read(&whole, path, 4096));
	for (size_t n = 0; n < whole.len; n++) {
		buf_reset(&b);
		buf_add(&b, whole.data, n);
		CHECK_I64(n == whole.len - 28 ? 0 : EX_DATAERR, code_of(&b));
	}
	tensors[1].shape[1] = 31;
	tensors[1].count = 62;
	CHECK_FAILS(EX_DATAERR, gguf_write(path, &m, tensors, 2, fill, NULL));
	memset(tensors[0].name, 'x', 64);
	CHECK_FAILS(EX_DATAERR, gguf_write(path, &m, tensors, 2, fill, NULL));
	gguf_close(g);
	CHECK_I64(0, gguf_open(&g, path)); /* still what it was */
	gguf_close(g);
	unlink(path);
	CHECK_FAILS(EX_NOINPUT, gguf_open(&g, path));
	CHECK(g == NULL);
	CHECK_FAILS(EX_NOINPUT, gguf_open(&g, "/tmp"));
	gguf_meta_release(&m);
	gguf_meta_release(&copy);
	buf_release(&whole);
	buf_release(&b);
}

int main(void)
{
	check_header();
	check_values();
	check_alignment();
	check_tensors();
	check_shapes();
	check_write();
	TEST_END();
}
