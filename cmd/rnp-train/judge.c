/* judge.c - rnp-train judge: does from outside what a coordinator's --judge does, with nothing but
 * the run's signed records and what it lets anybody fetch. */
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-train/commands.h"
#include "cmd/rnp-train/wire/container.h"
#include "cmd/rnp-train/wire/filehash.h"
#include "cmd/rnp-train/worker/worker.h"
#include "cmd/rnp-train/coordinator/judging.h"
#include "cmd/rnp-train/options.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/hw/device.h"
#include "common/json/json.h"
#include "common/record/signature.h"

#define POLL_MS     500
#define END_POLLS   20 /* for the last round's record, after the end of the run */
#define ROUND_BYTES ((size_t)64 << 20)
/* rounds of sequences that may be handed out while a record is read */
#define FRESH_BEHIND 4

static struct worker_options options = { .give_up_ms = 600000 };
static int64_t rounds_max, members_max;

static const struct opt opts[] = {
	OPT_RUN_SHARDS(&options.data),
	OPT_IN(I64, "rounds", &rounds_max, "N", 0, 1000000000,
		"end after this many rounds; 0: when the run ends (default)"),
	OPT_IN(I64, "members", &members_max, "N", 0, 100000,
		"judge this many deltas a round, drawn by lot; 0: all (default)"),
	OPT_STATE(&options.state, "parameters and text"),
	OPT_GIVE_UP(&options.give_up_ms, "coordinator"),
	OPT(SIZE, "limit-down", &options.down_max, "RATE",
		"bytes a second at most that it receives", .min = 1024),
	OPT_CA(&options.ca),
	OPT_PROXY(&options.proxy),
	OPT_KEY(&options.key),
	OPT_DEVICE(&options.device),
	{ 0 },
};

/* --- what the coordinator says ---------------------------------------------------------------- */

struct status {
	uint64_t round; /* that is open */
	char base[PROTOCOL_HEX];
	bool over;
};

static int read_status(struct status *s, const struct buf *body)
{
	json_t *status = json_parse_object(buf_text(body), body->len, "status");
	const char *base = NULL;
	int64_t round = 0;
	int rc = status ? 0 : -1;

	if (rc == 0)
		rc = json_get_i64(status, "status", "round", 1, JSON_SAFE_INTEGER_MAX,
			&round);
	if (rc == 0)
		rc = json_get_text(status, "status", "base", &base);
	if (rc == 0)
		rc = json_opt_bool(status, "status", "over", &s->over);
	if (rc == 0 && !protocol_is_hash(base))
		rc = err_set(EX_DATAERR, "status: base: is no hash");
	if (rc == 0) {
		s->round = (uint64_t)round;
		memcpy(s->base, base, sizeof s->base);
	}
	json_decref(status);
	return rc;
}

static int ask_status(struct worker *w, struct status *s)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct client_request q = { .method = "GET", .path = "/status", .has = "round" };
	int rc = client_send(&w->client, &q, &r);

	*s = (struct status){ 0 };
	if (rc == 0 && r.status != 200)
		rc = client_refused(&r, EX_DATAERR, "asking for the status");
	if (rc == 0)
		rc = read_status(s, &r.body);
	http_response_release(&r);
	return rc;
}

/* Returns 0 and the record of a round, to be json_decref'ed; 1: it is not closed; -1. */
static int ask_round(struct worker *w, uint64_t round, json_t **record)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct client_request q = { .method = "GET", .has = "kind" };
	json_t *got = NULL;
	char path[64];
	int rc;

	snprintf(path, sizeof path, "/v1/round/%llu", (unsigned long long)round);
	q.path = path;
	rc = client_send(&w->client, &q, &r);
	if (rc == 0 && r.status == 404)
		rc = 1;
	else if (rc == 0 && r.status != 200)
		rc = client_refused(&r, EX_DATAERR, "asking for a round");
	if (rc == 0) {
		got = json_parse_object(buf_text(&r.body), r.body.len, "rnp.round");
		rc = got ? protocol_check(got, "rnp.round", "rnp.round", w->run.name) :
			   -1;
	}
	if (rc == 0 &&
		(strcmp(json_string_value(json_object_get(got, "node")), w->run.node) !=
				0 ||
			(uint64_t)json_integer_value(json_object_get(got, "round")) !=
				round))
		rc = err_set(EX_DATAERR,
			"rnp.round: is not the coordinator's, or of another round");
	if (rc == 0)
		*record = json_incref(got);
	json_decref(got);
	http_response_release(&r);
	return rc;
}

