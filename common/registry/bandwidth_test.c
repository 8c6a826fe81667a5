/* bandwidth_test.c - the bandwidth test: a table of the nodes that exchange, and the two HTTP
 * handlers. The table holds the stream cipher's key that generated the bytes, not the bytes. */
#include "common/registry/bandwidth_test.h"

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
	char id[BANDWIDTH_TEST_ID_CHARS + 1]; /* "": free */
	int64_t seen_ns;
	int tries, drops;
	/* the exchange in progress; bytes 0: none */
	int64_t bytes, began_ns;
	unsigned char key[crypto_stream_chacha20_KEYBYTES];
	struct bandwidth_test_reading best;
};

struct bandwidth_tests {
	pthread_mutex_t lock;
	struct node nodes[BANDWIDTH_TEST_NODES_MAX];
};

/* Each key encrypts one stream, so the nonce may be constant. */
static const unsigned char nonce[crypto_stream_chacha20_NONCEBYTES];

struct bandwidth_tests *bandwidth_tests_new(void)
{
	struct bandwidth_tests *x = xcalloc(1, sizeof *x);

	pthread_mutex_init(&x->lock, NULL);
	return x;
}

void bandwidth_tests_free(struct bandwidth_tests *x)
{
	if (!x)
		return;
	pthread_mutex_destroy(&x->lock);
	free(x);
}

static bool is_id(const char *id)
{
	return id && strlen(id) == BANDWIDTH_TEST_ID_CHARS &&
		strspn(id, "0123456789abcdef") == BANDWIDTH_TEST_ID_CHARS;
}

static struct node *find(struct bandwidth_tests *x, const char *id)
{
	for (int i = 0; i < BANDWIDTH_TEST_NODES_MAX; i++)
		if (strcmp(x->nodes[i].id, id) == 0)
			return &x->nodes[i];
	return NULL;
}

static bool in_progress(const struct node *n, int64_t now_ns)
{
	return n->bytes &&
		now_ns - n->began_ns < BANDWIDTH_TEST_SECONDS * INT64_C(1000000000);
}

/* Returns the node's entry: its own, a free one, or that of the node that was last seen the
 * longest time ago. */
static struct node *entry_of(struct bandwidth_tests *x, const char *id)
{
	struct node *n = find(x, id), *oldest = &x->nodes[0];

	if (n)
		return n;
	for (int i = 0; i < BANDWIDTH_TEST_NODES_MAX; i++)
		if (x->nodes[i].seen_ns < oldest->seen_ns)
			oldest = &x->nodes[i];
	*oldest = (struct node){ 0 };
	memcpy(oldest->id, id, BANDWIDTH_TEST_ID_CHARS + 1);
	return oldest;
}

/* Counts the other nodes that exchange. */
static int count_others(const struct bandwidth_tests *x, const char *id, int64_t now_ns)
{
	int count = 0;

	for (int i = 0; i < BANDWIDTH_TEST_NODES_MAX; i++) {
		const struct node *n = &x->nodes[i];

		count += n->bytes && now_ns - n->began_ns < BANDWIDTH_TEST_PLACE_NS &&
			strcmp(n->id, id) != 0;
	}
	return count;
}

enum bandwidth_test_status bandwidth_test_begin(struct bandwidth_tests *x, const char *id,
	int64_t bytes, int64_t now_ns, void *out)
{
	unsigned char key[crypto_stream_chacha20_KEYBYTES];
	enum bandwidth_test_status status = BANDWIDTH_TEST_OK;
	struct node *n;

	randombytes_buf(key, sizeof key);
	pthread_mutex_lock(&x->lock);
	n = count_others(x, id, now_ns) < BANDWIDTH_TEST_AT_ONCE ? entry_of(x, id) : NULL;
	if (!n) {
		status = BANDWIDTH_TEST_BUSY;
	} else if (n->tries >= BANDWIDTH_TEST_TRIES_MAX ||
		(n->bytes && n->drops >= BANDWIDTH_TEST_DROPS_MAX)) {
		status = BANDWIDTH_TEST_TOO_OFTEN;
	} else {
		n->tries++;
		/* forgets an exchange that was begun before and not ended */
		n->drops += n->bytes > 0;
		n->bytes = bytes;
		n->began_ns = n->seen_ns = now_ns;
		memcpy(n->key, key, sizeof key);
	}
	pthread_mutex_unlock(&x->lock);
	if (status == BANDWIDTH_TEST_OK)
		crypto_stream_chacha20(out, (unsigned long long)bytes, nonce, key);
	return status;
}

static double rate(int64_t bytes, int64_t ns)
{
	return (double)bytes * 1e9 / (double)(ns > 0 ? ns : 1);
}

static struct bandwidth_test_reading reading_of(int64_t bytes, int64_t down_ns,
	int64_t up_ns)
{
	int64_t slower_ns = down_ns > up_ns ? down_ns : up_ns;

	return (struct bandwidth_test_reading){ .bytes = bytes,
		.down_ns = down_ns,
		.up_ns = up_ns,
		.bytes_per_s = (int64_t)rate(bytes, slower_ns),
		.enough = slower_ns >= BANDWIDTH_TEST_ENOUGH_NS ||
			bytes == BANDWIDTH_TEST_BYTES_MAX };
}

