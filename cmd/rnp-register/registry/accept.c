/* accept.c - decides what a registry accepts. */
#include "cmd/rnp-register/registry/accept.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/storage/beats.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/base/mem.h"
#include "common/record/party.h"
#include "common/record/signature.h"
#include "common/record/uptime.h"
#include "common/json/schema.h"

static void refuse(struct registry *g, struct httpd_reply *r, int status,
	const char *text)
{
	g->refused++;
	httpd_error(r, status, "%s", text);
}

/* Returns 0, or -1 with the reply filled: kinds with a path of their own are accepted only
 * there. */
static int check_kind(struct registry *g, struct httpd_reply *r, const json_t *record,
	const char *wanted)
{
	static const char *const others[] = { "rnp.bench", "rnp.quote", "rnp.verdict",
		"rnp.receipt", "rnp.invitation" };
	const char *kind = json_string_value(json_object_get(record, "kind"));

	if (wanted && json_check_kind(record, "body", wanted) == 0)
		return 0;
	for (size_t i = 0; !wanted && i < sizeof others / sizeof *others; i++)
		if (kind && strcmp(kind, others[i]) == 0)
			return 0;
	g->refused++;
	if (wanted)
		httpd_error(r, 400, "%s", err_get()->text);
	else
		httpd_error(r, 400, "kind: records of kind '%.40s' are not taken here",
			kind ? kind : "");
	return -1;
}

static int check_signature(struct registry *g, struct httpd_reply *r,
	const json_t *record, struct registry_put *p)
{
	const struct party_rule *rule = party_rule(p->kind);
	struct signature_result proof;
	const char *who;

	signature_verify(record, &proof);
	switch (party_check(record, &proof, g->config.trusted, g->config.ntrusted,
		&who)) {
	case PARTY_GOOD:
		snprintf(p->signer, sizeof p->signer, "%s", who);
		p->by_trusted = strcmp(who, p->node) != 0;
		sodium_bin2hex(p->sha256, sizeof p->sha256, proof.sha256,
			sizeof proof.sha256);
		return 0;
	case PARTY_BAD_SIGNATURE:
		refuse(g, r, 401, proof.reason);
		return -1;
	case PARTY_NOT_AUTHOR:
		refuse(g, r, 403, "signer: has not signed this record");
		return -1;
	default:
		break;
	}
	g->refused++;
	httpd_error(r, 403, "%s of node %s is signed by %s, not by %s%s%s", p->kind,
		p->node, proof.nsigners ? proof.signers[0] : "nobody",
		rule->by_node ? "the node itself" : "",
		rule->by_node && rule->by_trusted ? " or " : "",
		rule->by_trusted ? "a verifier or coordinator that is trusted here" : "");
	return -1;
}

static int check_time(struct registry *g, struct httpd_reply *r,
	const struct registry_put *p)
{
	char now[CLOCK_TEXT_MAX];
	int64_t ahead_ms = p->at_ms - p->received_ms;
	bool late_is_bad = p->what == PUT_HEARTBEAT;

	/* a node record may be old if it is the one that is stored: the writer checks */
	if (ahead_ms <= UPTIME_SKEW_MS && (!late_is_bad || ahead_ms >= -UPTIME_SKEW_MS))
		return 0;
	clock_format(now, p->received_ms);
	g->refused++;
	httpd_error(r, 422, "at: more than 5 minutes from our clock, which shows %s",
		now);
	return -1;
}

/* A receipt is for finished work. It is stored at the end of that work, or later if it was
 * written later, so that a query for records since a moment returns all work since then. */
static int check_work(struct registry *g, struct httpd_reply *r, const json_t *record,
	struct registry_put *p)
{
	int64_t from_ms, to_ms;

	if (strcmp(p->kind, "rnp.receipt") != 0)
		return 0;
	if (json_get_time(record, "body", "from", &from_ms) < 0 ||
		json_get_time(record, "body", "to", &to_ms) < 0) {
		refuse(g, r, 400, err_get()->text);
		return -1;
	}
	if (to_ms <= from_ms) {
		refuse(g, r, 400, "body: field 'to' is not after 'from'");
		return -1;
	}
	if (to_ms - p->received_ms > UPTIME_SKEW_MS) {
		refuse(g, r, 422, "to: a receipt is for work that is done");
		return -1;
	}
	if (to_ms > p->at_ms)
		p->at_ms = to_ms;
	return 0;
}

/* An invitation is stored at the time until which it is valid, which is at most this far away. */
#define INVITATION_MS (INT64_C(366) * 86400000)

static int check_invitation(struct registry *g, struct httpd_reply *r,
	const json_t *record, struct registry_put *p)
{
	int64_t expires_ms;

	if (strcmp(p->kind, "rnp.invitation") != 0)
		return 0;
	if (json_get_time(record, "body", "expires", &expires_ms) == 0 &&
		expires_ms > p->received_ms && expires_ms <= p->at_ms + INVITATION_MS) {
		p->at_ms = expires_ms;
		return 0;
	}
	err_clear();
	refuse(g, r, 422, "expires: is over, or more than a year after 'at'");
	return -1;
}

/* --- what one node, and one address, may have stored -------------------------------------- */

/* How many records are kept of a node, by kind; of other kinds all. */
static const struct {
	const char *kind;
	int64_t keep;
} kept[] = { { "rnp.node", 32 }, { "rnp.bench", 256 }, { "rnp.quote", 64 } };

