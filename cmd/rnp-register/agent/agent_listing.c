/* agent_listing.c - what this node sells, signed, and told to the registry as long as it works. */
#include <stdio.h>
#include <unistd.h>
#include <string.h>

#include "cmd/rnp-register/agent/agent_parts.h"
#include "cmd/rnp-register/agent/sell.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/record/signature.h"

#define EVERY_MS INT64_C(300000)
#define UNTIL_MS INT64_C(900000) /* one that ends is for sale no longer than so */
#define SEND_MS  10000

#define IMAGES_MAX 64

static void add_image(void *ctx, const char *root, const char *name, int64_t used_ms)
{
	json_t *list = ctx;
	const char *at = strchr(name, '@');

	(void)root, (void)used_ms;
	if (at && json_array_size(list) < IMAGES_MAX)
		json_push_text(list, at + 1);
}

static json_t *make_listing(const struct agent *a, int64_t now_ms)
{
	const struct agent_config *c = a->c;
	char host_key[SSHKEY_TEXT_MAX];
	json_t *l = json_record("rnp.listing"), *images = json_array();

	json_set_text(l, "node", c->key->address);
	json_set_time(l, "at", now_ms);
	json_set_time(l, "until", now_ms + (a->closed ? 0 : UNTIL_MS));
	json_set_text(l, "engine", "podman");
	json_set_i64(l, "cpu_cores", c->cpu_cores);
	json_set_i64(l, "memory_bytes", c->memory_bytes);
	json_set_i64(l, "disk_bytes", c->disk_bytes);
	json_set_i64(l, "images_bytes", a->images.size_bytes);
	images_each(&a->images, add_image, images);
	json_set(l, "images", images);
	if (c->part_gpus)
		json_set_i64(l, "part_gpus", c->part_gpus);
	if (c->max_hours)
		json_set_i64(l, "max_hours", c->max_hours);
	if (c->up_bits_per_s)
		json_set_i64(l, "up_bps_max", c->up_bits_per_s);
	if (a->has_ssh) {
		snprintf(host_key, sizeof host_key, "%s %s", a->host_key.type,
			a->host_key.blob);
		json_set_text(l, "host_key", host_key);
	}
	json_set_bool(l, "spot", c->spot);
	if (signature_add(l, c->key, now_ms) == 0)
		return l;
	json_decref(l);
	return NULL;
}

static int send_listing(struct agent *a, struct http *http)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct buf url = BUF_INIT, text = BUF_INIT;
	struct http_request q = { .ca_file = a->c->ca,
		.timeout_ms = SEND_MS,
		.tries = 1,
		.abort = &a->abort };
	json_t *listing = make_listing(a, clock_now_ms());
	int rc = -1;

	if (listing && http_url(&url, a->c->registry, "/v1/listings") == 0) {
		json_write(&text, listing);
		q.url = buf_text(&url);
		q.body = buf_text(&text);
		q.body_bytes = text.len;
		rc = http_fetch(http, &q, &r);
	}
	json_decref(listing);
	buf_release(&url);
	buf_release(&text);
	http_response_release(&r);
	return rc;
}

void listing_tell(struct agent *a, struct http *http)
{
	char line[1200];

	if (a->listed_ns && clock_mono_ns() - a->listed_ns < EVERY_MS * INT64_C(1000000))
		return;
	/* one that the registry does not take is tried again no sooner */
	a->listed_ns = clock_mono_ns();
	if (send_listing(a, http) == 0)
		return;
	if (!agent_is_stopping(a)) {
		snprintf(line, sizeof line, "nothing is for sale: %.1000s",
			err_get()->text);
		a->c->say(line);
	}
	if (err_get()->code == EX_TEMPFAIL || err_get()->code == EX_UNAVAILABLE)
		a->listed_ns = 0;
	err_clear();
}

/* Looks whether its operator has ended the sale, or begun it again. */
void listing_look_closed(struct agent *a)
{
	struct buf path = BUF_INIT;
	bool closed;

	buf_addf(&path, "%s/" SELL_CLOSED, a->c->dir);
	closed = access(path.data, F_OK) == 0;
	if (closed && !a->closed)
		a->c->say("nothing new is taken on; what is leased runs to its end");
	if (closed != a->closed)
		a->listed_ns = 0;
	a->closed = closed;
	buf_release(&path);
}

/* How it stands, for whoever asks the service manager. */
void listing_tell_stand(const struct agent *a, bool away)
{
	char line[200];

	snprintf(line, sizeof line, "%s%zu lease%s%s", a->closed ? "sells no more; " : "",
		a->nleases, a->nleases == 1 ? "" : "s",
		away ? "; the registry is away" : "");
	a->c->stands(line);
}

/* Whether nothing is left to be done: what was booked last it has heard of, and refused. */
bool listing_is_over(struct agent *a)
{
	char lease[LEASE_ID_MAX];
	struct buf text = BUF_INIT;
	int64_t id;
	bool over = a->closed && !a->nleases &&
		journal_next_event(&a->journal, 0, &id, lease, &text) == 0;

	buf_release(&text);
	return over;
}
