/* quote_state.h - the last price of each node, in one small JSON file that is replaced whole.
 *
 * Uses json, io. */
#ifndef RNP_PRICE_QUOTE_STATE_H
#define RNP_PRICE_QUOTE_STATE_H

#include <jansson.h>
#include <stdint.h>

struct quote_state {
	json_t *doc;
};

void quote_state_release(struct quote_state *s);

/* Read the file at path; one that is not there is empty. Returns 0, or -1 (65, 74, 77). */
int quote_state_load(struct quote_state *s, const char *path);

/* The last ask of a node, QUOTE_NONE (-1) when there is none. */
int64_t quote_state_ask(const struct quote_state *s, const char *node);

/* Put an ask in and write the file whole. Returns 0, or -1 (74, 77). */
int quote_state_save(struct quote_state *s, const char *path, const char *node,
	int64_t ask_uusd, int64_t at_ms);

#endif
