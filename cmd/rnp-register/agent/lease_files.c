/* lease_files.c - what a container is given: its start, the job's texts, its rank and peers, its
 * secrets, its work directory. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/agent_parts.h"
#include "cmd/rnp-register/market/sealed.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/sha256.h"
#include "common/json/json.h"

#define SCRIPT_BYTES_MAX ((size_t)1 << 20)
#define BLOB_MS          120000
#define ADDRESS_ALONE    "127.0.0.1"

/* cmd/rnp-register/agent/start.sh */
extern const char *const agent_embedded_texts[];

/* --- files ----------------------------------------------------------------------------------- */

static void path_in(struct buf *out, const struct lease *l, const char *name)
{
	buf_reset(out);
	sandbox_in(out, &l->agent->place, l->row.id);
	buf_addf(out, "/%s", name);
}

static int put_file(const struct lease *l, const char *name, const char *text, size_t len)
{
	struct buf path = BUF_INIT;
	int rc;

	path_in(&path, l, name);
	rc = io_replace(buf_text(&path), text, len, 0644);
	buf_release(&path);
	return rc;
}

static int make_gate(const struct lease *l)
{
	struct buf path = BUF_INIT;
	int rc = 0;

	path_in(&path, l, "gate");
	if (mkfifo(buf_text(&path), 0644) < 0 && errno != EEXIST)
		rc = err_sys(EX_IOERR, "cannot make '%s'", buf_text(&path));
	buf_release(&path);
	return rc;
}

