/* json.c - Hugging Face's tokenizer.json with a BPE model: byte-level, or by characters
 * with byte fall-back as in Llama 2. NFC is not applied, as in llama.cpp; anything else that
 * would change the ids is refused by name. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/json/json.h"
#include "common/lm/token/inside.h"
#include "common/base/mem.h"

#define DEPTH_MAX 32
#define GPT2_PATTERN \
	"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

struct reader {
	uint32_t rows; /* of the model; 0: not known */
	const char *where;
	struct lm_token *t;
	struct pre pre;
	bool byte_level;
};

static bool is(const json_t *obj, const char *key, const char *text)
{
	const char *v = json_string_value(json_object_get(obj, key));

	return v && strcmp(v, text) == 0;
}

static bool flag(const json_t *obj, const char *key, bool otherwise)
{
	const json_t *v = json_object_get(obj, key);

	return json_is_boolean(v) ? json_is_true(v) : otherwise;
}

static const char *type_of(const json_t *obj)
{
	const char *type = json_string_value(json_object_get(obj, "type"));

	return type ? type : "";
}

static int unsupported(const struct reader *r, const char *what, const json_t *obj)
{
	return err_set(EX_DATAERR, "%s: %s '%.40s' is not supported", r->where, what,
		type_of(obj));
}

/* Calls fn for obj, or for each part of it when it is a "Sequence". null means nothing to do. */
static int each(struct reader *r, const json_t *obj, const char *parts, int depth,
	int (*fn)(struct reader *, const json_t *))
{
	const json_t *list = json_object_get(obj, parts), *one;
	size_t i;

	if (!obj || json_is_null(obj))
		return 0;
	if (!is(obj, "type", "Sequence"))
		return fn(r, obj);
	if (!json_is_array(list) || depth > 4)
		return err_set(EX_DATAERR, "%s: a Sequence without '%s'", r->where,
			parts);
	json_array_foreach(list, i, one)
		if (each(r, one, parts, depth + 1, fn) < 0)
			return -1;
	return 0;
}

/* --- normalizer -------------------------------------------------------------------------- */

static int normalizer(struct reader *r, const json_t *obj)
{
	struct lm_token *t = r->t;

	if (is(obj, "type", "NFC"))
		return 0;
	if (is(obj, "type", "Prepend") && is(obj, "prepend", TOKEN_BLANK)) {
		t->prefix = TOKEN_PREFIX_EACH;
		t->prepends = true;
		return 0;
	}
	if (is(obj, "type", "Replace") && is(obj, "content", TOKEN_BLANK) &&
		is(json_object_get(obj, "pattern"), "String", " ")) {
		t->blanks = true;
		return 0;
	}
	return unsupported(r, "normalizer", obj);
}

/* --- pre-tokenizer ----------------------------------------------------------------------- */

static int add_pattern(struct reader *r, const char *pattern, enum pre_keep keep)
{
	return pre_add(&r->pre, pattern, strlen(pattern), keep, r->where);
}

static int byte_level(struct reader *r, const json_t *obj)
{
	r->byte_level = true;
	if (flag(obj, "add_prefix_space", true)) {
		if (r->pre.count)
			return err_set(EX_DATAERR,
				"%s: ByteLevel with add_prefix_space behind another step is not supported",
				r->where);
		r->t->prefix = TOKEN_PREFIX_EACH;
		r->t->prefix_unless_there = true;
	}
	if (!flag(obj, "use_regex", true))
		return 0;
	return add_pattern(r, GPT2_PATTERN, PRE_ISOLATED);
}

static int metaspace(struct reader *r, const json_t *obj)
{
	struct lm_token *t = r->t;
	bool always = flag(obj, "add_prefix_space", true);

	if (!is(obj, "replacement", TOKEN_BLANK))
		return err_set(EX_DATAERR,
			"%s: a Metaspace with another replacement than U+2581", r->where);
	t->blanks = true;
	t->prefix_unless_there = true;
	if (is(obj, "prepend_scheme", "never") || !always)
		t->prefix = TOKEN_PREFIX_NEVER;
	else if (is(obj, "prepend_scheme", "first"))
		t->prefix = TOKEN_PREFIX_FIRST;
	else
		t->prefix = TOKEN_PREFIX_EACH;
	if (!flag(obj, "split", true))
		return 0;
	return add_pattern(r, TOKEN_BLANK, PRE_WITH_NEXT);
}

