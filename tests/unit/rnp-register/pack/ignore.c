/* ignore.c - rules leave out what git leaves out: random trees and rules are held against
 * `git check-ignore`; and what one cannot see there. */
/* uses: cmd/rnp-register */
#include "cmd/rnp-register/pack/ignore.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/rnp-register/pack/walk.h"
#include "common/base/buf.h"
#include "common/base/io.h"
#include "common/base/rng.h"
#include "tests/unit/test.h"

static bool left_out(const char *rules, const char *path, bool is_dir)
{
	struct ignore_list list;
	enum ignore_said said;

	CHECK(ignore_read(&list, rules, strlen(rules), "", NULL, "rules") == 0);
	said = ignore_ask(&list, path, strlen(path), is_dir);
	ignore_release(&list);
	return said == IGNORE_LEAVE_OUT;
}

static void examples(void)
{
	CHECK(left_out("*.o", "a/b.o", false));
	CHECK(!left_out("*.o\n!b.o", "a/b.o", false));
	CHECK(left_out("build/", "a/build", true));
	CHECK(!left_out("build/", "a/build", false));
	CHECK(left_out("/a/*", "a/b", false));
	CHECK(!left_out("/a/*", "a/b/c", false));
	CHECK(left_out("a/**/d", "a/d", false));
	CHECK(left_out("a/**/d", "a/b/c/d", false));
	CHECK(left_out("**/d", "d", false));
	CHECK(!left_out("# a", "# a", false));
	CHECK(left_out("\\# a", "# a", false));
	CHECK(left_out("a\\ ", "a ", false));
	CHECK(left_out("a   ", "a", false));
	CHECK(left_out("\xef\xbb\xbf"
		       "a\r\n",
		"a", false));
	CHECK(left_out("a\r", "a", false));
	CHECK(!left_out("[", "[", false));
	CHECK(!left_out("a\\", "a\\", false));
	CHECK(left_out("[[:digit:]]", "7", false));
	CHECK(!left_out("[[:nope:]]", "7", false));
	CHECK(left_out("[]-]", "]", false));
	CHECK(left_out("[!a-c]", "d", false));
}

/* Stars that would be tried for hours one after the other. */
static void no_pattern_is_slow(void)
{
	struct buf rule = BUF_INIT, path = BUF_INIT;

	for (int i = 0; i < 200; i++)
		buf_adds(&rule, "a*");
	buf_adds(&rule, "b");
	for (int i = 0; i < 3000; i++)
		buf_addc(&path, 'a');
	CHECK(!left_out(rule.data, path.data, false));
	buf_release(&rule);
	buf_release(&path);
}

static void bounds(void)
{
	struct ignore_list list;
	struct buf rules = BUF_INIT;

	for (int i = 0; i <= IGNORE_RULE_BYTES_MAX; i++)
		buf_addc(&rules, 'a');
	CHECK_FAILS(EX_DATAERR,
		ignore_read(&list, rules.data, rules.len, "", NULL, "rules"));
	buf_reset(&rules);
	for (int i = 0; i <= IGNORE_RULES_MAX; i++)
		buf_adds(&rules, "a\n");
	CHECK_FAILS(EX_DATAERR,
		ignore_read(&list, rules.data, rules.len, "", NULL, "rules"));
	buf_release(&rules);
}

/* --- against git ------------------------------------------------------------------------------ */

static struct rng rng;

static unsigned under(unsigned n)
{
	return (unsigned)rng_below(&rng, n);
}

static const char *const names[] = { "a", "b", "ab", "abc", "foo", "x.o", "a b", "-",
	"[a]", "B", "foo.txt", "]", "b\\", "\xc3\xa9", "!a", "#a", ".gitkeep" };
#define NAMES (sizeof names / sizeof *names)

/* Makes files and directories, three deep. */
static void plant(const char *dir, int depth)
{
	for (unsigned i = 0; i < NAMES; i++) {
		struct buf path = BUF_INIT;

		buf_addf(&path, "%s/%s", dir, names[i]);
		if (depth && under(3) == 0) {
			CHECK(mkdir(path.data, 0755) == 0);
			plant(path.data, depth - 1);
		} else if (under(2)) {
			CHECK(io_create(path.data, "", 0, 0644) == 0);
		}
		buf_release(&path);
	}
}

static void random_rule(struct buf *out)
{
	static const char *const parts[] = { "*", "**", "?", "/", "/", "[a-c]", "[!a]",
		"[]-]", "[^b]", "[[:alpha:]]", "[[:punct:]]", "\\", "\\*", " ", ".o",
		"foo", "**/", "/**", "!", "#", "a", "b", "[", "]", "-", "\t", "[a-",
		"[a\\]]" };

	if (under(5) == 0)
		buf_addc(out, '!');
	if (under(5) == 0)
		buf_addc(out, '/');
	for (unsigned i = 0, n = 1 + under(4); i < n; i++)
		if (under(3))
			buf_adds(out, names[under(NAMES)]);
		else
			buf_adds(out, parts[under(sizeof parts / sizeof *parts)]);
	if (under(5) == 0)
		buf_addc(out, '/');
	buf_adds(out, under(10) ? "\n" : "\r\n");
}

