/* lease_session.c - SSH of a lease: the program beside its container (session_serve.h), and the
 * trial of the way that its customer takes, without which it is not ready. A node without sshd,
 * or a market without gateways, has no SSH. */
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/agent_parts.h"
#include "cmd/rnp-register/agent/command.h"
#include "cmd/rnp-register/agent/ready.h"
#include "cmd/rnp-register/market/place.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/json/json.h"
#include "common/record/signature.h"

#define ASK_MS   10000
#define TRY_MS   20000
#define TRIES_MS 50000
#define GRACE_MS 1000

/* --- the node --------------------------------------------------------------------------------- */

static void host_key_path(const struct agent *a, struct buf *out)
{
	buf_addf(out, "%s/host_key.json", a->c->dir);
}

int session_prepare(struct agent *a)
{
	struct buf path = BUF_INIT;
	struct key key = KEY_INIT;
	int rc = -1;

	host_key_path(a, &path);
	if (command_find("sshd", "openssh-server") < 0 ||
		command_find("ssh", "openssh-client") < 0)
		goto out;
	if (!getpwnam(READY_USER)) {
		err_set(EX_UNAVAILABLE, "there is no user " READY_USER);
		err_hint("useradd --system --home-dir / --shell /bin/sh " READY_USER);
		goto out;
	}
	if (access(path.data, F_OK) == 0)
		rc = key_load(&key, path.data, NULL);
	else if (key_generate(&key) == 0)
		rc = key_save(&key, path.data, NULL);
	if (rc == 0) {
		sshkey_of_node(key.public_key, &a->host_key);
		a->has_ssh = true;
	}
out:
	key_release(&key);
	buf_release(&path);
	return rc;
}

/* --- session.json ----------------------------------------------------------------------------- */

/* Asks for the market's gateways. Returns the first one's record, which the caller owns; NULL:
 * there is none, without an error, or with err_set. */
static json_t *ask_gateway(struct lease *l)
{
	const struct agent_config *c = l->agent->c;
	struct http_response r = HTTP_RESPONSE_INIT;
	struct http_request q = { .ca_file = c->ca,
		.timeout_ms = ASK_MS,
		.abort = &l->agent->abort };
	struct buf url = BUF_INIT;
	json_t *reply = NULL, *one = NULL;
	struct signature_result signers;

	if (http_url(&url, c->registry, "/v1/gateways") == 0) {
		q.url = url.data;
		if (http_fetch(&l->http, &q, &r) == 0)
			reply = json_parse_object(buf_text(&r.body), r.body.len,
				"gateways");
		else if (r.status == 404) /* a registry that knows of none */
			err_clear();
	}
	if (reply)
		one = json_incref(json_array_get(json_object_get(reply, "gateways"), 0));
	if (one) {
		signature_verify(one, &signers);
		if (!signers.valid) {
			err_set(EX_NOPERM, "the gateway: %s", signers.reason);
			json_decref(one);
			one = NULL;
		}
	}
	json_decref(reply);
	http_response_release(&r);
	buf_release(&url);
	return one;
}

/* The other ranks whose listings name a host key, signed by themselves. */
static json_t *make_peers(const struct lease *l)
{
	json_t *peers = json_array();

	for (int rank = 0; rank < ASSIGNMENT_RANKS_MAX; rank++) {
		const json_t *peer = l->now.peers[rank],
			     *listing = json_object_get(peer, "listing");
		const char *node = json_string_value(json_object_get(peer, "node"));
		json_t *one, *key = json_object_get(listing, "host_key");
		struct signature_result signers;

		if (rank == l->now.rank || !node || !key)
			continue;
		signature_verify(listing, &signers);
		if (!signers.ok || !signature_is_by(&signers, node))
			continue;
		one = json_object();
		json_set_i64(one, "rank", rank);
		json_set(one, "number", json_incref(json_object_get(peer, "number")));
		json_set_text(one, "node", node);
		json_set(one, "host_key", json_incref(key));
		json_push(peers, one);
	}
	return peers;
}

/* What the program beside the container is to know. */
static void make_file(const struct lease *l, struct buf *out)
{
	const struct agent *a = l->agent;
	json_t *r = json_record("rnp.session"), *podman = json_object();
	json_t *keys = json_object_get(l->now.keys ? l->now.keys : l->now.booking,
		"ssh_keys");
	struct buf path = BUF_INIT;

	json_set_text(r, "cluster", l->row.cluster);
	json_set_i64(r, "ranks", PLACE_RANKS_APART);
	json_set_i64(r, "rank", l->now.rank);
	json_set_i64(r, "number", l->now.number);
	json_set_text(r, "user", READY_USER);
	json_set(r, "gateway", json_incref(l->gateway));
	json_set(r, "keys", keys ? json_incref(keys) : json_array());
	json_set(r, "peers", make_peers(l));
	json_set_text(r, "container", l->row.container);
	sandbox_in(&path, &a->place, l->row.id);
	buf_adds(&path, "/go");
	json_set_text(r, "go", path.data);
	buf_reset(&path);
	host_key_path(a, &path);
	json_set_text(r, "host_key_file", path.data);
	buf_reset(&path);
	network_path(&path, a->place.networks.dir, l->row.id);
	json_set_text(r, "netns", path.data);
	buf_reset(&path);
	sandbox_podman(&path, &a->place, l->row.id, false);
	json_set_text(podman, "root", path.data);
	buf_reset(&path);
	sandbox_podman(&path, &a->place, l->row.id, true);
	json_set_text(podman, "run", path.data);
	buf_reset(&path);
	if (sandbox_images(&path, &a->place, l->row.id) == 0)
		json_set_text(podman, "images", path.data);
	err_clear();
	json_set(r, "podman", podman);
	json_write(out, r);
	json_decref(r);
	buf_release(&path);
}

