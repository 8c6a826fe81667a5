/* sellers.c - sellers: which are believed, who copies our price, and who does not. */
/* uses: cmd/rnp-price */
#include "cmd/rnp-price/quote/sellers.h"

#include <math.h>

#include "common/base/rng.h"
#include "tests/unit/test.h"

static struct demand_market market_of(size_t n, const double *prices)
{
	struct demand_market m = { .n = n, .lowest = prices[0] };

	for (size_t i = 0; i < n; i++)
		m.sellers[i] = (struct demand_seller){ prices[i], 1, i + 1 };
	return m;
}

static void check_believed(void)
{
	static const double prices[] = { 2.0, 1e-6, 1.0, 0.3, 1.5, 1.2 };
	static const bool all[6] = { true, true, true, true, true, true }, none[6],
			  some[6] = { true, false, true, true, false, true };
	struct demand_market m = market_of(6, prices);
	double usual = 0;

	CHECK(sellers_quartile(&m) == 0.3);
	m.sellers[1].count = 2;
	CHECK(sellers_quartile(&m) == 1e-6);
	sellers_believe(&m, none,
		&usual); /* at first there is nothing to hold them against */
	CHECK(m.n == 6 && m.lowest == 1e-6 && usual == 1e-6);
	usual = 1;
	sellers_believe(&m, all,
		&usual); /* who has been there for long sells at his price */
	CHECK(m.n == 6 && m.lowest == 1e-6 && usual < 1);
	usual = 1;
	sellers_believe(&m, some, &usual);
	CHECK(m.n == 5 && m.lowest == 0.3 && usual < 1 && usual > 0.97);
	m = market_of(2, prices + 1);
	usual = 5;
	sellers_believe(&m, none, &usual);
	CHECK(m.n == 0 && usual == 5);
}

#define HOURS 200

/* Our price changes every four hours, and customers see it for an hour before anybody else can
 * act; `price` says what a seller asks after each hour. Returns in how many hours he was taken
 * for one who follows. */
static int followed(double (*price)(const double *asks, int hour, struct rng *r),
	uint64_t seed)
{
	double asks[HOURS], seen[FOLLOWER_HOURS];
	struct follower f = { 0 };
	struct rng r;
	int n = 0;

	rng_seed(&r, seed, 0);
	for (int h = 0; h < HOURS; h++) {
		int k = 0;

		asks[h] = h && h % 4 ? asks[h - 1] : 1 + 0.3 * rng_f64(&r);
		for (int i = h; i >= 0 && k < FOLLOWER_HOURS; i--)
			seen[k++] = asks[i];
		n += follower_sees(&f, price(asks, h, &r), seen, (size_t)k);
	}
	return n;
}

static double copy(const double *asks, int h, struct rng *r)
{
	(void)r;
	return asks[h ? h - 1 : 0];
}

/* He comes below us, and is slow. */
static double undercut(const double *asks, int h, struct rng *r)
{
	(void)r;
	return asks[h < 3 ? 0 : h - 3] * 0.97;
}

static double stay(const double *asks, int h, struct rng *r)
{
	(void)asks;
	(void)h;
	(void)r;
	return 1.1;
}

/* As often as we, by himself. */
static double wander(const double *asks, int h, struct rng *r)
{
	static double last;

	(void)asks;
	return last = h % 4 == 1 || !h ? 1 + 0.3 * rng_f64(r) : last;
}

/* He copies, and after half of the time no more. */
static double cease(const double *asks, int h, struct rng *r)
{
	return copy(asks, h < HOURS / 2 ? h : HOURS / 2, r);
}

static void check_follows(void)
{
	int taken = 0;

	for (uint64_t seed = 1; seed <= 50; seed++) {
		/* two changes prove it */
		CHECK(followed(copy, seed) >= HOURS - 24);
		CHECK(followed(undercut, seed) >= HOURS - 24);
		CHECK(followed(stay, seed) == 0);
		/* and some hours later that he has ceased */
		CHECK(followed(cease, seed) <= HOURS / 2 + 8);
		taken += followed(wander, seed);
	}
	CHECK(taken < 50 * HOURS / 50); /* by chance, two hours of a hundred at most */
}

static void check_bounds(void)
{
	struct follower f = { 0 };
	double ask = 1;

	CHECK(!follower_sees(&f, 1, NULL, 0));
	CHECK(!follower_sees(&f, NAN, &ask, 1));
	CHECK(!follower_sees(&f, 0, &ask, 1));
	CHECK(f.copies == 0);
}

int main(void)
{
	check_believed();
	check_follows();
	check_bounds();
	TEST_END();
}
