/* network_left.c - which networks of leases are there, the end of those that nobody owns, and the
 * host's part as it has to be now. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/netlink.h"
#include "cmd/rnp-register/agent/network_host.h"
#include "cmd/rnp-register/agent/volume.h"
#include "common/base/err.h"
#include "common/base/mem.h"

struct found {
	char **ids; /* of leases; some twice */
	size_t n, cap;
	char **stray; /* links of ours without a lease */
	size_t nstray, stray_cap;
};

static void keep(char ***all, size_t *n, size_t *cap, const char *text)
{
	*all = xgrow(*all, cap, *n + 1, sizeof **all);
	(*all)[(*n)++] = xstrdup(text);
}

static bool knows(const struct found *f, const char *id)
{
	for (size_t i = 0; i < f->n; i++)
		if (strcmp(f->ids[i], id) == 0)
			return true;
	return false;
}

static void find_link(const struct netlink_link *link, void *context)
{
	const char *id = link->alias + strlen(NETWORK_ALIAS);
	struct found *f = context;

	if (strncmp(link->name, RULES_HOST_LINKS, strlen(RULES_HOST_LINKS)) != 0)
		return;
	if (strncmp(link->alias, NETWORK_ALIAS, strlen(NETWORK_ALIAS)) != 0 ||
		!volume_id_is_good(id))
		keep(&f->stray, &f->nstray, &f->stray_cap, link->name);
	else if (!knows(f, id))
		keep(&f->ids, &f->n, &f->cap, id);
}

static int find(const struct network_place *place, struct found *f)
{
	DIR *dir = opendir(place->dir);
	struct netlink n = { .fd = -1 };
	struct dirent *e;
	int rc;

	if (!dir && errno != ENOENT)
		return err_sys(0, "cannot read '%s'", place->dir);
	while (dir && (e = readdir(dir)))
		if (volume_id_is_good(e->d_name))
			keep(&f->ids, &f->n, &f->cap, e->d_name);
	if (dir)
		closedir(dir);
	rc = netlink_open(&n);
	if (rc == 0)
		rc = netlink_links(&n, find_link, f);
	netlink_close(&n);
	return rc;
}

static void found_release(struct found *f)
{
	for (size_t i = 0; i < f->n; i++)
		free(f->ids[i]);
	for (size_t i = 0; i < f->nstray; i++)
		free(f->stray[i]);
	free(f->ids);
	free(f->stray);
}

int network_each(const struct network_place *place,
	void (*visit)(const char *id, void *context), void *context)
{
	struct found f = { 0 };
	int rc = find(place, &f);

	for (size_t i = 0; rc == 0 && i < f.n; i++)
		visit(f.ids[i], context);
	found_release(&f);
	return rc;
}

static int refresh(const struct network_place *place)
{
	struct found f = { 0 };
	struct host h = { 0 };
	struct netlink n = { .fd = -1 };
	char name[LINK_NAME_MAX];
	int rc = find(place, &f);

	if (rc == 0 && f.n)
		rc = host_look(&h) < 0 || host_prepare(place, &h) < 0 ||
				netlink_open(&n) < 0 ?
			-1 :
			0;
	for (size_t i = 0; rc == 0 && i < f.n; i++)
		if (network_link(&n, f.ids[i], name) < 0 ||
			(*name && network_set_link(name) < 0))
			rc = -1;
	netlink_close(&n);
	host_release(&h);
	found_release(&f);
	return rc;
}

int network_refresh(const struct network_place *place)
{
	int fd, rc;

	if (network_check(place, "any") < 0)
		return -1;
	fd = network_lock(place);
	if (fd < 0)
		return -1;
	rc = refresh(place);
	close(fd);
	return rc;
}

static int clean(const struct network_place *place,
	bool (*is_live)(const char *id, void *context), void *context, int *closed)
{
	struct netlink n = { .fd = -1 };
	struct err why = { 0 };
	struct found f = { 0 };
	int rc = find(place, &f);

	for (size_t i = 0; rc == 0 && i < f.n; i++) {
		if (is_live(f.ids[i], context))
			continue;
		if (network_close_locked(place, f.ids[i]) < 0)
			err_save(&why);
		else
			++*closed;
	}
	if (rc == 0 && f.nstray && netlink_open(&n) == 0)
		for (size_t i = 0; i < f.nstray; i++)
			if (netlink_delete(&n, f.stray[i]) < 0)
				err_save(&why);
	netlink_close(&n);
	/* whoever took the last lease away may have been killed before he tidied up */
	if (rc == 0 && !f.n && host_is_prepared(place))
		rc = host_restore(place);
	found_release(&f);
	return why.code ? err_restore(&why) : rc;
}

int network_clean(const struct network_place *place,
	bool (*is_live)(const char *id, void *context), void *context, int *closed)
{
	int fd, rc;

	*closed = 0;
	if (network_check(place, "any") < 0)
		return -1;
	fd = network_lock(place);
	if (fd < 0)
		return -1;
	rc = clean(place, is_live, context, closed);
	close(fd);
	return rc;
}
