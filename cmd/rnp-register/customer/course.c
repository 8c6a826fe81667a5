/* course.c - a cluster as its customer sees it. */
#include "cmd/rnp-register/customer/course.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"
#include "common/cli/prog.h"
#include "common/json/json.h"

#define RANKS_MAX 64
#define WAIT_S    25
#define AGAIN_MS  3000
#define TEXT_MAX  600

struct following {
	struct customer *c;
	const char *name;
	const volatile sig_atomic_t *stop;
	json_t *cluster, *seconds; /* the newest; milliseconds in each state */
	int64_t seq, seen_ns;
	bool away; /* the registry did not answer, which was said */
	char said[RANKS_MAX][TEXT_MAX];
};

static int64_t whole(const json_t *v, const char *key, int64_t absent)
{
	const json_t *n = json_object_get(v, key);

	return json_is_integer(n) ? json_integer_value(n) : absent;
}

static const char *text(const json_t *v, const char *key)
{
	const char *t = json_string_value(json_object_get(v, key));

	return t ? t : "";
}

static bool has_ended(const json_t *cluster)
{
	const char *state = text(cluster, "state");

	return strcmp(state, "released") == 0 || strcmp(state, "failed") == 0;
}

/* --- the end ------------------------------------------------------------------------------ */

/* The nodes that have their rank still: not those that another took over from. */
static bool is_last_turn(const json_t *nodes, const json_t *node)
{
	const json_t *other;
	size_t i;

	json_array_foreach((json_t *)nodes, i, other)
		if (whole(other, "rank", 0) == whole(node, "rank", 0) &&
			whole(other, "turn", 0) > whole(node, "turn", 0))
			return false;
	return true;
}

/* Codes of all ranks: 0 where all ended with it, the first other one; -1: one is not known. */
static int code_of(const json_t *nodes)
{
	const json_t *node;
	bool unknown = false;
	size_t i;

	json_array_foreach((json_t *)nodes, i, node) {
		int64_t code = whole(node, "exit", -1);

		if (!is_last_turn(nodes, node))
			continue;
		if (code > 0)
			return (int)code;
		unknown |= code < 0;
	}
	return unknown || !json_array_size(nodes) ? -1 : 0;
}

/* What was kept of each rank: {"rank", "sha256"}. */
static json_t *artifacts_of(const json_t *nodes)
{
	json_t *list = json_array(), *one;
	const json_t *node;
	size_t i;

	json_array_foreach((json_t *)nodes, i, node) {
		if (!*text(node, "artifacts") || !is_last_turn(nodes, node))
			continue;
		one = json_object();
		json_set_i64(one, "rank", whole(node, "rank", 0));
		json_set_text(one, "sha256", text(node, "artifacts"));
		json_push(list, one);
	}
	return list;
}

json_t *course_record(const json_t *cluster, const json_t *seconds, enum course_end *end,
	int *exit_code)
{
	static const char *const names[] = { "detached", "done", "failed", "ended" };
	const json_t *nodes = json_object_get(cluster, "nodes"), *node;
	json_t *record = json_record("rnp.launch"), *ms, *times = json_object(), *kept;
	int64_t gpu_ms = 0;
	int code = code_of(nodes);
	const char *state;
	size_t i;

	*end = !has_ended(cluster) ? COURSE_DETACHED :
		code == 0          ? COURSE_DONE :
		code > 0           ? COURSE_FAILED :
				     COURSE_ENDED;
	*exit_code = code > 0 ? code : 0;
	json_array_foreach((json_t *)nodes, i, node)
		gpu_ms += whole(node, "ready_ms", 0) *
			(int64_t)json_array_size(json_object_get(node, "gpus"));
	kept = artifacts_of(nodes);
	json_object_foreach((json_t *)seconds, state, ms)
		json_set_i64(times, state, json_integer_value(ms) / 1000);
	json_set_text(record, "cluster", text(cluster, "cluster"));
	json_set_text(record, "state", names[*end]);
	if (*text(cluster, "cause"))
		json_set_text(record, "cause", text(cluster, "cause"));
	if (*end == COURSE_DONE || *end == COURSE_FAILED)
		json_set_i64(record, "exit", code);
	json_set_i64(record, "gpu_seconds", gpu_ms / 1000);
	json_set_i64(record, "uusd", whole(cluster, "spent_uusd", 0));
	json_set_i64(record, "restarts", whole(cluster, "restarts", 0));
	if (json_array_size(kept))
		json_set(record, "artifacts", json_incref(kept));
	json_decref(kept);
	json_set(record, "seconds", times);
	return record;
}

