/* page.c - serves the page at `/`: one file. A content security policy gives the browser the
 * hashes of its script and style, so that nothing else runs in it, whatever a model writes. */
#include "cmd/rnp-serve/server/page.h"

#include <sodium.h>
#include <string.h>

#include "cmd/rnp-serve/server/access.h"
#include "common/base/err.h"
#include "common/base/sha256.h"

#define HASH_TEXT sodium_base64_ENCODED_LEN(SHA256_BYTES, sodium_base64_VARIANT_ORIGINAL)

extern const char *const serve_embedded_texts[]; /* openapi.json, page.html */

/* Writes the hash of the text between <tag> and </tag>. */
static void hash_element(char out[HASH_TEXT], const char *page, const char *open,
	const char *close)
{
	unsigned char hash[SHA256_BYTES];
	const char *from = strstr(page, open), *to = strstr(page, close);

	if (!from || !to)
		bug("the page has no %s", open);
	from += strlen(open);
	sha256(hash, from, (unsigned long long)(to - from));
	sodium_bin2base64(out, HASH_TEXT, hash, sizeof hash,
		sodium_base64_VARIANT_ORIGINAL);
}

enum httpd_when page_get(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	const char *page = serve_embedded_texts[1];
	char script[HASH_TEXT], style[HASH_TEXT];
	struct api_key *key;

	if (!access_allows(ctx, q, r, true, &key))
		return HTTPD_NOW;
	hash_element(script, page, "<script>", "</script>");
	hash_element(style, page, "<style>", "</style>");
	httpd_add_header(r, "Content-Security-Policy",
		"default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; "
		"connect-src 'self'; base-uri 'none'; form-action 'none'; "
		"frame-ancestors 'none'",
		script, style);
	httpd_add_header(r, "X-Content-Type-Options", "nosniff");
	httpd_add_header(r, "Referrer-Policy", "no-referrer");
	r->content_type = "text/html; charset=utf-8";
	return httpd_reply_memory(r, page, strlen(page));
}