/* Converts a text to a pattern that matches it. */
static char *literal(const char *text)
{
	struct buf out = BUF_INIT;

	for (; *text; text++) {
		if (strchr("\\^$.|?*+()[]{}-#/", *text))
			buf_addc(&out, '\\');
		buf_addc(&out, *text);
	}
	return buf_take(&out);
}

static int split_step(struct reader *r, const json_t *obj)
{
	static const struct {
		const char *name;
		bool invert;
		enum pre_keep keep;
	} ways[] = {
		{ "Isolated", false, PRE_ISOLATED },
		{ "Removed", false, PRE_REMOVED },
		{ "Removed", true, PRE_MATCHES_ONLY },
		{ "MergedWithPrevious", false, PRE_WITH_PREVIOUS },
		{ "MergedWithNext", false, PRE_WITH_NEXT },
	};
	const json_t *pattern = json_object_get(obj, "pattern");
	const char *regex = json_string_value(json_object_get(pattern, "Regex"));
	const char *text = json_string_value(json_object_get(pattern, "String"));
	bool invert = flag(obj, "invert", false);

	if (!regex && !text)
		return err_set(EX_DATAERR, "%s: a Split without a pattern", r->where);
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
		if (is(obj, "behavior", ways[i].name) && invert == ways[i].invert) {
			char *plain = regex ? xstrdup(regex) : literal(text);
			int rc = add_pattern(r, plain, ways[i].keep);

			free(plain);
			return rc;
		}
	return err_set(EX_DATAERR, "%s: a Split with this 'behavior' is not supported",
		r->where);
}

static int pre_tokenizer(struct reader *r, const json_t *obj)
{
	if (is(obj, "type", "ByteLevel"))
		return byte_level(r, obj);
	if (is(obj, "type", "Metaspace"))
		return metaspace(r, obj);
	if (is(obj, "type", "Split"))
		return split_step(r, obj);
	if (is(obj, "type", "Digits"))
		return add_pattern(r,
			flag(obj, "individual_digits", false) ? "\\p{N}" : "\\p{N}+",
			PRE_ISOLATED);
	if (is(obj, "type", "Punctuation") && is(obj, "behavior", "Contiguous"))
		return add_pattern(r, "[\\p{P}!-/:-@\\[-`{-~]+", PRE_ISOLATED);
	if (is(obj, "type", "Punctuation") &&
		(is(obj, "behavior", "Isolated") || !json_object_get(obj, "behavior")))
		return add_pattern(r, "[\\p{P}!-/:-@\\[-`{-~]", PRE_ISOLATED);
	return unsupported(r, "pre-tokenizer", obj);
}

/* --- vocabulary -------------------------------------------------------------------------- */

struct entry {
	const char *text;
	size_t bytes;
	/* entry of added_tokens; NULL: a token of the model's vocabulary */
	const json_t *added;
};

struct entries {
	struct entry *at; /* by id; text NULL: a hole */
	size_t count, cap, filled;
};

static int entry_set(const struct reader *r, struct entries *list, json_int_t id,
	const char *text, size_t bytes, const json_t *added)
{
	struct entry *e;

	if (!text || id < 0 || id >= TOKEN_COUNT_MAX)
		return err_set(EX_DATAERR,
			"%s: a token without a text, or with an id that is not below %u",
			r->where, TOKEN_COUNT_MAX);
	list->at = xgrow(list->at, &list->cap, (size_t)id + 1, sizeof *list->at);
	if ((size_t)id >= list->count) {
		memset(list->at + list->count, 0,
			((size_t)id + 1 - list->count) * sizeof *list->at);
		list->count = (size_t)id + 1;
	}
	e = &list->at[id];
	if (e->text && (!added || e->bytes != bytes || memcmp(e->text, text, bytes) != 0))
		return err_set(EX_DATAERR, "%s: two tokens have the id %lld", r->where,
			(long long)id);
	list->filled += !e->text;
	*e = (struct entry){ text, bytes, added };
	return 0;
}

