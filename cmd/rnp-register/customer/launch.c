/* launch.c - from a task to a booked cluster. */
#include "cmd/rnp-register/customer/launch.h"

#include <stdio.h>
#include <string.h>

#include "cmd/rnp-register/agent/image.h"
#include "cmd/rnp-register/customer/offer.h"
#include "cmd/rnp-register/customer/ship.h"
#include "cmd/rnp-register/market/sealed.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/cli/prog.h"
#include "common/json/json.h"

#define HOUR_MS     INT64_C(3600000)
#define HOURS_USUAL 24
#define WISHES_MAX  64
#define TRIES       3

/* What would mean nothing is refused before anything is sent. */
static int check_task(const struct jobfile *job)
{
	const json_t *task = job->task;

	if (!json_object_get(task, "autostop"))
		return 0;
	/* whoever waits for logins is idle for nobody but his customer */
	if (!json_object_get(task, "run_sha256"))
		return err_set(EX_DATAERR,
			"autostop: without run the nodes wait for logins, and nobody knows when you are done; write deadline: 2h, or end it with rnp-register release");
	prog_info("autostop: the nodes are released as soon as run has ended");
	return 0;
}

static int64_t hours_of(const struct launch *l, const json_t *task)
{
	const json_t *after = json_object_get(task, "deadline_s");
	int64_t until_ms = 0, now_ms = clock_now_ms(), hours = HOURS_USUAL;

	if (l->hours)
		return l->hours;
	if (after)
		hours = (json_integer_value(after) + 3599) / 3600;
	else if (json_object_get(task, "deadline") &&
		json_get_time(task, "task", "deadline", &until_ms) == 0)
		hours = until_ms > now_ms ? (until_ms - now_ms + HOUR_MS - 1) / HOUR_MS :
					    1;
	return hours < 876000 ? hours : 876000;
}

/* --- plan --------------------------------------------------------------------------------- */

/* Gives the image of a wish its digest: what its tag stands for now. last: the wish before it, as
 * it was and as it is, whose registry need not be asked twice. */
static int pin_image(const struct launch *l, json_t *wish, const json_t *last_was,
	const json_t *last_is)
{
	const char *image = json_string_value(json_object_get(wish, "image"));
	struct buf pinned = BUF_INIT;
	int rc;

	if (!image || strchr(image, '@'))
		return 0;
	if (json_equal(json_object_get(last_was, "image"),
		    json_object_get(wish, "image"))) {
		json_set(wish, "image", json_incref(json_object_get(last_is, "image")));
		return 0;
	}
	rc = image_digest_fetch(&l->customer->http, image, &pinned);
	if (rc == 0) {
		prog_info("image   %s", buf_text(&pinned));
		json_set_text(wish, "image", buf_text(&pinned));
	}
	buf_release(&pinned);
	return rc;
}

/* The wishes of a task as they are asked for. The caller owns them; NULL with err_set. */
static json_t *wishes_of(const struct launch *l, const json_t *task)
{
	const json_t *all = json_object_get(task, "wishes"), *wish;
	json_t *asked = json_array();
	size_t i;

	json_array_foreach((json_t *)all, i, wish) {
		json_t *one = json_copy((json_t *)wish);
		int rc = i ? pin_image(l, one, json_array_get(all, i - 1),
				     json_array_get(asked, i - 1)) :
			     pin_image(l, one, NULL, NULL);

		json_set_i64(one, "hours", hours_of(l, task));
		json_push(asked, one);
		if (rc < 0) {
			json_decref(asked);
			return NULL;
		}
	}
	return asked;
}

/* Asks what is offered for a wish. Returns the proposal, or NULL with err_set. */
static json_t *ask(const struct launch *l, json_t *wish)
{
	json_t *proposal = customer_post(l->customer, "/v1/plans", wish, false, NULL);

	if (proposal && offer_check(proposal, wish) < 0) {
		json_decref(proposal);
		return NULL;
	}
	return proposal;
}

/* Asks for all wishes, or in their order until one can be met. Returns the proposal that is taken,
 * which the caller owns, or NULL with err_set. */
static json_t *plan(const struct launch *l, const json_t *task)
{
	json_t *wishes = wishes_of(l, task), *proposals[WISHES_MAX] = { NULL };
	json_t *taken = NULL;
	bool in_order = strcmp(json_string_value(json_object_get(task, "choose")),
				"first") == 0;
	struct buf words = BUF_INIT;
	size_t all = json_array_size(wishes), n = 0, best;

	while (n < all) {
		proposals[n] = ask(l, json_array_get(wishes, n));
		if (!proposals[n++])
			goto out;
		if (in_order && offer_first(proposals[n - 1]))
			break;
	}
	best = offer_choose((const json_t *const *)proposals, n, in_order);
	if (best < n) {
		taken = json_incref(proposals[best]);
		offer_words(&words, taken);
		prog_info("plan    %s", buf_text(&words));
	} else if (n) {
		offer_none_words(&words, proposals[0]);
		err_set(EX_UNAVAILABLE, "%s", buf_text(&words));
	}
out:
	for (size_t i = 0; i < n; i++)
		json_decref(proposals[i]);
	json_decref(wishes);
	buf_release(&words);
	return taken;
}

