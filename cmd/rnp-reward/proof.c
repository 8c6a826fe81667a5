/* rnp-reward proof - that a node's pay is in the Merkle tree of an epoch. */
#include <sodium.h>
#include <string.h>

#include "cmd/rnp-reward/claims.h"
#include "cmd/rnp-reward/commands.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/cli/records.h"
#include "common/json/schema.h"

static const char *node;

static const struct opt options[] = {
	OPT_NODE(&node),
	{ .kind = OPT_END },
};

struct tree {
	struct claims claims;
	json_t *reward, *epoch; /* of the node; or NULL */
};

static int take(void *tree, const struct record *r)
{
	struct tree *t = tree;
	const char *kind;
	int rc = 0;

	if (schema_check(r->json, r->where, NULL) < 0)
		return -1;
	kind = json_string_value(json_object_get(r->json, "kind"));
	if (strcmp(kind, "rnp.epoch") == 0) {
		if (t->epoch)
			rc = err_set(EX_DATAERR,
				"%s: a second rnp.epoch: proofs are of one epoch",
				r->where);
		t->epoch = t->epoch ? t->epoch : json_incref(r->json);
	} else if (strcmp(kind, "rnp.reward") == 0) {
		rc = claims_add(&t->claims, r->json, r->where);
		if (!t->reward &&
			strcmp(json_string_value(json_object_get(r->json, "node")),
				node) == 0)
			t->reward = json_incref(r->json);
	} else {
		rc = err_set(EX_DATAERR,
			"%s: kind '%.40s' is neither rnp.reward nor rnp.epoch", r->where,
			kind);
	}
	return rc;
}

static int read_all(struct tree *t, char **files, int n)
{
	if (records_each(files, n, JSON_RECORD_BYTES_MAX, take, t) < 0)
		return -1;
	return claims_finish(&t->claims);
}

/* A proof against a tree that is not the epoch's would prove nothing. */
static int check_root(const struct tree *t, const char *root)
{
	const char *closed = json_string_value(json_object_get(t->epoch, "merkle_root"));

	if (closed && strcmp(closed, root) != 0)
		return err_set(EX_DATAERR,
			"these rewards have the root %s, the epoch has %s: some "
			"are missing or changed",
			root, closed);
	return 0;
}

static void set_hash(json_t *record, const char *key,
	const unsigned char hash[MERKLE_HASH_BYTES])
{
	char hex[2 * MERKLE_HASH_BYTES + 1];

	sodium_bin2hex(hex, sizeof hex, hash, MERKLE_HASH_BYTES);
	json_set_text(record, key, hex);
}

static json_t *make_proof(const struct tree *t, long index, const char *address)
{
	unsigned char root[MERKLE_HASH_BYTES], leaf[MERKLE_HASH_BYTES];
	unsigned char proof[MERKLE_DEPTH_MAX][MERKLE_HASH_BYTES];
	json_t *record = json_record("rnp.proof"), *siblings = json_array();
	int n;

	merkle_root(t->claims.leaves, t->claims.n, root, (size_t)index, proof, &n);
	merkle_leaf_hash(&t->claims.leaves[index], leaf);
	json_set_text(record, "node", node);
	json_set_text(record, "wallet", address);
	json_set_text(record, "policy",
		json_string_value(json_object_get(t->reward, "policy")));
	json_set_i64(record, "index", index);
	json_set_i64(record, "unlocked_base_units",
		(int64_t)t->claims.leaves[index].unlocked);
	json_set_i64(record, "locked_base_units",
		(int64_t)t->claims.leaves[index].locked);
	set_hash(record, "leaf", leaf);
	for (int i = 0; i < n; i++) {
		char hex[2 * MERKLE_HASH_BYTES + 1];

		sodium_bin2hex(hex, sizeof hex, proof[i], MERKLE_HASH_BYTES);
		json_push_text(siblings, hex);
	}
	json_set(record, "proof", siblings);
	set_hash(record, "merkle_root", root);
	return record;
}

static int prove(const struct tree *t)
{
	unsigned char claimant[KEY_PUBLIC_BYTES];
	char root[2 * MERKLE_HASH_BYTES + 1];
	const char *address;
	json_t *record;
	long index;
	int rc;

	claims_root(&t->claims, root);
	if (check_root(t, root) < 0)
		return -1;
	if (!t->reward)
		return err_set(EXIT_NO, "node %.60s has no reward in this epoch", node);
	if (claims_who(t->reward, "reward", &address, claimant) < 0)
		return -1;
	index = claims_find(&t->claims, claimant);
	if (index < 0)
		return err_set(EXIT_NO, "node %.60s is paid nothing in this epoch", node);
	record = make_proof(t, index, address);
	rc = out_record(record);
	json_decref(record);
	return rc;
}

static int run(int n, char **args)
{
	struct tree t = { .reward = NULL };
	unsigned char key[KEY_PUBLIC_BYTES];
	int rc = -1;

	if (address_parse(node, "--node", key) < 0)
		err_set(EX_USAGE, "--node: '%.60s' is not an address", node);
	else if (read_all(&t, args, n) == 0)
		rc = prove(&t);
	claims_release(&t.claims);
	json_decref(t.reward);
	json_decref(t.epoch);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_proof = {
	.name = "proof",
	.arguments = "[file ...]",
	.args_max = -1,
	.summary = "Prove that a node's pay is in the Merkle tree of an epoch.",
	.details =
		"Reads what epoch wrote (rnp.reward and rnp.epoch), writes one rnp.proof for the "
		"wallet of the node. Exits 1 when it is paid nothing.",
	.columns = "node,wallet,index,unlocked_base_units,merkle_root",
	.opts = options,
	.run = run,
};