/* Whether data are the bytes that the key generates. Overwrites data. */
static bool same_bytes(unsigned char *data, size_t bytes, const unsigned char *key,
	const char *token)
{
	unsigned char last[BANDWIDTH_TEST_TOKEN_BYTES];
	char hex[2 * BANDWIDTH_TEST_TOKEN_BYTES + 1];

	memcpy(last, data + bytes - sizeof last, sizeof last);
	sodium_bin2hex(hex, sizeof hex, last, sizeof last);
	crypto_stream_chacha20_xor(data, data, bytes, nonce, key);
	return token && strcmp(token, hex) == 0 && sodium_is_zero(data, bytes);
}

enum bandwidth_test_status bandwidth_test_end(struct bandwidth_tests *x, const char *id,
	const char *token, void *data, size_t bytes, int64_t arrived_ns,
	int64_t complete_ns, struct bandwidth_test_reading *out)
{
	struct node now = { .bytes = 0 }, *n;

	pthread_mutex_lock(&x->lock);
	n = find(x, id);
	if (n && in_progress(n, complete_ns))
		now = *n;
	if (n)
		n->bytes = 0;
	pthread_mutex_unlock(&x->lock);
	if (!now.bytes)
		return BANDWIDTH_TEST_UNKNOWN;
	if (bytes != (size_t)now.bytes || !same_bytes(data, bytes, now.key, token))
		return BANDWIDTH_TEST_WRONG;
	*out = reading_of(now.bytes, arrived_ns - now.began_ns, complete_ns - arrived_ns);
	pthread_mutex_lock(&x->lock);
	n = find(x, id);
	if (n && out->bytes_per_s > n->best.bytes_per_s)
		n->best = *out;
	if (n && n->tries >= BANDWIDTH_TEST_TRIES_MAX)
		out->enough = true;
	pthread_mutex_unlock(&x->lock);
	return BANDWIDTH_TEST_OK;
}

int64_t bandwidth_test_awaited(struct bandwidth_tests *x, const char *id, int64_t now_ns)
{
	const struct node *n;
	int64_t bytes;

	pthread_mutex_lock(&x->lock);
	n = find(x, id);
	bytes = n && in_progress(n, now_ns) ? n->bytes : 0;
	pthread_mutex_unlock(&x->lock);
	return bytes;
}

bool bandwidth_test_take(struct bandwidth_tests *x, const char *id,
	struct bandwidth_test_reading *out)
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

static enum httpd_when refuse(struct httpd_reply *r, enum bandwidth_test_status status)
{
	switch (status) {
	case BANDWIDTH_TEST_BUSY:
		r->retry_after_s = 1;
		return httpd_error(r, 503, "others are exchanging");
	case BANDWIDTH_TEST_TOO_OFTEN:
		return httpd_error(r, 409,
			"that were %d exchanges already, or more than %d that were not ended",
			BANDWIDTH_TEST_TRIES_MAX, BANDWIDTH_TEST_DROPS_MAX);
	case BANDWIDTH_TEST_UNKNOWN:
		return httpd_error(r, 409, "no exchange of that id is on its way");
	default:
		return httpd_error(r, 400, "these are not the bytes that were sent");
	}
}

enum httpd_when bandwidth_test_get(struct bandwidth_tests *x, struct httpd_request *q,
	struct httpd_reply *r)
{
	const char *text = httpd_query(q, "bytes");
	enum bandwidth_test_status status;
	int64_t bytes;

	if (!is_id(q->arg))
		return httpd_error(r, 400, "the id is no SHA-256 in hex");
	if (!text ||
		num_i64(text, "bytes", BANDWIDTH_TEST_BYTES_MIN, BANDWIDTH_TEST_BYTES_MAX,
			&bytes) < 0) {
		err_clear();
		return httpd_error(r, 400, "bytes is not a number from %lld to %lld",
			(long long)BANDWIDTH_TEST_BYTES_MIN,
			(long long)BANDWIDTH_TEST_BYTES_MAX);
	}
	/* not q->started_ns: the handler may have waited for its turn */
	status = bandwidth_test_begin(x, q->arg, bytes, clock_mono_ns(),
		buf_reserve(&r->body, (size_t)bytes));
	if (status != BANDWIDTH_TEST_OK)
		return refuse(r, status);
	r->body.len = (size_t)bytes;
	r->content_type = "application/octet-stream";
	return HTTPD_NOW;
}

enum httpd_when bandwidth_test_post(struct bandwidth_tests *x, struct httpd_request *q,
	struct httpd_reply *r, struct bandwidth_test_reading *out)
{
	enum bandwidth_test_status status;
	json_t *v;

	if (!is_id(q->arg))
		return httpd_error(r, 400, "the id is no SHA-256 in hex");
	status = bandwidth_test_end(x, q->arg, httpd_query(q, "token"), q->body.data,
		q->body.len, q->started_ns, q->complete_ns, out);
	if (status != BANDWIDTH_TEST_OK)
		return refuse(r, status);
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
