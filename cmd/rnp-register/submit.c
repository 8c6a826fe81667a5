/* submit.c - rnp-register submit: sends signed records to a registry. */
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/commands.h"
#include "common/base/err.h"
#include "common/registry/client.h"
#include "common/json/json.h"
#include "common/cli/out.h"
#include "common/poc/poc.h"
#include "common/cli/prog.h"
#include "common/cli/progress.h"
#include "common/cli/records.h"

/* A registry replies to an rnp.answer after it has verified it, and those that came before. */
#define VERIFIED_MS 150000

static const char *registry, *ca_file;
static int64_t timeout_ms;

static const struct opt opts[] = {
	OPT_REGISTRY(&registry),
	OPT_CA(&ca_file),
	OPT_IN(DURATION, "timeout", &timeout_ms, "D", 1, 3600000,
		"for each try (default 30s, of an rnp.answer 150s)"),
	{ 0 },
};

struct sender {
	struct http http;
	int code; /* of the first reply that refused a record */
};

/* numbers tried between two readings of the clock */
#define TRIES_AT_ONCE (UINT64_C(1) << 18)
/* Work that a registry may demand without confirmation: some minutes of one core. */
#define WORK_BITS_TAKEN 32

/* A registry admits strangers for work. Reports that, and works. Returns the text of the work,
 * which the caller frees, or NULL with err_set. */
static char *work_for(const struct registry_work *w, const char *node)
{
	struct buf text = BUF_INIT;
	struct progress progress;
	uint64_t number = 0, from = 0;

	if (w->bits > WORK_BITS_TAKEN) {
		err_set(EX_TEMPFAIL,
			"%s: joining costs 2^%d hashes at present, which is too much",
			registry, w->bits);
		err_hint("ask its operator for an invitation, or try again later");
		return NULL;
	}
	prog_info("joining %s costs a proof of work: about %.3g hashes", registry,
		(double)(UINT64_C(1) << w->bits));
	progress_start(&progress, "joining", "hashes", (int64_t)1 << w->bits);
	while (!work_solve(w->token, node, w->bits, from, TRIES_AT_ONCE, &number)) {
		from += TRIES_AT_ONCE;
		progress_update(&progress, (int64_t)from);
	}
	progress_end(&progress);
	buf_addf(&text, "%s.%llu", w->token, (unsigned long long)number);
	return buf_take(&text);
}

/* Posts a record, and does the work for a node's first record if the registry demands it. Returns
 * what registry_post does. */
static json_t *post_one(struct sender *s, const struct record *record, const char *kind,
	struct http_response *r)
{
	const char *node = json_string_value(json_object_get(record->json, "node"));
	struct registry_call p = { .base = registry,
		.ca = ca_file,
		.per_try_ms = timeout_ms           ? timeout_ms :
			strcmp(kind, "rnp.answer") ? 0 :
						     VERIFIED_MS };
	struct registry_work w;
	json_t *stored = registry_post(&s->http, &p, record->json, record->text,
		record->len, r);
	char *work;

	/* the requirement may have risen while we worked */
	for (int i = 0; !stored && i < 3 && node && registry_work_read(r, &w); i++) {
		err_clear();
		p.work = work = work_for(&w, node);
		if (!work)
			return NULL;
		http_response_release(r);
		*r = (struct http_response)HTTP_RESPONSE_INIT;
		stored = registry_post(&s->http, &p, record->json, record->text,
			record->len, r);
		free(work);
	}
	return stored;
}

static int submit_one(void *ctx, const struct record *record)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct sender *s = ctx;
	json_t *answer = NULL;
	const char *kind;
	int rc = -1;

	if (json_check_kind(record->json, record->where, NULL) < 0)
		goto out;
	if (!json_object_get(record->json, "proof")) {
		err_set(EX_DATAERR, "%s: the record is not signed", record->where);
		err_hint("pipe it through rnp-register sign");
		goto out;
	}
	kind = json_string_value(json_object_get(record->json, "kind"));
	answer = post_one(s, record, kind, &r);
	if (!answer) {
		/* of a server that is away the record's line says nothing */
		if (err_get()->code != EX_UNAVAILABLE)
			err_add("%s", record->where);
		/* who knows why no answer comes has been told already, by rnp-bench answer */
		if (strcmp(kind, "rnp.unanswered") == 0) {
			prog_detail("%s", err_get()->text);
			err_clear();
			rc = 0;
			goto out;
		}
		/* A late answer is no reason to close the pipe, and the heartbeats at its other
		 * end: there will be more challenges. */
		if (strcmp(kind, "rnp.answer") == 0 || strcmp(kind, "rnp.roots") == 0) {
			int code = err_report();

			s->code = s->code ? s->code : code;
			rc = 0;
		}
		goto out;
	}
	rc = out_record(answer);
out:
	json_decref(answer);
	http_response_release(&r);
	return rc;
}

static int run(int n, char **args)
{
	struct sender s = { .http = HTTP_INIT };
	int rc;

	rc = records_each(args, n, POC_ANSWER_BYTES_MAX, submit_one, &s);

	http_release(&s.http);
	if (rc < 0)
		rc = err_report();
	return s.code ? s.code : rc;
}

const struct command command_submit = {
	.name = "submit",
	.arguments = "[file ...]",
	.args_max = -1,
	.summary = "Send signed records to a registry.",
	.details =
		"Reads signed records of any kind that a registry takes and writes one "
		"rnp.stored record each,\nonce the registry has it on disk. Ends with the first "
		"that is refused;\nan rnp.answer that is refused is reported, and the next record is sent.",
	.columns = "of,node,at,new",
	.group = "node",
	.opts = opts,
	.run = run,
};
