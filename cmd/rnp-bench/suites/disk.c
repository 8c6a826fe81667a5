/* disk.c - measures a file on the disk, past the system's cache (O_DIRECT).
 *
 * The file has no name while it is open: nothing is left behind, whatever happens. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "cmd/rnp-bench/suites/suite.h"
#include "common/base/err.h"
#include "common/hw/hw.h"
#include "common/base/io.h"
#include "common/json/json.h"
#include "common/base/mem.h"
#include "common/base/rng.h"

#define BIG        (INT64_C(8) << 20) /* the system splits it: enough in flight for NVMe */
#define SMALL      INT64_C(4096)
#define ZFS_MAGIC  0x2fc12fc1
#define BATCH      16 /* small operations in a step */
#define SIZE       (INT64_C(1) << 30)
#define SIZE_QUICK (INT64_C(128) << 20)

static struct {
	int fd;           /* -1: not open; 0 is not possible */
	int64_t size, at; /* at: the next sequential block */
	bool full;        /* written once from end to end */
	unsigned char *block;
	struct rng rng;
	const char *dir;
	char name[64];
} disk = { .fd = -1 };

/* --- the disk ------------------------------------------------------------------------------- */

static int failed(const char *verb)
{
	return err_sys(EX_IOERR, "%s: cannot %s the file in '%s'",
		errno == ENOSPC || errno == EDQUOT ? "disk full" : "disk", verb,
		disk.dir);
}

