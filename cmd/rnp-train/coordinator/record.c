/* record.c - makes the records of rounds. print.c prints them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-train/coordinator/coordinator.h"
#include "cmd/rnp-train/coordinator/db.h"
#include "cmd/rnp-train/coordinator/parent.h"
#include "cmd/rnp-train/coordinator/judging.h"
#include "cmd/rnp-train/coordinator/files.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"
#include "common/lm/train/flat.h"
#include "common/record/signature.h"

/* A record has no larger numbers, and 0 for what is none. */
static int64_t whole_number(double v)
{
	return isnan(v)                           ? 0 :
		v > (double)JSON_SAFE_INTEGER_MAX ? JSON_SAFE_INTEGER_MAX :
						    llround(v);
}

static int64_t ppm(double part, double whole)
{
	return whole > 0 && part >= 0 ? whole_number(part / whole * 1e6) : 0;
}

static json_t *member_facts(const struct turn *t, const struct counted *c,
	double theta_norm)
{
	json_t *m = json_object();
	const char *state = t->state;

	if (c)
		state = c->refused ? "refused" : "counted";
	else if (strcmp(state, "open") == 0 || strcmp(state, "delivered") == 0)
		state = "absent";
	json_set_text(m, "member", t->node);
	json_set_i64(m, "turn", (int64_t)t->turn);
	json_set_i64(m, "first", (int64_t)t->first);
	json_set_i64(m, "steps", (int64_t)t->steps);
	json_set_i64(m, "tokens", (int64_t)t->tokens);
	if (t->sha256[0]) {
		json_set_text(m, "sha256", t->sha256);
		json_set_i64(m, "norm_ppm", ppm(t->norm, theta_norm));
	}
	/* while its block goes on nobody knows which turn it was */
	if (c && c->judged && c->pay != JUDGE_WAITS)
		judging_write(m, &c->losses);
	if (c && c->refused)
		json_set_text(m, "reason", judge_reason(c->verdict));
	if (c && !c->refused) {
		json_set_i64(m, "cosine_ppm", c->cosine_ppm);
		json_set_i64(m, "weight_ppm", ppm(c->weight, 1));
		if (c->copied)
			json_set_text(m, "reason", "copy of another member's delta");
		else if (c->verdict != JUDGE_GOOD)
			json_set_text(m, "reason", judge_reason(c->verdict));
	}
	if (!c && t->reason[0])
		json_set_text(m, "reason", t->reason);
	json_set_text(m, "state", state);
	return m;
}

static const struct counted *find(const struct closed *x, uint64_t turn)
{
	for (size_t i = 0; i < x->k + x->refused; i++)
		if (x->c[i].turn == turn)
			return &x->c[i];
	return NULL;
}

/* Sums over the deltas that count, and the median of the losses: members say them of themselves,
 * and one that lies must not make the curve that everybody looks at. */
struct sums {
	int64_t loss, tokens, busy_ms, dropped;
};

