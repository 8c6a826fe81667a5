/* metrics.c - the server's counters in Prometheus format. Labels are names of models and keys,
 * never texts or the keys themselves. */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

#include "cmd/rnp-serve/server/server.h"
#include "common/base/mem.h"

static void add(struct buf *out, const char *name, const char *type, const char *help)
{
	buf_addf(out, "# HELP rnp_serve_%s %s\n# TYPE rnp_serve_%s %s\n", name, help,
		name, type);
}

/* Adds one value for each model. */
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
VALUE(pages_reusable, c->engine.pages_reusable)
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
		pages_reusable },
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

/* label: "model" or "key", of which this is one's. */
static void add_times(struct buf *out, const char *name, const char *label,
	const char *whose, const struct histogram *h)
{
	uint64_t n = 0;

	for (int i = 0; i < HISTOGRAM_BUCKETS - 1; i++) {
		n += h->counts[i];
		buf_addf(out, "rnp_serve_%s_bucket{%s=\"%s\",le=\"%g\"} %" PRIu64 "\n",
			name, label, whose, 0.001 * (double)(1 << i), n);
	}
	buf_addf(out, "rnp_serve_%s_bucket{%s=\"%s\",le=\"+Inf\"} %" PRIu64 "\n", name,
		label, whose, h->n);
	buf_addf(out, "rnp_serve_%s_sum{%s=\"%s\"} %.9g\n", name, label, whose, h->sum);
	buf_addf(out, "rnp_serve_%s_count{%s=\"%s\"} %" PRIu64 "\n", name, label, whose,
		h->n);
}

/* What the writer counted of each model. */
static void add_requests(struct server *s, struct buf *out)
{
	static const struct {
		const char *name, *help;
		size_t offset;
		bool times;
	} columns[] = {
		{ "requests_total", "Requests that were taken.",
			offsetof(struct model_slot_requests, taken), false },
		{ "cancelled_total", "Requests whose client left.",
			offsetof(struct model_slot_requests, cancelled), false },
		{ "failed_total", "Requests that failed while they were computed.",
			offsetof(struct model_slot_requests, failed), false },
		{ "queue_seconds", "From request to admission.",
			offsetof(struct model_slot_requests, times.queue), true },
		{ "first_token_seconds", "From request to first token.",
			offsetof(struct model_slot_requests, times.first), true },
		{ "token_seconds", "From token to token of an answer.",
			offsetof(struct model_slot_requests, times.token), true },
	};

	for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
		add(out, columns[c].name, columns[c].times ? "histogram" : "counter",
			columns[c].help);
		for (uint32_t i = 0; i < s->pool.count; i++) {
			const struct model_slot *m = &s->pool.at[i];
			struct model_slot_requests r;
			const void *at = (const char *)&r + columns[c].offset;

			writer_count(s->writer, m, &r);
			if (columns[c].times)
				add_times(out, columns[c].name, "model", m->name, at);
			else
				buf_addf(out, "rnp_serve_%s{model=\"%s\"} %" PRIu64 "\n",
					columns[c].name, m->name, *(const uint64_t *)at);
		}
	}
}

/* Labels are the names of keys, never the keys. */
static void add_keys(struct server *s, struct buf *out)
{
	static const struct {
		const char *name, *type, *help;
		size_t offset;
		enum { LARGE, SMALL, TIMES } is;
	} columns[] = {
		{ "key_requests_total", "counter", "Requests of a key that were taken.",
			offsetof(struct api_key, requests), LARGE },
		{ "key_refused_total", "counter", "Requests of a key beyond its limits.",
			offsetof(struct api_key, refused), LARGE },
		{ "key_prompt_tokens_total", "counter", "Tokens of a key's prompts.",
			offsetof(struct api_key, prompt_tokens), LARGE },
		{ "key_generated_tokens_total", "counter", "Tokens of a key's answers.",
			offsetof(struct api_key, generated_tokens), LARGE },
		{ "key_streams", "gauge", "Answers of a key in progress.",
			offsetof(struct api_key, streams), SMALL },
		{ "key_queue_seconds", "histogram", "From a key's request to admission.",
			offsetof(struct api_key, times.queue), TIMES },
		{ "key_first_token_seconds", "histogram",
			"From a key's request to its first token.",
			offsetof(struct api_key, times.first), TIMES },
		{ "key_token_seconds", "histogram",
			"From token to token of a key's answers.",
			offsetof(struct api_key, times.token), TIMES },
	};

	pthread_mutex_lock(&s->keys.lock);
	for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
		add(out, columns[c].name, columns[c].type, columns[c].help);
		for (size_t i = 0; i < s->keys.count; i++) {
			const char *key = s->keys.list[i]->name;
			const void *at = (const char *)s->keys.list[i] +
				columns[c].offset;

			if (columns[c].is == TIMES)
				add_times(out, columns[c].name, "key", key, at);
			else
				buf_addf(out, "rnp_serve_%s{key=\"%s\"} %" PRIu64 "\n",
					columns[c].name, key,
					columns[c].is == SMALL ? *(const uint32_t *)at :
								 *(const uint64_t *)at);
		}
	}
	pthread_mutex_unlock(&s->keys.lock);
}

void server_metrics(void *ctx, struct buf *out)
{
	struct server *s = ctx;
	uint32_t n = s->pool.count;
	struct lm_service_counts *counts = xcalloc((size_t)n + 1, sizeof *counts);

	add(out, "loaded", "gauge", "Whether the model is in memory.");
	for (uint32_t i = 0; i < n; i++)
		buf_addf(out, "rnp_serve_loaded{model=\"%s\"} %d\n", s->pool.at[i].name,
			model_pool_count(&s->pool, &s->pool.at[i], &counts[i]));
	add(out, "packing", "gauge", "Whether weights are being packed.");
	for (uint32_t i = 0; i < n; i++)
		buf_addf(out, "rnp_serve_packing{model=\"%s\"} %d\n", s->pool.at[i].name,
			model_pool_packing(&s->pool, &s->pool.at[i]));
	for (size_t g = 0; g < sizeof gauges / sizeof *gauges; g++) {
		add(out, gauges[g].name, gauges[g].type, gauges[g].help);
		for (uint32_t i = 0; i < n; i++)
			buf_addf(out, "rnp_serve_%s{model=\"%s\"} %.15g\n",
				gauges[g].name, s->pool.at[i].name,
				gauges[g].value(&counts[i]));
	}
	free(counts);
	add_requests(s, out);
	if (s->keys.path)
		add_keys(s, out);
}
