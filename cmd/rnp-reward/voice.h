/* voice.h - which RPC servers are one voice: what two say must not be the word of one server that has
 * two names. Pure. */
#ifndef RNP_CMD_REWARD_VOICE_H
#define RNP_CMD_REWARD_VOICE_H

#include <stdbool.h>

#define VOICE_NAME_MAX 320
#define VOICE_HOST_MAX 256
#define VOICE_IP_MAX   64

struct voice {
	/* scheme, host and port, for messages and the ledger, which others read: paths, queries and
	 * user names often hold somebody's key */
	char name[VOICE_NAME_MAX];
	char host
		[VOICE_HOST_MAX]; /* in lower case; "localhost" for every address of loopback */
	int port;
	bool tls;
	char ip[VOICE_IP_MAX]; /* of the server that answered, as host; "": not known */
	int ip_port;
	bool is_public; /* that address is on the public internet */
};

/* Reads a URL. Returns 0, or -1: 64 it is none of http or https. */
int voice_read(struct voice *out, const char *url);

/* Remembers the address of a server that has answered, or that it is this machine. */
void voice_heard(struct voice *v, const char *ip, int port, bool own);

/* Whether they have one host and one port, whatever their paths: who serves the one serves the other. */
bool voice_same(const struct voice *a, const struct voice *b);

/* Whether they are one voice, also by the addresses that have answered. Behind one public address there
 * may be many servers: if both have TLS, their certificates say that they are not one. */
bool voice_same_server(const struct voice *a, const struct voice *b);

#endif
