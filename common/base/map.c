/* Maps a file into memory, read-only. */
#include "common/base/map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/err.h"

int lm_map_open(struct lm_map *m, const char *path)
{
	/* without O_NONBLOCK, opening a FIFO would wait for its writer */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc = 0;
	struct stat st;
	void *at;

	*m = (struct lm_map){ 0 };
	if (fd < 0)
		return err_sys(0, "cannot open '%s'", path);
	if (fstat(fd, &st) < 0) {
		rc = err_sys(0, "cannot open '%s'", path);
	} else if (!S_ISREG(st.st_mode)) {
		rc = err_set(EX_NOINPUT, "cannot open '%s': not a regular file", path);
	} else if (st.st_size > 0) {
		at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
		if (at == MAP_FAILED)
			rc = err_sys(EX_OSERR, "cannot map '%s'", path);
		else
			*m = (struct lm_map){ at, (uint64_t)st.st_size };
	}
	close(fd);
	return rc;
}

void lm_map_close(struct lm_map *m)
{
	if (m->data)
		munmap((void *)m->data, (size_t)m->bytes);
	*m = (struct lm_map){ 0 };
}
