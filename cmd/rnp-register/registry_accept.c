/* What a registry accepts: the record is of the kind, signed by the right party, and timely. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/registry.h"
#include "common/json/canon.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/base/mem.h"
#include "common/record/signature.h"
#include "common/json/schema.h"

/* Who may say what about a node. */
static const struct {
	const char *kind;
	bool by_node, by_trusted;
} parties[] = {
	{ "rnp.node", true, false },
	{ "rnp.heartbeat", true, false },
	{ "rnp.bench", true, true },
	{ "rnp.quote", true, false },
	{ "rnp.verdict", false, true },
	{ "rnp.receipt", false, true },
};

#define PARTIES (sizeof parties / sizeof *parties)

static bool is_trusted(const struct registry *g, const char *address)
{
	for (int i = 0; i < g->config.ntrusted; i++)
		if (strcmp(g->config.trusted[i], address) == 0)
			return true;
	return false;
}

static void refuse(struct registry *g, struct httpd_reply *r, int status,
	const char *text)
{
	g->refused++;
	httpd_error(r, status, "%s", text);
}

/* The kind's row. Returns NULL with the reply filled. */
static int find_party(struct registry *g, struct httpd_reply *r, const json_t *record,
	const char *wanted)
{
	const char *kind = json_string_value(json_object_get(record, "kind"));

	/* /v1/records takes the kinds that have no path of their own */
	for (size_t i = wanted ? 0 : 2; i < PARTIES; i++)
		if (kind && strcmp(kind, parties[i].kind) == 0)
			return (int)i;
	g->refused++;
	httpd_error(r, 400, "kind: records of kind '%.40s' are not taken here",
		kind ? kind : "");
	return -1;
}

static int check_signature(struct registry *g, struct httpd_reply *r,
	const json_t *record, int party, struct registry_put *p)
{
	struct signature_result proof;
	const char *author;

	signature_verify(record, &proof);
	if (!proof.valid) {
		refuse(g, r, 401, proof.reason);
		return -1;
	}
	author = json_string_value(json_object_get(record, "signer"));
	if (author && parties[party].by_trusted && !signature_is_by(&proof, author)) {
		refuse(g, r, 403, "signer: has not signed this record");
		return -1;
	}
	for (int i = 0; i < proof.nsigners; i++) {
		if ((parties[party].by_node && strcmp(proof.signers[i], p->node) == 0) ||
			(parties[party].by_trusted && is_trusted(g, proof.signers[i]))) {
			memcpy(p->signer, proof.signers[i], sizeof p->signer);
			return 0;
		}
	}
	g->refused++;
	httpd_error(r, 403, "%s of node %s is signed by %s, not by %s%s%s", p->kind,
		p->node, proof.nsigners ? proof.signers[0] : "nobody",
		parties[party].by_node ? "the node itself" : "",
		parties[party].by_node && parties[party].by_trusted ? " or " : "",
		parties[party].by_trusted ?
			"a verifier or coordinator that is trusted here" :
			"");
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

void registry_hash_content(const json_t *record, char hex[65])
{
	unsigned char hash[crypto_hash_sha256_BYTES];
	json_t *content = json_copy((json_t *)record);
	struct buf text = BUF_INIT;

	json_object_del(content, "proof");
	if (canon_write(&text, content) < 0)
		bug("canonical form: %s", err_get()->text);
	crypto_hash_sha256(hash, (const unsigned char *)buf_text(&text), text.len);
	sodium_bin2hex(hex, 65, hash, sizeof hash);
	buf_release(&text);
	json_decref(content);
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
		json_opt_i64(record, "body", "interval_s", 1, INT64_MAX, &p->interval_s) <
			0 ||
		json_opt_text(record, "body", "state", &state) < 0)
		return -1;
	for (int i = 0; state && registry_states[i]; i++)
		if (strcmp(registry_states[i], state) == 0)
			p->state = i;
	return 0;
}

static int check(struct registry *g, struct httpd_reply *r, json_t *record,
	const char *kind, struct registry_put *p)
{
	int party;

	if (kind ? json_check_kind(record, "body", kind) < 0 : false) {
		refuse(g, r, 400, err_get()->text);
		return -1;
	}
	party = find_party(g, r, record, kind);
	if (party < 0)
		return -1;
	if (schema_check(record, "body", kind) < 0 || read_fields(p, record) < 0) {
		refuse(g, r, 400, err_get()->text);
		return -1;
	}
	if (check_time(g, r, p) < 0 || check_work(g, r, record, p) < 0 ||
		check_signature(g, r, record, party, p) < 0)
		return -1;
	if (p->what == PUT_HEARTBEAT)
		registry_beat_compact(p, record);
	else
		registry_hash_content(record, p->sha256);
	return 0;
}

struct registry_put *registry_accept(struct registry *g, struct httpd_request *q,
	struct httpd_reply *r, const char *kind)
{
	struct registry_put *p = xcalloc(1, sizeof *p);
	json_t *record = json_parse_object(buf_text(&q->body), q->body.len, "body");

	p->q = q;
	p->r = r;
	/* what stands behind the record is not kept */
	while (record && strchr(" \t\r\n", q->body.data[q->body.len - 1]))
		q->body.data[--q->body.len] = '\0';
	p->what = !kind                       ? PUT_RECORD :
		strcmp(kind, "rnp.node") == 0 ? PUT_NODE :
						PUT_HEARTBEAT;
	if (!record)
		refuse(g, r, 400, err_get()->text);
	if (!record || check(g, r, record, kind, p) < 0) {
		json_decref(record);
		free(p);
		return NULL;
	}
	if (p->what == PUT_NODE)
		p->record = record;
	else
		json_decref(record);
	return p;
}
