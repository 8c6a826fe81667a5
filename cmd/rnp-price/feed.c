/* feed.c - rnp-price feed: writes a market's prices as rnp.offer records. */
#include "cmd/rnp-price/feed.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/rnp-price/commands.h"
#include "cmd/rnp-price/feed_state.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/net/http.h"
#include "common/base/io.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"

#define FEED_BYTES_MAX ((size_t)128 << 20)
#define DAY_MS         INT64_C(86400000)
#define NAME_BYTES_MAX 32
#define CLOCK_SKEW_MS  INT64_C(300000)
#define FUTURE_MESSAGE "%s: the feed's time %s is in the future"

static const char *market, *state_path, *market_name;
static int64_t max_age_ms, max_move = 3;
static struct opt_list own;

static const struct opt options[] = {
	{ .name = "market",
		.letter = 'm',
		.kind = OPT_CHOICE,
		.required = true,
		.to = &market,
		.metavar = "M",
		.choices = "nosana|prime|runpod|salad|skypilot|vast",
		.help = "whose feed it is" },
	{ .name = "name",
		.kind = OPT_TEXT,
		.to = &market_name,
		.metavar = "NAME",
		.help = "the market's name in the records (default that of --market)" },
	{ .name = "max-age",
		.kind = OPT_DURATION,
		.to = &max_age_ms,
		.metavar = "D",
		.min = 1,
		.max = INT64_MAX / 2,
		.help = "refuse a feed that is older (default: any age; a last good feed: 1d)" },
	{ .name = "max-move",
		.kind = OPT_I64,
		.to = &max_move,
		.metavar = "N",
		.min = 2,
		.max = 1000,
		.help = "refuse a feed in which a model's median moved by more than a factor N (default 3)" },
	{ .name = "own",
		.kind = OPT_LIST,
		.to = &own,
		.metavar = "ID",
		.help = "offer, machine or host that is ours; may be given several times" },
	{ .name = "state",
		.kind = OPT_TEXT,
		.to = &state_path,
		.metavar = "F",
		.help = "keep the last good feed here (URL default: in $XDG_CACHE_HOME/rnp)" },
	{ .kind = OPT_END },
};

struct reader {
	const char *market;
	int (*read)(struct feed *f, const char *text, size_t len, const char *name);
};

static const struct reader readers[] = {
	{ "nosana", feed_nosana },
	{ "prime", feed_prime },
	{ "runpod", feed_runpod },
	{ "salad", feed_salad },
	{ "skypilot", feed_skypilot },
	{ "vast", feed_vast },
};

/* State of a run; run() releases everything in it. */
struct session {
	const char *source; /* path, "-" or URL */
	bool is_url;
	char *state_path; /* NULL: no state is stored */
	struct feed_state state;
	struct feed feed;
	struct buf bytes;
	char etag[HTTP_ETAG_MAX];
	bool unchanged; /* the server says that the last good feed is still valid */
	int64_t now_ms;
};

/* --- where it comes from ------------------------------------------------------------------ */

static bool is_url(const char *s)
{
	return strncmp(s, "http://", 7) == 0 || strncmp(s, "https://", 8) == 0;
}

/* Returns $XDG_CACHE_HOME/rnp/feed-MARKET-HASH.json for a URL. */
static int default_state(struct session *s)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	unsigned char hash[crypto_hash_sha256_BYTES];
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
		rc = io_make_dirs(buf_text(&path), 0700);
	crypto_hash_sha256(hash, (const unsigned char *)s->source, strlen(s->source));
	buf_addf(&path, "/feed-%s-", market);
	buf_add_hex(&path, hash, 8);
	buf_adds(&path, ".json");
	if (rc == 0)
		s->state_path = buf_take(&path);
	buf_release(&path);
	return rc;
}

static int fetch_url(struct session *s)
{
	struct http http = HTTP_INIT;
	struct http_response r = HTTP_RESPONSE_INIT;
	struct http_request q = {
		.url = s->source,
		.etag = feed_state_etag(&s->state),
		.response_bytes_max = FEED_BYTES_MAX,
	};
	int rc = http_fetch(&http, &q, &r);

	if (rc == 0) {
		s->unchanged = r.status == 304;
		buf_add(&s->bytes, r.body.data, r.body.len);
		snprintf(s->etag, sizeof s->etag, "%s", s->unchanged ? q.etag : r.etag);
		s->feed.at_ms = s->now_ms;
		s->feed.own_time = r.modified_ms >= 0;
		if (s->feed.own_time)
			s->feed.at_ms = r.modified_ms;
		/* an unchanged feed keeps the age that it stated */
		if (s->unchanged && feed_state_own_time(&s->state))
			s->feed.at_ms = feed_state_at(&s->state);
	}
	http_response_release(&r);
	http_release(&http);
	return rc;
}

/* The age of a file is that of its last modification; standard input is as old as now. */
static int read_file(struct session *s)
{
	struct stat st;

	if (io_read(&s->bytes, s->source, FEED_BYTES_MAX) < 0)
		return -1;
	s->feed.at_ms = s->now_ms;
	if (strcmp(s->source, "-") != 0 && stat(s->source, &st) == 0) {
		s->feed.at_ms = (int64_t)st.st_mtim.tv_sec * 1000 +
			st.st_mtim.tv_nsec / 1000000;
		if (s->feed.at_ms > s->now_ms)
			s->feed.at_ms = s->now_ms;
	}
	return 0;
}

