/* status.c - rnp-register status: a node's health, as a registry sees it: alive, proven, up,
 * and what to do next. */
#include <stdio.h>
#include <string.h>

#include "cmd/rnp-register/commands.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/cli/settings.h"
#include "common/json/json.h"
#include "common/json/schema.h"
#include "common/registry/client.h"
#include "common/record/key.h"

#define WEEK_MS INT64_C(604800000)
#define SALE_MS 10000

static const char *registry, *node, *key_path, *passphrase_file, *ca_file;
static bool own = true; /* the node is that of this user's key or settings */

static const struct opt opts[] = {
	OPT_REGISTRY(&registry),
	OPT(TEXT, "node", &node, "A", "its address (default: the key file's)",
		.setting = true),
	OPT_KEY(&key_path),
	OPT_PASSPHRASE(&passphrase_file),
	OPT_WATCH,
	OPT_CA(&ca_file),
	{ 0 },
};

/* Summary of the last week's verdicts, and the newest of all. */
struct verdicts {
	int64_t passed, failed;
	json_t *last; /* owned */
};

/* Keeps the newest verdict of all, where there was none this week. */
static int keep_verdict(void *ctx, const json_t *record)
{
	struct verdicts *v = ctx;

	if (schema_check(record, registry, "rnp.verdict") < 0)
		return -1;
	json_decref(v->last);
	v->last = json_deep_copy(record);
	return 0;
}

static int add_verdict(void *ctx, const json_t *record)
{
	struct verdicts *v = ctx;

	if (keep_verdict(ctx, record) < 0)
		return -1;
	if (json_is_true(json_object_get(record, "passed")))
		v->passed++;
	else
		v->failed++;
	return 0;
}

/* Sum of the last week's receipts. */
struct earnings {
	int64_t uusd, receipts;
};

static int add_receipt(void *ctx, const json_t *record)
{
	struct earnings *e = ctx;
	int64_t uusd = 0;

	if (schema_check(record, registry, "rnp.receipt") < 0 ||
		json_opt_i64(record, registry, "earned_uusd", 0, JSON_SAFE_INTEGER_MAX,
			&uusd) < 0)
		return -1;
	e->receipts++;
	if (__builtin_add_overflow(e->uusd, uusd, &e->uusd))
		e->uusd = INT64_MAX;
	return 0;
}

/* How it stands with a node that sells. */
struct selling {
	json_t *sale; /* as the registry says it; NULL: it does not sell */
	int64_t leases;
};

/* Counts those that are open. */
static int add_lease(void *ctx, const json_t *lease)
{
	struct selling *s = ctx;

	s->leases += !json_object_get(lease, "end");
	return 0;
}

/* A registry without a market, and one that is older, says nothing of it. */
static void get_selling(struct http *http, struct selling *s)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct http_request q = { .ca_file = ca_file, .timeout_ms = SALE_MS };
	struct buf path = BUF_INIT, url = BUF_INIT;
	json_t *reply = NULL;

	buf_addf(&path, "/v1/leases?node=%s", node);
	if (http_url(&url, registry, path.data) == 0) {
		q.url = url.data;
		if (http_fetch(http, &q, &r) == 0)
			reply = json_parse_object(buf_text(&r.body), r.body.len,
				registry);
	}
	s->sale = json_incref(json_object_get(reply, "sale"));
	if (s->sale &&
		registry_each(http, registry, ca_file, path.data, "leases", add_lease,
			s) < 0)
		s->leases = 0;
	err_clear();
	json_decref(reply);
	buf_release(&path);
	buf_release(&url);
	http_response_release(&r);
}

static void add_selling(json_t *status, const struct selling *s)
{
	if (!s->sale)
		return;
	json_set_bool(status, "for_sale",
		json_is_true(json_object_get(s->sale, "for_sale")));
	json_set_text(status, "not_for_sale",
		json_string_value(json_object_get(s->sale, "why")));
	if (json_object_get(s->sale, "price_uusd"))
		json_set(status, "price_uusd",
			json_incref(json_object_get(s->sale, "price_uusd")));
	json_set_i64(status, "leases", s->leases);
}

static int add_uptime(void *ctx, const json_t *item)
{
	return json_opt_i64(item, registry, "up_ms", 0, JSON_SAFE_INTEGER_MAX, ctx);
}

/* Returns the first failed check of a verdict. */
static const json_t *failed_check(const json_t *verdict)
{
	const json_t *checks = json_object_get(verdict, "checks");
	json_t *check;
	size_t i;

	json_array_foreach((json_t *)checks, i, check) {
		if (!json_is_true(json_object_get(check, "passed")))
			return check;
	}
	return NULL;
}

