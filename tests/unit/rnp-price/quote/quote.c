/* quote.c - just under the lowest comparable rival, never under the floor, and why. */
/* uses: cmd/rnp-price */
#include "cmd/rnp-price/quote/core.h"

#include <stdlib.h>

#include "tests/unit/test.h"

static const struct quote_rules rules = { .fee_ppm = 50000,
	.undercut_ppm = 10000,
	.reliability_ppm = 900000,
	.hysteresis_ppm = 20000,
	.reference = "RTX 4090" };

/* an offer of one RTX 4090 at this price, to be changed by the caller */
static struct offer *add(struct offer_list *l, int64_t uusd)
{
	struct offer o;
	char id[24];

	offer_init(&o);
	o.market = "vast";
	snprintf(id, sizeof id, "%zu", l->n + 1);
	o.id = id;
	o.model = o.name = "RTX 4090";
	o.known = true;
	o.uusd_per_gpu_hour = uusd;
	offer_list_add(l, &o);
	return &l->items[l->n - 1];
}

static struct quote_input input(const struct offer_list *l, const char *model,
	int64_t count, int64_t floor)
{
	const struct gpu_model *m = gpu_find(model, 0);
	struct quote_input in = { .gpu_model = m ? m->name : model,
		.known = m,
		.gpu_count = count,
		.f32_gflops = m ? m->f32_gflops : 0,
		.floor_uusd = floor,
		.last_ask_uusd = QUOTE_NONE,
		.low_uusd = QUOTE_NONE,
		.mid_uusd = QUOTE_NONE,
		.high_uusd = QUOTE_NONE,
		.offers = l };

	return in;
}

/* some line of why begins with this */
static bool said(const struct quote *q, const char *begin)
{
	size_t i;
	json_t *line;

	json_array_foreach(q->why, i, line)
		if (strncmp(json_string_value(line), begin, strlen(begin)) == 0)
			return true;
	return false;
}

/* RNP-021: ask 1.90 -> customer 2.00 */
static void check_fee(void)
{
	CHECK_I64(2000000, quote_customer(1900000, 50000));
	CHECK_I64(20000000, quote_customer(19000000, 50000));
	CHECK_I64(1900000, quote_ask(2000000, 50000));
	CHECK_I64(0, quote_customer(0, 50000));
	for (int64_t c = 0; c < 5000; c++) {
		CHECK(quote_customer(quote_ask(c, 50000), 50000) <= c);
		CHECK(quote_customer(quote_ask(c, 50000) + 1, 50000) >= c);
	}
}

static void check_rival(void)
{
	struct offer_list l = { 0 };
	struct quote_input in;
	struct quote q;

	add(&l, 500000);
	add(&l, 400000);
	in = input(&l, "RTX 4090", 1, 100000);
	quote_price(&q, &in, &rules);
	CHECK_I64(400000, q.rival_uusd);
	CHECK_I64(396000, q.customer_uusd); /* 1% under */
	CHECK_I64(376200, q.ask_uusd);
	quote_release(&q);
	in.floor_uusd = 380000;
	quote_price(&q, &in, &rules);
	CHECK_I64(380000, q.ask_uusd);
	CHECK(said(&q, "floor: 0.376200 $/h is under the floor of 0.380000"));
	quote_release(&q);
	/* a node of four: the floor is the node's, the rival's price is per GPU */
	in = input(&l, "RTX 4090", 4, 100000);
	quote_price(&q, &in, &rules);
	CHECK(q.rival_uusd == QUOTE_NONE && said(&q, "left out: 2 with another number"));
	quote_release(&q);
	l.items[0].gpu_count = 4;
	l.items[1].gpu_count = 8;
	quote_price(&q, &in, &rules);
	CHECK_I64(2000000, q.rival_uusd); /* as many, though the eight are cheaper each */
	quote_release(&q);
	l.items[0].gpu_count = 1;
	quote_price(&q, &in, &rules);
	CHECK_I64(1600000, q.rival_uusd); /* none has as many */
	quote_release(&q);
	offer_list_release(&l);
}

