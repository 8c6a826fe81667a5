/* fuzz_price.c - fuzz target: files that users and strangers give rnp-price - costs, day-ahead
 * prices, lines of offers, fits, traces, snapshots, throughputs, leases.
 *
 * The first byte selects the reader. It checks that accepted costs have a floor or a reason,
 * and a floor that grows with the network's cost; and that a line of offers gives the same
 * offer whether or not it is read by building objects. */
/* uses: cmd/rnp-price */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cmd/rnp-price/cost/cost.h"
#include "cmd/rnp-price/quote/fit.h"
#include "cmd/rnp-price/quote/leases.h"
#include "cmd/rnp-price/offers/offer.h"
#include "cmd/rnp-price/simulate/trace.h"
#include "cmd/rnp-price/cost/tariff.h"
#include "cmd/rnp-price/match/throughputs.h"
#include "cmd/rnp-price/simulate/world.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

static void read_costs(const char *text, size_t len)
{
	json_t *obj = json_parse_object(text, len, "fuzz");
	struct costs c;
	struct cost_floor f, dearer;

	/* costs that name a file of day-ahead prices are skipped: this target has one file */
	if (obj && !json_object_get(json_object_get(obj, "tariff"), "day_ahead") &&
		cost_parse(&c, obj, "fuzz", NULL, 0) == 0) {
		must(c.watts_idle <= c.watts_load);
		if (cost_floor(&c, 5, &f) == 0) {
			must(f.floor_uusd >= 0);
			c.network_uusd_per_hour++;
			must(cost_floor(&c, 5, &dearer) < 0 ||
				dearer.floor_uusd >= f.floor_uusd);
		}
	}
	json_decref(obj);
}

/* Each hour costs what the file says, within its bounds, or what the tariff says otherwise. */
static void read_day_ahead(const char *text, size_t len)
{
	const int64_t otherwise = 5000000000, most = 1000000000;
	int fd = memfd_create("fuzz", 0);
	int64_t uusd[TARIFF_HOURS];
	char path[40];
	json_t *v = json_object();

	must(fd >= 0 && write(fd, text, len) == (ssize_t)len);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	json_set_text(v, "day_ahead", path);
	json_set_i64(v, "otherwise", otherwise);
	json_set_i64(v, "add", 1);
	if (tariff_read(uusd, v, "fuzz", NULL, NULL, INT64_C(1795132800000)) == 0)
		for (int h = 0; h < TARIFF_HOURS; h++)
			must(uusd[h] == otherwise ||
				(uusd[h] >= -most && uusd[h] <= most + 1));
	else
		must(err_get()->code == EX_DATAERR);
	json_decref(v);
	close(fd);
}

static void read_offer(const char *text, size_t len)
{
	struct offer_list fast = { 0 }, slow = { 0 };

	if (offer_list_add_plain(&fast, text, len)) {
		json_t *r = json_parse_object(text, len, "fuzz"), *a, *b;

		must(r && offer_list_add_json(&slow, r, "fuzz") == 0);
		a = offer_to_json(&fast.items[0]);
		b = offer_to_json(&slow.items[0]);
		must(json_equal(a, b));
		json_decref(a);
		json_decref(b);
		json_decref(r);
	}
	offer_list_release(&fast);
	offer_list_release(&slow);
}

/* Plays a trace under all algorithms for such a cluster. Every job that fits ends, and not before
 * it arrived. */
static void play_all(struct trace *t, const struct player_cluster *c)
{
	for (int a = 0; a < PLAYER_POLICIES; a++) {
		const struct player_policy *policy = &player_policies[a];
		struct player_result r;

		if (!player_policy_is(policy, "all", c->speed))
			continue;
		player_run(policy, c, t->jobs, t->n, 0, t->n, 1, &r);
		must(r.jobs + r.refused == t->n);
		for (size_t i = 0; i < t->n; i++)
			must(t->jobs[i].gpus > 4 ||
				t->jobs[i].finish_s + 1e-3 >=
					(double)t->jobs[i].arrival_s);
	}
}

/* On GPUs that are alike, and on two models, on the second of which some types run slower or not at
 * all. */
