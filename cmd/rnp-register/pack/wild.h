/* wild.h - the patterns of gitignore(5), compiled, and matched against bytes in time proportional
 * to both lengths, whatever the pattern: no pattern makes a pack wait. Pure. Uses mem. */
#ifndef RNP_CMD_REGISTER_PACK_WILD_H
#define RNP_CMD_REGISTER_PACK_WILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A set of bytes. */
struct wild_set {
	uint64_t bits[4];
};

/* One step of a pattern. */
struct wild_step {
	enum wild_what {
		WILD_BYTE,  /* this byte */
		WILD_ANY,   /* any byte but a slash */
		WILD_SET,   /* a byte of sets[set] */
		WILD_STAR,  /* any bytes but slashes, perhaps none */
		WILD_ALL,   /* any bytes, perhaps none */
		WILD_ROOMS, /* nothing, or any bytes and a slash */
		WILD_NEVER, /* nothing matches: the pattern is broken */
	} what;
	unsigned char byte;
	uint32_t set;
};

/* A compiled pattern; all zeros is the empty one. */
struct wild {
	struct wild_step *steps;
	struct wild_set *sets;
	uint32_t nsteps, nsets;
};

/* Compiles len bytes of a pattern that has no NUL. As in git, a broken one (an open bracket, a
 * class that is unknown, a backslash at the end) matches nothing, and a double star that does not
 * stand between slashes or ends is a single one. */
void wild_compile(struct wild *w, const char *pattern, size_t len);
void wild_release(struct wild *w);

/* Whether the pattern matches all len bytes of the path. */
bool wild_match(const struct wild *w, const char *path, size_t len);

/* How many bytes of the pattern stand for themselves before the first *, ?, [ or backslash. */
size_t wild_literal(const char *pattern, size_t len);

#endif
