#include "common/cli/prog.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/cli/complete.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/json/json.h"
#include "common/cli/out.h"
#include "common/json/schema.h"
#include "common/base/utf8.h"

#ifndef RNP_VERSION
#define RNP_VERSION "0.0.0"
#endif

static struct {
	const char *name;
	bool help, version, table, schema_only;
	bool quiet;
	int verbose;
	const char *log;
} prog;

static const struct opt common_opts[] = {
	{ .name = "help",
		.letter = 'h',
		.kind = OPT_FLAG,
		.to = &prog.help,
		.help = "print this help" },
	{ .name = "version",
		.kind = OPT_FLAG,
		.to = &prog.version,
		.help = "print the version" },
	{ .name = "quiet",
		.letter = 'q',
		.kind = OPT_FLAG,
		.to = &prog.quiet,
		.help = "only errors on standard error" },
	{ .name = "verbose",
		.letter = 'v',
		.kind = OPT_COUNT,
		.to = &prog.verbose,
		.help = "say more on standard error" },
	{ .name = "log",
		.kind = OPT_CHOICE,
		.to = &prog.log,
		.metavar = "json",
		.choices = "text|json",
		.help = "form of standard error (default text)" },
	{ .name = "table",
		.kind = OPT_FLAG,
		.to = &prog.table,
		.help = "columns for people instead of JSON Lines" },
	{ 0 },
};

static bool log_is_json(void)
{
	return prog.log && strcmp(prog.log, "json") == 0;
}

static void print_json(json_t *takes_v)
{
	struct buf line = BUF_INIT;

	json_write(&line, takes_v);
	fprintf(stderr, "%s\n", line.data);
	buf_release(&line);
	json_decref(takes_v);
}

int err_report(void)
{
	const struct err *e = err_get();
	int code = e->code ? e->code : EX_SOFTWARE;

	if (log_is_json()) {
		json_t *record = json_record("rnp.error");

		json_set_i64(record, "code", code);
		json_set_text(record, "message", e->text);
		if (e->hint[0])
			json_set_text(record, "hint", e->hint);
		print_json(record);
	} else {
		fprintf(stderr, "%s: %s%s%s%s\n", prog.name, e->text,
			e->hint[0] ? " (" : "", e->hint, e->hint[0] ? ")" : "");
	}
	err_clear();
	return code;
}

static void say(const char *level, const char *fmt, va_list args)
{
	char text[2048];

	vsnprintf(text, sizeof text, fmt, args);
	utf8_clean_line(text);
	if (log_is_json()) {
		print_json(json_pack("{s:s, s:s}", "level", level, "message", text));
		return;
	}
	fprintf(stderr, "%s: %s\n", prog.name, text);
}

#define SAY(level)                     \
	do {                           \
		va_list args;          \
		va_start(args, fmt);   \
		say(level, fmt, args); \
		va_end(args);          \
	} while (0)

void prog_info(const char *fmt, ...)
{
	if (!prog.quiet)
		SAY("info");
}

void prog_detail(const char *fmt, ...)
{
	if (prog.verbose && !prog.quiet)
		SAY("detail");
}

void prog_warn(const char *fmt, ...)
{
	if (!prog.quiet)
		SAY("warning");
}

void prog_error(const char *fmt, ...)
{
	SAY("error");
}

bool prog_quiet(void)
{
	return prog.quiet;
}

static void print_overview(struct buf *out, const struct program *p)
{
	buf_addf(out, "usage: %s SUBCOMMAND [options] [file ...]\n\n%s\n", p->name,
		p->summary);
	if (p->later)
		buf_addf(out, "\n%s\n", p->later);
	for (int i = 0; p->commands[i]; i++)
		buf_addf(out, "%s  %-10s  %s\n", i ? "" : "\n", p->commands[i]->name,
			p->commands[i]->summary);
	buf_addf(out, "\nEach has its own --help. Common to all:\n\n");
	for (const struct opt *o = common_opts; o->kind != OPT_END; o++)
		buf_addf(out, "  %s%c%s--%-15s  %s\n", o->letter ? "-" : " ",
			o->letter ? o->letter : ' ', o->letter ? ", " : "  ",
			o->choices ? "log json" : o->name, o->help);
	buf_addf(out, "      --schema [KIND]    JSON Schema of the record kinds\n");
	buf_addf(out,
		"      --completion bash  completion script for bash\n\nSee %s(1).\n",
		p->name);
}

static int finish(int code)
{
	/* an answer that did not arrive is no answer, "no" included */
	if (out_close() < 0 && (code == EX_OK || code == EXIT_NO))
		return err_report();
	return code;
}

static int print_and_finish(struct buf *text)
{
	int rc = out_text(buf_text(text), text->len);

	buf_release(text);
	return rc < 0 ? finish(err_report()) : finish(EX_OK);
}

static int usage_error(const struct program *p, const struct command *c)
{
	struct buf usage = BUF_INIT;
	int code = err_report();

	if (c)
		opt_usage(&usage, p->name, c);
	else
		buf_addf(&usage,
			"usage: %s SUBCOMMAND [options] [file ...], see %s --help\n",
			p->name, p->name);
	if (!log_is_json())
		fputs(usage.data, stderr);
	buf_release(&usage);
	return code;
}

