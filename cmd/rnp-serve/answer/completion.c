/* completion.c - turns the engine's events into text, and the text into the bytes that the client
 * receives. One thread, the writer's, does this for all requests and never blocks on one.
 * long because the states of a request, from the first token to the last byte, belong together */
#include "cmd/rnp-serve/answer/completion.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-serve/request/error.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/fnv.h"
#include "common/base/mem.h"
#include "common/cli/prog.h"
#include "common/json/json.h"

#define PIECE ((size_t)32 << 10) /* bytes written at once */
/* bytes of an answer that a client may be behind, in text and logprobs as they are kept */
#define BEHIND_MAX ((size_t)1 << 20)
#define TICK_MS    50
#define COMMENT_NS 5000000000 /* after this long without output, a comment is sent */
/* default max_tokens of /v1/completions, as in OpenAI's API */
#define COMPLETION_TOKENS 16
#define TOLD_LAST         64 /* lists of what was left out that are not told again */

struct writer {
	struct lm_events *outbox;
	pthread_t thread;
	pthread_mutex_t lock; /* protects all fields below */
	struct completion *live;
	uint32_t live_count;
	bool held; /* the engines get nothing more */
	bool stop;
};

/* --- life --------------------------------------------------------------------------------- */

static void tell_prompt(struct choice *c, uint32_t id, const struct lm_logprobs *p)
{
	text_logprobs_add(&c->prompt_told, id, p);
	if (++c->prompt_tokens_told == c->answer.prompt)
		text_logprobs_part(&c->prompt_told, true);
}

/* Begins the logprobs of a choice. Those of an echoed prompt are computed once for all answers to
 * it, if they are not streamed. */
static void init_logprobs(struct completion *x, struct choice *c)
{
	const struct request *q = &x->request;
	const struct lm_token *t = x->model->handles.token;

	text_logprobs_init(&c->told, t, c->detoken.started);
	if (!request_has_prompts(q) || !q->echo || (c->index % q->n && !q->stream))
		return;
	text_logprobs_init(&c->prompt_told, t, false);
	tell_prompt(c, c->answer.tokens[0], NULL);
	c->answer.prompt_logprobs = true;
}

/* Returns how many tokens an answer may have at most: what the context leaves, and where it is kept
 * whole with its logprobs, its part of what all answers of a request may tell. */
static int64_t room_for_answer(const struct completion *x, uint32_t prompt)
{
	const struct request *q = &x->request;
	int64_t left = (int64_t)x->model->context - prompt;
	int64_t told = REQUEST_TOLD_MAX / (1 + q->top_logprobs) / x->count;

	return q->logprobs && !q->stream && told < left ? told : left;
}

static void init_choice(struct completion *x, struct choice *c, const struct prompt *p,
	uint32_t index)
{
	const struct request *q = &x->request;
	uint32_t n = (uint32_t)(p->ids.len / sizeof(uint32_t));
	int64_t max = q->tokens_max, left = room_for_answer(x, n);
	bool chat = !request_has_prompts(q);

	if (max < 0)
		max = chat ? left : COMPLETION_TOKENS;
	c->x = x;
	c->index = index;
	c->answer.user = c;
	c->answer.tokens = xmalloc(p->ids.len);
	memcpy(c->answer.tokens, p->ids.data, p->ids.len);
	c->answer.tokens_capacity = n;
	c->answer.prompt = n;
	c->answer.tokens_max = (uint32_t)(max < left ? max : left);
	c->answer.sampling = q->sampling;
	c->answer.sampling.choice = index % q->n;
	if (q->kind == REQUEST_EMBEDDING) {
		c->embedding =
			xcalloc(model_file_config(x->model->handles.model_file)->dim,
				sizeof *c->embedding);
		c->answer.embedding = c->embedding;
		c->answer.mean = x->model->pools_mean;
		c->answer.tokens_max = 0;
	}
	c->answer.speculate = x->model->speculate;
	c->answer.prediction = (const uint32_t *)(const void *)x->prediction.data;
	c->answer.prediction_count = (uint32_t)(x->prediction.len / sizeof(uint32_t));
	if (x->constraint) {
		c->constrained = constrained_new(x->constraint, p->reasoning);
		c->answer.mask = constrained_mask(c->constrained);
	}
	c->answer.logprobs = q->logprobs;
	c->answer.top_logprobs = q->top_logprobs;
	lm_detoken_init(&c->detoken, x->model->handles.token);
	c->detoken.started = !chat && (p->text.len > 0 || q->suffix);
	if (q->logprobs)
		init_logprobs(x, c);
	filter_init(&c->filter, q->stop, q->stop_count, chat, chat && p->reasoning);
	if (q->tools_read.mode != TOOLS_OFF)
		calls_init(&c->calls, &x->model->calls, &q->tools_read);
	if (q->echo)
		buf_add(&c->content, p->text.data, p->text.len);
}

