/* door.h - the texts that make a lease's SSH: of the sshd that leads into its container, and of the
 * ssh that keeps the tunnel to the gateway and reaches the other ranks. Uses session_file, buf.
 * Pure. */
#ifndef RNP_CMD_REGISTER_AGENT_DOOR_H
#define RNP_CMD_REGISTER_AGENT_DOOR_H

#include "cmd/rnp-register/agent/session_file.h"
#include "common/base/buf.h"

/* Whose texts: directory is the lease's own, program our own, whole paths without blanks. */
struct door {
	const struct session_file *file;
	const char *directory, *program;
	const char *identity; /* the node's key, as ssh reads it */
	/* the key that its address is, which tries the way that customers take */
	const unsigned char *public_key;
};

/* sshd_config(5) of an sshd that serves one connection as the lease's user. What a key may do
 * stands in authorized_keys. */
void door_sshd_config(struct buf *out, const struct door *d);

/* The customer's keys may run commands in the container and reach its ports; those of higher ranks
 * bring their packets; the node's own tries whether a session begins. */
void door_authorized_keys(struct buf *out, const struct door *d);

/* ssh_config(5): the hosts "gateway", "self", and "rank-N" for each peer; and the host keys of all,
 * which alone are accepted. self is this lease's own sshd, by the gateway. */
void door_ssh_config(struct buf *out, const struct door *d);
void door_known_hosts(struct buf *out, const struct door *d,
	const struct sshkey *own_host_key);

#endif
