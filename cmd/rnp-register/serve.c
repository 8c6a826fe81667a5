/* serve.c - rnp-register serve: runs the registry. */
#include <string.h>

#include "cmd/rnp-register/commands.h"
#include "cmd/rnp-register/storage/registry.h"
#include "cmd/rnp-register/registry/api.h"
#include "cmd/rnp-register/challenges/challenge.h"
#include "cmd/rnp-register/market/blobs.h"
#include "cmd/rnp-register/market/logs.h"
#include "cmd/rnp-register/market/market.h"
#include "cmd/rnp-register/market/receipts.h"
#include "cmd/rnp-register/pages/uptime.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/httpd/parts.h"
#include "common/poc/poc.h"
#include "common/record/key.h"
#include "common/record/policy.h"
#include "common/cli/prog.h"

static const char *db_path, *listen_on, *port_file, *cert_file, *key_file, *log_file,
	*external_url, *proxy_header;
static struct opt_list trusted, proxies;
static const char *verifier_key, *policy_name = "rnp-004";
static const char *default_image, *blobs_path;
static bool market;
static int64_t rate, threads, challenge_every_ms, keep_ms, disk_bytes, quota_bytes,
	join_bits, blob_quota_bytes, blob_keep_ms;

static const struct opt opts[] = {
	OPT(TEXT, "db", &db_path, "F", "SQLite database, made when it is absent",
		.required = true),
	OPT_LISTEN(&listen_on),
	OPT_PORT_FILE(&port_file),
	OPT(LIST, "trust", &trusted, "ADDRESS",
		"a verifier or coordinator whose verdicts and receipts count",
		.address = true),
	OPT_CERT(&cert_file),
	OPT_CERT_KEY(&key_file),
	OPT_LOG_FILE(&log_file),
	OPTS_PROXIED(&external_url, &proxies, &proxy_header),
	OPT_IN(I64, "rate", &rate, "N", 1, 1000000,
		"requests a second of one client (default 100, and this machine's "
		"own are not limited)"),
	OPT_IN(I64, "threads", &threads, "N", 1, 64,
		"that speak HTTP (default one per core, 2 to 8)"),
	OPT_IN(DURATION, "challenge-every", &challenge_every_ms, "D", 1000,
		INT64_C(31536000000),
		"challenge each node at random times, on average so often"),
	OPT(SIZE, "disk", &disk_bytes, "SIZE",
		"how large the database may become (default without bound)",
		.min = 1 << 20),
	OPT_IN(DURATION, "keep", &keep_ms, "D", 86400000, INT64_C(3153600000000),
		"heartbeats whose day is signed, and measurements (default for ever)"),
	OPT(SIZE, "quota", &quota_bytes, "SIZE",
		"what one address may have stored in a day (default 64MiB, and this "
		"machine's own are not limited)",
		.min = 4096),
	OPT_IN(I64, "join-work", &join_bits, "BITS", 1, 40,
		"that a node's first record costs, more when many join (default 20, "
		"and this machine's own join freely)"),
	OPT(TEXT, "policy", &policy_name, "P",
		"whose reference node scores 1 (default rnp-004)", .words = POLICY_NAMES),
	OPT_SWITCH("market", &market,
		"customers book nodes here, and pay from deposits that a --trust signs"),
	OPT(TEXT, "default-image", &default_image, "REF",
		"with --market: what runs where a job names no image, with its digest"),
	OPT(TEXT, "blobs", &blobs_path, "DIR",
		"with --market: where customers' files lie (default F.blobs beside the database)"),
	OPT(SIZE, "blob-quota", &blob_quota_bytes, "SIZE",
		"with --market: how many bytes those of one account may have (default 20GiB)",
		.min = 1),
	OPT_IN(DURATION, "blob-keep", &blob_keep_ms, "D", 1000, INT64_C(31536000000),
		"with --market: how long files and logs stay after the cluster (default 24h)"),
	OPT_KEY(&verifier_key),
	{ 0 },
};

