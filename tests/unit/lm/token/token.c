/* token.c - ids are those of the definition, texts come back, what is malformed is refused.
 * Vocabularies are invented or learned here. (long because every kind of tokenizer is tried in
 * every format) */
#include "common/lm/token/token.h"

#include <stdlib.h>
#include <string.h>

#include "common/lm/token/inside.h"
#include "common/lm/token/pre.h"
#include "common/lm/token/train.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "tests/unit/test.h"

/* An alphabet of a few letters, two merges and special tokens, in Hugging Face's format. */
#define HEAD "{\"added_tokens\":["
#define TAIL(normalizer, pre, model)                             \
	"],\"normalizer\":" normalizer ",\"pre_tokenizer\":" pre \
	",\"model\":{\"type\":\"BPE\"," model "}}"
#define BYTE_LEVEL \
	"{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}"
#define SMALL                                                                             \
	"\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"\xc4\xa0\":3,\"ab\":4,\"abc\":5,\"\xc4\xa0" \
	"ab\":6},\"merges\":[\"a b\",[\"ab\",\"c\"],\"\xc4\xa0 ab\"]"

static struct lm_token *json_of(const char *text)
{
	struct lm_token *t = NULL;

	CHECK(lm_token_read_json(&t, text, strlen(text), NULL, 0, "t") == 0);
	return t;
}

static const char *ids_of(const struct lm_token *t, const char *text, size_t bytes,
	bool special)
{
	static struct buf shown = BUF_INIT;
	struct buf ids = BUF_INIT;

	buf_reset(&shown);
	CHECK(lm_token_encode(t, &ids, text, bytes, special) == 0);
	for (size_t i = 0; i < ids.len; i += 4) {
		uint32_t id;

		memcpy(&id, ids.data + i, 4);
		buf_addf(&shown, i ? " %u" : "%u", id);
	}
	buf_release(&ids);
	return buf_text(&shown);
}

#define CHECK_IDS(want, t, text) CHECK_TEXT(want, ids_of(t, text, strlen(text), false))

static void check_merges(void)
{
	struct lm_token *t = json_of(HEAD TAIL("null", BYTE_LEVEL, SMALL));

	CHECK_IDS("5", t, "abc");
	CHECK_IDS("6", t, " ab");
	CHECK_IDS("5 3 3 5", t,
		"abc  abc"); /* " ab" ranks after "abc": here the blank stays alone */
	CHECK_IDS("4 4 0", t, "ababa");
	CHECK_IDS("", t, "");
	CHECK_IDS("0 1", t, "axb"); /* no token for x: left out */
	lm_token_close(t);
}

/* As Hugging Face's tokenizers read it, the last of two equal merges counts; what is written from
 * it has one of them, so that it counts wherever it is read. */
static void check_repeated_merges(void)
{
	struct lm_token *t = json_of(HEAD TAIL("null", BYTE_LEVEL,
		"\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"bc\":4},"
		"\"merges\":[\"a b\",\"b c\",[\"a\",\"b\"]]"));
	struct lm_token_about about;
	struct buf merge = BUF_INIT;

	CHECK_IDS("0 4", t, "abc");
	lm_token_describe(t, &about);
	CHECK_I64(2, about.merges);
	lm_token_merge(t, 1, &merge);
	CHECK_TEXT("a b", buf_text(&merge));
	buf_release(&merge);
	lm_token_close(t);
}

/* A stranger's text is read no further than it is worth. */
static void check_most(void)
{
	struct lm_token *t = json_of(HEAD TAIL("null", BYTE_LEVEL, SMALL));
	size_t n = LM_TOKEN_WORD_MAX + 1;
	char *word = xmalloc(n);
	struct buf ids = BUF_INIT;

	memset(word, 'a', n);
	CHECK_I64(0, lm_token_encode_most(t, &ids, "abc  abc", 8, false, NULL, 4));
	CHECK_I64(4 * 4, (int64_t)ids.len);
	CHECK_I64(1, lm_token_encode_most(t, &ids, "a", 1, false, NULL, 4));
	buf_reset(&ids);
	CHECK_I64(1, lm_token_encode_most(t, &ids, "abc  abc", 8, false, NULL, 3));
	buf_reset(&ids);
	/* without a merge: no token has more than four bytes */
	CHECK_I64(1, lm_token_encode_most(t, &ids, word, 1000, false, NULL, 99));
	CHECK_I64(0, (int64_t)ids.len);
	CHECK_FAILS(EX_DATAERR, lm_token_encode_most(t, &ids, word, n, false, NULL, n));
	CHECK_I64(0, lm_token_encode_most(t, &ids, word, n - 1, false, NULL, n));
	buf_release(&ids);
	free(word);
	lm_token_close(t);
}

static void check_ignore_merges(void)
{
	struct lm_token *t = json_of(HEAD TAIL("null", BYTE_LEVEL,
		"\"ignore_merges\":true,\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"ba\":3,\"bab\":4},"
		"\"merges\":[\"a b\",\"b a\"]"));

	CHECK_IDS("4", t, "bab"); /* no merge gives it */
	CHECK_IDS("1 2 2", t, "babab");
	lm_token_close(t);
}

