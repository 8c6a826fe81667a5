/* adapter.c - reads adapters: the config of PEFT, the tensors of both formats, and which of our
 * matrices they belong to. */
#include "common/lm/model/adapter.h"

#include <inttypes.h>
#include <math.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/json/json.h"
#include "common/lm/model/gguf.h"
#include "common/lm/model/gguf_llama.h"
#include "common/lm/model/safetensors.h"

#define CONFIG_BYTES_MAX ((size_t)1 << 20)
#define PATTERNS_MAX     1024
#define PREFIX           "base_model.model."
#define BASE             "rnp_base"

struct lm_adapter_file {
	struct lm_low *low; /* [layers][LM_ADAPTED] */
	void **owned;
	size_t nowned, owned_cap;
	uint32_t rank;
	char *base;
};

/* A name that differs from the others in rank or alpha. */
struct pattern {
	regex_t regex;
	double value;
};

struct patterns {
	struct pattern *all;
	size_t n;
};

/* An adapter while it is read: one of two formats. */
struct reading {
	const struct lm_config *c;
	const char *where;
	const struct safetensors *peft;
	const struct gguf *gguf;
	bool interleaved; /* rows of q and k, as the file has them */
	uint32_t rank;    /* of a GGUF file 0: its tensors tell */
	double alpha;
	bool rslora;
	struct patterns ranks, alphas;
};

/* --- the config --------------------------------------------------------------------------- */

/* Whether a field says anything but "no". */
static bool is_set(const json_t *v)
{
	switch (v ? json_typeof(v) : JSON_NULL) {
	case JSON_NULL:
	case JSON_FALSE:
		return false;
	case JSON_ARRAY:
		return json_array_size(v) > 0;
	case JSON_OBJECT:
		return json_object_size(v) > 0;
	case JSON_STRING:
		return *json_string_value(v) && strcmp(json_string_value(v), "none") != 0;
	default:
		return true;
	}
}

/* Keys that we honour, or that say how the adapter was made, chosen or is to be trained on: the
 * tensors tell which matrices it has. */
static bool is_known(const char *key)
{
	static const char *const known[] = { "peft_type", "r", "lora_alpha", "use_rslora",
		"rank_pattern", "alpha_pattern", BASE, "task_type", "auto_mapping",
		"base_model_name_or_path", "revision", "inference_mode", "lora_dropout",
		"target_modules", "exclude_modules", "layers_to_transform",
		"layers_pattern", "init_lora_weights", "megatron_core",
		"qalora_group_size", "runtime_config", "peft_version",
		"ensure_weight_tying" };

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strcmp(key, known[i]) == 0)
			return true;
	return false;
}

/* Some ways to begin change the model itself, and the adapter is of the changed one. */
static bool begins_plainly(const json_t *v)
{
	const char *text = json_string_value(v);

	return !text || strcmp(text, "gaussian") == 0 || strcmp(text, "eva") == 0 ||
		strcmp(text, "orthogonal") == 0;
}

static int check_keys(const struct reading *r, const json_t *config)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)config, key, v) {
		if (!is_known(key) && is_set(v))
			return err_set(EX_DATAERR, "%s: '%.60s' is not supported",
				r->where, key);
		if (strcmp(key, "init_lora_weights") == 0 && !begins_plainly(v))
			return err_set(EX_DATAERR,
				"%s: init_lora_weights '%.40s' is not supported: it changes the "
				"model",
				r->where, json_string_value(v));
	}
	return 0;
}

/* PEFT's rule: the expression matches the end of a matrix's name, from a word's beginning on. */
static int add_pattern(struct patterns *p, const struct reading *r, const char *field,
	const char *text, const json_t *value)
{
	struct buf regex = BUF_INIT;
	int rc;

	if (!json_is_number(value) || !(json_number_value(value) > 0))
		return err_set(EX_DATAERR, "%s: %s: '%.60s' is no number above 0",
			r->where, field, text);
	buf_addf(&regex, "^(.*\\.)?(%s)$", text);
	rc = regcomp(&p->all[p->n].regex, buf_text(&regex), REG_EXTENDED | REG_NOSUB);
	buf_release(&regex);
	if (rc)
		return err_set(EX_DATAERR,
			"%s: %s: '%.60s' is no regular expression that we read", r->where,
			field, text);
	p->all[p->n++].value = json_number_value(value);
	return 0;
}

