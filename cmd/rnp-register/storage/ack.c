/* ack.c - stores an accepted record, and tells who posted it what became of it. */
#include "cmd/rnp-register/storage/ack.h"

#include <stdlib.h>

#include "cmd/rnp-register/storage/twins.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/record/gpus.h"

#define HOUR_S 3600

/* Who posted the record. */
struct poster {
	struct registry *g;
	struct httpd_request *q;
	struct httpd_reply *r;
	bool limited;
	char who[LIMITS_CLIENT_MAX]; /* the client, as the limits identify it */
};

enum httpd_when registry_unwritable(struct httpd_reply *r)
{
	r->retry_after_s = 1;
	return httpd_error(r, 503, "the registry cannot store records at present");
}

/* Reports at once what is never paid. */
static void add_unproven(json_t *ack, const json_t *record)
{
	json_t *list = json_array(), *gpu;
	size_t i;

	json_array_foreach(json_object_get(record, "gpus"), i, gpu) {
		const char *why = gpus_why_unpaid(gpu);
		json_t *one;

		if (!why)
			continue;
		one = json_object();
		json_set_i64(one, "gpu", (int64_t)i);
		json_set_text(one, "reason", why);
		json_push(list, one);
	}
	if (json_array_size(list))
		json_set(ack, "unproven", list);
	else
		json_decref(list);
}

void registry_add_field(struct httpd_reply *r, const char *key, json_t *value)
{
	json_t *reply = json_parse_object(buf_text(&r->body), r->body.len, "reply");

	if (!reply)
		bug("an error of httpd is no JSON: %s", err_get()->text);
	json_set(reply, key, value);
	buf_reset(&r->body);
	json_write(&r->body, reply);
	buf_addc(&r->body, '\n');
	json_decref(reply);
}

/* Replies how much work joining costs, and the token to work on. */
static void ask_for_work(struct poster *w, const struct registry_put *p)
{
	struct registry *g = w->g;
	int bits = limits_join_bits(g->limits, p->received_ms);
	char token[WORK_TOKEN_MAX];
	json_t *work;

	if (!limits_take(g->limits, LIMIT_TOKENS, w->who, 1, p->received_ms)) {
		w->r->retry_after_s = HOUR_S;
		httpd_error(w->r, 429, "too many nodes join from this address");
		return;
	}
	limits_join_token(g->limits, p->node, bits, p->received_ms, token);
	httpd_error(w->r, 428,
		"joining costs a proof of work of %d bits, or an invitation", bits);
	work = json_object();
	json_set_text(work, "token", token);
	json_set_i64(work, "bits", bits);
	registry_add_field(w->r, "work", work);
}

/* Returns for how many ms the other machine with this node's key has been silent, -1: there is
 * none. The first time the registry's operator is told as well. Heartbeats are public: one that
 * comes again shows nothing of who sends it. */
static int64_t note_twin(struct poster *w, const struct registry_put *p)
{
	bool first;
	int64_t ms;

	if (p->what != PUT_HEARTBEAT || !p->beat.instance[0])
		return -1;
	if (p->stored != STORED_NEW)
		return twins_of(w->g->twins, p->node, p->received_ms);
	ms = twins_note(w->g->twins, p->node, p->beat.instance, p->received_ms, &first);
	if (first)
		prog_warn(
			"node %s: two machines, or two processes, send heartbeats with this key",
			p->node);
	return ms;
}

static void write_ack(struct httpd_reply *r, const struct registry_put *p,
	int64_t twin_ms)
{
	json_t *ack = json_record("rnp.stored");

	json_set_text(ack, "of", p->kind);
	json_set_text(ack, "node", p->node);
	json_set_time(ack, "at", p->at_ms);
	/* a heartbeat is identified by its node and time */
	if (p->what != PUT_HEARTBEAT)
		json_set_text(ack, "sha256", p->sha256);
	json_set_bool(ack, "new", p->stored != STORED_SAME);
	if (p->what == PUT_NODE) {
		json_set_bool(ack, "pending", p->pending);
		add_unproven(ack, p->record);
	}
	if (p->closes[0]) {
		json_set_text(ack, "challenge_sha256", p->closes);
		json_set_text(ack, "phase", "verified");
	}
	if (twin_ms >= 0)
		json_set_i64(ack, "twin_ms", twin_ms);
	if (p->extra)
		json_object_update(ack, p->extra);
	json_write(&r->body, ack);
	buf_addc(&r->body, '\n');
	json_decref(ack);
}

static void reply(struct poster *w, const struct registry_put *p)
{
	struct httpd_reply *r = w->r;
	char at[CLOCK_TEXT_MAX];
	int64_t twin_ms = p->stored <= STORED_OLDER ? note_twin(w, p) : -1;

	switch (p->stored) {
	case STORED_FIRST:
		r->status = 201;
		write_ack(r, p, twin_ms);
		break;
	case STORED_NEW:
	case STORED_SAME:
		write_ack(r, p, twin_ms);
		break;
	case STORED_OLDER:
		clock_format(at, p->known_at_ms);
		httpd_error(r, 409, "a %s of %s as new or newer is here already, of %s%s",
			p->what == PUT_NODE ? "record" : "heartbeat", p->node, at,
			twin_ms >= 0 ? ", from another machine or process with this key" :
				       "");
		registry_add_field(r, "known_at", json_string(at));
		break;
	case STORED_EARLY:
		clock_format(at, p->received_ms);
		httpd_error(r, 422,
			"at: more than 5 minutes from our clock, which shows %s", at);
		break;
	case STORED_NO_NODE:
		httpd_error(r, 404, "node %s is not registered here", p->node);
		break;
	case STORED_NO_WORK:
		ask_for_work(w, p);
		break;
	case STORED_FULL:
		r->retry_after_s = HOUR_S;
		httpd_error(r, 507,
			"the disk's bound is reached: only heartbeats, verdicts and receipts are taken");
		break;
	case STORED_FAILED:
		registry_unwritable(r);
		break;
	}
}

static void on_stored(struct registry_put *p, void *ctx)
{
	struct poster *w = ctx;

	reply(w, p);
	if (w->r->status < 300)
		w->g->stored++;
	if (p->stored <= STORED_FIRST && w->limited && !p->by_trusted)
		limits_charge(w->g->limits, LIMIT_BYTES, w->who, (double)w->q->body.len,
			p->received_ms);
	if (p->stored == STORED_FIRST && p->what == PUT_NODE && w->limited)
		limits_joined(w->g->limits, p->received_ms);
	if (w->r->status >= 300 && p->stored != STORED_FAILED)
		w->g->refused++;
	httpd_finish(w->q);
	free(w);
}

void registry_store(struct registry *g, struct registry_put *p, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct poster *w = xcalloc(1, sizeof *w);

	*w = (struct poster){ .g = g, .q = q, .r = r };
	w->limited = q->client && limits_hold_for(g->limits, q->client);
	limits_client(w->who, q->client ? q->client : "");
	p->done = on_stored;
	p->done_ctx = w;
	registry_db_put(&g->db, p);
}
