/* book.c - rnp-register book: takes an offer of a market. */
#include <string.h>

#include "cmd/rnp-register/commands.h"
#include "cmd/rnp-register/customer/offer.h"
#include "cmd/rnp-register/customer/wishes.h"
#include "common/base/err.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/registry/client.h"

static struct customer_options asks;
static struct opt_list ssh_keys;
static const char *image, *on_failure;
static int64_t hours = -1, offer, budget_uusd = -1, deadline_ms = -1;

static const struct opt opts[] = {
	OPTS_CUSTOMER(&asks),
	OPT_IN(I64, "hours", &hours, "N", 1, 876000,
		"it ends after this many hours (default the job's own, else 1)"),
	OPT(LIST, "ssh-key", &ssh_keys, "F",
		"a public key that may log in, such as ~/.ssh/id_ed25519.pub; several"),
	OPT_IN(I64, "offer", &offer, "N", 0, 15,
		"which of the offers (default 0, the cheapest)"),
	OPT(USD, "budget", &budget_uusd, "USD",
		"it ends before it costs more (default the offer's price)"),
	OPT(TIME, "deadline", &deadline_ms, "T", "it ends then, such as +8h"),
	OPT(TEXT, "image", &image, "REF",
		"what runs, with its digest (default the job's)"),
	OPT(CHOICE, "on-node-failure", &on_failure, "WHAT",
		"when a node fails (default restart)", .choices = "restart|continue|end"),
	{ 0 },
};

/* Hours that the job of a proposal takes, rounded up. */
static int64_t hours_of(const json_t *proposal)
{
	const json_t *job = json_object_get(proposal, "request");
	json_int_t seconds = json_integer_value(json_object_get(job, "seconds"));
	json_int_t whole = json_integer_value(json_object_get(job, "hours"));

	return seconds ? (seconds + 3599) / 3600 : whole ? whole : 1;
}

/* Returns the booking, or NULL with err_set. */
static json_t *make(const json_t *proposal)
{
	json_t *booking = json_record("rnp.booking");

	json_set_i64(booking, "offer", offer);
	json_set_i64(booking, "hours", hours > 0 ? hours : hours_of(proposal));
	json_set_text(booking, "image", image);
	json_set_text(booking, "on_node_failure", on_failure);
	offer_set_replacement(booking, proposal);
	json_set_text(booking, "name",
		json_string_value(
			json_object_get(json_object_get(proposal, "request"), "job")));
	if (budget_uusd >= 0)
		json_set_i64(booking, "budget_uusd", budget_uusd);
	if (deadline_ms >= 0)
		json_set_time(booking, "deadline", deadline_ms);
	if (!ssh_keys.n || customer_add_keys(booking, &ssh_keys) == 0)
		return booking;
	json_decref(booking);
	return NULL;
}

static int book(struct customer *customer, const char *path)
{
	json_t *proposal = customer_propose(customer, path), *booking, *cluster = NULL;
	struct buf words = BUF_INIT;
	int rc = -1;

	if (!proposal)
		return -1;
	if (!offer_first(proposal)) {
		offer_none_words(&words, proposal);
		err_set(EX_UNAVAILABLE, "%s", buf_text(&words));
	} else {
		offer_words(&words, proposal);
		prog_info("plan    %s", buf_text(&words));
		booking = make(proposal);
		if (booking)
			cluster = customer_book(customer, booking, proposal);
		rc = cluster ? out_record(cluster) : -1;
	}
	buf_release(&words);
	json_decref(cluster);
	json_decref(proposal);
	return rc;
}

static int run(int n, char **args)
{
	struct key key = KEY_INIT;
	struct customer customer;
	int rc = customer_open(&customer, &key, &asks);

	if (rc == 0)
		rc = book(&customer, n ? args[0] : "-");
	customer_release(&customer);
	key_release(&key);
	opt_list_release(&ssh_keys);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_book = {
	.name = "book",
	.arguments = "[file]",
	.args_max = 1,
	.summary = "Book nodes of a market for a job, or an offer of a proposal.",
	.details =
		"Reads a job file (rnp-job(5)), an rnp.job or an rnp.proposal; writes one rnp.cluster.\n"
		"Nothing runs on the nodes but their image, until somebody logs in. 69 if nothing fits,\n"
		"75 if it is taken or dearer by now, 77 if the credit is not enough.",
	.card = true,
	.group = "customer",
	.opts = opts,
	.run = run,
};
