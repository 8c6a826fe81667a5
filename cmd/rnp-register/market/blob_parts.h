/* blob_parts.h - what the files of blobs' routes share. */
#ifndef RNP_CMD_REGISTER_MARKET_BLOB_PARTS_H
#define RNP_CMD_REGISTER_MARKET_BLOB_PARTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cmd/rnp-register/market/blob_files.h"
#include "cmd/rnp-register/market/blob_rows.h"
#include "cmd/rnp-register/storage/registry.h"
#include "common/httpd/httpd.h"

/* The registry's blobs. */
struct blobs {
	struct blob_files files;
	pthread_mutex_t quota_lock; /* between looking for room and taking it */
	int64_t quota_bytes, keep_ms;
	int64_t swept_ns;
	_Atomic bool sweeping;
	_Atomic uint64_t received, sent;
};

/* Finds as whom a request is made, that has no other fields than these: the caller himself, or a
 * node for the cluster that it names and has a lease in. Returns false with r filled. */
bool blobs_find_who(struct registry *g, struct httpd_request *q, struct httpd_reply *r,
	const char *fields, struct blob_who *who);

/* Writes whose parts they are: "CUSTOMER", or "CUSTOMER/CLUSTER". */
void blobs_holder(char out[BLOB_HOLDER_MAX], const struct blob_who *who);

/* Reads the field `manifest`: *out is its text, borrowed, or "". Returns false with r filled. */
bool blobs_find_manifest(struct registry *g, struct httpd_request *q,
	struct httpd_reply *r, const char **out);

/* Looks whether who has a blob, and its file is there. Returns 1, 0, or -1 with r filled. */
int blobs_has(struct registry *g, struct httpd_reply *r, struct blob_look *l,
	const char *name);

/* Blobs that stay longer, and may be a part of a directory more. */
struct blobs_renewal {
	struct registry *g;
	struct httpd_request *q;
	struct httpd_reply *r;
	struct blob_who who;
	char manifest[BLOB_NAME_MAX]; /* or "" */
	char (*names)[BLOB_NAME_MAX];
	size_t n, cap;
};

/* Writes them, if there are any, and answers with what stands in r. Takes w. */
enum httpd_when blobs_renew(struct blobs_renewal *w);

#endif
