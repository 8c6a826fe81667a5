/* transfer.h - sends a packed directory to a registry, and fetches one: what the registry has
 * is not sent, and what broke off goes on where it was. Uses pack, unpack, http, json. */
#ifndef RNP_CMD_REGISTER_PACK_TRANSFER_H
#define RNP_CMD_REGISTER_PACK_TRANSFER_H

#include <stdint.h>

#include "cmd/rnp-register/pack/pack.h"
#include "cmd/rnp-register/pack/unpack.h"
#include "common/http/http.h"
#include "common/record/key.h"

#define TRANSFER_NAME_MAX 65

/* With whom, and as whom. */
struct transfer {
	struct http *http;
	const char *base, *ca; /* the registry's URL; certificates to trust, or NULL */
	const struct key *key; /* signs the requests */
	/* a node's: whose customer's blobs they are; NULL: the key's own */
	const char *cluster;
	const struct http_abort *abort; /* or NULL */
	/* told how many bytes are sent, or here, of all; may be NULL */
	void (*progress)(void *ctx, int64_t done, int64_t total);
	void *ctx;
	/* out: of this call */
	int64_t bytes, total_bytes; /* that were sent or fetched, and of all blobs */
	int64_t requests;
};

/* Blobs that somebody can read, a manifest last. */
struct transfer_source {
	const struct manifest_blob *blobs;
	size_t n;
	/* Reads blob i into out, which is emptied; by one thread at a time. Returns 0, or -1 with
	 * err_set. */
	int (*read)(void *ctx, size_t i, struct buf *out);
	void *ctx;
};

/* Sends what the registry does not have of them, in their order, two at a time, and the last one
 * when all others are there. Tries each several times. progress is called by one thread at a time.
 * Returns 0, or -1: as http_fetch, or what read set. */
int transfer_send(struct transfer *t, const struct transfer_source *from);

/* The same of a pack. 75: a file has changed since it was packed. */
int transfer_upload(struct transfer *t, const struct pack *p);

/* Fetches the directory whose manifest has that name, and unpacks it; config's fetch is set here.
 * Returns 0, or -1 as unpack and http_fetch. */
int transfer_download(struct transfer *t, const char name[TRANSFER_NAME_MAX],
	const char *path, const struct unpack_config *config);

/* Fetches a blob of at most so many bytes. Its hash is not looked at. Returns 0 or -1. */
int transfer_get(struct transfer *t, const char name[TRANSFER_NAME_MAX],
	int64_t bytes_max, struct buf *out);

#endif
