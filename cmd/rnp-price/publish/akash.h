/* akash.h - what a deployment on Akash costs per block. Pure; uses jansson, keys, err.
 *
 * The order is what Akash's provider gives a price script on standard input: CPU in thousandths,
 * memory and storage in bytes, each resource `count` times, and the most that the tenant pays per
 * block. Sums are exact; the rate is rounded up once, at its last decimal. */
#ifndef RNP_PRICE_PUBLISH_AKASH_H
#define RNP_PRICE_PUBLISH_AKASH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BID_BLOCKS_A_MONTH INT64_C(429909) /* blocks of 6.117 s in 30.437 days */
#define BID_GPUS_MAX       64              /* prices or stocks in one file */
#define BID_RATE_MAX       64

enum bid_item {
	BID_CPU,    /* a core */
	BID_MEMORY, /* a GiB, and so for storage */
	BID_EPHEMERAL,
	BID_HDD,
	BID_SSD,
	BID_NVME,
	BID_ENDPOINT,
	BID_IP,
	BID_ITEMS
};

struct bid_gpu {
	char key[96]; /* "a100.80gi.sxm4", "a100.80gi", "a100" or "*", in lower case */
	int64_t uusd; /* a month; -1: not given */
	int64_t free; /* units of such GPUs that are free; -1: not given */
};

/* A provider's prices, in 10^-6 dollars a month. */
struct bid_prices {
	int64_t uusd[BID_ITEMS];
	struct bid_gpu gpus[BID_GPUS_MAX];
	size_t ngpus;
	bool stock;           /* the file says what is free */
	json_t *tokens;       /* by denom: uusd of a whole token; owned */
	json_t *allow, *deny; /* arrays of owners or NULL; owned */
};

/* Reads what a person wrote, see --example. Unknown keys are refused. Returns 0, or -1 with
 * EX_DATAERR; release with bid_release in either case. */
int bid_parse(struct bid_prices *p, json_t *obj, const char *where);
void bid_release(struct bid_prices *p);
extern const char bid_example[];

/* Sets the price of a GPU model that the file does not price, from a price per hour. key: as in
 * the file. Returns 0, or -1 with EX_DATAERR: too many. */
int bid_set_hourly(struct bid_prices *p, const char *key, int64_t uusd_per_hour);

/* Whether the owner may deploy here: named in allow where there is one, and not in deny. */
bool bid_owner_allowed(const struct bid_prices *p, const char *owner);

/* The rate per block in the order's denom, as a decimal of `price_precision` places. Returns 1;
 * 0 where there is no bid, with the reason in why; or -1 with EX_DATAERR: a malformed order. */
int bid_rate(const struct bid_prices *p, const json_t *order, const char *where,
	char rate[BID_RATE_MAX], char *why, size_t why_size);

/* akash_gpus.c: takes what the "gpu" of a resource asks for from what is left of each stock.
 * Returns the row of p with its price, or -1 with the reason in why. */
int bid_take_gpus(const struct bid_prices *p, int64_t left[BID_GPUS_MAX],
	const json_t *gpu, int64_t units, char *why, size_t why_size);

#endif
