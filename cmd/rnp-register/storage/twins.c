/* twins.c - the last instances of each node, in sets that a keyed hash chooses. */
#include "cmd/rnp-register/storage/twins.h"

#include <pthread.h>
#include <sodium.h>
#include <string.h>

#include "common/base/mem.h"

#define SETS 16384
#define WAYS 4
/* more machines than that with one key are found when two of them meet */
#define INSTANCES 4
/* longer than any promise of a heartbeat: what was silent for that long is over */
#define LIVES_MS INT64_C(5400000)
#define AGAIN_MS INT64_C(3600000)
#define TURNS    2

struct twin {
	uint64_t who; /* hash of the node; 0: free */
	/* hashes of the instances, the last one first, and when each came */
	uint64_t instances[INSTANCES];
	int64_t at_ms[INSTANCES];
	int turns;        /* how often one came again after another */
	int64_t found_ms; /* when that was often enough; 0: never */
};

struct twins {
	unsigned char hash_key[crypto_shorthash_KEYBYTES];
	pthread_mutex_t lock;
	struct twin sets[SETS][WAYS];
};

struct twins *twins_new(void)
{
	struct twins *t = xcalloc(1, sizeof *t);

	randombytes_buf(t->hash_key, sizeof t->hash_key);
	pthread_mutex_init(&t->lock, NULL);
	return t;
}

void twins_free(struct twins *t)
{
	if (!t)
		return;
	pthread_mutex_destroy(&t->lock);
	free(t);
}

static uint64_t hash_of(const struct twins *t, const char *text)
{
	unsigned char hash[crypto_shorthash_BYTES];
	uint64_t h;

	crypto_shorthash(hash, (const unsigned char *)text, strlen(text), t->hash_key);
	memcpy(&h, hash, sizeof h);
	return h | 1;
}

/* Returns the node's place, or if it has none, the one of its set that was silent longest. */
static struct twin *place_of(struct twins *t, uint64_t who)
{
	struct twin *set = t->sets[(who >> 8) % SETS], *oldest = set;

	for (int i = 0; i < WAYS; i++) {
		if (set[i].who == who)
			return &set[i];
		if (set[i].at_ms[0] < oldest->at_ms[0])
			oldest = &set[i];
	}
	return oldest;
}

/* Puts the instance before the others. Returns whether it came again after another one. */
static bool move_first(struct twin *w, uint64_t instance, int64_t now_ms)
{
	int at = 0;
	bool again;

	while (at < INSTANCES - 1 && w->instances[at] != instance)
		at++;
	again = at > 0 && w->instances[at] == instance &&
		now_ms - w->at_ms[at] < LIVES_MS;
	memmove(w->instances + 1, w->instances, (size_t)at * sizeof *w->instances);
	memmove(w->at_ms + 1, w->at_ms, (size_t)at * sizeof *w->at_ms);
	w->instances[0] = instance;
	w->at_ms[0] = now_ms;
	return again;
}

static int64_t silent_ms(const struct twin *w, int64_t now_ms)
{
	int64_t ms = now_ms - w->at_ms[1];

	return w->found_ms && w->instances[1] && ms >= 0 && ms < LIVES_MS ? ms : -1;
}

int64_t twins_note(struct twins *t, const char *node, const char *instance,
	int64_t now_ms, bool *first)
{
	uint64_t who = hash_of(t, node), one = hash_of(t, instance);
	struct twin *w;
	int64_t ms;

	*first = false;
	pthread_mutex_lock(&t->lock);
	w = place_of(t, who);
	if (w->who != who)
		*w = (struct twin){ .who = who };
	if (now_ms - w->at_ms[0] >= LIVES_MS)
		w->turns = 0;
	if (move_first(w, one, now_ms) && ++w->turns >= TURNS) {
		*first = !w->found_ms || now_ms - w->found_ms >= AGAIN_MS;
		if (*first)
			w->found_ms = now_ms;
	}
	ms = silent_ms(w, now_ms);
	pthread_mutex_unlock(&t->lock);
	return ms;
}

int64_t twins_of(struct twins *t, const char *node, int64_t now_ms)
{
	uint64_t who = hash_of(t, node);
	const struct twin *w;
	int64_t ms;

	pthread_mutex_lock(&t->lock);
	w = place_of(t, who);
	ms = w->who == who ? silent_ms(w, now_ms) : -1;
	pthread_mutex_unlock(&t->lock);
	return ms;
}
