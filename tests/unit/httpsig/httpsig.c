/* httpsig.c - httpsig and content_digest: the vectors of RFC 9421, sections 2, 4.3 and appendix
 * B, and of RFC 9530, appendices B and D; and each way in which a signature is refused.
 *
 * long because it has the vectors of three RFCs.
 *
 * The signatures that the RFC gives by RSA and ECDSA are not checked here, their bases are; the
 * one by HMAC and those by Ed25519 are. */
#include "common/httpsig/httpsig.h"

#include <sodium.h>

#include "common/httpsig/content_digest.h"
#include "tests/unit/test.h"

#define DIGEST_HELLO                                                              \
	"sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7" \
	"BNNyealdVLvRwEmTHWXvJwew==:"
#define DIGEST_DOG                                                                \
	"sha-512=:mEWXIS7MaLRuGgxOBdODa3xqM1XdEvxoYhvlCFJ41QJgJc4GTsPp29l5oGX69w" \
	"WdXymyU0rjJuahq4l5aGgfLQ==:"
#define DIGEST_BUSY                                                              \
	"sha-512=:0Y6iCBzGg5rZtoXS95Ijz03mslf6KAMCloESHObfwnHJDbkkWWQz6PhhU9kxs" \
	"TbARtY2PTBOzq24uJFpHsMuAg==:"

#define CLIENT_CERT                                                        \
	":MIIBqDCCAU6gAwIBAgIBBzAKBggqhkjOPQQDAjA6MRswGQYDVQQKDBJMZXQncyB" \
	"BdXRoZW50aWNhdGUxGzAZBgNVBAMMEkxBIEludGVybWVkaWF0ZSBDQTAeFw0yMDA" \
	"xMTQyMjU1MzNaFw0yMTAxMjMyMjU1MzNaMA0xCzAJBgNVBAMMAkJDMFkwEwYHKoZ" \
	"Izj0CAQYIKoZIzj0DAQcDQgAE8YnXXfaUgmnMtOXU/IncWalRhebrXmckC8vdgJ1" \
	"p5Be5F/3YC8OthxM4+k1M6aEAEFcGzkJiNy6J84y7uzo9M6NyMHAwCQYDVR0TBAI" \
	"wADAfBgNVHSMEGDAWgBRm3WjLa38lbEYCuiCPct0ZaSED2DAOBgNVHQ8BAf8EBAM" \
	"CBsAwEwYDVR0lBAwwCgYIKwYBBQUHAwIwHQYDVR0RAQH/BBMwEYEPYmRjQGV4YW1" \
	"wbGUuY29tMAoGCCqGSM49BAMCA0gAMEUCIBHda/r1vaL6G3VliL4/Di6YK0Q6bMj" \
	"eSkC3dFCOOB8TAiEAx/kHSB4urmiZ0NX5r5XarmPk0wmuydBVoU4hBVZ1yhk=:"

#define FIELDS(list) .fields = list, .nfields = sizeof list / sizeof *list

static const char hello[] = "{\"hello\": \"world\"}";

static const struct httpsig_field test_fields[] = {
	{ "Host", "example.com" },
	{ "Date", "Tue, 20 Apr 2021 02:07:55 GMT" },
	{ "Content-Type", "application/json" },
	{ "Content-Digest", DIGEST_HELLO },
	{ "Content-Length", "18" },
};

/* test-request of appendix B.2 */
static const struct httpsig_message test_request = {
	.method = "POST",
	.scheme = "https",
	.authority = "example.com",
	.target = "/foo?param=Value&Pet=dog",
	FIELDS(test_fields),
	.body = hello,
	.body_bytes = sizeof hello - 1,
};

static int base_of(struct buf *out, const struct httpsig_message *m, const char *covered)
{
	struct sf f;
	int rc = sf_parse(&f, SF_LIST, covered, strlen(covered), "test");

	if (rc == 0)
		rc = httpsig_base(out, m, &f.members[0]);
	sf_release(&f);
	return rc;
}

static void check_base(int line, const struct httpsig_message *m, const char *covered,
	const char *lines)
{
	struct buf out = BUF_INIT, want = BUF_INIT;
	int rc = base_of(&out, m, covered);

	buf_addf(&want, "%s\"@signature-params\": %s", lines, covered);
	test_checks++;
	if (rc < 0 || strcmp(buf_text(&out), buf_text(&want)) != 0) {
		test_failures++;
		fprintf(stderr, "%s:%d: the base is\n%s\nnot\n%s\n(%s)\n", __FILE__, line,
			buf_text(&out), buf_text(&want), err_get()->text);
	}
	err_clear();
	buf_release(&out);
	buf_release(&want);
}