/* --- book --------------------------------------------------------------------------------- */

static json_t *begin_booking(const struct launch *l, const json_t *task)
{
	static const char *const copied[] = { "name", "on_node_failure", "budget_uusd",
		"deadline", "artifacts", "recovery" };
	json_t *b = json_record("rnp.booking"), *keys;

	for (size_t i = 0; i < sizeof copied / sizeof *copied; i++) {
		json_t *v = json_object_get(task, copied[i]);

		if (v)
			json_set(b, copied[i], json_incref(v));
	}
	if (json_object_get(task, "deadline_s"))
		json_set_time(b, "deadline",
			clock_now_ms() +
				1000 *
					json_integer_value(
						json_object_get(task, "deadline_s")));
	json_set_i64(b, "hours", hours_of(l, task));
	if (l->nssh_keys) {
		keys = json_array();
		for (int i = 0; i < l->nssh_keys; i++)
			json_push_text(keys, l->ssh_keys[i]);
		json_set(b, "ssh_keys", keys);
	}
	return b;
}

/* The secrets as they stand in a box. The caller ends it with sealed_wipe. */
static void secrets_of(const struct jobfile *job, struct buf *plain)
{
	size_t bytes = 1;

	for (size_t i = 0; i < job->nsecrets; i++)
		bytes += strlen(job->secrets[i].name) + strlen(job->secrets[i].value) + 2;
	/* all at once: a buffer that grows leaves what it held behind */
	buf_reserve(plain, bytes);
	for (size_t i = 0; i < job->nsecrets; i++) {
		buf_adds(plain, job->secrets[i].name);
		buf_addc(plain, '=');
		buf_add(plain, job->secrets[i].value, strlen(job->secrets[i].value) + 1);
	}
}

/* Seals the secrets for each of these nodes. */
static int seal_for(json_t *sealed, const json_t *nodes, const struct buf *plain)
{
	const json_t *node;
	size_t i;

	json_array_foreach((json_t *)nodes, i, node) {
		const char *address = json_string_value(json_object_get(node, "node"));
		struct buf box = BUF_INIT;
		int rc = sealed_close(&box, address, plain->data, plain->len);

		if (rc == 0)
			json_set_text(sealed, address, buf_text(&box));
		buf_release(&box);
		if (rc < 0)
			return -1;
	}
	return 0;
}

/* Adds the secrets to a booking, for the nodes of the offer and those that may replace one. */
static int seal(json_t *booking, const struct jobfile *job, const json_t *proposal)
{
	struct buf plain = BUF_INIT;
	json_t *sealed;
	int rc;

	if (!job->nsecrets)
		return 0;
	sealed = json_object();
	json_set(booking, "sealed", sealed);
	secrets_of(job, &plain);
	rc = seal_for(sealed, json_object_get(offer_first(proposal), "nodes"), &plain);
	if (rc == 0)
		rc = seal_for(sealed, json_object_get(proposal, "spares"), &plain);
	sealed_wipe(&plain);
	return rc;
}

/* Sends the booking. Returns the cluster, or NULL with err_set; *fresh: a new proposal, where the
 * old one is gone. */
static json_t *book_once(const struct launch *l, const struct jobfile *job,
	const json_t *booking, const json_t *proposal, json_t **fresh)
{
	json_t *record = json_copy((json_t *)booking), *refusal = NULL, *cluster;
	const struct http_abort *abort = l->customer->abort;

	*fresh = NULL;
	if (seal(record, job, proposal) < 0) {
		json_decref(record);
		return NULL;
	}
	json_set(record, "proposal", json_incref((json_t *)proposal));
	json_set_i64(record, "offer", 0);
	/* the answer to this one is waited for: whether something is booked has to be known */
	l->customer->abort = NULL;
	cluster = customer_post(l->customer, "/v1/bookings", record, true, &refusal);
	l->customer->abort = abort;
	*fresh = json_object_get(refusal, "proposal");
	json_incref(*fresh);
	json_decref(refusal);
	json_decref(record);
	return cluster;
}

