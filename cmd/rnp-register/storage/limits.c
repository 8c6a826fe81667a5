/* limits.c - token buckets in fixed memory: a table of small sets, in each of which the least used
 * bucket is evicted. A limit that is used up is reset only where more such clients than a set has
 * slots meet in it, which a random key of the hash leaves to chance. */
#include "cmd/rnp-register/storage/limits.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/num.h"

#define SETS          16384
#define WAYS          4
#define DAY_S         86400.0
#define BYTES_PER_DAY ((int64_t)64 << 20)

#define JOIN_BITS  20
#define JOIN_SLACK 4
#define JOIN_QUIET 64 /* that join within an hour before the work increases */
#define SLOT_MS    INT64_C(600000)
#define MAC_BYTES  crypto_generichash_BYTES_MIN

struct bucket {
	uint64_t who; /* hash of limit and name; 0: free slot */
	int64_t at_ms;
	float used; /* part of the burst, at at_ms */
};

struct rule {
	double burst, per_s;
};

struct limits {
	struct limits_config config;
	struct rule rules[LIMITS];
	unsigned char hash_key[crypto_shorthash_KEYBYTES];
	unsigned char mac_key[crypto_generichash_KEYBYTES];
	pthread_mutex_t lock;
	struct bucket sets[SETS][WAYS];
	int64_t minute;     /* of the last entry of joins */
	uint32_t joins[60]; /* joins in each of the last 60 minutes */
};

struct limits *limits_new(const struct limits_config *config)
{
	struct limits *l = xcalloc(1, sizeof *l);

	l->config = *config;
	if (!l->config.bytes_per_day)
		l->config.bytes_per_day = BYTES_PER_DAY;
	if (!l->config.join_bits)
		l->config.join_bits = JOIN_BITS;
	l->rules[LIMIT_BYTES] = (struct rule){ (double)l->config.bytes_per_day,
		(double)l->config.bytes_per_day / DAY_S };
	l->rules[LIMIT_TOKENS] = (struct rule){ 64, 64 / 3600.0 };
	l->rules[LIMIT_BEATS] = (struct rule){ 120, 1 };
	l->rules[LIMIT_NODES] = (struct rule){ 48, 48 / DAY_S };
	l->rules[LIMIT_RECORDS] = (struct rule){ 2000, 2000 / DAY_S };
	l->rules[LIMIT_PLANS] = (struct rule){ 10, 1 };
	l->rules[LIMIT_EVENTS] = (struct rule){ 3000, 1 };
	randombytes_buf(l->hash_key, sizeof l->hash_key);
	randombytes_buf(l->mac_key, sizeof l->mac_key);
	pthread_mutex_init(&l->lock, NULL);
	return l;
}

void limits_free(struct limits *l)
{
	if (!l)
		return;
	pthread_mutex_destroy(&l->lock);
	free(l);
}

/* --- buckets ------------------------------------------------------------------------------ */

static double used_now(const struct limits *l, const struct bucket *b, enum limit what,
	int64_t now_ms)
{
	int64_t passed_ms = now_ms > b->at_ms ? now_ms - b->at_ms : 0;
	double used = (double)b->used - l->rules[what].per_s * (double)passed_ms / 1e3;

	return used > 0 ? used : 0;
}

static uint64_t hash_of(const struct limits *l, enum limit what, const char *who)
{
	unsigned char hash[crypto_shorthash_BYTES];
	char text[160];
	int len = snprintf(text, sizeof text, "%d:%s", (int)what, who);
	uint64_t h;

	if (len >= (int)sizeof text)
		len = sizeof text - 1;
	crypto_shorthash(hash, (const unsigned char *)text, (unsigned long long)len,
		l->hash_key);
	memcpy(&h, hash, sizeof h);
	return h | 1;
}

/* Returns the bucket of that hash, or the one to evict for it: free, or the least used. */
static struct bucket *bucket_of(struct limits *l, uint64_t h, bool *found)
{
	struct bucket *set = l->sets[(h >> 8) % SETS], *min = set;

	for (int i = 0; i < WAYS; i++) {
		if (set[i].who == h) {
			*found = true;
			return &set[i];
		}
		if (!set[i].who || (min->who && set[i].used < min->used))
			min = &set[i];
	}
	*found = false;
	return min;
}

static bool take(struct limits *l, enum limit what, const char *who, double amount,
	int64_t now_ms, bool keep, bool anyway)
{
	uint64_t h = hash_of(l, what, who);
	struct bucket *b;
	bool found, fits;
	double used;

	pthread_mutex_lock(&l->lock);
	b = bucket_of(l, h, &found);
	used = found ? used_now(l, b, what, now_ms) : 0;
	fits = used + amount <= l->rules[what].burst;
	if (keep && (fits || anyway))
		*b = (struct bucket){ h, now_ms, (float)(used + amount) };
	pthread_mutex_unlock(&l->lock);
	return fits;
}

bool limits_has(struct limits *l, enum limit what, const char *who, double amount,
	int64_t now_ms)
{
	return take(l, what, who, amount, now_ms, false, false);
}

