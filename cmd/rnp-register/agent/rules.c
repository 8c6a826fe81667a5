/* rules.c - what a lease may reach. */
#include "cmd/rnp-register/agent/rules.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

/* What is no address of the Internet, by the registries of RFC 6890, and what clouds answer their
 * machines with outside of those: Azure's 168.63.129.16. Metadata services at 169.254.169.254,
 * 100.100.100.200 and 192.0.0.192 are in them already. */
static const char *const private_networks[] = { "0.0.0.0/8", "10.0.0.0/8",
	"100.64.0.0/10", "127.0.0.0/8", "168.63.129.16", "169.254.0.0/16",
	"172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
	"192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
	"224.0.0.0/3" };

int rules_is_network(const char *text)
{
	char address[INET_ADDRSTRLEN];
	size_t len = strcspn(text, "/");
	struct in_addr in;
	char *end = address + len;
	long bits = 32;

	if (!len || len >= sizeof address)
		return 0;
	memcpy(address, text, len);
	address[len] = '\0';
	if (text[len]) {
		if (text[len + 1] < '0' || text[len + 1] > '9')
			return 0;
		bits = strtol(text + len + 1, &end, 10);
	}
	return inet_pton(AF_INET, address, &in) == 1 && !*end && bits <= 32;
}

static void add_set(struct buf *out, const char *name, const char *const *all, size_t n,
	const char *const *more, size_t nmore)
{
	const char *comma = "";

	buf_addf(out,
		"\tset %s {\n\t\ttype ipv4_addr\n\t\tflags interval\n\t\tauto-merge\n",
		name);
	if (n + nmore) {
		buf_adds(out, "\t\telements = {");
		for (size_t i = 0; i < n + nmore; i++, comma = ",")
			buf_addf(out, "%s %s", comma, i < n ? all[i] : more[i - n]);
		buf_adds(out, " }\n");
	}
	buf_adds(out, "\t}\n");
}

static void add_pool(struct buf *out, const struct rules *r)
{
	buf_addf(out, "%u.%u.%u.%u/%d", r->pool >> 24, r->pool >> 16 & 255,
		r->pool >> 8 & 255, r->pool & 255, r->pool_bits);
}

static void begin(struct buf *out, const char *name)
{
	/* a table has to be there to be deleted */
	buf_addf(out, "table inet %s\ndelete table inet %s\ntable inet %s {\n", name,
		name, name);
}

static void add_private(struct buf *out, const struct rules *r)
{
	add_set(out, "private", private_networks,
		sizeof private_networks / sizeof *private_networks, r->blocked,
		r->nblocked);
	add_set(out, "resolvers", r->resolvers, r->nresolvers, NULL, 0);
}

/* Packets of others that come in on a link where we switched forwarding on. */
static void add_strangers(struct buf *out, const struct rules *r)
{
	const char *comma = "";

	if (!r->nuplinks)
		return;
	buf_adds(out, "\t\tiifname {");
	for (size_t i = 0; i < r->nuplinks; i++, comma = ",")
		buf_addf(out, "%s \"%s\"", comma, r->uplinks[i]);
	buf_adds(out, " } drop\n");
}

void rules_of_host(struct buf *out, const struct rules *r)
{
	begin(out, "rnp_leases");
	add_private(out, r);
	buf_adds(out,
		"\tset crowded {\n\t\ttype ifname\n\t\tflags dynamic\n\t}\n"
		"\tchain input {\n"
		"\t\ttype filter hook input priority -200; policy accept;\n"
		"\t\tiifname \"" RULES_HOST_LINKS "*\" drop\n\t}\n"
		"\tchain lease {\n"
		"\t\tmeta nfproto != ipv4 drop\n\t\tip saddr != ");
	add_pool(out, r);
	buf_addf(out,
		" drop\n"
		"\t\toifname \"" RULES_HOST_LINKS "*\" drop\n"
		"\t\tct state invalid drop\n"
		"\t\tct state new add @crowded { iifname ct count over %d } drop\n"
		"\t\tmeta l4proto { tcp, udp } th dport 53 ip daddr @resolvers accept\n"
		"\t\tip daddr @private drop\n"
		"\t\taccept\n\t}\n",
		RULES_CONNECTIONS);
	buf_adds(out,
		"\tchain forward {\n"
		"\t\ttype filter hook forward priority -200; policy accept;\n"
		"\t\tiifname \"" RULES_HOST_LINKS "*\" goto lease\n"
		"\t\toifname \"" RULES_HOST_LINKS
		"*\" ct state established,related accept\n"
		"\t\toifname \"" RULES_HOST_LINKS "*\" drop\n");
	add_strangers(out, r);
	buf_adds(out,
		"\t}\n\tchain postrouting {\n"
		"\t\ttype nat hook postrouting priority 100; policy accept;\n"
		"\t\toifname != \"" RULES_HOST_LINKS "*\" ip saddr ");
	add_pool(out, r);
	buf_adds(out, " masquerade\n\t}\n}\n");
}

void rules_of_lease(struct buf *out, const struct rules *r)
{
	begin(out, "rnp_lease");
	add_private(out, r);
	add_set(out, "own", r->own, r->nown, NULL, 0);
	add_set(out, "peers", r->peers, r->npeers, NULL, 0);
	/* what is refused says so at once: a job that tries it does not hang */
	buf_adds(out,
		"\tchain output {\n"
		"\t\ttype filter hook output priority -200; policy drop;\n"
		"\t\toifname \"lo\" accept\n"
		"\t\toifname \"" RULES_LINK_RANKS "\" ip daddr @peers accept\n"
		"\t\toifname != \"" RULES_LINK_OUT
		"\" reject with icmpx type admin-prohibited\n"
		"\t\tmeta nfproto != ipv4 reject with icmpx type admin-prohibited\n"
		"\t\tip daddr @own reject with icmpx type admin-prohibited\n"
		"\t\tmeta l4proto { tcp, udp } th dport 53 ip daddr @resolvers accept\n"
		"\t\tip daddr @private reject with icmpx type admin-prohibited\n");
	buf_addf(out, "\t\tct state new ct count over %d drop\n\t\taccept\n\t}\n",
		RULES_CONNECTIONS);
	buf_adds(out,
		"\tchain input {\n"
		"\t\ttype filter hook input priority -200; policy drop;\n"
		"\t\tiifname \"lo\" accept\n"
		"\t\tiifname \"" RULES_LINK_RANKS "\" ip saddr @peers accept\n"
		"\t\tct state established,related accept\n\t}\n"
		"\tchain forward {\n"
		"\t\ttype filter hook forward priority -200; policy drop;\n\t}\n}\n");
}

void rules_none(struct buf *out)
{
	buf_adds(out, "table inet rnp_leases\ndelete table inet rnp_leases\n");
}