static void read_trace(const char *text, size_t len)
{
	struct trace t = { 0 };
	struct player_cluster c = { .names = { "a" }, .gpus = { 4 }, .models = 1 };
	double span = 0;

	if (len < 4000 && trace_parse(&t, text, len, "fuzz") == 0) {
		for (size_t i = 0; i < t.n; i++)
			span += t.jobs[i].duration_s;
		if (span < 1e6) {
			play_all(&t, &c);
			c.names[1] = "b";
			c.gpus[1] = 2;
			c.models = 2;
			c.speed = calloc(t.ntypes + 1, sizeof *c.speed);
			for (size_t i = 0; i <= t.ntypes; i++) {
				c.speed[i][0] = 1;
				c.speed[i][1] = (double)(i % 3) / 4;
			}
			play_all(&t, &c);
			free(c.speed);
		}
	}
	trace_release(&t);
}

/* An accepted fit has a price for a known chip, with the middle estimate between low and
 * high. */
static void read_fit(const char *text, size_t len)
{
	json_t *r = json_parse_object(text, len, "fuzz");
	struct fit f = FIT_INIT;
	struct fit_question q = { .model = gpu_find("RTX 4090", 0), .gpu_count = 2 };
	struct fit_price p;

	if (r && fit_from_json(&f, r, "fuzz") == 0) {
		must(fit_price(&f, &q, &p));
		must(p.low_uusd >= 1 && p.low_uusd <= p.mid_uusd &&
			p.mid_uusd <= p.high_uusd);
	}
	fit_release(&f);
	json_decref(r);
}

/* The model can learn from an accepted snapshot, and it gives an ask. */
static void read_snapshot(const char *text, size_t len)
{
	json_t *r = json_parse_object(text, len, "fuzz");
	struct world_snapshot s;
	struct demand d;
	struct demand_question q = { .market = &s.market, .idle = 1 };
	struct demand_answer best;

	if (r && world_snapshot_read(&s, r, "fuzz") > 0) {
		demand_init(&d);
		must(demand_observe(&d, &s.market, s.median, 4, 2, 0.5));
		demand_best(&d, &q, &best);
		must(best.ask > 0 && best.occupancy >= 0 && best.occupancy <= 1);
	}
	json_decref(r);
}

static int take_rate(void *ctx, const char *where, const char *type, const char *model,
	double rate)
{
	(void)ctx;
	must(where && type && model && rate >= 0);
	return 0;
}

/* Each line is a lease. What happened in two spans is what happened in both together. */
static void read_leases(char *text)
{
	const int64_t from = INT64_C(1700000000000), day = 86400000;
	struct leases l = { 0 };
	struct leases_between a, b, both;
	char *rest = NULL, *line;

	for (line = strtok_r(text, "\n", &rest); line;
		line = strtok_r(NULL, "\n", &rest)) {
		json_t *r = json_parse_object(line, strlen(line), "fuzz");

		if (r)
			leases_add(&l, r, "fuzz");
		json_decref(r);
	}
	a = leases_between(&l, from, from + day);
	b = leases_between(&l, from + day, from + 3 * day);
	both = leases_between(&l, from, from + 3 * day);
	must(a.began + b.began == both.began && a.ended + b.ended == both.ended);
	must(b.running == both.running && b.running >= 0);
	must(a.hours >= 0 && a.hours <= 24.0 * (double)l.n + 1e-6);
	must(fabs(a.hours + b.hours - both.hours) <= 1e-6 * (1 + both.hours));
	leases_release(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf text = BUF_INIT;

	if (size < 1)
		return 0;
	buf_add(&text, data + 1, size - 1);
	buf_reserve(&text, 1);
	text.data[text.len] = '\0';
	if (data[0] == 'D') {
		read_day_ahead(text.data, text.len);
		err_clear();
		buf_release(&text);
		return 0;
	}
	switch ((data[0] - (unsigned)48) % 7) {
	case 0:
		read_offer(text.data, text.len);
		break;
	case 1:
		read_trace(text.data, text.len);
		break;
	case 2:
		read_fit(text.data, text.len);
		break;
	case 3:
		read_costs(text.data, text.len);
		break;
	case 4:
		read_snapshot(text.data, text.len);
		break;
	case 6:
		read_leases(text.data);
		break;
	default:
		throughputs_parse(text.data, text.len, "fuzz", take_rate, NULL);
	}
	err_clear();
	buf_release(&text);
	return 0;
}