bool limits_take(struct limits *l, enum limit what, const char *who, double amount,
	int64_t now_ms)
{
	return take(l, what, who, amount, now_ms, true, false);
}

void limits_charge(struct limits *l, enum limit what, const char *who, double amount,
	int64_t now_ms)
{
	(void)take(l, what, who, amount, now_ms, true, true);
}

/* --- addresses ---------------------------------------------------------------------------- */

void limits_client(char out[LIMITS_CLIENT_MAX], const char *client)
{
	struct in6_addr a;

	if (inet_pton(AF_INET6, client, &a) == 1 && !IN6_IS_ADDR_V4MAPPED(&a)) {
		memset(a.s6_addr + 8, 0, 8);
		inet_ntop(AF_INET6, &a, out, LIMITS_CLIENT_MAX);
		return;
	}
	snprintf(out, LIMITS_CLIENT_MAX, "%s",
		strncmp(client, "::ffff:", 7) == 0 ? client + 7 : client);
}

void limits_block(char out[LIMITS_CLIENT_MAX], const char *client)
{
	struct in6_addr six;
	char *dot;

	limits_client(out, client);
	if (inet_pton(AF_INET6, out, &six) == 1) {
		memset(six.s6_addr + 6, 0, 10);
		inet_ntop(AF_INET6, &six, out, LIMITS_CLIENT_MAX);
	} else if ((dot = strrchr(out, '.'))) {
		*dot = '\0';
	}
}

bool limits_hold_for(const struct limits *l, const char *client)
{
	char who[LIMITS_CLIENT_MAX];

	limits_client(who, client);
	return l->config.loopback ||
		(strncmp(who, "127.", 4) != 0 && strcmp(client, "::1") != 0);
}

/* --- joining ------------------------------------------------------------------------------ */

/* Drops the minutes that are over; called with the lock held. */
static void turn_minutes(struct limits *l, int64_t now_ms)
{
	int64_t minute = now_ms / 60000;

	for (int i = 0; i < 60 && l->minute < minute; i++)
		l->joins[++l->minute % 60] = 0;
	l->minute = minute;
}

int limits_join_bits(struct limits *l, int64_t now_ms)
{
	int bits = l->config.join_bits;
	uint64_t sum = 0;

	pthread_mutex_lock(&l->lock);
	turn_minutes(l, now_ms);
	for (int i = 0; i < 60; i++)
		sum += l->joins[i];
	pthread_mutex_unlock(&l->lock);
	for (; sum >= 2 * JOIN_QUIET; sum /= 2)
		bits += 2;
	return bits < WORK_BITS_MAX ? bits : WORK_BITS_MAX;
}

void limits_joined(struct limits *l, int64_t now_ms)
{
	pthread_mutex_lock(&l->lock);
	turn_minutes(l, now_ms);
	l->joins[l->minute % 60]++;
	pthread_mutex_unlock(&l->lock);
}

/* "SLOT-BITS-MAC": the server stores nothing for an issued token. */
static void write_token(const struct limits *l, const char *node, int bits, int64_t slot,
	char out[WORK_TOKEN_MAX])
{
	unsigned char mac[MAC_BYTES];
	char text[160], hex[2 * MAC_BYTES + 1];
	int len = snprintf(text, sizeof text, "%" PRId64 "-%d-%.60s", slot, bits, node);

	crypto_generichash(mac, sizeof mac, (const unsigned char *)text,
		(unsigned long long)len, l->mac_key, sizeof l->mac_key);
	sodium_bin2hex(hex, sizeof hex, mac, sizeof mac);
	snprintf(out, WORK_TOKEN_MAX, "%" PRId64 "-%d-%s", slot, bits, hex);
}

void limits_join_token(struct limits *l, const char *node, int bits, int64_t now_ms,
	char out[WORK_TOKEN_MAX])
{
	write_token(l, node, bits, now_ms / SLOT_MS, out);
}

bool limits_join_check(struct limits *l, const char *node, const char *work,
	int64_t now_ms)
{
	char token[WORK_TOKEN_MAX], ours[WORK_TOKEN_MAX];
	const char *dot = strrchr(work, '.');
	int64_t number, slot = 0;
	int bits = 0;

	if (!dot || (size_t)(dot - work) >= sizeof token)
		return false;
	snprintf(token, sizeof token, "%.*s", (int)(dot - work), work);
	if (num_i64(dot + 1, "work", 0, INT64_MAX, &number) < 0) {
		err_clear();
		return false;
	}
	if (sscanf(token, "%" SCNd64 "-%d-", &slot, &bits) != 2 || bits < 1 ||
		bits > WORK_BITS_MAX || slot > now_ms / SLOT_MS ||
		slot < now_ms / SLOT_MS - 1 ||
		bits < limits_join_bits(l, now_ms) - JOIN_SLACK)
		return false;
	write_token(l, node, bits, slot, ours);
	return strlen(token) == strlen(ours) &&
		sodium_memcmp(token, ours, strlen(ours)) == 0 &&
		work_check(token, node, (uint64_t)number, bits);
}
