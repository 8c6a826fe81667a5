/* Pieces and the record of a delta at a real coordinator: several pieces in a request, pieces that
 * contradict, a record that is there before its pieces; and a late delta that is taken while its
 * round's files are swept. The coordinator is a process of its own, and its clock is set forward
 * from here.
 *
 * uses: cmd/rnp-train */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cmd/rnp-train/commands.h"
#include "cmd/rnp-train/wire/container.h"
#include "cmd/rnp-train/worker/client.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/cli/prog.h"
#include "common/hw/device.h"
#include "common/json/json.h"
#include "tests/bench/coordinator.h"
#include "tests/unit/test.h"

static char url[64];
static struct training run;
static struct key key;
static struct assignment turn;
static struct buf container;
static struct container_facts facts;

/* In memory of all processes: by how much the coordinator's monotonic clock is ahead. Its calls
 * find this function, not libc's. */
static _Atomic int64_t *ahead_s;
static bool is_coordinator;

int clock_gettime(clockid_t id, struct timespec *out)
{
	int rc = (int)syscall(SYS_clock_gettime, id, out);

	if (rc == 0 && is_coordinator && id == CLOCK_MONOTONIC)
		out->tv_sec += *ahead_s;
	return rc;
}

/* The kernel's clock is not ahead. */
int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
	const struct timespec *until)
{
	struct timespec real = { until->tv_sec - (is_coordinator ? *ahead_s : 0),
		until->tv_nsec };

	return pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, &real);
}

/* In memory of all, too: whether a delta's file has to wait where it gets its name, and does. Its
 * calls find this function. */
static _Atomic bool *hold, *holding;

int link(const char *from, const char *to)
{
	int rc = (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);

	if (!is_coordinator || !strstr(to, ".rnpg") || !*hold)
		return rc;
	*holding = true;
	while (*hold)
		usleep(1000);
	return rc;
}

static const struct command *const commands[] = { &command_coordinate, NULL };
static const struct program program = { .name = "rnp-train",
	.summary = "",
	.commands = commands };

static int run_coordinator(int argc, char **argv)
{
	is_coordinator = true;
	return prog_main(&program, argc, argv);
}

static struct client connection(void)
{
	struct client c = { .http = HTTP_INIT,
		.url = url,
		.key = &key,
		.give_up_ms = 60000 };

	memcpy(c.run, run.name, sizeof c.run);
	return c;
}

/* The programs that were built with this one. */
static void find_programs(void)
{
	char here[200], path[4096];
	ssize_t n = readlink("/proc/self/exe", here, sizeof here - 1);

	here[n > 0 ? n : 0] = '\0';
	for (int up = 0; up < 3 && strrchr(here, '/'); up++)
		*strrchr(here, '/') = '\0';
	snprintf(path, sizeof path, "%s/bin:%s", here, getenv("PATH"));
	setenv("PATH", path, 1);
}

static pid_t start(void)
{
	snprintf(work, sizeof work, "%s/deliver.XXXXXX",
		getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	if (!mkdtemp(work))
		die("beginning");
	command("seq 20000 >text && rnp-train tokenize --vocab 300 --out tok text >/dev/null"
		" && rnp-train init --preset nano --tokenizer tok --out m");
	return coordinator_start(url,
		(const char *const[]){ "rnp-train", "coordinate", "-q", "--model", "m",
			"--data", "tok", "--listen", "127.0.0.1:0", "--port-file", "port",
			"--workers", "1", "--rounds", "4", "--late", "count",
			"--inner-steps", "1", "--batch", "1", "--length", "16",
			"--method", "none", "--device", "cpu", NULL });
}

/* Asks for a turn: the next one, or that which is open. */
static void get_turn(struct client *c)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct client_request ask = { .method = "GET", .sign = true };
	json_t *record;
	char path[300];

	snprintf(path, sizeof path, "/v1/work?member=%s", key.address);
	ask.path = path;
	if (client_send(c, &ask, &r) < 0 || r.status != 200)
		die("asking for work");
	record = json_parse_object(buf_text(&r.body), r.body.len, "assignment");
	if (!record ||
		assignment_read(&turn, record, &run, key.address, "assignment") < 0)
		die("an assignment");
	json_decref(record);
	http_response_release(&r);
}

static void join(struct client *c)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	json_t *record = json_record("rnp.join");

	json_set_text(record, "node", key.address);
	json_set_text(record, "run", run.name);
	if (client_post(c, "/v1/join", record, "kind", &r) < 0 || r.status != 200)
		die("joining");
	json_decref(record);
	http_response_release(&r);
}

