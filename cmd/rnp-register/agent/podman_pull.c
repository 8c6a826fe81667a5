/* podman_pull.c - images: their way into the node's store, how far it is, and whether they can run
 * here. */
#include <errno.h>
#include <ftw.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/image.h"
#include "cmd/rnp-register/agent/podman_parts.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/json/json.h"

#define STALL_MS     INT64_C(600000)
#define LIMIT_MS     INT64_C(7200000)
#define LOOK_MS      500
#define RATE_LOOKS   10 /* over so many the rate is taken */
#define LINE_MAX_LEN 8192
#define OPEN_MAX     32
#define LAYERS_TEXT  65536

/* --- is it there? ---------------------------------------------------------------------------- */

/* Returns the inspected image, or NULL: with err_set, or, without, *absent. */
static json_t *inspect_image(struct podman *p, const char *image, bool *absent)
{
	struct buf path = BUF_INIT;
	json_t *reply = NULL;
	int status;

	*absent = false;
	buf_adds(&path, "images/");
	http_escape(&path, image);
	buf_adds(&path, "/json");
	status = podman_call(p,
		&(struct podman_call){ .method = "GET", .path = buf_text(&path) },
		&reply);
	if (status < 0 && err_get()->code == EX_NOINPUT) {
		err_clear();
		*absent = true;
	}
	if (status >= 0 && !reply)
		err_set(EX_UNAVAILABLE, "podman does not say what an image is");
	buf_release(&path);
	return status < 0 ? NULL : reply;
}

/* --- can it run here? ------------------------------------------------------------------------ */

/* nftw(3) passes no context; one thread at a time looks. */
static struct {
	uint32_t ids, found;
	bool is_group;
	char path[160];
	size_t skip; /* bytes of the layer's own path */
} look;

static int look_at(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void)type, (void)f;
	if (st->st_uid < look.ids && st->st_gid < look.ids)
		return 0;
	look.is_group = st->st_uid < look.ids;
	look.found = look.is_group ? st->st_gid : st->st_uid;
	snprintf(look.path, sizeof look.path, "%.150s", path + look.skip);
	return 1;
}

/* Files of users that a container does not have would be nobody's in it. */
static int check_layer(const char *dir, uint32_t ids)
{
	static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
	int rc;

	pthread_mutex_lock(&one);
	look.ids = ids;
	look.skip = strlen(dir);
	rc = nftw(dir, look_at, OPEN_MAX, FTW_PHYS);
	if (rc == 1)
		rc = err_set(EX_DATAERR,
			"the image's '%s' belongs to %s %u, and a container has 0 to %u",
			look.path, look.is_group ? "group" : "user", look.found, ids - 1);
	else if (rc < 0)
		rc = err_sys(EX_IOERR, "cannot look through the image");
	pthread_mutex_unlock(&one);
	return rc;
}

static int check_user(const char *user, uint32_t ids)
{
	char *end;
	unsigned long id;

	for (; user && *user; user = *end ? end + 1 : end) {
		errno = 0;
		id = strtoul(user, &end, 10);
		if (end == user || (*end && *end != ':'))
			return 0; /* a name: the engine looks it up in the image */
		if (errno || id >= ids)
			return err_set(EX_DATAERR,
				"the image runs as user %.*s, and a container has 0 to %u",
				(int)(end - user), user, ids - 1);
	}
	return 0;
}

static int check_layers(const json_t *data, uint32_t ids)
{
	static const char *const which[] = { "UpperDir", "LowerDir" };
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof which / sizeof *which; i++) {
		const char *text = json_string_value(json_object_get(data, which[i]));
		char *dirs, *save = NULL;

		if (!text || strlen(text) > LAYERS_TEXT)
			continue;
		dirs = strdup(text);
		for (char *d = dirs ? strtok_r(dirs, ":", &save) : NULL; d && rc == 0;
			d = strtok_r(NULL, ":", &save))
			rc = check_layer(d, ids);
		free(dirs);
	}
	return rc;
}

