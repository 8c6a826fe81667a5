/* parts.c - what the market's files share: signed records in, signed records out, jobs of the
 * writer. */
#include "cmd/rnp-register/market/parts.h"

#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/market/change.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/json/schema.h"
#include "common/record/signature.h"
#include "common/record/uptime.h"

enum httpd_when market_refuse(struct registry *g, struct httpd_reply *r, int status,
	const char *cause, const char *remedy, const char *fmt, ...)
{
	json_t *error = json_object();
	char text[ERR_TEXT_MAX];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	json_set_text(error, "error", text);
	json_set_text(error, "cause", cause);
	json_set_text(error, "try", remedy);
	r->status = status;
	buf_reset(&r->body);
	json_write(&r->body, error);
	buf_addc(&r->body, '\n');
	json_decref(error);
	g->refused++;
	return HTTPD_NOW;
}

bool market_trusts(const struct registry *g, const char *address)
{
	for (int i = 0; i < g->config.ntrusted; i++)
		if (strcmp(g->config.trusted[i], address) == 0)
			return true;
	return false;
}

bool market_is_here(struct registry *g, struct httpd_reply *r)
{
	if (g->market)
		return true;
	httpd_error(r, 404, "this registry has no market");
	return false;
}

void market_sign(struct registry *g, struct buf *out, json_t *record)
{
	int64_t now_ms = clock_now_ms();

	json_set_text(record, "signer", g->config.key->address);
	if (!json_object_get(record, "at"))
		json_set_time(record, "at", now_ms);
	if (signature_add(record, g->config.key, now_ms) < 0)
		bug("a record of the market cannot be signed: %s", err_get()->text);
	json_write(out, record);
	json_decref(record);
}

/* --- records of others ------------------------------------------------------------------------ */

void market_record_release(struct market_record *record)
{
	json_decref(record->json);
	record->json = NULL;
}

static int read_author(struct registry *g, struct httpd_reply *r, const char *who,
	const json_t *inner, struct market_record *out,
	struct signature_result *inner_proof)
{
	const char *author = json_string_value(json_object_get(out->json, who));
	struct signature_result both[2], *proof = &both[0];

	if (!author) {
		market_refuse(g, r, 400, "signature", "name the author", "%s: is missing",
			who);
		return -1;
	}
	signature_verify_many((const json_t *[]){ out->json, inner }, inner ? 2 : 1,
		both);
	if (inner)
		*inner_proof = both[1];
	if (!proof->valid || !signature_is_by(proof, author)) {
		market_refuse(g, r, 422, "signature",
			"sign the record as it is sent, with the author's key",
			"%s %s has not signed this record%s%s", who, author,
			proof->valid ? "" : ": ", proof->valid ? "" : proof->reason);
		return -1;
	}
	snprintf(out->signer, sizeof out->signer, "%s", author);
	sodium_bin2hex(out->sha256, sizeof out->sha256, proof->sha256,
		sizeof proof->sha256);
	return 0;
}

int market_read_both(struct registry *g, struct httpd_request *q, struct httpd_reply *r,
	const char *kind, const char *who, const char *inner, struct market_record *out,
	struct signature_result *inner_proof)
{
	if (!market_is_here(g, r))
		return -1;
	out->now_ms = out->at_ms = clock_now_ms();
	out->json = json_parse_object_to(buf_text(&q->body), q->body.len,
		JSON_DEPTH_MAX_LISTED, "body");
	if (!out->json || schema_check(out->json, "body", kind) < 0 ||
		json_opt_time(out->json, "body", "at", &out->at_ms) < 0) {
		market_refuse(g, r, 400, "form", "see rnp-json(5)", "%s",
			err_get()->text);
		err_clear();
		return -1;
	}
	return read_author(g, r, who, inner ? json_object_get(out->json, inner) : NULL,
		out, inner_proof);
}

int market_read(struct registry *g, struct httpd_request *q, struct httpd_reply *r,
	const char *kind, const char *who, struct market_record *out)
{
	return market_read_both(g, q, r, kind, who, NULL, out, NULL);
}

int market_timely(struct registry *g, struct httpd_reply *r,
	const struct market_record *record)
{
	int64_t ahead_ms = record->at_ms - record->now_ms;
	char now[CLOCK_TEXT_MAX];

	if (ahead_ms <= UPTIME_SKEW_MS && ahead_ms >= -UPTIME_SKEW_MS)
		return 0;
	clock_format(now, record->now_ms);
	market_refuse(g, r, 422, "time", "set the clock, and sign anew",
		"at: more than 5 minutes from our clock, which shows %s", now);
	return -1;
}

int market_may_say(struct registry *g, const struct httpd_request *q,
	struct httpd_reply *r, const struct market_record *record)
{
	if (!q->client || !limits_hold_for(g->limits, q->client) ||
		limits_take(g->limits, LIMIT_EVENTS, record->signer, 1, record->now_ms))
		return 0;
	r->retry_after_s = 1;
	market_refuse(g, r, 429, "rate", "wait a second", "%s has said enough for now",
		record->signer);
	return -1;
}

/* --- jobs of the writer ----------------------------------------------------------------------- */

struct market_put {
	struct market *m;
	market_job_fn job;
	market_done_fn done;
	void *ctx;
};

static int run_job(struct registry_put *p, struct registry_db *db)
{
	struct market_put *w = p->done_ctx;

	(void)db;
	if (w->job(w->m, w->ctx) == 0)
		return 0;
	change_forget(w->m);
	return -1;
}

static void on_done(struct registry_put *p, void *ctx)
{
	struct market_put *w = ctx;
	bool ok = p->stored != STORED_FAILED;

	if (ok)
		change_tell(w->m);
	else
		change_forget(w->m);
	if (w->done)
		w->done(w->m, w->ctx, ok);
	free(w);
}

void market_write(struct market *m, market_job_fn job, market_done_fn done, void *ctx)
{
	struct registry_put *p = xcalloc(1, sizeof *p);
	struct market_put *w = xcalloc(1, sizeof *w);

	*w = (struct market_put){ m, job, done, ctx };
	p->what = PUT_JOB;
	p->job = run_job;
	p->done = on_done;
	p->done_ctx = w;
	registry_db_put(&m->g->db, p);
}
