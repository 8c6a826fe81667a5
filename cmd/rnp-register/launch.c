/* launch.c - rnp-register launch: reads a job file and says what would run. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/rnp-register/commands.h"
#include "cmd/rnp-register/customer/jobfile.h"
#include "cmd/rnp-register/customer/yaml_tree.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"

static struct opt_list envs, secrets, drops;
static bool check;

static const struct opt opts[] = {
	OPT_SWITCH("check", &check,
		"read the file and say what would run, and nothing else"),
	OPT(LIST, "env", &envs, "NAME[=V]",
		"set a variable of the job, without =V as it is here; several"),
	OPT(LIST, "secret", &secrets, "NAME[=V]",
		"the same for one whose value nobody may read; several"),
	OPT(LIST, "drop", &drops, "FIELD",
		"leave a field of the file out, or stores for all object stores; several"),
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

/* A path of this machine as a job file writes it: "~/data" is below the home folder. */
static void local_path(struct buf *out, const char *path)
{
	const char *home = getenv("HOME");

	if (home && path[0] == '~' && (path[1] == '/' || !path[1]))
		buf_addf(out, "%s%s", home, path + 1);
	else
		buf_adds(out, path);
}

/* Adds a warning where what the job would take along is not there. */
static void look_for(json_t *task, const char *what, const char *path, bool folder)
{
	struct buf name = BUF_INIT, line = BUF_INIT;
	struct stat st;

	local_path(&name, path);
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

static int say(struct jobfile *job)
{
	json_t *warning;
	size_t i;

	look_for_files(job->task);
	json_array_foreach(json_object_get(job->task, "warnings"), i, warning)
		prog_warn("%s", json_string_value(warning));
	return out_record(job->task);
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

static int run(int nargs, char **args)
{
	struct jobfile job = JOBFILE_INIT;
	int rc;

	if (!check) {
		err_set(EX_USAGE,
			"give --check: it reads the file and says what would run");
		return err_report();
	}
	rc = read_file(&job, nargs ? args[0] : "-");
	if (rc == 0)
		rc = say(&job);
	jobfile_release(&job);
	opt_list_release(&envs);
	opt_list_release(&secrets);
	opt_list_release(&drops);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_launch = {
	.name = "launch",
	.arguments = "[file]",
	.args_max = 1,
	.summary = "Read a job file and say what would run.",
	.details =
		"Reads a job file (YAML or JSON, rnp-job(5)), writes one rnp.task record: the\n"
		"wishes, scripts, files and variables of the job. It asks nobody.",
	.card = true,
	.opts = opts,
	.run = run,
};
