/* Heartbeats are most of what a registry keeps. One whose text is what our own client writes is
 * kept as its fields and its signature, a sixth of the text, and written again byte by byte. */
#include <string.h>

#include "cmd/rnp-register/registry.h"
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
	int64_t interval_s, int state, int64_t created_ms,
	const unsigned char signature[KEY_SIGNATURE_BYTES])
{
	unsigned char public_key[KEY_PUBLIC_BYTES] = { 0 };
	char did[KEY_DID_MAX], value[2 * KEY_SIGNATURE_BYTES];

	if (address_parse(node, "node", public_key) < 0)
		bug("a node of the registry: %s", err_get()->text);
	key_did(public_key, did);
	base58_encode(value, signature, KEY_SIGNATURE_BYTES);
	buf_addf(out, "{\"kind\":\"rnp.heartbeat\",\"v\":1,\"node\":\"%s\",\"at\":\"",
		node);
	time_text(out, at_ms);
	buf_addf(out,
		"\",\"interval_s\":%lld,\"state\":\"%s\",\"proof\":{\"type\":\"DataIntegrityProof\","
		"\"cryptosuite\":\"eddsa-jcs-2022\",\"created\":\"",
		(long long)interval_s, registry_states[state]);
	time_text(out, created_ms);
	buf_addf(out,
		"\",\"verificationMethod\":\"%s#%s\",\"proofPurpose\":\"assertionMethod\","
		"\"proofValue\":\"z%s\"}}",
		did, did + strlen("did:key:"), value);
}

bool registry_beat_compact(struct registry_put *p, const json_t *record)
{
	const json_t *proof = json_object_get(record, "proof");
	const char *created = json_string_value(json_object_get(proof, "created"));
	const char *value = json_string_value(json_object_get(proof, "proofValue"));
	struct buf text = BUF_INIT;

	if (!created || !value || value[0] != 'z' ||
		base58_decode(p->signature, sizeof p->signature, value + 1) !=
			(int)sizeof p->signature)
		return false;
	if (clock_parse(created, "created", &p->created_ms) < 0) {
		err_clear();
		return false;
	}
	registry_beat_write(&text, p->node, p->at_ms, p->interval_s, p->state,
		p->created_ms, p->signature);
	p->compact = text.len == p->q->body.len &&
		memcmp(text.data, p->q->body.data, text.len) == 0;
	buf_release(&text);
	return p->compact;
}
