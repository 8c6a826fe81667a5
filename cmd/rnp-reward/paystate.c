/* paystate.c - decides the next state of a transaction; see paystate.h for the rules. */
#include "cmd/rnp-reward/paystate.h"

#include <stddef.h>
#include <string.h>

const char *const pay_status_names[PAY_STATUSES] = { "planned", "signed", "sent",
	"confirmed", "finalised", "failed", "expired" };

int pay_status_find(const char *name)
{
	for (int i = 0; name && i < PAY_STATUSES; i++)
		if (strcmp(pay_status_names[i], name) == 0)
			return i;
	return -1;
}

static int quorum(int servers)
{
	return servers < PAY_QUORUM ? servers : PAY_QUORUM;
}

static int count(const struct pay_view *v, enum pay_seen seen)
{
	int n = 0;

	for (int i = 0; i < v->servers; i++)
		n += v->seen[i] == seen;
	return n;
}

static bool expired(const struct pay_view *v, int *contradiction)
{
	int votes = 0, against = 0, who = -1;

	for (int i = 0; i < v->servers; i++) {
		bool trace = v->seen[i] > PAY_NULL;
		bool early = v->final_height[i] >= 0 &&
			v->final_height[i] <= v->last_valid;

		if (trace || early) {
			against++;
			who = i;
		} else if (v->seen[i] == PAY_NULL && v->final_height[i] > v->last_valid &&
			!(v->sent_to >> i & 1)) {
			votes++;
		}
	}
	if (contradiction)
		*contradiction = votes >= PAY_QUORUM && against == 1 ? who : -1;
	/* always two, even with a single server: it cannot confirm its own answer */
	return votes >= PAY_QUORUM && !against;
}

/* Whether two say that it has failed, and nobody that it is, or may still be, on the chain without an error. */
static bool failed(const struct pay_view *v)
{
	for (int i = 0; i < v->servers; i++)
		if (v->seen[i] == PAY_SEEN || v->seen[i] == PAY_SEEN_CONFIRMED ||
			v->seen[i] == PAY_SEEN_FINAL ||
			(v->seen[i] == PAY_NULL && v->final_height[i] <= v->last_valid))
			return false;
	return count(v, PAY_SEEN_FINAL_ERROR) >= quorum(v->servers);
}

enum pay_status pay_decide(enum pay_status now, const struct pay_view *v,
	int *contradiction)
{
	int final = count(v, PAY_SEEN_FINAL);
	bool gone;

	if (contradiction)
		*contradiction = -1;
	if (now < PAY_SIGNED || pay_is_over(now))
		return now;
	if (final >= quorum(v->servers) && !count(v, PAY_SEEN_FINAL_ERROR))
		return PAY_FINALISED;
	if (failed(v))
		return PAY_FAILED;
	gone = expired(v, contradiction);
	if (gone)
		return PAY_EXPIRED;
	/* "confirmed" is only shown to people: a fork can undo it, and nothing depends on it */
	if (final + count(v, PAY_SEEN_CONFIRMED) > 0)
		return PAY_CONFIRMED;
	return now == PAY_CONFIRMED ? PAY_SENT : now;
}

int64_t pay_last_valid(int64_t claimed, const int64_t *heights, int servers)
{
	int64_t greatest = -1, min = INT64_MAX;
	int answers = 0;

	for (int i = 0; i < servers; i++) {
		if (heights[i] < 0)
			continue;
		answers++;
		greatest = heights[i] > greatest ? heights[i] : greatest;
		min = heights[i] < min ? heights[i] : min;
	}
	/* Which of them is right is unknown: the greatest height would be safe, but one server
	 * far ahead would keep a payment in flight forever. */
	if (answers < quorum(servers) || greatest - min > PAY_VALID_BLOCKS ||
		claimed < 0 || claimed > greatest + 2 * PAY_VALID_BLOCKS)
		return -1;
	/* a real blockhash is older than now, so it has expired 150 blocks from now */
	return greatest + PAY_VALID_BLOCKS > claimed ? greatest + PAY_VALID_BLOCKS :
						       claimed;
}
