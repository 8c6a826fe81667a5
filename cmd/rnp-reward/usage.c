/* usage.c - rnp-reward usage: reads the signed records of an epoch and writes one rnp.usage per
 * node. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/rnp-reward/commands.h"
#include "cmd/rnp-reward/evidence/evidence.h"
#include "cmd/rnp-reward/evidence/collect.h"
#include "cmd/rnp-reward/ledger/stake.h"
#include "cmd/rnp-reward/epoch/slices.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/http/http.h"
#include "common/registry/client.h"
#include "common/json/json.h"
#include "common/cli/prog.h"
#include "common/json/schema.h"
#include "common/record/policy.h"

#define SLICE_NODES 64 /* nodes that a thread formats at a time */
/* an rnp.uptime is signed within two weeks after its day */
#define UPTIME_LATE_MS INT64_C(1209600000)
/* twice the longest interval that a heartbeat may announce */
#define MARGIN_MS INT64_C(7200000)

static struct {
	int64_t from_ms, to_ms;
	const char *registry, *policy, *ca, *store;
	struct evidence evidence;
} opts = { .from_ms = -1, .to_ms = -1 };

static const struct opt options[] = {
	OPT(TIME, "from", &opts.from_ms, "T",
		"start of the epoch: 2026-11-20T18:00:00Z, 2026-11-20, today, -7d",
		.required = true),
	OPT(TIME, "to", &opts.to_ms, "T", "its end, which is not part of it",
		.required = true),
	OPT(TEXT, "registry", &opts.registry, "URL",
		"take the records of this registry, beside those of files",
		.setting = true),
	OPT(LIST, "trust", &opts.evidence.trust, "ADDRESS",
		"verdicts, receipts and uptimes signed by this key count; may be given "
		"again",
		.address = true),
	OPT_SWITCH("heartbeats", &opts.evidence.heartbeats,
		"where a node has no rnp.uptime, take its own heartbeats, which prove "
		"nothing"),
	OPT(TEXT, "policy", &opts.policy, "P",
		"score verdicts against this policy's reference, not by their own score",
		.words = POLICY_NAMES),
	OPT(TEXT, "store", &opts.store, "DB",
		"say what each node has at stake in this ledger"),
	OPT_CA(&opts.ca),
	{ .kind = OPT_END },
};

/* --- files --------------------------------------------------------------------------------- */

static int add_record(void *c, json_t *record, const char *where)
{
	return collect_add(c, record, where);
}

static int add_item(void *c, const struct collect_item *item, const char *where)
{
	return collect_take(c, item, where);
}

static void prefetch_item(void *c, const struct collect_item *item)
{
	collect_prefetch(c, item);
}

/* --- a registry ---------------------------------------------------------------------------- */

/* A malformed record that a stranger posted and the registry stored must not stop everybody's
 * pay, so it is skipped. Returns -1 if the pending error is another. */
static int skip_bad(void)
{
	if (err_get()->code != EX_DATAERR)
		return -1;
	prog_warn("%s: left out", err_get()->text);
	err_clear();
	return 0;
}

/* Adds up to EVIDENCE_MANY records of a page, from `from` on. */
static int add_some(struct collect *c, const json_t *page, size_t from)
{
	const json_t *records[EVIDENCE_MANY];
	bool counted[EVIDENCE_MANY];
	size_t n = 0;

	for (size_t i = from; i < json_array_size(page) && i < from + EVIDENCE_MANY;
		i++) {
		records[n] = json_array_get(page, i);
		if (schema_check(records[n], opts.registry, NULL) == 0)
			n++;
		else if (skip_bad() < 0)
			return -1;
	}
	evidence_count_many(&opts.evidence, records, n, opts.registry, counted);
	for (size_t i = 0; i < n; i++)
		if (counted[i] && collect_add(c, records[i], opts.registry) < 0 &&
			skip_bad() < 0)
			return -1;
	return 0;
}

static int add_page(void *c, const json_t *page)
{
	for (size_t i = 0; i < json_array_size(page); i += EVIDENCE_MANY)
		if (add_some(c, page, i) < 0)
			return -1;
	return 0;
}

static int fetch_kind(struct collect *c, struct http *http, const char *kind,
	int64_t from_ms, int64_t to_ms)
{
	char from[CLOCK_TEXT_MAX], to[CLOCK_TEXT_MAX];
	struct buf path = BUF_INIT;
	int rc;

	clock_format(from, from_ms > 0 ? from_ms : 0);
	buf_addf(&path, "/v1/records?limit=1000&kind=%s&from=%s", kind, from);
	if (to_ms >= 0) {
		clock_format(to, to_ms);
		buf_addf(&path, "&to=%s", to);
	}
	rc = registry_each_page(http, opts.registry, opts.ca, path.data, "records",
		add_page, c);
	buf_release(&path);
	return rc;
}

