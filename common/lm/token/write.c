/* write.c - writes a tokenizer as Hugging Face's tokenizer.json and
 * tokenizer_config.json. */
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/json/json.h"
#include "common/lm/token/inside.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"

#define GPT2_PATTERN \
	"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

static const char *spelling(const struct lm_token *t, uint32_t id, size_t *bytes)
{
	*bytes = t->pieces[id].bytes;
	return t->pool.data + t->pieces[id].at;
}

/* Appends a JSON string; jansson would keep one object per token. */
static void put_text(struct buf *out, const char *s, size_t n)
{
	buf_addc(out, '"');
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c == '"' || c == '\\')
			buf_addc(out, '\\');
		if (c < 0x20)
			buf_addf(out, "\\u%04x", c);
		else
			buf_addc(out, (char)c);
	}
	buf_addc(out, '"');
}

static void put_flag(struct buf *out, const char *key, bool v)
{
	buf_addf(out, ",\"%s\":%s", key, v ? "true" : "false");
}

/* Checks that JSON, and every reader of it, can represent the texts. */
static int check_texts(const struct lm_token *t)
{
	for (uint32_t id = 0; id < t->known; id++) {
		size_t n;
		const char *s = spelling(t, id, &n);

		if (!utf8_valid(s, n) || memchr(s, '\0', n))
			return err_set(EX_DATAERR,
				"token %u is not UTF-8 without NUL: a tokenizer.json cannot hold it",
				id);
	}
	return 0;
}

static bool is_added(const struct lm_token *t, uint32_t id)
{
	uint8_t type = t->pieces[id].type;

	return type == LM_TOKEN_CONTROL || type == LM_TOKEN_UNKNOWN ||
		type == LM_TOKEN_USER_DEFINED;
}

static void put_added(const struct lm_token *t, struct buf *out)
{
	const char *comma = "";

	buf_adds(out, "\"added_tokens\":[");
	for (uint32_t id = 0; id < t->count; id++) {
		const struct token_piece *p = &t->pieces[id];

		if (!is_added(t, id))
			continue;
		buf_addf(out, "%s\n{\"id\":%u,\"content\":", comma, id);
		put_text(out, t->pool.data + p->at, p->bytes);
		put_flag(out, "single_word", p->single_word);
		put_flag(out, "lstrip", p->lstrip);
		put_flag(out, "rstrip", p->rstrip);
		put_flag(out, "normalized", p->normalized);
		put_flag(out, "special", p->type != LM_TOKEN_USER_DEFINED);
		buf_addc(out, '}');
		comma = ",";
	}
	buf_adds(out, "],\n");
}

/* --- pre-tokenizer ----------------------------------------------------------------------- */

static void put_byte_level(struct buf *out, const struct lm_token *t, bool regex)
{
	buf_addf(out,
		"{\"type\":\"ByteLevel\",\"add_prefix_space\":%s,\"trim_offsets\":true,\"use_regex\":%s}",
		t->prefix != TOKEN_PREFIX_NEVER ? "true" : "false",
		regex ? "true" : "false");
}

static void put_split(struct buf *out, const struct pre_step *step)
{
	static const char *const behavior[] = { [PRE_ISOLATED] = "Isolated",
		[PRE_REMOVED] = "Removed",
		[PRE_WITH_PREVIOUS] = "MergedWithPrevious",
		[PRE_WITH_NEXT] = "MergedWithNext",
		[PRE_MATCHES_ONLY] = "Removed" };

	buf_adds(out, "{\"type\":\"Split\",\"pattern\":{\"Regex\":");
	put_text(out, step->pattern, strlen(step->pattern));
	buf_addf(out, "},\"behavior\":\"%s\"", behavior[step->keep]);
	put_flag(out, "invert", step->keep == PRE_MATCHES_ONLY);
	buf_addc(out, '}');
}