/* ":memory:" is SQLite's name, and the fuzzer's, for one thread and no file. */
static int check_options(void)
{
	if (strcmp(db_path, ":memory:") == 0)
		return err_set(EX_USAGE, "--db: a registry needs a file");
	if (default_image && !market)
		return err_set(EX_USAGE, "--default-image: only with --market");
	if (default_image && !market_image(default_image))
		return err_set(EX_USAGE,
			"--default-image: '%s' has no digest: NAME@sha256:...",
			default_image);
	return 0;
}

/* Challenges and the market need a key; uptimes are signed if there is one. */
static int load_key(struct key *key)
{
	if (challenge_every_ms || verifier_key || market)
		return key_load(key, verifier_key, NULL);
	return 0;
}

static void tick(void *ctx)
{
	struct registry *g = ctx;

	if (g->challenger)
		registry_challenges_tick(g);
	market_tick(g);
	blobs_tick(g);
	logs_tick(g);
	receipts_tick(g);
	registry_uptime_tick(g);
}

static int serve(struct registry *g)
{
	const struct httpd_config config = {
		.listen = listen_on,
		.port_file = port_file,
		.cert_file = cert_file,
		.key_file = key_file,
		.log_file = log_file,
		.external_url = external_url,
		.trusted_proxies = proxies.items,
		.ntrusted = proxies.n,
		.proxy_header = proxy_header,
		.log_off = prog_quiet() && !log_file,
		.threads = (int)threads,
		/* concurrent readers; the other connections to the database are for the
		 * writer's side, which must not wait for them */
		.slow_threads = REGISTRY_READERS / 2,
		/* of the market's customers and agents, each waits for news */
		.connections_max = market ? 16384 : 0,
		/* answers to open challenges, of which there are no more, and one that is
		 * verified */
		.class_bytes = { [HTTPD_LARGE] = POC_ANSWER_BYTES_MAX * 5 / 2 },
		.rate_per_s = rate ? rate : 100,
		.rate_loopback = rate != 0,
		.routes = registry_routes,
		.ctx = g,
		.metrics = registry_metrics,
	};
	struct buf url = BUF_INIT;
	struct httpd *h = httpd_start(&config);

	if (!h)
		return -1;
	httpd_url(&url, h);
	prog_info(
		"%s is the registry: its page, and the address that nodes take (RNP_REGISTRY)",
		url.data);
	buf_release(&url);
	httpd_wait(h, tick);
	httpd_stop(h);
	return 0;
}

static int run(int n, char **args)
{
	struct registry_config config = { .db_path = db_path,
		.trusted = trusted.items,
		.ntrusted = trusted.n,
		.challenge_every_ms = challenge_every_ms,
		.keep_ms = keep_ms,
		.bytes_max = disk_bytes,
		.market = market,
		.default_image = default_image,
		.blobs_path = blobs_path,
		.blob_quota_bytes = blob_quota_bytes,
		.blob_keep_ms = blob_keep_ms,
		.limits = { .bytes_per_day = quota_bytes,
			.join_bits = (int)join_bits,
			.loopback = quota_bytes || join_bits } };
	struct policy policy = POLICY_INIT;
	struct key key = KEY_INIT;
	struct registry g;
	int rc = -1;

	(void)n, (void)args;
	config.policy = &policy;
	/* before there is any thread: a signal that ends one ends all */
	httpd_block_signals();
	if (check_options() < 0 || load_key(&key) < 0 ||
		(challenge_every_ms && policy_load(&policy, policy_name) < 0))
		goto out;
	config.key = key.secret ? &key : NULL;
	if (!config.key)
		prog_detail("no uptime is signed without --key");
	if (registry_open(&g, &config) < 0)
		goto out;
	rc = serve(&g);
	registry_close(&g);
out:
	policy_release(&policy);
	key_release(&key);
	opt_list_release(&trusted);
	opt_list_release(&proxies);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_serve = {
	.name = "serve",
	.summary =
		"Run a registry: collect signed records over HTTP and answer questions.",
	.details =
		"Stores rnp.node, rnp.heartbeat, rnp.bench, rnp.quote, rnp.verdict and "
		"rnp.receipt records; its\nAPI is described at /openapi.json. Ends on "
		"SIGTERM and SIGINT.",
	.group = "registry",
	.opts = opts,
	.run = run,
};
