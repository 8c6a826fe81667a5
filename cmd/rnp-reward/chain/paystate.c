/* paystate.c - decides the next state of a transaction; see paystate.h for the rules. */
#include "cmd/rnp-reward/chain/paystate.h"

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

/* More than half: of one server that one, of more at least two. */
static int majority(int servers)
{
	return servers / 2 + 1;
}

static int count(const struct pay_view *v, enum pay_seen seen)
{
	int n = 0;

	for (int i = 0; i < v->servers; i++)
		n += v->seen[i] == seen;
	return n;
}

/* Whether a server says that the transaction can no longer land. */
static bool over(const struct pay_view *v, int server)
{
	return v->hash_gone[server] || v->final_height[server] > v->last_valid;
}

static bool expired(const struct pay_view *v, int *contradiction)
{
	int votes = 0, against = 0, who = -1, least = majority(v->given);

	for (int i = 0; i < v->servers; i++) {
		bool trace = v->seen[i] > PAY_NULL;
		bool early = v->final_height[i] >= 0 && !over(v, i);

		if (trace || early) {
			against++;
			who = i;
		} else if (v->seen[i] == PAY_NULL && over(v, i) &&
			!(v->sent_to >> i & 1)) {
			votes++;
		}
	}
	/* always two, even with a single server: it cannot confirm its own answer */
	least = least < PAY_QUORUM ? PAY_QUORUM : least;
	if (contradiction)
		*contradiction = votes >= least && against == 1 ? who : -1;
	return votes >= least && !against;
}

/* Whether no server has seen the transaction without an error, or does not know it at a height at
 * which it can still land. */
static bool nobody_contradicts(const struct pay_view *v)
{
	for (int i = 0; i < v->servers; i++)
		if (v->seen[i] == PAY_SEEN || v->seen[i] == PAY_SEEN_CONFIRMED ||
			v->seen[i] == PAY_SEEN_FINAL ||
			(v->seen[i] == PAY_NULL && !over(v, i)))
			return false;
	return true;
}

bool pay_is_doubtful(const struct pay_view *v)
{
	return count(v, PAY_SEEN_FINAL_ERROR) >= quorum(v->servers) &&
		nobody_contradicts(v);
}

/* What a transaction becomes that a person has given up: failed or expired, as two servers say
 * (one, if there is only one), which need not agree about which; `now` if any contradicts, or too
 * few answer. */
static enum pay_status give_up(enum pay_status now, const struct pay_view *v)
{
	if (pay_is_doubtful(v))
		return PAY_FAILED;
	return nobody_contradicts(v) && !count(v, PAY_SEEN_ERROR) &&
			count(v, PAY_NULL) + count(v, PAY_SEEN_FINAL_ERROR) >=
				quorum(v->servers) ?
		PAY_EXPIRED :
		now;
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
	/* Whatever the others say: one that lies would otherwise keep all payments in flight. The
	 * worst that a majority can do here is that a payment counts as made which was not, and
	 * the wallet's owner sees that. */
	if (final >= majority(v->given))
		return PAY_FINALISED;
	gone = expired(v, contradiction);
	if (gone)
		return PAY_EXPIRED;
	if (v->given_up)
		now = give_up(now, v);
	if (pay_is_over(now))
		return now;
	/* "confirmed" is only shown to people: a fork can undo it, and nothing depends on it */
	if (final + count(v, PAY_SEEN_CONFIRMED) > 0)
		return PAY_CONFIRMED;
	return now == PAY_CONFIRMED ? PAY_SENT : now;
}

bool pay_is_near(int64_t height, const int64_t *heights, int servers)
{
	for (int i = 0; i < servers; i++)
		if (heights[i] - height > PAY_VALID_BLOCKS)
			return false;
	return height >= 0;
}

void pay_hash_note(struct pay_hash_seen *s, int64_t slot, bool good)
{
	/* behind one address may stand several servers: an older slot of one says nothing */
	s->gone = !good && s->good_slot && slot >= s->good_slot;
	if (good && slot >= s->good_slot)
		s->good_slot = slot + 1;
}

bool pay_is_far(int64_t final_height, int64_t last_valid)
{
	return final_height >= 0 && last_valid - final_height > 2 * PAY_VALID_BLOCKS;
}

int64_t pay_last_valid(int64_t claimed, const int64_t *heights, int servers)
{
	int64_t greatest = -1;
	int near = 0;

	for (int i = 0; i < servers; i++)
		greatest = heights[i] > greatest ? heights[i] : greatest;
	for (int i = 0; i < servers; i++)
		near += pay_is_near(heights[i], heights, servers);
	/* Which of them is right is unknown: the greatest height is safe, so that few that are far
	 * behind do no harm, but one far ahead would keep a payment in flight forever. Where most
	 * of them are far ahead it stays so until a run sees its blockhash go that was good in this
	 * run or in one before (pay_hash_note). */
	if (greatest < 0 || near < majority(servers) || claimed < 0 ||
		claimed > greatest + 2 * PAY_VALID_BLOCKS)
		return -1;
	/* a real blockhash is older than now, so it expires within 150 blocks from now */
	return greatest + PAY_VALID_BLOCKS > claimed ? greatest + PAY_VALID_BLOCKS :
						       claimed;
}
