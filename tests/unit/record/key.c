/* key.c - files, addresses and did:key; what is not one in every way is refused. */
#include "common/record/key.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/io.h"
#include "tests/unit/test.h"

/* RFC 8032, 7.1, test 1: secret and public key. */
static const unsigned char rfc8032[KEY_SECRET_BYTES] = { 0x9d, 0x61, 0xb1, 0x9d, 0xef,
	0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4, 0x44, 0x49,
	0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f,
	0x60, 0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7, 0xd5, 0x4b, 0xfe, 0xd3,
	0xc9, 0x64, 0x07, 0x3a, 0x0e, 0xe1, 0x72, 0xf3, 0xda, 0xa6, 0x23, 0x25, 0xaf,
	0x02, 0x1a, 0x68, 0xf7, 0x07, 0x51, 0x1a };

static char dir[64];

static const char *path_of(const char *name)
{
	static char path[160];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	return path;
}

static void write_file(const char *name, const char *text, mode_t mode)
{
	CHECK(io_replace(path_of(name), text, strlen(text), mode) == 0);
}

static int load(const char *name, const char *passphrase)
{
	struct key k = KEY_INIT;
	char file[160];
	int rc;

	snprintf(file, sizeof file, "%s", path_of(name));
	rc = key_load(&k, file, passphrase ? path_of(passphrase) : NULL);
	CHECK((rc == 0) == (k.secret != NULL));
	key_release(&k);
	return rc;
}

static int from_text(const char *text)
{
	struct key k = KEY_INIT;
	int rc = key_from_text(&k, text, strlen(text), "test", NULL);

	key_release(&k);
	return rc;
}

static void check_plain_file(void)
{
	struct key k = KEY_INIT, again = KEY_INIT;
	struct buf text = BUF_INIT, want = BUF_INIT;
	struct stat st;

	CHECK(key_from_secret(&k, rfc8032) == 0);
	CHECK(key_save(&k, path_of("plain"), NULL) == 0);
	CHECK(stat(path_of("plain"), &st) == 0 && (st.st_mode & 07777) == 0600);
	for (int i = 0; i < KEY_SECRET_BYTES; i++)
		buf_addf(&want, "%c%d", i ? ',' : '[', rfc8032[i]);
	buf_addc(&want, ']');
	CHECK(io_read(&text, path_of("plain"), 4096) == 0);
	CHECK_TEXT(want.data, buf_text(&text));
	CHECK(key_load(&again, path_of("plain"), NULL) == 0);
	CHECK(memcmp(again.secret, rfc8032, sizeof rfc8032) == 0);
	CHECK_TEXT(k.address, again.address);
	CHECK_FAILS(EX_CANTCREAT,
		key_save(&k, path_of("plain"), NULL)); /* never overwritten */
	CHECK(chmod(path_of("plain"), 0640) == 0);
	CHECK_FAILS(EX_NOPERM, load("plain", NULL));
	CHECK(chmod(path_of("plain"), 0604) == 0);
	CHECK_FAILS(EX_NOPERM, load("plain", NULL));
	CHECK(chmod(path_of("plain"), 0400) == 0);
	CHECK(load("plain", NULL) == 0);
	CHECK_FAILS(EX_NOINPUT, load("absent", NULL));
	key_release(&k);
	key_release(&k); /* twice is fine */
	key_release(&again);
	buf_release(&text);
	buf_release(&want);
}

