/* slow_folder.c - library for LD_PRELOAD that simulates a disk that takes its time over a folder:
 * to flush one takes as long as the file SLOW_FOLDER is there. */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int fsync(int fd)
{
	int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
	const char *held = getenv("SLOW_FOLDER");
	struct stat s;

	while (held && fstat(fd, &s) == 0 && S_ISDIR(s.st_mode) &&
		access(held, F_OK) == 0)
		usleep(1000);
	return real(fd);
}
