#include "common/net/bandwidth_test.h"

#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/base/mem.h"
#include "common/base/num.h"

struct node {
	char id[EXCHANGE_ID_CHARS + 1]; /* "": free */
	int64_t seen_ns;
	int tries, drops;
	/* what is on its way; 0: nothing */
	int64_t bytes, began_ns;
	unsigned char key[crypto_stream_chacha20_KEYBYTES];
	struct exchange_reading best;
};

struct exchanges {
	pthread_mutex_t lock;
	struct node nodes[EXCHANGE_NODES_MAX];
};

/* The key is used once. */
static const unsigned char nonce[crypto_stream_chacha20_NONCEBYTES];

struct exchanges *exchanges_new(void)
{
	struct exchanges *x = xcalloc(1, sizeof *x);

	pthread_mutex_init(&x->lock, NULL);
	return x;
}

void exchanges_free(struct exchanges *x)
{
	if (!x)
		return;
	pthread_mutex_destroy(&x->lock);
	free(x);
}

static bool is_id(const char *id)
{
	return id && strlen(id) == EXCHANGE_ID_CHARS &&
		strspn(id, "0123456789abcdef") == EXCHANGE_ID_CHARS;
}

static struct node *find(struct exchanges *x, const char *id)
{
	for (int i = 0; i < EXCHANGE_NODES_MAX; i++)
		if (strcmp(x->nodes[i].id, id) == 0)
			return &x->nodes[i];
	return NULL;
}

static bool on_its_way(const struct node *n, int64_t now_ns)
{
	return n->bytes && now_ns - n->began_ns < EXCHANGE_SECONDS * INT64_C(1000000000);
}

/* Its place, a free one, or that of who was not seen for the longest time. */
static struct node *place(struct exchanges *x, const char *id)
{
	struct node *n = find(x, id), *oldest = &x->nodes[0];

	if (n)
		return n;
	for (int i = 0; i < EXCHANGE_NODES_MAX; i++)
		if (x->nodes[i].seen_ns < oldest->seen_ns)
			oldest = &x->nodes[i];
	*oldest = (struct node){ 0 };
	memcpy(oldest->id, id, EXCHANGE_ID_CHARS + 1);
	return oldest;
}

/* How many others have a place. */
static int count_others(const struct exchanges *x, const char *id, int64_t now_ns)
{
	int count = 0;

	for (int i = 0; i < EXCHANGE_NODES_MAX; i++) {
		const struct node *n = &x->nodes[i];

		count += n->bytes && now_ns - n->began_ns < EXCHANGE_PLACE_NS &&
			strcmp(n->id, id) != 0;
	}
	return count;
}

enum exchange_said exchange_begin(struct exchanges *x, const char *id, int64_t bytes,
	int64_t now_ns, void *out)
{
	unsigned char key[crypto_stream_chacha20_KEYBYTES];
	enum exchange_said said = EXCHANGE_OK;
	struct node *n;

	randombytes_buf(key, sizeof key);
	pthread_mutex_lock(&x->lock);
	n = count_others(x, id, now_ns) < EXCHANGE_AT_ONCE ? place(x, id) : NULL;
	if (!n) {
		said = EXCHANGE_BUSY;
	} else if (n->tries >= EXCHANGE_TRIES_MAX ||
		(n->bytes && n->drops >= EXCHANGE_DROPS_MAX)) {
		said = EXCHANGE_TOO_OFTEN;
	} else {
		n->tries++;
		/* what was begun before and not ended is forgotten */
		n->drops += n->bytes > 0;
		n->bytes = bytes;
		n->began_ns = n->seen_ns = now_ns;
		memcpy(n->key, key, sizeof key);
	}
	pthread_mutex_unlock(&x->lock);
	if (said == EXCHANGE_OK)
		crypto_stream_chacha20(out, (unsigned long long)bytes, nonce, key);
	return said;
}

static double rate(int64_t bytes, int64_t ns)
{
	return (double)bytes * 1e9 / (double)(ns > 0 ? ns : 1);
}

static struct exchange_reading reading_of(int64_t bytes, int64_t down_ns, int64_t up_ns)
{
	int64_t slower_ns = down_ns > up_ns ? down_ns : up_ns;

	return (struct exchange_reading){ .bytes = bytes,
		.down_ns = down_ns,
		.up_ns = up_ns,
		.bytes_per_s = (int64_t)rate(bytes, slower_ns),
		.enough = slower_ns >= EXCHANGE_ENOUGH_NS ||
			bytes == EXCHANGE_BYTES_MAX };
}

