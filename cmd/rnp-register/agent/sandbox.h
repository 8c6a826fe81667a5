/* sandbox.h - an engine (engine.h) for one lease: a container with a disk of its own, a network
 * of its own and a podman of its own. create makes all of it, remove ends all of it. Needs root.
 * Uses podman, volume, network.
 *
 * A lease ID has a volume (volume.h) with podman's root in its encrypted folder and a folder
 * "out", where the container says how its run ended; a namespace (network.h); and a folder below
 * RUN, on a tmpfs, with podman's socket, a link "images" to the root in which its image is, and a
 * folder "in", which the container sees as /run/rnp and cannot write, and no user of this machine
 * but root sees. Its command is to begin with SANDBOX_GATE, which lets nothing of the image run
 * before its time. */
#ifndef RNP_REGISTER_AGENT_SANDBOX_H
#define RNP_REGISTER_AGENT_SANDBOX_H

#include "cmd/rnp-register/agent/engine.h"
#include "cmd/rnp-register/agent/network.h"
#include "cmd/rnp-register/agent/volume.h"

#define SANDBOX_IN   "/run/rnp"     /* in the container */
#define SANDBOX_OUT  "/run/rnp-out" /* in the container; its file "exit" */
#define SANDBOX_WORK "/root/sky_workdir"
#define SANDBOX_GATE "/run/rnp-gate" /* in the container: gate.c, which it cannot write */

struct sandbox_place {
	struct volume_place volumes;
	struct network_place networks;
	const char *run; /* folder on a tmpfs; at most 20 bytes long */
};

/* Says in which root of podman the image of a lease is, or will be (images.h), before anything else
 * of it is made. Returns 0, or -1 with err_set. */
int sandbox_set_images(const struct sandbox_place *place, const char *id,
	const char *root);

/* Appends that root. Returns 0, or -1 with err_set (66): nobody has said. */
int sandbox_images(struct buf *out, const struct sandbox_place *place, const char *id);

/* Whether a lease has its image there. */
bool sandbox_uses(const struct sandbox_place *place, const char *root);

/* Returns the engine of lease id, which sandbox_close ends and the caller must; place is borrowed.
 * Nothing is made yet, and what an earlier process made is found. NULL with err_set. */
struct engine *sandbox_open(const struct sandbox_place *place, const char *id);
void sandbox_close(struct engine *e); /* the container runs on */

/* Appends the path of the lease's folder "in" on this machine. Pure. */
void sandbox_in(struct buf *out, const struct sandbox_place *place, const char *id);

/* Opens a folder of its volume: "out", which is the container's; "": that in which it lies, as does
 * the work directory, "work". Returns a descriptor, or -1 with err_set. */
int sandbox_folder(const struct sandbox_place *place, const char *id, const char *name);

/* How often the container has put its artifacts into the folder "artifacts" of "out". */
int64_t sandbox_collected(const struct sandbox_place *place, const char *id);
/* When it last could not, as its disk was full, by the clock of its files; 0: never. */
int64_t sandbox_lost(const struct sandbox_place *place, const char *id);

/* Appends the path of its podman's root, or of its folder on the tmpfs. Pure. */
void sandbox_podman(struct buf *out, const struct sandbox_place *place, const char *id,
	bool run);

/* Reads how the container says that its run ended. Returns 0 to 255, or -1: it has not (no
 * err_set). */
int sandbox_exit(const struct sandbox_place *place, const char *id);
/* Forgets it, before another run. */
void sandbox_forget_exit(const struct sandbox_place *place, const char *id);

#endif
