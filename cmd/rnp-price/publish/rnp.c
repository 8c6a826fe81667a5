/* rnp.c - lists a node's price in an rnp registry: its newest signed rnp.quote counts. */
#include "cmd/rnp-price/publish/market.h"

#include <stdio.h>
#include <string.h>

#include "common/base/err.h"
#include "common/json/json.h"
#include "common/registry/client.h"
#include "common/record/key.h"
#include "common/record/signature.h"

/* The registry's answer about a node: its record, and the newest quote. */
static int read_listed(struct publish_target *t, const char *text, size_t len)
{
	const char *node = json_string_value(json_object_get(t->quote, "node"));
	json_t *answer = json_parse_object(text, len, t->url);
	const json_t *quote = json_object_get(answer, "quote");
	struct signature_result s;
	int rc = -1;

	t->listed_uusd = PUBLISH_NONE;
	if (!answer)
		return -1;
	if (quote) {
		signature_verify(quote, &s);
		if (!s.ok || !signature_is_by(&s, node)) {
			err_set(EX_DATAERR, "%s: holds a quote that %s has not signed",
				t->url, node);
			goto out;
		}
		if (json_get_i64(quote, t->url, "customer_uusd", 0, JSON_SAFE_INTEGER_MAX,
			    &t->listed_uusd) < 0)
			goto out;
	}
	json_decref(t->before);
	t->before = json_deep_copy(quote);
	rc = 0;
out:
	json_decref(answer);
	return rc;
}

static int look(struct publish_target *t)
{
	const char *node = json_string_value(json_object_get(t->quote, "node"));
	const struct registry_call p = { .base = t->url,
		.ca = t->ca,
		.public_redirects = true };
	struct http_response r = HTTP_RESPONSE_INIT;
	json_t *reply;
	int rc;

	if (!node)
		return err_set(EX_DATAERR, "the quote names no node");
	snprintf(t->unit, sizeof t->unit, "%.60s", node);
	reply = registry_node(&t->http, &p, node, &r);
	rc = reply ? read_listed(t, buf_text(&r.body), r.body.len) : -1;
	json_decref(reply);
	http_response_release(&r);
	return rc;
}

static bool same_number(const json_t *a, const json_t *b, const char *key)
{
	return json_equal(json_object_get(a, key), json_object_get(b, key));
}

/* The quote itself, or where a day's change limits it, the same with another price. */
static int plan(struct publish_target *t, const struct publish_price *p, int64_t now_ms)
{
	struct key k = KEY_INIT;
	json_t *quote = json_deep_copy(t->quote);
	const char *node = json_string_value(json_object_get(quote, "node"));
	int rc;

	json_object_del(quote, "proof");
	if (p->limited) {
		json_set_i64(quote, "ask_uusd", p->ask_uusd);
		json_set_i64(quote, "customer_uusd", p->customer_uusd);
		json_set_i64(quote, "fee_uusd", p->customer_uusd - p->ask_uusd);
		json_push_text(json_object_get(quote, "why"),
			"listed as far from the price of a day ago as publish may go");
	}
	t->same = same_number(t->before, quote, "ask_uusd") &&
		same_number(t->before, quote, "customer_uusd") &&
		same_number(t->before, quote, "spec");
	rc = key_load(&k, t->key_file, NULL);
	if (rc == 0 && strcmp(k.address, node) != 0)
		rc = err_set(EX_NOPERM,
			"'%s' is the key of %s, not of the quote's node %s", t->key_file,
			k.address, node);
	if (rc == 0)
		rc = signature_add(quote, &k, now_ms / 1000 * 1000);
	if (rc == 0) {
		buf_reset(&t->body);
		json_write(&t->body, quote);
		json_decref(t->wanted);
		t->wanted = json_incref(quote);
	}
	key_release(&k);
	json_decref(quote);
	return rc;
}

static int send_it(struct publish_target *t)
{
	const struct registry_call p = { .base = t->url, .ca = t->ca };
	struct http_response r = HTTP_RESPONSE_INIT;
	json_t *stored = registry_post(&t->http, &p, t->wanted, t->body.data, t->body.len,
		&r);
	int rc = stored ? 0 : -1;

	json_decref(stored);
	http_response_release(&r);
	return rc;
}

const struct publish_market publish_rnp = {
	.name = "rnp",
	.look = look,
	.plan = plan,
	.send = send_it,
	.read_listed = read_listed,
};
