/* settings.c - the table of options that a checkpoint stores. */
#include "cmd/rnp-train/local/settings.h"

#include <stddef.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/json/canon.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/base/num.h"

#define PREFIX "option."
#define RANKS  PREFIX "ranks"

enum kind { I64, U64, F64, PRECISION, TEXT, SWITCH };

/* The end of the run is among them, because the learning rate falls towards it; it alone may
 * change. */
static const struct setting {
	const char *name;
	enum kind kind;
	size_t at;
	int64_t min, max; /* of I64 */
	bool free;
	bool lora; /* only of a run that trains an adapter */
} settings[] = {
#define AT(member) offsetof(struct session_options, member)
	{ "batch", I64, AT(batch), 1, 1 << 20, false, false },
	{ "micro-batch", I64, AT(micro), 1, 1 << 20, false, false },
	{ "length", I64, AT(length), 1, LM_CONTEXT_MAX, false, false },
	{ "steps", I64, AT(steps), 0, INT64_MAX, true, false },
	{ "lr", F64, AT(lr), 0, 0, false, false },
	{ "lr-min", F64, AT(lr_min), 0, 0, false, false },
	{ "warmup", I64, AT(warmup), 0, INT64_MAX, false, false },
	{ "weight-decay", F64, AT(decay), 0, 0, false, false },
	{ "beta1", F64, AT(beta1), 0, 0, false, false },
	{ "beta2", F64, AT(beta2), 0, 0, false, false },
	{ "clip", F64, AT(clip), 0, 0, false, false },
	{ "seed", U64, AT(seed), 0, 0, false, false },
	{ "precision", PRECISION, AT(precision), 0, 0, false, false },
	{ "lora", I64, AT(lora), 1, LM_LORA_RANK_MAX, false, true },
	{ "lora-alpha", F64, AT(lora_alpha), 0, 0, false, true },
	{ "lora-target", TEXT, AT(lora_target), 0, 0, false, true },
	{ "rslora", SWITCH, AT(rslora), 0, 0, false, true },
#undef AT
};
#define SETTINGS (sizeof settings / sizeof *settings)

static void *place(struct session_options *o, const struct setting *s)
{
	return (char *)o + s->at;
}

/* Formats a value as on the command line. */
static void write_value(struct buf *out, const struct session_options *o,
	const struct setting *s)
{
	const void *v = (const char *)o + s->at;

	buf_reset(out);
	switch (s->kind) {
	case I64:
		buf_add_i64(out, *(const int64_t *)v);
		break;
	case U64:
		buf_addf(out, "%llu", (unsigned long long)*(const uint64_t *)v);
		break;
	case F64:
		canon_number(out, *(const double *)v);
		break;
	case PRECISION:
	case TEXT:
		buf_adds(out, *(const char *const *)v ? *(const char *const *)v : "");
		break;
	case SWITCH:
		buf_adds(out, *(const bool *)v ? "yes" : "no");
		break;
	}
}

static int read_value(struct session_options *o, const struct setting *s,
	const char *text)
{
	void *v = place(o, s);

	switch (s->kind) {
	case I64:
		return num_i64(text, s->name, s->min, s->max, v);
	case U64:
		return num_u64(text, s->name, v);
	case F64:
		if (num_f64(text, s->name, v) < 0)
			return -1;
		if (*(double *)v < 0)
			return err_set(EX_DATAERR, "%s: %s is negative", s->name, text);
		return 0;
	case PRECISION:
		*(const char **)v = strcmp(text, "f32") == 0 ? "f32" : "bf16";
		if (strcmp(text, *(const char **)v) != 0)
			return err_set(EX_DATAERR, "%s: '%.20s' is none", s->name, text);
		return 0;
	case TEXT:
		*(const char **)v = *text ? text : NULL;
		return 0;
	case SWITCH:
		*(bool *)v = strcmp(text, "yes") == 0;
		return 0;
	}
	return 0;
}

json_t *settings_of(const struct session_options *o, int ranks)
{
	struct buf key = BUF_INIT, text = BUF_INIT;
	json_t *kept = json_object();

	for (size_t i = 0; i < SETTINGS; i++) {
		if (settings[i].lora && !o->lora)
			continue;
		buf_reset(&key);
		buf_addf(&key, PREFIX "%s", settings[i].name);
		write_value(&text, o, &settings[i]);
		json_set_text(kept, key.data, text.data);
	}
	buf_reset(&text);
	buf_add_i64(&text, ranks);
	json_set_text(kept, RANKS, text.data);
	buf_release(&key);
	buf_release(&text);
	return kept;
}

/* text: the checkpoint's value of s */
static int resume_one(struct session_options *o, const struct setting *s,
	const char *text, const char *path)
{
	struct session_options was = *o;
	struct buf kept = BUF_INIT, given = BUF_INIT;
	int rc = 0;

	if (read_value(&was, s, text) < 0)
		return err_add("%s", path);
	if (!o->given(s->name)) {
		*o = was;
		return 0;
	}
	write_value(&kept, &was, s);
	write_value(&given, o, s);
	if (!s->free && strcmp(kept.data, given.data) != 0)
		rc = err_set(EX_USAGE, "'%s' was made with --%s %s, not %s", path,
			s->name, buf_text(&kept), buf_text(&given));
	buf_release(&kept);
	buf_release(&given);
	return rc;
}

int settings_resume(struct session_options *o, int ranks, const json_t *kept,
	const char *path)
{
	const char *text = json_string_value(json_object_get(kept, RANKS));
	struct buf key = BUF_INIT;
	int64_t were = ranks;
	int rc = 0;

	if (text && num_i64(text, "ranks", 1, INT32_MAX, &were) < 0)
		return err_add("%s", path);
	for (size_t i = 0; rc == 0 && i < SETTINGS; i++) {
		const struct setting *s = &settings[i];

		if (were != ranks && strcmp(s->name, "micro-batch") == 0)
			continue;
		buf_reset(&key);
		buf_addf(&key, PREFIX "%s", s->name);
		text = json_string_value(json_object_get(kept, key.data));
		if (text)
			rc = resume_one(o, s, text, path);
		else if (s->lora && o->given(s->name))
			rc = err_set(EX_USAGE, "'%s' was made without --%s", path,
				s->name);
	}
	buf_release(&key);
	return rc;
}