static bool is_byte_name(const char *s, size_t n)
{
	return n == 6 && memcmp(s, "<0x", 3) == 0 &&
		strspn(s + 3, "0123456789ABCDEF") == 2 && s[5] == '>';
}

/* How the name of an added token is looked for. */
static int take_flags(const struct reader *r, struct token_piece *p, const json_t *added)
{
	struct lm_token *t = r->t;

	p->lstrip = flag(added, "lstrip", false);
	p->rstrip = flag(added, "rstrip", false);
	p->single_word = flag(added, "single_word", false);
	p->normalized = t->prepends &&
		flag(added, "normalized", !flag(added, "special", false));
	if (p->single_word && !t->word.count)
		return pre_add(&t->word, "\\w", 2, PRE_MATCHES_ONLY, r->where);
	return 0;
}

static int add_entries(const struct reader *r, const struct entries *list,
	const char *unknown)
{
	struct lm_token *t = r->t;

	for (size_t id = 0; id < list->count; id++) {
		const struct entry *e = &list->at[id];
		enum lm_token_type type = LM_TOKEN_NORMAL;

		if (e->added)
			type = flag(e->added, "special", false) ? LM_TOKEN_CONTROL :
								  LM_TOKEN_USER_DEFINED;
		else if (e->text && t->how == TOKEN_CHARS && !t->no_byte_fallback &&
			is_byte_name(e->text, e->bytes))
			type = LM_TOKEN_BYTE;
		if (unknown && e->text && strcmp(e->text, unknown) == 0) {
			type = LM_TOKEN_UNKNOWN;
			t->unknown = (int64_t)id;
		}
		if (token_add(t, e->text ? e->text : "", e->bytes, 0, type, r->where) < 0)
			return -1;
		if (e->added && take_flags(r, &t->pieces[id], e->added) < 0)
			return -1;
	}
	return token_index(t, r->where);
}

/* Leaves out added tokens beyond the rows of the model: makers add marks, as of pictures, that this
 * model never learned. Their names are plain text then. Others stay, and are refused later. */
static void leave_out(struct entries *list, uint32_t rows)
{
	if (!rows)
		return;
	for (size_t i = rows; i < list->count; i++)
		if (list->at[i].text && !list->at[i].added)
			return;
	if (list->count > rows)
		list->count = rows;
}

static int vocabulary(const struct reader *r, const json_t *doc, const json_t *model)
{
	json_t *vocab = json_object_get(model, "vocab");
	const json_t *added = json_object_get(doc, "added_tokens"), *one;
	struct entries list = { 0 };
	size_t i;
	int rc = -1;

	if (!json_is_object(vocab))
		return err_set(EX_DATAERR, "%s: no 'vocab' in the model", r->where);
	for (void *at = json_object_iter(vocab); at;
		at = json_object_iter_next(vocab, at)) {
		const char *text = json_object_iter_key(at);
		const json_t *id = json_object_iter_value(at);

		if (entry_set(r, &list, json_is_integer(id) ? json_integer_value(id) : -1,
			    text, strlen(text), NULL) < 0)
			goto out;
	}
	json_array_foreach(added, i, one) {
		const json_t *id = json_object_get(one, "id"),
			     *text = json_object_get(one, "content");

		if (entry_set(r, &list, json_is_integer(id) ? json_integer_value(id) : -1,
			    json_string_value(text), json_string_length(text), one) < 0)
			goto out;
	}
	/* a few ids without a token are usual, many are not */
	if (list.count > 2 * list.filled + 1024) {
		err_set(EX_DATAERR, "%s: %zu tokens with ids up to %zu", r->where,
			list.filled, list.count - 1);
		goto out;
	}
	leave_out(&list, r->rows);
	rc = add_entries(r, &list,
		json_string_value(json_object_get(model, "unk_token")));
out:
	free(list.at);
	return rc;
}

