/* lease.c - a lease's thread: from what was assigned to what is over, by its states. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/agent/agent_parts.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"

#define LOOK_MS       500
#define AGAIN_MS      2000
#define LEFT_MS       10000 /* from then on it is worth a word */
#define FAIL_GRACE_MS 1000
#define LAST_MS       20000 /* with --grace within what the registry waits for */

/* --- news ------------------------------------------------------------------------------------ */

bool agent_is_stopping(const struct agent *a)
{
	return *a->stop != 0 || a->ends;
}

bool lease_is_ending(const struct lease *l)
{
	return l->ends || l->now.release || agent_is_stopping(l->agent);
}

bool lease_is_unwanted(void *lease)
{
	struct lease *l = lease;

	lease_look(l, 0);
	if (l->last_until_ns)
		return l->ends || agent_is_stopping(l->agent) ||
			clock_mono_ns() > l->last_until_ns;
	return lease_is_ending(l);
}

/* What the registry says of others is not so: it is named, to the customer too. */
static void doubt(struct lease *l)
{
	char cause[LEASE_CAUSE_MAX], line[LEASE_CAUSE_MAX + 80];
	bool told = l->doubted;

	snprintf(cause, sizeof cause, "passed over: %.400s", err_get()->text);
	err_clear();
	l->doubted = true;
	if (told)
		return;
	snprintf(line, sizeof line, "lease %s: %s", l->row.id, cause);
	l->agent->c->say(line);
	if (event_say(l->agent, &l->row, l->row.state, cause) < 0)
		l->agent->c->say(err_get()->text);
	err_clear();
}

/* Reads what the registry says now. What does not read, or is about another booking, devices or
 * price than those that were verified, or names others than those, is passed over: the last word
 * stands. */
static void take_news(struct lease *l, char *text)
{
	json_t *entry = json_parse_object(text, strlen(text), "work");
	struct assignment now;
	bool same = entry && assignment_parse(&now, entry) == 0 &&
		strcmp(now.id, l->row.id) == 0 &&
		(!l->entry || assignment_same(&l->now, &now));

	/* whoever is to end does so, whatever else is said */
	if (same && !now.release && assignment_verify_others(&now) < 0) {
		doubt(l);
		same = false;
	}
	/* The booking stays the one that was verified, the same object as long as the lease lives:
	 * whoever waits, and takes news meanwhile, has texts of it. */
	if (same && l->entry) {
		json_set(entry, "booking", json_incref((json_t *)l->now.booking));
		same = assignment_parse(&now, entry) == 0;
	}
	if (same) {
		json_decref(l->entry);
		l->entry = entry;
		l->now = now;
	} else {
		json_decref(entry);
		err_clear();
	}
	free(text);
}

void lease_look(struct lease *l, int64_t wait_ms)
{
	struct timespec until;
	char *news;

	clock_after(&until, CLOCK_MONOTONIC, wait_ms * 1000000);
	pthread_mutex_lock(&l->lock);
	while (wait_ms > 0 && !l->news && !l->vanished && !agent_is_stopping(l->agent))
		if (pthread_cond_timedwait(&l->changed, &l->lock, &until) != 0)
			break;
	news = l->news;
	l->news = NULL;
	l->ends = l->vanished;
	pthread_mutex_unlock(&l->lock);
	if (news)
		take_news(l, news);
}

void lease_tell(struct lease *l, const char *assignment, bool wanted)
{
	pthread_mutex_lock(&l->lock);
	if (!assignment || (!wanted && !l->last_until_ns))
		http_abort(&l->abort);
	if (assignment) {
		free(l->news);
		l->news = xstrdup(assignment);
	}
	l->vanished = !assignment;
	pthread_cond_signal(&l->changed);
	pthread_mutex_unlock(&l->lock);
}

/* --- its course ------------------------------------------------------------------------------ */

/* The registry says when its devices are proven. */
static int wait_proven(struct lease *l)
{
	while (!lease_is_ending(l) && l->now.state < LEASE_PULLING)
		lease_look(l, LOOK_MS);
	return 0;
}

/* Finds the container of an earlier process again. */
static int find_container(struct lease *l)
{
	char id[ENGINE_ID_MAX];
	int rc = engine_adopt(l->engine, AGENT_LABEL, l->row.id, id);

	if (rc < 0)
		return -1;
	if (rc == 0)
		return err_set(EX_UNAVAILABLE, "its container is gone");
	snprintf(l->row.container, sizeof l->row.container, "%s", id);
	return 0;
}

/* Runs the states from that which the row has on. Returns 0 when it is to end; -1 with err_set. */
static int go_through(struct lease *l)
{
	if (l->row.state == LEASE_READY && find_container(l) < 0)
		return -1;
	/* what was ready stays so while a gateway is away */
	if (l->row.state == LEASE_READY && lease_session_open(l, false) < 0) {
		l->agent->c->say(err_get()->text);
		err_clear();
	}
	if (l->row.state <= LEASE_PROVING && wait_proven(l) < 0)
		return -1;
	if (!lease_is_ending(l) && l->row.state <= LEASE_PULLING && lease_pull(l) < 0)
		return -1;
	if (!lease_is_ending(l) && l->row.state <= LEASE_STARTING && lease_begin(l) < 0)
		return -1;
	if (!lease_is_ending(l) && l->row.state == LEASE_READY)
		return lease_watch(l);
	return 0;
}

/* What is left of it does not go: whoever waits for its devices is told why, once. */
static void say_left(struct lease *l)
{
	char cause[LEASE_CAUSE_MAX], line[LEASE_CAUSE_MAX + 80];

	snprintf(cause, sizeof cause, "what is left of it does not go yet: %.400s",
		err_get()->text);
	snprintf(line, sizeof line, "lease %s: %s", l->row.id, cause);
	l->agent->c->say(line);
	if (!l->ends)
		event_say(l->agent, &l->row, l->row.state, cause);
	err_clear();
}

