/* evidence_plain.c - reads signed records from their text: fields by a table in canonical order, so
 * that the canonical form is what was read, written out in the table's order.
 *
 * long because three schemas stand in it, with a reader for each type of field. */
#include "cmd/rnp-reward/evidence_plain.h"

#include <pthread.h>
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/base58.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/sha256.h"
#include "common/json/json.h"
#include "common/json/plain.h"
#include "kernels/sig/ed25519.h"

#define SPANS_MAX      1440 /* by the schema, as are the other bounds */
#define CHECKS_MAX     4096
#define UNKNOWN_MAX    16                                    /* more are left to JSON */
#define SIGNATURE_TEXT (KEY_SIGNATURE_BYTES * 138 / 100 + 4) /* 'z', base58, NUL */

enum type {
	TEXT,    /* of min to max characters */
	WHOLE,   /* number of min to max */
	BOOL,    /* number: 1 or 0 */
	TIME,    /* number: ms */
	SHA256,  /* lower-case hex */
	ADDRESS, /* base58 */
	KIND,    /* number: enum gather_kind */
	SPANS,
	PROVEN,
	CHECKS,
	READINGS,
	UNKNOWN,
	PROOF
};

struct field {
	const char *key; /* as it is written, with quotes and colon */
	size_t len;      /* of key */
	enum type type;
	int64_t min, max;
};

#define KEY(name) "\"" name "\":", sizeof("\"" name "\":") - 1
#define COUNT     WHOLE, 0, JSON_SAFE_INTEGER_MAX

#define GUESSES 128 /* a power of 2 */

/* Fields of an object, in canonical order (all are ASCII, so UTF-16 order is that of bytes). */
struct shape {
	const struct field *fields;
	int n;
	signed char *guess; /* by guess_at: the field that a key may be; -1: none */
};

/* A value in the line, or in scratch->inner from `at` if text is NULL. */
struct piece {
	const char *text;
	size_t len, at;
	int64_t number;
};

struct reader {
	struct json_plain scan;
	struct evidence_scratch *scratch;
	struct evidence_plain *to;
	struct buf *spans;
	struct piece proof[8];
	uint64_t proof_seen;
};

/* --- the fields ------------------------------------------------------------------------------ */

enum {
	AT,
	BEATS,
	BEATS_SHA256,
	CHALLENGE_SHA256,
	CHECK_LIST,
	CREDITS,
	EARNED_UUSD,
	ELAPSED_NS,
	FROM,
	GPU_SECONDS,
	JOB,
	JOINT,
	KIND_NAME,
	NODE,
	NODE_RECORD,
	NONCE,
	PASSED,
	POLICY,
	PROOF_OBJECT,
	PROVEN_LIST,
	PROVES,
	READINGS_OBJECT,
	ROOTS_NS,
	ROUNDTRIP_NS,
	SCORE_PPM,
	SIGNER,
	SPAN_LIST,
	TO,
	TOKENS,
	UNKNOWN_OBJECT,
	UP_MS,
	VERSION,
	FIELDS
};

