/* network_host.c - the host's part of the networks of leases. */
#include "cmd/rnp-register/agent/network_host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/command.h"
#include "cmd/rnp-register/agent/netlink.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"

#define NFT_MS         30000
#define FILE_BYTES_MAX (1 << 20)
#define MTU            1500

/* --- what it is ----------------------------------------------------------------------------- */

static bool has(char *const *all, size_t n, const char *text)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(all[i], text) == 0)
			return true;
	return false;
}

static void add(char ***all, size_t *n, size_t *cap, const char *text)
{
	if (has(*all, *n, text))
		return;
	*all = xgrow(*all, cap, *n + 1, sizeof **all);
	(*all)[(*n)++] = xstrdup(text);
}

static int look_at_addresses(struct host *h)
{
	char text[INET_ADDRSTRLEN];
	struct ifaddrs *all;

	if (getifaddrs(&all) < 0)
		return err_sys(EX_OSERR, "cannot list the addresses of this machine");
	for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)a->ifa_addr;

		if (in && in->sin_family == AF_INET &&
			strncmp(a->ifa_name, RULES_HOST_LINKS,
				strlen(RULES_HOST_LINKS)) != 0 &&
			inet_ntop(AF_INET, &in->sin_addr, text, sizeof text))
			add(&h->own, &h->nown, &h->own_cap, text);
	}
	freeifaddrs(all);
	return 0;
}

struct looking {
	struct host *host;
	int *ways; /* links of default routes */
	size_t n, cap;
};

static void see_route(const struct netlink_route *route, void *context)
{
	struct looking *l = context;

	if (route->bits != 0 || !route->link)
		return;
	l->ways = xgrow(l->ways, &l->cap, l->n + 1, sizeof *l->ways);
	l->ways[l->n++] = route->link;
}

