/* fast.c - reads lines of JSON by tables of their fields; the canonical form of a record is what
 * was read, written out in the table's order. */
#include "common/json/fast.h"

#include <string.h>
#include <strings.h>

#include "common/base/clock.h"
#include "common/base/err.h"

static bool take_value(struct fast *r, const struct fast_field *f,
	struct fast_piece *out);

/* --- pieces ---------------------------------------------------------------------------------- */

/* Where a piece is; not for long, because scratch->inner grows. */
static const char *piece_text(const struct fast *r, const struct fast_piece *p)
{
	return p->text ? p->text : r->scratch->inner.data + p->at;
}

/* A value whose canonical form is not its text is written to scratch->canon, where begun:
 * everything that its parts left in scratch->inner is no longer needed then, and the value takes
 * its place. */
static struct buf *begin_inner(const struct fast *r)
{
	buf_reset(&r->scratch->canon);
	return &r->scratch->canon;
}

static void end_inner(const struct fast *r, struct fast_piece *out, size_t at)
{
	struct buf *inner = &r->scratch->inner;

	inner->len = at;
	buf_add(inner, r->scratch->canon.data, r->scratch->canon.len);
	out->text = NULL;
	out->at = at;
	out->len = inner->len - at;
}

/* --- names ------------------------------------------------------------------------------------ */

/* As in scripts/shapes. */
static unsigned guess_at(const char *key, size_t len)
{
	return ((unsigned)(unsigned char)key[0] +
		       2 * (unsigned)(unsigned char)key[len - 1] + 10 * (unsigned)len) %
		FAST_GUESSES;
}

/* Quotes and colon of a field are not part of its name. */
static bool is_field(const struct fast_field *f, const char *key, size_t len)
{
	return f->len == len + 3 && json_plain_same(f->key + 1, key, len);
}

/* Returns the field of that name, or -1. */
static int find(const struct fast_shape *shape, const char *key, size_t len)
{
	/* two names of a shape may have one place: the other is then searched for */
	int guess = shape->guess && len ? shape->guess[guess_at(key, len)] - 1 : -1;

	if (guess >= 0 && is_field(&shape->fields[guess], key, len))
		return guess;
	for (int i = 0; i < shape->n; i++)
		if (is_field(&shape->fields[i], key, len))
			return i;
	return -1;
}

int fast_field(const struct fast_shape *shape, const char *name)
{
	int i = find(shape, name, strlen(name));

	if (i < 0)
		bug("'%s' is in no schema of its table", name);
	return i;
}

uint64_t fast_bits(const struct fast_shape *shape, const char *const *names)
{
	uint64_t bits = 0;

	for (; *names; names++)
		bits |= FAST_BIT(fast_field(shape, *names));
	return bits;
}

/* --- objects --------------------------------------------------------------------------------- */

/* Consumes a field's name and colon, if they are just these bytes. */
static inline bool take_name(struct json_plain *s, const struct fast_field *f)
{
	if ((size_t)(s->end - s->at) < f->len || !json_plain_same(s->at, f->key, f->len))
		return false;
	s->at += f->len;
	return true;
}

/* Consumes the name of any field, and its colon. Returns the field, or -1. */
static int find_name(struct json_plain *s, const struct fast_shape *shape)
{
	const char *key;
	size_t len;

	return json_plain_string(s, &key, &len) && json_plain_take(s, ':') ?
		find(shape, key, len) :
		-1;
}

bool fast_object(struct fast *r, const struct fast_shape *shape,
	struct fast_piece *pieces, uint64_t *seen)
{
	signed char *after = r->order->after[shape->number];
	struct json_plain *s = &r->scan;
	int i = -1;

	*seen = 0;
	if (!json_plain_take(s, '{'))
		return false;
	if (json_plain_take(s, '}'))
		return !shape->required;
	do {
		/* who writes many records writes their fields in one order */
		signed char *next = &after[i + 1];

		i = *next - 1;
		if (i < 0 || !take_name(s, &shape->fields[i])) {
			i = find_name(s, shape);
			*next = (signed char)(i + 1);
		}
		if (i < 0 || *seen & FAST_BIT(i) ||
			!take_value(r, &shape->fields[i], &pieces[i]))
			return false;
		*seen |= FAST_BIT(i);
	} while (json_plain_take(s, ','));
	return (*seen & shape->required) == shape->required && json_plain_take(s, '}');
}

