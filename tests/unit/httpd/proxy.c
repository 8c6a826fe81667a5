/* proxy.c - whom a proxy speaks for, which path a client asked for, and blocks of addresses. */
#include "common/httpd/proxy.h"

#include <arpa/inet.h>
#include <sodium.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/http/sign.h"
#include "common/httpd/sign.h"
#include "tests/unit/test.h"

static const char *const trusted[] = { "127.0.0.1", "10.0.0.0/8", "2001:db8::/33" };

/* --- blocks ------------------------------------------------------------------------------ */

static bool has(const char *block, const char *address)
{
	struct net_cidr c;
	struct net_address a;

	CHECK(net_cidr_parse(&c, block, "x") == 0);
	CHECK(net_address_parse(&a, address, strlen(address)) == 0);
	return net_cidr_has(&c, 1, &a);
}

static void blocks(void)
{
	static const char *const bad[] = { "", "/8", "10.0.0.0/", "10.0.0.0/33",
		"10.0.0.0/-1", "10.0.0.0/8x", "10.0.0.1/8", "::1/129", "2001:db8::1/33",
		"10.0.0/8", "a", "10.0.0.0/0008" };
	struct net_cidr c;

	CHECK(has("10.0.0.0/8", "10.255.0.1") && !has("10.0.0.0/8", "11.0.0.1"));
	CHECK(has("10.0.0.4/30", "10.0.0.7") && !has("10.0.0.4/30", "10.0.0.8"));
	CHECK(has("192.0.2.1", "192.0.2.1") && !has("192.0.2.1", "192.0.2.0"));
	CHECK(has("0.0.0.0/0", "9.9.9.9") && !has("0.0.0.0/0", "2001:db8::1"));
	CHECK(has("2001:db8::/33", "2001:db8:7fff::1") &&
		!has("2001:db8::/33", "2001:db8:8000::1"));
	CHECK(has("::/0", "9.9.9.9"));
	/* a socket that listens on IPv6 has IPv4 peers in this form */
	CHECK(has("10.0.0.0/8", "::ffff:10.1.1.1"));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_FAILS(EX_USAGE, net_cidr_parse(&c, bad[i], "x"));
}

/* --- clients ----------------------------------------------------------------------------- */

static const char *only; /* --proxy-header */

static struct httpd_proxy open_proxy(const char *url)
{
	const struct httpd_config config = { .external_url = url,
		.trusted_proxies = trusted,
		.ntrusted = 3,
		.proxy_header = only };
	struct httpd_proxy p = { .text = NULL };

	CHECK(httpd_proxy_open(&p, &config) == 0);
	return p;
}

/* What header lines say: the client, "none" or "bad". */
static const char *client_of(const struct httpd_pair *headers, int n)
{
	static char text[INET6_ADDRSTRLEN];
	struct httpd_proxy p = open_proxy(NULL);
	struct sockaddr_storage from;
	struct net_address a;
	const char *why = NULL;
	int rc;

	rc = httpd_proxy_client(&p, headers, n, &a, &why);
	httpd_proxy_close(&p);
	CHECK((rc < 0) == (why != NULL));
	if (rc <= 0)
		return rc ? "bad" : "none";
	net_address_to(&a, &from);
	inet_ntop(from.ss_family,
		from.ss_family == AF_INET ?
			(void *)&((struct sockaddr_in *)(void *)&from)->sin_addr :
			(void *)&((struct sockaddr_in6 *)(void *)&from)->sin6_addr,
		text, sizeof text);
	return text;
}

/* The same of three lines; NULL: no such line. */
static const char *client(const char *x, const char *x2, const char *forwarded)
{
	struct httpd_pair headers[3] = { { NULL, NULL } };
	int n = 0;

	if (x)
		headers[n++] = (struct httpd_pair){ "x-forwarded-for", x };
	if (x2)
		headers[n++] = (struct httpd_pair){ "X-Forwarded-For", x2 };
	if (forwarded)
		headers[n++] = (struct httpd_pair){ "Forwarded", forwarded };
	return client_of(headers, n);
}

static const char *two_lines(const char *first, const char *second)
{
	const struct httpd_pair headers[] = { { "Forwarded", first },
		{ "forwarded", second } };

	return client_of(headers, 2);
}

/* A client writes what its proxy then appends to, on the same line or on one of its own: whatever
 * it is, the client is the one that the proxy names, or the request is refused. */
