/* prog.c - does what is common to all programs: finds the subcommand, answers --help and the like,
 * reports errors. */
#include "common/cli/prog.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/cli/complete.h"
#include "common/cli/human.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/suggest.h"
#include "common/json/json.h"
#include "common/cli/out.h"
#include "common/cli/progress.h"
#include "common/cli/settings.h"
#include "common/json/schema.h"
#include "common/base/utf8.h"

#ifndef RNP_VERSION
#define RNP_VERSION "0.0.0"
#endif

#define RED    "\033[31m"
#define YELLOW "\033[33m"
#define PLAIN  "\033[0m"

static struct {
	const char *name;
	bool help, version, table, json;
	bool quiet;
	int verbose;
	const char *log, *color;
	bool colour; /* of standard error */
} prog;

static const struct opt common_opts[] = {
	OPT_SWITCH("help", &prog.help, "print this help", .letter = 'h'),
	OPT_SWITCH("version", &prog.version, "print the version"),
	OPT_SWITCH("quiet", &prog.quiet, "only errors on standard error", .letter = 'q'),
	OPT(COUNT, "verbose", &prog.verbose, NULL, "say more on standard error",
		.letter = 'v'),
	OPT(CHOICE, "log", &prog.log, NULL, "form of standard error (default text)",
		.choices = "text|json"),
	OPT_SWITCH("table", &prog.table,
		"for people: tables and units (default on a terminal)"),
	OPT_SWITCH("json", &prog.json, "JSON Lines (default in a pipe or file)"),
	OPT(CHOICE, "color", &prog.color, NULL, "colours (default auto: on a terminal)",
		.choices = "auto|always|never"),
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

	progress_wipe();
	if (code == EX_IOERR && out_reader_left()) {
		/* `rnp-X ... | head` is not an error worth reporting */
	} else if (log_is_json()) {
		json_t *record = json_record("rnp.error");

		json_set_i64(record, "code", code);
		json_set_text(record, "message", e->text);
		if (e->hint[0])
			json_set_text(record, "hint", e->hint);
		print_json(record);
	} else {
		fprintf(stderr, "%s%s:%s %s%s%s%s\n", prog.colour ? RED : "", prog.name,
			prog.colour ? PLAIN : "", e->text, e->hint[0] ? " (" : "",
			e->hint, e->hint[0] ? ")" : "");
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
	progress_wipe();
	fprintf(stderr, "%s%s:%s %s\n",
		!prog.colour          ? "" :
			*level == 'e' ? RED :
			*level == 'w' ? YELLOW :
					"",
		prog.name, prog.colour ? PLAIN : "", text);
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

/* Whether command number i is the first of its group. */
static bool begins_group(const struct program *p, int i)
{
	const char *group = p->commands[i]->group;
	const char *before = i ? p->commands[i - 1]->group : NULL;

	return group && (!before || strcmp(before, group) != 0);
}

static void print_overview(struct buf *out, const struct program *p)
{
	buf_addf(out, "usage: %s SUBCOMMAND [options] [file ...]\n\n%s\n", p->name,
		p->summary);
	for (int i = 0; p->commands[i]; i++) {
		if (begins_group(p, i))
			buf_addf(out, "\nFor a %s:\n", p->commands[i]->group);
		else if (!i)
			buf_addc(out, '\n');
		buf_addf(out, "  %-10s  ", p->commands[i]->name);
		opt_wrap(out, p->commands[i]->summary, 14);
	}
	buf_addf(out, "\n'%s help SUBCOMMAND' says more. Common to all:\n\n", p->name);
	for (const struct opt *o = common_opts; o->kind != OPT_END; o++) {
		char label[40];

		snprintf(label, sizeof label, "%s%s%s", o->name, o->choices ? " " : "",
			o->choices ? o->choices : "");
		buf_addf(out, "  %s%c%s--%-24s  ", o->letter ? "-" : " ",
			o->letter ? o->letter : ' ', o->letter ? ", " : "  ", label);
		opt_wrap(out, o->help, 34);
	}
	buf_addf(out, "      --%-24s  JSON Schema of the record kinds\n",
		"schema [KIND]");
	buf_addf(out, "      --%-24s  completion script for a shell\n",
		"completion bash|zsh|fish");
	opt_overview_examples(out, p->name);
	buf_addf(out, "\nSee %s(1).\n", p->name);
}

static int finish(int code)
{
	/* a result that was not written does not count, "no" included */
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
	if (c)
		buf_addf(&usage, "try '%s help %s'\n", p->name, c->name);
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
		struct suggest near = { .wanted = kind };
		char words[100];

		for (int i = 0; p->kinds[i]; i++) {
			suggest_offer(&near, p->kinds[i], strlen(p->kinds[i]));
			/* "node" means rnp.node */
			if (strcmp(p->kinds[i] + 4, kind) == 0)
				snprintf(near.best, sizeof near.best, "%s", p->kinds[i]);
		}
		err_set(EX_USAGE, "there is no record kind '%.40s'%s", kind,
			suggest_text(&near, words, sizeof words));
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

	if (shell && strcmp(shell, "bash") == 0) {
		complete_bash(&text, p, common_opts);
	} else if (shell && strcmp(shell, "zsh") == 0) {
		complete_zsh(&text, p, common_opts);
	} else if (shell && strcmp(shell, "fish") == 0) {
		complete_fish(&text, p, common_opts);
	} else if (shell && strcmp(shell, "table") == 0) {
		complete_table(&text, p, common_opts);
	} else {
		err_set(EX_USAGE, "--completion: bash, zsh, fish or table");
		return usage_error(p, NULL);
	}
	return print_and_finish(&text);
}

int64_t prog_watch_ms;
bool prog_example;

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
	(void)number;
	interrupted = 1;
}

/* A terminal is cleared with the first bytes of the new answer, so that it does not flicker. */
static void watch_heading(const struct program *p, const struct command *c)
{
	static char buffer[1 << 16];
	char at[CLOCK_TEXT_MAX];
	struct buf every = BUF_INIT;

	human_duration(&every, (double)prog_watch_ms / 1e3);
	clock_format(at, clock_now_ms());
	setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
	printf("\033[H\033[2J%s %s, every %s, at %.19sZ; Ctrl-C ends\n\n", p->name,
		c->name, every.data, at);
	buf_release(&every);
}

/* Whether it is of use to try again: an answer, a clear no, or what may be there later. */
static bool may_change(int code)
{
	return code == EX_OK || code == EXIT_NO || code == EX_UNAVAILABLE ||
		code == EX_TEMPFAIL;
}

/* The command again and again, each time in a process of its own. Returns the last exit code;
 * Ctrl-C is an end like any other. */
static int watch(const struct program *p, const struct command *c, int nargs, char **args,
	const struct out_form *form)
{
	struct sigaction action = { .sa_handler = on_interrupt };
	int status = 0, code = EX_OK;

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	while (!interrupted && may_change(code)) {
		struct timespec left = { prog_watch_ms / 1000,
			prog_watch_ms % 1000 * 1000000 };
		pid_t pid = fork();

		if (pid < 0) {
			err_sys(EX_OSERR, "cannot start a process");
			return err_report();
		}
		if (pid == 0) {
			signal(SIGINT, SIG_DFL);
			signal(SIGTERM, SIG_DFL);
			out_use(form); /* times are relative to now */
			if (form->people && out_is_terminal())
				watch_heading(p, c);
			_exit(finish(c->run(nargs, args)));
		}
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			kill(pid, SIGTERM);
		if (interrupted)
			break;
		code = WIFEXITED(status) ? WEXITSTATUS(status) : EX_SOFTWARE;
		if (may_change(code))
			nanosleep(&left, NULL);
	}
	return code;
}

static int run_command(const struct program *p, const struct command *c, int argc,
	char **argv)
{
	struct buf text = BUF_INIT;
	struct out_form form;
	int nargs, code;

	/* --help and --example answer even where a required option is missing */
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
		if (c->example && strcmp(argv[i], "--example") == 0) {
			buf_adds(&text, c->example);
			return print_and_finish(&text);
		}
		if (strcmp(argv[i], "--help") && strcmp(argv[i], "-h"))
			continue;
		opt_help(&text, p->name, c);
		return print_and_finish(&text);
	}
	if (settings_load() < 0)
		return err_report();
	opt_use_settings(settings_find);
	opt_use_elsewhere(p->elsewhere);
	if (opt_parse(c, common_opts, argc, argv, &nargs) < 0)
		return usage_error(p, c);
	if (prog.json && prog.table) {
		err_set(EX_USAGE, "--json and --table exclude each other");
		return usage_error(p, c);
	}
	prog.colour = out_wants_colour(prog.color, STDERR_FILENO);
	if (prog.version) {
		buf_addf(&text, "%s %s\n", p->name, RNP_VERSION);
		return print_and_finish(&text);
	}
	form = (struct out_form){
		.people = prog.table || (!prog.json && out_is_terminal()),
		.card = c->card,
		.columns = c->columns,
		.colour = out_wants_colour(prog.color, STDOUT_FILENO),
	};
	out_use(&form);
	code = prog_watch_ms ? watch(p, c, nargs, argv + 1, &form) :
			       finish(c->run(nargs, argv + 1));
	settings_release();
	return code;
}

