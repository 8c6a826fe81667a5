/* feed.c - csv, Python literals, the two readers and the judge of outliers. */
/* uses: cmd/rnp-price */
#include "cmd/rnp-price/feed/feed.h"

#include <stdlib.h>
#include <unistd.h>

#include "cmd/rnp-price/text/csv.h"
#include "cmd/rnp-price/feed/state.h"
#include "cmd/rnp-price/text/pyliteral.h"
#include "common/base/buf.h"
#include "tests/unit/test.h"

/* --- csv ---------------------------------------------------------------------------------- */

/* all fields of text joined by "|", rows by "/"; "!" when it is refused */
static const char *csv_joined(const char *text, size_t len)
{
	static struct buf out;
	struct csv c;
	int rc;

	buf_reset(&out);
	csv_open(&c, text, len, "t.csv");
	while ((rc = csv_next(&c)) > 0) {
		for (int i = 0; i < c.nfields; i++)
			buf_addf(&out, "%s%s", i ? "|" : "", c.fields[i]);
		buf_addc(&out, '/');
	}
	csv_close(&c);
	err_clear();
	if (rc < 0)
		buf_addc(&out, '!');
	return buf_text(&out);
}

#define CSV(text) csv_joined(text, sizeof text - 1)

static void check_csv(void)
{
	CHECK_TEXT("", CSV(""));
	CHECK_TEXT("a|b/1|2/", CSV("a,b\n1,2\n"));
	CHECK_TEXT("a|b/1|2/", CSV("a,b\r\n1,2"));
	CHECK_TEXT("a|b/",
		CSV("\xef\xbb\xbf"
		    "a,b\n"));
	CHECK_TEXT("a|/|/", CSV("a,\n,\n"));
	CHECK_TEXT("a, \"b\"\nc|d/", CSV("\"a, \"\"b\"\"\nc\",d\n"));
	CHECK_TEXT("|/", CSV("\"\",\"\"\n"));
	CHECK_TEXT("/", CSV("\n"));
	CHECK_TEXT("a|b/!", CSV("a,b\n1\n"));
	CHECK_TEXT("a|b/!", CSV("a,b\n1,2,3\n"));
	CHECK_TEXT("a|b/!", CSV("a,b\n\n"));
	CHECK_TEXT("a|b/!", CSV("a,b\n1,\"2"));
	CHECK_TEXT("!", CSV("a,\"b\"c\n"));
	CHECK_TEXT("!", CSV("a,b\"c\n"));
	CHECK_TEXT("!", CSV("a,b\rc\n"));
	CHECK_TEXT("!", CSV("a\0b,c\n"));
	CHECK_TEXT("!", CSV("a,\"b\0\"\n"));
	CHECK_TEXT("!", CSV("a,\xff\n"));
}

static void check_csv_limits(void)
{
	struct buf b = BUF_INIT;

	for (int i = 0; i < CSV_FIELDS_MAX; i++)
		buf_adds(&b, i ? ",x" : "x");
	CHECK(csv_joined(b.data, b.len)[0] == 'x');
	buf_adds(&b, ",x");
	CHECK_TEXT("!", csv_joined(b.data, b.len));
	buf_reset(&b);
	for (int i = 0; i <= CSV_FIELD_BYTES_MAX; i++)
		buf_addc(&b, 'x');
	CHECK_TEXT("!", csv_joined(b.data, b.len));
	b.data[0] = '"';
	buf_adds(&b, "x\"");
	CHECK_TEXT("!", csv_joined(b.data, b.len));
	buf_release(&b);
}

/* --- Python literals ---------------------------------------------------------------------- */

static const char *py(const char *text)
{
	static char out[200];
	json_t *v = pyliteral_parse(text, "t");
	char *s = v ? json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

	snprintf(out, sizeof out, "%s", s ? s : "!");
	free(s);
	json_decref(v);
	err_clear();
	return out;
}

