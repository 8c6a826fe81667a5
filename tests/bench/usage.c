/* usage.c - benchmark: processor time of rnp-reward usage for each signed record: as our programs
 * write it, written so that it must be read as JSON, and with signatures verified by libsodium one
 * by one, in turns, so that all see the same machine.
 *
 * A node of the file has 20 records: its own, 7 rnp.uptime, 6 rnp.verdict, passed and with all that
 * a registry writes into them, and 6 rnp.receipt, by one trusted key. Arguments: nodes (5000),
 * rounds (3), and a file name, which is then only written, with the number of its first node (0):
 * files of other numbers name other devices, so that several can be written at once and read
 * together. Prints rnp.bench records; exit 1 when the first way is not the fastest. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sodium.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/stats.h"
#include "common/json/canon.h"
#include "common/json/json.h"
#include "common/record/key.h"
#include "common/record/signature.h"

#define ROUNDS_MAX 100
#define DAY_MS     INT64_C(86400000)
#define DAYS       7
#define JUDGED     6

extern char **environ;

static int64_t from_ms;
static long record_bytes; /* of the first file, on average */

/* The same records twice; an escaped letter in each of json has the same meaning. */
struct files {
	FILE *plain, *json; /* json may be NULL */
};

static void die(const char *what)
{
	fprintf(stderr, "usage: %s: %s\n", what, strerror(errno));
	exit(71);
}

static void write_signed(const struct files *f, json_t *takes, const struct key *k)
{
	static const char start[] = "{\"kind\":\"r";
	char *text;

	if (signature_add(takes, k, from_ms) < 0)
		die("cannot sign");
	text = json_dumps(takes, JSON_COMPACT);
	if (!text || strncmp(text, start, sizeof start - 1) != 0)
		die("a record does not begin with its kind");
	fprintf(f->plain, "%s\n", text);
	if (f->json)
		fprintf(f->json, "{\"kind\":\"\\u0072%s\n", text + sizeof start - 1);
	free(text);
	json_decref(takes);
}

static json_t *judged(const char *kind, const char *node, const struct key *judge,
	int64_t at_ms)
{
	json_t *r = json_record(kind);

	json_set_text(r, "node", node);
	json_set_text(r, "signer", judge->address);
	json_set_time(r, "at", at_ms);
	return r;
}

static void set_hash(json_t *r, const char *key, const void *data, size_t len)
{
	unsigned char hash[crypto_hash_sha256_BYTES];
	char hex[2 * sizeof hash + 1];

	crypto_hash_sha256(hash, data, len);
	json_set_text(r, key, sodium_bin2hex(hex, sizeof hex, hash, sizeof hash));
}

static json_t *check_of(const char *name, const char *device)
{
	json_t *check = json_object();

	json_set_text(check, "check", name);
	json_set_bool(check, "passed", true);
	json_set_text(check, "device", device);
	return check;
}

/* What a registry writes when a node has passed: common/poc/verify.c. */
static void set_passed(json_t *r, const char *node_record, const char *uuid, long number)
{
	static const char *const checks[] = { "signature", "challenge", "deadline",
		"roots" },
				 *const of_device[] = { "matmul", "memory", "chain" };
	json_t *list = json_array(), *readings = json_object(), *proven = json_object();

	set_hash(r, "challenge_sha256", &number, sizeof number);
	number = -1 - number;
	set_hash(r, "nonce", &number, sizeof number);
	json_set_text(r, "node_record", node_record);
	json_set_i64(r, "elapsed_ns", 8123456789);
	json_set_i64(r, "roots_ns", 7123456789);
	json_set_i64(r, "roundtrip_ns", 12345678);
	json_set_bool(r, "passed", true);
	for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
		json_push(list, check_of(checks[i], NULL));
	for (size_t i = 0; i < sizeof of_device / sizeof *of_device; i++)
		json_push(list, check_of(of_device[i], uuid));
	json_set(r, "checks", list);
	json_set_text(r, "proves",
		"work of this size was done within the time on some device that the node controls");
	json_set_text(proven, "device", uuid);
	json_set_i64(proven, "memory_bytes", 21893636096);
	json_set(r, "proven", json_pack("[o]", proven));
	json_set_i64(readings, "memory", 21893636096);
	json_set_i64(readings, "clock", 12345678);
	json_set_i64(readings, "teraflops", 330123456789012);
	json_set(r, "readings", readings);
	json_set(r, "unknown",
		json_pack("{s:s}", "readings.bandwidth", "not asked in this challenge"));
	json_set_text(r, "policy", "rnp-021");
}

