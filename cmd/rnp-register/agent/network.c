/* network.c - the network of a lease, from its making to its end. All that changes something
 * is done under a lock of the folder. */
#include "cmd/rnp-register/agent/network.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/command.h"
#include "cmd/rnp-register/agent/netlink.h"
#include "cmd/rnp-register/agent/netns.h"
#include "cmd/rnp-register/agent/network_host.h"
#include "cmd/rnp-register/agent/rules.h"
#include "cmd/rnp-register/agent/volume.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/lock.h"
#include "common/base/mem.h"

#define SLOTS_MAX   4096
#define PROBE_BITS  1000000
#define ROUTES_BITS 16 /* wider routes of others are stood by ours, which are longer */

void network_path(struct buf *out, const char *dir, const char *id)
{
	buf_addf(out, "%s/%s", dir, id);
}

static int check_networks(const char *const *all, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!rules_is_network(all[i]))
			return err_set(EX_DATAERR, "'%.60s' is no address of IPv4",
				all[i]);
	return 0;
}

int network_check(const struct network_place *place, const char *id)
{
	if (!volume_id_is_good(id))
		return err_set(EX_DATAERR, "'%.80s' cannot name a network", id);
	if (place->dir[0] != '/' || strstr(place->dir, "/..") || strstr(place->dir, "//"))
		return err_set(EX_USAGE, "'%s' is no plain absolute path", place->dir);
	if (place->pool_bits < 8 || place->pool_bits > 30 ||
		place->pool << place->pool_bits)
		return err_set(EX_USAGE,
			"the addresses of leases are no network of 8 to 30 bits");
	if (check_networks(place->resolvers, place->nresolvers) < 0)
		return -1;
	return check_networks(place->blocked, place->nblocked);
}

int network_lock(const struct network_place *place)
{
	struct buf path = BUF_INIT;
	int fd = -1;

	buf_addf(&path, "%s/.lock", place->dir);
	if (io_make_dirs(place->dir, 0700) == 0) {
		fd = open(path.data, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0)
			err_sys(0, "cannot open '%s'", path.data);
		else
			lock_wait(fd, path.data, NULL);
	}
	buf_release(&path);
	return fd;
}

/* --- addresses ------------------------------------------------------------------------------ */

/* Leases are numbered: number i has link rnplI and the addresses pool + 2 i and 2 i + 1. */
struct slots {
	const struct network_place *place;
	bool taken[SLOTS_MAX];
};

static void take_link(const struct netlink_link *link, void *context)
{
	struct slots *s = context;
	size_t len = strlen(RULES_HOST_LINKS);
	char *end;
	long i;

	if (strncmp(link->name, RULES_HOST_LINKS, len) != 0)
		return;
	i = strtol(link->name + len, &end, 10);
	if (!*end && i >= 0 && i < SLOTS_MAX)
		s->taken[i] = true;
}

/* A network that somebody else has within the pool. */
static void take_route(const struct netlink_route *route, void *context)
{
	struct slots *s = context;
	uint32_t mask = route->bits ? UINT32_MAX << (32 - route->bits) : 0;

	if (route->bits <= ROUTES_BITS)
		return;
	for (uint32_t i = 0; i < SLOTS_MAX; i++) {
		uint32_t address = s->place->pool + 2 * i;

		if (((address ^ route->to) & mask) == 0 ||
			((address ^ route->to) & (UINT32_MAX - 1)) == 0)
			s->taken[i] = true;
	}
}

/* Returns a number that is free, or -1 with err_set. */
static int free_slot(struct netlink *n, const struct network_place *place)
{
	uint32_t most = 1U << (31 - place->pool_bits);
	struct slots s = { .place = place };

	if (netlink_links(n, take_link, &s) < 0 || netlink_routes(n, take_route, &s) < 0)
		return -1;
	for (uint32_t i = 0; i < most && i < SLOTS_MAX; i++)
		if (!s.taken[i])
			return (int)i;
	return err_set(EX_UNAVAILABLE,
		"no address for a lease is free: leases, or routes of others, have all");
}

/* --- made ----------------------------------------------------------------------------------- */

/* What happens in the lease's namespace. */
struct inner {
	uint32_t host, address;
	int64_t up_bits_per_s;
};

/* Ports below 1024, and ping, want no capabilities there: a lease has none of networks. */
static int set_inside(void)
{
	if (host_set("ipv6/conf/" RULES_LINK_OUT "/disable_ipv6", "1", true) < 0)
		return -1;
	if (host_set("ipv4/ip_unprivileged_port_start", "0", true) < 0)
		return -1;
	return host_set("ipv4/ping_group_range", "0 2147483647", true);
}

static int make_inside(void *context)
{
	const struct inner *in = context;
	struct netlink n = { .fd = -1 };
	int rc = -1;

	if (netlink_open(&n) == 0 && set_inside() == 0 && netlink_set_up(&n, "lo") == 0 &&
		netlink_add_address(&n, RULES_LINK_OUT, in->address, 31) == 0 &&
		(!in->up_bits_per_s ||
			netlink_limit(&n, RULES_LINK_OUT, in->up_bits_per_s) == 0) &&
		netlink_set_up(&n, RULES_LINK_OUT) == 0 &&
		netlink_add_default(&n, in->host) == 0)
		rc = 0;
	netlink_close(&n);
	return rc;
}

