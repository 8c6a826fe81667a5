/* setup.c - rnp-register setup: turns a machine into a node that is registered, is measured and
 * knows what it lacks: asks or takes options, writes key, settings and units, measures,
 * registers, and checks. */
#include "cmd/rnp-register/node/setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/sell.h"
#include "cmd/rnp-register/commands.h"
#include "cmd/rnp-register/node/tool.h"
#include "cmd/rnp-register/node/wallet.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/money.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/cli/settings.h"
#include "common/json/json.h"
#include "common/registry/client.h"
#include "common/record/key.h"
#include "common/record/policy.h"

#define REGISTRY_TRY_MS 5000
#define ARGS_MAX        (24 + 2 * SETUP_LABELS_MAX)

static struct setup_given given = { .policy = "rnp-021", .root = "" };

static const struct opt opts[] = {
	OPT(TEXT, "registry", &given.registry, "URL",
		"the registry; asked for on a terminal", .setting = true),
	OPT(TEXT, "wallet", &given.wallet, "A", "Solana address that is paid",
		.setting = true),
	OPT(LIST, "label", &given.labels, "k=v",
		"country, region, host_type, compliance, peak_hours or another",
		.setting = true),
	OPT(TEXT, "costs", &given.costs, "F",
		"what the node costs, see rnp-price floor --example", .setting = true),
	OPT(TEXT, "peer", &given.peer, "URL",
		"measure the network against this rnp-bench serve"),
	OPT(TEXT, "name", &given.name, "N", "name of the machine, for people",
		.setting = true),
	OPT(TEXT, "gpus", &given.gpus, "GPU,...",
		"share only these GPUs, by number from 0 or uuid (default all)",
		.setting = true),
	OPT(TEXT, "bench", &given.bench, "F",
		"take these rnp.bench records instead of measuring"),
	OPT(TEXT, "offers", &given.offers, "F",
		"what others ask (rnp-price feed), to say what it would earn"),
	OPT(TEXT, "policy", &given.policy, "P",
		"the reward policy to qualify for (default rnp-021)",
		.words = POLICY_NAMES),
	OPT_SWITCH("sell", &given.sell,
		"sell this node at the registry's market, in containers"),
	OPT(USD, "price", &given.price_uusd, "USD",
		"with --sell: what an hour of it brings (default: as markets and costs say)",
		.min = 1, .max = MONEY_PPM * INT64_C(100000)),
	OPT_SWITCH("no-sell", &given.no_sell,
		"sell no more; what customers run here ends as booked"),
	OPT(TEXT, "root", &given.root, "DIR",
		"write below this directory, and start nothing"),
	OPT_RPC(&given.rpc),
	OPT_SWITCH("no-start", &given.no_start, "write the units, but do not start them"),
	OPT_CA(&given.ca_file),
	{ 0 },
};

/* What setup wrote itself the last time is no file that was given: it is there, or is made
 * again. */
static const char *not_of_setup(const struct setup *s, const char *option,
	const char *value)
{
	const char *from = settings_origin(option);
	size_t n = s->env_path.len;

	if (!value || opt_given(&command_setup, option) ||
		strncmp(from, s->env_path.data, n) != 0 || from[n] != ':')
		return value;
	return NULL;
}

