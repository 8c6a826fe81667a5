/* predict.c - the time of a kernel from its bytes, operations, instructions and launches, worked
 * out by hand, and the sizes of a step. uses: tests/bench/predict */
#include "tests/bench/predict/work.h"

#include <math.h>
#include <string.h>

#include "tests/unit/test.h"

static bool near(double a, double b)
{
	return fabs(a - b) <= 1e-6 * (fabs(a) + fabs(b));
}

/* 1000 GB/s, 100 TFLOP/s, 10 multiprocessors at 1 GHz, 10 GB/s to the host. */
static const struct predict_gpu gpu = { "toy", "sm_90", 10, 1000, 1e12, 1e14, 0.5, 1e10 };

static void test_limits(void)
{
	struct predict_kernel k = { .kernel = "k", .launches = 3, .bytes = 9e6 };
	struct predict_code code = { .kernel = "k",
		.hot_instructions = 100,
		.hot_bytes = 16 };
	struct predict_time t = predict_time_of(&gpu, &k, NULL);

	/* starting it comes besides */
	CHECK(near(t.hbm_ns, 10000) && t.limit == PREDICT_HBM && near(t.ns, 13000));
	CHECK(!t.issue_known && near(t.launch_ns, 3000));
	/* 9e6 / 512 turns of 100 instructions at 30 a ns */
	t = predict_time_of(&gpu, &k, &code);
	CHECK(t.issue_known && near(t.issue_ns, 9e6 / 512 * 100 / 30) &&
		t.limit == PREDICT_ISSUE);
	k.moved =
		18e6; /* what is loaded twice costs instructions, not the memory's time */
	t = predict_time_of(&gpu, &k, &code);
	CHECK(near(t.hbm_ns, 10000) && near(t.issue_ns, 18e6 / 512 * 100 / 30));
	/* loads of which each waits for the one before */
	k.trips = 1000;
	k.near_trips = 100;
	t = predict_time_of(&gpu, &k, NULL);
	CHECK(near(t.latency_ns, 830000) && near(t.ns, 833000) &&
		t.limit == PREDICT_LATENCY);
	k.launches = 1000000;
	t = predict_time_of(&gpu, &k, &code);
	CHECK(t.limit == PREDICT_LAUNCH && near(t.ns, 1e9 + 830000));
	/* copies: what the host waits for, and their bytes; no instruction of ours */
	k = (struct predict_kernel){ .kernel = "copies",
		.launches = 2,
		.waits = 2,
		.host_bytes = 1e6 };
	t = predict_time_of(&gpu, &k, NULL);
	CHECK(t.issue_known && near(t.ns, 118000) && t.limit == PREDICT_LAUNCH);
	k = (struct predict_kernel){ .kernel = "k", .launches = 1, .operations = 4.25e9 };
	t = predict_time_of(&gpu, &k, NULL); /* at 0.85 of half of the peak */
	CHECK(near(t.tensor_ns, 1e5) && t.limit == PREDICT_TENSOR);
	code = (struct predict_code){ .kernel = "k",
		.hot_instructions = 640,
		.hot_bytes = 16,
		.mmas = 64 }; /* ten for each MMA */
	t = predict_time_of(&gpu, &k, &code);
	CHECK(near(t.issue_ns, 4.25e9 / 4096 * 10 / 30) && t.shared_ns == 0);
	/* 1.5 cycles of shared memory for each MMA at 9 a ns, longer than its product takes */
	code.hot_shared_cycles = 96;
	code.hot_instructions = 64;
	t = predict_time_of(&gpu, &k, &code);
	CHECK(near(t.shared_ns, 4.25e9 / 4096 * 1.5 / 9) &&
		near(t.ns, t.shared_ns + 1000) && t.limit == PREDICT_SHARED);
	k.shared_part = 0.5;
	t = predict_time_of(&gpu, &k, &code);
	CHECK(near(t.shared_ns, 4.25e9 / 4096 * 0.75 / 9) && t.limit == PREDICT_TENSOR);
	k.shared_part = 0;
	code.hot_shared_cycles = 0;
	code.hot_instructions = 640;
	k.is_int8 = true; /* twice as many in an MMA, at twice the rate */
	t = predict_time_of(&gpu, &k, &code);
	CHECK(near(t.tensor_ns, 5e4) && near(t.issue_ns, 4.25e9 / 8192 * 10 / 30));
	k.repeated = 3; /* a product of parts */
	CHECK(near(predict_time_of(&gpu, &k, NULL).tensor_ns, 15e4));
	/* 32 multiply-adds of two operations in each of 40 instructions; no tensor cores */
	code = (struct predict_code){ .kernel = "k",
		.hot_instructions = 40,
		.hot_bytes = 16,
		.fmas = 32 };
	k = (struct predict_kernel){ .kernel = "k",
		.launches = 1,
		.operations = 6.4e9,
		.by_fma = true };
	t = predict_time_of(&gpu, &k, &code);
	CHECK(near(t.issue_ns, 6.4e9 / 64 * 40 / 32 / 30) && t.tensor_ns == 0);
	k = (struct predict_kernel){ .kernel = "cuBLASLt",
		.launches = 1,
		.operations = 7.5e9 };
	t = predict_time_of(&gpu, &k, NULL);
	CHECK(near(t.tensor_ns, 1e5) && t.issue_known);
	/* by wgmma at 0.7 of the peak; what is issued between tiles at half of four a clock */
	k = (struct predict_kernel){ .kernel = "k",
		.launches = 1,
		.operations = 7e9,
		.by_wgmma = true,
		.after = 2e6 };
	t = predict_time_of(&gpu, &k, NULL);
	CHECK(near(t.tensor_ns, 2e5) && t.limit == PREDICT_TENSOR && !t.issue_known);
	/* 16 exponentials a clock and multiprocessor at 0.9, of tiles that are computed whole */
	k.exponentials = 28.8e6;
	k.repeated = 1.5;
	t = predict_time_of(&gpu, &k, &code);
	CHECK(near(t.issue_ns, 3e5) && near(t.tensor_ns, 2.5e5) &&
		t.limit == PREDICT_ISSUE);
	k.exponentials = k.repeated = 0;
	/* 25 tiles on ten multiprocessors take as long as 30; fewer than there are of these are not
	 * counted */
	k.tiles = 25;
	CHECK(near(predict_time_of(&gpu, &k, NULL).tensor_ns, 2.4e5));
	k.tiles = 9;
	CHECK(near(predict_time_of(&gpu, &k, NULL).tensor_ns, 2e5));
}

