/* offer_plain.c - parses rnp.offer the fast way: see offer_list_add_plain in offer.h.
 *
 * Plain means: one flat object of known keys, each once, strings of printable ASCII without
 * escapes, whole numbers of at most 15 digits. A unit test and a fuzz target compare what this
 * accepts with offer_list_add_json. */
#include <string.h>

#include "cmd/rnp-price/offer.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/lines.h"
#include "common/json/json.h"
#include "common/json/plain.h"

#define TEXT_BYTES_MAX 512

/* A value in place. */
struct value {
	char type; /* 's' string, 'i' whole number, 'b' true or false */
	const char *text;
	size_t len;
	int64_t number;
};

static bool take_value(struct json_plain *s, struct value *v)
{
	json_plain_space(s);
	if (s->at == s->end)
		return false;
	*v = (struct value){ .type = 'b', .number = *s->at == 't' };
	switch (*s->at) {
	case '"':
		v->type = 's';
		return json_plain_string(s, &v->text, &v->len) &&
			v->len <= TEXT_BYTES_MAX;
	case 't':
		return json_plain_word(s, "true");
	case 'f':
		return json_plain_word(s, "false");
	default:
		v->type = 'i';
		return json_plain_whole(s, &v->number);
	}
}

/* The fields in the order in which feed writes them; where they are stored and their bounds. */
#define NAME(text) text, sizeof text - 1
enum field_kind { KIND, VERSION, TEXT, TIME, NUMBER, FLAG, COUNTRY, THREE };
static const struct field {
	const char *name;
	size_t len; /* of the name */
	enum field_kind kind;
	size_t offset;
	int64_t min, max; /* of a number, or of a text's length */
} fields[] = {
	{ NAME("kind"), KIND, 0, 0, 0 },
	{ NAME("v"), VERSION, 0, 0, 0 },
	{ NAME("market"), TEXT, offsetof(struct offer, market), 1, 32 },
	{ NAME("offer_id"), TEXT, offsetof(struct offer, id), 1, 512 },
	{ NAME("at"), TIME, offsetof(struct offer, at_ms), 0, 0 },
	{ NAME("gpu_model"), TEXT, offsetof(struct offer, model), 1, 200 },
	{ NAME("gpu_name"), TEXT, offsetof(struct offer, name), 0, 200 },
	{ NAME("gpu_count"), NUMBER, offsetof(struct offer, gpu_count), 1, 1024 },
	{ NAME("gpu_share_ppm"), NUMBER, offsetof(struct offer, gpu_share_ppm), 1,
		999999 },
	{ NAME("gpu_memory_bytes"), NUMBER, offsetof(struct offer, gpu_memory_bytes), 0,
		INT64_MAX },
	{ NAME("uusd_per_gpu_hour"), NUMBER, offsetof(struct offer, uusd_per_gpu_hour), 1,
		INT64_MAX },
	{ NAME("spot"), FLAG, offsetof(struct offer, spot), 0, 0 },
	{ NAME("cpu_cores"), NUMBER, offsetof(struct offer, cpu_cores), 0, INT64_MAX },
	{ NAME("memory_bytes"), NUMBER, offsetof(struct offer, memory_bytes), 0,
		INT64_MAX },
	{ NAME("down_bps"), NUMBER, offsetof(struct offer, down_bps), 0, INT64_MAX },
	{ NAME("up_bps"), NUMBER, offsetof(struct offer, up_bps), 0, INT64_MAX },
	{ NAME("reliability_ppm"), NUMBER, offsetof(struct offer, reliability_ppm), 0,
		1000000 },
	{ NAME("country"), COUNTRY, offsetof(struct offer, country), 2, 2 },
	{ NAME("region"), TEXT, offsetof(struct offer, region), 0, 200 },
	{ NAME("rentable"), THREE, offsetof(struct offer, rentable), 0, 0 },
	{ NAME("rented"), THREE, offsetof(struct offer, rented), 0, 0 },
	{ NAME("verified"), THREE, offsetof(struct offer, verified), 0, 0 },
	{ NAME("secure"), THREE, offsetof(struct offer, secure), 0, 0 },
	{ NAME("machine"), TEXT, offsetof(struct offer, machine), 0, 200 },
	{ NAME("host"), TEXT, offsetof(struct offer, host), 0, 200 },
	{ NAME("own"), FLAG, offsetof(struct offer, own), 0, 0 },
};
#define NFIELDS (sizeof fields / sizeof *fields)
/* kind v market offer_id gpu_model gpu_count uusd_per_gpu_hour spot */
#define REQUIRED 0xcafu

