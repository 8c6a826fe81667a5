/* podman_state.c - reads what podman says of containers and pulls. */
#include <stdio.h>
#include <string.h>

#include "cmd/rnp-register/agent/podman_parts.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"

#define FOUND_MAX 4096
#define PID_MAX   (INT64_C(1) << 22)

static int copy_id(char out[ENGINE_ID_MAX], const json_t *o)
{
	const char *id;

	if (json_get_text(o, "podman", "Id", &id) < 0)
		return -1;
	if (strspn(id, "0123456789abcdef") != PODMAN_ID_HEX || id[PODMAN_ID_HEX])
		return err_set(EX_DATAERR, "podman's id of a container is none");
	memcpy(out, id, PODMAN_ID_HEX + 1);
	return 0;
}

/* Podman's times have nanoseconds and a zone; the year 1 is none. */
static int64_t time_ms(const json_t *state, const char *key)
{
	const char *text = json_string_value(json_object_get(state, key)), *point, *zone;
	char plain[CLOCK_TEXT_MAX + 16];
	int64_t ms;

	if (!text || strncmp(text, "0001", 4) == 0)
		return 0;
	point = strchr(text, '.');
	if (point && strlen(text) < sizeof plain) {
		zone = point + 1 + strspn(point + 1, "0123456789");
		snprintf(plain, sizeof plain, "%.*s%s",
			(int)(zone - text < point - text + 4 ? zone - text :
							       point - text + 4),
			text, zone);
		text = plain;
	}
	if (clock_parse(text, "podman", &ms) < 0) {
		err_clear();
		return 0;
	}
	return ms;
}

static enum engine_status status_of(const char *text)
{
	if (strcmp(text, "running") == 0 || strcmp(text, "paused") == 0 ||
		strcmp(text, "stopping") == 0)
		return ENGINE_RUNNING;
	if (strcmp(text, "exited") == 0 || strcmp(text, "stopped") == 0 ||
		strcmp(text, "removing") == 0)
		return ENGINE_EXITED;
	return ENGINE_CREATED;
}

static void copy_text(char *out, size_t max, const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));

	snprintf(out, max, "%s", text && strlen(text) < max ? text : "");
}

int podman_state_read(struct podman_seen *out, const json_t *inspect)
{
	struct engine_state *s = &out->state;
	json_t *state, *log;
	const char *status;
	int64_t pid = 0, conmon = 0, code = 0;

	*out = (struct podman_seen){ 0 };
	if (copy_id(s->id, inspect) < 0 ||
		json_get_object(inspect, "podman", "State", &state) < 0 ||
		json_get_text(state, "podman", "Status", &status) < 0 ||
		json_opt_i64(state, "podman", "Pid", 0, PID_MAX, &pid) < 0 ||
		json_opt_i64(state, "podman", "ConmonPid", 0, PID_MAX, &conmon) < 0 ||
		json_opt_i64(state, "podman", "ExitCode", -1, INT32_MAX, &code) < 0 ||
		json_opt_bool(state, "podman", "OOMKilled", &s->oom) < 0)
		return -1;
	out->pid = (pid_t)pid;
	out->conmon = (pid_t)conmon;
	s->status = status_of(status);
	s->exit = (int)code;
	s->started_ms = time_ms(state, "StartedAt");
	s->ended_ms = s->status == ENGINE_EXITED ? time_ms(state, "FinishedAt") : 0;
	/* the end is the time of a file, which may be some milliseconds slow */
	if (s->ended_ms && s->ended_ms < s->started_ms)
		s->ended_ms = s->started_ms;
	copy_text(out->cgroup, sizeof out->cgroup, state, "CgroupPath");
	copy_text(out->conmon_file, sizeof out->conmon_file, inspect, "ConmonPidFile");
	log = json_object_get(json_object_get(inspect, "HostConfig"), "LogConfig");
	copy_text(s->log, sizeof s->log, log, "Path");
	return 0;
}

int podman_list_read(struct engine_list *out, const json_t *list, const char *label)
{
	size_t i;
	json_t *item;

	if (!json_is_array(list) || json_array_size(list) > FOUND_MAX)
		return err_set(EX_DATAERR, "podman's list of containers is none");
	json_array_foreach(list, i, item) {
		struct engine_found f = { 0 };
		json_t *labels = json_object_get(item, "Labels");
		const char *value = json_string_value(json_object_get(labels, label)),
			   *state;

		if (copy_id(f.id, item) < 0 ||
			json_get_text(item, "podman", "State", &state) < 0)
			return -1;
		if (!value || strlen(value) >= sizeof f.label)
			continue;
		snprintf(f.label, sizeof f.label, "%s", value);
		f.running = status_of(state) == ENGINE_RUNNING;
		out->items = xgrow(out->items, &out->cap, out->n + 1, sizeof *out->items);
		out->items[out->n++] = f;
	}
	return 0;
}

/* {"stream":"Copying blob sha256:..."}, {"error":"..."}, {"images":[...],"id":"..."}. The line of
 * a layer comes when its transfer begins, or, with "skipped", when it need not. */
int podman_pull_line(struct engine_pull *p, const char *line, size_t len)
{
	json_t *o = json_parse_object(line, len, "podman");
	const char *says;
	int rc = 0;

	if (!o)
		return -1;
	says = json_string_value(json_object_get(o, "error"));
	if (says && *says) {
		rc = podman_fail(500, says);
		goto out;
	}
	rc = json_is_string(json_object_get(o, "id"));
	says = json_string_value(json_object_get(o, "stream"));
	if (says && strncmp(says, "Copying blob ", 13) == 0 && p->layers < INT32_MAX)
		p->layers++;
out:
	json_decref(o);
	return rc;
}
