/* key.c - keys: generated, read from and written to files, plain or encrypted; nothing secret
 * stays in memory that is not wiped. */
#include "common/record/key.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/base58.h"
#include "common/json/canon.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/json/json.h"
#include "common/json/schema.h"

#define FILE_BYTES_MAX       4096
#define PASSPHRASE_BYTES_MAX 1024
#define SALT_BYTES           crypto_pwhash_argon2id_SALTBYTES
#define NONCE_BYTES          crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define TAG_BYTES            crypto_aead_xchacha20poly1305_ietf_ABYTES
#define SEALED_BYTES         (KEY_SECRET_BYTES + TAG_BYTES)
/* the second choice of RFC 9106, for little memory: a small node must be able to open a key */
#define ARGON2_PASSES       3
#define ARGON2_MEMORY_BYTES (INT64_C(64) << 20)

/* Secret bytes in memory that is locked, guarded and wiped. */
struct secret {
	char *data; /* sodium_malloc */
	size_t len;
};

static int sodium_state;

static void start_sodium(void)
{
	sodium_state = sodium_init() < 0 ? -1 : 1;
}

static int ready(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, start_sodium);
	return sodium_state < 0 ?
		err_set(EX_OSERR, "cannot start libsodium: no randomness") :
		0;
}

static void *secret_memory(size_t len)
{
	void *data = sodium_malloc(len);

	if (!data)
		err_set(EX_OSERR, "cannot get locked memory for a key");
	return data;
}

void key_release(struct key *k)
{
	sodium_free(k->secret);
	*k = (struct key)KEY_INIT;
}

static void take_secret(struct key *k, unsigned char *secret)
{
	key_release(k);
	k->secret = secret;
	memcpy(k->public_key, secret + 32, KEY_PUBLIC_BYTES);
	address_format(k->public_key, k->address);
	sodium_mprotect_readonly(secret);
}

int key_generate(struct key *k)
{
	unsigned char public_key[KEY_PUBLIC_BYTES], *secret;

	if (ready() < 0 || !(secret = secret_memory(KEY_SECRET_BYTES)))
		return -1;
	crypto_sign_keypair(public_key, secret);
	take_secret(k, secret);
	return 0;
}

int key_from_secret(struct key *k, const unsigned char secret[KEY_SECRET_BYTES])
{
	unsigned char public_key[KEY_PUBLIC_BYTES], *own;

	if (ready() < 0 || !(own = secret_memory(KEY_SECRET_BYTES)))
		return -1;
	/* with a wrong public half, every signature would leak the key */
	crypto_sign_seed_keypair(public_key, own, secret);
	if (sodium_memcmp(own, secret, KEY_SECRET_BYTES) != 0) {
		sodium_free(own);
		return err_set(EX_DATAERR,
			"the public half of the key does not match its seed");
	}
	take_secret(k, own);
	return 0;
}

int key_default_path(struct buf *out)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

	/* the XDG specification says that relative paths are ignored */
	if (config && config[0] == '/')
		buf_addf(out, "%s/rnp/key.json", config);
	else if (home && home[0])
		buf_addf(out, "%s/.config/rnp/key.json", home);
	else
		return err_set(EX_NOINPUT,
			"no key file: neither XDG_CONFIG_HOME nor HOME is set");
	return 0;
}

/* The key that rnp-register setup has made for this machine: beside its settings. */
static void machine_path(struct buf *out)
{
	const char *env = getenv("RNP_NODE_ENV");
	const char *slash = env ? strrchr(env, '/') : NULL;

	if (env && *env)
		buf_addf(out, "%.*skey.json", slash ? (int)(slash + 1 - env) : 0, env);
	else
		buf_adds(out, "/etc/rnp/key.json");
}

/* Appends the path of the person's own key, or where there is none, that of the machine's. */
static int find_default(struct buf *out)
{
	struct buf machine = BUF_INIT;
	int rc = key_default_path(out);

	machine_path(&machine);
	if ((rc < 0 || access(out->data, F_OK) < 0) && access(machine.data, F_OK) == 0) {
		err_clear();
		buf_reset(out);
		buf_adds(out, machine.data);
		rc = 0;
	}
	buf_release(&machine);
	return rc;
}

/* --- files of secrets -------------------------------------------------------------------- */

/* systemd gives a service its credentials in a directory that only the service may enter.
 * Where it does so by an access list, the list's mask shows as the group's right to read. */
static bool open_to_others(const char *path, mode_t mode)
{
	const char *dir = getenv("CREDENTIALS_DIRECTORY");
	size_t n = dir ? strlen(dir) : 0;
	bool credential = n && strncmp(path, dir, n) == 0 && path[n] == '/' &&
		!strchr(path + n + 1, '/');

	return mode & (credential ? 037 : 077);
}

