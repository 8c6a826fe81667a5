/* party.c - tests who may sign which kind: the node, a trusted party, nobody else. */
#include "common/record/party.h"

#include <stdlib.h>
#include <string.h>

#include "common/json/canon.h"
#include "common/json/json.h"
#include "common/record/key.h"
#include "tests/unit/test.h"

static struct key node, other, judge;

/* The result for a record of that kind about `node`, signed by k; author: its `signer`, or NULL. */
static enum party signed_by(const char *kind, const struct key *k, const char *author)
{
	const char *trusted[] = { judge.address }, *who = NULL;
	json_t *record = json_record(kind);
	struct signature_result r;
	unsigned char hash[32];
	enum party party;

	json_set_text(record, "node", node.address);
	json_set_text(record, "signer", author);
	CHECK(signature_add(record, k, 1000) == 0);
	signature_verify(record, &r);
	party = party_check(record, &r, trusted, 1, &who);
	CHECK((who != NULL) == (party == PARTY_GOOD));
	CHECK(!who || strcmp(who, k->address) == 0);
	/* what was hashed for the signature is what the record is known by */
	CHECK(canon_hash_record(hash, record) == 0 && r.valid);
	CHECK(memcmp(hash, r.sha256, sizeof hash) == 0);
	json_set_i64(record, "more", 1);
	signature_verify(record, &r);
	CHECK(party == PARTY_NO_RULE ||
		party_check(record, &r, trusted, 1, NULL) == PARTY_BAD_SIGNATURE);
	json_decref(record);
	return party;
}

int main(void)
{
	CHECK(key_generate(&node) == 0 && key_generate(&other) == 0 &&
		key_generate(&judge) == 0);
	for (int i = 0; i < 5; i++) {
		const char *own[] = { "rnp.node", "rnp.heartbeat", "rnp.quote",
			"rnp.answer", "rnp.bench" };
		const char *about[] = { "rnp.verdict", "rnp.receipt", "rnp.uptime",
			"rnp.challenge", "rnp.usage" };

		CHECK(signed_by(own[i], &node, NULL) == PARTY_GOOD);
		CHECK(signed_by(own[i], &other, NULL) == PARTY_OTHER);
		CHECK(signed_by(own[i], &judge, NULL) ==
			(i == 4 ? PARTY_GOOD : PARTY_OTHER));
		CHECK(signed_by(about[i], &judge, NULL) == PARTY_GOOD);
		CHECK(signed_by(about[i], &judge, judge.address) == PARTY_GOOD);
		CHECK(signed_by(about[i], &judge, other.address) == PARTY_NOT_AUTHOR);
		CHECK(signed_by(about[i], &node, NULL) == PARTY_OTHER);
		CHECK(signed_by(about[i], &other, other.address) == PARTY_OTHER);
		CHECK(!party_names_signer(own[i]) && party_names_signer(about[i]));
	}
	CHECK(signed_by("rnp.floor", &node, NULL) == PARTY_NO_RULE);
	CHECK(!party_rule(NULL) && !party_rule("rnp") && party_rule("rnp.node"));
	key_release(&node);
	key_release(&other);
	key_release(&judge);
	TEST_END();
}
