/* gang.c - what several ranks are charged: the time in which all of them were ready, of each until
 * its run ended, and nothing after the release; and a customer finds out where an invoice has more.
 * The nodes say that they always work. */
/* uses: cmd/rnp-register */
#include "cmd/rnp-register/customer/invoice.h"
#include "cmd/rnp-register/market/receipts.h"
#include "tests/unit/rnp-register/market/booked.h"

/* Both nodes read their meters so many minutes after the beginning. */
static void read_at(int minutes)
{
	set_clock(BEGIN + minutes * MINUTE);
	say(&node, 0, "ready", minutes * MINUTE, -1, 201);
	say(&other, 1, "ready", minutes * MINUTE, -1, 201);
}

static json_t *invoice_now(void)
{
	return get("/v1/invoices/" CLUSTER, &customer);
}

static json_t *node_of(json_t *reply, size_t rank)
{
	return json_array_get(json_object_get(json_object_get(reply, "invoice"), "nodes"),
		rank);
}

static void charged(int minutes0, int minutes1)
{
	json_t *reply = invoice_now();

	CHECK_I64(minutes0 * MINUTE, number_of(node_of(reply, 0), "ready_ms"));
	CHECK_I64(minutes1 * MINUTE, number_of(node_of(reply, 1), "ready_ms"));
	json_decref(reply);
}

/* Whether the invoice follows where a rank has so many minutes. */
static void follows(size_t rank, int minutes, const char *want)
{
	json_t *reply = invoice_now(), *events = events_now();
	struct buf why = BUF_INIT;

	if (minutes) {
		json_set_i64(node_of(reply, rank), "ready_ms", minutes * MINUTE);
		sign_again(json_object_get(reply, "invoice"), &registrar);
	}
	{
		const struct invoice_parts p = { .cluster = CLUSTER,
			.customer = customer.address,
			.invoice = json_object_get(reply, "invoice"),
			.booking = json_object_get(reply, "booking"),
			.receipts = json_object_get(reply, "receipts"),
			.events = events };

		CHECK(invoice_agrees(&p, &why) == !want);
	}
	CHECK(want ? strstr(buf_text(&why), want) != NULL : !why.len);
	if (why.len && !want)
		fprintf(stderr, "%s\n", why.data);
	buf_release(&why);
	json_decref(events);
	json_decref(reply);
}

static void release(void)
{
	json_t *action = json_record("rnp.action");
	struct buf text = BUF_INIT;

	json_set_text(action, "cluster", CLUSTER);
	json_set_text(action, "action", "release");
	sign(action, &customer);
	json_write(&text, action);
	CHECK_I64(200, ask("POST", "/v1/actions", NULL, text.data, text.len, NULL));
	json_decref(action);
	buf_release(&text);
}

static void begin(int on_failure)
{
	const struct registry_config config = { 0 };

	set_clock(BEGIN);
	start_with(&config);
	put_cluster((const struct key *[]){ &node, &other }, 2, &stranger);
	sql("UPDATE clusters SET on_failure = %d", on_failure);
	seq = 0;
	say(&node, 0, "ready", 0, -1, 201);
}

static void end(void)
{
	stop();
	CHECK(unlink(in_place("registry.db")) == 0);
}

static void waits_works_ends(void)
{
	begin(0);
	set_clock(BEGIN + 10 * MINUTE);
	say(&node, 0, "ready", 10 * MINUTE, -1, 201);
	charged(0, 0);
	say(&other, 1, "ready", 0, -1, 201);
	read_at(20);
	charged(10, 10);
	set_clock(BEGIN + 25 * MINUTE);
	say(&other, 1, "ready", 25 * MINUTE, 0, 201);
	charged(10, 15);
	read_at(40);
	charged(30, 15);
	release();
	set_clock(BEGIN + 41 * MINUTE);
	say(&node, 0, "ready", 41 * MINUTE, -1, 201);
	say(&node, 0, "released", 41 * MINUTE, -1, 201);
	say(&other, 1, "released", 41 * MINUTE, -1, 201);
	charged(30, 15);
	sql("DELETE FROM receipts_due"); /* it is about time alone */
	follows(0, 40, "by its events");
	follows(1, 40, "by its events");
	follows(1, 16, "by its events");
	end();
}

/* One that is replaced holds up those who begin anew with it, and not those who go on. */
static void pauses(int on_failure, int minutes)
{
	begin(on_failure);
	say(&other, 1, "ready", 0, -1, 201);
	read_at(10);
	charged(10, 10);
	sql("UPDATE members SET state = 3 WHERE rank = 1");
	say(&node, 0, "ready", 10 * MINUTE, -1, 201);
	set_clock(BEGIN + 20 * MINUTE);
	say(&node, 0, "ready", 20 * MINUTE, -1, 201);
	charged(10 + minutes, 10);
	say(&other, 1, "ready", 0, -1, 201);
	read_at(30);
	charged(20 + minutes, 20);
	end();
}

/* Of a rank that its customer releases the others do not wait for another. */
static void goes_on(void)
{
	begin(0);
	sql("UPDATE members SET state = 6 WHERE rank = 1");
	say(&node, 0, "ready", 0, -1, 201);
	set_clock(BEGIN + 10 * MINUTE);
	say(&node, 0, "ready", 10 * MINUTE, -1, 201);
	charged(10, 0);
	end();
}

/* An honest run, with its receipts. */
static void agrees(void)
{
	begin(0);
	set_clock(BEGIN + MINUTE);
	say(&other, 1, "ready", 0, -1, 201);
	set_clock(BEGIN + 11 * MINUTE);
	say(&other, 1, "ready", 10 * MINUTE, 0, 201);
	say(&node, 0, "ready", 10 * MINUTE, 0, 201);
	say(&node, 0, "released", 10 * MINUTE, -1, 201);
	say(&other, 1, "released", 10 * MINUTE, -1, 201);
	receipts_tick(&registry);
	sql("SELECT 1");
	charged(10, 10);
	follows(0, 0, NULL);
	end();
}

int main(void)
{
	make_keys();
	waits_works_ends();
	pauses(0, 0);
	pauses(1, 10);
	goes_on();
	agrees();
	clean_up();
	TEST_END();
}
