/* compress.c - measures gradient containers: how fast they are written and read, how
 * small and how exact they are. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-bench/suites/compress_data.h"
#include "cmd/rnp-bench/suites/gpu.h"
#include "cmd/rnp-bench/suites/suite.h"
#include "common/base/err.h"
#include "common/base/threads.h"
#include "common/grad/grad.h"
#include "common/hw/device.h"
#include "common/json/json.h"
#include "common/base/mem.h"

#define ELEMENTS       (UINT64_C(4) << 20)
#define ELEMENTS_QUICK (UINT64_C(1) << 20)
#define CHECKED        (UINT64_C(3) << 16) /* elements that are also coded by the reference */

static struct {
	struct dev d;
	char device[256];
	bool open;
	uint64_t n;
	float *host[COMPRESS_KINDS]; /* the same floats in every test of a run */
	void *x, *y;                 /* on the device: input and output */
	float *want, *got;           /* of check_decode */
	struct grad g;
	struct buf container;
	const struct compress_peer *peer;
	unsigned char *levels, *packed, *back;
	size_t packed_bytes;
	/* by the method's name: sizes and errors, the same for encode and decode; and whether
	 * it was compared with the reference */
	json_t *told, *compared;
} c;

static int failed(void)
{
	return device_failed(&c.d);
}

static int prepare(const struct settings *s)
{
	const char *name = s->device ? s->device : getenv("RNP_DEVICE");

	if (c.open)
		return 0;
	/* by default the CPU is measured, as in the neighbouring suites */
	if (device_open(&c.d, name && strncmp(name, "cuda", 4) == 0 ? name : "cpu") < 0)
		return -1;
	c.open = true;
	snprintf(c.device, sizeof c.device, "%s",
		c.d.model[0] ? c.d.model : suite_cpu_model());
	c.n = s->quick ? ELEMENTS_QUICK : ELEMENTS;
	for (int k = 0; k < COMPRESS_KINDS; k++) {
		c.host[k] = xmalloc(c.n * 4);
		if (compress_data(c.host[k], c.n, (enum compress_kind)k) < 0)
			return -1;
	}
	c.told = json_object();
	c.compared = json_object();
	c.want = xmalloc(c.n * 4);
	c.got = xmalloc(c.n * 4);
	if (c.d.ops->alloc(&c.d, &c.x, c.n * 4) < 0 ||
		c.d.ops->alloc(&c.d, &c.y, c.n * 4) < 0 ||
		c.d.ops->put(&c.d, c.x, c.host[COMPRESS_GAUSS], c.n * 4) < 0)
		return failed();
	return 0;
}

static void close_suite(void)
{
	if (!c.open)
		return;
	c.d.ops->free(&c.d, c.x);
	c.d.ops->free(&c.d, c.y);
	dev_close(&c.d);
	for (int k = 0; k < COMPRESS_KINDS; k++)
		free(c.host[k]);
	free(c.want);
	free(c.got);
	json_decref(c.told);
	json_decref(c.compared);
	memset(&c, 0, sizeof c);
}

static const char *device(void)
{
	return c.device;
}

static void close_test(void)
{
	buf_release(&c.container);
	free(c.levels);
	free(c.packed);
	free(c.back);
	c.levels = c.packed = c.back = NULL;
}

/* --- our own ------------------------------------------------------------------------------- */

static int keep(void *ctx, const void *data, size_t len)
{
	buf_add(ctx, data, len);
	return 0;
}

/* Encodes the device's input into c.container; ecq searches for its step first. */
static int encode(void)
{
	struct grad with = c.g;
	struct grad_encoder *e;
	uint64_t *bins;
	int rc = 0;

	if (c.g.q.method == QUANT_ECQ && !c.g.each) {
		bins = xcalloc(QUANT_BINS, sizeof *bins);
		rc = grad_spread(&c.d, &c.g, c.host[COMPRESS_GAUSS], NULL, c.n, bins);
		grad_step(&with.step, bins, c.g.error, true);
		free(bins);
	}
	buf_reset(&c.container);
	e = rc == 0 ? grad_encoder_new(&c.d, &with, keep, &c.container, NULL) : NULL;
	if (!e || grad_encoder_add(e, c.x, c.n, NULL) < 0 || grad_encoder_end(e) < 0)
		rc = -1;
	grad_encoder_free(e);
	return rc;
}

static int step_encode(double *work)
{
	*work = 4 * (double)c.n;
	return encode();
}

struct memory {
	const char *at;
};

static int give(void *ctx, void *data, size_t len)
{
	struct memory *m = ctx;

	memcpy(data, m->at, len);
	m->at += len;
	return 0;
}

static int step_decode(double *work)
{
	struct memory m = { c.container.data };
	struct grad_decoder *r = grad_decoder_new(&c.d, give, &m);
	uint64_t at = 0, n = 1;
	int rc = r ? 0 : -1;

	while (rc == 0 && n) {
		rc = grad_decoder_next(r, (char *)c.y + at * 4, &n);
		at += n;
	}
	grad_decoder_free(r);
	*work = 4 * (double)c.n;
	return rc;
}

