/* plan.c - makes the challenge of a node: planned from its newest record, signed, and
 * stored as open. */
#include "cmd/rnp-register/challenges/table.h"

#include <sodium.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/record/signature.h"

/* Returns the node's own record; NULL: none that can be read. */
static json_t *claims_of(struct registry *g, const char *node)
{
	sqlite3_stmt *q = g->challenger->claims;
	json_t *record = NULL;

	store_bind(q, "t", node);
	if (store_step(&g->db.store, q) > 0)
		record = json_parse_object(store_text(q, 0), strlen(store_text(q, 0)),
			node);
	sqlite3_reset(q);
	if (!record)
		err_clear();
	return record;
}

/* Makes the challenge of a node and signs it: c and record of a. Returns 0, or -1: its record
 * claims nothing that can be challenged. */
static int plan_challenge(struct registry *g, struct challenged *a)
{
	json_t *claims = claims_of(g, a->node);
	struct poc_challenge *c = a->c = xcalloc(1, sizeof *c);
	int rc = -1;

	memcpy(c->node, a->node, sizeof c->node);
	memcpy(c->signer, g->config.key->address, sizeof c->signer);
	randombytes_buf(c->nonce, sizeof c->nonce);
	c->issued_ms = clock_now_ms();
	c->of_joint = a->joint_ns != 0;
	memcpy(c->joint, a->joint, sizeof c->joint);
	if (!claims)
		err_set(EX_DATAERR, "its record cannot be read");
	else if (address_parse(a->node, "node", c->node_key) == 0 &&
		poc_plan_node(c, claims) == 0)
		a->record = poc_challenge_write(c);
	if (a->record)
		rc = signature_add(a->record, g->config.key, c->issued_ms / 1000 * 1000);
	json_decref(claims);
	return rc;
}

int challenged_open(struct registry *g, struct challenged *a)
{
	struct buf text = BUF_INIT;
	char hex[65];
	int rc = plan_challenge(g, a);

	a->refused = 0;
	if (a->record)
		g->challenger->open_bytes += poc_plan_answer_bytes(a->c);
	if (rc == 0) {
		a->delivered_ns = clock_mono_ns();
		challenged_hex(hex, a->c);
		json_write(&text, a->record);
		rc = store_run(&g->db.store, g->challenger->insert, "tt", hex,
			buf_text(&text));
		buf_release(&text);
	}
	if (rc < 0) {
		prog_warn("node %s cannot be challenged: %s", a->node, err_get()->text);
		err_clear();
		challenged_close(g->challenger, a);
	}
	return rc;
}
