/* egress.h - the way by which podman gets images: a network namespace in which there is nothing but
 * an HTTP proxy of ours, which leads to the Internet and to no private address. Needs root. Uses
 * netns, netlink, net, threads, err.
 *
 * Where an image lies is the customer's word. His registry, its names, its redirects and what it
 * calls its token server must not make this node ask a neighbour of its network, a service of its
 * own, or those of a cloud at 169.254.169.254: every connection is decided here when it is made, by
 * the address that it goes to. */
#ifndef RNP_REGISTER_AGENT_EGRESS_H
#define RNP_REGISTER_AGENT_EGRESS_H

#include <stdbool.h>
#include <stddef.h>

#define EGRESS_WHERE_MAX 128

struct egress;

/* Opens one. path: where its namespace is mounted, a file that is made, or made anew. Returns NULL
 * with err_set. */
struct egress *egress_open(const char *path);

/* Ends it with all its connections, and its namespace's name. NULL is fine. */
void egress_close(struct egress *e);

/* "http://127.0.0.1:PORT", in the namespace. */
const char *egress_proxy(const struct egress *e);

/* Whether a connection to a private address was refused; where: to which, as "name (address)". */
bool egress_refused(struct egress *e, char where[EGRESS_WHERE_MAX]);

#endif
