/* open.c - what a worker and a judge open in the same way: signals, the run's record, the state's
 * directory, key and device. */
#include "cmd/rnp-train/worker/worker.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/cli/prog.h"
#include "common/hw/device.h"
#include "common/json/json.h"

/* --- stopping --------------------------------------------------------------------------------- */

static _Atomic int stopped;
static struct http_abort stop_switch = HTTP_ABORT_INIT;

static void on_signal(int number)
{
	stopped = number;
	http_abort(&stop_switch);
}

int worker_watch(struct worker *w)
{
	struct sigaction a = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	w->stopped = &stopped;
	http_abort_close(&stop_switch); /* of the process that started the ranks */
	if (http_abort_open(&stop_switch) < 0)
		return -1;
	sigaction(SIGTERM, &a, NULL);
	sigaction(SIGINT, &a, NULL);
	/* at SIGTERM mpirun kills the ranks a moment later */
	if (w->o.mpi)
		sigaction(SIGUSR1, &a, NULL);
	return 0;
}

int worker_stop_signal(void)
{
	return stopped;
}

/* --- opening ---------------------------------------------------------------------------------- */

/* Without --key and without the default key file the worker gets a key for this run. */
static int load_key(struct worker *w)
{
	struct buf path = BUF_INIT;
	char *own = join_state_path(&w->state, "key.json");
	int rc = 0;

	if (!w->o.key)
		rc = key_default_path(&path);
	if (rc == 0 && (w->o.key || access(buf_text(&path), F_OK) == 0)) {
		rc = key_load(&w->key, w->o.key, NULL);
		goto out;
	}
	err_clear();
	w->own_key = true;
	if (access(own, F_OK) == 0) {
		rc = key_load(&w->key, own, NULL);
	} else {
		rc = key_generate(&w->key);
		if (rc == 0)
			rc = key_save(&w->key, own, NULL);
	}
	if (rc == 0)
		prog_info(
			"no key file: '%s' is for this run alone, and nobody will pay for it",
			own);
out:
	free(own);
	buf_release(&path);
	return rc;
}

static int open_run(struct worker *w)
{
	json_t *record = client_run(&w->client);
	int rc = record ? training_read(&w->run, record, "the run's record") : -1;

	if (rc == 0)
		memcpy(w->client.run, w->run.name, sizeof w->client.run);
	else if (err_get()->code == EX_NOPERM) {
		/* a record that nobody signed is malformed to us */
		err_set(EX_DATAERR, "the run's record: is not signed by its coordinator");
	}
	w->record = record;
	return rc;
}

static int open_state(struct worker *w, const char *below)
{
	struct buf root = BUF_INIT;
	int rc = w->o.state ? (buf_adds(&root, w->o.state), 0) :
			      join_state_default(&root);

	if (rc == 0 && below)
		buf_addf(&root, "/%s", below);
	if (rc == 0)
		rc = join_state_open(&w->state, buf_text(&root), &w->run);
	w->work.tokens = w->state.tokens;
	buf_release(&root);
	return rc;
}

static void set_client(struct worker *w, const struct key *key,
	const struct http_abort *abort)
{
	w->client = (struct client){ .http = HTTP_INIT,
		.url = w->o.url,
		.ca = w->o.ca,
		.proxy = w->o.proxy,
		.key = key,
		.give_up_ms = w->o.give_up_ms,
		.up_max = w->o.up_max,
		.down_max = w->o.down_max,
		.abort = abort };
}

int worker_open_as(struct worker *w, const struct key *key,
	const struct http_abort *abort, const _Atomic int *stopped_by)
{
	w->stopped = stopped_by;
	set_client(w, key, abort);
	memcpy(w->key.address, key->address, sizeof w->key.address);
	return open_run(w) < 0 ? -1 : open_state(w, NULL);
}

int worker_open(struct worker *w, const char *below)
{
	set_client(w, &w->key, &stop_switch);
	if (worker_watch(w) < 0 || open_run(w) < 0 || open_state(w, below) < 0 ||
		load_key(w) < 0)
		return -1;
	return device_open(&w->d, w->o.device);
}

/* Counts the bytes of the last turn. The worker ends, with or without an error, which stays. */
static void count_last_bytes(struct worker *w)
{
	struct err ended;
	int64_t bytes;

	if (!w->o.quota || !w->state.dir)
		return;
	err_save(&ended);
	if (worker_count_bytes(w, &bytes) < 0)
		prog_warn("the bytes of the last turn are not counted: %s",
			err_get()->text);
	err_restore(&ended);
}

void worker_close(struct worker *w)
{
	/* where it ended with an error; else work() has said what came of it */
	if (w->persisting.runs)
		pthread_join(w->persisting.thread, NULL);
	free(w->persisting.container);
	worker_deliver_drop(w);
	count_last_bytes(w);
	for (int i = 0; w->delivery.uplinks && i < CLIENT_CONNECTIONS_MAX; i++)
		http_release(&w->delivery.uplinks[i].client.http);
	free(w->delivery.uplinks);
	lm_loop_close(&w->loop);
	json_decref(w->record);
	buf_release(&w->text.now);
	buf_release(&w->text.next);
	dev_close(&w->coder);
	dev_close(&w->d);
	lm_shards_close(&w->text.shards);
	join_state_close(&w->state);
	key_release(&w->key);
	http_release(&w->client.http);
	http_abort_close(&stop_switch);
}
