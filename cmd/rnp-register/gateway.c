/* gateway.c - rnp-register gateway: where customers and nodes meet by SSH. */
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "cmd/rnp-register/commands.h"
#include "cmd/rnp-register/agent/process.h"
#include "cmd/rnp-register/gateway/feed.h"
#include "cmd/rnp-register/gateway/notes.h"
#include "cmd/rnp-register/gateway/sshd.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/map.h"
#include "common/cli/notify.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/net/net.h"
#include "common/record/key.h"
#include "common/record/signature.h"
#include "common/registry/client.h"

#define SWEEP_MS       5000
#define RETRY_FIRST_MS 500
#define RETRY_MOST_MS  8000
#define BETWEEN_MS     1000
#define GRACE_MS       2000
#define STILLBORN_NS   INT64_C(2000000000)

static const char *registry, *ca_file, *key_path, *passphrase_file, *listen_on, *external,
	*directory = "/var/lib/rnp-gateway", *keys_file, *sshd_path = "/usr/sbin/sshd";
static bool answers;

static const struct opt opts[] = {
	OPT(TEXT, "registry", &registry, "URL", "whose leases it serves", .setting = true,
		.url = true),
	OPT(TEXT, "listen", &listen_on, "ADDR", "HOST:PORT for customers and nodes"),
	OPT(TEXT, "external", &external, "ADDR",
		"HOST:PORT that they reach it at (default: that of --listen)"),
	OPT(TEXT, "dir", &directory, "D", "its own (default /var/lib/rnp-gateway)"),
	OPT(TEXT, "keys", &keys_file, "F", "an rnp.access file in place of a registry"),
	OPT(TEXT, "sshd", &sshd_path, "F", "(default /usr/sbin/sshd)"),
	OPT_EXAMPLE("who may do what"),
	OPT_SWITCH("answer", &answers, "what its sshd asks: the line of a key"),
	OPT_KEY(&key_path),
	OPT_PASSPHRASE(&passphrase_file),
	OPT_CA(&ca_file),
	{ 0 },
};

static const char access_example[] =
	"{\"kind\": \"rnp.access\", \"v\": 1,\n"
	" \"nodes\": [{\"node\": \"4zvwRjXUKGfvwnParsHAS3HuSVzV5cA4McphgmoCtajS\",\n"
	"   \"numbers\": [1]}],\n"
	" \"customers\": [{\"key\":\n"
	"   \"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHBjkCF8qMxSyaL7nTgkHUwxSSHDqnZ41Cvxe"
	"SNGTK3m me\",\n"
	"   \"numbers\": [1]}]}\n";

/* sshd's question: two arguments, type and key; its parent is the connection. */
static int answer(char **args)
{
	struct buf line = BUF_INIT;
	int rc = notes_answer(directory, getppid(), args[0], args[1], &line);

	if (rc == 0 && line.len)
		rc = out_text(line.data, line.len);
	buf_release(&line);
	return rc < 0 ? err_report() : EX_OK;
}

/* What the threads share. */
static struct {
	atomic_bool stop, changed, away;
	atomic_size_t keys, numbers; /* that the table has */
	struct http_abort abort;
	struct gateway_feed feed;
	/* who we are */
	struct sshkey host_key;
	char host[NET_HOST_MAX], user[64];
	int port;
	bool published; /* the registry knows it */
} shared;

static void pause_ms(int64_t ms)
{
	const struct timespec step = { 0, 50000000 };

	for (; ms > 0 && !atomic_load(&shared.stop); ms -= 50)
		nanosleep(&step, NULL);
}

/* Who the gateway is, signed now where it has a key. Returns a new record, or NULL with err_set. */
static json_t *make_record(void)
{
	json_t *record = json_record("rnp.gateway");
	char text[SSHKEY_TEXT_MAX];

	snprintf(text, sizeof text, "%s %s", shared.host_key.type, shared.host_key.blob);
	if (shared.feed.key)
		json_set_text(record, "gateway", shared.feed.key->address);
	json_set_time(record, "at", clock_now_ms());
	json_set_text(record, "host", shared.host);
	json_set_i64(record, "port", shared.port);
	json_set_text(record, "user", shared.user);
	json_set_text(record, "host_key", text);
	if (!shared.feed.key ||
		signature_add(record, shared.feed.key, clock_now_ms()) == 0)
		return record;
	json_decref(record);
	return NULL;
}

/* Tells the registry who and where we are. Returns 0, or -1. */
static int publish(void)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	const struct registry_call p = { .base = registry, .ca = ca_file, .tries = 1 };
	json_t *record = make_record(), *stored = NULL;
	struct buf text = BUF_INIT;

	if (record) {
		json_write(&text, record);
		stored = registry_post(&shared.feed.http, &p, record, text.data, text.len,
			&r);
	}
	json_decref(record);
	json_decref(stored);
	buf_release(&text);
	http_response_release(&r);
	return stored ? 0 : -1;
}

