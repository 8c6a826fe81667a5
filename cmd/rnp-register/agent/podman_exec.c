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

int podman_exec_make(struct podman *p, const char *container, const char *const *command,
	const char *const *env, bool input, bool terminal, char id[ENGINE_ID_MAX])
{
	json_t *body = json_object(), *reply = NULL;
	struct buf path = BUF_INIT;
	const char *text;
	int status;

	buf_addf(&path, "containers/%s/exec", container);
	json_set(body, "Cmd", strings(command));
	json_set(body, "Env", strings(env));
	json_set_bool(body, "AttachStdin", input);
	json_set_bool(body, "AttachStdout", true);
	json_set_bool(body, "AttachStderr", true);
	json_set_bool(body, "Tty", terminal);
	status = podman_call(p,
		&(struct podman_call){ .method = "POST",
			.path = buf_text(&path),
			.body = body },
		&reply);
	if (status >= 0) {
		if (!reply || json_get_text(reply, "podman", "Id", &text) < 0 ||
			strlen(text) != PODMAN_ID_HEX ||
			strspn(text, "0123456789abcdef") != PODMAN_ID_HEX)
			status = err_set(EX_UNAVAILABLE, "podman gives a command no id");
		else
			memcpy(id, text, PODMAN_ID_HEX + 1);
	}
	json_decref(reply);
	json_decref(body);
	buf_release(&path);
	return status < 0 ? -1 : 0;
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

int podman_exec_state(struct podman *p, const char *id, int *code, pid_t *pid)
{
	struct buf path = BUF_INIT;
	json_t *reply = NULL;
	int64_t exit_code = 0, number = 0;
	bool running = false;
	int status, rc = -1;

	buf_addf(&path, "exec/%.64s/json", id);
	status = podman_call(p,
		&(struct podman_call){ .method = "GET", .path = buf_text(&path) },
		&reply);
	if (status >= 0 && json_is_object(reply) &&
		json_opt_bool(reply, "podman", "Running", &running) == 0 &&
		json_opt_i64(reply, "podman", "Pid", 0, INT32_MAX, &number) == 0 &&
		json_get_i64(reply, "podman", "ExitCode", -1, INT32_MAX, &exit_code) == 0)
		rc = running;
	*code = (int)exit_code;
	if (pid)
		*pid = (pid_t)number;
	json_decref(reply);
	buf_release(&path);
	return rc;
}

int podman_exec(struct engine *e, const char *id, struct engine_exec *x)
{
	struct podman *p = podman_of(e);
	char exec_id[ENGINE_ID_MAX];
	int rc;

	if (podman_exec_make(p, id, x->command, x->env, false, false, exec_id) < 0 ||
		run(p, exec_id, x) < 0)
		return -1;
	rc = podman_exec_state(p, exec_id, &x->exit, NULL);
	return rc > 0 ? err_set(EX_TEMPFAIL, "a command has not ended") : rc;
}