/* Takes all of it away, however long that takes: its devices are nobody else's before it has gone.
 * Returns false where we are to stop before that. */
static bool take_away(struct lease *l)
{
	int64_t say_ns = clock_mono_ns() + INT64_C(1000000) * LEFT_MS;

	while (lease_remove(l) < 0) {
		if (agent_is_stopping(l->agent))
			return false;
		if (say_ns && clock_mono_ns() > say_ns) {
			say_left(l);
			say_ns = 0;
		}
		nanosleep(&(struct timespec){ .tv_sec = AGAIN_MS / 1000 }, NULL);
	}
	err_clear();
	return !agent_is_stopping(l->agent);
}

/* A failure is told when what ran is gone: the devices are then free for others. */
static void fail(struct lease *l)
{
	struct err why;
	char line[LEASE_CAUSE_MAX + 80];

	err_save(&why);
	/* first of all it ends: what it prints must not keep it alive */
	if (l->row.container[0])
		l->engine->ops->stop(l->engine, l->row.container, FAIL_GRACE_MS);
	err_clear();
	lease_send_log(l, true);
	if (!take_away(l))
		return;
	event_tell(l->agent, &l->row, LEASE_FAILED,
		&(struct event_news){ .cause = why.text,
			.booked = why.code == EX_DATAERR });
	snprintf(line, sizeof line, "lease %s failed: %.400s", l->row.id, why.text);
	l->agent->c->say(line);
}

/* A job that was told to end has kept what it had (start.sh): that goes home, too. Its end waits
 * for it so long at most, and no longer than the registry does. */
static void send_last(struct lease *l)
{
	char name[65] = "", cause[LEASE_CAUSE_MAX] = "artifacts were kept";

	if (l->ends || !l->row.gone || l->row.exit >= 0)
		return;
	pthread_mutex_lock(&l->lock);
	l->last_until_ns = clock_mono_ns() + LAST_MS * INT64_C(1000000);
	http_abort_reset(&l->abort);
	pthread_mutex_unlock(&l->lock);
	if (lease_send_artifacts(l, name) < 0) {
		snprintf(cause, sizeof cause,
			"artifacts of its end were not kept: %.400s", err_get()->text);
		err_clear();
	} else if (!name[0]) {
		return;
	}
	event_tell(l->agent, &l->row, LEASE_RELEASING,
		&(struct event_news){ .cause = cause, .artifacts = name });
}

static void release(struct lease *l)
{
	struct agent *a = l->agent;
	bool told = l->ends; /* the registry has ended it */

	if (!told && l->row.state >= LEASE_READY)
		event_say(a, &l->row, LEASE_RELEASING, l->now.cause);
	if (l->row.container[0])
		l->engine->ops->stop(l->engine, l->row.container, a->c->grace_ms);
	lease_send_log(l, true);
	send_last(l);
	if (!take_away(l))
		return;
	if (!told) {
		event_say(a, &l->row, LEASE_RELEASED, NULL);
		return;
	}
	l->row.state = LEASE_RELEASED;
	journal_put(&a->journal, &l->row, NULL);
}

static void *lease_thread(void *arg)
{
	struct lease *l = arg;
	int rc;

	lease_look(l, 0);
	rc = go_through(l);
	if (rc < 0 && !agent_is_stopping(l->agent))
		fail(l);
	else if (!agent_is_stopping(l->agent))
		release(l);
	l->over = l->row.state >= LEASE_RELEASED;
	return NULL;
}

/* --- life ------------------------------------------------------------------------------------ */

static void free_lease(struct lease *l)
{
	lease_session_close(l);
	sandbox_close(l->engine);
	http_release(&l->http);
	http_abort_close(&l->abort);
	engine_log_close(&l->log);
	lease_leave_gate(l);
	buf_release(&l->unsent);
	buf_release(&l->nodes);
	json_decref(l->entry);
	free(l->news);
	pthread_mutex_destroy(&l->lock);
	pthread_cond_destroy(&l->changed);
	free(l);
}

struct lease *lease_start(struct agent *a, const struct lease_row *row,
	const char *assignment)
{
	struct lease *l = xcalloc(1, sizeof *l);
	pthread_condattr_t mono;

	l->agent = a;
	l->row = *row;
	l->gate = -1;
	l->abort = (struct http_abort)HTTP_ABORT_INIT;
	l->log = (struct engine_log)ENGINE_LOG_INIT;
	l->log.file = row->log_file;
	l->log.bytes = row->log_bytes;
	pthread_mutex_init(&l->lock, NULL);
	pthread_condattr_init(&mono);
	pthread_condattr_setclock(&mono, CLOCK_MONOTONIC);
	pthread_cond_init(&l->changed, &mono);
	pthread_condattr_destroy(&mono);
	l->news = xstrdup(assignment);
	l->engine = sandbox_open(&a->place, row->id);
	if (l->engine && http_abort_open(&l->abort) == 0 &&
		pthread_create(&l->thread, NULL, lease_thread, l) == 0)
		return l;
	if (l->engine)
		err_set(EX_OSERR, "cannot start a thread");
	free_lease(l);
	return NULL;
}

void lease_join(struct lease *l)
{
	pthread_mutex_lock(&l->lock);
	pthread_cond_signal(&l->changed);
	pthread_mutex_unlock(&l->lock);
	http_abort(&l->abort);
	pthread_join(l->thread, NULL);
	free_lease(l);
}
