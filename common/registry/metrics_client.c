/* metrics_client.c - fetches a server's /metrics and writes its samples as records. */
#include "common/registry/metrics_client.h"

#include <stdbool.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/cli/out.h"
#include "common/http/http.h"
#include "common/registry/metrics_text.h"

#define REPLY_BYTES_MAX ((size_t)16 << 20)

struct print {
	const char *name;
	long printed;
};

static int print_metric(void *ctx, const json_t *record)
{
	struct print *p = ctx;
	const char *name = json_string_value(json_object_get(record, "name"));
	const json_t *count = json_object_get(record, "count");

	if ((p->name && !strstr(name, p->name)) ||
		(count && json_number_value(count) == 0))
		return 0;
	p->printed++;
	return out_record(record);
}

int metrics_print(const char *url, const char *ca, const char *name)
{
	struct http http = HTTP_INIT;
	struct http_response r = HTTP_RESPONSE_INIT;
	struct buf full = BUF_INIT;
	struct print p = { .name = name };
	int rc = http_url(&full, url, "/metrics");

	if (rc == 0) {
		struct http_request q = { .url = full.data,
			.ca_file = ca,
			.response_bytes_max = REPLY_BYTES_MAX };

		rc = http_fetch(&http, &q, &r);
	}
	if (rc == 0)
		rc = metrics_parse(buf_text(&r.body), r.body.len, full.data, print_metric,
			&p);
	if (rc == 0 && !p.printed)
		rc = err_set(EXIT_NO, "%s has no metric%s%s%s", full.data,
			name ? " whose name contains '" : "", name ? name : "",
			name ? "'" : "");
	buf_release(&full);
	http_response_release(&r);
	http_release(&http);
	return rc;
}
