/* evidence.c - signed records that are read from their text are those that JSON and schema accept,
 * with the same values, hashes and signers; and those that our programs write are read so. */
/* uses: cmd/rnp-reward */
#include "cmd/rnp-reward/evidence/plain.h"

#include <stdlib.h>

#include "common/base/mem.h"
#include "common/json/json.h"
#include "common/json/schema.h"
#include "common/record/signature.h"
#include "tests/unit/rnp-reward/evidence/evidence_same.h"
#include "tests/unit/test.h"

#define NODE  "7Rs4zKWK8KxYTDqjWZTDyQhrbj3H8BrYxYzHLxYnJ6Gb"
#define TIMES "\"from\":\"2026-11-16T00:00:00Z\",\"to\":\"2026-11-17T00:00:00Z\""
#define HASH  "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static struct key key = KEY_INIT;
static struct evidence_key trusted;

/* What our programs write, in their order; without signer and proof. */
static const char *const bodies[] = {
	"\"kind\":\"rnp.uptime\",\"v\":1,\"node\":\"" NODE
	"\",\"at\":\"2026-11-17T00:10:00.250Z\"," TIMES
	",\"beats\":2880,\"beats_sha256\":\"" HASH
	"\",\"up_ms\":80000000,\"spans\":[[0,40000000],[46400000,86400000]]",
	"\"kind\":\"rnp.uptime\",\"v\":1,\"node\":\"" NODE
	"\",\"at\":\"2026-11-17T00:10:00Z\"," TIMES
	",\"beats\":0,\"up_ms\":0,\"spans\":[]",
	"\"kind\":\"rnp.verdict\",\"v\":1,\"node\":\"" NODE
	"\",\"at\":\"2026-11-16T03:00:00Z\",\"challenge_sha256\":\"" HASH
	"\",\"nonce\":\"" HASH "\",\"node_record\":\"" HASH "\",\"joint\":\"" HASH
	"\",\"elapsed_ns\":812345678,\"roots_ns\":712345678,\"roundtrip_ns\":1234567,"
	"\"passed\":true,\"checks\":[{\"check\":\"signature\",\"passed\":true},"
	"{\"check\":\"memory\",\"passed\":true,\"device\":\"GPU-1\"}],"
	"\"proves\":\"work of this size was done within the time\","
	"\"proven\":[{\"device\":\"GPU-1\",\"memory_bytes\":22000000000},{\"device\":\"cpu:0\"}],"
	"\"readings\":{\"memory\":22000000000,\"clock\":12345678,\"teraflops\":330000000000000},"
	"\"unknown\":{\"readings.bandwidth\":\"not asked in this challenge\",\"a\":\"\"},"
	"\"policy\":\"rnp-021\",\"score_ppm\":987654",
	"\"kind\":\"rnp.verdict\",\"v\":1,\"node\":\"" NODE
	"\",\"at\":\"2026-11-16T03:00:00Z\",\"passed\":false,\"checks\":[{\"check\":\"deadline\","
	"\"passed\":false,\"device\":\"GPU-1\",\"reason\":\"9000 ms passed, 8000 were allowed\"}],"
	"\"readings\":{},\"score_ppm\":0",
	"\"kind\":\"rnp.receipt\",\"v\":1,\"node\":\"" NODE
	"\",\"at\":\"2026-11-16T03:00:00Z\",\"job\":\"run 7\"," TIMES
	",\"gpu_seconds\":7200,\"tokens\":1000000,\"earned_uusd\":1000,\"credits\":0",
	"\"kind\":\"rnp.receipt\",\"v\":1,\"node\":\"" NODE "\",\"job\":\"x\"," TIMES,
	"\"kind\":\"rnp.receipt\",\"v\":1,\"node\":\"" NODE "\",\"job\":\"x\"," TIMES
	",\"devices\":[\"GPU-1\",\"gpu-2\"],\"gpu_seconds\":7200",
	"\"kind\":\"rnp.receipt\",\"v\":1,\"node\":\"" NODE "\",\"job\":\"x\"," TIMES
	",\"devices\":[]",
	"\"kind\":\"rnp.node\",\"v\":1,\"node\":\"" NODE
	"\",\"at\":\"2026-11-16T03:00:00Z\",\"name\":\"rack 3\",\"wallet\":\"" NODE
	"\",\"gpus\":[{\"uuid\":\"GPU-1\",\"vendor\":\"NVIDIA\",\"model\":\"NVIDIA H200\","
	"\"memory_bytes\":150754820096,\"memory_bandwidth_bps\":4800000000000,"
	"\"driver\":\"580.95.05\",\"compute_capability\":\"9.0\",\"sm_count\":132,"
	"\"clock_max_mhz\":1980,\"power_limit_mw\":700000,\"pcie_gen\":5,\"pcie_width\":16,"
	"\"ecc\":true,\"mig\":false,\"unknown\":{\"z\":\"\",\"a\":\"why\"}},"
	"{\"model\":\"NVIDIA H200\"},{\"uuid\":\"GPU-2\",\"model\":\"NVIDIA H200\"}],"
	"\"cpu\":{\"model\":\"EPYC\",\"cores\":96,\"threads\":192,\"clock_max_mhz\":4400,"
	"\"isa\":[\"avx2\",\"sha_ni\"]},\"memory_bytes\":67343015936,"
	"\"memory_bandwidth_bps\":61000000000,\"disks\":[{\"name\":\"nvme0n1\","
	"\"type\":\"nvme\",\"model\":\"2TB\",\"size_bytes\":2000398934016,"
	"\"read_bps\":7100000000},{\"name\":\"vda\"}],\"os\":{\"name\":\"Linux\","
	"\"release\":\"6.1\",\"distribution\":\"Debian\",\"machine\":\"x86_64\"},"
	"\"limits\":{\"cgroup\":2,\"cpu_milli\":16000,\"cpus\":16,\"memory_bytes\":0,"
	"\"pids\":4096},\"network\":{\"down_bps\":940000000,\"up_bps\":910000000,"
	"\"ping_us\":9000},\"labels\":{\"rack\":\"3\",\"region\":\"Texas\","
	"\"country\":\"US\",\"host_type\":\"miner\",\"compliance\":[\"SOC2\",\"GDPR\"],"
	"\"peak_hours\":\"17-22\"},\"unknown\":{\"x\":\"no\"},\"withheld\":[\"ping\"]",
	"\"kind\":\"rnp.node\",\"v\":1,\"node\":\"" NODE
	"\",\"at\":\"2026-11-16T03:00:00Z\",\"gpus\":[],\"cpu\":{},\"disks\":[],"
	"\"labels\":{},\"unknown\":{},\"withheld\":[]",
};

