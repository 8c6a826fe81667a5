/* netlink.h - the few requests of rtnetlink(7) that a lease's network needs. They concern the
 * network namespace of the calling thread when it opened the socket. Uses err. */
#ifndef RNP_CMD_REGISTER_AGENT_NETLINK_H
#define RNP_CMD_REGISTER_AGENT_NETLINK_H

#include <stdbool.h>
#include <stdint.h>

#define LINK_NAME_MAX  16  /* IFNAMSIZ */
#define LINK_ALIAS_MAX 256 /* IFALIASZ */

struct netlink {
	int fd; /* -1: closed */
	uint32_t sequence;
};

/* Returns 0, or -1 with err_set. */
int netlink_open(struct netlink *n);
void netlink_close(struct netlink *n);

/* All below return 0, or -1 with err_set: 73 it is there already, 66 it is not there, 71
 * otherwise. */

/* Makes a pair of interfaces: `name` here, `peer` in the namespace of an open file. */
int netlink_add_pair(struct netlink *n, const char *name, const char *peer,
	int peer_netns, uint32_t mtu);
/* Gives a link a text of its owner; the kernel does nothing with it. */
int netlink_set_alias(struct netlink *n, const char *name, const char *alias);
int netlink_set_up(struct netlink *n, const char *name);
int netlink_delete(struct netlink *n, const char *name); /* and its peer with it */

/* Addresses are in the host's byte order. */
int netlink_add_address(struct netlink *n, const char *name, uint32_t address, int bits);
int netlink_add_default(struct netlink *n, uint32_t gateway);

/* Lets no more than so many bits a second leave by a link: a token bucket of 1/20 s, at least
 * 10 full frames, and a queue of 1/10 s. */
int netlink_limit(struct netlink *n, const char *name, int64_t bits_per_s);

struct netlink_link {
	char name[LINK_NAME_MAX], alias[LINK_ALIAS_MAX];
	int index;
	uint32_t mtu;
};
int netlink_links(struct netlink *n,
	void (*visit)(const struct netlink_link *link, void *context), void *context);

/* Routes of IPv4 of the main table: bits 0 is a default route. */
struct netlink_route {
	uint32_t to;
	int bits, link;
};
int netlink_routes(struct netlink *n,
	void (*visit)(const struct netlink_route *route, void *context), void *context);

#endif
