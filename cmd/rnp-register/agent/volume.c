/* volume.c - the disk of a lease, from its making to its end. */
#include "cmd/rnp-register/agent/volume.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/command.h"
#include "cmd/rnp-register/agent/fscrypt.h"
#include "cmd/rnp-register/agent/loop.h"
#include "cmd/rnp-register/agent/mounts.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"

/* A container's root is another user, and goes through to its own; what lies beside it has no
 * name for it. */
#define DIR_MODE       0711
#define MKFS_MS        120000 /* a terabyte takes two seconds on an idle disk */
#define PROBE_CLOSE_MS 10000
#define PAUSE_MS       50
#define SOON_MS        1000
#define CLOSE_MS_MIN   200 /* the kernel lets a device go a moment after its mount */
#define NS_PER_MS      1000000
#define OVERHEAD_SHIFT 8 /* an extent of 12 bytes a block is less than 1/256 */

bool volume_id_is_good(const char *id)
{
	size_t len = strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-");

	return len && len <= VOLUME_ID_MAX && !id[len] && id[0] != '-';
}

static void mount_point(struct buf *out, const char *dir, const char *id)
{
	buf_addf(out, "%s/%s", dir, id);
}

void volume_data(struct buf *out, const char *dir, const char *id)
{
	buf_addf(out, "%s/%s/data", dir, id);
}

void volume_file(struct buf *out, const char *dir, const char *id)
{
	buf_addf(out, "%s/%s.img", dir, id);
}

int64_t volume_cost(int64_t size_bytes)
{
	return size_bytes + (size_bytes >> OVERHEAD_SHIFT);
}

static int check(const char *dir, const char *id)
{
	if (!volume_id_is_good(id))
		return err_set(EX_DATAERR, "'%.80s' cannot name a volume", id);
	if (dir[0] != '/' || strstr(dir, "/..") || strstr(dir, "//"))
		return err_set(EX_USAGE, "'%s' is no plain absolute path", dir);
	return 0;
}

/* --- how much may be sold ------------------------------------------------------------------- */

struct growth {
	const struct volume_place *place;
	int64_t bytes;
	int volumes;
};

/* Adds what a volume may still take from the disk. */
static void add_growth(const char *id, enum volume_state state, int64_t size_bytes,
	void *context)
{
	struct growth *g = context;
	struct buf file = BUF_INIT;
	struct stat st = { 0 };
	int64_t left;

	volume_file(&file, g->place->dir, id);
	/* of a file without a name nobody can tell how much it has already */
	if (state != VOLUME_HELD && stat(file.data, &st) == 0)
		size_bytes = st.st_size;
	left = volume_cost(size_bytes) - (int64_t)st.st_blocks * 512;
	g->bytes += left > 0 ? left : 0;
	g->volumes++;
	buf_release(&file);
}

static int room(const struct volume_place *place, int64_t *bytes, int64_t *grows,
	int *volumes)
{
	struct growth g = { .place = place };
	struct statvfs fs;

	if (statvfs(place->dir, &fs) < 0)
		return err_sys(0, "cannot ask how full '%s' is", place->dir);
	if (volume_each(place, add_growth, &g) < 0)
		return -1;
	*bytes = (int64_t)(fs.f_bavail * fs.f_frsize) - place->keep_bytes - g.bytes;
	*grows = g.bytes;
	*volumes = g.volumes;
	return 0;
}

int volume_room(const struct volume_place *place, int64_t *room_bytes)
{
	int64_t grows;
	int volumes;

	if (io_make_dirs(place->dir, DIR_MODE) < 0 ||
		room(place, room_bytes, &grows, &volumes) < 0)
		return -1;
	if (*room_bytes > 0)
		*room_bytes -= *room_bytes >> OVERHEAD_SHIFT;
	return 0;
}

/* The file is there and counted: two that are made at once see each other. */
static int check_room(const struct volume_place *place, int64_t size_bytes)
{
	int64_t left, grows;
	int volumes;

	if (room(place, &left, &grows, &volumes) < 0)
		return -1;
	if (left >= 0)
		return 0;
	return err_set(EX_UNAVAILABLE,
		"no room for a volume of %" PRId64 " bytes in '%s': %" PRId64
		" are missing; %d others may still grow by %" PRId64 ", and %" PRId64
		" are never sold",
		size_bytes, place->dir, -left, volumes - 1,
		grows - volume_cost(size_bytes) > 0 ? grows - volume_cost(size_bytes) : 0,
		place->keep_bytes);
}

/* --- made and opened ------------------------------------------------------------------------ */

/* Files are as many as 16 KiB each would make: nobody can take all blocks with empty ones.
 * Nothing is discarded or zeroed that a new file does not have as holes already. */
