/* state.c - the directory of a worker. */
#include "cmd/rnp-train/worker/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/lock.h"
#include "common/base/io.h"
#include "common/json/json.h"

#define STATE_BYTES_MAX ((size_t)64 << 10)

int join_state_default(struct buf *out)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (state && *state == '/')
		buf_addf(out, "%s/rnp/train", state);
	else if (home && *home == '/')
		buf_addf(out, "%s/.local/state/rnp/train", home);
	else
		return err_set(EX_NOINPUT,
			"no place for the state: give --state, or set HOME");
	return 0;
}

char *join_state_path(const struct join_state *s, const char *fmt, ...)
{
	struct buf path = BUF_INIT;
	char name[160];
	va_list args;

	va_start(args, fmt);
	vsnprintf(name, sizeof name, fmt, args);
	va_end(args);
	buf_addf(&path, "%s/%s", s->dir, name);
	return buf_take(&path);
}

static int take_lock(struct join_state *s)
{
	s->lock_fd = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->lock_fd < 0)
		return err_sys(0, "cannot open '%s'", s->dir);
	return lock_take_if_kept(s->lock_fd, s->dir,
		"another worker has the state there: give each its own --state");
}

/* --- state.json ------------------------------------------------------------------------------- */

struct number {
	const char *name;
	uint64_t *to;
};

#define NUMBERS(s)                                                                    \
	{                                                                             \
		{ "pub", &(s)->published }, { "adam", &(s)->adam },                   \
			{ "residual", &(s)->residual }, { "next", &(s)->next },       \
			{ "adam_steps", &(s)->adam_steps }, { "turns", &(s)->turns }, \
			{ "tokens", &(s)->tokens },                                   \
		{                                                                     \
			NULL, NULL                                                    \
		}                                                                     \
	}

/* Those that a state of an older version lacks. */
#define MORE_NUMBERS(s)                                                               \
	{                                                                             \
		{ "theta", &(s)->theta }, { "done", &(s)->done },                     \
			{ "unmerged", &(s)->unmerged }, { "version", &(s)->version }, \
		{                                                                     \
			NULL, NULL                                                    \
		}                                                                     \
	}

#define DELTA_NUMBERS(d)                                                          \
	{                                                                         \
		{ "turn", &(d)->turn }, { "bytes", &(d)->bytes },                 \
			{ "tokens", &(d)->tokens }, { "steps", &(d)->steps },     \
			{ "loss_first", (uint64_t *)&(d)->loss_first_micronats }, \
			{ "loss_last", (uint64_t *)&(d)->loss_last_micronats },   \
			{ "seconds", (uint64_t *)&(d)->seconds },                 \
		{                                                                 \
			NULL, NULL                                                \
		}                                                                 \
	}

static int read_numbers(const json_t *from, const char *where, const struct number *n,
	bool optional)
{
	for (; n->name; n++) {
		int64_t v;

		if (optional && !json_object_get(from, n->name))
			continue;
		if (json_get_i64(from, where, n->name, 0, JSON_SAFE_INTEGER_MAX, &v) < 0)
			return -1;
		*n->to = (uint64_t)v;
	}
	return 0;
}

static void write_numbers(json_t *to, const struct number *n)
{
	for (; n->name; n++)
		json_set_i64(to, n->name, (int64_t)*n->to);
}

static int read_hash(const json_t *from, const char *where, const char *name,
	char to[PROTOCOL_HEX])
{
	const char *text;

	if (json_get_text(from, where, name, &text) < 0)
		return -1;
	if (*text && !protocol_is_hash(text))
		return err_set(EX_DATAERR, "%s: %s: is no hash", where, name);
	snprintf(to, PROTOCOL_HEX, "%s", text);
	return 0;
}