/* Those of all kinds: a name means the same type in each. The signer is compared with the key. */
static const struct field fields[FIELDS] = {
	[AT] = { KEY("at"), TIME, 0, 0 },
	[BEATS] = { KEY("beats"), COUNT },
	[BEATS_SHA256] = { KEY("beats_sha256"), SHA256, 0, 0 },
	[CHALLENGE_SHA256] = { KEY("challenge_sha256"), SHA256, 0, 0 },
	[CHECK_LIST] = { KEY("checks"), CHECKS, 0, 0 },
	[CREDITS] = { KEY("credits"), COUNT },
	[EARNED_UUSD] = { KEY("earned_uusd"), COUNT },
	[ELAPSED_NS] = { KEY("elapsed_ns"), COUNT },
	[FROM] = { KEY("from"), TIME, 0, 0 },
	[GPU_SECONDS] = { KEY("gpu_seconds"), COUNT },
	[JOB] = { KEY("job"), TEXT, 1, 200 },
	[JOINT] = { KEY("joint"), SHA256, 0, 0 },
	[KIND_NAME] = { KEY("kind"), KIND, 0, 0 },
	[NODE] = { KEY("node"), ADDRESS, 0, 0 },
	[NODE_RECORD] = { KEY("node_record"), SHA256, 0, 0 },
	[NONCE] = { KEY("nonce"), SHA256, 0, 0 },
	[PASSED] = { KEY("passed"), BOOL, 0, 0 },
	[POLICY] = { KEY("policy"), TEXT, 0, 200 },
	[PROOF_OBJECT] = { KEY("proof"), PROOF, 0, 0 },
	[PROVEN_LIST] = { KEY("proven"), PROVEN, 0, 0 },
	[PROVES] = { KEY("proves"), TEXT, 0, 1000 },
	[READINGS_OBJECT] = { KEY("readings"), READINGS, 0, 0 },
	[ROOTS_NS] = { KEY("roots_ns"), COUNT },
	[ROUNDTRIP_NS] = { KEY("roundtrip_ns"), COUNT },
	[SCORE_PPM] = { KEY("score_ppm"), WHOLE, 0, 1000000000000000 },
	[SIGNER] = { KEY("signer"), TEXT, 0, KEY_ADDRESS_MAX },
	[SPAN_LIST] = { KEY("spans"), SPANS, 0, 0 },
	[TO] = { KEY("to"), TIME, 0, 0 },
	[TOKENS] = { KEY("tokens"), COUNT },
	[UNKNOWN_OBJECT] = { KEY("unknown"), UNKNOWN, 0, 0 },
	[UP_MS] = { KEY("up_ms"), WHOLE, 0, 86400000 },
	[VERSION] = { KEY("v"), WHOLE, 1, 1 },
};

static const struct field check_fields[] = { { KEY("check"), TEXT, 1, 100 },
	{ KEY("device"), TEXT, 0, 200 }, { KEY("passed"), BOOL, 0, 0 },
	{ KEY("reason"), TEXT, 0, 1000 } };

static const struct field proven_fields[] = { { KEY("device"), TEXT, 1, 128 },
	{ KEY("memory_bytes"), WHOLE, 1, JSON_SAFE_INTEGER_MAX } };

/* in the order of gather_readings */
static const struct field reading_fields[GATHER_READINGS] = { { KEY("bandwidth"), COUNT },
	{ KEY("clock"), COUNT }, { KEY("memory"), COUNT }, { KEY("teraflops"), COUNT } };

enum { CREATED, SUITE, PURPOSE, VALUE, PROOF_TYPE, METHOD, PROOF_FIELDS };

static const struct field proof_fields[PROOF_FIELDS] = {
	[CREATED] = { KEY("created"), TIME, 0, 0 },
	[SUITE] = { KEY("cryptosuite"), TEXT, 0, 100 },
	[PURPOSE] = { KEY("proofPurpose"), TEXT, 0, 100 },
	[VALUE] = { KEY("proofValue"), TEXT, 0, 100 },
	[PROOF_TYPE] = { KEY("type"), TEXT, 0, 100 },
	[METHOD] = { KEY("verificationMethod"), TEXT, 0, KEY_METHOD_MAX },
};

static signed char guesses[5][GUESSES];

#define SHAPE(f, i)                                        \
	{                                                  \
		f, (int)(sizeof f / sizeof *f), guesses[i] \
	}

static const struct shape record_shape = SHAPE(fields, 0),
			  check_shape = SHAPE(check_fields, 1),
			  proven_shape = SHAPE(proven_fields, 2),
			  reading_shape = SHAPE(reading_fields, 3),
			  proof_shape = SHAPE(proof_fields, 4);

#define BIT(i) (UINT64_C(1) << (i))

/* What a record of a kind must hold, and what else it may hold. That of a signer is not required
 * by every schema, but by this reader. */
#define BITS_ALL \
	(BIT(KIND_NAME) | BIT(VERSION) | BIT(NODE) | BIT(SIGNER) | BIT(PROOF_OBJECT))