static int read_patterns(struct patterns *p, const struct reading *r,
	const json_t *config, const char *field)
{
	const json_t *all = json_object_get(config, field);
	const char *text;
	json_t *value;

	if (!is_set(all))
		return 0;
	if (!json_is_object(all) || json_object_size(all) > PATTERNS_MAX)
		return err_set(EX_DATAERR, "%s: %s: not an object of at most %d",
			r->where, field, PATTERNS_MAX);
	p->all = xcalloc(json_object_size(all), sizeof *p->all);
	json_object_foreach((json_t *)all, text, value)
		if (add_pattern(p, r, field, text, value) < 0)
			return -1;
	return 0;
}

static void release_patterns(struct patterns *p)
{
	while (p->n)
		regfree(&p->all[--p->n].regex);
	free(p->all);
}

static double find_pattern(const struct patterns *p, const char *name, double otherwise)
{
	for (size_t i = 0; i < p->n; i++)
		if (regexec(&p->all[i].regex, name, 0, NULL, 0) == 0)
			return p->all[i].value;
	return otherwise;
}

static int read_config(struct reading *r, const json_t *config)
{
	const char *type = NULL;
	int64_t rank = 0;

	if (json_get_text(config, r->where, "peft_type", &type) < 0)
		return -1;
	if (strcmp(type, "LORA") != 0)
		return err_set(EX_DATAERR, "%s: peft_type is '%.40s', not LORA", r->where,
			type);
	if (check_keys(r, config) < 0 ||
		json_get_i64(config, r->where, "r", 1, LM_LORA_RANK_MAX, &rank) < 0 ||
		json_get_f64(config, r->where, "lora_alpha", &r->alpha) < 0 ||
		read_patterns(&r->ranks, r, config, "rank_pattern") < 0 ||
		read_patterns(&r->alphas, r, config, "alpha_pattern") < 0)
		return -1;
	r->rank = (uint32_t)rank;
	r->rslora = is_set(json_object_get(config, "use_rslora"));
	return 0;
}

/* --- tensors ------------------------------------------------------------------------------ */

/* Which of our matrices the rows of a matrix of the file are: a fused one is several. */
static unsigned parts_of(enum lm_part part, enum lm_adapted *first)
{
	for (int w = 0; w < LM_ADAPTED; w++)
		if (lm_lora_part((enum lm_adapted)w) == part) {
			*first = (enum lm_adapted)w;
			return 1;
		}
	*first = part == LM_QKV ? LM_ADAPTED_Q : LM_ADAPTED_GATE;
	return part == LM_QKV ? 3 : part == LM_GATE_UP ? 2 : 0;
}

/* Finds A or B of a place. Returns NULL if there is none. */
static const struct lm_tensor *find(const struct reading *r, const struct lm_place *place,
	char role)
{
	char of[LM_NAME_BYTES_MAX];
	struct buf name = BUF_INIT;
	const struct lm_tensor *t;

	if (r->gguf) {
		lm_layout_gguf_name(of, place);
		buf_addf(&name, "%s.lora_%c", of, role);
		t = gguf_find_tensor(r->gguf, buf_text(&name));
	} else {
		lm_lora_module(of, place);
		buf_addf(&name, PREFIX "%s.lora_%c.weight", of, role - 'a' + 'A');
		t = safetensors_find(r->peft, buf_text(&name));
	}
	buf_release(&name);
	return t;
}

