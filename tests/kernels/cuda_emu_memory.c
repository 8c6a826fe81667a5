/* cuda_emu_memory.c - the memory of the emulated device: which it is. The host's serves the
 * emulation as well, and a chip refuses it: so copies and fills ask here. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "tests/kernels/cuda_emu.h"

struct area {
	struct area *next;
	char *at;
	size_t bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct area *areas;
static size_t used;

bool emu_take(void **out, size_t bytes, size_t all)
{
	struct area *a = malloc(sizeof *a);

	if (!a)
		return false;
	pthread_mutex_lock(&lock);
	if (bytes > all - used || posix_memalign(out, 256, bytes ? bytes : 1)) {
		pthread_mutex_unlock(&lock);
		free(a);
		return false;
	}
	*a = (struct area){ areas, *out, bytes };
	areas = a;
	used += bytes;
	pthread_mutex_unlock(&lock);
	memset(*out, 0xa5, bytes);
	return true;
}

bool emu_give(void *p)
{
	struct area **at, *a;

	pthread_mutex_lock(&lock);
	for (at = &areas; *at && (*at)->at != p;)
		at = &(*at)->next;
	a = *at;
	if (a) {
		*at = a->next;
		used -= a->bytes;
	}
	pthread_mutex_unlock(&lock);
	if (a)
		free(p);
	free(a);
	return a;
}

size_t emu_used(void)
{
	size_t bytes;

	pthread_mutex_lock(&lock);
	bytes = used;
	pthread_mutex_unlock(&lock);
	return bytes;
}

bool emu_is_device(const void *p, size_t bytes)
{
	const struct area *a;

	pthread_mutex_lock(&lock);
	for (a = areas; a; a = a->next) {
		uintptr_t from = (uintptr_t)p - (uintptr_t)a->at;

		if (from <= a->bytes && bytes <= a->bytes - from)
			break;
	}
	pthread_mutex_unlock(&lock);
	return a;
}
