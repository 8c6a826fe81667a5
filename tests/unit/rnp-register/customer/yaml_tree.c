/* yaml_tree.c - plain words by both versions of YAML, and trees with places. */
/* uses: cmd/rnp-register */
#include "cmd/rnp-register/customer/yaml_tree.h"

#include "tests/unit/test.h"

static char kind_of(const char *word)
{
	static const char letters[] = "nbirt";
	struct yaml v = { .text = word };

	yaml_resolve(&v);
	return v.doubt ? '?' : letters[v.type];
}

/* Each word of a list is of that kind: n null, b bool, i int, r real, t text, ? in doubt. */
static void check_kind(char kind, const char *words)
{
	char copy[400], *word, *rest = copy;

	snprintf(copy, sizeof copy, "%s", words);
	while ((word = strsep(&rest, " "))) {
		test_checks++;
		if (kind_of(word) != kind) {
			test_failures++;
			fprintf(stderr, "'%s' is '%c', not '%c'\n", word, kind_of(word),
				kind);
		}
	}
}

static void check_words(void)
{
	check_kind('n', "~ null Null NULL");
	CHECK_I64('n', kind_of(""));
	check_kind('b', "true True TRUE false False FALSE");
	check_kind('i', "0 7 -12 +5 9223372036854775807 -9223372036854775808");
	check_kind('r', "0.5 1. .5 -3.25 1.0e-5 1.5E+10 00.5");
	check_kind('t',
		"a 1e5 1.0e5 -.5 1.2.3 v1 - -- _ _1 0:0 00:30 10:99 tRUE nulL 12a 2026-11 1-2");
	check_kind('?',
		"yes No ON off 0644 08 +07 0o17 0x1F 0b1 1_000 1_000.5 .5_ 12:30 190:20:30.15 .inf -.Inf .nan << = 9223372036854775808");
	check_kind('?', "2026-11-29 2001-12-14t21:59:43.10-05:00 2001-1-1T1:00:00Z");
}

static const struct yaml *read_text(struct arena *a, const char *text)
{
	return yaml_read(a, text, strlen(text), "f");
}

static void check_tree(void)
{
	struct arena a = ARENA_INIT;
	const struct yaml *root = read_text(&a,
		"a: 1\nb:\n  - x\n  - {c: \"y\\u00e9\", d: null}\nlong name: |\n  one\n  two\n");
	const struct yaml *list = yaml_get(root, "b"), *map;

	CHECK(root && list && !yaml_get(root, "c"));
	CHECK_I64(3, (int64_t)yaml_count(root));
	CHECK_I64(YAML_INT, yaml_get(root, "a")->type);
	CHECK_I64(2, (int64_t)yaml_count(list));
	CHECK_TEXT("x", list->first->text);
	map = list->first->next;
	CHECK_I64(4, map->line);
	CHECK_I64(5, map->column);
	CHECK_TEXT("y\xc3\xa9", yaml_get(map, "c")->text);
	CHECK_I64(YAML_NULL, yaml_get(map, "d")->type);
	CHECK_TEXT("one\ntwo\n", yaml_get(root, "long name")->text);
	CHECK_I64(5, yaml_get(root, "long name")->key_line);
	arena_release(&a);
}

static void check_limits(void)
{
	struct arena a = ARENA_INIT;
	char deep[200];

	memset(deep, 0, sizeof deep);
	memcpy(deep, "a: ", 3);
	memset(deep + 3, '[', YAML_DEPTH_MAX - 1);
	memset(deep + 3 + YAML_DEPTH_MAX - 1, ']', YAML_DEPTH_MAX - 1);
	CHECK(read_text(&a, deep) != NULL);
	memset(deep + 3, '[', YAML_DEPTH_MAX);
	memset(deep + 3 + YAML_DEPTH_MAX, ']', YAML_DEPTH_MAX);
	CHECK(!read_text(&a, deep));
	CHECK_TEXT("f:1:35: more than 32 levels deep", err_get()->text);
	/* JSON that libyaml does not read has the same limits, and no places */
	CHECK(read_text(&a, "{\"a\": \"\\ud83d\\ude00\"}") != NULL);
	CHECK_TEXT("\xf0\x9f\x98\x80",
		read_text(&a, "{\"a\": \"\\ud83d\\ude00\"}")->first->text);
	CHECK(!read_text(&a, "{\"a\": \"\\ud83d\\ude00\", \"a\": 1}"));
	err_clear();
	arena_release(&a);
}

int main(void)
{
	check_words();
	check_tree();
	check_limits();
	TEST_END();
}
