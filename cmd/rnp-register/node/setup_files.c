/* setup_files.c - writes the files of a node below /etc: key, settings, costs, measurements,
 * units. */
#include "cmd/rnp-register/node/setup.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/rnp-register/node/tool.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/cli/prog.h"
#include "common/json/json.h"

#define SETUP_FRESH_MS INT64_C(3600000) /* in which nothing is measured again */

/* scripts/systemd/rnp-{heartbeat,node,work,price}.service and their timers */
extern const char *const units_embedded_kinds[], *const units_embedded_texts[];

const char *setup_shell(struct setup *s, const char *word)
{
	struct buf text = BUF_INIT;

	buf_add_shell(&text, word);
	s->kept = xgrow(s->kept, &s->kept_cap, s->nkept + 1, sizeof *s->kept);
	s->kept[s->nkept] = buf_take(&text);
	return s->kept[s->nkept++];
}

void setup_say(struct setup *s, const char *path, const char *what)
{
	json_push_text(s->files, path);
	prog_info("%s: %s", path, what);
}

void setup_advise(struct setup *s, const char *fmt, ...)
{
	char text[1000];
	const json_t *item;
	va_list args;
	size_t i;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	/* one measurement mends what two requirements lack */
	json_array_foreach(s->next, i, item)
		if (strcmp(json_string_value(item), text) == 0)
			return;
	json_push_text(s->next, text);
}

/* Whether this user may write to a directory, or make it: the nearest that exists decides. Makes
 * none, for who gives up at a question leaves nothing behind. */
static bool may_write(const char *dir)
{
	char *at = xstrdup(dir), *slash;
	struct stat st;
	bool may;

	while (access(at, F_OK) < 0 && (slash = strrchr(at, '/')) && slash > at)
		*slash = '\0';
	if (access(at, F_OK) < 0)
		strcpy(at, *at == '/' ? "/" : ".");
	may = stat(at, &st) == 0 && S_ISDIR(st.st_mode) && access(at, W_OK | X_OK) == 0;
	free(at);
	return may;
}

/* Checks whether this user may write there, before anything is asked. */
int setup_paths(struct setup *s)
{
	if (*s->given->root)
		buf_addf(&s->again, " --root %s", setup_shell(s, s->given->root));
	buf_addf(&s->dir, "%s/etc/rnp", s->given->root);
	buf_addf(&s->key_path, "%s/key.json", s->dir.data);
	buf_addf(&s->env_path, "%s/node.env", s->dir.data);
	buf_addf(&s->bench_path, "%s/bench.jsonl", s->dir.data);
	buf_addf(&s->node_path, "%s/node.json", s->dir.data);
	buf_addf(&s->costs_path, "%s/costs.json", s->dir.data);
	buf_addf(&s->units_dir, "%s/etc/systemd/system", s->given->root);
	if (may_write(s->dir.data))
		return 0;
	err_set(EX_NOPERM, "cannot write to %s", s->dir.data);
	return err_hint("begin with sudo, or write elsewhere with --root DIR");
}

int setup_key(struct setup *s)
{
	if (access(s->key_path.data, F_OK) == 0)
		return key_load(&s->key, s->key_path.data, NULL);
	if (io_make_dirs(s->dir.data, 0755) < 0 || key_generate(&s->key) < 0 ||
		key_save(&s->key, s->key_path.data, NULL) < 0)
		return -1;
	setup_say(s, s->key_path.data,
		"the node's key; keep a copy, whoever has it is the node");
	return 0;
}

