/* explain_page.h - rnp-reward explain for people: a page instead of a table. Uses human, table, out. */
#ifndef RNP_CMD_REWARD_EXPLAIN_PAGE_H
#define RNP_CMD_REWARD_EXPLAIN_PAGE_H

/* Appends a step to the page on standard output: a heading where part is another than before, the name
 * with its value, below it formula and source. Texts that are NULL are omitted. Returns 0, or -1 with
 * err_set(EX_IOERR). */
int explain_page_step(const char *part, const char *name, const char *value,
	const char *formula, const char *source);

#endif
