/* report.c - rnp-reward report: writes a ledger as one self-contained page: who was paid what,
 * who was not and why. */
#include <inttypes.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-reward/commands.h"
#include "cmd/rnp-reward/ledger/payouts.h"
#include "common/base/address.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/base/money.h"
#include "common/cli/html.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/cli/records.h"
#include "common/json/json.h"
#include "common/json/schema.h"
#include "common/plot/plot.h"

#define CHANGES_MAX 10
#define REASONS_MAX 64
#define TOKEN       1e8

static const char *store, *html;

static const struct opt options[] = {
	OPT_LEDGER(&store),
	OPT(TEXT, "html", &html, "F", "the page", .required = true),
	{ .kind = OPT_END },
};

/* What the files that accompany the ledger say. */
struct beside {
	char *reasons[REASONS_MAX];
	int64_t counts[REASONS_MAX];
	int nreasons;
	int64_t nodes, qualified;
	int64_t burned_base_units, burns;
};

struct page {
	struct buf out;
	struct ledger *l;
	struct ledger_balance *balances;
	long n;
	struct beside beside;
	struct buf token; /* of all epochs; empty: none, or several */
};

/* --- writing -------------------------------------------------------------------------------- */

static void cell(struct buf *out, const char *s)
{
	buf_adds(out, "<td>");
	html_text(out, s ? s : "");
	buf_adds(out, "</td>");
}

static void tokens(struct buf *out, int64_t base_units)
{
	buf_adds(out, "<td class=\"n\">");
	if (base_units < 0) {
		buf_adds(out, "-");
		base_units = -base_units;
	}
	money_format(out, base_units, MONEY_RENDER_DECIMALS);
	buf_adds(out, "</td>");
}

/* Writes a table's header: names separated by bars. */
static void head(struct buf *out, const char *names)
{
	buf_adds(out, "<table><tr><th>");
	for (; *names; names++)
		if (*names == '|')
			buf_adds(out, "</th><th>");
		else
			buf_addc(out, *names);
	buf_adds(out, "</th></tr>\n");
}

/* Writes the command with which a reader reproduces the same figures. */
static void command(struct buf *out, const char *words)
{
	buf_adds(out, "<pre>$ ");
	html_text(out, words);
	buf_adds(out, "</pre>\n");
}

/* Writes a command about this ledger. */
static void ledger_command(struct buf *out, const char *before, const char *after)
{
	struct buf words = BUF_INIT;

	buf_addf(&words, "%s --store %s%s", before, store, after);
	command(out, words.data);
	buf_release(&words);
}

/* Appends the token's name as a text of the page, or what stands for it. */
static void token_name(struct page *p)
{
	html_text(&p->out, p->token.len ? p->token.data : "tokens");
}

static int title(struct page *p)
{
	struct buf tokens = BUF_INIT;
	int rc = ledger_tokens(p->l, &tokens);

	if (!strchr(buf_text(&tokens), ','))
		buf_adds(&p->token, buf_text(&tokens));
	buf_release(&tokens);
	buf_adds(&p->out,
		"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
		"<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
		"<title>Rewards</title>\n<style>\n:root{color-scheme:light dark}\n"
		"body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}\n"
		"table{border-collapse:collapse;display:block;overflow-x:auto}\n"
		"th,td{padding:.2rem .7rem;text-align:left;border-bottom:1px solid #8885;white-space:nowrap}\n"
		".n{text-align:right;font-variant-numeric:tabular-nums}\n"
		"pre{background:#8882;padding:.5rem;white-space:pre-wrap;overflow-wrap:anywhere}\n"
		".plot{overflow-x:auto}\n</style></head><body>\n<h1>Rewards</h1>\n<p>");
	html_text(&p->out, store);
	buf_addf(&p->out, ": %ld %s. ", p->n, p->n == 1 ? "epoch" : "epochs");
	buf_adds(&p->out,
		p->token.len || !p->n ? "Amounts are in " : "Each epoch names its ");
	token_name(p);
	buf_adds(&p->out, ".</p>\n");
	return rc;
}

