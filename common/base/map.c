/* map.c - maps a file into memory, read-only. A page that is not in the file any more is an
 * error like another one: it is told with the file's name, and the program ends with 74. */
#include "common/base/map.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/mem.h"

/* Number of files whose names the handler knows; for more it omits the name. */
#define NAMED_MAX 1024

/* A mapped file, for the handler, which may take no lock: `at` is set last and cleared first. */
static struct {
	_Atomic uintptr_t at; /* 0: free */
	uint64_t bytes;
	char *path;
} named[NAMED_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct iovec piece(const char *text)
{
	return (struct iovec){ (void *)text, strlen(text) };
}

/* Writes one line at once, with functions that are allowed in a signal handler. */
static void tell(const char *path)
{
	const struct iovec line[] = {
		piece(program_invocation_short_name), piece(": cannot read '"),
		piece(path),
		piece("': it became shorter, or its disk failed, while it was in use\n")
	};
	ssize_t n = writev(STDERR_FILENO, line, sizeof line / sizeof *line);

	(void)n;
}

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
	uintptr_t at = (uintptr_t)info->si_addr;

	(void)context;
	for (int i = 0; i < NAMED_MAX; i++) {
		uintptr_t from = atomic_load(&named[i].at);

		if (!from || at < from || at - from >= named[i].bytes)
			continue;
		tell(named[i].path);
		_exit(EX_IOERR);
	}
	/* not in one of our files: the instruction is executed again, and ends the program as
	 * it would have */
	signal(sig, SIG_DFL);
}

static void install(void)
{
	struct sigaction action = { .sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO };

	sigemptyset(&action.sa_mask);
	sigaction(SIGBUS, &action, NULL);
}

static void add_name(const struct lm_map *m, const char *path)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, install);
	pthread_mutex_lock(&lock);
	for (int i = 0; i < NAMED_MAX; i++)
		if (!atomic_load(&named[i].at)) {
			/* the name of an earlier file is kept until now, because the handler
			 * might have been reading it */
			free(named[i].path);
			named[i].path = xstrdup(path);
			named[i].bytes = m->bytes;
			atomic_store(&named[i].at, (uintptr_t)m->data);
			break;
		}
	pthread_mutex_unlock(&lock);
}

static void remove_name(const struct lm_map *m)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < NAMED_MAX; i++)
		if (atomic_load(&named[i].at) == (uintptr_t)m->data) {
			atomic_store(&named[i].at, 0);
			break;
		}
	pthread_mutex_unlock(&lock);
}

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
		if (at == MAP_FAILED) {
			rc = err_sys(EX_OSERR, "cannot map '%s'", path);
		} else {
			*m = (struct lm_map){ at, (uint64_t)st.st_size };
			add_name(m, path);
		}
	}
	close(fd);
	return rc;
}

void lm_map_close(struct lm_map *m)
{
	if (m->data) {
		remove_name(m);
		munmap((void *)m->data, (size_t)m->bytes);
	}
	*m = (struct lm_map){ 0 };
}