/* Copies a few bytes, as most fields have, without a call: their ends, which may overlap.
 * Returns the end. */
static inline char *put(char *to, const char *from, size_t n)
{
	uint64_t head, tail;

	if (n < 8 || n > 64) {
		memcpy(to, from, n);
		return to + n;
	}
	memcpy(&tail, from + (n - 8), 8);
	for (size_t i = 0; i + 8 < n; i += 8) {
		memcpy(&head, from + i, 8);
		memcpy(to + i, &head, 8);
	}
	memcpy(to + (n - 8), &tail, 8);
	return to + n;
}

/* The space is made at once: there are some sixty fields and braces to a record. */
void fast_write(struct buf *out, const struct fast *r, const struct fast_shape *shape,
	const struct fast_piece *pieces, uint64_t seen)
{
	size_t bytes = 2;
	char *to;

	for (uint64_t left = seen; left; left &= left - 1) {
		int i = __builtin_ctzll(left);

		bytes += 1 + shape->fields[i].len + pieces[i].len;
	}
	to = buf_reserve(out, bytes);
	*to++ = '{';
	for (uint64_t left = seen; left; left &= left - 1) {
		int i = __builtin_ctzll(left);
		const struct fast_field *f = &shape->fields[i];

		if (left != seen)
			*to++ = ',';
		to = put(to, f->key, f->len);
		to = put(to, piece_text(r, &pieces[i]), pieces[i].len);
	}
	*to++ = '}';
	out->len = (size_t)(to - out->data);
	*to = '\0';
}

static bool take_object(struct fast *r, const struct fast_field *f,
	struct fast_piece *out)
{
	struct fast_piece pieces[FAST_FIELDS_MAX];
	size_t at = r->scratch->inner.len;
	uint64_t seen;

	if (!fast_object(r, f->shape, pieces, &seen) ||
		(r->object && !r->object(r, f->shape, pieces, seen)))
		return false;
	fast_write(begin_inner(r), r, f->shape, pieces, seen);
	end_inner(r, out, at);
	return true;
}

struct entry {
	const char *key;
	size_t len;
	struct fast_piece value;
};

static int by_key(const struct entry *a, const struct entry *b)
{
	size_t n = a->len < b->len ? a->len : b->len;
	int order = memcmp(a->key, b->key, n);

	return order ? order : (a->len > b->len) - (a->len < b->len);
}

/* Inserts a new last entry where it belongs. Returns false if its key is there already. */
static bool insert(struct entry *list, int n)
{
	struct entry e = list[n];
	int order = 1;

	while (n && (order = by_key(&list[n - 1], &e)) > 0) {
		list[n] = list[n - 1];
		n--;
	}
	list[n] = e;
	return !n || order != 0;
}

static void write_entries(struct buf *out, const struct fast *r, const struct entry *list,
	int n)
{
	buf_addc(out, '{');
	for (int i = 0; i < n; i++) {
		buf_adds(out, i ? ",\"" : "\"");
		buf_add(out, list[i].key, list[i].len);
		buf_adds(out, "\":");
		buf_add(out, piece_text(r, &list[i].value), list[i].value.len);
	}
	buf_addc(out, '}');
}

/* Reads an object that may have any names. */
static bool take_map(struct fast *r, const struct fast_field *f, struct fast_piece *out)
{
	struct json_plain *s = &r->scan;
	struct entry list[FAST_ENTRIES_MAX];
	size_t at = r->scratch->inner.len;
	int n = 0;

	if (!json_plain_take(s, '{'))
		return false;
	if (!json_plain_take(s, '}')) {
		do {
			struct entry *e = &list[n];
			int known;

			if (n == f->max || !json_plain_string(s, &e->key, &e->len) ||
				!json_plain_take(s, ':'))
				return false;
			known = f->shape ? find(f->shape, e->key, e->len) : -1;
			if (!take_value(r, known < 0 ? f->item : &f->shape->fields[known],
				    &e->value) ||
				!insert(list, n))
				return false;
			n++;
		} while (json_plain_take(s, ','));
		if (!json_plain_take(s, '}'))
			return false;
	}
	write_entries(begin_inner(r), r, list, n);
	end_inner(r, out, at);
	return true;
}

