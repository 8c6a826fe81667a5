/* corpus.c - pieces of a corpus have the ids of its documents, in batches of any size. */
#include "common/lm/text/corpus.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/io.h"
#include "common/base/rng.h"
#include "common/lm/token/train.h"
#include "tests/unit/test.h"

static char dir[] = "/tmp/rnp-corpus-XXXXXX";

struct seen {
	struct buf ids;
	size_t documents, batches;
};

static int see(void *ctx, const uint32_t *ids, size_t n, bool ends)
{
	struct seen *s = ctx;

	buf_add(&s->ids, ids, n * sizeof *ids);
	s->documents += ends;
	s->batches++;
	return 0;
}

static const char *put(const char *name, const struct buf *data)
{
	static char path[64];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	CHECK(io_replace(path, buf_text((struct buf *)data), data->len, 0600) == 0);
	return path;
}

/* Words of letters, signs and characters of two to four bytes, in lines. */
static void random_text(struct buf *out, struct rng *r, size_t words)
{
	static const char *const some[] = { "the ", "model", " of\n", "Rénder ", "\nA",
		"\nb", "日本 ", "😀", "  ", "12", ".\n\n" };

	buf_reset(out);
	for (size_t i = 0; i < words; i++)
		buf_adds(out, some[rng_below(r, sizeof some / sizeof *some)]);
}

static struct lm_token *learned(const char *pre, const struct buf *text)
{
	struct lm_trainer *r;
	struct lm_token *t = NULL;

	CHECK(lm_trainer_new(&r, pre) == 0);
	CHECK(lm_trainer_add(r, text->data, text->len) == 0);
	CHECK(lm_trainer_learn(r, 300, &t, NULL, NULL) == 0);
	lm_trainer_free(r);
	return t;
}

/* Texts of other alphabets, and of one line, can be cut as well, with the same ids whichever way
 * the words are found. */
static void check_cuts(const char *pre, struct rng *r)
{
	static const char *const some[] = { "the", " model", "日本", "。\n", "\n", " \n",
		"ж", "é\n", "\u3000", "\u00a0\n", "😀", "12", ".\n", "  ", "'s", "\r\n",
		"\u2028", "ิ" };
	struct buf text = BUF_INIT, want = BUF_INIT, got = BUF_INIT;
	struct lm_token *t;
	size_t cuts = 0;

	for (size_t i = 0; i < 4000; i++)
		buf_adds(&text, some[rng_below(r, sizeof some / sizeof *some)]);
	t = learned(pre, &text);
	CHECK(lm_token_encode(t, &want, text.data, text.len, false) == 0);
	for (size_t at = 0, end; at < text.len; at = end, cuts++) {
		end = lm_token_cut(t, text.data, text.len, at + 1 + rng_below(r, 60));
		CHECK(lm_token_encode_piece(t, &got, text.data + at, end - at, false,
			      at == 0) == 0);
	}
	CHECK(want.len == got.len && memcmp(want.data, got.data, want.len) == 0);
	CHECK(cuts > 20 || cuts == 1);
	lm_token_close(t);
	buf_release(&text);
	buf_release(&want);
	buf_release(&got);
}

static void check_document(const struct lm_token *t, struct rng *r, size_t batch,
	size_t words)
{
	struct corpus_form form = { .batch_bytes = batch };
	struct buf text = BUF_INIT, want = BUF_INIT;
	struct seen s = { .ids = BUF_INIT };
	uint64_t bytes = 0;

	random_text(&text, r, words);
	CHECK(lm_token_encode(t, &want, buf_text(&text), text.len, false) == 0);
	CHECK(corpus_encode(put("text", &text), &form, t, false, see, &s, &bytes) == 0);
	CHECK_I64((int64_t)text.len, (int64_t)bytes);
	CHECK_I64(1, (int64_t)s.documents);
	CHECK(text.len < 4 * batch || s.batches > 4);
	CHECK(want.len == s.ids.len &&
		(!want.len || memcmp(want.data, s.ids.data, want.len) == 0));
	buf_release(&text);
	buf_release(&want);
	buf_release(&s.ids);
}

static void check_lines(const struct lm_token *t, struct rng *r, size_t batch,
	size_t documents)
{
	struct corpus_form form = { .jsonl = "text", .batch_bytes = batch };
	struct buf text = BUF_INIT, lines = BUF_INIT, want = BUF_INIT;
	struct seen s = { .ids = BUF_INIT };

	for (size_t i = 0; i < documents; i++) {
		json_t *o;
		char *line;

		random_text(&text, r, i % 50 == 7 ? 20000 : rng_below(r, 40));
		CHECK(lm_token_encode(t, &want, buf_text(&text), text.len, false) == 0);
		o = json_pack("{s:i,s:s%,s:{s:s}}", "id", (int)i, "text", buf_text(&text),
			text.len, "meta", "text", "no");
		line = json_dumps(o, i % 2 ? JSON_COMPACT : JSON_ENSURE_ASCII);
		buf_adds(&lines, line);
		buf_adds(&lines, i % 3 ? "\n" : "\r\n\n");
		free(line);
		json_decref(o);
	}
	lines.len--; /* the last line has no end */
	CHECK(corpus_encode(put("lines", &lines), &form, t, false, see, &s, NULL) == 0);
	CHECK_I64((int64_t)documents, (int64_t)s.documents);
	CHECK(want.len == s.ids.len && memcmp(want.data, s.ids.data, want.len) == 0);
	buf_release(&text);
	buf_release(&lines);
	buf_release(&want);
	buf_release(&s.ids);
}

/* Documents without a text come in batches, too: a line of them packs to nearly nothing. */
static void check_empty(void)
{
	struct corpus_form form = { .jsonl = "text", .batch_bytes = 4096 };
	const struct corpus_batch *b;
	struct buf lines = BUF_INIT;
	struct corpus *c;
	size_t n = 0;

	for (int i = 0; i < 5000; i++)
		buf_adds(&lines, "{\"text\":\"\"}\n");
	CHECK(corpus_open(&c, put("lines", &lines), &form) == 0);
	while (corpus_next(c, &b, NULL, NULL) > 0) {
		CHECK((b->n - 1) * sizeof *b->pieces < 4096); /* the last went over */
		n += b->n;
	}
	CHECK_I64(5000, (int64_t)n);
	corpus_close(c);
	buf_release(&lines);
}

int main(void)
{
	static const char *const families[] = { "gpt-2", "llama-bpe", "qwen2",
		"deepseek-llm", "deepseek-v3", "falcon", "gpt-4o", "tekken", "starcoder",
		"bloom", "chameleon", "command-r", "smollm", "mpt", "olmo", "dbrx",
		"refact", "viking", "jais", "poro-chat", "exaone", "stablelm2",
		"kimi-k2" };
	struct buf text = BUF_INIT;
	struct lm_token *t;
	struct rng r;

	if (!mkdtemp(dir))
		return 1;
	rng_seed(&r, 7, 0);
	random_text(&text, &r, 5000);
	t = learned("gpt-2", &text);
	for (size_t batch = 64; batch <= 1 << 16; batch *= 4) {
		check_document(t, &r, batch, 20000);
		check_document(t, &r, batch, 1);
		check_document(t, &r, batch, 0);
		check_lines(t, &r, batch, 120);
	}
	check_empty();
	for (size_t i = 0; i < sizeof families / sizeof *families; i++)
		for (int n = 0; n < 3; n++)
			check_cuts(families[i], &r);
	lm_token_close(t);
	buf_release(&text);
	unlink(put("text", &text));
	unlink(put("lines", &text));
	rmdir(dir);
	TEST_END();
}
