/* sshd.h - the gateway's sshd: its configuration and its host key. Uses sshkey, io, err, buf. */
#ifndef RNP_CMD_REGISTER_GATEWAY_SSHD_H
#define RNP_CMD_REGISTER_GATEWAY_SSHD_H

#include "cmd/rnp-register/market/sshkey.h"
#include "common/base/buf.h"

struct gateway_sshd {
	const char *host; /* to listen on; "": all addresses */
	int port;
	const char *user;      /* the one that we are, and the only one that may log in */
	const char *directory; /* its own, with the host key */
	const char *program;   /* of ours, whole path: what sshd asks about keys */
};

/* Appends the text of sshd_config(5). Returns 0, or -1 (64): a path with a character that means
 * something there. */
int gateway_sshd_config(struct buf *out, const struct gateway_sshd *s);

/* Reads the host key of a directory, "host_key", an rnp.keyfile, or makes one; and writes beside it
 * what sshd reads, "ssh_host_key". Returns 0 with the public half, or -1. */
int gateway_host_key(const char *directory, struct sshkey *out);

/* Checks that sshd will run a program: it and each folder above it belong to root and are
 * writable by nobody else. Returns 0, or -1 (77) with the path that is not. */
int gateway_check_owner(const char *path);

#endif
