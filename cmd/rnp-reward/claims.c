/* claims.c - collects the leaves of an epoch's Merkle tree from its rnp.reward records. */
#include "cmd/rnp-reward/claims.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/json/json.h"
#include "common/json/plain.h"
#include "common/base/mem.h"

void claims_release(struct claims *c)
{
	free(c->leaves);
	*c = (struct claims)CLAIMS_INIT;
}

int claims_address(const json_t *reward, const char *where, const char **address,
	unsigned char claimant[KEY_PUBLIC_BYTES])
{
	*address = NULL;
	if (json_opt_text(reward, where, "wallet", address) < 0 ||
		(!*address && json_get_text(reward, where, "node", address) < 0))
		return -1;
	return address_parse(*address, where, claimant);
}

static void add_leaf(struct claims *c, int64_t amount, int64_t locked,
	const unsigned char claimant[KEY_PUBLIC_BYTES])
{
	struct merkle_leaf *leaf;

	c->leaves = xgrow(c->leaves, &c->cap, c->n + 1, sizeof *c->leaves);
	leaf = &c->leaves[c->n++];
	leaf->unlocked = (uint64_t)(amount - locked);
	leaf->locked = (uint64_t)locked;
	memcpy(leaf->claimant, claimant, KEY_PUBLIC_BYTES);
}

int claims_add(struct claims *c, const json_t *reward, const char *where)
{
	unsigned char claimant[KEY_PUBLIC_BYTES];
	const char *address;
	int64_t amount, locked = 0;

	if (json_get_i64(reward, where, "base_units", 0, INT64_MAX, &amount) < 0 ||
		json_opt_i64(reward, where, "locked_base_units", 0, amount, &locked) < 0)
		return -1;
	c->nodes++;
	c->qualified += json_is_true(json_object_get(reward, "qualified"));
	if (__builtin_add_overflow(c->total_base_units, amount, &c->total_base_units))
		return err_set(EX_DATAERR,
			"%s: the pay of all nodes does not fit 64 bits", where);
	if (!amount)
		return 0;
	if (claims_address(reward, where, &address, claimant) < 0)
		return -1;
	add_leaf(c, amount, locked, claimant);
	return 0;
}

/* --- lines that reward_write wrote ---------------------------------------------------------- */

/* Skips a list of texts, or an object of whole numbers. */
static bool skip_all(struct json_plain *s, char open, char close)
{
	const char *text;
	int64_t number;
	size_t len;

	if (!json_plain_take(s, open))
		return false;
	if (json_plain_take(s, close))
		return true;
	do
		if (!json_plain_string(s, &text, &len) ||
			(open == '{' &&
				(!json_plain_take(s, ':') ||
					!json_plain_whole(s, &number))))
			return false;
	while (json_plain_take(s, ','));
	return json_plain_take(s, close);
}

static bool take_number(struct json_plain *s, const char *text, int64_t *out)
{
	return json_plain_word(s, text) && json_plain_whole(s, out);
}

bool claims_add_plain(struct claims *c, const char *line, size_t len)
{
	struct json_plain s = { line, line + len };
	unsigned char claimant[KEY_PUBLIC_BYTES];
	char address[ADDRESS_MAX];
	int64_t job, availability, amount, locked = 0, sum;
	const char *text;
	bool qualified;
	size_t n;

	if (!json_plain_word(&s, "{\"kind\":\"rnp.reward\",\"v\":1,\"node\":") ||
		!json_plain_copy(&s, address, sizeof address) ||
		(json_plain_word(&s, ",\"wallet\":") &&
			!json_plain_copy(&s, address, sizeof address)) ||
		!json_plain_word(&s, ",\"policy\":") ||
		!json_plain_string(&s, &text, &n) ||
		!json_plain_word(&s, ",\"qualified\":"))
		return false;
	qualified = json_plain_word(&s, "true");
	if ((!qualified && !json_plain_word(&s, "false")) ||
		!json_plain_word(&s, ",\"reasons\":") || !skip_all(&s, '[', ']') ||
		!json_plain_word(&s, ",\"terms\":") || !skip_all(&s, '{', '}') ||
		!take_number(&s, ",\"job_base_units\":", &job) ||
		!take_number(&s, ",\"availability_base_units\":", &availability) ||
		!take_number(&s, ",\"base_units\":", &amount) ||
		(s.at < s.end && *s.at == ',' &&
			!take_number(&s, ",\"locked_base_units\":", &locked)) ||
		!json_plain_take(&s, '}') || s.at != s.end || locked > amount ||
		job + availability != amount ||
		__builtin_add_overflow(c->total_base_units, amount, &sum))
		return false;
	if (amount && address_parse(address, "a reward", claimant) < 0) {
		err_clear();
		return false;
	}
	c->total_base_units = sum;
	c->nodes++;
	c->qualified += qualified;
	if (amount)
		add_leaf(c, amount, locked, claimant);
	return true;
}

int claims_finish(struct claims *c)
{
	long n = c->n ? merkle_sort(c->leaves, c->n) : 0;

	if (n < 0)
		return -1;
	c->n = (size_t)n;
	return 0;
}

long claims_find(const struct claims *c, const unsigned char claimant[KEY_PUBLIC_BYTES])
{
	size_t low = 0, high = c->n;

	while (low < high) {
		size_t middle = (low + high) / 2;
		int order = memcmp(c->leaves[middle].claimant, claimant,
			KEY_PUBLIC_BYTES);

		if (order == 0)
			return (long)middle;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return -1;
}

void claims_root(const struct claims *c, char out[2 * MERKLE_HASH_BYTES + 1])
{
	unsigned char root[MERKLE_HASH_BYTES];

	out[0] = '\0';
	if (!c->n)
		return;
	merkle_root(c->leaves, c->n, root, 0, NULL, NULL);
	sodium_bin2hex(out, 2 * MERKLE_HASH_BYTES + 1, root, sizeof root);
}
