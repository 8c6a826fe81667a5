/* hashed.c - library for LD_PRELOAD: writes the length of every large input of
 * crypto_hash_sha256 to the file that the environment variable HASHED names, one per line. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define LARGE (256u << 10)

int crypto_hash_sha256(unsigned char *out, const unsigned char *in,
	unsigned long long len);

int crypto_hash_sha256(unsigned char *out, const unsigned char *in,
	unsigned long long len)
{
	static int (*next)(unsigned char *, const unsigned char *, unsigned long long);
	const char *path = getenv("HASHED");
	FILE *f = len >= LARGE && path ? fopen(path, "ae") : NULL;

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "crypto_hash_sha256");
	if (f) {
		fprintf(f, "%llu\n", len);
		fclose(f);
	}
	return next(out, in, len);
}
