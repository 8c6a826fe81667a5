/* join.c - rnp-train join: a worker: asks a coordinator for work, trains, sends what it learnt. */
#include "cmd/rnp-train/worker/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/rnp-train/commands.h"
#include "cmd/rnp-train/worker/ranks.h"
#include "cmd/rnp-train/options.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"

static struct worker_options options = { .every = 10, .give_up_ms = 600000 };

static const struct opt opts[] = {
	OPT_RUN_SHARDS(&options.data),
	OPT_SWITCH("once", &options.once, "one turn, then end (for cron)"),
	OPT_STATE(&options.state, "what it has between turns"),
	OPT_MICRO_BATCH(&options.micro, "the run's batch"),
	OPT_STEP_EVERY(&options.every, "10"),
	OPT_GIVE_UP(&options.give_up_ms, "coordinator"),
	OPT(SIZE, "limit-up", &options.up_max, "RATE",
		"bytes a second at most that it sends", .min = 1024),
	OPT(SIZE, "limit-down", &options.down_max, "RATE", "and receives", .min = 1024),
	OPT(SIZE, "quota", &options.quota, "BYTES",
		"a month, both ways and of all runs: end when they are used up",
		.min = 1),
	OPT(SIZE, "disk", &options.disk, "BYTES",
		"of the state at most; text that is larger comes turn by turn", .min = 1),
	OPT_SWITCH("plan", &options.plan,
		"print what memory and disk the run takes, and do not join"),
	OPT_CA(&options.ca),
	OPT_PROXY(&options.proxy),
	OPT_SWITCH("mpi", &options.mpi,
		"one worker of all the processes that mpirun started"),
	OPT_KEY(&options.key),
	OPT_GPUS(&options.device),
	{ 0 },
};

/* --- opening ---------------------------------------------------------------------------------- */

static int open_loop(struct worker *w)
{
	struct lm_loop_options l;
	uint64_t rows;

	if (worker_share_batch(w, &rows) < 0)
		return -1;
	worker_loop_options(w, rows, &l);
	if (worker_plan(w, &l.train) < 0 || w->o.plan)
		return w->o.plan ? 0 : -1;
	if (worker_open_data(w) < 0 || worker_lead_run(w, rows, &l.train) < 0)
		return -1;
	return lm_loop_open(&w->loop, &w->d, &l);
}

/* What a signal interrupts is kept; only a reader of standard output that does not read could keep
 * the end from coming. */
static bool is_stopped(void)
{
	const struct timespec pause = { 1, 0 };

	if (!worker_stop_signal())
		nanosleep(&pause, NULL);
	return worker_stop_signal();
}

static int open_worker(struct worker *w)
{
	if (worker_open(w, NULL) < 0 || out_end_where_blocked(is_stopped) < 0)
		return -1;
	return open_loop(w);
}

/* --- work ------------------------------------------------------------------------------------- */

/* Returns whether the coordinator answered. */
static bool leave(struct worker *w)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	char path[128];
	struct client_request q = { .method = "POST",
		.has = "left",
		.sign = true,
		.timeout_ms = 5000 };
	int rc;

	snprintf(path, sizeof path, "/v1/leave?member=%s", w->key.address);
	q.path = path;
	w->client.give_up_ms = 1;
	if (*w->stopped)
		http_abort_reset(w->client.abort);
	rc = client_send(&w->client, &q, &r);
	http_response_release(&r);
	if (rc < 0) {
		prog_warn("cannot say goodbye: %s", err_get()->text);
		err_clear();
	}
	return rc == 0;
}

/* Prints the records that the coordinator has signed for us. */
static int write_receipts(struct worker *w)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	char path[128];
	struct client_request q = { .method = "GET" };
	int rc;

	snprintf(path, sizeof path, "/v1/receipts/%s", w->key.address);
	q.path = path;
	w->client.give_up_ms = 5000;
	rc = client_send(&w->client, &q, &r);
	for (char *line = r.body.data, *end; rc == 0 && r.status == 200 && line && *line;
		line = end) {
		json_t *record;

		end = strchr(line, '\n');
		end = end ? end + 1 : line + strlen(line);
		record = json_parse_object(line, (size_t)(end - line), "rnp.receipt");
		if (record && json_check_kind(record, "rnp.receipt", "rnp.receipt") == 0)
			rc = out_record(record);
		json_decref(record);
	}
	http_response_release(&r);
	return rc;
}

