/* session_file.h - what a lease's sessions need to know: the rnp.session record that the agent
 * writes and the program beside the container reads. Uses sshkey, place, key, json, err. */
#ifndef RNP_CMD_REGISTER_AGENT_SESSION_FILE_H
#define RNP_CMD_REGISTER_AGENT_SESSION_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "cmd/rnp-register/market/place.h"
#include "cmd/rnp-register/market/sshkey.h"
#include "common/record/key.h"

#define SESSION_KEYS_MAX  64
#define SESSION_PEERS_MAX 255
#define SESSION_NAME_MAX  256
#define SESSION_PATH_MAX  400

/* Another rank of the cluster. */
struct session_peer {
	int64_t rank, number;
	uint32_t address; /* among the ranks, in host order */
	unsigned char public_key[KEY_PUBLIC_BYTES];
	struct sshkey host_key; /* of its sshd */
};

struct session_file {
	char cluster[33];
	int64_t rank, ranks, number;
	uint32_t address; /* among the ranks */
	char gateway_host[SESSION_NAME_MAX], gateway_user[33];
	int64_t gateway_port;
	struct sshkey gateway_key;
	char user[33]; /* that sessions run as, without rights */
	char host_key_file[SESSION_PATH_MAX];
	char netns[SESSION_PATH_MAX]; /* "": ours */
	char container[65];           /* "": none yet */
	char go[SESSION_PATH_MAX];    /* nobody runs anything before this file is there */
	char podman_root[SESSION_PATH_MAX], podman_run[SESSION_PATH_MAX],
		podman_images[SESSION_PATH_MAX];
	struct sshkey keys[SESSION_KEYS_MAX]; /* of the booking */
	size_t nkeys;
	struct session_peer *peers; /* in no order */
	size_t npeers;
};

/* Reads the file at path. Returns 0, or -1 with err_set and nothing to release. */
int session_file_read(struct session_file *out, const char *path);
void session_file_release(struct session_file *f);

#endif
