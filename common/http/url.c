/* url.c - URLs are put together: a base and a path, and what a path may not hold as it is. */
#include <string.h>
#include <strings.h>

#include "common/base/err.h"
#include "common/http/parts.h"

int http_check_scheme(const char *u)
{
	if (strncasecmp(u, "http://", 7) == 0 || strncasecmp(u, "https://", 8) == 0)
		return 0;
	return err_set(EX_USAGE, "'%s' is not an http or https URL (http://HOST)", u);
}

int http_url(struct buf *out, const char *base, const char *path)
{
	size_t n = strlen(base);

	if (http_check_scheme(base) < 0)
		return -1;
	if (strpbrk(base, "?# \t\r\n"))
		return err_set(EX_USAGE, "'%s' has a query, a fragment or a space", base);
	while (n && base[n - 1] == '/')
		n--;
	buf_add(out, base, n);
	buf_adds(out, path);
	return 0;
}

void http_escape(struct buf *out, const char *text)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			(c >= '0' && c <= '9') || strchr("-._~", c))
			buf_addc(out, (char)c);
		else
			buf_addf(out, "%%%02X", c);
	}
}