/* --- epochs --------------------------------------------------------------------------------- */

static int epochs(struct page *p)
{
	buf_adds(&p->out, "<h2>Epochs</h2>\n");
	head(&p->out,
		"row|policy|token|from|to|nodes|qualified|minted|claimed|locked|left|paid|in flight|owed");
	for (long i = 0; i < p->n; i++) {
		const struct ledger_balance *b = &p->balances[i];
		const int64_t amounts[] = { b->minted, b->claimed, b->locked, b->left,
			b->paid, b->in_flight, b->owed };
		json_t *row = ledger_row(p->l, b->sequence);

		if (!row)
			return -1;
		buf_addf(&p->out, "<tr><td class=\"n\">%" PRId64 "</td>", b->sequence);
		cell(&p->out, json_string_value(json_object_get(row, "policy")));
		cell(&p->out, json_string_value(json_object_get(row, "token")));
		cell(&p->out, json_string_value(json_object_get(row, "from")));
		cell(&p->out, json_string_value(json_object_get(row, "to")));
		buf_addf(&p->out, "<td class=\"n\">%" JSON_INTEGER_FORMAT "</td>",
			json_integer_value(json_object_get(row, "nodes")));
		buf_addf(&p->out, "<td class=\"n\">%" JSON_INTEGER_FORMAT "</td>",
			json_integer_value(json_object_get(row, "qualified_nodes")));
		for (size_t k = 0; k < sizeof amounts / sizeof *amounts; k++)
			tokens(&p->out, amounts[k]);
		buf_adds(&p->out, "</tr>\n");
		json_decref(row);
	}
	buf_adds(&p->out, "</table>\n");
	ledger_command(&p->out, "rnp-reward ledger",
		" | jq -c 'select(.kind == \"rnp.epoch\") | (.pool_base_units // .total_base_units) as "
		"$minted | [.sequence, .policy, .token, .from, .to, .nodes, .qualified_nodes, $minted, "
		".total_base_units - (.locked_base_units // 0), .locked_base_units // 0, $minted - "
		".total_base_units]'");
	ledger_command(&p->out, "rnp-reward verify", "");
	return 0;
}

/* --- distribution --------------------------------------------------------------------------- */

static int by_amount(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x < *y) - (*x > *y);
}

static void draw(struct page *p, const struct merkle_leaf *leaves, long n)
{
	double *x = xmalloc((size_t)n * sizeof *x), *y = xmalloc((size_t)n * sizeof *y);
	struct plot_line line = { .style = PLOT_STEPS, .n = (size_t)n, .x = x, .y = y };
	struct plot_chart chart = { .title = "What wallets are paid, the highest first",
		.x = { .label = "wallet" },
		.y = { .label = p->token.len ? p->token.data : "tokens",
			.scale = PLOT_LOG },
		.lines = &line,
		.n = 1 };
	struct plot plot = PLOT_INIT;
	for (long i = 0; i < n; i++) {
		x[i] = (double)(i + 1);
		y[i] = (double)(leaves[i].unlocked + leaves[i].locked) / TOKEN;
	}
	qsort(y, (size_t)n, sizeof *y, by_amount);
	plot_add_chart(&plot, &chart);
	plot_embed(&p->out, &plot, NULL);
	plot_release(&plot);
	free(x);
	free(y);
}

static uint64_t sum_of(const struct merkle_leaf *leaf)
{
	return leaf->unlocked + leaf->locked;
}

static int by_sum(const void *a, const void *b)
{
	uint64_t x = sum_of(a), y = sum_of(b);

	return (x < y) - (x > y);
}

/* Computes the share of all pay that goes to the top tenth of the wallets, and the median
 * wallet's pay. */
