/* heartbeat.c - rnp-register heartbeat: tells a registry that this node is alive. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cmd/rnp-register/commands.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/net/registry_client.h"
#include "common/json/json.h"
#include "common/record/key.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/record/signature.h"
#include "common/record/uptime.h"
#include "common/json/schema.h"

#define INTERVAL_DEFAULT_MS 60000
#define KEEP_CONNECTION_MS  5000
#define INTERVAL_MAX_MS     3600000

static const char *registry, *key_path, *passphrase_file, *ca_file, *state = "idle";
static int64_t interval_ms = INTERVAL_DEFAULT_MS, promised_ms;
static bool once;

static const struct opt opts[] = {
	OPT_REGISTRY(&registry),
	{ .name = "once",
		.kind = OPT_FLAG,
		.to = &once,
		.help = "send one and end (for cron)" },
	{ .name = "interval",
		.kind = OPT_DURATION,
		.to = &interval_ms,
		.metavar = "D",
		.help = "promised time until the next (default 60s, whole seconds)",
		.min = 1000,
		.max = INTERVAL_MAX_MS },
	{ .name = "state",
		.kind = OPT_CHOICE,
		.to = &state,
		.metavar = "S",
		.choices = "idle|busy|render|maintenance",
		.help = "what the node does (default idle)" },
	OPT_KEY(&key_path),
	OPT_PASSPHRASE(&passphrase_file),
	OPT_CA(&ca_file),
	{ 0 },
};

static json_t *make_heartbeat(const struct key *key)
{
	int64_t now_ms = clock_now_ms();
	json_t *beat = json_record("rnp.heartbeat");

	json_set_text(beat, "node", key->address);
	json_set_time(beat, "at", now_ms);
	json_set_i64(beat, "interval_s", promised_ms / 1000);
	json_set_text(beat, "state", state);
	if (signature_add(beat, key, now_ms) == 0)
		return beat;
	json_decref(beat);
	return NULL;
}

/* When the registry expects another heartbeat, on the monotonic clock: it challenges several
 * nodes at that instant. 0: not before the interval is over. */
static int64_t wanted_ns;

#define WANTED_MS_MAX 600000

static void take_wanted(const json_t *stored)
{
	int64_t in_ms = -1;

	if (json_opt_i64(stored, registry, "challenge_in_ms", 0, WANTED_MS_MAX, &in_ms) <
		0)
		err_clear();
	wanted_ns = in_ms < 0 ? 0 : clock_mono_ns() + (in_ms + 50) * 1000000;
}

/* A registry repeats a challenge until it is answered; it is printed once. */
static int print_challenge(const struct http_response *r)
{
	static char last[65];
	json_t *stored = json_parse_object(buf_text(&r->body), r->body.len, registry);
	json_t *challenge = json_object_get(stored, "challenge");
	const char *nonce = json_string_value(json_object_get(challenge, "nonce"));
	int rc = 0;

	err_clear(); /* an unreadable reply contains no challenge */
	if (stored)
		take_wanted(stored);
	if (nonce && strcmp(nonce, last) != 0 &&
		schema_check(challenge, registry, "rnp.challenge") == 0) {
		snprintf(last, sizeof last, "%s", nonce);
		rc = out_record(challenge);
	}
	json_decref(stored);
	return rc;
}

/* Sends a heartbeat and prints it. The next is due after the interval, so a try must end
 * before. *lost: the registry has it, but its reply was lost. */
static int send_beat(struct http *http, const struct key *key, bool *lost)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct buf body = BUF_INIT;
	json_t *beat = make_heartbeat(key);
	int64_t per_try_ms = interval_ms < 10000 ? interval_ms : 10000;
	struct err error;
	int rc = -1;

	if (beat) {
		json_write(&body, beat);
		rc = registry_post(http, registry, ca_file, per_try_ms, beat, body.data,
			body.len, &r);
	}
	/* Each heartbeat is new when it is first sent: if the registry knows it already, an
	 * earlier try arrived and its reply was lost. */
	*lost = rc < 0 && r.status == 409 && r.tries > 1;
	if (*lost) {
		err_clear();
		rc = 0;
	}
	/* our clock was set back, or another process sends heartbeats for this node: temporary */
	if (rc < 0 && r.status == 409) {
		err_save(&error);
		error.code = EX_TEMPFAIL;
		err_restore(&error);
	}
	if (rc == 0)
		rc = out_record(beat);
	if (rc == 0)
		rc = print_challenge(&r);
	json_decref(beat);
	buf_release(&body);
	http_response_release(&r);
	return rc;
}