#define HOUR_S 3600

static int too_much(struct registry *g, struct httpd_reply *r, const char *text)
{
	r->retry_after_s = HOUR_S;
	refuse(g, r, 429, text);
	return -1;
}

/* First of all: an address that has used up its allowance must wait. */
static int check_address(struct registry *g, const struct httpd_request *q,
	struct httpd_reply *r)
{
	char who[LIMITS_CLIENT_MAX];

	limits_client(who, q->client);
	if (!limits_hold_for(g->limits, q->client) ||
		limits_has(g->limits, LIMIT_BYTES, who, (double)q->body.len,
			clock_now_ms()))
		return 0;
	return too_much(g, r, "this address has stored its share of a day");
}

/* After the signature is verified: how often a node may post. */
static int check_node(struct registry *g, const struct httpd_request *q,
	struct httpd_reply *r, struct registry_put *p)
{
	enum limit what = p->what == PUT_NODE ? LIMIT_NODES :
		p->what == PUT_HEARTBEAT      ? LIMIT_BEATS :
						LIMIT_RECORDS;
	const char *work = httpd_query(q, "work");

	for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
		if (strcmp(p->kind, kept[i].kind) == 0)
			p->keep = kept[i].keep;
	if (limits_hold_for(g->limits, q->client))
		limits_block(p->from, q->client);
	p->may_join = !limits_hold_for(g->limits, q->client) ||
		(work && p->what == PUT_NODE &&
			limits_join_check(g->limits, p->node, work, p->received_ms));
	if (p->by_trusted || !limits_hold_for(g->limits, q->client) ||
		limits_take(g->limits, what, p->node, 1, p->received_ms))
		return 0;
	r->retry_after_s = p->what == PUT_HEARTBEAT ? 1 : HOUR_S;
	refuse(g, r, 429, "this node has said enough for now");
	return -1;
}

static int read_fields(struct registry_put *p, const json_t *record)
{
	const char *node = NULL, *state = NULL, *instance = "";

	strncpy(p->kind, json_string_value(json_object_get(record, "kind")),
		sizeof p->kind - 1);
	if (json_get_text(record, "body", "node", &node) < 0)
		return -1;
	strncpy(p->node, node, sizeof p->node - 1);
	p->received_ms = clock_now_ms();
	p->at_ms = p->received_ms;
	if (json_opt_time(record, "body", "at", &p->at_ms) < 0 ||
		json_opt_i64(record, "body", "interval_s", 1, INT64_MAX,
			&p->beat.interval_s) < 0 ||
		json_opt_text(record, "body", "state", &state) < 0 ||
		(p->what == PUT_HEARTBEAT &&
			json_opt_text(record, "body", "instance", &instance) < 0))
		return -1;
	if (strcmp(p->kind, "rnp.verdict") == 0 &&
		json_is_true(json_object_get(record, "passed")))
		snprintf(p->proves, sizeof p->proves, "%s",
			json_string_value(json_object_get(record, "node_record")) ?
				json_string_value(
					json_object_get(record, "node_record")) :
				"");
	snprintf(p->beat.instance, sizeof p->beat.instance, "%s", instance);
	for (int i = 0; state && registry_states[i]; i++)
		if (strcmp(registry_states[i], state) == 0)
			p->beat.state = i;
	return 0;
}

static int check(struct registry *g, struct httpd_request *q, struct httpd_reply *r,
	json_t *record, const char *kind, struct registry_put *p)
{
	if (check_kind(g, r, record, kind) < 0)
		return -1;
	if (schema_check(record, "body", kind) < 0 || read_fields(p, record) < 0) {
		refuse(g, r, 400, err_get()->text);
		return -1;
	}
	if (check_time(g, r, p) < 0 || check_work(g, r, record, p) < 0 ||
		check_invitation(g, r, record, p) < 0 ||
		check_signature(g, r, record, p) < 0 || check_node(g, q, r, p) < 0)
		return -1;
	if (p->what == PUT_HEARTBEAT)
		registry_beat_compact(p, record, &q->body);
	return 0;
}

struct registry_put *registry_accept(struct registry *g, struct httpd_request *q,
	struct httpd_reply *r, const char *kind)
{
	struct registry_put *p;
	json_t *record;

	if (check_address(g, q, r) < 0)
		return NULL;
	p = xcalloc(1, sizeof *p);
	record = json_parse_object_to(buf_text(&q->body), q->body.len,
		JSON_DEPTH_MAX_LISTED, "body");
	/* text after the record is not stored */
	while (record && strchr(" \t\r\n", q->body.data[q->body.len - 1]))
		q->body.data[--q->body.len] = '\0';
	p->what = !kind                       ? PUT_RECORD :
		strcmp(kind, "rnp.node") == 0 ? PUT_NODE :
						PUT_HEARTBEAT;
	p->text = buf_text(&q->body);
	if (!record)
		refuse(g, r, 400, err_get()->text);
	if (!record || check(g, q, r, record, kind, p) < 0) {
		json_decref(record);
		free(p);
		return NULL;
	}
	p->at_min_ms = p->received_ms - UPTIME_SKEW_MS;
	if (p->what == PUT_NODE || p->proves[0])
		p->record = record;
	else
		json_decref(record);
	return p;
}