static void figures(struct page *p, struct merkle_leaf *sorted, long n)
{
	unsigned __int128 all = 0, first = 0;

	qsort(sorted, (size_t)n, sizeof *sorted, by_sum);
	for (long i = 0; i < n; i++) {
		all += sum_of(&sorted[i]);
		first += i < (n + 9) / 10 ? sum_of(&sorted[i]) : 0;
	}
	if (n == 1)
		buf_adds(&p->out, "<p>1 wallet has all of it: <b>");
	else
		buf_addf(&p->out,
			"<p>%ld wallets; the first tenth of them has %d%% of all, the one "
			"in the middle <b>",
			n, all ? (int)(first * 100 / all) : 0);
	money_format(&p->out, (int64_t)sum_of(&sorted[(n - 1) / 2]),
		MONEY_RENDER_DECIMALS);
	buf_addc(&p->out, ' ');
	token_name(p);
	buf_adds(&p->out, "</b>.</p>\n");
}

static int distribution(struct page *p)
{
	int64_t last = p->n ? p->balances[p->n - 1].sequence : -1;
	struct merkle_leaf *leaves = NULL;
	long n = p->n ? ledger_claims(p->l, last, &leaves) : 0;

	if (n < 0)
		return -1;
	buf_adds(&p->out, "<h2>Distribution of the last epoch</h2>\n");
	if (n) {
		/* of one wallet there is nothing to compare */
		if (n > 1)
			draw(p, leaves, n);
		figures(p, leaves, n);
		command(&p->out,
			"rnp-reward proof --all epoch.jsonl | jq -s -c '[.[] | .unlocked_base_units + "
			".locked_base_units] | sort | reverse | [length, ((.[:((length + 9) / 10 | "
			"floor)] | add) * 100 / add | floor), .[((length - 1) / 2 | floor)]]'");
	} else {
		buf_adds(&p->out, "<p>Nobody is paid.</p>\n");
	}
	free(leaves);
	return 0;
}

/* --- changes -------------------------------------------------------------------------------- */

struct change {
	unsigned char wallet[32];
	int64_t before, after;
};

static int by_change(const void *a, const void *b)
{
	const struct change *x = a, *y = b;
	int64_t dx = llabs(x->after - x->before), dy = llabs(y->after - y->before);

	if (dx != dy)
		return dx < dy ? 1 : -1;
	return memcmp(x->wallet, y->wallet, sizeof x->wallet);
}

/* Merges two lists, both in the order of wallets; the caller frees the result. */
static struct change *merge(const struct merkle_leaf *a, long na,
	const struct merkle_leaf *b, long nb, long *n)
{
	struct change *out = xcalloc((size_t)(na + nb + 1), sizeof *out);
	long i = 0, k = 0;

	for (*n = 0; i < na || k < nb; (*n)++) {
		int order = i == na ? 1 :
			k == nb     ? -1 :
				      memcmp(a[i].claimant, b[k].claimant, 32);

		memcpy(out[*n].wallet, order <= 0 ? a[i].claimant : b[k].claimant, 32);
		if (order <= 0)
			out[*n].before = (int64_t)sum_of(&a[i++]);
		if (order >= 0)
			out[*n].after = (int64_t)sum_of(&b[k++]);
	}
	return out;
}

static void write_changes(struct page *p, struct change *list, long n)
{
	long new = 0, gone = 0;

	for (long i = 0; i < n; i++) {
		new += !list[i].before;
		gone += !list[i].after;
	}
	buf_addf(&p->out,
		"<p>%ld %s new, %ld %s no longer paid. The greatest changes:</p>\n", new,
		new == 1 ? "wallet is" : "wallets are", gone, gone == 1 ? "is" : "are");
	qsort(list, (size_t)n, sizeof *list, by_change);
	head(&p->out, "wallet|before|now|change");
	for (long i = 0; i < n && i < CHANGES_MAX; i++) {
		char wallet[ADDRESS_MAX];

		address_format(list[i].wallet, wallet);
		buf_adds(&p->out, "<tr>");
		cell(&p->out, wallet);
		tokens(&p->out, list[i].before);
		tokens(&p->out, list[i].after);
		tokens(&p->out, list[i].after - list[i].before);
		buf_adds(&p->out, "</tr>\n");
	}
	buf_adds(&p->out, "</table>\n");
}

