/* setup.c - rnp-register setup: turns a machine into a node that is registered, is measured and
 * knows what it lacks: asks or takes options, writes key, settings and units, measures,
 * registers, and checks. */
#include "cmd/rnp-register/setup.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-register/commands.h"
#include "cmd/rnp-register/tool.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/cli/settings.h"
#include "common/json/json.h"
#include "common/net/registry_client.h"
#include "common/record/key.h"

#define ARGS_MAX (24 + 2 * SETUP_LABELS_MAX)

static struct setup_given given = { .policy = "rnp-021", .root = "" };

static const struct opt opts[] = {
	{ .name = "registry",
		.setting = true,
		.kind = OPT_TEXT,
		.to = &given.registry,
		.metavar = "URL",
		.help = "the registry; asked for on a terminal" },
	{ .name = "wallet",
		.setting = true,
		.kind = OPT_TEXT,
		.to = &given.wallet,
		.metavar = "A",
		.help = "Solana address that is paid" },
	{ .name = "label",
		.setting = true,
		.kind = OPT_LIST,
		.to = &given.labels,
		.metavar = "k=v",
		.help = "country, region, host_type, compliance, peak_hours or another" },
	{ .name = "costs",
		.setting = true,
		.kind = OPT_TEXT,
		.to = &given.costs,
		.metavar = "F",
		.help = "what the node costs, see rnp-price floor --example" },
	{ .name = "peer",
		.kind = OPT_TEXT,
		.to = &given.peer,
		.metavar = "URL",
		.help = "measure the network against this rnp-bench serve" },
	{ .name = "name",
		.setting = true,
		.kind = OPT_TEXT,
		.to = &given.name,
		.metavar = "N",
		.help = "name of the machine, for people" },
	{ .name = "bench",
		.kind = OPT_TEXT,
		.to = &given.bench,
		.metavar = "F",
		.help = "take these rnp.bench records instead of measuring" },
	{ .name = "offers",
		.kind = OPT_TEXT,
		.to = &given.offers,
		.metavar = "F",
		.help = "what others ask (rnp-price feed), to say what it would earn" },
	{ .name = "policy",
		.kind = OPT_TEXT,
		.to = &given.policy,
		.metavar = "P",
		.help = "the reward policy to qualify for (default rnp-021)" },
	{ .name = "root",
		.kind = OPT_TEXT,
		.to = &given.root,
		.metavar = "DIR",
		.help = "write below this directory, and start nothing" },
	{ .name = "no-start",
		.kind = OPT_FLAG,
		.to = &given.no_start,
		.help = "write the units, but do not start them" },
	OPT_CA(&given.ca_file),
	{ 0 },
};

/* The image at --root has its own settings, for this run and for the programs that it starts. */
static int use_settings_of_root(void)
{
	static const char *const names[] = { "registry", "wallet", "label", "name",
		NULL };
	struct buf path = BUF_INIT;
	int rc;

	if (!*given.root)
		return 0;
	buf_addf(&path, "%s/etc/rnp/node.env", given.root);
	setenv("RNP_NODE_ENV", path.data, 1);
	buf_release(&path);
	rc = settings_load();
	for (int i = 0; rc == 0 && names[i]; i++)
		rc = opt_setting(&command_setup, names[i], settings_find(names[i]));
	return rc;
}

/* The first fields of the record. */
static void begin_record(struct setup *s)
{
	json_set_text(s->record, "node", s->key.address);
	json_set_time(s->record, "at", clock_now_ms());
	json_set_text(s->record, "registry", given.registry);
}

/* --- what is run -------------------------------------------------------------------------- */

/* Runs one of our programs and captures its output; an exit status other than 0 is passed on. */
static int step(const char *const args[], const struct buf *in, struct buf *out)
{
	int rc = tool_run(args, in, out);

	if (rc > 0)
		return err_set(rc, "%s %s ended with %d", args[0], args[1], rc);
	return rc;
}

