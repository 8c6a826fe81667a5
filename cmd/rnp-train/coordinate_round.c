/* coordinate_round.c - when a round closes, and what is done then. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd/rnp-train/coordinate.h"
#include "cmd/rnp-train/coordinate_db.h"
#include "cmd/rnp-train/coordinate_early.h"
#include "cmd/rnp-train/coordinate_parent.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"

#define TICK_NS   INT64_C(1000000000)
#define LINGER_NS (5 * TICK_NS) /* after the last record: those who ask are told */

/* --- what follows a round --------------------------------------------------------------------- */

/* The model, measured where there is a text for it, and the records. */
static void *write_round(void *arg)
{
	struct coordinator *g = arg;
	int rc = coordinate_export(g);

	if (rc == 0)
		rc = coordinate_records(g);
	pthread_mutex_lock(&g->lock);
	if (rc < 0)
		err_save(&g->writer.failed);
	g->writer.done = true;
	pthread_cond_signal(&g->wake);
	pthread_mutex_unlock(&g->lock);
	return NULL;
}

/* Workers get their next turns meanwhile. Called with the lock. */
static int start_writing(struct coordinator *g)
{
	g->writer = (struct writer){ .runs = true };
	if (pthread_create(&g->writer.thread, NULL, write_round, g) == 0)
		return 0;
	g->writer.runs = false;
	return err_sys(EX_OSERR, "cannot start a thread");
}

/* Waits until the last round is written: it reads files and arrays that the next one replaces. Called
 * without the lock. */
static int end_writing(struct coordinator *g)
{
	if (!g->writer.runs)
		return 0;
	pthread_join(g->writer.thread, NULL);
	g->writer.runs = false;
	return g->writer.failed.code ? err_restore(&g->writer.failed) : 0;
}

/* --- closing ---------------------------------------------------------------------------------- */

static int by_node(const void *a, const void *b)
{
	const struct counted *x = a, *y = b;
	int order = strcmp(x->node, y->node);

	return order ? order : (x->turn > y->turn) - (x->turn < y->turn);
}

/* The deltas of the closed round, in the order of members. */
static int find_deltas(struct coordinator *g, struct closed *x)
{
	x->c = xcalloc(g->r.ndeltas + 1, sizeof *x->c);
	for (size_t i = 0; i < g->r.ndeltas; i++) {
		const struct round_delta *d = &g->r.deltas[i];
		struct counted *c = &x->c[x->k];
		struct turn t;

		if (d->refused)
			continue;
		if (coordinate_db_turn_of(g, d->member, d->turn + 1, &t) != 1)
			return err_set(EX_DATAERR, "%s: lacks a turn of member %llu",
				g->db.path, (unsigned long long)d->member);
		*c = (struct counted){ .turn = t.turn,
			.member = d->member,
			.round = d->turn + 1,
			.weight_tokens = d->weight_tokens,
			.bytes = t.bytes,
			.first = t.first,
			.sequences = t.sequences };
		memcpy(c->node, t.node, sizeof c->node);
		memcpy(c->sha256, t.sha256, sizeof c->sha256);
		x->k++;
	}
	qsort(x->c, x->k, sizeof *x->c, by_node);
	return 0;
}

static int commit(struct coordinator *g, const struct closed *x)
{
	struct turn *all = NULL;
	struct buf text = BUF_INIT;
	json_t *facts;
	size_t n;
	int rc = coordinate_db_turns(g, g->round, &all, &n);

	if (rc == 0) {
		for (size_t i = x->k; i < x->k + x->refused; i++)
			round_refuse(&g->r, x->c[i].member, x->c[i].round - 1);
		facts = coordinate_facts(g, all, n, x);
		json_write(&text, facts);
		json_decref(facts);
		round_publish(&g->r, coordinate_now(g));
		if (x->up.away ? x->up.again : x->up.ends && !x->up.over)
			round_move(&g->r, x->up.next.first);
		rc = coordinate_db_commit_round(g, x, buf_text(&text));
	}
	buf_release(&text);
	free(all);
	return rc;
}

