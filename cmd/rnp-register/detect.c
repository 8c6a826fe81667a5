/* detect.c - rnp-register detect: writes rnp.node, what this machine is, as far as its operator
 * shares it. */
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/commands.h"
#include "cmd/rnp-register/node/gpus.h"
#include "cmd/rnp-register/node/labels.h"
#include "cmd/rnp-register/node/measured.h"
#include "cmd/rnp-register/node/wallet.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/hw/hw.h"
#include "common/json/json.h"
#include "common/record/key.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/cli/records.h"
#include "common/json/schema.h"

static struct {
	const char *wallet, *name, *bench, *share, *gpus, *key, *rpc;
	struct opt_list labels;
} options;

/* --- options ------------------------------------------------------------------------------ */

/* The values of --share. The default is what a registration needs to be priced and paid. */
static const struct {
	const char *field;
	bool by_default;
} shareable[] = {
	{ "gpus", true },
	{ "cpu", true },
	{ "memory_bytes", true },
	{ "memory_bandwidth_bps", true },
	{ "disks", false },
	{ "os", false },
	{ "limits", true },
	{ "network", true },
};

#define SHAREABLE (sizeof shareable / sizeof *shareable)

static int share_one(bool shared[SHAREABLE], const char *word, size_t len)
{
	for (size_t i = 0; i < SHAREABLE; i++) {
		if (strlen(shareable[i].field) == len &&
			memcmp(shareable[i].field, word, len) == 0) {
			shared[i] = true;
			return 0;
		}
	}
	err_set(EX_USAGE, "--share: there is no field '%.*s'", (int)(len < 40 ? len : 40),
		word);
	return err_hint(
		"all, none, or of gpus,cpu,memory_bytes,memory_bandwidth_bps,disks,os,limits,network");
}

static int parse_share(bool shared[SHAREABLE], const char *text)
{
	bool all = text && strcmp(text, "all") == 0;

	for (size_t i = 0; i < SHAREABLE; i++)
		shared[i] = text ? all : shareable[i].by_default;
	if (!text || all || strcmp(text, "none") == 0)
		return 0;
	for (;;) {
		size_t len = strcspn(text, ",");

		if (share_one(shared, text, len) < 0)
			return -1;
		if (!text[len])
			return 0;
		text += len + 1;
	}
}

/* name, wallet and labels: given by the operator */
static int add_stated(json_t *node)
{
	unsigned char public_key[KEY_PUBLIC_BYTES];
	const char *why;
	json_t *labels;

	json_set_text(node, "name", options.name);
	if (options.wallet) {
		if (address_parse(options.wallet, "--wallet", public_key) < 0)
			return err_set(EX_USAGE,
				"--wallet: '%.60s' is not a base58 address",
				options.wallet);
		json_set_text(node, "wallet", options.wallet);
		why = node_wallet_why_not(options.wallet, options.rpc);
		if (why)
			prog_warn("wallet %s will not be paid: %s", options.wallet, why);
	}
	if (!options.labels.n)
		return 0;
	labels = json_object();
	json_set(node, "labels", labels);
	for (int i = 0; i < options.labels.n; i++)
		if (label_add(labels, options.labels.items[i]) < 0)
			return -1;
	return 0;
}

/* --- facts -------------------------------------------------------------------------------- */

static void set_positive(json_t *obj, const char *key, int64_t v)
{
	if (v > 0)
		json_set_i64(obj, key, v);
}

static void set_filled(json_t *obj, const char *key, const char *text)
{
	if (text && *text)
		json_set_text(obj, key, text);
}

static void add_cpu(json_t *node, struct hw_causes *why)
{
	json_t *v = json_object(), *isa = json_array();
	struct hw_cpu cpu;

	hw_cpu_read(&cpu, why);
	set_filled(v, "model", cpu.model);
	set_positive(v, "cores", cpu.cores);
	set_positive(v, "threads", cpu.threads);
	set_positive(v, "clock_max_mhz", cpu.clock_max_mhz);
	for (int i = 0; i < cpu.nisa; i++)
		json_push_text(isa, cpu.isa[i]);
	json_set(v, "isa", isa);
	json_set(node, "cpu", v);
}

static void add_disks(json_t *node, struct hw_causes *why)
{
	static struct hw_disk disks[HW_DISKS_MAX];
	json_t *list;
	int n = hw_disks_read(disks, HW_DISKS_MAX, why);

	if (n < 0)
		return;
	list = json_array();
	for (int i = 0; i < n; i++) {
		json_t *v = json_object();

		json_set_text(v, "name", disks[i].name);
		json_set_text(v, "type", disks[i].type);
		set_filled(v, "model", disks[i].model);
		set_positive(v, "size_bytes", disks[i].size_bytes);
		json_push(list, v);
	}
	json_set(node, "disks", list);
}

static void add_os(json_t *node, struct hw_causes *why)
{
	json_t *v = json_object();
	struct hw_os os;

	hw_os_read(&os, why);
	set_filled(v, "name", os.name);
	set_filled(v, "release", os.release);
	set_filled(v, "distribution", os.distribution);
	set_filled(v, "machine", os.machine);
	json_set(node, "os", v);
}

static void add_limits(json_t *node, struct hw_causes *why)
{
	json_t *v = json_object();
	struct hw_limits limits;

	hw_limits_read(&limits, why);
	set_positive(v, "cgroup", limits.cgroup);
	set_positive(v, "cpu_milli", limits.cpu_milli);
	set_positive(v, "cpus", limits.cpus);
	set_positive(v, "memory_bytes", limits.memory_bytes);
	set_positive(v, "pids", limits.pids);
	json_set(node, "limits", v);
}

