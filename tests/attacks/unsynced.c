/* unsynced.c - library for LD_PRELOAD that simulates a disk which keeps only flushed data: when
 * the program is killed with SIGUSR1, everything that it wrote without fsync or fdatasync is
 * undone, and files whose folder was not flushed after they were created or renamed are gone or
 * have their old name again.
 *
 * It watches the files of the folder UNSYNCED (a path) and saves the state of each at its last
 * flush in the folder UNSYNCED_KEPT. Flushing a folder saves its list of names. `unsynced` does
 * not see writes through mmap: SQLite writes its WAL index that way, and rebuilds it. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int (*real_fsync)(int);

/* Returns the watched file or folder after fd, by its name within UNSYNCED ("." for the folder
 * itself), or 0 if it is not watched. */
static int watched(int fd, char name[PATH_MAX])
{
	const char *root = getenv("UNSYNCED");
	char link[64], path[PATH_MAX];
	ssize_t n;
	size_t len;

	if (!root)
		return 0;
	len = strlen(root);
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof path - 1);
	if (n < 0)
		return 0;
	path[n] = '\0';
	if (strncmp(path, root, len) != 0 || (path[len] && path[len] != '/'))
		return 0;
	snprintf(name, PATH_MAX, "%s", path[len] ? path + len + 1 : ".");
	return 1;
}

static void copy(const char *from, const char *to)
{
	char block[65536];
	int in = open(from, O_RDONLY | O_CLOEXEC);
	int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ssize_t n;

	while (in >= 0 && out >= 0 && (n = read(in, block, sizeof block)) > 0)
		if (write(out, block, (size_t)n) != n)
			break;
	if (in >= 0)
		close(in);
	if (out >= 0)
		close(out);
}

/* The content of inode `ino` is saved as i.INO; the names of the folder are saved as names, in
 * lines "INO NAME". */
static void keep(const char *name)
{
	const char *root = getenv("UNSYNCED"), *kept = getenv("UNSYNCED_KEPT");
	char from[2 * PATH_MAX], to[2 * PATH_MAX], done[2 * PATH_MAX];
	struct stat st;

	if (strcmp(name, ".") != 0) {
		snprintf(from, sizeof from, "%s/%s", root, name);
		if (stat(from, &st) < 0)
			return;
		snprintf(to, sizeof to, "%s/new.%d", kept, (int)getpid());
		snprintf(done, sizeof done, "%s/i.%lu", kept, (unsigned long)st.st_ino);
		copy(from, to);
		rename(to, done);
		return;
	}
	snprintf(to, sizeof to, "%s/names.new", kept);
	snprintf(done, sizeof done, "%s/names", kept);
	FILE *out = fopen(to, "we");
	DIR *dir = opendir(root);

	for (struct dirent *e; out && dir && (e = readdir(dir));)
		if (e->d_name[0] != '.')
			fprintf(out, "%lu %s\n", (unsigned long)e->d_ino, e->d_name);
	if (dir)
		closedir(dir);
	if (out)
		fclose(out);
	rename(to, done);
}

static int flush(int fd)
{
	char name[PATH_MAX];
	int rc;

	if (!real_fsync)
		real_fsync = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
	rc = real_fsync(fd);
	if (rc == 0 && watched(fd, name))
		keep(name);
	return rc;
}

int fsync(int fd)
{
	return flush(fd);
}

int fdatasync(int fd)
{
	return flush(fd);
}
