/* claims.c - collects the leaves of an epoch's Merkle tree from its rnp.reward records. */
#include "cmd/rnp-reward/claims.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/json/json.h"
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

int claims_add(struct claims *c, const json_t *reward, const char *where)
{
	const char *address;
	struct merkle_leaf *leaf;
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
	c->leaves = xgrow(c->leaves, &c->cap, c->n + 1, sizeof *c->leaves);
	leaf = &c->leaves[c->n++];
	leaf->unlocked = (uint64_t)(amount - locked);
	leaf->locked = (uint64_t)locked;
	return claims_address(reward, where, &address, leaf->claimant);
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
