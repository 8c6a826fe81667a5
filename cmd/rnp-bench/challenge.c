/* challenge.c - rnp-bench challenge: writes a signed challenge for a node. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "cmd/rnp-bench/commands.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/json/json.h"
#include "common/record/key.h"
#include "common/cli/out.h"
#include "common/poc/poc.h"
#include "common/cli/prog.h"
#include "common/record/signature.h"
#include "common/json/schema.h"

#define CLAIMS_BYTES_MAX ((size_t)256 << 10)

static const char *node, *key_path, *claims_path;
static struct opt_list devices;
static bool quick;
static int64_t n, rounds, memory_bytes, hashes, deadline_ms;

static const struct opt opts[] = {
	OPT_NODE(&node),
	OPT(LIST, "device", &devices, "D",
		"uuid of a device, or cpu (default); all answer at the same time"),
	OPT(TEXT, "claims", &claims_path, "F",
		"the node's rnp.node: all that it claims, sized and timed by class"),
	OPT_SWITCH("quick", &quick, "sizes that a CPU answers in seconds"),
	OPT_IN(I64, "size", &n, "N", POC_N_MIN, POC_N_MAX,
		"side of the matrices, a multiple of 64 (default by device)"),
	OPT_IN(I64, "rounds", &rounds, "R", 1, POC_LEAVES_MAX,
		"matrix products (default by device)"),
	OPT(SIZE, "memory", &memory_bytes, "SIZE", "memory to fill (default by device)"),
	OPT_IN(I64, "hashes", &hashes, "H", 1, POC_HASHES_MAX,
		"length of the CPU's chain (default by device)"),
	OPT_IN(DURATION, "deadline", &deadline_ms, "T", 1, POC_DEADLINE_MS_MAX,
		"time to answer in (default by the work)"),
	OPT_KEY(&key_path),
	{ 0 },
};

static int add_device(struct poc_challenge *c, const char *name)
{
	struct poc_work work = { quick, n, rounds, memory_bytes, hashes };
	struct poc_device *d = &c->devices[c->ndevices];

	if (c->ndevices == POC_DEVICES_MAX)
		return err_set(EX_USAGE, "--device: more than %d", POC_DEVICES_MAX);
	if (strlen(name) >= POC_UUID_MAX || !*name)
		return err_set(EX_USAGE, "--device: '%.40s' is no uuid", name);
	poc_plan_device(d, c, name, &work);
	c->ndevices++;
	return 0;
}

static int plan_claims(struct poc_challenge *c)
{
	struct buf text = BUF_INIT;
	json_t *record = NULL;
	int rc = -1;

	if (devices.n || quick || n || rounds || memory_bytes || hashes)
		return err_set(EX_USAGE,
			"--claims: says what is asked; no --device, --quick or sizes beside it");
	if (io_read(&text, claims_path, CLAIMS_BYTES_MAX) == 0)
		record = json_parse_object(buf_text(&text), text.len, claims_path);
	if (record && schema_check(record, claims_path, "rnp.node") == 0) {
		const char *whose = json_string_value(json_object_get(record, "node"));

		rc = whose && strcmp(whose, node) != 0 ?
			err_set(EX_DATAERR, "%s: is %s, not --node", claims_path, whose) :
			poc_plan_node(c, record);
	}
	/* in a pipe or a file, nothing but the answer arrives */
	c->roots_ms = 0;
	if (rc == 0 && deadline_ms)
		c->deadline_ms = deadline_ms;
	json_decref(record);
	buf_release(&text);
	return rc;
}

static int plan(struct poc_challenge *c, const struct key *k)
{
	*c = (struct poc_challenge){ .issued_ms = clock_now_ms() };
	if (address_parse(node, "--node", c->node_key) < 0)
		return -1;
	snprintf(c->node, sizeof c->node, "%s", node);
	snprintf(c->signer, sizeof c->signer, "%s", k->address);
	randombytes_buf(c->nonce, sizeof c->nonce);
	if (claims_path)
		return plan_claims(c);
	if (n % POC_N_MIN)
		return err_set(EX_USAGE, "--size: is not a multiple of %d", POC_N_MIN);
	if (!devices.n && add_device(c, "cpu") < 0)
		return -1;
	for (int i = 0; i < devices.n; i++)
		if (add_device(c, devices.items[i]) < 0)
			return -1;
	if (!poc_plan_fits(c))
		return err_set(EX_USAGE,
			"--device: their answer would be larger than %zu MiB: ask fewer of them at a time",
			POC_ANSWER_BYTES_MAX >> 20);
	c->deadline_ms = deadline_ms ? deadline_ms : poc_plan_deadline_ms(c, NULL);
	return 0;
}

/* Options asked for more than the limits: that is wrong usage, not wrong data. */
static void sizes_are_options(void)
{
	struct err e;

	err_save(&e);
	e.code = EX_USAGE;
	err_restore(&e);
	err_add("--size, --rounds, --memory or --hashes");
}

static int run(int nargs, char **args)
{
	struct key k = KEY_INIT;
	struct poc_challenge c;
	json_t *record = NULL;
	int rc = -1;

	(void)nargs;
	(void)args;
	if (key_load(&k, key_path, NULL) == 0 && plan(&c, &k) == 0) {
		record = poc_challenge_write(&c);
		if (!record && !claims_path)
			sizes_are_options();
		if (record && signature_add(record, &k, c.issued_ms / 1000 * 1000) == 0)
			rc = out_record(record);
	}
	json_decref(record);
	key_release(&k);
	opt_list_release(&devices);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_challenge = {
	.name = "challenge",
	.summary = "Ask a node to prove what it can compute.",
	.details =
		"Writes a signed rnp.challenge, for rnp-bench answer on the node. The time starts now: the\n"
		"verdict counts from the issued_at that this record carries under your signature.",
	.columns = "node,issued_at,deadline_ms,nonce",
	.card = true,
	.opts = opts,
	.run = run,
};
