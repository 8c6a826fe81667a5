/* evidence_plain.c - reads signed records from their text: fields by a table in canonical order, so
 * that the canonical form is what was read, written out in the table's order.
 *
 * long because each type of field has a reader of its own. */
#include "cmd/rnp-reward/evidence_plain.h"

#include <pthread.h>
#include <sodium.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cmd/rnp-reward/evidence_shape.h"
#include "common/base/base58.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/sha256.h"
#include "common/json/plain.h"
#include "kernels/sig/ed25519.h"

#define SPANS_MAX       1440 /* by the schema */
#define ENTRIES_MAX     64   /* of an object with any names */
#define HASHED_TOGETHER 32   /* records */
#define SIGNATURE_TEXT  (KEY_SIGNATURE_BYTES * 138 / 100 + 4) /* 'z', base58, NUL */

/* A value in the line, or in scratch->inner from `at` if text is NULL. */
struct piece {
	const char *text;
	size_t len, at;
	int64_t number;
};

/* Fields of a node of which usage needs a part. */
static const int with_facts[] = { RECORD_CPU, RECORD_GPUS, RECORD_NETWORK };

struct reader {
	struct json_plain scan;
	struct evidence_scratch *scratch;
	struct evidence_plain *to;
	struct buf *more;
	struct piece proof[PROOF_FIELDS];
	/* in scratch->facts, those of with_facts; len 0: it has none */
	struct piece facts[RECORD_FIELDS];
	uint64_t proof_seen;
	struct piece uuids[SHAPE_GPUS_MAX];
	int nuuids;
};

static bool take_value(struct reader *r, const struct shape_field *f, struct piece *out);

/* --- pieces ---------------------------------------------------------------------------------- */

/* Where a piece is; not for long, because scratch->inner grows. */
static const char *piece_text(const struct reader *r, const struct piece *p)
{
	return p->text ? p->text : r->scratch->inner.data + p->at;
}

/* A value whose canonical form is not its text is written to scratch->canon, where begun: everything
 * that its parts left in scratch->inner is no longer needed then, and the value takes its place. */
static struct buf *begin_inner(const struct reader *r)
{
	buf_reset(&r->scratch->canon);
	return &r->scratch->canon;
}

static void end_inner(const struct reader *r, struct piece *out, size_t at)
{
	struct buf *inner = &r->scratch->inner;

	inner->len = at;
	buf_add(inner, r->scratch->canon.data, r->scratch->canon.len);
	out->text = NULL;
	out->at = at;
	out->len = inner->len - at;
}

static inline bool is_text(const struct piece *p, const char *text)
{
	size_t len = strlen(text);

	return p->len == len + 2 && memcmp(p->text + 1, text, len) == 0;
}

/* Copies the text of a piece, as much as there is space for. */
static void copy_text(char *out, size_t size, const struct piece *p)
{
	size_t len = p->len - 2 < size ? p->len - 2 : size - 1;

	memcpy(out, p->text + 1, len);
	out[len] = '\0';
}

/* --- objects --------------------------------------------------------------------------------- */

/* Consumes a field's name and colon, if they are just these bytes. */
static inline bool take_name(struct json_plain *s, const struct shape_field *f)
{
	if ((size_t)(s->end - s->at) < f->len || !json_plain_same(s->at, f->key, f->len))
		return false;
	s->at += f->len;
	return true;
}

/* Consumes the name of any field, and its colon. Returns the field, or -1. */
static int find_name(struct json_plain *s, const struct shape *shape)
{
	const char *key;
	size_t len;

	return json_plain_string(s, &key, &len) && len && json_plain_take(s, ':') ?
		shape_find(shape, key, len) :
		-1;
}

/* Reads an object into the pieces of its fields; *seen has a bit for each that is there. */
static bool take_fields(struct reader *r, const struct shape *shape, struct piece *pieces,
	uint64_t *seen)
{
	signed char *after = r->scratch->after[shape->number];
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
		if (i < 0 || *seen & SHAPE_BIT(i) ||
			!take_value(r, &shape->fields[i], &pieces[i]))
			return false;
		*seen |= SHAPE_BIT(i);
	} while (json_plain_take(s, ','));
	return (*seen & shape->required) == shape->required && json_plain_take(s, '}');
}