static int merges(const struct reader *r, const json_t *model)
{
	const json_t *list = json_object_get(model, "merges"), *one;
	size_t i;

	if (!json_is_array(list))
		return err_set(EX_DATAERR, "%s: no 'merges' in the model", r->where);
	json_array_foreach(list, i, one) {
		const json_t *a = json_array_get(one, 0), *b = json_array_get(one, 1);
		const char *text = json_string_value(one), *blank;
		int rc;

		if (json_is_array(one) && json_array_size(one) == 2 &&
			json_is_string(a) && json_is_string(b)) {
			rc = token_add_merge(r->t, json_string_value(a),
				json_string_length(a), json_string_value(b),
				json_string_length(b), true, r->where);
		} else if (text && *text && (blank = strchr(text + 1, ' '))) {
			rc = token_add_merge(r->t, text, (size_t)(blank - text),
				blank + 1, strlen(blank + 1), true, r->where);
		} else {
			rc = err_set(EX_DATAERR, "%s: merge %zu is not two texts",
				r->where, i);
		}
		if (rc < 0)
			return -1;
	}
	return 0;
}

/* --- what the model's makers put before and after a text --------------------------------- */

static void special_by_name(const struct lm_token *t, const json_t *name, int64_t *id)
{
	const json_t *text = json_is_object(name) ? json_object_get(name, "content") :
						    name;
	int64_t found = -1;

	if (json_is_string(text))
		found = lm_token_find(t, json_string_value(text),
			json_string_length(text));
	if (found >= 0)
		*id = found;
}

static int post_processor(struct reader *r, const json_t *obj)
{
	const json_t *single = json_object_get(obj, "single"), *first, *last;

	if (!is(obj, "type", "TemplateProcessing") || !json_array_size(single))
		return 0; /* the others change offsets, not ids */
	first = json_object_get(json_array_get(single, 0), "SpecialToken");
	last = json_object_get(json_array_get(single, json_array_size(single) - 1),
		"SpecialToken");
	special_by_name(r->t, json_object_get(first, "id"), &r->t->bos);
	special_by_name(r->t, json_object_get(last, "id"), &r->t->last);
	if (r->t->last >= 0)
		r->t->eos = r->t->last;
	r->t->adds_bos = first != NULL;
	r->t->adds_eos = last != NULL;
	return 0;
}

/* Guesses the special tokens by their usual names, without a tokenizer_config.json. */
static void guess_special(struct lm_token *t)
{
	static const char *const begins[] = { "<s>", "<|begin_of_text|>", "<bos>",
		"<|endoftext|>" };
	static const char *const ends[] = { "</s>", "<|end_of_text|>", "<eos>",
		"<|im_end|>", "<|eot_id|>", "<|endoftext|>" };

	for (size_t i = 0; i < sizeof begins / sizeof *begins && t->bos < 0; i++)
		t->bos = lm_token_find(t, begins[i], strlen(begins[i]));
	for (size_t i = 0; i < sizeof ends / sizeof *ends && t->eos < 0; i++)
		t->eos = lm_token_find(t, ends[i], strlen(ends[i]));
}

/* Reads one template, or a list of templates with names: "default", and "tool_use" for
 * conversations with tools. The others (rag) are for what this API does not have. */
static int chat_template(struct lm_token *t, const json_t *v, const char *where)
{
	const json_t *one;
	size_t i;

	json_array_foreach(v, i, one) {
		const json_t *text = json_object_get(one, "template");
		char **to = is(one, "name", "default") ? &t->chat_template :
			is(one, "name", "tool_use")    ? &t->tool_template :
							 NULL;

		if (to && json_is_string(text) &&
			token_set_template(to, json_string_value(text),
				json_string_length(text), where) < 0)
			return -1;
	}
	if (!json_is_string(v))
		return 0;
	return token_set_template(&t->chat_template, json_string_value(v),
		json_string_length(v), where);
}

