/* sshkey.c - public keys of SSH: the types that are let in, damaged ones, a node's, and the file
 * that ssh reads; and addresses of leases and ranks. */
/* uses: cmd/rnp-register */
#include "cmd/rnp-register/market/sshkey.h"

#include <sodium.h>
#include <string.h>

#include "cmd/rnp-register/market/place.h"
#include "tests/unit/test.h"

/* made with ssh-keygen of OpenSSH 9.2, as was the fingerprint */
#define ED25519 "AAAAC3NzaC1lZDI1NTE5AAAAIHBjkCF8qMxSyaL7nTgkHUwxSSHDqnZ41CvxeSNGTK3m"
#define HASH    "SHA256:lwojh293pn+i/YV1PAWCX6o9O1kfl41ml55iE8VOsjM"

static void accepted(void)
{
	char hash[SSHKEY_HASH_MAX];
	struct sshkey k;

	CHECK(sshkey_parse("ssh-ed25519 " ED25519, "k", &k) == 0);
	CHECK_TEXT("ssh-ed25519", k.type);
	CHECK_TEXT(ED25519, k.blob);
	CHECK(sshkey_parse("ssh-ed25519\t" ED25519 " me@home with words\r\n", "k", &k) ==
		0);
	CHECK_TEXT(ED25519, k.blob);
	sshkey_fingerprint(&k, hash);
	CHECK_TEXT(HASH, hash);
}

static void refused(void)
{
	static const char *const bad[] = {
		"",
		"ssh-ed25519",
		"ssh-ed25519 ",
		"ssh-ed25519 AAAA",
		/* a letter less, one more, another type inside, the type alone */
		"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHBjkCF8qMxSyaL7nTgkHUwxSSHDqnZ41CvxeSNGTK3",
		"ssh-ed25519 " ED25519 "AAAA",
		"ecdsa-sha2-nistp256 " ED25519,
		"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5",
		"ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQ",
		"ssh-dss AAAA",
		"ssh-ed25519-cert-v01@openssh.com AAAA",
		"restrict ssh-ed25519 " ED25519,
		"command=\"/bin/sh\" ssh-ed25519 " ED25519,
		"ssh-ed25519 " ED25519 "\nssh-ed25519 " ED25519,
		"ssh-ed25519 " ED25519 " x\n\nssh-ed25519 " ED25519,
	};
	struct sshkey k;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_FAILS(EX_DATAERR, sshkey_parse(bad[i], "k", &k));
}

static void of_node(void)
{
	static const char head[] = "-----BEGIN OPENSSH PRIVATE KEY-----\n";
	struct buf text = BUF_INIT;
	struct key key = KEY_INIT;
	struct sshkey k, again;
	char line[SSHKEY_TEXT_MAX];

	CHECK(key_generate(&key) == 0);
	sshkey_of_node(key.public_key, &k);
	snprintf(line, sizeof line, "%s %s", k.type, k.blob);
	CHECK(sshkey_parse(line, "k", &again) == 0);
	CHECK_TEXT(k.blob, again.blob);
	sshkey_private(&text, &key);
	CHECK(strncmp(text.data, head, strlen(head)) == 0);
	CHECK(text.data[text.len - 1] == '\n');
	buf_release(&text);
	key_release(&key);
}

static void places(void)
{
	char text[PLACE_TEXT_MAX];

	place_on_gateway(1, text);
	CHECK_TEXT("127.1.0.1", text);
	place_on_gateway(PLACE_NUMBER_MAX, text);
	CHECK_TEXT("127.255.255.254", text);
	place_text(place_rank("000f", 2, 0), text);
	CHECK_TEXT("10.64.0.1", text);
	place_text(place_rank("fff0", 1022, 1021), text);
	CHECK_TEXT("10.127.255.254", text);
	place_text(place_rank("fff0", 1023, 1), text);
	CHECK_TEXT("10.64.0.2", text);
	place_text(place_rank("1c", 2, 1), text);
	CHECK_TEXT("10.64.112.2", text);
}

int main(void)
{
	CHECK(sodium_init() >= 0);
	accepted();
	refused();
	of_node();
	places();
	TEST_END();
}