static void check_special(void)
{
	struct lm_token *t = json_of(HEAD
		"{\"id\":7,\"content\":\"<x>\",\"special\":true},"
		"{\"id\":8,\"content\":\"<x>>\",\"special\":true,\"rstrip\":true},"
		"{\"id\":9,\"content\":\"cab\",\"special\":false,\"lstrip\":true}" TAIL(
			"null", BYTE_LEVEL, SMALL));
	const char *text = "a<x>b<x>> \n b";
	struct buf out = BUF_INIT;

	CHECK_TEXT("0 7 1 8 1", ids_of(t, text, strlen(text), true));
	CHECK_TEXT("0 1 3 3 1", ids_of(t, text, strlen(text), false));
	CHECK_IDS("0 9 1", t, "a  cabb");
	CHECK(lm_token_piece(t, &out, 7, false, false) == 0 && out.len == 0);
	CHECK(lm_token_piece(t, &out, 7, false, true) == 0);
	CHECK(lm_token_piece(t, &out, 9, false, false) == 0);
	CHECK_TEXT("<x>cab", buf_text(&out));
	CHECK_FAILS(EX_DATAERR, lm_token_piece(t, &out, 10, false, false));
	CHECK_I64(7, lm_token_find(t, "<x>", 3));
	CHECK_I64(-1, lm_token_find(t, "<y>", 3));
	buf_release(&out);
	lm_token_close(t);
}

/* Tokens around a gap have their usual names, and are special; only then something else ends what
 * is filled in. */
static void check_fill(void)
{
#define ADDED(id, text, special) \
	"{\"id\":" #id ",\"content\":\"" text "\",\"special\":" special "}"
	struct lm_token *t = json_of(
		HEAD ADDED(7, "<fim_middle>", "true") "," ADDED(8, "<fim_prefix>",
			"true") "," ADDED(9, "<fim_suffix>", "false") "," ADDED(10,
			"<fim_pad>", "true") TAIL("null", BYTE_LEVEL, SMALL));
	struct lm_token_fill f;

	CHECK(lm_token_fill(t, &f));
	CHECK_I64(8, f.prefix);
	CHECK_I64(9, f.suffix);
	CHECK_I64(7, f.middle);
	CHECK(lm_token_ends(t, 10) && !lm_token_ends(t, 7));
	lm_token_close(t);
	t = json_of(HEAD ADDED(7, "<fim_middle>", "true") "," ADDED(8, "<fim_prefix>",
		"true") "," ADDED(9, "<fim_pad>", "true")
			TAIL("null", BYTE_LEVEL, SMALL));
	CHECK(!lm_token_fill(t, &f) && !lm_token_ends(t, 9));
	lm_token_close(t);
#undef ADDED
}

/* Llama 2's way: a normaliser makes blanks U+2581 and puts one before a text. more: of the model;
 * added: further tokens. */
#define LLAMA2(added, more)                                                                             \
	HEAD "{\"id\":0,\"content\":\"<unk>\",\"special\":true}" added TAIL(                            \
		"{\"type\":\"Sequence\",\"normalizers\":["                                              \
		"{\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"},"                                  \
		"{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\xe2\x96\x81\"}]}", \
		"null",                                                                                 \
		"\"unk_token\":\"<unk>\"," more                                                         \
		"\"vocab\":{\"<unk>\":0,\"\xe2\x96\x81\":1,\"a\":2,"                                    \
		"\"\xe2\x96\x81"                                                                        \
		"a\":3,\"<0xC3>\":4,\"<0xA4>\":5,\"\\n\":6},\"merges\":[\"\xe2\x96\x81 a\"]")

static void check_byte_fallback(void)
{
	static const char umlaut[] = "\xc3\xa4"
				     "a";
	struct lm_token *t = json_of(
		LLAMA2("", "\"byte_fallback\":true,\"fuse_unk\":true,"));

	CHECK_IDS("3 3 1 3", t, "a a  a");
	CHECK_IDS("1 4 5 2", t, umlaut);
	CHECK_IDS("1 0 2", t, "xyza"); /* three unknown ones in a row are one token */
	CHECK_IDS("3 6 2", t, "a\na");
	CHECK_IDS("", t, "");
	lm_token_close(t);
	t = json_of(LLAMA2("", "")); /* without the words both are off */
	CHECK_IDS("1 0 2", t, umlaut);
	CHECK_IDS("1 0 0 0 2", t, "xyza");
	lm_token_close(t);
}

