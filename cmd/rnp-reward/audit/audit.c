/* audit.c - recomputes the epochs of a ledger from signed records, and names each difference with
 * the line of the records that it follows from. */
#include "cmd/rnp-reward/audit/audit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-reward/evidence/collect.h"
#include "cmd/rnp-reward/ledger/stake.h"
#include "cmd/rnp-reward/epoch/usage_read.h"
#include "common/base/err.h"
#include "common/base/lines.h"
#include "common/base/mem.h"
#include "common/json/json.h"

#define FINDINGS_MAX 100 /* findings of an epoch that are named; the others are counted */

/* The kinds of records that a figure can follow from, as bits. */
enum {
	FROM_NODE = 1,
	FROM_VERDICT = 2,
	FROM_RECEIPT = 4,
	FROM_UPTIME = 8,
	FROM_HEARTBEAT = 16,
	FROM_ANY = 31
};

/* A difference about one node. */
struct finding {
	char node[ADDRESS_MAX];
	unsigned from;   /* kinds of records whose last line is named */
	char *text;      /* owned */
	char where[200]; /* that line, or "" */
};

/* A published rnp.usage. */
struct claim {
	char node[ADDRESS_MAX];
	char *text; /* owned */
};

/* An epoch of the ledger and what the records say about its time. */
struct audited {
	int64_t sequence, from_ms, to_ms;
	json_t *row;
	struct collect collect;
	struct ledger_stake *stakes; /* as of the rows before it */
	long nstakes;
	bool ends_alone; /* no other epoch, such as a complement, ends at the same time */
	struct claim *claims;
	size_t nclaims, claims_cap;
	struct finding *findings;
	size_t n, cap, more; /* more: those beyond FINDINGS_MAX */
};

struct audited_list {
	struct audited *list;
	size_t n, cap;
	const struct policy *scores;
};

/* --- the epochs ----------------------------------------------------------------------------- */

static int add_epoch(void *ctx, int64_t sequence, const json_t *row)
{
	struct audited_list *l = ctx;
	struct audited *e;

	if (strcmp(json_string_value(json_object_get(row, "kind")), "rnp.epoch") != 0 ||
		!json_object_get(row, "from"))
		return 0;
	l->list = xgrow(l->list, &l->cap, l->n + 1, sizeof *l->list);
	e = &l->list[l->n++];
	memset(e, 0, sizeof *e);
	e->sequence = sequence;
	e->row = json_incref((json_t *)row);
	if (json_get_time(row, "epoch", "from", &e->from_ms) < 0 ||
		json_get_time(row, "epoch", "to", &e->to_ms) < 0)
		return -1;
	collect_init(&e->collect, e->from_ms, e->to_ms, l->scores);
	return 0;
}

static void release_epochs(struct audited_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		struct audited *e = &l->list[i];

		for (size_t k = 0; k < e->nclaims; k++)
			free(e->claims[k].text);
		for (size_t k = 0; k < e->n; k++)
			free(e->findings[k].text);
		free(e->claims);
		free(e->findings);
		collect_release(&e->collect);
		free(e->stakes);
		json_decref(e->row);
	}
	free(l->list);
}

/* --- what is read --------------------------------------------------------------------------- */

static int add_claim(struct audited_list *l, const json_t *record, const char *where)
{
	int64_t from_ms = -1, to_ms = -1;
	const char *node;

	if (json_get_text(record, where, "node", &node) < 0 ||
		json_opt_time(record, where, "from", &from_ms) < 0 ||
		json_opt_time(record, where, "to", &to_ms) < 0)
		return -1;
	for (size_t i = 0; i < l->n; i++) {
		struct audited *e = &l->list[i];
		struct buf text = BUF_INIT;
		struct claim *c;

		if (e->from_ms != from_ms || e->to_ms != to_ms)
			continue;
		e->claims = xgrow(e->claims, &e->claims_cap, e->nclaims + 1,
			sizeof *e->claims);
		c = &e->claims[e->nclaims++];
		json_write(&text, record);
		c->text = buf_take(&text);
		snprintf(c->node, sizeof c->node, "%s", node);
	}
	return 0;
}

