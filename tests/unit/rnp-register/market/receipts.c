/* receipts.c - what a node earns, in pieces, is what the invoice says, to the uusd; receipts
 * come every hour, at midnight and at the end; and a customer finds out where an invoice does
 * not follow. The clock is the test's own. */
/* uses: cmd/rnp-register */
#include "cmd/rnp-register/market/receipts.h"

#include "cmd/rnp-register/customer/invoice.h"
#include "cmd/rnp-register/market/meter.h"
#include "cmd/rnp-register/market/money.h"
#include "common/base/clock.h"
#include "common/base/rng.h"
#include "common/json/canon.h"
#include "common/json/json.h"
#include "common/record/signature.h"
#include "tests/unit/rnp-register/market/booked.h"

#define DAY (24 * HOUR)

/* --- the pure part ---------------------------------------------------------------------------- */

static void pieces_add_up(void)
{
	struct rng rng;

	rng_seed(&rng, 1, 0);
	for (int i = 0; i < 2000; i++) {
		int64_t price = (int64_t)rng_below(&rng, 1000000000),
			gpus = (int64_t)rng_below(&rng, 9);
		int64_t earned = 0, seconds = 0, ms = 0, at = 0;
		struct meter sum = { 0, 0, 0 };

		for (int k = 0; k < 20; k++) {
			struct meter m;

			at += (int64_t)rng_below(&rng, 100000) - 10000;
			m = meter_read(&sum, price, gpus, at < 0 ? 0 : at);
			CHECK(m.ready_ms >= 0 && m.earned_uusd >= 0 &&
				m.gpu_seconds >= 0);
			earned += m.earned_uusd;
			seconds += m.gpu_seconds;
			ms += m.ready_ms;
		}
		CHECK_I64(sum.ready_ms, ms);
		CHECK_I64((int64_t)((__int128)price * ms / 3600000), earned);
		CHECK_I64(gpus * ms / 1000, seconds);
	}
	CHECK_I64(BEGIN + 20 * MINUTE + HOUR - 20 * MINUTE,
		meter_due_ms(BEGIN + 20 * MINUTE));
	CHECK_I64(BEGIN + HOUR, meter_due_ms(BEGIN));
	CHECK_I64(BEGIN + 2 * HOUR, meter_due_ms(BEGIN + HOUR));
}

/* --- a cluster that somebody has booked ------------------------------------------------------- */

/* Lets the registry do what is due. */
static void tick(void)
{
	receipts_tick(&registry);
	sql("SELECT 1");
}

static json_t *receipts_now(void)
{
	json_t *reply = get("/v1/records?kind=rnp.receipt&limit=1000", NULL);
	json_t *list = json_incref(json_object_get(reply, "records"));

	json_decref(reply);
	return list;
}

static size_t count_receipts(void)
{
	json_t *list = receipts_now();
	size_t n = json_array_size(list);

	json_decref(list);
	return n;
}

/* An evening and a night: ready at 23:10, readings every minute, one of them lost. */
static void runs(void)
{
	int64_t ready_at = BEGIN + 10 * MINUTE;

	set_clock(ready_at);
	say(&node, 0, "ready", 0, -1, 201);
	for (int i = 1; i <= 120; i++) {
		set_clock(ready_at + i * MINUTE);
		tick();
		if (i != 7)
			say(&node, 0, "ready", i * MINUTE - 11, -1, 201);
		/* midnight came at the 50th minute, and nothing before it */
		if (i == 49 || i == 55)
			CHECK_I64(i > 50, (int64_t)count_receipts());
		if (i == 115)
			CHECK_I64(2, (int64_t)count_receipts());
	}
	/* it says more than there was: the registry's own time counts */
	set_clock(ready_at + 121 * MINUTE);
	say(&node, 0, "ready", 200 * MINUTE, -1, 201);
	say(&node, 0, "released", 200 * MINUTE, -1, 201);
	say(&node, 0, "released", 300 * MINUTE, -1, 409);
	tick();
	CHECK_I64(3, (int64_t)count_receipts());
	tick();
	CHECK_I64(3, (int64_t)count_receipts());
}

static void adds_up(void)
{
	json_t *reply = get("/v1/invoices/" CLUSTER, &customer), *list = receipts_now();
	const json_t *invoice = json_object_get(reply, "invoice"), *r;
	int64_t earned = 0, seconds = 0, last_to = 0, from, to;
	size_t i;

	json_array_foreach(list, i, r) {
		earned += number_of(r, "earned_uusd");
		seconds += number_of(r, "gpu_seconds");
		CHECK_I64(number_of(r, "earned_uusd"), number_of(r, "credits"));
		CHECK_I64(2, (int64_t)json_array_size(json_object_get(r, "devices")));
		CHECK(json_get_time(r, "r", "from", &from) == 0 &&
			json_get_time(r, "r", "to", &to) == 0);
		CHECK(from >= last_to && to > from);
		/* none crosses midnight */
		CHECK((from < BEGIN + HOUR) == (to <= BEGIN + HOUR));
		last_to = to;
	}
	CHECK_I64(market_cost(PRICE, 121 * MINUTE), number_of(invoice, "uusd"));
	CHECK_I64(market_cost(SHARE, 121 * MINUTE), earned);
	CHECK_I64(2 * 121 * 60, seconds);
	CHECK_I64(number_of(invoice, "uusd"), earned + number_of(invoice, "fee_uusd"));
	CHECK_I64(earned, number_of(invoice, "burn_uusd"));
	CHECK(json_is_true(json_object_get(invoice, "final")));
	CHECK_I64(404, ask("GET", "/v1/invoices/" CLUSTER, &other, NULL, 0, NULL));
	CHECK_I64(404, ask("GET", "/v1/invoices/" CLUSTER, &node, NULL, 0, NULL));
	CHECK_I64(401, ask("GET", "/v1/invoices/" CLUSTER, NULL, NULL, 0, NULL));
	json_decref(list);
	json_decref(reply);
}

