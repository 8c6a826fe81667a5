/* ahead.c - a ring of buffers that a thread fills by O_DIRECT. */
#include "common/base/ahead.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/mem.h"

#define BUFFERS      4
#define BUFFER_BYTES ((size_t)2 << 20)
#define ALIGNMENT    4096 /* of memory, offsets and sizes; what disks ask for is less */

struct part {
	char *data;
	ssize_t n; /* what read returned */
	int error; /* errno, if n is -1 */
};

struct ahead {
	int fd;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct part parts
		[BUFFERS]; /* those from `taken` to `filled` - 1, modulo BUFFERS, are full */
	uint64_t filled, taken;
	bool stop;
	size_t at; /* in the part that is being taken */
};

int64_t ahead_bytes_min(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);

	return pages < 0 || bytes < 0 ? INT64_MAX : (int64_t)pages / 2 * bytes;
}

static bool set_direct(int fd, bool direct)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 &&
		fcntl(fd, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

/* Reads into a part from *offset on. The end of the file is no multiple of the alignment, nor is
 * what was appended to it since: from there on, and where a disk refuses, the page cache is
 * used. */
static void fill_part(const struct ahead *a, struct part *p, off_t *offset, bool *direct)
{
	do {
		p->n = pread(a->fd, p->data, BUFFER_BYTES, *offset);
		p->error = errno;
	} while (p->n < 0 &&
		(p->error == EINTR ||
			(p->error == EINVAL && *direct &&
				!(*direct = !set_direct(a->fd, false)))));
	if (p->n > 0)
		*offset += p->n;
	if (*direct && p->n > 0 && *offset % ALIGNMENT)
		*direct = !set_direct(a->fd, false);
}

static void *run(void *ahead)
{
	struct ahead *a = ahead;
	bool direct = true, more = true;
	off_t offset = 0;

	pthread_mutex_lock(&a->lock);
	while (more) {
		struct part *p = &a->parts[a->filled % BUFFERS];

		while (!a->stop && a->filled - a->taken == BUFFERS)
			pthread_cond_wait(&a->changed, &a->lock);
		if (a->stop)
			break;
		pthread_mutex_unlock(&a->lock);
		fill_part(a, p, &offset, &direct);
		pthread_mutex_lock(&a->lock);
		more = p->n > 0;
		a->filled++;
		pthread_cond_signal(&a->changed);
	}
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

static void free_parts(struct ahead *a)
{
	for (int i = 0; i < BUFFERS; i++)
		free(a->parts[i].data);
	free(a);
}

struct ahead *ahead_open(int fd, int64_t min)
{
	struct stat st;
	struct ahead *a;
	bool memory = true;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < min ||
		!set_direct(fd, true))
		return NULL;
	a = xcalloc(1, sizeof *a);
	a->fd = fd;
	for (int i = 0; i < BUFFERS; i++) {
		a->parts[i].data = aligned_alloc(ALIGNMENT, BUFFER_BYTES);
		memory = memory && a->parts[i].data;
	}
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->changed, NULL);
	if (memory && pthread_create(&a->thread, NULL, run, a) == 0)
		return a;
	free_parts(a);
	set_direct(fd, false);
	return NULL;
}

ssize_t ahead_read(struct ahead *a, char *out, size_t n)
{
	const struct part *p = &a->parts[a->taken % BUFFERS];
	size_t left;

	pthread_mutex_lock(&a->lock);
	while (a->filled == a->taken)
		pthread_cond_wait(&a->changed, &a->lock);
	pthread_mutex_unlock(&a->lock);
	if (p->n <= 0) { /* stays the last part */
		errno = p->error;
		return p->n;
	}
	left = (size_t)p->n - a->at;
	n = n < left ? n : left;
	memcpy(out, p->data + a->at, n);
	a->at += n;
	if (n < left)
		return (ssize_t)n;
	pthread_mutex_lock(&a->lock);
	a->at = 0;
	a->taken++;
	pthread_cond_signal(&a->changed);
	pthread_mutex_unlock(&a->lock);
	return (ssize_t)n;
}

void ahead_close(struct ahead *a)
{
	if (!a)
		return;
	pthread_mutex_lock(&a->lock);
	a->stop = true;
	pthread_cond_signal(&a->changed);
	pthread_mutex_unlock(&a->lock);
	pthread_join(a->thread, NULL);
	pthread_mutex_destroy(&a->lock);
	pthread_cond_destroy(&a->changed);
	free_parts(a);
}
