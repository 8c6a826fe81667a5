/* loop.c - files as block devices. */
#include "cmd/rnp-register/agent/loop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/io.h"

#define TRIES        64 /* others take devices, too */
#define SECTOR_BYTES 512

/* Binds a device to a file. Its pages are not cached twice: what a lease writes is its memory
 * alone. */
static int bind_to(int device, int file)
{
	struct loop_config config = { .fd = (unsigned)file,
		.info = { .lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO } };

	if (ioctl(device, LOOP_CONFIGURE, &config) == 0)
		return 0;
	if (errno != EINVAL && errno != EOPNOTSUPP)
		return -1;
	config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
	return ioctl(device, LOOP_CONFIGURE, &config);
}

int loop_attach(int file, struct buf *device)
{
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), number, fd = -1,
	    why = 0;

	if (control < 0)
		return err_sys(EX_UNAVAILABLE, "no loop devices: '/dev/loop-control'");
	for (int i = 0; i < TRIES; i++) {
		number = ioctl(control, LOOP_CTL_GET_FREE);
		if (number < 0) {
			why = errno;
			break;
		}
		buf_reset(device);
		buf_addf(device, "/dev/loop%d", number);
		fd = open(device->data, O_RDWR | O_CLOEXEC);
		if (fd >= 0 && bind_to(fd, file) == 0)
			break;
		why = errno;
		if (fd >= 0)
			close(fd);
		fd = -1;
		/* somebody else was faster, or the node of a new device is not there yet */
		if (why != EBUSY && why != ENXIO && why != ENOENT)
			break;
		usleep(10000);
	}
	close(control);
	errno = why;
	return fd >= 0 ?
		fd :
		err_sys(EX_UNAVAILABLE, "no loop device: '%s'", buf_text(device));
}

/* Reads a file of /sys without its newline. Returns whether there is something. */
static bool read_line(struct buf *out, const char *name, const char *file)
{
	struct buf path = BUF_INIT;
	int rc;

	buf_reset(out);
	buf_addf(&path, "/sys/block/%s/%s", name, file);
	rc = io_read(out, path.data, 2 * 4096);
	buf_release(&path);
	err_clear();
	if (rc == 0 && out->len && out->data[out->len - 1] == '\n')
		out->data[--out->len] = '\0';
	return rc == 0 && out->len;
}

int loop_each(void (*visit)(const char *name, const char *file, int64_t size_bytes,
		      void *context),
	void *context)
{
	DIR *block = opendir("/sys/block");
	struct buf file = BUF_INIT, sectors = BUF_INIT;
	struct dirent *e;

	if (!block)
		return err_sys(EX_OSERR, "cannot read '/sys/block'");
	while ((e = readdir(block)))
		if (strncmp(e->d_name, "loop", 4) == 0 &&
			read_line(&file, e->d_name, "loop/backing_file") &&
			read_line(&sectors, e->d_name, "size"))
			visit(e->d_name, file.data,
				strtoll(sectors.data, NULL, 10) * SECTOR_BYTES, context);
	closedir(block);
	buf_release(&file);
	buf_release(&sectors);
	return 0;
}
