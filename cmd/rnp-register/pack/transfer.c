/* transfer.c - the customer's and the node's half of /v1/blobs. */
#include "cmd/rnp-register/pack/transfer.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"

#define ASKED_AT_ONCE 1000
#define TRIES         6
#define PAUSE_US      250000

/* While one blob is flushed there the next is read and sent; each takes its bytes in memory. */
#define SENDERS 2

/* What is sent. */
struct sending {
	struct transfer *t;
	const struct transfer_source *from;
	char (*names)[TRANSFER_NAME_MAX];
	size_t n;
	int64_t *have;           /* bytes that are there; -1: all of them */
	pthread_mutex_t reading; /* held while a blob is read; before lock */
	pthread_mutex_t lock;    /* of what follows, and of t's counters */
	size_t next;             /* blob; the last one waits for the others */
	/* of the first sender that failed */
	bool failed;
	struct err why;
};

/* One that sends, on a thread of its own but the first. */
struct sender {
	struct sending *s;
	struct http *http, own;
	struct buf bytes;
	int64_t sent; /* of the blob that it sends at present */
};

static int make_url(const struct transfer *t, struct buf *url, const char *name,
	const char *manifest, int64_t from)
{
	char sign = '?';
	struct buf path = BUF_INIT;
	int rc;

	buf_addf(&path, "/v1/blobs%s%s", name ? "/" : "", name ? name : "");
	if (t->cluster) {
		buf_adds(&path, "?cluster=");
		http_escape(&path, t->cluster);
		sign = '&';
	}
	if (manifest)
		buf_addf(&path, "%cmanifest=%s", sign, manifest);
	if (from)
		buf_addf(&path, "&from=%lld", (long long)from);
	rc = http_url(url, t->base, path.data);
	buf_release(&path);
	return rc;
}

static bool is_temporary(void)
{
	return err_get()->code == EX_TEMPFAIL || err_get()->code == EX_UNAVAILABLE;
}

/* --- asking ----------------------------------------------------------------------------------- */

static int note_missing(struct sending *s, size_t from, size_t to, const json_t *reply,
	const char *where)
{
	const json_t *item;
	json_t *list;
	size_t i, k = from;

	if (json_get_array(reply, where, "missing", &list) < 0)
		return -1;
	for (i = from; i < to; i++)
		s->have[i] = -1;
	/* in the order of the question, as far as there are no two of a name */
	json_array_foreach(list, i, item) {
		const char *name;
		int64_t have = 0;

		if (json_get_text(item, where, "sha256", &name) < 0 ||
			json_opt_i64(item, where, "have", 0, INT64_MAX, &have) < 0)
			return -1;
		while (k < to && strcmp(s->names[k], name) != 0)
			k++;
		if (k == to)
			return err_set(EX_UNAVAILABLE, "%s: '%.80s' was not asked for",
				where, name);
		s->have[k++] = have;
	}
	return 0;
}

/* Counts bytes and requests, and tells of it. */
static void count(struct sending *s, int64_t bytes, int64_t requests)
{
	struct transfer *t = s->t;

	pthread_mutex_lock(&s->lock);
	t->bytes += bytes;
	t->requests += requests;
	if (bytes && t->progress)
		t->progress(t->ctx, t->bytes, t->total_bytes);
	pthread_mutex_unlock(&s->lock);
}

/* Asks which of some blobs are missing. */
static int ask(struct sender *w, size_t from, size_t to)
{
	struct sending *s = w->s;
	struct transfer *t = s->t;
	struct http_response r = HTTP_RESPONSE_INIT;
	struct buf url = BUF_INIT, body = BUF_INIT;
	json_t *reply = NULL;
	int rc = -1;

	buf_adds(&body, "{\"sha256\":[");
	for (size_t i = from; i < to; i++)
		buf_addf(&body, "%s\"%s\"", i > from ? "," : "", s->names[i]);
	buf_adds(&body, "]}");
	if (make_url(t, &url, NULL, s->names[s->n - 1], 0) == 0) {
		const struct http_request q = { .url = url.data,
			.ca_file = t->ca,
			.signer = t->key,
			.body = body.data,
			.body_bytes = body.len,
			.abort = t->abort };

		rc = http_fetch(w->http, &q, &r);
		count(s, 0, 1);
	}
	if (rc == 0) {
		reply = json_parse_object(buf_text(&r.body), r.body.len, url.data);
		rc = reply ? note_missing(s, from, to, reply, url.data) : -1;
	}
	json_decref(reply);
	http_response_release(&r);
	buf_release(&url);
	buf_release(&body);
	return rc;
}

/* --- sending ---------------------------------------------------------------------------------- */

/* A body in memory that is read while it is sent. */
struct body {
	struct sender *w;
	const char *data;
	size_t len, at;
};

