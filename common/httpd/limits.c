/* limits.c - limits of httpd by client and by purpose: requests a second, connections,
 * memory. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "common/base/mem.h"
#include "common/httpd/parts.h"

#define BURST_SECONDS 5

static uint64_t seed;

static void make_seed(void)
{
	if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
		seed = (uint64_t)(uintptr_t)&seed; /* getrandom does not fail on Linux */
}

/* MurmurHash3's finalizer: a bijection, so that two keys of 64 bits never collide. */
static uint64_t mix(uint64_t h)
{
	h = (h ^ (h >> 33)) * UINT64_C(0xff51afd7ed558ccd);
	h = (h ^ (h >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
	return h ^ (h >> 33);
}

uint64_t httpd_client_key(const struct sockaddr *client)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	uint64_t address = 0, family = 4, h;

	pthread_once(&once, make_seed);
	if (client->sa_family == AF_INET6) {
		const struct in6_addr *a =
			&((const struct sockaddr_in6 *)client)->sin6_addr;
		bool v4 = IN6_IS_ADDR_V4MAPPED(a);

		family = v4 ? 4 : 6;
		for (int i = 0; i < (v4 ? 4 : 8); i++)
			address = address << 8 | a->s6_addr[v4 ? 12 + i : i];
	} else if (client->sa_family == AF_INET) {
		address = ntohl(((const struct sockaddr_in *)client)->sin_addr.s_addr);
	}
	h = mix(mix(address ^ seed) + family);
	return h ? h : 1;
}

uint64_t httpd_client_group(const char *client)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };

	if (inet_pton(AF_INET, client, &v4.sin_addr) == 1)
		return httpd_client_key((const struct sockaddr *)&v4);
	inet_pton(AF_INET6, client, &v6.sin6_addr);
	return httpd_client_key((const struct sockaddr *)&v6);
}

bool httpd_limiter_take(struct httpd_limiter *l, uint64_t client, int64_t now_ns)
{
	struct httpd_bucket *b = &l->slots[client % HTTPD_LIMITER_SLOTS];
	int64_t full = l->rate_per_s * BURST_SECONDS * 1000000, waited_us;
	bool ok;

	pthread_mutex_lock(&l->lock);
	if (b->client != client)
		*b = (struct httpd_bucket){ client, full, now_ns };
	waited_us = (now_ns - b->at_ns) / 1000;
	if (waited_us > BURST_SECONDS * INT64_C(1000000))
		waited_us = BURST_SECONDS * INT64_C(1000000);
	b->micro_tokens += waited_us * l->rate_per_s;
	b->at_ns = now_ns;
	if (b->micro_tokens > full)
		b->micro_tokens = full;
	ok = b->micro_tokens >= 1000000;
	if (ok)
		b->micro_tokens -= 1000000;
	pthread_mutex_unlock(&l->lock);
	return ok;
}

struct httpd_client *httpd_clients_enter(struct httpd_clients *all, uint64_t key, int max)
{
	struct httpd_client **slot = &all->slots[key % HTTPD_CLIENT_SLOTS], *c;

	pthread_mutex_lock(&all->lock);
	for (c = *slot; c && c->key != key; c = c->next)
		;
	if (!c) {
		c = xcalloc(1, sizeof *c);
		c->key = key;
		c->next = *slot;
		*slot = c;
	}
	if (c->connections < max)
		c->connections++;
	else
		c = NULL;
	pthread_mutex_unlock(&all->lock);
	return c;
}

void httpd_clients_leave(struct httpd_clients *all, struct httpd_client *client)
{
	struct httpd_client **at = &all->slots[client->key % HTTPD_CLIENT_SLOTS];

	pthread_mutex_lock(&all->lock);
	if (--client->connections == 0) {
		while (*at != client)
			at = &(*at)->next;
		*at = client->next;
		free(client);
	}
	pthread_mutex_unlock(&all->lock);
}

void httpd_budget_force(struct httpd_budget *b, _Atomic size_t *mine, size_t bytes)
{
	b->used += bytes;
	if (mine)
		*mine += bytes;
}

bool httpd_budget_take(struct httpd_budget *b, _Atomic size_t *mine, size_t bytes)
{
	if (bytes > b->max || (mine && bytes > b->share))
		return false;
	httpd_budget_force(b, mine, bytes);
	if (b->used <= b->max && (!mine || *mine <= b->share))
		return true;
	httpd_budget_give(b, mine, bytes);
	return false;
}

void httpd_budget_give(struct httpd_budget *b, _Atomic size_t *mine, size_t bytes)
{
	b->used -= bytes;
	if (mine)
		*mine -= bytes;
}

void httpd_client_text(const struct sockaddr *client, char text[INET6_ADDRSTRLEN])
{
	const void *address = client->sa_family == AF_INET6 ?
		(const void *)&((const struct sockaddr_in6 *)client)->sin6_addr :
		(const void *)&((const struct sockaddr_in *)client)->sin_addr;

	text[0] = '\0';
	inet_ntop(client->sa_family, address, text, INET6_ADDRSTRLEN);
}

bool httpd_is_loopback_name(const char *host)
{
	size_t len = strlen(host), dots;
	const char *colon = strrchr(host, ':');

	if (*host == '[')
		return strncmp(host, "[::1]", 5) == 0 && (!host[5] || host[5] == ':');
	if (colon)
		len = (size_t)(colon - host);
	if (len == 9 && strncasecmp(host, "localhost", 9) == 0)
		return true;
	if (len > 10 && strncasecmp(host + len - 10, ".localhost", 10) == 0)
		return true;
	dots = strspn(host, "0123456789.");
	return dots == len && len >= 9 && strncmp(host, "127.", 4) == 0;
}

bool httpd_listens_alone(const char *listen)
{
	return *listen != ':' && httpd_is_loopback_name(listen);
}

bool httpd_is_loopback(const struct sockaddr *client)
{
	const struct in6_addr *a;

	if (client->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)client)->sin_addr.s_addr) >>
			24 ==
			127;
	a = &((const struct sockaddr_in6 *)client)->sin6_addr;
	return IN6_IS_ADDR_LOOPBACK(a) ||
		(IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127);
}
