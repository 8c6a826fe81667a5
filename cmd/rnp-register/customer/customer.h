/* customer.h - a customer's requests to the registry with the market: records that he signs, and
 * reads of what is his. Uses http, json, signature, key, err. */
#ifndef RNP_REGISTER_CUSTOMER_CUSTOMER_H
#define RNP_REGISTER_CUSTOMER_CUSTOMER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/http/http.h"
#include "common/record/key.h"

/* Whom to ask, and as whom; all borrowed but the connections. */
struct customer {
	struct http http;
	const char *registry, *ca; /* its URL; certificates to trust, or NULL */
	const struct key *key;
	const struct http_abort *abort; /* or NULL */
};

/* Sends a record, signed now where sign is true. Returns the reply, an object that the caller owns;
 * NULL with err_set: as http_fetch, but 77 where credit is missing (402) and 75 where the offer is
 * gone (409). *refusal, if it is not NULL, then has the reply in which the registry said so, or
 * NULL; the caller owns it. */
json_t *customer_post(struct customer *c, const char *path, json_t *record, bool sign,
	json_t **refusal);

/* Gets what is the customer's own. timeout_ms: 0: the default; larger than what the path waits.
 * Returns the reply, an object that the caller owns, or NULL with err_set: as http_fetch. */
json_t *customer_get(struct customer *c, const char *path, int64_t timeout_ms);

/* Sends a text as a blob, and writes its name. Returns 0, or -1: as http_fetch. */
int customer_put(struct customer *c, const void *text, size_t bytes, char name[65]);

/* Whether a text is a cluster's name: 32 digits, 0 to f. It becomes part of paths. */
bool customer_is_cluster(const char *text);

void customer_release(struct customer *c);

#endif
