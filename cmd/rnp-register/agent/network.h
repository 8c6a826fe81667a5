/* network.h - the network of a lease: a namespace of its own with one link, through which it
 * reaches the Internet and nothing else. Needs root and nft. Uses netns, netlink, rules, command,
 * err.
 *
 * In a folder DIR a lease ID has DIR/ID, on which its namespace is mounted: podman's netns,
 * "nsmode" "path". A pair of links rnplN here and eth0 there has two addresses of the pool, and
 * what leaves is masqueraded. A lease does not reach: the host, by any of its addresses; other
 * leases; private, shared, link-local, multicast and documentation ranges; services of metadata;
 * IPv6. Nobody reaches it. It reaches its peers by a device "ranks", which the agent makes in the
 * namespace and whose rate is the agent's to bound.
 *
 * The host's rules, and ip_forward, stay as they are: there is one table more, "inet
 * rnp_leases". Where the host forwards nothing, forwarding is switched on for the links of its
 * default routes alone, for leases alone, and off with the last lease; DIR/.forwarding names
 * them meanwhile. Who forbids forwarding by rules of his own has to let through what comes
 * from and goes to rnpl*. */
#ifndef RNP_CMD_REGISTER_AGENT_NETWORK_H
#define RNP_CMD_REGISTER_AGENT_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"

/* 100.127.128.0: shared by carriers, and seldom used at its end */
#define NETWORK_POOL      0x647f8000U
#define NETWORK_POOL_BITS 17

/* How networks of leases are made on this node. */
struct network_place {
	const char *dir; /* absolute, as /run/rnp/net */
	/* two addresses a lease, in the host's byte order; 8 to 30 bits. It is the same while there
	 * are leases. */
	uint32_t pool;
	int pool_bits;
	/* the lease's servers of names; IPv4, at port 53 alone */
	const char *const *resolvers;
	size_t nresolvers;
	/* what no lease reaches beside the above, as the router's address in the Internet */
	const char *const *blocked;
	size_t nblocked;
};

/* Appends the path of a lease's namespace. Pure. */
void network_path(struct buf *out, const char *dir, const char *id);

/* Tries all that a network needs, with one that is gone afterwards. Returns 0, or -1 with
 * err_set: 69 and what lacks: a node without it sells nothing. */
int network_probe(const struct network_place *place);

/* Makes a lease's network; up_bits_per_s bounds what it sends, 0: nothing does. On failure
 * nothing of it stays. Returns 0, or -1 with err_set: 65 a bad id, 69 nft lacks or the pool is
 * used up, 73 it is there already, 71. */
int network_open(const struct network_place *place, const char *id,
	int64_t up_bits_per_s);

/* Whether a network that an earlier process made is there, and goes on: its rules are made
 * anew. Returns 0, or -1 with err_set: 66 its namespace or its link is not there. */
int network_adopt(const struct network_place *place, const char *id,
	int64_t up_bits_per_s);

/* Makes the host's rules anew, as its addresses and default routes are now. To be called every
 * now and then while there are leases; it is cheap. Returns 0, or -1 with err_set. */
int network_refresh(const struct network_place *place);

/* Lets a lease reach these addresses by its device "ranks", and them reach it; those named
 * before no more, unless they are named again. Returns 0, or -1 with err_set: 65 an address is
 * none. */
int network_set_peers(const struct network_place *place, const char *id,
	const char *const *peers, size_t n);

/* Ends a lease's network: link and name go at once, the namespace with its last process. With
 * the last lease the host is as it was. One that is not there has ended. Returns 0, or -1 with
 * err_set. */
int network_close(const struct network_place *place, const char *id);

/* Calls visit for each lease of which a namespace's file or a link is there. Returns 0, or -1
 * with err_set. */
int network_each(const struct network_place *place,
	void (*visit)(const char *id, void *context), void *context);

/* Ends all networks of which is_live says no, and links that belong to none. *closed gets how many
 * went. Returns 0, or -1 with the last failure; the rest went all the same. */
int network_clean(const struct network_place *place,
	bool (*is_live)(const char *id, void *context), void *context, int *closed);

#endif
