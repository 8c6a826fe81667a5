/* heartbeat.c - rnp-register heartbeat: tells a registry that this node is alive. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd/rnp-register/commands.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/registry/client.h"
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

static const char *registry, *key_path, *passphrase_file, *ca_file, *state = "idle",
								    *state_from;
static int64_t interval_ms = INTERVAL_DEFAULT_MS, promised_ms;
static bool once;

static const struct opt opts[] = {
	OPT_REGISTRY(&registry),
	OPT_SWITCH("once", &once, "send one and end (for cron)"),
	OPT_IN(DURATION, "interval", &interval_ms, "D", 1000, INTERVAL_MAX_MS,
		"promised time until the next (default 60s, whole seconds)"),
	OPT(CHOICE, "state", &state, "S", "what the node does (default idle)",
		.choices = "idle|busy|render|maintenance"),
	OPT(TEXT, "state-from", &state_from, "F",
		"read it from this file before each, where that is there"),
	OPT_KEY(&key_path),
	OPT_PASSPHRASE(&passphrase_file),
	OPT_CA(&ca_file),
	{ 0 },
};

/* The newest heartbeat that the registry has; and, of those that it took from us, what our clocks
 * showed then. */
static struct {
	int64_t known_ms, now_ms, mono_ns;
	bool told;
} newest;

/* Warns, once, of a clock that shows less than the newest heartbeat says. */
static void tell_set_back(int64_t now_ms)
{
	int64_t elapsed_ms = (clock_mono_ns() - newest.mono_ns) / 1000000;
	char at[CLOCK_TEXT_MAX];

	if (newest.told)
		return;
	newest.told = true;
	clock_format(at, newest.known_ms);
	if (newest.mono_ns)
		prog_warn(
			"this machine's clock was set back by %" PRId64
			" s: heartbeats get times just after the last one, of %s, until it "
			"is there",
			(newest.now_ms + elapsed_ms - now_ms + 500) / 1000, at);
	else
		prog_warn(
			"this machine's clock is %" PRId64
			" s behind the last heartbeat that the registry has, of %s: it was set "
			"back, or another's with this key is ahead. Heartbeats get times just "
			"after that one until it is there",
			(newest.known_ms - now_ms + 500) / 1000, at);
}

/* Returns the time of the next heartbeat: a registry takes only newer ones than the last, so that
 * none can be replayed. Where the clock was set back by no more than clocks may be apart, the time
 * just after the last is as good to the registry, which took the last, and binds the node to no
 * later instant. */
static int64_t next_at(int64_t now_ms)
{
	if (now_ms > newest.known_ms) {
		newest.told = false;
		return now_ms;
	}
	if (newest.known_ms - now_ms >= UPTIME_SKEW_MS)
		return now_ms;
	if (now_ms < newest.known_ms)
		tell_set_back(now_ms);
	return newest.known_ms + 1;
}

static void note_taken(int64_t at_ms, int64_t now_ms)
{
	newest.known_ms = at_ms;
	newest.now_ms = now_ms;
	newest.mono_ns = clock_mono_ns();
}

/* What the node does now: who works on it may say so in a file, in one word. */
static const char *state_now(void)
{
	static const char *const states[] = { "idle", "busy", "render", "maintenance" };
	static bool told;
	struct buf text = BUF_INIT;
	const char *now = state;
	bool known = false;

	if (!state_from)
		return state;
	if (io_read(&text, state_from, 64) < 0) {
		known = err_get()->code == EX_NOINPUT;
	} else {
		text.len = strcspn(buf_text(&text), "\n");
		for (size_t i = 0; i < sizeof states / sizeof *states; i++)
			if (text.len == strlen(states[i]) &&
				memcmp(buf_text(&text), states[i], text.len) == 0) {
				now = states[i];
				known = true;
			}
		if (!known)
			err_set(EX_DATAERR,
				"'%s' has no state: idle, busy, render or maintenance",
				state_from);
	}
	if (!known && !told)
		prog_warn("%s: heartbeats say '%s'", err_get()->text, state);
	told = !known;
	err_clear();
	buf_release(&text);
	return now;
}

/* Tells two machines with one key apart: a number of this process, or, of one that ends at once, of
 * the machine's start. */
static char instance[17];

