/* run.c - one market's feed from its source to records: see run.h. */
#include "cmd/rnp-price/feed/run.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/feed/state.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/sha256.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"

#define DAY_MS         INT64_C(86400000)
#define CLOCK_SKEW_MS  INT64_C(300000)
#define OUT_BYTES      ((size_t)64 << 10)
#define FUTURE_MESSAGE "%s: the feed's time %s is in the future"

/* State of a run; feed_run() releases everything in it. */
struct feed_run {
	const struct feed_job *job;
	char *state_path; /* NULL: no state is stored */
	struct feed_state state;
	struct feed feed;
	struct feed_fetched fetched;
	int64_t now_ms;
};

/* Returns $XDG_CACHE_HOME/rnp/feed-MARKET-HASH.json for a URL. */
static int default_state(struct feed_run *s)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	const char *place = s->job->source.place;
	unsigned char hash[SHA256_BYTES];
	struct buf path = BUF_INIT;
	int rc = 0;

	if (cache && *cache == '/')
		buf_addf(&path, "%s/rnp", cache);
	else if (home && *home == '/')
		buf_addf(&path, "%s/.cache/rnp", home);
	else
		rc = err_set(EX_NOINPUT,
			"no place for the cache: neither XDG_CACHE_HOME nor HOME "
			"is set");
	if (rc == 0)
		rc = io_make_default_dirs(buf_text(&path), 0700);
	sha256(hash, place, strlen(place));
	buf_addf(&path, "/feed-%s-", s->job->source.market->name);
	buf_add_hex(&path, hash, 8);
	buf_adds(&path, ".json");
	if (rc == 0)
		s->state_path = buf_take(&path);
	buf_release(&path);
	return rc;
}

/* --- is it good? -------------------------------------------------------------------------- */

static const char *source_name(const struct feed_run *s)
{
	return feed_place_name(s->job->source.place);
}

static int check_age(const struct feed_run *s, int64_t limit_ms)
{
	char at[CLOCK_TEXT_MAX];

	clock_format(at, s->feed.at_ms);
	if (limit_ms && s->feed.at_ms > s->now_ms + CLOCK_SKEW_MS)
		return err_set(EX_DATAERR, FUTURE_MESSAGE, source_name(s), at);
	if (limit_ms && s->now_ms - s->feed.at_ms > limit_ms)
		return err_set(EX_TEMPFAIL,
			"%s: stale: the feed is of %s, %lld s old, and %lld s "
			"are allowed",
			source_name(s), at,
			(long long)((s->now_ms - s->feed.at_ms) / 1000),
			(long long)(limit_ms / 1000));
	return 0;
}

/* If a new price level lasts longer than the last good feed is valid, it is accepted. */
static bool history_counts(const struct feed_run *s)
{
	int64_t at = feed_state_at(&s->state), max_age_ms = s->job->max_age_ms;

	return at >= 0 && s->now_ms - at <= (max_age_ms ? max_age_ms : DAY_MS);
}

/* The age of a feed is what it states itself; else that of Last-Modified or of the file; else it
 * is new. */
static void set_time(struct feed_run *s)
{
	bool url = feed_is_url(s->job->source.place);
	int64_t modified_ms = s->fetched.modified_ms;

	if (s->fetched.unchanged) {
		/* an unchanged feed keeps the age that it stated */
		s->feed.own_time = feed_state_own_time(&s->state);
		s->feed.at_ms = s->feed.own_time ? feed_state_at(&s->state) :
			modified_ms >= 0         ? modified_ms :
						   s->now_ms;
		return;
	}
	if (s->feed.own_time)
		return;
	s->feed.at_ms = s->now_ms;
	if (modified_ms >= 0) {
		s->feed.at_ms = modified_ms;
		s->feed.own_time = url;
	}
	if (!url && s->feed.at_ms > s->now_ms)
		s->feed.at_ms = s->now_ms;
}

static int load(struct feed_run *s)
{
	struct feed_source source = s->job->source;

	source.etag = feed_state_etag(&s->state);
	if (feed_fetch(&source, &s->feed, &s->fetched) < 0)
		return -1;
	set_time(s);
	if (s->fetched.unchanged) {
		if (feed_state_offers(&s->state, &s->feed.offers) < 0)
			return -1;
		return check_age(s, s->job->max_age_ms);
	}
	if (check_age(s, s->job->max_age_ms) < 0)
		return -1;
	if (s->feed.offers.n == 0)
		return err_set(EX_DATAERR, "%s: no offers in the feed", source_name(s));
	if (history_counts(s) &&
		feed_check(&s->state, &s->feed.offers, s->job->max_move) < 0)
		return err_add("%s", source_name(s));
	return 0;
}

