/* fuzz_ignore.c - fuzz target: files of rules that say what stays behind of a directory.
 *
 * uses: cmd/rnp-register
 *
 * The input is a path, a byte 0, the rules of the root, and after another byte 0 those of "a". It
 * checks that a refused file gives exit code 65 and a message; that the answer does not depend on
 * comments and empty lines; that a rule which ends in a slash says nothing of files; and that the
 * last line decides. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/pack/ignore.h"
#include "common/base/buf.h"
#include "common/base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

/* Reads rules, or fails as promised. */
static bool read_rules(struct ignore_list *list, const char *text, size_t len,
	const char *base, struct ignore_list *outer)
{
	if (ignore_read(list, text, len, base, outer, "rules") == 0)
		return true;
	must(err_get()->code == EX_DATAERR && err_get()->text[0]);
	err_clear();
	return false;
}

/* The rules with `more` behind them say this. */
static enum ignore_said with(const struct buf *rules, const char *more, const char *path,
	bool is_dir)
{
	struct ignore_list list;
	struct buf text = BUF_INIT;
	enum ignore_said said = IGNORE_NOTHING;

	buf_add(&text, buf_text(rules), rules->len);
	buf_adds(&text, more);
	if (read_rules(&list, text.data, text.len, "", NULL)) {
		said = ignore_ask(&list, path, strlen(path), is_dir);
		ignore_release(&list);
	}
	buf_release(&text);
	return said;
}

static bool is_plain(const char *path)
{
	if (!*path || *path == '/' || path[strlen(path) - 1] == '/' || strstr(path, "//"))
		return false;
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data, *path_end = memchr(text, 0, size), *end;
	struct ignore_list outer, inner;
	struct buf root = BUF_INIT;
	char *path;

	if (!path_end || size > 20000)
		return 0;
	path = strndup(text, (size_t)(path_end - text));
	text = path_end + 1;
	size -= (size_t)(text - (const char *)data);
	end = memchr(text, 0, size);
	buf_add(&root, text, end ? (size_t)(end - text) : size);
	if (is_plain(path) && strlen(path) < 1000 &&
		read_rules(&outer, buf_text(&root), root.len, "", NULL)) {
		if (end &&
			read_rules(&inner, end + 1, size - (size_t)(end + 1 - text), "a",
				&outer)) {
			(void)ignore_ask(&inner, path, strlen(path), false);
			ignore_release(&inner);
		}
		ignore_release(&outer);
		must(with(&root, "\n*", path, false) == IGNORE_LEAVE_OUT);
		must(with(&root, "\n!*", path, true) == IGNORE_KEEP);
		for (int is_dir = 0; is_dir < 2; is_dir++)
			must(with(&root, "\n\n# all of it\n", path, is_dir) ==
				with(&root, "", path, is_dir));
		must(with(&root, "\n*/", path, false) == with(&root, "", path, false));
	}
	free(path);
	buf_release(&root);
	return 0;
}
