/* podman_call.c - requests to podman's service, and what its failures mean. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/agent/podman_parts.h"
#include "common/base/err.h"
#include "common/json/json.h"

#define CALL_MS         60000
#define REPLY_BYTES_MAX ((int64_t)4 << 20)
#define REPLY_MEMORY    ((size_t)64 << 20)
#define CALL_TRIES      3

/* What podman says, and what it is for the customer. Its sentences carry paths of ours and several
 * layers of wrapping; the cause is one. */
int podman_fail(int status, const char *message)
{
	static const struct {
		const char *says;
		int code;
		const char *means;
	} known[] = {
		{ "no space left on device", EX_IOERR, "the disk of the lease is full" },
		{ "disk quota exceeded", EX_IOERR, "the disk of the lease is full" },
		{ "no image found in manifest list for architecture", EX_DATAERR,
			"the image is not for this node's processor" },
		{ "no image found in image index for architecture", EX_DATAERR,
			"the image is not for this node's processor" },
		{ "manifest unknown", EX_DATAERR,
			"its registry does not know the image" },
		{ "name unknown", EX_DATAERR, "its registry does not know the image" },
		{ "unauthorized", EX_DATAERR,
			"its registry does not give the image to everybody" },
		/* of runc, when it makes the container's own files in an image that has links
		 * there */
		{ "permission denied: OCI", EX_DATAERR,
			"the image has files or links where a container's own belong" },
		{ "must be mounted on ordinary directory", EX_DATAERR,
			"the image has files or links where a container's own belong" },
		{ "denied: ", EX_DATAERR,
			"its registry does not give the image to everybody" },
		{ "executable file not found", EX_DATAERR,
			"the image has no such program as the command names" },
		{ "exec format error", EX_DATAERR,
			"the image's programs are not for this node's processor" },
		{ "unable to find user", EX_DATAERR,
			"the image names a user that it lacks" },
		{ "potentially insufficient uids", EX_DATAERR,
			"the image has users outside of those that a container gets" },
		{ "no such device", EX_UNAVAILABLE,
			"a device of the lease is not there" },
		{ "unresolvable cdi devices", EX_UNAVAILABLE,
			"a device of the lease is not there" },
	};
	char line[400];

	/* one line: podman puts lists into its sentences */
	snprintf(line, sizeof line, "%.380s", message);
	for (char *s = line; *s; s++)
		if (*s == '\n' || *s == '\t')
			*s = ' ';
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strcasestr(message, known[i].says))
			return err_set(known[i].code, "%s (%s)", known[i].means, line);
	if (status == 404)
		return err_set(EX_NOINPUT, "podman: %s", line);
	return err_set(status >= 500 ? EX_TEMPFAIL : EX_DATAERR, "podman: %s", line);
}

/* Reads the reply of a call that podman refused. Returns -1. */
static int fail_reply(const struct http_response *r)
{
	json_t *said = json_parse_bounded(buf_text(&r->body), r->body.len, JSON_DEPTH_MAX,
		REPLY_MEMORY, "podman");
	const char *message = NULL;
	int rc;

	if (json_is_object(said) &&
		json_opt_text(said, "podman", "message", &message) < 0)
		message = NULL;
	if (message)
		rc = podman_fail(r->status, message);
	else
		rc = err_set(EX_TEMPFAIL, "podman failed (HTTP %d) and does not say why",
			r->status);
	json_decref(said);
	return rc;
}

static int take_reply(const struct http_response *r, json_t **reply)
{
	if (!reply || !r->body.len ||
		strncmp(r->content_type, "application/json", 16) != 0)
		return r->status;
	*reply = json_parse_bounded(buf_text(&r->body), r->body.len, JSON_DEPTH_MAX,
		REPLY_MEMORY, "podman");
	return *reply ? r->status : -1;
}

int podman_call(struct podman *p, const struct podman_call *call, json_t **reply)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct buf url = BUF_INIT, body = BUF_INIT;
	struct http_request q = { .method = call->method,
		.unix_socket = p->socket,
		.name = "podman",
		.tries = 1,
		.timeout_ms = call->timeout_ms ? call->timeout_ms : CALL_MS,
		.sink = call->sink,
		.rate_min = -1,
		.abort = call->abort,
		.response_bytes_max = call->sink ? 0 : REPLY_BYTES_MAX };
	int rc = -1;

	if (reply)
		*reply = NULL;
	buf_addf(&url, "http://podman/v4.0.0/libpod/%s", call->path);
	q.url = buf_text(&url);
	if (call->body) {
		json_write(&body, call->body);
		q.body = buf_text(&body);
		q.body_bytes = body.len;
	}
	/* the service may end, for having idled, between our look and our request */
	for (int i = 0; i < CALL_TRIES; i++) {
		rc = podman_ready(p);
		if (rc < 0)
			break;
		rc = http_fetch(&p->http, &q, &r);
		if (r.status || r.aborted || r.broken_off || r.sunk_bytes)
			break;
	}
	if (rc == 0 || (r.status == 304 && !r.aborted)) {
		err_clear();
		rc = take_reply(&r, reply);
	} else if (r.status >= 400) {
		rc = fail_reply(&r);
	}
	buf_release(&url);
	buf_release(&body);
	http_response_release(&r);
	return rc;
}