/* Two loops of a function, by rank, by shared memory and by symbols. */
static void test_phases(void)
{
	struct predict_code code = { .kernel = "k",
		.functions = 2,
		.function = { { "other", 9, 1, { 7 }, { 0 }, { 0 } },
			{ "f", 200, 3, { 100, 60, 30 }, { 8, 8, 0 }, { 4, 4, 4 } } } };
	struct predict_kernel k = { .kernel = "k",
		.launches = 1,
		.bytes = 9,
		.phases = { { "f", 2, 0, 1000, 0 } } };
	struct predict_time t = predict_time_of(&gpu, &k, &code);

	CHECK(t.issue_known && near(t.issue_ns, 1000 * 30 / 30.0) &&
		near(t.shared_ns, 1000 * 4 / 9.0));
	/* the shortest with four cycles that moves bytes */
	k.phases[0] = (struct predict_phase){ "f", 0, 4, 1000, 0 };
	CHECK(near(predict_time_of(&gpu, &k, &code).issue_ns, 1000 * 60 / 30.0));
	/* 32 lanes take four symbols each in a turn */
	k.phases[0] = (struct predict_phase){ "f", 1, 0, 0, 128000 };
	k.phases[1] = (struct predict_phase){ "other", 0, 0, 10, 0 };
	CHECK(near(predict_time_of(&gpu, &k, &code).issue_ns,
		(1000 * 60 + 10 * 7) / 30.0));
	k.phases[1].loop = PREDICT_ALL;
	CHECK(near(predict_time_of(&gpu, &k, &code).issue_ns,
		(1000 * 60 + 10 * 9) / 30.0));
	k.phases[1].loop = 1;
	CHECK(!predict_time_of(&gpu, &k, &code).issue_known);
	k.phases[1].function = "nothing";
	CHECK(!predict_time_of(&gpu, &k, &code).issue_known);
	CHECK(!predict_time_of(&gpu, &k, NULL).issue_known);
}

static void test_compression(void)
{
	struct predict_step s = { .values = 1 << 20 };
	struct predict_kernel k[PREDICT_KERNELS_MAX];
	int n = predict_encode(k, &s);

	CHECK(n == 3 && near(k[0].bytes, (1 << 20) * (1 + 1 / 1.229)) &&
		near(k[2].bytes, (1 << 20) * 2 / 1.229));
	CHECK(predict_compress(k, &s) == 4 && near(k[0].bytes, 5 << 20));
	CHECK(predict_decode(k, &s) == 1 &&
		near(k[0].bytes, (1 << 20) * (3 + 1 / 1.229)));
	s.skewed = true;
	CHECK(predict_encode(k, &s) == 3 && near(k[2].bytes, (1 << 20) * 2 / 11.0));
	for (int i = 0; i < PREDICT_PHASES_MAX; i++)
		if (!k[0].phases[i].function)
			return;
	CHECK(!"a kernel with too many phases");
}

static double sum_of(const struct predict_kernel *k, int n, bool operations)
{
	double sum = 0;

	for (int i = 0; i < n; i++)
		sum += operations ? k[i].operations : k[i].bytes;
	return sum;
}