/* One turn; the first that succeeds has told the registry who we are. */
static int take_turn(struct access_counts *counts)
{
	if (registry && !shared.published) {
		if (publish() < 0)
			return -1;
		shared.published = true;
	}
	return gateway_feed_turn(&shared.feed, counts);
}

/* Keeps the table; a registry that is away leaves the last one in force. */
static void *keep_table(void *arg)
{
	int64_t retry_ms = 0;

	(void)arg;
	while (!atomic_load(&shared.stop)) {
		struct access_counts counts;
		int turn = take_turn(&counts);

		if (atomic_load(&shared.stop))
			break;
		atomic_store(&shared.away, turn < 0);
		if (turn == GATEWAY_CHANGED) {
			atomic_store(&shared.keys, counts.keys);
			atomic_store(&shared.numbers, counts.numbers);
			atomic_store(&shared.changed, true);
			prog_info("%zu keys for %zu addresses", counts.keys,
				counts.numbers);
		}
		if (turn < 0) {
			prog_error("%s%s%s", err_get()->text,
				err_get()->hint[0] ? ": " : "", err_get()->hint);
			err_clear();
			retry_ms = retry_ms ? 2 * retry_ms : RETRY_FIRST_MS;
			retry_ms = retry_ms > RETRY_MOST_MS ? RETRY_MOST_MS : retry_ms;
			pause_ms(retry_ms);
		} else {
			retry_ms = 0;
			/* a registry with much news is not asked again at once */
			pause_ms(keys_file                      ? 500 :
					turn == GATEWAY_CHANGED ? BETWEEN_MS :
								  0);
		}
	}
	return NULL;
}

/* Ends the connections of those whose right is gone. */
static void sweep(bool all)
{
	struct buf path = BUF_INIT;
	struct notes_swept swept = { 0 };
	struct lm_map map = { 0 };
	int rc;

	buf_addf(&path, "%s/table", directory);
	rc = all ? notes_sweep(directory, "", 0, &swept) : lm_map_open(&map, path.data);
	if (!all && rc == 0) {
		rc = notes_sweep(directory, (const char *)map.data, map.bytes, &swept);
		lm_map_close(&map);
	}
	if (rc < 0)
		prog_error("%s", err_get()->text);
	else if (swept.ended)
		prog_info("%zu of %zu connections ended: their key has lost a right",
			swept.ended, swept.open);
	notify_status("%zu keys for %zu addresses, %zu connections%s",
		atomic_load(&shared.keys), atomic_load(&shared.numbers),
		swept.open - swept.ended,
		atomic_load(&shared.away) ? "; the registry is away" : "");
	err_clear();
	buf_release(&path);
}