static int add_record(void *ctx, json_t *record, const char *where)
{
	struct audited_list *l = ctx;

	if (strcmp(json_string_value(json_object_get(record, "kind")), "rnp.usage") == 0)
		return add_claim(l, record, where);
	for (size_t i = 0; i < l->n; i++)
		if (collect_add(&l->list[i].collect, record, where) < 0)
			return -1;
	return 0;
}

static int add_item(void *ctx, const struct collect_item *item, const char *where)
{
	struct audited_list *l = ctx;

	for (size_t i = 0; i < l->n; i++)
		if (collect_take(&l->list[i].collect, item, where) < 0)
			return -1;
	return 0;
}

/* --- findings ------------------------------------------------------------------------------- */

static void __attribute__((format(printf, 4, 5)))
find(struct audited *e, const char *node, unsigned from, const char *fmt, ...)
{
	struct finding *f;
	va_list args;

	if (e->n == FINDINGS_MAX) {
		e->more++;
		return;
	}
	e->findings = xgrow(e->findings, &e->cap, e->n + 1, sizeof *e->findings);
	f = &e->findings[e->n++];
	memset(f, 0, sizeof *f);
	snprintf(f->node, sizeof f->node, "%s", node);
	f->from = from;
	va_start(args, fmt);
	if (vasprintf(&f->text, fmt, args) < 0)
		bug("out of memory");
	va_end(args);
}

static unsigned kind_of(const json_t *record)
{
	static const char *const kinds[] = { "rnp.node", "rnp.verdict", "rnp.receipt",
		"rnp.uptime", "rnp.heartbeat" };
	const char *kind = json_string_value(json_object_get(record, "kind"));

	for (unsigned i = 0; kind && i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(kind, kinds[i]) == 0)
			return 1u << i;
	return 0;
}

/* Whether a record says something about the time of an epoch. */
static bool in_time(const struct audited *e, const json_t *record)
{
	int64_t at_ms = e->from_ms, from_ms, to_ms;

	if (kind_of(record) == FROM_NODE)
		return true;
	if (json_opt_time(record, "", "at", &at_ms) < 0)
		err_clear();
	from_ms = to_ms = at_ms;
	if (json_opt_time(record, "", "from", &from_ms) < 0 ||
		json_opt_time(record, "", "to", &to_ms) < 0)
		err_clear();
	return from_ms < e->to_ms && to_ms >= e->from_ms;
}

static void name_line(const struct audit *a, struct audited_list *l, const char *line,
	size_t len, const char *where)
{
	json_t *record = json_parse_object(line, len, where);
	const char *node = json_string_value(json_object_get(record, "node"));
	int counts = -1;

	for (size_t i = 0; node && i < l->n; i++)
		for (size_t k = 0; k < l->list[i].n; k++) {
			struct finding *f = &l->list[i].findings[k];

			if (strcmp(f->node, node) != 0 || !(f->from & kind_of(record)) ||
				!in_time(&l->list[i], record))
				continue;
			if (counts < 0)
				counts = evidence_counts(&a->evidence, record, NULL);
			if (counts)
				snprintf(f->where, sizeof f->where, "%s", where);
		}
	err_clear();
	json_decref(record);
}

/* Reads the records a second time, to name the last line that each finding follows from. */
static int name_lines(const struct audit *a, struct audited_list *l)
{
	struct lines lines;
	size_t len, n = 0;
	char *line;
	int rc;

	for (size_t i = 0; i < l->n; i++)
		n += l->list[i].n;
	if (!n)
		return 0;
	lines_open(&lines, (char **)a->files.items, a->files.n, JSON_RECORD_BYTES_MAX);
	while ((rc = lines_next(&lines, &line, &len)) == 1)
		name_line(a, l, line, len, lines_where(&lines));
	lines_close(&lines);
	return rc;
}

/* --- claimed usages ------------------------------------------------------------------------- */

