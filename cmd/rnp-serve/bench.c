/* bench.c - rnp-serve bench: sends requests to any server with OpenAI's API, as clients would,
 * and reports latency and throughput.
 * long because prompts, clients and results share one state */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/rnp-serve/commands.h"
#include "cmd/rnp-serve/request/url.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/lines.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/base/stats.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/canon.h"
#include "common/json/json.h"
#include "common/http/http.h"
#include "common/record/bench.h"
#include "common/registry/client.h"

#define WINDOWS       12 /* parts of the run, for the confidence interval of its rate */
#define PROMPT_MAX    ((size_t)1 << 20)
#define OPEN_LOOP_MAX 512 /* requests at the same time */

static const char *url, *model, *prompts_path, *key_path, *ca_file;
static int64_t clients = 1, requests = 16, tokens = 64, words = 32, shared;
static double rate;
static uint64_t seed = 1;
static bool chat;

static const struct opt opts[] = {
	OPT(TEXT, "url", &url, "U", "the server, without /v1", .required = true,
		.url = true),
	OPT(TEXT, "model", &model, "NAME",
		"which of its models (default the first of /v1/models)"),
	OPT_IN(I64, "clients", &clients, "N", 1, OPEN_LOOP_MAX,
		"closed loop: each asks again when it has its answer (default 1)"),
	OPT(F64, "rate", &rate, "R",
		"open loop: this many requests a second, at random times"),
	OPT_IN(I64, "requests", &requests, "N", 1, 1000000, "in all (default 16)"),
	OPT_IN(I64, "tokens", &tokens, "N", 1, 1000000,
		"of each answer, at most (default 64)"),
	OPT(TEXT, "prompts", &prompts_path, "F",
		"one prompt a line: text, or {\"prompt\":TEXT,\"tokens\":N}"),
	OPT_IN(I64, "words", &words, "N", 1, 100000,
		"of a drawn prompt, no two alike (default 32)"),
	OPT_IN(I64, "shared", &shared, "N", 0, 100000,
		"words that all drawn prompts begin with (default 0)"),
	OPT(U64, "seed", &seed, "S", "of drawn prompts and times (default 1)"),
	OPT_SWITCH("chat", &chat, "ask /v1/chat/completions instead of /v1/completions"),
	OPT(TEXT, "api-key-file", &key_path, "F", "whose first line is the key to show"),
	OPT_CA(&ca_file),
	{ 0 },
};

/* One request and its measurements. Times are monotonic ns. */
struct shot {
	char *prompt;
	int64_t tokens_max;
	int64_t due_ns; /* open loop: when to send it, relative to the start */
	int64_t begun_ns, first_ns, last_ns;
	int64_t events, tokens, prompt_tokens, cached;
	bool ok;
	/* [events]: time of each event, for the rate */
	int64_t *at;
	size_t at_cap;
};

struct load {
	struct shot *shots;
	int64_t count, next;
	int64_t started_ns;
	pthread_mutex_t lock;
	struct err error; /* the first error */
	int64_t failed;
	char *endpoint, *authorization, *name;
};

/* --- prompts ------------------------------------------------------------------------------ */

static void add_words(struct buf *out, struct rng *r, int64_t n)
{
	static const char *const some[] = { "time", "person", "year", "way", "day",
		"thing", "man", "world", "life", "hand", "part", "child", "eye", "woman",
		"place", "work", "week", "case", "point", "company", "number", "group",
		"problem", "fact", "be", "have", "do", "say", "get", "make", "go", "know",
		"take", "see", "come", "think", "look", "want", "give", "use", "find",
		"tell", "ask", "seem", "feel", "try", "leave", "call", "good", "new",
		"first", "last", "long", "great", "little", "own", "other", "old",
		"right", "big", "high", "small", "large", "next" };

	for (int64_t i = 0; i < n; i++)
		buf_addf(out, "%s%s", out->len ? " " : "",
			some[rng_below(r, sizeof some / sizeof *some)]);
}

