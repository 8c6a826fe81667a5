/* judge.c - what counts, by hand-computed cases; copies are found among many; scores
 * decay; the draw is a function of its seed. */
#include "common/lm/rounds/judge.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "tests/unit/test.h"

/* Honest deltas make held-out loss worse and their own better: figures of a
 * nano, H = 50 and 100. */
static void verdicts(void)
{
	static const struct judge_losses losses[] = {
		{ 200000000, -100000000, 0,
			0 }, /* honest: leads of 0.30, 0.24, 0.25, 0.36 nats */
		{ 140000000, -100000000, 0, 0 }, { 250000000, 0, 0, 0 },
		{ 300000000, -60000000, 0, 0 },
		{ -5000000, -300000000, 0, 0 }, /* makes its own loss worse */
		{ 0, 0, 0, 0 },                 /* did nothing */
		{ 30000000, 20000000, 0, 0 },   /* trained on something else */
		{ 90000000, 0, 0, 0 },          /* little, but above a third of 0.24 */
	};
	enum judge_verdict v[8];

	/* leads: 0.30 0.24 0.25 0.36 0.295 0 0.01 0.09: the median is 0.245, a third 0.0817 */
	judge_decide(v, losses, 8);
	for (int i = 0; i < 4; i++)
		CHECK(v[i] == JUDGE_GOOD);
	CHECK(v[4] == JUDGE_USELESS && v[5] == JUDGE_USELESS);
	CHECK(v[6] == JUDGE_OTHER_DATA && v[7] == JUDGE_GOOD);
	/* the start of a run: all help alike on both texts, one sent noise about 0 */
	static const struct judge_losses early[] = { { 500000000, 480000000, 0, 0 },
		{ 510000000, 515000000, 0, 0 }, { 490000000, 460000000, 0, 0 },
		{ 2000000, 1999000, 0, 0 } };
	judge_decide(v, early, 4);
	for (int i = 0; i < 4; i++)
		CHECK(v[i] == (i == 3 ? JUDGE_USELESS : JUDGE_GOOD));
	/* an honest worker's, measured on too few windows: what is within the error is no proof */
	static struct judge_losses noisy[] = {
		{ 1750066620, 1618782099, 50000000, 0 },
		{ 1601324172, 1600876334, 50000000, 0 },
		{ -28539307, -99573161, 50000000, 0 },
		{ 1711902455, 1603899553, 50000000, 0 },
	};
	judge_decide(v, noisy, 4);
	for (int i = 0; i < 4; i++)
		CHECK(v[i] == (i == 2 ? JUDGE_USELESS : JUDGE_GOOD));
	noisy[1].error = 14000000; /* a third of the median is 0.0298 */
	judge_decide(v, noisy, 4);
	CHECK(v[1] == JUDGE_OTHER_DATA);
	/* two have no median to be held against */
	judge_decide(v, losses + 6, 2);
	CHECK(v[0] == JUDGE_GOOD && v[1] == JUDGE_GOOD);
	judge_decide(v, losses, 0);
	/* noise about 0, of which chance makes as much, and what is four times that */
	static const struct judge_losses lucky[] = { { 4000, 0, 0, 1001 },
		{ 4000, 0, 0, 1000 } };
	judge_decide(v, lucky, 2);
	CHECK(v[0] == JUDGE_USELESS && v[1] == JUDGE_GOOD);
	CHECK_TEXT("", judge_reason(JUDGE_GOOD));
	CHECK(judge_reason(JUDGE_USELESS)[0] && judge_reason(JUDGE_OTHER_DATA)[0]);
}

/* Groups of 2, 2 and 4 windows: the mean is of windows; the variance of the mean by hand. */
static void errors(void)
{
	static const double gain[] = { 1, 3, 2 };
	static const uint64_t windows[] = { 2, 2, 4 };
	double variance;

	CHECK(fabs(judge_mean(&variance, gain, windows, 3) - 2) < 1e-15);
	CHECK(fabs(variance - (1.0 + 1.0) / 3 / 2) < 1e-15);
	CHECK(fabs(judge_mean(&variance, gain, windows, 1) - 1) < 1e-15);
	CHECK(isinf(variance));
}

static void scores(void)
{
	int64_t s = 0;

	s = judge_score(s, JUDGE_GOOD);
	CHECK_I64(100000, s);
	s = judge_score(s, JUDGE_GOOD);
	CHECK_I64(190000, s);
	s = judge_score(s, JUDGE_USELESS);
	CHECK_I64(71000, s);
	for (int i = 0; i < 200; i++)
		s = judge_score(s, JUDGE_OTHER_DATA);
	CHECK(s >= -1000000 && s < -999980);
}

static void draws(void)
{
	enum { K = 20 };
	int times[K] = { 0 };
	bool a[K], b[K];

	for (uint64_t seed = 0; seed < 2000; seed++) {
		size_t n = 0;

		judge_draw(a, K, 3, seed);
		judge_draw(b, K, 3, seed);
		CHECK(memcmp(a, b, sizeof a) == 0);
		for (int i = 0; i < K; i++) {
			n += a[i];
			times[i] += a[i];
		}
		CHECK(n == 3);
	}
	for (int i = 0; i < K; i++)
		CHECK(times[i] > 220 &&
			times[i] < 380); /* 300 expected, 5 sigma are 80 */
	judge_draw(a, K, 99, 1);
	for (int i = 0; i < K; i++)
		CHECK(a[i]);
}

/* What a member is paid in `turns` turns, and makes good, where it makes those good that plan says
 * by their place in a block, from its end: bit 0 is the last. */
