/* poc.c - uses: cmd/rnp-bench */
/* poc: the trees, sequences and limits; honest answers pass and cheats do not. */
#include "common/poc/poc.h"

#include <sodium.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "common/json/schema.h"
#include "kernels/dev/dev.h"
#include "tests/poc/cheats.h"
#include "tests/poc/miser.h"
#include "tests/unit/test.h"

#ifdef __SANITIZE_ADDRESS__
#define EACH 2 /* the sanitizers want every path, not numbers */
#else
#define EACH 50
#endif

/* By hand: the shape of RFC 6962. */
static void check_tree_by_hand(void)
{
	unsigned char row[3] = { 7, 8, 9 },
		      leaf[12] = { 0, 2, 0, 0, 0, 5, 0, 0, 0, 7, 8, 9 };
	unsigned char want[32], got[32], pair[65] = { 1 }, root[32];
	struct poc_tree t;

	crypto_hash_sha256(want, leaf, sizeof leaf);
	poc_leaves(got, row, 3, 1, 2, 5);
	CHECK(memcmp(want, got, 32) == 0);
	poc_tree_init(&t, 3);
	for (int i = 0; i < 3; i++)
		memset(t.nodes + 32 * i, 'a' + i, 32);
	poc_tree_build(&t, root);
	memset(pair + 1, 'a', 32);
	memset(pair + 33, 'b', 32);
	crypto_hash_sha256(got, pair, 65);
	memcpy(pair + 1, got, 32);
	memset(pair + 33, 'c', 32);
	crypto_hash_sha256(want, pair, 65);
	CHECK(memcmp(want, root, 32) == 0);
	poc_tree_release(&t);
}

static void check_trees(void)
{
	struct rng r;

	rng_seed(&r, 5, 5);
	for (uint64_t leaves = 1; leaves < 40; leaves++) {
		unsigned char root[32], hashes[40 * 32];
		struct poc_tree t;

		poc_tree_init(&t, leaves);
		rng_bytes(&r, t.nodes, 32 * leaves);
		poc_tree_build(&t, root);
		for (int k = 0; k < 20; k++) {
			uint64_t at[40];
			size_t n = 1 + rng_below(&r, leaves);
			struct buf proof = BUF_INIT;

			for (size_t i = 0; i < n; i++)
				at[i] = rng_below(&r, leaves);
			n = poc_sort(at, n);
			poc_tree_open(&t, at, n, &proof);
#define LEAVES()                       \
	for (size_t i = 0; i < n; i++) \
		memcpy(hashes + 32 * i, t.nodes + 32 * at[i], 32);
#define GOOD(bytes)                                 \
	poc_tree_check(root, leaves, at, hashes, n, \
		(const unsigned char *)buf_text(&proof), bytes)
			LEAVES();
			CHECK(GOOD(proof.len));
			LEAVES();
			hashes[rng_below(&r, 32 * n)] ^= 1;
			CHECK(!GOOD(proof.len));
			buf_add(&proof, root, 32);
			LEAVES();
			CHECK(!GOOD(proof.len));
			LEAVES();
			CHECK(proof.len < 64 || !GOOD(proof.len - 64));
			buf_release(&proof);
		}
		poc_tree_release(&t);
	}
}

static void check_draw(void)
{
	unsigned char x[32] = { 3 };
	uint64_t all[POC_OPENINGS], few[10];

	poc_draw(all, POC_OPENINGS, POC_OPENINGS, x);
	for (uint64_t i = 0; i < POC_OPENINGS; i++)
		CHECK_I64((int64_t)i, (int64_t)all[i]);
	poc_draw(few, 10, UINT64_C(1) << 40, x);
	for (int i = 1; i < 10; i++)
		CHECK(few[i - 1] < few[i]);
	for (size_t i = 0; i < 10; i++)
		CHECK_I64((int64_t)i, (int64_t)poc_find(few, 10, few[i]));
}

/* Zero mean, and any part of a matrix is the same as in the whole. */
static void check_matrix(void)
{
	static int8_t whole[128 * 128], part[2 * 128];
	unsigned char seed[32] = { 1 };
	int64_t sum = 0;

	poc_matrix(whole, seed, 3, 128, 0, 128);
	for (int i = 0; i < 128 * 128; i++) {
		sum += whole[i];
		CHECK(whole[i] != INT8_MIN);
	}
	/* 5 standard deviations */
	CHECK(sum < 5 * 74 * 128 && sum > -5 * 74 * 128);
	poc_matrix(part, seed, 3, 128, 77, 2);
	CHECK(memcmp(part, whole + 77 * 128, sizeof part) == 0);
	poc_matrix(part, seed, -1, 128, 77, 2);
	CHECK(memcmp(part, whole + 77 * 128, sizeof part) != 0);
}

