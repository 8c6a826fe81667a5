/* registry_beats.c - compact heartbeats. They are most of what a registry stores. One whose
 * text is exactly what our own client writes is stored as its fields and its signature, a sixth
 * of the text, and reproduced byte by byte. */
#include "cmd/rnp-register/registry_beats.h"

#include <string.h>

#include "common/base/base58.h"
#include "common/base/clock.h"
#include "common/base/err.h"

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
		"\",\"interval_s\":%lld,\"state\":\"%s\",\"proof\":{\"type\":\"DataIntegrityProof\","
		"\"cryptosuite\":\"eddsa-jcs-2022\",\"created\":\"",
		(long long)b->interval_s, registry_states[b->state]);
	time_text(out, b->created_ms);
	buf_addf(out,
		"\",\"verificationMethod\":\"%s#%s\",\"proofPurpose\":\"assertionMethod\","
		"\"proofValue\":\"z%s\"}}",
		did, did + strlen("did:key:"), value);
}

void registry_beat_compact(struct registry_put *p, const json_t *record,
	const struct buf *text)
{
	const json_t *proof = json_object_get(record, "proof");
	const char *created = json_string_value(json_object_get(proof, "created"));
	const char *value = json_string_value(json_object_get(proof, "proofValue"));
	struct registry_beat *b = &p->beat;
	struct buf again = BUF_INIT;

	if (!created || !value || value[0] != 'z' ||
		base58_decode(b->signature, sizeof b->signature, value + 1) !=
			(int)sizeof b->signature)
		return;
	if (clock_parse(created, "created", &b->created_ms) < 0) {
		err_clear();
		return;
	}
	registry_beat_write(&again, p->node, p->at_ms, b);
	b->compact = again.len == text->len &&
		memcmp(again.data, text->data, again.len) == 0;
	buf_release(&again);
}