/* People read the word that list and the registry's page have. */
static void add_last_verdict(json_t *status, const json_t *verdict)
{
	const json_t *check = failed_check(verdict);
	bool passed = json_is_true(json_object_get(verdict, "passed"));
	char reason[300];

	if (out_for_people())
		json_set_text(status, "verdict",
			!verdict       ? "none yet" :
				passed ? "passed" :
					 "failed");
	if (!verdict)
		return;
	json_set_text(status, "verdict_at",
		json_string_value(json_object_get(verdict, "at")));
	if (!out_for_people())
		json_set_bool(status, "passed", passed);
	if (json_is_integer(json_object_get(verdict, "score_ppm")))
		json_set(status, "score_ppm",
			json_incref(json_object_get(verdict, "score_ppm")));
	if (!check)
		return;
	snprintf(reason, sizeof reason, "%s: %s",
		json_string_value(json_object_get(check, "check")),
		json_is_string(json_object_get(check, "reason")) ?
			json_string_value(json_object_get(check, "reason")) :
			"not passed");
	json_set_text(status, "reason", reason);
}

/* Appends a command with those of its options that this one was given, so that it runs as pasted.
 * names: of options, ending with NULL. */
static void add_command(struct buf *out, const char *command, const char *const names[])
{
	buf_adds(out, command);
	for (int i = 0; names[i]; i++)
		for (const struct opt *o = opts; o->name; o++)
			if (strcmp(o->name, names[i]) == 0 &&
				opt_given(&command_status, o->name)) {
				buf_addf(out, " --%s ", o->name);
				buf_add_shell(out, *(const char *const *)o->to);
			}
}

static void add_heartbeats(struct buf *out)
{
	add_command(out, "rnp-register heartbeat",
		(const char *const[]){ "registry", "key", "passphrase-file", "ca",
			NULL });
	add_command(out, " | rnp-bench answer",
		(const char *const[]){ "key", "ca", NULL });
	add_command(out, " | rnp-register submit",
		(const char *const[]){ "registry", "ca", NULL });
}

/* Appends what to do next, if anything is. A foreign node's commands are its operator's. */
static void add_advice(struct buf *out, const json_t *reply, const struct verdicts *v)
{
	bool online = json_is_true(json_object_get(reply, "online"));

	if (online && json_object_get(reply, "twin_ms")) {
		buf_adds(out,
			"two machines, or two processes, send heartbeats with this key: give each machine its own (rnp-register keygen), and stop one");
	} else if (online && v->last &&
		!json_is_true(json_object_get(v->last, "passed"))) {
		buf_adds(out,
			"the last challenge was not passed: see reason, and 'When a challenge is not passed' in rnp-bench(1)");
	} else if (!online || v->passed + v->failed == 0) {
		buf_adds(out,
			online ?
				"no challenge was answered this week; they come with heartbeats" :
				"no heartbeats arrive");
		if (!own) {
			buf_adds(out, ": its operator has to look");
			return;
		}
		buf_adds(out, online ? ", and are answered by: " : ": ");
		add_heartbeats(out);
	} else if (json_is_true(json_object_get(reply, "pending"))) {
		buf_adds(out,
			"the record is new, and counts when a challenge about it is passed");
	}
}

/* Takes v->last. */
static json_t *make_status(const json_t *reply, int64_t up_ms, const struct earnings *e,
	const struct selling *selling, struct verdicts *v)
{
	static const char *const as_they_are[] = { "seen_at", "state", "online",
		"pending", "pool", "twin_ms", NULL };
	json_t *status = json_record("rnp.status");
	struct buf next = BUF_INIT;

	json_set_text(status, "node", json_string_value(json_object_get(reply, "node")));
	json_set_time(status, "at", clock_now_ms());
	json_set_text(status, "registered_at",
		json_string_value(
			json_object_get(json_object_get(reply, "record"), "at")));
	for (int i = 0; as_they_are[i]; i++)
		if (json_object_get(reply, as_they_are[i]))
			json_set(status, as_they_are[i],
				json_incref(json_object_get(reply, as_they_are[i])));
	json_set_i64(status, "up_ms", up_ms);
	json_set_i64(status, "receipts", e->receipts);
	json_set_i64(status, "earned_uusd", e->uusd);
	json_set_i64(status, "challenges_passed", v->passed);
	json_set_i64(status, "challenges_failed", v->failed);
	add_selling(status, selling);
	add_last_verdict(status, v->last);
	add_advice(&next, reply, v);
	if (next.len)
		json_set_text(status, "next", next.data);
	buf_release(&next);
	json_decref(v->last);
	v->last = NULL;
	return status;
}