/* Waits until a round is closed. Returns 0 and its record; 1: it will not be; -1. */
static int wait_round(struct worker *w, uint64_t round, json_t **record)
{
	struct pollfd p = { .fd = w->client.abort->fd, .events = POLLIN };
	int polls = 0, rc;

	while ((rc = ask_round(w, round, record)) == 1) {
		struct status s;

		if (ask_status(w, &s) < 0)
			return -1;
		if ((s.over && ++polls > END_POLLS) || poll(&p, 1, POLL_MS) > 0)
			break;
	}
	return rc;
}

/* --- judging a round -------------------------------------------------------------------------- */

struct member {
	const json_t *facts; /* of the round's record, borrowed */
	const char *sha256;
	uint64_t first, sequences;
	bool chosen, measured;
	struct judge_losses losses;
	enum judge_verdict verdict;
	const char *trouble; /* why it is not measured */
};

struct judged {
	struct worker *w;
	struct dev cpu;
	struct judging j;
	json_t *record;
	struct member *all;
	size_t n;
};

static uint64_t number_of(const json_t *from, const char *name)
{
	json_int_t v = json_integer_value(json_object_get(from, name));

	return v > 0 ? (uint64_t)v : 0;
}

/* Deltas that were sent, and where the text begins that nobody was given. */
static int list_members(struct judged *d)
{
	const json_t *members = json_object_get(d->record, "members");
	const struct training *t = &d->w->run;
	bool *chosen;

	d->all = xcalloc(json_array_size(members) + 1, sizeof *d->all);
	for (size_t i = 0; i < json_array_size(members); i++) {
		const json_t *m = json_array_get(members, i);
		struct member is = { .facts = m,
			.sha256 = json_string_value(json_object_get(m, "sha256")),
			.first = number_of(m, "first"),
			.sequences = number_of(m, "steps") * t->batch };

		if (is.first > UINT64_C(1) << 52 ||
			number_of(m, "steps") > t->inner_steps)
			return err_set(EX_DATAERR,
				"rnp.round: a turn of text beyond the run's");
		if (is.first + is.sequences > d->j.fresh)
			d->j.fresh = is.first + is.sequences;
		if (is.sha256 && is.sequences)
			d->all[d->n++] = is;
	}
	d->j.fresh += FRESH_BEHIND * json_array_size(members) * t->inner_steps * t->batch;
	chosen = xcalloc(d->n + 1, sizeof *chosen);
	judge_draw(chosen, d->n, members_max ? (size_t)members_max : d->n,
		judging_draw(UINT64_MAX));
	for (size_t i = 0; i < d->n; i++)
		d->all[i].chosen = chosen[i];
	free(chosen);
	return 0;
}

static int check_sha256(const char *path, const char *wanted)
{
	char hex[PROTOCOL_HEX];

	if (filehash_sha256(path, hex) < 0)
		return -1;
	return strcmp(hex, wanted) == 0 ?
		0 :
		err_set(EX_DATAERR, "it has not the SHA-256 that its round names");
}

static char *delta_path(const struct judged *d, const struct member *m)
{
	return join_state_path(&d->w->state, "params-judged-%llu",
		(unsigned long long)(m - d->all));
}

/* What is wrong with a delta is said of it, and ends nothing. */
static int take_trouble(struct member *m)
{
	if (err_get()->code != EX_DATAERR)
		return -1;
	m->trouble = "malformed";
	err_clear();
	return 0;
}