#define BASE(m, covered, lines) check_base(__LINE__, m, covered, lines)

static void check_refused(int line, const struct httpsig_message *m, const char *covered)
{
	struct buf out = BUF_INIT;

	test_checks++;
	if (base_of(&out, m, covered) != -1 || err_get()->code != EX_DATAERR || out.len) {
		test_failures++;
		fprintf(stderr, "%s:%d: %s is not refused\n", __FILE__, line, covered);
	}
	err_clear();
	buf_release(&out);
}

#define REFUSED(m, covered) check_refused(__LINE__, m, covered)

/* --- appendix B ---------------------------------------------------------------------------- */

static void check_appendix_bases(void)
{
	static const struct httpsig_field fields[] = {
		{ "Date", "Tue, 20 Apr 2021 02:07:56 GMT" },
		{ "Content-Type", "application/json" },
		{ "Content-Digest", DIGEST_DOG },
		{ "Content-Length", "23" },
	};
	static const struct httpsig_field proxied[] = {
		{ "Host", "service.internal.example" },
		{ "Client-Cert", CLIENT_CERT },
	};
	struct httpsig_message response = { .status = 200, FIELDS(fields) };
	struct httpsig_message behind = { .method = "POST",
		.authority = "service.internal.example",
		.target = "/foo?param=Value&Pet=dog",
		FIELDS(proxied) };

	/* B.2.1 to B.2.4, B.3 */
	BASE(&test_request,
		"();created=1618884473;keyid=\"test-key-rsa-pss\";nonce=\"b3k2pp5k7z-50gnwp.yemd\"",
		"");
	BASE(&test_request,
		"(\"@authority\" \"content-digest\" \"@query-param\";name=\"Pet\")"
		";created=1618884473;keyid=\"test-key-rsa-pss\";tag=\"header-example\"",
		"\"@authority\": example.com\n\"content-digest\": " DIGEST_HELLO
		"\n\"@query-param\";name=\"Pet\": dog\n");
	BASE(&test_request,
		"(\"date\" \"@method\" \"@path\" \"@query\" \"@authority\" \"content-type\" "
		"\"content-digest\" \"content-length\");created=1618884473;keyid=\"test-key-rsa-pss\"",
		"\"date\": Tue, 20 Apr 2021 02:07:55 GMT\n\"@method\": POST\n\"@path\": /foo\n"
		"\"@query\": ?param=Value&Pet=dog\n\"@authority\": example.com\n"
		"\"content-type\": application/json\n\"content-digest\": " DIGEST_HELLO
		"\n\"content-length\": 18\n");
	BASE(&response,
		"(\"@status\" \"content-type\" \"content-digest\" \"content-length\")"
		";created=1618884473;keyid=\"test-key-ecc-p256\"",
		"\"@status\": 200\n\"content-type\": application/json\n\"content-digest\": " DIGEST_DOG
		"\n\"content-length\": 23\n");
	BASE(&behind,
		"(\"@path\" \"@query\" \"@method\" \"@authority\" \"client-cert\")"
		";created=1618884473;keyid=\"test-key-ecc-p256\"",
		"\"@path\": /foo\n\"@query\": ?param=Value&Pet=dog\n\"@method\": POST\n"
		"\"@authority\": service.internal.example\n"
		"\"client-cert\": " CLIENT_CERT "\n");
}

/* B.2.5: the HMAC that the RFC gives is that of our base. */
static void check_hmac(void)
{
	static const char secret[] =
		"uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBt"
		"bmHhIDi6pcl8jsasjlTMtDQ==";
	unsigned char key[64], mac[crypto_auth_hmacsha256_BYTES];
	crypto_auth_hmacsha256_state state;
	struct buf base = BUF_INIT;
	char text[64];
	size_t n = 0;

	CHECK(sodium_base642bin(key, sizeof key, secret, strlen(secret), NULL, &n, NULL,
		      sodium_base64_VARIANT_ORIGINAL) == 0 &&
		n == sizeof key);
	CHECK(base_of(&base, &test_request,
		      "(\"date\" \"@authority\" \"content-type\");created=1618884473"
		      ";keyid=\"test-shared-secret\"") == 0);
	crypto_auth_hmacsha256_init(&state, key, n);
	crypto_auth_hmacsha256_update(&state, (const unsigned char *)base.data, base.len);
	crypto_auth_hmacsha256_final(&state, mac);
	sodium_bin2base64(text, sizeof text, mac, sizeof mac,
		sodium_base64_VARIANT_ORIGINAL);
	CHECK_TEXT("pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8=", text);
	buf_release(&base);
}

