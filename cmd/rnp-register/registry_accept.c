/* What a registry accepts, and what it replies once the storage has said what became of a record. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/registry_accept.h"
#include "cmd/rnp-register/registry_beats.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/base/mem.h"
#include "common/record/party.h"
#include "common/record/signature.h"
#include "common/json/schema.h"

static void refuse(struct registry *g, struct httpd_reply *r, int status,
	const char *text)
{
	g->refused++;
	httpd_error(r, status, "%s", text);
}

/* Returns 0, or -1 with the reply filled: kinds that have a path of their own are taken there alone. */
static int check_kind(struct registry *g, struct httpd_reply *r, const json_t *record,
	const char *wanted)
{
	static const char *const others[] = { "rnp.bench", "rnp.quote", "rnp.verdict",
		"rnp.receipt" };
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

	/* a node record may be old if it is the one that is here: the writer looks */
	if (ahead_ms <= REGISTRY_SKEW_MS &&
		(!late_is_bad || ahead_ms >= -REGISTRY_SKEW_MS))
		return 0;
	clock_format(now, p->received_ms);
	g->refused++;
	httpd_error(r, 422, "at: more than 5 minutes from our clock, which shows %s",
		now);
	return -1;
}

/* A receipt is for work that is done. It is kept at the end of that work, or later when it was
 * written later, so that who asks for the records since a moment gets all work since then. */
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
	if (to_ms - p->received_ms > REGISTRY_SKEW_MS) {
		refuse(g, r, 422, "to: a receipt is for work that is done");
		return -1;
	}
	if (to_ms > p->at_ms)
		p->at_ms = to_ms;
	return 0;
}

static int read_fields(struct registry_put *p, const json_t *record)
{
	const char *node = NULL, *state = NULL;

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
		json_opt_text(record, "body", "state", &state) < 0)
		return -1;
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
		check_signature(g, r, record, p) < 0)
		return -1;
	if (p->what == PUT_HEARTBEAT)
		registry_beat_compact(p, record, &q->body);
	return 0;
}

struct registry_put *registry_accept(struct registry *g, struct httpd_request *q,
	struct httpd_reply *r, const char *kind)
{
	struct registry_put *p = xcalloc(1, sizeof *p);
	json_t *record = json_parse_object(buf_text(&q->body), q->body.len, "body");

	/* what stands behind the record is not kept */
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
	p->at_min_ms = p->received_ms - REGISTRY_SKEW_MS;
	if (p->what == PUT_NODE)
		p->record = record;
	else
		json_decref(record);
	return p;
}

/* --- replies ------------------------------------------------------------------------------ */

struct asked {
	struct registry *g;
	struct httpd_request *q;
	struct httpd_reply *r;
};

static void write_ack(struct httpd_reply *r, const struct registry_put *p)
{
	json_t *ack = json_record("rnp.stored");

	json_set_text(ack, "of", p->kind);
	json_set_text(ack, "node", p->node);
	json_set_time(ack, "at", p->at_ms);
	/* a heartbeat is known by its node and time */
	if (p->what != PUT_HEARTBEAT)
		json_set_text(ack, "sha256", p->sha256);
	json_set_bool(ack, "new", p->stored != STORED_SAME);
	if (p->extra)
		json_set(ack, "challenge", json_incref(p->extra));
	json_write(&r->body, ack);
	buf_addc(&r->body, '\n');
	json_decref(ack);
}

static void reply(struct httpd_reply *r, const struct registry_put *p)
{
	char at[CLOCK_TEXT_MAX];

	switch (p->stored) {
	case STORED_FIRST:
		r->status = 201;
		write_ack(r, p);
		break;
	case STORED_NEW:
	case STORED_SAME:
		write_ack(r, p);
		break;
	case STORED_OLDER:
		clock_format(at, p->known_at_ms);
		httpd_error(r, 409, "a %s of %s as new or newer is here already, of %s",
			p->what == PUT_NODE ? "record" : "heartbeat", p->node, at);
		break;
	case STORED_EARLY:
		clock_format(at, p->received_ms);
		httpd_error(r, 422,
			"at: more than 5 minutes from our clock, which shows %s", at);
		break;
	case STORED_NO_NODE:
		httpd_error(r, 404, "node %s is not registered here", p->node);
		break;
	case STORED_FAILED:
		r->retry_after_s = 1;
		httpd_error(r, 503, "the registry cannot store records at present");
		break;
	}
}

static void on_stored(struct registry_put *p, void *ctx)
{
	struct asked *a = ctx;

	reply(a->r, p);
	if (a->r->status < 300)
		a->g->stored++;
	else if (p->stored != STORED_FAILED)
		a->g->refused++;
	httpd_finish(a->q);
	free(a);
}

void registry_store(struct registry *g, struct registry_put *p, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct asked *a = xcalloc(1, sizeof *a);

	*a = (struct asked){ g, q, r };
	p->done = on_stored;
	p->done_ctx = a;
	registry_db_put(&g->db, p);
}