static int fetch(struct judged *d, struct member *m)
{
	struct worker *w = d->w;
	char *path = delta_path(d, m), request[128];
	int rc;

	snprintf(request, sizeof request, "/v1/delta/%s", m->sha256);
	unlink(path);
	rc = client_fetch(&w->client, request, path,
		container_bytes_max(w->run.method, w->run.parameters), NULL);
	if (rc == 1)
		m->trouble = "not_kept";
	else if (rc == 0 && check_sha256(path, m->sha256) < 0)
		rc = take_trouble(m);
	free(path);
	return rc < 0 ? -1 : 0;
}

static int measure(struct judged *d, struct member *m)
{
	char *path = delta_path(d, m);
	int rc = judging_measure(&d->j, path, m->first, m->sequences, &m->losses);

	m->measured = rc == 0;
	free(path);
	return rc < 0 ? take_trouble(m) : 0;
}

/* All deltas are fetched first: they are not kept for long. */
static int measure_all(struct judged *d)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < d->n && !*d->w->stopped; i++)
		if (d->all[i].chosen)
			rc = fetch(d, &d->all[i]);
	for (size_t i = 0; rc == 0 && i < d->n && !*d->w->stopped; i++)
		if (d->all[i].chosen && !d->all[i].trouble)
			rc = measure(d, &d->all[i]);
	for (size_t i = 0; i < d->n; i++) {
		char *path = delta_path(d, &d->all[i]);

		unlink(path);
		free(path);
	}
	return rc;
}

static void decide(struct judged *d)
{
	struct judge_losses *losses = xcalloc(d->n + 1, sizeof *losses);
	enum judge_verdict *verdicts = xcalloc(d->n + 1, sizeof *verdicts);
	size_t n = 0;

	for (size_t i = 0; i < d->n; i++)
		if (d->all[i].measured)
			losses[n++] = d->all[i].losses;
	judge_decide(verdicts, losses, n);
	n = 0;
	for (size_t i = 0; i < d->n; i++)
		if (d->all[i].measured)
			d->all[i].verdict = verdicts[n++];
	free(losses);
	free(verdicts);
}

static json_t *member_judged(const struct member *m, bool *differs)
{
	static const char *const names[] = { [JUDGE_GOOD] = "good",
		[JUDGE_USELESS] = "useless",
		[JUDGE_OTHER_DATA] = "other_data" };
	const char *state = json_string_value(json_object_get(m->facts, "state"));
	json_t *out = json_object();
	const char *verdict = m->measured ? names[m->verdict] : m->trouble;

	json_set_text(out, "member",
		json_string_value(json_object_get(m->facts, "member")));
	json_set_i64(out, "turn", (int64_t)number_of(m->facts, "turn"));
	json_set_text(out, "sha256", m->sha256);
	json_set_text(out, "state", state);
	json_set_text(out, "verdict", verdict);
	if (m->measured)
		judging_write(out, &m->losses);
	*differs = (strcmp(state, "counted") == 0) != (strcmp(verdict, "good") == 0) &&
		strcmp(verdict, "not_kept") != 0;
	return out;
}

static int write_judgement(struct judged *d)
{
	int64_t now_ms = client_now_ms(&d->w->client), judged = 0, different = 0;
	json_t *out = json_record("rnp.judgement"), *members = json_array();
	int rc;

	for (size_t i = 0; i < d->n; i++) {
		bool differs;

		if (!d->all[i].chosen)
			continue;
		json_push(members, member_judged(&d->all[i], &differs));
		judged += d->all[i].measured;
		different += differs;
	}
	json_set_text(out, "node", d->w->key.address);
	json_set_time(out, "at", now_ms);
	json_set_text(out, "run", d->w->run.name);
	json_set_i64(out, "round", (int64_t)number_of(d->record, "round"));
	json_set_text(out, "base", d->w->state.params_hash);
	json_set_i64(out, "judged", judged);
	json_set_i64(out, "differ", different);
	json_set(out, "members", members);
	rc = signature_add(out, &d->w->key, now_ms);
	if (rc == 0)
		rc = out_record(out);
	json_decref(out);
	return rc;
}

