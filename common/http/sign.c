/* sign.c - signs a request of ours: takes the URL apart, adds time and nonce. */
#include "common/http/sign.h"

#include <sodium.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"

#define NONCE_BYTES 16

static char *copy_of(struct arena *out, const char *text, size_t n)
{
	char *copy = arena_alloc(out, n + 1);

	memcpy(copy, text, n);
	return copy;
}

int http_sign_split(struct arena *out, const char *url, struct httpsig_message *m)
{
	const char *colon = strstr(url, "://"), *host = colon ? colon + 3 : "";
	size_t n = strcspn(host, "/?#"), rest = strcspn(host + n, "#");
	bool slash = host[n] == '/';
	char *target;

	if (!n || memchr(host, '@', n))
		return err_set(EX_USAGE, "'%s' cannot be signed: no host, or a user",
			url);
	m->scheme = copy_of(out, url, (size_t)(colon - url));
	m->authority = copy_of(out, host, n);
	m->target = target = arena_alloc(out, rest + 2);
	if (!slash)
		target[0] = '/';
	memcpy(target + !slash, host + n, rest);
	return 0;
}

int http_sign(struct buf *input, struct buf *signature, const char *method,
	const char *url, const struct key *key)
{
	unsigned char random[NONCE_BYTES];
	char nonce[sodium_base64_ENCODED_LEN(NONCE_BYTES,
		sodium_base64_VARIANT_URLSAFE_NO_PADDING)];
	struct httpsig_params params = { .label = "rnp",
		.components = HTTP_SIGN_COMPONENTS,
		.created_s = clock_now_ms() / 1000,
		.nonce = nonce,
		.tag = HTTP_SIGN_TAG };
	struct httpsig_message m = { .method = method };
	struct buf made = BUF_INIT, bytes = BUF_INIT;
	struct arena arena = ARENA_INIT;
	int rc;

	randombytes_buf(random, sizeof random);
	sodium_bin2base64(nonce, sizeof nonce, random, sizeof random,
		sodium_base64_VARIANT_URLSAFE_NO_PADDING);
	rc = http_sign_split(&arena, url, &m);
	if (rc == 0)
		rc = httpsig_sign(&made, &bytes, &m, &params, key);
	if (rc == 0) {
		buf_addf(input, "Signature-Input: %s", made.data);
		buf_addf(signature, "Signature: %s", bytes.data);
	}
	buf_release(&made);
	buf_release(&bytes);
	arena_release(&arena);
	return rc;
}