static int ascending(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Of values from 0 on, which are sorted. */
static int64_t median(int64_t *v, size_t n)
{
	qsort(v, n, sizeof *v, ascending);
	return !n ? 0 : v[(n - 1) / 2] + (v[n / 2] - v[(n - 1) / 2]) / 2;
}

static json_t *all_members(const struct turn *all, size_t n, const struct closed *x,
	int64_t ms, bool asynchronous, struct sums *s)
{
	json_t *members = json_array();
	int64_t *losses = xcalloc(n + 1, sizeof *losses);
	size_t nlosses = 0;

	*s = (struct sums){ 0 };
	for (size_t i = 0; i < n; i++) {
		const struct counted *c = find(x, all[i].turn);
		int64_t busy_ms = turn_busy_ms(&all[i]);

		if (!c && asynchronous && strcmp(all[i].state, "open") == 0)
			continue; /* works on, and counts when it comes */
		json_push(members, member_facts(&all[i], c, x->theta_norm));
		s->dropped += !c || c->refused;
		if (!c || c->refused)
			continue;
		losses[nlosses++] = all[i].loss_last;
		s->tokens += (int64_t)all[i].tokens;
		s->busy_ms += busy_ms < ms ? busy_ms :
					     ms; /* of a late one, in this round */
	}
	s->loss = median(losses, nlosses);
	free(losses);
	return members;
}

/* The turn of the parent that the round ended. */
static json_t *parent_facts(const struct coordinator *g, const struct parent_sync *up)
{
	const struct parent *p = g->parent;
	json_t *r = json_object();

	json_set_text(r, "run", p->w.run.name);
	json_set_i64(r, "turn", (int64_t)p->a.turn);
	json_set_i64(r, "round", (int64_t)up->round);
	json_set_text(r, "model", up->model);
	json_set_bool(r, "counted", up->counted);
	return r;
}

/* Each byte counts once. */
static void count_bytes(struct coordinator *g, json_t *r)
{
	struct httpd_bytes all = { 0 };
	uint64_t data = g->figures.data_bytes;

	if (g->server)
		httpd_bytes(g->server, &all);
	json_set_i64(r, "bytes_received",
		(int64_t)(all.received - g->figures.was_received));
	json_set_i64(r, "bytes_sent", (int64_t)(all.sent - g->figures.was_sent));
	json_set_i64(r, "data_bytes", (int64_t)(data - g->figures.was_data));
	g->figures.was_sent = all.sent;
	g->figures.was_received = all.received;
	g->figures.was_data = data;
}

json_t *coordinate_facts(struct coordinator *g, const struct turn *all, size_t n,
	const struct closed *x)
{
	json_t *r = json_record("rnp.round"), *waited = json_object();
	int64_t ms = coordinate_now(g) - g->rounds.r.opened;
	struct sums s;
	json_t *members = all_members(all, n, x, ms, g->rounds.r.policy.asynchronous, &s);

	count_bytes(g, r);
	json_set_text(r, "node", g->key.address);
	json_set_text(r, "run", g->run.name);
	json_set_i64(r, "round", (int64_t)g->rounds.round);
	json_set_time(r, "from", clock_now_ms() - ms);
	json_set_time(r, "to", clock_now_ms());
	if (g->run.fragments > 1)
		json_set_i64(r, "fragment",
			(int64_t)(g->rounds.round % g->run.fragments));
	json_set_text(r, "base", g->rounds.params_hash);
	json_set_text(r, "model", x->model);
	json_set_text(r, "outer", update_names[g->run.outer]);
	json_set_i64(r, "workers", (int64_t)x->k);
	json_set_i64(r, "dropped", s.dropped);
	json_set_i64(r, "loss_micronats", s.loss);
	g->figures.loss_micronats = s.loss;
	g->figures.counted = x->k;
	g->figures.counted_total += x->k;
	g->figures.judged_total += x->njudged;
	g->figures.judging_ns += x->judging_ns;
	g->figures.dropped_total += (uint64_t)s.dropped;
	json_set_i64(r, "outer_norm_ppm", ppm(x->d_norm, x->theta_norm));
	json_set_i64(r, "tokens", s.tokens);
	json_set_i64(r, "seconds", ms / 1000);
	for (int i = 0; i < 4; i++)
		if (g->rounds.r.waited[i] > 0)
			json_set_i64(waited, round_waits[i], g->rounds.r.waited[i]);
	if (x->up.ends)
		json_set_i64(waited, "parent", x->up.ms);
	json_set(r, "waited", waited);
	if (x->up.ends && !x->up.away)
		json_set(r, "parent", parent_facts(g, &x->up));
	json_set_i64(r, "compute_ppm",
		ppm((double)s.busy_ms, (double)(ms * (int64_t)x->k)));
	json_set(r, "members", members);
	return r;
}

static int read_valid(void *arg, uint64_t n, uint32_t *ids)
{
	struct coordinator *g = arg;

	return lm_shards_get(&g->valid, n * g->run.length, (uint64_t)g->run.length + 1,
		ids);
}

/* The loss of published, as it is after the last round. */
static int validate(struct coordinator *g, double *loss)
{
	uint64_t windows = (g->valid.count - 1) / g->run.length;
	uint64_t max = (uint64_t)g->o.eval_tokens / g->run.length;
	struct flatfile published = FLATFILE_INIT;
	char name[64];
	int rc;

	if (windows > max)
		windows = max ? max : 1;
	snprintf(name, sizeof name, "pub-%llu.f32",
		(unsigned long long)g->rounds.round - 1);
	rc = flatfile_open(&published, g->dir, name, g->run.parameters);
	if (rc == 0)
		rc = lm_flat_set(g->eval.train, LM_STATE_PARAMETER, 0, published.n,
			published.x);
	if (rc == 0)
		rc = lm_loop_eval(&g->eval, read_valid, g, windows, loss);
	flatfile_close(&published);
	return rc;
}

static int write_record(struct coordinator *g, uint64_t round, json_t *facts)
{
	int64_t now_ms = clock_now_ms();
	struct buf text = BUF_INIT;
	double loss;
	int rc = 0;

	/* of an older round the parameters are gone */
	if (g->o.valid && round + 1 == g->rounds.round) {
		rc = validate(g, &loss);
		if (rc == 0 && isfinite(loss))
			json_set_i64(facts, "validation_loss_micronats",
				whole_number(loss * 1e6));
	}
	json_set_time(facts, "at", now_ms);
	if (rc == 0)
		rc = signature_add(facts, &g->key, now_ms);
	json_write(&text, facts);
	pthread_mutex_lock(&g->rounds.lock);
	if (json_object_get(facts, "validation_loss_micronats"))
		g->figures.valid_micronats = json_integer_value(
			json_object_get(facts, "validation_loss_micronats"));
	if (rc == 0)
		rc = coordinate_db_write(g, round, buf_text(&text));
	pthread_mutex_unlock(&g->rounds.lock);
	buf_release(&text);
	return rc;
}

int coordinate_records(struct coordinator *g)
{
	int rc;

	do {
		uint64_t round;
		json_t *facts = NULL;

		pthread_mutex_lock(&g->rounds.lock);
		rc = coordinate_db_unwritten(g, &round, &facts);
		pthread_mutex_unlock(&g->rounds.lock);
		if (rc == 1 && write_record(g, round, facts) < 0)
			rc = -1;
		json_decref(facts);
	} while (rc == 1);
	pthread_mutex_lock(&g->rounds.lock);
	coordinate_print(g);
	pthread_mutex_unlock(&g->rounds.lock);
	return rc;
}