static void test_key(struct key *k)
{
	static const char seed_text[] = "n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU";
	unsigned char seed[32], public_key[32], secret[64];

	CHECK(sodium_base642bin(seed, sizeof seed, seed_text, strlen(seed_text), NULL,
		      NULL, NULL, sodium_base64_VARIANT_URLSAFE_NO_PADDING) == 0);
	crypto_sign_seed_keypair(public_key, secret, seed);
	CHECK(key_from_secret(k, secret) == 0);
}

static bool find_test_key(void *ctx, const char *keyid, unsigned char public_key[32])
{
	memcpy(public_key, ((struct key *)ctx)->public_key, 32);
	return strcmp(keyid, "test-key-ed25519") == 0;
}

/* B.2.6: Ed25519 has one signature for one message, so that signing gives the RFC's bytes. */
static void check_ed25519(void)
{
	struct httpsig_params params = { .label = "sig-b26",
		.components =
			"\"date\" \"@method\" \"@path\" \"@authority\" \"content-type\" "
			"\"content-length\"",
		.created_s = 1618884473,
		.keyid = "test-key-ed25519" };
	struct httpsig_policy policy = { .now_s = 1618884480,
		.max_age_s = 60,
		.required = "\"@method\" \"@path\" \"@authority\"",
		.find_key = find_test_key };
	struct buf input = BUF_INIT, signature = BUF_INIT;
	struct httpsig_field fields[7];
	struct httpsig_message m = test_request;
	struct httpsig_result result;
	struct key k = KEY_INIT;

	test_key(&k);
	policy.ctx = &k;
	CHECK(httpsig_sign(&input, &signature, &test_request, &params, &k) == 0);
	CHECK_TEXT(
		"sig-b26=(\"date\" \"@method\" \"@path\" \"@authority\" \"content-type\" "
		"\"content-length\");created=1618884473;keyid=\"test-key-ed25519\"",
		buf_text(&input));
	CHECK_TEXT(
		"sig-b26=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPi"
		"u4A0w6vuQv5lIp5WPpBKRCw==:",
		buf_text(&signature));
	memcpy(fields, test_fields, sizeof test_fields);
	fields[5] = (struct httpsig_field){ "signature-input", buf_text(&input) };
	fields[6] = (struct httpsig_field){ "SIGNATURE", buf_text(&signature) };
	m.fields = fields;
	m.nfields = 7;
	CHECK_I64(HTTPSIG_GOOD, httpsig_verify(&m, &policy, &result));
	CHECK_TEXT("sig-b26", result.label);
	CHECK_TEXT(k.address, result.address);
	CHECK_I64(1618884473, result.created_s);
	CHECK_TEXT("", result.reason);
	m.target = "/bar";
	CHECK_I64(HTTPSIG_BAD, httpsig_verify(&m, &policy, &result));
	CHECK(strstr(result.reason, "not by that key"));
	buf_release(&input);
	buf_release(&signature);
	key_release(&k);
}

/* B.4: which changes on the way leave a signature good. */
static void check_transformations(void)
{
	static const char input[] =
		"transform=(\"@method\" \"@path\" \"@authority\" \"accept\")"
		";created=1618884473;keyid=\"test-key-ed25519\"";
	static const char signature[] =
		"transform=:ZT1kooQsEHpZ0I1IjCqtQppOmIqlJPeo7DHR3SoMn0s5J"
		"Z1eRGS0A+vyYP9t/LXlh5QMFFQ6cpLt2m0pmj3NDA==:";
	const struct httpsig_field two[] = { { "Host", "example.org" },
		{ "Accept", "application/json" }, { "Accept", "*/*" },
		{ "Signature-Input", input }, { "Signature", signature } };
	const struct httpsig_field one[] = { { "Signature", signature },
		{ "Signature-Input", input }, { "accept", "application/json, */*" } };
	const struct httpsig_field swapped[] = { { "Accept", "*/*" },
		{ "Accept", "application/json" }, { "Signature-Input", input },
		{ "Signature", signature } };
	struct httpsig_message m = { .method = "GET",
		.authority = "example.org",
		.target = "/demo?name1=Value1&Name2=value2",
		FIELDS(two) };
	struct httpsig_policy policy = { .now_s = 1618884473, .find_key = find_test_key };
	struct httpsig_result result;
	struct key k = KEY_INIT;

	test_key(&k);
	policy.ctx = &k;
	CHECK_I64(HTTPSIG_GOOD, httpsig_verify(&m, &policy, &result));
	m.target = "/demo?name1=Value1&Name2=value2&param=added";
	CHECK_I64(HTTPSIG_GOOD, httpsig_verify(&m, &policy, &result));
	m.fields = one;
	m.nfields = 3;
	CHECK_I64(HTTPSIG_GOOD, httpsig_verify(&m, &policy, &result));
	m.fields = swapped;
	m.nfields = 4;
	CHECK_I64(HTTPSIG_BAD, httpsig_verify(&m, &policy, &result));
	m.fields = two;
	m.nfields = 5;
	m.method = "POST";
	m.authority = "example.com";
	CHECK_I64(HTTPSIG_BAD, httpsig_verify(&m, &policy, &result));
	key_release(&k);
}

