/* reply_embedding.c - formats embeddings as OpenAI's API does: normalised to length 1, as
 * numbers or as base64 of little-endian f32. */
#include <math.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-serve/answer/completion.h"
#include "common/base/mem.h"
#include "common/json/canon.h"

/* Appends the first n numbers, scaled to length 1. */
static void normalise(float *x, uint32_t n)
{
	double sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += (double)x[i] * x[i];
	for (uint32_t i = 0; i < n && sum > 0; i++)
		x[i] = (float)(x[i] / sqrt(sum));
}

static void add_base64(struct buf *out, const float *x, uint32_t n)
{
	size_t bytes = n * sizeof *x, cap;
	char *text;

	cap = sodium_base64_ENCODED_LEN(bytes, sodium_base64_VARIANT_ORIGINAL);
	text = xmalloc(cap);
	sodium_bin2base64(text, cap, (const unsigned char *)x, bytes,
		sodium_base64_VARIANT_ORIGINAL);
	buf_addf(out, "\"%s\"", text);
	free(text);
}

static void add_numbers(struct buf *out, const float *x, uint32_t n)
{
	buf_addc(out, '[');
	for (uint32_t i = 0; i < n; i++) {
		if (i)
			buf_addc(out, ',');
		buf_addf(out, "%.9g", isfinite(x[i]) ? (double)x[i] : 0.0);
	}
	buf_addc(out, ']');
}

/* Each is written when it is computed: all of a large request at once would hold the streams of
 * others. */
static void embedding_ended(struct completion *x, struct choice *c)
{
	uint32_t n = x->request.dimensions;

	if (!n)
		n = model_file_config(x->model->handles.model_file)->dim;
	normalise(c->embedding, n);
	buf_addf(&c->content,
		"{\"object\":\"embedding\",\"index\":%u,\"embedding\":", c->index);
	if (x->request.base64)
		add_base64(&c->content, c->embedding, n);
	else
		add_numbers(&c->content, c->embedding, n);
	buf_addc(&c->content, '}');
	free(c->embedding);
	c->embedding = NULL;
}

static void embedding_whole(struct completion *x, struct buf *out)
{
	buf_adds(out, "{\"object\":\"list\",\"data\":[");
	for (uint32_t i = 0; i < x->count; i++) {
		struct buf *text = &x->choices[i].content;

		buf_adds(out, i ? "," : "");
		buf_add(out, text->data, text->len);
		buf_release(text);
	}
	buf_adds(out, "],\"model\":");
	canon_string(out, completion_model_name(x), strlen(completion_model_name(x)));
	buf_addf(out, ",\"usage\":{\"prompt_tokens\":%u,\"total_tokens\":%u}}\n",
		x->prompt_tokens, x->prompt_tokens);
}

/* Embeddings do not stream. */
const struct reply_format reply_embedding = {
	.id_prefix = "embd-",
	.ended = embedding_ended,
	.whole = embedding_whole,
};
