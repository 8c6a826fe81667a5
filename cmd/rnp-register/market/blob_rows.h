/* blob_rows.h - whose a blob is, and who may read it: the rows of the database. It knows no files
 * and no HTTP. Uses store, json.
 *
 * A customer's blobs are his own; what a node sends for a cluster is the cluster's. A node reads
 * what was sent for its cluster, and of its customer's what the booking names: scripts and
 * manifests, and blobs that were sent as part of such a manifest. */
#ifndef RNP_CMD_REGISTER_MARKET_BLOB_ROWS_H
#define RNP_CMD_REGISTER_MARKET_BLOB_ROWS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/record/key.h"
#include "common/store/modules.h"
#include "common/store/store.h"

extern const struct store_module blobs_tables;

/* As whom somebody asks. */
struct blob_who {
	char customer[KEY_ADDRESS_MAX];
	char cluster[33]; /* a node's; "": it is the customer himself */
};

/* What one may still send. */
struct blob_room {
	int64_t deposited_uusd; /* of the customer's account */
	int64_t used_bytes;     /* of who */
	int64_t artifact_bytes; /* of all clusters of the customer */
	int64_t limit_bytes;    /* of the cluster; 0: it keeps no artifacts */
};

/* Reads that. Returns 0 or -1. */
int blob_rows_room(struct store *s, const struct blob_who *who, struct blob_room *out);

/* Whether who may read a blob at that time. Returns 1, 0 or -1. */
int blob_rows_may_read(struct store *s, const struct blob_who *who, const char *sha256,
	int64_t now_ms);

/* Looks for many blobs in turn, in what who has sent. manifest: the directory of which they are
 * part, or NULL. The caller closes it, also where opening failed. */
struct blob_look {
	struct store *s;
	sqlite3_stmt *q;
	const struct blob_who *who;
	const char *manifest;
	int64_t now_ms;
	/* out: until when the blob that was found stays, and whether it is known as a part of the
	 * manifest */
	int64_t until_ms;
	bool noted;
};

/* Returns 0 or -1. */
int blob_look_open(struct blob_look *l, struct store *s, const struct blob_who *who,
	const char *manifest, int64_t now_ms);
/* Returns 1, 0: it is not there, or -1. */
int blob_look(struct blob_look *l, const char *sha256);
void blob_look_close(struct blob_look *l);

/* Keeps a blob that takes so many bytes for who, or longer. manifest: "" or as above. Returns 0 or
 * -1. */
int blob_rows_keep(struct store *s, const struct blob_who *who, const char *sha256,
	int64_t bytes, int64_t until_ms, const char *manifest);
/* Keeps blobs longer that are there still. Returns 0 or -1. */
int blob_rows_renew(struct store *s, const struct blob_who *who, char (*sha256)[65],
	size_t n, int64_t until_ms, const char *manifest);

/* Notes what the nodes of a new cluster may read and send: part of the booking's transaction.
 * Returns 0 or -1. */
int blob_rows_book(struct store *s, const char *cluster, const json_t *booking);

/* Drops what is over, up to a number of blobs; fn is told the name of each of which somebody has
 * let go. What a customer has stays while a cluster of his lives. Returns 0 or -1. */
int blob_rows_sweep(struct store *s, int64_t now_ms, int64_t keep_ms,
	int (*fn)(void *ctx, const char *sha256), void *ctx);
/* Whether anybody holds it. Returns 1, 0 or -1. */
int blob_rows_held(struct store *s, const char *sha256);

#endif