/* The host's end of the link: forwards, and has no IPv6. */
int network_set_link(const char *name)
{
	struct buf setting = BUF_INIT;
	int rc;

	buf_addf(&setting, "ipv4/conf/%s/forwarding", name);
	rc = host_set(setting.data, "1", false);
	buf_reset(&setting);
	buf_addf(&setting, "ipv4/conf/%s/rp_filter", name);
	if (rc == 0)
		rc = host_set(setting.data, "1", true);
	buf_reset(&setting);
	buf_addf(&setting, "ipv6/conf/%s/disable_ipv6", name);
	if (rc == 0)
		rc = host_set(setting.data, "1", true);
	buf_release(&setting);
	return rc;
}

static int make_link(const struct network_place *place, const char *id, int netns,
	uint32_t mtu, int64_t up_bits_per_s)
{
	struct netlink n = { .fd = -1 };
	struct buf name = BUF_INIT, alias = BUF_INIT;
	struct inner in = { .up_bits_per_s = up_bits_per_s };
	int slot, rc = -1;

	buf_addf(&alias, NETWORK_ALIAS "%s", id);
	if (netlink_open(&n) < 0 || (slot = free_slot(&n, place)) < 0)
		goto out;
	buf_addf(&name, RULES_HOST_LINKS "%d", slot);
	in.host = place->pool + 2 * (uint32_t)slot;
	in.address = in.host + 1;
	if (netlink_add_pair(&n, name.data, RULES_LINK_OUT, netns, mtu) == 0 &&
		netlink_set_alias(&n, name.data, alias.data) == 0 &&
		network_set_link(name.data) == 0 &&
		netlink_add_address(&n, name.data, in.host, 31) == 0 &&
		netns_run(netns, make_inside, &in) == 0 &&
		netlink_set_up(&n, name.data) == 0)
		rc = 0;
out:
	netlink_close(&n);
	buf_release(&name);
	buf_release(&alias);
	return rc;
}

/* The fence of a lease's namespace, with what the host is now. */
static int fence(const struct network_place *place, const struct host *h, int netns)
{
	struct rules r = { .resolvers = place->resolvers,
		.nresolvers = place->nresolvers,
		.blocked = place->blocked,
		.nblocked = place->nblocked,
		.own = (const char *const *)h->own,
		.nown = h->nown };
	struct buf text = BUF_INIT;
	int rc;

	rules_of_lease(&text, &r);
	rc = host_nft(text.data, netns);
	buf_release(&text);
	return rc;
}

/* Fences come first, then the way out. */
static int open_one(const struct network_place *place, const char *id,
	int64_t up_bits_per_s)
{
	struct buf path = BUF_INIT;
	struct host h = { 0 };
	struct err why;
	int netns = -1, rc = -1;

	network_path(&path, place->dir, id);
	if (netns_make(path.data) < 0)
		goto out;
	netns = netns_open(path.data);
	if (netns >= 0 && host_look(&h) == 0 && host_prepare(place, &h) == 0 &&
		fence(place, &h, netns) == 0 &&
		make_link(place, id, netns, h.mtu, up_bits_per_s) == 0)
		rc = 0;
	if (rc < 0) {
		err_save(&why);
		network_close_locked(place, id);
		err_restore(&why);
	}
out:
	if (netns >= 0)
		close(netns);
	host_release(&h);
	buf_release(&path);
	return rc;
}

int network_open(const struct network_place *place, const char *id, int64_t up_bits_per_s)
{
	int fd, rc;

	if (network_check(place, id) < 0)
		return -1;
	if (up_bits_per_s < 0 || (up_bits_per_s && up_bits_per_s < 8000))
		return err_set(EX_DATAERR,
			"a lease sends at least 8000 bits a second, not %" PRId64,
			up_bits_per_s);
	fd = network_lock(place);
	if (fd < 0)
		return -1;
	rc = open_one(place, id, up_bits_per_s);
	close(fd);
	return rc;
}

/* --- adopted -------------------------------------------------------------------------------- */

struct sought {
	const char *alias;
	char name[LINK_NAME_MAX];
};

static void is_sought(const struct netlink_link *link, void *context)
{
	struct sought *s = context;

	if (strcmp(link->alias, s->alias) == 0)
		memcpy(s->name, link->name, sizeof s->name);
}

/* The name of a lease's link; "" where there is none. */
int network_link(struct netlink *n, const char *id, char name[LINK_NAME_MAX])
{
	struct buf alias = BUF_INIT;
	struct sought s = { 0 };
	int rc;

	buf_addf(&alias, NETWORK_ALIAS "%s", id);
	s.alias = alias.data;
	rc = netlink_links(n, is_sought, &s);
	memcpy(name, s.name, sizeof s.name);
	buf_release(&alias);
	return rc;
}