/* What is delivered from now on: nothing like what was before, which would be refused. */
static void make_container(void)
{
	static uint64_t made;
	float *x = xcalloc(run.parameters, sizeof *x);
	struct dev d = DEV_INIT;
	char path[300];
	struct rng r;

	rng_seed(&r, ++made, 0);
	for (uint64_t i = 0; i < run.parameters; i++)
		x[i] = (float)(rng_f64(&r) - 0.5) * 1e-3f;
	snprintf(path, sizeof path, "%s/container", work);
	buf_reset(&container);
	if (device_open(&d, "cpu") < 0 ||
		container_write(&d, "none", x, NULL, run.parameters, path, &facts) < 0 ||
		io_read(&container, path, facts.bytes) < 0)
		die("making a container");
	dev_close(&d);
	free(x);
}

/* Becomes a member, and makes what it delivers. */
static void begin(struct client *c)
{
	json_t *record = client_run(c);

	if (!record || training_read(&run, record, "the run") < 0 ||
		key_generate(&key) < 0)
		die("the run");
	json_decref(record);
	http_release(&c->http);
	*c = connection();
	join(c);
	make_container();
}

/* Returns the status. */
static int put(struct client *c, uint64_t piece, const void *data, size_t len)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct client_request q = { .method = "PUT",
		.content_type = "application/octet-stream",
		.body = data,
		.body_bytes = len,
		.sign = true };
	char path[256];
	int status;

	snprintf(path, sizeof path, "/v1/delta/%s/%llu/%llu", key.address,
		(unsigned long long)turn.turn, (unsigned long long)piece);
	q.path = path;
	if (client_send(c, &q, &r) < 0)
		die("sending pieces");
	status = r.status;
	http_response_release(&r);
	return status;
}

/* From one piece to before another, of the container. */
static int put_range(struct client *c, uint64_t from, uint64_t to)
{
	uint64_t end = to * run.piece_bytes;

	end = end < container.len ? end : container.len;
	return put(c, from, container.data + from * run.piece_bytes,
		end - from * run.piece_bytes);
}

static int put_all(struct client *c)
{
	return put_range(c, 0, protocol_pieces(container.len, run.piece_bytes));
}

/* Returns the status; 0: it was broken off. */
static int post(struct client *c)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct delta d = { .turn = turn.turn,
		.bytes = facts.bytes,
		.steps = turn.steps,
		.tokens = turn.sequences * run.length,
		.loss_first_micronats = 5000000,
		.loss_last_micronats = 4000000,
		.seconds = 1 };
	json_t *record;
	char path[256];
	int status;

	memcpy(d.node, key.address, sizeof d.node);
	memcpy(d.base, turn.base, sizeof d.base);
	protocol_hex(d.sha256, facts.sha256);
	protocol_hex(d.root, facts.root);
	record = delta_write(&d, &run, client_now_ms(c));
	snprintf(path, sizeof path, "/v1/delta/%s/%llu", key.address,
		(unsigned long long)turn.turn);
	if (client_post(c, path, record, "turn", &r) < 0 && !c->abort)
		die("posting the record");
	status = r.status;
	json_decref(record);
	http_response_release(&r);
	return status;
}

/* The statuses of two records that were sent at once. */
static _Atomic int taken, statuses[2];

static void *post_apart(void *unused)
{
	struct client c = connection();
	int status = post(&c);

	(void)unused;
	statuses[taken++] = status;
	http_release(&c.http);
	return NULL;
}

static const char *state_of_turn(struct client *c)
{
	static char state[32];
	struct http_response r = HTTP_RESPONSE_INIT;
	struct client_request q = { .method = "GET", .sign = true };
	json_t *answer;
	char path[256];

	snprintf(path, sizeof path, "/v1/delta/%s/%llu", key.address,
		(unsigned long long)turn.turn);
	q.path = path;
	if (client_send(c, &q, &r) < 0 || r.status != 200)
		die("asking for pieces");
	answer = json_parse_object(buf_text(&r.body), r.body.len, "pieces");
	snprintf(state, sizeof state, "%s",
		json_string_value(json_object_get(answer, "state")));
	json_decref(answer);
	http_response_release(&r);
	return state;
}

static void check_pieces(struct client *c)
{
	char other[4] = "abc";

	CHECK(protocol_pieces(container.len, run.piece_bytes) > 8);
	CHECK_I64(201, put_range(c, 0, 3));
	CHECK_I64(200, put_range(c, 1, 3));
	/* what is there stays, and is not written over by what comes with it */
	CHECK_I64(409, put(c, 1, other, sizeof other));
	CHECK_I64(201, put_range(c, 2, 5));
	CHECK_I64(400, put(c, 5, other, 0));
	CHECK_I64(400, put(c, UINT64_C(1) << 40, other, sizeof other));
	CHECK_I64(400,
		put(c, protocol_pieces(container.len, run.piece_bytes) - 1,
			container.data, 3 * run.piece_bytes));
}

