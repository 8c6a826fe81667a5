/* library.h - functions of a library that is opened when it is first needed. libc only. */
#ifndef RNP_KERNELS_DEV_LIBRARY_H
#define RNP_KERNELS_DEV_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

struct library_symbol {
	const char *name;
	void *to; /* a pointer to a function of its type */
};

/* Opens "libNAME.so.N" and stores the addresses of its n symbols. It stays open even if a
 * symbol is missing: some libraries have then started things that do not survive a close.
 * Returns true, or false with a sentence in why (of `bytes` bytes; may be NULL). */
bool library_open(const char *name, const struct library_symbol *symbols, size_t n,
	char *why, size_t bytes);

#endif
