/* outer.c - each rule is a direct evaluation of its formula in double within one
 * rounding an array, for rounds on end and in any cut into chunks; streaming with one fragment
 * and no overlap is DiLoCo, bit for bit. */
#include "common/lm/rounds/outer.h"

#include <math.h>
#include <sysexits.h>

#include "common/lm/model/config.h"
#include "tests/unit/test.h"

enum { N = 257, K = 4, ROUNDS = 40 };

/* A number of about 0.1, the same in every run. */
static float number(uint64_t seed, uint64_t i)
{
	return (float)((double)((seed * 7919 + i * 104729 + i * i * 31) % 20011) / 1e5 -
		0.1);
}

/* A rounding of f32, and of what was rounded in the rounds before. */
static bool close_to(double want, float got, int rounds)
{
	return fabs(want - (double)got) <= 0x1p-24 * (fabs(want) + 1) * (rounds + 2);
}

static void deltas(float out[K][N], int round)
{
	for (int k = 0; k < K; k++)
		for (int i = 0; i < N; i++)
			out[k][i] = number((uint64_t)(round * K + k + 1), (uint64_t)i);
}

static void weighted(double d[N], float x[K][N], const double w[K])
{
	outer_mean_begin(d, N);
	for (int k = 0; k < K; k++)
		outer_mean_add(d, x[k], w[k], N);
}

static void weights(void)
{
	uint64_t tokens[K] = { 100, 300, 0, 600 }, none[2] = { 0, 0 };
	double w[K];

	CHECK(outer_weights(w, tokens, K) == 0);
	CHECK(w[0] == 0.1 && w[1] == 0.3 && w[2] == 0 && w[3] == 0.6);
	CHECK_FAILS(EX_DATAERR, outer_weights(w, none, 2));
	CHECK_FAILS(EX_DATAERR, outer_weights(w, tokens, 0));
}

/* theta and v in double beside ours, for ROUNDS rounds. rate 0: the rule `mean`. */
static void rounds_of(double rate, double momentum)
{
	uint64_t tokens[K] = { 3, 1, 2, 4 };
	struct outer_nesterov o = { rate, momentum };
	float theta[N], v[N] = { 0 }, x[K][N];
	double want[N], velocity[N] = { 0 }, w[K], d[N];

	CHECK(outer_weights(w, tokens, K) == 0);
	for (int i = 0; i < N; i++)
		want[i] = theta[i] = number(99, (uint64_t)i);
	for (int r = 0; r < ROUNDS; r++) {
		deltas(x, r);
		weighted(d, x, w);
		if (rate == 0)
			outer_mean(theta, d, N);
		else
			outer_nesterov(theta, v, d, N, &o);
		for (int i = 0; i < N; i++) {
			double sum = 0.3 * (double)x[0][i] + 0.1 * (double)x[1][i] +
				0.2 * (double)x[2][i] + 0.4 * (double)x[3][i];

			velocity[i] = momentum * velocity[i] + sum;
			want[i] -= rate == 0 ? sum :
					       rate * (sum + momentum * velocity[i]);
		}
	}
	for (int i = 0; i < N; i++) {
		CHECK(close_to(want[i], theta[i], 4 * ROUNDS));
		CHECK(rate == 0 || close_to(velocity[i], v[i], 4 * ROUNDS));
	}
}

static void nesterov(void)
{
	struct outer_nesterov few = outer_nesterov_defaults(24),
			      many = outer_nesterov_defaults(100),
			      unknown = outer_nesterov_defaults(0);

	CHECK(few.rate == 0.9 && few.momentum == 0.6);
	CHECK(many.rate == 0.7 && many.momentum == 0.9);
	CHECK(unknown.rate == 0.7 && unknown.momentum == 0.9);
	rounds_of(0.7, 0.9);
	rounds_of(0.9, 0.6);
	rounds_of(0, 0); /* mean */
}

