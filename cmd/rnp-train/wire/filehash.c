/* filehash.c - a container of a large run is larger than what a small machine has left. */
#include "cmd/rnp-train/wire/filehash.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/sha256.h"

#define PART_BYTES ((size_t)1 << 20)

typedef void (*add_fn)(void *state, const void *data, size_t len);

/* Gives all parts of the file to add. Returns 0, or -1 with err_set(). */
static int read_parts(const char *path, add_fn add, void *state)
{
	FILE *f = fopen(path, "rbe");
	void *part;
	size_t n;
	int rc = 0;

	if (!f)
		return err_sys(0, "cannot open '%s'", path);
	part = xmalloc(PART_BYTES);
	while ((n = fread(part, 1, PART_BYTES, f)) > 0)
		add(state, part, n);
	if (ferror(f))
		rc = err_sys(EX_IOERR, "cannot read '%s'", path);
	free(part);
	fclose(f);
	return rc;
}

static void add_blake2b(void *state, const void *data, size_t len)
{
	crypto_generichash_update(state, data, len);
}

int filehash_blake2b(const char *path, char hex[PROTOCOL_HEX])
{
	crypto_generichash_state state;
	unsigned char hash[32];

	crypto_generichash_init(&state, NULL, 0, sizeof hash);
	if (read_parts(path, add_blake2b, &state) < 0)
		return -1;
	crypto_generichash_final(&state, hash, sizeof hash);
	protocol_hex(hex, hash);
	return 0;
}

static void add_sha256(void *state, const void *data, size_t len)
{
	sha256_update(state, data, len);
}

int filehash_sha256(const char *path, char hex[PROTOCOL_HEX])
{
	struct sha256_state state;
	unsigned char hash[32];

	sha256_init(&state);
	if (read_parts(path, add_sha256, &state) < 0)
		return -1;
	sha256_final(&state, hash);
	protocol_hex(hex, hash);
	return 0;
}