void lease_kick(struct lease *l)
{
	struct buf path = BUF_INIT;

	/* Open for reading too, until the lease ends: what is written before the container opens
	 * its gate waits there, and it never waits for somebody to open the other end. */
	path_in(&path, l, "gate");
	if (l->gate < 0)
		l->gate = open(buf_text(&path), O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (l->gate >= 0)
		(void)!write(l->gate, "\n", 1);
	buf_release(&path);
}

void lease_leave_gate(struct lease *l)
{
	if (l->gate >= 0)
		close(l->gate);
	l->gate = -1;
}

void lease_forget_go(struct lease *l)
{
	struct buf path = BUF_INIT;

	path_in(&path, l, "go");
	unlink(buf_text(&path));
	buf_release(&path);
}

/* --- blobs ----------------------------------------------------------------------------------- */

static int check_hash(const struct buf *b, const char *sha256_hex)
{
	unsigned char hash[SHA256_BYTES];
	char hex[2 * SHA256_BYTES + 1];

	sha256(hash, buf_text(b), b->len);
	sodium_bin2hex(hex, sizeof hex, hash, sizeof hash);
	return strcmp(hex, sha256_hex) == 0 ?
		0 :
		err_set(EX_DATAERR, "blob %.12s is not what its name says", sha256_hex);
}

int lease_fetch(struct lease *l, const char *sha256_hex, size_t max, struct buf *out)
{
	const struct agent_config *c = l->agent->c;
	struct http_response r = HTTP_RESPONSE_INIT;
	struct http_request q = { .ca_file = c->ca,
		.signer = c->key,
		.timeout_ms = BLOB_MS,
		.response_bytes_max = (int64_t)max,
		.abort = &l->abort };
	struct buf url = BUF_INIT, path = BUF_INIT;
	int rc = -1;

	buf_addf(&path, "/v1/blobs/%s?cluster=%s", sha256_hex, l->row.cluster);
	if (http_url(&url, c->registry, buf_text(&path)) == 0) {
		q.url = buf_text(&url);
		rc = http_fetch(&l->http, &q, &r);
	}
	if (rc == 0)
		rc = check_hash(&r.body, sha256_hex);
	if (rc == 0)
		buf_add(out, r.body.data, r.body.len);
	else
		err_add("cannot get what the job needs");
	buf_release(&url);
	buf_release(&path);
	http_response_release(&r);
	return rc;
}

static int fetch_script(struct lease *l, const char *sha256_hex, const char *name)
{
	struct buf text = BUF_INIT;
	int rc = 0;

	if (sha256_hex) {
		rc = lease_fetch(l, sha256_hex, SCRIPT_BYTES_MAX, &text);
		if (rc == 0)
			rc = put_file(l, name, buf_text(&text), text.len);
	}
	buf_release(&text);
	return rc;
}

/* --- rank and peers -------------------------------------------------------------------------- */

/* Appends "export NAME='value'", with quotes in it as a shell reads them. */
static void add_variable(struct buf *out, const char *prefix, const char *name,
	const char *value)
{
	buf_addf(out, "export %s%s='", prefix, name);
	for (; *value; value++)
		if (*value == '\'')
			buf_adds(out, "'\\''");
		else
			buf_addc(out, *value);
	buf_adds(out, "'\n");
}

/* Under SkyPilot's names and under ours. */
static void add_both(struct buf *out, const char *sky, const char *ours,
	const char *value)
{
	add_variable(out, "SKYPILOT_", sky, value);
	add_variable(out, "RNP_", ours, value);
}

static void add_number(struct buf *out, const char *sky, const char *ours, int64_t v)
{
	char text[24];

	snprintf(text, sizeof text, "%lld", (long long)v);
	add_both(out, sky, ours, text);
}

/* Variables that the customer has sealed for this node. */
static int add_secrets(struct buf *out, const struct lease *l)
{
	const struct key *key = l->agent->c->key;
	const json_t *sealed = json_object_get(l->now.booking, "sealed");
	const char *box = json_string_value(json_object_get(sealed, key->address)), *name,
		   *value;
	struct buf plain = BUF_INIT;
	size_t at = 0, len;
	int rc = 0;

	if (!json_object_size(sealed))
		return 0;
	if (!box)
		return err_set(EX_DATAERR, "needs the customer: secrets for this node");
	rc = sealed_open(&plain, key, box);
	/* all at once, with quotes: a buffer that grows leaves what it held behind */
	buf_reserve(out, 4 * plain.len + 16384);
	while (rc == 0 && sealed_next(&plain, &at, &name, &len, &value)) {
		char text[256];

		snprintf(text, sizeof text, "%.*s", (int)(len < 255 ? len : 255), name);
		add_variable(out, "", text, value);
	}
	sealed_wipe(&plain);
	return rc;
}

/* Addresses of all ranks, a line each; our own where the registry names none. Returns how many
 * ranks there are. */
static size_t add_addresses(struct buf *out, const struct lease *l)
{
	char address[PLACE_TEXT_MAX];
	size_t n = 0;

	for (int rank = 0; rank < ASSIGNMENT_RANKS_MAX; rank++) {
		if (!l->now.peers[rank])
			continue;
		assignment_address(&l->now, rank, address);
		buf_addf(out, "%s%s", n++ ? "\n" : "", address);
	}
	if (!n)
		buf_adds(out, ADDRESS_ALONE);
	return n ? n : 1;
}

/* Appends "RANK ADDRESS TURN" for each rank whose node is ready. */
static void add_nodes(struct buf *out, const struct lease *l)
{
	char address[PLACE_TEXT_MAX];

	for (int rank = 0; rank < ASSIGNMENT_RANKS_MAX; rank++) {
		const json_t *peer = l->now.peers[rank];
		const char *state = json_string_value(json_object_get(peer, "state"));

		if (!peer ||
			(rank != l->row.rank && !(state && strcmp(state, "ready") == 0)))
			continue;
		assignment_address(&l->now, rank, address);
		buf_addf(out, "%d %s %lld\n", rank, address,
			(long long)json_integer_value(json_object_get(peer, "turn")));
	}
	if (!out->len)
		buf_addf(out, "%d " ADDRESS_ALONE " %d\n", l->row.rank, l->row.turn);
}

int lease_write_nodes(struct lease *l)
{
	struct buf text = BUF_INIT;
	int rc = 0;

	add_nodes(&text, l);
	if (strcmp(text.data, buf_text(&l->nodes)) != 0) {
		rc = put_file(l, "nodes", text.data, text.len);
		buf_reset(&l->nodes);
		buf_add(&l->nodes, text.data, text.len);
	}
	buf_release(&text);
	return rc;
}

static void add_environment(struct buf *out, const struct lease *l, const struct buf *ips,
	size_t n)
{
	char text[24], task[80];

	add_number(out, "NODE_RANK", "RANK", l->row.rank);
	add_number(out, "SETUP_NODE_RANK", "SETUP_RANK", l->row.rank);
	add_number(out, "NUM_NODES", "NODES", (int64_t)n);
	add_number(out, "NUM_GPUS_PER_NODE", "GPUS", (int64_t)l->now.ngpus);
	add_both(out, "NODE_IPS", "ADDRESSES", buf_text(ips));
	snprintf(task, sizeof task, "rnp-%s", l->row.cluster);
	add_both(out, "TASK_ID", "CLUSTER", task);
	/* where the others go on, a node that takes a rank is what begins again */
	snprintf(text, sizeof text, "%lld",
		(long long)(l->row.restarts +
			(l->now.on_failure == ASSIGNMENT_CONTINUE ? l->row.turn : 0)));
	add_variable(out, "RNP_", "RESTART", text);
}

/* What start.sh keeps: paths, and how often. */
static int put_artifacts(const struct lease *l)
{
	struct buf paths = BUF_INIT, every = BUF_INIT;
	int rc = 0;

	lease_artifact_lines(&paths, &every, l);
	if (paths.len)
		rc = put_file(l, "artifacts", buf_text(&paths), paths.len);
	if (rc == 0 && every.len)
		rc = put_file(l, "artifacts_every", buf_text(&every), every.len);
	buf_release(&paths);
	buf_release(&every);
	return rc;
}

int lease_write_start(struct lease *l)
{
	struct buf dir = BUF_INIT;
	int rc;

	sandbox_in(&dir, &l->agent->place, l->row.id);
	rc = io_make_dirs(buf_text(&dir), 0755);
	buf_release(&dir);
	if (rc < 0 ||
		put_file(l, "start", agent_embedded_texts[0],
			strlen(agent_embedded_texts[0])) < 0 ||
		make_gate(l) < 0 || put_artifacts(l) < 0 ||
		fetch_script(l, l->now.setup, "setup") < 0)
		return -1;
	return fetch_script(l, l->now.run, "run");
}

int lease_write_go(struct lease *l)
{
	struct buf ips = BUF_INIT, env = BUF_INIT;
	size_t n = add_addresses(&ips, l);
	int rc = add_secrets(&env, l);

	add_environment(&env, l, &ips, n);
	if (rc == 0)
		rc = lease_write_nodes(l);
	if (rc == 0)
		rc = put_file(l, "env", buf_text(&env), env.len);
	if (rc == 0)
		rc = put_file(l, "go", "", 0);
	buf_release(&ips);
	sealed_wipe(&env);
	if (rc == 0)
		lease_kick(l);
	return rc;
}