static void write_node(const struct files *f, const json_t *model,
	const struct key *judge, long number)
{
	struct key k = KEY_INIT;
	unsigned char hash[CANON_HASH_BYTES];
	char uuid[64], node_record[2 * sizeof hash + 1];
	json_t *r = json_deep_copy(model), *gpu;

	if (key_generate(&k) < 0)
		die("cannot make a key");
	snprintf(uuid, sizeof uuid, "GPU-00000000-0000-4000-8000-%012lx", number);
	gpu = json_array_get(json_object_get(r, "gpus"), 0);
	json_set_text(gpu, "uuid", uuid);
	json_set_text(r, "node", k.address);
	json_set_text(r, "wallet", k.address);
	json_set_time(r, "at", from_ms - DAY_MS);
	if (canon_hash_record(hash, r) < 0)
		die("cannot hash");
	sodium_bin2hex(node_record, sizeof node_record, hash, sizeof hash);
	write_signed(f, r, &k);
	for (int day = 0; day < DAYS; day++) {
		int64_t begin_ms = from_ms + day * DAY_MS;

		r = judged("rnp.uptime", k.address, judge, begin_ms + 2 * DAY_MS);
		json_set_time(r, "from", begin_ms);
		json_set_time(r, "to", begin_ms + DAY_MS);
		json_set_i64(r, "beats", 2880);
		json_set_i64(r, "up_ms", 80000000);
		json_set(r, "spans",
			json_pack("[[I,I],[I,I]]", (json_int_t)0, (json_int_t)40000000,
				(json_int_t)46400000, (json_int_t)DAY_MS));
		write_signed(f, r, judge);
	}
	for (int i = 0; i < JUDGED; i++) {
		int64_t begin_ms = from_ms + i * DAY_MS;

		r = judged("rnp.verdict", k.address, judge, begin_ms + 3600000);
		set_passed(r, node_record, uuid, number * JUDGED + i);
		write_signed(f, r, judge);
		r = judged("rnp.receipt", k.address, judge, begin_ms + 3600000);
		json_object_del(r, "at");
		json_set_text(r, "job", uuid);
		json_set_time(r, "from", begin_ms + 7200000);
		json_set_time(r, "to", begin_ms + 14400000);
		json_set_i64(r, "earned_uusd", 1000 + i);
		json_set_i64(r, "gpu_seconds", 7200);
		write_signed(f, r, judge);
	}
	key_release(&k);
}

/* json NULL: none */
static void write_files(const char *plain, const char *json, long first, long nodes,
	const struct key *judge)
{
	json_t *model = json_load_file("tests/data/rtx4090.node.json", 0, NULL);
	struct files f = { fopen(plain, "w"), json ? fopen(json, "w") : NULL };

	if (!f.plain || (json && !f.json) || !model)
		die(model ? plain : "tests/data/rtx4090.node.json");
	for (long i = first; i < first + nodes; i++)
		write_node(&f, model, judge, i);
	if (fclose(f.plain) || (f.json && fclose(f.json)))
		die(plain);
	json_decref(model);
}

/* Runs usage; returns the processor time of all its threads. */
static double run(char **argv)
{
	posix_spawn_file_actions_t quiet;
	struct rusage used;
	int status;
	pid_t pid;

	posix_spawn_file_actions_init(&quiet);
	posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	errno = posix_spawn(&pid, argv[0], &quiet, NULL, argv, environ);
	if (errno || wait4(pid, &status, 0, &used) < 0 || status)
		die(argv[0]);
	posix_spawn_file_actions_destroy(&quiet);
	return ((double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 +
		       (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec)) *
		1e3;
}

static double print(const char *test, const double *samples, int n, long records)
{
	char at[CLOCK_TEXT_MAX];
	struct stats s;

	stats_of(samples, (size_t)n, &s);
	clock_format(at, clock_now_ms());
	printf("{\"kind\":\"rnp.bench\",\"v\":1,\"at\":\"%s\",\"suite\":\"reward\","
	       "\"test\":\"%s\",\"unit\":\"ns\",\"median\":%.0f,\"low\":%.0f,\"high\":%.0f,"
	       "\"samples\":%d,\"params\":{\"records\":%ld,\"record_bytes\":%ld}}\n",
		at, test, s.median, s.low, s.high, n, records, record_bytes);
	return s.median;
}

int main(int argc, char **argv)
{
	const char *build = getenv("RNP_BUILD"), *tmp = getenv("TMPDIR");
	long nodes = argc > 1 ? atol(argv[1]) : 5000;
	int rounds = argc > 2 ? atoi(argv[2]) : 3;
	long records = nodes * (1 + DAYS + 2 * JUDGED);
	double plain[ROUNDS_MAX], json[ROUNDS_MAX], one[ROUNDS_MAX];
	char program[4096], path[4096], json_path[4096], from[CLOCK_TEXT_MAX],
		to[CLOCK_TEXT_MAX];
	struct key judge = KEY_INIT;
	char *command[] = { program, (char *)"usage", (char *)"-q", (char *)"--from",
		from, (char *)"--to", to, (char *)"--trust", NULL, path, NULL };
	double fast, slow;
	struct stat st;

	if (sodium_init() < 0 ||
		clock_parse("2026-11-15T00:00:00Z", "from", &from_ms) < 0 ||
		key_generate(&judge) < 0 || nodes < 1 || rounds < 1 ||
		rounds > ROUNDS_MAX)
		return 64;
	command[8] = judge.address;
	clock_format(from, from_ms);
	clock_format(to, from_ms + DAYS * DAY_MS);
	snprintf(program, sizeof program, "%s/bin/rnp-reward", build ? build : "build");
	snprintf(path, sizeof path, "%s/records.jsonl", tmp ? tmp : "/tmp");
	snprintf(json_path, sizeof json_path, "%s/records.json", tmp ? tmp : "/tmp");
	if (argc > 3) {
		write_files(argv[3], NULL, argc > 4 ? atol(argv[4]) : 0, nodes, &judge);
		printf("%s\n", judge.address);
		return 0;
	}
	write_files(path, json_path, 0, nodes, &judge);
	if (stat(path, &st) < 0)
		die(path);
	record_bytes = (long)st.st_size / records;
	for (int i = 0; i < rounds; i++) {
		plain[i] = run(command) / (double)records;
		command[9] = json_path;
		json[i] = run(command) / (double)records;
		command[9] = path;
		setenv("RNP_ISA_WITHOUT", "ifma", 1);
		one[i] = run(command) / (double)records;
		unsetenv("RNP_ISA_WITHOUT");
	}
	unlink(path);
	unlink(json_path);
	key_release(&judge);
	fast = print("usage.record", plain, rounds, records);
	slow = print("usage.record_json", json, rounds, records);
	return print("usage.record_libsodium", one, rounds, records) < fast ||
		slow < fast;
}
