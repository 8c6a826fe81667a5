/* launch.c - rnp-register launch: reads a job file, books nodes for it, and follows it to its
 * end. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/rnp-register/commands.h"
#include "cmd/rnp-register/customer/customer.h"
#include "cmd/rnp-register/customer/bring.h"
#include "cmd/rnp-register/customer/course.h"
#include "cmd/rnp-register/customer/echo.h"
#include "cmd/rnp-register/customer/jobfile.h"
#include "cmd/rnp-register/customer/launch.h"
#include "cmd/rnp-register/customer/ship.h"
#include "cmd/rnp-register/customer/yaml_tree.h"
#include "cmd/rnp-register/market/artifacts.h"
#include "cmd/rnp-register/market/sshkey.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/record/key.h"
#include "common/registry/client.h"

#define SSH_KEYS_MAX 16

static struct opt_list envs, secrets, drops, ssh_keys;
static const char *registry, *ca_file, *key_path, *passphrase_file, *cluster_name,
	*artifacts_dir;
static int64_t hours, artifact_bytes;
static bool check, pass_exit;

static const struct opt opts[] = {
	OPT_SWITCH("check", &check,
		"read the file and say what would run, and nothing else"),
	OPT(TEXT, "registry", &registry, "URL", "the registry", .setting = true,
		.url = true),
	OPT_IN(I64, "hours", &hours, "H", 1, 876000,
		"book for so many (default until the deadline, or 24)"),
	OPT(LIST, "ssh-key", &ssh_keys, "F", "a public key that may log in; several"),
	OPT(TEXT, "artifacts", &artifacts_dir, "D",
		"where artifacts come to (default artifacts/CLUSTER)"),
	OPT(SIZE, "artifacts-max", &artifact_bytes, "SIZE",
		"how large those of a rank may be (default as the job says, or 10GiB)"),
	OPT_SWITCH("exit-code", &pass_exit, "end with the code with which the job ended"),
	OPT(TEXT, "follow", &cluster_name, "C",
		"launch nothing: follow this cluster to its end"),
	OPT(LIST, "env", &envs, "NAME[=V]",
		"set a variable of the job, without =V as it is here; several"),
	OPT(LIST, "secret", &secrets, "NAME[=V]",
		"the same for one whose value nobody may read; several"),
	OPT(LIST, "drop", &drops, "FIELD",
		"leave a field of the file out, or stores for all object stores; several"),
	OPT_KEY(&key_path),
	OPT_PASSPHRASE(&passphrase_file),
	OPT_CA(&ca_file),
	{ 0 },
};

/* Divides "NAME=VALUE" into given[i]; "NAME" has the value that the environment has. The names are
 * copies. */
static int read_given(const char *option, const struct opt_list *list,
	struct job_given **given)
{
	*given = xcalloc((size_t)list->n + 1, sizeof **given);
	for (int i = 0; i < list->n; i++) {
		const char *text = list->items[i], *sign = strchr(text, '=');
		char *name = xstrndup(text, sign ? (size_t)(sign - text) : strlen(text));

		(*given)[i].name = name;
		(*given)[i].value = sign ? sign + 1 : getenv(name);
		if (!(*given)[i].value)
			return err_set(EX_USAGE,
				"--%s %.80s: the environment has no such variable; write %.80s=VALUE",
				option, name, name);
	}
	return 0;
}

static void free_given(struct job_given *given, int n)
{
	for (int i = 0; given && i < n; i++)
		free((char *)given[i].name);
	free(given);
}

/* Adds a warning where what the job would take along is not there. */
static void look_for(json_t *task, const char *what, const char *path, bool folder)
{
	struct buf name = BUF_INIT, line = BUF_INIT;
	struct stat st;

	ship_local_path(&name, path);
	if (stat(buf_text(&name), &st) < 0)
		buf_addf(&line, "%s %s: %s", what, path, strerror(errno));
	else if (folder && !S_ISDIR(st.st_mode))
		buf_addf(&line, "%s %s: is not a folder", what, path);
	if (line.len)
		json_push_text(json_object_get(task, "warnings"), line.data);
	buf_release(&name);
	buf_release(&line);
}

