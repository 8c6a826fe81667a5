/* sealed.c - boxes of secrets. */
#include "cmd/rnp-register/market/sealed.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/address.h"
#include "common/base/err.h"
#include "common/base/mem.h"

#define NAME_FIRST "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
#define NAME_REST  NAME_FIRST "0123456789"

int sealed_close(struct buf *out, const char *node, const char *plain, size_t len)
{
	unsigned char ed[KEY_PUBLIC_BYTES], point[crypto_box_PUBLICKEYBYTES];
	unsigned char *box = NULL;
	size_t bytes = len + crypto_box_SEALBYTES;
	size_t text = sodium_base64_ENCODED_LEN(bytes, sodium_base64_VARIANT_ORIGINAL);
	int rc = -1;

	if (len > SEALED_BYTES_MAX)
		return err_set(EX_DATAERR, "the secrets have more than 64 KiB");
	if (address_parse(node, "node", ed) < 0)
		return -1;
	if (crypto_sign_ed25519_pk_to_curve25519(point, ed) != 0)
		return err_set(EX_DATAERR,
			"node %.60s has a key that nothing can be sealed for", node);
	box = xmalloc(bytes);
	if (crypto_box_seal(box, (const unsigned char *)plain, len, point) == 0) {
		sodium_bin2base64(buf_reserve(out, text), text, box, bytes,
			sodium_base64_VARIANT_ORIGINAL);
		out->len += text - 1;
		rc = 0;
	} else {
		err_set(EX_DATAERR, "nothing can be sealed for node %.60s", node);
	}
	free(box);
	return rc;
}

/* Whether these are variables, one behind the other. */
static bool is_sound(const struct buf *plain)
{
	const char *p = plain->data, *end = p + plain->len;

	while (p < end) {
		const char *zero = memchr(p, '\0', (size_t)(end - p));
		size_t name = zero ? strspn(p, NAME_REST) : 0;

		if (!name || p[name] != '=' || !strchr(NAME_FIRST, *p))
			return false;
		p = zero + 1;
	}
	return true;
}

int sealed_open(struct buf *plain, const struct key *k, const char *box)
{
	unsigned char point[crypto_box_PUBLICKEYBYTES], *secret;
	size_t most = SEALED_BYTES_MAX + crypto_box_SEALBYTES, n = 0;
	unsigned char *bytes = xmalloc(most);
	int rc = -1;

	buf_reset(plain);
	secret = sodium_malloc(crypto_box_SECRETKEYBYTES);
	if (!secret) {
		free(bytes);
		return err_set(EX_OSERR, "no memory for a key");
	}
	if (sodium_base642bin(bytes, most, box, strlen(box), NULL, &n, NULL,
		    sodium_base64_VARIANT_ORIGINAL) == 0 &&
		n >= crypto_box_SEALBYTES &&
		crypto_sign_ed25519_pk_to_curve25519(point, k->public_key) == 0 &&
		crypto_sign_ed25519_sk_to_curve25519(secret, k->secret) == 0 &&
		crypto_box_seal_open((unsigned char *)buf_reserve(plain, n), bytes, n,
			point, secret) == 0) {
		plain->len = n - crypto_box_SEALBYTES;
		plain->data[plain->len] = '\0';
		rc = is_sound(plain) ? 0 : -1;
	}
	sodium_free(secret);
	free(bytes);
	if (rc < 0) {
		sealed_wipe(plain);
		err_set(EX_DATAERR,
			"the secrets of the booking are not for this node, or no variables");
	}
	return rc;
}

bool sealed_next(const struct buf *plain, size_t *at, const char **name, size_t *name_len,
	const char **value)
{
	if (*at >= plain->len)
		return false;
	*name = plain->data + *at;
	*name_len = strspn(*name, NAME_REST);
	*value = *name + *name_len + 1;
	*at += *name_len + 1 + strlen(*value) + 1;
	return true;
}

void sealed_wipe(struct buf *plain)
{
	if (plain->data)
		sodium_memzero(plain->data, plain->cap);
	buf_release(plain);
}