#define A_NODE 8 /* in bodies */

#define BODIES (sizeof bodies / sizeof *bodies)

/* Signs a record by our key and writes it. Returns false if it cannot be signed. */
static bool sign(json_t *record, struct buf *out)
{
	bool done;

	json_object_del(record, "proof");
	done = signature_add(record, &key, INT64_C(1795000000000)) == 0;
	err_clear();
	buf_reset(out);
	if (done)
		json_write(out, record);
	return done;
}

/* Nodes speak for themselves; other records name who signs them. */
static void sign_body(const char *body, const char *signer, struct buf *out)
{
	struct buf text = BUF_INIT;
	json_t *record;

	buf_addf(&text, "{%s}", body);
	record = json_parse_object(text.data, text.len, "body");
	CHECK(record);
	json_set_text(record, strstr(body, "rnp.node") ? "node" : "signer", signer);
	CHECK(sign(record, out));
	json_decref(record);
	buf_release(&text);
}

/* Checks a line; returns whether the plain reader took it. */
static bool read_both(const struct buf *line)
{
	bool plain;
	const char *differs = evidence_same(&trusted, buf_text(line), line->len, &plain);

	if (differs)
		fprintf(stderr, "%s: %s\n", differs, buf_text(line));
	CHECK(!differs);
	return plain;
}

static void test_ours(void)
{
	for (size_t i = 0; i < BODIES; i++) {
		struct buf line = BUF_INIT, canon = BUF_INIT;
		json_t *record;

		sign_body(bodies[i], key.address, &line);
		CHECK(read_both(&line));
		/* in canonical order, too */
		record = json_parse_object(line.data, line.len, "line");
		CHECK(canon_write(&canon, record) == 0);
		CHECK(read_both(&canon));
		json_decref(record);
		buf_release(&line);
		buf_release(&canon);
	}
}

/* Replaces the first `from` of a good line and signs it again if `again`. */
static bool takes(size_t body, const char *from, const char *to, bool again)
{
	struct buf line = BUF_INIT, changed = BUF_INIT;
	json_t *record;
	const char *at;
	bool plain;

	sign_body(bodies[body], key.address, &line);
	at = strstr(line.data, from);
	CHECK(at);
	buf_add(&changed, line.data, (size_t)(at - line.data));
	buf_adds(&changed, to);
	buf_adds(&changed, at + strlen(from));
	if (again) {
		record = json_parse_object(changed.data, changed.len, "line");
		CHECK(record && sign(record, &changed));
		json_decref(record);
	}
	plain = read_both(&changed);
	buf_release(&line);
	buf_release(&changed);
	return plain;
}

