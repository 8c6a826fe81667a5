/* query.c - parses the queries of all paths: a field that is unknown, repeated or
 * malformed is refused. */
#include "cmd/rnp-register/storage/query.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/num.h"
#include "common/cli/prog.h"
#include "common/record/gpu.h"
#include "common/record/key.h"
#include "common/record/pool.h"

static bool is_word_of(const char *words, const char *word)
{
	size_t n = strlen(word);

	for (const char *s = words; *s; s += strspn(s, " ")) {
		size_t len = strcspn(s, " ");

		if (len == n && memcmp(s, word, n) == 0)
			return true;
		s += len;
	}
	return false;
}

int registry_query_known(const struct httpd_request *q, struct httpd_reply *r,
	const char *keys)
{
	for (int i = 0; i < q->nquery; i++) {
		const char *key = q->query[i].key;
		bool twice = httpd_query(q, key) != q->query[i].value;

		if (is_word_of(keys, key) && !twice)
			continue;
		httpd_error(r, 400,
			twice ? "%.40s: is given twice" :
				"%.40s: this path has no such query field",
			key);
		return -1;
	}
	return 0;
}

/* Replies 400 with the pending error. */
static int refuse(struct httpd_reply *r)
{
	httpd_error(r, 400, "%s", err_get()->text);
	err_clear();
	return -1;
}

int registry_query_address(const struct httpd_request *q, struct httpd_reply *r,
	const char *key)
{
	const char *text = httpd_query(q, key);
	unsigned char public_key[KEY_PUBLIC_BYTES];

	return !text || address_parse(text, key, public_key) == 0 ? 0 : refuse(r);
}

/* Leaves *out as it is if the field is absent. */
static int read_i64(const struct httpd_request *q, struct httpd_reply *r, const char *key,
	int64_t min, int64_t *out)
{
	const char *text = httpd_query(q, key);

	return !text || num_i64(text, key, min, INT64_MAX, out) == 0 ? 0 : refuse(r);
}

static int read_time(const struct httpd_request *q, struct httpd_reply *r,
	const char *key, int64_t *ms)
{
	const char *text = httpd_query(q, key);

	return !text || clock_parse(text, key, ms) == 0 ? 0 : refuse(r);
}

static int read_flag(const struct httpd_request *q, struct httpd_reply *r,
	const char *key, bool *out)
{
	const char *text = httpd_query(q, key);

	*out = text && strcmp(text, "true") == 0;
	if (!text || *out || strcmp(text, "false") == 0)
		return 0;
	httpd_error(r, 400, "%s: '%.40s' is neither true nor false", key, text);
	return -1;
}

static int read_page(const struct httpd_request *q, struct httpd_reply *r,
	struct registry_page *out)
{
	const char *limit = httpd_query(q, "limit");

	*out = (struct registry_page){ .limit = REGISTRY_PAGE_DEFAULT };
	if (limit && num_i64(limit, "limit", 1, REGISTRY_PAGE_MAX, &out->limit) < 0)
		return refuse(r);
	return read_i64(q, r, "cursor", 0, &out->after);
}

static int read_tier(const struct httpd_request *q, struct httpd_reply *r, int64_t *out)
{
	const char *text = httpd_query(q, "tier");
	const struct pool_tier *tier = text ? pool_tier_find(text) : NULL;

	*out = tier ? tier - pool_tiers : -1;
	if (!text || tier)
		return 0;
	httpd_error(r, 400, "tier: '%.40s' is not a tier", text);
	return -1;
}

int registry_query_nodes(const struct httpd_request *q, struct httpd_reply *r,
	struct registry_nodes_query *out)
{
	const char *model = httpd_query(q, "gpu_model");
	const struct gpu_model *known = model ? gpu_find(model, 0) : NULL;

	*out = (struct registry_nodes_query){ .model = known ? known->name : model,
		.country = httpd_query(q, "country"),
		.maker = httpd_query(q, "maker"),
		.device = httpd_query(q, "device"),
		.min_memory = -1,
		.min_gpus = -1 };
	if (registry_query_known(q, r,
		    "gpu_model min_memory min_gpus country tier device maker quotes "
		    "limit cursor") < 0 ||
		read_flag(q, r, "quotes", &out->quotes) < 0 ||
		read_page(q, r, &out->page) < 0 ||
		read_i64(q, r, "min_memory", 0, &out->min_memory) < 0 ||
		read_i64(q, r, "min_gpus", 0, &out->min_gpus) < 0 ||
		read_tier(q, r, &out->tier) < 0)
		return -1;
	if (!out->device || strcasecmp(out->device, "gpu") == 0 ||
		strcasecmp(out->device, "cpu") == 0)
		return 0;
	httpd_error(r, 400, "device: '%.40s' is neither gpu nor cpu", out->device);
	return -1;
}

int registry_query_records(const struct httpd_request *q, struct httpd_reply *r,
	struct registry_records_query *out)
{
	const char *kind = httpd_query(q, "kind");

	*out = (struct registry_records_query){ .kind = kind,
		.node = httpd_query(q, "node"),
		.signer = httpd_query(q, "signer"),
		.beats = kind && strcmp(kind, "rnp.heartbeat") == 0,
		.to_ms = INT64_MAX };
	/* heartbeats are stored without their signer, which is their node */
	if (registry_query_known(q, r,
		    out->beats ? "kind node from to limit cursor" :
				 "kind node signer from to limit cursor") < 0 ||
		registry_query_address(q, r, "node") < 0 ||
		registry_query_address(q, r, "signer") < 0 ||
		read_page(q, r, &out->page) < 0 ||
		read_time(q, r, "from", &out->from_ms) < 0 ||
		read_time(q, r, "to", &out->to_ms) < 0)
		return -1;
	return 0;
}

int registry_query_uptime(const struct httpd_request *q, struct httpd_reply *r,
	struct registry_uptime_query *out)
{
	*out = (struct registry_uptime_query){ .node = httpd_query(q, "node"),
		.from_ms = -1,
		.to_ms = -1 };
	if (registry_query_known(q, r, "from to node limit cursor") < 0 ||
		registry_query_address(q, r, "node") < 0 ||
		read_time(q, r, "from", &out->from_ms) < 0 ||
		read_time(q, r, "to", &out->to_ms) < 0 || read_page(q, r, &out->page) < 0)
		return -1;
	if (out->from_ms >= 0 && out->to_ms > out->from_ms)
		return 0;
	httpd_error(r, 400, "from and to are needed, and from is before to");
	return -1;
}

enum httpd_when registry_unavailable(struct httpd_reply *r)
{
	prog_error("%s", err_get()->text);
	r->retry_after_s = 1;
	return httpd_error(r, 503, "the registry cannot read its records at present");
}

void registry_etag(struct httpd_reply *r)
{
	unsigned char hash[16];
	char hex[33];

	crypto_generichash(hash, sizeof hash, (const unsigned char *)buf_text(&r->body),
		r->body.len, NULL, 0);
	sodium_bin2hex(hex, sizeof hex, hash, sizeof hash);
	snprintf(r->etag, sizeof r->etag, "\"%s\"", hex);
}
