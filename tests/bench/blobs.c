/* blobs.c - benchmark: a file of 1 GB is sent to a registry that keeps it, in turns with a server
 * that writes it to a file and flushes that, and one that throws the bytes away; and as a packed
 * directory. Prints records to standard output; exit 1 when the median of the ratios to the first
 * is below OF_BARE_MIN, or the registry's memory grows by more than MEMORY_MAX.
 *
 * uses: cmd/rnp-register
 *
 * Client and server are processes of this machine. The file is in the page cache; the registry
 * flushes to the disk below TMPDIR before it answers. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "cmd/rnp-register/market/blobs.h"
#include "cmd/rnp-register/pack/transfer.h"
#include "cmd/rnp-register/registry/api.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/stats.h"
#include "common/json/json.h"
#include "common/record/bench.h"

#define PAIRS       7
#define OF_BARE_MIN 700000 /* ppm */
#define FILE_BYTES  INT64_C(1000000000)
#define MEMORY_MAX  ((int64_t)32 << 20)

static char work[200];
static struct key keys[2 * PAIRS + 1];
static char base[64], name[TRANSFER_NAME_MAX];
static int file;

static void die(const char *what)
{
	fprintf(stderr, "blobs: cannot %s: %s\n", what, err_get()->text);
	exit(EX_OSERR);
}

/* --- the servers ------------------------------------------------------------------------------ */

static int bare_file = -1;
static int64_t bare_bytes;

static enum httpd_when begin_file(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	char path[250];

	(void)ctx, (void)q, (void)r;
	snprintf(path, sizeof path, "%s/bare", work);
	bare_file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	bare_bytes = 0;
	return bare_file < 0 ? httpd_error(r, 503, "no file") : HTTPD_GO_ON;
}

static long to_file(void *ctx, struct httpd_request *q, struct httpd_reply *r,
	const void *data, size_t len)
{
	(void)ctx, (void)q, (void)r;
	if (pwrite(bare_file, data, len, bare_bytes) != (ssize_t)len)
		return HTTPD_REFUSE;
	bare_bytes += (int64_t)len;
	return (long)len;
}

static enum httpd_when flush_file(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	(void)ctx, (void)q;
	r->status = fdatasync(bare_file) == 0 ? 201 : 503;
	close(bare_file);
	return HTTPD_NOW;
}

static long throw_away(void *ctx, struct httpd_request *q, struct httpd_reply *r,
	const void *data, size_t len)
{
	(void)ctx, (void)q, (void)r, (void)data;
	return (long)len;
}

static enum httpd_when thrown_away(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	(void)ctx, (void)q;
	r->status = 201;
	return HTTPD_NOW;
}

static const struct httpd_route bare_routes[] = {
	HTTPD_PUT("/v1/files/{sha256}", flush_file, (size_t)BLOB_BYTES_MAX, .slow = true,
		.begin = begin_file, .take = to_file),
	HTTPD_PUT("/v1/blobs/{sha256}", thrown_away, (size_t)BLOB_BYTES_MAX,
		.take = throw_away),
	{ 0 },
};

static int deposit(struct registry_put *p, struct registry_db *db)
{
	(void)p;
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		char sql[300];

		snprintf(sql, sizeof sql,
			"INSERT INTO accounts (customer, deposited_uusd, charged_uusd, held_uusd)"
			" VALUES ('%s', 1, 0, 0)",
			keys[i].address);
		if (store_exec(&db->store, sql) < 0)
			return -1;
	}
	return 0;
}

static void deposited(struct registry_put *p, void *ctx)
{
	(void)ctx;
	if (p->stored == STORED_FAILED)
		die("make accounts");
}

