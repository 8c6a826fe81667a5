/* podman.c - the nine functions of the podman engine, and its life. */
#include "cmd/rnp-register/agent/podman.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/image.h"
#include "cmd/rnp-register/agent/podman_parts.h"
#include "cmd/rnp-register/agent/proc.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/json/json.h"

#define RUN_MAX        45 /* bytes: podman's runroot below it has 50 at most */
#define STOP_MORE_MS   30000
#define REMOVE_MS      60000
#define REMOVE_TRIES   20
#define REMOVE_WAIT_NS 250000000L
#define FIRST_LABEL    "rnp-first-id"
#define IDS_LABEL      "rnp-ids"

/* A request without a body whose reply says nothing. Returns the status or -1. */
static int simple(struct podman *p, const char *method, int64_t timeout_ms,
	const char *fmt, const char *id, const char *rest)
{
	struct buf path = BUF_INIT;
	int status;

	buf_addf(&path, "%s/%.64s%s", fmt, id, rest);
	status = podman_call(p,
		&(struct podman_call){ .method = method,
			.path = buf_text(&path),
			.timeout_ms = timeout_ms },
		NULL);
	buf_release(&path);
	return status;
}

static int probe(struct engine *e, const char *label, struct engine_list *out)
{
	struct podman *p = podman_of(e);
	json_t *filters = json_object(), *labels = json_array(), *reply = NULL;
	struct buf path = BUF_INIT, text = BUF_INIT;
	int status, rc = -1;

	json_push_text(labels, label);
	json_set(filters, "label", labels);
	json_write(&text, filters);
	buf_adds(&path, "containers/json?all=true&filters=");
	http_escape(&path, buf_text(&text));
	status = podman_call(p,
		&(struct podman_call){ .method = "GET", .path = buf_text(&path) },
		&reply);
	if (status >= 0)
		rc = reply ?
			podman_list_read(out, reply, label) :
			err_set(EX_UNAVAILABLE, "podman does not list its containers");
	json_decref(filters);
	json_decref(reply);
	buf_release(&path);
	buf_release(&text);
	return rc;
}

/* Notes in labels which users the container was made with, for whoever starts it. */
static void label_users(json_t *spec, const struct engine_spec *s)
{
	json_t *labels = json_object_get(spec, "labels");
	char number[16];

	snprintf(number, sizeof number, "%u", s->first_id);
	json_set_text(labels, FIRST_LABEL, number);
	snprintf(number, sizeof number, "%u", s->ids);
	json_set_text(labels, IDS_LABEL, number);
}

static int remove_one(struct engine *e, const char *id);

static int create(struct engine *e, const struct engine_spec *s, char id[ENGINE_ID_MAX])
{
	struct podman *p = podman_of(e);
	const struct podman_call call = { .method = "POST", .path = "containers/create" };
	struct podman_call with = call;
	struct buf image = BUF_INIT;
	struct engine_spec named = *s;
	struct image_name name;
	json_t *reply = NULL, *spec = NULL;
	const char *made;
	int status = -1;

	if (image_name_parse(&name, s->image) < 0)
		return -1;
	if (s->netns && (!p->netns || strcmp(s->netns, p->netns) != 0))
		return err_set(EX_SOFTWARE, "a container's network is not its podman's");
	image_name_write(&image, &name);
	named.image = buf_text(&image);
	spec = podman_spec(&named);
	if (!spec)
		goto out;
	label_users(spec, s);
	with.body = spec;
	status = podman_call(p, &with, &reply);
	if (status < 0 && strstr(err_get()->text, "already in use")) {
		/* what an earlier try has left, whose reply was lost */
		status = remove_one(e, s->name) < 0 ? -1 : podman_call(p, &with, &reply);
	}
	if (status >= 0 &&
		(!reply || json_get_text(reply, "podman", "Id", &made) < 0 ||
			strlen(made) != PODMAN_ID_HEX))
		status = err_set(EX_UNAVAILABLE, "podman gives a container no id");
	if (status >= 0)
		snprintf(id, ENGINE_ID_MAX, "%s", made);
out:
	json_decref(spec);
	json_decref(reply);
	buf_release(&image);
	return status < 0 ? -1 : 0;
}

/* Reads the users that the container was made with. */
static int wished_users(struct podman *p, const char *id, int64_t *first, int64_t *ids)
{
	struct buf path = BUF_INIT;
	json_t *reply = NULL, *labels;
	int status, rc = -1;

	buf_addf(&path, "containers/%.64s/json", id);
	status = podman_call(p,
		&(struct podman_call){ .method = "GET", .path = buf_text(&path) },
		&reply);
	labels = json_object_get(json_object_get(reply, "Config"), "Labels");
	if (status >= 0 &&
		json_get_i64(labels, "podman", FIRST_LABEL, 1, UINT32_MAX, first) == 0)
		rc = json_get_i64(labels, "podman", IDS_LABEL, 1, UINT32_MAX, ids);
	json_decref(reply);
	buf_release(&path);
	return rc;
}

/* A service of another network would start containers there. */
static int check_network(const struct podman *p, pid_t pid)
{
	struct buf path = BUF_INIT;
	struct stat wished, is;
	int rc = 0;

	buf_addf(&path, "/proc/%ld/ns/net", (long)pid);
	if (stat(p->netns, &wished) < 0 || stat(buf_text(&path), &is) < 0 ||
		wished.st_ino != is.st_ino || wished.st_dev != is.st_dev)
		rc = err_set(EX_SOFTWARE,
			"the container is not in the network of its lease");
	buf_release(&path);
	return rc;
}