static const struct {
	uint64_t required, optional;
} known[] = {
	[GATHER_UPTIME] = { BITS_ALL | BIT(AT) | BIT(FROM) | BIT(TO) | BIT(BEATS) |
			BIT(UP_MS) | BIT(SPAN_LIST),
		BIT(BEATS_SHA256) },
	[GATHER_VERDICT] = { BITS_ALL | BIT(AT) | BIT(PASSED) | BIT(CHECK_LIST) |
			BIT(READINGS_OBJECT),
		BIT(CHALLENGE_SHA256) | BIT(NONCE) | BIT(NODE_RECORD) | BIT(PROVEN_LIST) |
			BIT(JOINT) | BIT(ELAPSED_NS) | BIT(ROOTS_NS) | BIT(ROUNDTRIP_NS) |
			BIT(PROVES) | BIT(POLICY) | BIT(SCORE_PPM) |
			BIT(UNKNOWN_OBJECT) },
	[GATHER_RECEIPT] = { BITS_ALL | BIT(JOB) | BIT(FROM) | BIT(TO),
		BIT(AT) | BIT(GPU_SECONDS) | BIT(TOKENS) | BIT(EARNED_UUSD) |
			BIT(CREDITS) },
};

/* --- objects --------------------------------------------------------------------------------- */

static bool take_value(struct reader *r, const struct field *f, struct piece *out);

static unsigned guess_at(const char *key, size_t len)
{
	return ((unsigned)(unsigned char)key[0] +
		       2 * (unsigned)(unsigned char)key[len - 1] + 10 * (unsigned)len) %
		GUESSES;
}

/* Quotes and colon of a field are not part of its name. */
static bool is_field(const struct field *f, const char *key, size_t len)
{
	return f->len == len + 3 && json_plain_same(f->key + 1, key, len);
}

static void fill_guesses(void)
{
	const struct shape *const shapes[] = { &record_shape, &check_shape, &proven_shape,
		&reading_shape, &proof_shape };

	memset(guesses, -1, sizeof guesses);
	for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
		for (int i = 0; i < shapes[k]->n; i++) {
			const struct field *f = &shapes[k]->fields[i];

			shapes[k]->guess[guess_at(f->key + 1, f->len - 3)] = (signed char)
				i;
		}
}

/* Two names of a shape may have one place: the other is then searched for. */
static int find(const struct shape *shape, const char *key, size_t len)
{
	int guess = shape->guess[guess_at(key, len)];

	if (guess >= 0 && is_field(&shape->fields[guess], key, len))
		return guess;
	for (int i = 0; i < shape->n; i++)
		if (shape->fields[i].key[1] == key[0] &&
			is_field(&shape->fields[i], key, len))
			return i;
	return -1;
}

/* Reads an object into the pieces of its fields; *seen has a bit for each that is there. */
static bool take_object(struct reader *r, const struct shape *shape, struct piece *pieces,
	uint64_t *seen)
{
	struct json_plain *s = &r->scan;

	*seen = 0;
	if (!json_plain_take(s, '{'))
		return false;
	if (json_plain_take(s, '}'))
		return true;
	do {
		const char *key;
		size_t len;
		int i;

		if (!json_plain_string(s, &key, &len) || !len || !json_plain_take(s, ':'))
			return false;
		i = find(shape, key, len);
		if (i < 0 || *seen & BIT(i) ||
			!take_value(r, &shape->fields[i], &pieces[i]))
			return false;
		*seen |= BIT(i);
	} while (json_plain_take(s, ','));
	return json_plain_take(s, '}');
}

/* Appends the canonical form of the fields in seen to out. */
static void write_object(struct buf *out, const struct reader *r,
	const struct shape *shape, const struct piece *pieces, uint64_t seen)
{
	const char *inner = buf_text(&r->scratch->inner);
	char before = '{';

	if (!seen)
		buf_addc(out, '{');
	for (int i = 0; i < shape->n; i++) {
		const struct piece *p = &pieces[i];

		if (!(seen & BIT(i)))
			continue;
		buf_addc(out, before);
		buf_add(out, shape->fields[i].key, shape->fields[i].len);
		buf_add(out, p->text ? p->text : inner + p->at, p->len);
		before = ',';
	}
	buf_addc(out, '}');
}

