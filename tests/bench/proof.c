/* proof.c - benchmark: how near rnp-register sign and verify come to the rate of bare
 * signatures.
 *
 * It measures pairs: the program over a stream of records of 1 KB (a file), and a loop of bare
 * crypto_sign_detached or crypto_sign_verify_detached over the same number of 64-byte messages,
 * on the same number of cores. The ratio of their rates is in ppm. Then it measures the
 * program's peak memory, over the stream and over a tenth of it.
 *
 * Arguments: records in the stream (100000), pairs (10). Exit 1 when a limit is broken: verify
 * 60%, sign 40%, memory of the whole stream within 2 MiB of that of its tenth. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/stats.h"

#define PAIRS_MAX    200
#define RECORD_BYTES 1024
#define MEMORY_SLACK (2 << 20)

extern char **environ;

static char dir[256];
static int records = 100000, pairs = 10;

static const char *path_of(const char *name)
{
	static char paths[8][320];
	static int next;
	char *path = paths[next++ % 8];

	snprintf(path, sizeof paths[0], "%s/%s", dir, name);
	return path;
}

static void die(const char *what)
{
	fprintf(stderr, "proof: %s: %s\n", what, strerror(errno));
	exit(71);
}

/* Records with nesting, texts and numbers, 1 KB each including the newline. */
static void write_records(const char *path, int n)
{
	FILE *f = fopen(path, "w");

	if (!f)
		die(path);
	for (int i = 0; i < n; i++) {
		char line[RECORD_BYTES + 1];
		int len = snprintf(line, sizeof line,
			"{\"kind\":\"rnp.example\",\"v\":1,\"at\":\"2026-01-02T03:04:05Z\","
			"\"name\":\"node %d\",\"gpus\":[{\"uuid\":\"GPU-%032d\",\"vendor\":"
			"\"NVIDIA\",\"model\":\"NVIDIA GeForce RTX 4090\",\"memory_bytes\":"
			"25757220864,\"driver\":\"550.54.14\",\"sm_count\":128,"
			"\"clock_max_mhz\":2520,\"power_limit_mw\":450000,\"pcie_gen\":4,"
			"\"pcie_width\":16,\"ecc\":false,\"mig\":false}],\"cpu\":{\"model\":"
			"\"16-core processor\",\"cores\":16,\"threads\":32,\"clock_max_mhz\":5881,"
			"\"isa\":[\"avx2\",\"avx512f\",\"avx512_vnni\"]},\"memory_bytes\":%d,"
			"\"network\":{\"down_bps\":940000000,\"up_bps\":480000000,\"ping_us\":"
			"11000},\"labels\":{\"country\":\"DE\",\"host_type\":\"miner\"},"
			"\"note\":\"",
			i, i, 1000000 + i);

		memset(line + len, 'x', (size_t)(RECORD_BYTES - 3 - len));
		memcpy(line + RECORD_BYTES - 3, "\"}\n", 3);
		if (fwrite(line, RECORD_BYTES, 1, f) != 1)
			die(path);
	}
	if (fclose(f))
		die(path);
}

struct run {
	double time_ns;
	long memory_bytes;
};

/* Runs rnp-register with these arguments, its output to a file or discarded. */
static struct run run_program(const char *sub, const char *input, const char *output)
{
	static char program[512], key[320];
	const char *build = getenv("RNP_BUILD");
	char *argv[] = { program, (char *)sub, (char *)input, NULL, NULL, NULL };
	posix_spawn_file_actions_t files;
	struct rusage used;
	int64_t from = clock_mono_ns();
	int status, rc;
	pid_t pid;

	snprintf(program, sizeof program, "%s/bin/rnp-register", build ? build : "build");
	if (strcmp(sub, "verify") != 0) {
		argv[2] = (char *)(strcmp(sub, "sign") == 0 ? "--key" : "--out");
		argv[3] = key;
		snprintf(key, sizeof key, "%s/key.json", dir);
		argv[4] = (char *)input;
	}
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output,
		O_WRONLY | O_CREAT | O_TRUNC, 0600);
	rc = posix_spawn(&pid, program, &files, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	if (rc || wait4(pid, &status, 0, &used) < 0 || status) {
		fprintf(stderr, "proof: %s %s failed\n", program, sub);
		exit(71);
	}
	return (struct run){ (double)(clock_mono_ns() - from), used.ru_maxrss * 1024 };
}

/* Nanoseconds that all cores of the team take for n bare signatures or verifications. */
static double bare(bool sign, int n)
{
	unsigned char public_key[32], secret[64], signature[64] = { 0 };
	static const unsigned char message[64] = "what is signed: two hashes";
	int bad = 0;
	int64_t from;

	crypto_sign_keypair(public_key, secret);
	crypto_sign_detached(signature, NULL, message, sizeof message, secret);
	from = clock_mono_ns();
#pragma omp parallel for reduction(+ : bad) firstprivate(signature)
	for (int i = 0; i < n; i++)
		bad += sign ? crypto_sign_detached(signature, NULL, message,
				      sizeof message, secret) != 0 :
			      crypto_sign_verify_detached(signature, message,
				      sizeof message, public_key) != 0;
	if (bad)
		exit(70);
	return (double)(clock_mono_ns() - from);
}

