/* ranks.h - packets between the ranks of a cluster: from a lease's TUN device into one stream a
 * peer, two bytes of length before each, and back. Addresses are checked both ways; queues are
 * bounded, and what does not fit is lost, as in any network. Uses buf, err. */
#ifndef RNP_CMD_REGISTER_AGENT_RANKS_H
#define RNP_CMD_REGISTER_AGENT_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"

#define RANKS_MTU         1300
#define RANKS_QUEUE_BYTES ((size_t)512 << 10) /* to a peer */

struct ranks_peer {
	uint32_t address; /* of the rank, in host order */
	int in, out;      /* of its stream, do not block; -1: it has none */
	unsigned char have[2 + RANKS_MTU];
	size_t nhave;     /* of a packet that has not come whole */
	struct buf queue; /* to be written from queue_from on */
	size_t queue_from;
	uint64_t packets_in, packets_out, lost, refused;
};

struct ranks {
	uint32_t address; /* our own */
	int tun;          /* does not block; -1: none */
	struct ranks_peer *peers;
	size_t npeers;
};

/* Puts a packet of the lease into its peer's queue; one that is not from the lease to a peer with a
 * stream is dropped. Pure. */
void ranks_send(struct ranks *r, const unsigned char *packet, size_t len);

/* Takes bytes of a peer's stream and calls emit for each packet that is whole and is from that peer
 * to us. Returns 0, or -1: the stream is none of ours, since a length in it is impossible. */
typedef void (*ranks_emit_fn)(void *ctx, const unsigned char *packet, size_t len);
int ranks_receive(struct ranks *r, struct ranks_peer *p, const unsigned char *data,
	size_t len, ranks_emit_fn emit, void *ctx);

/* Move what can be moved without waiting: from the device to queues; from a stream to the
 * device; from a queue to its stream. The last two return 0, or -1 when the stream has ended. */
void ranks_from_device(struct ranks *r);
int ranks_from_peer(struct ranks *r, struct ranks_peer *p);
int ranks_to_peer(struct ranks_peer *p);

/* Takes a peer's stream, closes the one that it had, and forgets what was on its way. in and
 * out may be one. -1: it has none now. */
void ranks_attach(struct ranks_peer *p, int in, int out);

/* Makes a TUN device `name` with an address of 10.64.0.0/10 in the network namespace at path
 * ("": ours), and returns it, or -1 with err_set (69: there is none here, 77, 71). Changes the
 * calling thread's namespace for that moment. */
int ranks_open_device(const char *netns, const char *name, uint32_t address);

#endif