/* --- section 2: components ------------------------------------------------------------------ */

static void check_fields(void)
{
	static const struct httpsig_field fields[] = {
		{ "Host", "www.example.com" },
		{ "Date", "Tue, 20 Apr 2021 02:07:56 GMT" },
		{ "X-OWS-Header", "  Leading and trailing whitespace.  " },
		{ "X-Obs-Fold-Header", "Obsolete\r\n    line folding." },
		{ "Cache-Control", "max-age=60" },
		{ "Cache-Control", "   must-revalidate" },
		{ "Example-Dict", " a=1,    b=2;x=1;y=2,   c=(a   b   c), d" },
		{ "X-Empty-Header", " " },
		{ "Example-Header", "value, with, lots" },
		{ "Example-Header", "of, commas" },
		{ "X-Break", "a\nb" },
		{ "X-Latin", "caf\xe9" },
	};
	static const struct httpsig_type types[] = { { "example-dict", SF_DICTIONARY },
		{ 0 } };
	struct httpsig_message m = { .method = "GET", FIELDS(fields), .types = types };

	BASE(&m,
		"(\"host\" \"date\" \"x-ows-header\" \"x-obs-fold-header\" \"cache-control\" "
		"\"example-dict\" \"x-empty-header\")",
		"\"host\": www.example.com\n\"date\": Tue, 20 Apr 2021 02:07:56 GMT\n"
		"\"x-ows-header\": Leading and trailing whitespace.\n"
		"\"x-obs-fold-header\": Obsolete line folding.\n"
		"\"cache-control\": max-age=60, must-revalidate\n"
		"\"example-dict\": a=1,    b=2;x=1;y=2,   c=(a   b   c), d\n"
		"\"x-empty-header\": \n");
	BASE(&m, "(\"example-dict\";sf)",
		"\"example-dict\";sf: a=1, b=2;x=1;y=2, c=(a b c), d\n");
	BASE(&m,
		"(\"example-dict\";key=\"a\" \"example-dict\";key=\"d\" \"example-dict\";key=\"b\" "
		"\"example-dict\";key=\"c\")",
		"\"example-dict\";key=\"a\": 1\n\"example-dict\";key=\"d\": ?1\n"
		"\"example-dict\";key=\"b\": 2;x=1;y=2\n\"example-dict\";key=\"c\": (a b c)\n");
	BASE(&m, "(\"example-header\")",
		"\"example-header\": value, with, lots, of, commas\n");
	BASE(&m, "(\"example-header\";bs)",
		"\"example-header\";bs: :dmFsdWUsIHdpdGgsIGxvdHM=:, :b2YsIGNvbW1hcw==:\n");
	BASE(&m, "(\"x-latin\";bs \"x-break\";bs)",
		"\"x-latin\";bs: :Y2Fm6Q==:\n\"x-break\";bs: :YQpi:\n");

	REFUSED(&m, "(\"x-latin\")");
	REFUSED(&m, "(\"x-break\")");
	REFUSED(&m, "(\"x-none\")");
	REFUSED(&m, "(\"x-none\";bs)");
	REFUSED(&m, "(\"Host\")");
	REFUSED(&m, "(\"\")");
	REFUSED(&m, "(host)");
	REFUSED(&m, "(\"host\" \"host\")");
	REFUSED(&m, "(\"example-dict\";key=\"a\";sf \"example-dict\";sf;key=\"a\")");
	REFUSED(&m, "(\"host\";sf)");
	REFUSED(&m, "(\"host\";bs;sf)");
	REFUSED(&m, "(\"host\";sf=?0)");
	REFUSED(&m, "(\"host\";sf=1)");
	REFUSED(&m, "(\"host\";tr)");
	REFUSED(&m, "(\"host\";unknown)");
	REFUSED(&m, "(\"host\";req)");
	REFUSED(&m, "(\"host\";name=\"a\")");
	REFUSED(&m, "(\"example-dict\";key=\"z\")");
	REFUSED(&m, "(\"date\";key=\"a\")");
	REFUSED(&m, "\"host\"");
}

