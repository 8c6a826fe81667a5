/* nonces.c - nonces that were used, in a table of sets: a new one takes the place of the
 * oldest of its set. */
#include "common/httpd/nonces.h"

#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/record/key.h"

#define WAYS 8

struct nonces {
	pthread_mutex_t lock;
	unsigned char key[crypto_shorthash_KEYBYTES];
	bool strict;
	size_t nsets;
	struct nonce {
		uint64_t hash;
		int64_t until_s; /* 0: free */
	} (*sets)[WAYS];
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

bool nonces_seen(void *nonces, const char *address, const char *nonce, int64_t until_s)
{
	struct nonces *n = nonces;
	unsigned char text[KEY_ADDRESS_MAX + 256];
	int64_t now_s = clock_now_ms() / 1000;
	struct nonce *set, *oldest;
	uint64_t hash;
	bool there = false;
	int len = snprintf((char *)text, sizeof text, "%s %s", address, nonce);

	if (len >= (int)sizeof text)
		return true; /* nobody of ours has one so long */
	crypto_shorthash((unsigned char *)&hash, text, (size_t)len, n->key);
	pthread_mutex_lock(&n->lock);
	set = oldest = n->sets[hash % n->nsets];
	for (int i = 0; i < WAYS; i++) {
		there = there || (set[i].hash == hash && set[i].until_s);
		if (set[i].until_s < oldest->until_s)
			oldest = &set[i];
	}
	there = there || (n->strict && oldest->until_s >= now_s);
	if (!there)
		*oldest = (struct nonce){ hash, until_s };
	pthread_mutex_unlock(&n->lock);
	return there;
}