/* Compares what a container may do with what was wished. One that ends meanwhile cannot be looked
 * at, and needs not be: how it ended is to be found. */
static int check_started(struct podman *p, pid_t pid, const char *id)
{
	int64_t first, ids;
	struct err why;

	if (wished_users(p, id, &first, &ids) < 0)
		return -1;
	if (proc_check(pid, (uint32_t)first, (uint32_t)ids) == 0 &&
		(!p->netns || check_network(p, pid) == 0))
		return 0;
	err_save(&why);
	err_clear();
	if (!proc_lives(pid, id))
		return 0;
	remove_one(&p->engine, id);
	return err_restore(&why);
}

static int start(struct engine *e, const char *id)
{
	struct podman *p = podman_of(e);
	struct buf oom = BUF_INIT;
	struct podman_seen s;
	struct err why;

	podman_oom_file(&oom, p);
	unlink(buf_text(&oom));
	buf_release(&oom);
	if (simple(p, "POST", 0, "containers", id, "/start") < 0) {
		err_save(&why);
		/* it may have ended before podman was done with its start */
		if (podman_inspect(p, id, &s) == 0 && s.state.status == ENGINE_EXITED)
			return 0;
		return err_restore(&why);
	}
	if (podman_inspect(p, id, &s) < 0)
		return -1;
	if (s.state.status != ENGINE_RUNNING || !proc_is_of(s.pid, id))
		return 0;
	return check_started(p, s.pid, id);
}

static int stop(struct engine *e, const char *id, int64_t grace_ms)
{
	char rest[48];

	snprintf(rest, sizeof rest, "/stop?timeout=%lld",
		(long long)(grace_ms + 999) / 1000);
	return simple(podman_of(e), "POST", grace_ms + STOP_MORE_MS, "containers", id,
		       rest) < 0 ?
		-1 :
		0;
}

/* Right after the end of its process a container's mounts may be busy for a moment. */
static int remove_one(struct engine *e, const char *id)
{
	for (int i = 0; i < REMOVE_TRIES; i++) {
		int status = simple(podman_of(e), "DELETE", REMOVE_MS, "containers", id,
			"?force=true&timeout=0&v=true");

		if (status >= 0 || err_get()->code == EX_NOINPUT) {
			err_clear();
			if (strlen(id) == PODMAN_ID_HEX)
				proc_end("conmon", id, 0);
			return 0;
		}
		nanosleep(&(struct timespec){ .tv_nsec = REMOVE_WAIT_NS }, NULL);
	}
	return -1;
}

static const struct engine_ops ops = {
	.probe = probe,
	.pull = podman_pull,
	.create = create,
	.start = start,
	.stop = stop,
	.exec = podman_exec,
	.talk = podman_talk,
	.talk_size = podman_talk_size,
	.talk_end = podman_talk_end,
	.logs = podman_logs,
	.stat = podman_stat,
	.remove = remove_one,
};

/* --- life ------------------------------------------------------------------------------------ */

static char *join(const char *dir, const char *name)
{
	struct buf b = BUF_INIT;

	buf_addf(&b, "%s/%s", dir, name);
	return buf_take(&b);
}

/* A container may write to /etc/hosts, /etc/resolv.conf and the like, which podman keeps in its
 * runroot: that of a lease is within its volume, so that they have its bounds and its key. podman
 * takes no runroot of more than 50 characters: a link leads there. */
static int keep_within(const struct podman *p)
{
	char *within = join(p->root, "run"), *link = join(p->run, "root");
	int rc = io_make_dirs(within, 0700);

	if (rc == 0 && symlink(within, link) < 0 && errno != EEXIST)
		rc = err_sys(EX_CANTCREAT, "cannot make '%s'", link);
	free(within);
	free(link);
	return rc;
}

static int make_folders(const struct podman *p)
{
	char *part = join(p->root, "part");
	int rc = io_make_dirs(p->run, 0700);

	if (rc == 0)
		rc = io_make_dirs(part, 0700);
	if (rc == 0 && p->images)
		rc = keep_within(p);
	free(part);
	return rc;
}

static void free_podman(struct podman *p)
{
	http_release(&p->http);
	free(p->root);
	free(p->run);
	free(p->images);
	free(p->netns);
	free(p->proxy);
	free(p->program);
	free(p->socket);
	free(p);
}

struct engine *podman_open(const struct podman_config *c)
{
	struct podman *p;

	if (geteuid() != 0) {
		err_set(EX_NOPERM, "containers of strangers are run by root alone");
		return NULL;
	}
	if (c->root[0] != '/' || c->run[0] != '/' || strlen(c->run) > RUN_MAX) {
		err_set(EX_USAGE, "'%s' is no absolute path of at most %d bytes", c->run,
			RUN_MAX);
		return NULL;
	}
	p = xcalloc(1, sizeof *p);
	p->engine.ops = &ops;
	p->root = xstrdup(c->root);
	p->run = xstrdup(c->run);
	p->images = c->images ? xstrdup(c->images) : NULL;
	p->netns = c->netns ? xstrdup(c->netns) : NULL;
	p->proxy = c->proxy ? xstrdup(c->proxy) : NULL;
	p->program = xstrdup(c->program ? c->program : "/usr/bin/podman");
	p->socket = join(c->run, "podman.sock");
	p->idle_ms = c->idle_ms;
	if (make_folders(p) == 0 && podman_configure(p) == 0)
		return &p->engine;
	free_podman(p);
	return NULL;
}

void podman_close(struct engine *e)
{
	if (e)
		free_podman(podman_of(e));
}

void podman_quit(struct engine *e)
{
	if (e)
		podman_end_service(podman_of(e));
	podman_close(e);
}