/* Keeping few rounds gives the same answer as keeping all. */
static void check_memory_of_rounds(struct bed *b)
{
	struct poc_challenge c;
	json_t *all, *few;

	rng_seed(&b->rng, 1, 99);
	ask(b, &c, MATMUL, &b->node, 1);
	all = prove(&c, INT64_C(1) << 30, NULL);
	few = prove(&c, 3 * b->size.n * b->size.n, NULL);
	CHECK(json_equal(all, few));
	json_decref(all);
	json_decref(few);
}

/* Every level of the CPU gives the same bytes, with all rounds kept and with few. */
static void check_levels(struct bed *b)
{
	struct poc_challenge c;
	json_t *want_rows = NULL, *want_blocks = NULL, *got;

	rng_seed(&b->rng, 2, 99);
	ask(b, &c, ALL, &b->node, 1);
	for (enum cpu_level level = CPU_REF; level <= cpu_level_best(); level++) {
		struct dev dev = DEV_INIT;

		CHECK(dev_open_cpu(&dev, level) == 0);
		for (int64_t budget = 1; budget <= INT64_C(1) << 30; budget <<= 30) {
			got = prove_matmul(&c, &c.devices[0], &dev, budget, NULL);
			CHECK(got && (!want_rows || json_equal(want_rows, got)));
			if (want_rows)
				json_decref(got);
			else
				want_rows = got;
		}
		got = prove_memory(&c, &c.devices[0], &dev, NULL);
		CHECK(got && (!want_blocks || json_equal(want_blocks, got)));
		if (want_blocks)
			json_decref(got);
		else
			want_blocks = got;
		dev_close(&dev);
	}
	json_decref(want_rows);
	json_decref(want_blocks);
}

/* The answer of a cheat that keeps half of the memory is right, but takes more work than the slack
 * of a deadline by class allows. Work is counted in blocks, which all cost the same: what they cost
 * in time is measured by tests/bench/poc.c. */
static void check_miser(struct bed *b)
{
	const struct poc_device size = { .lanes = 64, .per_slice = 64, .passes = 2 },
				was = b->size;
	struct dev honest = DEV_INIT;
	struct poc_challenge c;
	struct miser miser;
	json_t *good, *cheap;
	uint64_t blocks = 8 * (uint64_t)poc_step_leaves(&size);

	b->size = size;
	rng_seed(&b->rng, 3, 99);
	ask(b, &c, MEMORY, &b->node, 1);
	CHECK(dev_open(&honest, "cpu") == 0 && miser_open(&miser, 2) == 0);
	good = prove_memory(&c, &c.devices[0], &honest, NULL);
	cheap = prove_memory(&c, &c.devices[0], &miser.dev, NULL);
	CHECK(good && cheap && json_equal(good, cheap));
	/* 12.3 times the blocks */
	CHECK(miser.computed > 11 * blocks);
	CHECK(miser.computed > (uint64_t)POC_SLACK * blocks);
	json_decref(good);
	json_decref(cheap);
	dev_close(&honest);
	dev_close(&miser.dev);
	b->size = was;
}

/* The cheat that lets zeros stand for one lane of 64 and grinds passes after as many tries as
 * the formula says; so the formula can be trusted for a tenth of the memory, where a test would
 * take too long. */
static void check_grinder(struct bed *b)
{
	const struct poc_device size = { .lanes = 64, .per_slice = 16, .passes = 2 },
				was = b->size;
	double want = 0, spread = 0;
	uint64_t tried = 0;
	int passed = 0;

	b->size = size;
	for (uint64_t i = 0; i < 4; i++) {
		struct grinder g = { .missing = 1, .tries = 4096, .salt = (uint32_t)i };
		struct poc_challenge c;

		rng_seed(&b->rng, 6, i);
		ask(b, &c, MEMORY, &b->node, 1);
		grinder_open(&g, &c, &c.devices[0]);
		passed += passes(&c, answer_of(b, &c, &g.hooks));
		CHECK_I64(8, (int64_t)g.lucky);
		tried += g.tried;
	}
	/* zeros are there to be read by others, so that luck in each step is all it takes */
	CHECK_I64(4, passed);
	for (int64_t u = 0; u < 8; u++) {
		double p = grinder_try_passes(&size, 1, u);

		want += 4 / p;
		spread += 4 * (1 - p) / (p * p);
	}
	CHECK(fabs((double)tried - want) < 5 * sqrt(spread));
	b->size = was;
}