static int changes(struct page *p)
{
	struct merkle_leaf *before = NULL, *now = NULL;
	struct change *list;
	long a, b, n;

	if (p->n < 2)
		return 0;
	a = ledger_claims(p->l, p->balances[p->n - 2].sequence, &before);
	b = a < 0 ? -1 : ledger_claims(p->l, p->balances[p->n - 1].sequence, &now);
	if (b >= 0) {
		buf_adds(&p->out, "<h2>Changes</h2>\n");
		list = merge(before, a, now, b, &n);
		write_changes(p, list, n);
		free(list);
		command(&p->out,
			"join -a 1 -a 2 -e 0 -o 0,1.2,2.2 <(rnp-reward proof --all before.jsonl | jq -r "
			"'\"\\(.wallet) \\(.unlocked_base_units + .locked_base_units)\"' | sort) "
			"<(rnp-reward proof --all epoch.jsonl | jq -r "
			"'\"\\(.wallet) \\(.unlocked_base_units + .locked_base_units)\"' | sort)");
	}
	free(before);
	free(now);
	return b < 0 ? -1 : 0;
}

static int add_up(int64_t *sum, int64_t more)
{
	return more < 0 || __builtin_add_overflow(*sum, more, sum) ?
		err_set(EX_DATAERR,
			"the ledger is not good: its amounts do not fit 64 bits") :
		0;
}

/* --- payouts, and who was not paid ---------------------------------------------------------- */

struct totals {
	int64_t count[PAY_STATUSES], sum[PAY_STATUSES];
};

static int count_payout(void *ctx, const struct owed *o, const struct ledger_tx *tx)
{
	struct totals *t = ctx;

	t->count[tx->status]++;
	return add_up(&t->sum[tx->status], o->base_units);
}

static int payouts(struct page *p)
{
	struct totals t = { 0 };

	if (ledger_each_payout(p->l, count_payout, &t) < 0)
		return -1;
	buf_adds(&p->out, "<h2>Payouts</h2>\n");
	head(&p->out, "status|payouts|tokens");
	for (int i = 0; i < PAY_STATUSES; i++) {
		if (!t.count[i])
			continue;
		buf_addf(&p->out, "<tr><td>%s</td><td class=\"n\">%" PRId64 "</td>",
			pay_status_names[i], t.count[i]);
		tokens(&p->out, t.sum[i]);
		buf_adds(&p->out, "</tr>\n");
	}
	buf_adds(&p->out, "</table>\n");
	ledger_command(&p->out, "rnp-reward pay",
		" --status | jq -s -c 'group_by(.status)[] | [.[0].status, length, (map(.base_units) | "
		"add)]'");
	return 0;
}

static void reasons(struct page *p)
{
	const struct beside *b = &p->beside;

	if (!b->nodes)
		return;
	buf_addf(&p->out,
		"<h2>Not paid</h2>\n<p>%" PRId64 " of %" PRId64
		" nodes do not qualify. Reasons, and of how many nodes:</p>\n",
		b->nodes - b->qualified, b->nodes);
	head(&p->out, "nodes|reason");
	for (int i = 0; i < b->nreasons; i++) {
		buf_addf(&p->out, "<tr><td class=\"n\">%" PRId64 "</td>", b->counts[i]);
		cell(&p->out, b->reasons[i]);
		buf_adds(&p->out, "</tr>\n");
	}
	buf_adds(&p->out, "</table>\n");
	command(&p->out,
		"jq -r 'select(.qualified == false).reasons[]' epoch.jsonl | sort | uniq -c");
}

