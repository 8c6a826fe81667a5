/* lease_run.c - what happens in the states of a lease: its image comes, its container is made,
 * it runs and is watched, it is removed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cmd/rnp-register/agent/agent_parts.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"

#define NEWS_MS      5000 /* between two events of a pull */
#define WATCH_MS     200
#define REPORT_MS    60000
#define END_MS       300000 /* so long a registry is waited for */
#define END_AGAIN_MS 3000
#define KEEP_MS      5000 /* between two writings of ready_ms */
#define LOG_MS       500
#define LOG_PIECE    ((size_t)64 << 10)
#define LOG_MS_MAX   10000
#define LOG_ALL_MS   20000 /* for the rest of it, at the end */
#define PIDS_MAX     32768
#define FILES_MAX    16384
#define HALTED       143 /* by SIGTERM */

static int64_t since_ms(int64_t then_ns)
{
	return (clock_mono_ns() - then_ns) / 1000000;
}

/* --- pulling --------------------------------------------------------------------------------- */

static int tell_pull(void *ctx, const struct engine_pull *p)
{
	struct lease *l = ctx;
	struct buf words = BUF_INIT;

	lease_look(l, 0);
	if (!lease_is_ending(l) && since_ms(l->told_ns) >= NEWS_MS) {
		buf_addf(&words, "pulling %.120s: ", l->now.image);
		engine_pull_words(&words, p);
		event_tell(l->agent, &l->row, LEASE_PULLING,
			&(struct event_news){ .cause = buf_text(&words), .pull = p });
		l->told_ns = clock_mono_ns();
		buf_release(&words);
	}
	return lease_is_ending(l);
}

/* One image after the other comes into the node's store. */
static int wait_turn(struct lease *l)
{
	struct agent *a = l->agent;

	while (pthread_mutex_trylock(&a->images_lock) != 0) {
		lease_look(l, WATCH_MS);
		if (lease_is_ending(l))
			return err_set(EX_TEMPFAIL, "it ended");
		if (since_ms(l->told_ns) >= REPORT_MS) {
			event_say(a, &l->row, LEASE_PULLING,
				"another image is on its way first");
			l->told_ns = clock_mono_ns();
		}
	}
	return 0;
}

/* Says where the image will be: from here on nobody removes it from there. */
static int reserve_image(struct lease *l, const char *image)
{
	struct buf root = BUF_INIT;
	int rc = images_root(&root, &l->agent->images, image);

	if (rc == 0)
		rc = sandbox_set_images(&l->agent->place, l->row.id, buf_text(&root));
	buf_release(&root);
	return rc;
}

int lease_pull(struct lease *l)
{
	struct agent *a = l->agent;
	/* news take the place of what now points into */
	char *image = xstrdup(l->now.image);
	struct engine_pull_call call = { .image = image,
		.progress = tell_pull,
		.ctx = l,
		.ids = AGENT_IDS };
	struct buf words = BUF_INIT;
	int rc;

	buf_addf(&words, "pulling %.400s", image);
	rc = event_say(a, &l->row, LEASE_PULLING, buf_text(&words));
	l->told_ns = clock_mono_ns();
	if (rc == 0)
		rc = reserve_image(l, image);
	if (rc == 0)
		rc = wait_turn(l);
	if (rc == 0) {
		rc = images_pull(&a->images, &call);
		pthread_mutex_unlock(&a->images_lock);
	}
	buf_release(&words);
	free(image);
	return lease_is_ending(l) ? 0 : rc;
}

/* --- starting -------------------------------------------------------------------------------- */

/* A lease gets what its customer asked for, else its share by GPUs. */
static int64_t share_of(const struct lease *l, int64_t asked, int64_t all)
{
	const struct agent_config *c = l->agent->c;

	if (asked > 0)
		return asked < all ? asked : all;
	if (c->ngpus && l->now.ngpus)
		return all / (int64_t)c->ngpus * (int64_t)l->now.ngpus;
	return all;
}

uint32_t lease_first_id(const struct lease *l)
{
	return AGENT_FIRST_ID + (uint32_t)l->row.slot * AGENT_IDS;
}

int64_t lease_disk_bytes(const struct lease *l)
{
	return share_of(l, l->now.disk_bytes, l->agent->c->disk_bytes);
}

/* A GPU as its driver spells it: registries write uuids in lower case. */
static const char *own_name(const struct agent_config *c, const char *uuid)
{
	for (size_t i = 0; i < c->ngpus; i++)
		if (strcasecmp(c->gpus[i], uuid) == 0)
			return c->gpus[i];
	return uuid;
}

