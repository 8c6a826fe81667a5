/* content_digest.c - reads and writes Content-Digest: a dictionary of byte sequences, one for
 * each algorithm. */
#include "common/httpsig/content_digest.h"

#include <sodium.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/sha256.h"
#include "common/httpsig/sf.h"

static int read_one(const struct sf *f, const char *key, unsigned char *hash,
	size_t bytes, bool *has)
{
	const struct sf_member *m = sf_find(f, key);

	*has = m != NULL;
	if (!m)
		return 0;
	if (m->inner || m->items[0].value.type != SF_BYTES ||
		m->items[0].value.len != bytes)
		return err_set(EX_DATAERR, "content-digest: %s is not %zu bytes", key,
			bytes);
	memcpy(hash, m->items[0].value.text, bytes);
	return 0;
}

int content_digest_parse(struct content_digest *d, const char *value)
{
	struct sf f;
	int rc;

	*d = (struct content_digest){ .has_sha256 = false };
	if (sf_parse(&f, SF_DICTIONARY, value, strlen(value), "content-digest") < 0)
		return -1;
	rc = f.repeated ? err_set(EX_DATAERR, "content-digest: given twice") : 0;
	if (rc == 0)
		rc = read_one(&f, "sha-256", d->sha256, sizeof d->sha256, &d->has_sha256);
	if (rc == 0)
		rc = read_one(&f, "sha-512", d->sha512, sizeof d->sha512, &d->has_sha512);
	if (rc == 0 && !d->has_sha256 && !d->has_sha512)
		rc = err_set(EX_DATAERR, "content-digest: neither sha-256 nor sha-512");
	sf_release(&f);
	return rc;
}

static void write_one(struct buf *out, const char *key, const unsigned char *hash,
	size_t bytes)
{
	struct sf_item item = {
		.value = { .type = SF_BYTES, .text = (const char *)hash, .len = bytes }
	};

	buf_addf(out, "%s=", key);
	if (sf_write_item(out, &item) < 0)
		bug("bytes can always be written");
}

void content_digest_write(struct buf *out, const struct content_digest *d)
{
	if (d->has_sha256)
		write_one(out, "sha-256", d->sha256, sizeof d->sha256);
	if (d->has_sha256 && d->has_sha512)
		buf_adds(out, ", ");
	if (d->has_sha512)
		write_one(out, "sha-512", d->sha512, sizeof d->sha512);
}

void content_digest_of(struct content_digest *d, const void *body, size_t bytes)
{
	*d = (struct content_digest){ .has_sha256 = true };
	sha256(d->sha256, body, bytes);
}

bool content_digest_fits(const struct content_digest *d, const void *body, size_t bytes)
{
	unsigned char hash[CONTENT_DIGEST_SHA512_BYTES];

	if (d->has_sha256) {
		sha256(hash, body, bytes);
		if (sodium_memcmp(hash, d->sha256, sizeof d->sha256) != 0)
			return false;
	}
	if (d->has_sha512) {
		crypto_hash_sha512(hash, body, bytes);
		if (sodium_memcmp(hash, d->sha512, sizeof d->sha512) != 0)
			return false;
	}
	return d->has_sha256 || d->has_sha512;
}
