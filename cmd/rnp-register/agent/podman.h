/* podman.h - an engine (engine.h): podman, asked over its socket by libpod's API of version 4.0.0.
 *
 * Each engine has a podman of its own: a root, a runroot, a configuration, a socket. Its service is
 * started when something is asked and ends by itself when nothing is; containers need it as little
 * as they need us, and images of the node's store are there without being copied. Needs root,
 * podman, conmon and runc. */
#ifndef RNP_REGISTER_AGENT_PODMAN_H
#define RNP_REGISTER_AGENT_PODMAN_H

#include "cmd/rnp-register/agent/engine.h"

struct podman_config {
	/* images and containers: the node's store, or in a lease's volume */
	const char *root;
	/* on a tmpfs: socket, locks, configuration; at most 45 bytes long */
	const char *run;
	const char *images; /* the root of the node's store; NULL: root is it */
	/* The network namespace of its containers, which podman itself lives in: runc enters
	 * that of a running container (exec) after its users, and may then enter no network of
	 * ours. NULL: containers have none. */
	const char *netns;
	const char *proxy;   /* for images, in that namespace; NULL: our environment's */
	const char *program; /* NULL: /usr/bin/podman */
	int64_t idle_ms;     /* the service ends after; 0: 30 s */
};

/* Makes the folders and the configuration; starts nothing. Returns the engine, which the caller
 * closes, or NULL with err_set: 69 podman is not installed, 77 not root, 73 or 74 folders. */
struct engine *podman_open(const struct podman_config *c);

/* Containers run on; the service ends when it idles. NULL is fine. */
void podman_close(struct engine *e);

/* The same, and the service is ended now: nothing of it keeps the volume open. */
void podman_quit(struct engine *e);

#endif