static void write_rules(const char *path)
{
	struct buf text = BUF_INIT;

	for (unsigned i = 0, n = 1 + under(6); i < n; i++)
		random_rule(&text);
	if (under(4) == 0)
		text.data[--text.len] = '\0';
	CHECK(io_replace(path, text.data, text.len, 0644) == 0);
	buf_release(&text);
}

/* Puts rules into some directories, and takes them out of the others. */
static void scatter(const char *dir, const struct manifest *m)
{
	for (size_t i = 0; i < m->nentries; i++) {
		struct buf path = BUF_INIT;

		buf_addf(&path, "%s/%s/.gitignore", dir, m->entries[i].path);
		if (m->entries[i].type == MANIFEST_DIR) {
			if (under(6) == 0)
				write_rules(path.data);
			else
				unlink(path.data);
		}
		buf_release(&path);
	}
}

static bool in_git_dir(const char *path)
{
	return strcmp(path, ".git") == 0 || strncmp(path, ".git/", 5) == 0;
}

/* Asks git which of the paths it ignores: a text of them, each between NULs. */
static void ask_git(const char *dir, const struct manifest *m, struct buf *out)
{
	struct buf in = BUF_INIT, command = BUF_INIT;

	for (size_t i = 0; i < m->nentries; i++)
		if (!in_git_dir(m->entries[i].path)) {
			buf_adds(&in, m->entries[i].path);
			buf_addc(&in, '\0');
		}
	buf_addf(&command, "%s.in", dir);
	CHECK(io_replace(command.data, in.data, in.len, 0600) == 0);
	buf_reset(&command);
	buf_addf(&command, "cd %s && git check-ignore --stdin -z <%s.in >%s.out", dir,
		dir, dir);
	CHECK(system(command.data) != -1);
	buf_reset(&command);
	buf_addf(&command, "%s.out", dir);
	buf_addc(out, '\0');
	CHECK(io_read(out, command.data, 16 << 20) == 0);
	buf_release(&in);
	buf_release(&command);
}

static bool is_listed(const struct manifest *m, const char *path)
{
	for (size_t i = 0; i < m->nentries; i++)
		if (strcmp(m->entries[i].path, path) == 0)
			return true;
	return false;
}

static bool is_ignored(const struct buf *ignored, const char *path)
{
	struct buf wanted = BUF_INIT;
	bool found;

	buf_addc(&wanted, '\0');
	buf_add(&wanted, path, strlen(path) + 1);
	found = memmem(ignored->data, ignored->len, wanted.data, wanted.len) != NULL;
	buf_release(&wanted);
	return found;
}

static void compare(const char *dir, int round)
{
	struct walk all, ours;
	struct buf ignored = BUF_INIT;

	CHECK(walk_directory(&all, dir, false, 0) == 0);
	CHECK(walk_directory(&ours, dir, true, 0) == 0);
	ask_git(dir, &all.manifest, &ignored);
	for (size_t i = 0; i < all.manifest.nentries; i++) {
		const char *path = all.manifest.entries[i].path;
		bool git_says = is_ignored(&ignored, path);

		if (in_git_dir(path)) {
			CHECK(is_listed(&ours.manifest, path));
			continue;
		}
		test_checks++;
		if (is_listed(&ours.manifest, path) == git_says) {
			test_failures++;
			fprintf(stderr, "round %d: git %s '%s', we do not\n", round,
				git_says ? "leaves out" : "keeps", path);
		}
	}
	buf_release(&ignored);
	walk_directory_release(&all);
	walk_directory_release(&ours);
}

static void against_git(int rounds)
{
	char dir[] = "/tmp/rnp-ignore-XXXXXX";
	struct buf command = BUF_INIT, rules = BUF_INIT;

	if (system("git --version >/dev/null 2>&1") != 0) {
		fprintf(stderr, "SKIPPED: no git here, rules are not held against it\n");
		return;
	}
	CHECK(mkdtemp(dir) != NULL);
	setenv("HOME", "/nonexistent", 1);
	setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
	setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
	buf_addf(&command, "git init -q %s", dir);
	CHECK(system(command.data) == 0);
	plant(dir, 3);
	for (int i = 0; i < rounds; i++) {
		struct walk w;

		CHECK(walk_directory(&w, dir, false, 0) == 0);
		scatter(dir, &w.manifest);
		walk_directory_release(&w);
		buf_reset(&rules);
		buf_addf(&rules, "%s/.gitignore", dir);
		write_rules(rules.data);
		buf_reset(&rules);
		buf_addf(&rules, "%s/.git/info/exclude", dir);
		write_rules(rules.data);
		compare(dir, i);
	}
	buf_reset(&command);
	buf_addf(&command, "rm -rf %s %s.in %s.out", dir, dir, dir);
	CHECK(system(command.data) == 0);
	buf_release(&command);
	buf_release(&rules);
}

int main(int argc, char **argv)
{
	rng_seed(&rng, argc > 2 ? (uint64_t)atoll(argv[2]) : 1, 0);
	examples();
	no_pattern_is_slow();
	bounds();
	against_git(argc > 1 ? atoi(argv[1]) : 40);
	TEST_END();
}
