/* sshkey.c - public keys of SSH: the wire form of RFC 4253, section 6.6, RFC 5656 and RFC 8709, and
 * OpenSSH's PROTOCOL.u2f and PROTOCOL.key. */
#include "cmd/rnp-register/market/sshkey.h"

#include <sodium.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/sha256.h"

#define BLOB_BYTES_MAX (SSHKEY_BLOB_MAX / 4 * 3)
#define COMMENT_MAX    1024

/* A kind of key: what follows the type in its blob. */
static const struct kind {
	const char *type, *curve; /* curve NULL: Ed25519 */
	size_t point;             /* bytes of the public key */
	bool security_key;        /* an application's name follows */
} kinds[] = {
	{ "ssh-ed25519", NULL, 32, false },
	{ "sk-ssh-ed25519@openssh.com", NULL, 32, true },
	{ "ecdsa-sha2-nistp256", "nistp256", 65, false },
	{ "ecdsa-sha2-nistp384", "nistp384", 97, false },
	{ "ecdsa-sha2-nistp521", "nistp521", 133, false },
	{ "sk-ecdsa-sha2-nistp256@openssh.com", "nistp256", 65, true },
};

/* Bytes that are read one string after the other. */
struct reader {
	const unsigned char *at;
	size_t left;
};

/* Takes the next string of the wire form. Returns NULL where there is none. */
static const unsigned char *take(struct reader *r, size_t *len)
{
	const unsigned char *p = r->at;

	if (r->left < 4)
		return NULL;
	*len = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
	if (*len > r->left - 4)
		return NULL;
	r->at += 4 + *len;
	r->left -= 4 + *len;
	return p + 4;
}

/* Whether the next string is this text. */
static bool take_text(struct reader *r, const char *text)
{
	size_t len = 0;
	const unsigned char *p = take(r, &len);

	return p && len == strlen(text) && memcmp(p, text, len) == 0;
}

/* Whether a blob is a key of that kind and nothing more. */
static bool is_whole(const struct kind *k, const unsigned char *blob, size_t bytes)
{
	struct reader r = { blob, bytes };
	const unsigned char *point;
	size_t len = 0;

	if (!take_text(&r, k->type) || (k->curve && !take_text(&r, k->curve)))
		return false;
	point = take(&r, &len);
	if (!point || len != k->point || (k->curve && point[0] != 4))
		return false;
	if (k->security_key && (!take(&r, &len) || !len || len > 64))
		return false;
	return r.left == 0;
}

static const struct kind *find_kind(const char *text, size_t len)
{
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (strlen(kinds[i].type) == len && memcmp(kinds[i].type, text, len) == 0)
			return &kinds[i];
	return NULL;
}

static void encode(const unsigned char *blob, size_t bytes, struct sshkey *out)
{
	sodium_bin2base64(out->blob, sizeof out->blob, blob, bytes,
		sodium_base64_VARIANT_ORIGINAL);
}

static int refuse_type(const char *text, size_t len, const char *where)
{
	err_set(EX_DATAERR, "%s: no key of a type that is let in: '%.*s'", where,
		len > 40 ? 40 : (int)len, text);
	return err_hint("make one with ssh-keygen -t ed25519, and give its .pub file");
}

int sshkey_parse(const char *text, const char *where, struct sshkey *out)
{
	unsigned char blob[BLOB_BYTES_MAX];
	size_t type_len = strcspn(text, " \t"), bytes = 0, len, len_line;
	const struct kind *k = find_kind(text, type_len);
	const char *base64, *end;

	if (!k)
		return refuse_type(text, type_len, where);
	base64 = text + type_len + strspn(text + type_len, " \t");
	len = strcspn(base64, " \t\r\n");
	end = base64 + len;
	/* what follows is a comment, of one line */
	len_line = strcspn(end, "\r\n");
	if (end[len_line + strspn(end + len_line, "\r\n")])
		return err_set(EX_DATAERR, "%s: more than one line", where);
	if (strlen(end) > COMMENT_MAX || len >= SSHKEY_BLOB_MAX ||
		sodium_base642bin(blob, sizeof blob, base64, len, NULL, &bytes, NULL,
			sodium_base64_VARIANT_ORIGINAL) != 0 ||
		!is_whole(k, blob, bytes))
		return err_set(EX_DATAERR, "%s: damaged: it is no key of type %s", where,
			k->type);
	memcpy(out->type, k->type, type_len + 1);
	encode(blob, bytes, out);
	return 0;
}