/* What each field of a usage follows from. */
static const struct {
	const char *field;
	unsigned from;
	const char *words;
} sources[] = {
	{ "wallet", FROM_NODE, "its rnp.node says" },
	{ "gpu_model", FROM_VERDICT, "verdicts prove" },
	{ "gpu_count", FROM_VERDICT, "verdicts prove" },
	{ "gpu_memory_bytes", FROM_VERDICT, "verdicts prove" },
	{ "gpu_clock_mhz", FROM_VERDICT, "verdicts prove" },
	{ "gpu_memory_bandwidth_bps", FROM_VERDICT, "verdicts prove" },
	{ "cpu_cores", FROM_VERDICT, "verdicts prove" },
	{ "cpu_clock_mhz", FROM_VERDICT, "verdicts prove" },
	{ "down_bps", FROM_VERDICT, "verdicts prove" },
	{ "up_bps", FROM_VERDICT, "verdicts prove" },
	{ "worked_s", FROM_RECEIPT, "receipts cover" },
	{ "gpu_worked_s", FROM_RECEIPT, "receipts cover" },
	{ "up_s", FROM_UPTIME | FROM_HEARTBEAT, "uptimes cover" },
	{ "earned_uusd", FROM_RECEIPT, "receipts say" },
	{ "credits", FROM_RECEIPT, "receipts say" },
	{ "score_ppm", FROM_VERDICT, "verdicts say" },
	{ "challenges_passed", FROM_VERDICT, "verdicts say" },
	{ "passed_ppm", FROM_VERDICT, "verdicts say" },
	{ "reputation_ppm", FROM_VERDICT, "records say" },
	{ "staked_uusd", FROM_NODE, "the ledger holds" },
	{ "factors", FROM_NODE, "records say" },
};

static void add_value(struct buf *out, const json_t *v)
{
	if (json_is_string(v))
		buf_addf(out, "%.80s", json_string_value(v));
	else if (v)
		json_write(out, v);
	else
		buf_adds(out, "nothing");
}

/* Returns what the records and the ledger say of the i-th node; the caller owns it. */
static json_t *usage_of(const struct audited *e, size_t i)
{
	int64_t staked_uusd = ledger_staked_uusd(collect_address(&e->collect, i),
		e->stakes, e->nstakes);
	struct buf text = BUF_INIT;
	json_t *usage;

	collect_usage_write(&e->collect, i, staked_uusd, &text);
	usage = json_parse_object(text.data, text.len, "usage");
	if (!usage)
		bug("%s", err_get()->text);
	buf_release(&text);
	return usage;
}

/* Records the first field in which a claimed usage differs from the records. */
static void compare_usage(struct audited *e, const char *node, const json_t *claimed,
	const json_t *found)
{
	for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
		const json_t *a = json_object_get(claimed, sources[i].field);
		const json_t *b = json_object_get(found, sources[i].field);
		struct buf x = BUF_INIT, y = BUF_INIT;

		if ((!a && !b) || json_equal((json_t *)a, (json_t *)b))
			continue;
		/* the field may be absent if nothing is at stake */
		if (!a && strcmp(sources[i].field, "staked_uusd") == 0 &&
			json_integer_value(b) == 0)
			continue;
		add_value(&x, a);
		add_value(&y, b);
		find(e, node, sources[i].from, "node %s: %s is %.100s, %s %.100s", node,
			sources[i].field, x.data, sources[i].words, y.data);
		buf_release(&x);
		buf_release(&y);
		return;
	}
}

static int by_node(const void *a, const void *b)
{
	return strcmp(((const struct claim *)a)->node, ((const struct claim *)b)->node);
}

/* Compares the claimed usages with the records, both in the order of addresses. */
static int compare_usages(struct audited *e)
{
	size_t i = 0, k = 0;

	if (!e->nclaims)
		return 0;
	qsort(e->claims, e->nclaims, sizeof *e->claims, by_node);
	while (i < e->collect.n || k < e->nclaims) {
		json_t *found = i < e->collect.n ? usage_of(e, i) : NULL;
		const char *node = json_string_value(json_object_get(found, "node"));
		const struct claim *c = &e->claims[k];
		int order = k == e->nclaims ? -1 : !found ? 1 : strcmp(node, c->node);

		if (order == 0) {
			json_t *claimed = json_parse_object(c->text, strlen(c->text), "");

			compare_usage(e, node, claimed, found);
			json_decref(claimed);
		} else if (order < 0) {
			find(e, node, FROM_ANY,
				"node %s: records name it, and no usage is claimed",
				node);
		} else {
			find(e, c->node, FROM_ANY,
				"node %s: a usage is claimed, and no record names it",
				c->node);
		}
		i += order <= 0;
		k += order >= 0;
		json_decref(found);
	}
	return 0;
}

/* --- claims on the ledger ------------------------------------------------------------------- */