/* What stands beside a name decides whether it is the token, and what the token takes with it. */
static void check_flags(void)
{
#define WORD(more)                                                 \
	HEAD "{\"id\":7,\"content\":\"ba\",\"special\":false" more \
	     "}" TAIL("null", BYTE_LEVEL, SMALL)
	struct lm_token *t = json_of(WORD(",\"single_word\":true"));

	CHECK_IDS("7", t, "ba");
	CHECK_IDS("1 0 2", t, "bac"); /* within a word it is none */
	CHECK_IDS("7 3 7", t, "ba ba");
	CHECK_IDS("4 1 0 7", t, "abba-ba");
	CHECK_IDS("1 0", t, "ba_");
	CHECK_IDS("1 0", t,
		"\xc3\xa9"
		"ba");
	CHECK_IDS("7", t,
		"\xe2\x80\x94"
		"ba\xe2\x80\x94");
	lm_token_close(t);
	/* the property White_Space; four of the blanks are tokens where they are not stripped */
	t = json_of(WORD(",\"lstrip\":true,\"rstrip\":true"));
	CHECK_IDS("0 7 1", t,
		"a \xc2\xa0\xe3\x80\x80 \t"
		"ba \xe2\x80\x83 \xe2\x80\xaf\n"
		"b");
	lm_token_close(t);
#define MARK ",{\"id\":7,\"content\":\"<m>\",\"special\":true"
	t = json_of(LLAMA2(MARK ",\"normalized\":true}", ""));
	CHECK_TEXT("7", ids_of(t, "<m>", 3, true));
	CHECK_TEXT("3 7 3", ids_of(t, "a <m> a", 7, true));
	CHECK_TEXT("3 7 2", ids_of(t, "a <m>a", 6, true));
	CHECK_TEXT("3 0 0 0", ids_of(t, "a<m>", 4, true)); /* no blank: not its name */
	CHECK_TEXT("7 1 7", ids_of(t, "<m>  <m>", 8, true));
	lm_token_close(t);
	t = json_of(LLAMA2(MARK ",\"normalized\":false}", ""));
	CHECK_TEXT("3 1 7 1 3", ids_of(t, "a <m> a", 7, true));
	CHECK_TEXT("3 7", ids_of(t, "a<m>", 4, true));
	lm_token_close(t);
}

/* An embedding model's text ends with a token that its answers do not end with. */
static void check_last(void)
{
	static const char text[] = HEAD
		"{\"id\":7,\"content\":\"<e>\",\"special\":true},{\"id\":8,\"content\":\"<b>\",\"special\":true}],"
		"\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"A\"}},"
		"{\"SpecialToken\":{\"id\":\"<e>\"}}]},\"unused\":[" TAIL("null",
			BYTE_LEVEL, SMALL);
	static const char config[] = "{\"eos_token\":\"<b>\"}";
	struct buf json = BUF_INIT, told = BUF_INIT;
	struct lm_token *t = NULL, *again = NULL;

	CHECK(lm_token_read_json(&t, text, strlen(text), config, strlen(config), "t") ==
		0);
	CHECK_I64(7, lm_token_last(t));
	CHECK_I64(8, lm_token_eos(t));
	CHECK(lm_token_write_json(t, &json) == 0);
	lm_token_write_config(t, &told);
	CHECK(lm_token_read_json(&again, json.data, json.len, told.data, told.len, "j") ==
		0);
	CHECK_I64(7, lm_token_last(again));
	CHECK_I64(8, lm_token_eos(again));
	lm_token_close(t);
	lm_token_close(again);
	t = json_of(HEAD TAIL("null", BYTE_LEVEL, SMALL));
	CHECK_I64(-1, lm_token_last(t));
	lm_token_close(t);
	buf_release(&json);
	buf_release(&told);
}

/* Added tokens beyond the model's rows are text; another token there is no such model's. */
static void check_rows(void)
{
	static const char added[] = HEAD
		"{\"id\":7,\"content\":\"<x>\",\"special\":true}" TAIL("null", BYTE_LEVEL,
			SMALL);
	struct lm_token *t = NULL;

	CHECK(token_read_json(&t, added, strlen(added), NULL, 0, 7, "t") == 0);
	CHECK_I64(7, lm_token_count(t));
	CHECK_TEXT("", ids_of(t, "<x>", 3, true));
	lm_token_close(t);
	CHECK(token_read_json(&t, added, strlen(added), NULL, 0, 6, "t") == 0);
	CHECK_I64(8, lm_token_count(t));
	lm_token_close(t);
}

static void put_piece(struct buf *out, float score, const char *text)
{
	int32_t n = (int32_t)strlen(text);

	buf_add(out, &score, 4);
	buf_add(out, &n, 4);
	buf_add(out, text, (size_t)n);
}

static void check_bin(void)
{
	static const char *const pieces[] = { "<unk>", "\n<s>\n", "\n</s>\n", "<0x0A>",
		"<0x78>", " ", "a", "b", " a", "ab", " ab" };
	struct buf file = BUF_INIT, out = BUF_INIT, json = BUF_INIT;
	struct lm_token *t = NULL, *again = NULL;
	struct lm_detoken d;
	int32_t longest = 7;

	buf_add(&file, &longest, 4);
	for (int i = 0; i < 11; i++)
		put_piece(&file, i == 10 ? 5 : i == 8 ? 1 : i == 9 ? 2 : -1, pieces[i]);
	CHECK(lm_token_read_bin(&t, file.data, file.len, 11, "t") == 0);
	CHECK_I64(1, lm_token_bos(t));
	/* "ab" has the better score, then " ab" */
	CHECK_IDS("10 10 7 3 4", t, "ab abb\nx");
	lm_detoken_init(&d, t);
	for (uint32_t i = 0; i < 5; i++)
		CHECK(lm_detoken_push(&d, &out,
			      ((const uint32_t[]){ 1, 10, 10, 3, 4 })[i]) == 0);
	CHECK_TEXT("ab ab\nx", buf_text(&out));

	CHECK(lm_token_write_json(t, &json) == 0);
	CHECK(lm_token_read_json(&again, json.data, json.len, NULL, 0, "j") == 0);
	CHECK_IDS("10 10 7 3 4", again, "ab abb\nx");
	lm_token_close(again);
	lm_token_close(t);

	/* a model may have more rows, not fewer */
	CHECK(lm_token_read_bin(&t, file.data, file.len, 12, "t") == 0);
	CHECK_I64(11, lm_token_count(t));
	lm_token_close(t);
	CHECK_FAILS(EX_DATAERR, lm_token_read_bin(&t, file.data, file.len, 10, "t"));
	for (size_t n = 0; n < file.len; n++) {
		int rc = lm_token_read_bin(&t, file.data, n, 0, "t");

		CHECK(rc < 0 ? err_get()->code == EX_DATAERR : lm_token_count(t) < 11);
		lm_token_close(rc < 0 ? NULL : t);
		err_clear();
	}
	buf_release(&file);
	buf_release(&out);
	buf_release(&json);
}