static void check_literals(void)
{
	struct buf deep = BUF_INIT;

	CHECK_TEXT("{\"Gpus\":[{\"Name\":\"H100\",\"Count\":1}],\"T\":81559}",
		py("{'Gpus': [{'Name': 'H100', 'Count': 1}], 'T': 81559}"));
	CHECK_TEXT("{\"a\":[true,false,null,-1.5]}",
		py(" {\"a\": (True, false, None, -1.5,)} "));
	CHECK_TEXT("\"it's \xc3\xa9\"", py("\"it's \\u00e9\""));
	CHECK_TEXT("{}", py("{}"));
	CHECK_TEXT("!", py(""));
	CHECK_TEXT("!", py("{'a': 1"));
	CHECK_TEXT("!", py("{'a' 1}"));
	CHECK_TEXT("!", py("{'a': 1, 'a': 2}"));
	CHECK_TEXT("!", py("{a: 1}"));
	CHECK_TEXT("!", py("{'a': 1} x"));
	CHECK_TEXT("!", py("'a"));
	CHECK_TEXT("!", py("'\\x41'"));
	CHECK_TEXT("!", py("'\\u0000'"));
	CHECK_TEXT("!", py("'\\ud800'"));
	CHECK_TEXT("!", py("'\\"));
	CHECK_TEXT("!", py("1e999"));
	CHECK_TEXT("!", py("__import__('os')"));
	for (int i = 0; i < 40; i++)
		buf_adds(&deep, "[");
	CHECK_TEXT("!", py(buf_text(&deep)));
	buf_release(&deep);
}

/* --- readers ------------------------------------------------------------------------------ */

#define HEAD \
	"InstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice,Region,GpuInfo\n"

static void sky(struct feed *f, const char *rows)
{
	struct buf text = BUF_INIT;
	struct feed empty = FEED_INIT;

	*f = empty;
	buf_addf(&text, "%s%s", HEAD, rows);
	CHECK(feed_skypilot(f, text.data, text.len, "sky.csv") == 0);
	buf_release(&text);
}

static int sky_bad(const char *rows)
{
	struct feed f = FEED_INIT;
	struct buf text = BUF_INIT;
	int rc;

	buf_addf(&text, "%s%s", HEAD, rows);
	rc = feed_skypilot(&f, text.data, text.len, "sky.csv");
	buf_release(&text);
	feed_release(&f);
	return rc;
}

static void check_prices(void)
{
	int64_t v = -1;

	CHECK(feed_price("2.77", 8000000, "p", &v) == 0);
	CHECK_I64(346250, v);
	CHECK(feed_price("5.8854999999999995", 4000000, "p", &v) == 0);
	CHECK_I64(1471375, v); /* to 12 decimals 5.885500000000 */
	CHECK(feed_price("0.000003", 2000000, "p", &v) == 0);
	CHECK_I64(2, v); /* 1.5 half up */
	CHECK(feed_price("0.20", 125000, "p", &v) == 0);
	CHECK_I64(1600000, v);
	CHECK(feed_price("0.00", 1000000, "p", &v) == 0);
	CHECK_I64(0, v);
	CHECK_FAILS(EX_DATAERR, feed_price("-0.1", 1000000, "p", &v));
	CHECK_FAILS(EX_DATAERR, feed_price("1,5", 1000000, "p", &v));
	CHECK_FAILS(EX_DATAERR, feed_price("nan", 1000000, "p", &v));
	CHECK_FAILS(EX_DATAERR, feed_price("1e30", 1000000, "p", &v));
}

#define GPUS(name, count, size, total)                                             \
	"\"{'Gpus': [{'Name': '" name "', 'Count': " count                         \
	", 'MemoryInfo': {'SizeInMiB': " size "}}], 'TotalGpuMemoryInMiB': " total \
	"}\"\n"