/* Writes the address of the first node that is paid at a wallet. Returns false if there is
 * none. */
static bool node_of(const struct epoch *e, const unsigned char wallet[ADDRESS_BYTES],
	char node[ADDRESS_MAX])
{
	for (size_t i = 0; i < e->n; i++) {
		if (memcmp(usage_rows_claimant(e->usages, i), wallet, ADDRESS_BYTES) != 0)
			continue;
		address_format(usage_rows_node(e->usages, i), node);
		return true;
	}
	return false;
}

static void compare_leaf(struct audited *e, const struct epoch *computed,
	const struct merkle_leaf *claim, const struct merkle_leaf *leaf)
{
	const unsigned char *claimant = claim ? claim->claimant : leaf->claimant;
	char wallet[ADDRESS_MAX], node[ADDRESS_MAX];
	bool known;

	if (claim && leaf && claim->unlocked == leaf->unlocked &&
		claim->locked == leaf->locked)
		return;
	/* node_of searches all nodes: it is not called for more findings than are named */
	if (e->n == FINDINGS_MAX) {
		e->more++;
		return;
	}
	address_format(claimant, wallet);
	known = node_of(computed, claimant, node);
	find(e, known ? node : wallet, FROM_ANY,
		"%s %s: wallet %s claims %" PRIu64 " and %" PRIu64
		" locked, the records give %" PRIu64 " and %" PRIu64,
		known ? "node" : "no node", known ? node : "of the records", wallet,
		claim ? claim->unlocked : 0, claim ? claim->locked : 0,
		leaf ? leaf->unlocked : 0, leaf ? leaf->locked : 0);
}

/* Compares the ledger's claims with the leaves that follow from the records. */
static int compare_claims(struct ledger *l, struct audited *e,
	const struct epoch *computed)
{
	struct merkle_leaf *claims = NULL, *leaves = NULL;
	long n = ledger_claims(l, e->sequence, &claims);
	long m = n < 0 ? 0 : (long)epoch_leaves(computed, &leaves);
	long i = 0, k = 0;

	while (n > 0 && (i < n || k < m)) {
		int order = i == n ? 1 :
			k == m     ? -1 :
				     memcmp(claims[i].claimant, leaves[k].claimant,
					     sizeof claims->claimant);

		compare_leaf(e, computed, order <= 0 ? &claims[i] : NULL,
			order >= 0 ? &leaves[k] : NULL);
		i += order <= 0;
		k += order >= 0;
	}
	free(claims);
	free(leaves);
	return n < 0 ? -1 : 0;
}

/* --- an epoch ------------------------------------------------------------------------------- */

/* Converts the collected records into usages. Returns 0, or -1. */
static int read_usages(struct audited *e, struct usage_rows *rows, struct rules *rules)
{
	for (size_t i = 0; i < e->collect.n; i++) {
		json_t *record = usage_of(e, i);
		int rc = usage_rows_add_json(rows, rules, record, "usage");

		json_decref(record);
		if (rc < 0)
			return -1;
	}
	return 0;
}

/* Whether the row is the epoch whose rewards were read. */
static bool is_published(const struct audit *a, const struct audited *e)
{
	return a->published &&
		json_equal(json_object_get(a->published, "from"),
			json_object_get(e->row, "from")) &&
		json_equal(json_object_get(a->published, "to"),
			json_object_get(e->row, "to")) &&
		json_equal(json_object_get(a->published, "policy"),
			json_object_get(e->row, "policy"));
}

/* Checks when the ledger has last seen each node that had a stake before this epoch. A node that
 * was up must have been seen at the epoch's end or later, and one that was not up must not have
 * been seen at just that time. No row has these times, and they decide when stakes are released. */
static void compare_seen(struct audited *e, const struct epoch *computed)
{
	char node[ADDRESS_MAX];
	struct usage u;

	for (size_t i = 0; computed->rules->stake_uusd >= 0 && i < computed->n; i++) {
		const struct ledger_stake *s;
		bool up;

		usage_rows_get(computed->usages, i, &u);
		s = ledger_stake_find(e->stakes, e->nstakes, u.node);
		if (!s)
			continue;
		up = u.value[FIELD_UP_S] || epoch_locked(computed, i);
		if (up ? s->seen_ms >= e->to_ms :
			 s->seen_ms != e->to_ms || !e->ends_alone)
			continue;
		address_format(u.node, node);
		find(e, node, FROM_ANY,
			up ? "node %s: was up, and its stake says that it was last seen before" :
			     "node %s: was not up, and its stake says that it was last seen then",
			node);
	}
}

