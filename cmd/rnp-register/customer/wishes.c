/* wishes.c - from a file to a proposal, and from that to a cluster. */
#include "cmd/rnp-register/customer/wishes.h"

#include <string.h>

#include "cmd/rnp-register/customer/jobfile.h"
#include "cmd/rnp-register/customer/offer.h"
#include "cmd/rnp-register/customer/yaml_tree.h"
#include "cmd/rnp-register/market/sshkey.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/json/schema.h"

#define KEY_FILE_MAX 16384

int customer_open(struct customer *c, struct key *k, const struct customer_options *o)
{
	*c = (struct customer){ .registry = o->registry, .ca = o->ca, .key = k };
	return key_load(k, o->key_path, o->passphrase_file);
}

static bool is_kind(const json_t *record, const char *kind)
{
	const char *is = json_string_value(json_object_get(record, "kind"));

	return is && strcmp(is, kind) == 0;
}

/* Asks for a plan of one wish (borrowed). */
static json_t *plan(struct customer *c, const json_t *wish)
{
	json_t *copy = json_deep_copy(wish), *proposal;

	proposal = customer_post(c, "/v1/plans", copy, false, NULL);
	json_decref(copy);
	if (proposal && offer_check(proposal, wish) < 0) {
		json_decref(proposal);
		return NULL;
	}
	return proposal;
}

/* Plans all wishes and keeps one. */
static json_t *plan_all(struct customer *c, const json_t *wishes, bool in_order)
{
	json_t *all = json_array(), *kept = NULL;
	const json_t *list[64];
	size_t n = 0;

	while (n < json_array_size(wishes) && n < 64) {
		json_t *one = plan(c, json_array_get(wishes, n));

		if (!one)
			goto out;
		list[n++] = one;
		json_push(all, one);
	}
	if (n)
		kept = (json_t *)list[offer_choose(list, n, in_order) % n];
	json_incref(kept);
out:
	json_decref(all);
	return kept;
}

/* Plans a job file. */
static json_t *plan_file(struct customer *c, const struct buf *text, const char *path)
{
	const struct job_options options = { 0 };
	struct jobfile job = JOBFILE_INIT;
	const char *choose;
	json_t *proposal;

	if (jobfile_read(&job, buf_text(text), text->len, path, &options) < 0)
		return NULL;
	choose = json_string_value(json_object_get(job.task, "choose"));
	proposal = plan_all(c, json_object_get(job.task, "wishes"),
		choose && strcmp(choose, "first") == 0);
	jobfile_release(&job);
	return proposal;
}

json_t *customer_propose(struct customer *c, const char *path)
{
	const char *where = strcmp(path, "-") == 0 ? "standard input" : path;
	json_t *record = NULL, *proposal = NULL;
	struct buf text = BUF_INIT;

	if (io_read(&text, path, YAML_BYTES_MAX) < 0)
		return NULL;
	record = json_parse_object(buf_text(&text), text.len, where);
	if (record && is_kind(record, "rnp.proposal")) {
		if (schema_check(record, where, "rnp.proposal") == 0)
			proposal = json_incref(record);
	} else if (record && is_kind(record, "rnp.job")) {
		if (schema_check(record, where, "rnp.job") == 0)
			proposal = plan(c, record);
	} else {
		err_clear();
		proposal = plan_file(c, &text, where);
	}
	json_decref(record);
	buf_release(&text);
	return proposal;
}

static int64_t price_of(const json_t *proposal, int64_t offer)
{
	const json_t *o = json_array_get(json_object_get(proposal, "offers"),
		(size_t)offer);

	return o ? json_integer_value(json_object_get(o, "uusd_per_hour")) : INT64_MAX;
}

json_t *customer_book(struct customer *c, json_t *booking, const json_t *proposal)
{
	int64_t offer = json_integer_value(json_object_get(booking, "offer"));
	json_t *refusal = NULL, *cluster, *fresh;
	struct err first;

	json_set(booking, "proposal", json_deep_copy(proposal));
	cluster = customer_post(c, "/v1/bookings", booking, true, &refusal);
	if (!cluster) {
		err_save(&first);
		fresh = json_object_get(refusal, "proposal");
		/* what is not dearer needs no second thought */
		if (fresh && price_of(fresh, 0) <= price_of(proposal, offer) &&
			offer_check(fresh, json_object_get(proposal, "request")) == 0) {
			json_object_del(booking, "proof");
			json_set_i64(booking, "offer", 0);
			json_set(booking, "proposal", json_deep_copy(fresh));
			cluster = customer_post(c, "/v1/bookings", booking, true, NULL);
		} else {
			err_restore(&first);
		}
	}
	json_decref(refusal);
	json_decref(booking);
	return cluster;
}

int customer_add_keys(json_t *to, const struct opt_list *files)
{
	json_t *list = json_array();
	struct buf text = BUF_INIT;
	struct sshkey key;
	int rc = 0;

	for (int i = 0; i < files->n && rc == 0; i++) {
		buf_reset(&text);
		rc = io_read(&text, files->items[i], KEY_FILE_MAX);
		if (rc == 0 && strstr(buf_text(&text), "PRIVATE KEY"))
			rc = err_set(EX_USAGE,
				"--ssh-key '%s': is a secret key; the public one ends in .pub",
				files->items[i]);
		if (rc == 0)
			rc = sshkey_parse(buf_text(&text), files->items[i], &key);
		if (rc == 0)
			text.data[strcspn(buf_text(&text), "\r\n")] = '\0';
		if (rc == 0)
			json_push_text(list, buf_text(&text));
	}
	buf_release(&text);
	json_set(to, "ssh_keys", list);
	return rc;
}

json_t *customer_act(struct customer *c, const char *cluster, const char *what,
	json_t *action)
{
	json_t *reply;

	json_set_text(action, "cluster", cluster);
	json_set_text(action, "action", what);
	reply = customer_post(c, "/v1/actions", action, true, NULL);
	json_decref(action);
	return reply;
}

int customer_change(const struct customer_options *o, const char *cluster,
	const char *what, int (*fill)(json_t *action))
{
	struct key key = KEY_INIT;
	struct customer customer;
	json_t *action = json_record("rnp.action"), *changed = NULL;
	int rc = customer_open(&customer, &key, o);

	if (rc == 0)
		rc = fill(action);
	if (rc == 0)
		changed = customer_act(&customer, cluster, what, json_incref(action));
	rc = changed ? out_record(changed) : -1;
	json_decref(action);
	json_decref(changed);
	customer_release(&customer);
	key_release(&key);
	return rc < 0 ? err_report() : EX_OK;
}
