/* plain.c - reads signed records from their text: common/json/fast.h takes their fields, and
 * what is signed is written from them. */
#include "cmd/rnp-reward/evidence/plain.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/base58.h"
#include "common/base/err.h"
#include "common/base/sha256.h"
#include "kernels/crypto/ed25519.h"

#define HASHED_TOGETHER 32                                    /* records */
#define SIGNATURE_TEXT  (KEY_SIGNATURE_BYTES * 138 / 100 + 4) /* 'z', base58, NUL */

/* --- tables ---------------------------------------------------------------------------------- */

/* Fields of a proof, which has no schema: signature.h says what a proof must be. */
enum {
	PROOF_CREATED,
	PROOF_SUITE,
	PROOF_PURPOSE,
	PROOF_VALUE,
	PROOF_TYPE,
	PROOF_METHOD,
	PROOF_FIELDS
};

/* clang-format off */
#define QUOTED(name)           "\"" name "\":"
#define PROOF(name, type, max) { QUOTED(name), sizeof QUOTED(name) - 1, type, 0, max, NULL, NULL, NULL }
/* clang-format on */
static const struct fast_field proof_fields[PROOF_FIELDS] = {
	[PROOF_CREATED] = PROOF("created", FAST_TIME, 0),
	[PROOF_SUITE] = PROOF("cryptosuite", FAST_TEXT, 100),
	[PROOF_PURPOSE] = PROOF("proofPurpose", FAST_TEXT, 100),
	[PROOF_VALUE] = PROOF("proofValue", FAST_TEXT, 100),
	[PROOF_TYPE] = PROOF("type", FAST_TEXT, 100),
	[PROOF_METHOD] = PROOF("verificationMethod", FAST_TEXT, KEY_METHOD_MAX),
};
static const struct fast_shape proof_shape = { proof_fields, PROOF_FIELDS,
	FAST_SHAPES_MAX - 1, FAST_BIT(PROOF_FIELDS) - 1, NULL };

/* Fields of records that this file looks at, by their places in fast_record. */
static struct {
	int at, challenge_sha256, credits, devices, earned_uusd, from, gpu_seconds, kind,
		node, node_record, passed, proof, score_ppm, signer, to;
} field;

/* What a record of each kind must hold and may hold, proof and signer included. */
static struct fast_kind kinds[COLLECT_NODE + 1];

/* The objects of a node of which usage needs a part, and which fields; GPU is that of each in a
 * list. */
enum { CPU, GPUS, NETWORK, PARTS };
static struct {
	int field;
	const struct fast_shape *shape;
	uint64_t bits;
} parts[PARTS];

/* Fields of a node that usage needs whole, and parts. */
static uint64_t facts;

static const struct fast_shape *proven_shape, *reading_shape;

static void find_part(int part, const char *name, const char *const *names)
{
	int i = fast_field(&fast_record, name);
	const struct fast_field *f = &fast_record.fields[i];

	parts[part].field = i;
	parts[part].shape = f->item ? f->item->shape : f->shape;
	parts[part].bits = fast_bits(parts[part].shape, names);
	facts |= FAST_BIT(i);
}

static void find_fields(void)
{
	const struct {
		const char *name;
		int *place;
	} places[] = { { "at", &field.at },
		{ "challenge_sha256", &field.challenge_sha256 },
		{ "credits", &field.credits }, { "devices", &field.devices },
		{ "earned_uusd", &field.earned_uusd }, { "from", &field.from },
		{ "gpu_seconds", &field.gpu_seconds }, { "kind", &field.kind },
		{ "node", &field.node }, { "node_record", &field.node_record },
		{ "passed", &field.passed }, { "proof", &field.proof },
		{ "score_ppm", &field.score_ppm }, { "signer", &field.signer },
		{ "to", &field.to } };
	const struct fast_field *f = fast_record.fields;

	for (size_t i = 0; i < sizeof places / sizeof *places; i++)
		*places[i].place = fast_field(&fast_record, places[i].name);
	for (int i = COLLECT_UPTIME; i <= COLLECT_NODE; i++) {
		enum collect_kind kind;
		uint64_t must = fast_record_kinds[i].required | FAST_BIT(field.node) |
			FAST_BIT(field.proof);

		if (!collect_item_kind(f[field.kind].words[i], &kind) || (int)kind != i)
			bug("kinds are not in the order of enum collect_kind");
		/* who signs a node is the node */
		if (kind != COLLECT_NODE)
			must |= FAST_BIT(field.signer);
		kinds[i] = (struct fast_kind){ must,
			must | fast_record_kinds[i].allowed };
	}
	facts = fast_bits(&fast_record, collect_facts_whole);
	find_part(CPU, "cpu", collect_facts_cpu);
	find_part(GPUS, "gpus", collect_facts_gpu);
	find_part(NETWORK, "network", collect_facts_network);
	proven_shape = f[fast_field(&fast_record, "proven")].item->shape;
	reading_shape = f[fast_field(&fast_record, "readings")].shape;
	/* take_proven and take_readings read the fields by these places */
	if (fast_field(proven_shape, "device") != 0)
		bug("a proven device does not begin with its name");
	for (int i = 0; i < COLLECT_READINGS; i++)
		if (fast_field(reading_shape, collect_readings[i]) != i)
			bug("readings are not in the order of collect_readings");
}

