/* cidr.h - blocks of addresses, "10.0.0.0/8", of IPv4 and IPv6. Uses err, libc. */
#ifndef RNP_COMMON_NET_CIDR_H
#define RNP_COMMON_NET_CIDR_H

#include <stdbool.h>
#include <stddef.h>

struct sockaddr;
struct sockaddr_storage;

/* An address: IPv6, or IPv4 as ::ffff:a.b.c.d. */
struct net_address {
	unsigned char bytes[16];
};

struct net_cidr {
	struct net_address first;
	int bits; /* of the 128 that an address of the block shares with first */
};

/* Parses "ADDRESS/BITS", or an address alone. what names it in errors. Returns 0, or -1 (64): it is
 * none, or bits beyond BITS are set. Pure. */
int net_cidr_parse(struct net_cidr *out, const char *text, const char *what);

/* Whether one of n blocks has the address. Pure. */
bool net_cidr_has(const struct net_cidr *blocks, size_t n, const struct net_address *a);

/* Parses n bytes, "203.0.113.7" or "2001:db8::1". Returns 0, or -1 (no err_set). Pure. */
int net_address_parse(struct net_address *out, const char *text, size_t n);

/* The same as the address of a socket, IPv4 as such. Pure. */
void net_address_to(const struct net_address *a, struct sockaddr_storage *out);

/* The address of a socket's end; zeros where it is neither IPv4 nor IPv6. Pure. */
struct net_address net_address_of(const struct sockaddr *from);

#endif