/* Waits half a second, or less if a signal ends the program. */
static bool is_told_to_end(void)
{
	const struct timespec t = { 0, 500000000 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	return sigtimedwait(&set, NULL, &t) > 0;
}

/* Whether sshd has ended before it can have been of use: its configuration or address is at
 * fault. */
static bool is_stillborn(const struct process *sshd)
{
	return clock_mono_ns() - sshd->started_ns < STILLBORN_NS;
}

/* Runs until a signal. Returns 0, or -1: sshd does not begin. */
static int run_sshd(struct process *sshd)
{
	int64_t swept_ns = 0;
	bool first = true;

	while (!is_told_to_end()) {
		int64_t now_ns = clock_mono_ns();
		char words[PROCESS_WORDS_MAX];

		if (atomic_exchange(&shared.changed, false) ||
			now_ns - swept_ns > SWEEP_MS * INT64_C(1000000)) {
			sweep(false);
			swept_ns = now_ns;
		}
		if (process_ended(sshd)) {
			process_words(sshd->status, words);
			if (first && is_stillborn(sshd))
				return err_set(EX_UNAVAILABLE, "%s: %s", sshd_path,
					words);
			prog_error("%s: %s; it is started again", sshd_path, words);
			first = false;
		}
		process_keep(sshd);
	}
	process_end(sshd, GRACE_MS);
	sweep(true);
	return 0;
}

/* The program that sshd runs is this one. Returns 0 with its path, or -1. */
static int own_path(char path[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);

	if (n < 0)
		return err_sys(EX_OSERR, "cannot read /proc/self/exe");
	path[n] = '\0';
	return gateway_check_owner(path);
}

/* The user that we are, and sshd lets in. */
static const char *own_user(void)
{
	const struct passwd *user = getpwuid(geteuid());

	if (geteuid() == 0) {
		err_set(EX_NOPERM,
			"a gateway needs no root, and runs as a user of its own");
		err_hint(
			"useradd --system rnp-gateway; runuser -u rnp-gateway -- rnp-register gateway ...");
		return NULL;
	}
	if (!user) {
		err_set(EX_NOPERM, "user %d has no name, and sshd lets nobody else in",
			(int)geteuid());
		return NULL;
	}
	return user->pw_name;
}

/* An address that stands for all of this machine's is none that others can reach. */
static int check_reachable(void)
{
	static const char *const all[] = { "", "0.0.0.0", "::", "*" };

	for (size_t i = 0; registry && i < sizeof all / sizeof *all; i++)
		if (strcmp(shared.host, all[i]) == 0)
			return err_set(EX_USAGE,
				"customers and nodes cannot reach '%s': --external HOST:PORT says where they do",
				external ? external : listen_on);
	return 0;
}

static int write_config(const char *path, const char *user, const char *program)
{
	struct gateway_sshd s = { .user = user,
		.directory = directory,
		.program = program };
	struct buf text = BUF_INIT;
	char host[NET_HOST_MAX];
	int rc = -1;

	s.host = host;
	if (net_split(listen_on, "--listen", host, &s.port) == 0 &&
		gateway_sshd_config(&text, &s) == 0)
		rc = io_replace(path, text.data, text.len, 0600);
	buf_release(&text);
	return rc;
}

/* Everything that can be refused before the first connection. */
static int prepare(struct buf *config)
{
	char program[PATH_MAX];
	const char *user = own_user();
	json_t *record;
	int rc;

	buf_addf(config, "%s/sshd_config", directory);
	if (!user || own_path(program) < 0 || notes_make_directory(directory) < 0 ||
		gateway_host_key(directory, &shared.host_key) < 0 ||
		write_config(config->data, user, program) < 0 ||
		net_split(external ? external : listen_on, "--external", shared.host,
			&shared.port) < 0 ||
		check_reachable() < 0)
		return -1;
	snprintf(shared.user, sizeof shared.user, "%s", user);
	record = make_record();
	rc = record ? out_record(record) : -1;
	json_decref(record);
	return rc;
}

static int gateway(void)
{
	struct buf config = BUF_INIT;
	const char *argv[] = { sshd_path, "-D", "-e", "-f", NULL, NULL };
	struct process sshd = PROCESS_INIT(argv);
	pthread_t thread;
	sigset_t set;
	int rc = -1;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	if (prepare(&config) < 0 || http_abort_open(&shared.abort) < 0)
		goto out;
	argv[4] = config.data;
	if (process_start(&sshd) < 0)
		goto out;
	if (pthread_create(&thread, NULL, keep_table, NULL) != 0) {
		err_set(EX_OSERR, "cannot start a thread");
		process_end(&sshd, GRACE_MS);
		goto out;
	}
	rc = run_sshd(&sshd);
	atomic_store(&shared.stop, true);
	http_abort(&shared.abort);
	pthread_join(thread, NULL);
out:
	http_abort_close(&shared.abort);
	buf_release(&config);
	return rc;
}

static int run(int n, char **args)
{
	struct key key = KEY_INIT;
	int rc = -1;

	shared.abort = (struct http_abort)HTTP_ABORT_INIT;
	if (answers && n == 2)
		return answer(args);
	if (answers || n)
		rc = err_set(EX_USAGE, "--answer takes the type of a key and the key");
	else if (!listen_on)
		rc = err_set(EX_USAGE, "--listen is required");
	else if (!registry == !keys_file)
		rc = err_set(EX_USAGE, "either --registry or --keys is required");
	else if (keys_file || key_load(&key, key_path, passphrase_file) == 0) {
		shared.feed = (struct gateway_feed){ .directory = directory,
			.file = keys_file,
			.registry = registry,
			.ca = ca_file,
			.key = keys_file ? NULL : &key,
			.abort = &shared.abort,
			.seq = -1 };
		rc = gateway();
		gateway_feed_release(&shared.feed);
	}
	key_release(&key);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_gateway = {
	.name = "gateway",
	.arguments = "[type key]",
	.args_max = 2,
	.summary = "Run a gateway: where customers and nodes meet by SSH.",
	.details =
		"Starts an sshd of its own and keeps it. Nodes listen on an address of its loopback "
		"for each of\ntheir leases, and keys of bookings open these addresses and nothing "
		"else. Writes its rnp.gateway\nrecord. Ends on SIGTERM and SIGINT, with all its "
		"connections.",
	.card = true,
	.example = access_example,
	.group = "registry",
	.opts = opts,
	.run = run,
};