/* The value goes to scratch->inner: what is added there until end_inner. */
static void begin_inner(const struct reader *r, struct piece *out)
{
	out->at = r->scratch->inner.len;
}

static bool end_inner(const struct reader *r, struct piece *out)
{
	out->text = NULL;
	out->len = r->scratch->inner.len - out->at;
	return true;
}

static bool is_text(const struct piece *p, const char *text)
{
	size_t len = strlen(text);

	return p->len == len + 2 && memcmp(p->text + 1, text, len) == 0;
}

/* Copies the text of a piece, which is no longer than size - 1. */
static void copy_text(char *out, size_t size, const struct piece *p)
{
	snprintf(out, size, "%.*s", (int)(p->len - 2), p->text + 1);
}

/* --- values within ---------------------------------------------------------------------------- */

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
		buf_add(r->spans, &one, sizeof one);
	} while (json_plain_take(s, ','));
	r->to->item.nspans = n;
	return json_plain_take(s, ']') &&
		memchr(out->text, ' ', (size_t)(s->at - out->text)) == NULL &&
		memchr(out->text, '\t', (size_t)(s->at - out->text)) == NULL;
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

/* Reads a list of flat objects, each with the required fields. */
static bool take_list(struct reader *r, enum type type, struct piece *out)
{
	const struct shape *shape = type == PROVEN ? &proven_shape : &check_shape;
	const uint64_t required = type == PROVEN ? BIT(0) : BIT(0) | BIT(2);
	struct buf *inner = &r->scratch->inner;
	struct json_plain *s = &r->scan;
	struct piece pieces[4];
	uint64_t seen;
	size_t n = 0;

	begin_inner(r, out);
	if (!json_plain_take(s, '['))
		return false;
	buf_addc(inner, '[');
	if (!json_plain_take(s, ']')) {
		do {
			if (n++ == CHECKS_MAX || !take_object(r, shape, pieces, &seen) ||
				(seen & required) != required ||
				(type == PROVEN && !take_proven(r, &pieces[0])))
				return false;
			if (n > 1)
				buf_addc(inner, ',');
			write_object(inner, r, shape, pieces, seen);
		} while (json_plain_take(s, ','));
		if (!json_plain_take(s, ']'))
			return false;
	}
	buf_addc(inner, ']');
	return end_inner(r, out);
}

static bool take_readings(struct reader *r, struct piece *out)
{
	struct piece pieces[GATHER_READINGS];
	uint64_t seen;

	begin_inner(r, out);
	if (!take_object(r, &reading_shape, pieces, &seen))
		return false;
	for (int i = 0; i < GATHER_READINGS; i++)
		r->to->item.reading[i] = seen & BIT(i) ? pieces[i].number : -1;
	write_object(&r->scratch->inner, r, &reading_shape, pieces, seen);
	return end_inner(r, out);
}

struct entry {
	const char *key, *value;
	size_t key_len, value_len;
};

