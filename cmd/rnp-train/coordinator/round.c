/* round.c - when a round closes, and what is done then. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd/rnp-train/coordinator/coordinator.h"
#include "cmd/rnp-train/coordinator/db.h"
#include "cmd/rnp-train/coordinator/page.h"
#include "cmd/rnp-train/coordinator/parent.h"
#include "cmd/rnp-train/coordinator/files.h"
#include "cmd/rnp-train/coordinator/judging.h"
#include "cmd/rnp-train/coordinator/pieces.h"
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
	if (rc == 0 && coordinate_keep_page(g) < 0)
		err_clear(); /* the end tries again, and says so */
	pthread_mutex_lock(&g->rounds.lock);
	if (rc < 0)
		err_save(&g->printing.writer.failed);
	g->printing.writer.done = true;
	pthread_cond_signal(&g->rounds.wake);
	pthread_mutex_unlock(&g->rounds.lock);
	return NULL;
}

/* Workers get their next turns meanwhile. Called with the lock. */
static int start_writing(struct coordinator *g)
{
	g->printing.writer = (struct writer){ .runs = true };
	if (pthread_create(&g->printing.writer.thread, NULL, write_round, g) == 0)
		return 0;
	g->printing.writer.runs = false;
	return err_sys(EX_OSERR, "cannot start a thread");
}

/* Waits until the last round is written: it reads files and arrays that the next one replaces.
 * Called without the lock. */
static int end_writing(struct coordinator *g)
{
	if (!g->printing.writer.runs)
		return 0;
	pthread_join(g->printing.writer.thread, NULL);
	g->printing.writer.runs = false;
	return g->printing.writer.failed.code ? err_restore(&g->printing.writer.failed) :
						0;
}

/* --- closing ---------------------------------------------------------------------------------- */

static int by_node(const void *a, const void *b)
{
	const struct counted *x = a, *y = b;
	int order = strcmp(x->node, y->node);

	return order ? order : (x->turn > y->turn) - (x->turn < y->turn);
}

/* Rounds of the run from this one on; UINT64_MAX: nobody knows. */
static uint64_t rounds_left(const struct coordinator *g)
{
	uint64_t all = training_rounds(&g->run);

	if (!all || g->parent)
		return UINT64_MAX;
	return all > g->rounds.round ? all - g->rounds.round + 1 : 1;
}

/* The longest block of a member: what makes --judge of each round's deltas; one turn while judging
 * speaks against the member; and no longer than the run lasts. */
static int longest_block(struct coordinator *g, const char *node, size_t k,
	uint64_t *turns)
{
	uint64_t n = g->o.judge == JUDGE_TENTH ? (k + 9) / 10 : (uint64_t)g->o.judge;
	uint64_t left = rounds_left(g);
	int64_t score;
	int rc = coordinate_db_score(g, node, &score);

	*turns = score < 0 ? 1 : (k + n - 1) / n;
	if (*turns > left)
		*turns = left;
	return rc;
}

/* Which of the deltas are judged. At the end of the run that is also the last of a block that is
 * not full and was not judged: it speaks for itself then. */
static int draw_turns(struct coordinator *g, struct closed *x)
{
	struct judge_block b = { 0 };

	for (size_t i = 0; g->o.judge && i < x->k; i++) {
		struct counted *c = &x->c[i];
		uint64_t most;

		if (i && strcmp(x->c[i - 1].node, c->node) == 0)
			b.turns = b.made < b.turns ? b.turns : 0;
		else if (coordinate_db_block(g, c->node, &b) < 0)
			return -1;
		if (longest_block(g, c->node, x->k, &most) < 0)
			return -1;
		c->drawn = judge_block_turn(&b, most, judging_draw(UINT64_MAX));
		c->block = b;
		c->final = i + 1 == x->k || strcmp(x->c[i + 1].node, c->node) != 0;
		if (c->final && rounds_left(g) == 1 && b.made < b.place)
			c->drawn = true;
	}
	return 0;
}

