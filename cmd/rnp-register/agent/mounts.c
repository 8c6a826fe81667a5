/* mounts.c - what is mounted: reads mountinfo, and takes mounts away from the deepest on. */
#include "cmd/rnp-register/agent/mounts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#include "common/base/err.h"
#include "common/base/io.h"

#define MOUNTINFO_BYTES_MAX (64 << 20)
/* that one folder may hold: a loop that somebody feeds has an end */
#define MOUNTS_MAX 10000

/* Replaces \040 and the like in place. */
static void unescape(char *text)
{
	char *to = text;

	for (; *text; text++) {
		if (text[0] == '\\' && text[1] >= '0' && text[1] <= '3' &&
			text[2] >= '0' && text[2] <= '7' && text[3] >= '0' &&
			text[3] <= '7') {
			*to++ = (char)((text[1] - '0') * 64 + (text[2] - '0') * 8 +
				text[3] - '0');
			text += 3;
		} else {
			*to++ = *text;
		}
	}
	*to = '\0';
}

/* The next word of a line, without its escapes; NULL at the end. */
static char *word(char **rest)
{
	char *text = strsep(rest, " \n");

	if (!text || !*text)
		return NULL;
	unescape(text);
	return text;
}

/* 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue: proc(5) */
bool mount_row_read(struct mount_row *row, char *line)
{
	char *rest = line, *device, *end, *field;

	if (!word(&rest) || !word(&rest) || !(device = word(&rest)))
		return false;
	row->major = (unsigned)strtoul(device, &end, 10);
	if (*end != ':')
		return false;
	row->minor = (unsigned)strtoul(end + 1, &end, 10);
	row->root = word(&rest);
	row->point = word(&rest);
	if (*end || !row->root || !row->point || !word(&rest))
		return false;
	while ((field = word(&rest)) && strcmp(field, "-") != 0)
		continue;
	if (!field)
		return false;
	row->type = word(&rest);
	row->source = word(&rest);
	row->options = word(&rest);
	return row->type && row->source && row->options;
}

bool path_is_in(const char *path, const char *folder)
{
	size_t len = strlen(folder);

	return strncmp(path, folder, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

int mounts_each(const char *file,
	bool (*visit)(const struct mount_row *row, void *context), void *context)
{
	struct buf text = BUF_INIT;
	int rc = io_read(&text, file, MOUNTINFO_BYTES_MAX);
	char *rest = text.data, *line;
	struct mount_row row;

	while (rc == 0 && rest && (line = strsep(&rest, "\n")))
		if (mount_row_read(&row, line) && !visit(&row, context))
			break;
	buf_release(&text);
	return rc;
}

struct search {
	const char *path;
	bool found;
};

static bool is_at(const struct mount_row *row, void *context)
{
	struct search *s = context;

	s->found = strcmp(row->point, s->path) == 0;
	return !s->found;
}

int mounts_at(const char *path)
{
	struct search s = { .path = path };

	return mounts_each("/proc/self/mountinfo", is_at, &s) < 0 ? -1 : s.found;
}

/* The last mount in a folder: mountinfo has them in the order in which they were made, so that what
 * stands on another comes behind it. */
struct last {
	const char *folder;
	bool below_only;
	struct buf point;
};

static bool is_in(const struct mount_row *row, void *context)
{
	struct last *l = context;

	if (!path_is_in(row->point, l->folder) ||
		(l->below_only && strcmp(row->point, l->folder) == 0))
		return true;
	buf_reset(&l->point);
	buf_adds(&l->point, row->point);
	return true;
}

int mounts_drop(const char *folder, bool below_only)
{
	struct last l = { .folder = folder, .below_only = below_only };
	int rc = 0;

	for (int i = 0; rc == 0 && i < MOUNTS_MAX; i++) {
		buf_reset(&l.point);
		rc = mounts_each("/proc/self/mountinfo", is_in, &l);
		if (rc < 0 || !l.point.len)
			break;
		if (umount2(l.point.data, MNT_DETACH | UMOUNT_NOFOLLOW) < 0)
			rc = err_sys(EX_OSERR, "cannot unmount '%s'", l.point.data);
	}
	buf_release(&l.point);
	return rc;
}
