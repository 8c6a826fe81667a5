/* reward.c - benchmark: time and memory of rnp-reward for an epoch of a million nodes in a file, of
 * verifying it and of all its proofs, and for one of ten million from a pipe, under the rates of
 * RNP-021. Prints records to standard output; exit 1 when a limit is broken. `reward N [SEED]`
 * writes N synthetic usages instead.
 *
 * It uses only libc while it measures: the kernel counts the memory of the forking process in
 * the child's ru_maxrss. */
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/record/key.h"
#include "common/base/stats.h"

#define NODES        1000000
#define RUNS         10
#define TIME_LIMIT   5e9 /* ns */
#define MEMORY_LIMIT 1e9

#define VERIFY_MEMORY_LIMIT 0.5e9 /* its time: that of epoch, and 5% for the machine */
#define PROOF_TIME_LIMIT    10e9

#define STREAM_NODES        10000000
#define STREAM_RUNS         1
#define STREAM_TIME_LIMIT   60e9 /* with the time of the generator, which runs beside it */
#define STREAM_MEMORY_LIMIT 2e9

extern char **environ;

static const struct {
	const char *model;
	int64_t memory_bytes, clock_mhz, bandwidth_bps;
} cards[] = {
	{ "NVIDIA GeForce RTX 4090", 25757220864, 2520, 1008000000000 },
	{ "NVIDIA GeForce RTX 3090", 25769803776, 1695, 935810000000 },
	{ "NVIDIA GeForce RTX 3060", 12884901888, 1777, 360000000000 },
	{ "NVIDIA GeForce RTX 4070 Ti", 12878610432, 2610, 504200000000 },
	{ "NVIDIA GeForce RTX 5090", 34190917632, 2407, 1792000000000 },
	{ "NVIDIA GeForce RTX 3080", 10737418240, 1710, 760000000000 },
	{ "NVIDIA H100 80GB HBM3", 85520809984, 1980, 3350000000000 },
	{ "NVIDIA H200", 150754820096, 1980, 4800000000000 },
};
#define CARDS (sizeof cards / sizeof *cards)

static uint64_t state;