/* --- lists ----------------------------------------------------------------------------------- */

/* Of an item that has a form of its own, that stands last in scratch->inner. */
static void add_item(struct buf *inner, const struct fast_piece *item)
{
	if (item->text)
		buf_add(inner, item->text, item->len);
}

static bool take_list(struct fast *r, const struct fast_field *f, struct fast_piece *out)
{
	struct buf *inner = &r->scratch->inner;
	struct json_plain *s = &r->scan;
	struct fast_piece item;
	int64_t n = 0;

	out->at = inner->len;
	if (!json_plain_take(s, '['))
		return false;
	buf_addc(inner, '[');
	if (!json_plain_take(s, ']')) {
		do {
			if (n)
				buf_addc(inner, ',');
			if (n++ == f->max || !take_value(r, f->item, &item))
				return false;
			add_item(inner, &item);
		} while (json_plain_take(s, ','));
		if (!json_plain_take(s, ']'))
			return false;
	}
	buf_addc(inner, ']');
	out->text = NULL;
	out->len = inner->len - out->at;
	return true;
}

static bool take_distinct(struct fast *r, const struct fast_field *f,
	struct fast_piece *out)
{
	struct fast_piece uuids[FAST_UUIDS_MAX];
	bool taken;

	r->uuids = uuids;
	r->nuuids = 0;
	taken = take_list(r, f, out);
	r->uuids = NULL;
	for (int i = 0; taken && i < r->nuuids; i++)
		for (int k = 0; k < i; k++)
			if (uuids[i].len == uuids[k].len &&
				memcmp(uuids[i].text, uuids[k].text, uuids[i].len) == 0)
				return false;
	return taken;
}

static bool has_blanks(const char *text, const char *end)
{
	size_t len = (size_t)(end - text);

	return memchr(text, ' ', len) || memchr(text, '\t', len);
}

/* Blanks would have to be taken out: such a list is refused. */
static bool take_pairs(struct fast *r, int64_t max)
{
	struct json_plain *s = &r->scan;
	const char *start = s->at;
	int64_t pair[2], n = 0;

	if (!r->pairs || !json_plain_take(s, '['))
		return false;
	if (json_plain_take(s, ']'))
		return !has_blanks(start, s->at);
	do {
		if (++n > max || !json_plain_take(s, '[') ||
			!json_plain_whole(s, &pair[0]) || !json_plain_take(s, ',') ||
			!json_plain_whole(s, &pair[1]) || !json_plain_take(s, ']'))
			return false;
		buf_add(r->pairs, pair, sizeof pair);
	} while (json_plain_take(s, ','));
	r->npairs += (size_t)n;
	return json_plain_take(s, ']') && !has_blanks(start, s->at);
}

/* --- single values --------------------------------------------------------------------------- */

static bool take_text(struct fast *r, const struct fast_field *f)
{
	const char *text;
	size_t len;

	return json_plain_string(&r->scan, &text, &len) && len >= (size_t)f->min &&
		len <= (size_t)f->max;
}

static bool take_sha256(struct fast *r)
{
	const char *text;
	size_t len;

	unsigned char other = 0;

	if (!json_plain_string(&r->scan, &text, &len) || len != 64)
		return false;
	/* without a branch: the compiler makes vectors of it, and digits are random */
	for (int i = 0; i < 64; i++) {
		unsigned char c = (unsigned char)text[i];

		other |= (unsigned char)((unsigned char)(c - '0') > 9) &
			(unsigned char)((unsigned char)(c - 'a') > 5);
	}
	return !other;
}

static bool take_time(struct fast *r, int64_t *ms)
{
	char text[CLOCK_TEXT_MAX];

	return json_plain_copy(&r->scan, text, sizeof text) &&
		clock_parse(text, "", ms) == 0;
}

/* The same parties come again in line after line. */
static bool take_address(struct fast *r, int64_t *number)
{
	struct fast_address *a = &r->order->addresses[r->naddresses];
	const char *text;
	size_t len;

	if (r->naddresses == FAST_ADDRESSES || !json_plain_string(&r->scan, &text, &len))
		return false;
	*number = r->naddresses++;
	if (len && len == a->len && memcmp(text, a->text, len) == 0)
		return true;
	a->len = 0;
	if (len >= sizeof a->text)
		return false;
	memcpy(a->text, text, len);
	a->text[len] = '\0';
	if (address_parse(a->text, "", a->bytes) < 0)
		return false;
	a->len = len;
	return true;
}