static int check(const struct reading *r, const struct lm_tensor *t, uint64_t rows,
	uint64_t columns)
{
	if (t->dims != 2 || t->shape[0] != rows || t->shape[1] != columns)
		return err_set(EX_DATAERR,
			"%s: tensor '%s' is not [%" PRIu64 ", %" PRIu64 "]", r->where,
			t->name, rows, columns);
	if (t->type != LM_F32 && t->type != LM_F16 && t->type != LM_BF16)
		return err_set(EX_DATAERR, "%s: tensor '%s' is of type %s", r->where,
			t->name, t->type_name);
	return 0;
}

/* Returns the row of our matrix that is row k of the file's. */
static uint64_t our_row(const struct reading *r, enum lm_adapted which, uint64_t k)
{
	uint64_t d = r->c->head_dim, i = k % d;

	if (r->interleaved == r->c->rope.interleaved ||
		(which != LM_ADAPTED_Q && which != LM_ADAPTED_K))
		return k;
	return r->interleaved ? k - i + (i & 1) * (d / 2) + i / 2 :
				lm_layout_from_hf(r->c, lm_lora_part(which), k);
}

static float *take(struct lm_adapter_file *f, uint64_t count)
{
	float *values = xmalloc(count * sizeof *values);

	f->owned = xgrow(f->owned, &f->owned_cap, f->nowned + 1, sizeof *f->owned);
	f->owned[f->nowned++] = values;
	return values;
}

static int read_values(const struct reading *r, const struct lm_tensor *t, float *values)
{
	lm_to_f32(values, t->data, t->type, t->count);
	for (uint64_t i = 0; i < t->count; i++)
		if (!isfinite(values[i]))
			return err_set(EX_DATAERR,
				"%s: tensor '%s' has a number that is not finite",
				r->where, t->name);
	return 0;
}

/* The rank and scale of a matrix. */
static int read_scale(const struct reading *r, const struct lm_place *place,
	const struct lm_tensor *in, struct lm_low *low)
{
	char name[LM_NAME_BYTES_MAX];
	double rank, alpha, scale;

	lm_lora_module(name, place);
	rank = find_pattern(&r->ranks, name,
		r->rank               ? r->rank :
			in->dims == 2 ? (double)in->shape[0] :
					0);
	alpha = find_pattern(&r->alphas, name, r->alpha);
	if (!(rank >= 1 && rank <= LM_LORA_RANK_MAX && rank == floor(rank)))
		return err_set(EX_DATAERR, "%s: tensor '%s': a rank of %g is not 1 to %d",
			r->where, in->name, rank, LM_LORA_RANK_MAX);
	scale = alpha / (r->rslora ? sqrt(rank) : rank);
	low->rank = (uint32_t)rank;
	low->scale = (float)scale;
	if (!isfinite(low->scale))
		return err_set(EX_DATAERR, "%s: lora_alpha: not a usable number",
			r->where);
	return 0;
}

/* Takes B, whose rows are those of one or several of our matrices. */
static void take_outputs(struct lm_adapter_file *f, const struct reading *r,
	const struct lm_place *place, const struct lm_low *low, const float *values)
{
	uint64_t rank = low->rank;
	enum lm_adapted first;
	unsigned n = parts_of(place->part, &first);

	for (unsigned i = 0; i < n; i++) {
		enum lm_adapted which = (enum lm_adapted)((unsigned)first + i);
		uint64_t rows = lm_lora_outputs(r->c, which);
		float *b = take(f, rows * rank);

		for (uint64_t k = 0; k < rows; k++)
			memcpy(b + our_row(r, which, k) * rank, values + k * rank,
				rank * sizeof *b);
		values += rows * rank;
		f->low[(uint64_t)place->layer * LM_ADAPTED + which] = (struct lm_low){
			.rank = low->rank,
			.scale = low->scale,
			.a = low->a,
			.b = b
		};
	}
	if (low->rank > f->rank)
		f->rank = low->rank;
}

