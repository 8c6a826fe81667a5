/* offer.h - what a market asks for its GPUs, and lists of that. Pure; uses mem, json, gpu. */
#ifndef RNP_PRICE_OFFER_H
#define RNP_PRICE_OFFER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/mem.h"
#include "common/record/gpu.h"

#define OFFER_UNKNOWN (-1)

/* One offer; OFFER_UNKNOWN or NULL where the market does not say. Texts belong to the list. */
struct offer {
	const char *market, *id;
	const char
		*model;   /* canonical, or the market's own name when we do not know it */
	const char *name; /* the market's own */
	bool known;       /* model is in our table */
	const struct gpu_model
		*gpu; /* its row there; NULL: known by its name alone, or not */
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
	} names[OFFER_NAMES]; /* names that were looked up already, by hash */
};

/* A blank offer: everything unknown, one whole GPU. */
void offer_init(struct offer *o);

void offer_list_release(struct offer_list *l);

/* Append o; its texts are copied. */
void offer_list_add(struct offer_list *l, const struct offer *o);

/* The record of an offer; the caller owns it. */
json_t *offer_to_json(const struct offer *o);

/* Append the offer in a record, which must be rnp.offer; its texts are copied. Returns 0, or
 * -1 with EX_DATAERR naming where and the field. */
int offer_list_add_json(struct offer_list *l, const json_t *record, const char *where);

/* Append an offer whose model is named as a stranger named it: the table's row is looked up. */
void offer_list_add_found(struct offer_list *l, struct offer *o);

/* The same from a line of the form that feed writes, without building objects. Returns false
 * for any line that is not that simple, good or bad: offer_list_add_json then has the last
 * word. */
bool offer_list_add_plain(struct offer_list *l, const char *line, size_t len);

/* All rnp.offer records of these files ("-" and no file at all mean standard input). Returns 0, or
 * -1 with the first error: 65 malformed, 66, 77, 74. */
int offer_list_read(struct offer_list *l, char **files, int n);

#endif
