/* challenge_rule.h - to which node a passed challenge belongs. Pure.
 *
 * A challenge is for one node. If passed verdicts of several nodes name the same one, it belongs to
 * the node that passed it first. The verdicts of the others are void: they neither prove anything
 * nor count as passed or failed, because who came second may have copied, or have been copied from.
 * Usage and reputation both count this way. */
#ifndef RNP_CMD_REWARD_EVIDENCE_CHALLENGE_RULE_H
#define RNP_CMD_REWARD_EVIDENCE_CHALLENGE_RULE_H

#include <stdint.h>
#include <string.h>

/* Compares two passed verdicts on one challenge, as qsort does: the first in this order owns it.
 * Of two at the same instant it is the node with the lower address, so that the order of the
 * records does not matter. */
static inline int challenge_order(int64_t at_ms, const char *node, int64_t other_at_ms,
	const char *other)
{
	return at_ms != other_at_ms ? (at_ms > other_at_ms) - (at_ms < other_at_ms) :
				      strcmp(node, other);
}

#endif