static int read_secret(struct secret *to, const char *path, size_t max_bytes,
	bool private)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc = -1;
	struct stat st;

	if (fd < 0)
		return err_sys(0, "cannot open '%s'", path);
	if (fstat(fd, &st) < 0) {
		err_sys(EX_IOERR, "cannot read '%s'", path);
		goto out;
	}
	if (S_ISDIR(st.st_mode)) {
		err_set(EX_NOINPUT, "'%s' is a directory", path);
		goto out;
	}
	if (private && open_to_others(path, st.st_mode)) {
		err_set(EX_NOPERM, "'%s' can be read or written by others than its owner",
			path);
		err_hint("chmod 600 makes it private");
		goto out;
	}
	to->data = secret_memory(max_bytes + 1);
	if (!to->data)
		goto out;
	for (;;) {
		ssize_t n = read(fd, to->data + to->len, max_bytes + 1 - to->len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			err_sys(EX_IOERR, "cannot read '%s'", path);
			goto out;
		}
		if (n == 0)
			break;
		to->len += (size_t)n;
		if (to->len > max_bytes) {
			err_set(EX_DATAERR, "'%s' is larger than %zu bytes", path,
				max_bytes);
			goto out;
		}
	}
	rc = 0;
out:
	close(fd);
	return rc;
}

/* Reads the first line of the file: anything that an editor or echo appends does not count. */
static int read_passphrase(struct secret *to, const char *path)
{
	if (read_secret(to, path, PASSPHRASE_BYTES_MAX, false) < 0)
		return -1;
	if (to->len && to->data[to->len - 1] == '\n')
		to->len--;
	if (to->len && to->data[to->len - 1] == '\r')
		to->len--;
	if (!to->len)
		return err_set(EX_DATAERR, "'%s' holds no passphrase", path);
	if (memchr(to->data, '\n', to->len) || memchr(to->data, '\0', to->len))
		return err_set(EX_DATAERR, "'%s' is not one line of text", path);
	return 0;
}

size_t key_token_length(const char *text, size_t len)
{
	while (len && memchr("\r\n ", text[len - 1], 3))
		len--;
	for (size_t i = 0; i < len; i++)
		if (text[i] <= ' ' || text[i] >= 0x7f)
			return 0;
	return len;
}

char *key_load_token(const char *path)
{
	struct secret s = { .data = NULL };

	if (ready() < 0)
		return NULL;
	if (read_secret(&s, path, PASSPHRASE_BYTES_MAX, true) < 0) {
		sodium_free(s.data);
		return NULL;
	}
	s.len = key_token_length(s.data, s.len);
	s.data[s.len] = '\0';
	if (s.len)
		return s.data;
	sodium_free(s.data);
	err_set(EX_DATAERR, "'%s' is not one line of printable characters", path);
	return NULL;
}

static int cipher_key(unsigned char out[32], const char *passphrase_file,
	const unsigned char salt[SALT_BYTES], uint64_t passes, int64_t memory_bytes)
{
	struct secret passphrase = { NULL, 0 };
	int rc = -1;

	if (read_passphrase(&passphrase, passphrase_file) < 0)
		goto out;
	if (crypto_pwhash_argon2id(out, 32, passphrase.data, passphrase.len, salt, passes,
		    (size_t)memory_bytes, crypto_pwhash_argon2id_ALG_ARGON2ID13) < 0) {
		err_set(EX_OSERR,
			"no memory to derive a key from the passphrase (%" PRId64
			" bytes)",
			memory_bytes);
		goto out;
	}
	rc = 0;
out:
	sodium_free(passphrase.data);
	return rc;
}

/* --- encrypted files --------------------------------------------------------------------- */

static void set_hex(json_t *obj, const char *key, const unsigned char *data, size_t len)
{
	struct buf text = BUF_INIT;

	buf_add_hex(&text, data, len);
	json_set_text(obj, key, text.data);
	buf_release(&text);
}

static int get_hex(const json_t *obj, const char *where, const char *key,
	unsigned char *out, size_t len)
{
	const char *text;
	size_t got;

	if (json_get_text(obj, where, key, &text) < 0)
		return -1;
	if (strlen(text) != 2 * len || strspn(text, "0123456789abcdef") != 2 * len ||
		sodium_hex2bin(out, len, text, 2 * len, NULL, &got, NULL) < 0)
		return err_set(EX_DATAERR,
			"%s: field '%s' is not %zu bytes in lower-case hex", where, key,
			len);
	return 0;
}

/* Writes what is authenticated beside the secret: the canonical record without its ciphertext, so
 * that nobody can exchange parameters or address. */
static int header_bytes(struct buf *out, const json_t *file)
{
	json_t *header = json_copy((json_t *)file);
	int rc;

	json_object_del(header, "ciphertext");
	rc = canon_write(out, header);
	json_decref(header);
	return rc;
}