/* detect | sign > node.json */
static int describe(struct setup *s, struct buf *node)
{
	const char *detect[ARGS_MAX] = { "rnp-register", "detect", "--key",
		s->key_path.data, "--bench", s->bench_path.data };
	const char *const sign[] = { "rnp-register", "sign", "--key", s->key_path.data,
		NULL };
	struct buf plain = BUF_INIT;
	int n = 6, rc;

	if (given.wallet)
		detect[n++] = "--wallet", detect[n++] = given.wallet;
	if (given.name)
		detect[n++] = "--name", detect[n++] = given.name;
	for (int i = 0; i < given.labels.n; i++)
		detect[n++] = "--label", detect[n++] = given.labels.items[i];
	rc = step(detect, NULL, &plain);
	if (rc == 0)
		rc = step(sign, &plain, node);
	if (rc == 0)
		rc = io_replace(s->node_path.data, node->data, node->len, 0644);
	if (rc == 0)
		setup_say(s, s->node_path.data, "what this machine is, signed");
	buf_release(&plain);
	return rc;
}

/* Returns the first record of a program's output, or NULL. */
static json_t *first_record(const struct buf *out)
{
	const char *text = buf_text(out), *end = strchr(text, '\n');
	json_t *record = json_parse_object(text, end ? (size_t)(end - text) : out->len,
		"output");

	if (!record)
		err_clear();
	return record;
}

static void copy(json_t *to, const json_t *from, const char *key)
{
	if (json_object_get(from, key))
		json_set(to, key, json_incref(json_object_get(from, key)));
}