/* A lost reply may have contained a challenge, whose time is running: another heartbeat fetches
 * it now, without waiting for the interval. If that reply is lost, too, the next heartbeat has
 * to do. */
static int send_one(struct http *http, const struct key *key)
{
	bool lost = false;
	int rc = send_beat(http, key, &lost);

	return rc == 0 && lost ? send_beat(http, key, &lost) : rc;
}

/* Waits until a moment of the monotonic clock. Returns false if a signal ends the program. */
static bool sleep_until(int64_t moment_ns)
{
	int64_t left_ns = moment_ns - clock_mono_ns();
	struct timespec t;
	sigset_t set;

	if (left_ns < 0)
		left_ns = 0;
	t = (struct timespec){ left_ns / 1000000000, left_ns % 1000000000 };
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	return sigtimedwait(&set, NULL, &t) < 0;
}

static bool is_temporary(void)
{
	int code = err_get()->code;

	return code == EX_TEMPFAIL || code == EX_UNAVAILABLE;
}

/* A registry that is away for a while does not end the program; only permanent errors do. */
static int keep_alive(struct http *http, const struct key *key)
{
	int64_t due_ns = clock_mono_ns();
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	do {
		if (send_one(http, key) < 0) {
			if (!is_temporary())
				return -1;
			prog_error("%s", err_get()->text);
			err_clear();
		}
		/* a connection that idles for a minute is of no use to either side, and a
		 * registry of 100,000 nodes has better uses for it */
		if (interval_ms > KEEP_CONNECTION_MS)
			http_release(http);
		due_ns += interval_ms * 1000000;
		if (due_ns < clock_mono_ns())
			due_ns = clock_mono_ns();
		if (wanted_ns && wanted_ns < due_ns)
			due_ns = wanted_ns;
	} while (sleep_until(due_ns));
	return 0;
}

/* Sends one heartbeat, and another one if the registry expects it at a certain instant, at most
 * a few minutes from now. */
static int send_once(struct http *http, const struct key *key)
{
	int rc = send_one(http, key);
	struct timespec t;

	if (rc < 0 || !wanted_ns)
		return rc;
	http_release(http);
	t = (struct timespec){ wanted_ns / 1000000000, wanted_ns % 1000000000 };
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		continue;
	return send_one(http, key);
}

static int run(int n, char **args)
{
	struct http http = HTTP_INIT;
	struct key key = KEY_INIT;
	int rc = -1;

	(void)n, (void)args;
	interval_ms -= interval_ms % 1000;
	promised_ms = interval_ms;
	if (strcmp(state, "maintenance") == 0) {
		if (interval_ms > INTERVAL_MAX_MS - UPTIME_SKEW_MS)
			interval_ms = INTERVAL_MAX_MS - UPTIME_SKEW_MS;
		promised_ms = interval_ms + UPTIME_SKEW_MS;
	}
	if (key_load(&key, key_path, passphrase_file) == 0)
		rc = once ? send_once(&http, &key) : keep_alive(&http, &key);
	http_release(&http);
	key_release(&key);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_heartbeat = {
	.name = "heartbeat",
	.summary = "Tell a registry at each interval that this node is alive.",
	.details =
		"Writes each rnp.heartbeat record that the registry has taken, and each "
		"rnp.challenge that it\nsends, for rnp-bench answer. Goes on while the registry "
		"is away or busy; ends when it refuses,\nand on SIGTERM and SIGINT.",
	.columns = "node,at,interval_s,state",
	.opts = opts,
	.run = run,
};