static int check_image(const json_t *image, uint32_t ids)
{
	const char *arch = json_string_value(json_object_get(image, "Architecture"));
	const char *os = json_string_value(json_object_get(image, "Os"));
	json_t *data = json_object_get(json_object_get(image, "GraphDriver"), "Data");

	if ((arch && *arch && strcmp(arch, image_arch()) != 0) ||
		(os && *os && strcmp(os, "linux") != 0))
		return err_set(EX_DATAERR,
			"the image is for %.40s on %.40s, and this node is %s",
			os ? os : "?", arch ? arch : "?", image_arch());
	if (!ids)
		return 0;
	if (check_user(json_string_value(json_object_get(image, "User")), ids) < 0)
		return -1;
	return check_layers(data, ids);
}

/* --- how far is it? -------------------------------------------------------------------------- */

/* A pull as two threads see it: one waits for podman's answer, the other looks around. */
struct pulling {
	struct podman *p;
	const struct podman_call *call;
	struct http_abort abort;
	pthread_mutex_t lock;
	struct engine_pull seen; /* by lines of the stream; under lock */
	struct buf line;
	bool complete; /* the stream's last line has come; for the other thread once ended */
	int status;
	struct err error;
	_Atomic int ended;
};

static int take_stream(void *ctx, const void *data, size_t len)
{
	struct pulling *g = ctx;
	const char *at = data, *end = at + len;

	for (; at < end; at++) {
		int rc = 0;

		if (*at != '\n' && g->line.len < LINE_MAX_LEN) {
			buf_addc(&g->line, *at);
			continue;
		}
		if (*at != '\n')
			continue;
		pthread_mutex_lock(&g->lock);
		if (g->line.len)
			rc = podman_pull_line(&g->seen, buf_text(&g->line), g->line.len);
		pthread_mutex_unlock(&g->lock);
		buf_reset(&g->line);
		if (rc < 0)
			return -1;
		g->complete |= rc > 0;
	}
	return 0;
}

static void *ask(void *ctx)
{
	struct pulling *g = ctx;

	g->status = podman_call(g->p, g->call, NULL);
	if (g->status >= 0 && !g->complete)
		g->status = err_set(EX_TEMPFAIL,
			"podman broke off in the middle of a pull");
	err_save(&g->error);
	g->ended = 1;
	return NULL;
}

/* nftw's once more */
static _Thread_local int64_t found_bytes;

static int add_bytes(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void)path, (void)f;
	if (type == FTW_F)
		found_bytes += st->st_size;
	return 0;
}

/* Returns what layers on their way have brought: podman collects them beside each other in one
 * folder. */
static int64_t part_bytes(const struct podman *p)
{
	struct buf dir = BUF_INIT;

	found_bytes = 0;
	buf_addf(&dir, "%s/part", p->root);
	nftw(buf_text(&dir), add_bytes, OPEN_MAX, FTW_PHYS);
	buf_release(&dir);
	return found_bytes;
}

/* Calls the caller's function at intervals. Returns 0 when podman has answered; -1 with err_set:
 * it stalls, takes too long, or the caller has enough. */
static int watch(struct pulling *g, const struct engine_pull_call *call,
	const struct image_size *size)
{
	int64_t begun_ns = clock_mono_ns(), moved_ns = begun_ns, before = 0,
		at[RATE_LOOKS] = { 0 };
	int64_t stall_ms = call->stall_ms ? call->stall_ms : STALL_MS;
	int64_t limit_ms = call->limit_ms ? call->limit_ms : LIMIT_MS;
	int layers = 0;

	for (size_t i = 0; !g->ended; i++) {
		int64_t now_ns = clock_mono_ns(), bytes = part_bytes(g->p);
		struct engine_pull now;

		pthread_mutex_lock(&g->lock);
		now = g->seen;
		pthread_mutex_unlock(&g->lock);
		if (bytes != before || now.layers != layers)
			moved_ns = now_ns;
		layers = now.layers;
		before = bytes;
		now.bytes = bytes;
		now.bytes_total = size->bytes;
		now.layers_total = size->layers;
		if (size->bytes && bytes > size->bytes)
			now.bytes = size->bytes;
		if (size->layers && layers > size->layers)
			now.layers = size->layers;
		if (i >= RATE_LOOKS && bytes > at[i % RATE_LOOKS])
			now.bytes_per_s = (bytes - at[i % RATE_LOOKS]) * 1000 /
				(RATE_LOOKS * LOOK_MS);
		at[i % RATE_LOOKS] = bytes;
		if (call->progress && call->progress(call->ctx, &now) != 0)
			return err_set(EX_TEMPFAIL, "the pull was ended");
		if ((now_ns - moved_ns) / 1000000 > stall_ms)
			return err_set(EX_TEMPFAIL,
				"the image's registry sent nothing for %lld s",
				(long long)stall_ms / 1000);
		if ((now_ns - begun_ns) / 1000000 > limit_ms)
			return err_set(EX_TEMPFAIL, "the image did not come in %lld s",
				(long long)limit_ms / 1000);
		for (int ms = 0; ms < LOOK_MS && !g->ended; ms += 10)
			nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	}
	return 0;
}

