/* complete.c - the script names every subcommand, option, choice and kind (bash runs
 * it in tests/suite/cli.bats). */
#include "common/cli/complete.h"

#include "tests/unit/test.h"

static bool flag;
static const char *text, *form;

static const struct opt opts[] = {
	OPT_SWITCH("fast", &flag, "f"),
	OPT(CHOICE, "form", &form, NULL, "f", .choices = "a|b"),
	OPT(TEXT, "out", &text, "F", "f"),
	OPT(TEXT, "policy", &text, "P", "f", .words = "p1|p2"),
	{ 0 },
};
static const struct opt common[] = {
	OPT_SWITCH("quiet", &flag, "q"),
	{ 0 },
};
static const struct command one = { .name = "one", .opts = opts },
			    two = { .name = "two" };
static const struct command *const commands[] = { &one, &two, NULL };
static const char *const kinds[] = { "rnp.a", "rnp.b", NULL };
static const struct program program = {
	.name = "rnp-x",
	.commands = commands,
	.kinds = kinds,
};

int main(void)
{
	struct buf out = BUF_INIT;

	complete_bash(&out, &program, common);
	CHECK(strstr(out.data, "\tone:--form) words='a b' ;;\n") != NULL);
	CHECK(strstr(out.data, "\tone:--out) words='' ;;\n") != NULL);
	CHECK(strstr(out.data, "\tone:--policy) words='p1 p2' files=1 ;;\n") != NULL);
	CHECK(strstr(out.data, "one:--fast)") == NULL);
	CHECK(strstr(out.data, "\t\tone) words=' --fast --form --out --policy' ;;\n") !=
		NULL);
	CHECK(strstr(out.data, "\t\ttwo) words='' ;;\n") != NULL);
	CHECK(strstr(out.data, "\t\thelp) words=' one two' ;;\n") != NULL);
	CHECK(strstr(out.data, " one two help --schema --completion'") != NULL);
	CHECK(strstr(out.data, "\t*:--schema) words=' rnp.a rnp.b' ;;\n") != NULL);
	CHECK(strstr(out.data, "words+=' --quiet'") != NULL);
	CHECK(strstr(out.data, "complete -o default -F _rnp_x rnp-x\n") != NULL);
	buf_release(&out);
	TEST_END();
}