/* Chunks of any size have the bits of the whole. */
static void chunks(void)
{
	static const uint64_t sizes[] = { 1, 7, 64, N };
	struct outer_nesterov o = { 0.7, 0.9 };
	struct outer_dn_step s = { 0.7, 0.9, 0.25, 3, true };
	float want[N], want_v[N], want_b[N], x[K][N];
	double d[N];

	deltas(x, 5);
	for (int i = 0; i < N; i++)
		d[i] = (double)x[0][i] / 3;
	for (size_t c = 0; c < 2 * sizeof sizes / sizeof *sizes; c++) {
		uint64_t size = sizes[c / 2];
		float theta[N], v[N], buffer[N];
		bool dn = c % 2;

		for (int way = 0; way < 2; way++) {
			uint64_t step = way ? size : N;

			memcpy(theta, x[1], sizeof theta);
			memcpy(v, x[2], sizeof v);
			memcpy(buffer, x[3], sizeof buffer);
			for (uint64_t i = 0; i < N; i += step) {
				uint64_t n = N - i < step ? N - i : step;

				if (dn)
					outer_dn(theta + i, v + i, buffer + i, x[0] + i,
						n, &s);
				else
					outer_nesterov(theta + i, v + i, d + i, n, &o);
			}
			if (!way) {
				memcpy(want, theta, sizeof want);
				memcpy(want_v, v, sizeof want_v);
				memcpy(want_b, buffer, sizeof want_b);
			}
		}
		CHECK(memcmp(want, theta, sizeof want) == 0);
		CHECK(memcmp(want_v, v, sizeof want_v) == 0);
		CHECK(memcmp(want_b, buffer, sizeof want_b) == 0);
	}
}

/* Algorithm 3 as it is written, delta by delta; members come and go between buffers. */
static void delayed_nesterov(double c)
{
	static const uint32_t live[] = { 4, 9, 9, 9, 2, 1, 3, 3, 3, 1, 5, 5, 5, 5, 5 };
	struct outer_dn o = { .rate = 0.7, .beta = 0.9, .c = c };
	float theta[N], m[N] = { 0 }, buffer[N] = { 0 };
	double want[N], momentum[N] = { 0 }, sum[N] = { 0 };
	uint32_t members = 0, t = 0;

	for (int i = 0; i < N; i++)
		want[i] = theta[i] = number(5, (uint64_t)i);
	for (size_t a = 0; a < sizeof live / sizeof *live; a++) {
		struct outer_dn_step s = outer_dn_arrive(&o, live[a]);
		float g[N];

		if (!t)
			members = live[a];
		CHECK_I64(members, s.members);
		CHECK(s.closes == (t + 1 == members));
		for (int i = 0; i < N; i++) {
			double big = members;

			g[i] = number(a + 1, (uint64_t)i);
			sum[i] += (double)g[i];
			if (t + 1 == members) {
				momentum[i] = 0.9 * momentum[i] + sum[i] / big;
				want[i] -= 0.7 *
					((1 - c * big + c) * 0.9 * momentum[i] +
						(double)g[i] / big);
				sum[i] = 0;
			} else {
				want[i] -= 0.7 *
					(c * 0.9 * momentum[i] + (double)g[i] / big);
			}
		}
		outer_dn(theta, m, buffer, g, N, &s);
		t = t + 1 == members ? 0 : t + 1;
	}
	for (int i = 0; i < N; i++) {
		CHECK(close_to(want[i], theta[i], 60));
		CHECK(close_to(momentum[i], m[i], 60));
		CHECK(close_to(sum[i], buffer[i], 60));
	}
}

static void dynamic_steps(void)
{
	CHECK_I64(100, (int64_t)outer_dylu_steps(100, 7, 7));
	CHECK_I64(25, (int64_t)outer_dylu_steps(100, 1000, 4000));
	CHECK_I64(33, (int64_t)outer_dylu_steps(100, 1, 3));
	CHECK_I64(1, (int64_t)outer_dylu_steps(100, 1, 1000));
	CHECK_I64(1, (int64_t)outer_dylu_steps(0, 5, 5));
	CHECK_I64((int64_t)1 << 61,
		(int64_t)outer_dylu_steps((uint64_t)1 << 62, (uint64_t)1 << 61,
			(uint64_t)1 << 62));
}

