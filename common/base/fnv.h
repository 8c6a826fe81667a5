/* fnv.h - FNV-1a with 64 bits, for tables: a multiplication a byte. Its low bits are the good
 * ones. Pure. */
#ifndef RNP_COMMON_BASE_FNV_H
#define RNP_COMMON_BASE_FNV_H

#include <stddef.h>
#include <stdint.h>

/* The hash of nothing, with which others begin. */
#define FNV1A UINT64_C(14695981039346656037)

/* Goes on with a value: of FNV-1a itself a byte; larger ones count as one step, too. */
static inline uint64_t fnv1a_add(uint64_t h, uint64_t value)
{
	return (h ^ value) * UINT64_C(1099511628211);
}

/* Goes on with n bytes. */
static inline uint64_t fnv1a(uint64_t h, const void *data, size_t n)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < n; i++)
		h = fnv1a_add(h, p[i]);
	return h;
}

/* Goes on with a text, without its NUL. */
static inline uint64_t fnv1a_text(uint64_t h, const char *text)
{
	for (; *text; text++)
		h = fnv1a_add(h, (unsigned char)*text);
	return h;
}

#endif