static int read_registry(struct collect *c)
{
	struct http http = HTTP_INIT;
	int rc = -1;

	/* All records of nodes are read, not only the current ones: whoever repeats this on another
	 * day must find the wallet and the hardware of the epoch. A receipt is written after the
	 * work, so at any time after the epoch began. */
	if (fetch_kind(c, &http, "rnp.node", 0, c->to_ms + MARGIN_MS) == 0 &&
		(!opts.evidence.heartbeats ||
			fetch_kind(c, &http, "rnp.heartbeat", c->from_ms - MARGIN_MS,
				c->to_ms + MARGIN_MS) == 0) &&
		fetch_kind(c, &http, "rnp.uptime", c->from_ms,
			c->to_ms + UPTIME_LATE_MS) == 0 &&
		fetch_kind(c, &http, "rnp.verdict", c->from_ms, c->to_ms) == 0)
		rc = fetch_kind(c, &http, "rnp.receipt", c->from_ms, -1);
	http_release(&http);
	return rc;
}

/* --- out ----------------------------------------------------------------------------------- */

struct writing {
	const struct collect *collect;
	const struct ledger_stake *stakes;
	long n;
};

static void write_slice(void *ctx, size_t from, size_t to, struct buf *out)
{
	const struct writing *w = ctx;

	for (size_t i = from; i < to; i++) {
		const char *address = collect_address(w->collect, i);

		collect_usage_write(w->collect, i,
			opts.store ? ledger_staked_uusd(address, w->stakes, w->n) : -1,
			out);
		buf_addc(out, '\n');
	}
}

static int write_usages(struct collect *c, const struct ledger_stake *stakes, long n)
{
	struct writing w = { c, stakes, n };

	collect_finish(c);
	return slices_write(c->n, SLICE_NODES, write_slice, &w);
}

static int read_stakes(struct ledger_stake **stakes, long *n)
{
	struct ledger l = LEDGER_INIT;

	*stakes = NULL;
	*n = 0;
	if (!opts.store)
		return 0;
	if (ledger_open(&l, opts.store, true) == 0)
		*n = ledger_stakes(&l, INT64_MAX, stakes);
	else
		*n = -1;
	ledger_close(&l);
	return *n < 0 ? -1 : 0;
}

static int check_options(void)
{
	if (opts.from_ms >= opts.to_ms)
		return err_set(EX_USAGE, "--to must be after --from");
	if (opts.to_ms > clock_now_ms())
		prog_warn(
			"--to is in the future: this is what was done so far, and no epoch to "
			"seal");
	return 0;
}

/* Whether standard input can hold records: a file or a pipe, but no terminal, and not /dev/null,
 * which cron gives. */
static bool is_piped(void)
{
	struct stat st;

	return fstat(STDIN_FILENO, &st) == 0 && !S_ISCHR(st.st_mode);
}

/* Records are taken from what the command line names. The registry that is set for every day is for
 * when it names none. */
static int choose_source(int n)
{
	if (opt_given(&command_usage, "registry"))
		return 0;
	if (n || is_piped())
		opts.registry = NULL;
	else if (!opts.registry)
		return err_set(EX_USAGE,
			"no registry, no files: name files, or --registry URL, or set RNP_REGISTRY");
	return 0;
}

static int run(int n, char **args)
{
	struct policy scores = POLICY_INIT;
	struct collect c;
	struct ledger_stake *stakes = NULL;
	long nstakes;
	int rc = -1;

	collect_init(&c, opts.from_ms, opts.to_ms, opts.policy ? &scores : NULL);
	if (check_options() < 0 || choose_source(n) < 0 ||
		(opts.policy && policy_load(&scores, opts.policy) < 0))
		goto out;
	if (opts.registry && read_registry(&c) < 0)
		goto out;
	if ((n || !opts.registry) &&
		evidence_read(&opts.evidence, args, n, add_record, add_item,
			prefetch_item, &c) < 0)
		goto out;
	if (read_stakes(&stakes, &nstakes) == 0)
		rc = write_usages(&c, stakes, nstakes);
out:
	free(stakes);
	collect_release(&c);
	policy_release(&scores);
	opt_list_release(&opts.evidence.trust);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_usage = {
	.name = "usage",
	.arguments = "[file ...]",
	.args_max = -1,
	.summary = "What each node did in an epoch, from signed records.",
	.details =
		"Reads rnp.node, rnp.verdict, rnp.receipt and rnp.uptime records, writes one rnp.usage\n"
		"per node: what trusted keys have seen and challenges have proven.",
	.columns =
		"node,gpu_model,gpu_count,up_s,gpu_worked_s,earned_uusd,credits,passed_ppm,score_ppm",
	.opts = options,
	.run = run,
};
