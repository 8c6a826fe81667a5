/* signature.c - proof: eddsa-jcs-2022 as the W3C has it, and everything else is refused with a
 * reason. */
#include "common/record/signature.h"

#include <stdlib.h>

#include "common/base/base58.h"
#include "common/base/clock.h"
#include "common/json/json.h"
#include "tests/unit/test.h"

#define W3C_KEY "z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2"
#define W3C_CONTEXT                                               \
	"\"@context\":[\"https://www.w3.org/ns/credentials/v2\"," \
	"\"https://www.w3.org/ns/credentials/examples/v2\"]"

/* Facts of the specification "Data Integrity EdDSA Cryptosuites v1.0", appendix B.4: the
 * credential, its key, and what signing it gives. */
static const char w3c_credential[] =
	"{" W3C_CONTEXT ",\"id\":\"urn:uuid:58172aac-d8ba-11ed-83dd-0b3aef56cc33\","
	"\"type\":[\"VerifiableCredential\",\"AlumniCredential\"],"
	"\"name\":\"Alumni Credential\","
	"\"description\":\"A minimum viable example of an Alumni Credential.\","
	"\"issuer\":\"https://vc.example/issuers/5678\",\"validFrom\":\"2023-01-01T00:00:00Z\","
	"\"credentialSubject\":{\"id\":\"did:example:abcdefgh\","
	"\"alumniOf\":\"The School of Examples\"}}";
static const char w3c_seed[] = "z3u2en7t5LR2WtQH5PfFqMqwVHBeXouLzo6haApm8XHqvjxq";
static const char w3c_value[] =
	"z2HnFSSPPBzR36zdDgK8PbEHeXbR56YF24jwMpt3R1eHXQzJDMWS93FCzpvJpw"
	"TWd3GAVFuUfjoJdcnTMuVor51aX";
#define W3C_CREATED_MS INT64_C(1677281798000) /* 2023-02-24T23:36:38Z */

static json_t *read_json(const char *text)
{
	json_t *v = json_parse(text, strlen(text), JSON_DEPTH_MAX, "test");

	CHECK(v != NULL);
	return v;
}

/* multibase and multicodec (0x1300: ed25519-priv) off, public half after */
static void load_w3c_key(struct key *k)
{
	unsigned char bytes[34], secret[KEY_SECRET_BYTES], public_key[KEY_PUBLIC_BYTES];

	CHECK_I64(34, base58_decode(bytes, sizeof bytes, w3c_seed + 1));
	CHECK(bytes[0] == 0x80 && bytes[1] == 0x26);
	CHECK(key_parse_did("did:key:" W3C_KEY, "key", public_key) == 0);
	memcpy(secret, bytes + 2, 32);
	memcpy(secret + 32, public_key, 32);
	CHECK(key_from_secret(k, secret) == 0);
}

static const char *text_at(const json_t *obj, const char *key)
{
	const char *text = json_string_value(json_object_get(obj, key));

	return text ? text : "(none)";
}

/* All records verified one by one, as they were, and their results. */
#define SEEN_MAX 1000
static json_t *seen[SEEN_MAX];
static struct signature_result seen_results[SEEN_MAX];
static size_t nseen;

/* Verified together, each must have the result that it had alone. */
static void check_many(void)
{
	static struct signature_result r[SEEN_MAX];

	CHECK(nseen > 30);
	for (size_t n = 1; n <= nseen; n += n < 20 ? 1 : nseen - n ? nseen - n : 1) {
		memset(r, 0xee, sizeof r);
		signature_verify_many((const json_t *const *)seen, n, r);
		CHECK_I64(0, err_get()->code);
		for (size_t i = 0; i < n; i++) {
			const struct signature_result *one = &seen_results[i];

			CHECK(r[i].ok == one->ok && r[i].valid == one->valid);
			CHECK_I64(one->nsigners, r[i].nsigners);
			for (int k = 0; k < one->nsigners && k < r[i].nsigners; k++)
				CHECK_TEXT(one->signers[k], r[i].signers[k]);
			CHECK(memcmp(one->sha256, r[i].sha256, 32) == 0);
			CHECK_TEXT(one->reason, r[i].reason);
		}
	}
	signature_verify_many(NULL, 0, NULL);
	for (size_t i = 0; i < nseen; i++)
		json_decref(seen[i]);
}

static struct signature_result verify(const json_t *record)
{
	struct signature_result r;