static void check_bad_text(void)
{
	static const char *const bad[] = { "", " ", "[", "[]", "[1]", "null", "{}",
		"[1,2", "x", "{\"kind\":\"rnp.keyfile\",\"v\":1}",
		"{\"kind\":\"rnp.keyfile\",\"v\":2}" };
	char text[600] = "[";
	int n = 1;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_FAILS(EX_DATAERR, from_text(bad[i]));
	for (int i = 0; i < 64; i++)
		n += sprintf(text + n, "%s%d", i ? " ,\n " : " ", rfc8032[i]);
	strcpy(text + n, " ]\n");
	CHECK(from_text(text) == 0);
	strcpy(text + n, "] 1");
	CHECK_FAILS(EX_DATAERR, from_text(text));
	strcpy(text + n, "");
	CHECK_FAILS(EX_DATAERR, from_text(text));
	strcpy(text + n, ",1]"); /* 65 */
	CHECK_FAILS(EX_DATAERR, from_text(text));
	text[n] = ']', text[n + 1] = '\0';
	memcpy(strstr(text, "157"), "158", 3); /* the seed of another public half */
	CHECK_FAILS(EX_DATAERR, from_text(text));
	memcpy(strstr(text, "158"), "258", 3);
	CHECK_FAILS(EX_DATAERR, from_text(text));
	memcpy(strstr(text, "258"), "-57", 3);
	CHECK_FAILS(EX_DATAERR, from_text(text));
	memcpy(strstr(text, "-57"), "1.5", 3);
	CHECK_FAILS(EX_DATAERR, from_text(text));
	memcpy(strstr(text, "1.5"), "057", 3);
	CHECK_FAILS(EX_DATAERR, from_text(text));
}

static void replace_in_file(const char *name, const char *from, const char *to)
{
	struct buf text = BUF_INIT;
	char *at;

	CHECK(io_read(&text, path_of("sealed"), 4096) == 0);
	at = strstr(text.data, from);
	CHECK(at != NULL);
	if (at)
		memcpy(at, to, strlen(to));
	write_file(name, text.data, 0600);
	buf_release(&text);
}

static void check_encrypted_file(void)
{
	struct key k = KEY_INIT, again = KEY_INIT;
	struct buf text = BUF_INIT;
	char passphrase[160];

	write_file("pass", "correct horse\r\n", 0600);
	write_file("wrong", "correct mule\n", 0600);
	write_file("empty", "\n", 0600);
	write_file("two", "a\nb\n", 0600);
	snprintf(passphrase, sizeof passphrase, "%s", path_of("pass"));
	CHECK(key_generate(&k) == 0);
	CHECK(key_save(&k, path_of("sealed"), passphrase) == 0);
	CHECK(key_load(&again, path_of("sealed"), passphrase) == 0);
	CHECK(memcmp(again.secret, k.secret, KEY_SECRET_BYTES) == 0);
	CHECK(io_read(&text, path_of("sealed"), 4096) == 0);
	CHECK(strstr(buf_text(&text), k.address) != NULL);
	CHECK_FAILS(EX_NOPERM, load("sealed", NULL));
	CHECK_FAILS(EX_NOPERM, load("sealed", "wrong"));
	CHECK_FAILS(EX_NOINPUT, load("sealed", "absent"));
	CHECK_FAILS(EX_DATAERR, load("sealed", "empty"));
	CHECK_FAILS(EX_DATAERR, load("sealed", "two"));
	/* parameters and address are authenticated; costs are bounded before memory is asked for */
	replace_in_file("edited", "\"passes\":3", "\"passes\":2");
	CHECK_FAILS(EX_NOPERM, load("edited", "pass"));
	replace_in_file("edited", "\"memory_bytes\":67108864",
		"\"memory_bytes\":99999999999");
	CHECK_FAILS(EX_DATAERR, load("edited", "pass"));
	replace_in_file("edited", "\"salt\":\"", "\"salt\":\"X");
	CHECK_FAILS(EX_DATAERR, load("edited", "pass"));
	replace_in_file("edited", "argon2id13", "argon2i__13");
	CHECK_FAILS(EX_DATAERR, load("edited", "pass"));
	CHECK_FAILS(EX_NOINPUT, key_save(&k, path_of("never"), "tests/none/pass"));
	CHECK(access(path_of("never"), F_OK) != 0);
	key_release(&k);
	key_release(&again);
	buf_release(&text);
}

/* Addresses and DIDs of RFC 8032's key, made with Python's base58 arithmetic; the did:key of
 * the W3C's test vectors. */