/* Copies a few bytes, as most fields have, without a call: their ends, which may overlap. Returns the end. */
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

/* Appends the canonical form of the fields in seen to out, whose space is made at once: there are
 * some sixty fields and braces to a record. */
static void write_fields(struct buf *out, const struct reader *r,
	const struct shape *shape, const struct piece *pieces, uint64_t seen)
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
		const struct shape_field *f = &shape->fields[i];

		if (left != seen)
			*to++ = ',';
		to = put(to, f->key, f->len);
		to = put(to, piece_text(r, &pieces[i]), pieces[i].len);
	}
	*to++ = '}';
	out->len = (size_t)(to - out->data);
	*to = '\0';
}

static bool take_proven(struct reader *r, const struct piece *device)
{
	struct gather_item *item = &r->to->item;
	char uuid[132];

	if (item->nproven == GATHER_DEVICES_MAX)
		return false;
	copy_text(uuid, sizeof uuid, device);
	gather_device_key(uuid, &item->proven[item->nproven++]);
	return true;
}

/* Writes what usage needs of an object of a node to scratch->facts. */
static void keep_facts(struct reader *r, const struct shape_field *f,
	const struct piece *pieces, uint64_t seen)
{
	struct buf *facts = &r->scratch->facts;
	bool gpu = f == shape_record.fields[RECORD_GPUS].item;
	struct piece *kept =
		&r->facts[gpu ? RECORD_GPUS : (size_t)(f - shape_record.fields)];

	if (!kept->len)
		kept->at = facts->len;
	if (gpu)
		buf_addc(facts, kept->len ? ',' : '[');
	write_fields(facts, r, f->shape, pieces, seen & f->shape->facts);
	kept->len = facts->len - kept->at;
}

static bool take_object(struct reader *r, const struct shape_field *f, struct piece *out)
{
	struct piece pieces[SHAPE_FIELDS_MAX];
	size_t at = r->scratch->inner.len;
	uint64_t seen;

	if (!take_fields(r, f->shape, pieces, &seen) ||
		(f->type == SHAPE_PROVEN && !take_proven(r, &pieces[0])))
		return false;
	for (int i = 0; f->type == SHAPE_READINGS && i < GATHER_READINGS; i++)
		r->to->item.reading[i] = seen & SHAPE_BIT(i) ? pieces[i].number : -1;
	if (f->shape->facts)
		keep_facts(r, f, pieces, seen);
	write_fields(begin_inner(r), r, f->shape, pieces, seen);
	end_inner(r, out, at);
	return true;
}

