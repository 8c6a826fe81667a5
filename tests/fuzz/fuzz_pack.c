/* fuzz_pack.c - fuzz target: a manifest from a stranger, unpacked; and what was kept of a
 * directory.
 *
 * uses: cmd/rnp-register
 *
 * Input: 'm' and a manifest, or anything else and a cache. It checks that what is refused has exit
 * code 65 and a message; that an accepted manifest is written and read with the same bytes; that
 * its paths stay below the directory; that unpacking makes no file outside of it, and leaves
 * nothing where it fails. */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-register/pack/beneath.h"
#include "cmd/rnp-register/pack/cache.h"
#include "cmd/rnp-register/pack/unpack.h"
#include "common/base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

/* Blobs of zeros: those of the seeds have the hash of such. */
static int fetch(void *ctx, const struct manifest_blob *b, struct buf *out)
{
	(void)ctx;
	memset(buf_reserve(out, (size_t)b->bytes), 0, (size_t)b->bytes);
	out->len = (size_t)b->bytes;
	return 0;
}

static int count_files(const char *dir)
{
	DIR *d = opendir(dir);
	int n = 0;

	must(d != NULL);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static void unpack_it(const struct manifest *m)
{
	static char place[] = "/tmp/rnp-fuzz-pack-XXXXXX";
	struct unpack_config c = { .uid = (uid_t)-1,
		.gid = (gid_t)-1,
		.bytes_max = 1 << 20,
		.entries_max = 100,
		.fetch = fetch };
	char path[64];
	int rc;

	must(mkdtemp(strcpy(place, "/tmp/rnp-fuzz-pack-XXXXXX")) != NULL);
	strcpy(path, place);
	strcat(path, "/to");
	rc = unpack(m, path, &c);
	must(count_files(place) == (rc == 0));
	if (rc < 0)
		must(err_get()->text[0]);
	err_clear();
	must(beneath_remove(AT_FDCWD, place) == 0);
}

static void read_manifest(const char *text, size_t len)
{
	struct buf once = BUF_INIT, twice = BUF_INIT;
	struct manifest m, again;

	if (manifest_read(&m, text, len, "input") < 0) {
		must(err_get()->code == EX_DATAERR && err_get()->text[0]);
		err_clear();
		return;
	}
	manifest_write(&once, &m);
	must(manifest_read(&again, once.data, once.len, "again") == 0);
	manifest_write(&twice, &again);
	must(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
	for (size_t i = 0; i < m.nentries; i++)
		must(!manifest_path_fault(m.entries[i].path));
	unpack_it(&m);
	manifest_release(&m);
	manifest_release(&again);
	buf_release(&once);
	buf_release(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pack_cache cache = { 0 };

	if (!size)
		return 0;
	if (*data == 'm') {
		read_manifest((const char *)data + 1, size - 1);
		return 0;
	}
	buf_add(&cache.text, data + 1, size - 1);
	if (cache_parse(&cache) < 0)
		must(!cache.nfiles && !cache.nblobs);
	cache_release(&cache);
	return 0;
}