static void check_derived(void)
{
	struct httpsig_message m = { .method = "POST",
		.scheme = "HTTPS",
		.authority = "WWW.Example.com:443",
		.target = "/path?param=value&foo=bar&baz=bat%2Dman&qux=" };
	struct httpsig_message other = { .method = "GET",
		.scheme = "http",
		.authority = "[::1]:80",
		.target =
			"/parameters?var=this%20is%20a%20big%0Amultiline%20value&bar=with+plus+"
			"whitespace&fa%C3%A7ade%22%3A%20=something&twice=1&twice=2" };

	BASE(&m,
		"(\"@method\" \"@target-uri\" \"@authority\" \"@scheme\" \"@request-target\" "
		"\"@path\" \"@query\" \"@query-param\";name=\"baz\" \"@query-param\";name=\"qux\")",
		"\"@method\": POST\n"
		"\"@target-uri\": https://www.example.com/path?param=value&foo=bar&baz=bat%2Dman&qux=\n"
		"\"@authority\": www.example.com\n\"@scheme\": https\n"
		"\"@request-target\": /path?param=value&foo=bar&baz=bat%2Dman&qux=\n"
		"\"@path\": /path\n\"@query\": ?param=value&foo=bar&baz=bat%2Dman&qux=\n"
		"\"@query-param\";name=\"baz\": bat-man\n\"@query-param\";name=\"qux\": \n");
	BASE(&other,
		"(\"@authority\" \"@query-param\";name=\"var\" \"@query-param\";name=\"bar\" "
		"\"@query-param\";name=\"fa%C3%A7ade%22%3A%20\")",
		"\"@authority\": [::1]\n"
		"\"@query-param\";name=\"var\": this%20is%20a%20big%0Amultiline%20value\n"
		"\"@query-param\";name=\"bar\": with%20plus%20whitespace\n"
		"\"@query-param\";name=\"fa%C3%A7ade%22%3A%20\": something\n");
	REFUSED(&other, "(\"@query-param\";name=\"twice\")");
	REFUSED(&other, "(\"@query-param\";name=\"none\")");
	REFUSED(&other, "(\"@query-param\")");
	REFUSED(&m, "(\"@status\")");
	REFUSED(&m, "(\"@signature-params\")");
	REFUSED(&m, "(\"@unknown\")");
	REFUSED(&m, "(\"@method\";sf)");
	REFUSED(&m, "(\"@method\";name=\"a\")");
	REFUSED(&m, "(\"@method\";req)");
	other.authority = "example.com:8080";
	other.target = "/";
	BASE(&other, "(\"@authority\" \"@path\" \"@query\")",
		"\"@authority\": example.com:8080\n\"@path\": /\n\"@query\": ?\n");
	other.target = "https://www.example.com/path?param=value";
	BASE(&other, "(\"@request-target\" \"@path\" \"@target-uri\")",
		"\"@request-target\": https://www.example.com/path?param=value\n\"@path\": /path\n"
		"\"@target-uri\": https://www.example.com/path?param=value\n");
	other.target = "*";
	BASE(&other, "(\"@request-target\")", "\"@request-target\": *\n");
	other.target = "/a b";
	REFUSED(&other, "(\"@path\")");
	other.target = "/a\nb";
	REFUSED(&other, "(\"@path\")");
	other.target = NULL;
	REFUSED(&other, "(\"@path\")");
	other.authority = "user@example.com";
	REFUSED(&other, "(\"@authority\")");
}

/* Section 2.4: a response that is bound to its request. */
static void check_response(void)
{
	static const struct httpsig_field fields[] = {
		{ "Content-Type", "application/json" },
		{ "Content-Digest", DIGEST_BUSY },
	};
	struct httpsig_message m = { .status = 503,
		FIELDS(fields),
		.request = &test_request };

	BASE(&m,
		"(\"@status\" \"content-digest\" \"content-type\" \"@authority\";req "
		"\"@method\";req \"@path\";req \"content-digest\";req)"
		";created=1618884479;keyid=\"test-key-ecc-p256\"",
		"\"@status\": 503\n\"content-digest\": " DIGEST_BUSY
		"\n\"content-type\": application/json\n\"@authority\";req: example.com\n"
		"\"@method\";req: POST\n\"@path\";req: /foo\n\"content-digest\";req: " DIGEST_HELLO
		"\n");
	REFUSED(&m, "(\"@method\")");
	REFUSED(&m, "(\"@status\";req)");
	m.request = NULL;
	REFUSED(&m, "(\"@method\";req)");
}

