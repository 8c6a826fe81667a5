/* states.c - the states of a node in a cluster, as tables. */
#include "cmd/rnp-register/market/states.h"

#include <string.h>

const char *const node_state_names[NODE_STATES] = { "reserved", "proving", "pulling",
	"starting", "ready", "releasing", "released", "failed", "replaced" };

#define S       INT64_C(1000)
#define MINUTES (60 * S)

/* longest_ms: from its beginning; quiet_ms: without news; 0: no bound. What ends proving is the
 * deadline of a challenge, which comes with a heartbeat. */
static const struct {
	int64_t longest_ms, quiet_ms;
	const char *late;
} bounds[NODE_STATES] = {
	[NODE_RESERVED] = { 45 * S, 0,
		"its agent did not take the assignment within 45 s" },
	[NODE_PROVING] = { 10 * MINUTES, 0, "its devices were not proven within 10 min" },
	[NODE_PULLING] = { 120 * MINUTES, 10 * MINUTES,
		"the image did not come: nothing for 10 min, or 2 h in all" },
	[NODE_STARTING] = { 60 * S, 0, "the container was not ready within 60 s" },
	[NODE_RELEASING] = { 60 * S, 0,
		"its agent did not say within 60 s that all is removed" },
};

#define TO(state) (1u << (state))

/* What a node may say of itself, by the state that it was in. */
static const unsigned next[NODE_STATES] = {
	[NODE_RESERVED] = TO(NODE_PROVING) | TO(NODE_FAILED),
	[NODE_PROVING] = TO(NODE_PROVING) | TO(NODE_FAILED),
	[NODE_PULLING] = TO(NODE_PULLING) | TO(NODE_STARTING) | TO(NODE_FAILED),
	[NODE_STARTING] = TO(NODE_STARTING) | TO(NODE_READY) | TO(NODE_FAILED),
	[NODE_READY] = TO(NODE_READY) | TO(NODE_RELEASING) | TO(NODE_RELEASED) |
		TO(NODE_FAILED),
	[NODE_RELEASING] = TO(NODE_RELEASING) | TO(NODE_RELEASED) | TO(NODE_FAILED),
};

int node_state_find(const char *name)
{
	for (int i = 0; name && i < NODE_STATES; i++)
		if (strcmp(node_state_names[i], name) == 0)
			return i;
	return -1;
}

bool node_state_live(enum node_state s)
{
	return s <= NODE_RELEASING;
}

bool node_state_may(enum node_state from, enum node_state to)
{
	return next[from] & TO(to);
}

int64_t node_state_deadline(enum node_state s, int64_t since_ms, int64_t heard_ms)
{
	int64_t longest_ms = bounds[s].longest_ms ? since_ms + bounds[s].longest_ms : 0;
	int64_t quiet_ms = bounds[s].quiet_ms ? heard_ms + bounds[s].quiet_ms : 0;

	return quiet_ms && quiet_ms < longest_ms ? quiet_ms : longest_ms;
}

const char *node_state_late(enum node_state s)
{
	return bounds[s].late ? bounds[s].late : "it took too long";
}

enum node_state cluster_state(const enum node_state *nodes, size_t n)
{
	enum node_state least = NODE_REPLACED;
	bool failed = false;

	for (size_t i = 0; i < n; i++) {
		failed = failed || nodes[i] == NODE_FAILED;
		if (node_state_live(nodes[i]) && nodes[i] < least)
			least = nodes[i];
	}
	return least < NODE_REPLACED ? least : failed ? NODE_FAILED : NODE_RELEASED;
}
