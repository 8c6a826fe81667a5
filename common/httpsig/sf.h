/* sf.h - reads and writes Structured Field Values for HTTP (RFC 9651, which contains RFC 8941).
 *
 * Pure. Uses buf, err, mem, utf8, libsodium (base64). A parsed field lives in one arena. */
#ifndef RNP_COMMON_HTTPSIG_SF_H
#define RNP_COMMON_HTTPSIG_SF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/mem.h"

/* Limits of the parser; the RFC asks for at least 1024 members and 256 parameters. */
#define SF_TEXT_MAX    ((size_t)64 << 10)
#define SF_MEMBERS_MAX 1024 /* of a field, and items of an inner list */
#define SF_PARAMS_MAX  256  /* of one item */
#define SF_KEY_MAX     256  /* bytes of a key */

enum sf_kind { SF_ITEM, SF_LIST, SF_DICTIONARY };

enum sf_type {
	SF_INTEGER, /* number, within +-999,999,999,999,999 */
	SF_DECIMAL, /* number, in thousandths */
	SF_STRING,  /* text, printable ASCII */
	SF_TOKEN,   /* text */
	SF_BYTES,   /* text, len decoded bytes */
	SF_BOOLEAN, /* number, 0 or 1 */
	SF_DATE,    /* number, seconds since 1970 */
	SF_DISPLAY, /* text, UTF-8 */
};

/* Texts end with a NUL that len does not count. */
struct sf_value {
	enum sf_type type;
	int64_t number;
	const char *text;
	size_t len;
};

struct sf_param {
	const char *key;
	struct sf_value value;
};

struct sf_item {
	struct sf_value value;
	const struct sf_param *params;
	int nparams;
};

/* A member of a list or dictionary, or the one item of SF_ITEM. When inner is false, items[0] is
 * the value and params are its parameters. */
struct sf_member {
	const char *key; /* NULL outside a dictionary */
	bool inner;
	const struct sf_item *items;
	int nitems;
	const struct sf_param *params;
	int nparams;
};

struct sf {
	struct arena arena;
	const struct sf_member *members;
	int nmembers;
	/* A key occurred twice in the dictionary or in some parameters. As the RFC demands, the
	 * last one counts; strict callers can refuse the field. */
	bool repeated;
};
/* clang-format off */
#define SF_INIT { .arena = ARENA_INIT }
/* clang-format on */

/* Reads a field's value; the values of several lines are joined with ", " first. what names the
 * field in errors. An empty list or dictionary has no members. Byte sequences need their padding.
 * Returns 0, or -1 with EX_DATAERR and out empty. */
int sf_parse(struct sf *out, enum sf_kind kind, const char *text, size_t len,
	const char *what);

void sf_release(struct sf *f);

/* Return the member or parameter of that key, or NULL. */
const struct sf_member *sf_find(const struct sf *dictionary, const char *key);
const struct sf_value *sf_param(const struct sf_param *params, int n, const char *key);

/* Append the one serialisation that a value has (RFC 9651, section 4.1): a whole field, a member
 * without its key, or a single item. Return 0, or -1 with EX_DATAERR and out as before: a value
 * cannot be written, such as a string with a line break. */
int sf_write(struct buf *out, const struct sf *f, enum sf_kind kind);
int sf_write_member(struct buf *out, const struct sf_member *m);
int sf_write_item(struct buf *out, const struct sf_item *item);

#endif