/* Llama 2's normalizer prepends a blank to every section; finer rules need a Metaspace. */
static bool by_metaspace(const struct lm_token *t)
{
	return t->how != TOKEN_BYTES && t->blanks &&
		(t->prefix == TOKEN_PREFIX_FIRST ||
			(t->prefix == TOKEN_PREFIX_EACH && t->prefix_unless_there));
}

static void put_metaspace(struct buf *out, const struct lm_token *t)
{
	buf_addf(out,
		"{\"type\":\"Metaspace\",\"replacement\":\"" TOKEN_BLANK
		"\",\"prepend_scheme\":\"%s\",\"split\":false}",
		t->prefix == TOKEN_PREFIX_FIRST ? "first" : "always");
}

static void put_pre(struct buf *out, const struct lm_token *t)
{
	const struct pre *p = &t->pre;
	unsigned last = p->count;
	bool gpt2 = last && t->how == TOKEN_BYTES &&
		strcmp(p->steps[last - 1].pattern, GPT2_PATTERN) == 0;
	const char *comma = "";

	if (gpt2)
		last--; /* the ByteLevel step does it */
	buf_adds(out, "\"pre_tokenizer\":");
	if (!last && t->how == TOKEN_BYTES) {
		put_byte_level(out, t, gpt2);
	} else if (!last && by_metaspace(t)) {
		put_metaspace(out, t);
	} else if (!last) {
		buf_adds(out, "null");
	} else {
		buf_adds(out, "{\"type\":\"Sequence\",\"pretokenizers\":[");
		if (by_metaspace(t)) {
			put_metaspace(out, t);
			comma = ",";
		}
		for (unsigned i = 0; i < last; i++) {
			buf_adds(out, comma);
			put_split(out, &p->steps[i]);
			comma = ",";
		}
		if (t->how == TOKEN_BYTES) {
			buf_addc(out, ',');
			put_byte_level(out, t, gpt2);
		}
		buf_adds(out, "]}");
	}
	buf_adds(out, ",\n");
}

/* Writes blanks as U+2581, and one before the text if the model expects it. */
static void put_normalizer(struct buf *out, const struct lm_token *t)
{
	buf_adds(out, "\"normalizer\":");
	if (t->how == TOKEN_BYTES || !t->blanks || by_metaspace(t)) {
		buf_adds(out, "null,\n");
		return;
	}
	buf_adds(out, "{\"type\":\"Sequence\",\"normalizers\":[");
	if (t->prefix != TOKEN_PREFIX_NEVER)
		buf_adds(out, "{\"type\":\"Prepend\",\"prepend\":\"" TOKEN_BLANK "\"},");
	buf_adds(out,
		"{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" TOKEN_BLANK
		"\"}]},\n");
}

static void put_decoder(struct buf *out, const struct lm_token *t)
{
	buf_adds(out, "\"decoder\":");
	if (t->how == TOKEN_BYTES) {
		buf_adds(out,
			"{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,\"use_regex\":true},\n");
		return;
	}
	buf_adds(out,
		"{\"type\":\"Sequence\",\"decoders\":["
		"{\"type\":\"Replace\",\"pattern\":{\"String\":\"" TOKEN_BLANK
		"\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}");
	if (t->prefix != TOKEN_PREFIX_NEVER)
		buf_adds(out,
			",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}");
	buf_adds(out, "]},\n");
}

/* --- merges ------------------------------------------------------------------------------ */

struct derived {
	uint32_t left, right;
	float score;
};

static int by_score(const void *a, const void *b)
{
	const struct derived *x = a, *y = b;

	if (x->score != y->score)
		return x->score > y->score ? -1 : 1;
	if (x->left != y->left)
		return x->left < y->left ? -1 : 1;
	return (x->right > y->right) - (x->right < y->right);
}

/* SentencePiece has scores and no merges: every way to join two tokens to a third is a merge,
 * in the order of scores. */
static struct derived *derive(const struct lm_token *t, size_t *count)
{
	struct derived *list = NULL;
	size_t cap = 0;