/* Lines that mean something else than they seem to, or whose form is not certain. */
static void test_others(void)
{
	struct buf line = BUF_INIT;

	CHECK(takes(4, "\"run 7\"", "\"run 8\"", false)); /* only its signature is bad */
	CHECK(takes(4, ",\"tokens\"", " ,\t\"tokens\"", false));
	CHECK(!takes(4, "run 7", "run\\u00207", false));
	CHECK(!takes(4, "run 7", "r\xc3\xbcn", true));
	CHECK(!takes(4, "7200", "7200.0", false));
	CHECK(!takes(4, "7200", "9007199254740991", true)); /* 16 digits */
	CHECK(!takes(4, "\"tokens\":", "\"gpu_seconds\":", false));
	CHECK(!takes(4, "\"tokens\":", "\"beats\":", true)); /* of another kind */
	CHECK(!takes(4, "\"tokens\":", "\"token\":", true));
	CHECK(!takes(4, "rnp.receipt", "rnp.heartbeat", true));
	CHECK(!takes(4, NODE, "1" NODE, false));
	CHECK(!takes(4, "2026-11-16T", "2026-11-31T", false));
	CHECK(!takes(0, "[0,40000000]", "[0, 40000000]", false));
	CHECK(!takes(0, "[0,40000000]", "[0,40000000,1]", true));
	CHECK(!takes(0, HASH, "A" HASH, true));
	CHECK(!takes(2, "\"a\":\"\"", "\"readings.bandwidth\":\"\"", false));
	CHECK(!takes(2, "\"memory\":22", "\"memories\":22", true));
	CHECK(!takes(2, "\"created\":",
		"\"expires\":\"2027-01-01T00:00:00Z\",\"created\":", false));
	CHECK(!takes(2, "DataIntegrityProof", "DataIntegrityProoF", false));
	CHECK(!takes(2, "did:key:z6Mk", "did:key:z6Mj", false));
	CHECK(!takes(A_NODE, "\"uuid\":\"GPU-2\"", "\"uuid\":\"GPU-1\"", true));
	CHECK(!takes(A_NODE, "\"uuid\":\"GPU-2\"", "\"uuid\":\"CPU\"", true));
	CHECK(!takes(A_NODE, "\"uuid\":\"GPU-2\"", "\"uuid\":\"GPU 2\"", true));
	CHECK(!takes(A_NODE, "\"type\":\"nvme\"", "\"type\":\"tape\"", true));
	CHECK(!takes(A_NODE, "\"country\":\"US\"", "\"country\":\"Us\"", true));
	CHECK(!takes(A_NODE, "\"17-22\"", "\"17-25\"", true));
	CHECK(!takes(A_NODE, "\"17-22\"", "\"7-22\"", true));
	CHECK(!takes(A_NODE, "\"GDPR\"", "\"GDP\"", true));
	CHECK(!takes(A_NODE, "\"rack\":", "\"region\":", false));
	CHECK(!takes(A_NODE, "{\"x\":\"no\"}", "{\"x\":1}", true));
	CHECK(!takes(A_NODE, "\"name\":\"rack 3\"", "\"signer\":\"" NODE "\"", true));
	CHECK(!takes(A_NODE, "\"name\":\"rack 3\"", "\"passed\":true", true));
	CHECK(takes(A_NODE, "\"memory_bytes\":67343015936,", "",
		false)); /* not signed so */
	/* signed by a key that it does not name */
	for (size_t i = 0; i < BODIES; i++) {
		sign_body(bodies[i], NODE, &line);
		CHECK(!read_both(&line));
	}
	buf_release(&line);
}

static size_t bounded; /* lines at the bounds of a schema that the plain reader took */

/* Checks the record with another value of a field; v NULL: without it. */
static void try_value(json_t *record, json_t *obj, const char *name, json_t *takes_v)
{
	json_t *old = json_incref(json_object_get(obj, name));
	struct buf line = BUF_INIT;

	if (takes_v)
		json_object_set_new(obj, name, takes_v);
	else
		json_object_del(obj, name);
	if (sign(record, &line))
		bounded += read_both(&line);
	json_object_set_new(obj, name, old);
	buf_release(&line);
}

static json_t *letters(int64_t n)
{
	char *text = xmalloc((size_t)n + 1);
	json_t *v;

	memset(text, 'x', (size_t)n);
	v = json_stringn(text, (size_t)n);
	free(text);
	return v;
}

static json_t *copies(json_t *array, int64_t n)
{
	json_t *v = json_array();

	while (n--)
		json_array_append(v, json_array_get(array, 0));
	return v;
}

/* Tries each field of an object at, below and beyond the bounds of its schema: the plain reader's
 * own must not be wider. */