static void check_skypilot(void)
{
	struct feed f;
	const struct offer *o;

	/* Vast: the machine's name says 4060 Ti, the size is a total, no spot price */
	sky(&f,
		"2x-RTX_4060_Ti-32-65536,RTX4060,2,0.26,0.00,\"Texas, US, NA\"," GPUS(
			"RTX4060", "2", "32760", "32760"));
	CHECK_I64(1, (int64_t)f.offers.n);
	o = f.offers.items;
	CHECK_TEXT("RTX 4060 Ti 16GB", o->model);
	CHECK_I64(130000, o->uusd_per_gpu_hour);
	CHECK_TEXT("US", o->country);
	CHECK(!o->spot && o->gpu_count == 2);
	feed_release(&f);
	/* per GPU (the usual clouds): 8 x 80 GiB */
	sky(&f,
		"p4de,A100-80GB,8.0,40.96,16,us-east-1," GPUS("A100-80GB", "8", "81920",
			"655360"));
	CHECK_I64(2, (int64_t)f.offers.n);
	CHECK_TEXT("A100 80GB", f.offers.items[0].model);
	CHECK_I64((int64_t)80 << 30, f.offers.items[0].gpu_memory_bytes);
	CHECK(f.offers.items[1].spot && f.offers.items[1].uusd_per_gpu_hour == 2000000);
	CHECK(f.offers.items[0].country == NULL);
	feed_release(&f);
	/* Prime: a total called the size of one, and a total of totals */
	sky(&f,
		"x__2xA100_80GB__44__240,A100-80GB,2.0,2.0,,FI," GPUS("A100-80GB", "2",
			"163840", "327680"));
	CHECK_I64((int64_t)80 << 30, f.offers.items[0].gpu_memory_bytes);
	feed_release(&f);
	/* RunPod: GiB called MiB */
	sky(&f, "2x_A40_SECURE,A40,2,0.8,0.4,SE," GPUS("A40", "2", "48", "96"));
	CHECK_I64((int64_t)48 << 30, f.offers.items[0].gpu_memory_bytes);
	CHECK_TEXT("A40", f.offers.items[0].model);
	feed_release(&f);
	/* a bare name that says more than the machine's */
	sky(&f, "1x_H100_SECURE,H100-80GB-HBM3,1.0,4.49,,US,H100_80GB_SXM5\n");
	CHECK_TEXT("H100 SXM", f.offers.items[0].model);
	feed_release(&f);
	/* a part of a GPU: the price is that of a whole one */
	sky(&f, "g6f.large,L4,0.125,0.20,,us-east-1,\n");
	CHECK_I64(1600000, f.offers.items[0].uusd_per_gpu_hour);
	CHECK_I64(125000, f.offers.items[0].gpu_share_ppm);
	feed_release(&f);
	/* hyphens within the model; a machine's name of another form says nothing */
	sky(&f, "1x-RTX-4070-Ti-24-64,RTX4070,1,0.2,,US,\n1x-RTX_3090,RTX4090,1,0.2,,US,\n");
	CHECK_TEXT("RTX 4070 Ti", f.offers.items[0].model);
	CHECK_TEXT("RTX 4090", f.offers.items[1].model);
	feed_release(&f);
	/* left out, each with a note: no GPU, no price, neither whole nor part; unknown model */
	sky(&f, "cpu,,,0.1,,US,\nx,L4,1,,0.00,US,\ny,L4,1.5,1,,US,\n1x-RTX_4060_X-1-1,RTX4060,1,1,,US,\n");
	CHECK_I64(1, (int64_t)f.offers.n);
	CHECK_I64(4, (int64_t)f.nnotes);
	CHECK_I64(4, f.rows);
	CHECK_TEXT("RTX_4060_X", f.offers.items[0].model); /* not the RTX 4060 */
	CHECK(!f.offers.items[0].known);
	feed_release(&f);
	/* the same offer twice; again with another price */
	sky(&f, "a,L4,1,1.0,,US,\na,L4,1,1.0,,US,\na,L4,1,9.0,,US,\n");
	CHECK_I64(1, (int64_t)f.offers.n);
	CHECK_I64(2, (int64_t)f.nnotes);
	feed_release(&f);
}

static void check_skypilot_bad(void)
{
	struct feed f = FEED_INIT;

	CHECK_FAILS(EX_DATAERR, sky_bad("a,L4,1,x,,US,\n"));
	CHECK_FAILS(EX_DATAERR, sky_bad("a,L4,1,-1,,US,\n"));
	CHECK_FAILS(EX_DATAERR, sky_bad("a,L4,one,1,,US,\n"));
	CHECK_FAILS(EX_DATAERR, sky_bad("a,L4,-1,1,,US,\n"));
	CHECK_FAILS(EX_DATAERR, sky_bad("a,L4,1e9,1,,US,\n"));
	CHECK_FAILS(EX_DATAERR, sky_bad("a,L4,1,1,,US,{'Gpus'\n"));
	CHECK_FAILS(EX_DATAERR, sky_bad("a,,1,1,,US,\n"));
	CHECK_FAILS(EX_DATAERR, sky_bad(",,0,1,,US,\n"));
	CHECK_FAILS(EX_DATAERR, sky_bad("a,L4,1,1,,US\n"));
	CHECK_FAILS(EX_DATAERR, feed_skypilot(&f, "", 0, "x"));
	CHECK_FAILS(EX_DATAERR, feed_skypilot(&f, "a,b\n", 4, "x"));
	CHECK_FAILS(EX_DATAERR, feed_skypilot(&f, "Price,Price\n", 12, "x"));
	feed_release(&f);
}

static int vast(struct feed *f, const char *text)
{
	struct feed empty = FEED_INIT;

	*f = empty;
	return feed_vast(f, text, strlen(text), "vast.json");
}

#define OFFER(more) \
	"{\"id\":7,\"gpu_name\":\"RTX 4090\",\"num_gpus\":4,\"gpu_ram\":24564" more "}"

