/* opt.c - one table gives parser, usage and help. */
#include "common/cli/opt.h"

#include <stdlib.h>

#include "tests/unit/test.h"

static struct {
	bool flag, quiet;
	int verbose;
	const char *word, *choice, *address;
	struct opt_list list, addresses;
	int64_t n, least, size, duration, time, usd, render;
	uint64_t u;
	double f;
} got;

/* clang-format off */
static const struct opt opts[] = {
	OPT_SWITCH("flag", &got.flag, "a flag", .letter = 'f'),
	OPT(TEXT, "word", &got.word, "W", "a word", .letter = 'w', .required = true),
	OPT(CHOICE, "choice", &got.choice, "C", "one of them", .choices = "a|bc|d"),
	OPT(LIST, "list", &got.list, "K=V", "again and again", .letter = 'l'),
	OPT_IN(I64, "n", &got.n, "N", -5, 5, "a number", .letter = 'n'),
	OPT(I64, "least", &got.least, "N", "1 or more", .min = 1),
	OPT(U64, "u", &got.u, "N", "u"),
	OPT(F64, "f64", &got.f, "X", "f"),
	OPT(SIZE, "size", &got.size, "SIZE", "s"),
	OPT(DURATION, "duration", &got.duration, "D", "d"),
	OPT(TIME, "time", &got.time, "T", "t"),
	OPT(USD, "usd", &got.usd, "USD", "usd"),
	OPT(TEXT, "address", &got.address, "A", "a", .address = true),
	OPT(LIST, "addresses", &got.addresses, "A", "a", .address = true),
	OPT(RENDER, "a-very-long-name-of-an-option", &got.render, "RENDER", "long"),
	{ 0 },
};
static const struct opt common[] = {
	OPT_SWITCH("quiet", &got.quiet, "q", .letter = 'q'),
	OPT(COUNT, "verbose", &got.verbose, NULL, "v", .letter = 'v'),
	{ 0 },
};
/* clang-format on */
static const struct command command = {
	.name = "sub",
	.arguments = "[file ...]",
	.args_max = 2,
	.summary = "Does it.",
	.details = "Reads and writes.",
	.opts = opts,
};

/* Parse a command line given with its words; the arguments come back joined by commas. */
static int parse(struct buf *args, int argc, const char **words)
{
	char *argv[32] = { (char *)"sub" };
	int nargs = 0, rc;

	opt_list_release(&got.list);
	opt_list_release(&got.addresses);
	memset(&got, 0, sizeof got);
	for (int i = 0; i < argc; i++)
		argv[i + 1] = (char *)words[i];
	rc = opt_parse(&command, common, argc + 1, argv, &nargs);
	buf_reset(args);
	for (int i = 1; rc == 0 && i <= nargs; i++)
		buf_addf(args, "%s,", argv[i]);
	return rc;
}

#define PARSE(...)                                                             \
	parse(&args, sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *), \
		(const char *[]){ __VA_ARGS__ })

static struct buf args;

static void check_forms(void)
{
	CHECK(PARSE("--word", "x") == 0);
	CHECK_TEXT("x", got.word);
	CHECK(PARSE("--word=", "-f") == 0 && got.flag && got.word[0] == '\0');
	CHECK(PARSE("-fwx", "-vv", "-v") == 0 && got.flag && got.verbose == 3);
	CHECK_TEXT("x", got.word);
	CHECK(PARSE("-w", "x", "a", "-q", "-") == 0 && got.quiet);
	CHECK_TEXT("a,-,", buf_text(&args));
	CHECK(PARSE("-w", "x", "--", "-q", "--") == 0 && !got.quiet);
	CHECK_TEXT("-q,--,", buf_text(&args));
	CHECK(PARSE("-w", "--", "b") == 0); /* a value may look like an option */
	CHECK_TEXT("--", got.word);
	CHECK_TEXT("b,", buf_text(&args));
	CHECK(PARSE("-wx", "--list", "a=1", "-lb=2", "--list=c=3") == 0 &&
		got.list.n == 3);
	CHECK_TEXT("c=3", got.list.items[2]);
	CHECK(PARSE("-wx", "--choice", "bc") == 0);
	CHECK_TEXT("bc", got.choice);
	CHECK(PARSE("-wx", "--word", "later") == 0); /* the last one counts */
	CHECK_TEXT("later", got.word);
}

#define ADDRESS "4vJ9JU1bJJE96FWSJKvHsmmFADCg4gpZQff4P3bkLKi"

static void check_values(void)
{
	CHECK(PARSE("-wx", "-n-5", "--u", "18446744073709551615", "--f64=-1e3",
		      "--size=1KiB", "--duration", "250ms", "--time=1970-01-01T00:00:01Z",
		      "--usd", "1.90",
		      "--a-very-long-name-of-an-option=2.00000001") == 0);
	CHECK_I64(-5, got.n);
	CHECK(got.u == UINT64_MAX && got.f == -1000);
	CHECK_I64(1024, got.size);
	CHECK_I64(250, got.duration);
	CHECK_I64(1000, got.time);
	CHECK_I64(1900000, got.usd);
	CHECK_I64(200000001, got.render);
	CHECK(PARSE("-wx", "--least", "1") == 0 && got.least == 1);
	CHECK(PARSE("-wx", "--address", ADDRESS, "--addresses", ADDRESS) == 0);
	CHECK_TEXT(ADDRESS, got.address);
	CHECK(got.addresses.n == 1);
	CHECK(PARSE("-wx", "--least=9223372036854775807") == 0 && got.least == INT64_MAX);
}