/* --- values ---------------------------------------------------------------------------------- */

struct reader {
	struct evidence_scratch *scratch;
	struct evidence_plain *to;
	struct fast_piece proof[PROOF_FIELDS];
	struct fast_piece parts[PARTS]; /* in scratch->facts; len 0: it has none */
};

static inline bool is_text(const struct fast_piece *p, const char *text)
{
	size_t len = strlen(text);

	return p->len == len + 2 && memcmp(p->text + 1, text, len) == 0;
}

static bool take_proven(struct reader *r, const struct fast_piece *device)
{
	struct collect_item *item = &r->to->item;
	char uuid[132];

	if (item->nproven == COLLECT_DEVICES_MAX || !fast_copy(device, uuid, sizeof uuid))
		return false;
	collect_device_key(uuid, &item->proven[item->nproven++]);
	return true;
}

/* Writes what usage needs of an object of a node to scratch->facts, of GPUs a list: they stand
 * together. */
static void keep_part(struct reader *r, const struct fast *f, int part,
	const struct fast_piece *pieces, uint64_t seen)
{
	struct buf *out = &r->scratch->facts;
	struct fast_piece *kept = &r->parts[part];

	if (!kept->len)
		kept->at = out->len;
	if (part == GPUS && kept->len)
		out->data[out->len - 1] = ',';
	else if (part == GPUS)
		buf_addc(out, '[');
	fast_write(out, f, parts[part].shape, pieces, seen & parts[part].bits);
	if (part == GPUS)
		buf_addc(out, ']');
	kept->len = out->len - kept->at;
}

static bool take_object(struct fast *f, const struct fast_shape *shape,
	const struct fast_piece *pieces, uint64_t seen)
{
	struct reader *r = f->ctx;

	if (shape == proven_shape)
		return take_proven(r, &pieces[0]);
	for (int i = 0; shape == reading_shape && i < COLLECT_READINGS; i++)
		r->to->item.reading[i] = seen & FAST_BIT(i) ? pieces[i].number : -1;
	for (int i = 0; i < PARTS; i++)
		if (shape == parts[i].shape)
			keep_part(r, f, i, pieces, seen);
	return true;
}

/* A proof, the only such field, is hashed by itself. */
static bool take_proof(struct fast *f, const struct fast_field *which)
{
	struct reader *r = f->ctx;
	uint64_t seen;

	(void)which;
	return fast_object(f, &proof_shape, r->proof, &seen);
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
	buf_release(&s->values.canon);
	buf_release(&s->values.inner);
	buf_release(&s->facts);
	buf_release(&s->texts);
}