/* Called and returns with the lock; lets go of it while it computes. Nobody else changes the set of
 * deltas then: the round is closed. */
static int close_round(struct coordinator *g)
{
	struct closed x = { 0 };
	uint32_t live = (uint32_t)round_live(&g->r);
	int rc;

	/* a kill may have left it closed */
	if (g->r.phase == ROUND_OPEN)
		round_close(&g->r, coordinate_now(g));
	rc = find_deltas(g, &x);
	if (rc == 0)
		rc = coordinate_parent_due(g, &x);
	/* what goes to the parent is a function of these deltas, also after a kill */
	if (rc == 0 && x.up.ends)
		rc = coordinate_db_keep(g);
	if (rc == 0) {
		pthread_mutex_unlock(&g->lock);
		rc = end_writing(g);
		if (rc == 0)
			rc = coordinate_judge(g, &x);
		if (rc == 0)
			rc = coordinate_compute(g, &x, live);
		pthread_mutex_lock(&g->lock);
	}
	if (rc == 0)
		rc = commit(g, &x);
	coordinate_early_end(g, rc == 0);
	if (rc == 0 && g->over)
		rc = coordinate_receipts(g, NULL);
	free(x.c);
	return rc;
}

/* Behind the commit. */
static int after_round(struct coordinator *g)
{
	int rc = coordinate_answer(g);

	round_tick(&g->r, coordinate_now(g));
	if (rc == 0)
		rc = coordinate_answer(g);
	coordinate_db_sweep(g);
	return rc == 0 ? start_writing(g) : rc;
}

/* Closes the round if it is time. Returns 1 where it was, 0, or -1 with err_set(). */
static int close_if_due(struct coordinator *g)
{
	enum round_phase was = g->r.phase;

	if (g->over)
		return 0;
	if (coordinate_miss(g) < 0)
		return -1;
	if (g->r.phase == ROUND_CLOSED || round_tick(&g->r, coordinate_now(g)))
		return close_round(g) < 0 || after_round(g) < 0 ? -1 : 1;
	/* members that waited for the quorum may begin */
	return was != g->r.phase ? (coordinate_answer(g) < 0 ? -1 : 1) : 0;
}

static void wait_more(struct coordinator *g)
{
	int64_t ns = clock_mono_ns() + TICK_NS, other = coordinate_next_answer(g);
	int64_t next = round_next(&g->r);
	struct timespec until;

	if (other < ns)
		ns = other;
	if (next != ROUND_NEVER && next * 1000000 < ns)
		ns = next * 1000000 + 1000000;
	until.tv_sec = ns / 1000000000;
	until.tv_nsec = ns % 1000000000;
	pthread_cond_timedwait(&g->wake, &g->lock, &until);
}

void *coordinate_rounds(void *ctx)
{
	struct coordinator *g = ctx;
	int64_t over_ns = 0;
	int rc = coordinate_records(g);

	pthread_mutex_lock(&g->lock);
	while (rc >= 0 && !g->stop) {
		rc = coordinate_answer(g);
		if (rc == 0 && g->writer.done && g->writer.failed.code)
			rc = err_restore(&g->writer.failed);
		if (rc == 0 && g->printer.failed.code)
			rc = err_restore(&g->printer.failed);
		if (rc == 0)
			rc = close_if_due(g);
		if (rc == 0 && g->over) {
			if (!over_ns && (!g->writer.runs || g->writer.done))
				over_ns = clock_mono_ns() + LINGER_NS;
			if (over_ns && clock_mono_ns() >= over_ns)
				break;
		}
		if (rc == 0)
			wait_more(g);
	}
	pthread_mutex_unlock(&g->lock);
	if (end_writing(g) < 0 && rc >= 0)
		rc = -1;
	pthread_mutex_lock(&g->lock);
	/* what a signal ended is begun again by the next start */
	if (rc < 0 && !(g->stop && g->parent))
		err_save(&g->failed);
	g->stop = true;
	coordinate_answer(g);
	pthread_mutex_unlock(&g->lock);
	kill(getpid(), SIGTERM); /* httpd_wait ends */
	return NULL;
}
