/* fuzz_tokenizer.c - fuzz target: a stranger's tokenizer, and a text tokenized with it.
 *
 * Byte 0: bit 0 selects a llama2.c file, bit 2 a GGUF file, else it is a tokenizer.json; bit 1:
 * special tokens. Byte 1: the length of the text, which follows; then the tokenizer. It checks
 * that an error has a message and code 65; that ids are below the count and each has a piece;
 * that a stream of them is UTF-8; that where all bytes or none may become special tokens the
 * ids are the same as with one word for the whole text; and that a tokenizer.json that we write
 * can be read. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"
#include "common/lm/model/gguf.h"
#include "common/lm/token/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

static void must_be_refused(void)
{
	must(err_get()->code == EX_DATAERR && err_get()->text[0]);
	err_clear();
}

/* Bytes with marks; each second one may be part of a special token's name where `may` is 2. */
static void use_marked(const struct lm_token *t, const char *text, size_t bytes,
	const struct buf *ids, int may)
{
	char *marks = xmalloc(bytes + 1);
	struct buf marked = BUF_INIT;

	for (size_t i = 0; i < bytes; i++)
		marks[i] = may == 2 ? (char)(i & 1) : (char)may;
	if (lm_token_encode_marked(t, &marked, text, bytes, marks) < 0)
		must_be_refused();
	else if (may < 2)
		must(marked.len == ids->len &&
			(!ids->len || memcmp(marked.data, ids->data, ids->len) == 0));
	buf_release(&marked);
	free(marks);
}

/* What programs ask of a tokenizer. */
static void look(const struct lm_token *t)
{
	struct lm_token_fill fill = { 0 };
	struct lm_token_about about;
	unsigned char print[32];
	size_t bytes;

	lm_token_describe(t, &about);
	must(about.count == lm_token_count(t) && about.model);
	must(lm_token_bos(t) < about.count && lm_token_eos(t) < about.count);
	lm_token_fingerprint(t, print);
	if (lm_token_fill(t, &fill))
		must(fill.prefix < about.count && fill.suffix < about.count &&
			fill.middle < about.count);
	for (uint32_t id = 0; id < about.count && id < 64; id++) {
		const char *name = lm_token_text(t, id, &bytes);

		must(name && lm_token_type(t, id) <= LM_TOKEN_BYTE);
		must(!bytes || lm_token_find(t, name, bytes) >= 0);
		(void)lm_token_ends(t, id);
	}
}

static void use(const struct lm_token *t, const char *text, size_t bytes, bool special)
{
	struct buf ids = BUF_INIT, out = BUF_INIT;
	struct lm_detoken stream;

	if (lm_token_encode(t, &ids, text, bytes, special) < 0) {
		must_be_refused();
		buf_release(&ids);
		return;
	}
	use_marked(t, text, bytes, &ids, special);
	use_marked(t, text, bytes, &ids, 2);
	lm_detoken_init(&stream, t);
	for (size_t i = 0; i < ids.len; i += 4) {
		uint32_t id;

		memcpy(&id, ids.data + i, 4);
		must(id < lm_token_count(t));
		must(lm_detoken_push(&stream, &out, id) == 0);
	}
	lm_detoken_end(&stream, &out);
	must(utf8_valid(buf_text(&out), out.len));
	buf_release(&ids);
	buf_release(&out);
}

/* same: it has the same kind and gives the same ids. */
static void write_and_read(const struct lm_token *t, const char *text, size_t bytes,
	bool special, bool same)
{
	struct buf json = BUF_INIT, config = BUF_INIT;
	struct lm_token *again = NULL;

	if (lm_token_write_json(t, &json) == 0) {
		lm_token_write_config(t, &config);
		must(lm_token_read_json(&again, json.data, json.len, config.data,
			     config.len, "again") == 0);
		must(lm_token_count(again) == lm_token_count(t));
		if (same) {
			struct buf a = BUF_INIT, b = BUF_INIT;
			int rc = lm_token_encode(t, &a, text, bytes, special);

			must(lm_token_encode(again, &b, text, bytes, special) == rc);
			must(rc < 0 ||
				(a.len == b.len &&
					(!a.len || memcmp(a.data, b.data, a.len) == 0)));
			buf_release(&a);
			buf_release(&b);
			err_clear();
		}
		lm_token_close(again);
	} else {
		must_be_refused();
	}
	buf_release(&json);
	buf_release(&config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct lm_token *t = NULL;
	struct gguf *g = NULL;
	const char *text = (const char *)data + 2, *file;
	size_t bytes, rest;
	int rc;

	if (size < 2)
		return 0;
	bytes = data[1] < size - 2 ? data[1] : size - 2;
	file = text + bytes;
	rest = size - 2 - bytes;
	if (data[0] & 4)
		rc = gguf_read(&g, file, rest, "fuzz") < 0 ? -1 :
							     lm_token_read_gguf(&t, g);
	else
		rc = data[0] & 1 ? lm_token_read_bin(&t, file, rest, 0, "fuzz") :
				   lm_token_read_json(&t, file, rest, NULL, 0, "fuzz");
	gguf_close(g); /* the tokenizer has what it needs */
	if (rc < 0) {
		must_be_refused();
		return 0;
	}
	look(t);
	use(t, text, bytes, data[0] & 2);
	write_and_read(t, text, bytes, data[0] & 2, !(data[0] & 5));
	lm_token_close(t);
	return 0;
}
