/* keys.c - reads the file of API keys, and enforces their limits. */
#include "cmd/rnp-serve/request/keys.h"

#include <errno.h>
#include <math.h>
#include <search.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/err.h"
#include "common/base/lines.h"
#include "common/base/mem.h"
#include "common/json/json.h"
#include "common/json/schema.h"

#define PREFIX         "rnp-"
#define SECRET         32
#define KEY_TEXT_MAX   512 /* longest key that a client may send */
#define LINE_MAX_BYTES 4096

static bool is_name(const char *name)
{
	size_t len = strlen(name);

	return len && len < sizeof((struct api_key *)0)->name &&
		strspn(name,
			"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
		len;
}

static void hash_of(unsigned char out[API_KEY_HASH], const char *text, size_t len)
{
	crypto_generichash(out, API_KEY_HASH, (const unsigned char *)text, len, NULL, 0);
}

json_t *api_key_new(char text[API_KEY_TEXT], const char *name, int64_t limit_tokens,
	int64_t limit_streams)
{
	unsigned char secret[SECRET], hash[API_KEY_HASH];
	char hex[2 * API_KEY_HASH + 1];
	json_t *r;

	if (!is_name(name)) {
		err_set(EX_USAGE,
			"--name: '%.80s' is not 1 to 64 letters, digits, '.', '_' or '-'",
			name);
		return NULL;
	}
	randombytes_buf(secret, sizeof secret);
	memcpy(text, PREFIX, strlen(PREFIX));
	sodium_bin2base64(text + strlen(PREFIX), API_KEY_TEXT - strlen(PREFIX), secret,
		sizeof secret, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
	sodium_memzero(secret, sizeof secret);
	hash_of(hash, text, strlen(text));
	r = json_record("rnp.api_key");
	json_set_text(r, "name", name);
	json_set_text(r, "blake2b", sodium_bin2hex(hex, sizeof hex, hash, sizeof hash));
	if (limit_tokens)
		json_set_i64(r, "limit_tokens", limit_tokens);
	if (limit_streams)
		json_set_i64(r, "limit_streams", limit_streams);
	return r;
}

/* --- the file ----------------------------------------------------------------------------- */

static void list_release(struct api_key **list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(list[i]);
	free(list);
}

static int read_key(struct api_key *key, const char *line, size_t len, const char *where)
{
	json_t *r = json_parse_object(line, len, where);
	const char *name, *hex;
	int64_t streams = 0;
	size_t bytes = 0;
	int rc = -1;

	if (r && schema_check(r, where, "rnp.api_key") == 0 &&
		json_get_text(r, where, "name", &name) == 0 &&
		json_get_text(r, where, "blake2b", &hex) == 0 &&
		json_opt_i64(r, where, "limit_tokens", 1, INT64_MAX,
			&key->limit_tokens) == 0 &&
		json_opt_i64(r, where, "limit_streams", 1, UINT32_MAX, &streams) == 0) {
		if (!is_name(name))
			err_set(EX_DATAERR,
				"%s: name: not letters, digits, '.', '_' or '-'", where);
		else if (sodium_hex2bin(key->hash, API_KEY_HASH, hex, strlen(hex), NULL,
				 &bytes, NULL) != 0 ||
			bytes != API_KEY_HASH)
			err_set(EX_DATAERR, "%s: blake2b: not 64 hexadecimal digits",
				where);
		else
			rc = 0;
		if (rc == 0)
			strcpy(key->name, name);
	}
	key->limit_streams = (uint32_t)streams;
	memcpy(&key->id, key->hash, sizeof key->id);
	json_decref(r);
	return rc;
}

/* The keys of a file so far, as trees of tsearch(3): there may be a hundred thousand. */
struct seen {
	void *by_name, *by_hash;
};

static int compare_name(const void *a, const void *b)
{
	return strcmp(((const struct api_key *)a)->name,
		((const struct api_key *)b)->name);
}

static int compare_hash(const void *a, const void *b)
{
	return memcmp(((const struct api_key *)a)->hash,
		((const struct api_key *)b)->hash, API_KEY_HASH);
}

static int is_new(void **tree, struct api_key *key,
	int (*compare)(const void *, const void *), const char *where)
{
	struct api_key **at = tsearch(key, tree, compare);

	if (!at)
		return err_set(EX_OSERR, "out of memory");
	if (*at != key)
		return err_set(EX_DATAERR, "%s: '%s' is there twice", where, key->name);
	return 0;
}

static int add_key(struct api_key ***list, size_t *count, size_t *cap, struct seen *seen,
	const struct api_key *read, const char *where)
{
	struct api_key *key = xmalloc(sizeof *key);

	*key = *read;
	*list = xgrow(*list, cap, *count + 1, sizeof **list);
	(*list)[(*count)++] = key;
	return is_new(&seen->by_name, key, compare_name, where) < 0 ?
		-1 :
		is_new(&seen->by_hash, key, compare_hash, where);
}

/* The keys themselves are the list's. */
static void keep(void *key)
{
	(void)key;
}

static int read_file(const char *path, struct api_key ***list, size_t *count)
{
	char *files[] = { (char *)path }, *line;
	struct seen seen = { NULL, NULL };
	struct lines lines;
	size_t len, cap = 0;
	int rc;

	*list = NULL;
	*count = 0;
	lines_open(&lines, files, 1, LINE_MAX_BYTES);
	while ((rc = lines_next(&lines, &line, &len)) > 0) {
		struct api_key key = { 0 };

		if (read_key(&key, line, len, lines_where(&lines)) < 0 ||
			add_key(list, count, &cap, &seen, &key, lines_where(&lines)) <
				0) {
			rc = -1;
			break;
		}
	}
	lines_close(&lines);
	tdestroy(seen.by_name, keep);
	tdestroy(seen.by_hash, keep);
	return rc;
}

/* Others may read the file, because hashes of random keys reveal nothing; but nobody else may
 * write it, since that grants full access. */
static int look(const char *path, int64_t *changed_ns)
{
	struct stat s;

	if (stat(path, &s) < 0)
		return err_sys(0, "cannot read '%s'", path);
	/* it is read again and again: a pipe would be waited for, whatever signal comes */
	if (!S_ISREG(s.st_mode))
		return err_set(EX_NOINPUT, "cannot read '%s': not a regular file", path);
	if (s.st_mode & (S_IWGRP | S_IWOTH))
		return err_set(EX_NOPERM, "'%s' may be written by others: chmod go-w",
			path);
	*changed_ns = (int64_t)s.st_mtim.tv_sec * 1000000000 + s.st_mtim.tv_nsec +
		s.st_size;
	return 0;
}

int keys_open(struct keys *k, const char *path)
{
	*k = (struct keys){ .path = xstrdup(path) };
	pthread_mutex_init(&k->lock, NULL);
	if (look(path, &k->changed_ns) < 0)
		return -1;
	if (read_file(path, &k->list, &k->count) < 0)
		return -1;
	k->cap = k->count;
	if (!k->count)
		return err_set(EX_DATAERR, "'%s' has no keys", path);
	return 0;
}

void keys_release(struct keys *k)
{
	if (!k->path)
		return;
	list_release(k->list, k->count);
	free(k->path);
	pthread_mutex_destroy(&k->lock);
	*k = (struct keys){ 0 };
}

static int compare_listed(const void *a, const void *b)
{
	return compare_hash(*(struct api_key *const *)a, *(struct api_key *const *)b);
}

/* Returns a copy of the list in the order of hashes; the caller frees it. */
static struct api_key **sorted(struct api_key *const *list, size_t count)
{
	struct api_key **copy = xcalloc(count + 1, sizeof *copy);

	if (count)
		memcpy(copy, list, count * sizeof *copy);
	qsort(copy, count, sizeof *copy, compare_listed);
	return copy;
}

static struct api_key *same(struct api_key **known, size_t count,
	const struct api_key *key)
{
	struct api_key **at = bsearch(&key, known, count, sizeof *known, compare_listed);

	return at ? *at : NULL;
}

int keys_refresh(struct keys *k)
{
	struct api_key **list = NULL, **known;
	int64_t changed_ns;
	size_t count = 0, known_count = k->count;

	if (look(k->path, &changed_ns) < 0)
		return -1;
	if (changed_ns == k->changed_ns)
		return 0;
	k->changed_ns = changed_ns; /* report a bad file only once */
	if (read_file(k->path, &list, &count) < 0) {
		list_release(list, count);
		return -1;
	}
	/* without the lock, for which requests wait: nobody else changes the list, and hashes
	 * stay */
	known = sorted(k->list, known_count);
	pthread_mutex_lock(&k->lock);
	for (size_t i = 0; i < k->count; i++)
		k->list[i]->revoked = true;
	for (size_t i = 0; i < count; i++) {
		struct api_key *old = same(known, known_count, list[i]);

		if (old) {
			memcpy(old->name, list[i]->name, sizeof old->name);
			old->limit_tokens = list[i]->limit_tokens;
			old->limit_streams = list[i]->limit_streams;
			old->revoked = false;
			continue;
		}
		k->list = xgrow(k->list, &k->cap, k->count + 1, sizeof *k->list);
		k->list[k->count++] = list[i];
		list[i] = NULL;
	}
	pthread_mutex_unlock(&k->lock);
	free(known);
	list_release(list, count);
	return 0;
}

/* --- who asks ----------------------------------------------------------------------------- */

struct api_key *keys_find(struct keys *k, const char *authorization)
{
	static const char scheme[] = "Bearer ";
	unsigned char hash[API_KEY_HASH];
	struct api_key *found = NULL;
	size_t len;

	if (!authorization || strncasecmp(authorization, scheme, sizeof scheme - 1) != 0)
		return NULL;
	authorization += sizeof scheme - 1;
	len = strlen(authorization);
	if (len > KEY_TEXT_MAX)
		return NULL;
	hash_of(hash, authorization, len);
	pthread_mutex_lock(&k->lock);
	for (size_t i = 0; i < k->count;
		i++) /* compare all, so that timing reveals nothing */
		if (sodium_memcmp(k->list[i]->hash, hash, sizeof hash) == 0 &&
			!k->list[i]->revoked)
			found = k->list[i];
	pthread_mutex_unlock(&k->lock);
	return found;
}

/* Returns the level of the bucket at this moment. */
static void fill(struct api_key *key, int64_t now_ns)
{
	double max = (double)key->limit_tokens;

	if (!key->filled_ns)
		key->bucket = max;
	else
		key->bucket += (double)(now_ns - key->filled_ns) * 1e-9 / 60 * max;
	if (key->bucket > max)
		key->bucket = max;
	key->filled_ns = now_ns;
}

uint32_t keys_streams(struct keys *k, const struct api_key *key)
{
	uint32_t streams;

	pthread_mutex_lock(&k->lock);
	streams = key->limit_streams;
	pthread_mutex_unlock(&k->lock);
	return streams;
}

/* Sets the error of a key that needs more tokens than it has now. */
static int lacks_tokens(const struct api_key *key, double needed, int *wait_s)
{
	double seconds = ceil((needed - key->bucket) * 60 / (double)key->limit_tokens);

	*wait_s = seconds < 1 ? 1 : seconds > 3600 ? 3600 : (int)seconds;
	return err_set(EX_TEMPFAIL, "the key may use %lld tokens a minute",
		(long long)key->limit_tokens);
}

static int lacks_streams(const struct api_key *key)
{
	return err_set(EX_TEMPFAIL, "the key may have %u answers at the same time",
		key->limit_streams);
}

int keys_may_ask(struct keys *k, struct api_key *key, int64_t now_ns, int *wait_s)
{
	int rc = 0;

	*wait_s = 1;
	pthread_mutex_lock(&k->lock);
	fill(key, now_ns);
	if (key->limit_streams && key->streams >= key->limit_streams)
		rc = lacks_streams(key);
	else if (key->limit_tokens && key->bucket < 1)
		/* for one it would be told to wait again */
		rc = lacks_tokens(key, (double)(key->limit_tokens / 8 + 1), wait_s);
	key->refused += rc < 0;
	pthread_mutex_unlock(&k->lock);
	return rc;
}

/* Takes tokens of a prompt and its answers from the bucket. */
static int take_tokens(struct api_key *key, struct key_share *share, int *wait_s)
{
	uint64_t limit = (uint64_t)key->limit_tokens, room, least;
	double left;

	if (share->prompt_tokens + (share->answer_tokens > 0) > limit)
		return err_set(EX_DATAERR,
			"the prompt has %u tokens, and the key may use %llu a minute",
			share->prompt_tokens, (unsigned long long)limit);
	room = limit - share->prompt_tokens;
	least = share->answer_tokens < limit / 8 + 1 ? share->answer_tokens :
						       limit / 8 + 1;
	if (share->exact && share->answer_tokens <= room)
		least = share->answer_tokens;
	if (least > room)
		least = room;
	left = key->bucket - share->prompt_tokens;
	if (left < (double)least)
		return lacks_tokens(key, share->prompt_tokens + (double)least, wait_s);
	if ((double)share->answer_tokens > left)
		share->answer_tokens = (uint64_t)left;
	key->bucket -= share->prompt_tokens + (double)share->answer_tokens;
	return 0;
}

int keys_take(struct keys *k, struct api_key *key, struct key_share *share,
	int64_t now_ns, int *wait_s)
{
	int rc = 0;

	*wait_s = 1;
	pthread_mutex_lock(&k->lock);
	fill(key, now_ns);
	if (key->limit_streams && key->streams + share->streams > key->limit_streams)
		rc = lacks_streams(key);
	else if (key->limit_tokens)
		rc = take_tokens(key, share, wait_s);
	if (rc == 0) {
		key->streams += share->streams;
		key->requests++;
		key->prompt_tokens += share->prompt_tokens;
	}
	key->refused += rc < 0;
	pthread_mutex_unlock(&k->lock);
	return rc;
}

void keys_give(struct keys *k, struct api_key *key, const struct key_share *share,
	uint64_t generated)
{
	pthread_mutex_lock(&k->lock);
	key->streams -= share->streams;
	key->bucket += (double)share->answer_tokens - (double)generated;
	key->generated_tokens += generated;
	pthread_mutex_unlock(&k->lock);
}

void keys_charge(struct keys *k, struct api_key *key, uint64_t tokens, int64_t now_ns)
{
	pthread_mutex_lock(&k->lock);
	fill(key, now_ns);
	if (key->limit_tokens && key->bucket > 0)
		key->bucket -= (double)tokens < key->bucket ? (double)tokens :
							      key->bucket;
	pthread_mutex_unlock(&k->lock);
}
