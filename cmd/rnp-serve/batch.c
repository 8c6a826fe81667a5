/* batch.c - rnp-serve batch: reads requests in OpenAI's batch format, writes the answers in the
 * order of the input. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/rnp-serve/request/error.h"
#include "cmd/rnp-serve/request/batch_line.h"
#include "cmd/rnp-serve/commands.h"
#include "cmd/rnp-serve/answer/completion.h"
#include "cmd/rnp-serve/options.h"
#include "common/base/err.h"
#include "common/base/lock.h"
#include "common/base/io.h"
#include "common/base/lines.h"
#include "common/base/mem.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/canon.h"
#include "common/json/json.h"
#include "common/lm/infer/chat.h"

#define LINE_MAX_BYTES ((size_t)16 << 20)
#define AHEAD          4 /* lines that are read ahead, for each stream */

static const char *model, *tokenizer, *device, *chat_template, *resume, *cache_type,
	*type, *pack = "auto";
static struct opt_list adapters;
static int64_t threads, context, cache_bytes, streams = OPT_STREAMS_DEFAULT,
					      speculate = LM_PROPOSED_MAX;

static const struct opt opts[] = {
	OPT_MODEL(&model),
	OPT_TOKENIZER(&tokenizer),
	OPT_DEVICE(&device),
	OPT_THREADS(&threads),
	OPT_TYPE(&type),
	OPT(TEXT, "chat-template", &chat_template, "F|NAME",
		"a Jinja file, or a format's name, instead of the model's own",
		.words = LM_CHAT_NAMES),
	OPT(LIST, "lora", &adapters, "NAME=DIR",
		"a LoRA adapter, for lines whose \"model\" is NAME; several"),
	OPT(TEXT, "resume", &resume, "OUT",
		"write answers there, and go on after those that it has"),
	OPT_ENGINE(&context, &cache_bytes, &cache_type, &streams, &speculate, &pack),
	{ 0 },
};

/* One line of the input, from reading it to writing its answer. */
struct item {
	struct item *next;
	struct batch *batch;
	char *custom_id; /* NULL: the line has none */
	struct httpd_reply reply;
	struct completion *x; /* NULL: the request was refused */
	bool done;
};

struct batch {
	struct model_slot model;
	struct lm_events *outbox;
	struct writer *writer;
	pthread_mutex_t lock; /* protects done */
	pthread_cond_t ready;
	struct item *first, **end;               /* in the order of the input */
	int64_t pending, lines, failed, answers; /* answers: of this run */
	char refusal[300];                       /* what the first that failed was told */
	int fd; /* the file of --resume; -1: standard output */
	/* what was answered in an earlier run, as long as there are lines to skip: how many, and
	 * the next one's */
	int64_t skip;
	struct buf answered;
	const char *answer;
};

/* --- what was answered before ------------------------------------------------------------- */

/* Opens the file of --resume and counts its whole lines; a partial last line, left by a process
 * that was killed, is truncated. */