/* --- policies ------------------------------------------------------------------------------ */

#define NOW 1700000000

static char seen[200];

static bool nonce_seen(void *ctx, const char *address, const char *nonce, int64_t until_s)
{
	bool known = strcmp(seen, nonce) == 0;

	(void)ctx, (void)address;
	snprintf(seen, sizeof seen, "%s", nonce);
	CHECK_I64(NOW + 60 + 5, until_s);
	return known;
}

/* Signs the test request with these and verifies it. Returns the outcome. */
static enum httpsig_outcome try_policy(const struct httpsig_params *params,
	const struct httpsig_policy *policy, const struct httpsig_message *message,
	struct httpsig_result *result)
{
	struct buf input = BUF_INIT, signature = BUF_INIT;
	struct httpsig_field fields[16];
	struct httpsig_message m = *message;
	enum httpsig_outcome outcome;
	struct key k = KEY_INIT;

	test_key(&k);
	CHECK(httpsig_sign(&input, &signature, message, params, &k) == 0);
	memcpy(fields, m.fields, m.nfields * sizeof *fields);
	fields[m.nfields++] = (struct httpsig_field){ "Signature-Input",
		buf_text(&input) };
	fields[m.nfields++] = (struct httpsig_field){ "Signature", buf_text(&signature) };
	m.fields = fields;
	outcome = httpsig_verify(&m, policy, result);
	CHECK(err_get()->code == 0);
	buf_release(&input);
	buf_release(&signature);
	key_release(&k);
	return outcome;
}

#define BAD(text)                                                              \
	do {                                                                   \
		CHECK_I64(HTTPSIG_BAD, try_policy(&s, &p, &test_request, &r)); \
		if (!strstr(r.reason, text))                                   \
			CHECK_TEXT(text, r.reason);                            \
	} while (0)

static void check_policies(void)
{
	struct httpsig_params s = { .label = "a",
		.components = "\"@method\" \"@path\" \"content-digest\"",
		.created_s = NOW };
	struct httpsig_policy p = { .now_s = NOW, .max_age_s = 60, .skew_s = 5 };
	struct httpsig_message m = test_request;
	struct httpsig_result r;
	struct key k = KEY_INIT;
	char did[KEY_DID_MAX];

	CHECK_I64(HTTPSIG_GOOD, try_policy(&s, &p, &test_request, &r));
	CHECK_I64(HTTPSIG_ABSENT, httpsig_verify(&test_request, &p, &r));
	CHECK_TEXT("the message is not signed", r.reason);

	s.created_s = NOW - 65;
	CHECK_I64(HTTPSIG_GOOD, try_policy(&s, &p, &test_request, &r));
	s.created_s = NOW - 66;
	BAD("too old");
	s.created_s = NOW + 5;
	CHECK_I64(HTTPSIG_GOOD, try_policy(&s, &p, &test_request, &r));
	s.created_s = NOW + 6;
	BAD("in the future");
	s.created_s = NOW;
	s.expires_s = NOW - 6;
	BAD("expired");
	s.expires_s = NOW + 10;
	CHECK_I64(HTTPSIG_GOOD, try_policy(&s, &p, &test_request, &r));

	p.required = "\"@method\" \"@authority\"";
	BAD("does not cover \"@authority\"");
	p.required = "\"content-digest\" \"@path\"";
	CHECK_I64(HTTPSIG_GOOD, try_policy(&s, &p, &test_request, &r));

	p.tag = "rnp";
	BAD("no signature has the label or tag");
	s.tag = "other";
	BAD("no signature has the label or tag");
	s.tag = "rnp";
	CHECK_I64(HTTPSIG_GOOD, try_policy(&s, &p, &test_request, &r));
	p.label = "b";
	BAD("no signature has the label or tag");
	p.label = "a";

	p.nonce_required = true;
	p.nonce_seen = nonce_seen;
	BAD("nonce is missing");
	s.nonce = "once";
	CHECK_I64(HTTPSIG_GOOD, try_policy(&s, &p, &test_request, &r));
	BAD("used before");
	s.nonce = "twice";
	CHECK_I64(HTTPSIG_GOOD, try_policy(&s, &p, &test_request, &r));

	s.keyid = "somebody";
	BAD("keyid names no key");
	s.keyid = "11111111111111111111111111111112";
	BAD("not by that key");
	test_key(&k);
	key_did(k.public_key, did);
	s.keyid = did;
	s.nonce = "3";
	CHECK_I64(HTTPSIG_GOOD, try_policy(&s, &p, &test_request, &r));
	CHECK_TEXT(k.address, r.address);

	m.body = "{\"hello\": \"World\"}";
	s.nonce = "4";
	CHECK_I64(HTTPSIG_BAD, try_policy(&s, &p, &m, &r));
	CHECK(strstr(r.reason, "not that of the body"));
	CHECK(strcmp(seen, "4") != 0); /* a bad message uses no nonce up */
	key_release(&k);
}

