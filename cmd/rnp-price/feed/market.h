/* market.h - the markets: how each is asked for its prices, and who reads the answer. Uses
 * feed, http. */
#ifndef RNP_PRICE_FEED_MARKET_H
#define RNP_PRICE_FEED_MARKET_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/rnp-price/feed/feed.h"
#include "common/http/http.h"

/* of an answer, or of all pages together, decompressed */
#define FEED_BYTES_MAX ((size_t)128 << 20)
#define FEED_PAGES_MAX 2000

enum feed_pages {
	FEED_WHOLE,    /* one answer */
	FEED_STREAM,   /* one answer, read as it arrives */
	FEED_NUMBERED, /* ?page=1&page_size=100, until `stated` rows are there */
	FEED_CURSOR,   /* &cursor=, until there is no `next` */
};

struct feed_market {
	const char *name;
	int (*read)(struct feed *f, const char *text, size_t len, const char *name);
	enum feed_pages pages;
	const char *path; /* of the list, below the URL; NULL: the URL is the list's */
	/* what stands before the key; NULL: Authorization: Bearer */
	const char *key_header;
	const char *post; /* body of the request; NULL: it is a GET */
	const char *url;  /* where everybody finds the list; NULL: it has no one place */
};

/* The names of all markets, as choices of an option. */
#define FEED_MARKETS "akash|nosana|prime|rnp|runpod|salad|skypilot|vast"

/* Returns the market of a name, or NULL. */
const struct feed_market *feed_market_find(const char *name);

struct feed_source {
	const struct feed_market *market;
	const char *place;    /* URL, path or "-" */
	const char *key_file; /* the market's API key, mode 0600; NULL: none */
	const char *ca;       /* certificates to trust; NULL: the system's */
	const char *etag;     /* of the last good feed; NULL: none */
};

struct feed_fetched {
	bool unchanged; /* the server says that the feed with source.etag is still valid */
	char etag[HTTP_ETAG_MAX];
	int64_t modified_ms; /* of the file or Last-Modified; -1: not known */
};

bool feed_is_url(const char *place);

/* "standard input" for "-" */
const char *feed_place_name(const char *place);

/* Gets and reads the whole feed, all pages. Errors: as http_fetch and the readers; 65: rows are
 * missing; 77: the key file is not private, or the key would travel in the clear. */
int feed_fetch(const struct feed_source *s, struct feed *f, struct feed_fetched *out);

#endif
