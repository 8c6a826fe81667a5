/* keys.h - API keys: which client sent a request, and its limits. Uses libsodium, json,
 * pthreads.
 *
 * The server stores only the BLAKE2b-256 hash of a key, and compares it in constant time with
 * all of them. Limits are a token bucket that holds one minute's tokens, and a number of
 * concurrent streams; both are taken before there is work, and what was not needed is given
 * back. */
#ifndef RNP_SERVE_REQUEST_KEYS_H
#define RNP_SERVE_REQUEST_KEYS_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "cmd/rnp-serve/request/times.h"

#define API_KEY_HASH 32
#define API_KEY_TEXT 48 /* size of a new key: "rnp-" and 43 characters, and a NUL */

struct api_key {
	char name[65];
	unsigned char hash[API_KEY_HASH];
	int64_t limit_tokens;   /* a minute; 0: none */
	uint32_t limit_streams; /* 0: none */
	uint64_t id;            /* for groups and name spaces */
	bool revoked;           /* its line was removed from the file */
	/* current state, and counts since the start */
	double bucket;
	int64_t filled_ns; /* time of the last update of bucket; 0: never used */
	uint32_t streams;
	uint64_t requests, prompt_tokens, generated_tokens, refused;
	struct request_times times;
};

struct keys {
	pthread_mutex_t lock;
	char *path;
	struct api_key **list; /* the keys do not move in memory until release */
	size_t count, cap;
	int64_t changed_ns; /* modification time of the file */
};

/* Makes a new key: text for its owner, and the rnp.api_key record, which the caller owns.
 * limits 0: none. Returns NULL with err_set(EX_USAGE) for an invalid name. */
json_t *api_key_new(char text[API_KEY_TEXT], const char *name, int64_t limit_tokens,
	int64_t limit_streams);

/* Reads a file of rnp.api_key lines. Returns 0, or -1 with err_set(): 66 not found, 77 writable
 * by others, 65 malformed, or a name or key occurs twice. Release it either way. */
int keys_open(struct keys *k, const char *path);
void keys_release(struct keys *k);

/* Reads the file again if it has changed; counts are kept. Returns 0, or -1 with err_set() and
 * the keys unchanged. */
int keys_refresh(struct keys *k);

/* Finds the key of a header "Authorization: Bearer KEY". Returns NULL if there is none.
 * Borrowed until release. */
struct api_key *keys_find(struct keys *k, const char *authorization);

/* Returns how many streams a key may have at a time; 0: no limit. */
uint32_t keys_streams(struct keys *k, const struct api_key *key);

/* What a request asks of a key. */
struct key_share {
	uint32_t streams, prompt_tokens;
	uint64_t answer_tokens; /* at most, of all answers; keys_take may lower it */
	bool exact; /* the client asked for so many: none is left out of them */
};

/* Whether a key may ask anything now (monotonic): before its request is even read. Returns as
 * keys_take. */
int keys_may_ask(struct keys *k, struct api_key *key, int64_t now_ns, int *wait_s);

/* Takes a request's share from a key's limits at now_ns (monotonic), and sets how many tokens its
 * answers get: where the client has not said how many, those that are left of this minute's, if it
 * is an eighth of them. Returns 0, or -1 with err_set(): EX_TEMPFAIL and *wait_s, after how many
 * seconds to try again, or EX_DATAERR: the prompt is more than the key ever has. */
int keys_take(struct keys *k, struct api_key *key, struct key_share *share,
	int64_t now_ns, int *wait_s);

/* Gives back what keys_take took, but for the tokens that were generated. */
void keys_give(struct keys *k, struct api_key *key, const struct key_share *share,
	uint64_t generated);

/* Takes tokens for work that had no answer, as far as the key has them now. */
void keys_charge(struct keys *k, struct api_key *key, uint64_t tokens, int64_t now_ns);

#endif