static void try_fields(const json_t *schema, json_t *record, json_t *obj)
{
	const char *name;
	json_t *rule, *v, *bound;

	json_object_foreach(json_object_get(schema, "properties"), name, rule) {
		v = json_object_get(obj, name);
		if (!v || strcmp(name, "proof") == 0)
			continue;
		for (int beyond = 0; beyond < 2; beyond++) {
			if ((bound = json_object_get(rule, "maximum")))
				try_value(record, obj, name,
					json_integer(json_integer_value(bound) + beyond));
			if ((bound = json_object_get(rule, "minimum")))
				try_value(record, obj, name,
					json_integer(json_integer_value(bound) - beyond));
			if ((bound = json_object_get(rule, "maxLength")))
				try_value(record, obj, name,
					letters(json_integer_value(bound) + beyond));
			if ((bound = json_object_get(rule, "maxItems")))
				try_value(record, obj, name,
					copies(v, json_integer_value(bound) + beyond));
		}
		try_value(record, obj, name, NULL);
		try_value(record, obj, name, json_integer(7));
		try_value(record, obj, name, json_string(""));
		try_value(record, obj, name, json_true());
		try_value(record, obj, name, json_null());
		try_value(record, obj, name, json_array());
		try_value(record, obj, name, json_object());
		v = json_object_get(obj, name);
		try_fields(rule, record, v);
		try_fields(json_object_get(rule, "items"), record, json_array_get(v, 0));
	}
}

static void test_bounds(void)
{
	for (size_t i = 0; i < BODIES; i++) {
		struct buf line = BUF_INIT;
		json_t *record, *schema;
		const char *text;

		sign_body(bodies[i], key.address, &line);
		record = json_parse_object(line.data, line.len, "line");
		text = schema_text(json_string_value(json_object_get(record, "kind")));
		schema = json_parse_object(text, strlen(text), "schema");
		try_fields(schema, record, record);
		json_decref(schema);
		json_decref(record);
		buf_release(&line);
	}
	CHECK(bounded > 50);
}

static uint64_t state = 20261123;

static size_t below(size_t n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (size_t)(state % n);
}

/* Changes a line at a random place. */
static void mutate(const struct buf *line, struct buf *out)
{
	static const char *const pieces[] = { " ", "\t", "\r", "\n", "\\u0041", "\\n",
		"\xc3\xa9", "\x7f", "\x80", ",", "\"x\":1,", "\"v\":1,", "{}", "[]",
		"null", "true", "-", "-0", "0", "00", "1e3", ".0", "9007199254740993",
		"999999999999999", "\"", ":", "}", "]", "+00:00", "z", "A" };
	size_t at = below(line->len), cut = below(3);
	const char *piece = pieces[below(sizeof pieces / sizeof *pieces)];
	char byte = (char)below(256);

	if (cut > line->len - at)
		cut = line->len - at;
	buf_reset(out);
	buf_add(out, line->data, at);
	switch (below(4)) {
	case 0:
		buf_addc(out, byte);
		break;
	case 1:
		buf_adds(out, piece);
		break;
	case 2: /* a part of the line once more */
		buf_add(out, line->data + below(at + 1), below(line->len - at) % 40);
		break;
	case 3: /* a digit or a letter becomes another */
		buf_addc(out, "0123456789abcdefXYZ"[below(19)]);
		cut = 1;
		break;
	}
	buf_add(out, line->data + at + cut, line->len - at - cut);
}

static void test_random(void)
{
	size_t taken = 0, good = 0;

	for (size_t i = 0; i < BODIES; i++) {
		struct buf line = BUF_INIT, once = BUF_INIT, changed = BUF_INIT;

		sign_body(bodies[i], key.address, &line);
		for (int k = 0; k < 1500; k++) {
			json_t *record;

			mutate(&line, &changed);
			if (below(3) == 0) {
				mutate(&changed, &once);
				mutate(&once, &changed);
			}
			taken += read_both(&changed);
			/* the same, signed */
			record = json_parse_object(changed.data, changed.len, "line");
			if (record && sign(record, &changed))
				good += read_both(&changed);
			err_clear();
			json_decref(record);
		}
		buf_release(&line);
		buf_release(&once);
		buf_release(&changed);
	}
	CHECK(taken > 500 && good > 500);
}

int main(void)
{
	unsigned char seed[crypto_sign_SEEDBYTES] = { 0 };
	unsigned char public_key[KEY_PUBLIC_BYTES], secret[KEY_SECRET_BYTES];

	CHECK(sodium_init() >= 0);
	crypto_sign_seed_keypair(public_key, secret, seed);
	CHECK(key_from_secret(&key, secret) == 0);
	evidence_key_init(&trusted, key.public_key);
	test_ours();
	test_others();
	test_bounds();
	test_random();
	evidence_key_release(&trusted);
	key_release(&key);
	TEST_END();
}
