/* error.c - formats errors as OpenAI's API does. */
#include "cmd/rnp-serve/request/error.h"

#include <string.h>

#include "common/base/err.h"
#include "common/json/canon.h"

static void add_text(struct buf *out, const char *key, const char *text)
{
	buf_addf(out, "\"%s\":", key);
	if (text && *text)
		canon_string(out, text, strlen(text));
	else
		buf_adds(out, "null");
}

static void add(struct buf *out, const struct api_error *e, const char *message)
{
	buf_adds(out, "{\"error\":{");
	add_text(out, "message", message);
	buf_addc(out, ',');
	add_text(out, "type", e->type);
	buf_addc(out, ',');
	add_text(out, "param", e->param);
	buf_addc(out, ',');
	add_text(out, "code", e->code);
	buf_adds(out, "}}");
}

void api_error_body(struct buf *out, const struct api_error *e)
{
	add(out, e, err_get()->text);
}

enum httpd_when api_error_reply(struct httpd_reply *r, const struct api_error *e)
{
	r->status = e->status;
	r->content_type = NULL;
	buf_reset(&r->body);
	api_error_body(&r->body, e);
	return HTTPD_NOW;
}

void api_error_render(struct httpd_reply *r, const char *text)
{
	struct api_error e;

	api_error_set(&e, r->status,
		r->status == 404         ? "not_found" :
			r->status == 405 ? "method_not_allowed" :
			r->status == 413 ? "request_too_large" :
					   NULL,
		NULL, "%s", text);
	add(&r->body, &e, text);
}