static void draw_prompts(struct load *l)
{
	struct buf common = BUF_INIT, text = BUF_INIT;
	struct rng r;

	rng_seed(&r, seed, 0);
	add_words(&common, &r, shared);
	for (int64_t i = 0; i < l->count; i++) {
		buf_reset(&text);
		buf_add(&text, buf_text(&common), common.len);
		rng_seed(&r, seed, 1 + (uint64_t)i);
		add_words(&text, &r, words);
		l->shots[i].prompt = xstrdup(buf_text(&text));
		l->shots[i].tokens_max = tokens;
	}
	buf_release(&common);
	buf_release(&text);
}

/* Reads a line of prompts: a text, or an object with its own number of tokens. */
static int read_line(struct shot *s, const char *line, size_t len, const char *where)
{
	const char *text;
	json_t *o;
	int rc = 0;

	s->tokens_max = tokens;
	if (*line != '{') {
		s->prompt = xstrndup(line, len);
		return 0;
	}
	o = json_parse_object(line, len, where);
	if (!o || json_get_text(o, where, "prompt", &text) < 0 ||
		json_opt_i64(o, where, "tokens", 1, 1000000, &s->tokens_max) < 0)
		rc = -1;
	else
		s->prompt = xstrdup(text);
	json_decref(o);
	return rc;
}

static int read_prompts(struct load *l)
{
	char *files[] = { (char *)prompts_path }, *line;
	struct lines lines;
	int64_t i = 0, have;
	size_t len;
	int rc = 0;

	lines_open(&lines, files, 1, PROMPT_MAX);
	while (i < l->count && (rc = lines_next(&lines, &line, &len)) > 0)
		if ((rc = read_line(&l->shots[i++], line, len, lines_where(&lines))) < 0)
			break;
	lines_close(&lines);
	if (rc < 0)
		return -1;
	if (i == l->count)
		return 0;
	if (!i)
		return err_set(EX_DATAERR, "'%s' has no prompts", prompts_path);
	for (have = i; i < l->count; i++) { /* repeats the prompts */
		l->shots[i].prompt = xstrdup(l->shots[i % have].prompt);
		l->shots[i].tokens_max = l->shots[i % have].tokens_max;
	}
	return 0;
}

/* Draws when each request is sent: Poisson arrivals. */
static void draw_times(struct load *l)
{
	struct rng r;
	double at = 0;

	rng_seed(&r, seed, UINT64_MAX);
	for (int64_t i = 0; i < l->count; i++) {
		l->shots[i].due_ns = (int64_t)(at * 1e9);
		at += -log(1 - rng_f64(&r)) / rate;
	}
}

/* --- one request -------------------------------------------------------------------------- */

/* The response stream of a request while it is received. */
struct ear {
	struct shot *shot;
	struct buf line;
	char error[200];
};