static long read_body(void *ctx, void *to, size_t max)
{
	struct body *b = ctx;
	size_t n = b->len - b->at < max ? b->len - b->at : max;

	memcpy(to, b->data + b->at, n);
	b->at += n;
	b->w->sent += (int64_t)n;
	count(b->w->s, (int64_t)n, 0);
	return (long)n;
}

static int put_once(struct sender *w, size_t i)
{
	struct sending *s = w->s;
	const struct transfer *t = s->t;
	const struct buf *bytes = &w->bytes;
	struct http_response r = HTTP_RESPONSE_INIT;
	struct buf url = BUF_INIT;
	int64_t from = s->have[i] < (int64_t)bytes->len ? s->have[i] : 0;
	struct body body = { w, bytes->data + from, bytes->len - (size_t)from, 0 };
	const struct http_source source = { .read = read_body,
		.ctx = &body,
		.bytes = (int64_t)body.len };
	int rc = -1;

	if (make_url(t, &url, s->names[i], s->names[s->n - 1], from) == 0) {
		const struct http_request q = { .method = "PUT",
			.url = url.data,
			.ca_file = t->ca,
			.signer = t->key,
			.content_type = "application/octet-stream",
			.source = &source,
			.tries = 1,
			.abort = t->abort };

		w->sent = 0;
		rc = http_fetch(w->http, &q, &r);
		/* all of it counts once, however many tries it took */
		count(s, (rc == 0 ? (int64_t)bytes->len : 0) - w->sent, 1);
	}
	/* 409: another part of it is there than we thought */
	if (rc < 0 && r.status == 409)
		err_set(EX_TEMPFAIL, "%s", strdupa(err_get()->text));
	http_response_release(&r);
	buf_release(&url);
	return rc;
}

static int put(struct sender *w, size_t i)
{
	for (int try = 1;; try++) {
		struct err why;

		if (put_once(w, i) == 0)
			return 0;
		if (!is_temporary() || try == TRIES)
			return -1;
		err_save(&why);
		usleep((unsigned)PAUSE_US << try);
		/* what has come through stays there */
		if (ask(w, i, i + 1) < 0)
			return err_restore(&why);
		if (w->s->have[i] < 0)
			return 0;
	}
}

/* Reads the next blob that is missing, before `end`. Returns 1, 0: there is none, or somebody
 * failed, or -1. */
static int next_blob(struct sender *w, size_t end, size_t *i)
{
	struct sending *s = w->s;
	int rc;

	pthread_mutex_lock(&s->reading);
	pthread_mutex_lock(&s->lock);
	while (s->next < end && s->have[s->next] < 0)
		s->next++;
	rc = s->next < end && !s->failed;
	*i = s->next;
	s->next += (size_t)rc;
	pthread_mutex_unlock(&s->lock);
	if (rc && s->from->read(s->from->ctx, *i, &w->bytes) < 0)
		rc = -1;
	pthread_mutex_unlock(&s->reading);
	return rc;
}

static void send_until(struct sender *w, size_t end)
{
	struct sending *s = w->s;
	size_t i = 0;
	int rc;

	while ((rc = next_blob(w, end, &i)) == 1)
		if (put(w, i) < 0) {
			rc = -1;
			break;
		}
	if (rc == 0)
		return;
	pthread_mutex_lock(&s->lock);
	if (!s->failed)
		err_save(&s->why);
	s->failed = true;
	pthread_mutex_unlock(&s->lock);
	err_clear();
}

static void *send_beside(void *ctx)
{
	struct sender *w = ctx;

	send_until(w, w->s->n - 1);
	return NULL;
}

/* Sends all but the manifest, and then that. */
static int send_missing(struct sending *s, struct sender *first)
{
	struct sender others[SENDERS - 1];
	pthread_t threads[SENDERS - 1];
	size_t n = 0;

	for (; n < SENDERS - 1; n++) {
		others[n] = (struct sender){ .s = s, .own = HTTP_INIT };
		others[n].http = &others[n].own;
		if (pthread_create(&threads[n], NULL, send_beside, &others[n]) != 0)
			break;
	}
	send_until(first, s->n - 1);
	for (size_t i = 0; i < n; i++) {
		pthread_join(threads[i], NULL);
		http_release(&others[i].own);
		buf_release(&others[i].bytes);
	}
	send_until(first, s->n);
	return s->failed ? err_restore(&s->why) : 0;
}

static int send_all(struct sending *s)
{
	struct sender first = { .s = s, .http = s->t->http };
	int rc = 0;

	for (size_t i = 0; i < s->n && rc == 0; i += ASKED_AT_ONCE)
		rc = ask(&first, i, i + ASKED_AT_ONCE < s->n ? i + ASKED_AT_ONCE : s->n);
	for (size_t i = 0; i < s->n && rc == 0; i++)
		if (s->have[i] >= 0)
			s->t->total_bytes += s->from->blobs[i].bytes;
	if (rc == 0 && s->t->total_bytes)
		rc = send_missing(s, &first);
	buf_release(&first.bytes);
	return rc;
}

