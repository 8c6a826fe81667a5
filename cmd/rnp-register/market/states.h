/* states.h - the states of a node in a cluster: which follows which, who may say so, and how long
 * each may last. Pure. */
#ifndef RNP_CMD_REGISTER_MARKET_STATES_H
#define RNP_CMD_REGISTER_MARKET_STATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In the order in which a node goes through them; the numbers are in the database. */
enum node_state {
	NODE_RESERVED,  /* its lease is written */
	NODE_PROVING,   /* its agent has the assignment; its devices are to be proven */
	NODE_PULLING,   /* the image is on its way */
	NODE_STARTING,  /* the container starts */
	NODE_READY,     /* somebody can log in: from here on it is charged */
	NODE_RELEASING, /* container and volume are being removed */
	NODE_RELEASED,
	NODE_FAILED,
	NODE_REPLACED, /* failed, and another has its rank */
	NODE_STATES
};
extern const char *const node_state_names[NODE_STATES];

/* Returns the state of that name, or -1. */
int node_state_find(const char *name);

/* Whether a node in that state has a lease: its devices are nobody else's. */
bool node_state_live(enum node_state s);

/* Whether the node itself may say that it went from one state to the other; both may be the same,
 * which is news of its progress. What a registry does on its own is not bound by this. */
bool node_state_may(enum node_state from, enum node_state to);

/* Returns when the next state has to be reached, for a state that began at since_ms and of which
 * the last news came at heard_ms; 0: there is no such time. */
int64_t node_state_deadline(enum node_state s, int64_t since_ms, int64_t heard_ms);

/* Returns the cause of a node that did not meet it, a static text. */
const char *node_state_late(enum node_state s);

/* Returns the state of a cluster whose nodes have these: the least of those that have a lease; if
 * none has, failed where one is, else released. */
enum node_state cluster_state(const enum node_state *nodes, size_t n);

#endif