static void check_refused(void)
{
	static const char *const bad[] = {
		"[]",
		"{}",
		HEAD TAIL("null", BYTE_LEVEL, "\"vocab\":{\"a\":0}"),
		HEAD TAIL("null", BYTE_LEVEL, "\"vocab\":{},\"merges\":[]"),
		HEAD TAIL("null", BYTE_LEVEL,
			"\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]"),
		HEAD TAIL("null", BYTE_LEVEL, "\"vocab\":{\"a\":-1},\"merges\":[]"),
		HEAD TAIL("null", BYTE_LEVEL,
			"\"vocab\":{\"a\":4000000000},\"merges\":[]"),
		HEAD TAIL("null", BYTE_LEVEL, "\"vocab\":{\"a\":0.5},\"merges\":[]"),
		HEAD TAIL("null", BYTE_LEVEL, "\"vocab\":{\"a\":0},\"merges\":[\"a x\"]"),
		HEAD TAIL("null", BYTE_LEVEL, "\"vocab\":{\"a\":0},\"merges\":[\"a\"]"),
		HEAD TAIL("null", BYTE_LEVEL, "\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]"),
		HEAD TAIL("{\"type\":\"Lowercase\"}", BYTE_LEVEL, SMALL),
		HEAD TAIL("null", "{\"type\":\"Whitespace\"}", SMALL),
		HEAD TAIL("null",
			"{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":\"Isolated\"}",
			SMALL),
		HEAD TAIL("null",
			"{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a&&b]\"},\"behavior\":\"Isolated\"}",
			SMALL),
		HEAD "{\"id\":0,\"content\":\"z\"}" TAIL("null", BYTE_LEVEL, SMALL),
		HEAD "{\"id\":7}" TAIL("null", BYTE_LEVEL, SMALL),
		HEAD "{\"id\":9,\"content\":\"a\",\"special\":true}" TAIL("null",
			BYTE_LEVEL, SMALL),
	};
	struct lm_token *t;
	struct pre p;
	struct pre_habits habits;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_FAILS(EX_DATAERR,
			lm_token_read_json(&t, bad[i], strlen(bad[i]), NULL, 0, "bad"));
	CHECK_FAILS(EX_DATAERR, pre_by_name(&p, "no-such-pre", &habits));
	CHECK_FAILS(EX_DATAERR, pre_by_name(&p, "", &habits));
	CHECK_FAILS(EX_DATAERR, pre_by_name(&p, "gpt-2|phi-2", &habits));
	CHECK_FAILS(EX_NOINPUT, lm_token_open(&t, "tests/none/tokenizer.json", 0));
}

/* A stranger's pattern that backtracks without end is stopped. */
static void check_slow_pattern(void)
{
	struct lm_token *t = json_of(HEAD TAIL("null",
		"{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a|aa)+[!?]\"},"
		"\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\",\"use_regex\":false,\"add_prefix_space\":false}]}",
		SMALL));
	struct buf ids = BUF_INIT;
	char text[4000];

	memset(text, 'a', sizeof text);
	CHECK_FAILS(EX_DATAERR, lm_token_encode(t, &ids, text, sizeof text, false));
	buf_release(&ids);
	lm_token_close(t);
}

/* --- random texts ------------------------------------------------------------------------- */

static void random_text(struct buf *out, struct rng *r, size_t parts)
{
	static const char *const some[] = { "a", "the", "The", " ", "  ", "\n", "\r\n",
		"\t", "1", "2024", "'s", "'LL", "!", "...", "\xc3\xa9",
		"\xd0\xb6\xd0\xb6", "\xe4\xb8\xad", "\xf0\x9f\x98\x80", "\xc2\xa0",
		"\xe2\x80\x89", "\xff", "\xe4\xb8", "\xcc\x81", "~", "_x", "\xd9\xa3",
		"<|endoftext|>", "\xe3\x80\x80", "&", "A", "bC", "\xef\xbc\x81", "-" };

	buf_reset(out);
	for (size_t i = 0; i < parts; i++)
		buf_adds(out, some[rng_below(r, sizeof some / sizeof *some)]);
}

static int join(void *ctx, const char *s, size_t n)
{
	struct buf *out = ctx;

	CHECK(n > 0);
	buf_add(out, s, n);
	return 0;
}

/* One that takes many steps on every byte, but never too many for one match, is stopped, too: a
 * budget of the whole text. */
