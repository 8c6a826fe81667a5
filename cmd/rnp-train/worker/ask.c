/* ask.c - what a worker says to its coordinator before it works: it joins, and asks for an
 * assignment. */
#include <stdio.h>
#include <string.h>

#include "cmd/rnp-train/worker/ranks.h"
#include "cmd/rnp-train/worker/worker.h"
#include "common/base/err.h"
#include "common/base/utf8.h"
#include "common/cli/prog.h"
#include "common/json/json.h"

int worker_gpus(const struct worker *w)
{
	return w->group.ranks ? w->group.gpus : !w->d.is_host;
}

void worker_loop_options(struct worker *w, uint64_t rows, struct lm_loop_options *l)
{
	const struct training *t = &w->run;

	*l = (struct lm_loop_options){ .batch = t->batch,
		.schedule = training_schedule(t),
		.sequence = worker_read_text,
		.arg = w,
		.ranks = w->group.ranks };
	lm_train_defaults(&l->train, &t->config);
	l->train.batch = (uint32_t)rows;
	l->train.positions = t->length;
	l->train.dtype = t->f32 ? LM_DTYPE_F32 : LM_DTYPE_BF16;
	l->train.beta1 = (float)((double)t->beta1_ppm / 1e6);
	l->train.beta2 = (float)((double)t->beta2_ppm / 1e6);
	l->train.decay = (float)((double)t->decay_ppm / 1e6);
	l->train.clip = (float)((double)t->clip_ppm / 1e6);
}

int worker_join(struct worker *w)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	json_t *record = json_record("rnp.join"), *member = NULL;
	const char *node, *who;
	bool over = false;
	int rc;

	json_set_text(record, "node", w->key.address);
	json_set_text(record, "run", w->run.name);
	json_set_text(record, "version", RNP_VERSION);
	json_set_text(record, "device", w->d.name);
	json_set_i64(record, "gpus", worker_gpus(w));
	if (w->work.tokens_per_s)
		json_set_i64(record, "tokens_per_s", (int64_t)w->work.tokens_per_s);
	rc = client_post(&w->client, "/v1/join", record, "kind", &r);
	if (rc == 0 && r.status != 200)
		rc = client_refused(&r,
			r.status == 401 || r.status == 403 ? EX_NOPERM : EX_DATAERR,
			"joining");
	if (rc == 0) {
		member = json_parse_object(buf_text(&r.body), r.body.len, "rnp.member");
		rc = member ?
			protocol_check(member, "rnp.member", "rnp.member", w->run.name) :
			-1;
	}
	if (rc == 0) {
		node = json_string_value(json_object_get(member, "node"));
		who = json_string_value(json_object_get(member, "member"));
		if (strcmp(node, w->run.node) != 0 || strcmp(who, w->key.address) != 0)
			rc = err_set(EX_DATAERR,
				"rnp.member: is not the coordinator's, or not ours");
		json_opt_bool(member, "rnp.member", "over", &over);
	}
	w->work.waiting = true; /* others may be missing yet */
	json_decref(record);
	json_decref(member);
	http_response_release(&r);
	return rc < 0 ? -1 : over;
}

/* There is no work at once: says what the coordinator waits for, where that is news. */
static void tell_wait(struct worker *w)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct client_request q = { .method = "GET", .path = "/status", .has = "run" };
	char waits[sizeof w->work.waits] = "";
	json_t *status = NULL;
	const char *text;

	if (client_send(&w->client, &q, &r) == 0 && r.status == 200 &&
		(status = json_parse_object(buf_text(&r.body), r.body.len, "status")) &&
		(text = json_string_value(json_object_get(status, "waits_for"))))
		snprintf(waits, sizeof waits, "%s", text);
	err_clear();
	utf8_clean_line(waits);
	if (*waits && strcmp(waits, w->work.waits) != 0)
		prog_info("%s", waits);
	memcpy(w->work.waits, waits, sizeof waits);
	json_decref(status);
	http_response_release(&r);
}

int worker_ask(struct worker *w, bool ahead, struct assignment *a)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct client_request q = { .method = "GET",
		.sign = true,
		.has = "kind",
		.may_be_empty = true,
		.timeout_ms = PROTOCOL_POLL_MS + 15000 };
	json_t *record = NULL;
	char path[128];
	int rc;

	snprintf(path, sizeof path, "/v1/work?member=%s%s", w->key.address,
		ahead ? "&ahead=1" : "");
	q.path = path;
	if (!ahead && w->work.waiting)
		tell_wait(w);
	rc = client_send(&w->client, &q, &r);
	if (!ahead)
		w->work.waiting = rc == 0 && r.status == 204;
	if (rc == 0 && r.status == 204)
		rc = 1;
	else if (rc == 0 && r.status == 410)
		rc = 2;
	else if (rc == 0 && r.status != 200)
		rc = client_refused(&r,
			r.status == 401 || r.status == 403 ? EX_NOPERM :
				r.status == 409            ? EX_TEMPFAIL :
							     EX_DATAERR,
			"asking for work");
	if (r.status == 409)
		err_hint(
			"this one ends, the newer goes on; for both: rnp-register keygen "
			"--out other.json, then rnp-train join --key other.json --state other");
	if (rc == 0) {
		record = json_parse_object(buf_text(&r.body), r.body.len,
			"rnp.assignment");
		rc = record ? assignment_read(a, record, &w->run, w->key.address,
				      "rnp.assignment") :
			      -1;
	}
	json_decref(record);
	http_response_release(&r);
	return rc;
}