/* --- what is said ------------------------------------------------------------------------- */

static void say_nodes(struct following *f)
{
	const json_t *nodes = json_object_get(f->cluster, "nodes"), *node;
	char line[TEXT_MAX];
	size_t i;

	json_array_foreach((json_t *)nodes, i, node) {
		int64_t rank = whole(node, "rank", 0);

		if (rank < 0 || rank >= RANKS_MAX || !is_last_turn(nodes, node))
			continue;
		snprintf(line, sizeof line, "%s%s%.500s", text(node, "state"),
			*text(node, "cause") ? ": " : "", text(node, "cause"));
		utf8_clean_line(line);
		if (strcmp(line, f->said[rank]) != 0)
			prog_info("rank %lld  %s", (long long)rank, line);
		snprintf(f->said[rank], sizeof f->said[rank], "%s", line);
	}
}

/* --- asking ------------------------------------------------------------------------------- */

static void wait_ms(int64_t ms, const volatile sig_atomic_t *stop)
{
	struct timespec t = { .tv_nsec = 50000000 };

	for (; ms > 0 && !*stop; ms -= 50)
		nanosleep(&t, NULL);
}

static void count_time(struct following *f)
{
	int64_t now_ns = clock_mono_ns();
	const char *state = text(f->cluster, "state");

	if (f->cluster && f->seen_ns)
		json_set_i64(f->seconds, state,
			whole(f->seconds, state, 0) + (now_ns - f->seen_ns) / 1000000);
	f->seen_ns = now_ns;
}

/* Whether asking failed for now only. */
static bool comes_back(void)
{
	int code = err_get()->code;

	return code == EX_TEMPFAIL || code == EX_UNAVAILABLE;
}

/* Asks for the next change. Returns 1: there is one, or none in time; 0: nothing; -1. */
static int ask(struct following *f)
{
	int64_t wait_s = f->cluster ? WAIT_S : 0;
	char path[160];
	json_t *reply;

	snprintf(path, sizeof path, "/v1/clusters/%.32s?wait=%lld&after=%lld", f->name,
		(long long)wait_s, (long long)f->seq);
	reply = customer_get(f->c, path, (wait_s + 30) * 1000);
	if (!reply && (*f->stop || comes_back())) {
		if (!*f->stop && !f->away)
			prog_warn("%s; the job goes on, and so does the asking",
				err_get()->text);
		f->away = !*f->stop;
		err_clear();
		wait_ms(AGAIN_MS, f->stop);
		return 0;
	}
	if (!reply)
		return -1;
	f->away = false;
	count_time(f);
	json_decref(f->cluster);
	f->cluster = reply;
	f->seq = whole(reply, "seq", 0);
	return 1;
}

int course_follow(struct customer *c, const char *cluster,
	const volatile sig_atomic_t *stop, json_t **record, int *exit_code)
{
	struct following f = { .c = c, .name = cluster, .stop = stop, .seq = 0 };
	enum course_end end = COURSE_DETACHED;
	int rc = 0;

	f.seconds = json_object();
	while (rc >= 0 && !*stop && !(f.cluster && has_ended(f.cluster))) {
		rc = ask(&f);
		if (rc == 1)
			say_nodes(&f);
	}
	if (rc >= 0)
		*record = course_record(f.cluster, f.seconds, &end, exit_code);
	json_decref(f.cluster);
	json_decref(f.seconds);
	return rc < 0 ? -1 : (int)end;
}