static int burns(struct page *p)
{
	int64_t minted = 0;

	if (!p->beside.burns)
		return 0;
	for (long i = 0; i < p->n; i++)
		if (add_up(&minted, p->balances[i].claimed) < 0 ||
			add_up(&minted, p->balances[i].locked) < 0)
			return -1;
	buf_addf(&p->out,
		"<h2>Burns and mints</h2>\n<p>%" PRId64
		" burns. What is minted does not depend on them.</p>\n",
		p->beside.burns);
	head(&p->out, "burned|rewarded");
	buf_adds(&p->out, "<tr>");
	tokens(&p->out, p->beside.burned_base_units);
	tokens(&p->out, minted);
	buf_adds(&p->out, "</tr></table>\n");
	command(&p->out, "jq -s 'map(.burned_base_units // 0) | add' burns.jsonl");
	ledger_command(&p->out, "rnp-reward ledger",
		" | jq -s 'map(select(.kind == \"rnp.epoch\").total_base_units) | add'");
	return 0;
}

/* --- input ---------------------------------------------------------------------------------- */

/* Counts a reason; after REASONS_MAX - 1 different ones, all others are counted together. */
static void count_reason(struct beside *b, const char *reason)
{
	for (int i = 0; i < b->nreasons; i++)
		if (strcmp(b->reasons[i], reason) == 0) {
			b->counts[i]++;
			return;
		}
	if (b->nreasons == REASONS_MAX) {
		b->counts[REASONS_MAX - 1]++;
		return;
	}
	b->reasons[b->nreasons] = xstrdup(
		b->nreasons == REASONS_MAX - 1 ? "others" : reason);
	b->counts[b->nreasons++] = 1;
}

static int count_record(void *ctx, const struct record *r)
{
	const char *kind = json_string_value(json_object_get(r->json, "kind"));
	struct beside *b = ctx;
	const json_t *reason;
	int64_t units = 0;
	size_t i;

	if (schema_check(r->json, r->where, NULL) < 0)
		return -1;
	if (strcmp(kind, "rnp.burn") == 0) {
		if (json_opt_i64(r->json, r->where, "burned_base_units", 0, INT64_MAX,
			    &units) < 0)
			return -1;
		b->burns++;
		if (__builtin_add_overflow(b->burned_base_units, units,
			    &b->burned_base_units))
			return err_set(EX_DATAERR, "%s: all burns do not fit 64 bits",
				r->where);
	}
	if (strcmp(kind, "rnp.reward") != 0)
		return 0;
	b->nodes++;
	if (json_is_true(json_object_get(r->json, "qualified"))) {
		b->qualified++;
		return 0;
	}
	json_array_foreach(json_object_get(r->json, "reasons"), i, reason)
		count_reason(b, json_string_value(reason));
	return 0;
}

static int write_page(struct page *p)
{
	if (title(p) < 0 || epochs(p) < 0 || distribution(p) < 0 || changes(p) < 0)
		return -1;
	reasons(p);
	if (payouts(p) < 0 || burns(p) < 0)
		return -1;
	buf_adds(&p->out, "</body></html>\n");
	return io_replace(html, p->out.data, p->out.len, 0644);
}

static int run(int n, char **args)
{
	struct ledger l = LEDGER_INIT;
	struct page p = { .l = &l };
	int rc = -1;

	if ((!n ||
		    records_each(args, n, JSON_RECORD_BYTES_MAX, count_record,
			    &p.beside) == 0) &&
		ledger_open(&l, store, true) == 0) {
		p.n = ledger_balances(&l, &p.balances);
		rc = p.n < 0 ? -1 : write_page(&p);
	}
	for (int i = 0; i < p.beside.nreasons; i++)
		free(p.beside.reasons[i]);
	free(p.balances);
	buf_release(&p.out);
	buf_release(&p.token);
	ledger_close(&l);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_report = {
	.name = "report",
	.arguments = "[file ...]",
	.args_max = -1,
	.summary = "A ledger as one self-contained page with pictures.",
	.details =
		"Files may hold the rnp.reward records of the last epoch, for who was not paid and\n"
		"why, and rnp.burn records. Each figure has the command that reproduces it.",
	.opts = options,
	.run = run,
};
