/* fuzz_text.c - fuzz target: numbers, units, times and whole command lines.
 *
 * The first byte selects the parser of the rest; a command line's arguments are split at
 * newlines. It checks that an error has a message and the right code and leaves the value
 * alone; and that an accepted time can be written and read again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/money.h"
#include "common/base/num.h"
#include "common/cli/opt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define UNTOUCHED INT64_C(-7777777)
#define ARGS_MAX  32

static void must(bool promise)
{
	if (!promise)
		abort();
}

static void check_result(int rc, int64_t v)
{
	if (rc == 0)
		return;
	must(rc == -1 && v == UNTOUCHED);
	must(err_get()->code == EX_DATAERR && err_get()->text[0]);
}

static void check_time(const char *text)
{
	char again[CLOCK_TEXT_MAX];
	int64_t ms = UNTOUCHED, ms2;
	int rc = clock_parse(text, "time", &ms);

	check_result(rc, ms);
	if (rc < 0)
		return;
	clock_format(again, ms);
	must(clock_parse(again, "time", &ms2) == 0 && ms2 == ms);
}

/* A decimal that was read exactly prints as a text that reads as the same value. */
static void check_decimal(const char *text, int decimals)
{
	struct buf again = BUF_INIT;
	int64_t v = UNTOUCHED, exact = UNTOUCHED, v2 = 0;
	int rc = num_decimal(text, "n", decimals, 1, &v);

	check_result(rc, v);
	if (rc == 0) {
		money_format(&again, v, decimals);
		must(num_decimal(again.data, "n", decimals, 0, &v2) == 0 && v2 == v);
		buf_release(&again);
	}
	if (num_decimal(text, "n", decimals, 0, &exact) == 0)
		must(rc == 0 && exact == v);
}

static void check_command_line(char *text)
{
	static bool flag, help;
	static int count;
	static const char *word, *choice;
	static struct opt_list list;
	static int64_t i64, size, time, duration, usd, render;
	static uint64_t u64;
	static double f64;
	/* clang-format off */
	static const struct opt opts[] = {
		OPT_SWITCH("flag", &flag, "f", .letter = 'f'),
		OPT(TEXT, "word", &word, "W", "w", .letter = 'w'),
		OPT(CHOICE, "choice", &choice, NULL, "c", .choices = "a|bc|d"),
		OPT(LIST, "list", &list, "L", "l", .letter = 'l'),
		OPT_IN(I64, "i64", &i64, "N", -5, 5, "n", .letter = 'n'),
		OPT(U64, "u64", &u64, "N", "n"),
		OPT(F64, "f64", &f64, "N", "n"),
		OPT(SIZE, "size", &size, "N", "n"),
		OPT(TIME, "time", &time, "T", "n"),
		OPT(DURATION, "duration", &duration, "D", "n"),
		OPT(USD, "usd", &usd, "USD", "n"),
		OPT(RENDER, "render", &render, "R", "n"),
		{ 0 },
	};
	static const struct opt common[] = {
		OPT_SWITCH("help", &help, "h", .letter = 'h'),
		OPT(COUNT, "verbose", &count, NULL, "v", .letter = 'v'),
		{ 0 },
	};
	/* clang-format on */
	static const struct command command = { .name = "fuzz",
		.arguments = "[file ...]",
		.args_max = 3,
		.opts = opts };
	char *argv[ARGS_MAX + 1] = { (char *)"fuzz" };
	int argc = 1, nargs = 0;

	for (char *s = text; s && argc < ARGS_MAX; argc++) {
		argv[argc] = s;
		s = strchr(s, '\n');
		if (s)
			*s++ = '\0';
	}
	if (opt_parse(&command, common, argc, argv, &nargs) == 0)
		must(nargs >= 0 && nargs <= 3 && nargs < argc);
	else
		must(err_get()->code == EX_USAGE && err_get()->text[0]);
	opt_list_release(&list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int64_t v = UNTOUCHED;
	uint64_t u = (uint64_t)UNTOUCHED;
	double d = (double)UNTOUCHED;
	char *text;

	if (!size)
		return 0;
	text = xstrndup((const char *)data + 1, size - 1);
	switch (data[0] % 8) {
	case 0:
		check_result(num_i64(text, "n", -1000, INT64_MAX, &v), v);
		break;
	case 1:
		check_result(num_u64(text, "n", &u), (int64_t)u);
		break;
	case 2:
		check_result(num_f64(text, "n", &d),
			(int64_t)(d < -1e18 || d > 1e18 ? 0 : d));
		break;
	case 3:
		check_decimal(text, data[0] / 8 % 10);
		break;
	case 4:
		check_result(num_size(text, "n", &v), v);
		break;
	case 5:
		check_result(num_duration_ms(text, "n", &v), v);
		break;
	case 6:
		check_time(text);
		break;
	default:
		check_command_line(text);
		break;
	}
	free(text);
	return 0;
}