/* Appends statements that fill a set of a lease's table with addresses anew. */
static void fill_set(struct buf *out, const char *set, const char *const *all, size_t n)
{
	buf_addf(out, "flush set inet rnp_lease %s\n", set);
	for (size_t i = 0; i < n; i++)
		buf_addf(out, "add element inet rnp_lease %s { %s }\n", set, all[i]);
}

/* The fence of a lease that is there already: counts what is open, so it is changed, not made
 * anew. */
static int mend_fence(const struct network_place *place, const struct host *h, int netns)
{
	struct buf text = BUF_INIT;
	int rc = host_has_table("rnp_lease", netns);

	if (rc == 0) {
		rc = fence(place, h, netns);
	} else if (rc > 0) {
		fill_set(&text, "own", (const char *const *)h->own, h->nown);
		fill_set(&text, "resolvers", place->resolvers, place->nresolvers);
		rc = host_nft(text.data, netns);
	}
	buf_release(&text);
	return rc;
}

struct limit {
	int64_t up_bits_per_s;
};

static int limit_inside(void *context)
{
	const struct limit *l = context;
	struct netlink n = { .fd = -1 };
	int rc = netlink_open(&n);

	if (rc == 0 && l->up_bits_per_s)
		rc = netlink_limit(&n, RULES_LINK_OUT, l->up_bits_per_s);
	netlink_close(&n);
	return rc;
}

static int adopt_one(const struct network_place *place, const char *id,
	int64_t up_bits_per_s)
{
	struct limit limit = { up_bits_per_s };
	char name[LINK_NAME_MAX] = "";
	struct netlink n = { .fd = -1 };
	struct buf path = BUF_INIT;
	struct host h = { 0 };
	int rc = -1, netns;

	network_path(&path, place->dir, id);
	netns = netns_open(path.data);
	if (netns < 0 || netlink_open(&n) < 0 || network_link(&n, id, name) < 0)
		goto out;
	if (!*name)
		err_set(EX_NOINPUT, "the network of lease '%s' has no link any more", id);
	else if (host_look(&h) == 0 && host_prepare(place, &h) == 0 &&
		mend_fence(place, &h, netns) == 0 && network_set_link(name) == 0)
		rc = netns_run(netns, limit_inside, &limit);
out:
	if (netns >= 0)
		close(netns);
	netlink_close(&n);
	host_release(&h);
	buf_release(&path);
	return rc;
}

int network_adopt(const struct network_place *place, const char *id,
	int64_t up_bits_per_s)
{
	int fd, rc;

	if (network_check(place, id) < 0)
		return -1;
	fd = network_lock(place);
	if (fd < 0)
		return -1;
	rc = adopt_one(place, id, up_bits_per_s);
	close(fd);
	return rc;
}

int network_set_peers(const struct network_place *place, const char *id,
	const char *const *peers, size_t n)
{
	struct buf path = BUF_INIT, text = BUF_INIT;
	int netns = -1, rc = -1;

	if (network_check(place, id) < 0 || check_networks(peers, n) < 0)
		return -1;
	network_path(&path, place->dir, id);
	fill_set(&text, "peers", peers, n);
	netns = netns_open(path.data);
	if (netns >= 0) {
		rc = host_nft(text.data, netns);
		close(netns);
	}
	buf_release(&path);
	buf_release(&text);
	return rc;
}

/* --- ended ---------------------------------------------------------------------------------- */

static void count(const char *id, void *context)
{
	(void)id;
	++*(int *)context;
}

int network_close_locked(const struct network_place *place, const char *id)
{
	char name[LINK_NAME_MAX] = "";
	struct netlink n = { .fd = -1 };
	struct buf path = BUF_INIT;
	int left = 0, rc = netlink_open(&n);

	network_path(&path, place->dir, id);
	if (rc == 0)
		rc = network_link(&n, id, name);
	if (rc == 0 && *name)
		rc = netlink_delete(&n, name);
	netlink_close(&n);
	if (netns_drop(path.data) < 0)
		rc = -1;
	if (rc == 0 && network_each(place, count, &left) == 0 && !left)
		rc = host_restore(place);
	buf_release(&path);
	return rc;
}

int network_close(const struct network_place *place, const char *id)
{
	int fd, rc;

	if (network_check(place, id) < 0)
		return -1;
	fd = network_lock(place);
	if (fd < 0)
		return -1;
	rc = network_close_locked(place, id);
	close(fd);
	return rc;
}

int network_probe(const struct network_place *place)
{
	struct buf id = BUF_INIT;
	int rc = -1;

	buf_addf(&id, "probe-%ld", (long)getpid());
	if (command_find("nft", "nftables") == 0 &&
		network_open(place, id.data, PROBE_BITS) == 0)
		rc = network_close(place, id.data);
	if (rc < 0)
		err_add("no network for a lease can be made here");
	buf_release(&id);
	return rc;
}