/* The cost of a tenth less memory by that formula, beside a GPU of 2 x 10^10 SHA-256 a second,
 * for each of the best paid models and a CPU: at least four times the honest work of the class. */
static void check_grinding_cost(void)
{
	static const char *const models[] = { "NVIDIA H200", "NVIDIA H100", "A100 80GB",
		"NVIDIA GeForce RTX 5090", "NVIDIA GeForce RTX 4090", "L4",
		"unheard of" };

	for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
		json_t *node = json_pack("{s:{s:i},s:I,s:[{s:s,s:s,s:I}]}", "cpu",
			"threads", 8, "memory_bytes", (json_int_t)64 << 30, "gpus",
			"uuid", "GPU-1", "model", models[i], "memory_bytes",
			(json_int_t)24 << 30);
		struct poc_challenge c = { .issued_ms = 1000 };
		double grind_s = 0;

		CHECK(poc_plan_node(&c, node) == 0 && c.ndevices == 2);
		for (int k = 0; k < c.ndevices; k++) {
			const struct poc_device *d = &c.devices[k];

			grind_s = 0;
			for (int64_t u = 0; u < MEMFILL_SLICES * d->passes; u++)
				grind_s += pow(0.9, -(double)poc_step_openings(d, u)) *
					262144 / 2e10;
			/* the deadline is more than twice the honest time */
			CHECK(grind_s > 4 * (double)c.deadline_ms / 1e3);
		}
		json_decref(node);
	}
}

/* Numbers of passes, and so of openings, that plans by class ask of fast devices. */
static void check_all_passes(struct bed *b)
{
	const struct poc_device was = b->size;
	struct buf text = BUF_INIT;
	json_t *answer;

	for (b->size.passes = 1; b->size.passes <= POC_PASSES_MAX; b->size.passes++) {
		struct poc_challenge c;

		rng_seed(&b->rng, 4, (uint64_t)b->size.passes);
		ask(b, &c, MEMORY, &b->node, 1);
		answer = answer_of(b, &c, NULL);
		buf_reset(&text);
		json_write(&text, answer);
		/* no honest answer is cut; the bound's constant part is 2 MB */
		CHECK((int64_t)text.len <= poc_plan_answer_bytes(&c));
		CHECK(poc_plan_answer_bytes(&c) - 2000000 < 16 * (int64_t)text.len);
		CHECK(passes(&c, answer));
	}
	buf_release(&text);
	b->size = was;
}

/* The way is taken off the time that readings divide by, a fiftieth of it at most. */
static void check_roundtrip(struct bed *b)
{
	const int64_t second = 1000000000,
		      cases[][2] = { { 0, 0 }, { 10000000, 10000000 },
			      { 500000000, second / POC_ROUNDTRIP_PART } };
	struct poc_challenge c;
	json_t *answer;

	rng_seed(&b->rng, 5, 1);
	ask(b, &c, CHAIN, &b->node, 1);
	answer = answer_of(b, &c, NULL);
	for (int i = 0; i < 3; i++) {
		struct poc_conditions j = { .received_ms = c.issued_ms + 1000,
			.elapsed_ns = second,
			.roundtrip_ns = cases[i][0] };
		double hashes = (double)(c.devices[0].segments * c.devices[0].steps);
		bool passed;
		json_t *verdict = poc_verify(&c, answer, &j, &passed);
		const json_t *readings = json_object_get(verdict, "readings");

		CHECK(passed);
		CHECK_I64(cases[i][1],
			json_integer_value(json_object_get(verdict, "roundtrip_ns")));
		CHECK_I64((int64_t)(hashes / ((double)(second - cases[i][1]) / 1e9)),
			json_integer_value(json_object_get(readings, "clock")));
		json_decref(verdict);
	}
	json_decref(answer);
}

/* Roots have a time of their own, are those of the answer, and are what readings divide by:
 * sending is nobody's work. */
