/* proof_check.c - whether an rnp.proof record proves what it says: see proof_check.h. */
#include "cmd/rnp-reward/proof_check.h"

#include <sodium.h>
#include <string.h>

#include "common/base/address.h"
#include "common/base/err.h"
#include "common/json/json.h"

bool proof_hash(const json_t *v, unsigned char out[MERKLE_HASH_BYTES])
{
	const char *text = json_string_value(v);
	size_t n;

	return text &&
		sodium_hex2bin(out, MERKLE_HASH_BYTES, text, strlen(text), NULL, &n,
			NULL) == 0 &&
		n == MERKLE_HASH_BYTES;
}

int proof_check(const json_t *record, const char *where, const char **wallet,
	unsigned char root[MERKLE_HASH_BYTES], bool *good)
{
	unsigned char proof[64][MERKLE_HASH_BYTES];
	const json_t *siblings = json_object_get(record, "proof"), *v;
	struct merkle_leaf leaf;
	int64_t unlocked, locked;
	size_t i;

	if (json_get_text(record, where, "wallet", wallet) < 0 ||
		json_get_i64(record, where, "unlocked_base_units", 0, INT64_MAX,
			&unlocked) < 0 ||
		json_get_i64(record, where, "locked_base_units", 0, INT64_MAX, &locked) <
			0 ||
		address_parse(*wallet, where, leaf.claimant) < 0)
		return -1;
	/* the schema has checked their number and form */
	json_array_foreach(siblings, i, v)
		if (!proof_hash(v, proof[i]))
			bug("hash '%s'", json_string_value(v));
	proof_hash(json_object_get(record, "merkle_root"), root);
	leaf.unlocked = (uint64_t)unlocked;
	leaf.locked = (uint64_t)locked;
	*good = merkle_verify(&leaf, (const unsigned char(*)[MERKLE_HASH_BYTES])proof,
		(int)i, root);
	return 0;
}
