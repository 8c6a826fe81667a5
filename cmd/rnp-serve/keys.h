/* keys.h - the keys of the API: who asks, and how much they may. Uses libsodium, json, pthreads.
 *
 * The server knows the BLAKE2b-256 of a key, never the key; it is compared in constant time with all
 * of them. Limits are a bucket of tokens that holds a minute's, and a count of streams. */
#ifndef RNP_SERVE_KEYS_H
#define RNP_SERVE_KEYS_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define API_KEY_HASH 32
#define API_KEY_TEXT 48 /* of a new key: "rnp-" and 43 characters, and a NUL */

struct api_key {
	char name[65];
	unsigned char hash[API_KEY_HASH];
	int64_t limit_tokens;   /* a minute; 0: none */
	uint32_t limit_streams; /* 0: none */
	uint64_t id;            /* of groups and name spaces */
	bool revoked;           /* its line is gone from the file */
	/* now, and since the start */
	double bucket;
	int64_t filled_ns; /* when bucket was right; 0: never used */
	uint32_t streams;
	uint64_t requests, prompt_tokens, generated_tokens, refused;
};

struct keys {
	pthread_mutex_t lock;
	char *path;
	struct api_key **list; /* a key stays where it is until release */
	size_t count, room;
	int64_t changed_ns; /* of the file */
};

/* Makes a new key: text for its owner, and the rnp.api_key record, which the caller owns. limits 0:
 * none. Returns NULL with err_set(EX_USAGE): a name that is none. */
json_t *api_key_new(char text[API_KEY_TEXT], const char *name, int64_t limit_tokens,
	int64_t limit_streams);

/* Reads a file of rnp.api_key lines. Returns 0, or -1 with err_set(): 66 not there, 77 others may
 * read it, 65 malformed or the same name or key twice; release either way. */
int keys_open(struct keys *k, const char *path);
void keys_release(struct keys *k);

/* Reads the file again if it has changed; what it counted stays. Returns 0, or -1 with err_set(): the
 * keys are as before. */
int keys_refresh(struct keys *k);

/* The key of a header "Authorization: Bearer KEY", or NULL. Borrowed until release. */
struct api_key *keys_find(struct keys *k, const char *authorization);

/* Takes streams and the tokens of prompts out of a key's limits at now_ns (monotonic). Returns 0, or
 * -1 with err_set(EX_TEMPFAIL) and *wait_s: when to come again. */
int keys_take(struct keys *k, struct api_key *key, uint32_t streams,
	uint32_t prompt_tokens, int64_t now_ns, int *wait_s);

/* Gives the streams back, and counts what they generated. */
void keys_give(struct keys *k, struct api_key *key, uint32_t streams, uint32_t generated);

#endif