/* The texts of one line, NUL-terminated. */
struct texts {
	char data[2048];
	size_t used;
};

static const char *hold(struct texts *t, const struct value *v)
{
	char *to = t->data + t->used;

	if (sizeof t->data - t->used <= v->len)
		return NULL;
	memcpy(to, v->text, v->len);
	to[v->len] = '\0';
	t->used += v->len + 1;
	return to;
}

static bool set_time(int64_t *to, struct texts *t, const struct value *v)
{
	const char *text = hold(t, v);

	if (text && clock_parse(text, "at", to) == 0)
		return true;
	err_clear();
	return false;
}

static bool set_field(struct offer *o, const struct field *f, const struct value *v,
	struct texts *t)
{
	char *to = (char *)o + f->offset;
	bool in_range = v->number >= f->min && v->number <= f->max;

	switch (f->kind) {
	case KIND:
		return v->type == 's' && v->len == 9 &&
			memcmp(v->text, "rnp.offer", 9) == 0;
	case VERSION:
		return v->type == 'i' && v->number == 1;
	case COUNTRY:
	case TEXT:
		if (v->type != 's' || (int64_t)v->len < f->min ||
			(int64_t)v->len > f->max)
			return false;
		return (*(const char **)(void *)to = hold(t, v)) != NULL;
	case TIME:
		return v->type == 's' && set_time((int64_t *)(void *)to, t, v);
	case NUMBER:
		*(int64_t *)(void *)to = v->number;
		return v->type == 'i' && in_range;
	case FLAG:
		*(bool *)(void *)to = v->number;
		return v->type == 'b';
	case THREE:
		*(int *)(void *)to = (int)v->number;
		return v->type == 'b';
	}
	return false;
}

/* Returns the field of a key: usually the next one in feed's order, else any. */
static size_t field_of(size_t next, const char *key, size_t len)
{
	for (size_t i = 0; i < NFIELDS; i++, next++) {
		const struct field *f;

		if (next >= NFIELDS)
			next = 0;
		f = &fields[next];
		if (len == f->len && json_plain_same(key, f->name, len))
			return next;
	}
	return NFIELDS;
}

bool offer_list_add_plain(struct offer_list *l, const char *line, size_t len)
{
	struct json_plain s = { line, line + len };
	struct texts t;
	struct offer o;
	uint32_t found = 0;
	size_t next = 0;

	t.used = 0;
	offer_init(&o);
	if (!json_plain_take(&s, '{'))
		return false;
	do {
		struct value v;
		const char *key;
		size_t n, i;

		if (!json_plain_string(&s, &key, &n) || !json_plain_take(&s, ':') ||
			!take_value(&s, &v))
			return false;
		i = field_of(next, key, n);
		if (i == NFIELDS || (found >> i & 1) ||
			!set_field(&o, &fields[i], &v, &t))
			return false;
		found |= UINT32_C(1) << i;
		next = i + 1;
	} while (json_plain_take(&s, ','));
	if (!json_plain_take(&s, '}') || s.at != s.end || (found & REQUIRED) != REQUIRED)
		return false;
	offer_list_add_found(l, &o);
	return true;
}

int offer_list_add_line(struct offer_list *l, const char *line, size_t len,
	const char *where)
{
	json_t *record;
	int rc;

	if (offer_list_add_plain(l, line, len))
		return 0;
	record = json_parse_object(line, len, where);
	rc = record ? offer_list_add_json(l, record, where) : -1;
	json_decref(record);
	return rc;
}

int offer_list_read(struct offer_list *l, char **files, int n)
{
	struct lines in;
	char *line;
	size_t len;
	int rc;

	lines_open(&in, files, n, JSON_RECORD_BYTES_MAX);
	while ((rc = lines_next(&in, &line, &len)) > 0) {
		const char *where;
		json_t *record;

		if (offer_list_add_plain(l, line, len))
			continue;
		where = lines_where(&in);
		record = json_parse_object(line, len, where);
		rc = record ? offer_list_add_json(l, record, where) : -1;
		json_decref(record);
		if (rc < 0)
			break;
	}
	lines_close(&in);
	return rc;
}
