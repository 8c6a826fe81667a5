/* twins.h - finds out whether a node's key is used by two machines, or two processes, at once.
 *
 * Clients say in each heartbeat, which they sign, which instance they are: a random number of a
 * process that goes on, and one of the machine's start for one that ends at once.
 * Instances that come again after one another, twice, show that both live; one that was started
 * anew does not, nor one that was tried out. A table of fixed size in memory. Safe from any
 * thread. Uses libsodium. */
#ifndef RNP_CMD_REGISTER_STORAGE_TWINS_H
#define RNP_CMD_REGISTER_STORAGE_TWINS_H

#include <stdbool.h>
#include <stdint.h>

struct twins;

struct twins *twins_new(void);
void twins_free(struct twins *t);

/* Notes that an instance of the node sent a heartbeat which is new: anybody can send one again.
 * Returns for how many ms the other one has been silent, -1: there is none. *first: this was not
 * known within the hour. */
int64_t twins_note(struct twins *t, const char *node, const char *instance,
	int64_t now_ms, bool *first);

/* Returns the same of the node's last heartbeat. */
int64_t twins_of(struct twins *t, const char *node, int64_t now_ms);

#endif
