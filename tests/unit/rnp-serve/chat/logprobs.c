/* logprobs.c - logprobs of completions as parallel arrays: offsets in characters also where tokens
 * are parts of one, names of bytes, the same name once, a prompt before an answer; and for how long
 * a device that failed is told. */
/* uses: cmd/rnp-serve */
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-serve/model/pool.h"
#include "cmd/rnp-serve/chat/text_logprobs.h"
#include "common/json/json.h"
#include "tests/unit/test.h"

static struct lm_token *read(const char *json)
{
	struct lm_token *t = NULL;

	CHECK(lm_token_read_json(&t, json, strlen(json), NULL, 0, "tokens") == 0);
	return t;
}

/* Tokens: "a", "é", its two bytes, "x y", NUL and a special one. */
static struct lm_token *letters(void)
{
	return read(
		"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"\u00c3\u00a9\":1,\"\u00c3\":2,\"\u00a9\":3,\"x\u0120y\":4,"
		"\"\u0100\":5},\"merges\":[]},\"added_tokens\":[{\"id\":6,\"content\":\"<s>\",\"special\":true}],"
		"\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"decoder\":{\"type\":\"ByteLevel\"}}");
}

static void check_written(const char *want, const struct text_logprobs *first,
	const struct text_logprobs *l)
{
	struct buf out = BUF_INIT;

	text_logprobs_write(&out, first, l);
	CHECK_TEXT(want, buf_text(&out));
	buf_release(&out);
}

static void arrays(void)
{
	struct lm_token *t = letters();
	struct text_logprobs prompt, answer;
	struct lm_logprobs p = { .token = -1,
		.n = 2,
		.top = { 0, 2 },
		.top_logprob = { -0.5F, -1 } };

	text_logprobs_init(&prompt, t, false);
	text_logprobs_init(&answer, t, true);
	CHECK(!text_logprobs_any(&prompt));
	text_logprobs_add(&prompt, 6, NULL);
	text_logprobs_add(&prompt, 1, &p);
	p.n = 0;
	text_logprobs_add(&prompt, 2, &p); /* half of a character, and no more comes */
	text_logprobs_part(&prompt, true);
	p.n = 1;
	text_logprobs_add(&answer, 2, &p);
	text_logprobs_add(&answer, 3, &p);
	text_logprobs_add(&answer, 4, &p);
	p.token = -INFINITY;
	text_logprobs_add(&answer, 5, &p);
	CHECK(text_logprobs_any(&answer));
	check_written(
		"{\"tokens\":[\"<s>\",\"\u00e9\",\"bytes:\\\\xc3\",\"bytes:\\\\xc3\",\"bytes:\\\\xa9\",\"x y\",\"bytes:\\\\x00\"],"
		"\"token_logprobs\":[null,-1,-1,-1,-1,-1,-9999],"
		"\"top_logprobs\":[null,{\"a\":-0.5,\"bytes:\\\\xc3\":-1},{},{\"a\":-0.5},{\"a\":-0.5},{\"a\":-0.5},{\"a\":-0.5}],"
		"\"text_offset\":[0,0,1,2,2,3,6]}",
		&prompt, &answer);
	/* what was sent is not sent again, and what follows lies behind it */
	text_logprobs_clear(&prompt);
	text_logprobs_clear(&answer);
	p.token = -2;
	text_logprobs_add(&answer, 0, &p);
	check_written(
		"{\"tokens\":[\"a\"],\"token_logprobs\":[-2],\"top_logprobs\":[{\"a\":-0.5}],\"text_offset\":[7]}",
		&prompt, &answer);
	check_written(
		"{\"tokens\":[\"a\"],\"token_logprobs\":[-2],\"top_logprobs\":[{\"a\":-0.5}],\"text_offset\":[5]}",
		NULL, &answer);
	text_logprobs_release(&prompt);
	text_logprobs_release(&answer);
	lm_token_close(t);
}

/* A byte may be the same text as a letter: the more likely one has the name. */
static void same_name(void)
{
	struct buf json = BUF_INIT;
	struct text_logprobs l;
	struct lm_token *t;
	struct lm_logprobs p = { .token = -3,
		.n = 3,
		.top = { 97, 256, 98 },
		.top_logprob = { -1, -2, -4 } };

	buf_adds(&json,
		"{\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":{");
	for (int i = 0; i < 256; i++)
		buf_addf(&json, "\"<0x%02X>\":%d,", (unsigned)i, i);
	buf_adds(&json,
		"\"a\":256},\"merges\":[]},\"added_tokens\":[],"
		"\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}]}}");
	t = read(buf_text(&json));
	text_logprobs_init(&l, t, false);
	text_logprobs_add(&l, 256, &p);
	check_written(
		"{\"tokens\":[\"a\"],\"token_logprobs\":[-3],\"top_logprobs\":[{\"a\":-1,\"b\":-4}],\"text_offset\":[0]}",
		NULL, &l);
	text_logprobs_release(&l);
	lm_token_close(t);
	buf_release(&json);
}

static void failing(void)
{
	struct lm_engine_counts c = { .failing = MODEL_POOL_FAILING - 1, .failed_ns = 5 };

	CHECK(!model_pool_fails(&c, 6));
	c.failing++;
	CHECK(model_pool_fails(&c, 6));
	CHECK(model_pool_fails(&c, 4 + INT64_C(10000000000)));
	CHECK(!model_pool_fails(&c, 5 + INT64_C(10000000000)));
}

int main(void)
{
	arrays();
	same_name();
	failing();
	TEST_END();
}
