/* image.h - names of images, and the manifests behind them: how many layers there are, how large,
 * for which processor. Uses json, sha256, buf, err; image_size_fetch
 * and image_digest_fetch also http.
 *
 * A manifest comes from whoever runs the registry of the image; it is taken only if its hash is the
 * digest that was asked for. */
#ifndef RNP_REGISTER_AGENT_IMAGE_H
#define RNP_REGISTER_AGENT_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"

#define IMAGE_DIGEST_MAX 72 /* "sha256:" and 64 digits, with the NUL */
#define IMAGE_NAME_MAX   256
#define IMAGE_LAYERS_MAX 512

/* "host[:port]/path@sha256:digits"; a tag between path and digest says nothing and is dropped. */
struct image_name {
	char host[IMAGE_NAME_MAX]; /* with its port; "docker.io" where none is named */
	char path[IMAGE_NAME_MAX];
	char digest[IMAGE_DIGEST_MAX];
	bool local; /* the host is this machine's loopback, where registries speak plain HTTP */
	bool public_only; /* set by the caller: no private address is asked for it (65) */
};

/* Parses a reference. "name@sha256:..." is docker.io's, as everywhere, and "library/" is put before
 * a path of one part there. Returns 0, or -1 with err_set (65): it has no digest, or is no name.
 * Pure. */
int image_name_parse(struct image_name *out, const char *reference);

/* Appends "host/path@digest". */
void image_name_write(struct buf *out, const struct image_name *n);

/* What a manifest says. */
struct image_size {
	int layers;
	int64_t bytes; /* of all layers, as they are sent */
	/* digest of the manifest for this machine, where this one is a list; else "" */
	char next[IMAGE_DIGEST_MAX];
};

/* Reads a manifest or a list of manifests, of OCI or Docker, for Linux on `arch` ("amd64"). Returns
 * 0, or -1 with err_set (65): it is malformed, or the list has nothing for that processor; the
 * sentence names what it has. Pure. */
int image_size_read(struct image_size *out, const char *text, size_t len,
	const char *arch);

/* "amd64" or what this machine is. */
const char *image_arch(void);

struct http;

/* Asks the registry of the image. tls off for a loopback registry alone. Returns 0; -1 with
 * err_set: as http_fetch, and 65: the manifest is not what the digest names. */
int image_size_fetch(struct http *h, const struct image_name *n, struct image_size *out);

/* Finds the digest that "debian:12" or "debian" (latest) stands for at its registry at present, and
 * appends "docker.io/library/debian@sha256:...". A reference that has a digest is appended as it
 * is written, and nobody is asked. Returns 0; -1 with err_set: as http_fetch, and 65: it is no
 * name. */
int image_digest_fetch(struct http *h, const char *reference, struct buf *out);

#endif
