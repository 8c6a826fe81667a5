/* client.h - the client's half of the registry's API: where records are posted, and
 * lists page by page. Uses http, json, schema, opt. */
#ifndef RNP_COMMON_REGISTRY_CLIENT_H
#define RNP_COMMON_REGISTRY_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cli/opt.h"
#include "common/http/http.h"
#include "common/record/work.h"

/* Which registry is asked, and how. */
struct registry_call {
	const char *base;      /* the registry's URL */
	const char *ca;        /* certificates to trust, or NULL */
	int64_t per_try_ms;    /* 0: the default */
	int tries;             /* 0: the default */
	bool public_redirects; /* see http_request */
	/* of a node's first record: the proof of work, "TOKEN.NUMBER"; or NULL */
	const char *work;
};

/* Sends a signed record to the path of its kind. text: the record as it is sent. Returns the
 * registry's rnp.stored of this record, which the caller owns, or NULL with err_set: as http_fetch,
 * and 69, with r->status 0, where what answers confirms nothing. */
json_t *registry_post(struct http *http, const struct registry_call *p,
	const json_t *record, const void *text, size_t bytes, struct http_response *r);

/* Gets what the registry says of a node. Returns the reply, an object whose `record` is the node's,
 * which the caller owns; NULL with err_set: as http_fetch (r->status 404: it does not know the
 * node), and 69, with r->status 0, where what answers is no such reply. */
json_t *registry_node(struct http *http, const struct registry_call *p, const char *node,
	struct http_response *r);

/* Reads the cost of joining from a registry's reply. Returns false when it names none. */
struct registry_work {
	char token[WORK_TOKEN_MAX];
	int bits;
};
bool registry_work_read(const struct http_response *r, struct registry_work *out);

/* Reads the time of what a registry has already from its reply 409. Returns false when it names
 * none. */
bool registry_known_read(const struct http_response *r, int64_t *at_ms);

/* Takes an item of a list, or the array of a page. Returns 0 to go on, 1 to end, -1 with
 * err_set. */
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
	OPT(TEXT, "registry", (to_url), "URL", \
		"the registry", .required = true, .setting = true, .url = true)
#define OPT_CA(to_path)                                                                        \
	OPT(TEXT, "ca", (to_path), "F", \
		"trust these certificates (PEM), not the system's", .setting = true)
/* clang-format on */

#endif