/* A prediction only speeds up the answer: one in an unknown form is ignored, and so is what is
 * longer than any answer, as the engine searches it for each token. */
static void read_prediction(struct completion *x)
{
	size_t most = x->model->context * sizeof(uint32_t);
	struct buf text = BUF_INIT;
	struct api_error e;

	if (x->request.prediction &&
		request_content(&text, x->request.prediction, "prediction", &e) == 0)
		lm_token_encode_most(x->model->handles.token, &x->prediction,
			buf_text(&text), text.len, false, NULL, x->model->context);
	if (x->prediction.len > most)
		x->prediction.len = most;
	err_clear();
	buf_release(&text);
}

/* Says what is left out of the schemas of tools, which answers may then break: in the header, and
 * once in the log. */
static void tell_left_out(const struct model_slot *m, struct request *q,
	const char *places)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static uint64_t told[TOLD_LAST];
	static unsigned next;
	struct request one = { 0 };
	uint64_t hash;
	bool is_new = true;

	if (!*places)
		return;
	request_ignore(q, places);
	request_ignore(&one, places);
	hash = fnv1a_text(FNV1A, buf_text(&one.ignored));
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < TOLD_LAST; i++)
		is_new &= told[i] != hash;
	if (is_new)
		told[next++ % TOLD_LAST] = hash;
	pthread_mutex_unlock(&lock);
	if (is_new)
		prog_warn(
			"model '%s': answers may break what is left out of tools' schemas: %s",
			m->name, buf_text(&one.ignored));
	request_release(&one);
}

struct completion *completion_new(struct writer *w, struct model_slot *m,
	struct request *q, const struct reply_format *format, struct prompt *prompts,
	uint32_t count, struct constraint *constraint)
{
	struct completion *x = xcalloc(1, sizeof *x);
	unsigned char random[12];

	atomic_init(&x->holders, 1);
	x->writer = w;
	x->model = m;
	x->format = format;
	x->constraint = constraint;
	x->request = *q;
	*q = (struct request){ 0 };
	q = &x->request;
	tell_left_out(m, q, constraint_left_out(constraint));
	if (!q->seeded)
		q->sampling.seed = (uint64_t)randombytes_random();
	read_prediction(x);
	request_forget(q);
	if (!request_has_prompts(q) && lm_chat_stop(m->chat))
		q->stop[q->stop_count++] = lm_chat_stop(m->chat);
	x->prompts = count;
	x->count = x->open = x->window = count * q->n;
	/* many prompts leave a stream in four to others; what would never find room at once takes
	 * turns */
	if (count > 1)
		completion_limit(x,
			m->limits.streams > 1 ? m->limits.streams * 3 / 4 : 1);
	else if (x->count > (uint64_t)m->limits.streams + m->queue)
		completion_limit(x, m->limits.streams);
	x->choices = xcalloc(x->count, sizeof *x->choices);
	for (uint32_t i = 0; i < x->count; i++)
		init_choice(x, &x->choices[i], &prompts[i / q->n], i);
	for (uint32_t i = 0; i < count; i++)
		x->prompt_tokens += (uint32_t)(prompts[i].ids.len / sizeof(uint32_t));
	randombytes_buf(random, sizeof random);
	snprintf(x->id, sizeof x->id, "%s", format->id_prefix);
	sodium_bin2hex(x->id + strlen(x->id), 2 * sizeof random + 1, random,
		sizeof random);
	x->created = clock_now_ms() / 1000;
	x->started_ns = clock_mono_ns();
	return x;
}