/* Adds the address of the node's key. A key that was named must be good; without one the record
 * is still of use, since sign adds the address. */
static int add_address(json_t *node, struct hw_causes *why)
{
	struct key key = KEY_INIT;

	if (key_load(&key, options.key, NULL) < 0) {
		if (options.key)
			return -1;
		hw_cause(why, "node", "no key: %.200s", err_get()->text);
		err_clear();
		return 0;
	}
	json_set_text(node, "node", key.address);
	key_release(&key);
	return 0;
}

static int take_bench(void *node, const struct record *r)
{
	if (schema_check(r->json, r->where, "rnp.bench") < 0)
		return -1;
	return measured_take(node, r->json, r->where);
}

static int add_measured(json_t *node, const char *path)
{
	if (records_each((char **)&path, 1, JSON_RECORD_BYTES_MAX, take_bench, node) < 0)
		return -1;
	measured_finish(node);
	return 0;
}

static void add_unknown(json_t *node, const struct hw_causes *why)
{
	json_t *unknown = json_object_get(node, "unknown");

	for (int i = 0; i < why->n; i++)
		json_set_text(unknown, why->at[i].field, why->at[i].cause);
}

/* Records that a value was not measured here, and how to measure it. */
static void note_unmeasured(json_t *node)
{
	json_t *unknown = json_object_get(node, "unknown");

	json_set_text(unknown, "memory_bandwidth_bps",
		"not measured: rnp-bench run --suite mem");
	json_set_text(unknown, "network.down_bps",
		"not measured: no rnp.bench record of the suite net (--bench)");
	json_set_text(unknown, "network.up_bps",
		"not measured: no rnp.bench record of the suite net (--bench)");
	json_set_text(unknown, "network.ping_us",
		"not measured: no rnp.bench record of the suite net (--bench)");
}

static bool belongs_to(const char *path, const char *field)
{
	size_t len = strlen(field);

	return strncmp(path, field, len) == 0 && strchr(".[", path[len]);
}

/* Removes fields that are not shared, and their causes, which would reveal them. */
static void withhold(json_t *node, const bool shared[SHAREABLE])
{
	json_t *unknown = json_object_get(node, "unknown"), *withheld = json_array(),
	       *cause;
	const char *path;
	void *next;

	for (size_t i = 0; i < SHAREABLE; i++) {
		if (shared[i])
			continue;
		json_object_del(node, shareable[i].field);
		json_push_text(withheld, shareable[i].field);
		json_object_foreach_safe(unknown, next, path, cause)
			if (belongs_to(path, shareable[i].field))
				json_object_del(unknown, path);
	}
	if (json_array_size(withheld))
		json_set(node, "withheld", withheld);
	else
		json_decref(withheld);
	if (!json_object_size(unknown))
		json_object_del(node, "unknown");
}

/* Collects everything that can be read; returns -1 if an option is wrong or --bench is invalid. */
static int fill(json_t *node)
{
	static struct hw_causes why;

	if (add_address(node, &why) < 0)
		return -1;
	json_set_time(node, "at", clock_now_ms());
	if (add_stated(node) < 0)
		return -1;
	if (node_gpus_add(node, options.gpus, &why) < 0)
		return -1;
	add_cpu(node, &why);
	set_positive(node, "memory_bytes", hw_memory_read(&why));
	add_disks(node, &why);
	add_os(node, &why);
	add_limits(node, &why);
	json_set(node, "unknown", json_object());
	add_unknown(node, &why);
	note_unmeasured(node);
	return options.bench ? add_measured(node, options.bench) : 0;
}

static int run(int n, char **args)
{
	json_t *node = json_record("rnp.node");
	bool shared[SHAREABLE];
	int rc = -1;

	(void)n, (void)args;
	if (parse_share(shared, options.share) < 0 || fill(node) < 0)
		goto out;
	withhold(node, shared);
	/* detected values always fit the schema: an error comes from an option */
	if (schema_check(node, "--name, --label", "rnp.node") < 0) {
		struct err e;

		err_save(&e);
		err_set(EX_USAGE, "%s", e.text);
		goto out;
	}
	rc = out_record(node);
out:
	json_decref(node);
	opt_list_release(&options.labels);
	return rc < 0 ? err_report() : EX_OK;
}

static const struct opt opts[] = {
	OPT(TEXT, "wallet", &options.wallet, "A", "Solana address that is paid",
		.setting = true),
	OPT(TEXT, "name", &options.name, "N", "name of the machine, for people",
		.setting = true),
	OPT(LIST, "label", &options.labels, "k=v",
		"country, region, host_type, compliance, peak_hours, or x_ and a name",
		.setting = true),
	OPT(TEXT, "bench", &options.bench, "F",
		"take measured figures from these rnp.bench records", .setting = true),
	OPT(TEXT, "share", &options.share, "FIELD,...",
		"share exactly these fields, or all (default all but disks and os)"),
	OPT_RPC(&options.rpc),
	OPT(TEXT, "gpus", &options.gpus, "GPU,...",
		"share only these GPUs, by number from 0 or uuid (default all)",
		.setting = true),
	OPT_KEY(&options.key),
	{ 0 },
};

const struct command command_detect = {
	.name = "detect",
	.args_max = 0,
	.summary = "What this machine is, as far as its operator shares it.",
	.details = "Writes one rnp.node record, unsigned.",
	.columns = "name,gpus.0.model,cpu.model,cpu.threads,memory_bytes",
	.card = true,
	.group = "node",
	.opts = opts,
	.run = run,
};