/* Nothing is lost: what was sent and what is left sum to what there was, with decay 1. */
/* 100 steps of warm-up, H = 50: 5, 10, 20 and 40 a round, by quarters. */
static void warm_rounds(void)
{
	static const uint64_t want[] = { 5, 5, 5, 5, 5, 10, 10, 10, 20, 40, 50 };
	uint64_t done = 0;

	for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
		CHECK(outer_round_steps(50, 100, done) == want[i]);
		done += want[i];
	}
	CHECK(outer_round_steps(50, 0, 0) == 50);
	CHECK(outer_round_steps(3, 100, 0) == 1);
	CHECK(outer_round_steps(UINT64_MAX, 8, 7) == UINT64_MAX / 5 * 4 + 0);
}

static void feedback(void)
{
	float e[N] = { 0 }, x[K][N], sent[N];
	double all[N] = { 0 }, gone[N] = { 0 };

	for (int r = 0; r < ROUNDS; r++) {
		deltas(x, r);
		outer_feedback_add(e, x[0], 1, N);
		for (int i = 0; i < N; i++) {
			sent[i] = i % 5 == r % 5 ? roundf(e[i] * 64) / 64 : 0;
			gone[i] += (double)sent[i];
			all[i] += (double)x[0][i];
		}
		outer_feedback_sent(e, sent, N);
	}
	for (int i = 0; i < N; i++)
		CHECK(fabs(all[i] - gone[i] - (double)e[i]) < 1e-5);
	/* SparseLoCo's forgets: e <- 0.95 e + delta */
	e[0] = 2;
	x[0][0] = 0.5f;
	outer_feedback_add(e, x[0], 0.95, 1);
	CHECK(e[0] == (float)(0.95 * 2 + 0.5));
}

static void both_ways(void)
{
	float began[N], ended[N], delta[N], theta[N], published[N], u[N];

	for (int i = 0; i < N; i++) {
		began[i] = number(1, (uint64_t)i);
		ended[i] = number(2, (uint64_t)i);
		published[i] = number(3, (uint64_t)i);
		u[i] = number(4, (uint64_t)i);
	}
	outer_delta(delta, began, ended, N);
	for (int i = 0; i < N; i++)
		CHECK(delta[i] == began[i] - ended[i]);
	memcpy(theta, ended, sizeof theta);
	outer_merge(theta, published, 0.25, N);
	for (int i = 0; i < N; i++)
		CHECK(close_to(0.25 * (double)ended[i] + 0.75 * (double)published[i],
			theta[i], 0));
	/* a = 0: a worker goes on from what is published, whatever it had */
	theta[3] = NAN;
	outer_merge(theta, published, 0, N);
	CHECK(memcmp(theta, published, sizeof published) == 0);
	memcpy(theta, published, sizeof published);
	outer_publish(theta, u, N);
	for (int i = 0; i < N; i++)
		CHECK(theta[i] == published[i] + u[i]);
}

/* Every tensor is in one fragment, due once a round; one fragment is due when a round ends, and
 * nowhere else. */
static void fragments(void)
{
	struct lm_config c;
	int due = 0;

	CHECK(lm_config_preset(&c, "mini", 0) == 0);
	for (uint32_t i = 0; i < lm_layout_count(&c); i++) {
		struct lm_place p;
		uint32_t f;

		lm_layout_at(&c, i, &p);
		f = outer_fragment(&p, 3);
		CHECK(f < 3);
		if (p.part == LM_EMBED || p.part == LM_OUT_NORM || p.part == LM_OUTPUT)
			CHECK_I64(2, f);
		else
			CHECK_I64(p.layer % 3, f);
		CHECK_I64(0, outer_fragment(&p, 1));
	}
	for (uint64_t step = 0; step <= 100; step++)
		CHECK(outer_fragment_due(0, 1, 50, step) == (step == 50 || step == 100));
	for (uint64_t step = 101; step <= 150; step++)
		for (uint32_t p = 0; p < 4; p++)
			due += outer_fragment_due(p, 4, 50, step);
	CHECK_I64(4, due);
	CHECK(outer_fragment_due(1, 4, 50, 12) && outer_fragment_due(3, 4, 50, 37));
}

int main(void)
{
	weights();
	nesterov();
	chunks();
	delayed_nesterov(0);
	delayed_nesterov(0.2);
	dynamic_steps();
	warm_rounds();
	feedback();
	both_ways();
	fragments();
	TEST_END();
}
