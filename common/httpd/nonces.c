/* nonces.c - nonces that were used, in a table of sets. Whoever floods a set takes the room of
 * nobody: what has to go there is a nonce of the key that has the most. */
#include "common/httpd/nonces.h"

#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/record/key.h"

/* More keys than that have to flood at the same time until somebody else is refused. */
#define WAYS 32

struct nonce {
	uint64_t hash;
	uint32_t who;
	uint32_t until_s; /* 0: free */
};

struct nonces {
	pthread_mutex_t lock;
	unsigned char key[crypto_shorthash_KEYBYTES];
	bool strict;
	size_t nsets;
	struct nonce (*sets)[WAYS];
};

struct nonces *nonces_new(size_t most, bool strict)
{
	struct nonces *n = xcalloc(1, sizeof *n);

	pthread_mutex_init(&n->lock, NULL);
	randombytes_buf(n->key, sizeof n->key);
	n->strict = strict;
	n->nsets = most / WAYS ? most / WAYS : 1;
	n->sets = xcalloc(n->nsets, sizeof *n->sets);
	return n;
}

void nonces_free(struct nonces *n)
{
	if (!n)
		return;
	pthread_mutex_destroy(&n->lock);
	free(n->sets);
	free(n);
}

static uint64_t hash_of(const struct nonces *n, const char *text, size_t len)
{
	uint64_t hash;

	crypto_shorthash((unsigned char *)&hash, (const unsigned char *)text, len,
		n->key);
	return hash;
}

static int count_of(const struct nonce *set, uint32_t who)
{
	int count = 0;

	for (int i = 0; i < WAYS; i++)
		count += set[i].who == who;
	return count;
}

/* Returns the oldest of a key, or of all. */
static struct nonce *oldest_of(struct nonce *set, const uint32_t *who)
{
	struct nonce *oldest = NULL;

	for (int i = 0; i < WAYS; i++)
		if ((!who || set[i].who == *who) &&
			(!oldest || set[i].until_s < oldest->until_s))
			oldest = &set[i];
	return oldest;
}

/* Returns the nonce that makes room in a full set for one of who, or NULL: none may. forgets: it
 * may be one of his own. */
static struct nonce *make_room(struct nonce *set, uint32_t who, bool strict, bool forgets)
{
	int own = count_of(set, who), most = 0;
	uint32_t whose = 0;

	for (int i = 0; i < WAYS; i++) {
		int count = count_of(set, set[i].who);

		if (count > most) {
			most = count;
			whose = set[i].who;
		}
	}
	if (most > own + 1)
		return oldest_of(set, &whose);
	if (own && forgets)
		return oldest_of(set, &who);
	return strict ? NULL : oldest_of(set, NULL);
}

static bool seen(struct nonces *n, bool stranger, const char *address, const char *nonce,
	int64_t until_s)
{
	char text[KEY_ADDRESS_MAX + 256];
	uint32_t now_s = (uint32_t)(clock_now_ms() / 1000), who = 0;
	struct nonce *set, *place;
	uint64_t hash;
	int len = snprintf(text, sizeof text, "%s %s", address, nonce);

	if (len >= (int)sizeof text)
		return true; /* nobody of ours has one so long */
	hash = hash_of(n, text, (size_t)len);
	if (!stranger)
		who = (uint32_t)hash_of(n, address, strlen(address));
	pthread_mutex_lock(&n->lock);
	set = n->sets[hash % n->nsets];
	for (int i = 0; i < WAYS; i++)
		if (set[i].hash == hash && set[i].until_s) {
			pthread_mutex_unlock(&n->lock);
			return true;
		}
	place = oldest_of(set, NULL);
	if (place->until_s >= now_s)
		place = make_room(set, who, n->strict, stranger || !n->strict);
	if (place)
		*place = (struct nonce){ hash, who, (uint32_t)until_s };
	pthread_mutex_unlock(&n->lock);
	return !place;
}

bool nonces_seen(void *nonces, const char *address, const char *nonce, int64_t until_s)
{
	return seen(nonces, false, address, nonce, until_s);
}

bool nonces_seen_of_stranger(void *nonces, const char *address, const char *nonce,
	int64_t until_s)
{
	return seen(nonces, true, address, nonce, until_s);
}
