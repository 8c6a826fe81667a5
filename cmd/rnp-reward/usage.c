/* usage.c - rnp-reward usage: reads the signed records of an epoch and writes one rnp.usage per
 * node. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-reward/commands.h"
#include "cmd/rnp-reward/evidence.h"
#include "cmd/rnp-reward/gather.h"
#include "cmd/rnp-reward/ledger_stake.h"
#include "cmd/rnp-reward/slices.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/net/http.h"
#include "common/net/registry_client.h"
#include "common/json/json.h"
#include "common/cli/prog.h"
#include "common/json/schema.h"

#define SLICE_NODES 64 /* that a thread writes at a time */
/* a day is signed within two weeks of its end */
#define UPTIME_LATE_MS INT64_C(1209600000)
/* twice the longest interval that a heartbeat may announce */
#define MARGIN_MS INT64_C(7200000)

static struct {
	int64_t from_ms, to_ms;
	const char *registry, *policy, *ca, *store;
	struct evidence evidence;
} opts = { -1, -1, NULL, NULL, NULL, NULL, { .claims = false } };

static const struct opt options[] = {
	{ .name = "from",
		.kind = OPT_TIME,
		.required = true,
		.to = &opts.from_ms,
		.metavar = "T",
		.help = "start of the epoch (RFC 3339)" },
	{ .name = "to",
		.kind = OPT_TIME,
		.required = true,
		.to = &opts.to_ms,
		.metavar = "T",
		.help = "its end, which is not part of it" },
	{ .name = "registry",
		.kind = OPT_TEXT,
		.to = &opts.registry,
		.metavar = "URL",
		.help = "take the records of this registry, beside those of files" },
	{ .name = "trust",
		.kind = OPT_LIST,
		.address = true,
		.to = &opts.evidence.trust,
		.metavar = "ADDRESS",
		.help = "verdicts, receipts and uptimes signed by this key count; may be given "
			"again" },
	{ .name = "heartbeats",
		.kind = OPT_FLAG,
		.to = &opts.evidence.heartbeats,
		.help = "where a node has no rnp.uptime, take its own heartbeats, which prove "
			"nothing" },
	{ .name = "policy",
		.kind = OPT_TEXT,
		.to = &opts.policy,
		.metavar = "P",
		.help = "score verdicts against this policy's reference, not by their own score" },
	{ .name = "store",
		.kind = OPT_TEXT,
		.to = &opts.store,
		.metavar = "DB",
		.help = "say what each node has at stake in this ledger" },
	{ .name = "ca",
		.kind = OPT_TEXT,
		.to = &opts.ca,
		.metavar = "F",
		.help = "trust these certificates (PEM), not the system's" },
	{ .kind = OPT_END },
};

/* --- files --------------------------------------------------------------------------------- */

static int take_record(void *g, json_t *record, const char *where)
{
	return gather_add(g, record, where);
}

static int take_item(void *g, const struct gather_item *item, const char *where)
{
	return gather_take(g, item, where);
}

static void item_ahead(void *g, const struct gather_item *item)
{
	gather_expect(g, item);
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

/* Takes up to EVIDENCE_MANY records of a page, from `from` on. */
static int take_some(struct gather *g, const json_t *page, size_t from)
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
		if (counted[i] && gather_add(g, records[i], opts.registry) < 0 &&
			skip_bad() < 0)
			return -1;
	return 0;
}

static int take_page(void *g, const json_t *page)
{
	for (size_t i = 0; i < json_array_size(page); i += EVIDENCE_MANY)
		if (take_some(g, page, i) < 0)
			return -1;
	return 0;
}

static int fetch_kind(struct gather *g, struct http *http, const char *kind,
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
		take_page, g);
	buf_release(&path);
	return rc;
}

static int read_registry(struct gather *g)
{
	struct http http = HTTP_INIT;
	int rc = -1;

	/* reads all records of nodes, not only the current ones: another computer on another
	 * day must find the wallet and the hardware of the epoch; a receipt is written after
	 * the work, any time after the epoch began */
	if (fetch_kind(g, &http, "rnp.node", 0, g->to_ms + MARGIN_MS) == 0 &&
		(!opts.evidence.heartbeats ||
			fetch_kind(g, &http, "rnp.heartbeat", g->from_ms - MARGIN_MS,
				g->to_ms + MARGIN_MS) == 0) &&
		fetch_kind(g, &http, "rnp.uptime", g->from_ms,
			g->to_ms + UPTIME_LATE_MS) == 0 &&
		fetch_kind(g, &http, "rnp.verdict", g->from_ms, g->to_ms) == 0)
		rc = fetch_kind(g, &http, "rnp.receipt", g->from_ms, -1);
	http_release(&http);
	return rc;
}

/* --- out ----------------------------------------------------------------------------------- */

struct writing {
	const struct gather *gather;
	const struct ledger_stake *stakes;
	long n;
};

static void write_slice(void *ctx, size_t from, size_t to, struct buf *out)
{
	const struct writing *w = ctx;

	for (size_t i = from; i < to; i++) {
		const char *address = gather_address(w->gather, i);

		gather_usage_write(w->gather, i,
			opts.store ? ledger_staked_uusd(address, w->stakes, w->n) : -1,
			out);
		buf_addc(out, '\n');
	}
}

static int write_usages(struct gather *g, const struct ledger_stake *stakes, long n)
{
	struct writing w = { g, stakes, n };

	gather_finish(g);
	return slices_write(g->n, SLICE_NODES, write_slice, &w);
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
	return 0;
}

static int run(int n, char **args)
{
	struct policy scores = POLICY_INIT;
	struct gather g;
	struct ledger_stake *stakes = NULL;
	long nstakes;
	int rc = -1;

	gather_init(&g, opts.from_ms, opts.to_ms, opts.policy ? &scores : NULL);
	if (check_options() < 0 || (opts.policy && policy_load(&scores, opts.policy) < 0))
		goto out;
	if (opts.registry && read_registry(&g) < 0)
		goto out;
	if ((n || !opts.registry) &&
		evidence_read(&opts.evidence, args, n, take_record, take_item, item_ahead,
			&g) < 0)
		goto out;
	if (read_stakes(&stakes, &nstakes) == 0)
		rc = write_usages(&g, stakes, nstakes);
out:
	free(stakes);
	gather_release(&g);
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