static void release_choice(struct choice *c)
{
	free(c->answer.tokens);
	free(c->answer.error);
	constrained_free(c->constrained);
	filter_release(&c->filter);
	calls_release(&c->calls);
	buf_release(&c->content);
	buf_release(&c->reasoning);
	buf_release(&c->whole_text);
	buf_release(&c->whole_reasoning);
	free(c->embedding);
	text_logprobs_release(&c->prompt_told);
	text_logprobs_release(&c->told);
}

void completion_drop(struct completion *x)
{
	if (!x || atomic_fetch_sub(&x->holders, 1) > 1)
		return;
	for (uint32_t i = 0; i < x->count; i++)
		release_choice(&x->choices[i]);
	free(x->choices);
	constraint_free(x->constraint);
	request_release(&x->request);
	buf_release(&x->out);
	buf_release(&x->prediction);
	if (x->give_model)
		x->give_model(x->pool, x->model);
	free(x);
}

static void unlist(struct writer *w, struct completion *x)
{
	struct completion **at = &w->live;

	while (*at != x)
		at = &(*at)->next;
	*at = x->next;
	w->live_count--;
}

void completion_belongs(struct completion *x, uint64_t group, uint64_t space)
{
	for (uint32_t i = 0; i < x->count; i++) {
		x->choices[i].answer.group = group;
		x->choices[i].answer.space = space;
	}
}

void completion_limit(struct completion *x, uint32_t choices)
{
	if (choices && x->window > choices)
		x->window = choices;
}

struct key_share completion_share(const struct completion *x)
{
	struct key_share share = { .streams = x->window,
		.prompt_tokens = x->prompt_tokens,
		.exact = x->request.tokens_max >= 0 || request_has_prompts(&x->request) };

	for (uint32_t i = 0; i < x->count; i++)
		share.answer_tokens += x->choices[i].answer.tokens_max;
	return share;
}

/* Each answer gets the same part, and the first ones one more where it does not divide. */
void completion_allow(struct completion *x, const struct key_share *share)
{
	uint64_t each = share->answer_tokens / x->count;
	uint64_t more = share->answer_tokens % x->count;

	x->share = *share;
	for (uint32_t i = 0; i < x->count; i++) {
		struct lm_answer *a = &x->choices[i].answer;
		uint64_t most = each + (i < more);

		if (a->tokens_max > most)
			a->tokens_max = (uint32_t)most;
	}
}

void completion_adapts(struct completion *x, uint32_t adapter)
{
	x->adapter = adapter;
	for (uint32_t i = 0; i < x->count; i++)
		x->choices[i].answer.adapter = adapter;
}

const char *completion_model_name(const struct completion *x)
{
	return x->adapter ? x->model->adapters[x->adapter - 1].name : x->model->name;
}

/* Answers of a model that the engine has. */
struct places {
	uint32_t running, waiting, own; /* own: of those that wait, a client's */
};

/* Counts them. The caller holds the lock. */
static struct places count_places(const struct writer *w, const struct model_slot *m,
	uint64_t group)
{
	struct places p = { 0 };

	for (const struct completion *x = w->live; x; x = x->next)
		for (uint32_t i = 0; x->model == m && i < x->submitted; i++) {
			const struct choice *c = &x->choices[i];
			bool waits = !atomic_load(&c->answer.admitted_ns);

			p.running += !c->engine_done && !waits;
			p.waiting += !c->engine_done && waits;
			p.own += !c->engine_done && waits && c->answer.group == group;
		}
	return p;
}

