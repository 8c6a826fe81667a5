/* network_host.h - the host's part of the networks of leases: its rules, and what it forwards.
 * Part of network.h. */
#ifndef RNP_CMD_REGISTER_AGENT_NETWORK_HOST_H
#define RNP_CMD_REGISTER_AGENT_NETWORK_HOST_H

#include "cmd/rnp-register/agent/netlink.h"
#include "cmd/rnp-register/agent/network.h"
#include "cmd/rnp-register/agent/rules.h"

/* What the host is now. An object of zeros is releasable. */
struct host {
	char **own;     /* its addresses */
	char **uplinks; /* the links of its default routes */
	size_t nown, nuplinks, own_cap, uplinks_cap;
	uint32_t mtu; /* the least of its uplinks; 1500 where it has none */
};
int host_look(struct host *h);
void host_release(struct host *h);

/* Makes rules and forwarding as leases need them, where they are not so; DIR is there. Returns
 * 0, or -1 with err_set. */
int host_prepare(const struct network_place *place, const struct host *h);

/* Whether host_prepare has been here and host_restore not since. */
bool host_is_prepared(const struct network_place *place);

/* Makes both as they were before there were leases. */
int host_restore(const struct network_place *place);

/* Runs nft with these rules in a network namespace, or here (-1). */
int host_nft(const char *rules, int netns);
/* Whether there is such a table. Returns 1, 0, or -1 with err_set. */
int host_has_table(const char *name, int netns);

/* Writes a setting of the calling thread's network: "ipv4/conf/eth0/forwarding". Returns 0, or
 * -1 with err_set; 0 too where there is no such setting and may_lack. */
int host_set(const char *setting, const char *value, bool may_lack);

/* --- what the parts of network.h have in common ----------------------------------------------- */

/* What a link of the host is called as its alias, before the lease's id. */
#define NETWORK_ALIAS "rnp lease "

int network_check(const struct network_place *place, const char *id);
/* Takes the folder's lock. Returns the file that holds it until it is closed, or -1 with
 * err_set. */
int network_lock(const struct network_place *place);
/* The name of a lease's link on the host; "" where there is none. */
int network_link(struct netlink *n, const char *id, char name[LINK_NAME_MAX]);
/* What the host's end of a link needs: it forwards, and has no IPv6. */
int network_set_link(const char *name);
int network_close_locked(const struct network_place *place, const char *id);

#endif
