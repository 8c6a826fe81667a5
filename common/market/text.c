/* text.c - the hash of texts without case: see text.h. */
#include "common/market/text.h"

#include "common/base/fnv.h"
#include "common/base/index.h"

uint32_t match_text_hash(const char *text)
{
	uint64_t h = hash_seed();

	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		h = fnv1a_add(h, c >= 'A' && c <= 'Z' ? c + 32u : c);
	}
	return (uint32_t)((h ^ (h >> 32)) * 0x9e3779b97f4a7c15u >> 32);
}
