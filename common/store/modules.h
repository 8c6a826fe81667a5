/* modules.h - tables that the parts of a program bring to its one database, each part with its own
 * list of steps and its own version. Uses store. */
#ifndef RNP_COMMON_STORE_MODULES_H
#define RNP_COMMON_STORE_MODULES_H

#include "common/store/store.h"

/* A part: its name, which stays, and its steps, as in store_open: the list ends with NULL and is
 * only ever appended to. */
struct store_module {
	const char *name;
	const char *const *steps;
};

/* Upgrades the tables of one part, or of all up to NULL. Each step runs once, in a transaction; the
 * versions are in the table store_modules. Call it with a connection that may write, before others
 * read. Returns 0, or -1: 65 the tables are of a later version, and as store_open. */
int store_module(struct store *s, const struct store_module *m);
int store_modules(struct store *s, const struct store_module *const *all);

#endif