/* Whether a client may have n more answers in the engine: of the places in the queue that others
 * leave it may take half, rounded up, so that there is always one for somebody else. Returns 0, or
 * -1 with err_set(EX_TEMPFAIL). The caller holds the lock. */
static int take_places(const struct completion *x, uint32_t n)
{
	const struct model_slot *m = x->model;
	struct places p = count_places(x->writer, m, x->choices[0].answer.group);
	uint32_t taken = p.running + p.waiting, others = p.waiting - p.own;
	uint32_t free = m->limits.streams > taken ? m->limits.streams - taken : 0;
	uint32_t left = m->queue > others ? m->queue - others : 0;

	if (n <= free || p.own + n - free <= left / 2 + left % 2)
		return 0;
	return err_set(EX_TEMPFAIL,
		"the part of the queue that one client may have is full: %u of its answers wait",
		p.own);
}

int completion_start(struct completion *x, struct httpd_request *q, struct httpd_reply *r)
{
	struct lm_answer **answers = xcalloc(x->window, sizeof *answers);
	struct writer *w = x->writer;
	int rc;

	x->q = q;
	x->r = r;
	if (q)
		q->state = x;
	if (x->request.ignored.len)
		httpd_add_header(r, "rnp-ignored", "%s", buf_text(&x->request.ignored));
	r->cache_control = "no-store";
	if (x->request.stream) {
		r->content_type = "text/event-stream";
		/* nginx would keep the events back until it has a page of them */
		httpd_add_header(r, "X-Accel-Buffering", "no");
	}
	x->last_write_ns = clock_mono_ns();
	for (uint32_t i = 0; i < x->window; i++)
		answers[i] = &x->choices[i].answer;
	atomic_fetch_add(&x->holders, 1);
	pthread_mutex_lock(&w->lock);
	rc = take_places(x, x->window);
	x->next = w->live;
	w->live = x;
	w->live_count++;
	x->submitted = x->busy = x->window;
	if (rc == 0)
		rc = lm_service_submit(x->model->service, answers, x->window);
	if (rc < 0) {
		unlist(w, x);
		if (q)
			q->state = NULL;
		r->content_type = NULL;
		atomic_fetch_sub(&x->holders, 1);
	} else {
		x->model->requests.taken++;
	}
	pthread_mutex_unlock(&w->lock);
	free(answers);
	return rc;
}

static void cancel_all(struct completion *x)
{
	for (uint32_t i = 0; i < x->count; i++)
		lm_service_cancel(x->model->service, &x->choices[i].answer);
}

void completion_gone(struct completion *x)
{
	if (!x)
		return;
	cancel_all(x);
	atomic_store(&x->disconnected, true);
	lm_events_wake(x->writer->outbox);
}

void completion_half_closed(struct completion *x)
{
	if (!x)
		return;
	atomic_store(&x->half_closed, true);
	lm_events_wake(x->writer->outbox);
}

/* --- events of the engine ----------------------------------------------------------------- */

/* Passes text without NUL on: to the calls once they have begun, which stop texts do not end, else
 * through the filter, whose content may begin them. */
static bool push_piece(struct choice *c, const char *text, size_t len)
{
	struct buf content = BUF_INIT;
	bool stopped;

	if (!c->calls.tools)
		return filter_push(&c->filter, text, len, &c->content, &c->reasoning);
	if (c->calls.state != CALLS_WATCH && c->calls.state != CALLS_PLAIN) {
		calls_push(&c->calls, text, len, &c->content);
		return false;
	}
	stopped = filter_push(&c->filter, text, len, &content, &c->reasoning);
	calls_push(&c->calls, buf_text(&content), content.len, &c->content);
	if (c->calls.state != CALLS_WATCH && c->calls.state != CALLS_PLAIN) {
		buf_reset(&content);
		filter_end(&c->filter, &content, &c->reasoning);
		calls_push(&c->calls, buf_text(&content), content.len, &c->content);
		stopped = false;
	}
	buf_release(&content);
	return stopped;
}