/* Checks that the container equals, byte for byte, that of the plain loops on one thread. They
 * are slow, and every batch makes the same container: once in a run is enough. */
static int check_encode(void)
{
	struct grad part = c.g;
	struct buf fast = BUF_INIT, plain = BUF_INIT;
	struct dev ref;
	char name[64];
	int rc;

	grad_name(name, &c.g);
	if (json_object_get(c.compared, name))
		return 0;
	part.elements = CHECKED;
	if (dev_open_cpu(&ref, CPU_REF) < 0)
		return device_failed(&ref);
	rc = grad_encode(&c.d, &part, c.host[COMPRESS_GAUSS], NULL, &fast, NULL);
	if (rc == 0)
		rc = grad_encode(&ref, &part, c.host[COMPRESS_GAUSS], NULL, &plain, NULL);
	if (rc == 0 &&
		(fast.len != plain.len || memcmp(fast.data, plain.data, fast.len) != 0))
		rc = dev_wrong(&c.d, "the container differs from the reference's");
	if (rc == 0)
		json_object_set_new(c.compared, name, json_true());
	buf_release(&fast);
	buf_release(&plain);
	dev_close(&ref);
	return rc;
}

/* Checks that the last output equals the decoding of the whole container at once. */
static int check_decode(void)
{
	int rc = grad_decode(&c.d, NULL, c.container.data, c.container.len, c.want, c.n,
		false);

	if (rc == 0 && c.d.ops->get(&c.d, c.got, c.y, c.n * 4) < 0)
		rc = failed();
	if (rc == 0 && memcmp(c.want, c.got, c.n * 4) != 0)
		rc = dev_wrong(&c.d, "what was decoded differs");
	return rc;
}

/* Measures bits and error on each kind of data. */
static json_t *tell(void)
{
	json_t *told = json_object();

	for (int k = 0; k < COMPRESS_KINDS; k++) {
		struct buf out = BUF_INIT;
		struct grad_stats s;
		char key[64];

		if (grad_encode(&c.d, &c.g, c.host[k], NULL, &out, &s) < 0) {
			err_clear();
			continue;
		}
		snprintf(key, sizeof key, "%s_microbits", compress_kinds[k]);
		json_set_i64(told, key, llround(8e6 * (double)out.len / (double)c.n));
		snprintf(key, sizeof key, "%s_error_ppm", compress_kinds[k]);
		if (s.energy > 0 && isfinite(s.error / s.energy))
			json_set_i64(told, key, llround(1e6 * sqrt(s.error / s.energy)));
		buf_release(&out);
	}
	return told;
}

static void describe(json_t *params)
{
	char name[64];

	grad_name(name, &c.g);
	json_set_text(params, "method", name);
	json_set_i64(params, "elements", (int64_t)c.n);
	json_set_text(params, "kernel", c.d.isa);
	json_set_i64(params, "threads", threads_max());
	if (!json_object_get(c.told, name))
		json_object_set_new(c.told, name, tell());
	json_object_update(params, json_object_get(c.told, name));
}

static int open_method(const struct settings *s, const char *method, bool coded)
{
	if (prepare(s) < 0 || grad_parse(&c.g, method, 0) < 0)
		return -1;
	c.g.elements = c.n;
	return coded ? encode() : 0;
}

#define METHOD(id, text)                                 \
	static int encode_##id(const struct settings *s) \
	{                                                \
		return open_method(s, text, false);      \
	}                                                \
	static int decode_##id(const struct settings *s) \
	{                                                \
		return open_method(s, text, true);       \
	}

METHOD(none, "none")
METHOD(lossless, "lossless")
METHOD(f16, "f16")
METHOD(bf16, "bf16")
METHOD(fp8e4, "fp8e4")
METHOD(fp8e5, "fp8e5")
METHOD(q8, "q8")
METHOD(q4, "q4")
METHOD(ecq, "ecq:0.1")
METHOD(ecq_chunk, "ecq:0.1:chunk")
METHOD(e3m0, "e3m0")
METHOD(qsgd, "qsgd:4")
METHOD(topk, "topk")

/* --- copying, and others ------------------------------------------------------------------ */

static int step_copy(double *work)
{
	*work = 4 * (double)c.n;
	if (c.d.ops->copy(&c.d, c.y, c.x, c.n * 4) < 0 || c.d.ops->sync(&c.d) < 0)
		return failed();
	return 0;
}

static void describe_copy(json_t *params)
{
	json_set_i64(params, "elements", (int64_t)c.n);
	json_set_text(params, "kernel", c.d.isa);
	json_set_i64(params, "threads", threads_max());
}

/* Makes the levels of q8:sigma as bytes, from one kind of data: the input of the other
 * compressors. */
