/* registry_client.h - the client's half of the registry's API: where records are posted, and
 * lists page by page. Uses http, json, schema, opt. */
#ifndef RNP_COMMON_NET_REGISTRY_CLIENT_H
#define RNP_COMMON_NET_REGISTRY_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cli/opt.h"
#include "common/net/http.h"
#include "common/record/work.h"

/* Sends a signed record to the path of its kind at the registry at base. text: the record as it
 * is sent. ca: certificates to trust, or NULL; per_try_ms 0: the default. Returns as http_fetch
 * does. */
int registry_post(struct http *http, const char *base, const char *ca, int64_t per_try_ms,
	const json_t *record, const void *text, size_t bytes, struct http_response *r);

/* The same with a proof of work, after a registry has replied that joining costs work; work:
 * "TOKEN.NUMBER". */
int registry_post_work(struct http *http, const char *base, const char *ca,
	int64_t per_try_ms, const char *work, const void *body, size_t bytes,
	struct http_response *r);

/* Reads the cost of joining from a registry's reply. Returns false when it names none. */
struct registry_work {
	char token[WORK_TOKEN_MAX];
	int bits;
};
bool registry_work_read(const struct http_response *r, struct registry_work *out);

/* Takes an item of a list, or the array of a page. Returns 0 to go on, 1 to end, -1 with err_set. */
typedef int (*registry_item_fn)(void *ctx, const json_t *item);
typedef int (*registry_page_fn)(void *ctx, const json_t *items);

/* Gets all pages of a list, first to last. path: with a query, "/v1/nodes?limit=500"; list: the
 * array's name in the reply, "nodes". Returns 0, or -1: as http_fetch, 65 when pages lead in a
 * circle, or what the function returned. */
int registry_each(struct http *http, const char *base, const char *ca, const char *path,
	const char *list, registry_item_fn fn, void *ctx);
int registry_each_page(struct http *http, const char *base, const char *ca,
	const char *path, const char *list, registry_page_fn fn, void *ctx);

/* Rows for the table of options of every client of a registry. */
/* clang-format off */
#define OPT_REGISTRY(to_url)                                                                   \
	{ .name = "registry", .kind = OPT_TEXT, .required = true, .setting = true, .to = (to_url),              \
		.metavar = "URL", .help = "the registry" }
#define OPT_CA(to_path)                                                                        \
	{ .name = "ca", .kind = OPT_TEXT, .setting = true, .to = (to_path), .metavar = "F",                     \
		.help = "trust these certificates (PEM), not the system's" }
/* clang-format on */

#endif
