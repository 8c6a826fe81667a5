/* images.h - the images that a node keeps: on a disk of bounded size, each in a root of podman of
 * its own. Needs root. Uses podman, volume, sandbox, image.
 *
 * The disk is a volume (volume.h): what an image unpacks to ends where that does, and takes nothing
 * from leases; a restart of the machine forgets it. A root that has no file "image" is of a pull
 * that did not end, and is removed. Where room lacks, images that no lease uses go, the one whose
 * last use is longest ago first. */
#ifndef RNP_REGISTER_AGENT_IMAGES_H
#define RNP_REGISTER_AGENT_IMAGES_H

#include "cmd/rnp-register/agent/engine.h"
#include "cmd/rnp-register/agent/sandbox.h"
#include "cmd/rnp-register/agent/volume.h"

struct images {
	struct volume_place volumes;       /* of one volume */
	const struct sandbox_place *place; /* of the leases */
	char *dir, *data, *run, *netns;
	int64_t size_bytes; /* of the disk */
	bool private_too;
};

/* What is asked for where a disk is made. */
struct images_config {
	const char *dir, *run; /* folder of the disk; podman's, on a tmpfs */
	int64_t size_bytes; /* 0: as it is, else a quarter of what is free, up to 64 GiB */
	int64_t keep_bytes; /* of the machine's disk, never used */
	/* images may come from private addresses, which are what only this machine or its network
	 * reaches; else every connection is to the Internet (egress.h). Where the environment names
	 * a proxy, that decides, but for the registry's own address */
	bool private_too;
};

/* Makes the disk, or goes on with that of an earlier process; one of another size than is asked for
 * is made anew if no lease uses it, else s->size_bytes says what it has. place is borrowed, s is to
 * be zero. Returns 0, or -1 with err_set as volume_open; images_close is fine then, too. */
int images_open(struct images *s, const struct images_config *c,
	const struct sandbox_place *place);
/* The disk stays, for the next process. */
void images_close(struct images *s);

/* Appends podman's root for that image; it is there once it was pulled. Returns 0, or -1 with
 * err_set (65): the reference has no digest. */
int images_root(struct buf *out, const struct images *s, const char *reference);

/* Brings an image, if it is not there, and notes that it is used. One thread at a time. Returns 0,
 * or -1 with err_set as engine_ops.pull, and nothing of it stays; 65: it needs more than the disk
 * has. */
int images_pull(struct images *s, const struct engine_pull_call *call);

/* Calls visit for each image that is there, with its "host/path@digest" and when it was used
 * last. */
void images_each(const struct images *s,
	void (*visit)(void *ctx, const char *root, const char *name, int64_t used_ms),
	void *ctx);

/* How much more of the machine's disk it may take than it has. */
int64_t images_grow(const struct images *s);

/* How much of the disk is free; 0 where that cannot be seen. */
int64_t images_free(const struct images *s);

#endif
