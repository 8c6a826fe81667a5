/* rpc_peer.c - which URLs and addresses are one server, and what of a URL others may see.
 * uses: cmd/rnp-reward */
#include "common/chain/rpc_peer.h"

#include <string.h>

#include "common/base/err.h"
#include "tests/unit/test.h"

static bool same(const char *a, const char *b)
{
	struct rpc_peer x, y;

	CHECK(rpc_peer_parse(&x, a) == 0);
	CHECK(rpc_peer_parse(&y, b) == 0);
	CHECK(rpc_peer_same(&x, &y) == rpc_peer_same(&y, &x));
	return rpc_peer_same(&x, &y);
}

static void check_names(void)
{
	static const char *const one[] = { "http://localhost", "HTTP://LocalHost:80/",
		"http://127.0.0.1", "http://127.1:80", "http://0x7f000001//",
		"http://[::1]:80/key", "http://[::ffff:127.0.0.1]", "http://0.0.0.0",
		"http://rpc.localhost:080?api-key=2", "http://user:pass@localhost./#x",
		"https://localhost:80", "http://127.0.0.2:" };

	for (size_t i = 0; i < sizeof one / sizeof *one; i++)
		for (size_t k = 0; k < i; k++)
			CHECK(same(one[i], one[k]));
	CHECK(same("https://One.Example/v2/KEY1", "https://one.example.:443/v2/KEY2"));
	CHECK(same("http://[2001:db8:0::1]:8899", "http://[2001:0db8::0:1]:8899/"));
	CHECK(same("http://u@evil@one.example", "http://one.example"));
	CHECK(!same("http://127.0.0.1:8899", "http://127.0.0.1:8900"));
	CHECK(!same("http://localhost", "https://localhost"));
	CHECK(!same("https://one.example", "https://two.example"));
	CHECK(!same("https://one.example", "https://one.example.net"));
	CHECK(!same("http://localhost", "http://notlocalhost"));
	CHECK(!same("http://[2001:db8::1]", "http://[2001:db8::2]"));
}

static void check_no_urls(void)
{
	static const char *const bad[] = { "", "http://", "https:///x",
		"ftp://one.example", "one.example", "http://:80", "http://one:65536",
		"http://one:8a", "http://[::1", "http://[::1]x", "http://[]/",
		"http://u@", "http://one:-1" };
	char longest[400] = "http://";
	struct rpc_peer v;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK(rpc_peer_parse(&v, bad[i]) == -1 && err_get()->code == EX_USAGE);
	memset(longest + 7, 'a', sizeof longest - 8);
	CHECK(rpc_peer_parse(&v, longest) == -1);
	longest[7 + RPC_PEER_HOST_MAX - 1] = '\0';
	CHECK(rpc_peer_parse(&v, longest) == 0);
	err_clear();
}

/* What is in a ledger leads back to the server, and holds nobody's key. */
static void check_shown(void)
{
	static const char *const urls[][2] = {
		{ "https://solana.example/v2/SECRET", "https://solana.example" },
		{ "HTTPS://me:SECRET@solana.example:8443?api-key=SECRET",
			"https://solana.example:8443" },
		{ "http://[::1]:8899/SECRET", "http://[::1]:8899" },
	};
	struct rpc_peer v, again;

	for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
		CHECK(rpc_peer_parse(&v, urls[i][0]) == 0);
		CHECK(strcmp(v.name, urls[i][1]) == 0);
		CHECK(rpc_peer_parse(&again, v.name) == 0 && rpc_peer_same(&v, &again));
	}
}

static bool same_peer(const char *a, const char *ip_a, const char *b, const char *ip_b)
{
	struct rpc_peer x, y;

	CHECK(rpc_peer_parse(&x, a) == 0 && rpc_peer_parse(&y, b) == 0);
	rpc_peer_note_address(&x, ip_a, 443, false);
	rpc_peer_note_address(&y, ip_b, 443, false);
	CHECK(rpc_peer_same_server(&x, &y) == rpc_peer_same_server(&y, &x));
	return rpc_peer_same_server(&x, &y);
}

static void check_addresses(void)
{
	struct rpc_peer x, y;

	/* names of one server; its certificate is nobody's who is not on the internet */
	CHECK(same_peer("http://a.example", "8.8.8.8", "http://b.example", "8.8.8.8"));
	CHECK(same_peer("http://a.example", "8.8.8.8", "https://b.example",
		"::ffff:8.8.8.8"));
	CHECK(same_peer("https://a.lan", "192.168.1.5", "https://b.lan", "192.168.1.5"));
	CHECK(same_peer("https://a.lan", "127.0.1.1", "https://b.lan", "::1"));
	CHECK(same_peer("http://a.lan", "fe80::1%eth0", "http://b.lan", "fe80::1"));
	/* one address of a network that delivers for many */
	CHECK(!same_peer("https://a.example", "8.8.8.8", "https://b.example", "8.8.8.8"));
	CHECK(!same_peer("http://a.example", "8.8.8.8", "http://b.example", "8.8.4.4"));
	/* nobody has answered */
	CHECK(!same_peer("http://a.example", "", "http://b.example", ""));
	/* an address of this machine, at another port */
	CHECK(rpc_peer_parse(&x, "http://localhost:1") == 0 &&
		rpc_peer_parse(&y, "http://me:2") == 0);
	rpc_peer_note_address(&x, "127.0.0.1", 8899, true);
	rpc_peer_note_address(&y, "192.168.1.5", 8899, true);
	CHECK(rpc_peer_same_server(&x, &y));
	rpc_peer_note_address(&y, "192.168.1.5", 8900, true);
	CHECK(!rpc_peer_same_server(&x, &y));
	rpc_peer_note_address(&y, "192.168.1.5", 8899, false);
	CHECK(!rpc_peer_same_server(&x, &y));
}

int main(void)
{
	check_names();
	check_no_urls();
	check_shown();
	check_addresses();
	TEST_END();
}