/* each offer alone is no rival, and why says so */
static void check_left_out(void)
{
	static const char *const lines[] = { "left out: 1 of other GPU models",
		"left out: 1 spot", "left out: 1 parts of a GPU",
		"left out: 1 not rentable", "left out: 1 not rentable",
		"left out: 1 below a reliability of 90%",
		"left out: 1 dearer than ten thousand",
		"left out: 1 with another number of GPUs",
		"left out: 1 of other GPU models" };

	for (int i = 0; i < 9; i++) {
		struct offer_list l = { 0 };
		struct offer *o = add(&l, 400000);
		struct quote_input in;
		struct quote q;

		if (i == 0)
			o->model = "RTX 4090D";
		else if (i == 1)
			o->spot = true;
		else if (i == 2)
			o->gpu_share_ppm = 500000;
		else if (i == 3)
			o->rentable = 0;
		else if (i == 4)
			o->rented = 1;
		else if (i == 5)
			o->reliability_ppm = 899999;
		else if (i == 6)
			o->uusd_per_gpu_hour = INT64_C(10000000001);
		else if (i == 7)
			o->gpu_count = 3;
		else
			o->known = false; /* named alike, but not by our table */
		in = input(&l, "RTX 4090", 1, 100000);
		in.f32_gflops = 0;
		quote_price(&q, &in, &rules);
		CHECK(q.rival_uusd == QUOTE_NONE);
		CHECK_I64(100000, q.ask_uusd);
		CHECK(said(&q, "no rival: none of 1 offers is comparable"));
		CHECK(said(&q, lines[i]));
		quote_release(&q);
		offer_list_release(&l);
	}
}

static void check_unspecific(void)
{
	struct offer_list l = { 0 };
	struct quote_input in = input(&l, "H100 SXM", 1, 100000);
	struct quote q;

	add(&l, 2000000)->model = "H100 80GB";
	quote_price(&q, &in, &rules);
	CHECK(q.rival_uusd == QUOTE_NONE);
	CHECK(said(&q, "left out: 1 of the same chip, but the form is not said"));
	quote_release(&q);
	l.items[0].model = "H100 PCIe";
	quote_price(&q, &in, &rules);
	CHECK(said(&q, "left out: 1 of other GPU models"));
	quote_release(&q);
	offer_list_release(&l);
}

/* RNP-021: a chip with 80% of the reference chip's TFLOPS is priced near 80% of its rate */
static void check_model(void)
{
	struct offer_list l = { 0 };
	struct quote_input in = input(&l, "Mystery GPU", 2, 1000);
	struct quote q;

	add(&l, 900000);
	add(&l, 1000000);
	add(&l, 1100000);
	add(&l, 10)->spot = true;
	in.f32_gflops = 82580 * 8 / 10;
	quote_price(&q, &in, &rules);
	CHECK_I64(2 * 800000, q.proportion_uusd);
	CHECK_I64(2 * 800000, q.customer_uusd);
	CHECK(said(&q, "no rival") &&
		said(&q, "proportion (RNP-021): 66064 of the 82580 GFLOP/s"));
	quote_release(&q);
	in.f32_gflops = 0; /* its speed is not known: the floor */
	quote_price(&q, &in, &rules);
	CHECK(q.proportion_uusd == QUOTE_NONE);
	CHECK_I64(1000, q.ask_uusd);
	quote_release(&q);
	/* a fit: asked where nobody offers the model, but not because all markets are away */
	in.mid_uusd = 500000;
	quote_price(&q, &in, &rules);
	CHECK_I64(2 * 500000, q.customer_uusd);
	quote_release(&q);
	l.n = 0;
	in.last_ask_uusd = 2000000;
	quote_price(&q, &in, &rules);
	CHECK_I64(2000000, q.ask_uusd);
	CHECK(q.basis == QUOTE_BLIND);
	quote_release(&q);
	offer_list_release(&l);
}

