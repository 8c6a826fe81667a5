/* setup_check.c - judges the options of setup before anything is asked, made or measured. */
#include "cmd/rnp-register/node/setup.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/rnp-register/node/gpus.h"
#include "cmd/rnp-register/node/labels.h"
#include "cmd/rnp-register/node/measured.h"
#include "cmd/rnp-register/node/tool.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/cli/records.h"
#include "common/json/json.h"
#include "common/json/schema.h"
#include "common/record/policy.h"

/* Makes of the options what the record of the node will have of them, which its schema judges. */
static int check_record(const struct setup *s)
{
	json_t *node = json_record("rnp.node"), *labels = json_object();
	int rc = 0;

	json_set_time(node, "at", clock_now_ms());
	json_set_text(node, "name", s->given->name);
	json_set(node, "labels", labels);
	for (int i = 0; rc == 0 && i < s->given->labels.n; i++)
		rc = label_add(labels, s->given->labels.items[i]);
	if (rc == 0 && schema_check(node, "--name, --label", "rnp.node") < 0) {
		struct err e;

		err_save(&e);
		rc = err_set(EX_USAGE, "%s", e.text);
	}
	json_decref(node);
	return rc;
}

static int check_gpus(const struct setup *s)
{
	static struct hw_causes why;
	json_t *node = json_record("rnp.node");
	int rc = s->given->gpus ? node_gpus_add(node, s->given->gpus, &why) : 0;

	json_decref(node);
	return rc;
}

/* Its own message names the line and the field. A file is read again by its name, for it to stand
 * in that message; a pipe cannot be. */
static int check_costs(struct setup *s)
{
	const char *path = s->given->costs;
	struct stat st;
	const char *const floor[] = { "rnp-price", "floor", "--strict", "--costs",
		path && stat(path, &st) == 0 && S_ISREG(st.st_mode) ? path : "-", NULL };
	struct buf out = BUF_INIT;
	int rc = tool_run(floor, floor[4] == path ? NULL : &s->costs_text, &out);

	if (rc > 0)
		rc = err_set(rc, "the costs of %s are not usable",
			path ? path : "these answers");
	buf_release(&out);
	return rc;
}

/* What a measurement says of this machine; node has what tells it from others. */
static int check_measurement(json_t *node, const char *line, size_t len,
	const char *where)
{
	json_t *r = json_parse_object(line, len, where);
	int rc = r && schema_check(r, where, "rnp.bench") == 0 ?
		measured_take(node, r, where) :
		-1;

	json_decref(r);
	return rc;
}

/* A node without a key yet has measured nothing before. */
static int check_bench(struct setup *s)
{
	const char *path = s->given->bench;
	json_t *node = json_record("rnp.node"), *cpu = json_object();
	struct key key = KEY_INIT;
	struct hw_cpu found = { .model = "" };
	static struct hw_causes why;
	struct buf where = BUF_INIT;
	int number = 0, rc = 0;

	if (access(s->key_path.data, F_OK) == 0)
		rc = key_load(&key, s->key_path.data, NULL);
	if (rc == 0)
		hw_cpu_read(&found, &why);
	json_set_text(node, "node", key.secret ? key.address : "a new one");
	json_set_text(cpu, "model", found.model);
	json_set(node, "cpu", cpu);
	for (const char *at = buf_text(&s->bench_text), *end; rc == 0 && *at; at = end) {
		size_t len = strcspn(at, "\n");

		end = at + len + (at[len] == '\n');
		buf_reset(&where);
		buf_addf(&where, "%s:%d", path, ++number);
		if (at[strspn(at, " \t\r\n")] && len > strspn(at, " \t\r"))
			rc = check_measurement(node, at, len, where.data);
	}
	buf_release(&where);
	key_release(&key);
	json_decref(node);
	return rc;
}

static int check_readable(const char *path)
{
	return path && access(path, R_OK) < 0 ? err_sys(0, "cannot open '%s'", path) : 0;
}

static int check_offer(void *ctx, const struct record *r)
{
	(void)ctx;
	return schema_check(r->json, r->where, "rnp.offer");
}

/* Of a pipe it is the price's part, which can read it only once. */
static int check_offers(const char *path)
{
	struct stat st;

	if (!path || check_readable(path) < 0)
		return path ? -1 : 0;
	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	return records_each((char **)&path, 1, JSON_RECORD_BYTES_MAX, check_offer, NULL);
}

int setup_check_given(struct setup *s)
{
	struct policy policy = POLICY_INIT;
	int rc = policy_load(&policy, s->given->policy);

	policy_release(&policy);
	if (rc < 0 || setup_check_texts(s->given) < 0 || check_record(s) < 0 ||
		check_gpus(s) < 0 || check_readable(s->given->ca_file) < 0 ||
		check_offers(s->given->offers) < 0)
		return -1;
	if (s->given->bench &&
		(io_read(&s->bench_text, s->given->bench, SETUP_FILE_BYTES_MAX) < 0 ||
			check_bench(s) < 0))
		return -1;
	if (!s->given->costs)
		return 0;
	if (io_read(&s->costs_text, s->given->costs, SETUP_FILE_BYTES_MAX) < 0)
		return -1;
	return check_costs(s);
}

int setup_check_answers(struct setup *s)
{
	if (!s->ask)
		return 0;
	if (setup_check_texts(s->given) < 0 || check_record(s) < 0)
		return -1;
	return s->watts ? check_costs(s) : 0;
}
