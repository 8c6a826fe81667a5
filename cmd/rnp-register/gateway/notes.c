/* notes.c - DIR/table is what is allowed, DIR/open/PID.TICKS what a connection was let in for. */
#include "cmd/rnp-register/gateway/notes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/process.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/map.h"

/* A connection offers a key twice; one that tries many is ended by sshd. */
#define NOTE_BYTES_MAX ((size_t)4 << 20)

static void path_of(struct buf *out, const char *directory, const char *name)
{
	buf_reset(out);
	buf_addf(out, "%s/%s", directory, name);
}

int notes_make_directory(const char *directory)
{
	struct buf path = BUF_INIT;
	int rc;

	path_of(&path, directory, "open");
	rc = io_make_dirs(path.data, 0700);
	buf_release(&path);
	return rc;
}

int notes_put_table(const char *directory, const struct buf *table)
{
	struct buf path = BUF_INIT;
	int rc;

	path_of(&path, directory, "table");
	rc = io_replace(path.data, buf_text(table), table->len, 0600);
	buf_release(&path);
	return rc;
}

/* Looks a key up in the table as it is now. Returns 1 with its options appended, 0, or -1. */
static int look_up(const char *directory, const char *type, const char *blob,
	struct buf *options)
{
	struct buf path = BUF_INIT;
	struct access_span s;
	struct lm_map map;
	int rc = -1;

	path_of(&path, directory, "table");
	if (lm_map_open(&map, path.data) == 0) {
		rc = access_find((const char *)map.data, map.bytes, type, blob, &s);
		if (rc == 1)
			buf_add(options, s.text, s.len);
		lm_map_close(&map);
	}
	buf_release(&path);
	return rc;
}

/* Appends a line to a connection's note, in one write. */
static int put_note(const char *directory, pid_t pid, const char *type, const char *blob,
	const struct buf *options)
{
	int64_t ticks = process_start_ticks(pid);
	struct buf path = BUF_INIT, line = BUF_INIT;
	int fd, rc = -1;

	buf_addf(&path, "%s/open/%d.%" PRId64, directory, (int)pid, ticks);
	buf_addf(&line, "%s %s %s\n", blob, type, options->data);
	fd = open(path.data, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0 || ticks < 0 || write(fd, line.data, line.len) != (ssize_t)line.len)
		err_sys(0, "cannot write '%s'", path.data);
	else
		rc = 0;
	if (fd >= 0)
		close(fd);
	buf_release(&path);
	buf_release(&line);
	return rc;
}

int notes_answer(const char *directory, pid_t pid, const char *type, const char *blob,
	struct buf *out)
{
	struct buf first = BUF_INIT, second = BUF_INIT;
	int rc = look_up(directory, type, blob, &first);

	if (rc == 1)
		rc = put_note(directory, pid, type, blob, &first) < 0 ? -1 : 1;
	if (rc == 1)
		rc = look_up(directory, type, blob, &second);
	/* a table that changed in between: the client tries again */
	if (rc == 1 && strcmp(first.data, second.data) == 0)
		buf_addf(out, "%s %s %s\n", second.data, type, blob);
	buf_release(&first);
	buf_release(&second);
	return rc < 0 ? -1 : 0;
}

/* Whether all that a note says is still allowed. */
static bool is_allowed(const char *note, const char *table, size_t len)
{
	while (*note) {
		size_t line = strcspn(note, "\n"), blob = strcspn(note, " \n");
		size_t type = strcspn(note + blob + 1, " \n");
		char *words;
		struct access_span now, then;
		bool ok;

		/* a line that a kill cut short was never answered */
		if (note[line] != '\n' || blob + 1 + type + 1 >= line)
			return true;
		words = strndup(note, blob + 1 + type);
		if (!words)
			return false;
		words[blob] = '\0';
		then = (struct access_span){ note + blob + type + 2,
			line - blob - type - 2 };
		ok = access_find(table, len, words + blob + 1, words, &now) &&
			access_covers(now, then);
		free(words);
		if (!ok)
			return false;
		note += line + 1;
	}
	return true;
}

/* Ends a process by force, if it is still the one that was noted. */
static void end_one(pid_t pid, int64_t ticks)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd < 0)
		return;
	/* the number is this process's while the descriptor is open */
	if (process_start_ticks(pid) == ticks)
		syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
	close(fd);
}

/* Ends a connection: the process that was noted watches over another, which has the sockets. */
static void end_connection(pid_t pid, int64_t ticks)
{
	struct buf text = BUF_INIT;
	char path[64], *at, *next;

	snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
	if (io_read(&text, path, 65536) == 0 && process_start_ticks(pid) == ticks)
		for (at = text.data; at && *at; at = next) {
			long child = strtol(at, &next, 10);

			if (next == at)
				break;
			end_one((pid_t)child, process_start_ticks((pid_t)child));
		}
	err_clear();
	end_one(pid, ticks);
	buf_release(&text);
}

static void sweep_one(int folder, const char *name, const char *table, size_t len,
	struct notes_swept *swept)
{
	struct buf note = BUF_INIT;
	char path[64];
	int64_t ticks;
	int pid, fd;

	if (sscanf(name, "%d.%" SCNd64, &pid, &ticks) != 2 || pid <= 1)
		return;
	if (process_start_ticks(pid) != ticks) {
		unlinkat(folder, name, 0);
		return;
	}
	swept->open++;
	fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (fd >= 0 &&
		(io_read(&note, path, NOTE_BYTES_MAX) < 0 ||
			!is_allowed(buf_text(&note), table, len))) {
		err_clear();
		end_connection(pid, ticks);
		swept->ended++;
	}
	if (fd >= 0)
		close(fd);
	buf_release(&note);
}

int notes_sweep(const char *directory, const char *table, size_t len,
	struct notes_swept *swept)
{
	struct buf path = BUF_INIT;
	struct dirent *entry;
	DIR *folder;

	*swept = (struct notes_swept){ 0 };
	path_of(&path, directory, "open");
	folder = opendir(path.data);
	if (!folder)
		err_sys(0, "cannot read '%s'", path.data);
	else
		while ((entry = readdir(folder)))
			sweep_one(dirfd(folder), entry->d_name, table, len, swept);
	if (folder)
		closedir(folder);
	buf_release(&path);
	return folder ? 0 : -1;
}
