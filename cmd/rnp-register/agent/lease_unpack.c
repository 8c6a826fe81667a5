/* lease_unpack.c - the work directory of a lease: a cell unpacks it where the container does not
 * look, and it goes to its place as a whole. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/agent_parts.h"
#include "cmd/rnp-register/agent/cell.h"
#include "cmd/rnp-register/pack/beneath.h"
#include "common/base/err.h"

#define BESIDE       "unpack"
#define UNPACK_MS    600000
#define BYTES_PER_MS 1000 /* of a slow line */

/* Whether a directory has anything in it: an agent before us has done it already. */
static bool has_something(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	bool found = false;

	while (d && !found && (e = readdir(d)))
		found = strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	if (d)
		closedir(d);
	else if (fd >= 0)
		close(fd);
	return found;
}

static int fetch(void *lease, const char *sha256_hex, size_t max, struct buf *out)
{
	return lease_fetch(lease, sha256_hex, max, out);
}

/* The blobs of a booking are manifests: the first is that of the work directory, the others go into
 * .rnp/mounts/1 and so on below it, from where its setup takes them to their places. What was kept
 * of this rank before goes into .rnp/artifacts, and start.sh takes that. */
static int unpack_all(struct lease *l, struct cell *c)
{
	const char *before = lease_artifacts_before(l);
	/* news may come while the rest is unpacked, and the text go */
	char kept[65];
	struct cell_unpacking u = { .bytes_max = lease_disk_bytes(l),
		.fetch = fetch,
		.ctx = l };
	char path[40];
	int rc = 0;

	snprintf(kept, sizeof kept, "%s", before ? before : "");
	for (size_t i = 0; i < l->now.nblobs && rc == 0; i++) {
		snprintf(path, sizeof path, "work/.rnp/mounts/%zu", i);
		u.sha256_hex = l->now.blobs[i];
		u.path = i ? path : "work";
		rc = cell_unpack(c, &u);
	}
	u.sha256_hex = kept;
	u.path = "work/.rnp/artifacts";
	return rc == 0 && *kept ? cell_unpack(c, &u) : rc;
}

static int unpack_in(struct lease *l, int dir)
{
	const struct cell_config config = { .dir = dir,
		.first_id = lease_first_id(l),
		.ids = AGENT_IDS,
		.stop = lease_is_unwanted,
		.ctx = l,
		.timeout_ms = UNPACK_MS + lease_disk_bytes(l) / BYTES_PER_MS };
	struct cell c = CELL_INIT;
	int rc = cell_open(&c, &config);

	if (rc == 0)
		rc = unpack_all(l, &c);
	cell_close(&c);
	return rc;
}

/* Puts what was unpacked in its place. Nobody else writes in either folder now; what is there was
 * made by a stranger's hand all the same, and a link would be mounted as what it leads to. */
static int move(int from, int to)
{
	int fd = openat(from, "work", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || renameat(from, "work", to, "work") < 0) {
		err_sys(EX_IOERR, "cannot put the work directory in its place");
		if (fd >= 0)
			close(fd);
		return -1;
	}
	close(fd);
	return 0;
}

static int unpack_beside(struct lease *l, int data)
{
	uint32_t owner = lease_first_id(l);
	int dir = -1, rc = -1;

	if (mkdirat(data, BESIDE, 0700) == 0)
		dir = openat(data, BESIDE,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 || fchown(dir, owner, owner) < 0)
		err_sys(EX_IOERR, "cannot make a folder to unpack in");
	else if (unpack_in(l, dir) == 0)
		rc = move(dir, data);
	if (dir >= 0)
		close(dir);
	return rc;
}

int lease_unpack(struct lease *l)
{
	struct err why = { 0 };
	int data, rc = 0;

	if (!l->now.nblobs && !lease_artifacts_before(l))
		return 0;
	data = sandbox_folder(&l->agent->place, l->row.id, "");
	if (data < 0)
		return -1;
	/* of an agent that was killed */
	(void)beneath_remove(data, BESIDE);
	if (!has_something(data, "work"))
		rc = unpack_beside(l, data);
	if (rc < 0)
		err_save(&why);
	(void)beneath_remove(data, BESIDE);
	close(data);
	return rc < 0 ? err_restore(&why) : 0;
}
