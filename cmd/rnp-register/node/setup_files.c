/* setup_files.c - writes the files of a node below /etc: key, settings, costs, measurements,
 * units. */
#include "cmd/rnp-register/setup.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-register/tool.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/cli/prog.h"
#include "common/json/json.h"

#define FILE_BYTES_MAX (1 << 20)

/* scripts/systemd/rnp-{heartbeat.service,node.service,node.timer} */
extern const char *const units_embedded_kinds[], *const units_embedded_texts[];

void setup_say(struct setup *s, const char *path, const char *what)
{
	json_push_text(s->files, path);
	prog_info("%s: %s", path, what);
}

/* Checks whether this user may write there, before anything is asked. */
int setup_paths(struct setup *s)
{
	buf_addf(&s->dir, "%s/etc/rnp", s->given->root);
	buf_addf(&s->key_path, "%s/key.json", s->dir.data);
	buf_addf(&s->env_path, "%s/node.env", s->dir.data);
	buf_addf(&s->bench_path, "%s/bench.jsonl", s->dir.data);
	buf_addf(&s->node_path, "%s/node.json", s->dir.data);
	buf_addf(&s->costs_path, "%s/costs.json", s->dir.data);
	buf_addf(&s->units_dir, "%s/etc/systemd/system", s->given->root);
	if (io_make_dirs(s->dir.data, 0755) == 0 && access(s->dir.data, W_OK) == 0)
		return 0;
	err_set(EX_NOPERM, "cannot write to %s", s->dir.data);
	return err_hint("begin with sudo, or write elsewhere with --root DIR");
}

int setup_key(struct setup *s)
{
	if (access(s->key_path.data, F_OK) == 0)
		return key_load(&s->key, s->key_path.data, NULL);
	if (key_generate(&s->key) < 0 || key_save(&s->key, s->key_path.data, NULL) < 0)
		return -1;
	setup_say(s, s->key_path.data,
		"the node's key; keep a copy, whoever has it is the node");
	return 0;
}

int setup_costs(struct setup *s, struct buf *text)
{
	const char *const floor[] = { "rnp-price", "floor", "--costs", "-", NULL };
	struct buf read = BUF_INIT, out = BUF_INIT;
	int rc = 0;

	s->priced = access(s->costs_path.data, F_OK) == 0;
	if (!text->len && s->given->costs) {
		rc = io_read(&read, s->given->costs, FILE_BYTES_MAX);
		text = &read;
	}
	if (rc == 0 && text->len) {
		/* its own message names the line and the field */
		rc = tool_run(floor, text, &out);
		if (rc > 0)
			rc = err_set(rc, "the costs of %s are not usable",
				s->given->costs ? s->given->costs : "these answers");
		if (rc == 0)
			rc = io_replace(s->costs_path.data, text->data, text->len, 0644);
		if (rc == 0) {
			setup_say(s, s->costs_path.data, "what the node costs");
			s->priced = true;
		}
	}
	buf_release(&read);
	buf_release(&out);
	return rc;
}

/* Only values that are set: an empty one would hide that of another file. */
static void add_setting(struct buf *env, const char *variable, const char *value)
{
	if (value)
		buf_addf(env, "%s=\"%s\"\n", variable, value);
}

int setup_settings(struct setup *s)
{
	struct buf env = BUF_INIT, list = BUF_INIT;
	int rc;

	for (int i = 0; i < s->given->labels.n; i++)
		buf_addf(&list, "%s%s", i ? "; " : "", s->given->labels.items[i]);
	buf_adds(&env,
		"# Made by rnp-register setup, which may be run again. Read by all programs\n"
		"# (rnp(7), Settings) and by systemd.\n");
	add_setting(&env, "RNP_REGISTRY", s->given->registry);
	add_setting(&env, "RNP_NODE", s->key.address);
	add_setting(&env, "RNP_WALLET", s->given->wallet);
	add_setting(&env, "RNP_NAME", s->given->name);
	add_setting(&env, "RNP_LABEL", s->given->labels.n ? list.data : NULL);
	add_setting(&env, "RNP_BENCH", s->measured ? "/etc/rnp/bench.jsonl" : NULL);
	add_setting(&env, "RNP_COSTS", s->priced ? "/etc/rnp/costs.json" : NULL);
	add_setting(&env, "RNP_CA", s->given->ca_file);
	rc = io_replace(s->env_path.data, env.data, env.len, 0644);
	if (rc == 0)
		setup_say(s, s->env_path.data, "settings");
	buf_release(&env);
	buf_release(&list);
	return rc;
}

