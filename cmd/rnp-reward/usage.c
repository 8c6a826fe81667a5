/* usage.c - rnp-reward usage: reads the signed records of an epoch and writes one rnp.usage per
 * node. */
#include <stdio.h>
#include <string.h>

#include "cmd/rnp-reward/commands.h"
#include "cmd/rnp-reward/gather.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/net/http.h"
#include "common/json/json.h"
#include "common/base/lines.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/record/signature.h"
#include "common/json/schema.h"

#define PAGE_BYTES_MAX ((size_t)300 << 20)
#define CURSOR_MAX     128
#define UPTIME_LATE_MS \
	INT64_C(1209600000) /* a day is signed within two weeks of its end */
#define MARGIN_MS \
	INT64_C(7200000) /* twice the longest interval that a heartbeat may announce */

static struct {
	int64_t from_ms, to_ms;
	const char *registry, *policy, *ca;
	struct opt_list trust;
	bool heartbeats;
} opts = { -1, -1, NULL, NULL, NULL, { NULL, 0 }, false };

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
		.to = &opts.trust,
		.metavar = "ADDRESS",
		.help = "verdicts, receipts and uptimes signed by this key count; may be given "
			"again" },
	{ .name = "heartbeats",
		.kind = OPT_FLAG,
		.to = &opts.heartbeats,
		.help = "where a node has no rnp.uptime, take its own heartbeats, which prove "
			"nothing" },
	{ .name = "policy",
		.kind = OPT_TEXT,
		.to = &opts.policy,
		.metavar = "P",
		.help = "score verdicts against this policy's reference, not by their own score" },
	{ .name = "ca",
		.kind = OPT_TEXT,
		.to = &opts.ca,
		.metavar = "F",
		.help = "trust these certificates (PEM), not the system's" },
	{ .kind = OPT_END },
};

/* --- what counts --------------------------------------------------------------------------- */

static bool trusted(const char *address)
{
	for (int i = 0; i < opts.trust.n; i++)
		if (strcmp(opts.trust.items[i], address) == 0)
			return true;
	return false;
}

/* Returns why a record does not count, or NULL. Nodes may speak for themselves; only trusted
 * signers may speak about others. */
static const char *why_not(const json_t *record, const struct signature_result *proof)
{
	const char *kind = json_string_value(json_object_get(record, "kind"));

	if (!proof->valid)
		return proof->reason;
	if (strcmp(kind, "rnp.node") == 0 || strcmp(kind, "rnp.heartbeat") == 0)
		return !json_object_get(record, "node") ? "names no node" :
			proof->ok                       ? NULL :
							  proof->reason;
	/* the author that it names, if any, must be among the signers */
	if (json_object_get(record, "signer") && !proof->ok)
		return proof->reason;
	for (int i = 0; i < proof->nsigners; i++)
		if (trusted(proof->signers[i]))
			return NULL;
	return "nobody who is trusted has signed it (--trust)";
}

static bool about_usage(const json_t *record)
{
	static const char *const kinds[] = { "rnp.node", "rnp.heartbeat", "rnp.verdict",
		"rnp.receipt", "rnp.uptime" };
	const char *kind = json_string_value(json_object_get(record, "kind"));

	if (!opts.heartbeats && strcmp(kind, "rnp.heartbeat") == 0)
		return false;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(kinds[i], kind) == 0)
			return true;
	return false;
}

/* Whether a record counts. One that does not is skipped with a warning: a stranger who sends a
 * bad record must not be able to stop everybody's pay. */
static bool counts(const json_t *record, const char *where)
{
	struct signature_result proof;
	const char *reason;

	if (!about_usage(record))
		return false;
	signature_verify(record, &proof);
	reason = why_not(record, &proof);
	if (reason) {
#pragma omp critical(warn)
		prog_warn("%s: left out: %s", where, reason);
	}
	return !reason;
}

/* --- files --------------------------------------------------------------------------------- */

static int check_line(void *ctx, char *line, size_t len, const char *where,
	struct buf *out)
{
	json_t *record = json_parse_object(line, len, where);
	int rc = record ? schema_check(record, where, NULL) : -1;

	(void)ctx;
	if (rc == 0 && counts(record, where)) {
		buf_add(out, line, len);
		/* the file and line are passed on for records that gathering itself refuses */
		buf_addc(out, '\0');
		buf_adds(out, where);
	}
	json_decref(record);
	return rc;
}