static int read_state(struct join_state *s, const json_t *state, const char *where)
{
	const struct number numbers[] = NUMBERS(s), more[] = MORE_NUMBERS(s);
	const struct number of_delta[] = DELTA_NUMBERS(&s->delta);
	json_t *delta = json_object_get(state, "delta");

	if (read_numbers(state, where, numbers, false) < 0 ||
		read_numbers(state, where, more, true) < 0 ||
		read_hash(state, where, "base", s->params_hash) < 0)
		return -1;
	s->fresh = json_is_true(json_object_get(state, "fresh"));
	s->pending = delta != NULL;
	if (!delta)
		return 0;
	return read_numbers(delta, where, of_delta, false) < 0 ||
			read_hash(delta, where, "base", s->delta.base) < 0 ||
			read_hash(delta, where, "sha256", s->delta.sha256) < 0 ||
			read_hash(delta, where, "root", s->delta.root) < 0 ?
		-1 :
		0;
}

static int load(struct join_state *s)
{
	char *path = join_state_path(s, "state.json");
	struct buf text = BUF_INIT;
	json_t *state = NULL;
	int rc = 0;

	if (access(path, F_OK) == 0) {
		rc = io_read(&text, path, STATE_BYTES_MAX);
		if (rc == 0)
			state = json_parse_object(buf_text(&text), text.len, path);
		rc = state ? read_state(s, state, path) : -1;
	}
	json_decref(state);
	buf_release(&text);
	free(path);
	return rc;
}

static bool is_numbered(const char *name, const char *format, uint64_t number)
{
	char is[64];

	snprintf(is, sizeof is, format, (unsigned long long)number);
	return number && strcmp(name, is) == 0;
}

static int keep_file(void *ctx, const char *name)
{
	const struct join_state *s = ctx;

	return strcmp(name, "state.json") == 0 || strcmp(name, "run.json") == 0 ||
		strcmp(name, "key.json") == 0 || strncmp(name, "params-", 7) == 0 ||
		is_numbered(name, "pub-%llu.f32", s->published) ||
		is_numbered(name, "m-%llu.f32", s->adam) ||
		is_numbered(name, "v-%llu.f32", s->adam) ||
		is_numbered(name, "e-%llu.f32", s->residual) ||
		is_numbered(name, "theta-%llu.f32", s->theta) ||
		is_numbered(name, "began-%llu.f32", s->theta) ||
		(s->pending && is_numbered(name, "delta-%llu.rnpg", s->delta.turn));
}

int join_state_save(struct join_state *s)
{
	const struct number numbers[] = NUMBERS(s), more[] = MORE_NUMBERS(s);
	const struct number of_delta[] = DELTA_NUMBERS(&s->delta);
	char *path = join_state_path(s, "state.json");
	json_t *state = json_object();
	struct buf text = BUF_INIT;
	int rc;

	write_numbers(state, numbers);
	write_numbers(state, more);
	json_set_text(state, "base", s->params_hash);
	json_set_bool(state, "fresh", s->fresh);
	if (s->pending) {
		json_t *delta = json_object();

		write_numbers(delta, of_delta);
		json_set_text(delta, "base", s->delta.base);
		json_set_text(delta, "sha256", s->delta.sha256);
		json_set_text(delta, "root", s->delta.root);
		json_set(state, "delta", delta);
	}
	json_write(&text, state);
	buf_addc(&text, '\n');
	rc = io_replace(path, text.data, text.len, 0644);
	if (rc == 0)
		flatfile_sweep(s->dir, keep_file, s);
	json_decref(state);
	buf_release(&text);
	free(path);
	return rc;
}

int join_state_open(struct join_state *s, const char *root, const struct training *t)
{
	struct buf dir = BUF_INIT;

	*s = (struct join_state){ .n = t->parameters, .lock_fd = -1, .next = 1 };
	buf_addf(&dir, "%s/%.16s", root, t->name);
	s->dir = buf_take(&dir);
	if (io_make_default_dirs(s->dir, 0777) < 0 || take_lock(s) < 0 || load(s) < 0)
		return -1;
	return 0;
}

void join_state_close(struct join_state *s)
{
	if (s->dir && s->lock_fd >= 0)
		close(s->lock_fd);
	free(s->dir);
	*s = (struct join_state)JOIN_STATE_INIT;
}