/* Writes a unit with the directory of these programs in place of /usr/local/bin. */
static void unit_text(struct buf *out, const char *text, const char *bin)
{
	static const char usual[] = "/usr/local/bin/";

	for (const char *at; (at = strstr(text, usual)); text = at + sizeof usual - 1) {
		buf_add(out, text, (size_t)(at - text));
		buf_addf(out, "%s/", bin);
	}
	buf_adds(out, text);
}

/* Units that a package has installed beside the programs are left as they are. */
static bool units_installed(const struct setup *s, const char *bin)
{
	struct buf path = BUF_INIT;
	const char *slash = strrchr(bin, '/');
	int prefix = slash ? (int)(slash - bin) : 0;
	bool there;

	buf_addf(&path, "%s%.*s/lib/systemd/system/rnp-heartbeat.service", s->given->root,
		prefix, bin);
	there = access(path.data, F_OK) == 0;
	buf_release(&path);
	return there;
}

int setup_units(struct setup *s)
{
	struct buf bin = BUF_INIT, path = BUF_INIT, text = BUF_INIT;
	int rc = 0;

	tool_directory(&bin);
	if (!units_installed(s, buf_text(&bin)))
		rc = io_make_dirs(s->units_dir.data, 0755);
	for (int i = 0; rc == 0 && units_embedded_kinds[i]; i++) {
		if (units_installed(s, buf_text(&bin)))
			break;
		buf_reset(&path);
		buf_reset(&text);
		buf_addf(&path, "%s/%s", s->units_dir.data, units_embedded_kinds[i]);
		unit_text(&text, units_embedded_texts[i], buf_text(&bin));
		rc = io_replace(path.data, text.data, text.len, 0644);
		if (rc == 0)
			setup_say(s, path.data, "unit");
	}
	buf_release(&bin);
	buf_release(&path);
	buf_release(&text);
	return rc;
}

/* Keeps the network's figures of an earlier run if they are not measured now. */
static int keep_network(struct setup *s, struct buf *records)
{
	struct buf old = BUF_INIT;
	int rc = 0;

	if (!s->given->peer && access(s->bench_path.data, F_OK) == 0)
		rc = io_read(&old, s->bench_path.data, FILE_BYTES_MAX);
	for (char *at = rc == 0 && old.len ? old.data : NULL, *end; at && *at; at = end) {
		end = strchr(at, '\n');
		end = end ? end + 1 : at + strlen(at);
		if (memmem(at, (size_t)(end - at), "\"suite\":\"net\"", 13))
			buf_add(records, at, (size_t)(end - at));
	}
	buf_release(&old);
	return rc;
}

int setup_measure(struct setup *s)
{
	const char *const memory[] = { "rnp-bench", "run", "--quick", "--suite", "mem",
		"--key", s->key_path.data, NULL };
	const char *const network[] = { "rnp-bench", "run", "--quick", "--suite", "net",
		"--key", s->key_path.data, "--peer", s->given->peer,
		s->given->ca_file ? "--ca" : NULL, s->given->ca_file, NULL };
	struct buf records = BUF_INIT;
	int rc;

	if (s->given->bench) {
		rc = io_read(&records, s->given->bench, FILE_BYTES_MAX);
	} else {
		prog_info("measuring memory%s; this takes some seconds",
			s->given->peer ? " and network" : "");
		rc = tool_run(memory, NULL, &records);
		if (rc == 0 && s->given->peer)
			rc = tool_run(network, NULL, &records);
		if (rc > 0)
			rc = err_set(rc, "rnp-bench did not end well");
		if (rc == 0)
			rc = keep_network(s, &records);
	}
	if (rc == 0)
		rc = io_replace(s->bench_path.data, buf_text(&records), records.len,
			0644);
	if (rc == 0) {
		setup_say(s, s->bench_path.data, "measurements");
		s->measured = true;
	}
	buf_release(&records);
	return rc;
}