/* A booking that is not what was signed is ended at once. Returns -1 with the error of before. */
static int give_back(const struct launch *l, const json_t *cluster)
{
	json_t *action = json_record("rnp.action"), *reply;
	struct err e;

	err_save(&e);
	json_set(action, "cluster", json_incref(json_object_get(cluster, "cluster")));
	json_set_text(action, "action", "release");
	json_set_text(action, "cause", "it is not what was booked");
	reply = customer_post(l->customer, "/v1/actions", action, true, NULL);
	json_decref(reply);
	json_decref(action);
	return err_restore(&e);
}

/* Whether a new proposal may stand for the old one: as good and not dearer. */
static int check_fresh(const json_t *fresh, const json_t *old)
{
	if (offer_check(fresh, json_object_get(old, "request")) < 0)
		return -1;
	if (!offer_first(fresh))
		return err_set(EX_UNAVAILABLE,
			"what was offered is gone, and nothing else fits");
	if (offer_uusd_per_hour(fresh) > offer_uusd_per_hour(old))
		return err_set(EX_TEMPFAIL,
			"what was offered is gone, and the next costs %lld in place of %lld uusd an hour: launch again to agree",
			(long long)offer_uusd_per_hour(fresh),
			(long long)offer_uusd_per_hour(old));
	return 0;
}

/* Books the proposal, or one that the registry has in its place. Takes it. */
static json_t *book(const struct launch *l, const struct jobfile *job,
	const json_t *booking, json_t *proposal)
{
	json_t *cluster = NULL, *fresh;
	int rc = -1;

	for (int i = 0; i < TRIES && !cluster; i++) {
		cluster = book_once(l, job, booking, proposal, &fresh);
		if (cluster) {
			rc = offer_check_cluster(proposal, cluster);
			break;
		}
		if (!fresh || check_fresh(fresh, proposal) < 0) {
			json_decref(fresh);
			break;
		}
		json_decref(proposal);
		proposal = fresh;
	}
	if (cluster && rc < 0) {
		give_back(l, cluster);
		json_decref(cluster);
		cluster = NULL;
	}
	json_decref(proposal);
	return cluster;
}

/* Whether the account covers the first hour, before anything is sent: a registry keeps no files of
 * who has none. One that does not answer will say so when it is booked. */
static int check_credit(const struct launch *l, const json_t *proposal)
{
	const json_t *offer = offer_first(proposal);
	json_int_t hour = json_integer_value(json_object_get(offer, "uusd_per_hour")),
		   all = json_integer_value(json_object_get(offer, "up_to_uusd"));
	int64_t need = hour < all ? hour : all, balance = 0, held = 0;
	json_t *account = customer_get(l->customer, "/v1/account", 0);
	struct buf missing = BUF_INIT, has = BUF_INIT;
	int rc = 0;

	if (account &&
		json_opt_i64(account, "account", "balance_uusd", 0, JSON_SAFE_INTEGER_MAX,
			&balance) == 0 &&
		json_opt_i64(account, "account", "held_uusd", 0, JSON_SAFE_INTEGER_MAX,
			&held) == 0 &&
		balance - held < need) {
		offer_add_dollars(&missing, need - (balance - held));
		offer_add_dollars(&has, balance - held);
		err_set(EX_NOPERM,
			"%s $ are missing: the next hour has to be covered, and the account has %s $",
			buf_text(&missing), buf_text(&has));
		rc = err_hint(
			"whom the registry trusts adds some: rnp-register deposit --to %s --usd %s --id ID",
			l->customer->key->address, buf_text(&missing));
	} else {
		err_clear();
	}
	json_decref(account);
	buf_release(&missing);
	buf_release(&has);
	return rc;
}

int launch_book(const struct launch *l, const struct jobfile *job, char cluster[33])
{
	json_t *proposal = NULL, *booking = NULL, *booked = NULL;
	const json_t *image;
	int rc = -1;

	if (check_task(job) < 0)
		return -1;
	proposal = plan(l, job->task);
	if (!proposal)
		return -1;
	if (check_credit(l, proposal) < 0)
		goto out;
	booking = begin_booking(l, job->task);
	offer_set_replacement(booking, proposal);
	image = json_object_get(json_object_get(proposal, "request"), "image");
	if (image)
		json_set(booking, "image", json_incref((json_t *)image));
	if (ship(l->customer, job->task, booking) < 0)
		goto out;
	if (*l->stop) {
		err_set(EX_TEMPFAIL, "interrupted: nothing was booked");
		goto out;
	}
	booked = book(l, job, booking, json_incref(proposal));
	if (!booked)
		goto out;
	snprintf(cluster, 33, "%s",
		json_string_value(json_object_get(booked, "cluster")));
	prog_info("booked  %s", cluster);
	rc = 0;
out:
	json_decref(proposal);
	json_decref(booking);
	json_decref(booked);
	return rc;
}