/* Names go into rules and paths: one with other characters is nobody's uplink. */
static bool is_plain(const char *name)
{
	return !name[strspn(name,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@")];
}

static void see_link(const struct netlink_link *link, void *context)
{
	struct looking *l = context;

	for (size_t i = 0; i < l->n; i++)
		if (l->ways[i] == link->index && is_plain(link->name)) {
			add(&l->host->uplinks, &l->host->nuplinks, &l->host->uplinks_cap,
				link->name);
			if (link->mtu && link->mtu < l->host->mtu)
				l->host->mtu = link->mtu;
		}
}

int host_look(struct host *h)
{
	struct looking l = { .host = h };
	struct netlink n = { .fd = -1 };
	int rc = -1;

	h->mtu = MTU;
	if (look_at_addresses(h) == 0 && netlink_open(&n) == 0 &&
		netlink_routes(&n, see_route, &l) == 0 &&
		netlink_links(&n, see_link, &l) == 0)
		rc = 0;
	netlink_close(&n);
	free(l.ways);
	return rc;
}

static void free_all(char **all, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(all[i]);
	free(all);
}

void host_release(struct host *h)
{
	free_all(h->own, h->nown);
	free_all(h->uplinks, h->nuplinks);
	*h = (struct host){ 0 };
}

/* --- settings ------------------------------------------------------------------------------- */

int host_set(const char *setting, const char *value, bool may_lack)
{
	struct buf path = BUF_INIT;
	int fd, rc = 0;

	buf_addf(&path, "/proc/sys/net/%s", setting);
	fd = open(path.data, O_WRONLY | O_CLOEXEC);
	if ((fd < 0 && !(may_lack && errno == ENOENT)) ||
		(fd >= 0 && io_write_all(fd, value, strlen(value)) < 0))
		rc = err_sys(EX_OSERR, "cannot set '%s' to %s", path.data, value);
	if (fd >= 0)
		close(fd);
	buf_release(&path);
	return rc;
}

/* Whether a setting is on; false where there is none. */
static bool is_on(const char *setting)
{
	struct buf path = BUF_INIT, text = BUF_INIT;
	bool on;

	buf_addf(&path, "/proc/sys/net/%s", setting);
	on = io_read(&text, path.data, 64) == 0 && text.len && text.data[0] == '1';
	err_clear();
	buf_release(&path);
	buf_release(&text);
	return on;
}

static bool forwards(const char *link)
{
	struct buf setting = BUF_INIT;
	bool on;

	buf_addf(&setting, "ipv4/conf/%s/forwarding", link);
	on = is_on(setting.data);
	buf_release(&setting);
	return on;
}

static int set_forwarding(const char *link, const char *value)
{
	struct buf setting = BUF_INIT;
	int rc;

	buf_addf(&setting, "ipv4/conf/%s/forwarding", link);
	rc = host_set(setting.data, value, true);
	buf_release(&setting);
	return rc;
}

/* --- forwarding ----------------------------------------------------------------------------- */

static void note_path(struct buf *path, const struct network_place *place,
	const char *name)
{
	buf_addf(path, "%s/%s", place->dir, name);
}

/* Reads a file of ours; nothing where it is not there. */
static void read_note(struct buf *text, const struct network_place *place,
	const char *name)
{
	struct buf path = BUF_INIT;

	note_path(&path, place, name);
	if (io_read(text, path.data, FILE_BYTES_MAX) < 0) {
		buf_reset(text);
		err_clear();
	}
	buf_release(&path);
}

static int write_note(const struct network_place *place, const char *name,
	const struct buf *text)
{
	struct buf path = BUF_INIT;
	int rc = 0;

	note_path(&path, place, name);
	if (text->len)
		rc = io_replace(path.data, text->data, text->len, 0600);
	else if (unlink(path.data) < 0 && errno != ENOENT)
		rc = err_sys(0, "cannot delete '%s'", path.data);
	buf_release(&path);
	return rc;
}

/* Links that forward because of us. */
struct switched {
	char **links;
	size_t n, cap;
};

static void read_switched(struct switched *s, const struct network_place *place)
{
	struct buf text = BUF_INIT;
	char *rest, *line;

	read_note(&text, place, ".forwarding");
	rest = text.data;
	while (rest && (line = strsep(&rest, "\n")))
		if (*line && is_plain(line))
			add(&s->links, &s->n, &s->cap, line);
	buf_release(&text);
}

static int write_switched(const struct switched *s, const struct network_place *place)
{
	struct buf text = BUF_INIT;
	int rc;

	for (size_t i = 0; i < s->n; i++)
		buf_addf(&text, "%s\n", s->links[i]);
	rc = write_note(place, ".forwarding", &text);
	buf_release(&text);
	return rc;
}

/* Which links are to forward because of us: none where all do by somebody else's will. What was
 * switched on before and is no way out any more is switched off. It is noted before it is done, so
 * that a crash between them is mended by the next. */
static int switch_uplinks(struct switched *now, const struct network_place *place,
	const struct host *h)
{
	struct switched before = { 0 };
	bool all = is_on("ipv4/ip_forward");
	int rc;

	read_switched(&before, place);
	for (size_t i = 0; !all && i < h->nuplinks; i++)
		if (has(before.links, before.n, h->uplinks[i]) ||
			!forwards(h->uplinks[i]))
			add(&now->links, &now->n, &now->cap, h->uplinks[i]);
	for (size_t i = 0; !all && i < before.n; i++)
		if (!has(now->links, now->n, before.links[i]))
			set_forwarding(before.links[i], "0");
	rc = write_switched(now, place);
	for (size_t i = 0; rc == 0 && i < now->n; i++)
		rc = set_forwarding(now->links[i], "1");
	free_all(before.links, before.n);
	return rc;
}

/* --- rules ---------------------------------------------------------------------------------- */

int host_nft(const char *rules, int netns)
{
	static const char *const args[] = { "nft", "-f", "-", NULL };
	struct command nft = { .args = args,
		.input = rules,
		.netns = netns,
		.timeout_ms = NFT_MS };

	return command_run(&nft, NULL);
}

int host_has_table(const char *name, int netns)
{
	static const char *const args[] = { "nft", "list", "tables", "inet", NULL };
	struct command nft = { .args = args, .netns = netns, .timeout_ms = NFT_MS };
	struct buf out = BUF_INIT, line = BUF_INIT;
	int rc = command_run(&nft, &out);

	buf_addf(&line, "table inet %s\n", name);
	if (rc == 0)
		rc = strstr(buf_text(&out), line.data) != NULL;
	buf_release(&out);
	buf_release(&line);
	return rc;
}

/* The same rules are not made anew, since they count what is open; but whoever reloads his own with
 * "flush ruleset" takes ours away. */
static int prepare_rules(const struct network_place *place, const struct rules *r)
{
	struct buf text = BUF_INIT, old = BUF_INIT;
	int rc = 0;

	rules_of_host(&text, r);
	read_note(&old, place, ".rules");
	if (strcmp(buf_text(&old), text.data) == 0)
		rc = host_has_table("rnp_leases", -1);
	if (rc == 0) {
		rc = host_nft(text.data, -1);
		if (rc == 0)
			rc = write_note(place, ".rules", &text);
	}
	buf_release(&text);
	buf_release(&old);
	return rc < 0 ? -1 : 0;
}

int host_prepare(const struct network_place *place, const struct host *h)
{
	struct switched now = { 0 };
	int rc = switch_uplinks(&now, place, h);
	struct rules r = { .pool = place->pool,
		.pool_bits = place->pool_bits,
		.resolvers = place->resolvers,
		.nresolvers = place->nresolvers,
		.blocked = place->blocked,
		.nblocked = place->nblocked,
		.uplinks = (const char *const *)now.links,
		.nuplinks = now.n };

	if (rc == 0)
		rc = prepare_rules(place, &r);
	free_all(now.links, now.n);
	return rc;
}

bool host_is_prepared(const struct network_place *place)
{
	struct buf text = BUF_INIT;
	bool prepared;

	read_note(&text, place, ".rules");
	prepared = text.len;
	read_note(&text, place, ".forwarding");
	prepared = prepared || text.len;
	buf_release(&text);
	return prepared;
}

int host_restore(const struct network_place *place)
{
	struct switched before = { 0 };
	struct buf text = BUF_INIT;
	int rc;

	read_switched(&before, place);
	/* who has switched on everything since then keeps it */
	for (size_t i = 0; i < before.n && !is_on("ipv4/ip_forward"); i++)
		if (set_forwarding(before.links[i], "0") < 0)
			err_clear();
	rules_none(&text);
	rc = host_nft(text.data, -1);
	buf_reset(&text);
	if (write_note(place, ".rules", &text) < 0 ||
		write_note(place, ".forwarding", &text) < 0)
		rc = -1;
	free_all(before.links, before.n);
	buf_release(&text);
	return rc;
}
