/* ssh.c - nothing is connected to that a signature does not vouch for: the registry's for the
 * gateway, the node's own for its host key. */
#include "cmd/rnp-register/customer/ssh.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cmd/rnp-register/market/place.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/record/signature.h"

#define SHORT 8 /* digits of a cluster's name that people type */

/* Whether a text can stand in ssh_config as it is. */
static bool is_plain(const char *text)
{
	for (const char *p = text; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("._-:", *p))
			return false;
	return *text && *text != '-';
}

/* Copies a text of a record that is plain. */
static int take(const json_t *o, const char *where, const char *name, char *out,
	size_t size)
{
	const char *text;

	if (json_get_text(o, where, name, &text) < 0)
		return -1;
	if (strlen(text) >= size || !is_plain(text))
		return err_set(EX_DATAERR, "%s: '%s' is none", where, name);
	snprintf(out, size, "%s", text);
	return 0;
}

static int check_signer(const json_t *record, const char *where, const char *signer)
{
	struct signature_result r;

	signature_verify(record, &r);
	if (r.valid && signature_is_by(&r, signer))
		return 0;
	return err_set(EX_NOPERM, "%s is not signed by %s%s%s", where, signer,
		r.reason[0] ? ": " : "", r.reason);
}

/* Takes a node of the cluster; one without a place is passed over. */
static int take_node(struct customer_ssh *s, const json_t *node)
{
	struct customer_rank r = { 0 };
	const char *ssh = NULL;
	struct in_addr a;

	if (json_get_i64(node, "cluster", "rank", 0, PLACE_RANKS_MAX, &r.rank) < 0 ||
		json_opt_text(node, "cluster", "ssh", &ssh) < 0)
		return -1;
	if (!ssh)
		return 0;
	if (take(node, "cluster", "node", r.node, sizeof r.node) < 0 ||
		take(node, "cluster", "ssh", r.ssh, sizeof r.ssh) < 0)
		return -1;
	if (inet_pton(AF_INET, ssh, &a) != 1 || ntohl(a.s_addr) >> 24 != 127)
		return err_set(EX_DATAERR, "cluster: 'ssh' is no place on a gateway");
	/* the newest of a rank comes last */
	if (s->n && s->ranks[s->n - 1].rank == r.rank)
		s->n--;
	if (s->n == CUSTOMER_SSH_RANKS_MAX)
		return err_set(EX_DATAERR, "cluster: more than %d ranks",
			CUSTOMER_SSH_RANKS_MAX);
	s->ranks[s->n++] = r;
	return 0;
}

int customer_ssh_cluster(struct customer_ssh *s, const json_t *record)
{
	json_t *nodes, *node;
	size_t i;

	*s = (struct customer_ssh){ 0 };
	if (json_check_kind(record, "cluster", "rnp.cluster") < 0 ||
		take(record, "cluster", "cluster", s->cluster, sizeof s->cluster) < 0 ||
		take(record, "cluster", "signer", s->registry, sizeof s->registry) < 0 ||
		check_signer(record, "the cluster", s->registry) < 0 ||
		json_get_array(record, "cluster", "nodes", &nodes) < 0)
		return -1;
	json_array_foreach(nodes, i, node)
		if (take_node(s, node) < 0)
			return -1;
	return s->n ? 0 :
		      err_set(EX_TEMPFAIL, "no node of cluster %s is there", s->cluster);
}

int customer_ssh_gateway(struct customer_ssh *s, const json_t *reply)
{
	const json_t *g = json_array_get(json_object_get(reply, "gateways"), 0);
	const char *key;

	if (!g)
		return err_set(EX_UNAVAILABLE, "this registry has no gateway for SSH");
	if (json_check_kind(g, "gateway", "rnp.gateway") < 0 ||
		check_signer(g, "the gateway", s->registry) < 0 ||
		take(g, "gateway", "host", s->host, sizeof s->host) < 0 ||
		take(g, "gateway", "user", s->user, sizeof s->user) < 0 ||
		json_get_i64(g, "gateway", "port", 1, 65535, &s->port) < 0 ||
		json_get_text(g, "gateway", "host_key", &key) < 0)
		return -1;
	return sshkey_parse(key, "gateway: host_key", &s->gateway_key);
}