static int create(struct lease *l)
{
	const struct agent_config *c = l->agent->c;
	const char *command[] = { SANDBOX_GATE, SANDBOX_IN "/go", SANDBOX_IN "/gate",
		"/bin/sh", SANDBOX_IN "/start", NULL };
	/* an image's "all" must mean nothing to a hook or runtime of NVIDIA's that stands here:
	 * what is leased comes by CDI alone */
	static const char *const env[] = { "NVIDIA_VISIBLE_DEVICES=void", NULL };
	const char *labels[3] = { NULL }, *devices[LEASE_GPUS_MAX + 1] = { NULL };
	char label[2][160], names[LEASE_GPUS_MAX][LEASE_GPU_BYTES + 64], host[24],
		id[ENGINE_ID_MAX];
	struct engine_spec s = { .name = l->row.id,
		.image = l->now.image,
		.command = command,
		.env = env,
		.labels = labels,
		.devices = devices,
		.dns = c->resolvers,
		.hostname = host,
		.first_id = lease_first_id(l),
		.ids = AGENT_IDS,
		.memory_bytes = share_of(l, l->now.memory_bytes, c->memory_bytes),
		.cpu_millis = share_of(l, l->now.cpu_cores, c->cpu_cores) * 1000,
		.pids = PIDS_MAX,
		.files = FILES_MAX,
		.log_bytes_max = AGENT_LOG_MAX,
		.disk_bytes = lease_disk_bytes(l),
		.up_bits_per_s = c->up_bits_per_s };

	snprintf(label[0], sizeof label[0], AGENT_LABEL "=%s", l->row.id);
	snprintf(label[1], sizeof label[1], "rnp.booking=%s", l->row.booking);
	labels[0] = label[0];
	labels[1] = label[1];
	snprintf(host, sizeof host, "rank%d", l->row.rank);
	s.shm_bytes = s.memory_bytes / 2;
	for (size_t i = 0; i < l->now.ngpus; i++) {
		snprintf(names[i], sizeof names[i], "%s=%s", c->cdi,
			own_name(c, l->now.gpus[i]));
		devices[i] = names[i];
	}
	if (l->engine->ops->create(l->engine, &s, id) < 0)
		return -1;
	snprintf(l->row.container, sizeof l->row.container, "%s", id);
	return 0;
}

/* Starts the container and sees it run; it waits at its gate. */
static int start(struct lease *l)
{
	struct engine_state s;

	if (l->engine->ops->start(l->engine, l->row.container) < 0 ||
		l->engine->ops->stat(l->engine, l->row.container, 0, &s) < 0)
		return -1;
	if (s.status == ENGINE_RUNNING)
		return 0;
	return err_set(EX_DATAERR, "the container %s at once", s.cause);
}

int lease_begin(struct lease *l)
{
	struct agent *a = l->agent;

	if (event_say(a, &l->row, LEASE_STARTING, "the image is there") < 0 ||
		create(l) < 0 || lease_write_start(l) < 0 || lease_unpack(l) < 0 ||
		start(l) < 0 || lease_session_open(l, true) < 0)
		return -1;
	if (lease_is_ending(l))
		return 0;
	l->told_ns = clock_mono_ns();
	return event_say(a, &l->row, LEASE_READY,
		l->session_dir.len ? "the container runs, and a session in it began" :
				     "the container runs");
}

/* --- ready ----------------------------------------------------------------------------------- */

/* Counts the time since it was last seen to run, if it does now. What waits for others, and what
 * has ended, is not counted; neither is a time in which nobody looked. */
static void count(struct lease *l, bool runs)
{
	int64_t now_ns = clock_mono_ns();

	if (runs && l->seen_ns)
		l->row.ready_ms += (now_ns - l->seen_ns) / 1000000;
	/* what is left of a millisecond is counted next time */
	if (runs)
		l->seen_ns = l->seen_ns ? now_ns - (now_ns - l->seen_ns) % 1000000 :
					  now_ns;
	else
		l->seen_ns = 0;
}

/* All ranks are ready: it runs from here on. */
static int go(struct lease *l)
{
	if (l->row.gone || !l->now.go || l->row.exit >= 0)
		return 0;
	if (lease_write_go(l) < 0)
		return -1;
	l->row.gone = true;
	l->seen_ns = clock_mono_ns();
	return journal_put(&l->agent->journal, &l->row, NULL);
}

/* What runs here ends, and waits for all again: another node has the rank of one that failed, or
 * the job is to be tried once more. */
static int restart(struct lease *l)
{
	if (l->now.restarts <= l->row.restarts)
		return 0;
	count(l, false);
	lease_forget_go(l);
	if (l->engine->ops->stop(l->engine, l->row.container, l->agent->c->grace_ms) < 0)
		return -1;
	sandbox_forget_exit(&l->agent->place, l->row.id);
	/* an agent that is killed before this is written does it all again */
	if (start(l) < 0)
		return -1;
	l->row.restarts = l->now.restarts;
	l->row.gone = false;
	l->row.exit = -1;
	return journal_put(&l->agent->journal, &l->row, NULL);
}