static void check_vast(void)
{
	struct feed f;
	const struct offer *o;

	CHECK(vast(&f,
		      "{\"offers\":" OFFER(
			      ",\"dph_base\":1.2,\"dph_total\":1.6,\"min_bid\":0.8,"
			      "\"inet_down\":900.5,\"inet_up\":null,"
			      "\"cpu_ram\":65536,\"cpu_cores_effective\":7.5,"
			      "\"reliability2\":0.9876543,\"geolocation\":\"Texas, US\","
			      "\"rentable\":true,\"verification\":\"verified\"") "}") ==
		0);
	CHECK_I64(2, (int64_t)f.offers.n);
	o = f.offers.items;
	CHECK_I64(300000, o->uusd_per_gpu_hour); /* for one GPU, without storage */
	CHECK_I64(900500000, o->down_bps);       /* Mbit/s */
	CHECK_I64(OFFER_UNKNOWN, o->up_bps);
	CHECK_I64((int64_t)64 << 30, o->memory_bytes);
	CHECK_I64(7, o->cpu_cores);
	CHECK_I64(987654, o->reliability_ppm);
	CHECK_TEXT("US", o->country);
	CHECK(o->rentable == 1 && o->rented == OFFER_UNKNOWN && o->verified == 1);
	CHECK(o[1].spot && o[1].uusd_per_gpu_hour == 200000);
	feed_release(&f);
	CHECK(vast(&f,
		      "{\"response_example\":{\"offers\":[" OFFER(",\"dph_total\":1") "," OFFER(
			      ",\"dph_total\":1") "," OFFER("") "]},\"count\":3}") == 0);
	CHECK_I64(1, (int64_t)f.offers.n);
	CHECK_I64(250000, f.offers.items[0].uusd_per_gpu_hour);
	CHECK_I64(3, (int64_t)f.nnotes); /* storage, again, no price */
	feed_release(&f);
	/* shortest digits, not the double's own expansion */
	CHECK(vast(&f,
		      "{\"timestamp\":\"2025-07-26T08:01:10.57621754Z\",\"offers\":[" OFFER(
			      ",\"dph_base\":0.000010") "]}") == 0);
	CHECK_I64(3, f.offers.items[0].uusd_per_gpu_hour); /* 2.5 half up */
	CHECK_I64(1753516870576, f.at_ms);
	feed_release(&f);
}

static void check_vast_bad(void)
{
	static const char *const bad[] = {
		"", "[", "{}", "{\"offers\":1}", "{\"offers\":[1]}", "{\"offers\":[{}]}",
		"{\"offers\":[" OFFER(",\"dph_base\":\"1\"") "]}",
		"{\"offers\":[" OFFER(",\"dph_base\":-1") "]}",
		"{\"offers\":[" OFFER(",\"dph_base\":1e300") "]}",
		"{\"offers\":[" OFFER(",\"inet_up\":1e300") "]}",
		"{\"offers\":[" OFFER(",\"reliability2\":1.1") "]}",
		"{\"offers\":[" OFFER(",\"rentable\":1") "]}",
		"{\"offers\":[" OFFER(",\"geolocation\":1") "]}",
		"{\"offers\":[{\"id\":7,\"gpu_name\":\"L4\",\"num_gpus\":1.5}]}",
		"{\"offers\":[{\"id\":7,\"num_gpus\":1}]}",
		"{\"offers\":[{\"id\":7,\"gpu_name\":\"L4\",\"num_gpus\":9999}]}",
		"{\"timestamp\":\"yesterday\",\"offers\":[]}",
		"{\"offers\":[" OFFER(",\"dph_base\":1") "]", /* cut short */
	};
	struct feed f;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		CHECK_FAILS(EX_DATAERR, vast(&f, bad[i]));
		feed_release(&f);
	}
}

static void check_country(void)
{
	char c[3];

	CHECK(feed_country("Hungary, HU, EU", c) && strcmp(c, "HU") == 0);
	CHECK(feed_country(", US, NA", c) && strcmp(c, "US") == 0);
	CHECK(feed_country("Ontario, CA", c) && strcmp(c, "CA") == 0);
	CHECK(feed_country("SE", c) && strcmp(c, "SE") == 0);
	CHECK(!feed_country("", c) && !feed_country("us-east-1", c));
	CHECK(!feed_country("EU-SE-1", c) && !feed_country("a, b, c, US", c));
}

/* --- outliers ----------------------------------------------------------------------------- */