static void play(uint64_t turns, uint64_t most, uint64_t plan, uint64_t seed,
	double *paid, double *good)
{
	struct judge_block b = { 0 };
	uint64_t waits = 0;
	struct rng rng;

	rng_seed(&rng, 29, seed);
	for (uint64_t i = 0; i < turns; i++) {
		uint64_t left = turns - i;
		bool judged = judge_block_turn(&b, most < left ? most : left,
			rng_u64(&rng));
		/* blocks of one are good: without them none is longer */
		bool is_good = b.turns == 1 || plan >> (b.turns - b.made) & 1;

		*good += is_good;
		waits++;
		switch (judge_block_pay(&b, judged,
			judged && !is_good ? JUDGE_USELESS : JUDGE_GOOD)) {
		case JUDGE_PAID:
			*paid += (double)waits;
			/* fall through */
		case JUDGE_FORFEIT:
			waits = 0;
			break;
		default:
			break;
		}
	}
	CHECK(!waits); /* the last block ends with the run */
}

/* Nobody is paid for noise who does not know which turn of a block is judged. */
static void blocks(void)
{
	struct judge_block b = { 0 };
	double paid = 0, good = 0;

	play(1000, 10, UINT64_MAX, 1, &paid, &good);
	CHECK(paid == 1000 && good == 1000);
	/* honest in the last turn of blocks, in a half, in all but the first or the last */
	static const uint64_t plans[] = { 1, 0x1f, 0x3e0, 0x3fe, 0x1ff };
	for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
		paid = good = 0;
		for (uint64_t seed = 0; seed < 200; seed++)
			play(500, 10, plans[i], seed, &paid, &good);
		CHECK(paid < 1.22 * good);
	}
	/* noise in all turns but the last */
	for (int i = 0; i < 9; i++) {
		CHECK(judge_block_turn(&b, 10, (uint64_t)i));
		CHECK(judge_block_pay(&b, true, JUDGE_USELESS) == JUDGE_FORFEIT);
	}
	CHECK(judge_block_turn(&b, 1, 9));
	CHECK(judge_block_pay(&b, true, JUDGE_GOOD) == JUDGE_PAID && b.streak == 1);
	/* one that is judged before its place, as at the end of a run, speaks for itself */
	b = (struct judge_block){ .turns = 3, .made = 1, .place = 3, .streak = 8 };
	CHECK(!judge_block_turn(&b, 10, 0) && b.made == 2);
	CHECK(judge_block_pay(&b, true, JUDGE_GOOD) == JUDGE_ALONE && !b.good);
	/* one that was found good early is paid with the last, and not before */
	b = (struct judge_block){ .streak = JUDGE_STREAK };
	CHECK(judge_block_turn(&b, 10, 6) && b.turns == 2);
	CHECK(judge_block_pay(&b, true, JUDGE_GOOD) == JUDGE_WAITS);
	CHECK(!judge_block_turn(&b, 10, 5));
	CHECK(judge_block_pay(&b, false, JUDGE_GOOD) == JUDGE_PAID &&
		b.streak == JUDGE_STREAK + 1 && !b.turns);
}

/* Deltas of a common part and noise of their own, with a cosine of about 0.5; copy: of that one,
 * with a little noise. */
static void fill(float *x, uint64_t n, uint64_t member, int64_t copy)
{
	struct rng common, own, noise;

	rng_seed(&common, 1, 0);
	rng_seed(&own, 2, copy >= 0 ? (uint64_t)copy : member);
	rng_seed(&noise, 3, member);
	for (uint64_t i = 0; i < n; i++) {
		x[i] = (float)(rng_f64(&common) - 0.5 + rng_f64(&own) - 0.5);
		if (copy >= 0)
			x[i] += (float)(0.2 * (rng_f64(&noise) - 0.5));
	}
}

static void look(struct judge_copies *c, float *const *x, uint64_t n, uint64_t step)
{
	const float *chunk[64];

	for (uint64_t at = 0; at < n; at += step) {
		for (size_t i = 0; i < c->k; i++)
			chunk[i] = x[i] + at;
		judge_copies_look(c, chunk, n - at < step ? n - at : step);
	}
}

static void copies(size_t k, uint64_t n)
{
	struct judge_copies c, other;
	float *x[64];
	bool copied[64];

	for (size_t i = 0; i < k; i++) {
		x[i] = xmalloc(n * sizeof **x);
		fill(x[i], n, i, i == 5 ? 2 : -1);
	}
	judge_copies_init(&c, k, n, 11);
	judge_copies_init(&other, k, n, 11);
	look(&c, x, n, n);
	look(&other, x, n, 2 * JUDGE_BLOCK);
	CHECK(memcmp(c.gram, other.gram, k * (k + 1) / 2 * sizeof *c.gram) == 0);
	judge_copies_find(&c, copied);
	for (size_t i = 0; i < k; i++)
		CHECK(copied[i] == (i == 2 || i == 5));
	CHECK(judge_cosine_ppm(&c, 2, 5) == judge_cosine_ppm(&c, 5, 2));
	CHECK(llabs(judge_cosine_ppm(&c, 0, 1) - 500000) < 50000);
	CHECK(judge_cosine_ppm(&c, 3, 3) == 1000000);
	judge_copies_release(&c);
	judge_copies_release(&other);
	for (size_t i = 0; i < k; i++)
		free(x[i]);
}

/* More work than the bound: blocks are drawn, and say the same. */
static void drawn_copies(void)
{
	struct judge_copies c;

	judge_copies_init(&c, 64, UINT64_C(1) << 30, 5);
	CHECK(c.share > 200);
	judge_copies_release(&c);
}

int main(void)
{
	verdicts();
	errors();
	scores();
	draws();
	blocks();
	copies(8, 5 * JUDGE_BLOCK + 9);
	drawn_copies();
	TEST_END();
}