/* The deltas of the closed round, in the order of members. */
static int find_deltas(struct coordinator *g, struct closed *x)
{
	x->c = xcalloc(g->rounds.r.ndeltas + 1, sizeof *x->c);
	for (size_t i = 0; i < g->rounds.r.ndeltas; i++) {
		const struct round_delta *d = &g->rounds.r.deltas[i];
		struct counted *c = &x->c[x->k];
		struct turn t;

		if (d->refused)
			continue;
		if (coordinate_db_turn_of(g, d->member, d->turn + 1, &t) != 1)
			return err_set(EX_DATAERR, "%s: lacks a turn of member %llu",
				g->rounds.db.path, (unsigned long long)d->member);
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
	return draw_turns(g, x);
}

static int commit(struct coordinator *g, const struct closed *x)
{
	struct turn *all = NULL;
	struct buf text = BUF_INIT;
	json_t *facts;
	size_t n;
	int rc = coordinate_db_turns(g, g->rounds.round, &all, &n);

	if (rc == 0) {
		for (size_t i = x->k; i < x->k + x->refused; i++)
			round_refuse(&g->rounds.r, x->c[i].member, x->c[i].round - 1);
		facts = coordinate_facts(g, all, n, x);
		json_write(&text, facts);
		json_decref(facts);
		round_publish(&g->rounds.r, coordinate_now(g));
		if (x->up.away ? x->up.again : x->up.ends && !x->up.over)
			round_move(&g->rounds.r, x->up.next.first);
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
	uint32_t live = (uint32_t)round_live(&g->rounds.r);
	int rc;

	/* a kill may have left the round closed and not committed */
	if (g->rounds.r.phase == ROUND_OPEN)
		round_close(&g->rounds.r, coordinate_now(g));
	rc = find_deltas(g, &x);
	if (rc == 0)
		rc = coordinate_parent_due(g, &x);
	/* what goes to the parent is a function of these deltas, also after a kill */
	if (rc == 0 && x.up.ends)
		rc = coordinate_db_keep(g);
	if (rc == 0) {
		pthread_mutex_unlock(&g->rounds.lock);
		rc = end_writing(g);
		if (rc == 0)
			rc = coordinate_judge(g, &x);
		if (rc == 0)
			rc = coordinate_compute(g, &x, live);
		if (rc == 0)
			coordinate_judge_copies(&x);
		pthread_mutex_lock(&g->rounds.lock);
	}
	if (rc == 0)
		rc = commit(g, &x);
	uploads_forget(g);
	if (rc == 0 && g->rounds.over)
		rc = coordinate_receipts(g, NULL);
	free(x.c);
	return rc;
}

/* Hands out the next turns and removes old files, after the commit. */
static int after_round(struct coordinator *g)
{
	int rc = coordinate_answer(g);

	round_tick(&g->rounds.r, coordinate_now(g));
	if (rc == 0)
		rc = coordinate_answer(g);
	coordinate_db_sweep(g);
	return rc == 0 ? start_writing(g) : rc;
}

/* Closes the round if it is time. Returns 1 where it was, 0, or -1 with err_set(). */
static int close_if_due(struct coordinator *g)
{
	enum round_phase was = g->rounds.r.phase;

	if (g->rounds.over)
		return 0;
	if (coordinate_miss(g) < 0)
		return -1;
	if (g->rounds.r.phase == ROUND_CLOSED ||
		round_tick(&g->rounds.r, coordinate_now(g)))
		return close_round(g) < 0 || after_round(g) < 0 ? -1 : 1;
	/* members that waited for the quorum may begin */
	return was != g->rounds.r.phase ? (coordinate_answer(g) < 0 ? -1 : 1) : 0;
}

static void wait_more(struct coordinator *g)
{
	int64_t ns = clock_mono_ns() + TICK_NS, other = coordinate_next_answer(g);
	int64_t next = round_next(&g->rounds.r);
	struct timespec until;

	if (other < ns)
		ns = other;
	if (next != ROUND_NEVER && next * 1000000 < ns)
		ns = next * 1000000 + 1000000;
	until.tv_sec = ns / 1000000000;
	until.tv_nsec = ns % 1000000000;
	pthread_cond_timedwait(&g->rounds.wake, &g->rounds.lock, &until);
}

void *coordinate_rounds(void *ctx)
{
	struct coordinator *g = ctx;
	int64_t over_ns = 0;
	int rc = coordinate_records(g);

	pthread_mutex_lock(&g->rounds.lock);
	while (rc >= 0 && !g->rounds.stop) {
		rc = coordinate_answer(g);
		if (rc == 0 && g->printing.writer.done && g->printing.writer.failed.code)
			rc = err_restore(&g->printing.writer.failed);
		if (rc == 0 && g->printing.printer.failed.code)
			rc = err_restore(&g->printing.printer.failed);
		if (rc == 0)
			rc = close_if_due(g);
		if (rc == 0 && g->rounds.over) {
			if (!over_ns &&
				(!g->printing.writer.runs || g->printing.writer.done))
				over_ns = clock_mono_ns() + LINGER_NS;
			if (over_ns && clock_mono_ns() >= over_ns)
				break;
		}
		if (rc == 0) {
			coordinate_say_waits(g);
			wait_more(g);
		}
	}
	pthread_mutex_unlock(&g->rounds.lock);
	if (end_writing(g) < 0 && rc >= 0)
		rc = -1;
	pthread_mutex_lock(&g->rounds.lock);
	/* a signal that ended the exchange with the parent is no failure: the next start repeats
	 * it */
	if (rc < 0 && !(g->rounds.stop && g->parent))
		err_save(&g->rounds.failed);
	g->rounds.stop = true;
	coordinate_answer(g);
	pthread_mutex_unlock(&g->rounds.lock);
	kill(getpid(), SIGTERM); /* httpd_wait ends */
	return NULL;
}