static void check_bad(void)
{
	CHECK_FAILS(EX_USAGE, PARSE("-f"));
	CHECK_FAILS(EX_USAGE, PARSE("-wx", "--nope"));
	CHECK_FAILS(EX_USAGE, PARSE("-wx", "--wor", "y"));
	CHECK_FAILS(EX_USAGE, PARSE("-wx", "--flag=yes"));
	CHECK_FAILS(EX_USAGE, PARSE("-wx", "-z"));
	CHECK_FAILS(EX_USAGE, PARSE("--word"));
	CHECK_FAILS(EX_USAGE, PARSE("-w"));
	CHECK_FAILS(EX_USAGE, PARSE("-wx", "--choice", "b"));
	CHECK_FAILS(EX_USAGE, PARSE("-wx", "--choice", ""));
	CHECK_FAILS(EX_USAGE, PARSE("-wx", "--choice", "a|bc"));
	CHECK_FAILS(EX_USAGE, PARSE("-wx", "-n", "6"));
	CHECK_FAILS(EX_USAGE, PARSE("-wx", "-n", "4x"));
	CHECK_FAILS(EX_USAGE, PARSE("-wx", "--least", "0"));
	CHECK_FAILS(EX_USAGE, PARSE("-wx", "--size", "-1"));
	CHECK_FAILS(EX_USAGE, PARSE("-wx", "--size", "1.0001B"));
	CHECK_FAILS(EX_USAGE, PARSE("-wx", "--usd", "-1"));
	CHECK_FAILS(EX_USAGE, PARSE("-wx", "--usd", "0.0000001"));
	CHECK_FAILS(EX_USAGE, PARSE("-wx", "--time", "noon"));
	CHECK_FAILS(EX_USAGE, PARSE("-wx", "--address", "nobody"));
	CHECK_FAILS(EX_USAGE, PARSE("-wx", "--addresses", ADDRESS, "--addresses", ""));
	CHECK_FAILS(EX_USAGE, PARSE("-wx", "a", "b", "c"));
	PARSE("-wx", "a", "b", "c");
	CHECK_TEXT("unexpected argument 'c'", err_get()->text);
	PARSE("-wx", "-n", "6");
	CHECK_TEXT("--n: 6 is above 5", err_get()->text);
	PARSE("-wx", "--least", "0");
	CHECK_TEXT("--least: 0 is below 1", err_get()->text);
	PARSE("-f");
	CHECK_TEXT("option --word W is required", err_get()->text);
	err_clear();
}

/* Names of other programs are answered with what they are here, where the command has it. */
static void check_elsewhere(void)
{
	static const struct opt_elsewhere names[] = { { "term", "--nothing T" },
		{ "term", "--word W" }, { "-t", "--word W" },
		{ "standing", "one argument" }, { NULL, NULL } };

	opt_use_elsewhere(names);
	PARSE("--term=5");
	CHECK_TEXT("there is no option --term; here it is --word W", err_get()->text);
	PARSE("-fty");
	CHECK_TEXT("there is no option -t; here it is --word W", err_get()->text);
	PARSE("--standing");
	CHECK_TEXT("there is no option --standing", err_get()->text); /* it takes two */
	opt_use_elsewhere(NULL);
	PARSE("-t");
	CHECK_TEXT("there is no option -t", err_get()->text);
	err_clear();
}

/* What stands alone, where nothing may, is taken for the value that is missing. */
static void check_found(void)
{
	const struct command alone = { .name = "sub", .opts = opts };
	char *argv[] = { (char *)"sub", (char *)"x", NULL };
	int nargs;

	CHECK(opt_parse(&alone, common, 2, argv, &nargs) < 0);
	CHECK_TEXT("option --word W is required; did you mean --word x?",
		err_get()->text);
	err_clear();
}

static void check_help(void)
{
	struct buf text = BUF_INIT;

	opt_usage(&text, "rnp-x", &command);
	CHECK_TEXT("usage: rnp-x sub --word W [options] [file ...]\n", text.data);
	buf_reset(&text);
	opt_synopsis(&text, "rnp-x", &command);
	CHECK_TEXT(
		"rnp-x sub --word W [--flag] [--choice a|bc|d] [--list K=V]... [--n N]"
		" [--least N] [--u N] [--f64 X] [--size SIZE] [--duration D] [--time T]"
		" [--usd USD] [--address A] [--addresses A]... [--a-very-long-name-of-an-option RENDER] [file ...]\n",
		text.data);
	buf_reset(&text);
	opt_help(&text, "rnp-x", &command);
	CHECK(strncmp(text.data, "usage: rnp-x sub --word W", 25) == 0);
	CHECK(strstr(text.data, "\n\nDoes it.\n\n  -f, --flag      ") != NULL);
	CHECK(strstr(text.data, "\n  --choice a|bc|d  one of them\n") != NULL);
	CHECK(strstr(text.data, "\n  --a-very-long-name-of-an-option RENDER\n     ") !=
		NULL);
	CHECK(strstr(text.data, "\n\nReads and writes.\n\nSee rnp-x(1).\n") != NULL);
	buf_release(&text);
}

int main(void)
{
	check_forms();
	check_values();
	check_bad();
	check_elsewhere();
	check_found();
	check_help();
	opt_list_release(&got.list);
	opt_list_release(&got.addresses);
	buf_release(&args);
	TEST_END();
}