static void look_for_files(json_t *task)
{
	const char *workdir = json_string_value(json_object_get(task, "workdir"));
	json_t *mount;
	size_t i;

	if (workdir)
		look_for(task, "workdir", workdir, true);
	json_array_foreach(json_object_get(task, "mounts"), i, mount)
		look_for(task, "file_mounts",
			json_string_value(json_object_get(mount, "from")), false);
}

static void say_warnings(const struct jobfile *job)
{
	json_t *warning;
	size_t i;

	json_array_foreach(json_object_get(job->task, "warnings"), i, warning)
		prog_warn("%s", json_string_value(warning));
}

/* What is to be taken along has to be there before anything is planned. */
static int require_files(struct jobfile *job)
{
	const json_t *warnings = json_object_get(job->task, "warnings");
	size_t before = json_array_size(warnings);

	look_for_files(job->task);
	if (json_array_size(warnings) == before)
		return 0;
	return err_set(EX_NOINPUT, "%s",
		json_string_value(json_array_get(warnings, before)));
}

static int read_file(struct jobfile *job, const char *path)
{
	struct job_given *e = NULL, *s = NULL;
	struct job_options options = { .drop = drops.items, .ndrop = drops.n };
	struct buf text = BUF_INIT;
	int rc = -1;

	if (read_given("env", &envs, &e) < 0 || read_given("secret", &secrets, &s) < 0)
		goto out;
	options.envs = e;
	options.nenvs = envs.n;
	options.secrets = s;
	options.nsecrets = secrets.n;
	if (io_read(&text, path, YAML_BYTES_MAX) < 0)
		goto out;
	rc = jobfile_read(job, buf_text(&text), text.len,
		strcmp(path, "-") == 0 ? "standard input" : path, &options);
out:
	free_given(e, envs.n);
	free_given(s, secrets.n);
	buf_release(&text);
	return rc;
}

/* --- a launch ----------------------------------------------------------------------------- */

static volatile sig_atomic_t stopped;
static struct http_abort stop_switch = HTTP_ABORT_INIT;

static void on_signal(int number)
{
	stopped = number;
	http_abort(&stop_switch);
}

/* From now on Ctrl-C ends what is waited for, and not the job. */
static int watch_signals(void)
{
	struct sigaction a = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	if (http_abort_open(&stop_switch) < 0)
		return -1;
	sigaction(SIGINT, &a, NULL);
	sigaction(SIGTERM, &a, NULL);
	return 0;
}

/* Reads the files of public keys: a line each. */
static int read_ssh_keys(char **lines)
{
	struct buf text = BUF_INIT, line = BUF_INIT;
	struct sshkey key;
	int rc = 0;

	if (ssh_keys.n > SSH_KEYS_MAX)
		return err_set(EX_USAGE, "more than %d keys for SSH", SSH_KEYS_MAX);
	for (int i = 0; i < ssh_keys.n && rc == 0; i++) {
		buf_reset(&text);
		buf_reset(&line);
		rc = io_read(&text, ssh_keys.items[i], SSHKEY_TEXT_MAX + 1024);
		if (rc == 0)
			rc = sshkey_parse(buf_text(&text), ssh_keys.items[i], &key);
		if (rc == 0) {
			buf_addf(&line, "%s %s", key.type, key.blob);
			lines[i] = buf_take(&line);
		}
	}
	buf_release(&text);
	return rc;
}