/* Whether data are the bytes that key stands for; they are overwritten. */
static bool same_bytes(unsigned char *data, size_t bytes, const unsigned char *key,
	const char *token)
{
	unsigned char last[EXCHANGE_TOKEN_BYTES];
	char hex[2 * EXCHANGE_TOKEN_BYTES + 1];

	memcpy(last, data + bytes - sizeof last, sizeof last);
	sodium_bin2hex(hex, sizeof hex, last, sizeof last);
	crypto_stream_chacha20_xor(data, data, bytes, nonce, key);
	return token && strcmp(token, hex) == 0 && sodium_is_zero(data, bytes);
}

enum exchange_said exchange_end(struct exchanges *x, const char *id, const char *token,
	void *data, size_t bytes, int64_t arrived_ns, int64_t complete_ns,
	struct exchange_reading *out)
{
	struct node now = { .bytes = 0 }, *n;

	pthread_mutex_lock(&x->lock);
	n = find(x, id);
	if (n && on_its_way(n, complete_ns))
		now = *n;
	if (n)
		n->bytes = 0;
	pthread_mutex_unlock(&x->lock);
	if (!now.bytes)
		return EXCHANGE_UNKNOWN;
	if (bytes != (size_t)now.bytes || !same_bytes(data, bytes, now.key, token))
		return EXCHANGE_WRONG;
	*out = reading_of(now.bytes, arrived_ns - now.began_ns, complete_ns - arrived_ns);
	pthread_mutex_lock(&x->lock);
	n = find(x, id);
	if (n && out->bytes_per_s > n->best.bytes_per_s)
		n->best = *out;
	if (n && n->tries >= EXCHANGE_TRIES_MAX)
		out->enough = true;
	pthread_mutex_unlock(&x->lock);
	return EXCHANGE_OK;
}

bool exchange_take(struct exchanges *x, const char *id, struct exchange_reading *out)
{
	struct node *n;
	bool found;

	pthread_mutex_lock(&x->lock);
	n = find(x, id);
	found = n && n->best.bytes_per_s;
	if (found)
		*out = n->best;
	if (n)
		*n = (struct node){ 0 };
	pthread_mutex_unlock(&x->lock);
	return found;
}

/* --- HTTP ---------------------------------------------------------------------------------- */

static enum httpd_when refuse(struct httpd_reply *r, enum exchange_said said)
{
	switch (said) {
	case EXCHANGE_BUSY:
		r->retry_after_s = 1;
		return httpd_error(r, 503, "others are exchanging");
	case EXCHANGE_TOO_OFTEN:
		return httpd_error(r, 409,
			"that were %d exchanges already, or more than %d that were not ended",
			EXCHANGE_TRIES_MAX, EXCHANGE_DROPS_MAX);
	case EXCHANGE_UNKNOWN:
		return httpd_error(r, 409, "no exchange of that id is on its way");
	default:
		return httpd_error(r, 400, "these are not the bytes that were sent");
	}
}

enum httpd_when exchange_get(struct exchanges *x, struct httpd_request *q,
	struct httpd_reply *r)
{
	const char *text = httpd_query(q, "bytes");
	enum exchange_said said;
	int64_t bytes;

	if (!is_id(q->arg))
		return httpd_error(r, 400, "the id is no SHA-256 in hex");
	if (!text ||
		num_i64(text, "bytes", EXCHANGE_BYTES_MIN, EXCHANGE_BYTES_MAX, &bytes) <
			0) {
		err_clear();
		return httpd_error(r, 400, "bytes is not a number from %lld to %lld",
			(long long)EXCHANGE_BYTES_MIN, (long long)EXCHANGE_BYTES_MAX);
	}
	said = exchange_begin(x, q->arg, bytes, q->started_ns,
		buf_reserve(&r->body, (size_t)bytes));
	if (said != EXCHANGE_OK)
		return refuse(r, said);
	r->body.len = (size_t)bytes;
	r->content_type = "application/octet-stream";
	return HTTPD_NOW;
}

enum httpd_when exchange_post(struct exchanges *x, struct httpd_request *q,
	struct httpd_reply *r, struct exchange_reading *out)
{
	int64_t complete_ns = clock_mono_ns();
	enum exchange_said said;
	json_t *v;

	if (!is_id(q->arg))
		return httpd_error(r, 400, "the id is no SHA-256 in hex");
	said = exchange_end(x, q->arg, httpd_query(q, "token"), q->body.data, q->body.len,
		q->started_ns, complete_ns, out);
	if (said != EXCHANGE_OK)
		return refuse(r, said);
	v = json_object();
	json_set_i64(v, "bytes", out->bytes);
	json_set_i64(v, "down_ns", out->down_ns);
	json_set_i64(v, "up_ns", out->up_ns);
	json_set_bool(v, "enough", out->enough);
	json_write(&r->body, v);
	buf_addc(&r->body, '\n');
	json_decref(v);
	return HTTPD_NOW;
}
