/* serve.h - a registry with a market that serves on loopback, for the tests of this folder: keys,
 * accounts, a cluster with a node, and signed requests. */
#ifndef RNP_TESTS_UNIT_RNP_REGISTER_MARKET_SERVE_H
#define RNP_TESTS_UNIT_RNP_REGISTER_MARKET_SERVE_H

#include <sodium.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "cmd/rnp-register/registry/api.h"
#include "cmd/rnp-register/storage/registry.h"
#include "common/base/mem.h"
#include "common/http/http.h"
#include "tests/unit/test.h"

#define CLUSTER "0123456789abcdef0123456789abcdef"

static char place[] = "/tmp/rnp-market-XXXXXX";
static struct registry registry;
static struct httpd *server;
static struct key registrar, customer, other, node, stranger;
static char base[64];
static struct http http = HTTP_INIT;

static inline const char *in_place(const char *name)
{
	static struct buf paths[8];
	static int next;
	struct buf *b = &paths[next++ % 8];

	buf_reset(b);
	buf_addf(b, "%s/%s", place, name);
	return b->data;
}

static inline void make_key(struct key *k, unsigned char seed_byte)
{
	unsigned char seed[crypto_sign_SEEDBYTES] = { seed_byte };
	unsigned char secret[KEY_SECRET_BYTES], public_key[KEY_PUBLIC_BYTES];

	crypto_sign_seed_keypair(public_key, secret, seed);
	CHECK(key_from_secret(k, secret) == 0);
}

static inline void make_keys(void)
{
	CHECK(sodium_init() >= 0 && mkdtemp(place) != NULL);
	make_key(&registrar, 1);
	make_key(&customer, 2);
	make_key(&other, 3);
	make_key(&node, 4);
	make_key(&stranger, 5);
}

/* Runs SQL as the registry's own jobs do. */
struct sql {
	const char *text;
	_Atomic bool done;
};

static inline int run_sql(struct registry_put *p, struct registry_db *db)
{
	return store_exec(&db->store, ((struct sql *)p->done_ctx)->text);
}

static inline void sql_done(struct registry_put *p, void *ctx)
{
	CHECK(p->stored != STORED_FAILED);
	((struct sql *)ctx)->done = true;
}

static inline void sql_text(const char *text)
{
	struct registry_put *p = xcalloc(1, sizeof *p);
	struct sql one = { .text = text };

	p->what = PUT_JOB;
	p->job = run_sql;
	p->done = sql_done;
	p->done_ctx = &one;
	registry_db_put(&registry.db, p);
	while (!one.done)
		usleep(1000);
}

static inline void sql(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static inline void sql(const char *fmt, ...)
{
	char text[2000];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	sql_text(text);
}

static inline void start_with(const struct registry_config *extra)
{
	struct registry_config config = *extra;
	struct httpd_config serve = { .listen = "127.0.0.1:0",
		.log_off = true,
		.threads = 2,
		.routes = registry_routes,
		.ctx = &registry };

	config.db_path = in_place("registry.db");
	config.key = &registrar;
	config.market = true;
	CHECK(registry_open(&registry, &config) == 0);
	server = httpd_start(&serve);
	CHECK(server != NULL);
	snprintf(base, sizeof base, "http://127.0.0.1:%d", httpd_port(server));
}

static inline void stop(void)
{
	httpd_stop(server);
	registry_close(&registry);
}

/* Accounts of customer and other, and a cluster of the customer's with the node, which is ready. */
static inline void make_market(void)
{
	sql("INSERT INTO accounts (customer, deposited_uusd, charged_uusd, held_uusd) VALUES "
	    "('%s', 1000000, 0, 0), ('%s', 1000000, 0, 0)",
		customer.address, other.address);
	sql("INSERT INTO clusters (id, cluster, customer, booking, cause, state, live, "
	    "booked_ms, hours, ends_ms, due_ms, deadline_ms, seq, spent_uusd, held_uusd, "
	    "limit_uusd, replace_uusd, on_failure, warned, body) VALUES "
	    "(1, '" CLUSTER
	    "', '%s', 'b1', '', 4, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, '{}')",
		customer.address);
	sql("INSERT INTO members (cluster, rank, turn, node, quote, gpus, cause, address, ssh, "
	    "state, since_ms, heard_ms, deadline_ms, uusd_per_hour, node_uusd_per_hour, "
	    "ready_at_ms, ready_ms, charged_uusd, node_seq, exit, bytes, bytes_total, changed) "
	    "VALUES (1, 0, 0, '%s', '', '[]', '', '', '', 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1, 0, "
	    "0, 0)",
		node.address);
}

/* A request signed by key; returns the status, and the body in *body where that is not NULL. */
static inline int ask(const char *method, const char *path, const struct key *key,
	const void *data, size_t len, struct buf *body)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct buf url = BUF_INIT;
	int status;

	buf_addf(&url, "%s%s", base, path);
	{
		const struct http_request q = { .method = method,
			.url = url.data,
			.signer = key,
			.body = data,
			.body_bytes = len,
			.tries = 1 };

		(void)http_fetch(&http, &q, &r);
	}
	err_clear();
	status = r.status;
	if (body) {
		buf_reset(body);
		buf_add(body, buf_text(&r.body), r.body.len);
	}
	http_response_release(&r);
	buf_release(&url);
	return status;
}

static inline void clean_up(void)
{
	char command[100];

	http_release(&http);
	snprintf(command, sizeof command, "rm -r %s", place);
	CHECK(system(command) == 0);
}

#endif