static void advise(struct setup *s, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void advise(struct setup *s, const char *fmt, ...)
{
	char text[400];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	json_push_text(s->next, text);
}

/* The registry may be down: the files stay, and the service or another run registers. */
static int submit(struct setup *s, const struct buf *node)
{
	const char *const args[] = { "rnp-register", "submit", "--registry",
		given.registry, given.ca_file ? "--ca" : NULL, given.ca_file, NULL };
	struct buf out = BUF_INIT;
	int rc = tool_run(args, node, &out);
	json_t *stored = rc == 0 ? first_record(&out) : NULL;

	if (rc > 0)
		rc = err_set(rc,
			"not registered, but all files are written: run it again when %s can be reached",
			given.registry);
	if (stored) {
		json_set_bool(s->record, "registered", true);
		prog_info("%s: registered as %s", given.registry, s->key.address);
		copy(s->record, stored, "pending");
		copy(s->record, stored, "unproven");
	}
	json_decref(stored);
	buf_release(&out);
	return rc;
}

/* --- the preflight ------------------------------------------------------------------------ */

static void advise_requirement(struct setup *s, const json_t *r)
{
	const char *remedy = json_string_value(json_object_get(r, "remedy"));

	if (remedy && !json_is_true(json_object_get(r, "met")))
		advise(s, "%s: %s", json_string_value(json_object_get(r, "name")),
			remedy);
}

/* Returns EX_OK or EXIT_NO, or -1. */
static int check_policy(struct setup *s, const struct buf *node)
{
	const char *const args[] = { "rnp-register", "check", "--policy", given.policy,
		NULL };
	static const char *const kept[] = { "policy", "qualified", "reasons", "tier",
		"pool", NULL };
	struct buf out = BUF_INIT;
	int rc = tool_run(args, node, &out);
	json_t *found = first_record(&out), *r;
	size_t i;

	if (rc > EXIT_NO || (rc >= 0 && !found))
		rc = err_set(rc > EXIT_NO ? rc : EX_SOFTWARE,
			"rnp-register check ended with %d", rc);
	for (int k = 0; rc >= 0 && kept[k]; k++)
		copy(s->record, found, kept[k]);
	if (rc >= 0)
		json_array_foreach(json_object_get(found, "requirements"), i, r)
			advise_requirement(s, r);
	json_decref(found);
	buf_release(&out);
	return rc;
}

/* Computes what an hour costs, and its price among other offers. */
static int price(struct setup *s, const struct buf *node)
{
	const char *const floor[] = { "rnp-price", "floor", "--costs", s->costs_path.data,
		NULL };
	const char *const quote[] = { "rnp-price", "quote", "--node", s->node_path.data,
		"--costs", s->costs_path.data, given.offers, NULL };
	struct buf out = BUF_INIT;
	json_t *r;
	int rc = 0;

	if (!s->priced) {
		advise(s,
			"a price: rnp-price floor --example > costs.json, then --costs");
		return 0;
	}
	if (step(floor, node, &out) < 0)
		return -1;
	r = first_record(&out);
	copy(s->record, r, "floor_uusd");
	json_decref(r);
	buf_reset(&out);
	if (!given.offers) {
		advise(s,
			"what it would earn: rnp-price feed --market vast > offers.jsonl, then --offers");
	} else {
		rc = tool_run(quote, NULL, &out);
		r = rc == 0 ? first_record(&out) : NULL;
		copy(s->record, r, "ask_uusd");
		json_decref(r);
		/* without a comparable offer there is no price, which quote has reported */
		if (rc == EX_TEMPFAIL)
			rc = 0;
		if (rc > 0)
			rc = err_set(rc, "rnp-price quote ended with %d", rc);
	}
	buf_release(&out);
	return rc;
}

static int start_units(struct setup *s)
{
	static const char *const commands[][5] = {
		{ "systemctl", "daemon-reload" },
		{ "systemctl", "--quiet", "enable", "rnp-node.timer",
			"rnp-heartbeat.service" },
		{ "systemctl", "restart", "rnp-node.timer", "rnp-heartbeat.service" },
	};
	bool here = !*given.root && !given.no_start &&
		access("/run/systemd/system", F_OK) == 0;
	struct buf out = BUF_INIT;
	int rc = 0;

	for (int i = 0; here && rc == 0 && i < 3; i++) {
		const char *args[6] = { 0 };

		memcpy(args, commands[i], sizeof commands[i]);
		rc = step(args, NULL, &out);
	}
	json_set_text(s->record, "service", here ? "started" : "written");
	if (!here)
		advise(s,
			"keep it alive and proven: systemctl enable --now rnp-node.timer rnp-heartbeat.service");
	buf_release(&out);
	return rc;
}

static int print_setup(struct setup *s)
{
	json_set(s->record, "files", json_incref(s->files));
	if (!given.wallet)
		prog_warn("without a wallet nobody can pay this node: --wallet");
	if (json_array_size(s->next))
		json_set(s->record, "next", json_incref(s->next));
	return out_record(s->record);
}

static int set_up(struct setup *s)
{
	struct buf costs_text = BUF_INIT, node = BUF_INIT;
	int rc = setup_paths(s), qualified = EXIT_NO;

	if (rc == 0)
		rc = use_settings_of_root();
	if (rc == 0)
		rc = setup_collect(s, &costs_text);
	if (rc == 0)
		rc = setup_key(s);
	if (rc == 0) {
		begin_record(s);
		rc = setup_costs(s, &costs_text);
	}
	if (rc == 0)
		rc = setup_measure(s);
	if (rc == 0)
		rc = setup_settings(s);
	if (rc == 0)
		rc = describe(s, &node);
	if (rc == 0)
		rc = setup_units(s);
	if (rc == 0)
		rc = submit(s, &node);
	if (rc == 0) {
		qualified = check_policy(s, &node);
		rc = qualified < 0 ? -1 : 0;
	}
	if (rc == 0)
		rc = price(s, &node);
	if (rc == 0)
		rc = start_units(s);
	if (rc == 0)
		rc = print_setup(s);
	buf_release(&costs_text);
	buf_release(&node);
	return rc < 0 ? -1 : qualified;
}

static int run(int n, char **args)
{
	struct setup s = { .given = &given,
		.key = KEY_INIT,
		.files = json_array(),
		.next = json_array(),
		.record = json_record("rnp.setup") };
	struct buf *texts[] = { &s.dir, &s.key_path, &s.env_path, &s.bench_path,
		&s.node_path, &s.costs_path, &s.units_dir };
	int rc = set_up(&s);

	(void)n, (void)args;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		buf_release(texts[i]);
	for (int i = 0; i < s.nkept; i++)
		free(s.kept[i]);
	opt_list_release(&given.labels);
	key_release(&s.key);
	json_decref(s.files);
	json_decref(s.next);
	json_decref(s.record);
	return rc < 0 ? err_report() : rc;
}

const struct command command_setup = {
	.name = "setup",
	.summary =
		"Make this machine a node: key, settings, units, registration, preflight.",
	.details =
		"Asks on a terminal for what is not given. Writes key, settings, costs and measurements below\n"
		"/etc/rnp and units for systemd, measures, registers, and writes one rnp.setup record: whether\n"
		"the node qualifies, what is missing, what it costs and would earn. A key that is there is kept;\n"
		"it may be run again at any time. Exit status 1: it does not qualify.",
	.card = true,
	.opts = opts,
	.run = run,
};