/* --- is it good? -------------------------------------------------------------------------- */

static const char *source_name(const struct session *s)
{
	return strcmp(s->source, "-") == 0 ? "standard input" : s->source;
}

static int check_age(const struct session *s, int64_t limit_ms)
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

static int parse(struct session *s)
{
	for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
		if (strcmp(readers[i].market, market) == 0)
			return readers[i].read(&s->feed, buf_text(&s->bytes),
				s->bytes.len, source_name(s));
	bug("market '%s' has no reader", market);
}

/* If a new price level lasts longer than the last good feed is valid, it is accepted. */
static bool history_counts(const struct session *s)
{
	int64_t at = feed_state_at(&s->state);

	return at >= 0 && s->now_ms - at <= (max_age_ms ? max_age_ms : DAY_MS);
}

static int load(struct session *s)
{
	if ((s->is_url ? fetch_url(s) : read_file(s)) < 0)
		return -1;
	if (s->unchanged) {
		if (feed_state_offers(&s->state, &s->feed.offers) < 0)
			return -1;
		return check_age(s, max_age_ms);
	}
	if (parse(s) < 0)
		return -1;
	if (check_age(s, max_age_ms) < 0)
		return -1;
	if (s->feed.offers.n == 0)
		return err_set(EX_DATAERR, "%s: no offers in the feed", source_name(s));
	if (history_counts(s) && feed_check(&s->state, &s->feed.offers, max_move) < 0)
		return err_add("%s", source_name(s));
	return 0;
}

/* --- what goes out ------------------------------------------------------------------------ */

static bool is_own(const struct offer *o)
{
	for (int i = 0; i < own.n; i++)
		if (strcmp(own.items[i], o->id) == 0 ||
			(o->machine && strcmp(own.items[i], o->machine) == 0) ||
			(o->host && strcmp(own.items[i], o->host) == 0))
			return true;
	return false;
}

static int write_offers(struct session *s)
{
	for (size_t i = 0; i < s->feed.offers.n; i++) {
		struct offer *o = &s->feed.offers.items[i];
		json_t *r;
		int rc;

		o->own = is_own(o);
		if (market_name)
			o->market = market_name;
		if (o->at_ms < 0)
			o->at_ms = s->feed.at_ms;
		r = offer_to_json(o);
		rc = out_record(r);
		json_decref(r);
		if (rc < 0)
			return -1;
	}
	return 0;
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

/* The feed was refused: writes the last good one if it is recent enough. Returns 1 if it was
 * written, 0 if there is none (the error stays), -1 on a new error. */
static int last_good(struct session *s)
{
	struct err why;
	char at[CLOCK_TEXT_MAX];

	err_save(&why);
	if (!history_counts(s))
		return 0;
	feed_release(&s->feed);
	s->feed.at_ms = feed_state_at(&s->state);
	if (feed_state_offers(&s->state, &s->feed.offers) < 0 || write_offers(s) < 0)
		return -1;
	clock_format(at, s->feed.at_ms);
	err_restore(&why);
	err_set(EX_TEMPFAIL, "%s; the last good prices, of %s, stand", err_get()->text,
		at);
	return 1;
}

static int feed(struct session *s)
{
	if (!s->is_url && !state_path)
		s->state_path = NULL;
	else if (state_path)
		s->state_path = xstrdup(state_path);
	else if (default_state(s) < 0)
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
	if (s->unchanged)
		feed_state_confirm(&s->state, s->now_ms);
	else
		feed_state_accept(&s->state, market, &s->feed, s->etag);
	return feed_state_save(&s->state, s->state_path);
}

static int run(int n, char **args)
{
	struct session s = { .feed = FEED_INIT, .source = n ? args[0] : "-" };
	int rc;

	if (sodium_init() < 0)
		bug("libsodium does not start");
	if (market_name && (!*market_name || strlen(market_name) > NAME_BYTES_MAX)) {
		err_set(EX_USAGE, "--name has 1 to %d bytes", NAME_BYTES_MAX);
		return err_report();
	}
	s.is_url = is_url(s.source);
	s.now_ms = clock_now_ms();
	rc = feed(&s);
	feed_release(&s.feed);
	feed_state_release(&s.state);
	buf_release(&s.bytes);
	free(s.state_path);
	opt_list_release(&own);
	return rc < 0 ? err_report() : 0;
}

const struct command command_feed = {
	.name = "feed",
	.arguments = "[URL or file]",
	.args_max = 1,
	.summary = "The prices of a market, per GPU and hour.",
	.details =
		"Reads one feed, whole; writes one rnp.offer record per offer and kind of price (on\n"
		"demand, spot). A feed that is malformed, empty, stale or far from its own history is\n"
		"refused; with a state the last good prices are written instead, and the exit code\n"
		"is 75.",
	.columns = "market,gpu_model,gpu_count,uusd_per_gpu_hour,spot,country,offer_id",
	.opts = options,
	.run = run,
};