/* Takes the pair of one matrix. Returns how many tensors it has in the file, 0 or 2, or -1. */
static int take_place(struct lm_adapter_file *f, const struct reading *r,
	const struct lm_place *place)
{
	const struct lm_tensor *in = find(r, place, 'a'), *out = find(r, place, 'b');
	struct lm_low low = { 0 };
	float *a, *b;
	int rc;

	if (!in && !out)
		return 0;
	if (!in || !out)
		return err_set(EX_DATAERR, "%s: tensor '%s' has no partner", r->where,
			(in ? in : out)->name);
	if (read_scale(r, place, in, &low) < 0 ||
		check(r, in, low.rank, place->shape[1]) < 0 ||
		check(r, out, place->shape[0], low.rank) < 0)
		return -1;
	a = take(f, in->count);
	b = xmalloc(out->count * sizeof *b);
	low.a = a;
	rc = read_values(r, in, a) < 0 ? -1 : read_values(r, out, b);
	if (rc == 0)
		take_outputs(f, r, place, &low, b);
	free(b);
	return rc < 0 ? -1 : 2;
}

static uint64_t tensors_of(const struct reading *r)
{
	return r->gguf ? gguf_tensors(r->gguf) : safetensors_count(r->peft);
}

/* Names a tensor that belongs to none of the model's matrices. */
static int refuse_others(const struct reading *r)
{
	for (uint64_t i = 0; i < tensors_of(r); i++) {
		const struct lm_tensor *t = r->gguf ? gguf_tensor_at(r->gguf, i) :
						      safetensors_at(r->peft, i);
		enum lm_adapted first;
		bool known = false;

		for (uint32_t k = 0; k < lm_layout_count(r->c) && !known; k++) {
			struct lm_place place;

			lm_layout_at(r->c, k, &place);
			known = parts_of(place.part, &first) &&
				(find(r, &place, 'a') == t || find(r, &place, 'b') == t);
		}
		if (!known)
			return err_set(EX_DATAERR,
				"%s: tensor '%s' belongs to no matrix of this model that can be "
				"adapted",
				r->where, t->name);
	}
	return 0;
}

static int take_all(struct lm_adapter_file *f, const struct reading *r)
{
	uint64_t used = 0;

	for (uint32_t i = 0; i < lm_layout_count(r->c); i++) {
		enum lm_adapted first;
		struct lm_place place;
		int n;

		lm_layout_at(r->c, i, &place);
		n = parts_of(place.part, &first) ? take_place(f, r, &place) : 0;
		if (n < 0)
			return -1;
		used += (uint64_t)n;
	}
	if (used != tensors_of(r))
		return refuse_others(r);
	return used ? 0 : err_set(EX_DATAERR, "%s: it adapts nothing", r->where);
}

/* --- open and close ----------------------------------------------------------------------- */

static int make(struct lm_adapter_file **out, const struct reading *r, const char *base)
{
	struct lm_adapter_file *f = xcalloc(1, sizeof *f);

	f->low = xcalloc((size_t)r->c->layers * LM_ADAPTED, sizeof *f->low);
	f->base = base ? xstrdup(base) : NULL;
	if (take_all(f, r) < 0) {
		lm_adapter_file_close(f);
		return -1;
	}
	*out = f;
	return 0;
}

static int make_peft(struct lm_adapter_file **out, const struct lm_config *c,
	const json_t *config, const struct safetensors *file, const char *where)
{
	struct reading r = { .c = c, .where = where, .peft = file };
	int rc = read_config(&r, config);

	if (rc == 0)
		rc = make(out, &r, json_string_value(json_object_get(config, BASE)));
	release_patterns(&r.ranks);
	release_patterns(&r.alphas);
	return rc;
}

int lm_adapter_file_peft(struct lm_adapter_file **out, const struct lm_config *c,
	const char *config, size_t config_bytes, const void *tensors,
	uint64_t tensors_bytes, const char *where)
{
	json_t *json = json_parse_object(config, config_bytes, where);
	struct safetensors *file = NULL;
	int rc = -1;

	*out = NULL;
	if (json && safetensors_read(&file, tensors, tensors_bytes, where) == 0)
		rc = make_peft(out, c, json, file, where);
	safetensors_close(file);
	json_decref(json);
	return rc;
}