static void fill(struct offer_list *l, int n, int64_t price)
{
	struct offer o;

	memset(l, 0, sizeof *l);
	offer_init(&o);
	o.market = "vast";
	o.id = "x";
	o.model = o.name = "RTX 4090";
	for (int i = 0; i < n; i++) {
		o.uusd_per_gpu_hour = price + i;
		offer_list_add(l, &o);
	}
}

static int judge(const struct feed_state *s, int n, int64_t price)
{
	struct offer_list l;
	int rc;

	fill(&l, n, price);
	rc = feed_check(s, &l, 3);
	offer_list_release(&l);
	return rc;
}

static void check_judge(void)
{
	struct feed_state s = { 0 };
	struct feed f = FEED_INIT;

	CHECK(judge(&s, 30, 1) == 0); /* no history */
	for (int i = 0; i < 20; i++) {
		fill(&f.offers, 30, 300000);
		f.at_ms = 1000 * i;
		feed_state_accept(&s, "vast", &f, NULL);
		feed_release(&f);
	}
	CHECK_I64(19000, feed_state_at(&s));
	feed_state_confirm(&s, 77000);
	CHECK_I64(77000, feed_state_at(&s));
	CHECK_I64(FEED_HISTORY_MAX,
		(int64_t)json_array_size(json_object_get(s.doc, "history")));
	CHECK(judge(&s, 30, 890000) == 0);
	CHECK(judge(&s, 30, 110000) == 0);
	CHECK_FAILS(EX_DATAERR, judge(&s, 30, 910000));
	CHECK_FAILS(EX_DATAERR, judge(&s, 30, 99000));
	CHECK_FAILS(EX_DATAERR, judge(&s, 2, 300000)); /* a tenth of the usual number */
	CHECK(judge(&s, 3, 300000) == 0);
	feed_state_release(&s);
}

/* A market with one price a model, whose unit becomes another; one model alone may move. */
static void check_unit(void)
{
	static const char *const names[] = { "RTX 4090", "RTX 3090", "L4" };
	struct feed_state s = { 0 };

	for (int t = 0; t < 3; t++) {
		struct feed f = FEED_INIT;
		struct offer o;

		offer_init(&o);
		o.market = "salad";
		for (int i = 0; i < 3; i++) {
			o.id = o.model = o.name = names[i];
			o.uusd_per_gpu_hour = 300000 *
				(t == 2 || (t == 1 && !i) ? 100 : 1);
			offer_list_add(&f.offers, &o);
		}
		if (t == 2)
			CHECK_FAILS(EX_DATAERR, feed_check(&s, &f.offers, 3));
		else
			CHECK(feed_check(&s, &f.offers, 3) == 0);
		feed_state_accept(&s, "salad", &f, NULL);
		feed_release(&f);
	}
	feed_state_release(&s);
}

/* what a state keeps is what comes out of its file, and half a file is no state */
static void check_state_file(void)
{
	char path[] = "/tmp/rnp-feed-state-XXXXXX";
	struct feed_state s = { 0 };
	struct feed f = FEED_INIT;
	struct offer_list l = { 0 };
	int fd = mkstemp(path);

	CHECK(fd >= 0);
	fill(&f.offers, 30, 300000);
	f.offers.items[3].region = "Z\xc3\xbcrich \"west\"";
	f.at_ms = 1000;
	feed_state_accept(&s, "vast", &f, "tag");
	CHECK(feed_state_save(&s, path, &f.offers) == 0);
	feed_state_release(&s);
	CHECK(feed_state_load(&s, path, "vast") == 0);
	CHECK_I64(1000, feed_state_at(&s));
	CHECK_TEXT("tag", feed_state_etag(&s));
	CHECK(feed_state_offers(&s, &l) == 0);
	CHECK_I64(30, (int64_t)l.n);
	CHECK_TEXT(f.offers.items[3].region, l.items[3].region);
	CHECK_I64(300029, l.items[29].uusd_per_gpu_hour);
	offer_list_release(&l);
	CHECK(truncate(path, 2000) == 0);
	CHECK_FAILS(EX_DATAERR, feed_state_offers(&s, &l));
	offer_list_release(&l);
	feed_state_release(&s);
	feed_release(&f);
	close(fd);
	unlink(path);
}

int main(void)
{
	check_csv();
	check_csv_limits();
	check_literals();
	check_prices();
	check_skypilot();
	check_skypilot_bad();
	check_vast();
	check_vast_bad();
	check_country();
	check_judge();
	check_unit();
	check_state_file();
	TEST_END();
}