struct entry {
	const char *key;
	size_t len;
	struct piece value;
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

static void write_entries(struct buf *out, const struct reader *r,
	const struct entry *list, int n)
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
static bool take_texts(struct reader *r, const struct shape_field *f, struct piece *out)
{
	struct json_plain *s = &r->scan;
	struct entry list[ENTRIES_MAX];
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
			known = f->shape && e->len ?
				shape_find(f->shape, e->key, e->len) :
				-1;
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
static void add_item(struct buf *inner, const struct piece *item)
{
	if (item->text)
		buf_add(inner, item->text, item->len);
}

static bool take_list(struct reader *r, const struct shape_field *f, struct piece *out)
{
	struct buf *inner = &r->scratch->inner;
	struct json_plain *s = &r->scan;
	struct piece item;
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

static bool take_gpus(struct reader *r, const struct shape_field *f, struct piece *out)
{
	if (!take_list(r, f, out))
		return false;
	if (r->facts[RECORD_GPUS].len) {
		buf_addc(&r->scratch->facts, ']');
		r->facts[RECORD_GPUS].len++;
	}
	for (int i = 0; i < r->nuuids; i++)
		for (int k = 0; k < i; k++)
			if (r->uuids[i].len == r->uuids[k].len &&
				memcmp(r->uuids[i].text, r->uuids[k].text,
					r->uuids[i].len) == 0)
				return false;
	return true;
}

/* Milliseconds, in pairs. Blanks would have to be taken out: such a list is refused. */
static bool take_spans(struct reader *r, struct piece *out)
{
	struct json_plain *s = &r->scan;
	struct span one;
	size_t n = 0;

	if (!json_plain_take(s, '['))
		return false;
	if (json_plain_take(s, ']'))
		return memchr(out->text, ' ', (size_t)(s->at - out->text)) == NULL &&
			memchr(out->text, '\t', (size_t)(s->at - out->text)) == NULL;
	do {
		if (++n > SPANS_MAX || !json_plain_take(s, '[') ||
			!json_plain_whole(s, &one.from_ms) || !json_plain_take(s, ',') ||
			!json_plain_whole(s, &one.to_ms) || !json_plain_take(s, ']'))
			return false;
		buf_add(r->more, &one, sizeof one);
	} while (json_plain_take(s, ','));
	r->to->item.nspans = n;
	return json_plain_take(s, ']') &&
		memchr(out->text, ' ', (size_t)(s->at - out->text)) == NULL &&
		memchr(out->text, '\t', (size_t)(s->at - out->text)) == NULL;
}

/* --- single values --------------------------------------------------------------------------- */

static bool take_text(struct reader *r, const struct shape_field *f)
{
	const char *text;
	size_t len;

	return json_plain_string(&r->scan, &text, &len) && len >= (size_t)f->min &&
		len <= (size_t)f->max;
}

static bool take_sha256(struct reader *r)
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

static bool take_time(struct reader *r, int64_t *ms)
{
	char text[CLOCK_TEXT_MAX];

	return json_plain_copy(&r->scan, text, sizeof text) &&
		clock_parse(text, "", ms) == 0;
}

static bool take_address(struct reader *r)
{
	unsigned char bytes[ADDRESS_BYTES];
	char text[ADDRESS_MAX];

	return json_plain_copy(&r->scan, text, sizeof text) &&
		address_parse(text, "", bytes) == 0;
}

static bool take_kind(struct reader *r, int64_t *number)
{
	enum gather_kind kind;
	char text[16];

	if (!json_plain_copy(&r->scan, text, sizeof text) ||
		!gather_item_kind(text, &kind))
		return false;
	*number = kind;
	return true;
}

static bool take_bool(struct reader *r, int64_t *number)
{
	*number = json_plain_word(&r->scan, "true");
	return *number || json_plain_word(&r->scan, "false");
}

static bool take_enum(struct reader *r, const char *const *words)
{
	const char *text;
	size_t len;

	if (!json_plain_string(&r->scan, &text, &len))
		return false;
	while (*words && !json_plain_is(text, len, *words))
		words++;
	return *words != NULL;
}

static bool take_uuid(struct reader *r, const struct shape_field *f)
{
	const char *text;
	size_t len;

	if (!json_plain_string(&r->scan, &text, &len) || !len || len > (size_t)f->max ||
		memchr(text, ' ', len) || (len >= 3 && strncasecmp(text, "cpu", 3) == 0))
		return false;
	r->uuids[r->nuuids++] = (struct piece){ .text = text, .len = len };
	return true;
}

static bool take_country(struct reader *r)
{
	const char *text;
	size_t len;

	return json_plain_string(&r->scan, &text, &len) && len == 2 && text[0] >= 'A' &&
		text[0] <= 'Z' && text[1] >= 'A' && text[1] <= 'Z';
}

/* Two hours as 17-22, each of two digits: those of one are left to JSON. */
static bool take_hours(struct reader *r)
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
static bool take_scalar(struct reader *r, const struct shape_field *f, struct piece *out)
{
	switch (f->type) {
	case SHAPE_TEXT:
		return take_text(r, f);
	case SHAPE_WHOLE:
		return json_plain_whole(&r->scan, &out->number) &&
			out->number >= f->min && out->number <= f->max;
	case SHAPE_BOOL:
		return take_bool(r, &out->number);
	case SHAPE_TIME:
		return take_time(r, &out->number);
	case SHAPE_SHA256:
		return take_sha256(r);
	case SHAPE_ADDRESS:
		return take_address(r);
	case SHAPE_KIND:
		return take_kind(r, &out->number);
	case SHAPE_ENUM:
		return take_enum(r, f->words);
	case SHAPE_UUID:
		return take_uuid(r, f);
	case SHAPE_COUNTRY:
		return take_country(r);
	case SHAPE_HOURS:
		return take_hours(r);
	case SHAPE_SPANS:
		return take_spans(r, out);
	case SHAPE_PROOF: /* hashed by itself */
		return take_fields(r, &shape_proof, r->proof, &r->proof_seen);
	default:
		return false;
	}
}

static bool take_value(struct reader *r, const struct shape_field *f, struct piece *out)
{
	json_plain_space(&r->scan);
	switch (f->type) {
	case SHAPE_OBJECT:
	case SHAPE_READINGS:
	case SHAPE_PROVEN:
		return take_object(r, f, out);
	case SHAPE_TEXTS:
		return take_texts(r, f, out);
	case SHAPE_LIST:
		return take_list(r, f, out);
	case SHAPE_GPUS:
		return take_gpus(r, f, out);
	default:
		out->text = r->scan.at;
		if (!take_scalar(r, f, out))
			return false;
		out->len = (size_t)(r->scan.at - out->text);
		return true;
	}
}

/* --- a record --------------------------------------------------------------------------------- */

/* Writes the verificationMethod that a key's proofs have. */
static void method_of(const unsigned char public_key[KEY_PUBLIC_BYTES],
	char method[KEY_METHOD_MAX])
{
	char did[KEY_DID_MAX];

	key_did(public_key, did);
	snprintf(method, KEY_METHOD_MAX, "%s#%s", did, did + sizeof KEY_DID_PREFIX - 1);
}

void evidence_key_init(struct evidence_key *k,
	const unsigned char public_key[KEY_PUBLIC_BYTES])
{
	memcpy(k->public_key, public_key, sizeof k->public_key);
	address_format(public_key, k->address);
	method_of(public_key, k->method);
	k->table = ed25519_table_new(public_key);
}

void evidence_key_release(struct evidence_key *k)
{
	free(k->table);
	k->table = NULL;
}

void evidence_scratch_release(struct evidence_scratch *s)
{
	buf_release(&s->canon);
	buf_release(&s->inner);
	buf_release(&s->facts);
	buf_release(&s->texts);
}

/* Checks all of the proof but the signature itself and its key. */
static bool check_proof(const struct reader *r)
{
	const struct piece *created = &r->proof[PROOF_CREATED];

	if (r->proof_seen != SHAPE_BIT(PROOF_FIELDS) - 1 ||
		!is_text(&r->proof[PROOF_SUITE], "eddsa-jcs-2022") ||
		!is_text(&r->proof[PROOF_PURPOSE], "assertionMethod") ||
		!is_text(&r->proof[PROOF_TYPE], "DataIntegrityProof"))
		return false;
	/* RFC 3339 allows these, XML Schema does not */
	for (size_t i = 0; i < created->len; i++)
		if (created->text[i] == 't' || created->text[i] == 'z' ||
			created->text[i] == ' ')
			return false;
	return true;
}

/* Finds the key that the proof and the signer name among those that are trusted. */
static bool find_key(struct reader *r, const struct evidence_key *keys, int nkeys,
	const struct piece *signer)
{
	for (int i = 0; i < nkeys; i++) {
		if (!is_text(&r->proof[PROOF_METHOD], keys[i].method))
			continue;
		r->to->public_key = keys[i].public_key;
		r->to->table = keys[i].table;
		return is_text(signer, keys[i].address);
	}
	return false;
}

/* A node speaks for itself. */
static bool own_key(struct reader *r)
{
	struct evidence_plain *p = r->to;
	char method[KEY_METHOD_MAX];

	if (address_parse(p->item.node, "", p->node_key) < 0)
		return false;
	method_of(p->node_key, method);
	p->public_key = p->node_key;
	p->table = NULL;
	return is_text(&r->proof[PROOF_METHOD], method);
}

static bool read_signature(const struct piece *value, unsigned char *out)
{
	char text[SIGNATURE_TEXT];

	if (value->len - 2 >= sizeof text)
		return false;
	copy_text(text, sizeof text, value);
	return text[0] == 'z' &&
		base58_decode(out, KEY_SIGNATURE_BYTES, text + 1) == KEY_SIGNATURE_BYTES;
}

/* Leaves the canonical form of fields to be hashed; returns its size. */
static size_t keep_text(const struct reader *r, const struct shape *shape,
	const struct piece *pieces, uint64_t seen)
{
	struct buf *texts = &r->scratch->texts;
	size_t before = texts->len;

	write_fields(texts, r, shape, pieces, seen);
	return texts->len - before;
}

static int64_t number_of(const struct piece *pieces, uint64_t seen, int i)
{
	return seen & SHAPE_BIT(i) ? pieces[i].number : -1;
}

static int digit_of(char hex)
{
	return (hex & 15) + 9 * (hex >> 6);
}

/* Reads the first n bytes of a hash that take_sha256 has taken. */
static void bytes_of(unsigned char *out, size_t n, const struct piece *hash)
{
	const char *hex = hash->text + 1;

	for (size_t i = 0; i < n; i++, hex += 2)
		out[i] = (unsigned char)(digit_of(hex[0]) << 4 | digit_of(hex[1]));
}

static void fill_item(struct gather_item *item, const struct piece *pieces, uint64_t seen)
{
	item->kind = (enum gather_kind)pieces[RECORD_KIND].number;
	copy_text(item->node, sizeof item->node, &pieces[RECORD_NODE]);
	switch (item->kind) {
	case GATHER_RECEIPT:
		item->gpu_s = number_of(pieces, seen, RECORD_GPU_SECONDS);
		item->earned_uusd = number_of(pieces, seen, RECORD_EARNED_UUSD);
		item->credits = number_of(pieces, seen, RECORD_CREDITS);
		break;
	case GATHER_VERDICT:
		item->at_ms = pieces[RECORD_AT].number;
		item->passed = pieces[RECORD_PASSED].number;
		item->score_ppm = number_of(pieces, seen, RECORD_SCORE_PPM);
		item->names_record = seen & SHAPE_BIT(RECORD_NODE_RECORD);
		item->names_challenge = seen & SHAPE_BIT(RECORD_CHALLENGE_SHA256);
		if (item->names_challenge)
			bytes_of(item->challenge.bytes, sizeof item->challenge.bytes,
				&pieces[RECORD_CHALLENGE_SHA256]);
		if (item->names_record)
			bytes_of(item->node_record, sizeof item->node_record,
				&pieces[RECORD_NODE_RECORD]);
		return;
	case GATHER_NODE:
		item->at_ms = pieces[RECORD_AT].number;
		return;
	case GATHER_UPTIME:
		break;
	}
	item->from_ms = pieces[RECORD_FROM].number;
	item->to_ms = pieces[RECORD_TO].number;
}

/* Whether a record of that kind has all the fields that it must have, and no others. */
static bool complete(enum gather_kind kind, uint64_t seen)
{
	const struct shape_kind *k = &shape_kinds[kind];

	return (seen & k->required) == k->required &&
		!(seen & ~(k->required | k->optional));
}

/* Appends gather_item_facts of a node; overwrites its pieces. */
static void write_facts(struct reader *r, struct piece *pieces, uint64_t seen)
{
	struct buf *facts = &r->scratch->facts;

	for (size_t i = 0; i < sizeof with_facts / sizeof *with_facts; i++) {
		int field = with_facts[i];
		const struct piece *kept = &r->facts[field];

		/* a list of no GPUs is what it was */
		if (kept->len)
			pieces[field] = (struct piece){ .text = facts->data + kept->at,
				.len = kept->len };
	}
	write_fields(r->more, r, &shape_record, pieces,
		seen &
			(SHAPE_BIT(RECORD_AT) | SHAPE_BIT(RECORD_CPU) |
				SHAPE_BIT(RECORD_GPUS) | SHAPE_BIT(RECORD_NETWORK) |
				SHAPE_BIT(RECORD_UNKNOWN) | SHAPE_BIT(RECORD_WALLET) |
				SHAPE_BIT(RECORD_WITHHELD)));
}

static bool read_record(struct reader *r, const struct evidence_key *keys, int nkeys)
{
	struct evidence_plain *p = r->to;
	struct piece pieces[RECORD_FIELDS];
	uint64_t seen;

	if (!take_fields(r, &shape_record, pieces, &seen))
		return false;
	json_plain_space(&r->scan);
	if (r->scan.at != r->scan.end || !(seen & SHAPE_BIT(RECORD_KIND)) ||
		!complete((enum gather_kind)pieces[RECORD_KIND].number, seen) ||
		!check_proof(r))
		return false;
	fill_item(&p->item, pieces, seen);
	if (!(p->item.kind == GATHER_NODE ?
			    own_key(r) :
			    find_key(r, keys, nkeys, &pieces[RECORD_SIGNER])) ||
		!read_signature(&r->proof[PROOF_VALUE], p->signature))
		return false;
	p->proof_bytes = keep_text(r, &shape_proof, r->proof,
		r->proof_seen & ~SHAPE_BIT(PROOF_VALUE));
	p->record_bytes = keep_text(r, &shape_record, pieces,
		seen & ~SHAPE_BIT(RECORD_PROOF));
	if (p->item.kind == GATHER_NODE)
		write_facts(r, pieces, seen);
	return true;
}

bool evidence_plain_read(struct evidence_plain *p, struct buf *more,
	struct evidence_scratch *scratch, const struct evidence_key *keys, int nkeys,
	const char *line, size_t len)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct reader r;
	bool plain;

	pthread_once(&once, shape_init);
	/* one by one: its lists are long, and a node alone has some of them */
	r.scan = (struct json_plain){ line, line + len };
	r.scratch = scratch;
	r.to = p;
	r.more = more;
	r.proof_seen = 0;
	r.nuuids = 0;
	for (size_t i = 0; i < sizeof with_facts / sizeof *with_facts; i++)
		r.facts[with_facts[i]].len = 0;
	memset(&p->item, 0, offsetof(struct gather_item, proven));
	buf_reset(&scratch->inner);
	buf_reset(&scratch->facts);
	plain = read_record(&r, keys, nkeys);
	if (!plain)
		err_clear();
	return plain;
}

void evidence_plain_hash(struct evidence_plain *p, size_t n,
	struct evidence_scratch *scratch)
{
	const char *text = buf_text(&scratch->texts);
	struct sha256_message m[2 * HASHED_TOGETHER];
	size_t some;

	for (size_t from = 0; from < n; from += some) {
		some = n - from < HASHED_TOGETHER ? n - from : HASHED_TOGETHER;
		for (size_t i = 0; i < some; i++) {
			struct evidence_plain *one = &p[from + i];

			m[2 * i] = (struct sha256_message){ text, one->proof_bytes,
				one->message };
			text += one->proof_bytes;
			m[2 * i + 1] = (struct sha256_message){ text, one->record_bytes,
				one->item.sha256 };
			text += one->record_bytes;
		}
		sha256_each(m, 2 * some);
		for (size_t i = 0; i < some; i++)
			memcpy(p[from + i].message + CANON_HASH_BYTES,
				p[from + i].item.sha256, CANON_HASH_BYTES);
	}
	buf_reset(&scratch->texts);
}
