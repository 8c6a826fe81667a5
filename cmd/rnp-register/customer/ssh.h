/* ssh.h - the configuration with which plain ssh, scp and rsync reach the nodes of a cluster: where
 * they are, by which gateway, and which host keys are theirs. Uses signature, sshkey, place, json,
 * buf, err. Pure. */
#ifndef RNP_REGISTER_CUSTOMER_SSH_H
#define RNP_REGISTER_CUSTOMER_SSH_H

#include <jansson.h>
#include <stdint.h>

#include "cmd/rnp-register/market/sshkey.h"
#include "common/base/buf.h"

#define CUSTOMER_SSH_RANKS_MAX 256

/* A rank that can be reached. */
struct customer_rank {
	int64_t rank;
	char node[64], ssh[16]; /* its address; its place on the gateway */
	struct sshkey host_key; /* type "": not known yet */
};

struct customer_ssh {
	char cluster[33],
		registry[64]; /* the registry's address, which has signed both below */
	char host[256], user[33]; /* of the gateway */
	int64_t port;
	struct sshkey gateway_key;
	struct customer_rank ranks[CUSTOMER_SSH_RANKS_MAX];
	size_t n;
};

/* Takes an rnp.cluster: its registry, and the newest node of each rank. Returns 0, or -1: 77 nobody
 * has signed it as its `signer`, 65 malformed, 75 none of its nodes has a place yet. */
int customer_ssh_cluster(struct customer_ssh *s, const json_t *record);

/* Takes the first of the gateways that the cluster's registry has signed. Returns 0, or -1: 69
 * there is none, 77 another's signature. */
int customer_ssh_gateway(struct customer_ssh *s, const json_t *reply);

/* Takes a node's listing, which it has signed. Returns 0, or -1: 69 there is none, or it names
 * no host key; 77 it is not the node's. */
int customer_ssh_listing(struct customer_rank *r, const json_t *reply);

/* Appends known_hosts, and ssh_config with a host "CLUSTER-RANK" for each rank, and "CLUSTER"
 * for the first. known_hosts: the path of the former; identity: a key file, or NULL. */
void customer_ssh_known_hosts(struct buf *out, const struct customer_ssh *s);
void customer_ssh_config(struct buf *out, const struct customer_ssh *s,
	const char *known_hosts, const char *identity);

#endif