static int by_key(const struct entry *a, const struct entry *b)
{
	size_t n = a->key_len < b->key_len ? a->key_len : b->key_len;
	int order = memcmp(a->key, b->key, n);

	return order ? order : (a->key_len > b->key_len) - (a->key_len < b->key_len);
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

/* Reads an object of texts with any keys: why something is not known. */
static bool take_unknown(struct reader *r, struct piece *out)
{
	struct buf *inner = &r->scratch->inner;
	struct json_plain *s = &r->scan;
	struct entry list[UNKNOWN_MAX];
	int n = 0;

	begin_inner(r, out);
	if (!json_plain_take(s, '{'))
		return false;
	if (!json_plain_take(s, '}')) {
		do {
			struct entry *e = &list[n];

			if (n == UNKNOWN_MAX ||
				!json_plain_string(s, &e->key, &e->key_len) ||
				!json_plain_take(s, ':') ||
				!json_plain_string(s, &e->value, &e->value_len) ||
				!insert(list, n))
				return false;
			n++;
		} while (json_plain_take(s, ','));
		if (!json_plain_take(s, '}'))
			return false;
	}
	buf_addc(inner, '{');
	for (int i = 0; i < n; i++) {
		buf_adds(inner, i ? ",\"" : "\"");
		buf_add(inner, list[i].key, list[i].key_len);
		buf_adds(inner, "\":\"");
		buf_add(inner, list[i].value, list[i].value_len);
		buf_addc(inner, '"');
	}
	buf_addc(inner, '}');
	return end_inner(r, out);
}

static bool take_text(struct reader *r, const struct field *f)
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

	if (!json_plain_string(&r->scan, &text, &len) || len != 64)
		return false;
	for (size_t i = 0; i < len; i++)
		if (!((text[i] >= '0' && text[i] <= '9') ||
			    (text[i] >= 'a' && text[i] <= 'f')))
			return false;
	return true;
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
		!gather_item_kind(text, &kind) || kind == GATHER_NODE)
		return false;
	*number = kind;
	return true;
}

static bool take_bool(struct reader *r, int64_t *number)
{
	*number = json_plain_word(&r->scan, "true");
	return *number || json_plain_word(&r->scan, "false");
}

static bool take_value(struct reader *r, const struct field *f, struct piece *out)
{
	bool ok = false;

	json_plain_space(&r->scan);
	out->text = r->scan.at;
	switch (f->type) {
	case TEXT:
		ok = take_text(r, f);
		break;
	case WHOLE:
		ok = json_plain_whole(&r->scan, &out->number) && out->number >= f->min &&
			out->number <= f->max;
		break;
	case BOOL:
		ok = take_bool(r, &out->number);
		break;
	case TIME:
		ok = take_time(r, &out->number);
		break;
	case SHA256:
		ok = take_sha256(r);
		break;
	case ADDRESS:
		ok = take_address(r);
		break;
	case KIND:
		ok = take_kind(r, &out->number);
		break;
	case SPANS:
		ok = take_spans(r, out);
		break;
	case PROVEN:
	case CHECKS:
		return take_list(r, f->type, out);
	case READINGS:
		return take_readings(r, out);
	case UNKNOWN:
		return take_unknown(r, out);
	case PROOF:
		ok = take_object(r, &proof_shape, r->proof, &r->proof_seen);
		break;
	}
	out->len = (size_t)(r->scan.at - out->text);
	return ok;
}

/* --- a record --------------------------------------------------------------------------------- */

void evidence_key_init(struct evidence_key *k,
	const unsigned char public_key[KEY_PUBLIC_BYTES])
{
	char did[KEY_DID_MAX];

	memcpy(k->public_key, public_key, sizeof k->public_key);
	address_format(public_key, k->address);
	key_did(public_key, did);
	snprintf(k->method, sizeof k->method, "%s#%s", did,
		did + sizeof KEY_DID_PREFIX - 1);
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
}