/* --- the customer checks ---------------------------------------------------------------------- */

/* Changes one thing, signs it as its author would, and expects this difference; NULL: none. */
static void finds(const char *want, void (*change)(json_t *reply, json_t *events))
{
	json_t *reply = get("/v1/invoices/" CLUSTER, &customer), *events = events_now();
	struct buf why = BUF_INIT;
	bool agrees;

	if (change)
		change(reply, events);
	{
		const struct invoice_parts p = { .cluster = CLUSTER,
			.customer = customer.address,
			.invoice = json_object_get(reply, "invoice"),
			.booking = json_object_get(reply, "booking"),
			.receipts = json_object_get(reply, "receipts"),
			.events = events };

		agrees = invoice_agrees(&p, &why);
	}
	CHECK(agrees == !want);
	test_checks++;
	if (want && !strstr(buf_text(&why), want)) {
		test_failures++;
		fprintf(stderr, "'%s' lacks '%s'\n", buf_text(&why), want);
	}
	if (!want && why.len)
		fprintf(stderr, "%s\n", why.data);
	json_decref(reply);
	json_decref(events);
	buf_release(&why);
}

static json_t *invoice_node(json_t *reply)
{
	return json_array_get(json_object_get(json_object_get(reply, "invoice"), "nodes"),
		0);
}

static void add(json_t *obj, const char *key, int64_t more)
{
	json_object_set_new(obj, key, json_integer(number_of(obj, key) + more));
}

static void dearer(json_t *reply, json_t *events)
{
	json_t *one = invoice_node(reply), *invoice = json_object_get(reply, "invoice");
	int64_t more = market_cost(PRICE + 1000, 121 * MINUTE) -
		market_cost(PRICE, 121 * MINUTE);

	(void)events;
	add(one, "uusd_per_hour", 1000);
	add(one, "uusd", more);
	add(invoice, "uusd", more);
	add(invoice, "fee_uusd", more);
	sign_again(invoice, &registrar);
}

static void longer(json_t *reply, json_t *events)
{
	json_t *one = invoice_node(reply);

	(void)events;
	add(one, "ready_ms", 100 * MINUTE);
	sign_again(json_object_get(reply, "invoice"), &registrar);
}

static void one_more(json_t *reply, json_t *events)
{
	(void)events;
	add(invoice_node(reply), "uusd", 1);
	sign_again(json_object_get(reply, "invoice"), &registrar);
}

static void wrong_sum(json_t *reply, json_t *events)
{
	(void)events;
	add(json_object_get(reply, "invoice"), "uusd", 1);
	sign_again(json_object_get(reply, "invoice"), &registrar);
}

static void by_another(json_t *reply, json_t *events)
{
	(void)events;
	sign_again(json_object_get(reply, "invoice"), &stranger);
}

static void booking_of_another(json_t *reply, json_t *events)
{
	(void)events;
	sign_again(json_object_get(reply, "booking"), &other);
}

static void other_booking(json_t *reply, json_t *events)
{
	(void)events;
	add(json_object_get(reply, "booking"), "hours", 1);
	sign_again(json_object_get(reply, "booking"), &customer);
}

static void lost_receipt(json_t *reply, json_t *events)
{
	(void)events;
	json_array_remove(json_object_get(reply, "receipts"), 1);
}

static void richer_receipt(json_t *reply, json_t *events)
{
	json_t *r = json_array_get(json_object_get(reply, "receipts"), 1);

	(void)events;
	add(r, "earned_uusd", 1);
	sign_again(r, &registrar);
}

static void forged_event(json_t *reply, json_t *events)
{
	(void)reply;
	add(json_array_get(events, 3), "ready_ms", 1);
}

/* A node that signs time which it cannot have had. */
static void hasty(json_t *reply, json_t *events)
{
	json_t *one;
	size_t i;

	(void)reply;
	for (i = json_array_size(events); i-- > 2;) {
		one = json_array_get(events, i);
		if (json_object_get(one, "node"))
			json_array_remove(events, i);
	}
	one = json_array_get(events, json_array_size(events) - 1);
	json_object_set_new(one, "ready_ms", json_integer(121 * MINUTE));
	sign_again(one, &node);
}

static void other_node(json_t *reply, json_t *events)
{
	(void)events;
	json_set_text(invoice_node(reply), "node", other.address);
	sign_again(json_object_get(reply, "invoice"), &registrar);
}

static void checks(void)
{
	finds(NULL, NULL);
	finds("is not what was booked", dearer);
	finds("is not what was booked", other_node);
	finds("the node has signed", longer);
	finds("are", one_more);
	finds("uusd is", wrong_sum);
	finds("has not signed it", by_another);
	finds("has not signed it", booking_of_another);
	finds("another booking", other_booking);
	finds("receipt", lost_receipt);
	finds("is of something else", richer_receipt);
	finds("has not signed it", forged_event);
	finds("by its events and", hasty);
}

int main(void)
{
	const struct registry_config config = { 0 };

	make_keys();
	pieces_add_up();
	set_clock(BEGIN);
	start_with(&config);
	put_cluster((const struct key *[]){ &node }, 1, &other);
	runs();
	adds_up();
	checks();
	stop();
	clean_up();
	TEST_END();
}