static int make_file_system(const char *file)
{
	const char *const args[] = { "mkfs.ext4", "-q", "-F", "-m", "0", "-b", "4096",
		"-I", "256", "-i", "16384", "-O", "encrypt,^has_journal", "-E",
		"nodiscard,lazy_itable_init=1,root_owner=0:0", file, NULL };
	struct command mkfs = { .args = args, .netns = -1, .timeout_ms = MKFS_MS };

	return command_run(&mkfs, NULL);
}

static int make_file(const struct volume_place *place, const char *file,
	int64_t size_bytes)
{
	int fd = open(file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return errno == EEXIST ?
			err_set(EX_CANTCREAT, "volume '%s' is there already", file) :
			err_sys(0, "cannot make volume '%s'", file);
	if (ftruncate(fd, size_bytes) < 0)
		err_sys(EX_IOERR, "cannot make volume '%s'", file);
	else if (check_room(place, size_bytes) == 0 && make_file_system(file) == 0)
		return fd;
	close(fd);
	unlink(file);
	return -1;
}

/* Mounts a file. No other mount namespace gets a copy that would outlast ours. */
static int mount_file(int fd, const char *point)
{
	struct buf device = BUF_INIT;
	int loop = loop_attach(fd, &device), rc = -1;

	if (loop < 0)
		goto out;
	if (mkdir(point, DIR_MODE) < 0 && errno != EEXIST)
		err_sys(0, "cannot make '%s'", point);
	else if (mount(device.data, point, "ext4", MS_NOSUID | MS_NODEV | MS_NOATIME,
			 "errors=remount-ro,noinit_itable") < 0)
		err_sys(EX_UNAVAILABLE, "cannot mount a volume on '%s'", point);
	else if (mount(NULL, point, NULL, MS_PRIVATE, NULL) < 0)
		err_sys(EX_OSERR, "cannot make the mount '%s' private", point);
	else
		rc = 0;
out:
	if (loop >= 0)
		close(loop); /* from here on the mount alone keeps it */
	buf_release(&device);
	return rc;
}

static int seal(const char *dir, const char *id)
{
	struct buf data = BUF_INIT;
	int rc;

	volume_data(&data, dir, id);
	rc = mkdir(data.data, DIR_MODE) < 0 ? err_sys(0, "cannot make '%s'", data.data) :
					      fscrypt_seal(data.data);
	buf_release(&data);
	return rc;
}

int volume_open(const struct volume_place *place, const char *id, int64_t size_bytes)
{
	struct buf file = BUF_INIT, point = BUF_INIT;
	struct err why;
	int fd = -1, rc = -1;

	if (check(place->dir, id) < 0)
		return -1;
	if (size_bytes < VOLUME_BYTES_MIN || size_bytes > VOLUME_BYTES_MAX)
		return err_set(EX_DATAERR,
			"a volume has %" PRId64 " to %" PRId64 " bytes, not %" PRId64,
			VOLUME_BYTES_MIN, VOLUME_BYTES_MAX, size_bytes);
	volume_file(&file, place->dir, id);
	mount_point(&point, place->dir, id);
	if (io_make_dirs(place->dir, DIR_MODE) < 0)
		goto out;
	fd = make_file(place, file.data, size_bytes);
	if (fd < 0)
		goto out;
	rc = mount_file(fd, point.data) == 0 && seal(place->dir, id) == 0 ? 0 : -1;
	if (rc < 0) {
		err_save(&why);
		volume_close(place, id, 0);
		err_restore(&why);
	}
out:
	if (fd >= 0)
		close(fd);
	buf_release(&file);
	buf_release(&point);
	return rc;
}

int volume_adopt(const struct volume_place *place, const char *id)
{
	struct buf file = BUF_INIT, point = BUF_INIT, data = BUF_INIT;
	const char *why;
	int rc = -1, there;

	if (check(place->dir, id) < 0)
		return -1;
	volume_file(&file, place->dir, id);
	mount_point(&point, place->dir, id);
	volume_data(&data, place->dir, id);
	there = mounts_at(point.data);
	if (there < 0)
		goto out;
	if (access(file.data, F_OK) < 0)
		err_sys(EX_NOINPUT, "no volume '%s'", file.data);
	else if (!there)
		err_set(EX_UNAVAILABLE,
			"volume '%s' is not mounted: its key went with a restart of the machine",
			file.data);
	else if ((there = fscrypt_is_open(data.data, &why)) > 0)
		rc = 0;
	else if (there == 0)
		err_set(EX_UNAVAILABLE, "volume '%s' cannot be read: %s", data.data, why);
out:
	buf_release(&file);
	buf_release(&point);
	buf_release(&data);
	return rc;
}

int volume_use(const struct volume_place *place, const char *id, struct volume_use *use)
{
	struct buf point = BUF_INIT;
	struct statvfs fs;
	int rc = check(place->dir, id);

	mount_point(&point, place->dir, id);
	if (rc == 0 && statvfs(point.data, &fs) < 0)
		rc = err_sys(0, "cannot ask how full '%s' is", point.data);
	if (rc == 0)
		*use = (struct volume_use){ .size_bytes = (int64_t)(fs.f_blocks *
						    fs.f_frsize),
			.free_bytes = (int64_t)(fs.f_bavail * fs.f_frsize),
			.files = (int64_t)fs.f_files,
			.free_files = (int64_t)fs.f_ffree,
			.read_only = fs.f_flag & ST_RDONLY };
	buf_release(&point);
	return rc;
}

/* --- ended ---------------------------------------------------------------------------------- */

/* Waits a little. Returns whether there is time left. */
static bool wait_until(int64_t until_ns)
{
	if (clock_mono_ns() >= until_ns)
		return false;
	usleep(PAUSE_MS * 1000);
	return true;
}

/* What is ended, and how long that may take. */
struct ending {
	const char *id;
	struct buf file, point, data;
	dev_t device; /* 0: it was not mounted */
	int64_t until_ns;
};

/* Says who keeps it from ending. Returns -1. */
static int say_held(const struct ending *e)
{
	struct buf who = BUF_INIT;

	volume_holders(&who, e->device, e->point.data);
	err_set(EX_TEMPFAIL, "volume '%s' goes when its last users end: %s", e->id,
		who.data);
	buf_release(&who);
	return -1;
}

/* Drops the key, and takes away what is mounted at its place: lazily if that cannot be done at
 * once. A mount namespace that somebody made meanwhile has copies of our mounts, which keep
 * files open that none of its processes knows of; they go with the folder. */
static int unmount(struct ending *e)
{
	const char *point = e->point.data;
	int64_t soon = clock_mono_ns() + SOON_MS * NS_PER_MS;
	int rc = mounts_drop(point, true);
	bool busy = false;
	struct stat st;

	if (stat(point, &st) == 0)
		e->device = st.st_dev;
	if (soon > e->until_ns)
		soon = e->until_ns;
	while (rc == 0) {
		if (access(e->data.data, F_OK) == 0)
			rc = fscrypt_forget(e->data.data, &busy);
		if (rc < 0 || (!busy && umount2(point, UMOUNT_NOFOLLOW) == 0) ||
			(!busy && errno == EINVAL))
			break;
		if (!busy && errno != EBUSY)
			rc = err_sys(EX_OSERR, "cannot unmount '%s'", point);
		else if (!wait_until(soon))
			return umount2(point, MNT_DETACH | UMOUNT_NOFOLLOW) < 0 ?
				err_sys(EX_OSERR, "cannot unmount '%s'", point) :
				0;
	}
	return rc;
}

/* Deletes its names. A mount in another namespace goes with the folder; what processes hold
 * there is seen by the device that stays. */
static int delete_names(const struct ending *e)
{
	if (unlink(e->file.data) < 0 && errno != ENOENT)
		return err_sys(0, "cannot delete '%s'", e->file.data);
	if (rmdir(e->point.data) < 0 && errno != ENOENT)
		return err_sys(0, "cannot delete '%s'", e->point.data);
	while (e->device && volume_is_held(e->file.data))
		if (!wait_until(e->until_ns))
			return say_held(e);
	return 0;
}

int volume_close(const struct volume_place *place, const char *id, int64_t timeout_ms)
{
	struct ending e = { .id = id };
	struct err why = { 0 };
	int rc, there;

	if (check(place->dir, id) < 0)
		return -1;
	if (timeout_ms < CLOSE_MS_MIN)
		timeout_ms = CLOSE_MS_MIN;
	e.until_ns = clock_mono_ns() + timeout_ms * NS_PER_MS;
	volume_file(&e.file, place->dir, id);
	mount_point(&e.point, place->dir, id);
	volume_data(&e.data, place->dir, id);
	there = mounts_at(e.point.data);
	rc = there > 0 ? unmount(&e) : there;
	if (rc < 0)
		err_save(&why);
	/* a failure above does not keep the rest from going */
	if (delete_names(&e) < 0)
		rc = -1;
	if (why.code)
		err_restore(&why);
	buf_release(&e.file);
	buf_release(&e.point);
	buf_release(&e.data);
	return rc;
}

int volume_probe(const struct volume_place *place)
{
	struct buf id = BUF_INIT;
	int rc = -1;

	buf_addf(&id, "probe-%ld", (long)getpid());
	if (command_find("mkfs.ext4", "e2fsprogs") == 0 &&
		volume_open(place, id.data, VOLUME_BYTES_MIN) == 0)
		rc = volume_close(place, id.data, PROBE_CLOSE_MS);
	if (rc < 0)
		err_add("no volume for a lease can be made here");
	buf_release(&id);
	return rc;
}