static void forged(void)
{
	static const char *const before[] = { "for=9.9.9.9;x=\"", "for=9.9.9.9;by=\"a\\",
		"for=9.9.9.9;by=\"a\\\"", "\"", "for=9.9.9.9;x=a\"",
		"for=9.9.9.9;by=\"x\"y", "for=9.9.9.9;x", "for", ";=", "=",
		"for=", "for=9.9.9.9;for=9.9.9.8", "for=9.9.9.9 x", "for=9.9.9.9;x=\\" };
	static const char *const good[] = { "", ",", " , ;", "for=9.9.9.9", "for=unknown",
		"for=\"[::1\"", "for=\"9.9.9.9\";by=\"\\\",\"",
		"for=9.9.9.9;By=\",;=\"" };
	static const char *const own[] = { "for=192.0.2.9", "for=\"192.0.2.9:80\"",
		"proto=http;for=\"192.0.2.9\";by=\"x\"" };
	char line[128];

	for (size_t o = 0; o < sizeof own / sizeof *own; o++) {
		for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
			snprintf(line, sizeof line, "%s, %s", before[i], own[o]);
			CHECK_TEXT("bad", client(NULL, NULL, line));
			CHECK_TEXT("bad", two_lines(before[i], own[o]));
		}
		for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
			snprintf(line, sizeof line, "%s, %s", good[i], own[o]);
			CHECK_TEXT("192.0.2.9", client(NULL, NULL, line));
			CHECK_TEXT("192.0.2.9", two_lines(good[i], own[o]));
		}
	}
	/* X-Forwarded-For has no quotes */
	CHECK_TEXT("192.0.2.9", client("9.9.9.9, \"", "192.0.2.9", NULL));
	CHECK_TEXT("192.0.2.9", client("9.9.9.9, \", 192.0.2.9", NULL, NULL));
	CHECK_TEXT("bad", client("192.0.2.9:x", NULL, NULL));
	CHECK_TEXT("bad", client("[3fff::1]x", NULL, NULL));
	CHECK_TEXT("bad", client("[3fff::1]:", NULL, NULL));
	CHECK_TEXT("bad", client(NULL, NULL, ""));
	CHECK_TEXT("bad", two_lines("", ","));
}

/* A proxy that sets one header passes on what a client wrote into the other. */
static void one_header(void)
{
	const struct httpd_config alone = { .proxy_header = "forwarded" };
	struct httpd_proxy p = { .text = NULL };

	only = "x-forwarded-for";
	CHECK_TEXT("192.0.2.9", client("192.0.2.9", NULL, "for=9.9.9.9"));
	CHECK_TEXT("192.0.2.9", client("192.0.2.9", NULL, "for=\"9.9"));
	CHECK_TEXT("none", client(NULL, NULL, "for=9.9.9.9"));
	only = "forwarded";
	CHECK_TEXT("192.0.2.9", client("9.9.9.9", "junk", "for=192.0.2.9"));
	CHECK_TEXT("none", client("9.9.9.9", NULL, NULL));
	only = NULL;
	CHECK_FAILS(EX_USAGE, httpd_proxy_open(&p, &alone));
	httpd_proxy_close(&p);
}

static void clients(void)
{
	CHECK_TEXT("none", client(NULL, NULL, NULL));
	CHECK_TEXT("192.0.2.9", client("192.0.2.9", NULL, NULL));
	/* what stands to the left of the first stranger is the stranger's word */
	CHECK_TEXT("192.0.2.9", client("junk, 198.51.100.1, 192.0.2.9", NULL, NULL));
	CHECK_TEXT("192.0.2.9", client("1.1.1.1 , 192.0.2.9,\t10.1.2.3", NULL, NULL));
	CHECK_TEXT("192.0.2.9", client("1.1.1.1", "192.0.2.9", NULL));
	CHECK_TEXT("10.9.9.9", client("10.9.9.9, 10.1.2.3", NULL, NULL));
	CHECK_TEXT("192.0.2.9", client("192.0.2.9:4711", NULL, NULL));
	CHECK_TEXT("3fff::1", client("[3fff::1]:4711", NULL, NULL));
	CHECK_TEXT("3fff::1", client("3fff::1, 2001:db8::2", NULL, NULL));
	CHECK_TEXT("192.0.2.9", client("::ffff:192.0.2.9", NULL, NULL));
	CHECK_TEXT("192.0.2.9",
		client(NULL, NULL,
			"for=1.1.1.1;proto=http, proto=https; For=192.0.2.9 ;by=x"));
	CHECK_TEXT("3fff::1",
		client(NULL, NULL, "for=\"a,b\", for=\"[3fff::1]:80\", for=10.0.0.1"));
	CHECK_TEXT("192.0.2.9", client("192.0.2.9", NULL, "for=192.0.2.9"));
	CHECK_TEXT("bad", client("192.0.2.9", NULL, "for=192.0.2.8"));
	CHECK_TEXT("bad", client("unknown", NULL, NULL));
	CHECK_TEXT("bad", client("", NULL, NULL));
	CHECK_TEXT("bad", client("192.0.2.9,", NULL, NULL));
	CHECK_TEXT("bad", client("[3fff::1", NULL, NULL));
	CHECK_TEXT("bad", client(NULL, NULL, "for=_hidden"));
	CHECK_TEXT("bad", client(NULL, NULL, "by=192.0.2.9"));
	CHECK_TEXT("bad", client(NULL, NULL, "for=\"192.0.2.9"));
}

