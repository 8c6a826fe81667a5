/* coordinate_round.c - when a round closes, and what is written of it. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd/rnp-train/coordinate.h"
#include "cmd/rnp-train/coordinate_db.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/stats.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/lm/train/flat.h"
#include "common/record/signature.h"

#define ARRIVALS     32    /* past arrivals that the deadline is made of */
#define DEADLINE_MIN 1.0e9 /* ns: what one slow scheduling may take */
#define TICK_NS      INT64_C(1000000000)

/* --- when ------------------------------------------------------------------------------------- */

struct arrivals {
	size_t open, delivered;
};

static int count_turns(struct coordinator *g, struct arrivals *a)
{
	struct turn *all;
	size_t n;
	int rc = coordinate_db_turns(g, g->round, &all, &n);

	*a = (struct arrivals){ 0 };
	for (size_t i = 0; i < n; i++) {
		a->open += strcmp(all[i].state, "open") == 0;
		a->delivered += strcmp(all[i].state, "delivered") == 0;
	}
	free(all);
	return rc;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double middle(double *v, int n)
{
	qsort(v, (size_t)n, sizeof *v, by_value);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* Median and 3 median absolute deviations of the last arrivals, from the opening of the round; with
 * no arrivals of earlier rounds, three times the first of this one. INT64_MAX: there is none yet. */
static int64_t deadline_ns(struct coordinator *g)
{
	double ms[ARRIVALS], far[ARRIVALS], median, ns;
	int n = coordinate_db_offsets(g, ms, ARRIVALS);

	if (!g->first_ns)
		return INT64_MAX;
	if (n < 4) {
		ns = 3.0 * (double)(g->first_ns - g->opened_ns);
	} else {
		median = middle(ms, n);
		for (int i = 0; i < n; i++)
			far[i] = fabs(ms[i] - median);
		ns = (median + 3 * middle(far, n)) * 1e6;
	}
	if (ns < (double)(g->first_ns - g->opened_ns) + DEADLINE_MIN)
		ns = (double)(g->first_ns - g->opened_ns) + DEADLINE_MIN;
	return g->opened_ns + (int64_t)ns;
}

/* --- a round's record ------------------------------------------------------------------------- */

static int64_t ppm(double part, double whole)
{
	return whole > 0 && isfinite(part) ? llround(part / whole * 1e6) : 0;
}

static json_t *member_facts(const struct turn *t, const struct counted *c,
	double theta_norm)
{
	json_t *m = json_object();
	bool delivered = t->sha256[0] != '\0';

	json_set_text(m, "member", t->node);
	json_set_i64(m, "turn", (int64_t)t->turn);
	json_set_i64(m, "first", (int64_t)t->first);
	json_set_i64(m, "steps", (int64_t)t->steps);
	json_set_i64(m, "tokens", (int64_t)t->tokens);
	if (delivered) {
		json_set_text(m, "sha256", t->sha256);
		json_set_i64(m, "norm_ppm", ppm(t->norm, theta_norm));
	}
	if (c) {
		json_set_i64(m, "cosine_ppm", ppm(c->cosine, 1));
		json_set_i64(m, "weight_ppm", ppm(c->weight, 1));
	}
	json_set_text(m, "state",
		c                                     ? "counted" :
			strcmp(t->state, "open") == 0 ? "absent" :
							t->state);
	return m;
}

static const struct counted *find(const struct counted *c, size_t k, uint64_t turn)
{
	for (size_t i = 0; i < k; i++)
		if (c[i].turn == turn)
			return &c[i];
	return NULL;
}

/* Facts of the record that are known when the round closes, for the database. */
static json_t *round_facts(struct coordinator *g, const struct turn *all, size_t n,
	const struct counted *c, size_t k, const struct closed *closed)
{
	json_t *r = json_record("rnp.round"), *members = json_array();
	json_t *waited = json_object();
	int64_t now_ms = clock_now_ms(), loss = 0, tokens = 0, busy_ms = 0;
	double wall_ms = (double)(clock_mono_ns() - g->opened_ns) / 1e6;

	for (size_t i = 0; i < n; i++) {
		const struct counted *of = find(c, k, all[i].turn);

		json_push(members, member_facts(&all[i], of, closed->theta_norm));
		if (!of)
			continue;
		loss += all[i].loss_last / (int64_t)k;
		tokens += (int64_t)all[i].tokens;
		busy_ms += all[i].seconds * 1000;
	}
	json_set_text(r, "node", g->key.address);
	json_set_text(r, "run", g->run.name);
	json_set_i64(r, "round", (int64_t)g->round);
	json_set_time(r, "from", g->opened_ms);
	json_set_time(r, "to", now_ms);
	json_set_text(r, "base", g->base);
	json_set_text(r, "model", closed->model);
	json_set_text(r, "outer", protocol_outer_names[g->run.outer]);
	json_set_i64(r, "workers", (int64_t)k);
	json_set_i64(r, "dropped", (int64_t)(n - k));
	json_set_i64(r, "loss_micronats", loss);
	json_set_i64(r, "outer_norm_ppm", ppm(closed->outer_norm, closed->theta_norm));
	json_set_i64(r, "tokens", tokens);
	json_set_i64(r, "seconds", (int64_t)(wall_ms / 1000));
	if (g->first_ns)
		json_set_i64(waited, "first", (g->first_ns - g->opened_ns) / 1000000);
	json_set(r, "waited", waited);
	json_set_i64(r, "compute_ppm", ppm((double)busy_ms, wall_ms * (double)k));
	json_set(r, "members", members);
	return r;
}

static int read_valid(void *arg, uint64_t n, uint32_t *ids)
{
	struct coordinator *g = arg;

	return lm_shards_get(&g->valid, n * g->run.length, (uint64_t)g->run.length + 1,
		ids);
}

/* The loss of pub, as it is behind the last round. */
static int validate(struct coordinator *g, double *loss)
{
	uint64_t windows = (g->valid.count - 1) / g->run.length;
	uint64_t most = (uint64_t)g->o.eval_tokens / g->run.length;
	struct flatfile pub = FLATFILE_INIT;
	char name[64];
	int rc;

	if (windows > most)
		windows = most ? most : 1;
	snprintf(name, sizeof name, "pub-%llu.f32", (unsigned long long)g->round - 1);
	rc = flatfile_open(&pub, g->dir, name, g->run.parameters);
	if (rc == 0)
		rc = lm_flat_set(g->eval.train, LM_STATE_PARAMETER, 0, pub.n, pub.x);
	if (rc == 0)
		rc = lm_loop_eval(&g->eval, read_valid, g, windows, loss);
	flatfile_close(&pub);
	return rc;
}

static int write_record(struct coordinator *g, uint64_t round, json_t *facts)
{
	int64_t now_ms = clock_now_ms();
	struct buf text = BUF_INIT;
	double loss;
	int rc = 0;

	/* of an older round the parameters are gone */
	if (g->o.valid && round + 1 == g->round) {
		rc = validate(g, &loss);
		if (rc == 0)
			json_set_i64(facts, "validation_loss_micronats",
				llround(loss * 1e6));
	}
	json_set_time(facts, "at", now_ms);
	if (rc == 0)
		rc = signature_add(facts, &g->key, now_ms);
	json_write(&text, facts);
	pthread_mutex_lock(&g->lock);
	if (rc == 0)
		rc = coordinate_db_write(g, round, buf_text(&text));
	pthread_mutex_unlock(&g->lock);
	if (rc == 0)
		rc = out_record(facts);
	buf_release(&text);
	return rc;
}

/* Receipts on standard output; one that was written and not noted is written again. */
static int write_receipts(struct coordinator *g)
{
	sqlite3_stmt *q = NULL;
	int64_t id = 0;
	int rc = 1;

	while (rc == 1) {
		json_t *record = NULL;

		pthread_mutex_lock(&g->lock);
		rc = store_prepare(&g->db, &q,
			"SELECT id, record FROM receipts WHERE written = 0 AND id > ?"
			" ORDER BY id LIMIT 1");
		if (rc == 0) {
			store_bind(q, "i", id);
			rc = store_step(&g->db, q);
		}
		if (rc == 1) {
			const char *text = store_text(q, 1);

			id = sqlite3_column_int64(q, 0);
			record = json_parse_object(text, strlen(text), "receipt");
		}
		sqlite3_finalize(q);
		pthread_mutex_unlock(&g->lock);
		if (record && out_record(record) < 0)
			rc = -1;
		json_decref(record);
	}
	if (rc == 0 && id) {
		pthread_mutex_lock(&g->lock);
		rc = store_prepare(&g->db, &q,
			"UPDATE receipts SET written = 1 WHERE id <= ?");
		if (rc == 0)
			rc = store_run(&g->db, q, "i", id);
		sqlite3_finalize(q);
		pthread_mutex_unlock(&g->lock);
	}
	return rc;
}

int coordinate_records(struct coordinator *g)
{
	int rc;

	do {
		uint64_t round;
		json_t *facts = NULL;

		pthread_mutex_lock(&g->lock);
		rc = coordinate_db_unwritten(g, &round, &facts);
		pthread_mutex_unlock(&g->lock);
		if (rc == 1 && write_record(g, round, facts) < 0)
			rc = -1;
		json_decref(facts);
	} while (rc == 1);
	return rc < 0 ? -1 : write_receipts(g);
}

/* --- closing ---------------------------------------------------------------------------------- */

static int commit(struct coordinator *g, struct turn *all, size_t n, struct counted *c,
	size_t k, const struct closed *closed)
{
	json_t *facts = round_facts(g, all, n, c, k, closed);
	struct buf text = BUF_INIT;
	int rc;

	json_write(&text, facts);
	rc = coordinate_db_commit_round(g, c, k, closed, buf_text(&text));
	buf_release(&text);
	json_decref(facts);
	return rc;
}

/* Called and returns with the lock; lets go of it while it computes. */
static int close_round(struct coordinator *g)
{
	struct turn *all = NULL;
	struct counted *c = NULL;
	struct closed closed;
	size_t n = 0, k = 0;
	int rc = coordinate_db_turns(g, g->round, &all, &n);

	if (rc < 0)
		return -1;
	c = xcalloc(n + 1, sizeof *c);
	for (size_t i = 0; i < n; i++)
		if (strcmp(all[i].state, "delivered") == 0) {
			c[k] = (struct counted){ .turn = all[i].turn,
				.tokens = all[i].tokens,
				.norm = all[i].norm };
			memcpy(c[k++].node, all[i].node, sizeof c->node);
		}
	g->closing = true;
	pthread_mutex_unlock(&g->lock);
	rc = coordinate_compute(g, c, k, &closed);
	pthread_mutex_lock(&g->lock);
	if (rc == 0) {
		free(all);
		all = NULL;
		rc = coordinate_db_turns(g, g->round, &all, &n);
	}
	if (rc == 0)
		rc = commit(g, all, n, c, k, &closed);
	g->closing = false;
	g->first_ns = 0;
	if (rc == 0 && g->over)
		rc = coordinate_receipts(g, NULL);
	free(all);
	free(c);
	return rc;
}

/* Behind the commit: workers go on while this is written. */
static int after_round(struct coordinator *g)
{
	int rc;

	coordinate_answer(g);
	coordinate_db_sweep(g);
	pthread_mutex_unlock(&g->lock);
	rc = coordinate_export(g);
	if (rc == 0)
		rc = coordinate_records(g);
	pthread_mutex_lock(&g->lock);
	return rc;
}

/* Closes the round if it is time. Returns 1 where it was, 0, or -1 with err_set(). *next: look again
 * at that time, or sooner when something happened. */
static int look(struct coordinator *g, int64_t *next)
{
	struct arrivals a;
	int64_t deadline, now_ns = clock_mono_ns();

	*next = now_ns + TICK_NS;
	if (g->over)
		return 0;
	if (count_turns(g, &a) < 0)
		return -1;
	if (a.delivered && !g->first_ns)
		g->first_ns = now_ns;
	if (a.delivered < g->run.quorum)
		return 0;
	deadline = deadline_ns(g);
	if (a.open && now_ns < deadline) {
		if (deadline < *next)
			*next = deadline;
		return 0;
	}
	if (close_round(g) < 0 || after_round(g) < 0)
		return -1;
	return 1;
}

static void wait_until(struct coordinator *g, int64_t ns)
{
	int64_t other = coordinate_next_answer(g);
	struct timespec until;

	if (other < ns)
		ns = other;
	until.tv_sec = ns / 1000000000;
	until.tv_nsec = ns % 1000000000;
	pthread_cond_timedwait(&g->wake, &g->lock, &until);
}

void *coordinate_rounds(void *ctx)
{
	struct coordinator *g = ctx;
	int64_t over_ns = 0, next;
	int rc = coordinate_records(g);

	pthread_mutex_lock(&g->lock);
	while (rc >= 0 && !g->stop) {
		coordinate_answer(g);
		rc = look(g, &next);
		if (rc == 0 && g->over) {
			/* those who ask in the next seconds are told that it is over */
			if (!over_ns)
				over_ns = clock_mono_ns() + 5 * TICK_NS;
			if (clock_mono_ns() >= over_ns)
				break;
		}
		if (rc == 0)
			wait_until(g, next);
	}
	if (rc < 0)
		err_save(&g->failed);
	g->stop = true;
	coordinate_answer(g);
	pthread_mutex_unlock(&g->lock);
	kill(getpid(), SIGTERM); /* httpd_wait ends */
	return NULL;
}