/* Checks all of the proof but the signature itself. Returns its key, or NULL. */
static const struct evidence_key *check_proof(const struct reader *r,
	const struct evidence_key *keys, int nkeys)
{
	const struct piece *created = &r->proof[CREATED];

	if (r->proof_seen != BIT(PROOF_FIELDS) - 1 ||
		!is_text(&r->proof[SUITE], "eddsa-jcs-2022") ||
		!is_text(&r->proof[PURPOSE], "assertionMethod") ||
		!is_text(&r->proof[PROOF_TYPE], "DataIntegrityProof"))
		return NULL;
	/* RFC 3339 allows these, XML Schema does not */
	for (size_t i = 0; i < created->len; i++)
		if (strchr("tz ", created->text[i]))
			return NULL;
	for (int i = 0; i < nkeys; i++)
		if (is_text(&r->proof[METHOD], keys[i].method))
			return &keys[i];
	return NULL;
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

static void hash_object(const struct reader *r, unsigned char out[CANON_HASH_BYTES],
	const struct shape *shape, const struct piece *pieces, uint64_t seen)
{
	struct buf *canon = &r->scratch->canon;

	buf_reset(canon);
	write_object(canon, r, shape, pieces, seen);
	sha256(out, canon->data, canon->len);
}

static int64_t number_of(const struct piece *pieces, uint64_t seen, int i)
{
	return seen & BIT(i) ? pieces[i].number : -1;
}

static void fill_item(struct gather_item *item, const struct piece *pieces, uint64_t seen)
{
	item->kind = (enum gather_kind)pieces[KIND_NAME].number;
	copy_text(item->node, sizeof item->node, &pieces[NODE]);
	switch (item->kind) {
	case GATHER_RECEIPT:
		item->gpu_s = number_of(pieces, seen, GPU_SECONDS);
		item->earned_uusd = number_of(pieces, seen, EARNED_UUSD);
		item->credits = number_of(pieces, seen, CREDITS);
		break;
	case GATHER_VERDICT:
		item->at_ms = pieces[AT].number;
		item->passed = pieces[PASSED].number;
		item->score_ppm = number_of(pieces, seen, SCORE_PPM);
		item->names_record = seen & BIT(NODE_RECORD);
		item->names_challenge = seen & BIT(CHALLENGE_SHA256);
		if (item->names_challenge)
			sodium_hex2bin(item->challenge.bytes,
				sizeof item->challenge.bytes,
				pieces[CHALLENGE_SHA256].text + 1,
				2 * sizeof item->challenge.bytes, NULL, NULL, NULL);
		if (item->names_record)
			sodium_hex2bin(item->node_record, sizeof item->node_record,
				pieces[NODE_RECORD].text + 1, 64, NULL, NULL, NULL);
		return;
	case GATHER_UPTIME:
	case GATHER_NODE: /* read as JSON: it has many fields, and may have others */
		break;
	}
	item->from_ms = pieces[FROM].number;
	item->to_ms = pieces[TO].number;
}

static bool read_record(struct reader *r, const struct evidence_key *keys, int nkeys)
{
	struct evidence_plain *p = r->to;
	const struct evidence_key *key;
	struct piece pieces[FIELDS];
	enum gather_kind kind;
	uint64_t seen;

	if (!take_object(r, &record_shape, pieces, &seen))
		return false;
	json_plain_space(&r->scan);
	if (r->scan.at != r->scan.end || !(seen & BIT(KIND_NAME)))
		return false;
	kind = (enum gather_kind)pieces[KIND_NAME].number;
	if ((seen & known[kind].required) != known[kind].required ||
		seen & ~(known[kind].required | known[kind].optional))
		return false;
	key = check_proof(r, keys, nkeys);
	if (!key || !is_text(&pieces[SIGNER], key->address) ||
		!read_signature(&r->proof[VALUE], p->signature))
		return false;
	p->key = key;
	fill_item(&p->item, pieces, seen);
	hash_object(r, p->message, &proof_shape, r->proof, r->proof_seen & ~BIT(VALUE));
	hash_object(r, p->item.sha256, &record_shape, pieces, seen & ~BIT(PROOF_OBJECT));
	memcpy(p->message + CANON_HASH_BYTES, p->item.sha256, CANON_HASH_BYTES);
	return true;
}

bool evidence_plain_read(struct evidence_plain *p, struct buf *spans,
	struct evidence_scratch *scratch, const struct evidence_key *keys, int nkeys,
	const char *line, size_t len)
{
	struct reader r = { .scan = { line, line + len },
		.scratch = scratch,
		.to = p,
		.spans = spans };
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	bool plain;

	pthread_once(&once, fill_guesses);
	memset(&p->item, 0, sizeof p->item);
	buf_reset(&scratch->inner);
	plain = nkeys && read_record(&r, keys, nkeys);
	if (!plain)
		err_clear();
	return plain;
}