/* The image at --root has its own settings, for this run and for the programs that it starts. */
static int use_settings(struct setup *s)
{
	if (*given.root) {
		setenv("RNP_NODE_ENV", s->env_path.data, 1);
		if (settings_load() < 0 || opt_settings_again(&command_setup) < 0)
			return -1;
	}
	given.costs = not_of_setup(s, "costs", given.costs);
	return 0;
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
	if (given.gpus)
		detect[n++] = "--gpus", detect[n++] = given.gpus;
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

/* Asks for this node, which most registries do not know yet, before anything takes long: whoever
 * has mistyped the URL, or has no network, wants to know it now. The files are of use all the
 * same. */
static void try_registry(struct setup *s)
{
	const struct registry_call p = { .base = given.registry,
		.ca = given.ca_file,
		.per_try_ms = REGISTRY_TRY_MS,
		.tries = 1 };
	struct http http = HTTP_INIT;
	struct http_response r = HTTP_RESPONSE_INIT;
	json_t *reply = registry_node(&http, &p, s->key.address, &r);

	if (!reply && r.status != 404)
		prog_warn("%s; going on, for the files: Ctrl-C ends it", err_get()->text);
	s->quoted = json_object_get(reply, "quote") != NULL;
	err_clear();
	json_decref(reply);
	http_release(&http);
	http_response_release(&r);
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

/* A remedy that runs setup again runs it for the same machine. */
static void advise_requirement(struct setup *s, const json_t *r)
{
	static const char setup[] = "rnp-register setup";
	const char *remedy = json_string_value(json_object_get(r, "remedy"));
	const char *at = remedy ? strstr(remedy, setup) : NULL;
	int before = at ? (int)(at - remedy + (long)sizeof setup - 1) : 0;

	if (!remedy || json_is_true(json_object_get(r, "met")))
		return;
	if (at)
		setup_advise(s, "%.*s%s%s", before, remedy, buf_text(&s->again),
			remedy + before);
	else
		setup_advise(s, "%s", remedy);
}

static bool wants_wallet(const json_t *found)
{
	const json_t *r;
	size_t i;

	json_array_foreach(json_object_get(found, "requirements"), i, r)
		if (strcmp(json_string_value(json_object_get(r, "name")), "wallet") == 0)
			return true;
	return false;
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
	/* a policy that needs none pays the node's own address */
	if (rc >= 0 && !given.wallet && !wants_wallet(found))
		setup_advise(s,
			"say who is paid, or it is the node's own address: rnp-register setup%s --wallet ADDRESS",
			buf_text(&s->again));
	json_decref(found);
	buf_release(&out);
	return rc;
}

static bool has_gpus(const struct buf *node)
{
	json_t *r = first_record(node);
	bool has = json_array_size(json_object_get(r, "gpus")) > 0;

	json_decref(r);
	return has;
}

/* Runs a tool whose first record has fields that the setup's record gets. Without a comparable
 * offer (75) there are none, which the tool has said. */
static int copy_from(struct setup *s, const char *const args[], const struct buf *in,
	const char *const fields[])
{
	struct buf out = BUF_INIT;
	int rc = tool_run(args, in, &out);
	json_t *r = rc == 0 ? first_record(&out) : NULL;

	for (int i = 0; fields[i]; i++)
		copy(s->record, r, fields[i]);
	json_decref(r);
	buf_release(&out);
	if (rc == EX_TEMPFAIL)
		return 0;
	return rc > 0 ? err_set(rc, "%s %s ended with %d", args[0], args[1], rc) : rc;
}

/* What a day would leave on the market that leaves most. */
static int earnings(struct setup *s, const struct buf *node)
{
	const char *const quote[] = { "rnp-price", "quote", "--node", s->node_path.data,
		"--costs", s->costs_path.data, given.offers, NULL };
	const char *const estimate[] = { "rnp-price", "estimate", "--node",
		s->node_path.data, "--costs", s->costs_path.data, given.offers, NULL };
	int rc = copy_from(s, quote, NULL, (const char *const[]){ "ask_uusd", NULL });

	if (rc < 0 || !has_gpus(node))
		return rc;
	return copy_from(s, estimate, NULL,
		(const char *const[]){ "market", "day_uusd", NULL });
}

/* Computes what an hour costs, and what a day would leave among other offers. */
static int price(struct setup *s, const struct buf *node)
{
	const char *const floor[] = { "rnp-price", "floor", "--costs", s->costs_path.data,
		NULL };

	if (!s->priced) {
		if (!given.price_uusd && !(given.sell && s->quoted))
			setup_advise(s,
				"set its lowest price: rnp-price floor --example > costs.json && ${EDITOR:-vi} costs.json && rnp-register setup%s --costs costs.json",
				buf_text(&s->again));
		return 0;
	}
	if (copy_from(s, floor, node, (const char *const[]){ "floor_uusd", NULL }) < 0)
		return -1;
	if (given.offers)
		return earnings(s, node);
	if (has_gpus(node))
		setup_advise(s,
			"see what it would earn: rnp-price feed --market akash > offers.jsonl && rnp-price estimate --node %s --costs %s offers.jsonl",
			setup_shell(s, s->node_path.data),
			setup_shell(s, s->costs_path.data));
	return 0;
}

/* What installs the programs: the script of a source tree, if they stand in one. bin and root are
 * words of a shell. */
static void advise_install(struct setup *s, const char *bin, const char *root)
{
	const char *tree = strstr(bin, "/build/");
	struct buf source = BUF_INIT, build = BUF_INIT;

	if (!tree) {
		setup_advise(s,
			"install the programs, for services do not see %s: install -D -t %s/usr/local/bin %s/rnp-*",
			bin, root, setup_shell(s, bin));
		return;
	}
	buf_add(&source, bin, (size_t)(tree - bin));
	buf_adds(&source, "/scripts/install");
	buf_add(&build, bin, (size_t)(strrchr(bin, '/') - bin));
	setup_advise(s,
		"install the programs, for services do not see %s: %s %s/usr/local %s",
		bin, setup_shell(s, source.data), root, setup_shell(s, build.data));
	buf_release(&source);
	buf_release(&build);
}

/* What a person has to do before services run. */
static void advise_services(struct setup *s)
{
	struct buf bin = BUF_INIT;
	char *real = *given.root ? realpath(given.root, NULL) : NULL;
	const char *root = real ? setup_shell(s, real) : "";

	tool_directory(&bin);
	if (!s->installed)
		advise_install(s, buf_text(&bin), root);
	if (*given.root)
		setup_advise(s,
			"keep it alive and proven: systemctl --root=%s enable rnp-node.timer rnp-heartbeat.service",
			real ? root : setup_shell(s, given.root));
	else if (access("/run/systemd/system", F_OK) == 0)
		setup_advise(s,
			"keep it alive and proven: systemctl enable --now rnp-node.timer rnp-heartbeat.service");
	else
		setup_advise(s,
			"keep it alive and proven: rnp-register heartbeat%s | rnp-bench answer | rnp-register submit",
			given.sell ? " --state-from " SELL_RUN "/state" : "");
	free(real);
	buf_release(&bin);
}

/* Sets *here: units are started by us. */
static int start_units(struct setup *s, bool *here)
{
	static const char *const commands[][5] = {
		{ "systemctl", "daemon-reload" },
		{ "systemctl", "--quiet", "enable", "rnp-node.timer",
			"rnp-heartbeat.service" },
		{ "systemctl", "restart", "rnp-node.timer", "rnp-heartbeat.service" },
	};
	struct buf out = BUF_INIT;
	int rc = 0;

	*here = s->installed && !*given.root && !given.no_start &&
		access("/run/systemd/system", F_OK) == 0;
	for (int i = 0; *here && rc == 0 && i < 3; i++) {
		const char *args[6] = { 0 };

		memcpy(args, commands[i], sizeof commands[i]);
		rc = step(args, NULL, &out);
	}
	json_set_text(s->record, "service", *here ? "started" : "written");
	if (!*here)
		advise_services(s);
	buf_release(&out);
	return rc;
}

static int print_setup(struct setup *s)
{
	json_set(s->record, "files", json_incref(s->files));
	if (json_array_size(s->next))
		json_set(s->record, "next", json_incref(s->next));
	return out_record(s->record);
}

static int check_sell(void)
{
	if (given.sell && given.no_sell)
		return err_set(EX_USAGE, "either --sell or --no-sell");
	if (given.price_uusd && !given.sell)
		return err_set(EX_USAGE, "--price is of --sell");
	return 0;
}

static int set_up(struct setup *s)
{
	struct buf node = BUF_INIT;
	int rc = check_sell(), qualified = EXIT_NO, sells = EX_OK;
	bool started = false;

	if (rc == 0)
		rc = setup_paths(s);
	if (rc == 0)
		rc = use_settings(s);
	if (rc == 0 && given.no_sell)
		rc = sell_end(s);
	if (rc == 0)
		rc = setup_check_given(s);
	if (rc == 0)
		rc = setup_collect(s);
	if (rc == 0)
		rc = setup_check_answers(s);
	if (rc == 0)
		rc = setup_key(s);
	if (rc == 0) {
		begin_record(s);
		try_registry(s);
		rc = setup_costs(s);
	}
	if (rc == 0)
		rc = setup_measure(s);
	if (rc == 0)
		rc = setup_settings(s);
	if (rc == 0)
		rc = describe(s, &node);
	if (rc == 0)
		rc = setup_markets(s);
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
	if (rc == 0 && given.sell)
		rc = sell_files(s);
	if (rc == 0)
		rc = start_units(s, &started);
	if (rc == 0 && given.sell)
		rc = sell_price(s);
	if (rc == 0 && given.sell) {
		sells = sell_begin(s, started);
		rc = sells < 0 ? -1 : 0;
	}
	if (rc == 0)
		rc = print_setup(s);
	buf_release(&node);
	return rc < 0 ? -1 : sells ? sells : qualified;
}

static int run(int n, char **args)
{
	struct setup s = { .command = &command_setup,
		.given = &given,
		.key = KEY_INIT,
		.files = json_array(),
		.next = json_array(),
		.record = json_record("rnp.setup") };
	struct buf *texts[] = { &s.again, &s.dir, &s.key_path, &s.env_path, &s.bench_path,
		&s.node_path, &s.costs_path, &s.units_dir, &s.costs_text, &s.bench_text };
	int rc = set_up(&s);

	(void)n, (void)args;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		buf_release(texts[i]);
	while (s.nkept)
		free(s.kept[--s.nkept]);
	free(s.kept);
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
		"it may be run again at any time. With --sell it says what this machine lacks for that, and\n"
		"which command gets it. Exit status 1: it does not qualify, or cannot sell yet.",
	.card = true,
	.group = "node",
	.opts = opts,
	.run = run,
};