static void make_levels(enum compress_kind kind)
{
	struct quant q = { .method = QUANT_Q8, .sigma = true };
	unsigned char *p[QUANT_PLANES_MAX] = { 0 };
	struct quant_layout l;
	unsigned char *area;

	quant_layout(&l, &q, QUANT_CHUNK);
	area = xmalloc(l.chunk_bytes);
	for (uint64_t at = 0; at < c.n; at += QUANT_CHUNK) {
		for (int i = 0; i < l.planes; i++)
			p[i] = quant_plane_at(&l, area, 1, 0, i);
		p[0] = c.levels + at;
		quant_encode_ref(p, c.host[kind] + at, QUANT_CHUNK, &q, NULL, at);
	}
	free(area);
}

static int pack(void)
{
	c.packed_bytes = c.peer->compress(c.packed, c.peer->bound(c.n), c.levels, c.n);
	return c.packed_bytes ? 0 : err_set(EX_SOFTWARE, "%s failed", c.peer->name);
}

static int open_peer(const struct settings *s, const char *name, bool packed)
{
	if (prepare(s) < 0)
		return -1;
	c.peer = compress_peer(name);
	if (!c.peer) {
		err_set(EX_UNAVAILABLE,
			strcmp(name, "huff0") == 0 ?
				"%s is a library that RNP_HUFF0 names" :
				"%s is not installed",
			name);
		return 1;
	}
	c.levels = xmalloc(c.n);
	c.back = xmalloc(c.n);
	c.packed = xmalloc(c.peer->bound(c.n));
	make_levels(COMPRESS_GAUSS);
	return packed ? pack() : 0;
}

#define PEER(id, name)                                   \
	static int encode_##id(const struct settings *s) \
	{                                                \
		return open_peer(s, name, false);        \
	}                                                \
	static int decode_##id(const struct settings *s) \
	{                                                \
		return open_peer(s, name, true);         \
	}

PEER(zstd, "zstd -1")
PEER(lz4, "lz4")
PEER(huff0, "huff0")

static int step_pack(double *work)
{
	*work = (double)c.n;
	return pack();
}

static int step_unpack(double *work)
{
	*work = (double)c.n;
	if (c.peer->expand(c.back, c.n, c.packed, c.packed_bytes) != c.n)
		return err_set(EX_SOFTWARE, "%s fails to decode", c.peer->name);
	return 0;
}

static int check_unpacked(void)
{
	if (memcmp(c.back, c.levels, c.n) != 0)
		return err_set(EX_SOFTWARE, "%s gives other bytes back", c.peer->name);
	return 0;
}

static int check_packed(void)
{
	double work;

	return step_unpack(&work) < 0 ? -1 : check_unpacked();
}

static void describe_peer(json_t *params)
{
	json_set_text(params, "peer", c.peer->name);
	json_set_text(params, "of", "levels of q8:sigma, a byte each");
	json_set_i64(params, "elements", (int64_t)c.n);
	json_set_i64(params, "threads", 1);
	for (int k = 0; k < COMPRESS_KINDS; k++) {
		char key[64];

		make_levels((enum compress_kind)k);
		if (pack() < 0) {
			err_clear();
			continue;
		}
		snprintf(key, sizeof key, "%s_microbits", compress_kinds[k]);
		json_set_i64(params, key,
			llround(8e6 * (double)c.packed_bytes / (double)c.n));
	}
}

#define ROWS(id, text)                                                                 \
	{ "encode_" #id, "B/s", text ", bytes of f32 into a container", false,         \
		encode_##id, step_encode, check_encode, describe, close_test },        \
	{                                                                              \
		"decode_" #id, "B/s", text ", bytes of f32 out of a container", false, \
			decode_##id, step_decode, check_decode, describe, close_test   \
	}

#define PEER_ROWS(id, text)                                                              \
	{ #id "_levels", "B/s", text " over int8 levels, one thread, bytes of levels",   \
		false, encode_##id, step_pack, check_packed, describe_peer,              \
		close_test },                                                            \
	{                                                                                \
#id "_levels_back", "B/s",                                               \
			text " back to int8 levels, one thread, bytes of levels", false, \
			decode_##id, step_unpack, check_unpacked, describe_peer,         \
			close_test                                                       \
	}

/* clang-format off */
static const struct test tests[] = {
	{ "copy", "B/s", "the same f32 copied, bytes counted once", false, prepare, step_copy,
		NULL, describe_copy, close_test },
	ROWS(none, "none"),
	ROWS(lossless, "lossless"),
	ROWS(f16, "f16"),
	ROWS(bf16, "bf16"),
	ROWS(fp8e4, "fp8e4"),
	ROWS(fp8e5, "fp8e5"),
	ROWS(q8, "q8"),
	ROWS(q4, "q4"),
	ROWS(ecq, "ecq:0.1"),
	ROWS(ecq_chunk, "ecq:0.1:chunk"),
	ROWS(e3m0, "e3m0"),
	ROWS(qsgd, "qsgd:4"),
	ROWS(topk, "topk"),
	PEER_ROWS(zstd, "zstd -1"),
	PEER_ROWS(lz4, "lz4"),
	PEER_ROWS(huff0, "zstd's huff0"),
	{ 0 },
};
/* clang-format on */

const struct suite suite_compress = { "compress", tests, device, close_suite, NULL,
	NULL };
