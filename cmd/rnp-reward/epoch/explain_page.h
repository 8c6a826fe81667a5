/* explain_page.h - the steps of one node's pay as a page for people. Uses out, table, human. */
#ifndef RNP_CMD_REWARD_EPOCH_EXPLAIN_PAGE_H
#define RNP_CMD_REWARD_EPOCH_EXPLAIN_PAGE_H

/* Appends a step to the page on standard output: a heading where part or GPUs are others than
 * before, the name with its value, below it formula and source. gpus: what the step is about, "":
 * the whole node. Other texts that are NULL are omitted. Returns 0, or -1 with
 * err_set(EX_IOERR). */
int explain_page_step(const char *gpus, const char *part, const char *name,
	const char *value, const char *formula, const char *source);

#endif