static void unknown_node(void)
{
	static const char *const key[] = { "key", "passphrase-file", NULL };
	struct buf hint = BUF_INIT;

	err_set(EXIT_NO, "the registry does not know node %s", node);
	if (!own)
		return;
	add_command(&hint, "register it: rnp-register detect",
		(const char *const[]){ "key", NULL });
	add_command(&hint, " | rnp-register sign", key);
	add_command(&hint, " | rnp-register submit",
		(const char *const[]){ "registry", "ca", NULL });
	err_hint("%s", hint.data);
	buf_release(&hint);
}

/* Returns the registry's reply about the node; the caller owns it. NULL with err_set; EXIT_NO
 * if the registry does not know it. */
static json_t *get_node(struct http *http)
{
	const struct registry_call p = { .base = registry, .ca = ca_file };
	struct http_response r = HTTP_RESPONSE_INIT;
	json_t *reply = registry_node(http, &p, node, &r);

	if (!reply && r.status == 404)
		unknown_node();
	http_response_release(&r);
	return reply;
}

static int print_status(struct http *http)
{
	struct verdicts verdicts = { 0 };
	struct earnings earnings = { 0 };
	struct selling selling = { 0 };
	struct buf path = BUF_INIT;
	int64_t now_ms = clock_now_ms(), up_ms = 0;
	char from[CLOCK_TEXT_MAX], to[CLOCK_TEXT_MAX];
	json_t *reply = get_node(http), *status = NULL;
	int rc = -1;

	if (!reply)
		return -1;
	clock_format(from, now_ms - WEEK_MS);
	clock_format(to, now_ms);
	buf_addf(&path, "/v1/uptime?node=%s&from=%s&to=%s", node, from, to);
	if (registry_each(http, registry, ca_file, path.data, "uptime", add_uptime,
		    &up_ms) < 0)
		goto out;
	buf_reset(&path);
	buf_addf(&path, "/v1/records?node=%s&kind=rnp.verdict&from=%s", node, from);
	if (registry_each(http, registry, ca_file, path.data, "records", add_verdict,
		    &verdicts) < 0)
		goto out;
	buf_reset(&path);
	buf_addf(&path, "/v1/records?node=%s&kind=rnp.verdict", node);
	if (!verdicts.last &&
		registry_each(http, registry, ca_file, path.data, "records", keep_verdict,
			&verdicts) < 0)
		goto out;
	buf_reset(&path);
	buf_addf(&path, "/v1/records?node=%s&kind=rnp.receipt&from=%s", node, from);
	if (registry_each(http, registry, ca_file, path.data, "records", add_receipt,
		    &earnings) < 0)
		goto out;
	get_selling(http, &selling);
	status = make_status(reply, up_ms, &earnings, &selling, &verdicts);
	rc = out_record(status);
out:
	json_decref(verdicts.last);
	json_decref(selling.sale);
	json_decref(reply);
	json_decref(status);
	buf_release(&path);
	return rc;
}

/* Whether an address is that of the key, or of the machine that setup has set up. */
static bool is_own(const char *address, const struct key *key)
{
	const char *set = settings_find("node");

	return strcmp(key->address, address) == 0 || (set && strcmp(set, address) == 0);
}

static int run(int n, char **args)
{
	unsigned char public_key[ADDRESS_BYTES];
	struct http http = HTTP_INIT;
	struct key key = KEY_INIT;
	int rc = -1;

	(void)n, (void)args;
	/* a key given on the command line takes precedence over the machine's settings */
	if (opt_given(&command_status, "key") && !opt_given(&command_status, "node"))
		node = NULL;
	if (node) {
		rc = address_parse(node, "--node", public_key);
		if (rc == 0 && key_load(&key, key_path, passphrase_file) < 0)
			err_clear();
		own = is_own(node, &key);
	} else if (key_load(&key, key_path, passphrase_file) == 0) {
		node = key.address;
		rc = 0;
	}
	if (rc == 0)
		rc = print_status(&http);
	http_release(&http);
	key_release(&key);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_status = {
	.name = "status",
	.summary = "A node's health, as a registry sees it, and what to do next.",
	.details =
		"Writes one rnp.status record: whether heartbeats arrive, how long the node was up in the\n"
		"last seven days and what it earned by receipts, how many challenges it passed and failed, and\n"
		"why the last one failed.\n"
		"The exit status is 1 when the registry does not know the node.",
	.card = true,
	.group = "node",
	.opts = opts,
	.run = run,
};