static void check_slow_text(void)
{
	static const char pattern[] = "(?:a|aa){1,14}!|a";
	struct pre p = { 0 };
	struct pre_run run;
	struct buf joined = BUF_INIT;
	char text[4000];

	memset(text, 'a', sizeof text);
	CHECK(pre_run_init(&run) == 0);
	CHECK(pre_add(&p, pattern, strlen(pattern), PRE_ISOLATED, "t") == 0);
	CHECK_FAILS(EX_DATAERR, pre_split(&p, &run, text, sizeof text, join, &joined));
	/* the budget is each text's own: a short one, which takes fewer steps, is cut after it */
	for (int i = 0; i < 50; i++) {
		buf_reset(&joined);
		CHECK(pre_split(&p, &run, text, 10, join, &joined) == 0);
		CHECK_I64(10, (int64_t)joined.len);
	}
	pre_release(&p);
	pre_run_release(&run);
	buf_release(&joined);
}

/* Runs of one character without end are within the budget of every pre-tokenizer that we know. */
static void check_long_runs(void)
{
	static const char *const runs[] = { " ", "a", "7", "\n", "\r\n", "!",
		"\xe4\xb8\xad", "\xc3\xa9", "\xd9\xa3", " a", "\t", "\xc2\xa0", "'s",
		"A" };
	struct pre_habits habits;
	struct buf text = BUF_INIT, joined = BUF_INIT;
	struct pre_run run;

	CHECK(pre_run_init(&run) == 0);
	for (size_t i = 0; pre_name_at(i); i++) {
		struct pre p = { 0 };

		CHECK(pre_by_name(&p, pre_name_at(i), &habits) == 0);
		for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) {
			buf_reset(&text);
			buf_reset(&joined);
			while (text.len < 12000)
				buf_adds(&text, runs[r]);
			CHECK(pre_split(&p, &run, text.data, text.len, join, &joined) ==
				0);
			CHECK_I64((int64_t)text.len, (int64_t)joined.len);
		}
		pre_release(&p);
	}
	pre_run_release(&run);
	buf_release(&text);
	buf_release(&joined);
}

/* Whatever the pre-tokenizer: its pieces are the text. */
static void check_every_name(void)
{
	struct buf text = BUF_INIT, joined = BUF_INIT;
	struct rng r;
	const char *name;
	size_t names = 0;

	rng_seed(&r, 7, 0);
	for (; (name = pre_name_at(names)); names++) {
		struct pre p;
		struct pre_habits habits;
		struct pre_run run;

		CHECK(pre_by_name(&p, name, &habits) == 0 && pre_run_init(&run) == 0);
		for (int i = 0; i < 40; i++) {
			random_text(&text, &r, 30);
			buf_reset(&joined);
			CHECK(pre_split(&p, &run, text.data, text.len, join, &joined) ==
				0);
			CHECK(text.len == joined.len &&
				memcmp(text.data, joined.data, text.len) == 0);
		}
		pre_run_release(&run);
		pre_release(&p);
	}
	CHECK(names > 80);
	buf_release(&text);
	buf_release(&joined);
}

struct pieces {
	struct buf shown;
};

static int show(void *ctx, const char *s, size_t n)
{
	struct pieces *p = ctx;

	if (p->shown.len)
		buf_addc(&p->shown, '|');
	buf_add(&p->shown, s, n);
	return 0;
}

/* Oniguruma's patterns, by hand from its manual: those that are translated to PCRE2, and those
 * that are refused because they would mean something else. */
static void check_dialect(void)
{
	static const struct {
		const char *pattern, *text, *cut;
	} cases[] = {
		/* a mark, a connector and a letter in a circle are of words, a fraction is not */
		{ "\\w+",
			"e\xcc\x81_\xe2\x80\xbf"
			"\xe2\x93\x90-\xc2\xbd",
			"e\xcc\x81_\xe2\x80\xbf"
			"\xe2\x93\x90|-\xc2\xbd" },
		{ "[\\w-]+", "a-b c", "a-b| |c" },
		{ "\\W+", "ab, c", "ab|, |c" },
		{ "\\d{1,3}(?=(?:\\d{3})*\\b)", "1234567\xcc\x81 1234",
			"1234567\xcc\x81 |1|234" },
		{ "a\\B", "ab a", "a|b a" },
		{ " ?[^(\\s|[.,!?])]+", "one, two.", "one|,| two|." },
		{ "[a[b[c]]d]+", "xabcdx", "x|abcd|x" },
		{ "[\\]\\[]+", "a[]b", "a|[]|b" },
		{ "\\v", "a\nb\vc", "a\nb|\v|c" },
		{ "[\\b]", "a\bb", "a|\b|b" },
		/* U+3001 has Han among its scripts' extensions */
		{ "\\p{Han}+", "\xe4\xb8\xad\xe3\x80\x81x",
			"\xe4\xb8\xad|\xe3\x80\x81x" },
		{ "\\p{^Han}+", "\xe4\xb8\xad\xe3\x80\x81x",
			"\xe4\xb8\xad|\xe3\x80\x81x" },
		{ "(?i)a|b", "xAB", "x|A|B" },
		{ "\\x{41}+", "xAAB", "x|AA|B" },
		{ "x{2}+|\\u0041", "", NULL },
		{ "a{,2}", "", NULL },
		{ "a{2}?", "", NULL },
		{ "(?m:.)", "", NULL },
		{ "a(?i)b|c", "", NULL },
		{ "(*UTF)a", "", NULL },
		{ "(?<n>a)", "", NULL },
		{ "[a[^b]]", "", NULL },
		{ "[a-[b]]", "", NULL },
		{ "[a[-b]]", "", NULL },
		{ "[[a]-b]", "", NULL },
		{ "[[b-]c]", "", NULL },
		{ "[[:alpha:]]", "", NULL },
		{ "[]a]", "", NULL },
		{ "[^]a]", "", NULL },
		{ "[a&&b]", "", NULL },
		{ "[\\W]", "", NULL },
		{ "\\h", "", NULL },
		{ "\\N", "", NULL },
		{ "\\X", "", NULL },
		{ "\\Qa\\E", "", NULL },
		{ "(a)\\1", "", NULL },
		{ "\\pL", "", NULL },
		{ "\\p{L", "", NULL },
		{ "\\p{Letter}", "", NULL },
		{ "a\\", "", NULL },
		{ "\\u00", "", NULL },
	};
	struct pre_run run;

	CHECK(pre_run_init(&run) == 0);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *pattern = cases[i].pattern;
		struct pieces pieces = { BUF_INIT };
		struct pre p = { 0 };

		if (cases[i].cut) {
			CHECK(pre_add(&p, pattern, strlen(pattern), PRE_ISOLATED, "t") ==
				0);
			CHECK(pre_split(&p, &run, cases[i].text, strlen(cases[i].text),
				      show, &pieces) == 0);
			CHECK_TEXT(cases[i].cut, buf_text(&pieces.shown));
		} else {
			CHECK_FAILS(EX_DATAERR,
				pre_add(&p, pattern, strlen(pattern), PRE_ISOLATED, "t"));
		}
		buf_release(&pieces.shown);
		pre_release(&p);
	}
	pre_run_release(&run);
}