static int compare_all(struct audit *a, struct audited *e, const struct epoch *computed)
{
	struct buf reason = BUF_INIT;
	int rc = compare_claims(a->ledger, e, computed);

	if (rc == 0)
		compare_seen(e, computed);
	if (rc == 0 && is_published(a, e))
		rc = a->rewards.fn(a->rewards.ctx, computed, &reason);
	if (rc == 0 && !reason.len && !e->n)
		recompute_compare_row(e->row, computed, &reason);
	if (reason.len)
		find(e, "", 0, "%s", reason.data);
	buf_release(&reason);
	return rc;
}

/* Recomputes an epoch and compares it. If the records break a rule, so that it cannot be
 * computed, that is a finding, too. Returns 0, or -1. */
static int recompute_epoch(struct audit *a, struct audited *e)
{
	const char *policy = json_string_value(json_object_get(e->row, "policy"));
	struct usage_rows usages = USAGE_ROWS_INIT;
	char node[ADDRESS_MAX] = "";
	struct rules rules;
	struct epoch computed;
	size_t bad;
	int rc = -1;

	if (rules_load(&rules, a->policy ? a->policy : policy) < 0)
		return -1;
	epoch_init(&computed, &rules, &usages);
	if (recompute_read_decisions(&computed, e->row) == 0 &&
		read_usages(e, &usages, &rules) == 0) {
		rc = epoch_compute(&computed, &bad);
		if (rc == 0) {
			rc = compare_all(a, e, &computed);
		} else if (err_get()->code == EX_DATAERR) {
			if (bad < usages.n)
				address_format(usage_rows_node(&usages, bad), node);
			find(e, node, FROM_ANY, "%s", err_get()->text);
			err_clear();
			rc = 0;
		}
	}
	epoch_release(&computed);
	usage_rows_release(&usages);
	rules_release(&rules);
	return rc;
}

static int report(struct audit *a, struct audited *e)
{
	char what[64], text[1024];
	int rc = 0;

	snprintf(what, sizeof what, "epoch %" PRId64, e->sequence);
	if (!e->n)
		return a->report(a->ctx, what, NULL);
	for (size_t i = 0; i < e->n && rc == 0; i++) {
		const struct finding *f = &e->findings[i];

		if (f->where[0])
			snprintf(text, sizeof text, "%.700s (%s)", f->text, f->where);
		else
			snprintf(text, sizeof text, "%.900s", f->text);
		rc = a->report(a->ctx, what, text);
	}
	if (e->more && rc == 0) {
		snprintf(text, sizeof text, "and %zu more", e->more);
		rc = a->report(a->ctx, what, text);
	}
	return rc;
}

int audit_epochs(struct audit *a)
{
	struct policy scores = POLICY_INIT;
	struct audited_list l = { .scores = a->scores ? &scores : NULL };
	int rc = a->scores ? policy_load(&scores, a->scores) : 0;

	if (rc == 0)
		rc = ledger_each(a->ledger, NULL, 0, add_epoch, &l);
	if (rc == 0)
		rc = evidence_read(&a->evidence, (char **)a->files.items, a->files.n,
			add_record, add_item, NULL, &l);
	for (size_t i = 0; i < l.n && rc == 0; i++) {
		struct audited *e = &l.list[i];

		collect_finish(&e->collect);
		e->ends_alone = true;
		for (size_t k = 0; k < l.n; k++)
			e->ends_alone = e->ends_alone &&
				(k == i || l.list[k].to_ms != e->to_ms);
		e->nstakes = ledger_stakes(a->ledger, e->sequence, &e->stakes);
		rc = e->nstakes < 0 ? -1 : compare_usages(e);
		if (rc == 0)
			rc = recompute_epoch(a, &l.list[i]);
	}
	if (rc == 0)
		rc = name_lines(a, &l);
	for (size_t i = 0; i < l.n && rc == 0; i++)
		rc = report(a, &l.list[i]);
	release_epochs(&l);
	policy_release(&scores);
	return rc;
}
