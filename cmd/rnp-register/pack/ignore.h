/* ignore.h - which files of a directory stay at home: the rules of gitignore(5), as git reads them.
 * Pure. Uses wild, err, mem. */
#ifndef RNP_CMD_REGISTER_PACK_IGNORE_H
#define RNP_CMD_REGISTER_PACK_IGNORE_H

#include <stdbool.h>
#include <stddef.h>

#include "cmd/rnp-register/pack/wild.h"

#define IGNORE_FILE_BYTES_MAX ((size_t)1 << 20)
#define IGNORE_RULE_BYTES_MAX 4096
#define IGNORE_RULES_MAX      20000 /* of one file */

/* One line of a file of rules. */
struct ignore_rule {
	char *text; /* without "!", the slash at its end and that at its beginning */
	size_t len, literal;
	bool keeps;     /* "!": what an earlier rule left out is taken */
	bool only_dirs; /* "build/" */
	bool any_dir;   /* has no slash: it is compared with names, in every directory */
	bool ending;    /* "*.o" */
	/* of what follows the literal part; of the whole where any_dir */
	struct wild wild;
};

/* The rules of one file. */
struct ignore_list {
	struct ignore_rule *rules;
	size_t n, cap;
	char *base; /* the directory of the file, relative to the root: "", "a/b" */
	/* asked where no rule of this list says anything */
	struct ignore_list *outer;
};

enum ignore_said { IGNORE_NOTHING, IGNORE_KEEP, IGNORE_LEAVE_OUT };

/* Reads a file of rules. name: of the file, for errors. The list borrows outer and owns the rest.
 * Returns 0, or -1 (65): a rule is too long, or there are too many. */
int ignore_read(struct ignore_list *list, const char *text, size_t len, const char *base,
	struct ignore_list *outer, const char *name);
void ignore_release(struct ignore_list *list);

/* What the rules say of a path, relative to the root and without a slash at its ends. A directory
 * that is left out takes all below it with it: the caller does not ask about that. */
enum ignore_said ignore_ask(const struct ignore_list *list, const char *path, size_t len,
	bool is_dir);

#endif