/* A record before its pieces is refused, and may come again behind them, also twice at once. */
static void check_record(struct client *c)
{
	uint64_t pieces = protocol_pieces(container.len, run.piece_bytes);
	pthread_t threads[2];

	CHECK_I64(409, post(c));
	CHECK_I64(201, put_range(c, 5, pieces - 1));
	CHECK_I64(409, post(c));
	CHECK_TEXT("open", state_of_turn(c));
	CHECK_I64(201, put_range(c, pieces - 1, pieces));
	for (int i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, post_apart, NULL) != 0)
			die("a thread");
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	CHECK_I64(200, statuses[0]);
	CHECK_I64(200, statuses[1]);
	CHECK_I64(200, post(c));
	CHECK_I64(410, put_range(c, 0, 1));
}

/* A record that another thread posts; leave: breaks it off. */
struct posted {
	struct http_abort leave;
	pthread_t thread;
	_Atomic int status; /* -1: there is no answer yet */
};

static void *post_held(void *arg)
{
	struct posted *p = arg;
	struct client c = connection();
	int status;

	c.abort = &p->leave;
	status = post(&c);
	http_release(&c.http);
	p->status = status;
	return NULL;
}

/* A number of the coordinator's page of metrics. */
static int64_t metric(struct client *c, const char *name)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct client_request q = { .method = "GET", .path = "/metrics" };
	const char *line;
	int64_t is;

	if (client_send(c, &q, &r) < 0 || r.status != 200)
		die("reading metrics");
	line = strstr(buf_text(&r.body), name);
	is = line ? atoll(line + strlen(name)) : -1;
	http_response_release(&r);
	return is;
}

/* of the coordinator, until it is said to be wrong: below 15 s where nothing else runs */
#define POLLS 5000

/* What has no answer is broken off. */
static void end_posted(struct posted *p)
{
	for (int i = 0; i < POLLS && p->status < 0; i++)
		usleep(1000);
	http_abort(&p->leave);
	pthread_join(p->thread, NULL);
	http_abort_close(&p->leave);
}

/* Another worker, with a key of its own, takes the place of the one that speaks, and back. */
struct worker_of_test {
	struct key key;
	struct assignment turn;
};

static void speak_as(struct worker_of_test *now, struct worker_of_test *was)
{
	was->key = key;
	was->turn = turn;
	key = now->key;
	turn = now->turn;
}

static void wait_for_round(struct client *c, int64_t n)
{
	for (int i = 0; i < POLLS && metric(c, "\nrnp_train_round ") != n; i++)
		usleep(1000);
	CHECK_I64(n, metric(c, "\nrnp_train_round "));
}

/* A delta has its name, and round 2 closes without it: the files that nobody wants are removed
 * then. Round 3 counts it. */
static void check_late(struct client *c)
{
	struct worker_of_test first, late = { 0 };
	struct posted p = { .status = -1, .leave = HTTP_ABORT_INIT };

	if (key_generate(&late.key) < 0)
		die("a key");
	get_turn(c);
	speak_as(&late, &first);
	join(c);
	get_turn(c);
	speak_as(&first, &late);
	make_container();
	CHECK_I64(201, put_all(c));
	CHECK_I64(200, post(c));
	speak_as(&late, &first);
	make_container();
	CHECK_I64(201, put_all(c));
	*hold = true;
	if (http_abort_open(&p.leave) < 0 ||
		pthread_create(&p.thread, NULL, post_held, &p) != 0)
		die("a thread");
	for (int i = 0; i < POLLS && !*holding; i++)
		usleep(1000);
	CHECK(*holding);
	*ahead_s += 20; /* the deadline passes */
	wait_for_round(c, 3);
	CHECK_TEXT("absent", state_of_turn(c));
	*hold = false;
	end_posted(&p);
	CHECK_I64(200, p.status);
	CHECK_TEXT("late", state_of_turn(c));
	speak_as(&first, &late);
	get_turn(c);
	make_container();
	CHECK_I64(201, put_all(c));
	CHECK_I64(200, post(c));
	wait_for_round(c, 4);
	speak_as(&late, &first);
	CHECK_TEXT("counted", state_of_turn(c));
	speak_as(&first, &late);
}

static void *shared(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		-1, 0);

	if (at == MAP_FAILED)
		die("memory");
	return at;
}

int main(void)
{
	struct client c = connection();
	char remove[300];
	int status;
	pid_t pid;

	bench_name = "deliver";
	ahead_s = shared(sizeof *ahead_s);
	hold = shared(sizeof *hold);
	holding = shared(sizeof *holding);
	coordinator_main = run_coordinator;
	find_programs();
	pid = start();
	begin(&c);
	get_turn(&c);
	check_pieces(&c);
	check_record(&c);
	check_late(&c);
	http_release(&c.http);
	buf_release(&container);
	/* the sanitizers' build counts what it has not freed */
	kill(pid, SIGTERM);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	CHECK_I64(0, WEXITSTATUS(status));
	snprintf(remove, sizeof remove, "rm -rf '%s'", work);
	if (system(remove) != 0)
		die(remove);
	TEST_END();
}