/* where: the file's name. json is read for special tokens and the template. */
static int token_read_config(struct lm_token *t, const char *text, size_t bytes,
	const char *where)
{
	json_t *doc = json_parse(text, bytes, DEPTH_MAX, where);
	int rc;

	if (!doc)
		return -1;
	special_by_name(t, json_object_get(doc, "bos_token"), &t->bos);
	special_by_name(t, json_object_get(doc, "eos_token"), &t->eos);
	special_by_name(t, json_object_get(doc, "unk_token"), &t->unknown);
	special_by_name(t, json_object_get(doc, "pad_token"), &t->pad);
	t->adds_bos = flag(doc, "add_bos_token", t->adds_bos);
	t->adds_eos = flag(doc, "add_eos_token", t->adds_eos);
	rc = chat_template(t, json_object_get(doc, "chat_template"), where);
	json_decref(doc);
	return rc;
}

/* --- the whole --------------------------------------------------------------------------- */

static int check_model(const struct reader *r, const json_t *model)
{
	const char *prefix = json_string_value(
		json_object_get(model, "continuing_subword_prefix"));
	const char *suffix = json_string_value(
		json_object_get(model, "end_of_word_suffix"));

	if (!json_is_object(model))
		return err_set(EX_DATAERR, "%s: no 'model' in this tokenizer", r->where);
	if (json_object_get(model, "type") && !is(model, "type", "BPE"))
		return unsupported(r, "model", model);
	if ((prefix && *prefix) || (suffix && *suffix))
		return err_set(EX_DATAERR,
			"%s: a prefix or suffix of subwords is not supported", r->where);
	return 0;
}

static int read_doc(struct reader *r, const json_t *doc)
{
	const json_t *model = json_object_get(doc, "model");
	struct lm_token *t = r->t;

	if (check_model(r, model) < 0 ||
		each(r, json_object_get(doc, "normalizer"), "normalizers", 0,
			normalizer) < 0 ||
		each(r, json_object_get(doc, "pre_tokenizer"), "pretokenizers", 0,
			pre_tokenizer) < 0)
		return -1;
	t->how = r->byte_level ? TOKEN_BYTES : TOKEN_CHARS;
	if (r->byte_level && t->blanks)
		return err_set(EX_DATAERR,
			"%s: ByteLevel and U+2581 together are not supported", r->where);
	t->last_merge_counts = true;
	t->ignore_merges = flag(model, "ignore_merges", false);
	t->no_byte_fallback = t->how == TOKEN_CHARS &&
		!flag(model, "byte_fallback", false);
	t->each_unknown = !flag(model, "fuse_unk", false);
	pre_find_name(&r->pre, t->ignore_merges);
	t->pre = r->pre;
	r->pre.count = 0; /* ownership moved */
	if (vocabulary(r, doc, model) < 0 || merges(r, model) < 0)
		return -1;
	return each(r, json_object_get(doc, "post_processor"), "processors", 0,
		post_processor);
}

int lm_token_read_json(struct lm_token **out, const char *text, size_t bytes,
	const char *config, size_t config_bytes, const char *where)
{
	return token_read_json(out, text, bytes, config, config_bytes, 0, where);
}

int token_read_json(struct lm_token **out, const char *text, size_t bytes,
	const char *config, size_t config_bytes, uint32_t rows, const char *where)
{
	struct reader r = { .where = where, .rows = rows, .t = token_new(TOKEN_BYTES) };
	json_t *doc = json_parse(text, bytes, DEPTH_MAX, where);
	int rc = doc ? read_doc(&r, doc) : -1;

	*out = NULL;
	if (rc == 0 && config)
		rc = token_read_config(r.t, config, config_bytes, where);
	if (rc == 0) {
		guess_special(r.t);
		token_guess_fills(r.t);
		rc = token_finish(r.t, where);
	}
	json_decref(doc);
	pre_release(&r.pre);
	if (rc < 0)
		lm_token_close(r.t);
	else
		*out = r.t;
	return rc;
}