/* splitmix64: any bits will do if they are the same everywhere */
static uint64_t next(void)
{
	uint64_t z = (state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static int64_t below(int64_t n)
{
	return (int64_t)(next() % (uint64_t)n);
}

static void address(char out[KEY_ADDRESS_MAX])
{
	unsigned char bytes[KEY_PUBLIC_BYTES];

	for (size_t i = 0; i < sizeof bytes; i += 8) {
		uint64_t v = next();

		memcpy(bytes + i, &v, 8);
	}
	address_format(bytes, out);
}

static void generate(FILE *out, long n)
{
	char node[KEY_ADDRESS_MAX], wallet[KEY_ADDRESS_MAX];

	for (long i = 0; i < n; i++) {
		size_t card = (size_t)below(CARDS);

		address(node);
		address(wallet);
		fprintf(out,
			"{\"kind\":\"rnp.usage\",\"v\":1,\"node\":\"%s\",\"wallet\":\"%s\","
			"\"gpu_model\":\"%s\",\"gpu_count\":%" PRId64
			",\"gpu_memory_bytes\":%" PRId64 ",\"gpu_clock_mhz\":%" PRId64
			",\"gpu_memory_bandwidth_bps\":%" PRId64 ",\"cpu_cores\":%" PRId64
			",\"cpu_clock_mhz\":%" PRId64 ",\"gpu_worked_s\":%" PRId64
			",\"up_s\":%" PRId64 ",\"earned_uusd\":%" PRId64
			",\"credits\":%" PRId64 ",\"down_bps\":%" PRId64
			",\"up_bps\":%" PRId64 ",\"score_ppm\":%" PRId64 "}\n",
			node, wallet, cards[card].model, 1 + below(8),
			cards[card].memory_bytes, cards[card].clock_mhz,
			cards[card].bandwidth_bps, 2 + below(63), 2000 + below(3500),
			below(604801), below(604801), below(5000000000), below(5000000),
			80000000 + below(2000000000), 60000000 + below(2000000000),
			below(2000000));
	}
}

/* Runs the program with these arguments, its output to a file or, NULL, nowhere, over a standard
 * input unless that is -1. Returns 0, or -1 on failure. */
static int run(char **argv, const char *output, int input, double *time_ns, double *bytes)
{
	posix_spawn_file_actions_t files;
	int64_t from = clock_mono_ns();
	struct rusage used;
	int status, rc;
	pid_t pid;

	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, STDOUT_FILENO,
		output ? output : "/dev/null", O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (input >= 0)
		posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
	rc = posix_spawn(&pid, argv[0], &files, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	if (input >= 0)
		close(input); /* so that the generator ends when the program does */
	if (rc || wait4(pid, &status, 0, &used) < 0 || status)
		return -1;
	*time_ns = (double)(clock_mono_ns() - from);
	*bytes = (double)used.ru_maxrss * 1024;
	return 0;
}

/* Runs the program over what another process of this benchmark generates. */
static int run_stream(char **epoch, char *self, double *time_ns, double *bytes)
{
	char nodes[16];
	char *argv[] = { self, nodes, NULL };
	posix_spawn_file_actions_t into;
	int ends[2], status, rc;
	pid_t pid;

	snprintf(nodes, sizeof nodes, "%d", STREAM_NODES);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	posix_spawn_file_actions_init(&into);
	posix_spawn_file_actions_adddup2(&into, ends[1], STDOUT_FILENO);
	rc = posix_spawn(&pid, self, &into, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&into);
	close(ends[1]);
	if (rc) {
		close(ends[0]);
		return -1;
	}
	rc = run(epoch, NULL, ends[0], time_ns, bytes);
	return waitpid(pid, &status, 0) < 0 || status ? -1 : rc;
}

static int print(const char *test, const char *unit, const double *samples, int runs,
	int nodes, double limit)
{
	char at[CLOCK_TEXT_MAX];
	struct stats s;

	stats_of(samples, (size_t)runs, &s);
	clock_format(at, clock_now_ms());
	printf("{\"kind\":\"rnp.bench\",\"v\":1,\"at\":\"%s\",\"suite\":\"reward\","
	       "\"test\":\"%s\",\"unit\":\"%s\",\"median\":%.0f,\"low\":%.0f,\"high\":%.0f,"
	       "\"samples\":%d,\"params\":{\"nodes\":%d,\"limit\":%.0f}}\n",
		at, test, unit, s.median, s.low, s.high, runs, nodes, limit);
	return s.median > limit;
}

/* What is run, interleaved, so that all see the same machine. */
enum { EPOCH, VERIFY, PROOF, COMMANDS };

static int failed(const char *program)
{
	fprintf(stderr, "reward: %s failed\n", program);
	return 70;
}

static double median(const double *samples)
{
	struct stats s;

	stats_of(samples, RUNS, &s);
	return s.median;
}

int main(int argc, char **argv)
{
	const char *build = getenv("RNP_BUILD"), *tmp = getenv("TMPDIR");
	static double time_ns[COMMANDS][RUNS], bytes[COMMANDS][RUNS];
	char program[4096], usages[4096], rewards[4096];
	char policy[] = "rnp-021", epoch[] = "epoch", verify[] = "verify";
	char *commands[COMMANDS][6] = {
		{ program, epoch, (char *)"--policy", policy, usages },
		{ program, verify, (char *)"--usage", usages, rewards },
		{ program, (char *)"proof", (char *)"--all", rewards },
	};
	char *stream[] = { program, epoch, (char *)"--policy", policy, NULL };
	FILE *out;
	int rc;

	state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	if (argc > 1) {
		generate(stdout, atol(argv[1]));
		return fflush(stdout) ? 74 : 0;
	}
	snprintf(program, sizeof program, "%s/bin/rnp-reward", build ? build : "build");
	snprintf(usages, sizeof usages, "%s/usage.jsonl", tmp ? tmp : "/tmp");
	snprintf(rewards, sizeof rewards, "%s/rewards.jsonl", tmp ? tmp : "/tmp");
	out = fopen(usages, "w");
	if (out)
		generate(out, NODES);
	if (!out || fclose(out)) {
		perror(usages);
		return 74;
	}
	if (run(commands[EPOCH], rewards, -1, &time_ns[EPOCH][0], &bytes[EPOCH][0]) < 0)
		return failed(program);
	for (int i = 0; i < RUNS; i++)
		for (int c = 0; c < COMMANDS; c++)
			if (run(commands[c], NULL, -1, &time_ns[c][i], &bytes[c][i]) < 0)
				return failed(program);
	unlink(usages);
	unlink(rewards);
	rc = print("epoch.time", "ns", time_ns[EPOCH], RUNS, NODES, TIME_LIMIT);
	rc |= print("epoch.memory", "B", bytes[EPOCH], RUNS, NODES, MEMORY_LIMIT);
	rc |= print("verify.time", "ns", time_ns[VERIFY], RUNS, NODES,
		1.05 * median(time_ns[EPOCH]));
	rc |= print("verify.memory", "B", bytes[VERIFY], RUNS, NODES,
		VERIFY_MEMORY_LIMIT);
	rc |= print("proof.time", "ns", time_ns[PROOF], RUNS, NODES, PROOF_TIME_LIMIT);
	for (int i = 0; i < STREAM_RUNS; i++)
		if (run_stream(stream, argv[0], &time_ns[EPOCH][i], &bytes[EPOCH][i]) < 0)
			return failed(program);
	rc |= print("epoch.stream_time", "ns", time_ns[EPOCH], STREAM_RUNS, STREAM_NODES,
		STREAM_TIME_LIMIT);
	rc |= print("epoch.stream_memory", "B", bytes[EPOCH], STREAM_RUNS, STREAM_NODES,
		STREAM_MEMORY_LIMIT);
	return rc;
}