int customer_ssh_listing(struct customer_rank *r, const json_t *reply)
{
	const json_t *l = json_array_get(json_object_get(reply, "listings"), 0);
	const char *node, *key = NULL;

	if (!l)
		return err_set(EX_UNAVAILABLE, "node %s lists nothing", r->node);
	if (json_check_kind(l, "listing", "rnp.listing") < 0 ||
		json_get_text(l, "listing", "node", &node) < 0 ||
		json_opt_text(l, "listing", "host_key", &key) < 0)
		return -1;
	if (strcmp(node, r->node) != 0)
		return err_set(EX_NOPERM, "the listing is not of node %s", r->node);
	if (check_signer(l, "the listing", r->node) < 0)
		return -1;
	if (!key)
		return err_set(EX_UNAVAILABLE,
			"node %s has no SSH: its listing names no "
			"host key",
			r->node);
	return sshkey_parse(key, "listing: host_key", &r->host_key);
}

/* A key stands for the lease's place and the node, not for a name of DNS. */
static void write_alias(struct buf *out, const struct customer_ssh *s,
	const struct customer_rank *r)
{
	buf_addf(out, "rnp-%s-%" PRId64, s->cluster, r->rank);
}

void customer_ssh_known_hosts(struct buf *out, const struct customer_ssh *s)
{
	buf_addf(out, "rnp-gateway-%s %s %s\n", s->registry, s->gateway_key.type,
		s->gateway_key.blob);
	for (size_t i = 0; i < s->n; i++) {
		if (!s->ranks[i].host_key.type[0])
			continue;
		write_alias(out, s, &s->ranks[i]);
		buf_addf(out, " %s %s\n", s->ranks[i].host_key.type,
			s->ranks[i].host_key.blob);
	}
}

static void write_options(struct buf *out, const char *known_hosts, const char *identity)
{
	buf_addf(out,
		"  StrictHostKeyChecking yes\n  UserKnownHostsFile \"%s\"\n"
		"  GlobalKnownHostsFile /dev/null\n  UpdateHostKeys no\n"
		"  CheckHostIP no\n  HostKeyAlgorithms ssh-ed25519\n"
		"  ForwardAgent no\n  ServerAliveInterval 15\n",
		known_hosts);
	if (identity)
		buf_addf(out, "  IdentityFile \"%s\"\n  IdentitiesOnly yes\n", identity);
}

void customer_ssh_config(struct buf *out, const struct customer_ssh *s,
	const char *known_hosts, const char *identity)
{
	buf_addf(out, "Host rnp-gateway-%.*s\n", SHORT, s->cluster);
	buf_addf(out, "  HostName %s\n  Port %" PRId64 "\n  User %s\n", s->host, s->port,
		s->user);
	buf_addf(out, "  HostKeyAlias rnp-gateway-%s\n", s->registry);
	write_options(out, known_hosts, identity);
	for (size_t i = 0; i < s->n; i++) {
		const struct customer_rank *r = &s->ranks[i];

		if (!r->host_key.type[0])
			continue;
		buf_addf(out, "Host %s-%" PRId64 " %.*s-%" PRId64, s->cluster, r->rank,
			SHORT, s->cluster, r->rank);
		if (i == 0)
			buf_addf(out, " %s %.*s", s->cluster, SHORT, s->cluster);
		buf_addf(out, "\n  HostName %s\n  Port %d\n  User rnp-session\n", r->ssh,
			PLACE_PORT);
		buf_addf(out, "  ProxyJump rnp-gateway-%.*s\n  HostKeyAlias ", SHORT,
			s->cluster);
		write_alias(out, s, r);
		buf_addc(out, '\n');
		write_options(out, known_hosts, identity);
	}
}