static void name_instance(const char *address)
{
	unsigned char hash[8];
	struct buf about = BUF_INIT;
	char host[256] = "";

	/* containers of one machine share its boot, and have names of their own */
	gethostname(host, sizeof host - 1);
	if (!once || io_read(&about, "/proc/sys/kernel/random/boot_id", 256) < 0) {
		randombytes_buf(hash, sizeof hash);
	} else {
		/* the address: heartbeats are public, and show of no two nodes that they are on
		 * one machine */
		buf_addf(&about, "%s %s", host, address);
		crypto_generichash(hash, sizeof hash, (const unsigned char *)about.data,
			about.len, NULL, 0);
	}
	err_clear();
	sodium_bin2hex(instance, sizeof instance, hash, sizeof hash);
	buf_release(&about);
}

static json_t *make_heartbeat(const struct key *key, int64_t now_ms, int64_t at_ms)
{
	json_t *beat = json_record("rnp.heartbeat");

	json_set_text(beat, "node", key->address);
	json_set_time(beat, "at", at_ms);
	json_set_i64(beat, "interval_s", promised_ms / 1000);
	json_set_text(beat, "state", state_now());
	json_set_text(beat, "instance", instance);
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
static int print_challenge(const json_t *stored)
{
	static char last[65];
	json_t *challenge = json_object_get(stored, "challenge");
	const char *nonce = json_string_value(json_object_get(challenge, "nonce"));
	int rc = 0;

	take_wanted(stored);
	if (nonce && strcmp(nonce, last) != 0 &&
		schema_check(challenge, registry, "rnp.challenge") == 0) {
		snprintf(last, sizeof last, "%s", nonce);
		rc = out_record(challenge);
	}
	return rc;
}

/* Whether the registry has this heartbeat already: each is new when it is first sent, so an earlier
 * try arrived and its reply was lost. Else, whether another time may do (*again). */
static bool is_lost(const struct http_response *r, int64_t at_ms, bool *again)
{
	int64_t known_ms;

	if (r->status != 409)
		return false;
	if (!registry_known_read(r, &known_ms))
		return r->tries > 1; /* a registry that does not tell */
	if (known_ms == at_ms)
		return r->tries > 1;
	*again = known_ms > newest.known_ms && known_ms - clock_now_ms() < UPTIME_SKEW_MS;
	if (known_ms > newest.known_ms) {
		newest.known_ms = known_ms;
		newest.mono_ns = 0; /* not ours, or of an earlier process */
	}
	return false;
}

/* Sends a heartbeat and prints it. The next is due after the interval, so a try must end
 * before. *lost: the registry has it, but its reply was lost. *again: it has a newer one, and one
 * with a time after that may be taken. */
static int send_beat(struct http *http, const struct key *key, bool *lost, bool *again)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct buf body = BUF_INIT;
	const struct registry_call p = { .base = registry,
		.ca = ca_file,
		.per_try_ms = interval_ms < 10000 ? interval_ms : 10000 };
	int64_t now_ms = clock_now_ms(), at_ms = next_at(now_ms);
	json_t *beat = make_heartbeat(key, now_ms, at_ms), *stored = NULL;
	struct err error;
	int rc = -1;

	if (beat) {
		json_write(&body, beat);
		stored = registry_post(http, &p, beat, body.data, body.len, &r);
		rc = stored ? 0 : -1;
	}
	*lost = rc < 0 && is_lost(&r, at_ms, again);
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
		note_taken(at_ms, now_ms);
	if (rc == 0)
		rc = out_record(beat);
	if (rc == 0 && stored)
		rc = print_challenge(stored);
	json_decref(beat);
	json_decref(stored);
	buf_release(&body);
	http_response_release(&r);
	return rc;
}

/* A lost reply may have contained a challenge, whose time is running: another heartbeat fetches
 * it now, without waiting for the interval. If that reply is lost, too, the next heartbeat has
 * to do. */
static int send_one(struct http *http, const struct key *key)
{
	bool lost = false, again = false;
	int rc = send_beat(http, key, &lost, &again);

	if (rc < 0 && again)
		err_clear();
	return (rc == 0 && lost) || (rc < 0 && again) ?
		send_beat(http, key, &lost, &again) :
		rc;
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
	if (key_load(&key, key_path, passphrase_file) == 0) {
		name_instance(key.address);
		rc = once ? send_once(&http, &key) : keep_alive(&http, &key);
	}
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
	.columns =
		"node,at,interval_s,state;"
		"rnp.challenge:node=challenge to,issued_at=issued,deadline_ms=deadline",
	.group = "node",
	.opts = opts,
	.run = run,
};
