/* party.c - who may sign which kind of record, as one table. */
#include "common/record/party.h"

#include <string.h>

static const struct {
	struct party_rule rule;
	bool names_signer; /* somebody else writes it about a node and is named in `signer` */
} parties[] = {
	{ { "rnp.node", true, false }, false },
	{ { "rnp.heartbeat", true, false }, false },
	{ { "rnp.bench", true, true }, false },
	{ { "rnp.quote", true, false }, false },
	{ { "rnp.answer", true, false }, false },
	{ { "rnp.roots", true, false }, false },
	{ { "rnp.unanswered", true, false }, false },
	{ { "rnp.challenge", false, true }, true },
	{ { "rnp.verdict", false, true }, true },
	{ { "rnp.receipt", false, true }, true },
	{ { "rnp.uptime", false, true }, true },
	{ { "rnp.invitation", false, true }, true },
	{ { "rnp.usage", false, true }, true },
	{ { "rnp.reward", false, true }, true },
};

#define PARTIES (sizeof parties / sizeof *parties)

static int find(const char *kind)
{
	for (size_t i = 0; kind && i < PARTIES; i++)
		if (strcmp(parties[i].rule.kind, kind) == 0)
			return (int)i;
	return -1;
}

const struct party_rule *party_rule(const char *kind)
{
	int i = find(kind);

	return i < 0 ? NULL : &parties[i].rule;
}

bool party_names_signer(const char *kind)
{
	int i = find(kind);

	return i >= 0 && parties[i].names_signer;
}

static bool is_trusted(const char *const *trusted, int n, const char *address)
{
	for (int i = 0; i < n; i++)
		if (strcmp(trusted[i], address) == 0)
			return true;
	return false;
}

enum party party_check(const json_t *record, const struct signature_result *r,
	const char *const *trusted, int ntrusted, const char **who)
{
	const char *kind = json_string_value(json_object_get(record, "kind"));
	const char *node = json_string_value(json_object_get(record, "node"));
	const char *author = json_string_value(json_object_get(record, "signer"));
	const struct party_rule *rule = party_rule(kind);

	if (!rule)
		return PARTY_NO_RULE;
	if (!r->valid)
		return PARTY_BAD_SIGNATURE;
	if (author && rule->by_trusted && !signature_is_by(r, author))
		return PARTY_NOT_AUTHOR;
	for (int i = 0; i < r->nsigners; i++) {
		const char *signer = r->signers[i];

		if ((rule->by_node && node && strcmp(signer, node) == 0) ||
			(rule->by_trusted && is_trusted(trusted, ntrusted, signer))) {
			if (who)
				*who = signer;
			return PARTY_GOOD;
		}
	}
	return PARTY_OTHER;
}