/* How some of them cut, by hand from their patterns. */
static void check_cuts(void)
{
	static const struct {
		const char *name, *text, *cut;
	} cases[] = {
		{ "gpt-2", "I've  12345 x\n\ny", "I|'ve| | 12345| x|\n|\n|y" },
		{ "llama-bpe", "I'VE  12345 x\n\ny", "I|'VE| | |123|45| x|\n\n|y" },
		{ "qwen2", "a12.\n b", "a|1|2|.\n| b" },
		{ "starcoder", "a12 3", "a|1|2| |3" },
		{ "falcon", "a12345!b", "a|123|45|!|b" },
		{ "deepseek-llm", "a\nb 12   ", "a|\n|b| |12|   " },
		{ "deepseek-coder", "ab \xe4\xb8\xad!12", "ab| |\xe4\xb8\xad|!|1|2" },
		{ "deepseek-v3", "ab~!1234", "ab|~!|123|4" },
		{ "deepseek-v3", "a~~bc~d", "a|~~|bc|~d" },
		{ "bloom", "a, b.c", "a|,| b|.|c" },
		{ "gpt-4o", "HelloWorld's 1234/\n", "Hello|World's| |123|4|/\n" },
		{ "tekken", "aBc 12", "a|Bc| |1|2" },
		{ "superbpe", "x1234567", "x|1|234|567" },
		{ "tiny_aya", "a 1234567 1234x", "a| |1|234|567| |1|234|x" },
		{ "afmoe", "12345", "12|345" },
		/* U+A6F4, a stop beyond the scripts that are meant, but not beyond the ranges that
		 * are listed */
		{ "afmoe", "\xea\x9b\xb4're", "\xea\x9b\xb4|'re" },
		{ "kimi-k2",
			"ab\xe4\xb8\xad"
			"c",
			"ab|\xe4\xb8\xad|c" },
		{ "qwen35",
			"e\xcc\x81"
			"a",
			"e\xcc\x81"
			"a" },
		{ "default", "a1234 b", "a|123|4| b" },
		{ "gemma4", "a b\n\nc", "a b|\n\n|c" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct pre p;
		struct pre_habits habits;
		struct pre_run run;
		struct pieces got = { BUF_INIT };

		CHECK(pre_by_name(&p, cases[i].name, &habits) == 0 &&
			pre_run_init(&run) == 0);
		CHECK(pre_split(&p, &run, cases[i].text, strlen(cases[i].text), show,
			      &got) == 0);
		CHECK_TEXT(cases[i].cut, buf_text(&got.shown));
		buf_release(&got.shown);
		pre_run_release(&run);
		pre_release(&p);
	}
}

/* The hand-written scanner divides text as the pattern does. */
static void check_by_hand(const char *name, unsigned step)
{
	struct buf text = BUF_INIT;
	struct pre p;
	struct pre_habits habits;
	struct pre_run run;
	struct rng r;
	enum pre_ascii hand;

	rng_seed(&r, 5, 0);
	CHECK(pre_by_name(&p, name, &habits) == 0 && pre_run_init(&run) == 0);
	hand = p.steps[step].ascii;
	CHECK(hand != PRE_ASCII_NONE);
	for (int i = 0; i < 4000; i++) {
		struct pieces by_hand = { BUF_INIT }, by_pattern = { BUF_INIT };

		random_text(&text, &r, 1 + rng_below(&r, 20));
		for (int k = 0; k < 4; k++) /* and any character of ASCII */
			text.data[rng_below(&r, text.len)] = (char)(1 +
				rng_below(&r, 127));
		p.steps[step].ascii = hand;
		CHECK(pre_split(&p, &run, text.data, text.len, show, &by_hand) == 0);
		p.steps[step].ascii = PRE_ASCII_NONE;
		CHECK(pre_split(&p, &run, text.data, text.len, show, &by_pattern) == 0);
		CHECK_TEXT(buf_text(&by_pattern.shown), buf_text(&by_hand.shown));
		buf_release(&by_hand.shown);
		buf_release(&by_pattern.shown);
	}
	pre_run_release(&run);
	pre_release(&p);
	buf_release(&text);
}

/* --- learned tokenizers ------------------------------------------------------------------- */

static struct lm_token *learned(const char *pre, uint32_t vocab, const char *text,
	size_t bytes)
{
	struct lm_trainer *r;
	struct lm_token *t = NULL;

	CHECK(lm_trainer_new(&r, pre) == 0);
	CHECK(lm_trainer_add(r, text, bytes) == 0);
	CHECK(lm_trainer_learn(r, vocab, &t, NULL, NULL) == 0);
	lm_trainer_free(r);
	return t;
}

static void check_learned(void)
{
	/* "aab" three times: "aa" and "ab" are met equally often and a < b, so "aa" is first */
	struct lm_token *t = learned("gpt-2", 260, "aab aab aab", 11);
	struct buf merges = BUF_INIT;
	struct lm_token_about about;

	lm_token_describe(t, &about);
	CHECK_I64(260, about.count);
	CHECK_I64(3, about.merges);
	for (uint32_t i = 0; i < about.merges; i++) {
		lm_token_merge(t, i, &merges);
		buf_addc(&merges, ';');
	}
	CHECK_TEXT("a a;aa b;\xc4\xa0 aab;", buf_text(&merges));
	CHECK_TEXT("gpt-2", about.pre);
	CHECK_I64(259, about.eos);
	CHECK(lm_token_ends(t, 259) && !lm_token_ends(t, 258));
	lm_token_close(t);

	buf_reset(&merges);
	t = learned("gpt-2", 256, "aab", 3);
	CHECK_I64(256, lm_token_count(t));
	CHECK_I64(-1, lm_token_eos(t));
	lm_token_close(t);
	t = learned("gpt-2", 5000, "aab", 3); /* no more than the text gives */
	CHECK_I64(259, lm_token_count(t));
	lm_token_close(t);
	buf_release(&merges);
}

/* The definition of BPE: of all neighbours the merge of the lowest rank, leftmost first, until
 * there is none. */
static void naive(const struct lm_token *t, const char *word, size_t n, struct buf *out)
{
	struct lm_token_about about;
	struct buf pair = BUF_INIT, merge = BUF_INIT, *s = xcalloc(n, sizeof *s);

	lm_token_describe(t, &about);
	for (size_t i = 0; i < n; i++) /* spelled by what a token of one byte is called */
		for (uint32_t id = 0; id < 256; id++) {
			struct buf raw = BUF_INIT;
			size_t bytes;

			lm_token_piece(t, &raw, id, false, true);
			if (raw.len == 1 && raw.data[0] == word[i]) {
				const char *text = lm_token_text(t, id, &bytes);

				buf_add(&s[i], text, bytes);
			}
			buf_release(&raw);
		}
	for (uint32_t rank = 0; rank < about.merges; rank++) {
		buf_reset(&merge);
		lm_token_merge(t, rank, &merge);
		for (size_t i = 0; i + 1 < n;) {
			buf_reset(&pair);
			buf_addf(&pair, "%s %s", s[i].data, s[i + 1].data);
			if (strcmp(pair.data, merge.data) != 0) {
				i++;
				continue;
			}
			buf_adds(&s[i], s[i + 1].data);
			buf_release(&s[i + 1]);
			memmove(s + i + 1, s + i + 2, (n - i - 2) * sizeof *s);
			n--;
			i++;
		}
	}
	for (size_t i = 0; i < n; i++) {
		uint32_t id = (uint32_t)lm_token_find(t, s[i].data, s[i].len);

		buf_add(out, &id, 4);
		buf_release(&s[i]);
	}
	free(s);
	buf_release(&pair);
	buf_release(&merge);
}

struct reference {
	const struct lm_token *t;
	struct buf ids;
};

static int naive_word(void *ctx, const char *s, size_t n)
{
	struct reference *r = ctx;

	naive(r->t, s, n, &r->ids);
	return 0;
}

/* Ids as the definition gives them, through all the short cuts; and the text comes back from them,
 * byte for byte where it is UTF-8. */
static void check_against_definition(const char *name)
{
	struct buf text = BUF_INIT, ids = BUF_INIT, back = BUF_INIT;
	struct rng r;
	struct lm_token *t;
	struct pre p;
	struct pre_habits habits;
	struct pre_run run;

	rng_seed(&r, 11, 0);
	random_text(&text, &r, 5000);
	t = learned(name, 600, text.data, text.len);
	CHECK(pre_by_name(&p, name, &habits) == 0 && pre_run_init(&run) == 0);
	for (int i = 0; i < 60; i++) {
		struct reference ref = { t, BUF_INIT };

		random_text(&text, &r, 1 + rng_below(&r, 60));
		if (i % 10 ==
			0) /* words beyond those that are merged by looking through all */
			for (int k = 0; k < 90; k++)
				buf_adds(&text, k % 3 ? "the" : "a");
		buf_reset(&ids);
		CHECK(lm_token_encode(t, &ids, text.data, text.len, false) == 0);
		if (!habits.ignore_merges) {
			CHECK(pre_split(&p, &run, text.data, text.len, naive_word,
				      &ref) == 0);
			CHECK(ids.len == ref.ids.len &&
				memcmp(ids.data, ref.ids.data, ids.len) == 0);
		}
		buf_release(&ref.ids);
		buf_reset(&back);
		for (size_t k = 0; k < ids.len; k += 4) {
			uint32_t id;

			memcpy(&id, ids.data + k, 4);
			CHECK(lm_token_piece(t, &back, id, k == 0, false) == 0);
		}
		CHECK(back.len == text.len &&
			memcmp(back.data, text.data, back.len) == 0);
	}
	pre_run_release(&run);
	pre_release(&p);
	lm_token_close(t);
	buf_release(&text);
	buf_release(&ids);
	buf_release(&back);
}

/* Written and read again it is the same; on several cores, too. */
static void check_written(const char *name)
{
	struct buf text = BUF_INIT, json = BUF_INIT, config = BUF_INIT, a = BUF_INIT,
		   b = BUF_INIT;
	struct lm_token *t, *again = NULL;
	unsigned char x[32], y[32];
	struct rng r;

	rng_seed(&r, 3, 0);
	random_text(&text, &r, 5000);
	t = learned(name, 500, text.data, text.len);
	CHECK(lm_token_write_json(t, &json) == 0);
	lm_token_write_config(t, &config);
	CHECK(lm_token_read_json(&again, json.data, json.len, config.data, config.len,
		      "j") == 0);
	lm_token_fingerprint(t, x);
	lm_token_fingerprint(again, y);
	CHECK(memcmp(x, y, 32) == 0);
	random_text(&text, &r, 1500000); /* some 4 MB */
	CHECK(lm_token_encode(t, &a, text.data, text.len, false) == 0);
	for (size_t at = 0, end; at < text.len; at = end) {
		end = lm_token_cut(again, text.data, text.len, at + (1 << 20));
		CHECK(lm_token_encode_piece(again, &b, text.data + at, end - at, false,
			      at == 0) == 0);
	}
	CHECK(a.len == b.len && memcmp(a.data, b.data, a.len) == 0);
	lm_token_close(t);
	lm_token_close(again);
	buf_release(&text);
	buf_release(&json);
	buf_release(&config);
	buf_release(&a);
	buf_release(&b);
}

/* A word of a megabyte takes no longer than a megabyte of words would, by far less than quadratic
 * time. */
static void check_long_word(void)
{
	struct buf ids = BUF_INIT, text = BUF_INIT;
	struct lm_token *t = learned("gpt-2", 400, "abababab aaaa abab", 18);

	for (int i = 0; i < 1 << 20; i++)
		buf_addc(&text, i % 3 ? 'a' : 'b');
	CHECK(lm_token_encode(t, &ids, text.data, text.len, false) == 0);
	CHECK(ids.len > 0);
	lm_token_close(t);
	buf_release(&ids);
	buf_release(&text);
}

/* Text comes out in whole characters; what is none is U+FFFD, in Unicode's way of counting. */
static void check_stream(void)
{
	struct lm_token *t = learned("gpt-2", 256, "a", 1);
	static const char bytes[] = "a\xf0\x9f\x98\x80"
				    "b\xe2\x82"
				    "c\xff\xc0\xe2";
	struct lm_detoken d;
	struct buf out = BUF_INIT, ids = BUF_INIT;

	CHECK(lm_token_encode(t, &ids, bytes, sizeof bytes - 1, false) == 0);
	CHECK_I64(sizeof bytes - 1, (int64_t)ids.len / 4);
	lm_detoken_init(&d, t);
	for (size_t i = 0; i < ids.len; i += 4) {
		uint32_t id;

		memcpy(&id, ids.data + i, 4);
		CHECK(lm_detoken_push(&d, &out, id) == 0);
		CHECK(pre_utf8_prefix(buf_text(&out), out.len) == out.len);
	}
	lm_detoken_end(&d, &out);
	CHECK_TEXT("a\xf0\x9f\x98\x80"
		   "b\xef\xbf\xbd"
		   "c\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd",
		buf_text(&out));
	buf_release(&out);
	buf_release(&ids);
	lm_token_close(t);
}

int main(void)
{
	check_merges();
	check_repeated_merges();
	check_most();
	check_ignore_merges();
	check_special();
	check_fill();
	check_byte_fallback();
	check_flags();
	check_last();
	check_rows();
	check_bin();
	check_refused();
	check_slow_pattern();
	check_slow_text();
	check_long_runs();
	check_dialect();
	check_every_name();
	check_cuts();
	check_by_hand("gpt-2", 0);
	check_by_hand("starcoder", 1);
	check_by_hand("llama-bpe", 0);
	check_by_hand("qwen2", 0);
	check_by_hand("minicpm5", 1);
	check_learned();
	check_against_definition("gpt-2");
	check_against_definition("llama-bpe");
	check_against_definition("qwen2");
	check_against_definition("deepseek-v3");
	check_written("gpt-2");
	check_written("llama-bpe");
	check_long_word();
	check_stream();
	TEST_END();
}