/* A model may generate NUL, which few JSON parsers accept. */
static bool push_text(struct choice *c, const struct buf *text)
{
	bool stopped = false;
	size_t from = 0;

	for (size_t i = 0; i <= text->len && !stopped; i++)
		if (i == text->len || !text->data[i]) {
			stopped = push_piece(c, text->data + from, i - from);
			if (i < text->len && !stopped)
				stopped = push_piece(c, "\xef\xbf\xbd", 3);
			from = i + 1;
		}
	return stopped;
}

/* The text of a choice is complete. */
static void end_text(struct choice *c)
{
	struct buf content = BUF_INIT;

	filter_end(&c->filter, &content, &c->reasoning);
	if (c->calls.tools) {
		calls_push(&c->calls, buf_text(&content), content.len, &c->content);
		calls_end(&c->calls, &c->content);
	} else {
		buf_add(&c->content, buf_text(&content), content.len);
	}
	buf_release(&content);
}

static void end_choice(struct choice *c, const char *finish)
{
	if (c->ended)
		return;
	c->ended = true;
	c->finish = finish;
	c->outcome = finish ? finish : "stop";
	c->x->open--;
}

static void hear_prompt(struct choice *c, const struct lm_batch_event *e)
{
	tell_prompt(c, (uint32_t)e->token, e->logprobs);
}

static void hear_token(struct choice *c, const struct lm_batch_event *e)
{
	struct completion *x = c->x;
	struct buf text = BUF_INIT;
	uint32_t id = (uint32_t)e->token;

	if (c->ended)
		return;
	c->tokens++;
	if (!x->first_ns)
		x->first_ns = c->answer.first_ns;
	if (e->logprobs)
		text_logprobs_add(&c->told, id, e->logprobs);
	if (c->calls.tools && call_format_special(&x->model->calls, id)) {
		/* part of the form of calls, and no text otherwise */
		lm_detoken_end(&c->detoken, &text);
		lm_token_piece(x->model->handles.token, &text, id, false, true);
	} else if (id < lm_token_count(x->model->handles.token)) {
		lm_detoken_push(&c->detoken, &text, id);
	}
	if (text.len && push_text(c, &text)) {
		if (c->calls.tools)
			calls_end(&c->calls, &c->content);
		end_choice(c, "stop");
		lm_service_cancel(x->model->service, &c->answer);
	}
	buf_release(&text);
}

static void fail(struct completion *x, const struct err *why);

/* Gives the engine the next choice in place of one that has ended, whatever waits: the request was
 * taken. */
static void submit_next(struct completion *x)
{
	struct choice *c = &x->choices[x->submitted];

	if (x->submitted == x->count || c->ended || atomic_load(&x->disconnected) ||
		x->writer->held)
		return;
	x->submitted++;
	x->busy++;
	lm_service_follow(x->model->service, &c->answer);
}

static void hear_end(struct choice *c)
{
	struct completion *x = c->x;
	struct buf text = BUF_INIT;

	c->engine_done = true;
	x->busy--;
	if (c->index % x->request.n ==
		0) /* the other choices reuse the first one's prompt */
		x->cached_tokens += c->answer.cached;
	if (c->answer.finish == LM_FINISH_ERROR)
		fail(x, c->answer.error);
	if (!c->ended) {
		lm_detoken_end(&c->detoken, &text);
		if (text.len)
			push_text(c, &text);
		end_text(c);
		end_choice(c,
			c->answer.finish == LM_FINISH_LENGTH ? "length" :
				c->calls.count               ? "tool_calls" :
							       "stop");
	}
	buf_release(&text);
	if (x->format->ended && c->answer.finish == LM_FINISH_STOP) {
		x->format->ended(x, c);
	} else if (x->format->ended && c->answer.finish == LM_FINISH_LENGTH) {
		err_set(EX_TEMPFAIL, "the cache had no room for it");
		fail(x, err_get());
		err_clear();
	}
	submit_next(x);
}