	*count = 0;
	for (uint32_t id = 0; id < t->count; id++) {
		const struct token_piece *p = &t->pieces[id];
		const char *s = t->pool.data + p->at;

		if (is_added(t, id) || p->type == LM_TOKEN_BYTE)
			continue;
		for (size_t cut = 1; cut < p->bytes; cut++) {
			uint32_t left = token_find(t, s, cut);
			uint32_t right = token_find(t, s + cut, p->bytes - cut);

			if (left >= t->count || right >= t->count || is_added(t, left) ||
				is_added(t, right) ||
				t->pieces[left].type == LM_TOKEN_BYTE ||
				t->pieces[right].type == LM_TOKEN_BYTE)
				continue;
			list = xgrow(list, &cap, *count + 1, sizeof *list);
			list[(*count)++] = (struct derived){ left, right, p->score };
		}
	}
	if (list)
		qsort(list, *count, sizeof *list, by_score);
	return list;
}

static void put_merge(struct buf *out, const struct lm_token *t, size_t i, uint32_t left,
	uint32_t right)
{
	size_t n;
	const char *s = spelling(t, left, &n);

	buf_adds(out, i ? ",\n[" : "\n[");
	put_text(out, s, n);
	buf_addc(out, ',');
	s = spelling(t, right, &n);
	put_text(out, s, n);
	buf_addc(out, ']');
}

static int put_merges(struct buf *out, const struct lm_token *t)
{
	size_t count = 0;
	struct derived *list = t->how == TOKEN_SCORES ? derive(t, &count) : NULL;

	buf_adds(out, "\"merges\":[");
	for (size_t i = 0; i < count; i++)
		put_merge(out, t, i, list[i].left, list[i].right);
	for (size_t i = 0; i < t->merge_count; i++) {
		const struct token_merge *m = token_pair(t, t->merges[i][0],
			t->merges[i][1]);

		if (t->merges[i][0] >= t->count || t->merges[i][1] >= t->count ||
			m->id >= t->count)
			return err_set(EX_DATAERR,
				"merge %zu names a text that is no token: a tokenizer.json cannot hold it",
				i);
		put_merge(out, t, i, t->merges[i][0], t->merges[i][1]);
	}
	buf_adds(out, "]");
	free(list);
	return 0;
}

/* --- the whole --------------------------------------------------------------------------- */

