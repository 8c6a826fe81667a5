/* blobs.h - the registry keeps what customers and their nodes exchange: work directories,
 * artifacts, by their SHA-256.
 *
 * A blob belongs to whoever sent it, or to the customer of the cluster for which a node sent
 * it; who sends the same bytes has to send all of them. A node reads what its cluster's booking
 * names, and what was sent for the cluster, and may send as much as the booking's artifacts may
 * have. A blob goes `keep` after it was last asked for, but not while its customer has a cluster;
 * artifacts go when the next ones are there. Room is taken when a request begins, for all that it
 * says it will send, and what did not come is given back at its end. */
#ifndef RNP_CMD_REGISTER_MARKET_BLOBS_H
#define RNP_CMD_REGISTER_MARKET_BLOBS_H

#include "cmd/rnp-register/market/blob_files.h"
#include "cmd/rnp-register/market/blob_rows.h"
#include "cmd/rnp-register/storage/registry.h"
#include "common/httpd/httpd.h"

#define BLOBS_QUOTA_BYTES ((int64_t)20 << 30)
#define BLOBS_KEEP_MS     INT64_C(86400000)
/* A question which blobs are missing. */
#define BLOBS_ASKED_MAX    4096
#define BLOBS_ASK_BODY_MAX ((size_t)512 << 10)

/* Opens the folder of blobs, where the registry has a market: after registry_db_open. Returns 0 or
 * -1. */
int blobs_open(struct registry *g);
/* After registry_db_stop. */
void blobs_close(struct registry *g);
/* About once a second. */
void blobs_tick(struct registry *g);

void blobs_metrics(struct registry *g, struct buf *out);

/* PUT /v1/blobs/{sha256}?cluster=&from=&manifest= : the bytes from `from` on, which are all that
 * was missing. manifest: the directory of which it is part. */
enum httpd_when blobs_begin_put(void *g, struct httpd_request *q, struct httpd_reply *r);
long blobs_take(void *g, struct httpd_request *q, struct httpd_reply *r, const void *data,
	size_t len);
enum httpd_when blobs_put(void *g, struct httpd_request *q, struct httpd_reply *r);
void blobs_done(void *g, struct httpd_request *q);

/* GET /v1/blobs/{sha256}?cluster= */
enum httpd_when blobs_get(void *g, struct httpd_request *q, struct httpd_reply *r);

/* POST /v1/blobs?cluster=&manifest= : {"sha256":[...]} -> {"missing":[{"sha256","have"}]}; those
 * that are here stay for another `keep`. */
enum httpd_when blobs_ask(void *g, struct httpd_request *q, struct httpd_reply *r);

#endif
