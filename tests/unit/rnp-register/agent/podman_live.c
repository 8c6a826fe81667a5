/* podman_live.c - the podman engine with real containers: engine.bats calls it with a folder, an
 * image of image.py in a registry on loopback, and images that cannot be. */
/* uses: cmd/rnp-register */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/podman.h"
#include "common/base/clock.h"
#include "tests/unit/test.h"

#define FIRST_ID 2000000
#define IDS      65536

static char root[200], run[200], images[200], images_run[200];
static const char *image;

static struct engine *open_lease(void)
{
	struct engine *e = podman_open(
		&(struct podman_config){ .root = root, .run = run, .images = images });

	CHECK(e != NULL);
	return e;
}

/* --- pulls ----------------------------------------------------------------------------------- */

static struct engine_pull last;
static int calls;

static int note(void *ctx, const struct engine_pull *p)
{
	(void)ctx;
	CHECK(p->layers <= p->layers_total || !p->layers_total);
	CHECK(p->bytes <= p->bytes_total || !p->bytes_total);
	last = *p;
	calls++;
	return 0;
}

static int refuse(void *ctx, const struct engine_pull *p)
{
	(void)ctx, (void)p;
	return 1;
}

static int pull(struct engine *e, const char *name,
	int (*progress)(void *ctx, const struct engine_pull *p))
{
	struct engine_pull_call call = { .image = name,
		.progress = progress,
		.ids = IDS };

	calls = 0;
	return e->ops->pull(e, &call);
}

static void check_pull(struct engine *e)
{
	CHECK_FAILS(EX_TEMPFAIL, pull(e, image, refuse));
	CHECK(pull(e, image, note) == 0);
	CHECK(calls > 0 && last.layers_total == 3 && last.bytes_total > 100000);
	CHECK(pull(e, image, note) == 0);
	CHECK_I64(0, calls);
}

/* --- containers ------------------------------------------------------------------------------ */

static int make(struct engine *e, const char *name, const char *script,
	int64_t memory_bytes, char id[ENGINE_ID_MAX])
{
	const char *command[] = { "/bin/sh", "-c", script, NULL };
	const char *labels[] = { "rnp.lease=one", "rnp.booking=abc", NULL };
	const char *env[] = { "GREETING=hello", NULL };
	struct engine_spec s = { .name = name,
		.image = image,
		.command = command,
		.env = env,
		.labels = labels,
		.first_id = FIRST_ID,
		.ids = IDS,
		.memory_bytes = memory_bytes,
		.cpu_millis = 500,
		.pids = 64,
		.files = 1024,
		.log_bytes_max = (int64_t)1 << 20 };

	return e->ops->create(e, &s, id);
}

static void wait_exit(struct engine *e, const char *id, struct engine_state *s)
{
	for (int i = 0; i < 60; i++) {
		CHECK(e->ops->stat(e, id, 1000, s) == 0);
		if (s->status != ENGINE_RUNNING)
			return;
	}
	CHECK(!"the container goes on");
}

static void read_log(struct engine *e, const char *id, struct buf *out)
{
	struct engine_log at = ENGINE_LOG_INIT;

	buf_reset(out);
	CHECK(e->ops->logs(e, id, &at, 1 << 20, out) == 0);
	CHECK(e->ops->logs(e, id, &at, 1 << 20, out) == 0);
	engine_log_close(&at);
}

/* A container of root in users of its own, with a code and two streams; its label finds it. */
static void check_run(struct engine *e)
{
	static const char script[] =
		"echo $GREETING; id -u; cat /proc/self/uid_map; echo to stderr >&2; "
		"ulimit -n; grep CapEff /proc/self/status; echo x >/x && chown 1000 /x; exit 7";
	char id[ENGINE_ID_MAX], found[ENGINE_ID_MAX];
	struct engine_state s;
	struct buf log = BUF_INIT;

	CHECK(make(e, "run", script, 64 << 20, id) == 0);
	CHECK(e->ops->stat(e, id, 0, &s) == 0);
	CHECK_I64(ENGINE_CREATED, s.status);
	CHECK(e->ops->start(e, id) == 0);
	wait_exit(e, id, &s);
	CHECK_I64(ENGINE_EXITED, s.status);
	CHECK_I64(7, s.exit);
	CHECK_TEXT("ended with exit code 7", s.cause);
	CHECK(!s.oom && s.started_ms > 0 && s.ended_ms >= s.started_ms);
	read_log(e, id, &log);
	CHECK(strncmp(buf_text(&log), "hello\n0\n", 8) == 0);
	CHECK(strstr(buf_text(&log), " 2000000      65536\n") != NULL);
	/* the order of two streams is that in which conmon reads them */
	CHECK(strstr(buf_text(&log), "to stderr\n") != NULL);
	CHECK(strstr(buf_text(&log), "\n1024\n") != NULL);
	CHECK(strstr(buf_text(&log), "00000000000001fb\n") != NULL);
	CHECK_I64(1, engine_adopt(e, "rnp.lease", "one", found));
	CHECK_TEXT(id, found);
	CHECK_I64(0, engine_adopt(e, "rnp.lease", "two", found));
	/* one with the same name, of a try whose answer was lost, is replaced */
	CHECK(make(e, "run", "exit 0", 64 << 20, found) == 0);
	CHECK(strcmp(id, found) != 0);
	CHECK(e->ops->remove(e, found) == 0);
	CHECK(e->ops->remove(e, id) == 0);
	CHECK_I64(0, engine_adopt(e, "rnp.lease", "one", found));
	CHECK_FAILS(EX_NOINPUT, e->ops->stat(e, id, 0, &s));
	buf_release(&log);
}