static int report(struct lease *l)
{
	l->told_ns = l->kept_ns = clock_mono_ns();
	return event_say(l->agent, &l->row, LEASE_READY, NULL);
}

/* Sends what the job kept at its end; again while the registry is away, which is not charged. */
static int send_at_end(struct lease *l, char name[65])
{
	int64_t until_ns = clock_mono_ns() + END_MS * INT64_C(1000000);
	int rc;

	while ((rc = lease_send_artifacts(l, name)) < 0 &&
		(err_get()->code == EX_TEMPFAIL || err_get()->code == EX_UNAVAILABLE) &&
		!lease_is_ending(l) && clock_mono_ns() < until_ns) {
		err_clear();
		lease_look(l, END_AGAIN_MS);
	}
	return rc;
}

/* Tells how the run has ended, when all that it printed and kept is on its way. */
static int tell_exit(struct lease *l, int code, const char *cause)
{
	char lost[ENGINE_CAUSE_MAX + 300] = "", artifacts[65];

	l->row.exit = code;
	l->told_ns = clock_mono_ns();
	lease_send_log(l, true);
	if (send_at_end(l, artifacts) < 0) {
		snprintf(lost, sizeof lost, "%s; its artifacts could not be sent: %.200s",
			cause, err_get()->text);
		err_clear();
	}
	return event_tell(l->agent, &l->row, LEASE_READY,
		&(struct event_news){ .cause = lost[0] ? lost : cause,
			.artifacts = artifacts,
			.exit = true });
}

/* The container has ended. The job's own end is told with its exit code; anything else is a failure
 * of the node. */
static int ended(struct lease *l, const struct engine_state *s)
{
	int code = sandbox_exit(&l->agent->place, l->row.id);
	char cause[80];

	count(l, false);
	/* the job says how it ended; a kill for want of memory it cannot survive to say */
	if (code < 0 && s->status == ENGINE_EXITED && (s->oom || s->exit < 128))
		code = s->exit & 255;
	/* with the supervisor goes the other end of its pipes: a job that fails then may not be
	 * why */
	if (s->status == ENGINE_LOST && code > 0)
		code = -1;
	if (code < 0)
		return err_set(EX_UNAVAILABLE, "%s%s", s->cause,
			s->status == ENGINE_LOST ? "" : ", and nobody asked for that");
	snprintf(cause, sizeof cause, "run ended with %d%s", code,
		s->oom ? ": its memory was used up" : "");
	return tell_exit(l, code, cause);
}

/* The run has failed on another rank: it ends here, too, and the container stays. */
static int halt(struct lease *l)
{
	int code;

	if (!l->now.halt || l->row.exit >= 0)
		return 0;
	count(l, false);
	if (l->engine->ops->stop(l->engine, l->row.container, l->agent->c->grace_ms) < 0)
		return -1;
	code = sandbox_exit(&l->agent->place, l->row.id);
	return tell_exit(l, code < 0 ? HALTED : code, "it was ended with the others");
}

/* What cannot be kept is told once; what a registry cannot have now it gets later. */
static int keep_failed(struct lease *l)
{
	bool told = l->kept_told;
	char cause[LEASE_CAUSE_MAX];

	if (lease_is_ending(l))
		told = true;
	else
		l->kept_told = true;
	snprintf(cause, sizeof cause, "artifacts were not kept: %.400s", err_get()->text);
	err_clear();
	return told ? 0 : event_say(l->agent, &l->row, LEASE_READY, cause);
}

/* What the job has kept while it runs. How often it says so is the container's word. */
static int keep(struct lease *l)
{
	char name[65];
	int rc;

	if (clock_mono_ns() < l->kept_again_ns)
		return 0;
	rc = lease_send_artifacts(l, name);
	if (rc < 0 || name[0])
		l->kept_again_ns = clock_mono_ns() + KEEP_MS * INT64_C(1000000);
	if (rc < 0)
		return keep_failed(l);
	if (name[0])
		l->kept_told = false;
	return name[0] ? event_tell(l->agent, &l->row, LEASE_READY,
				 &(struct event_news){ .cause = "artifacts were kept",
					 .artifacts = name }) :
			 0;
}

