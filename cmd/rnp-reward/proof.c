/* proof.c - rnp-reward proof: proves that a node's pay is in the Merkle tree of an epoch. */
#include <sodium.h>
#include <string.h>

#include "cmd/rnp-reward/claims.h"
#include "cmd/rnp-reward/commands.h"
#include "cmd/rnp-reward/write.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/cli/records.h"
#include "common/json/canon.h"
#include "common/json/schema.h"

static const char *node;
static bool all;

static const struct opt options[] = {
	{ .name = "node",
		.kind = OPT_TEXT,
		.to = &node,
		.metavar = "A",
		.help = "the proof for the wallet of this node" },
	{ .name = "all",
		.kind = OPT_FLAG,
		.to = &all,
		.help = "the proof of every wallet, in the order of the tree" },
	{ .kind = OPT_END },
};

#define SLICE  1024 /* proofs that one thread formats at a time */
#define SLICES 16

struct tree {
	struct claims claims;
	json_t *reward, *epoch; /* those of the node, or NULL */
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
		if (node && !t->reward &&
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

/* Refuses a tree that is not the epoch's: a proof against it would prove nothing. */
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
	if (claims_address(t->reward, "reward", &address, claimant) < 0)
		return -1;
	index = claims_find(&t->claims, claimant);
	if (index < 0)
		return err_set(EXIT_NO, "node %.60s is paid nothing in this epoch", node);
	record = make_proof(t, index, address);
	rc = out_record(record);
	json_decref(record);
	return rc;
}

/* --- all of them, by hand: a million in seconds -------------------------------------------- */

static void add_hex(struct buf *out, const unsigned char hash[MERKLE_HASH_BYTES])
{
	static const char digits[] = "0123456789abcdef";
	char *to = buf_reserve(out, 2 * MERKLE_HASH_BYTES + 3);

	*to++ = '"';
	for (int i = 0; i < MERKLE_HASH_BYTES; i++) {
		*to++ = digits[hash[i] >> 4];
		*to++ = digits[hash[i] & 15];
	}
	*to = '"';
	out->len += 2 * MERKLE_HASH_BYTES + 2;
}

static void add_proof(struct buf *out, const struct merkle_tree *t,
	const struct claims *c, const char *policy, size_t i)
{
	const struct merkle_leaf *leaf = &c->leaves[i];
	char wallet[KEY_ADDRESS_MAX];

	address_format(leaf->claimant, wallet);
	buf_adds(out, "{\"kind\":\"rnp.proof\",\"v\":1,\"wallet\":\"");
	buf_adds(out, wallet);
	buf_adds(out, policy);
	buf_adds(out, "\",\"index\":");
	buf_add_i64(out, (int64_t)i);
	reward_number(out, ",\"unlocked_base_units\":", (int64_t)leaf->unlocked);
	reward_number(out, ",\"locked_base_units\":", (int64_t)leaf->locked);
	buf_adds(out, ",\"leaf\":");
	add_hex(out, t->nodes[i]);
	buf_adds(out, ",\"proof\":[");
	for (int level = 0; level + 1 < t->levels; level++) {
		if (level)
			buf_addc(out, ',');
		add_hex(out, merkle_tree_sibling(t, i, level));
	}
	buf_adds(out, "],\"merkle_root\":");
	add_hex(out, t->nodes[t->start[t->levels - 1]]);
	buf_adds(out, "}\n");
}

static int write_all(const struct tree *t, const struct merkle_tree *m,
	const char *policy)
{
	struct buf texts[SLICES] = { 0 };
	size_t n = t->claims.n;
	int rc = 0;

	for (size_t start = 0; start < n && rc == 0; start += SLICE * SLICES) {
#pragma omp parallel for schedule(dynamic, 1) if (n > SLICE)
		for (size_t s = 0; s < SLICES; s++) {
			size_t from = start + s * SLICE, to = from + SLICE;

			buf_reset(&texts[s]);
			for (size_t i = from; i < to && i < n; i++)
				add_proof(&texts[s], m, &t->claims, policy, i);
		}
		for (size_t s = 0; s < SLICES && rc == 0; s++)
			if (texts[s].len)
				rc = out_lines(NULL, texts[s].data, texts[s].len);
	}
	for (size_t s = 0; s < SLICES; s++)
		buf_release(&texts[s]);
	return rc;
}

static int prove_all(const struct tree *t)
{
	const char *name = json_string_value(json_object_get(t->epoch, "policy"));
	char root[2 * MERKLE_HASH_BYTES + 1];
	struct buf policy = BUF_INIT, quoted = BUF_INIT;
	struct merkle_tree m;
	int rc;

	claims_root(&t->claims, root);
	if (check_root(t, root) < 0)
		return -1;
	if (!t->claims.n)
		return err_set(EXIT_NO, "nobody is paid in this epoch");
	if (name) {
		/* the text between the wallet's closing quote and the next one */
		canon_string(&quoted, name, strlen(name));
		buf_adds(&policy, "\",\"policy\":");
		buf_add(&policy, quoted.data, quoted.len - 1);
	}
	merkle_tree_build(&m, t->claims.leaves, t->claims.n);
	rc = write_all(t, &m, buf_text(&policy));
	merkle_tree_release(&m);
	buf_release(&policy);
	buf_release(&quoted);
	return rc;
}

static int run(int n, char **args)
{
	struct tree t = { .reward = NULL };
	unsigned char key[KEY_PUBLIC_BYTES];
	int rc = -1;

	if (!node == !all)
		err_set(EX_USAGE, "give --node or --all");
	else if (node && address_parse(node, "--node", key) < 0)
		err_set(EX_USAGE, "--node: '%.60s' is not an address", node);
	else if (read_all(&t, args, n) == 0)
		rc = all ? prove_all(&t) : prove(&t);
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
		"Reads what epoch wrote (rnp.reward and rnp.epoch), writes one rnp.proof for the\n"
		"wallet of the node, or for every wallet. Exits 1 when it is paid nothing.",
	.columns = "node,wallet,index,unlocked_base_units,merkle_root",
	.opts = options,
	.run = run,
};