static void check_roots(struct bed *b)
{
	const int64_t second = 1000000000;
	struct poc_conditions good = { .elapsed_ns = 50 * second,
		.has_roots = true,
		.roots_ns = 2 * second };
	struct poc_challenge c;
	json_t *answer, *roots, *verdict;
	bool passed;

	rng_seed(&b->rng, 7, 1);
	ask(b, &c, ALL, &b->node, 1);
	c.roots_ms = 2000;
	json_decref(poc_challenge_write(&c));
	CHECK_I64(2000, c.roots_ms);
	answer = answer_of(b, &c, NULL);
	poc_roots_hash(good.roots, answer);
	roots = poc_roots_write(&c, answer);
	CHECK(schema_check(roots, "", NULL) < 0); /* without a time and a signature */
	err_clear();
	json_decref(roots);
	for (int i = 0; i < 5; i++) {
		struct poc_conditions j = good;

		j.has_roots = i != 1;
		j.roots_ns += i == 2 ? 2000000 : 0;
		j.roots[7] ^= i == 3;
		j.elapsed_ns = i == 4 ? (DEADLINE_MS + 1) * (second / 1000) :
					j.elapsed_ns;
		verdict = poc_verify(&c, answer, &j, &passed);
		CHECK(passed == (i == 0));
		if (i == 0)
			CHECK_I64(c.devices[0].segments * c.devices[0].steps / 2,
				json_integer_value(
					json_object_get(json_object_get(verdict,
								"readings"),
						"clock")));
		json_decref(verdict);
	}
	json_decref(answer);
}

/* Another character of base64 in the place of the one at `at`, counted from the end where it is
 * negative. */
static void change(json_t *part, const char *key, long at)
{
	char *text = xstrdup(json_string_value(json_object_get(part, key)));
	char *c = text + (at < 0 ? (long)strlen(text) + at : at);

	*c = *c == 'A' ? 'B' : 'A';
	json_set_text(part, key, text);
	free(text);
}

/* The same of the first path that is not empty. */
static void change_path(json_t *paths)
{
	json_t *holder = json_object(), *path;
	size_t i = 0;

	while (!json_string_length(json_array_get(paths, i)))
		i++;
	path = json_array_get(paths, i);
	json_object_set(holder, "path", path);
	change(holder, "path", 0);
	json_array_set(paths, i, json_object_get(holder, "path"));
	json_decref(holder);
}

/* Spoils an answer in the n-th way. Returns the one check that has to find it, or NULL: there
 * are no more. */
static const char *spoil(struct bed *b, json_t *answer, int n)
{
	json_t *devices = json_object_get(answer, "devices");
	const struct key *signer = &b->node;
	const char *found = "devices";

	switch (n) {
	case 0: /* whole and signed, by somebody else for himself */
		signer = &b->stranger;
		json_set_text(answer, "node", signer->address);
		found = "node";
		break;
	case 1: /* for the node, but by somebody else */
		signer = &b->stranger;
		found = "signature";
		break;
	case 2:
		json_set_text(json_array_get(devices, 0), "device", "GPU-9");
		break;
	case 3:
		json_array_append(devices, json_array_get(devices, 0));
		break;
	case 4:
		json_array_clear(devices);
		found = "form";
		break;
	case 5:
		json_object_set_new(answer, "challenge_sha256",
			json_string("00000000000000000000000000000000"
				    "00000000000000000000000000000000"));
		found = "challenge";
		break;
	case 6:
		change(part_of(answer, "matmul"), "path", 0);
		found = "matmul";
		break;
	case 7:
		change(part_of(answer, "matmul"), "rows", 9);
		found = "matmul";
		break;
	case 8:
		change_path(json_object_get(part_of(answer, "memory"), "paths"));
		found = "memory";
		break;
	case 9:
		change(part_of(answer, "memory"), "blocks", 9);
		found = "memory";
		break;
	case 10:
		change(part_of(answer, "chain"), "checkpoints", 9);
		found = "chain";
		break;
	case 11: /* the last one, which nothing follows */
		change(part_of(answer, "chain"), "checkpoints", -9);
		found = "chain";
		break;
	default:
		return NULL;
	}
	sign(answer, signer);
	return found;
}