static void print(const char *test, const char *unit, const struct stats *s,
	const char *threads, long limit)
{
	char at[CLOCK_TEXT_MAX];

	clock_format(at, clock_now_ms());
	printf("{\"kind\":\"rnp.bench\",\"v\":1,\"at\":\"%s\",\"suite\":\"proof\",\"test\":\"%s\","
	       "\"unit\":\"%s\",\"median\":%.0f,\"low\":%.0f,\"high\":%.0f,\"samples\":%zu,"
	       "\"params\":{\"records\":%d,\"record_bytes\":%d,\"threads\":\"%s\",\"limit\":%ld}}\n",
		at, test, unit, s->median, s->low, s->high, s->n, records, RECORD_BYTES,
		threads, limit);
	fflush(stdout);
}

/* Whether the median of the ratios is at least limit_ppm. */
static bool measure(const char *sub, const char *input, const char *threads,
	long limit_ppm)
{
	double ratio[PAIRS_MAX], rate[PAIRS_MAX];
	bool sign = strcmp(sub, "sign") == 0;
	struct stats s;
	char test[32];

	for (int i = 0; i < pairs; i++) {
		double alone = bare(sign, records / 2), ours;

		ours = run_program(sub, input, "/dev/null").time_ns;
		alone += bare(sign, records - records / 2); /* half before, half after */
		ratio[i] = alone / ours * 1e6;
		rate[i] = records / ours * 1e9;
	}
	stats_of(ratio, (size_t)pairs, &s);
	snprintf(test, sizeof test, "%s_ratio", sub);
	print(test, "ppm", &s, threads, limit_ppm);
	if (s.median < (double)limit_ppm) {
		fprintf(stderr, "proof: %s is at %.1f%% of libsodium, not %ld%%\n", sub,
			s.median / 1e4, limit_ppm / 10000);
		limit_ppm = 0;
	}
	stats_of(rate, (size_t)pairs, &s);
	snprintf(test, sizeof test, "%s_rate", sub);
	print(test, "1/s", &s, threads, 0);
	return limit_ppm != 0;
}

static bool measure_memory(const char *sub, const char *input, const char *tenth)
{
	double whole = (double)run_program(sub, input, "/dev/null").memory_bytes;
	double part = (double)run_program(sub, tenth, "/dev/null").memory_bytes;
	struct stats s;
	char test[32];

	stats_of(&whole, 1, &s);
	snprintf(test, sizeof test, "%s_memory", sub);
	print(test, "B", &s, "all", (long)part + MEMORY_SLACK);
	if (whole <= part + MEMORY_SLACK)
		return true;
	fprintf(stderr, "proof: %s takes %.0f bytes for the stream, %.0f for its tenth\n",
		sub, whole, part);
	return false;
}

/* One core or all: OpenMP reads its environment only once, so each runs in a process of its
 * own. */
static int measure_with(const char *self, const char *threads)
{
	char command[900];

	if (strcmp(threads, "1") == 0)
		setenv("OMP_NUM_THREADS", "1", 1);
	else
		unsetenv("OMP_NUM_THREADS");
	snprintf(command, sizeof command, "'%s' %d %d '%s' %s", self, records, pairs, dir,
		threads);
	return system(command);
}

static int measure_here(const char *threads)
{
	bool good = measure("verify", path_of("signed"), threads, 600000);

	return measure("sign", path_of("records"), threads, 400000) && good ? 0 : 1;
}

int main(int argc, char **argv)
{
	const char *base = getenv("TMPDIR");
	bool good;

	if (sodium_init() < 0)
		return 71;
	if (argc > 2) {
		records = atoi(argv[1]);
		pairs = atoi(argv[2]);
	}
	if (records < 100 || pairs < 1 || pairs > PAIRS_MAX)
		return 64;
	if (argc > 4) {
		snprintf(dir, sizeof dir, "%s", argv[3]);
		return measure_here(argv[4]);
	}
	snprintf(dir, sizeof dir, "%.200s/rnp-proof-XXXXXX", base ? base : "/tmp");
	if (!mkdtemp(dir))
		die(dir);
	write_records(path_of("records"), records);
	write_records(path_of("records.tenth"), records / 10);
	run_program("keygen", NULL, "/dev/null");
	run_program("sign", path_of("records"), path_of("signed"));
	run_program("sign", path_of("records.tenth"), path_of("signed.tenth"));
	good = measure_with(argv[0], "1") == 0;
	good = measure_with(argv[0], "all") == 0 && good;
	good = measure_memory("verify", path_of("signed"), path_of("signed.tenth")) &&
		good;
	good = measure_memory("sign", path_of("records"), path_of("records.tenth")) &&
		good;
	for (const char *const *name = (const char *const[]){ "records", "records.tenth",
		     "signed", "signed.tenth", "key.json", NULL };
		*name; name++)
		unlink(path_of(*name));
	rmdir(dir);
	return good ? 0 : 1;
}