static int seal(struct buf *out, const struct key *k, const char *passphrase_file)
{
	unsigned char salt[SALT_BYTES], nonce[NONCE_BYTES], sealed[SEALED_BYTES];
	unsigned char *cipher = secret_memory(32);
	json_t *file = json_record("rnp.keyfile");
	struct buf header = BUF_INIT;
	int rc = -1;

	randombytes_buf(salt, sizeof salt);
	randombytes_buf(nonce, sizeof nonce);
	if (!cipher ||
		cipher_key(cipher, passphrase_file, salt, ARGON2_PASSES,
			ARGON2_MEMORY_BYTES) < 0)
		goto out;
	json_set_text(file, "node", k->address);
	json_set_text(file, "kdf", "argon2id13");
	json_set_i64(file, "passes", ARGON2_PASSES);
	json_set_i64(file, "memory_bytes", ARGON2_MEMORY_BYTES);
	set_hex(file, "salt", salt, sizeof salt);
	json_set_text(file, "cipher", "xchacha20-poly1305");
	set_hex(file, "nonce", nonce, sizeof nonce);
	if (header_bytes(&header, file) < 0)
		goto out;
	crypto_aead_xchacha20poly1305_ietf_encrypt(sealed, NULL, k->secret,
		KEY_SECRET_BYTES, (unsigned char *)header.data, header.len, NULL, nonce,
		cipher);
	set_hex(file, "ciphertext", sealed, sizeof sealed);
	json_write(out, file);
	buf_addc(out, '\n');
	rc = 0;
out:
	buf_release(&header);
	json_decref(file);
	sodium_free(cipher);
	return rc;
}

static int unseal(unsigned char secret[KEY_SECRET_BYTES], const json_t *file,
	const char *path, const char *passphrase_file)
{
	unsigned char salt[SALT_BYTES], nonce[NONCE_BYTES], sealed[SEALED_BYTES];
	unsigned char *cipher = secret_memory(32);
	struct buf header = BUF_INIT;
	int64_t passes, memory_bytes;
	int rc = -1;

	if (!cipher || schema_check(file, path, "rnp.keyfile") < 0 ||
		json_get_i64(file, path, "passes", 1, 64, &passes) < 0 ||
		json_get_i64(file, path, "memory_bytes", 8192, INT64_C(1) << 30,
			&memory_bytes) < 0 ||
		get_hex(file, path, "salt", salt, sizeof salt) < 0 ||
		get_hex(file, path, "nonce", nonce, sizeof nonce) < 0 ||
		get_hex(file, path, "ciphertext", sealed, sizeof sealed) < 0)
		goto out;
	if (!passphrase_file) {
		err_set(EX_NOPERM, "'%s' is encrypted and no passphrase is given", path);
		err_hint("give --passphrase-file");
		goto out;
	}
	if (header_bytes(&header, file) < 0 ||
		cipher_key(cipher, passphrase_file, salt, (uint64_t)passes,
			memory_bytes) < 0)
		goto out;
	if (crypto_aead_xchacha20poly1305_ietf_decrypt(secret, NULL, NULL, sealed,
		    sizeof sealed, (unsigned char *)header.data, header.len, nonce,
		    cipher) < 0) {
		err_set(EX_NOPERM,
			"'%s' does not open: the passphrase is wrong or the file was "
			"changed",
			path);
		goto out;
	}
	rc = 0;
out:
	buf_release(&header);
	sodium_free(cipher);
	return rc;
}

/* --- plain files ------------------------------------------------------------------------- */

static const char *skip_space(const char *s, const char *end)
{
	while (s < end && (*s == ' ' || *s == '\t' || *s == '\r' || *s == '\n'))
		s++;
	return s;
}

/* Reads a whole number from 0 to 255 as JSON writes it. Returns the text behind it, or NULL. */
static const char *read_byte(const char *s, const char *end, unsigned char *out)
{
	const char *start = s;
	int v = 0;

	for (; s < end && *s >= '0' && *s <= '9' && s - start < 3; s++)
		v = v * 10 + (*s - '0');
	if (s == start || v > 255 || (*start == '0' && s - start > 1))
		return NULL;
	*out = (unsigned char)v;
	return s;
}

/* Reads the array of a Solana keypair file. jansson is not used, since its numbers would leave
 * the secret in memory that nobody wipes. */
static int parse_array(unsigned char secret[KEY_SECRET_BYTES], const char *s,
	const char *end)
{
	for (int i = 0; i < KEY_SECRET_BYTES; i++) {
		if (s == end || *s != (i ? ',' : '['))
			return -1;
		s = read_byte(skip_space(s + 1, end), end, &secret[i]);
		if (!s)
			return -1;
		s = skip_space(s, end);
	}
	return s < end && *s == ']' && skip_space(s + 1, end) == end ? 0 : -1;
}

