/* vast.c - lists a machine on Vast: GET /api/v0/machines/ says what is listed, PUT
 * /api/v0/machines/create_asks/ lists it anew.
 *
 * A request says everything about a listing, so that what is listed is sent again with another
 * price: what is left out would fall back to Vast's defaults, and another end_date would extend
 * the contracts that run. Contracts keep their price. price_gpu is what the customer pays. */
#include "cmd/rnp-price/publish/market.h"

#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/num.h"
#include "common/json/canon.h"
#include "common/json/json.h"
#include "common/record/key.h"

#define ANSWER_BYTES_MAX ((int64_t)4 << 20)
#define UUSD_MAX         INT64_C(1000000000000)

/* What a request must repeat of the listing: its names in a machine's record and in the request. */
static const struct {
	const char *listed, *sent;
} terms[] = { { "listed_storage_cost", "price_disk" },
	{ "listed_inet_up_cost", "price_inetu" },
	{ "listed_inet_down_cost", "price_inetd" }, { "min_bid_price", "price_min_bid" },
	{ "listed_min_gpu_count", "min_chunk" }, { "end_date", "end_date" } };

/* Sends a request with the key. r: the answer; the caller releases it. */
static int ask(struct publish_target *t, const char *method, const char *path,
	struct http_response *r)
{
	struct buf url = BUF_INIT, header = BUF_INIT;
	const char *headers[] = { NULL, NULL };
	struct http_request q = { .method = method,
		.headers = headers,
		.ca_file = t->ca,
		.no_redirects = true,
		.response_bytes_max = ANSWER_BYTES_MAX };
	char *key = key_load_token(t->key_file);
	int rc = key ? http_url(&url, t->url, path) : -1;

	if (strcmp(method, "PUT") == 0) {
		q.body = t->body.data;
		q.body_bytes = t->body.len;
	}
	if (key)
		buf_addf(&header, "Authorization: Bearer %s", key);
	headers[0] = header.data;
	q.url = url.data;
	if (rc == 0)
		rc = http_fetch(&t->http, &q, r);
	if (header.data)
		sodium_memzero(header.data, header.len);
	sodium_free(key);
	buf_release(&header);
	buf_release(&url);
	return rc;
}

/* Reads dollars per GPU as uusd: what Vast rounds counts as what was sent. */
static int read_dollars(const json_t *machine, const char *where, const char *key,
	int64_t *uusd)
{
	const json_t *v = json_object_get(machine, key);
	struct buf text = BUF_INIT;
	int rc = 0;

	*uusd = PUBLISH_NONE;
	if (!v || json_is_null(v))
		return 0;
	if (!json_is_number(v))
		return err_set(EX_DATAERR, "%s: %s: not a number", where, key);
	canon_number(&text, json_number_value(v));
	rc = num_decimal(buf_text(&text), key, 6, 1, uusd);
	if (rc == 0 && (*uusd < 0 || *uusd > UUSD_MAX))
		rc = err_set(EX_DATAERR, "%s: %s: %.40s is no price", where, key,
			text.data);
	buf_release(&text);
	return rc;
}

static const json_t *find_machine(const json_t *answer, const char *wanted)
{
	const json_t *machines = json_object_get(answer, "machines"), *m;
	size_t i;

	json_array_foreach(machines, i, m) {
		const json_t *id = json_object_get(m, "id");
		char text[32];

		snprintf(text, sizeof text, "%lld", (long long)json_integer_value(id));
		if (json_is_integer(id) && strcmp(text, wanted) == 0)
			return m;
	}
	return NULL;
}

static int read_listed(struct publish_target *t, const char *text, size_t len)
{
	json_t *answer = json_parse_object(text, len, t->url);
	const json_t *m;
	int64_t per_gpu = PUBLISH_NONE, gpus = 0;
	int rc = -1;

	snprintf(t->unit, sizeof t->unit, "%.60s", t->machine);
	t->listed_uusd = PUBLISH_NONE;
	if (!answer)
		return -1;
	m = find_machine(answer, t->machine);
	if (!m) {
		err_set(EX_DATAERR, "%s: there is no machine %s of yours", t->url,
			t->machine);
		goto out;
	}
	if (json_get_i64(m, t->url, "num_gpus", 1, 1024, &gpus) < 0 ||
		read_dollars(m, t->url, "listed_gpu_cost", &per_gpu) < 0)
		goto out;
	if (gpus != t->gpus) {
		err_set(EX_DATAERR, "machine %s has %lld GPUs, the quote is for %lld",
			t->machine, (long long)gpus, (long long)t->gpus);
		goto out;
	}
	if (per_gpu > 0 && !json_is_false(json_object_get(m, "listed")))
		t->listed_uusd = per_gpu * gpus;
	json_decref(t->before);
	t->before = json_deep_copy(m);
	rc = 0;
out:
	json_decref(answer);
	return rc;
}

static int look(struct publish_target *t)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	int rc = ask(t, "GET", "/api/v0/machines/", &r);

	if (rc == 0)
		rc = read_listed(t, buf_text(&r.body), r.body.len);
	http_response_release(&r);
	return rc;
}

static int plan(struct publish_target *t, const struct publish_price *p, int64_t now_ms)
{
	int64_t per_gpu = publish_per_gpu(p->customer_uusd, t->gpus);
	const char *sep = ",";

	(void)now_ms;
	buf_reset(&t->body);
	buf_addf(&t->body, "{\"machine\":%s,\"price_gpu\":", t->machine);
	publish_dollars(&t->body, per_gpu);
	for (size_t i = 0; i < sizeof terms / sizeof *terms; i++) {
		const json_t *v = json_object_get(t->before, terms[i].listed);

		if (!json_is_number(v))
			continue;
		buf_addf(&t->body, "%s\"%s\":", sep, terms[i].sent);
		json_write(&t->body, v);
	}
	buf_addc(&t->body, '}');
	t->same = t->listed_uusd == per_gpu * t->gpus;
	json_decref(t->wanted);
	t->wanted = json_parse_object(t->body.data, t->body.len, "request");
	return t->wanted ? 0 : -1;
}

static int read_sent(const struct publish_target *t, const char *text, size_t len)
{
	json_t *answer = json_parse_object(text, len, t->url);
	const char *msg;
	int rc = answer ? 0 : -1;

	if (rc == 0 && !json_is_true(json_object_get(answer, "success"))) {
		msg = json_string_value(json_object_get(answer, "msg"));
		rc = err_set(EXIT_NO, "%s: refused: %.200s", t->url,
			msg ? msg : "without a reason");
	}
	json_decref(answer);
	return rc;
}

static int send_it(struct publish_target *t)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	int rc = ask(t, "PUT", "/api/v0/machines/create_asks/", &r);

	if (rc == 0)
		rc = read_sent(t, buf_text(&r.body), r.body.len);
	http_response_release(&r);
	return rc;
}

const struct publish_market publish_vast = {
	.name = "vast",
	.url = "https://console.vast.ai",
	.look = look,
	.plan = plan,
	.send = send_it,
	.read_listed = read_listed,
	.read_sent = read_sent,
};

void publish_target_release(struct publish_target *t)
{
	http_release(&t->http);
	json_decref(t->before);
	json_decref(t->wanted);
	buf_release(&t->body);
}
