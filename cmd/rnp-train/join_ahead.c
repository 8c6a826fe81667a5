/* join_ahead.c - the update of a round is asked for before the round is closed, behind the delta that is to go
 * into it: the coordinator holds the request, and what it sends is one way of the link away and not three.
 *
 * Nothing depends on it. A coordinator that does not hold such requests says at once that there is no update,
 * and is asked again when it has named the next turn; as is one that broke off or took another round. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-train/container.h"
#include "cmd/rnp-train/join.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"

/* Who says "not yet" sooner has not held the request. */
#define HELD_MIN_NS (PROTOCOL_POLL_MS / 2 * INT64_C(1000000))

struct ahead {
	struct client client; /* from one turn to the next */
	struct net_bytes counted;
	struct http_abort stop, ended; /* ended: by the thread */
	pthread_t thread;
	bool runs;
	_Atomic bool needed; /* the round is closed: there is nothing to wait for */
	char base[PROTOCOL_HEX];
	char *path, *request; /* request: what is asked for */
	uint64_t bytes_max, bytes;
	int rc; /* 0: the update is there */
};

int worker_ahead_open(struct worker *w)
{
	struct ahead *a = xcalloc(1, sizeof *a);

	*a = (struct ahead){ .client = { .http = HTTP_INIT },
		.stop = HTTP_ABORT_INIT,
		.ended = HTTP_ABORT_INIT };
	w->ahead = a;
	return http_abort_open(&a->stop) < 0 || http_abort_open(&a->ended) < 0 ? -1 : 0;
}

void worker_ahead_close(struct worker *w)
{
	struct ahead *a = w->ahead;

	if (!a)
		return;
	worker_ahead(w, false);
	http_release(&a->client.http);
	http_abort_close(&a->stop);
	http_abort_close(&a->ended);
	free(a);
	w->ahead = NULL;
}

static void *ask(void *arg)
{
	struct ahead *a = arg;
	int64_t began_ns;

	do {
		began_ns = clock_mono_ns();
		a->rc = client_fetch_held(&a->client, a->request, a->path, a->bytes_max,
			&a->bytes);
	} while (a->rc == 1 && !a->needed && clock_mono_ns() - began_ns >= HELD_MIN_NS);
	http_abort(&a->ended);
	return NULL;
}

/* The worker's client as it is now, over the connections that there are. */
static void set_client(struct ahead *a, const struct worker *w)
{
	struct http http = a->client.http;

	a->client = w->client;
	a->client.http = http;
	a->client.abort = &a->stop;
}

void worker_ask_ahead(struct worker *w)
{
	struct ahead *a = w->ahead;
	struct update_range *ranges;
	struct buf request = BUF_INIT;
	uint64_t elements;

	if (!a || *w->stopped ||
		(a->runs && strcmp(a->base, w->state.base) == 0)) /* of an earlier turn */
		return;
	worker_ahead(w, false);
	memcpy(a->base, w->state.base, sizeof a->base);
	training_ranges(&w->run, w->state.version, &ranges, &elements);
	free(ranges);
	a->bytes_max = container_bytes_max(w->run.method_down, elements);
	a->bytes = w->update_bytes;
	buf_addf(&request, "/v1/update/%s?member=%s", a->base, w->key.address);
	a->request = request.data;
	a->path = join_state_path(&w->state, "params-update");
	set_client(a, w);
	http_abort_reset(&a->stop);
	http_abort_reset(&a->ended);
	a->needed = false;
	a->runs = pthread_create(&a->thread, NULL, ask, a) == 0;
	if (a->runs)
		return;
	free(a->request);
	free(a->path);
}

bool worker_ahead(struct worker *w, bool wanted)
{
	struct ahead *a = w->ahead;
	bool there;

	if (!a || !a->runs)
		return false;
	wanted = wanted && strcmp(a->base, w->state.base) == 0;
	a->needed = true;
	if (wanted)
		client_wait(&w->client, &a->ended, &a->stop);
	else
		http_abort(&a->stop);
	pthread_join(a->thread, NULL);
	a->runs = false;
	client_count_bytes(&a->client, &a->counted, &w->client);
	there = wanted && a->rc == 0;
	if (there)
		w->update_bytes = a->bytes;
	else if (a->rc == 0)
		unlink(a->path);
	free(a->request);
	free(a->path);
	return there;
}
