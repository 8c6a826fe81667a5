/* fuzz_cell.c - fuzz target: what a cell's child says that somebody has taken over.
 *
 * uses: cmd/rnp-register
 *
 * Input: 'p' and what it answers to an order to pack and to read, or anything else and what it
 * answers to one to unpack. It checks that what comes out is bounded, and that what is refused has
 * a code and a message. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/cell.h"
#include "common/base/clock.h"
#include "common/base/err.h"

#define INPUT_MAX ((size_t)64 << 10) /* a socket holds that much */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

/* A registry that has every blob, of one byte. */
static int fetch(void *ctx, const char *sha256_hex, size_t max, struct buf *out)
{
	++*(int *)ctx;
	must(strlen(sha256_hex) == 64 && max >= 1 && max <= MANIFEST_BYTES_MAX);
	if (*sha256_hex == '0')
		return err_set(EX_UNAVAILABLE, "no such blob");
	buf_addc(out, 'x');
	return 0;
}

static int pack(struct cell *c)
{
	struct manifest_blob *blobs;
	struct buf bytes = BUF_INIT;
	size_t n = 0;
	int rc = cell_pack(c, "artifacts", 1 << 20, &blobs, &n);

	must(rc < 0 || (n > 0 && n <= MANIFEST_BLOBS_MAX + 1));
	must(rc == 0 || !blobs);
	for (size_t i = 0; i < n && rc == 0; i++) {
		rc = cell_read(c, i, blobs[i].bytes, &bytes);
		must(rc < 0 || (int64_t)bytes.len == blobs[i].bytes);
	}
	buf_release(&bytes);
	free(blobs);
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct cell_config config = { .dir = -1, .timeout_ms = 60000 };
	struct cell c = { .config = &config };
	int fetched = 0;
	const struct cell_unpacking u = { .sha256_hex = "",
		.path = "work",
		.fetch = fetch,
		.ctx = &fetched };
	int ends[2], rc;

	if (size < 1 || size > INPUT_MAX)
		return 0;
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
	must(write(ends[1], data + 1, size - 1) == (ssize_t)(size - 1));
	shutdown(ends[1], SHUT_WR);
	c.fd = ends[0];
	c.until_ns = clock_mono_ns() + INT64_C(60000000000);
	rc = *data == 'p' ? pack(&c) : cell_unpack(&c, &u);
	must(rc == 0 || (err_get()->code > 0 && *err_get()->text));
	must((size_t)fetched <= size / 16);
	err_clear();
	cell_close(&c);
	close(ends[1]);
	return 0;
}