/* --- what the client is sent -------------------------------------------------------------- */

static void finish(struct completion *x)
{
	if (x->finished)
		return;
	x->finished = true;
	for (uint32_t i = 0; i < x->count; i++)
		end_choice(&x->choices[i], "stop");
	if (x->q)
		httpd_finish(x->q);
	else
		x->on_finish(x);
}

static void add_error_event(struct completion *x, const struct api_error *e)
{
	struct buf body = BUF_INIT;

	api_error_body(&body, e);
	buf_adds(&x->out, "event: error\ndata: ");
	if (x->format->error)
		x->format->error(x, e, &body, &x->out);
	else
		buf_add(&x->out, body.data, body.len);
	buf_adds(&x->out, "\n\n");
	buf_release(&body);
}

static void clear_logprobs(struct choice *c)
{
	text_logprobs_clear(&c->prompt_told);
	text_logprobs_clear(&c->told);
}

/* Fails the request: with an HTTP status if nothing was sent yet, else with an event. */
static void fail(struct completion *x, const struct err *why)
{
	struct api_error e;

	if (x->finished)
		return;
	cancel_all(x);
	x->model->requests.failed++;
	api_error_set(&e, 500, "engine_error", NULL, "%s",
		why ? why->text : "the server ends");
	if (x->q && why)
		prog_error("model '%s': %s", completion_model_name(x), why->text);
	if (!x->streaming) {
		x->r->content_type = NULL;
		api_error_reply(x->r, &e);
		finish(x);
		return;
	}
	add_error_event(x, &e);
	for (uint32_t i = 0; i < x->count; i++) {
		struct choice *c = &x->choices[i];

		end_choice(c, NULL);
		c->finish = NULL;
		buf_reset(&c->content);
		buf_reset(&c->reasoning);
		calls_release(&c->calls);
		clear_logprobs(c);
	}
	x->end_written = true;
}

/* Fails a request for which memory ran out just now, and keeps the server for the others. */
static void fail_if_short(struct completion *x)
{
	if (!mem_ran_out())
		return;
	err_set(EX_OSERR, "out of memory");
	fail(x, err_get());
	err_clear();
	(void)mem_ran_out(); /* for the error itself */
}

/* Writes as much as the client accepts now. Returns whether all of it is written, or the client
 * is gone. */
static bool flush(struct completion *x)
{
	size_t done = 0;
	int rc = 0;

	while (done < x->out.len && rc == 0) {
		size_t n = x->out.len - done < PIECE ? x->out.len - done : PIECE;

		rc = httpd_try_write(x->q, x->out.data + done, n);
		if (rc == 0)
			done += n;
		x->streaming = true;
	}
	if (done) {
		x->last_write_ns = clock_mono_ns();
		memmove(x->out.data, x->out.data + done, x->out.len - done);
		x->out.len -= done;
	}
	if (rc < 0) {
		cancel_all(x);
		atomic_store(&x->disconnected, true);
		buf_reset(&x->out);
	}
	return !x->out.len;
}

/* Whether a call has more than the client was told. */
static bool has_call_news(const struct choice *c)
{
	const struct call *last = c->calls.count ? &c->calls.at[c->calls.count - 1] :
						   NULL;

	return last && (!last->told || last->sent < last->arguments.len);
}

static bool has_news(const struct choice *c)
{
	return has_call_news(c) || c->content.len || c->reasoning.len ||
		(c->ended && c->finish) || text_logprobs_any(&c->told) ||
		text_logprobs_any(&c->prompt_told);
}

