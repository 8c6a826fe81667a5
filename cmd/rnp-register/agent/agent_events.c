/* agent_events.c - events of leases: signed, kept until the registry has them, sent in their
 * order. */
#include <stdio.h>
#include <string.h>

#include "cmd/rnp-register/agent/agent_parts.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/record/signature.h"

#define SEND_MS  10000
#define AGAIN_MS 2000
#define IDLE_MS  1000

/* Returns a signed rnp.event, or NULL with err_set. */
static json_t *make_event(const struct agent *a, const struct lease_row *row,
	enum lease_state to, const struct event_news *news)
{
	json_t *e = json_record("rnp.event");
	int64_t now_ms = clock_now_ms();
	char cause[LEASE_CAUSE_MAX];

	json_set_text(e, "node", a->c->key->address);
	json_set_text(e, "cluster", row->cluster);
	json_set_i64(e, "rank", row->rank);
	json_set_i64(e, "seq", row->seq);
	json_set_time(e, "at", now_ms);
	json_set_text(e, "from", lease_state_names[row->state]);
	json_set_text(e, "to", lease_state_names[to]);
	if (news->cause && *news->cause) {
		snprintf(cause, sizeof cause, "%s", news->cause);
		json_set_text(e, "cause", cause);
	}
	if (to >= LEASE_READY)
		json_set_i64(e, "ready_ms", row->ready_ms);
	if (news->exit) {
		json_set_i64(e, "exit", row->exit);
		json_set_i64(e, "restarts", row->restarts);
	}
	if (news->booked)
		json_set_text(e, "fault", "customer");
	if (news->artifacts && *news->artifacts)
		json_set_text(e, "artifacts", news->artifacts);
	if (news->pull)
		json_set_i64(e, "bytes", news->pull->bytes);
	if (news->pull && news->pull->bytes_total)
		json_set_i64(e, "bytes_total", news->pull->bytes_total);
	if (signature_add(e, a->c->key, now_ms) == 0)
		return e;
	json_decref(e);
	return NULL;
}

static void wake_mail(struct agent *a)
{
	pthread_mutex_lock(&a->mail_lock);
	pthread_cond_signal(&a->mail);
	pthread_mutex_unlock(&a->mail_lock);
}

int event_tell(struct agent *a, struct lease_row *row, enum lease_state to,
	const struct event_news *news)
{
	struct buf text = BUF_INIT;
	json_t *e;
	int rc = -1;

	row->seq++;
	e = make_event(a, row, to, news);
	if (e) {
		json_write(&text, e);
		row->state = to;
		rc = journal_put(&a->journal, row, buf_text(&text));
	}
	json_decref(e);
	buf_release(&text);
	if (rc == 0)
		wake_mail(a);
	return rc;
}

int event_say(struct agent *a, struct lease_row *row, enum lease_state to,
	const char *cause)
{
	return event_tell(a, row, to, &(struct event_news){ .cause = cause });
}

int event_refuse(struct agent *a, const struct assignment *as, enum lease_state to,
	const char *cause)
{
	struct lease_row row = { .rank = as->rank, .state = as->state, .seq = as->seq };

	snprintf(row.id, sizeof row.id, "%s", as->id);
	snprintf(row.cluster, sizeof row.cluster, "%s", as->cluster);
	return event_say(a, &row, to, cause);
}

/* --- on their way ---------------------------------------------------------------------------- */

/* Sends one event. Returns 1: the registry has it, or wants it no more; 0: later; -1 with err_set:
 * it says why it does not take it, and never will. */
static int send_event(struct agent *a, struct http *http, const struct buf *text)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct http_request q = { .body = buf_text(text),
		.body_bytes = text->len,
		.ca_file = a->c->ca,
		.timeout_ms = SEND_MS,
		.tries = 1,
		.abort = &a->abort };
	struct buf url = BUF_INIT;
	int rc = 0;

	if (http_url(&url, a->c->registry, "/v1/events") < 0)
		goto out;
	q.url = buf_text(&url);
	if (http_fetch(http, &q, &r) == 0)
		rc = 1;
	else if (r.status == 404 || r.status == 409)
		rc = 1; /* the lease is over there, or it went on without us: the list tells */
	else if (r.status == 400 || r.status == 403 || r.status == 413 || r.status == 422)
		rc = -1;
out:
	buf_release(&url);
	http_response_release(&r);
	return rc;
}

static void wait_mail(struct agent *a, int64_t ms)
{
	struct timespec until;

	pthread_mutex_lock(&a->mail_lock);
	clock_after(&until, CLOCK_MONOTONIC, ms * 1000000);
	if (!agent_is_stopping(a))
		pthread_cond_timedwait(&a->mail, &a->mail_lock, &until);
	pthread_mutex_unlock(&a->mail_lock);
}

/* One event after the other: those of a lease must not overtake each other. */
void *events_thread(void *agent)
{
	struct agent *a = agent;
	struct http http = HTTP_INIT;
	struct buf text = BUF_INIT;
	char lease[LEASE_ID_MAX], line[1200];
	bool away = false;
	int64_t id;

	while (!agent_is_stopping(a)) {
		int rc = journal_next_event(&a->journal, 0, &id, lease, &text);

		if (rc <= 0) {
			wait_mail(a, IDLE_MS);
			continue;
		}
		rc = send_event(a, &http, &text);
		if (rc < 0) {
			snprintf(line, sizeof line, "lease %s: an event was refused: %s",
				lease, err_get()->text);
			a->c->say(line);
		}
		if (rc != 0) {
			away = false;
			journal_ack(&a->journal, id);
			continue;
		}
		if (!away && !agent_is_stopping(a))
			a->c->say(err_get()->text);
		away = true;
		wait_mail(a, AGAIN_MS);
	}
	http_release(&http);
	buf_release(&text);
	return NULL;
}