/* --- signatures --------------------------------------------------------------------------- */

/* Whether a request is accepted that its client signed for url, and that arrives so. */
static bool verifies(const char *external, const char *url, const char *host,
	const char *target, bool below, struct httpsig_result *out)
{
	const struct httpsig_policy policy = { .required = HTTP_SIGN_COMPONENTS,
		.tag = HTTP_SIGN_TAG,
		.now_s = clock_now_ms() / 1000,
		.max_age_s = 60,
		.skew_s = 60 };
	struct httpd_proxy p = open_proxy(external);
	struct buf input = BUF_INIT, signature = BUF_INIT;
	struct httpd_pair headers[2];
	struct httpd_request q = { .method = "GET",
		.target = target,
		.authority = host,
		.headers = headers,
		.nheaders = 2,
		.below_prefix = below,
		.external = external ? &p.external : NULL };
	struct key k = KEY_INIT;
	enum httpsig_outcome outcome;

	CHECK(key_generate(&k) == 0);
	CHECK(http_sign(&input, &signature, "GET", url, &k) == 0);
	headers[0] = (struct httpd_pair){ "Signature-Input",
		strchr(input.data, ' ') + 1 };
	headers[1] = (struct httpd_pair){ "Signature", strchr(signature.data, ' ') + 1 };
	outcome = httpd_verify(&q, false, &policy, out);
	CHECK(outcome != HTTPSIG_ABSENT);
	CHECK(outcome != HTTPSIG_GOOD || strcmp(out->address, k.address) == 0);
	key_release(&k);
	buf_release(&input);
	buf_release(&signature);
	httpd_proxy_close(&p);
	return outcome == HTTPSIG_GOOD;
}

static void signatures(void)
{
	static const char url[] = "https://example.org/rnp/v1/x?a=b";
	struct httpsig_result r;

	CHECK(!verifies(NULL, url, "backend:80", "/v1/x?a=b", false, &r));
	CHECK(strstr(r.reason, "the path that arrived here is '/v1/x?a=b'") != NULL);
	CHECK(strstr(r.reason, "--external-url") != NULL);
	CHECK(verifies("https://example.org/rnp/", url, "backend:80", "/v1/x?a=b", false,
		&r));
	CHECK(verifies("https://example.org/rnp", url, "backend:80", "/rnp/v1/x?a=b",
		true, &r));
	CHECK(verifies("https://example.org:443/rnp", url, "b", "/v1/x?a=b", false, &r));
	/* who asks the server itself signs what he asks for */
	CHECK(verifies("https://example.org/rnp", "http://backend:8080/v1/x",
		"backend:8080", "/v1/x", false, &r));
	CHECK(!verifies("https://example.org/other", url, "backend", "/v1/x?a=b", false,
		&r));
	CHECK(strstr(r.reason, "the path that arrived here is '/v1/x?a=b'") != NULL);
	CHECK(!verifies("https://example.net/rnp", url, "backend", "/v1/x?a=b", false,
		&r));
	CHECK(!verifies("https://example.org/rnp", url, "backend", "/v1/x?a=c", false,
		&r));
	CHECK(!verifies("https://example.org/rnp", url, "backend", "/v1/y?a=b", false,
		&r));
}

int main(void)
{
	if (sodium_init() < 0)
		return 1;
	blocks();
	clients();
	forged();
	one_header();
	signatures();
	TEST_END();
}