/* Whether the client reads so slowly that what is kept for it would grow without bound. */
static bool is_too_far_behind(const struct completion *x)
{
	size_t kept = 0;

	for (uint32_t i = 0; i < x->count; i++) {
		const struct choice *c = &x->choices[i];

		kept += c->content.len + c->reasoning.len + c->told.all.len;
	}
	return kept > BEHIND_MAX;
}

static void write_stream(struct completion *x)
{
	for (uint32_t i = 0; i < x->count; i++) {
		struct choice *c = &x->choices[i];

		if (!has_news(c))
			continue;
		x->format->chunk(x, c, &x->out);
		buf_reset(&c->content);
		buf_reset(&c->reasoning);
		clear_logprobs(c);
		if (c->ended)
			c->finish = NULL; /* reported */
	}
	if (!x->open && !x->end_written) {
		x->format->end(x, &x->out);
		x->end_written = true;
	}
}

static void add_time(struct histogram *h, int64_t ns, uint64_t times)
{
	int64_t limit = 1000000;
	int i = 0;

	if (ns < 0)
		return;
	for (; i < HISTOGRAM_BUCKETS - 1 && ns > limit; i++)
		limit *= 2;
	h->counts[i] += times;
	h->n += times;
	h->sum += (double)ns * 1e-9 * (double)times;
}

static void count_times(struct request_times *t, const struct completion *x)
{
	const struct lm_answer *first = &x->choices[0].answer;
	uint32_t tokens = 0;

	for (uint32_t i = 0; i < x->count; i++)
		tokens += x->choices[i].tokens;
	if (first->admitted_ns)
		add_time(&t->queue, first->admitted_ns - x->started_ns, 1);
	if (x->first_ns)
		add_time(&t->first, x->first_ns - x->started_ns, 1);
	if (x->first_ns && tokens > x->count)
		add_time(&t->token,
			(clock_mono_ns() - x->first_ns) / (tokens - x->count) * x->count,
			tokens - x->count);
}

static void count_end(const struct completion *x)
{
	struct model_slot_requests *r = &x->model->requests;

	r->cancelled += atomic_load(&x->disconnected);
	count_times(&r->times, x);
	if (!x->key)
		return;
	pthread_mutex_lock(&x->keys->lock);
	count_times(&x->key->times, x);
	pthread_mutex_unlock(&x->keys->lock);
}

/* The engine has finished all answers: gives the streams back to the key's limits. */
static void settle(struct completion *x)
{
	uint64_t generated = 0;

	for (uint32_t i = 0; i < x->count; i++)
		generated += x->choices[i].answer.generated;
	if (x->key)
		keys_give(x->keys, x->key, &x->share, generated);
}

/* The client left. Where it spoke HTTP/1.0 and closed only its sending half, it reads this. */
static void answer_gone(struct completion *x)
{
	struct api_error e;

	if (!x->streaming && x->q) {
		api_error_set(&e, 499, "client_closed_request", NULL,
			"the connection's sending half was closed before the answer");
		api_error_reply(x->r, &e);
	}
	finish(x);
}

/* Sends what the client accepts. While it has something still to read, what is new is kept as it
 * is, which takes a fraction of the room, and comes in one piece later. */
static void send_stream(struct completion *x)
{
	if (flush(x) && x->touched) {
		write_stream(x);
		x->touched = false;
		flush(x);
	}
	if (!x->out.len && !x->touched && !x->open) {
		finish(x);
	} else if (!x->end_written && is_too_far_behind(x)) {
		err_set(EX_UNAVAILABLE, "the answer is read too slowly");
		fail(x, err_get());
		err_clear();
	}
}

/* Sends the client what is new, and finishes the request if it is complete. The caller holds
 * the writer's lock. */