/* Writes session.json where it is not so already. Returns 0 or -1. */
static int write_file(struct lease *l)
{
	struct buf text = BUF_INIT, path = BUF_INIT;
	int rc = 0;

	make_file(l, &text);
	if (!l->session_text.len || strcmp(text.data, l->session_text.data) != 0) {
		buf_addf(&path, "%s/session.json", l->session_dir.data);
		rc = io_replace(path.data, text.data, text.len, 0600);
		buf_reset(&l->session_text);
		buf_add(&l->session_text, text.data, text.len);
	}
	buf_release(&text);
	buf_release(&path);
	return rc;
}

/* The rules of the lease's network let it reach its peers, and them it. */
static int let_peers(struct lease *l)
{
	char texts[ASSIGNMENT_RANKS_MAX][PLACE_TEXT_MAX];
	const char *addresses[ASSIGNMENT_RANKS_MAX];
	size_t n = 0;

	for (int rank = 0; rank < ASSIGNMENT_RANKS_MAX; rank++) {
		if (!l->now.peers[rank] || rank == l->now.rank)
			continue;
		assignment_address(&l->now, rank, texts[n]);
		addresses[n] = texts[n];
		n++;
	}
	return network_set_peers(&l->agent->place.networks, l->row.id, addresses, n);
}

/* --- its course ------------------------------------------------------------------------------- */

static int begin(struct lease *l)
{
	const struct agent_config *c = l->agent->c;
	char program[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
	size_t at = 0;

	if (n < 0)
		return err_sys(EX_OSERR, "cannot read /proc/self/exe");
	program[n] = '\0';
	buf_reset(&l->program);
	buf_adds(&l->program, program);
	buf_addf(&l->session_dir, "%s/ssh/%s", c->run, l->row.id);
	if (io_make_dirs(l->session_dir.data, 0711) < 0 || write_file(l) < 0 ||
		let_peers(l) < 0)
		return -1;
	l->argv[at++] = l->program.data;
	l->argv[at++] = "session";
	l->argv[at++] = "--serve";
	l->argv[at++] = "--dir";
	l->argv[at++] = l->session_dir.data;
	if (c->key_path) {
		l->argv[at++] = "--key";
		l->argv[at++] = c->key_path;
	}
	if (c->passphrase_file) {
		l->argv[at++] = "--passphrase-file";
		l->argv[at++] = c->passphrase_file;
	}
	l->argv[at] = NULL;
	l->session = (struct process)PROCESS_INIT(l->argv);
	return process_start(&l->session);
}

/* Goes the customer's way once: through the gateway into the container. */
static int try_way(struct lease *l)
{
	int64_t until_ns = clock_mono_ns() + TRIES_MS * INT64_C(1000000);
	struct buf config = BUF_INIT;
	const char *args[] = { "ssh", "-F", NULL, "-T", "self", "probe", NULL };
	const struct command c = { .args = args, .netns = -1, .timeout_ms = TRY_MS };
	int rc = -1;

	buf_addf(&config, "%s/ssh_config", l->session_dir.data);
	args[2] = config.data;
	while (!lease_is_ending(l) && clock_mono_ns() < until_ns) {
		lease_session_keep(l);
		rc = access(config.data, F_OK) == 0 ? command_run(&c, NULL) : -1;
		if (rc == 0)
			break;
		lease_look(l, 300);
	}
	buf_release(&config);
	if (rc == 0 || lease_is_ending(l))
		return 0;
	return err_add("no session begins through the gateway");
}

int lease_session_open(struct lease *l, bool tries)
{
	if (!l->agent->has_ssh || l->session_dir.len)
		return 0;
	err_clear();
	l->gateway = ask_gateway(l);
	if (!l->gateway)
		return err_get()->code ? -1 : 0;
	return begin(l) < 0 ? -1 : tries ? try_way(l) : 0;
}

void lease_session_keep(struct lease *l)
{
	char words[PROCESS_WORDS_MAX], line[160];

	if (!l->session_dir.len)
		return;
	if (process_ended(&l->session)) {
		process_words(l->session.status, words);
		snprintf(line, sizeof line, "lease %s: SSH has %s", l->row.id, words);
		l->agent->c->say(line);
	}
	process_keep(&l->session);
	if (write_file(l) < 0)
		l->agent->c->say(err_get()->text);
	err_clear();
}

void lease_session_close(struct lease *l)
{
	static const char *const files[] = { "session.json", "sshd_config", "ssh_config",
		"authorized_keys", "known_hosts", "ssh_host_key", "door.sock",
		"session.sock" };
	struct buf path = BUF_INIT;

	process_end(&l->session, GRACE_MS);
	for (size_t i = 0; l->session_dir.len && i < sizeof files / sizeof *files; i++) {
		buf_reset(&path);
		buf_addf(&path, "%s/%s", l->session_dir.data, files[i]);
		unlink(path.data);
	}
	if (l->session_dir.len)
		rmdir(l->session_dir.data);
	json_decref(l->gateway);
	l->gateway = NULL;
	buf_release(&l->session_dir);
	buf_release(&l->session_text);
	buf_release(&l->program);
	buf_release(&path);
}
