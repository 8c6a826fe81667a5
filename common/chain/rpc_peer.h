/* rpc_peer.h - tells whether two RPC servers are one. A decision needs two servers, and one
 * server with two names must not make it alone. Pure. */
#ifndef RNP_COMMON_CHAIN_RPC_PEER_H
#define RNP_COMMON_CHAIN_RPC_PEER_H

#include <stdbool.h>

#define RPC_PEER_NAME_MAX 320
#define RPC_PEER_HOST_MAX 256
#define RPC_PEER_IP_MAX   64

struct rpc_peer {
	/* scheme, host and port, for messages and the ledger. Others read those, and the path,
	 * query and user name of a URL often hold somebody's key. */
	char name[RPC_PEER_NAME_MAX];
	/* in lower case; "localhost" for every address of loopback */
	char host[RPC_PEER_HOST_MAX];
	int port;
	bool tls;
	char ip[RPC_PEER_IP_MAX]; /* that has answered, in the form of host; "": not known */
	int ip_port;
	bool is_public; /* that address is on the public internet */
};

/* Parses a URL. Returns 0, or -1 (64): it is no http or https URL. */
int rpc_peer_parse(struct rpc_peer *out, const char *url);

/* Notes the address that has answered; own: it is one of this machine. */
void rpc_peer_note_address(struct rpc_peer *v, const char *ip, int port, bool own);

/* Whether both have one host and one port, whatever their paths: the same server answers. */
bool rpc_peer_same(const struct rpc_peer *a, const struct rpc_peer *b);

/* Whether they are one server, also by the addresses that have answered. Many servers may stand
 * behind one public address: if both have TLS, their certificates tell them apart. */
bool rpc_peer_same_server(const struct rpc_peer *a, const struct rpc_peer *b);

#endif