static void check_exec(struct engine *e)
{
	const char *command[] = { "/bin/sh", "-c", "echo $A; echo err >&2; id -u; exit 3",
		NULL };
	const char *env[] = { "A=b", NULL };
	struct engine_exec x = { .command = command, .env = env, .output_max = 7 };
	char id[ENGINE_ID_MAX];
	struct engine_state s;

	CHECK(make(e, "exec", "trap 'exit 9' TERM; while :; do sleep 0.1; done", 64 << 20,
		      id) == 0);
	CHECK(e->ops->start(e, id) == 0);
	CHECK(e->ops->exec(e, id, &x) == 0);
	CHECK_I64(3, x.exit);
	CHECK_I64(7, (int64_t)x.output.len);
	CHECK(e->ops->stat(e, id, 0, &s) == 0);
	CHECK_I64(ENGINE_RUNNING, s.status);
	CHECK(s.pid > 1 && s.memory_bytes > 0 && s.cpu_ns > 0);
	CHECK(e->ops->stop(e, id, 20000) == 0);
	wait_exit(e, id, &s);
	CHECK_I64(9, s.exit);
	CHECK(e->ops->stop(e, id, 0) == 0);
	CHECK(e->ops->remove(e, id) == 0);
	buf_release(&x.output);
}

/* A child that takes too much is killed; the first process lives on and says nothing of it. */
static void check_oom(struct engine *e)
{
	char id[ENGINE_ID_MAX];
	struct engine_state s;

	CHECK(make(e, "oom",
		      "dd if=/dev/zero of=/dev/null bs=200M count=1; sleep 2; exit 1",
		      32 << 20, id) == 0);
	CHECK(e->ops->start(e, id) == 0);
	for (int i = 0; i < 60; i++) {
		CHECK(e->ops->stat(e, id, 100, &s) == 0);
		if (s.oom || s.status != ENGINE_RUNNING)
			break;
	}
	CHECK(s.oom);
	CHECK(e->ops->remove(e, id) == 0);
}

/* --- kills ----------------------------------------------------------------------------------- */

/* Reads the number in a file of podman's. */
static pid_t pid_in(const char *id)
{
	char path[600], text[32] = "";
	int fd;

	snprintf(path, sizeof path, "%s/run/overlay-containers/%s/userdata/conmon.pid",
		root, id);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof text - 1) <= 0)
		text[0] = '\0';
	if (fd >= 0)
		close(fd);
	return (pid_t)strtol(text, NULL, 10);
}

static void check_conmon(struct engine *e)
{
	char id[ENGINE_ID_MAX];
	struct engine_state s = { 0 };
	pid_t conmon;

	CHECK(make(e, "conmon", "sleep 1000", 64 << 20, id) == 0);
	CHECK(e->ops->start(e, id) == 0);
	conmon = pid_in(id);
	CHECK(conmon > 1);
	if (conmon > 1)
		kill(conmon, SIGKILL);
	for (int i = 0; i < 200 && s.status != ENGINE_LOST; i++)
		CHECK(e->ops->stat(e, id, 50, &s) == 0);
	CHECK_I64(ENGINE_LOST, s.status);
	CHECK(strstr(s.cause, "supervisor was killed") != NULL);
	CHECK(e->ops->remove(e, id) == 0);
}

/* Containers need neither the service nor us. */
static void check_service(struct engine **e)
{
	char id[ENGINE_ID_MAX], again[ENGINE_ID_MAX];
	struct engine_state s;

	CHECK(make(*e, "service", "sleep 3; exit 5", 64 << 20, id) == 0);
	CHECK((*e)->ops->start(*e, id) == 0);
	podman_quit(*e);
	*e = open_lease();
	CHECK_I64(1, engine_adopt(*e, "rnp.lease", "one", again));
	CHECK_TEXT(id, again);
	wait_exit(*e, id, &s);
	CHECK_I64(5, s.exit);
	CHECK((*e)->ops->remove(*e, id) == 0);
}

int main(int argc, char **argv)
{
	struct engine *store, *lease;

	if (argc < 4) {
		fprintf(stderr, "skipped: tests/rnp-register/engine.bats runs it\n");
		return 0;
	}
	snprintf(root, sizeof root, "%s/lease", argv[1]);
	snprintf(images, sizeof images, "%s/images", argv[1]);
	snprintf(run, sizeof run, "%s/a", argv[2]);
	snprintf(images_run, sizeof images_run, "%s/i", argv[2]);
	image = argv[3];
	store = podman_open(&(struct podman_config){ .root = images, .run = images_run });
	CHECK(store != NULL);
	if (!store)
		TEST_END();
	/* pairs: an image, and what is said of it */
	for (int i = 4; i + 1 < argc; i += 2) {
		CHECK(pull(store, argv[i], NULL) == -1);
		if (!strstr(err_get()->text, argv[i + 1]))
			fprintf(stderr, "'%s' lacks '%s'\n", err_get()->text,
				argv[i + 1]);
		CHECK(strstr(err_get()->text, argv[i + 1]) != NULL);
		err_clear();
	}
	if (argc == 4) {
		check_pull(store);
		lease = open_lease();
		check_run(lease);
		check_exec(lease);
		check_oom(lease);
		check_conmon(lease);
		check_service(&lease);
		podman_quit(lease);
	}
	podman_quit(store);
	TEST_END();
}