/* Checks all of the proof but the signature itself and its key. */
static bool check_proof(const struct reader *r)
{
	const struct fast_piece *created = &r->proof[PROOF_CREATED];

	if (!is_text(&r->proof[PROOF_SUITE], "eddsa-jcs-2022") ||
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
	const struct fast_piece *signer)
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
static bool own_key(struct reader *r, const unsigned char node[KEY_PUBLIC_BYTES])
{
	struct evidence_plain *p = r->to;
	char method[KEY_METHOD_MAX];

	memcpy(p->node_key, node, sizeof p->node_key);
	method_of(p->node_key, method);
	p->public_key = p->node_key;
	p->table = NULL;
	return is_text(&r->proof[PROOF_METHOD], method);
}

static bool read_signature(const struct fast_piece *value, unsigned char *out)
{
	char text[SIGNATURE_TEXT];

	return fast_copy(value, text, sizeof text) && text[0] == 'z' &&
		base58_decode(out, KEY_SIGNATURE_BYTES, text + 1) == KEY_SIGNATURE_BYTES;
}

/* Leaves the canonical form of fields to be hashed; returns its size. */
static size_t keep_text(const struct reader *r, const struct fast *f,
	const struct fast_shape *shape, const struct fast_piece *pieces, uint64_t seen)
{
	struct buf *texts = &r->scratch->texts;
	size_t before = texts->len;

	fast_write(texts, f, shape, pieces, seen);
	return texts->len - before;
}

static int64_t number_of(const struct fast_piece *pieces, uint64_t seen, int i)
{
	return seen & FAST_BIT(i) ? pieces[i].number : -1;
}

static int digit_of(char hex)
{
	return (hex & 15) + 9 * (hex >> 6);
}

/* Reads the first n bytes of a hash that take_sha256 has taken. */
static void bytes_of(unsigned char *out, size_t n, const struct fast_piece *hash)
{
	const char *hex = hash->text + 1;

	for (size_t i = 0; i < n; i++, hex += 2)
		out[i] = (unsigned char)(digit_of(hex[0]) << 4 | digit_of(hex[1]));
}

/* Takes the uuids of a list that fast_read has taken, of COLLECT_DEVICES_MAX at most. */
static bool take_devices(struct collect_item *item, const struct fast *f,
	const struct fast_piece *list)
{
	const char *text = f->scratch->inner.data + list->at;
	struct json_plain s = { text, text + list->len };
	char uuid[132];

	json_plain_take(&s, '[');
	while (!json_plain_take(&s, ']')) {
		if (!json_plain_copy(&s, uuid, sizeof uuid))
			return false;
		collect_device_key(uuid, &item->proven[item->nproven++]);
		json_plain_take(&s, ',');
	}
	return true;
}

static void fill_item(struct collect_item *item, const struct fast_piece *pieces,
	uint64_t seen)
{
	item->kind = (enum collect_kind)pieces[field.kind].number;
	fast_copy(&pieces[field.node], item->node, sizeof item->node);
	switch (item->kind) {
	case COLLECT_RECEIPT:
		item->gpu_s = number_of(pieces, seen, field.gpu_seconds);
		item->earned_uusd = number_of(pieces, seen, field.earned_uusd);
		item->credits = number_of(pieces, seen, field.credits);
		break;
	case COLLECT_VERDICT:
		item->at_ms = pieces[field.at].number;
		item->passed = pieces[field.passed].number;
		item->score_ppm = number_of(pieces, seen, field.score_ppm);
		item->names_record = seen & FAST_BIT(field.node_record);
		item->names_challenge = seen & FAST_BIT(field.challenge_sha256);
		if (item->names_challenge)
			bytes_of(item->challenge.bytes, sizeof item->challenge.bytes,
				&pieces[field.challenge_sha256]);
		if (item->names_record)
			bytes_of(item->node_record, sizeof item->node_record,
				&pieces[field.node_record]);
		return;
	case COLLECT_NODE:
		item->at_ms = pieces[field.at].number;
		return;
	case COLLECT_UPTIME:
		break;
	}
	item->from_ms = pieces[field.from].number;
	item->to_ms = pieces[field.to].number;
}

/* Appends collect_item_facts of a node; overwrites its pieces. */
static void write_facts(const struct reader *r, const struct fast *f,
	struct fast_piece *pieces, uint64_t seen)
{
	/* a list of no GPUs is what it was */
	for (int i = 0; i < PARTS; i++)
		if (r->parts[i].len)
			pieces[parts[i].field] = (struct fast_piece){
				.text = r->scratch->facts.data + r->parts[i].at,
				.len = r->parts[i].len
			};
	fast_write(f->pairs, f, &fast_record, pieces, seen & facts);
}

static bool read_record(struct reader *r, struct fast *f, const struct evidence_key *keys,
	int nkeys)
{
	struct evidence_plain *p = r->to;
	struct fast_piece pieces[FAST_FIELDS_MAX];
	const struct fast_kind *kind;
	uint64_t seen;

	if (!fast_read(f, &fast_record, pieces, &seen))
		return false;
	/* all kinds have a kind */
	kind = &kinds[pieces[field.kind].number];
	if ((seen & kind->required) != kind->required || (seen & ~kind->allowed) ||
		!check_proof(r))
		return false;
	fill_item(&p->item, pieces, seen);
	if ((seen & FAST_BIT(field.devices)) &&
		!take_devices(&p->item, f, &pieces[field.devices]))
		return false;
	p->item.nspans = f->npairs;
	if (!(p->item.kind == COLLECT_NODE ?
			    own_key(r,
				    f->order->addresses[pieces[field.node].number]
					    .bytes) :
			    find_key(r, keys, nkeys, &pieces[field.signer])) ||
		!read_signature(&r->proof[PROOF_VALUE], p->signature))
		return false;
	p->proof_bytes = keep_text(r, f, &proof_shape, r->proof,
		proof_shape.required & ~FAST_BIT(PROOF_VALUE));
	p->record_bytes = keep_text(r, f, &fast_record, pieces,
		seen & ~FAST_BIT(field.proof));
	if (p->item.kind == COLLECT_NODE)
		write_facts(r, f, pieces, seen);
	return true;
}

bool evidence_plain_read(struct evidence_plain *p, struct buf *more,
	struct evidence_scratch *scratch, const struct evidence_key *keys, int nkeys,
	const char *line, size_t len)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct reader r;
	struct fast f;

	pthread_once(&once, find_fields);
	/* one by one: pieces are many, and a node alone has parts */
	r.scratch = scratch;
	r.to = p;
	for (int i = 0; i < PARTS; i++)
		r.parts[i].len = 0;
	f = (struct fast){ .scan = { line, line + len },
		.order = &scratch->order,
		.scratch = &scratch->values,
		.object = take_object,
		.other = take_proof,
		.ctx = &r,
		.pairs = more };
	memset(&p->item, 0, offsetof(struct collect_item, proven));
	buf_reset(&scratch->facts);
	return read_record(&r, &f, keys, nkeys);
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