static int is_adapter(const struct gguf *g, const char *key, const char *want)
{
	const char *text = "";
	uint64_t bytes = 0;

	if (gguf_get_text(g, key, &text, &bytes) < 0)
		return err_add("%s", gguf_where(g));
	if (bytes == strlen(want) && memcmp(text, want, bytes) == 0)
		return 0;
	return err_set(EX_DATAERR, "%s: its %s is '%.*s', not %s", gguf_where(g), key,
		(int)(bytes < 40 ? bytes : 40), text, want);
}

static int make_gguf(struct lm_adapter_file **out, const struct lm_config *c,
	const struct gguf *g)
{
	struct reading r = { .c = c, .where = gguf_where(g), .gguf = g };

	if (is_adapter(g, "general.type", "adapter") < 0 ||
		is_adapter(g, "adapter.type", "lora") < 0)
		return -1;
	if (gguf_get_f64(g, "adapter.lora.alpha", &r.alpha) < 0)
		return err_add("%s", r.where);
	if (!(r.alpha > 0))
		return err_set(EX_DATAERR, "%s: adapter.lora.alpha is not above 0",
			r.where);
	r.interleaved = gguf_is_architecture(g, "llama");
	return make(out, &r, NULL);
}

int lm_adapter_file_gguf(struct lm_adapter_file **out, const struct lm_config *c,
	const void *data, uint64_t bytes, const char *where)
{
	struct gguf *g = NULL;
	int rc = gguf_read(&g, data, bytes, where);

	*out = NULL;
	if (rc == 0)
		rc = make_gguf(out, c, g);
	gguf_close(g);
	return rc;
}

static int open_gguf(struct lm_adapter_file **out, const struct lm_config *c,
	const char *path)
{
	struct gguf *g = NULL;
	int rc = gguf_open(&g, path);

	if (rc == 0)
		rc = make_gguf(out, c, g);
	gguf_close(g);
	return rc;
}

static int open_peft(struct lm_adapter_file **out, const struct lm_config *c,
	const char *dir)
{
	struct buf config = BUF_INIT, tensors = BUF_INIT, text = BUF_INIT;
	struct safetensors *file = NULL;
	json_t *json = NULL;
	int rc = -1;

	buf_addf(&config, "%s/adapter_config.json", dir);
	buf_addf(&tensors, "%s/adapter_model.safetensors", dir);
	if (io_read(&text, buf_text(&config), CONFIG_BYTES_MAX) < 0)
		goto out;
	json = json_parse_object(buf_text(&text), text.len, buf_text(&config));
	if (json && safetensors_open(&file, buf_text(&tensors)) == 0)
		rc = make_peft(out, c, json, file, dir);
out:
	safetensors_close(file);
	json_decref(json);
	buf_release(&config);
	buf_release(&tensors);
	buf_release(&text);
	return rc;
}

int lm_adapter_file_open(struct lm_adapter_file **out, const struct lm_config *c,
	const char *path)
{
	size_t n = strlen(path);

	*out = NULL;
	return n > 5 && strcmp(path + n - 5, ".gguf") == 0 ? open_gguf(out, c, path) :
							     open_peft(out, c, path);
}

void lm_adapter_file_close(struct lm_adapter_file *f)
{
	if (!f)
		return;
	while (f->nowned)
		free(f->owned[--f->nowned]);
	free(f->owned);
	free(f->low);
	free(f->base);
	free(f);
}

const struct lm_low *lm_adapter_file_at(const struct lm_adapter_file *f, uint32_t layer,
	enum lm_adapted which)
{
	return &f->low[(uint64_t)layer * LM_ADAPTED + which];
}

uint32_t lm_adapter_file_rank(const struct lm_adapter_file *f)
{
	return f->rank;
}

const char *lm_adapter_file_base(const struct lm_adapter_file *f)
{
	return f->base;
}