/* Parameters that only a liar sends; each with a signature that is right for its base. */
static void check_liars(void)
{
	static const struct {
		const char *input, *why;
	} lies[] = {
		{ "a=();created=1700000000;alg=\"hmac-sha256\"", "not ed25519" },
		{ "a=();created=1700000000;alg=ed25519", "wrong type" },
		{ "a=();created=\"1700000000\"", "wrong type" },
		{ "a=();created=1700000000.5", "wrong type" },
		{ "a=();expires=1700000001", "creation is missing" },
		{ "a=1;created=1700000000", "not a list" },
		{ "a=();created=1700000000;nonce=\"\"", "nonce is empty" },
		{ "a=();created=1700000000;created=1600000000", "there twice" },
		{ "a=();created=1600000000, a=();created=1700000000", "there twice" },
		{ "a=();created=1700000000", "keyid names no key" },
		{ "a=();created=1700000000;keyid=\"\"", "keyid names no key" },
		{ "b=();created=1700000000;keyid=\"11111111111111111111111111111112\"",
			"no 64 bytes" },
		{ "a=(1);created=1700000000;keyid=\"11111111111111111111111111111112\"",
			"not a string" },
		{ "a=(", "a value is missing" },
		{ "a=(), b=(), c=(), d=(), e=(), f=(), g=(), h=(), i=()", "too many" },
	};
	struct httpsig_policy p = { .now_s = NOW, .max_age_s = 60 };
	struct httpsig_result r;

	for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
		struct httpsig_field fields[] = { { "Signature-Input", lies[i].input },
			{ "Signature",
				"a=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUP"
				"iu4A0w6vuQv5lIp5WPpBKRCw==:" } };
		struct httpsig_message m = { .method = "GET", FIELDS(fields) };

		CHECK_I64(HTTPSIG_BAD, httpsig_verify(&m, &p, &r));
		if (!strstr(r.reason, lies[i].why))
			CHECK_TEXT(lies[i].why, r.reason);
		m.nfields = 1;
		CHECK_I64(HTTPSIG_BAD, httpsig_verify(&m, &p, &r));
	}
}

/* Section 4.3: several signatures, of which the verifier takes the one that it wants. */
static void check_several(void)
{
	struct httpsig_params a = { .label = "a",
		.components = "\"@method\"",
		.created_s = NOW,
		.tag = "client" };
	struct httpsig_params b = { .label = "b",
		.components = "\"@path\" \"@method\"",
		.created_s = NOW,
		.tag = "proxy" };
	struct httpsig_policy p = { .now_s = NOW, .max_age_s = 60 };
	struct buf input = BUF_INIT, signature = BUF_INIT;
	struct key k = KEY_INIT, other = KEY_INIT;
	struct httpsig_message m = { .method = "GET", .target = "/" };
	struct httpsig_field fields[2];
	struct httpsig_result r;

	test_key(&k);
	CHECK(key_generate(&other) == 0);
	CHECK(httpsig_sign(&input, &signature, &m, &a, &k) == 0);
	CHECK(httpsig_sign(&input, &signature, &m, &b, &other) == 0);
	fields[0] = (struct httpsig_field){ "Signature-Input", buf_text(&input) };
	fields[1] = (struct httpsig_field){ "Signature", buf_text(&signature) };
	m.fields = fields;
	m.nfields = 2;
	CHECK_I64(HTTPSIG_GOOD, httpsig_verify(&m, &p, &r));
	CHECK_TEXT("a", r.label);
	p.required = "\"@path\""; /* the first does not do, the second does */
	CHECK_I64(HTTPSIG_GOOD, httpsig_verify(&m, &p, &r));
	CHECK_TEXT("b", r.label);
	CHECK_TEXT(other.address, r.address);
	p.tag = "client";
	CHECK_I64(HTTPSIG_BAD, httpsig_verify(&m, &p, &r));
	CHECK(strstr(r.reason, "signature 'a': it does not cover"));
	key_release(&k);
	key_release(&other);
	buf_release(&input);
	buf_release(&signature);
}