static void no_such_command(const struct program *p, const char *name)
{
	/* words of other programs that people know, and of ours, and what does it here */
	static const struct {
		const char *program, *word, *here;
	} elsewhere[] = {
		{ "rnp-serve", "pull",
			"a model is a .gguf file, or a folder with safetensors: download one, then "
			"rnp-serve run --model PATH" },
		{ "rnp-serve", "serve", "rnp-serve run serves a model" },
		{ "rnp-serve", "start", "rnp-serve run serves a model" },
		{ "rnp-serve", "chat",
			"rnp-serve run serves a page to chat, rnp-serve ask answers once" },
		{ "rnp-serve", "generate", "rnp-serve ask continues a text" },
		{ "rnp-serve", "complete", "rnp-serve ask continues a text" },
		{ "rnp-serve", "show", "rnp-serve inspect shows a model" },
		{ "rnp-serve", "list", "GET /v1/models lists what a server has" },
		{ "rnp-train", "train", "rnp-train run trains a model" },
		{ "rnp-train", "finetune", "rnp-train run --model M goes on training M" },
		{ "rnp-train", "generate", "rnp-serve ask continues a text" },
		{ "rnp-train", "serve", "rnp-serve run serves a model" },
		{ "rnp-train", "convert", "rnp-train export writes other formats" },
		{ "rnp-register", "register",
			"rnp-register setup makes this machine a node, rnp-register submit sends a record" },
		{ "rnp-register", "init",
			"rnp-register setup makes this machine a node" },
		{ "rnp-register", "keys", "rnp-register keygen makes a key" },
		{ "rnp-register", "search", "rnp-register list finds nodes" },
		{ "rnp-price", "earnings",
			"rnp-price estimate tells what a day would leave" },
		{ "rnp-reward", "claim", "rnp-reward proof makes what a claim needs" },
		{ "rnp-reward", "balance", "rnp-reward pay --status tells what is paid" },
	};
	struct suggest near = { .wanted = name };
	const char *known = NULL;
	char words[100];

	for (int i = 0; p->commands[i]; i++)
		suggest_offer(&near, p->commands[i]->name, strlen(p->commands[i]->name));
	suggest_offer(&near, "help", 4);
	for (size_t i = 0; !known && i < sizeof elsewhere / sizeof *elsewhere; i++)
		if (strcmp(p->name, elsewhere[i].program) == 0 &&
			strcmp(name, elsewhere[i].word) == 0)
			known = elsewhere[i].here;
	if (known)
		err_set(EX_USAGE, "there is no subcommand '%.40s'; %s", name, known);
	else
		err_set(EX_USAGE, "there is no subcommand '%.40s'%s", name,
			suggest_text(&near, words, sizeof words));
}