static const struct command *find_command(const struct program *p, const char *name)
{
	for (int i = 0; p->commands[i]; i++)
		if (strcmp(p->commands[i]->name, name) == 0)
			return p->commands[i];
	return NULL;
}

/* --schema [KIND], wherever it stands: it asks about the program, not for work */
static int print_schemas(const struct program *p, int argc, char **argv, int at)
{
	const char *kind = at + 1 < argc && argv[at + 1][0] != '-' ? argv[at + 1] : NULL;
	struct buf text = BUF_INIT;

	if (strncmp(argv[at], "--schema=", 9) == 0)
		kind = argv[at] + 9;
	if (kind && !schema_text(kind)) {
		err_set(EX_USAGE, "there is no record kind '%.40s'", kind);
		return usage_error(p, NULL);
	}
	if (kind)
		buf_adds(&text, schema_text(kind));
	for (int i = 0; !kind && p->kinds[i]; i++)
		buf_adds(&text, schema_text(p->kinds[i]));
	return print_and_finish(&text);
}

static int print_completion(const struct program *p, const char *shell)
{
	struct buf text = BUF_INIT;

	if (!shell || strcmp(shell, "bash") != 0) {
		err_set(EX_USAGE, "--completion: only bash is known");
		return usage_error(p, NULL);
	}
	complete_bash(&text, p, common_opts);
	return print_and_finish(&text);
}

static int run_command(const struct program *p, const struct command *c, int argc,
	char **argv)
{
	struct buf text = BUF_INIT;
	int nargs;

	/* --help answers even where a required option is missing */
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
		if (strcmp(argv[i], "--help") && strcmp(argv[i], "-h"))
			continue;
		opt_help(&text, p->name, c);
		return print_and_finish(&text);
	}
	if (opt_parse(c, common_opts, argc, argv, &nargs) < 0)
		return usage_error(p, c);
	if (prog.version) {
		buf_addf(&text, "%s %s\n", p->name, RNP_VERSION);
		return print_and_finish(&text);
	}
	out_use_table(prog.table, c->columns);
	return finish(c->run(nargs, argv + 1));
}

/* name: what stands in the subcommand's place, or NULL */
static int no_command(const struct program *p, const char *name, int argc, char **argv)
{
	static const struct command none = { .name = "", .args_max = -1 };
	struct buf text = BUF_INIT;
	int nargs;

	if (opt_parse(&none, common_opts, argc, argv, &nargs) < 0) {
		/* the options may be those of the subcommand that is missing */
		if (!name)
			return usage_error(p, NULL);
		err_clear();
		prog.help = prog.version = false;
	}
	if (prog.help)
		print_overview(&text, p);
	else if (prog.version)
		buf_addf(&text, "%s %s\n", p->name, RNP_VERSION);
	if (text.len)
		return print_and_finish(&text);
	if (p->later)
		err_set(EX_UNAVAILABLE, "%s", p->later);
	else if (name)
		err_set(EX_USAGE, "there is no subcommand '%.40s'", name);
	else
		err_set(EX_USAGE, "no subcommand given");
	return p->later ? err_report() : usage_error(p, NULL);
}

/* Where a standard stream is closed, the next file or socket would get its number, and what
 * is printed would end up there. Something that cannot be used takes the place. */
static void occupy_closed_streams(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			(void)!open("/dev/null",
				fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

/* --log is looked for first: it also decides how errors of the other options are printed. */
static void find_log_form(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
		if (strcmp(argv[i], "--log=json") == 0 ||
			(strcmp(argv[i], "--log") == 0 && i + 1 < argc &&
				strcmp(argv[i + 1], "json") == 0))
			prog.log = "json";
}

int prog_main(const struct program *p, int argc, char **argv)
{
	const struct command *c = NULL;
	int at = 1;

	prog.name = p->name;
	/* a reader that went away is an error of writing, not a silent death */
	signal(SIGPIPE, SIG_IGN);
	/* so is a limit on the size of files */
	signal(SIGXFSZ, SIG_IGN);
	io_watch_signals();
	occupy_closed_streams();
	find_log_form(argc, argv);
	if (clock_check_env() < 0)
		return err_report();
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
		if (strncmp(argv[i], "--schema", 8) == 0 &&
			(!argv[i][8] || argv[i][8] == '='))
			return print_schemas(p, argc, argv, i);
		if (strcmp(argv[i], "--completion") == 0)
			return print_completion(p, argv[i + 1]);
	}
	/* options common to all may stand before the subcommand */
	while (at < argc && argv[at][0] == '-' && argv[at][1]) {
		bool log_value = strcmp(argv[at], "--log") == 0;

		at += 1 + log_value;
	}
	if (at < argc)
		c = find_command(p, argv[at]);
	if (!c)
		return no_command(p, at < argc ? argv[at] : NULL, argc, argv);
	memmove(argv + at, argv + at + 1, (size_t)(argc - at) * sizeof *argv);
	return run_command(p, c, argc - 1, argv);
}
