/* ssh.c - rnp-register ssh: runs ssh into a node of a cluster, or prints what plain ssh needs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-register/commands.h"
#include "cmd/rnp-register/customer/customer.h"
#include "cmd/rnp-register/customer/ssh.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/record/key.h"
#include "common/registry/client.h"

static const char *registry, *ca_file, *key_path, *passphrase_file, *identity;
static bool prints_config;
static int64_t rank;

static const struct opt opts[] = {
	OPT_REGISTRY(&registry),
	OPT_IN(I64, "rank", &rank, "N", 0, 1000000, "which node (default 0)"),
	OPT_SWITCH("config", &prints_config,
		"print what ssh, scp and rsync need with -F"),
	OPT(TEXT, "identity", &identity, "F",
		"SSH key of the booking (default: as ssh finds one)"),
	OPT_KEY(&key_path),
	OPT_PASSPHRASE(&passphrase_file),
	OPT_CA(&ca_file),
	{ 0 },
};

/* Gets a reply and gives it to one of the readers. */
#define ASK(c, path, reader, to)                                     \
	({                                                           \
		json_t *ask_reply = customer_get(c, path, 0);        \
		int ask_rc = ask_reply ? reader(to, ask_reply) : -1; \
		json_decref(ask_reply);                              \
		ask_rc;                                              \
	})

/* Gets the host key of a node; wanted: without it there is no use going on. */
static int ask_listing(struct customer *c, struct customer_rank *r, bool wanted)
{
	char path[128];
	int rc;

	snprintf(path, sizeof path, "/v1/listings?node=%s", r->node);
	rc = ASK(c, path, customer_ssh_listing, r);
	if (rc < 0 && !wanted) {
		prog_warn("rank %" PRId64 ": %s", r->rank, err_get()->text);
		err_clear();
		rc = 0;
	}
	return rc;
}

static int ask_all(struct customer *c, const char *cluster, struct customer_ssh *s)
{
	struct buf path = BUF_INIT;
	bool found = false;
	int rc;

	buf_adds(&path, "/v1/clusters/");
	http_escape(&path, cluster);
	rc = ASK(c, path.data, customer_ssh_cluster, s);
	if (rc == 0)
		rc = ASK(c, "/v1/gateways", customer_ssh_gateway, s);
	for (size_t i = 0; rc == 0 && i < s->n; i++) {
		bool this_one = s->ranks[i].rank == rank;

		found = found || this_one;
		if (this_one || prints_config)
			rc = ask_listing(c, &s->ranks[i], this_one && !prints_config);
	}
	if (rc == 0 && !found && !prints_config)
		rc = err_set(EX_UNAVAILABLE, "cluster %s has no node of rank %" PRId64,
			s->cluster, rank);
	buf_release(&path);
	return rc;
}

/* Appends the directory where what ssh reads is kept. */
static int make_directory(struct buf *out, const char *cluster)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

	if (cache && *cache)
		buf_addf(out, "%s/rnp/ssh/%s", cache, cluster);
	else if (home && *home)
		buf_addf(out, "%s/.cache/rnp/ssh/%s", home, cluster);
	else
		return err_set(EX_USAGE, "neither XDG_CACHE_HOME nor HOME is set");
	if (strpbrk(out->data, "\"\n%"))
		return err_set(EX_USAGE,
			"'%s' has a character that ssh does not take as it is",
			out->data);
	return io_make_default_dirs(out->data, 0700);
}

/* Writes known_hosts and config. Returns 0 with the config's path, or -1. */
static int write_files(const struct customer_ssh *s, struct buf *config_path,
	struct buf *config)
{
	struct buf directory = BUF_INIT, hosts_path = BUF_INIT, hosts = BUF_INIT;
	int rc = make_directory(&directory, s->cluster);

	if (rc == 0) {
		buf_addf(&hosts_path, "%s/known_hosts", directory.data);
		buf_addf(config_path, "%s/config", directory.data);
		customer_ssh_known_hosts(&hosts, s);
		customer_ssh_config(config, s, hosts_path.data, identity);
		rc = io_replace(hosts_path.data, hosts.data, hosts.len, 0600);
	}
	if (rc == 0)
		rc = io_replace(config_path->data, config->data, config->len, 0600);
	buf_release(&directory);
	buf_release(&hosts_path);
	buf_release(&hosts);
	return rc;
}

/* Becomes ssh. Returns only where that fails. */
static int become_ssh(const struct customer_ssh *s, const char *config, int n,
	char **args)
{
	const char **argv = xcalloc((size_t)n + 6, sizeof *argv);
	struct buf host = BUF_INIT;
	int at = 0;

	buf_addf(&host, "%s-%" PRId64, s->cluster, rank);
	argv[at++] = "ssh";
	argv[at++] = "-F";
	argv[at++] = config;
	argv[at++] = host.data;
	if (n)
		argv[at++] = "--";
	for (int i = 0; i < n; i++)
		argv[at++] = args[i];
	execvp(argv[0], (char *const *)argv);
	err_sys(EX_UNAVAILABLE, "cannot start ssh");
	err_hint("install openssh-client");
	free(argv);
	buf_release(&host);
	return -1;
}

static int run(int n, char **args)
{
	struct customer_ssh *s = xcalloc(1, sizeof *s);
	struct key key = KEY_INIT;
	struct customer c = { .registry = registry, .ca = ca_file, .key = &key };
	struct buf path = BUF_INIT, config = BUF_INIT;
	int rc = -1;

	if (prints_config && n > 1)
		rc = err_set(EX_USAGE, "--config takes no command");
	else if (identity && strpbrk(identity, "\"\n%"))
		rc = err_set(EX_USAGE,
			"--identity: '%s' has a character that ssh does not take "
			"as it is",
			identity);
	else if (key_load(&key, key_path, passphrase_file) == 0)
		rc = ask_all(&c, args[0], s);
	if (rc == 0)
		rc = write_files(s, &path, &config);
	customer_release(&c);
	key_release(&key);
	if (rc == 0 && prints_config)
		rc = out_text(config.data, config.len);
	else if (rc == 0)
		rc = become_ssh(s, path.data, n - 1, args + 1);
	buf_release(&path);
	buf_release(&config);
	free(s);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_ssh = {
	.name = "ssh",
	.group = "customer",
	.arguments = "cluster [command ...]",
	.args_min = 1,
	.args_max = -1,
	.summary = "Log in to a node of a cluster, or run a command there.",
	.details =
		"Becomes ssh, with a configuration that knows the gateway's and the node's host "
		"keys from records\nthat they or the registry have signed; no other is accepted. "
		"Put -- before a command with options.\nExit code: that of the command, and 255 "
		"where ssh fails.",
	.opts = opts,
	.run = run,
};