static int64_t count_of(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

static void hear_usage(struct shot *s, const json_t *usage)
{
	if (!json_is_object(usage))
		return;
	s->tokens = count_of(usage, "completion_tokens");
	s->prompt_tokens = count_of(usage, "prompt_tokens");
	s->cached = count_of(json_object_get(usage, "prompt_tokens_details"),
		"cached_tokens");
}

static void hear_data(struct ear *e, const char *text, size_t len, int64_t now)
{
	struct shot *s = e->shot;
	json_t *o = json_parse(text, len, JSON_DEPTH_MAX, "event");
	const json_t *choice = json_array_get(json_object_get(o, "choices"), 0), *said,
		     *message;

	said = json_object_get(choice, "text");
	if (!said)
		said = json_object_get(json_object_get(choice, "delta"), "content");
	if (!json_string_length(said))
		said = json_object_get(json_object_get(choice, "delta"),
			"reasoning_content");
	if (json_string_length(said)) {
		if (!s->first_ns)
			s->first_ns = now;
		s->last_ns = now;
		s->at = xgrow(s->at, &s->at_cap, (size_t)s->events + 1, sizeof *s->at);
		s->at[s->events++] = now;
	}
	hear_usage(s, json_object_get(o, "usage"));
	message = json_object_get(json_object_get(o, "error"), "message");
	if (message)
		snprintf(e->error, sizeof e->error, "%.190s", json_string_value(message));
	json_decref(o);
	err_clear();
}

/* Returns how many pieces of text an honest server may send at most: few send more than one for
 * each token. */
static int64_t events_max(const struct shot *s)
{
	return 16 + 4 * s->tokens_max;
}

static int hear(void *ctx, const void *data, size_t len)
{
	int64_t now = clock_mono_ns();
	struct ear *e = ctx;
	const char *at = data, *end = at + len, *newline;

	while (at < end && (newline = memchr(at, '\n', (size_t)(end - at)))) {
		buf_add(&e->line, at, (size_t)(newline - at));
		if (e->line.len > 6 && memcmp(e->line.data, "data: {", 7) == 0)
			hear_data(e, e->line.data + 6, e->line.len - 6, now);
		if (e->shot->events > events_max(e->shot))
			return err_set(EX_DATAERR,
				"more text comes than the %lld tokens asked for",
				(long long)e->shot->tokens_max);
		buf_reset(&e->line);
		at = newline + 1;
	}
	buf_add(&e->line, at, (size_t)(end - at));
	return e->line.len > PROMPT_MAX ? err_set(EX_DATAERR, "an endless event") : 0;
}

static void write_request(struct buf *out, const struct load *l, const struct shot *s)
{
	buf_adds(out, "{\"model\":");
	canon_string(out, l->name, strlen(l->name));
	buf_addf(out, ",\"max_tokens\":%lld,\"stream\":true,\"temperature\":0,",
		(long long)s->tokens_max);
	buf_adds(out, "\"stream_options\":{\"include_usage\":true},");
	buf_adds(out,
		chat ? "\"messages\":[{\"role\":\"user\",\"content\":" : "\"prompt\":");
	canon_string(out, s->prompt, strlen(s->prompt));
	buf_adds(out, chat ? "}]}" : "}");
}

static int shoot(struct load *l, struct http *http, struct shot *s)
{
	const char *headers[] = { l->authorization, NULL };
	struct http_response r = HTTP_RESPONSE_INIT;
	struct ear e = { .shot = s };
	const struct http_sink sink = { .write = hear, .ctx = &e };
	struct buf body = BUF_INIT;
	struct http_request q = { .url = l->endpoint,
		.ca_file = ca_file,
		.headers = l->authorization ? headers : NULL,
		.sink = &sink,
		.answer_timeout_ms = 3600000,
		.rate_min = -1,
		.tries = 1 };
	int rc;

	write_request(&body, l, s);
	q.body = body.data;
	q.body_bytes = body.len;
	s->begun_ns = clock_mono_ns();
	rc = http_fetch(http, &q, &r);
	if (rc == 0 && *e.error)
		rc = err_set(EX_TEMPFAIL, "%s", e.error);
	if (rc == 0 && !s->events)
		rc = err_set(EX_DATAERR, "%s: no text came", l->endpoint);
	if (rc == 0 && (s->tokens < 0 || s->tokens > s->tokens_max))
		rc = err_set(EX_DATAERR,
			"%s: it counts %lld tokens where %lld were asked for",
			l->endpoint, (long long)s->tokens, (long long)s->tokens_max);
	if (!s->tokens)
		s->tokens = s->events;
	s->ok = rc == 0;
	http_response_release(&r);
	buf_release(&body);
	buf_release(&e.line);
	return rc;
}

/* --- all of them -------------------------------------------------------------------------- */

static void wait_until(int64_t ns)
{
	struct timespec t = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
		;
}

static void *client(void *arg)
{
	struct http http = HTTP_INIT;
	struct load *l = arg;

	for (;;) {
		struct shot *s;

		pthread_mutex_lock(&l->lock);
		s = l->next < l->count ? &l->shots[l->next++] : NULL;
		pthread_mutex_unlock(&l->lock);
		if (!s)
			break;
		if (rate > 0)
			wait_until(l->started_ns + s->due_ns);
		if (shoot(l, &http, s) < 0) {
			pthread_mutex_lock(&l->lock);
			if (!l->failed++)
				err_save(&l->error);
			pthread_mutex_unlock(&l->lock);
		}
	}
	http_release(&http);
	return NULL;
}

static int run_clients(struct load *l)
{
	int64_t n = rate > 0 ? OPEN_LOOP_MAX : clients, started = 0;
	pthread_t *threads;

	if (n > l->count)
		n = l->count;
	threads = xcalloc((size_t)n, sizeof *threads);
	l->started_ns = clock_mono_ns();
	while (started < n && pthread_create(&threads[started], NULL, client, l) == 0)
		started++;
	for (int64_t i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	free(threads);
	return started ? 0 : err_set(EX_OSERR, "cannot start a thread");
}

/* --- what came of it ---------------------------------------------------------------------- */

static int write_figure(const struct load *l, const char *test, const char *unit,
	const double *samples, size_t n)
{
	json_t *r, *params = json_object();
	struct stats s;
	int rc;

	stats_of(samples, n, &s);
	r = bench_record("serve", test, NULL, unit, &s);
	json_set_text(params, "url", url);
	json_set_text(params, "model", l->name);
	json_set_i64(params, "requests", l->count);
	json_set_i64(params, "failed", l->failed);
	json_set_text(params, "loop", rate > 0 ? "open" : "closed");
	if (rate > 0)
		json_set_i64(params, "rate_millihertz", (int64_t)(rate * 1000));
	else
		json_set_i64(params, "clients", clients);
	json_set_i64(params, "tokens_max", tokens);
	if (strcmp(unit, "ns") == 0) {
		json_set_i64(params, "p90", (int64_t)stats_percentile(samples, n, 90));
		json_set_i64(params, "p99", (int64_t)stats_percentile(samples, n, 99));
	}
	json_set(r, "params", params);
	rc = out_record(r);
	json_decref(r);
	return rc;
}

/* Returns one measurement of a request. */
typedef double (*figure_fn)(const struct shot *s);

static double first_token(const struct shot *s)
{
	return (double)(s->first_ns - s->begun_ns);
}

static double per_token(const struct shot *s)
{
	return s->tokens > 1 ?
		(double)(s->last_ns - s->first_ns) / (double)(s->tokens - 1) :
		NAN;
}

static double whole(const struct shot *s)
{
	return (double)(s->last_ns - s->begun_ns);
}

static int write_each(const struct load *l, const char *test, figure_fn figure)
{
	double *samples = xcalloc((size_t)l->count, sizeof *samples);
	size_t n = 0;
	int rc = 0;

	for (int64_t i = 0; i < l->count; i++) {
		double x = l->shots[i].ok ? figure(&l->shots[i]) : NAN;

		if (isfinite(x))
			samples[n++] = x;
	}
	if (n)
		rc = write_figure(l, test, "ns", samples, n);
	free(samples);
	return rc;
}

/* Writes the tokens per second of all requests together, by windows between the first request
 * and the last token. An event may hold several tokens: each counts as the average number of
 * tokens per event. */
static int write_rate(const struct load *l)
{
	double counts[WINDOWS] = { 0 }, seconds;
	int64_t from = INT64_MAX, to = 0;

	for (int64_t i = 0; i < l->count; i++)
		if (l->shots[i].ok) {
			from = l->shots[i].begun_ns < from ? l->shots[i].begun_ns : from;
			to = l->shots[i].last_ns > to ? l->shots[i].last_ns : to;
		}
	if (to <= from)
		return 0;
	seconds = (double)(to - from) * 1e-9 / WINDOWS;
	for (int64_t i = 0; i < l->count; i++) {
		const struct shot *s = &l->shots[i];

		for (int64_t k = 0; s->ok && k < s->events; k++) {
			int w = (int)((double)(s->at[k] - from) * 1e-9 / seconds);

			counts[w < WINDOWS ? w : WINDOWS - 1] += (double)s->tokens /
				(double)s->events;
		}
	}
	for (int w = 0; w < WINDOWS; w++)
		counts[w] /= seconds;
	return write_figure(l, "tokens_per_second", "1/s", counts, WINDOWS);
}

static int report(const struct load *l)
{
	int64_t prompt = 0, cached = 0, made = 0;

	for (int64_t i = 0; i < l->count; i++) {
		prompt += l->shots[i].prompt_tokens;
		cached += l->shots[i].cached;
		made += l->shots[i].tokens;
	}
	prog_detail("%lld tokens of prompts, %lld of them cached; %lld of answers",
		(long long)prompt, (long long)cached, (long long)made);
	if (write_rate(l) < 0 || write_each(l, "first_token", first_token) < 0 ||
		write_each(l, "token", per_token) < 0)
		return -1;
	return write_each(l, "request", whole);
}

/* --- the server --------------------------------------------------------------------------- */

static int find_model(struct load *l, const char *base)
{
	const char *headers[] = { l->authorization, NULL }, *name;
	struct http_request q = { .headers = l->authorization ? headers : NULL,
		.ca_file = ca_file };
	struct http_response r = HTTP_RESPONSE_INIT;
	struct http http = HTTP_INIT;
	struct buf at = BUF_INIT;
	json_t *o = NULL;
	int rc = -1;

	if (http_url(&at, base, "/v1/models") == 0) {
		q.url = at.data;
		rc = http_fetch(&http, &q, &r);
	}
	if (rc == 0) {
		o = json_parse_object(r.body.data, r.body.len, at.data);
		name = json_string_value(
			json_object_get(json_array_get(json_object_get(o, "data"), 0),
				"id"));
		if (name)
			l->name = xstrdup(name);
		else
			rc = err_set(EX_DATAERR, "%s: no model is there", at.data);
	}
	json_decref(o);
	buf_release(&at);
	http_response_release(&r);
	http_release(&http);
	return rc;
}

static int find_server(struct load *l)
{
	struct buf at = BUF_INIT, key = BUF_INIT, base = BUF_INIT;
	int rc = 0;

	server_url_base(&base, url);
	if (key_path) {
		rc = io_read(&key, key_path, 4096);
		if (rc == 0) {
			key.data[strcspn(buf_text(&key), "\r\n")] = '\0';
			buf_addf(&at, "Authorization: Bearer %s", buf_text(&key));
			l->authorization = buf_take(&at);
		}
	}
	if (rc == 0)
		rc = http_url(&at, buf_text(&base),
			chat ? "/v1/chat/completions" : "/v1/completions");
	if (rc == 0)
		l->endpoint = buf_take(&at);
	if (rc == 0 && model)
		l->name = xstrdup(model);
	else if (rc == 0)
		rc = find_model(l, buf_text(&base));
	buf_release(&at);
	buf_release(&key);
	buf_release(&base);
	return rc;
}

static int bench(struct load *l)
{
	if (!(rate >= 0 && rate <= 1e6))
		return err_set(EX_USAGE, "--rate: from 0 to 1000000");
	l->count = requests;
	l->shots = xcalloc((size_t)l->count, sizeof *l->shots);
	if (find_server(l) < 0 || (prompts_path && read_prompts(l) < 0))
		return -1;
	if (!prompts_path)
		draw_prompts(l);
	if (rate > 0)
		draw_times(l);
	if (run_clients(l) < 0)
		return -1;
	if (l->failed == l->count)
		return err_restore(&l->error);
	if (l->failed)
		prog_warn("%lld of %lld requests failed: %s", (long long)l->failed,
			(long long)l->count, l->error.text);
	return report(l);
}

static int run(int n, char **args)
{
	struct load l = { .lock = PTHREAD_MUTEX_INITIALIZER };
	int rc = bench(&l);

	(void)n, (void)args;
	for (int64_t i = 0; l.shots && i < l.count; i++) {
		free(l.shots[i].prompt);
		free(l.shots[i].at);
	}
	free(l.shots);
	free(l.endpoint);
	free(l.authorization);
	free(l.name);
	if (rc < 0)
		return err_report();
	return l.failed ? EXIT_NO : EX_OK;
}

const struct command command_bench = {
	.name = "bench",
	.summary = "Load a server of OpenAI's API, and say how it did.",
	.details =
		"Writes rnp.bench records: tokens_per_second of all clients together, and of each request the\n"
		"time to its first token, from token to token, and to its last. Answers are greedy and streamed.\n"
		"Exit status 1 where some of the requests failed.",
	.columns =
		"test,median|low|high=median (95 %),params.p99=p99,samples=n,params.model=model",
	.opts = opts,
	.run = run,
};