static void put_string(struct buf *out, const void *data, size_t len)
{
	const unsigned char size[4] = { (unsigned char)(len >> 24),
		(unsigned char)(len >> 16), (unsigned char)(len >> 8),
		(unsigned char)len };

	buf_add(out, size, sizeof size);
	buf_add(out, data, len);
}

static void put_public(struct buf *out, const unsigned char public_key[KEY_PUBLIC_BYTES])
{
	put_string(out, kinds[0].type, strlen(kinds[0].type));
	put_string(out, public_key, KEY_PUBLIC_BYTES);
}

void sshkey_of_node(const unsigned char public_key[KEY_PUBLIC_BYTES], struct sshkey *out)
{
	struct buf blob = BUF_INIT;

	put_public(&blob, public_key);
	memcpy(out->type, kinds[0].type, strlen(kinds[0].type) + 1);
	encode((const unsigned char *)blob.data, blob.len, out);
	buf_release(&blob);
}

void sshkey_fingerprint(const struct sshkey *k, char out[SSHKEY_HASH_MAX])
{
	unsigned char blob[BLOB_BYTES_MAX], hash[SHA256_BYTES];
	size_t bytes = 0;

	sodium_base642bin(blob, sizeof blob, k->blob, strlen(k->blob), NULL, &bytes, NULL,
		sodium_base64_VARIANT_ORIGINAL);
	sha256(hash, blob, bytes);
	memcpy(out, "SHA256:", 7);
	sodium_bin2base64(out + 7, SSHKEY_HASH_MAX - 7, hash, sizeof hash,
		sodium_base64_VARIANT_ORIGINAL_NO_PADDING);
}

/* PROTOCOL.key: what is encrypted elsewhere stands in the open, padded to 8 bytes. */
static void put_secret(struct buf *out, const struct key *k)
{
	uint32_t check = randombytes_random();

	buf_add(out, &check, sizeof check);
	buf_add(out, &check, sizeof check);
	put_public(out, k->public_key);
	put_string(out, k->secret, KEY_SECRET_BYTES);
	put_string(out, "", 0);
	for (char i = 1; out->len % 8; i++)
		buf_addc(out, i);
}

void sshkey_private(struct buf *out, const struct key *k)
{
	static const char magic[] = "openssh-key-v1"; /* its NUL belongs to it */
	struct buf file = BUF_INIT, part = BUF_INIT;
	char text[1024];

	/* buffers that do not grow leave no copies of the secret behind */
	buf_reserve(&file, 1024);
	buf_reserve(&part, 512);
	buf_add(&file, magic, sizeof magic);
	put_string(&file, "none", 4);
	put_string(&file, "none", 4);
	put_string(&file, "", 0);
	buf_add(&file, "\0\0\0\1", 4);
	put_public(&part, k->public_key);
	put_string(&file, part.data, part.len);
	buf_reset(&part);
	put_secret(&part, k);
	put_string(&file, part.data, part.len);
	sodium_bin2base64(text, sizeof text, (const unsigned char *)file.data, file.len,
		sodium_base64_VARIANT_ORIGINAL);
	buf_reserve(out, 1024);
	buf_adds(out, "-----BEGIN OPENSSH PRIVATE KEY-----\n");
	for (size_t i = 0; text[i]; i += 70) {
		size_t n = strlen(text + i);

		buf_add(out, text + i, n < 70 ? n : 70);
		buf_addc(out, '\n');
		if (n <= 70)
			break;
	}
	buf_adds(out, "-----END OPENSSH PRIVATE KEY-----\n");
	sodium_memzero(text, sizeof text);
	sodium_memzero(file.data, file.len);
	sodium_memzero(part.data, part.len);
	buf_release(&file);
	buf_release(&part);
}