	signature_verify(record, &r);
	CHECK(nseen < SEEN_MAX);
	seen[nseen] = json_deep_copy(record);
	seen_results[nseen++] = r;
	CHECK(r.ok == (r.reason[0] == '\0'));
	CHECK_I64(0, err_get()->code);
	return r;
}

static void check_refused(const json_t *record, const char *why)
{
	struct signature_result r = verify(record);

	CHECK(!r.ok);
	if (!strstr(r.reason, why))
		CHECK_TEXT(why, r.reason);
}

static void check_w3c_vector(const struct key *k)
{
	json_t *record = read_json(w3c_credential), *proof;
	struct signature_result r;

	CHECK(signature_add(record, k, W3C_CREATED_MS) == 0);
	proof = json_object_get(record, "proof");
	CHECK_TEXT("2023-02-24T23:36:38Z", text_at(proof, "created"));
	CHECK_TEXT("did:key:" W3C_KEY "#" W3C_KEY, text_at(proof, "verificationMethod"));
	CHECK_TEXT(w3c_value, text_at(proof, "proofValue"));
	CHECK(json_equal(json_object_get(record, "@context"),
		json_object_get(proof, "@context")));
	r = verify(record);
	CHECK(r.ok && r.valid && r.nsigners == 1);
	CHECK_TEXT(k->address, r.signers[0]);
	/* contexts after those that were signed are allowed, others are not */
	json_array_append_new(json_object_get(record, "@context"),
		json_string("https://x/"));
	CHECK(verify(record).ok);
	json_array_insert_new(json_object_get(record, "@context"), 0,
		json_string("https://y/"));
	check_refused(record, "does not begin with");
	json_object_del(record, "@context");
	check_refused(record, "the record has none");
	json_decref(record);
}

static json_t *signed_record(const char *text, const struct key *k)
{
	json_t *record = read_json(text);

	CHECK(signature_add(record, k, W3C_CREATED_MS) == 0);
	return record;
}

/* One field of the proof replaced (NULL: removed), by which nothing may crash or pass. */
static void check_field(const struct key *k, const char *field, json_t *takes_v,
	const char *why)
{
	json_t *record = signed_record("{\"a\":1}", k);
	json_t *proof = json_object_get(record, "proof");

	if (takes_v)
		json_object_set_new(proof, field, takes_v);
	else
		json_object_del(proof, field);
	check_refused(record, why);
	json_decref(record);
}

static void check_fields(const struct key *k)
{
	char moment[CLOCK_TEXT_MAX];
	static const char *const fields[] = { "type", "cryptosuite", "verificationMethod",
		"proofPurpose", "proofValue" };

	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
		check_field(k, fields[i], NULL, "is missing");
		check_field(k, fields[i], json_integer(7), "is not a string");
		check_field(k, fields[i], json_null(), "is not a string");
		check_field(k, fields[i], json_object(), "is not a string");
		check_field(k, fields[i], json_string(""), "proof");
	}
	check_field(k, "created", NULL, "does not fit");
	check_field(k, "created", json_true(), "is not a string");
	check_field(k, "created", json_string("2023-02-24 23:36:38Z"), "is not a time");
	check_field(k, "created", json_string("yesterday"), "is not a time");
	check_field(k, "created", json_string("2023-02-24T23:36:39Z"), "does not fit");
	check_field(k, "expires", json_string("2023-02-25T23:36:38Z"), "expired");
	check_field(k, "expires", json_string("2999-02-25T23:36:38Z"), "does not fit");
	/* seconds before and after now */
	clock_format(moment, clock_now_ms() - 2000);
	check_field(k, "expires", json_string(moment), "expired");
	clock_format(moment, clock_now_ms() + 600000);
	check_field(k, "expires", json_string(moment), "does not fit");
	check_field(k, "cryptosuite", json_string("eddsa-rdfc-2022"), "eddsa-rdfc-2022");
	check_field(k, "type", json_string("Ed25519Signature2020"),
		"Ed25519Signature2020");
	check_field(k, "proofPurpose", json_string("authentication"), "authentication");
	check_field(k, "previousProof", json_string("urn:x"), "previousProof");
	check_field(k, "previousProof", json_null(), "previousProof");
	check_field(k, "nonce", json_string("hashed although unknown"), "does not fit");
	check_field(k, "@context", json_string("x"), "the record has none");
	check_field(k, "verificationMethod", json_string("did:key:" W3C_KEY),
		"after '#'");
	check_field(k, "verificationMethod", json_string("#"), "after '#'");
	check_field(k, "verificationMethod", json_string("did:key:" W3C_KEY "#z6Mk"),
		"another");
	check_field(k, "verificationMethod",
		json_string("https://vc.example/issuers/5678#" W3C_KEY), "did:key");
}

