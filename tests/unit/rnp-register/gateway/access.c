/* access.c - the table of a gateway: who may listen and open, what is found, what is lost. */
/* uses: cmd/rnp-register */
#include "cmd/rnp-register/gateway/access.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/market/sshkey.h"
#include "common/json/json.h"
#include "tests/unit/test.h"

#define ED25519 "AAAAC3NzaC1lZDI1NTE5AAAAIHBjkCF8qMxSyaL7nTgkHUwxSSHDqnZ41CvxeSNGTK3m"
#define NODE    "4zvwRjXUKGfvwnParsHAS3HuSVzV5cA4McphgmoCtajS"
#define RECORD(nodes, customers)                             \
	"{\"kind\":\"rnp.access\",\"v\":1,\"nodes\":[" nodes \
	"],\"customers\":[" customers "]}"
#define CUSTOMER(numbers) \
	"{\"key\":\"ssh-ed25519 " ED25519 " me\",\"numbers\":[" numbers "]}"

/* Compiles a record. Returns 0 or -1. */
static int compile(const char *text, struct buf *table)
{
	struct access_counts counts;
	json_t *record = json_parse_object(text, strlen(text), "a");
	int rc = access_compile(record, "a", table, &counts);

	json_decref(record);
	return rc;
}

/* The options that the customer's key has. */
static const char *options_of(const struct buf *table, const char *type, const char *blob)
{
	static char text[4096];
	struct access_span s;

	if (!access_find(table->data, table->len, type, blob, &s))
		return NULL;
	snprintf(text, sizeof text, "%.*s", (int)s.len, s.text);
	return text;
}

static void lines(void)
{
	unsigned char public_key[32];
	struct buf table = BUF_INIT;
	struct sshkey node;

	CHECK(address_parse(NODE, "n", public_key) == 0);
	sshkey_of_node(public_key, &node);
	CHECK(compile(RECORD("{\"node\":\"" NODE "\",\"numbers\":[3],\"peers\":[9,2]}",
			      CUSTOMER("4,3,4")),
		      &table) == 0);
	CHECK_TEXT("restrict,port-forwarding,permitopen=\"127.1.0.3:2200\","
		   "permitopen=\"127.1.0.4:2200\",permitlisten=\"127.0.0.1:1\"",
		options_of(&table, "ssh-ed25519", ED25519));
	CHECK_TEXT("restrict,port-forwarding,permitlisten=\"127.1.0.3:2200\","
		   "permitopen=\"127.1.0.2:2200\",permitopen=\"127.1.0.3:2200\","
		   "permitopen=\"127.1.0.9:2200\"",
		options_of(&table, node.type, node.blob));
	/* a key of another type, a part of a key, more than a key, none */
	CHECK(!options_of(&table, "ssh-rsa", ED25519));
	CHECK(!options_of(&table, "ssh-ed2551", ED25519));
	CHECK(!options_of(&table, "ssh-ed25519", ED25519 "A"));
	CHECK(!options_of(&table, "ssh-ed25519", "AAAAC3NzaC1lZDI1NTE5AAAAIH"));
	CHECK(!options_of(&table, "ssh-ed25519", ""));
	CHECK(!options_of(&table, "", ED25519));
	buf_release(&table);
	CHECK(compile(RECORD("", ""), &table) == 0 && table.len == 0);
	CHECK(compile(RECORD("", CUSTOMER("")), &table) == 0 && table.len == 0);
	buf_release(&table);
}

static void refused(void)
{
	static const char *const bad[] = {
		"{\"kind\":\"rnp.other\",\"v\":1,\"nodes\":[],\"customers\":[]}",
		"{\"kind\":\"rnp.access\",\"v\":1,\"nodes\":[]}",
		RECORD("", CUSTOMER("0")),
		RECORD("", CUSTOMER("16711679")),
		RECORD("", CUSTOMER("\"3\"")),
		RECORD("", "{\"key\":\"ssh-rsa AAAA\",\"numbers\":[1]}"),
		RECORD("", "{\"key\":\"ssh-ed25519 AAAA\",\"numbers\":[1]}"),
		RECORD("{\"node\":\"x\",\"numbers\":[1]}", ""),
		RECORD("{\"node\":\"" NODE "\",\"numbers\":1}", ""),
		RECORD("7", ""),
	};
	struct buf table = BUF_INIT;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_FAILS(EX_DATAERR, compile(bad[i], &table));
	CHECK(table.len == 0);
}

/* Every key of many is found, and nobody else. */
static void many(void)
{
	struct access_counts counts;
	struct buf table = BUF_INIT;
	json_t *record = json_record("rnp.access"), *nodes = json_array();
	unsigned char seed[32] = { 0 };
	char address[KEY_ADDRESS_MAX];
	struct access_span s;
	struct sshkey k;
	int n = 500;

	for (int i = 0; i < n; i++) {
		json_t *node = json_object();

		seed[0] = (unsigned char)i, seed[1] = (unsigned char)(i >> 8);
		address_format(seed, address);
		json_set_text(node, "node", address);
		json_set(node, "numbers", json_pack("[i]", i + 1));
		json_push(nodes, node);
	}
	json_set(record, "nodes", nodes);
	json_set(record, "customers", json_array());
	CHECK(access_compile(record, "a", &table, &counts) == 0);
	CHECK_I64(n, (int64_t)counts.keys);
	for (int i = 0; i < 2 * n; i++) {
		seed[0] = (unsigned char)i, seed[1] = (unsigned char)(i >> 8);
		sshkey_of_node(seed, &k);
		CHECK(access_find(table.data, table.len, k.type, k.blob, &s) == (i < n));
	}
	/* cut anywhere it gives no other answer than "none" or the right one */
	seed[0] = seed[1] = 0;
	sshkey_of_node(seed, &k);
	for (size_t cut = 0; cut < table.len; cut += 37)
		if (access_find(table.data, cut, k.type, k.blob, &s))
			CHECK(strstr(s.text, "127.1.0.1:2200") != NULL);
	json_decref(record);
	buf_release(&table);
}

static bool covers(const char *now, const char *then)
{
	return access_covers((struct access_span){ now, strlen(now) },
		(struct access_span){ then, strlen(then) });
}

static void losing(void)
{
	CHECK(covers("r,a=\"1\",b=\"2\"", "r,a=\"1\",b=\"2\""));
	CHECK(covers("r,a=\"1\",b=\"2\"", "r,b=\"2\""));
	CHECK(!covers("r,b=\"2\"", "r,a=\"1\",b=\"2\""));
	CHECK(!covers("r,a=\"1\",b=\"22\"", "r,a=\"1\",b=\"2\""));
	CHECK(!covers("", "r,b=\"2\""));
	CHECK(covers("r,permitopen=\"127.1.0.1:2200\",permitlisten=\"127.1.0.2:2200\"",
		"r,permitopen=\"127.1.0.1:2200\",permitlisten=\"127.0.0.1:1\""));
}

int main(void)
{
	CHECK(sodium_init() >= 0);
	lines();
	refused();
	many();
	losing();
	TEST_END();
}