static int book(struct customer *c, const char *path, char cluster[33])
{
	char *lines[SSH_KEYS_MAX] = { NULL };
	struct launch l = { .customer = c,
		.stop = &stopped,
		.hours = hours,
		.ssh_keys = (const char *const *)lines,
		.nssh_keys = ssh_keys.n };
	struct jobfile job = JOBFILE_INIT;
	int rc = read_ssh_keys(lines);

	if (rc == 0)
		rc = read_file(&job, path);
	if (rc == 0) {
		say_warnings(&job);
		rc = require_files(&job);
	}
	if (rc == 0) {
		rc = launch_book(&l, &job, cluster);
		if (!artifact_bytes)
			artifact_bytes = artifact_bytes_max(job.task);
	}
	jobfile_release(&job);
	for (int i = 0; i < SSH_KEYS_MAX; i++)
		free(lines[i]);
	return rc;
}

/* Follows it, writes how it went, and returns the exit code; -1: error. */
static int follow_to_end(struct customer *c, const char *cluster)
{
	json_t *record = NULL;
	struct echo echo;
	int code = 0, lost = 0, end, rc;

	echo_start(&echo, c, cluster);
	end = course_follow(c, cluster, &stopped, &record, &code);
	echo_end(&echo, end < 0 || end == COURSE_DETACHED);
	if (end < 0)
		return -1;
	if (end == COURSE_DETACHED)
		prog_info(
			"still running: rnp-register launch --follow %s goes on from here, rnp-register release %s ends it",
			cluster, cluster);
	else if (bring_artifacts(c, record, cluster, artifacts_dir, artifact_bytes) < 0)
		lost = err_report();
	rc = out_record(record);
	json_decref(record);
	if (rc < 0)
		return -1;
	if (lost)
		return lost;
	return end == COURSE_FAILED ? (pass_exit && code ? code : EXIT_NO) :
		end == COURSE_ENDED ? EX_TEMPFAIL :
				      EX_OK;
}

static int launch(const char *path)
{
	struct key k = KEY_INIT;
	struct customer c = { .http = HTTP_INIT,
		.registry = registry,
		.ca = ca_file,
		.key = &k,
		.abort = &stop_switch };
	char cluster[33] = "";
	int rc = -1;

	if (!registry)
		return err_set(EX_USAGE, "--registry is missing, or --check");
	if (cluster_name && !customer_is_cluster(cluster_name))
		return err_set(EX_USAGE,
			"--follow %.80s: a cluster's name is 32 digits, 0 to f",
			cluster_name);
	if (key_load(&k, key_path, passphrase_file) < 0 || watch_signals() < 0)
		goto out;
	if (cluster_name) {
		snprintf(cluster, sizeof cluster, "%s", cluster_name);
		if (!artifact_bytes)
			artifact_bytes = ARTIFACT_BYTES_USUAL;
	} else if (book(&c, path, cluster) < 0) {
		goto out;
	}
	rc = follow_to_end(&c, cluster);
out:
	customer_release(&c);
	key_release(&k);
	return rc;
}

static int check_file(const char *path)
{
	struct jobfile job = JOBFILE_INIT;
	int rc = read_file(&job, path);

	if (rc == 0) {
		look_for_files(job.task);
		say_warnings(&job);
		rc = out_record(job.task);
	}
	jobfile_release(&job);
	return rc;
}

static int run(int nargs, char **args)
{
	const char *path = nargs ? args[0] : "-";
	int rc = check ? check_file(path) : launch(path);

	opt_list_release(&envs);
	opt_list_release(&secrets);
	opt_list_release(&drops);
	opt_list_release(&ssh_keys);
	return rc < 0 ? err_report() : rc;
}

const struct command command_launch = {
	.name = "launch",
	.arguments = "[file]",
	.args_max = 1,
	.summary = "Run a job file on other people's nodes, and follow it to its end.",
	.details =
		"Reads a job file (YAML or JSON, rnp-job(5)), books nodes for it, sends what it\n"
		"needs, says on standard error how it goes, and writes one rnp.launch record at its\n"
		"end; with --check one rnp.task record of what would run, and asks nobody. Ctrl-C\n"
		"leaves the job running. The exit status is 0 when it ended with 0, 1 when it did\n"
		"not, 69 when nothing fits, 75 when it did not end by itself, 77 without credit.",
	.card = true,
	.group = "customer",
	.opts = opts,
	.run = run,
};