/* --- what goes out ------------------------------------------------------------------------ */

static bool is_own(const struct feed_job *job, const struct offer *o)
{
	for (int i = 0; i < job->nown; i++)
		if (strcmp(job->own[i], o->id) == 0 ||
			(o->machine && strcmp(job->own[i], o->machine) == 0) ||
			(o->host && strcmp(job->own[i], o->host) == 0))
			return true;
	return false;
}

/* By model, then the cheapest first: as people look for them. */
static int by_price(const void *a, const void *b)
{
	const struct offer *x = a, *y = b;
	int names = strcmp(x->model, y->model);

	if (names)
		return names;
	if (x->uusd_per_gpu_hour != y->uusd_per_gpu_hour)
		return x->uusd_per_gpu_hour < y->uusd_per_gpu_hour ? -1 : 1;
	return strcmp(x->id, y->id);
}

static int write_offers(struct feed_run *s)
{
	struct buf text = BUF_INIT;
	int rc = 0;

	if (out_for_people() &&
		s->feed.offers.n) /* the state is of prices, in any order */
		qsort(s->feed.offers.items, s->feed.offers.n,
			sizeof *s->feed.offers.items, by_price);

	for (size_t i = 0; i < s->feed.offers.n && rc == 0; i++) {
		struct offer *o = &s->feed.offers.items[i];

		o->own = is_own(s->job, o);
		if (s->job->name)
			o->market = s->job->name;
		if (o->at_ms < 0)
			o->at_ms = s->feed.at_ms;
		offer_write(&text, o);
		buf_addc(&text, '\n');
		if (text.len >= OUT_BYTES) {
			rc = out_lines(NULL, text.data, text.len);
			buf_reset(&text);
		}
	}
	if (rc == 0 && text.len)
		rc = out_lines(NULL, text.data, text.len);
	buf_release(&text);
	return rc < 0 || out_flush() < 0 ? -1 : 0;
}

static void print_notes(const struct feed *f)
{
	for (size_t i = 0; i < f->nnotes; i++) {
		const struct feed_note *n = &f->notes[i];

		if (n->times > 1)
			prog_warn("%s: %s (and %ld more)", n->where, n->text,
				n->times - 1);
		else
			prog_warn("%s: %s", n->where, n->text);
	}
}

/* The feed was refused: writes the last good one if it is recent enough. Leaves the error as it
 * is if there is none. */
static void last_good(struct feed_run *s)
{
	struct err why;
	char at[CLOCK_TEXT_MAX];

	err_save(&why);
	if (!history_counts(s))
		return;
	feed_release(&s->feed);
	s->feed.at_ms = feed_state_at(&s->state);
	if (feed_state_offers(&s->state, &s->feed.offers) < 0 || write_offers(s) < 0)
		return;
	clock_format(at, s->feed.at_ms);
	err_restore(&why);
	err_set(EX_TEMPFAIL, "%s; the last good prices, of %s, stand", err_get()->text,
		at);
}

static int run_session(struct feed_run *s)
{
	const struct feed_job *job = s->job;
	const char *market = job->source.market->name;

	if (job->state_path)
		s->state_path = xstrdup(job->state_path);
	else if (feed_is_url(job->source.place) && default_state(s) < 0)
		return -1;
	if (s->state_path && feed_state_load(&s->state, s->state_path, market) < 0)
		return -1;
	if (load(s) < 0) {
		last_good(s);
		return -1;
	}
	print_notes(&s->feed);
	if (write_offers(s) < 0)
		return -1;
	prog_detail("%ld rows, %zu offers", s->feed.rows, s->feed.offers.n);
	if (!s->state_path)
		return 0;
	if (s->fetched.unchanged)
		feed_state_confirm(&s->state, s->now_ms);
	else
		feed_state_accept(&s->state, market, &s->feed, s->fetched.etag);
	return feed_state_save(&s->state, s->state_path, &s->feed.offers);
}

int feed_run(const struct feed_job *job)
{
	struct feed_run s = { .job = job, .feed = FEED_INIT };
	int rc;

	if (sodium_init() < 0)
		bug("libsodium does not start");
	s.now_ms = clock_now_ms();
	rc = run_session(&s);
	feed_release(&s.feed);
	feed_state_release(&s.state);
	free(s.state_path);
	return rc;
}