static void check_text_forms(void)
{
	static const char w3c[] =
		"did:key:z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2";
	static const char *const bad_did[] = { "", "did:key:", "did:key:z", "z6Mk",
		"did:key:z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ", /* shorter */
		"did:key:z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ22",
		"did:key:z16MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2",
		"did:key:z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ0", /* not base58 */
		"did:key:m6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2",
		"DID:key:z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2",
		"did:key:z6LSbysY2xFMRpGMhb7tFTLMpeuPRaqaWM1yECx2AtzE3KCc" /* X25519 */ };
	static const char *const bad_address[] = { "", "1", "0OIl",
		"1111111111111111111111111111111",   /* 31 bytes */
		"111111111111111111111111111111111", /* 33 */
		"4zvwRjXUKGfvwnParsHAS3HuSVzV5cA4McphgmoCtajSx" /* too long */ };
	unsigned char key[KEY_PUBLIC_BYTES];
	char address[KEY_ADDRESS_MAX], did[KEY_DID_MAX];
	static const unsigned char zeros[KEY_PUBLIC_BYTES];

	address_format(rfc8032 + 32, address);
	CHECK_TEXT("FVen3X669xLzsi6N2V91DoiyzHzg1uAgqiT8jZ9nS96Z", address);
	CHECK(address_parse(address, "a", key) == 0 &&
		memcmp(key, rfc8032 + 32, 32) == 0);
	key_did(rfc8032 + 32, did);
	CHECK_TEXT("did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw", did);
	CHECK(key_parse_did(did, "d", key) == 0 && memcmp(key, rfc8032 + 32, 32) == 0);
	CHECK(key_parse_did(w3c, "d", key) == 0);
	key_did(key, did);
	CHECK_TEXT(w3c, did);
	for (size_t i = 0; i < sizeof bad_did / sizeof *bad_did; i++)
		CHECK_FAILS(EX_DATAERR, key_parse_did(bad_did[i], "d", key));
	for (size_t i = 0; i < sizeof bad_address / sizeof *bad_address; i++)
		CHECK_FAILS(EX_DATAERR, address_parse(bad_address[i], "a", key));
	address_format(zeros, address);
	CHECK_TEXT("11111111111111111111111111111111", address);
	CHECK(address_parse(address, "a", key) == 0 && memcmp(key, zeros, 32) == 0);
}

static void check_default_path(void)
{
	struct buf path = BUF_INIT;

	setenv("XDG_CONFIG_HOME", "/x", 1);
	CHECK(key_default_path(&path) == 0);
	CHECK_TEXT("/x/rnp/key.json", buf_text(&path));
	buf_reset(&path);
	setenv("XDG_CONFIG_HOME", "relative", 1);
	setenv("HOME", "/h", 1);
	CHECK(key_default_path(&path) == 0);
	CHECK_TEXT("/h/.config/rnp/key.json", buf_text(&path));
	buf_reset(&path);
	unsetenv("HOME");
	CHECK_FAILS(EX_NOINPUT, key_default_path(&path));
	buf_release(&path);
}

static void check_secrets(void)
{
	unsigned char secret[KEY_SECRET_BYTES];
	struct key k = KEY_INIT;

	memcpy(secret, rfc8032, sizeof secret);
	secret[63] ^= 1;
	CHECK_FAILS(EX_DATAERR, key_from_secret(&k, secret));
	CHECK(k.secret == NULL);
}

int main(void)
{
	const char *base = getenv("TMPDIR");
	char command[128];

	snprintf(dir, sizeof dir, "%.40s/rnp-key-XXXXXX", base ? base : "/tmp");
	CHECK(mkdtemp(dir) != NULL);
	check_plain_file();
	check_bad_text();
	check_encrypted_file();
	check_text_forms();
	check_secrets();
	check_default_path();
	snprintf(command, sizeof command, "rm -rf '%s'", dir);
	CHECK(system(command) == 0);
	TEST_END();
}