/* One look at it. */
static int watch_once(struct lease *l)
{
	struct engine_state s;
	bool runs;

	if (l->row.exit >= 0) {
		lease_look(l, WATCH_MS);
		return since_ms(l->told_ns) >= REPORT_MS ? report(l) : 0;
	}
	if (l->engine->ops->stat(l->engine, l->row.container, WATCH_MS, &s) < 0)
		return -1;
	runs = s.status == ENGINE_RUNNING;
	if (!runs)
		return ended(l, &s);
	count(l, l->row.gone);
	if (l->row.gone)
		lease_kick(l);
	lease_look(l, 0);
	if (l->row.gone && lease_write_nodes(l) < 0)
		return -1;
	if (since_ms(l->logged_ns) >= LOG_MS)
		lease_send_log(l, false);
	if (keep(l) < 0)
		return -1;
	if (since_ms(l->told_ns) >= REPORT_MS)
		return report(l);
	if (since_ms(l->kept_ns) >= KEEP_MS) {
		l->kept_ns = clock_mono_ns();
		return journal_put(&l->agent->journal, &l->row, NULL);
	}
	return 0;
}

int lease_watch(struct lease *l)
{
	int rc = 0;

	l->told_ns = l->kept_ns = clock_mono_ns();
	while (rc == 0 && !lease_is_ending(l)) {
		lease_session_keep(l);
		rc = restart(l);
		if (rc == 0)
			rc = halt(l);
		if (rc == 0)
			rc = go(l);
		if (rc == 0)
			rc = watch_once(l);
	}
	count(l, false);
	/* the last seconds are on the disk, whatever comes */
	journal_put(&l->agent->journal, &l->row, NULL);
	return rc;
}

int lease_remove(struct lease *l)
{
	lease_session_close(l);
	/* a file that is open here would keep the disk that it is on */
	engine_log_close(&l->log);
	lease_leave_gate(l);
	return l->engine->ops->remove(l->engine, l->row.container);
}

/* --- the log --------------------------------------------------------------------------------- */

/* A registry that lost a part of a log goes on where it is. */
static bool take_refusal(struct lease *l, const struct http_response *r)
{
	json_t *said = json_parse_object(buf_text(&r->body), r->body.len, "registry");
	int64_t have = -1;

	if (r->status == 409 && said &&
		json_opt_i64(said, "registry", "have", 0, INT64_MAX, &have) == 0 &&
		have >= 0)
		l->row.log_sent = have;
	json_decref(said);
	err_clear();
	/* one that does not take it at all must not make us hold it for ever */
	return r->status >= 400 && r->status < 500 && r->status != 409 &&
		r->status != 429;
}

/* Sends one piece. Returns whether the registry needs it no more. */
static bool send_piece(struct lease *l, const char *data, size_t len)
{
	const struct agent_config *c = l->agent->c;
	struct http_response r = HTTP_RESPONSE_INIT;
	struct http_request q = { .body = data,
		.body_bytes = len,
		.content_type = "application/octet-stream",
		.ca_file = c->ca,
		.signer = c->key,
		.timeout_ms = LOG_MS_MAX,
		.tries = 1,
		.abort = &l->agent->abort };
	struct buf url = BUF_INIT, path = BUF_INIT;
	bool sent = false;

	buf_addf(&path, "/v1/logs/%s/%d?offset=%" PRId64, l->row.cluster, l->row.rank,
		l->row.log_sent);
	if (http_url(&url, c->registry, buf_text(&path)) == 0) {
		q.url = buf_text(&url);
		sent = http_fetch(&l->http, &q, &r) == 0 || take_refusal(l, &r);
	}
	err_clear();
	buf_release(&url);
	buf_release(&path);
	http_response_release(&r);
	return sent;
}

/* Sends what was read. Returns whether all of it is there. */
static bool send_unsent(struct lease *l)
{
	size_t at = 0;

	while (at < l->unsent.len) {
		size_t n = l->unsent.len - at < LOG_PIECE ? l->unsent.len - at :
							    LOG_PIECE;

		if (!send_piece(l, l->unsent.data + at, n))
			break;
		l->row.log_sent += (int64_t)n;
		at += n;
	}
	memmove(l->unsent.data, l->unsent.data + at, l->unsent.len - at);
	l->unsent.len -= at;
	return l->unsent.len == 0;
}

void lease_send_log(struct lease *l, bool all)
{
	int64_t until_ns = clock_mono_ns() + LOG_ALL_MS * INT64_C(1000000);
	size_t got;

	l->logged_ns = clock_mono_ns();
	if (!l->row.container[0])
		return;
	do {
		if (!l->unsent.len &&
			l->engine->ops->logs(l->engine, l->row.container, &l->log,
				LOG_PIECE, &l->unsent) < 0)
			err_clear();
		got = l->unsent.len;
		if (!got || !send_unsent(l))
			return;
		l->row.log_file = l->log.file;
		l->row.log_bytes = l->log.bytes;
		journal_put(&l->agent->journal, &l->row, NULL);
	} while (clock_mono_ns() < until_ns && (all || got >= LOG_PIECE / 2));
}