static void put_model(struct buf *out, const struct lm_token *t)
{
	bool fallback = false;
	const char *s;
	size_t n;

	for (unsigned b = 0; t->how != TOKEN_BYTES && b < 256; b++)
		fallback |= t->byte_id[b] < t->count;
	buf_adds(out, "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":");
	if (t->unknown >= 0 && t->how != TOKEN_BYTES) {
		s = spelling(t, (uint32_t)t->unknown, &n);
		put_text(out, s, n);
	} else {
		buf_adds(out, "null");
	}
	buf_adds(out, ",\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null");
	put_flag(out, "fuse_unk", t->how != TOKEN_BYTES && !t->each_unknown);
	put_flag(out, "byte_fallback", fallback);
	put_flag(out, "ignore_merges", t->ignore_merges);
	buf_adds(out, ",\n\"vocab\":{");
	for (uint32_t id = 0; id < t->count; id++) {
		buf_adds(out, id ? ",\n" : "\n");
		s = spelling(t, id, &n);
		put_text(out, s, n);
		buf_addf(out, ":%u", id);
	}
	buf_adds(out, "},\n");
}

/* Appends a special token of a template, with a comma before all but the first part. */
static void put_special(struct buf *out, const struct lm_token *t, int64_t id, int type,
	const char **comma)
{
	const char *s;
	size_t n;

	if (id < 0)
		return;
	s = spelling(t, (uint32_t)id, &n);
	buf_addf(out, "%s{\"SpecialToken\":{\"id\":", *comma);
	put_text(out, s, n);
	buf_addf(out, ",\"type_id\":%d}}", type);
	*comma = ",";
}

/* Appends what a special token of a template stands for. */
static void put_meaning(struct buf *out, const struct lm_token *t, int64_t id,
	const char **comma)
{
	const char *s;
	size_t n;

	if (id < 0)
		return;
	s = spelling(t, (uint32_t)id, &n);
	buf_adds(out, *comma);
	put_text(out, s, n);
	buf_adds(out, ":{\"id\":");
	put_text(out, s, n);
	buf_addf(out, ",\"ids\":[%lld],\"tokens\":[", (long long)id);
	put_text(out, s, n);
	buf_adds(out, "]}");
	*comma = ",";
}

/* What stands before and behind a text, and each of a pair. */
static void put_post_processor(struct buf *out, const struct lm_token *t)
{
	int64_t first = lm_token_adds_bos(t) ? t->bos : -1, last = lm_token_last(t);
	const char *comma = "";

	if (first < 0 && last < 0) {
		buf_adds(out, "\"post_processor\":null,\n");
		return;
	}
	buf_adds(out, "\"post_processor\":{\"type\":\"TemplateProcessing\"");
	for (int pair = 0; pair < 2; pair++) {
		comma = "";
		buf_adds(out, pair ? ",\"pair\":[" : ",\"single\":[");
		for (int i = 0; i <= pair; i++) {
			put_special(out, t, first, i, &comma);
			buf_addf(out, "%s{\"Sequence\":{\"id\":\"%s\",\"type_id\":%d}}",
				comma, i ? "B" : "A", i);
			comma = ",";
			put_special(out, t, last, i, &comma);
		}
		buf_addc(out, ']');
	}
	buf_adds(out, ",\"special_tokens\":{");
	comma = "";
	put_meaning(out, t, first, &comma);
	if (last != first)
		put_meaning(out, t, last, &comma);
	buf_adds(out, "}},\n");
}

int lm_token_write_json(const struct lm_token *t, struct buf *out)
{
	if (check_texts(t) < 0)
		return -1;
	buf_adds(out, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\n");
	put_added(t, out);
	put_normalizer(out, t);
	put_pre(out, t);
	put_post_processor(out, t);
	put_decoder(out, t);
	put_model(out, t);
	if (put_merges(out, t) < 0)
		return -1;
	buf_adds(out, "}}\n");
	return 0;
}

static void put_name(json_t *doc, const char *key, const struct lm_token *t, int64_t id)
{
	size_t n;
	const char *s;
	char *copy;

	if (id < 0)
		return;
	s = spelling(t, (uint32_t)id, &n);
	copy = xstrndup(s, n);
	json_set_text(doc, key, copy);
	free(copy);
}

/* One template is a text, two are a list with names, as transformers writes them. */
static void put_templates(json_t *doc, const struct lm_token *t)
{
	json_t *list;

	if (!t->tool_template) {
		json_set_text(doc, "chat_template", t->chat_template);
		return;
	}
	list = json_array();
	if (t->chat_template)
		json_push(list,
			json_pack("{s:s,s:s}", "name", "default", "template",
				t->chat_template));
	json_push(list,
		json_pack("{s:s,s:s}", "name", "tool_use", "template", t->tool_template));
	json_set(doc, "chat_template", list);
}

void lm_token_write_config(const struct lm_token *t, struct buf *out)
{
	json_t *doc = json_object();

	json_set_text(doc, "tokenizer_class", "PreTrainedTokenizerFast");
	put_name(doc, "bos_token", t, t->bos);
	put_name(doc, "eos_token", t, t->eos);
	if (t->how != TOKEN_BYTES)
		put_name(doc, "unk_token", t, t->unknown);
	put_name(doc, "pad_token", t, t->pad);
	json_set_bool(doc, "add_bos_token", t->adds_bos);
	json_set_bool(doc, "add_eos_token", t->adds_eos);
	json_set_bool(doc, "clean_up_tokenization_spaces", false);
	put_templates(doc, t);
	json_write(out, doc);
	buf_addc(out, '\n');
	json_decref(doc);
}
