/* fuzz_feed.c - fuzz target: data from markets - SkyPilot's CSV, the others' JSON, Python
 * literals, GPU names.
 *
 * The first byte selects the reader. It checks that every offer is a valid record, is unchanged
 * after it is written and read again, and has a price; and that every row is in an offer or in
 * a note. */
/* uses: cmd/rnp-price */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/feed/feed.h"
#include "cmd/rnp-price/feed/state.h"
#include "cmd/rnp-price/text/pyliteral.h"
#include "cmd/rnp-price/quote/core.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/record/gpu.h"
#include "common/json/json.h"
#include "common/json/schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

/* an offer is written, read, and written again */
static void check_offer(const struct offer *o)
{
	struct buf once = BUF_INIT, twice = BUF_INIT;
	struct offer_list l = { 0 };
	json_t *r = offer_to_json(o), *again;

	must(o->uusd_per_gpu_hour > 0);
	must(schema_check(r, "offer", "rnp.offer") == 0);
	json_write(&once, r);
	offer_write(&twice, o);
	must(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
	buf_reset(&twice);
	must(offer_list_add_json(&l, r, "offer") == 0);
	again = offer_to_json(&l.items[0]);
	json_write(&twice, again);
	must(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
	json_decref(again);
	json_decref(r);
	offer_list_release(&l);
	buf_release(&once);
	buf_release(&twice);
}

/* any market data gives a price that keeps the rules */
static void check_quote(const struct offer_list *l)
{
	static const struct quote_rules rules = { .fee_ppm = 50000,
		.undercut_ppm = 10000,
		.reliability_ppm = 900000,
		.hysteresis_ppm = 20000,
		.reference = "RTX 4090" };
	struct quote_input in = { .gpu_model = "RTX 4090",
		.known = gpu_find("RTX 4090", 0),
		.gpu_count = 2,
		.f32_gflops = 82580,
		.floor_uusd = 1000,
		.last_ask_uusd = 5000,
		.low_uusd = QUOTE_NONE,
		.mid_uusd = QUOTE_NONE,
		.high_uusd = QUOTE_NONE,
		.offers = l };
	struct quote q;

	quote_price(&q, &in, &rules);
	must(q.ask_uusd >= in.floor_uusd);
	must(q.rival_uusd < 0 || q.ask_uusd == in.floor_uusd ||
		q.customer_uusd < q.rival_uusd);
	quote_release(&q);
}

static void check_feed(const struct feed *f)
{
	long noted = 0;

	for (size_t i = 0; i < f->nnotes; i++)
		noted += f->notes[i].times;
	must(f->rows <= (long)f->offers.n + noted);
	for (size_t i = 0; i < f->offers.n; i++)
		check_offer(&f->offers.items[i]);
	check_quote(&f->offers);
}

static void read_feed(const char *text, size_t len,
	int (*read)(struct feed *f, const char *text, size_t len, const char *name))
{
	struct feed f = FEED_INIT;
	struct feed_state s = { 0 };

	if (read(&f, text, len, "fuzz") == 0) {
		check_feed(&f);
		f.at_ms = 0;
		feed_state_accept(&s, "vast", &f, NULL);
		must(feed_check(&s, &f.offers, 2) == 0); /* a feed agrees with itself */
	}
	feed_state_release(&s);
	feed_release(&f);
}

/* A list gives the same offers in whatever pieces it arrives. */
static void read_pieces(const char *text, size_t len)
{
	size_t piece = len ? 1 + (unsigned char)text[len - 1] % 64 : 1;
	struct feed whole = FEED_INIT, pieces = FEED_INIT;
	struct feed_list *v = feed_list_open(&pieces, &feed_vast_form, "fuzz");
	int rc = 0, same = feed_vast(&whole, text, len, "fuzz");

	for (size_t i = 0; i < len && rc == 0; i += piece)
		rc = feed_list_push(v, text + i, len - i < piece ? len - i : piece);
	if (rc == 0)
		rc = feed_list_end(v);
	must(rc == same && whole.rows == pieces.rows &&
		whole.offers.n == pieces.offers.n);
	feed_list_close(v);
	feed_release(&whole);
	feed_release(&pieces);
}

static void read_literal(const char *text)
{
	json_t *v = pyliteral_parse(text, "fuzz");
	struct buf out = BUF_INIT;

	if (v)
		json_write(&out, v);
	json_decref(v);
	buf_release(&out);
}

static void read_name(const char *text, size_t len)
{
	const struct gpu_model *m = gpu_find(text, len > 40 ? (int64_t)len << 30 : 0);

	must(!m || gpu_find(m->name, 0) == m);
}

static void read_any(char reader, const char *text, size_t len)
{
	static int (*const readers[])(struct feed *, const char *, size_t,
		const char *) = { [0] = feed_skypilot,
		[1] = feed_vast,
		[4] = feed_prime,
		[5] = feed_runpod,
		[6] = feed_salad,
		[7] = feed_nosana };
	int which = (unsigned char)reader % 8;

	if (reader == 'A')
		read_feed(text, len, feed_akash);
	else if (reader == 'R')
		read_feed(text, len, feed_rnp);
	else if (which == 2)
		read_literal(text);
	else if (which == 3)
		read_name(text, len);
	else
		read_feed(text, len, readers[which]);
	if (which == 1)
		read_pieces(text, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf text = BUF_INIT;

	if (size < 1)
		return 0;
	buf_add(&text, data + 1, size - 1);
	buf_reserve(&text, 1);
	text.data[text.len] = '\0';
	read_any((char)data[0], text.data, text.len);
	err_clear();
	buf_release(&text);
	return 0;
}