/* Encodings of a signature that differ and mean the same to a lax verifier. */
static void check_malleable(const struct key *k)
{
	static const unsigned char order[32] = { 0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12,
		0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0, 0x10 };
	json_t *record = signed_record("{\"a\":1}", k),
	       *proof = json_object_get(record, "proof");
	const char *value = text_at(proof, "proofValue");
	unsigned char signature[64];
	char text[128] = "z";
	unsigned carry = 0;

	CHECK_I64(64, base58_decode(signature, 64, value + 1));
	snprintf(text, sizeof text, "z1%s",
		value + 1); /* a zero byte in front: 65 bytes */
	check_field(k, "proofValue", json_string(text), "64 bytes");
	snprintf(text, sizeof text, "m%s", value + 1);
	check_field(k, "proofValue", json_string(text), "64 bytes");
	snprintf(text, sizeof text, "%s ", value);
	check_field(k, "proofValue", json_string(text), "64 bytes");
	for (int i = 0; i < 32; i++) { /* S + L: the same residue */
		carry += signature[32 + i] + order[i];
		signature[32 + i] = (unsigned char)carry;
		carry >>= 8;
	}
	base58_encode(text + 1, signature, sizeof signature);
	text[0] = 'z';
	json_object_set_new(proof, "proofValue", json_string(text));
	check_refused(record, "does not fit");
	json_decref(record);
}

/* A key of small order "signs" everything for verifiers that do not look. */
static void check_small_order(void)
{
	unsigned char identity[32] = { 1 }, signature[64] = { 1 };
	char did[KEY_DID_MAX], method[KEY_METHOD_MAX + 8], text[128] = "z";
	json_t *record = read_json("{\"a\":1}"), *proof = json_object();

	key_did(identity, did);
	snprintf(method, sizeof method, "%s#%s", did, did + 8);
	base58_encode(text + 1, signature, sizeof signature);
	json_object_set_new(proof, "type", json_string("DataIntegrityProof"));
	json_object_set_new(proof, "cryptosuite", json_string("eddsa-jcs-2022"));
	json_object_set_new(proof, "proofPurpose", json_string("assertionMethod"));
	json_object_set_new(proof, "verificationMethod", json_string(method));
	json_object_set_new(proof, "proofValue", json_string(text));
	json_object_set_new(record, "proof", proof);
	check_refused(record, "does not fit");
	json_decref(record);
}

static void check_tampering(const struct key *k)
{
	json_t *record = signed_record("{\"a\":1,\"b\":[1,2,{\"c\":\"d\"}]}", k), *copy;

	copy = json_deep_copy(record);
	json_object_set_new(copy, "a", json_real(1.0)); /* the same number */
	CHECK(verify(copy).ok);
	json_object_set_new(copy, "a", json_integer(2));
	check_refused(copy, "does not fit");
	json_object_set_new(copy, "a", json_string("1"));
	check_refused(copy, "does not fit");
	json_decref(copy);
	copy = json_deep_copy(record);
	json_object_set_new(copy, "z", json_null());
	check_refused(copy, "does not fit");
	json_decref(copy);
	json_decref(record);
}

static void check_shapes(const struct key *k)
{
	static const char *const bad[] = { "{}", "[]", "1", "null", "{\"proof\":null}",
		"{\"proof\":[]}", "{\"proof\":[1]}", "{\"proof\":{}}", "{\"proof\":[[]]}",
		"{\"proof\":\"x\"}",
		"{\"proof\":[{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}]}" };

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		json_t *v = read_json(bad[i]);

		check_refused(v, "");
		json_decref(v);
	}
	for (size_t i = 1; i < 5; i++) {
		json_t *v = read_json(bad[i]);

		CHECK_FAILS(EX_DATAERR, signature_add(v, k, 0));
		json_decref(v);
	}
}