static int take_line(void *ctx, const char *data, size_t len)
{
	size_t n = strlen(data);
	json_t *record;
	int rc;

	(void)len;
	record = json_parse_object(data, n, data + n + 1);
	rc = record ? gather_add(ctx, record, data + n + 1) : -1;
	json_decref(record);
	return rc;
}

static int read_files(struct gather *g, char **files, int n)
{
	struct lines l;
	int rc;

	lines_open(&l, files, n, JSON_RECORD_BYTES_MAX);
	rc = lines_map(&l, check_line, take_line, g);
	lines_close(&l);
	return rc;
}

/* --- a registry ---------------------------------------------------------------------------- */

/* A malformed record that a stranger posted and the registry stored must not stop everybody's
 * pay, so it is skipped. */
static int take_page(struct gather *g, const json_t *records)
{
	const json_t *record;
	size_t i;

	json_array_foreach(records, i, record) {
		if (schema_check(record, opts.registry, NULL) == 0 &&
			(!counts(record, opts.registry) ||
				gather_add(g, record, opts.registry) == 0))
			continue;
		if (err_get()->code != EX_DATAERR)
			return -1;
		prog_warn("%s: left out", err_get()->text);
		err_clear();
	}
	return 0;
}

static int fetch_page(struct gather *g, struct http *http, const char *path,
	char cursor[CURSOR_MAX])
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct http_request q = { .ca_file = opts.ca,
		.response_bytes_max = PAGE_BYTES_MAX };
	struct buf url = BUF_INIT;
	json_t *page = NULL, *records;
	const char *next = "";
	int rc = -1;

	if (http_url(&url, opts.registry, path) < 0)
		goto out;
	if (cursor[0]) {
		buf_adds(&url, "&cursor=");
		http_escape(&url, cursor);
	}
	q.url = url.data;
	if (http_fetch(http, &q, &r) < 0)
		goto out;
	page = json_parse_object(buf_text(&r.body), r.body.len, opts.registry);
	if (!page || json_get_array(page, opts.registry, "records", &records) < 0 ||
		json_opt_text(page, opts.registry, "next", &next) < 0)
		goto out;
	if (strlen(next) >= CURSOR_MAX || (next[0] && strcmp(next, cursor) == 0)) {
		err_set(EX_DATAERR, "%s: the cursor of the next page is no good",
			opts.registry);
		goto out;
	}
	strcpy(cursor, next);
	rc = take_page(g, records);
out:
	json_decref(page);
	buf_release(&url);
	http_response_release(&r);
	return rc;
}

static int fetch_kind(struct gather *g, struct http *http, const char *kind,
	int64_t from_ms, int64_t to_ms)
{
	char cursor[CURSOR_MAX] = "", from[CLOCK_TEXT_MAX], to[CLOCK_TEXT_MAX];
	struct buf path = BUF_INIT;
	int rc;

	clock_format(from, from_ms > 0 ? from_ms : 0);
	buf_addf(&path, "/v1/records?limit=1000&kind=%s&from=%s", kind, from);
	if (to_ms >= 0) {
		clock_format(to, to_ms);
		buf_addf(&path, "&to=%s", to);
	}
	do
		rc = fetch_page(g, http, path.data, cursor);
	while (rc == 0 && cursor[0]);
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
		(!opts.heartbeats ||
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

static int write_usages(struct gather *g)
{
	int rc = 0;

	gather_finish(g);
	for (size_t i = 0; i < g->n && rc == 0; i++) {
		json_t *usage = gather_usage(g, i);

		rc = out_record(usage);
		json_decref(usage);
	}
	return rc;
}

static int check_options(void)
{
	unsigned char key[KEY_PUBLIC_BYTES];

	if (opts.from_ms >= opts.to_ms)
		return err_set(EX_USAGE, "--to must be after --from");
	for (int i = 0; i < opts.trust.n; i++)
		if (address_parse(opts.trust.items[i], "--trust", key) < 0)
			return err_set(EX_USAGE, "--trust: '%.60s' is not an address",
				opts.trust.items[i]);
	return 0;
}

static int run(int n, char **args)
{
	struct policy scores = POLICY_INIT;
	struct gather g;
	int rc = -1;

	gather_init(&g, opts.from_ms, opts.to_ms, opts.policy ? &scores : NULL);
	if (check_options() < 0 || (opts.policy && policy_load(&scores, opts.policy) < 0))
		goto out;
	if (opts.registry && read_registry(&g) < 0)
		goto out;
	if ((n || !opts.registry) && read_files(&g, args, n) < 0)
		goto out;
	rc = write_usages(&g);
out:
	gather_release(&g);
	policy_release(&scores);
	opt_list_release(&opts.trust);
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