/* Two layers of 4 heads of 64, hidden 512, vocabulary 1000: by hand. */
static uint64_t launches_of(const struct predict_kernel *k, int n)
{
	uint64_t sum = 0;

	for (int i = 0; i < n; i++)
		sum += k[i].launches;
	return sum;
}

static void test_steps(void)
{
	struct predict_step s = { .model = { .vocab = 1000,
					  .dim = 256,
					  .hidden = 512,
					  .layers = 2,
					  .heads = 4,
					  .kv_heads = 4,
					  .head_dim = 64,
					  .tied = true },
		.tokens = 2048,
		.length = 256,
		.context = 128,
		.weight_bytes_32 = 64 };
	struct predict_kernel k[PREDICT_KERNELS_MAX];
	double weights = 2 * (4 * 256 * 256 + 3 * 256 * 512), head = 256 * 1000;
	int n = predict_train(k, &s);

	/* 6 N for each token, and 9 products of attention over half of the length on average: two
	 * forward, five backward and the scores twice again */
	CHECK(n > 0 && n <= PREDICT_KERNELS_MAX);
	CHECK(near(sum_of(k, n, true),
		6 * 2048 * (weights + head) + 2.0 * 9 * 2048 * 128 * 2 * 256));
	for (int i = 0; i < n; i++)
		CHECK(strcmp(k[i].kernel, "cuBLASLt") != 0 && k[i].launches > 0);
	/* queries are eight times two tiles of 128 in each of four heads: too few for attention by
	 * wgmma, and five times as many are enough */
	s.wgmma = true;
	for (int times = 1; times < 6; times += 4) {
		bool wide = false, keys = false, queries = false;

		s.tokens = 2048 * (uint64_t)times;
		n = predict_train(k, &s);
		for (int i = 0; i < n; i++) {
			bool as_many = near(k[i].tiles, 320) &&
				near(k[i].exponentials, 2.0 * 10240 * 128 * 4);

			wide |= strcmp(k[i].kernel, "attend_wide_kernel<64, false>") ==
					0 &&
				as_many && near(k[i].repeated, 1.5);
			/* of the gradient's tiles of 64 a warpgroup sees 2.5 on average: of queries
			 * the last one is at an edge, but where it is the only one */
			keys |= strcmp(k[i].kernel,
					"attend_back_wide_kernel<64, true>") == 0 &&
				as_many && near(k[i].repeated, 1.25) &&
				near(k[i].phases[1].turns, -8.0 * 640) &&
				near(k[i].phases[2].turns, 8.0 * 640 * 1.5);
			queries |= strcmp(k[i].kernel,
					   "attend_back_wide_kernel<64, false>") == 0 &&
				as_many && near(k[i].repeated, 1.25) &&
				near(k[i].phases[1].turns, -8.0 * 640 * 0.25) &&
				near(k[i].phases[2].turns, 0);
		}
		CHECK(wide == (times == 5) && keys == wide && queries == wide);
	}
	s.wgmma = false;
	s.tokens = 2048;
	n = predict_train(k, &s);
	s.library = true;
	CHECK(predict_train(k, &s) == n && strcmp(k[0].kernel, "cuBLASLt") == 0);
	/* a token reads every weight and key once */
	n = predict_token(k, &s);
	CHECK(near(k[0].bytes, 2 * 2.0 * 256 * (3 * 256 + 2 * 512)));
	CHECK(near(k[0].bytes + k[1].bytes, 2 * (weights + head)));
	CHECK(near(k[2].bytes, 2 * 128 * 2 * 256 * 2));
	/* six launches a layer, the last norm and the output layer */
	CHECK(launches_of(k, n) == 2 * 6 + 2);
	n = predict_prompt(k, &s);
	CHECK(near(k[0].operations, 2 * 128 * weights) && !k[0].by_wgmma);
	s.wgmma = true;
	CHECK(predict_prompt(k, &s) && k[0].by_wgmma && k[1].by_wgmma &&
		near(k[0].operations + k[1].operations, 2 * 128 * weights));
	s.wgmma = false;
	s.weight_bytes_32 = 34;
	s.rows_kernel = "rows";
	s.tensor_kernel = "tensor";
	n = predict_token(k, &s);
	CHECK(near(k[0].bytes + k[1].bytes, 34.0 / 32 * (weights + head)) &&
		!strcmp(k[0].kernel, "rows") && !strcmp(k[1].kernel, "rows"));
	/* besides, two kernels a layer that quantise, and one for the output layer */
	CHECK(launches_of(k, n) == 2 * 8 + 3);
	n = predict_prompt(k, &s);
	CHECK(n > 0 && near(k[0].operations, 2 * 128 * weights) && k[0].is_int8);
	CHECK(predict_gpu_find("h100") && !predict_gpu_find("H1"));
}

int main(void)
{
	test_limits();
	test_phases();
	test_compression();
	test_steps();
	TEST_END();
}
