/* claims.c - collects the leaves of an epoch's Merkle tree from its rnp.reward records. */
#include "cmd/rnp-reward/epoch/claims.h"

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

int claims_add_scanned(struct claims *c, const struct claim *claim, const char *where)
{
	const struct merkle_leaf *leaf = &claim->leaf;

	c->nodes++;
	c->qualified += claim->qualified;
	if (__builtin_add_overflow(c->total_base_units,
		    (int64_t)(leaf->unlocked + leaf->locked), &c->total_base_units))
		return err_set(EX_DATAERR,
			"%s: the pay of all nodes does not fit 64 bits", where);
	if (!leaf->unlocked && !leaf->locked)
		return 0;
	c->leaves = xgrow(c->leaves, &c->cap, c->n + 1, sizeof *c->leaves);
	c->leaves[c->n++] = *leaf;
	return 0;
}

int claims_add(struct claims *c, const json_t *reward, const char *where)
{
	struct claim claim = { .qualified = json_is_true(
				       json_object_get(reward, "qualified")) };
	const char *address;
	int64_t amount, locked = 0;

	if (json_get_i64(reward, where, "base_units", 0, INT64_MAX, &amount) < 0 ||
		json_opt_i64(reward, where, "locked_base_units", 0, amount, &locked) <
			0 ||
		(amount &&
			claims_address(reward, where, &address, claim.leaf.claimant) < 0))
		return -1;
	claim.leaf.unlocked = (uint64_t)(amount - locked);
	claim.leaf.locked = (uint64_t)locked;
	return claims_add_scanned(c, &claim, where);
}

/* --- lines that reward_write wrote ---------------------------------------------------------- */

#define POLICY_BYTES_MAX 64 /* by the schema */
#define REASON_BYTES_MAX 500
#define TERMS_MAX        32 /* of a policy, by policy/rules.h */

static bool skip_texts(struct json_plain *s)
{
	const char *text;
	size_t len;

	if (!json_plain_take(s, '['))
		return false;
	if (json_plain_take(s, ']'))
		return true;
	do
		if (!json_plain_string(s, &text, &len) || len > REASON_BYTES_MAX)
			return false;
	while (json_plain_take(s, ','));
	return json_plain_take(s, ']');
}

/* Skips an object of whole numbers, each key once. */
static bool skip_numbers(struct json_plain *s)
{
	const char *keys[TERMS_MAX];
	size_t lens[TERMS_MAX];
	int64_t number;
	int n = 0;

	if (!json_plain_take(s, '{'))
		return false;
	if (json_plain_take(s, '}'))
		return true;
	do {
		if (n == TERMS_MAX || !json_plain_string(s, &keys[n], &lens[n]) ||
			!json_plain_take(s, ':') || !json_plain_whole(s, &number))
			return false;
		for (int i = 0; i < n; i++)
			if (lens[i] == lens[n] && memcmp(keys[i], keys[n], lens[n]) == 0)
				return false;
		n++;
	} while (json_plain_take(s, ','));
	return json_plain_take(s, '}');
}

static bool read_number(struct json_plain *s, const char *text, int64_t *out)
{
	return json_plain_word(s, text) && json_plain_whole(s, out);
}

static bool read_address(struct json_plain *s, const char *text,
	unsigned char out[ADDRESS_BYTES])
{
	char address[ADDRESS_MAX];

	if (!json_plain_word(s, text) || !json_plain_copy(s, address, sizeof address))
		return false;
	if (address_parse(address, "a reward", out) == 0)
		return true;
	err_clear();
	return false;
}

/* Reads up to "reasons". */
static bool scan_head(struct json_plain *s, struct claim *out)
{
	const char *policy;
	size_t len;

	if (!read_address(s,
		    "{\"kind\":\"rnp.reward\",\"v\":1,\"node\":", out->leaf.claimant))
		return false;
	if (s->end - s->at > 2 && s->at[2] == 'w' &&
		!read_address(s, ",\"wallet\":", out->leaf.claimant))
		return false;
	if (!json_plain_word(s, ",\"policy\":") || !json_plain_string(s, &policy, &len) ||
		len > POLICY_BYTES_MAX || !json_plain_word(s, ",\"qualified\":"))
		return false;
	out->qualified = json_plain_word(s, "true");
	return out->qualified || json_plain_word(s, "false");
}

bool claims_scan(struct claim *out, const char *line, size_t len)
{
	struct json_plain s = { line, line + len };
	int64_t job, availability, amount, locked = 0;

	if (!scan_head(&s, out) || !json_plain_word(&s, ",\"reasons\":") ||
		!skip_texts(&s) || !json_plain_word(&s, ",\"terms\":") ||
		!skip_numbers(&s) || !read_number(&s, ",\"job_base_units\":", &job) ||
		!read_number(&s, ",\"availability_base_units\":", &availability) ||
		!read_number(&s, ",\"base_units\":", &amount) ||
		(s.at < s.end && *s.at == ',' &&
			!read_number(&s, ",\"locked_base_units\":", &locked)) ||
		!json_plain_take(&s, '}') || s.at != s.end || locked > amount)
		return false;
	out->leaf.unlocked = (uint64_t)(amount - locked);
	out->leaf.locked = (uint64_t)locked;
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
