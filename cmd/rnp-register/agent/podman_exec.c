/* podman_exec.c - a command beside the container's own, and its output, which comes in frames: a
 * byte for the stream, three of zero, four of length, highest first. */
#include <string.h>

#include "cmd/rnp-register/agent/podman_parts.h"
#include "common/base/err.h"
#include "common/json/json.h"

#define HEADER_BYTES 8
#define EXEC_MS      600000

/* Where a reader of frames is. */
struct frames {
	unsigned char header[HEADER_BYTES];
	size_t have;   /* bytes of the header */
	uint32_t left; /* bytes of the frame's text that are still to come */
	size_t max;    /* bytes that out may get */
	struct buf *out;
};

/* Takes bytes as they come, cut anywhere. */
static int take_frames(void *ctx, const void *data, size_t len)
{
	struct frames *f = ctx;
	const unsigned char *at = data, *end = at + len;

	while (at < end) {
		size_t n = (size_t)(end - at), keep;

		if (!f->left) {
			f->header[f->have++] = *at++;
			if (f->have < HEADER_BYTES)
				continue;
			f->have = 0;
			f->left = (uint32_t)f->header[4] << 24 |
				(uint32_t)f->header[5] << 16 |
				(uint32_t)f->header[6] << 8 | f->header[7];
			continue;
		}
		n = n < f->left ? n : f->left;
		keep = f->out->len < f->max ? f->max - f->out->len : 0;
		buf_add(f->out, at, n < keep ? n : keep);
		f->left -= (uint32_t)n;
		at += n;
	}
	return 0;
}

static json_t *strings(const char *const *list)
{
	json_t *array = json_array();

	for (; list && *list; list++)
		json_push_text(array, *list);
	return array;
}

/* Makes the command. Returns its id as podman's reply, which the caller owns. */
static json_t *prepare(struct podman *p, const char *container,
	const struct engine_exec *x, const char **id)
{
	json_t *body = json_object(), *reply = NULL;
	struct buf path = BUF_INIT;
	int status;

	buf_addf(&path, "containers/%s/exec", container);
	json_set(body, "Cmd", strings(x->command));
	json_set(body, "Env", strings(x->env));
	json_set_bool(body, "AttachStdout", true);
	json_set_bool(body, "AttachStderr", true);
	status = podman_call(p,
		&(struct podman_call){ .method = "POST",
			.path = buf_text(&path),
			.body = body },
		&reply);
	if (status >= 0 &&
		(!reply || json_get_text(reply, "podman", "Id", id) < 0 ||
			strspn(*id, "0123456789abcdef") != PODMAN_ID_HEX)) {
		json_decref(reply);
		reply = NULL;
		err_set(EX_UNAVAILABLE, "podman gives a command no id");
	}
	json_decref(body);
	buf_release(&path);
	return reply;
}

static int run(struct podman *p, const char *id, struct engine_exec *x)
{
	struct frames f = { .max = x->output.len + x->output_max, .out = &x->output };
	struct http_sink sink = { .write = take_frames, .ctx = &f };
	json_t *body = json_object();
	struct buf path = BUF_INIT;
	int status;

	buf_addf(&path, "exec/%.64s/start", id);
	json_set_bool(body, "Detach", false);
	json_set_bool(body, "Tty", false);
	status = podman_call(p,
		&(struct podman_call){ .method = "POST",
			.path = buf_text(&path),
			.body = body,
			.sink = &sink,
			.timeout_ms = x->timeout_ms ? x->timeout_ms : EXEC_MS },
		NULL);
	json_decref(body);
	buf_release(&path);
	return status < 0 ? -1 : 0;
}

static int read_exit(struct podman *p, const char *id, struct engine_exec *x)
{
	struct buf path = BUF_INIT;
	json_t *reply = NULL;
	int64_t code = 0;
	bool running = false;
	int status, rc = -1;

	buf_addf(&path, "exec/%.64s/json", id);
	status = podman_call(p,
		&(struct podman_call){ .method = "GET", .path = buf_text(&path) },
		&reply);
	if (status >= 0 && json_is_object(reply) &&
		json_opt_bool(reply, "podman", "Running", &running) == 0 &&
		json_get_i64(reply, "podman", "ExitCode", -1, INT32_MAX, &code) == 0)
		rc = running ? err_set(EX_TEMPFAIL, "a command has not ended") : 0;
	x->exit = (int)code;
	json_decref(reply);
	buf_release(&path);
	return rc;
}

int podman_exec(struct engine *e, const char *id, struct engine_exec *x)
{
	struct podman *p = podman_of(e);
	const char *exec_id = NULL;
	json_t *made = prepare(p, id, x, &exec_id);
	int rc = -1;

	if (made && run(p, exec_id, x) == 0)
		rc = read_exit(p, exec_id, x);
	json_decref(made);
	return rc;
}
