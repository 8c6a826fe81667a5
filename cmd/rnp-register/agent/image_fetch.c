/* image_fetch.c - asks an image's registry for its manifest, by the API of OCI's distribution: with
 * a token for nobody in particular, where it wants one. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cmd/rnp-register/agent/image.h"
#include "common/base/err.h"
#include "common/base/sha256.h"
#include "common/http/http.h"
#include "common/json/json.h"

#define MANIFEST_BYTES_MAX ((int64_t)4 << 20)
#define TOKEN_BYTES_MAX    ((int64_t)64 << 10)
#define FETCH_TRIES        2

static const char accepts[] = "Accept: application/vnd.oci.image.manifest.v1+json, "
			      "application/vnd.oci.image.index.v1+json, "
			      "application/vnd.docker.distribution.manifest.v2+json, "
			      "application/vnd.docker.distribution.manifest.list.v2+json";

/* Finds name="value" of a challenge. Returns whether it is there and fits. */
static bool challenge_value(const char *challenge, const char *name, char *out,
	size_t max)
{
	size_t n = strlen(name), len;
	const char *at = challenge;

	while ((at = strcasestr(at, name)) &&
		(at == challenge || !strchr(" ,", at[-1]) ||
			strncmp(at + n, "=\"", 2) != 0))
		at += n;
	if (!at)
		return false;
	at += n + 2;
	len = strcspn(at, "\"");
	if (!at[len] || len >= max)
		return false;
	memcpy(out, at, len);
	out[len] = '\0';
	return true;
}

/* Asks for a token to read this image. out: "Authorization: Bearer ..." */
static int get_token(struct http *h, const char *challenge, const struct image_name *n,
	struct buf *out)
{
	char realm[HTTP_AUTHENTICATE_MAX], service[HTTP_AUTHENTICATE_MAX] = "";
	struct http_response r = HTTP_RESPONSE_INIT;
	struct buf url = BUF_INIT;
	struct http_request q = { .tries = FETCH_TRIES,
		.public_redirects = true,
		.public_only = n->public_only,
		.response_bytes_max = TOKEN_BYTES_MAX };
	const char *token = NULL;
	json_t *reply = NULL;
	int rc = -1;

	if (strncasecmp(challenge, "Bearer ", 7) != 0 ||
		!challenge_value(challenge, "realm", realm, sizeof realm) ||
		strncmp(realm, "https://", 8) != 0) {
		err_set(EX_NOPERM, "'%s' wants a password", n->host);
		goto out;
	}
	challenge_value(challenge, "service", service, sizeof service);
	buf_addf(&url, "%s%cservice=", realm, strchr(realm, '?') ? '&' : '?');
	http_escape(&url, service);
	buf_addf(&url, "&scope=repository:%s:pull", n->path);
	q.url = buf_text(&url);
	if (http_fetch(h, &q, &r) < 0)
		goto out;
	reply = json_parse_object(buf_text(&r.body), r.body.len, realm);
	if (!reply || json_opt_text(reply, realm, "token", &token) < 0 ||
		(!token && json_get_text(reply, realm, "access_token", &token) < 0))
		goto out;
	buf_addf(out, "Authorization: Bearer %s", token);
	rc = 0;
out:
	json_decref(reply);
	buf_release(&url);
	http_response_release(&r);
	return rc;
}

/* Gets a manifest by its digest, once with a token where the first answer wants one. */
static int get_manifest(struct http *h, const struct image_name *n, const char *digest,
	struct http_response *r)
{
	struct buf url = BUF_INIT, token = BUF_INIT;
	const char *headers[] = { accepts, NULL, NULL };
	struct http_request q = { .headers = headers,
		.tries = FETCH_TRIES,
		.public_redirects = true,
		.public_only = n->public_only,
		.response_bytes_max = MANIFEST_BYTES_MAX };
	char challenge[HTTP_AUTHENTICATE_MAX];
	int rc;

	buf_addf(&url, "%s://%s/v2/%s/manifests/%s", n->local ? "http" : "https",
		strcmp(n->host, "docker.io") == 0 ? "registry-1.docker.io" : n->host,
		n->path, digest);
	q.url = buf_text(&url);
	rc = http_fetch(h, &q, r);
	if (rc < 0 && r->status == 401 && r->authenticate[0]) {
		snprintf(challenge, sizeof challenge, "%s", r->authenticate);
		rc = get_token(h, challenge, n, &token);
		headers[1] = buf_text(&token);
		if (rc == 0)
			rc = http_fetch(h, &q, r);
	}
	buf_release(&url);
	buf_release(&token);
	return rc;
}

static int check_digest(const struct buf *body, const char *digest)
{
	unsigned char hash[SHA256_BYTES];
	char hex[2 * SHA256_BYTES + 1];

	sha256(hash, buf_text(body), body->len);
	sodium_bin2hex(hex, sizeof hex, hash, sizeof hash);
	if (strcmp(hex, digest + strlen("sha256:")) == 0)
		return 0;
	return err_set(EX_DATAERR, "what the image's registry sent is not %s", digest);
}

int image_size_fetch(struct http *h, const struct image_name *n, struct image_size *out)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	char digest[IMAGE_DIGEST_MAX];
	int rc = -1;

	snprintf(digest, sizeof digest, "%s", n->digest);
	/* a list leads to a manifest; a list of lists to nothing */
	for (int depth = 0; depth < 2; depth++) {
		rc = get_manifest(h, n, digest, &r);
		if (rc == 0)
			rc = check_digest(&r.body, digest);
		if (rc == 0)
			rc = image_size_read(out, buf_text(&r.body), r.body.len,
				image_arch());
		if (rc < 0 || !out->next[0])
			break;
		snprintf(digest, sizeof digest, "%s", out->next);
	}
	http_response_release(&r);
	return rc;
}

#define TAG_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
#define TAG_MAX     128

/* The tag of a reference: behind the last ':', unless that is a port's. */
static const char *tag_of(const char *reference)
{
	const char *slash = strrchr(reference, '/');
	const char *colon = strrchr(slash ? slash : reference, ':');

	return colon ? colon + 1 : "latest";
}

int image_digest_fetch(struct http *h, const char *reference, struct buf *out)
{
	static const char any[] =
		"@sha256:0000000000000000000000000000000000000000000000000000000000000000";
	const char *tag = tag_of(reference);
	struct http_response r = HTTP_RESPONSE_INIT;
	unsigned char hash[SHA256_BYTES];
	char name[IMAGE_NAME_MAX + sizeof any];
	struct image_name n;
	int rc = -1;

	if (strchr(reference, '@')) {
		buf_adds(out, reference);
		return 0;
	}
	snprintf(name, sizeof name, "%.*s%s", IMAGE_NAME_MAX - 1, reference, any);
	if (image_name_parse(&n, name) < 0)
		return -1;
	if (!*tag || tag[strspn(tag, TAG_LETTERS)] || strlen(tag) > TAG_MAX)
		return err_set(EX_DATAERR, "'%.100s' is no tag of an image", tag);
	if (get_manifest(h, &n, tag, &r) == 0) {
		sha256(hash, buf_text(&r.body), r.body.len);
		memcpy(n.digest, "sha256:", 7);
		sodium_bin2hex(n.digest + 7, sizeof n.digest - 7, hash, sizeof hash);
		image_name_write(out, &n);
		rc = 0;
	} else {
		err_add("image %.200s", reference);
	}
	http_response_release(&r);
	return rc;
}