static int write_at(int64_t len, int64_t at)
{
	for (int64_t done = 0; done < len;) {
		ssize_t n = pwrite(disk.fd, disk.block + done, (size_t)(len - done),
			at + done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return failed("write");
		done += n;
	}
	return 0;
}

static int read_at(int64_t len, int64_t at)
{
	for (int64_t done = 0; done < len;) {
		ssize_t n = pread(disk.fd, disk.block + done, (size_t)(len - done),
			at + done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return failed("read");
		done += n;
	}
	return 0;
}

/* The time of fdatasync counts as writing: only after it is the data on the disk. */
static int sync_file(void)
{
	return fdatasync(disk.fd) < 0 ? failed("write") : 0;
}

/* --- the file ------------------------------------------------------------------------------ */

/* Opens a file without a name; flags: O_DIRECT. */
static int open_nameless(const char *dir, int flags)
{
	char path[4096];
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);

	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
		return fd;
	/* a file system without O_TMPFILE: the file has a name for an instant */
	if ((size_t)snprintf(path, sizeof path, "%s/.rnp-bench-XXXXXX", dir) >=
		sizeof path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = mkostemp(path, O_CLOEXEC | flags);
	if (fd >= 0)
		unlink(path);
	return fd;
}

static int check_place(const char *dir)
{
	struct statfs fs;

	if (statfs(dir, &fs) < 0)
		return err_sys(0, "cannot use directory '%s'", dir);
	if (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC)
		return err_set(EX_UNAVAILABLE, "'%s' is in memory, not on a disk", dir);
	if ((int64_t)fs.f_bavail * (int64_t)fs.f_bsize < disk.size)
		return err_set(EX_IOERR,
			"disk full: '%s' has no room for %" PRId64 " MiB", dir,
			disk.size >> 20);
	return 0;
}

static void name_disk(void)
{
	struct stat st;

	disk.name[0] = '\0';
	if (fstat(disk.fd, &st) == 0)
		hw_disk_of(major(st.st_dev), minor(st.st_dev), disk.name,
			sizeof disk.name);
}

/* ZFS takes O_DIRECT and reads from its own cache all the same, up to version 2.2. */
static bool is_old_zfs(const char *dir)
{
	struct buf version = BUF_INIT;
	struct statfs fs;
	bool old = false;

	if (statfs(dir, &fs) == 0 && (unsigned)fs.f_type == ZFS_MAGIC) {
		old = hw_read(&version, "/sys/module/zfs/version") < 0 ||
			strtod(buf_text(&version), NULL) < 2.3;
		err_clear();
	}
	buf_release(&version);
	return old;
}

/* Whether the system's cache holds what was just read past it. Some file systems take the flag and
 * ignore it: a cache would be measured as a disk. The block is of random bytes. */
static int check_past_cache(void)
{
	unsigned char in_cache[BIG / 4096];
	void *map;
	int held = 0, flags = fcntl(disk.fd, F_GETFL);

	if (write_at(BIG, 0) < 0 || sync_file() < 0 || read_at(BIG, 0) < 0)
		return -1;
	map = mmap(NULL, (size_t)BIG, PROT_READ, MAP_SHARED, disk.fd, 0);
	if (map != MAP_FAILED && mincore(map, (size_t)BIG, in_cache) == 0)
		for (size_t i = 0; i < sizeof in_cache; i++)
			held += in_cache[i] & 1;
	if (map != MAP_FAILED)
		munmap(map, (size_t)BIG);
	if (flags >= 0 && (flags & O_DIRECT) && held < (int)sizeof in_cache / 2 &&
		!is_old_zfs(disk.dir))
		return 0;
	return err_set(EX_UNAVAILABLE,
		"the file system of '%s' reads from its cache in spite of O_DIRECT: memory would be measured",
		disk.dir);
}

static int open_file(const struct settings *s)
{
	if (disk.fd >= 0)
		return 0;
	disk.dir = s->dir;
	disk.size = s->size_bytes ? s->size_bytes : s->quick ? SIZE_QUICK : SIZE;
	disk.size = (disk.size + BIG - 1) / BIG * BIG;
	if (check_place(disk.dir) < 0)
		return -1;
	disk.fd = open_nameless(disk.dir, O_DIRECT);
	if (disk.fd < 0 && errno == EINVAL)
		return err_set(EX_UNAVAILABLE,
			"the file system of '%s' cannot read past its cache (O_DIRECT)",
			disk.dir);
	if (disk.fd < 0)
		return err_sys(0, "cannot make a file in '%s'", disk.dir);
	name_disk();
	disk.block = aligned_alloc(4096, (size_t)BIG);
	if (!disk.block)
		return err_sys(EX_OSERR, "no memory for a block");
	/* bytes that no disk can compress */
	rng_seed(&disk.rng, 1, 3);
	rng_bytes(&disk.rng, disk.block, (size_t)BIG);
	return check_past_cache();
}

static void close_file(void)
{
	if (disk.fd >= 0)
		close(disk.fd);
	free(disk.block);
	memset(&disk, 0, sizeof disk);
	disk.fd = -1;
}

/* --- reading and writing ------------------------------------------------------------------- */

static int64_t next_block(void)
{
	int64_t at = disk.at;

	disk.at = (disk.at + BIG) % disk.size;
	disk.full = disk.full || disk.at == 0;
	return at;
}

static int64_t random_block(void)
{
	return (int64_t)rng_below(&disk.rng, (uint64_t)(disk.size / SMALL)) * SMALL;
}

/* A block of 4 KiB begins with its position: no two are alike, for disks that deduplicate, and
 * check_read verifies it. */
static void mark(unsigned char *block, int64_t at)
{
	memcpy(block, &at, sizeof at);
}

static int step_sequential_write(double *work)
{
	int64_t at = next_block();

	for (int64_t i = 0; i < BIG; i += SMALL)
		mark(disk.block + i, at + i);
	*work = (double)BIG;
	return write_at(BIG, at) < 0 ? -1 : sync_file();
}

static int step_sequential_read(double *work)
{
	*work = (double)BIG;
	return read_at(BIG, next_block());
}

static int step_random_read(double *work)
{
	for (int i = 0; i < BATCH; i++)
		if (read_at(SMALL, random_block()) < 0)
			return -1;
	*work = BATCH;
	return 0;
}

static int step_random_write(double *work)
{
	for (int i = 0; i < BATCH; i++) {
		int64_t at = random_block();

		mark(disk.block, at);
		if (write_at(SMALL, at) < 0 || sync_file() < 0)
			return -1;
	}
	*work = BATCH;
	return 0;
}

/* Writes the file once: blocks that were never written would be read without touching the disk. */
static int open_filled(const struct settings *s)
{
	double work;

	if (open_file(s) < 0)
		return -1;
	while (!disk.full)
		if (step_sequential_write(&work) < 0)
			return -1;
	disk.at = 0;
	return 0;
}

/* Checks that what was read is what was written there. */
static int check_read(void)
{
	for (int64_t at = 0; at < disk.size; at += disk.size / 8) {
		int64_t found, want = at / BIG * BIG;

		if (read_at(BIG, want) < 0)
			return -1;
		memcpy(&found, disk.block, sizeof found);
		if (found != want)
			return err_set(EX_IOERR,
				"disk: the file in '%s' holds other bytes than were written",
				disk.dir);
	}
	return 0;
}

static void describe(json_t *params, int64_t block)
{
	json_set_i64(params, "block_bytes", block);
	json_set_i64(params, "file_bytes", disk.size);
	json_set_i64(params, "depth", 1);
	json_set_bool(params, "direct", true);
	if (disk.name[0])
		json_set_text(params, "disk", disk.name);
}

static void describe_big(json_t *params)
{
	describe(params, BIG);
}

static void describe_small(json_t *params)
{
	describe(params, SMALL);
}

static const char *device(void)
{
	return disk.name[0] ? disk.name : disk.dir;
}

static const struct test tests[] = {
	{ "sequential_write", "B/s",
		"8 MiB writes in order, each on the disk before the next", false,
		open_file, step_sequential_write, NULL, describe_big, NULL },
	{ "sequential_read", "B/s", "8 MiB reads in order", false, open_filled,
		step_sequential_read, check_read, describe_big, NULL },
	{ "random_read", "ns", "one 4 KiB read anywhere", true, open_filled,
		step_random_read, NULL, describe_small, NULL },
	{ "random_write", "ns", "one 4 KiB write anywhere, on the disk before the next",
		true, open_filled, step_random_write, NULL, describe_small, NULL },
	{ 0 },
};

const struct suite suite_disk = { "disk", tests, device, close_file, NULL, NULL };