static int transfer(struct podman *p, const struct engine_pull_call *call,
	const char *image, bool local, const struct image_size *size)
{
	struct pulling g = { .p = p,
		.abort = HTTP_ABORT_INIT,
		.lock = PTHREAD_MUTEX_INITIALIZER };
	struct http_sink sink = { .write = take_stream, .ctx = &g };
	struct buf path = BUF_INIT;
	struct podman_call ask_call = { .method = "POST",
		.sink = &sink,
		.abort = &g.abort };
	pthread_t thread;
	int rc = -1;

	buf_adds(&path, "images/pull?quiet=false&reference=");
	http_escape(&path, image);
	/* a registry of this machine speaks plain HTTP, as everywhere */
	if (local)
		buf_adds(&path, "&tlsVerify=false");
	ask_call.path = buf_text(&path);
	ask_call.timeout_ms = (call->limit_ms ? call->limit_ms : LIMIT_MS) + 60000;
	g.call = &ask_call;
	if (http_abort_open(&g.abort) < 0)
		goto out;
	if (pthread_create(&thread, NULL, ask, &g) != 0) {
		err_set(EX_OSERR, "cannot start a thread");
		goto out;
	}
	rc = watch(&g, call, size);
	if (rc < 0)
		http_abort(&g.abort);
	pthread_join(thread, NULL);
	if (rc == 0 && g.status < 0)
		rc = err_restore(&g.error);
out:
	http_abort_close(&g.abort);
	buf_release(&g.line);
	buf_release(&path);
	return rc;
}

/* An image takes at least its layers as they are sent, while they come. */
static int check_disk(const struct podman *p, const struct image_size *size)
{
	struct statvfs v;
	int64_t have;

	if (statvfs(p->root, &v) < 0)
		return err_sys(EX_IOERR, "cannot look at '%s'", p->root);
	have = (int64_t)v.f_bavail * (int64_t)v.f_frsize;
	if (size->bytes <= have)
		return 0;
	return err_set(EX_IOERR,
		"the image has %.1f MB, and this node's disk has %.1f MB for images",
		(double)size->bytes / 1e6, (double)have / 1e6);
}

/* Brings the image, which is not there. */
static int fetch_image(struct podman *p, const struct engine_pull_call *call,
	const struct image_name *name, const char *image)
{
	struct image_size size = { 0 };
	struct http http = HTTP_INIT;
	int rc = image_size_fetch(&http, name, &size);

	http_release(&http);
	/* without a size it comes all the same, unless it cannot be the one */
	if (rc < 0 && err_get()->code == EX_DATAERR)
		return -1;
	err_clear();
	if (call->make_room)
		call->make_room(call->room_ctx, size.bytes);
	return check_disk(p, &size) < 0 ? -1 :
					  transfer(p, call, image, name->local, &size);
}

int podman_pull(struct engine *e, const struct engine_pull_call *call)
{
	struct podman *p = podman_of(e);
	struct buf image = BUF_INIT;
	struct image_name name;
	bool absent = false;
	json_t *there = NULL;
	int rc = -1;

	if (image_name_parse(&name, call->image) < 0)
		return -1;
	name.public_only = call->public_only;
	image_name_write(&image, &name);
	there = inspect_image(p, buf_text(&image), &absent);
	if (!there && absent && fetch_image(p, call, &name, buf_text(&image)) == 0) {
		there = inspect_image(p, buf_text(&image), &absent);
		if (!there && absent)
			err_set(EX_TEMPFAIL, "the image came and is not there");
	}
	if (there)
		rc = check_image(there, call->ids);
	json_decref(there);
	buf_release(&image);
	return rc;
}