/* A message that cannot be signed gets no half signature. */
static void check_cannot_sign(void)
{
	struct httpsig_params s = { .label = "a",
		.components = "\"x-none\"",
		.created_s = 1 };
	struct buf input = BUF_INIT, signature = BUF_INIT;
	struct key k = KEY_INIT;

	test_key(&k);
	CHECK_FAILS(EX_DATAERR, httpsig_sign(&input, &signature, &test_request, &s, &k));
	s.components = "\"@method\"), (";
	CHECK_FAILS(EX_DATAERR, httpsig_sign(&input, &signature, &test_request, &s, &k));
	s.components = "\"@method\"";
	s.nonce = "two\nlines";
	CHECK_FAILS(EX_DATAERR, httpsig_sign(&input, &signature, &test_request, &s, &k));
	CHECK(input.len == 0 && signature.len == 0);
	buf_release(&input);
	buf_release(&signature);
	key_release(&k);
}

/* --- Content-Digest ------------------------------------------------------------------------ */

static void check_one_digest(int line, const char *field, const char *body, bool fits)
{
	struct content_digest d;
	int rc = content_digest_parse(&d, field);

	test_checks++;
	if (rc < 0 || content_digest_fits(&d, body, strlen(body)) != fits) {
		test_failures++;
		fprintf(stderr, "%s:%d: %s is%s that of the body (%s)\n", __FILE__, line,
			field, fits ? " not" : "", err_get()->text);
	}
	err_clear();
}

#define DIGEST(field, body, fits) check_one_digest(__LINE__, field, body, fits)

static void check_digests(void)
{
	static const char both[] =
		"sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:, " DIGEST_HELLO;
	struct content_digest d;
	struct buf out = BUF_INIT;

	/* RFC 9530, appendices B.1 to B.3 and D */
	DIGEST("sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:",
		"{\"hello\": \"world\"}\n", true);
	DIGEST("sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:", "", true);
	DIGEST("sha-256=:jjcgBDWNAtbYUXI37CVG3gRuGOAjaaDRGpIUFsdyepQ=:", "\"world\"}\n",
		true);
	DIGEST("sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:", hello, true);
	DIGEST(DIGEST_HELLO, hello, true);
	DIGEST(DIGEST_DOG, "{\"message\": \"good dog\"}", true);
	DIGEST(DIGEST_HELLO, "{\"hello\": \"World\"}", false);
	DIGEST(both, hello, true);
	DIGEST("md5=:Sd/dVLAcvNLSq16eXua5uQ==:, " DIGEST_HELLO, hello, true);
	/* of two, both have to fit */
	DIGEST("sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:, " DIGEST_HELLO,
		hello, false);

	CHECK_FAILS(EX_DATAERR,
		content_digest_parse(&d, "md5=:Sd/dVLAcvNLSq16eXua5uQ==:"));
	CHECK_FAILS(EX_DATAERR, content_digest_parse(&d, ""));
	CHECK_FAILS(EX_DATAERR, content_digest_parse(&d, "sha-256=:AAAA:"));
	CHECK_FAILS(EX_DATAERR, content_digest_parse(&d, "sha-256=5"));
	CHECK_FAILS(EX_DATAERR, content_digest_parse(&d, "sha-256"));
	CHECK_FAILS(EX_DATAERR, content_digest_parse(&d, DIGEST_HELLO ", " DIGEST_HELLO));

	CHECK(content_digest_parse(&d, both) == 0);
	content_digest_write(&out, &d);
	CHECK_TEXT(both, buf_text(&out));
	buf_reset(&out);
	content_digest_of(&d, hello, strlen(hello));
	content_digest_write(&out, &d);
	CHECK_TEXT("sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:",
		buf_text(&out));
	buf_release(&out);
}

int main(void)
{
	if (sodium_init() < 0)
		return 1;
	check_appendix_bases();
	check_hmac();
	check_ed25519();
	check_transformations();
	check_fields();
	check_derived();
	check_response();
	check_policies();
	check_liars();
	check_several();
	check_cannot_sign();
	check_digests();
	TEST_END();
}
