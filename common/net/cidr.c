/* cidr.c - blocks of addresses. */
#include "common/net/cidr.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "common/base/err.h"

static const unsigned char v4_prefix[12] = { [10] = 0xff, [11] = 0xff };

int net_address_parse(struct net_address *out, const char *text, size_t n)
{
	char copy[INET6_ADDRSTRLEN];

	if (n >= sizeof copy)
		return -1;
	memcpy(copy, text, n);
	copy[n] = '\0';
	if (inet_pton(AF_INET6, copy, out->bytes) == 1)
		return 0;
	memcpy(out->bytes, v4_prefix, sizeof v4_prefix);
	return inet_pton(AF_INET, copy, out->bytes + 12) == 1 ? 0 : -1;
}

struct net_address net_address_of(const struct sockaddr *from)
{
	struct net_address a = { { 0 } };

	if (from->sa_family == AF_INET6) {
		memcpy(a.bytes,
			&((const struct sockaddr_in6 *)(const void *)from)->sin6_addr,
			16);
	} else if (from->sa_family == AF_INET) {
		memcpy(a.bytes, v4_prefix, sizeof v4_prefix);
		memcpy(a.bytes + 12,
			&((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
	}
	return a;
}

void net_address_to(const struct net_address *a, struct sockaddr_storage *out)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	bool is_v4 = memcmp(a->bytes, v4_prefix, sizeof v4_prefix) == 0;

	memset(out, 0, sizeof *out);
	memcpy(&v6.sin6_addr, a->bytes, 16);
	memcpy(&v4.sin_addr, a->bytes + 12, 4);
	memcpy(out, is_v4 ? (const void *)&v4 : (const void *)&v6,
		is_v4 ? sizeof v4 : sizeof v6);
}

static bool shares(const struct net_address *a, const struct net_address *b, int bits)
{
	int whole = bits / 8, rest = bits % 8;

	return memcmp(a->bytes, b->bytes, (size_t)whole) == 0 &&
		(!rest || !((a->bytes[whole] ^ b->bytes[whole]) >> (8 - rest)));
}

int net_cidr_parse(struct net_cidr *out, const char *text, const char *what)
{
	size_t n = strcspn(text, "/");
	bool v6 = memchr(text, ':', n) != NULL;
	const char *s = text + n + 1;
	int bits = v6 ? 128 : 32;
	struct net_address a;

	if (net_address_parse(&out->first, text, n) < 0)
		goto bad;
	if (text[n]) {
		size_t digits = strspn(s, "0123456789");

		if (!digits || digits > 3 || s[digits])
			goto bad;
		for (bits = 0; *s; s++)
			bits = bits * 10 + *s - '0';
		if (bits > (v6 ? 128 : 32))
			goto bad;
	}
	out->bits = v6 ? bits : 96 + bits;
	a = out->first;
	for (int i = out->bits; i < 128; i++)
		a.bytes[i / 8] &= (unsigned char)~(0x80 >> i % 8);
	if (memcmp(&a, &out->first, sizeof a) == 0)
		return 0;
bad:
	return err_set(EX_USAGE,
		"%s: '%s' is not a block of addresses such as 10.0.0.0/8", what, text);
}

bool net_cidr_has(const struct net_cidr *blocks, size_t n, const struct net_address *a)
{
	for (size_t i = 0; i < n; i++)
		if (shares(&blocks[i].first, a, blocks[i].bits))
			return true;
	return false;
}