static void advance(struct writer *w, struct completion *x)
{
	bool ended = x->finished;

	if (atomic_load(&x->disconnected) && !x->finished)
		answer_gone(x);
	if (!x->finished && x->request.stream) {
		send_stream(x);
	} else if (!x->finished && !x->open) {
		x->format->whole(x, &x->r->body);
		finish(x);
	}
	if (!x->request.stream || x->finished)
		x->touched = false;
	if (x->finished && !ended)
		count_end(x);
	if (x->finished && !x->busy) {
		settle(x);
		unlist(w, x);
		completion_drop(x);
	}
}

/* --- the thread --------------------------------------------------------------------------- */

static void hear(struct writer *w, const struct lm_event_batch *news)
{
	for (size_t i = 0; i < news->count; i++) {
		struct choice *c = news->events[i].answer->user;

		c->x->touched = true;
		if (news->events[i].of_prompt)
			hear_prompt(c, &news->events[i]);
		else if (news->events[i].token < 0)
			hear_end(c);
		else
			hear_token(c, &news->events[i]);
		fail_if_short(c->x);
	}
	(void)w;
}

/* Whether a request needs attention: it has news or unsent output, its client left, or nothing
 * was sent for COMMENT_NS, or it may have left. */
static bool is_due(const struct completion *x, int64_t now)
{
	return x->touched || x->out.len || atomic_load(&x->disconnected) ||
		atomic_load(&x->half_closed) ||
		(x->request.stream && now - x->last_write_ns > COMMENT_NS);
}

static bool round_of(struct writer *w, struct lm_event_batch *news)
{
	struct completion *x, *next;
	int64_t now;
	bool idle, stop;

	pthread_mutex_lock(&w->lock);
	idle = !w->live;
	pthread_mutex_unlock(&w->lock);
	lm_events_take(w->outbox, news, idle ? 1000 : TICK_MS);
	pthread_mutex_lock(&w->lock);
	hear(w, news);
	now = clock_mono_ns();
	for (x = w->live; x; x = next) {
		next = x->next;
		if (!is_due(x, now))
			continue;
		if (x->request.stream && !x->finished && !x->out.len &&
			(now - x->last_write_ns > COMMENT_NS ||
				atomic_exchange(&x->half_closed, false)))
			buf_adds(&x->out, ": waiting\n\n");
		advance(w, x);
		(void)mem_ran_out(); /* for what is sent: it is freed soon */
	}
	stop = w->stop;
	pthread_mutex_unlock(&w->lock);
	return !stop;
}

static void *run(void *arg)
{
	struct writer *w = arg;
	struct lm_event_batch news = { 0 };

	while (round_of(w, &news))
		;
	lm_event_batch_release(&news);
	return NULL;
}

struct writer *writer_open(struct lm_events *outbox)
{
	struct writer *w = xcalloc(1, sizeof *w);

	w->outbox = outbox;
	pthread_mutex_init(&w->lock, NULL);
	if (pthread_create(&w->thread, NULL, run, w) != 0) {
		free(w);
		err_set(EX_OSERR, "cannot start a thread");
		return NULL;
	}
	return w;
}

void writer_hold(struct writer *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->held = true;
	pthread_mutex_unlock(&w->lock);
}

void writer_close(struct writer *w)
{
	struct completion *x;

	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_mutex_unlock(&w->lock);
	lm_events_wake(w->outbox);
	pthread_join(w->thread, NULL);
	while ((x = w->live)) {
		w->live = x->next;
		completion_drop(x);
	}
	pthread_mutex_destroy(&w->lock);
	free(w);
}

uint32_t writer_live(struct writer *w)
{
	uint32_t n;

	pthread_mutex_lock(&w->lock);
	n = w->live_count;
	pthread_mutex_unlock(&w->lock);
	return n;
}

void writer_count(struct writer *w, const struct model_slot *m,
	struct model_slot_requests *out)
{
	pthread_mutex_lock(&w->lock);
	*out = m->requests;
	pthread_mutex_unlock(&w->lock);
}