static int open_resume(struct batch *b)
{
	struct buf *text = &b->answered;
	const char *last;
	struct stat st;

	b->fd = open(resume, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (b->fd < 0)
		return err_sys(0, "cannot write '%s'", resume);
	if (fstat(b->fd, &st) == 0 && !S_ISREG(st.st_mode))
		return err_set(EX_NOINPUT, "cannot write '%s': not a regular file",
			resume);
	if (lock_take_if_kept(b->fd, resume, "another process writes it") < 0)
		return -1;
	if (io_read(text, resume, SIZE_MAX / 4) < 0 ||
		batch_line_count(&b->skip, buf_text(text), text->len, resume) < 0)
		return -1;
	last = text->len ? memrchr(text->data, '\n', text->len) : NULL;
	text->len = last ? (size_t)(last - text->data) + 1 : 0;
	b->answer = buf_text(text);
	if (ftruncate(b->fd, (off_t)text->len) < 0 || lseek(b->fd, 0, SEEK_END) < 0)
		return err_sys(EX_IOERR, "cannot write '%s'", resume);
	return 0;
}

/* Passes over a line that was answered. Its answer has its name: the answers to other questions are
 * not added to. */
static int skip_line(struct batch *b, struct lines *lines, const char *text)
{
	char *id = batch_line_custom_id(text);
	bool is_its = batch_line_answers(b->answer, b->lines + 1, id);

	free(id);
	b->lines++;
	if (!is_its)
		return err_set(EX_DATAERR, "%s: '%s' has an answer to another custom_id",
			lines_where(lines), resume);
	b->answer = strchr(b->answer, '\n') + 1;
	if (!--b->skip)
		buf_release(&b->answered);
	return 0;
}

/* --- one line ----------------------------------------------------------------------------- */

static void finished(struct completion *x)
{
	struct item *item = x->user;
	struct batch *b = item->batch;

	pthread_mutex_lock(&b->lock);
	item->done = true;
	pthread_cond_signal(&b->ready);
	pthread_mutex_unlock(&b->lock);
}

/* Returns the kind of request that a line's "url" names. */
static int kind_of(const json_t *line, enum request_kind *kind,
	const struct reply_format **format, struct api_error *e)
{
	static const struct {
		const char *url;
		enum request_kind kind;
		const struct reply_format *format;
	} urls[] = { { "/v1/chat/completions", REQUEST_CHAT, &reply_chat },
		{ "/v1/completions", REQUEST_COMPLETION, &reply_completion },
		{ "/v1/responses", REQUEST_RESPONSE, &reply_response },
		{ "/v1/embeddings", REQUEST_EMBEDDING, &reply_embedding } };
	const char *url = json_string_value(json_object_get(line, "url"));

	for (size_t i = 0; url && i < sizeof urls / sizeof *urls; i++)
		if (strcmp(url, urls[i].url) == 0) {
			*kind = urls[i].kind;
			*format = urls[i].format;
			return 0;
		}
	return api_error_set(e, 400, "invalid_url", "url",
		"'url' must be /v1/chat/completions, /v1/completions, /v1/responses or "
		"/v1/embeddings");
}

static int submit(struct batch *b, struct item *item, struct request *q,
	const struct reply_format *format, struct api_error *e)
{
	struct constraint *constraint = NULL;
	struct prompt *prompts;
	uint32_t n = 0, adapter = 0;
	int rc = -1;

	if (b->model.adapter_count && q->model &&
		!model_slot_is(&b->model, q->model, &adapter))
		return api_error_set(e, 404, "model_not_found", "model",
			"model '%.100s' is not here", q->model);
	if (prompt_count(q, &n, e) < 0)
		return -1;
	prompts = xcalloc(n, sizeof *prompts);
	if (prompt_encode_all(prompts, n, &b->model, q, e) == 0 &&
		constraint_open(&constraint, &b->model, q, e) == 0) {
		q->stream = false;
		item->x = completion_new(b->writer, &b->model, q, format, prompts, n,
			constraint);
		completion_adapts(item->x, adapter);
		item->x->user = item;
		item->x->on_finish = finished;
		rc = completion_start(item->x, NULL, &item->reply);
		if (rc < 0)
			api_error_set(e, 500, "engine_error", NULL, "%s",
				err_get()->text);
	}
	for (uint32_t i = 0; i < n; i++)
		prompt_release(&prompts[i]);
	free(prompts);
	return rc;
}

/* Reads a whole line. */
static int begin(struct batch *b, struct item *item, const char *text, size_t len,
	const char *where, struct api_error *e)
{
	const struct reply_format *format = NULL;
	struct request q = { 0 };
	enum request_kind kind = REQUEST_CHAT;
	/* the body is what the server would get as a text: as deep, numbers as they came */
	json_t *line = json_parse_bounded(text, len, REQUEST_DEPTH_MAX + 1,
		REQUEST_ROOM(len), where);
	const char *id = json_string_value(json_object_get(line, "custom_id"));
	int rc = -1;

	if (id)
		item->custom_id = xstrdup(id);
	if (!line)
		api_error_set(e, 400, "invalid_json", NULL, "%s", err_get()->text);
	else if (!json_is_object(line))
		api_error_set(e, 400, "invalid_json", NULL, "%s: not an object", where);
	else if (!id)
		api_error_set(e, 400, "missing_required_parameter", "custom_id",
			"'custom_id' is missing");
	else if (kind_of(line, &kind, &format, e) == 0 &&
		request_take(&q, kind, json_incref(json_object_get(line, "body")), e) ==
			0)
		rc = submit(b, item, &q, format, e);
	json_decref(line);
	request_release(&q);
	return rc;
}

/* Refuses a line of which only the beginning is here. */
static int refuse_cut(struct item *item, const char *text, const char *where,
	struct api_error *e)
{
	item->custom_id = batch_line_custom_id(text);
	return api_error_set(e, 413, "request_too_large", NULL,
		"%s: the line is longer than %zu bytes", where, LINE_MAX_BYTES);
}

static void take_line(struct batch *b, struct lines *lines, const char *text, size_t len)
{
	const char *where = lines_where(lines);
	struct item *item = xcalloc(1, sizeof *item);
	struct api_error e;

	item->batch = b;
	item->reply.status = 200;
	b->lines++;
	b->pending++;
	*b->end = item;
	b->end = &item->next;
	if ((lines->is_cut ? refuse_cut(item, text, where, &e) :
			     begin(b, item, text, len, where, &e)) < 0) {
		api_error_reply(&item->reply, &e);
		pthread_mutex_lock(&b->lock);
		item->done = true;
		pthread_mutex_unlock(&b->lock);
	}
}

/* --- answers ------------------------------------------------------------------------------ */

static void add_answer(struct buf *out, const struct batch *b, const struct item *item)
{
	const struct buf *body = &item->reply.body;
	size_t len = body->len;

	while (len && body->data[len - 1] == '\n')
		len--;
	buf_addf(out, BATCH_LINE_BEGIN "\",\"custom_id\":",
		(long long)(b->lines - b->pending + 1));
	if (item->custom_id)
		canon_string(out, item->custom_id, strlen(item->custom_id));
	else
		buf_adds(out, "null");
	buf_addf(out, ",\"response\":{\"status_code\":%d,\"request_id\":\"%s\",",
		item->reply.status, item->x ? item->x->id : "");
	if (item->x && item->x->request.ignored.len) {
		const struct buf *ignored = &item->x->request.ignored;

		buf_adds(out, "\"ignored\":");
		canon_string(out, ignored->data, ignored->len);
		buf_addc(out, ',');
	}
	buf_adds(out, "\"body\":");
	buf_add(out, body->data, len);
	buf_adds(out, BATCH_LINE_END "\n");
}

static int write_answer(struct batch *b, const struct item *item)
{
	struct buf out = BUF_INIT;
	int rc;

	add_answer(&out, b, item);
	if (b->fd < 0)
		rc = out_text(out.data, out.len) < 0 ? -1 : out_flush();
	else if (io_write_all(b->fd, out.data, out.len) < 0)
		rc = err_sys(EX_IOERR, "cannot write '%s'", resume);
	else
		rc = 0;
	buf_release(&out);
	return rc;
}

static void item_free(struct item *item)
{
	completion_drop(item->x);
	httpd_reply_release(&item->reply);
	free(item->custom_id);
	free(item);
}

/* Counts an answer, and keeps the words of the first refusal. */
static void note(struct batch *b, const struct item *item)
{
	json_error_t unused;
	json_t *body;
	const char *text;

	b->answers++;
	if (item->reply.status == 200 || b->failed++)
		return;
	body = json_loadb(item->reply.body.data, item->reply.body.len, 0, &unused);
	text = json_string_value(
		json_object_get(json_object_get(body, "error"), "message"));
	snprintf(b->refusal, sizeof b->refusal, "line %lld: %d, %s",
		(long long)(b->lines - b->pending + 1), item->reply.status,
		text ? text : "without a reason");
	json_decref(body);
}

/* Writes the finished answers in order; waits for the oldest while more than `limit` are
 * pending. */
static int write_ready(struct batch *b, int64_t limit)
{
	struct item *item;
	bool done;
	int rc = 0;

	while (rc == 0 && (item = b->first)) {
		pthread_mutex_lock(&b->lock);
		while (!item->done && b->pending > limit)
			pthread_cond_wait(&b->ready, &b->lock);
		done = item->done;
		pthread_mutex_unlock(&b->lock);
		if (!done)
			break;
		note(b, item);
		rc = write_answer(b, item);
		b->first = item->next;
		if (!b->first)
			b->end = &b->first;
		b->pending--;
		item_free(item);
	}
	return rc;
}

/* --- all of it ---------------------------------------------------------------------------- */

static int answer_lines(struct batch *b, int n, char **files)
{
	struct lines lines;
	char *line;
	size_t len;
	int rc;

	lines_open(&lines, files, n, LINE_MAX_BYTES);
	lines.cuts = true;
	while ((rc = lines_next(&lines, &line, &len)) > 0) {
		if (b->skip) {
			rc = skip_line(b, &lines, line);
		} else {
			take_line(b, &lines, line, len);
			rc = write_ready(b, streams * AHEAD);
		}
		if (rc < 0)
			break;
	}
	lines_close(&lines);
	if (rc == 0 && b->skip)
		rc = err_set(EX_DATAERR,
			"'%s' has %lld answers more than there are lines", resume,
			(long long)b->skip);
	if (rc == 0)
		rc = write_ready(b, 0);
	if (rc == 0 && b->fd >= 0 && fsync(b->fd) < 0)
		rc = err_sys(EX_IOERR, "cannot write '%s'", resume);
	return rc;
}

static int name_adapters(struct model_slot *m)
{
	for (int i = 0; i < adapters.n; i++) {
		const char *option = adapters.items[i], *equals = strchr(option, '=');
		size_t bytes = equals ? (size_t)(equals - option) : strlen(option);

		if (model_slot_adapt(m, option, bytes, equals ? equals + 1 : "") < 0)
			return -1;
	}
	return model_slot_check_names(m);
}

static int batch(struct batch *b, int n, char **files)
{
	struct model_slot_options o = { .tokenizer = tokenizer,
		.alone = true,
		.device = device,
		.type = type,
		.template = chat_template,
		.context = (uint32_t)context,
		.streams = (uint32_t)streams,
		.queue = UINT32_MAX / 2, /* the queue is bounded by write_ready instead */
		.speculate = (uint32_t)speculate,
		.packs = strcmp(pack, "auto") == 0,
		.cache_bytes = cache_bytes };

	if (cache_type && lm_cache_type_find(&o.cache, cache_type) < 0)
		return -1;
	o.outbox = b->outbox = lm_events_new();
	if (model_slot_name(&b->model, model) < 0 || name_adapters(&b->model) < 0 ||
		model_slot_load(&b->model, &o) < 0)
		return -1;
	b->writer = writer_open(b->outbox);
	if (!b->writer || (resume && open_resume(b) < 0))
		return -1;
	return answer_lines(b, n, files);
}

static int run(int n, char **args)
{
	struct batch b = { .model = { .handles = MODEL_HANDLES_INIT },
		.fd = -1,
		.answered = BUF_INIT,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.ready = PTHREAD_COND_INITIALIZER };
	struct item *item;
	int rc;

	b.end = &b.first;
	team_resize((int)threads);
	rc = batch(&b, n, args);
	writer_hold(b.writer);
	lm_service_close(b.model.service);
	b.model.service = NULL;
	writer_close(b.writer);
	while ((item = b.first)) {
		b.first = item->next;
		item_free(item);
	}
	model_slot_release(&b.model);
	lm_events_free(b.outbox);
	opt_list_release(&adapters);
	buf_release(&b.answered);
	if (b.fd >= 0)
		close(b.fd);
	if (rc == 0 && b.failed && b.failed == b.answers)
		rc = err_set(EX_DATAERR, "none of %lld lines was answered: %s",
			(long long)b.failed, b.refusal);
	if (rc < 0)
		return err_report();
	if (b.failed)
		prog_warn("%lld of %lld lines were refused: %s", (long long)b.failed,
			(long long)b.lines, b.refusal);
	return EX_OK;
}

const struct command command_batch = {
	.name = "batch",
	.arguments = "[file ...]",
	.args_max = -1,
	.summary = "Answer a file of requests, one line each.",
	.details =
		"Reads lines as OpenAI's batch API takes them, {\"custom_id\",\"url\",\"body\"}, and writes a line\n"
		"for each in the same order. With --resume every line is answered once, whenever it was killed.",
	.opts = opts,
	.run = run,
};