static void check_own(void)
{
	struct offer_list l = { 0 };
	struct quote_input in = input(&l, "RTX 4090", 1, 100000);
	struct quote q;

	add(&l, 300000)->own = true;
	quote_price(&q, &in, &rules);
	CHECK(q.rival_uusd == QUOTE_NONE);
	CHECK_I64(300000, q.customer_uusd); /* beside it, not under it */
	CHECK(said(&q, "own: vast 1 at 0.300000 $/h a GPU is not undercut"));
	quote_release(&q);
	add(&l, 400000);
	quote_price(&q, &in, &rules);
	CHECK_I64(400000, q.rival_uusd);
	CHECK_I64(396000, q.customer_uusd);
	quote_release(&q);
	offer_list_release(&l);
}

static void check_no_gpu(void)
{
	struct offer_list l = { 0 };
	struct quote_input in = { .no_gpu = "the node has no GPU",
		.floor_uusd = 5,
		.last_ask_uusd = QUOTE_NONE,
		.low_uusd = QUOTE_NONE,
		.mid_uusd = QUOTE_NONE,
		.high_uusd = QUOTE_NONE,
		.offers = &l };
	struct quote q;

	add(&l, 400000);
	quote_price(&q, &in, &rules);
	CHECK_I64(5, q.ask_uusd);
	CHECK(said(&q, "no rival: the node has no GPU"));
	quote_release(&q);
	offer_list_release(&l);
}

static void check_last_price(void)
{
	struct offer_list l = { 0 };
	struct quote_input in = input(&l, "RTX 4090", 1, 100000);
	struct quote q;

	in.last_ask_uusd = 376000; /* a feed that failed is no reason to change it */
	quote_price(&q, &in, &rules);
	CHECK_I64(376000, q.ask_uusd);
	CHECK(said(&q, "the last price, 0.376000 $/h, stands"));
	quote_release(&q);
	in.floor_uusd = 380000;
	quote_price(&q, &in, &rules);
	CHECK_I64(380000, q.ask_uusd);
	quote_release(&q);
	in.floor_uusd = 100000;
	add(&l, 404000); /* would be 379962, 1% more: not worth it */
	quote_price(&q, &in, &rules);
	CHECK_I64(376000, q.ask_uusd);
	CHECK(said(&q, "hysteresis: 0.376000 to 0.379962"));
	quote_release(&q);
	l.items[0].uusd_per_gpu_hour = 450000;
	quote_price(&q, &in, &rules);
	CHECK_I64(423225, q.ask_uusd);
	quote_release(&q);
	l.items[0].uusd_per_gpu_hour = 395000; /* the last price is no longer under it */
	quote_price(&q, &in, &rules);
	CHECK_I64(371497, q.ask_uusd);
	quote_release(&q);
	offer_list_release(&l);
}

/* --- properties over random markets --------------------------------------------------------- */

static uint64_t seed = 2026;

static int64_t below(int64_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (int64_t)((seed >> 33) % (uint64_t)n);
}