/* Each check finds its own fault, and no other one does. */
static void check_each(struct bed *b)
{
	struct poc_challenge c;
	const char *found;
	json_t *honest, *answer;

	rng_seed(&b->rng, 8, 1);
	ask(b, &c, ALL, &b->node, 1);
	honest = answer_of(b, &c, NULL);
	for (int n = 0; answer = json_deep_copy(honest), found = spoil(b, answer, n);
		n++) {
		struct poc_conditions j = { .received_ms = ISSUED_MS + TOOK_MS };
		bool passed;
		json_t *verdict = poc_verify(&c, answer, &j, &passed), *one;
		int failed = 0;
		size_t i;

		CHECK(!passed);
		json_array_foreach(json_object_get(verdict, "checks"), i, one)
			if (json_is_false(json_object_get(one, "passed"))) {
				CHECK_TEXT(found,
					json_string_value(json_object_get(one, "check")));
				failed++;
			}
		CHECK_I64(1, failed);
		json_decref(verdict);
		json_decref(answer);
	}
	json_decref(answer);
	CHECK(passes(&c, honest));
}

static void check_cheats(struct bed *b, uint64_t each)
{
	uint64_t passed[NCHEATS + 1] = { 0 };

	for (uint64_t i = 0; i < each; i++)
		for (size_t kind = 0; kind <= NCHEATS; kind++)
			passed[kind] += attempt(b, kind, i);
	CHECK_I64((int64_t)each, (int64_t)passed[NCHEATS]);
	for (size_t kind = 0; kind < NCHEATS; kind++) {
		bool good = as_promised(b, kind, each, passed[kind]);

		if (!good)
			fprintf(stderr, "%s: %d of %d passed\n", cheats[kind].name,
				(int)passed[kind], (int)each);
		CHECK(good);
	}
}

/* What work takes, by hand; and that the work which a registry plans is within its time on the
 * machine that it is planned for. */
static void check_work(void)
{
	static const struct poc_device d = { .uuid = "cpu:1",
		.n = 64,
		.rounds = 10,
		.lanes = 6,
		.per_slice = 100,
		.passes = 2,
		.segments = 4,
		.steps = 50 };
	static const struct poc_speed speed = { .class = { 5242880, 2457600, 100 },
		.rounds = 20 };
	/* as in avx512_thread (plan.c), two of them */
	static const struct poc_speed planned = { .class = { 5e11, 7e8, 1.8e7 },
		.rounds = 1e5 };
	struct poc_challenge c = { .node = "x" };
	uint64_t folds = poc_folds;
	double s[3], all;
	json_t *node = json_pack("{s:{s:[s],s:i},s:I}", "cpu", "isa", "avx512_vnni",
		"threads", 2, "memory_bytes", (json_int_t)1 << 34);

	poc_folds = 10;
	poc_plan_work_s(s, &d, &speed);
	CHECK(fabs(s[0] - 2) < 1e-9);               /* 200 hashes */
	CHECK(fabs(s[1] - (0.5 + 1 + 0.1)) < 1e-9); /* rounds, operations, a fold */
	/* 2 passes of 2400 KiB; 8 steps of 6 lanes at 120 a second; 8 folds */
	CHECK(fabs(s[2] - (2 + 0.4 + 0.8)) < 1e-9);
	poc_folds = 1 << 18;
	CHECK(poc_plan_node(&c, node) == 0 && c.ndevices == 1);
	poc_plan_work_s(s, &c.devices[0], &planned);
	all = s[0] + s[1] + s[2];
	CHECK(all > 9 && all * 1000 < (double)c.roots_ms / 1.9);
	json_decref(node);
	poc_folds = folds;
}

int main(void)
{
	static const struct poc_device size = { .n = 64,
		.rounds = 16,
		.lanes = 8,
		.per_slice = 33,
		.passes = 1,
		.segments = 20,
		.steps = 16 };
	struct bed b;

#ifdef __SANITIZE_ADDRESS__
	/* the leak sanitizer stumbles over oneDNN's library */
	setenv("RNP_DNNL", "0", 1);
#endif
	poc_folds = 1 << 8;
#ifdef _OPENMP
	omp_set_num_threads(1); /* the work is too small for more */
#endif
	check_tree_by_hand();
	check_trees();
	check_draw();
	check_matrix();
	bed_init(&b, &size);
	check_memory_of_rounds(&b);
	check_levels(&b);
	check_miser(&b);
	check_all_passes(&b);
	check_grinder(&b);
	check_roots(&b);
	check_grinding_cost();
	check_work();
	check_roundtrip(&b);
	check_each(&b);
	check_cheats(&b, EACH);
	bed_release(&b);
	TEST_END();
}