static bool take_bool(struct fast *r, int64_t *number)
{
	*number = json_plain_word(&r->scan, "true");
	return *number || json_plain_word(&r->scan, "false");
}

static bool take_enum(struct fast *r, const char *const *words, int64_t *number)
{
	const char *text;
	size_t len;

	if (!json_plain_string(&r->scan, &text, &len))
		return false;
	for (*number = 0; words[*number]; ++*number)
		if (json_plain_is(text, len, words[*number]))
			return true;
	return false;
}

static bool take_uuid(struct fast *r, const struct fast_field *f)
{
	const char *text;
	size_t len;

	if (!json_plain_string(&r->scan, &text, &len) || len < (size_t)f->min ||
		len > (size_t)f->max || memchr(text, ' ', len) ||
		(len >= 3 && strncasecmp(text, "cpu", 3) == 0))
		return false;
	if (!r->uuids)
		return true;
	if (r->nuuids == FAST_UUIDS_MAX)
		return false;
	r->uuids[r->nuuids++] = (struct fast_piece){ .text = text, .len = len };
	return true;
}

static bool take_country(struct fast *r)
{
	const char *text;
	size_t len;

	return json_plain_string(&r->scan, &text, &len) && len == 2 && text[0] >= 'A' &&
		text[0] <= 'Z' && text[1] >= 'A' && text[1] <= 'Z';
}

/* Two hours as 17-22, each of two digits: those of one are left to JSON. */
static bool take_hours(struct fast *r)
{
	char text[8];

	if (!json_plain_copy(&r->scan, text, sizeof text) || strlen(text) != 5 ||
		text[2] != '-')
		return false;
	for (int i = 0; i < 5; i++)
		if (i != 2 && (text[i] < '0' || text[i] > '9'))
			return false;
	return memcmp(text, "24", 2) < 0 && memcmp(text + 3, "24", 2) <= 0;
}

/* A value whose canonical form is its text. */
static bool take_scalar(struct fast *r, const struct fast_field *f,
	struct fast_piece *out)
{
	switch (f->type) {
	case FAST_TEXT:
		return take_text(r, f);
	case FAST_WHOLE:
		return json_plain_whole(&r->scan, &out->number) &&
			out->number >= f->min && out->number <= f->max;
	case FAST_BOOL:
		return take_bool(r, &out->number);
	case FAST_TIME:
		return take_time(r, &out->number);
	case FAST_SHA256:
		return take_sha256(r);
	case FAST_ADDRESS:
		return take_address(r, &out->number);
	case FAST_ENUM:
		return take_enum(r, f->words, &out->number);
	case FAST_UUID:
		return take_uuid(r, f);
	case FAST_COUNTRY:
		return take_country(r);
	case FAST_HOURS:
		return take_hours(r);
	case FAST_PAIRS:
		return take_pairs(r, f->max);
	case FAST_OTHER:
		return r->other && r->other(r, f);
	default:
		return false;
	}
}

static bool take_value(struct fast *r, const struct fast_field *f, struct fast_piece *out)
{
	json_plain_space(&r->scan);
	if (f->type < FAST_OBJECT) {
		out->text = r->scan.at;
		if (!take_scalar(r, f, out))
			return false;
		out->len = (size_t)(r->scan.at - out->text);
		return true;
	}
	if (!r->scratch)
		return false;
	switch (f->type) {
	case FAST_OBJECT:
		return take_object(r, f, out);
	case FAST_MAP:
		return take_map(r, f, out);
	case FAST_DISTINCT:
		return take_distinct(r, f, out);
	default:
		return take_list(r, f, out);
	}
}

bool fast_read(struct fast *r, const struct fast_shape *shape, struct fast_piece *pieces,
	uint64_t *seen)
{
	if (r->scratch)
		buf_reset(&r->scratch->inner);
	if (fast_object(r, shape, pieces, seen)) {
		json_plain_space(&r->scan);
		if (r->scan.at == r->scan.end)
			return true;
	}
	err_clear();
	return false;
}