/* A turn from asking to delivery. Returns 0; 1: nothing came of it; 2: join again; -1. */
static int turn(struct worker *w)
{
	struct assignment a;
	int64_t bytes;
	int rc = worker_quota(w);

	if (rc == 0 && training_streams(&w->run))
		return worker_stream(w);
	if (rc == 0)
		rc = worker_ask(w, false, &a);
	if (rc)
		return rc;
	rc = worker_fetch_params(w, a.base, a.round - 1);
	if (rc == 0 && w->o.quota)
		rc = worker_count_bytes(w, &bytes);
	if (rc == 0)
		rc = worker_get_text(w, &a, &w->text.now);
	w->text.first = a.first;
	if (rc == 0)
		rc = worker_train(w, &a);
	if (rc)
		return rc;
	return worker_deliver(w);
}

/* a coordinator that does not answer for so long does not keep a worker that was stopped */
#define STOPPED_MS 5000

/* A delta that is whole is delivered also now; it is kept, and else goes with the next start.
 * Returns whether the coordinator answered. */
static bool deliver_stopped(struct worker *w)
{
	bool answers = true;

	w->client.answer_ms = STOPPED_MS;
	w->client.give_up_ms = STOPPED_MS / 2; /* not a second time */
	if (w->state.pending) {
		http_abort_reset(w->client.abort);
		answers = worker_deliver(w) == 0;
	}
	if (!answers)
		prog_warn("the delta is kept, and not delivered: %s", err_get()->text);
	err_clear();
	return answers;
}

static int work(struct worker *w)
{
	int rc = worker_join(w);
	bool joined = rc >= 0, reported = false;

	if (rc == 0 && w->state.pending)
		rc = worker_deliver(w);
	while (rc == 0 && !*w->stopped) {
		int64_t began_ns = clock_mono_ns();

		rc = turn(w);
		/* steps of the next turns go by speed */
		if (rc == 0 && w->run.outer == UPDATE_DN && !reported && !w->o.once) {
			reported = true;
			rc = worker_join(w);
		}
		if (rc == 0 && w->o.once)
			break;
		if (rc == 1 || rc == 2) {
			client_pace(&w->client, began_ns);
			rc = rc == 2 && !*w->stopped ? worker_join(w) : 0;
		}
	}
	if (*w->stopped && rc < 0) {
		err_clear();
		rc = 0;
	}
	if (rc == 0 && *w->stopped)
		joined = deliver_stopped(w) && joined;
	if (rc >= 0 && worker_persisted(w) < 0)
		rc = -1;
	if (rc == 0 && joined)
		joined = leave(w);
	if (rc >= 0 && joined)
		rc = write_receipts(w) < 0 ? 0 : rc;
	return rc < 0 ? -1 : 0;
}

/* The worker, or rank 0 of it. */
static int lead(struct worker *w)
{
	int rc = open_worker(w);

	if (rc == 0 && !w->o.plan)
		return work(w);
	if (w->stopped && *w->stopped && !w->group.apart) {
		err_clear();
		return 0;
	}
	return rc;
}

/* This process as a worker, or as one rank of it. */
static int run_rank(struct launch *l)
{
	struct worker w = WORKER_INIT;
	int rc = 0;

	w.o = options;
	if (l->n)
		w.o.device = l->names[l->rank < 0 ? 0 : l->rank];
	if (l->n > 1 && w.o.plan && !w.o.mpi)
		w.group.size = l->n; /* of its first rank */
	if (w.o.mpi || l->rank >= 0)
		rc = worker_open_ranks(&w, l, w.o.mpi);
	if (rc == 0)
		rc = w.group.rank ? worker_follow(&w) : lead(&w);
	worker_close_ranks(&w, l, rc < 0);
	worker_close(&w);
	return rc;
}

static int run(int n, char **args)
{
	struct launch launch = LAUNCH_INIT;
	int rc = launch_devices(&launch, options.device, options.mpi), code = EX_OK;

	(void)n;
	options.url = args[0];
	if (rc == 0 && launch.n > 1 && !options.mpi && !options.plan) {
		struct worker before = WORKER_INIT;

		worker_watch(&before);
		if (launch_ranks(&launch, &code)) {
			io_watch_signals(); /* what this process writes */
			rc = run_rank(&launch);
		}
	} else if (rc == 0) {
		rc = run_rank(&launch);
	}
	launch_release(&launch);
	return rc < 0 ? err_report() : code;
}

const struct command command_join = {
	.name = "join",
	.arguments = "URL",
	.args_min = 1,
	.args_max = 1,
	.summary = "Train for a coordinator, from behind any home link.",
	.details =
		"Asks the coordinator at URL for turns, trains them, sends what it learnt, and "
		"writes rnp.step\nand rnp.receipt records. Ends with 0 when the run is over, or "
		"on SIGTERM. See coordinate.",
	.opts = opts,
	.run = run,
};