int setup_costs(struct setup *s)
{
	const struct buf *text = &s->costs_text;

	s->priced = access(s->costs_path.data, F_OK) == 0;
	if (!text->len)
		return 0;
	if (io_replace(s->costs_path.data, text->data, text->len, 0644) < 0)
		return -1;
	setup_say(s, s->costs_path.data, "what the node costs");
	s->priced = true;
	return 0;
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
	add_setting(&env, "RNP_GPUS", s->given->gpus);
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

/* Writes a unit with the directory of these programs in place of /usr/local/bin, and of what they
 * share in place of /usr/local/share. */
static void unit_text(struct buf *out, const char *text, const char *bin)
{
	static const char usual[] = "/usr/local/";
	const char *slash = strrchr(bin, '/');

	for (const char *at; (at = strstr(text, usual)); text = at) {
		buf_add(out, text, (size_t)(at - text));
		at += sizeof usual - 1;
		if (strncmp(at, "bin/", 4) == 0) {
			buf_addf(out, "%s/", bin);
			at += 4;
		} else {
			buf_addf(out, "%.*s/", slash ? (int)(slash - bin) : 0, bin);
		}
	}
	buf_adds(out, text);
}

/* Units that only a node has that sells. */
static bool is_for_sale(const char *unit)
{
	return strncmp(unit, "rnp-work.", 9) == 0 || strncmp(unit, "rnp-price.", 10) == 0;
}

/* Whether services see the programs of that directory: their units hide home directories and /tmp,
 * and an image has files of its own. */
static bool services_see(const struct setup *s, const char *bin)
{
	static const char *const hidden[] = { "/home/", "/root/", "/tmp/", "/var/tmp/",
		"/run/user/" };
	struct buf path = BUF_INIT;
	bool there;

	for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
		if (strncmp(bin, hidden[i], strlen(hidden[i])) == 0)
			return false;
	buf_addf(&path, "%s%s/rnp-register", s->given->root, bin);
	there = access(path.data, X_OK) == 0;
	buf_release(&path);
	return there;
}

/* The directory of programs that units name: that of this program where services see it, else
 * where it is installed, or will be. */
static void choose_bin(struct setup *s, struct buf *bin)
{
	static const char *const usual[] = { "/usr/local/bin", "/usr/bin" };

	tool_directory(bin);
	s->installed = services_see(s, buf_text(bin));
	for (int i = 1; !s->installed && i >= 0; i--) {
		buf_reset(bin);
		buf_adds(bin, usual[i]);
		s->installed = services_see(s, usual[i]);
	}
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
	bool there;
	int rc = 0;

	choose_bin(s, &bin);
	there = units_installed(s, buf_text(&bin));
	if (!there)
		rc = io_make_dirs(s->units_dir.data, 0755);
	for (int i = 0; rc == 0 && !there && units_embedded_kinds[i]; i++) {
		if (is_for_sale(units_embedded_kinds[i]) && !s->given->sell)
			continue;
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

/* For scripts/price-loop: prices that anybody may ask for, without an account. */
int setup_markets(struct setup *s)
{
	struct buf path = BUF_INIT, text = BUF_INIT;
	int rc = 0;

	buf_addf(&path, "%s/markets.json", s->dir.data);
	if (access(path.data, F_OK) < 0) {
		buf_adds(&text,
			"{\n  \"kind\": \"rnp.markets\",\n  \"v\": 1,\n  \"markets\": [\n"
			"    {\"market\": \"akash\", \"url\": \"https://console-api.akash.network/v1/gpu-prices\"}\n"
			"  ]\n}\n");
		rc = io_replace(path.data, text.data, text.len, 0644);
		if (rc == 0)
			setup_say(s, path.data,
				"markets that its price is compared with");
	}
	buf_release(&path);
	buf_release(&text);
	return rc;
}

/* Whether a measurement is one of this node in a suite, and how old it is; against this peer, if
 * there is one. A negative age is none: the clock was wrong. */
static bool is_of(const struct setup *s, const json_t *r, const char *suite,
	const char *peer, int64_t *age_ms)
{
	const char *is = json_string_value(json_object_get(r, "suite"));
	const char *node = json_string_value(json_object_get(r, "node"));
	const char *against = json_string_value(
		json_object_get(json_object_get(r, "params"), "peer"));
	int64_t at_ms;

	if (!is || strcmp(is, suite) != 0 || json_get_time(r, "", "at", &at_ms) < 0) {
		err_clear();
		return false;
	}
	*age_ms = clock_now_ms() - at_ms;
	return (!node || strcmp(node, s->key.address) == 0) &&
		(!peer || (against && strcmp(against, peer) == 0));
}

/* Appends the figures of an earlier run that are of a suite, if none of them is older than max_ms;
 * 0: of any age. Returns whether there were some. */
static bool keep_figures(const struct setup *s, const char *old, const char *suite,
	const char *peer, int64_t max_ms, struct buf *records)
{
	size_t before = records->len;
	bool young = true;

	for (const char *at = old, *end; *at; at = end) {
		size_t len = strcspn(at, "\n");
		json_t *r = json_parse_object(at, len, "");
		int64_t age_ms = 0;

		err_clear();
		end = at + len + (at[len] == '\n');
		if (r && is_of(s, r, suite, peer, &age_ms)) {
			buf_add(records, at, len);
			buf_addc(records, '\n');
			young = young && age_ms >= 0 && age_ms <= max_ms;
		}
		json_decref(r);
	}
	if (max_ms && !young)
		records->len = before;
	return records->len > before;
}

/* Measures a suite, or takes what was measured a short while ago. */
static int measure(struct setup *s, const char *old, const char *suite,
	const char *const command[], struct buf *records)
{
	const char *peer = strcmp(suite, "net") == 0 ? s->given->peer : NULL;

	if (keep_figures(s, old, suite, peer, SETUP_FRESH_MS, records)) {
		prog_info(
			"%s: the suite %s was measured within the last hour, and is kept",
			s->bench_path.data, suite);
		return 0;
	}
	prog_info("measuring %s; this takes some seconds",
		peer ? "the network" : "memory");
	return tool_run(command, NULL, records);
}

int setup_measure(struct setup *s)
{
	const char *const memory[] = { "rnp-bench", "run", "--quick", "--suite", "mem",
		"--key", s->key_path.data, NULL };
	const char *const network[] = { "rnp-bench", "run", "--quick", "--suite", "net",
		"--key", s->key_path.data, "--peer", s->given->peer,
		s->given->ca_file ? "--ca" : NULL, s->given->ca_file, NULL };
	struct buf records = BUF_INIT, old = BUF_INIT;
	int rc = 0;

	if (s->given->bench) {
		buf_add(&records, buf_text(&s->bench_text), s->bench_text.len);
	} else {
		if (access(s->bench_path.data, F_OK) == 0)
			rc = io_read(&old, s->bench_path.data, SETUP_FILE_BYTES_MAX);
		if (rc == 0)
			rc = measure(s, buf_text(&old), "mem", memory, &records);
		if (rc == 0 && s->given->peer)
			rc = measure(s, buf_text(&old), "net", network, &records);
		if (rc > 0)
			rc = err_set(rc, "rnp-bench did not end well");
		if (rc == 0 && !s->given->peer)
			keep_figures(s, buf_text(&old), "net", NULL, 0, &records);
	}
	if (rc == 0)
		rc = io_replace(s->bench_path.data, buf_text(&records), records.len,
			0644);
	if (rc == 0) {
		setup_say(s, s->bench_path.data, "measurements");
		s->measured = true;
	}
	buf_release(&records);
	buf_release(&old);
	return rc;
}