static void check_sets(const struct key *a, const struct key *b)
{
	json_t *record = signed_record("{\"@context\":\"https://x/\",\"a\":1}", a), *set;
	struct signature_result r;

	CHECK(signature_add(record, b, W3C_CREATED_MS + 1) == 0);
	set = json_object_get(record, "proof");
	CHECK_I64(2, (int64_t)json_array_size(set));
	r = verify(record);
	CHECK(r.ok && r.nsigners == 2);
	CHECK_TEXT(a->address, r.signers[0]);
	CHECK_TEXT(b->address, r.signers[1]);
	CHECK(signature_is_by(&r, b->address) && !signature_is_by(&r, "x"));
	json_array_remove(set, 0); /* independent of each other */
	CHECK(verify(record).ok);
	json_object_set_new(json_array_get(set, 0), "created",
		json_string("2023-02-24T23:36:38Z"));
	CHECK(signature_add(record, a, 0) == 0);
	check_refused(record, "does not fit"); /* all must be good */
	r = verify(record);
	CHECK(r.nsigners == 1);
	while (json_array_size(set) < PROOF_SIGNERS_MAX)
		CHECK(signature_add(record, a, 0) == 0);
	CHECK_FAILS(EX_DATAERR, signature_add(record, a, 0));
	json_decref(record);
}

/* {"kind":kind,"node":node,"signer":signer} signed by k: is it ok? NULL: not there */
static bool party_ok(const char *kind, const char *node, const char *signer,
	const struct key *k)
{
	json_t *record = json_record(kind);
	struct signature_result r;

	json_set_text(record, "node", node);
	json_set_text(record, "signer", signer);
	CHECK(signature_add(record, k, 0) == 0);
	r = verify(record);
	CHECK(r.valid);
	json_decref(record);
	return r.ok;
}

static void check_parties(const struct key *a, const struct key *b)
{
	json_t *record;

	CHECK(party_ok("rnp.node", a->address, NULL, a));
	CHECK(!party_ok("rnp.node", a->address, NULL, b));
	CHECK(!party_ok("rnp.node", a->address, b->address,
		b)); /* only in kinds about a node */
	CHECK(party_ok("rnp.verdict", a->address, b->address, b));
	CHECK(!party_ok("rnp.verdict", a->address, b->address, a));
	CHECK(!party_ok("rnp.receipt", a->address, NULL, b));
	CHECK(party_ok("rnp.receipt", a->address, NULL, a));
	CHECK(party_ok("other", NULL, NULL, b));
	CHECK(!party_ok("rnp.node", "", NULL, a));
	/* a witness beside the node */
	record = json_record("rnp.node");
	json_set_text(record, "node", a->address);
	CHECK(signature_add(record, b, 0) == 0);
	check_refused(record, "not by its node");
	CHECK(signature_add(record, a, 0) == 0);
	CHECK(verify(record).ok);
	json_decref(record);
	record = signed_record("{\"node\":7}", a);
	check_refused(record, "'node' is not a string");
	json_decref(record);
}

static void check_numbers(const struct key *k)
{
	json_t *record = read_json(
		"{\"kind\":\"rnp.x\",\"a\":[{\"n\":9007199254740993}]}");

	CHECK_FAILS(EX_DATAERR, signature_add(record, k, 0));
	check_refused(record, "field 'n'");
	json_decref(record);
	record = read_json("{\"kind\":\"rnp.x\",\"n\":1e300}");
	CHECK_FAILS(EX_DATAERR, signature_add(record, k, 0));
	json_decref(record);
	record = signed_record(
		"{\"kind\":\"rnp.x\",\"n\":[9007199254740992,-9007199254740992]}", k);
	CHECK(verify(record).ok);
	json_decref(record);
	record = signed_record("{\"kind\":\"of others\",\"n\":9007199254740993}", k);
	json_object_set_new(record, "n", json_integer(INT64_C(9007199254740992)));
	CHECK(verify(record).ok); /* the same double */
	json_decref(record);
}

int main(void)
{
	struct key w3c = KEY_INIT, other = KEY_INIT;

	unsetenv("RNP_NOW");
	load_w3c_key(&w3c);
	CHECK(key_generate(&other) == 0);
	check_w3c_vector(&w3c);
	check_fields(&w3c);
	check_malleable(&other);
	check_small_order();
	check_tampering(&other);
	check_shapes(&other);
	check_sets(&w3c, &other);
	check_parties(&w3c, &other);
	check_numbers(&other);
	check_many();
	key_release(&w3c);
	key_release(&other);
	TEST_END();
}
