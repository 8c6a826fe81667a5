/* podman_parts.h - what the files of the podman engine share; not for callers. */
#ifndef RNP_REGISTER_AGENT_PODMAN_PARTS_H
#define RNP_REGISTER_AGENT_PODMAN_PARTS_H

#include <jansson.h>
#include <sys/types.h>

#include "cmd/rnp-register/agent/podman.h"
#include "common/http/http.h"

#define PODMAN_ID_HEX 64

struct podman {
	struct engine engine; /* the first member: engine_ops get a pointer to it */
	char *root, *run, *images, *program, *socket, *netns, *proxy;
	int64_t idle_ms;
	struct http http;
	pid_t service; /* that we started; 0: none, or somebody else's child */
	/* the container that was seen running last: as long as its process and conmon live, podman
	 * need not be asked again */
	char running[ENGINE_ID_MAX];
	pid_t pid, conmon;
	int64_t started_ms;
};

static inline struct podman *podman_of(struct engine *e)
{
	return (struct podman *)(void *)e;
}

/* --- the service (podman_service.c) ---------------------------------------------------------- */

/* Writes containers.conf. */
int podman_configure(const struct podman *p);
/* Returns 0 when something answers at the socket, started now or before. */
int podman_ready(struct podman *p);
/* Connects to the service's socket. Returns the connection, or -1. */
int podman_knock(const struct podman *p);
/* Ends the service, ours or an earlier agent's, and waits for it. */
void podman_end_service(struct podman *p);

/* --- requests (podman_call.c) ---------------------------------------------------------------- */

struct podman_call {
	const char *method, *path; /* "containers/json?all=true" */
	const json_t *body;        /* or NULL */
	int64_t timeout_ms;        /* 0: 60 s */
	const struct http_sink *sink;
	const struct http_abort *abort;
};

/* Sends a request, and again if the service ended meanwhile. *reply: what came, if it is JSON, else
 * NULL; the caller owns it; reply may be NULL. Returns the status, 304 and 404 included, or -1 with
 * err_set, the engine's own words. */
int podman_call(struct podman *p, const struct podman_call *call, json_t **reply);

/* Turns what podman said of a failure into an error with one cause: a full disk, a name that is
 * taken, a user that is out of range. Returns -1. Pure but for err. */
int podman_fail(int status, const char *message);

/* --- JSON (podman_spec.c, podman_state.c); pure ---------------------------------------------- */

/* The body of containers/create. Returns NULL with err_set (65): an option is malformed. */
json_t *podman_spec(const struct engine_spec *s);

/* Reads an inspected container; exit code and cause as far as that says them. pid_out and
 * conmon_out: what podman believes, 0: none. */
struct podman_seen {
	struct engine_state state;
	pid_t pid, conmon;
	char cgroup[256], conmon_file[512];
};
int podman_state_read(struct podman_seen *out, const json_t *inspect);
int podman_list_read(struct engine_list *out, const json_t *list, const char *label);

/* Takes account of one line of a pull's stream. Returns 0; 1: it is done; -1 with err_set: the
 * line says that it failed. */
int podman_pull_line(struct engine_pull *p, const char *line, size_t len);

/* Makes a command of a container: its standard input with `input`, a terminal with `terminal`.
 * Writes its id. Returns 0, or -1 as podman_call. (podman_exec.c) */
int podman_exec_make(struct podman *p, const char *container, const char *const *command,
	const char *const *env, bool input, bool terminal, char id[ENGINE_ID_MAX]);
/* What became of a command. Returns 1 while it runs, 0 once it has ended, with its code, or -1. pid
 * may be NULL: its process, while it runs. */
int podman_exec_state(struct podman *p, const char *id, int *code, pid_t *pid);

/* --- the table (podman.c, podman_pull.c, podman_exec.c, podman_talk.c, podman_stat.c)
 * ------------------------ */

int podman_pull(struct engine *e, const struct engine_pull_call *call);
int podman_exec(struct engine *e, const char *id, struct engine_exec *x);
int podman_talk(struct engine *e, const char *id, struct engine_talk *t);
int podman_talk_size(struct engine *e, const struct engine_talk *t);
int podman_talk_end(struct engine *e, const struct engine_talk *t, int *code);
int podman_logs(struct engine *e, const char *id, struct engine_log *at, size_t max,
	struct buf *out);
int podman_stat(struct engine *e, const char *id, int64_t wait_ms,
	struct engine_state *out);
/* The file that conmon makes when a container's memory was used up; a start forgets it. */
void podman_oom_file(struct buf *out, const struct podman *p);
int podman_inspect(struct podman *p, const char *id, struct podman_seen *out);
/* What a started container may do, against its spec's label; see engine_ops.start. */
int podman_check_started(const struct podman_seen *s, const char *id);

#endif
