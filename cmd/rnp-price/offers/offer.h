/* offer.h - offers: the prices that a market lists for its GPUs. Pure; uses mem, json, gpu. */
#ifndef RNP_PRICE_OFFERS_OFFER_H
#define RNP_PRICE_OFFERS_OFFER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/record/gpu.h"

#define OFFER_UNKNOWN (-1)

/* One offer; OFFER_UNKNOWN or NULL if the market does not state a value. Texts belong to the
 * list. */
struct offer {
	const char *market, *id;
	const char *model; /* canonical, or the market's own name if it is unknown */
	const char *name;  /* the market's own name of the model */
	bool known;        /* model is in our table */
	/* its row there; NULL: none, or known only by its name */
	const struct gpu_model *gpu;
	bool spot, own;
	int rentable, rented, verified,
		secure; /* 0, 1, OFFER_UNKNOWN; secure: in a data centre */
	int64_t at_ms;  /* OFFER_UNKNOWN: not known */
	int64_t gpu_count;
	int64_t gpu_share_ppm; /* 0: whole GPUs */
	int64_t gpu_memory_bytes;
	int64_t uusd_per_gpu_hour;
	int64_t cpu_cores, memory_bytes;
	int64_t down_bps, up_bps;
	int64_t reliability_ppm;
	const char *country, *region, *machine, *host;
};

#define OFFER_NAMES 64

struct offer_list {
	struct offer *items;
	size_t n, cap;
	struct arena texts;
	struct offer_name {
		const char *name;
		int64_t memory_bytes;
		const struct gpu_model *gpu;
	} names[OFFER_NAMES]; /* cache of looked-up names, by hash */
};

/* Returns a blank offer: everything unknown, one whole GPU. */
void offer_init(struct offer *o);

void offer_list_release(struct offer_list *l);

/* Appends o; its texts are copied. */
void offer_list_add(struct offer_list *l, const struct offer *o);

/* Returns the record of an offer; the caller owns it. */
json_t *offer_to_json(const struct offer *o);

/* Appends the same record as text, byte for byte as json_write does, without building objects. */
void offer_write(struct buf *out, const struct offer *o);

/* Returns the row of a model's name as gpu_find does; the last few results are kept in l. */
const struct gpu_model *offer_list_find(struct offer_list *l, const char *name,
	int64_t memory_bytes);

/* Appends the offer in a record, which must be rnp.offer; its texts are copied. Returns 0, or
 * -1 with EX_DATAERR naming where and the field. */
int offer_list_add_json(struct offer_list *l, const json_t *record, const char *where);

/* Appends an offer whose model has an untrusted name: its row in the table is looked up. */
void offer_list_add_found(struct offer_list *l, struct offer *o);

/* Appends an offer from a line of the form that feed writes, without building objects. Returns
 * false for any line that is not that simple, good or bad, which offer_list_add_json must then
 * decide. */
bool offer_list_add_plain(struct offer_list *l, const char *line, size_t len);

/* Appends the offer in one line, the fast way where that can be. Returns 0, or -1 (65). */
int offer_list_add_line(struct offer_list *l, const char *line, size_t len,
	const char *where);

/* Reads all rnp.offer records of these files ("-" or no file means standard input). Returns 0,
 * or -1 with the first error: 65 malformed, 66, 77, 74. */
int offer_list_read(struct offer_list *l, char **files, int n);

#endif