int transfer_send(struct transfer *t, const struct transfer_source *from)
{
	struct sending s = { .t = t, .from = from, .n = from->n };
	int rc;

	pthread_mutex_init(&s.reading, NULL);
	pthread_mutex_init(&s.lock, NULL);
	t->bytes = t->total_bytes = t->requests = 0;
	s.names = xcalloc(s.n + 1, sizeof *s.names);
	s.have = xcalloc(s.n + 1, sizeof *s.have);
	for (size_t i = 0; i < s.n; i++)
		sodium_bin2hex(s.names[i], sizeof s.names[i], from->blobs[i].sha256,
			SHA256_BYTES);
	rc = send_all(&s);
	free(s.names);
	free(s.have);
	pthread_mutex_destroy(&s.reading);
	pthread_mutex_destroy(&s.lock);
	return rc;
}

static int read_packed(void *ctx, size_t i, struct buf *out)
{
	const struct pack *p = ctx;

	if (i < p->walk.manifest.nblobs)
		return pack_read(p, i, out);
	buf_reset(out);
	buf_add(out, p->text.data, p->text.len);
	return 0;
}

int transfer_upload(struct transfer *t, const struct pack *p)
{
	size_t n = p->walk.manifest.nblobs;
	struct manifest_blob *blobs = pack_blobs(p);
	const struct transfer_source from = { .blobs = blobs,
		.n = n + 1,
		.read = read_packed,
		.ctx = (void *)p };
	int rc = transfer_send(t, &from);

	free(blobs);
	return rc;
}

/* --- fetching --------------------------------------------------------------------------------- */

/* Takes an answer into a buffer of a bounded size. */
struct taker {
	struct transfer *t;
	struct buf *out;
	size_t most;
};

static int take(void *ctx, const void *data, size_t len)
{
	struct taker *k = ctx;

	if (len > k->most - k->out->len)
		return err_set(EX_DATAERR, "a blob has more bytes than it should");
	buf_add(k->out, data, len);
	if (k->t->progress)
		k->t->progress(k->t->ctx, k->t->bytes + (int64_t)k->out->len,
			k->t->total_bytes);
	return 0;
}

static int restart(void *ctx)
{
	struct taker *k = ctx;

	buf_reset(k->out);
	return 0;
}

int transfer_get(struct transfer *t, const char name[TRANSFER_NAME_MAX],
	int64_t bytes_max, struct buf *out)
{
	struct taker taker = { t, out, (size_t)bytes_max };
	const struct http_sink sink = { .write = take,
		.restart = restart,
		.ctx = &taker };
	struct http_response r = HTTP_RESPONSE_INIT;
	struct buf url = BUF_INIT;
	int rc = -1;

	buf_reset(out);
	if (make_url(t, &url, name, NULL, 0) == 0) {
		const struct http_request q = { .url = url.data,
			.ca_file = t->ca,
			.signer = t->key,
			.sink = &sink,
			.tries = TRIES,
			.abort = t->abort };

		rc = http_fetch(t->http, &q, &r);
		t->requests++;
	}
	http_response_release(&r);
	buf_release(&url);
	return rc;
}

static int fetch_blob(void *ctx, const struct manifest_blob *b, struct buf *out)
{
	struct transfer *t = ctx;
	char name[TRANSFER_NAME_MAX];

	sodium_bin2hex(name, sizeof name, b->sha256, sizeof b->sha256);
	if (transfer_get(t, name, b->bytes, out) < 0)
		return -1;
	t->bytes += (int64_t)out->len;
	return 0;
}

int transfer_download(struct transfer *t, const char name[TRANSFER_NAME_MAX],
	const char *path, const struct unpack_config *config)
{
	struct unpack_config c = *config;
	unsigned char hash[SHA256_BYTES];
	char hex[TRANSFER_NAME_MAX];
	struct buf text = BUF_INIT;
	struct manifest m = { 0 };
	int rc = -1;

	t->bytes = t->total_bytes = t->requests = 0;
	c.fetch = fetch_blob;
	c.ctx = t;
	if (transfer_get(t, name, (int64_t)MANIFEST_BYTES_MAX, &text) < 0)
		goto out;
	sha256(hash, buf_text(&text), text.len);
	if (strcmp(sodium_bin2hex(hex, sizeof hex, hash, sizeof hash), name) != 0) {
		err_set(EX_DATAERR, "manifest %s is not what its hash says", name);
		goto out;
	}
	if (manifest_read(&m, text.data, text.len, "manifest") < 0)
		goto out;
	buf_release(&text);
	t->total_bytes = m.bytes;
	rc = unpack(&m, path, &c);
out:
	manifest_release(&m);
	buf_release(&text);
	return rc;
}
