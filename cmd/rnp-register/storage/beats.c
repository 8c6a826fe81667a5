/* beats.c - compact heartbeats. They are most of what a registry stores. One whose
 * text is exactly what our own client writes is stored as its fields and its signature, a sixth
 * of the text, and reproduced byte by byte. */
#include "cmd/rnp-register/storage/beats.h"

#include <sodium.h>
#include <string.h>

#include "common/base/base58.h"
#include "common/base/clock.h"
#include "common/base/err.h"

const char *const registry_states[] = { "idle", "busy", "render", "maintenance", NULL };

static void time_text(struct buf *out, int64_t ms)
{
	char text[CLOCK_TEXT_MAX];

	clock_format(text, ms);
	buf_adds(out, text);
}

void registry_beat_write(struct buf *out, const char *node, int64_t at_ms,
	const struct registry_beat *b)
{
	unsigned char public_key[KEY_PUBLIC_BYTES] = { 0 };
	char did[KEY_DID_MAX], value[2 * KEY_SIGNATURE_BYTES];

	/* an invalid address becomes a key of zeros, and a text that matches no signature */
	if (address_parse(node, "node", public_key) < 0)
		err_clear();
	key_did(public_key, did);
	base58_encode(value, b->signature, KEY_SIGNATURE_BYTES);
	buf_addf(out, "{\"kind\":\"rnp.heartbeat\",\"v\":1,\"node\":\"%s\",\"at\":\"",
		node);
	time_text(out, at_ms);
	buf_addf(out,
		"\",\"interval_s\":%lld,\"state\":\"%s\"%s%s%s,\"proof\":{\"type\":\"DataIntegrityProof\","
		"\"cryptosuite\":\"eddsa-jcs-2022\",\"created\":\"",
		(long long)b->interval_s, registry_states[b->state],
		b->instance[0] ? ",\"instance\":\"" : "", b->instance,
		b->instance[0] ? "\"" : "");
	time_text(out, b->created_ms);
	buf_addf(out,
		"\",\"verificationMethod\":\"%s#%s\",\"proofPurpose\":\"assertionMethod\","
		"\"proofValue\":\"z%s\"}}",
		did, did + strlen("did:key:"), value);
}

size_t registry_beat_pack(unsigned char out[BEAT_PACKED_MAX],
	const struct registry_beat *b)
{
	size_t n = 0;

	memcpy(out, b->signature, KEY_SIGNATURE_BYTES);
	sodium_hex2bin(out + KEY_SIGNATURE_BYTES, BEAT_INSTANCE_BYTES, b->instance,
		strlen(b->instance), NULL, &n, NULL);
	return KEY_SIGNATURE_BYTES + (n == BEAT_INSTANCE_BYTES ? n : 0);
}

bool registry_beat_unpack(struct registry_beat *b, const void *packed, int n)
{
	const unsigned char *from = packed;

	if (n != KEY_SIGNATURE_BYTES && n != BEAT_PACKED_MAX)
		return false;
	memcpy(b->signature, from, KEY_SIGNATURE_BYTES);
	sodium_bin2hex(b->instance, sizeof b->instance, from + KEY_SIGNATURE_BYTES,
		(size_t)n - KEY_SIGNATURE_BYTES);
	return true;
}

void registry_beat_compact(struct registry_put *p, const json_t *record,
	const struct buf *text)
{
	const json_t *proof = json_object_get(record, "proof");
	const char *created = json_string_value(json_object_get(proof, "created"));
	const char *value = json_string_value(json_object_get(proof, "proofValue"));
	unsigned char packed[BEAT_PACKED_MAX];
	struct registry_beat *b = &p->beat, stored;
	struct buf again = BUF_INIT;

	if (!created || !value || value[0] != 'z' ||
		base58_decode(b->signature, sizeof b->signature, value + 1) !=
			(int)sizeof b->signature)
		return;
	if (clock_parse(created, "created", &b->created_ms) < 0) {
		err_clear();
		return;
	}
	stored = (struct registry_beat){ .interval_s = b->interval_s,
		.state = b->state,
		.created_ms = b->created_ms };
	registry_beat_unpack(&stored, packed, (int)registry_beat_pack(packed, b));
	registry_beat_write(&again, p->node, p->at_ms, &stored);
	b->compact = again.len == text->len &&
		memcmp(again.data, text->data, again.len) == 0;
	buf_release(&again);
}