static int judge_round(struct judged *d)
{
	char name[64];
	int rc = list_members(d);

	snprintf(name, sizeof name, "pub-%llu.f32",
		(unsigned long long)d->w->state.published);
	if (rc == 0)
		rc = judging_open(&d->j, d->w->state.dir, name,
			number_of(d->record, "round"));
	if (rc == 0)
		rc = measure_all(d);
	judging_close(&d->j);
	if (rc == 0 && !*d->w->stopped) {
		decide(d);
		rc = write_judgement(d);
	}
	free(d->all);
	d->all = NULL;
	d->n = 0;
	return rc;
}

/* The update of the round that was judged has to lead to what its record names. Returns 0; 1: it is
 * not kept any more; -1. */
static int follow(struct judged *d)
{
	const char *model = json_string_value(json_object_get(d->record, "model"));
	int rc = worker_apply_update(d->w);

	if (rc == 0)
		rc = worker_persisted(d->w);
	if (rc == 0 && strcmp(d->w->state.params_hash, model) != 0)
		rc = err_set(EX_DATAERR,
			"the update of round %llu does not lead to the parameters that its record names",
			(unsigned long long)number_of(d->record, "round"));
	return rc;
}

/* A round from its beginning to its judgement. Returns 0; 1: nothing came of it; 2: the run is
 * over; -1. */
static int next_round(struct judged *d)
{
	struct status s;
	const char *base;
	int rc = ask_status(d->w, &s);

	if (rc == 0 && s.over)
		return 2;
	if (rc == 0)
		rc = worker_fetch_params(d->w, s.base, s.round - 1);
	if (rc == 0)
		rc = worker_persisted(d->w);
	if (rc == 0)
		rc = wait_round(d->w, s.round, &d->record);
	if (rc)
		return rc;
	base = json_string_value(json_object_get(d->record, "base"));
	if (strcmp(base, s.base) != 0)
		return 1; /* the status was that of another moment */
	rc = judge_round(d);
	if (rc < 0 || *d->w->stopped)
		return rc;
	/* after the last round the coordinator ends */
	if (d->w->run.rounds && s.round >= training_rounds(&d->w->run))
		return 2;
	return follow(d) < 0 ? -1 : 0;
}

static int judge_all(struct judged *d)
{
	struct pollfd p = { .fd = d->w->client.abort->fd, .events = POLLIN };
	int64_t done = 0;
	int rc = 0;

	while (rc >= 0 && rc != 2 && !*d->w->stopped &&
		(!rounds_max || done < rounds_max)) {
		rc = next_round(d);
		done += rc == 0;
		if (rc == 1)
			poll(&p, 1, POLL_MS);
		json_decref(d->record);
		d->record = NULL;
	}
	if (rc < 0 && *d->w->stopped) {
		err_clear();
		rc = 0;
	}
	return rc < 0 ? -1 : 0;
}

static int run(int n, char **args)
{
	struct worker w = WORKER_INIT;
	struct judged d = { .w = &w, .cpu = DEV_INIT };
	int rc;

	(void)n;
	w.o = options;
	w.o.url = args[0];
	rc = worker_open(&w, "judge");
	if (rc == 0)
		rc = worker_open_data(&w);
	if (rc == 0)
		rc = device_open(&d.cpu, "cpu");
	if (rc == 0)
		rc = judging_loop(&w.loop, &w.d, &w.run);
	d.j = (struct judging){ .run = &w.run,
		.data = &w.text.shards,
		.shuffle = &w.text.shuffle,
		.cpu = &d.cpu,
		.eval = &w.loop };
	if (rc == 0) {
		rc = judge_all(&d);
	} else if (w.stopped && *w.stopped) {
		err_clear();
		rc = 0;
	}
	dev_close(&d.cpu);
	worker_close(&w);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_judge = {
	.name = "judge",
	.arguments = "URL",
	.args_min = 1,
	.args_max = 1,
	.summary = "Judge the deltas of a run from outside, from its signed records.",
	.details =
		"Follows the run at URL and writes one rnp.judgement record a round: what each "
		"delta does to the\nloss on its own text and on nobody's. See coordinate "
		"--keep-deltas.",
	.columns = "round,judged,differ",
	.opts = opts,
	.run = run,
};