static int secret_from_text(unsigned char secret[KEY_SECRET_BYTES], const char *text,
	size_t len, const char *path, const char *passphrase_file)
{
	const char *s = skip_space(text, text + len);
	json_t *file;
	int rc;

	if (s == text + len || *s != '{')
		return parse_array(secret, s, text + len) == 0 ?
			0 :
			err_set(EX_DATAERR,
				"'%s' is not a key file: a JSON array of 64 bytes", path);
	file = json_parse_object(text, len, path);
	rc = file ? unseal(secret, file, path, passphrase_file) : -1;
	json_decref(file);
	return rc;
}

int key_from_text(struct key *k, const char *text, size_t len, const char *path,
	const char *passphrase_file)
{
	unsigned char *secret;
	int rc;

	if (ready() < 0 || !(secret = secret_memory(KEY_SECRET_BYTES)))
		return -1;
	rc = secret_from_text(secret, text, len, path, passphrase_file);
	if (rc == 0 && key_from_secret(k, secret) < 0)
		rc = err_add("'%s'", path);
	sodium_free(secret);
	return rc;
}

int key_load(struct key *k, const char *path, const char *passphrase_file)
{
	struct secret text = { NULL, 0 };
	struct buf own = BUF_INIT;
	int rc = -1;

	if (ready() < 0)
		return -1;
	if (!path) {
		if (find_default(&own) < 0) {
			buf_release(&own);
			return -1;
		}
		path = own.data;
	}
	if (read_secret(&text, path, FILE_BYTES_MAX, true) == 0)
		rc = key_from_text(k, text.data, text.len, path, passphrase_file);
	else if (own.len && err_get()->code == EX_NOINPUT)
		err_hint("rnp-register keygen makes one, --key names another");
	else if (own.len && err_get()->code == EX_NOPERM)
		err_hint(
			"it is this machine's key: begin with sudo, or --key names another");
	sodium_free(text.data);
	buf_release(&own);
	return rc;
}

/* Writes a keypair file as Solana's tools do, without spaces and newline. */
static size_t format_array(char *out, const unsigned char secret[KEY_SECRET_BYTES])
{
	size_t n = 0;

	for (int i = 0; i < KEY_SECRET_BYTES; i++)
		n += (size_t)sprintf(out + n, "%c%d", i ? ',' : '[', secret[i]);
	return n + (size_t)sprintf(out + n, "]");
}

int key_save(const struct key *k, const char *path, const char *passphrase_file)
{
	struct buf sealed = BUF_INIT;
	char *plain;
	int rc = -1;

	if (ready() < 0)
		return -1;
	if (passphrase_file) {
		if (seal(&sealed, k, passphrase_file) == 0)
			rc = io_create(path, sealed.data, sealed.len, 0600);
		buf_release(&sealed);
		return rc;
	}
	plain = secret_memory(KEY_SECRET_BYTES * 4 + 2);
	if (!plain)
		return -1;
	rc = io_create(path, plain, format_array(plain, k->secret), 0600);
	sodium_free(plain);
	return rc;
}

/* --- text forms -------------------------------------------------------------------------- */

/* A did:key is multibase base58btc ('z') of the multicodec ed25519-pub (0xed as a varint) and the
 * key, and so always begins with z6Mk. */
static const unsigned char multicodec[2] = { 0xed, 0x01 };

void key_did(const unsigned char public_key[KEY_PUBLIC_BYTES], char out[KEY_DID_MAX])
{
	unsigned char bytes[sizeof multicodec + KEY_PUBLIC_BYTES];
	size_t n = sizeof KEY_DID_PREFIX - 1;

	memcpy(bytes, multicodec, sizeof multicodec);
	memcpy(bytes + sizeof multicodec, public_key, KEY_PUBLIC_BYTES);
	memcpy(out, KEY_DID_PREFIX "z", n + 1);
	base58_encode(out + n + 1, bytes, sizeof bytes);
}

int key_parse_did(const char *text, const char *what,
	unsigned char public_key[KEY_PUBLIC_BYTES])
{
	unsigned char bytes[sizeof multicodec + KEY_PUBLIC_BYTES];
	size_t n = sizeof KEY_DID_PREFIX - 1;

	if (strncmp(text, KEY_DID_PREFIX "z", n + 1) != 0 ||
		strlen(text) >= KEY_DID_MAX ||
		base58_decode(bytes, sizeof bytes, text + n + 1) != (int)sizeof bytes ||
		memcmp(bytes, multicodec, sizeof multicodec) != 0)
		return err_set(EX_DATAERR,
			"%s: '%.80s' is not a did:key of an Ed25519 key", what, text);
	memcpy(public_key, bytes + sizeof multicodec, KEY_PUBLIC_BYTES);
	return 0;
}
