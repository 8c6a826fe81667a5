/* metrics.c - what the server counts, for Prometheus. Names of models, never texts or keys. */
#include <inttypes.h>
#include <stdlib.h>

#include "cmd/rnp-serve/server.h"
#include "common/base/mem.h"

static void add(struct buf *out, const char *name, const char *type, const char *help)
{
	buf_addf(out, "# HELP rnp_serve_%s %s\n# TYPE rnp_serve_%s %s\n", name, help,
		name, type);
}

/* One value for each model. */
struct gauge {
	const char *name, *type, *help;
	double (*value)(const struct lm_service_counts *c);
};

#define VALUE(name, expression)                               \
	static double name(const struct lm_service_counts *c) \
	{                                                     \
		return (double)(expression);                  \
	}

VALUE(running, c->engine.running)
VALUE(waiting, c->engine.waiting)
VALUE(pages, c->engine.pages)
VALUE(pages_used, c->engine.pages_used)
VALUE(pages_kept, c->engine.pages_kept)
VALUE(steps, c->engine.steps)
VALUE(step_seconds, (double)c->step_ns * 1e-9)
VALUE(rows, c->engine.rows)
VALUE(generated, c->engine.generated)
VALUE(prompt, c->engine.prompt)
VALUE(cached, c->engine.cached)
VALUE(preempted, c->engine.preempted)
VALUE(proposed, c->engine.proposed)
VALUE(accepted, c->engine.accepted)

static const struct gauge gauges[] = {
	{ "running", "gauge", "Answers that are computed now.", running },
	{ "waiting", "gauge", "Answers that wait for a stream or for pages.", waiting },
	{ "cache_pages", "gauge", "Pages of the cache.", pages },
	{ "cache_pages_used", "gauge", "Pages that are not free.", pages_used },
	{ "cache_pages_kept", "gauge", "Pages kept only for who may ask again.",
		pages_kept },
	{ "steps_total", "counter", "Steps of the engine.", steps },
	{ "step_seconds_total", "counter", "Time of all steps.", step_seconds },
	{ "rows_total", "counter", "Rows of all steps.", rows },
	{ "generated_tokens_total", "counter", "Tokens of answers.", generated },
	{ "prompt_tokens_total", "counter", "Tokens of prompts that were computed.",
		prompt },
	{ "cached_tokens_total", "counter", "Tokens of prompts that were in the cache.",
		cached },
	{ "preempted_total", "counter", "Answers that gave their pages back.",
		preempted },
	{ "proposed_tokens_total", "counter", "Tokens that speculation proposed.",
		proposed },
	{ "accepted_tokens_total", "counter", "Tokens of these that were kept.",
		accepted },
};

void server_metrics(void *ctx, struct buf *out)
{
	struct server *s = ctx;
	struct lm_service_counts *counts = xcalloc(s->model_count, sizeof *counts);
	struct writer_counts w;

	for (uint32_t i = 0; i < s->model_count; i++)
		lm_service_count(s->models[i].service, &counts[i]);
	for (size_t g = 0; g < sizeof gauges / sizeof *gauges; g++) {
		add(out, gauges[g].name, gauges[g].type, gauges[g].help);
		for (uint32_t i = 0; i < s->model_count; i++)
			buf_addf(out, "rnp_serve_%s{model=\"%s\"} %.15g\n",
				gauges[g].name, s->models[i].name,
				gauges[g].value(&counts[i]));
	}
	free(counts);
	writer_count(s->writer, &w);
	add(out, "requests_total", "counter", "Requests that were taken.");
	buf_addf(out, "rnp_serve_requests_total %" PRIu64 "\n", w.requests);
	add(out, "cancelled_total", "counter", "Requests whose client left.");
	buf_addf(out, "rnp_serve_cancelled_total %" PRIu64 "\n", w.cancelled);
	add(out, "first_token_seconds", "summary", "From request to first token.");
	buf_addf(out,
		"rnp_serve_first_token_seconds_sum %.9g\nrnp_serve_first_token_seconds_count %" PRIu64
		"\n",
		w.first_s, w.first_n);
	add(out, "token_seconds", "summary", "From token to token of a request.");
	buf_addf(out,
		"rnp_serve_token_seconds_sum %.9g\nrnp_serve_token_seconds_count %" PRIu64
		"\n",
		w.token_s, w.token_n);
}
