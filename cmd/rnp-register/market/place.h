/* place.h - the addresses of a lease: on its gateway, and among the ranks of its cluster. Pure. */
#ifndef RNP_CMD_REGISTER_MARKET_PLACE_H
#define RNP_CMD_REGISTER_MARKET_PLACE_H

#include <stdint.h>

#define PLACE_TEXT_MAX 16

/* A lease has a number as long as it lives; the registry gives it. */
#define PLACE_NUMBER_MAX INT64_C(16711678)

/* The port that a lease's address on the gateway listens on. */
#define PLACE_PORT 2200

/* Writes the address on the gateway's loopback of lease number n, 1 to PLACE_NUMBER_MAX:
 * 127.1.0.1 is the first. 127.0.0.0/16, where programs of the gateway's machine may listen, is
 * left out. */
void place_on_gateway(int64_t n, char out[PLACE_TEXT_MAX]);

/* Clusters of at most so many ranks have addresses that differ from those of most other
 * clusters. */
#define PLACE_RANKS_APART 1022
#define PLACE_RANKS_MAX   4194302

/* The address of a rank in 10.64.0.0/10, in host order: rank 0 of cluster C is 10.64.0.0 plus
 * (C's first 12 bits) * 1024 + 1. A namespace holds one cluster, so that two clusters with the same
 * addresses never meet. cluster: its id, lower-case hex. ranks: how many it has, beyond
 * PLACE_RANKS_APART all clusters begin at 10.64.0.1. */
uint32_t place_rank(const char *cluster, int64_t ranks, int64_t rank);

/* Writes such an address as text. */
void place_text(uint32_t address, char out[PLACE_TEXT_MAX]);

#endif
