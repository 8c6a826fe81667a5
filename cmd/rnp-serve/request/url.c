/* url.c - a server's URL without the part that belongs to its API. */
#include "cmd/rnp-serve/request/url.h"

#include <string.h>

void server_url_base(struct buf *out, const char *url)
{
	size_t len = strlen(url);

	while (len && url[len - 1] == '/')
		len--;
	if (len > 3 && strncmp(url + len - 3, "/v1", 3) == 0)
		len -= 3;
	buf_add(out, url, len);
}