/* Handles help [SUBCOMMAND]; --synopsis before it prints only the line with all options, for
 * the man page. */
static int print_help(const struct program *p, int argc, char **argv)
{
	bool synopsis = argc > 1 && strcmp(argv[0], "--synopsis") == 0;
	const char *name = argc > synopsis ? argv[synopsis] : NULL;
	const struct command *c = name ? find_command(p, name) : NULL;
	struct buf text = BUF_INIT;

	if (name && !c && name[0] != '-') {
		no_such_command(p, name);
		return usage_error(p, NULL);
	}
	if (c && synopsis)
		opt_synopsis(&text, p->name, c);
	else if (c)
		opt_help(&text, p->name, c);
	else
		print_overview(&text, p);
	return print_and_finish(&text);
}

/* name: the argument in the subcommand's place, or NULL */
static int no_command(const struct program *p, const char *name, int argc, char **argv)
{
	static const struct command none = { .name = "", .args_max = -1 };
	struct buf text = BUF_INIT;
	int nargs;

	if (opt_parse(&none, common_opts, argc, argv, &nargs) < 0) {
		/* the options may belong to the missing subcommand */
		if (!name)
			return usage_error(p, NULL);
		err_clear();
		prog.help = prog.version = false;
	}
	/* help about what there is not would look like an answer */
	if (prog.help && !name)
		print_overview(&text, p);
	else if (prog.version && !name)
		buf_addf(&text, "%s %s\n", p->name, RNP_VERSION);
	if (text.len)
		return print_and_finish(&text);
	if (name)
		no_such_command(p, name);
	else
		err_set(EX_USAGE, "no subcommand given");
	return usage_error(p, NULL);
}

/* If a standard stream is closed, the next file or socket would get its number, and output
 * would end up there. An unusable descriptor takes its place. */
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

static void warn(const char *text)
{
	prog_warn("%s", text);
}

int prog_main(const struct program *p, int argc, char **argv)
{
	const struct command *c = NULL;
	int at = 1;

	prog.name = p->name;
	err_listen(warn);
	/* a closed pipe is a write error, not a silent death */
	signal(SIGPIPE, SIG_IGN);
	/* so is exceeding the limit on file sizes */
	signal(SIGXFSZ, SIG_IGN);
	io_watch_signals();
	occupy_closed_streams();
	find_log_form(argc, argv);
	prog.colour = out_wants_colour(NULL, STDERR_FILENO);
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
		bool value = strcmp(argv[at], "--log") == 0 ||
			strcmp(argv[at], "--color") == 0;

		at += 1 + value;
	}
	if (at < argc && strcmp(argv[at], "help") == 0)
		return print_help(p, argc - at - 1, argv + at + 1);
	if (at < argc)
		c = find_command(p, argv[at]);
	if (!c)
		return no_command(p, at < argc ? argv[at] : NULL, argc, argv);
	memmove(argv + at, argv + at + 1, (size_t)(argc - at) * sizeof *argv);
	return run_command(p, c, argc - 1, argv);
}
