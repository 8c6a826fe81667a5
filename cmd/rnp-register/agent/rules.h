/* rules.h - what a lease may reach, as rules of nft(8). Pure. Uses buf.
 *
 * A lease has two fences, either of which is enough: a table in its own network namespace,
 * which root in its container cannot change as the namespace is the host's; and the table
 * "inet rnp_leases" in the host's, which is about links of leases alone and says nothing of
 * others. */
#ifndef RNP_CMD_REGISTER_AGENT_RULES_H
#define RNP_CMD_REGISTER_AGENT_RULES_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"

/* Links on the host's side, and on a lease's: its way out, and that to the other ranks. */
#define RULES_HOST_LINKS "rnpl"
#define RULES_LINK_OUT   "eth0"
#define RULES_LINK_RANKS "ranks"

/* Connections that a lease may have open at a time: the host's table of them has an end. */
#define RULES_CONNECTIONS 16384

struct rules {
	uint32_t pool; /* addresses of leases */
	int pool_bits;
	const char *const *
		resolvers; /* that are asked for names (port 53) wherever they are; IPv4 */
	size_t nresolvers;
	const char *const
		*blocked; /* further addresses or networks that no lease reaches; IPv4 */
	size_t nblocked;
	const char *const *own; /* the host's addresses, IPv4 */
	size_t nown;
	/* links on which packets are forwarded for leases alone: those of others end there, as they
	 * did before */
	const char *const *uplinks;
	size_t nuplinks;
	const char *const *peers; /* of the lease's cluster, on RULES_LINK_RANKS */
	size_t npeers;
};

/* Append what makes the table of a host, or of a lease's namespace, in one transaction that
 * replaces an old one. */
void rules_of_host(struct buf *out, const struct rules *r);
void rules_of_lease(struct buf *out, const struct rules *r);
/* What takes the host's away. */
void rules_none(struct buf *out);

/* Whether a text is an address of IPv4, or a network as 10.0.0.0/8: nothing else goes into
 * rules. */
int rules_is_network(const char *text);

#endif
