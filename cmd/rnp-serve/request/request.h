/* request.h - an API request, parsed and checked against its bounds. Uses jansson, sample.h.
 * Pure.
 *
 * Unknown fields are ignored, and their names reported to the client; known fields that this
 * server cannot honour are refused: nothing is dropped silently. null means absent, as OpenAI's
 * clients send it. */
#ifndef RNP_SERVE_REQUEST_REQUEST_H
#define RNP_SERVE_REQUEST_REQUEST_H

#include <jansson.h>
#include <stdbool.h>

#include "cmd/rnp-serve/request/tools.h"
#include "common/base/buf.h"
#include "common/lm/infer/sample.h"

#define REQUEST_STOPS_MAX    16
#define REQUEST_STOP_BYTES   64
#define REQUEST_CHOICES_MAX  8   /* n */
#define REQUEST_PROMPTS_MAX  128 /* of one completions request */
#define REQUEST_BIAS_MAX     1024
#define REQUEST_MESSAGES_MAX 4096
/* of one embeddings request, and their tokens together: OpenAI's limits */
#define REQUEST_INPUTS_MAX       2048
#define REQUEST_INPUT_TOKENS_MAX 300000
/* of one request: tokens of its prompts whose logprobs are told, and the alternatives to them; the
 * same of its answers, unless they are streamed */
#define REQUEST_TOLD_MAX (1 << 20)

enum request_kind {
	REQUEST_CHAT = 1,
	REQUEST_COMPLETION = 2,
	REQUEST_TEMPLATE = 4,
	REQUEST_EMBEDDING = 16,
	/* treated as a chat once it is parsed, except for the format of its answer */
	REQUEST_RESPONSE = 8
};

/* An error in the API's terms; its message is the pending error's (err.h). */
struct api_error {
	int status;
	const char *type, *code; /* static; code NULL: null */
	char param[96];          /* "": null */
};

/* Sets all fields and the message. Returns -1. */
int api_error_set(struct api_error *e, int status, const char *code, const char *param,
	const char *fmt, ...) __attribute__((format(printf, 5, 6)));

struct request {
	enum request_kind kind;
	json_t *body;      /* owned; all strings and values below point into it */
	const char *model; /* NULL: not given */

	json_t *messages; /* chat: an array of objects with "role" and "content" */
	json_t *prompt;   /* completions: unchanged, in one of the four forms */
	/* completions: what follows the gap to fill in; NULL: the prompt is continued */
	const char *suffix;

	struct lm_sampling sampling;
	struct lm_bias *bias; /* owned */
	bool seeded;
	int64_t tokens_max;                      /* -1: as many as fit */
	const char *stop[REQUEST_STOPS_MAX + 1]; /* one may be the model's own */
	uint32_t stop_count;
	uint32_t n;
	bool logprobs, echo, stream, include_usage;
	uint32_t top_logprobs;

	/* chat: passed on unchecked to templates and constraints; response_format NULL: a text */
	json_t *tools, *tool_choice, *response_format, *template_kwargs;
	json_t *format_made; /* owned: a response_format made of another server's field */
	/* a regular expression that all of the answer keeps to; owned; NULL: none */
	char *pattern;
	/* the field that response_format or pattern comes from; static; NULL: neither is set */
	const char *held_to;
	bool begins_turn; /* the prompt ends with the beginning of the answer's turn */
	bool continues;   /* the answer goes on with the text of the last message */
	const char *reasoning_effort;
	bool parallel_tool_calls;
	struct tools tools_read; /* of tools, tool_choice and parallel_tool_calls */
	json_t *prediction;      /* text, or an array of text parts; NULL: none */

	/* responses: messages, tools and response_format are made from these */
	json_t *input, *text, *reasoning;
	const char *instructions;

	/* embeddings, whose input is `prompt` */
	uint32_t dimensions; /* 0: all */
	bool base64;

	struct buf ignored; /* names of unknown fields, "a, b" */
};

/* Whether a request has prompts instead of messages. */
static inline bool request_has_prompts(const struct request *q)
{
	return q->kind == REQUEST_COMPLETION || q->kind == REQUEST_EMBEDDING;
}

#define REQUEST_DEPTH_MAX 96 /* schemas nest */

/* What the values of a body may take of memory: any of a short one, and of a long one little more
 * than its text. */
#define REQUEST_ROOM(bytes) (((size_t)16 << 20) + 2 * (bytes))

/* Parses a body. Returns 0, or -1 with e and the pending error; release q either way. */
int request_parse(struct request *out, enum request_kind kind, const char *text,
	size_t len, struct api_error *e);

/* The same of what was parsed already, by json_parse_spelled; body is taken, and may be NULL. */
int request_take(struct request *out, enum request_kind kind, json_t *body,
	struct api_error *e);

/* Frees what prompts and predictions were made of: values of JSON take up to 24 times the room of
 * their text, and a request may wait for long. */
void request_forget(struct request *q);
void request_release(struct request *q);

/* Adds names to those that the client is told were ignored: "a, b", or "" for none. */
void request_ignore(struct request *q, const char *names);

/* Appends the text of a message's content: a string, or the texts of an array of parts. where names
 * it in errors ("messages[2].content"). */
int request_content(struct buf *out, const json_t *content, const char *where,
	struct api_error *e);

#endif
