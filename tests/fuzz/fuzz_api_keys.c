/* fuzz_api_keys.c - fuzz target: the file of a server's API keys, the same file after it was
 * changed, and the Authorization header of a client.
 *
 * uses: cmd/rnp-serve
 *
 * The input is a header, a byte 0, the file, and after another byte 0 what it is changed to. It
 * checks that a refused file gives exit code 65 and a message; that names and limits of accepted
 * keys are within their bounds; that a header finds a key only with the text whose hash the file
 * has; and that a key whose line is gone is found no longer. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/rnp-serve/request/keys.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* the keys of these two texts are in the seeds */
static const char *const known[] = { "Bearer rnp-a", "bearer rnp-b" };

static void must(bool promise)
{
	if (!promise)
		abort();
}

/* The file has other bytes now, and another time. */
static void put(int fd, const char *text, size_t len, time_t at)
{
	const struct timespec times[2] = { { .tv_sec = at }, { .tv_sec = at } };

	must(ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
	must(io_write_all(fd, text, len) == 0 && futimens(fd, times) == 0);
}

static void refused(void)
{
	must(err_get()->code == EX_DATAERR && err_get()->text[0]);
	err_clear();
}

static void use(struct keys *k, const char *header)
{
	struct api_key *key = keys_find(k, header);
	int wait_s = 0;

	for (size_t i = 0; i < k->count; i++) {
		must(*k->list[i]->name && k->list[i]->limit_tokens >= 0);
		must(strlen(k->list[i]->name) < sizeof k->list[i]->name);
	}
	if (!key)
		return;
	must(!key->revoked);
	for (int64_t now = 1; now < 4; now++) {
		struct key_share share = { 1, 1000, 500, now > 2 };

		if (keys_may_ask(k, key, now, &wait_s) < 0)
			must(wait_s >= 1 && wait_s <= 3600);
		if (keys_take(k, key, &share, now, &wait_s) == 0) {
			must(share.answer_tokens > 0 && share.answer_tokens <= 500);
			keys_give(k, key, &share, share.answer_tokens);
			keys_charge(k, key, 1000, now);
		} else {
			must(wait_s >= 1 && wait_s <= 3600);
		}
	}
	err_clear();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = xstrndup((const char *)data, size), path[64];
	const char *end = (const char *)data + size;
	const char *first = (const char *)data + strlen(text) + 1, *second;
	struct keys k = { 0 };
	int fd;

	if (first > end) {
		free(text);
		return 0;
	}
	second = memchr(first, 0, (size_t)(end - first));
	fd = memfd_create("keys", MFD_CLOEXEC);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	must(fd >= 0 && fchmod(fd, 0600) == 0);
	put(fd, first, (size_t)((second ? second : end) - first), 1);
	if (keys_open(&k, path) < 0) {
		refused();
	} else {
		use(&k, text);
		for (size_t i = 0; i < sizeof known / sizeof *known; i++)
			use(&k, known[i]);
		put(fd, second ? second + 1 : "", second ? (size_t)(end - second - 1) : 0,
			2);
		if (keys_refresh(&k) < 0)
			refused();
		else if (!second)
			must(!keys_find(&k, text) && !keys_find(&k, known[0]));
		use(&k, text);
		use(&k, known[0]);
	}
	keys_release(&k);
	close(fd);
	free(text);
	return 0;
}