static void random_market(struct offer_list *l)
{
	static const char *const models[] = { "RTX 4090", "RTX 4090", "RTX 3090",
		"H100 SXM" };

	memset(l, 0, sizeof *l);
	for (int64_t n = below(12); n > 0; n--) {
		struct offer *o = add(l, 1 + below(below(2) ? 400000 : 2000000));

		o->model = models[below(4)];
		o->gpu_count = 1 + below(4);
		o->spot = below(5) == 0;
		o->own = below(5) == 0;
		o->rentable = (int)below(3) - 1;
		o->reliability_ppm = below(2) ? OFFER_UNKNOWN : 800000 + below(200001);
	}
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* The lowest price of n hosts that are believed, found the plain way: one host is removed at a
 * time, and the quartile is that of exact fractions. An RTX 4090's list price is 1599 $. */
static int64_t believed(int64_t *prices, size_t n)
{
	const double low = 1599e6 / 180 / 24 / 8;

	qsort(prices, n, sizeof *prices, by_value);
	for (size_t from = 0; from < n; from++) {
		size_t left = n - from, at = (left - 1) / 4;
		double part = (double)((left - 1) % 4) / 4, limit = low - 0.5;

		if (left >= 4)
			limit = 0.5 *
				((double)prices[from + at] * (1 - part) +
					(part > 0 ? (double)prices[from + at + 1] * part :
						    0));
		if ((double)prices[from] >= limit)
			return prices[from];
	}
	return QUOTE_NONE;
}

/* the lowest price of a rival, found the plain way; QUOTE_NONE: there is none */
static int64_t lowest(const struct offer_list *l, int64_t count, bool own)
{
	for (int pass = 0; pass < 2; pass++) {
		int64_t best = QUOTE_NONE, prices[64];
		size_t n = 0;

		for (size_t i = 0; i < l->n; i++) {
			const struct offer *o = &l->items[i];
			bool near = o->gpu_count * 2 >= count &&
				o->gpu_count <= count * 2;

			if (strcmp(o->model, "RTX 4090") != 0 || o->spot || o->own != own)
				continue;
			if (!own &&
				(o->rentable == 0 ||
					(o->reliability_ppm >= 0 &&
						o->reliability_ppm < 900000)))
				continue;
			if (own              ? !near :
					pass ? !near || o->gpu_count == count :
					       o->gpu_count != count)
				continue;
			prices[n++] = o->uusd_per_gpu_hour;
			if (best < 0 || o->uusd_per_gpu_hour < best)
				best = o->uusd_per_gpu_hour;
		}
		if (!own)
			best = believed(prices, n);
		if (best >= 0)
			return best;
	}
	return QUOTE_NONE;
}

/* A stranger's offer of a millionth of a dollar changes nothing, however the market looks, where
 * there is a price to hold it against. */
static void check_stranger(const struct offer_list *l, struct quote_input *in,
	const struct quote *q)
{
	struct offer_list more = { 0 };
	struct quote again;

	for (size_t i = 0; i < l->n; i++)
		offer_list_add(&more, &l->items[i]);
	add(&more, 1)->gpu_count = in->gpu_count;
	in->offers = &more;
	quote_price(&again, in, &rules);
	CHECK_I64(q->rival_uusd, again.rival_uusd);
	if (l->n) /* an empty feed keeps the last price, one with a stranger in it too */
		CHECK_I64(q->ask_uusd, again.ask_uusd);
	quote_release(&again);
	in->offers = l;
	offer_list_release(&more);
}

static void check_properties(void)
{
	for (int round = 0; round < 20000; round++) {
		struct offer_list l;
		int64_t count = 1 + below(4), floor = below(2000000), rival, own;
		struct quote_input in;
		struct quote q, higher;

		random_market(&l);
		in = input(&l, "RTX 4090", count, floor);
		if (below(2))
			in.last_ask_uusd = below(2000000);
		quote_price(&q, &in, &rules);
		rival = lowest(&l, count, false);
		own = lowest(&l, count, true);
		CHECK(q.ask_uusd >= floor);
		CHECK_I64(rival < 0 ? QUOTE_NONE : rival * count, q.rival_uusd);
		if (rival >= 0 && q.ask_uusd != floor)
			CHECK(q.customer_uusd < rival * count);
		if (rival < 0 && own >= 0 && l.n)
			CHECK(q.customer_uusd >= own * count ||
				q.ask_uusd == in.last_ask_uusd);
		CHECK(json_array_size(q.why) > 0);
		check_stranger(&l, &in, &q);
		/* a higher floor never makes a lower price */
		in.floor_uusd = floor + below(1000000);
		quote_price(&higher, &in, &rules);
		CHECK(higher.ask_uusd >= q.ask_uusd || q.ask_uusd == in.last_ask_uusd);
		quote_release(&higher);
		/* an own offer changes nothing where there is a rival */
		if (rival >= 0) {
			struct quote again;

			in.floor_uusd = floor;
			add(&l, 1 + below(2000000))->own = true;
			quote_price(&again, &in, &rules);
			CHECK_I64(q.ask_uusd, again.ask_uusd);
			quote_release(&again);
		}
		quote_release(&q);
		offer_list_release(&l);
	}
}

int main(void)
{
	check_fee();
	check_rival();
	check_left_out();
	check_unspecific();
	check_model();
	check_own();
	check_no_gpu();
	check_last_price();
	check_properties();
	TEST_END();
}
