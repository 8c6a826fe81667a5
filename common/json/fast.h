/* fast.h - reads a line of JSON by a table of its fields, without building objects. Pure. Uses
 * plain, buf, address, clock, jansson's limits of json.h.
 *
 * scripts/shapes makes the tables from common/json/schema/ when rnp is built. Whatever this reader
 * takes, json_parse_object and schema_check take with the same values; but it takes less: the plain
 * strings and numbers of plain.h, and no fields but those of the schema, each once, in any order.
 * Who gets false reads the line again as JSON, which decides. */
#ifndef RNP_COMMON_JSON_FAST_H
#define RNP_COMMON_JSON_FAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/address.h"
#include "common/base/buf.h"
#include "common/json/plain.h"

/* Types of fields, and what is in the piece of one beside its text. */
enum fast_type {
	FAST_TEXT,    /* of min to max characters */
	FAST_WHOLE,   /* number: of min to max */
	FAST_BOOL,    /* number: 1 or 0 */
	FAST_TIME,    /* number: ms */
	FAST_SHA256,  /* lower-case hex */
	FAST_ADDRESS, /* number: which of order->addresses */
	FAST_ENUM,    /* number: which of words */
	FAST_UUID,    /* a GPU's own name, of min to max characters */
	FAST_COUNTRY,
	FAST_HOURS,
	FAST_PAIRS, /* list of at most max pairs of numbers, which go to the reader's pairs */
	FAST_OTHER,    /* what the table does not tell: the reader's other() takes it */
	FAST_OBJECT,   /* of shape */
	FAST_LIST,     /* of at most max items */
	FAST_DISTINCT, /* the same, and the uuids of its items differ */
	FAST_MAP, /* of at most max fields: those of shape, if any, and others as item */
};

struct fast_field {
	const char *key; /* as it is written, with quotes and colon; "" for items */
	size_t len;      /* of key */
	enum fast_type type;
	int64_t min, max;
	const struct fast_shape *shape;
	const struct fast_field *item;
	const char *const *words; /* ends with NULL */
};

/* As in scripts/shapes; the last shape of an order is for a table that a caller has beside. */
#define FAST_GUESSES     128
#define FAST_FIELDS_MAX  64
#define FAST_ENTRIES_MAX 64
#define FAST_UUIDS_MAX   64
#define FAST_SHAPES_MAX  16

#define FAST_ADDRESSES 4 /* in one line */

/* An object's fields in canonical order: all names are ASCII, so UTF-16 order is that of bytes. */
struct fast_shape {
	const struct fast_field *fields;
	int n;
	int number;        /* of the shape, among those that are read together */
	uint64_t required; /* FAST_BIT of each field that must be there */
	/* the field, plus 1, that a key may be; 0: none; NULL: no guesses */
	const signed char *guess;
};

#define FAST_BIT(i) (UINT64_C(1) << (i))

/* What a record of one kind must hold, and what it may hold, where a table is of several kinds. */
struct fast_kind {
	uint64_t required, allowed;
};

/* rnp.uptime, rnp.verdict, rnp.receipt and rnp.node together; rnp.usage; rnp.offer. */
extern const struct fast_shape fast_record, fast_usage, fast_offer;
extern const struct fast_kind fast_record_kinds[];

/* A value in the line with its quotes, or in scratch->inner from `at` if text is NULL. */
struct fast_piece {
	const char *text;
	size_t len, at;
	int64_t number;
};

struct fast_address {
	char text[ADDRESS_MAX];
	size_t len; /* of text; 0: none */
	unsigned char bytes[ADDRESS_BYTES];
};

/* What is kept from line to line; zeros at first. One for each table. Who writes many records
 * writes their fields in one order: after has of each shape the field, plus 1, that followed
 * one, plus 1, in the last object; 0: none. */
struct fast_order {
	signed char after[FAST_SHAPES_MAX][FAST_FIELDS_MAX + 1];
	struct fast_address addresses[FAST_ADDRESSES]; /* of the last line */
};

/* Where the canonical form of objects and lists is put together. */
struct fast_scratch {
	struct buf canon, inner;
};

struct fast;

/* Called with each inner object that was read. Returns false to leave the line to JSON. */
typedef bool (*fast_object_fn)(struct fast *r, const struct fast_shape *shape,
	const struct fast_piece *pieces, uint64_t seen);

/* Consumes a value of FAST_OTHER. The same. */
typedef bool (*fast_other_fn)(struct fast *r, const struct fast_field *f);

/* Pointers are borrowed. */
struct fast {
	struct json_plain scan; /* at first the line */
	struct fast_order *order;
	struct fast_scratch *scratch; /* NULL: objects and lists are left to JSON */
	fast_object_fn object;        /* or NULL */
	fast_other_fn other;          /* or NULL: such values are left to JSON */
	void *ctx;                    /* of both */
	/* where each pair is appended, as two int64_t; NULL: pairs are left to JSON */
	struct buf *pairs;
	size_t npairs;
	int naddresses;           /* in order->addresses */
	struct fast_piece *uuids; /* private, as nuuids is */
	int nuuids;
};

/* Reads a line that is one object into the pieces of its fields, FAST_FIELDS_MAX of them; *seen
 * has FAST_BIT of each that is there. Returns false if JSON must decide,
 * and leaves no error behind. */
bool fast_read(struct fast *r, const struct fast_shape *shape, struct fast_piece *pieces,
	uint64_t *seen);

/* Reads an object where scan is, for other(). The same. */
bool fast_object(struct fast *r, const struct fast_shape *shape,
	struct fast_piece *pieces, uint64_t *seen);

/* Appends the canonical form of the fields in seen to out. */
void fast_write(struct buf *out, const struct fast *r, const struct fast_shape *shape,
	const struct fast_piece *pieces, uint64_t seen);

/* Returns the field of that name, which is in the schema. */
int fast_field(const struct fast_shape *shape, const char *name);

/* Returns FAST_BIT of each of these fields, which are in the schema; names ends with NULL. */
uint64_t fast_bits(const struct fast_shape *shape, const char *const *names);

/* Copies the text of a piece without its quotes, terminated, to out of size bytes. Returns false
 * if it does not fit. The piece is a string of the line. */
static inline bool fast_copy(const struct fast_piece *p, char *out, size_t size)
{
	size_t len = p->len - 2;

	if (len >= size)
		return false;
	memcpy(out, p->text + 1, len);
	out[len] = '\0';
	return true;
}

#endif