/* Serves in a child; returns its port, and in *pid who it is. */
static int start(bool bare, pid_t *pid)
{
	static struct registry registry;
	struct registry_put *p = xcalloc(1, sizeof *p);
	struct registry_config config = { .key = &keys[0], .market = true };
	struct httpd_config serve = { .listen = "127.0.0.1:0",
		.log_off = true,
		.routes = bare ? bare_routes : registry_routes,
		.ctx = &registry };
	char db[250];
	int tell[2], port = 0;
	struct httpd *h;

	if (pipe(tell) < 0 || (*pid = fork()) < 0)
		die("fork");
	if (*pid) {
		close(tell[1]);
		if (read(tell[0], &port, sizeof port) != sizeof port)
			die("start the server");
		close(tell[0]);
		free(p);
		return port;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(db, sizeof db, "%s/registry.db", work);
	config.db_path = db;
	if (!bare) {
		if (registry_open(&registry, &config) < 0)
			die("open the registry");
		p->what = PUT_JOB;
		p->job = deposit;
		p->done = deposited;
		registry_db_put(&registry.db, p);
	}
	h = httpd_start(&serve);
	port = h ? httpd_port(h) : 0;
	if (!h || write(tell[1], &port, sizeof port) != sizeof port)
		die("serve");
	httpd_wait(h, NULL);
	_exit(0);
}

/* The most memory that a process ever had. */
static int64_t most_memory(pid_t pid)
{
	char path[64], line[200];
	long long kib = 0;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "VmHWM: %lld", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib * 1024;
}

/* Processor time of a process so far, in seconds: it does not depend on what else runs here. */
static double time_of(pid_t pid)
{
	unsigned long long user = 0, kernel = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	f = fopen(path, "r");
	if (f &&
		fscanf(f,
			"%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu",
			&user, &kernel) != 2)
		die("read the time of a server");
	if (f)
		fclose(f);
	return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

/* --- the client ------------------------------------------------------------------------------- */

/* Sends the file as one blob; returns bytes a second. */
static double send_file(struct http *http, int port, const char *path,
	const struct key *key)
{
	const struct http_source source = { .fd = file, .bytes = FILE_BYTES };
	struct http_response r = HTTP_RESPONSE_INIT;
	char url[200];
	int64_t begun_ns = clock_mono_ns();
	double rate;

	snprintf(url, sizeof url, "http://127.0.0.1:%d/v1/%s/%s", port, path, name);
	{
		const struct http_request q = { .method = "PUT",
			.url = url,
			.signer = key,
			.source = &source,
			.answer_timeout_ms = 120000,
			.tries = 1 };

		if (http_fetch(http, &q, &r) < 0)
			die("send the file");
	}
	rate = FILE_BYTES / ((double)(clock_mono_ns() - begun_ns) / 1e9);
	http_response_release(&r);
	return rate;
}

/* Packs the folder and sends it; returns bytes a second of both. */
static double send_folder(struct http *http, const struct key *key, const char *folder)
{
	const struct pack_config config = { .rules = true };
	struct transfer t = { .http = http, .base = base, .key = key };
	int64_t begun_ns = clock_mono_ns();
	struct pack p;
	double rate;

	if (pack_directory(&p, folder, &config) < 0 || transfer_upload(&t, &p) < 0)
		die("send the folder");
	rate = (double)p.walk.manifest.bytes /
		((double)(clock_mono_ns() - begun_ns) / 1e9);
	pack_release(&p);
	return rate;
}

static void make_file(const char *folder)
{
	static unsigned char bytes[1 << 20];
	unsigned char hash[SHA256_BYTES];
	struct sha256_state s;
	char path[300];

	snprintf(path, sizeof path, "%s/file", folder);
	file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	sha256_init(&s);
	for (int64_t at = 0; at < FILE_BYTES;) {
		size_t n = FILE_BYTES - at < (int64_t)sizeof bytes ?
			(size_t)(FILE_BYTES - at) :
			sizeof bytes;

		memset(bytes, (int)(at >> 20), n);
		memcpy(bytes, &at, sizeof at);
		if (write(file, bytes, n) != (ssize_t)n)
			die("write the file");
		sha256_update(&s, bytes, n);
		at += (int64_t)n;
	}
	sha256_final(&s, hash);
	sodium_bin2hex(name, sizeof name, hash, sizeof hash);
}

static double put(const char *test, const char *unit, const double *values, size_t n)
{
	struct stats s;
	json_t *record;
	struct buf line = BUF_INIT;

	stats_of(values, n, &s);
	record = bench_record("blobs", test, NULL, unit, &s);
	json_write(&line, record);
	puts(line.data);
	buf_release(&line);
	json_decref(record);
	return s.median;
}

static int measure(void)
{
	double thrown[PAIRS], bare[PAIRS], kept[PAIRS], ratio[PAIRS], folder[PAIRS],
		times[PAIRS], median, grown;
	struct http http = HTTP_INIT;
	double rate;
	pid_t pids[2];
	int ports[2] = { start(true, &pids[0]), start(false, &pids[1]) };
	int64_t before = most_memory(pids[1]);
	char path[250];

	snprintf(base, sizeof base, "http://127.0.0.1:%d", ports[1]);
	snprintf(path, sizeof path, "%s/folder", work);
	for (int i = 0; i < PAIRS; i++) {
		thrown[i] = send_file(&http, ports[0], "blobs", &keys[0]);
		times[i] = -time_of(pids[0]);
		bare[i] = send_file(&http, ports[0], "files", &keys[0]);
		times[i] += time_of(pids[0]);
		kept[i] = -time_of(pids[1]);
		rate = send_file(&http, ports[1], "blobs", &keys[1 + 2 * i]);
		times[i] /= kept[i] + time_of(pids[1]);
		times[i] *= 1e6;
		kept[i] = rate;
		folder[i] = send_folder(&http, &keys[2 + 2 * i], path);
		ratio[i] = kept[i] / bare[i] * 1e6;
		fprintf(stderr,
			"blobs: thrown away %.0f MB/s, file %.0f, kept %.0f, folder %.0f\n",
			thrown[i] / 1e6, bare[i] / 1e6, kept[i] / 1e6, folder[i] / 1e6);
	}
	grown = (double)(most_memory(pids[1]) - before);
	put("thrown_away", "B/s", thrown, PAIRS);
	put("file", "B/s", bare, PAIRS);
	put("upload", "B/s", kept, PAIRS);
	put("folder", "B/s", folder, PAIRS);
	median = put("upload_of_file", "ppm", ratio, PAIRS);
	put("processor_time_of_file", "ppm", times, PAIRS);
	put("memory", "B", &grown, 1);
	fprintf(stderr,
		"blobs: %.2f of the rate of a server that writes a file, memory grows by %.1f MiB\n",
		median / 1e6, grown / 1048576);
	kill(pids[0], SIGTERM);
	kill(pids[1], SIGTERM);
	http_release(&http);
	return median < OF_BARE_MIN || grown > (double)MEMORY_MAX;
}

/* Removes the folder when we are gone, however we went: a process of its own waits for that. */
static void clean_up_after(void)
{
	char path[250], byte;
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0 || (pid = fork()) < 0)
		die("fork");
	if (pid) {
		close(ends[0]);
		return; /* ends[1] is open until we end, and with us the servers */
	}
	setsid();
	close(ends[1]);
	while (read(ends[0], &byte, 1) < 0 && errno == EINTR)
		;
	snprintf(path, sizeof path, "rm -rf '%s'", work);
	_exit(system(path) != 0);
}

int main(void)
{
	const char *tmp = getenv("TMPDIR");
	char path[250];
	int rc;

	snprintf(work, sizeof work, "%s/bench_blobs.XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (sodium_init() < 0 || !mkdtemp(work))
		die("make a folder");
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		unsigned char seed[crypto_sign_SEEDBYTES] = { 9, (unsigned char)i };
		unsigned char secret[KEY_SECRET_BYTES], public_key[KEY_PUBLIC_BYTES];

		crypto_sign_seed_keypair(public_key, secret, seed);
		if (key_from_secret(&keys[i], secret) < 0)
			die("make keys");
	}
	snprintf(path, sizeof path, "%s/folder", work);
	if (mkdir(path, 0755) < 0)
		die("make a folder");
	clean_up_after();
	make_file(path);
	rc = measure();
	snprintf(path, sizeof path, "rm -r %s", work);
	return system(path) != 0 || rc;
}
