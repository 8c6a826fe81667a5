/* proof.c - rnp-reward proof: proves that a node's pay is in the Merkle tree of an epoch. */
#include <sodium.h>
#include <string.h>

#include "cmd/rnp-reward/epoch/claims_read.h"
#include "cmd/rnp-reward/commands.h"
#include "cmd/rnp-reward/epoch/slices.h"
#include "cmd/rnp-reward/epoch/write.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/canon.h"

static const char *node;
static bool all;

static const struct opt options[] = {
	OPT(TEXT, "node", &node, "A", "the proof for the wallet of this node",
		.address = true),
	OPT_SWITCH("all", &all, "the proof of every wallet, in the order of the tree"),
	{ .kind = OPT_END },
};

#define SLICE 128 /* proofs that one thread formats at a time: 200 KB */

struct tree {
	struct claims claims;
	json_t *reward, *epoch; /* the records of the node, or NULL */
};

static int read_epoch(void *tree, const struct record *r)
{
	struct tree *t = tree;
	const char *kind = json_string_value(json_object_get(r->json, "kind"));

	if (strcmp(kind, "rnp.epoch") != 0)
		return err_set(EX_DATAERR,
			"%s: kind '%.40s' is neither rnp.reward nor rnp.epoch", r->where,
			kind);
	if (t->epoch)
		return err_set(EX_DATAERR,
			"%s: a second rnp.epoch: proofs are of one epoch", r->where);
	t->epoch = json_incref(r->json);
	return 0;
}

/* Appends the line of a reward that may be the node's: it has the address, or an escape, which may
 * hide it. */
static void note_line(void *tree, const char *line, size_t len, struct buf *out)
{
	(void)tree;
	if (memmem(line, len, node, strlen(node)) || memchr(line, '\\', len))
		buf_add(out, line, len);
}

static void keep_reward(void *tree, const char *line, size_t len)
{
	struct tree *t = tree;
	json_t *reward = len && !t->reward ? json_parse_object(line, len, "reward") :
					     NULL;
	const char *of = json_string_value(json_object_get(reward, "node"));

	if (of && strcmp(of, node) == 0)
		t->reward = json_incref(reward);
	json_decref(reward);
}

static int read_all(struct tree *t, char **files, int n)
{
	struct claims_reader reader = { .claims = &t->claims,
		.ctx = t,
		.note = node ? note_line : NULL,
		.keep = node ? keep_reward : NULL,
		.other = read_epoch };

	return claims_read(&reader, files, n) < 0 ? -1 : claims_finish(&t->claims);
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
	/* what is not hashed nobody could check, so nothing else is there: no node, no policy */
	json_set_text(record, "wallet", address);
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

#define HEX_BYTES (2 * MERKLE_HASH_BYTES + 3) /* with quotes and a comma */

struct proofs {
	const struct claims *claims;
	struct merkle_tree tree;
};

/* The "proof" of a leaf as text, which is edited for the next leaf: 2^k leaves share the text of a
 * sibling at level k. */
struct siblings {
	char text[MERKLE_DEPTH_MAX * HEX_BYTES];
	/* the node whose sibling the text has, at each level */
	size_t of[MERKLE_DEPTH_MAX];
};

static void put_hex(char to[HEX_BYTES], const unsigned char hash[MERKLE_HASH_BYTES])
{
	static const char digits[] = "0123456789abcdef";

	*to++ = '"';
	for (int i = 0; i < MERKLE_HASH_BYTES; i++) {
		*to++ = digits[hash[i] >> 4];
		*to++ = digits[hash[i] & 15];
	}
	*to++ = '"';
	*to = ',';
}

static void add_hex(struct buf *out, const unsigned char hash[MERKLE_HASH_BYTES])
{
	put_hex(buf_reserve(out, HEX_BYTES), hash);
	out->len += HEX_BYTES - 1;
}

static void add_siblings(struct buf *out, struct siblings *s, const struct merkle_tree *t,
	size_t i)
{
	int n = t->levels - 1;

	for (int level = 0; level < n && s->of[level] != i >> level; level++) {
		put_hex(s->text + level * HEX_BYTES, merkle_tree_sibling(t, i, level));
		s->of[level] = i >> level;
	}
	if (n)
		buf_add(out, s->text, (size_t)n * HEX_BYTES - 1);
}

static void add_proof(struct buf *out, const struct proofs *p, struct siblings *s,
	size_t i)
{
	const struct merkle_leaf *leaf = &p->claims->leaves[i];
	const struct merkle_tree *t = &p->tree;
	char wallet[KEY_ADDRESS_MAX];

	address_format(leaf->claimant, wallet);
	buf_adds(out, "{\"kind\":\"rnp.proof\",\"v\":1,\"wallet\":\"");
	buf_adds(out, wallet);
	buf_addc(out, '"');
	reward_number(out, ",\"unlocked_base_units\":", (int64_t)leaf->unlocked);
	reward_number(out, ",\"locked_base_units\":", (int64_t)leaf->locked);
	buf_adds(out, ",\"leaf\":");
	add_hex(out, t->nodes[i]);
	buf_adds(out, ",\"proof\":[");
	add_siblings(out, s, t, i);
	buf_adds(out, "],\"merkle_root\":");
	add_hex(out, t->nodes[t->start[t->levels - 1]]);
	buf_adds(out, "}\n");
}

static void format_proofs(void *proofs, size_t from, size_t to, struct buf *out)
{
	struct siblings s;

	memset(s.of, 0xff, sizeof s.of);
	for (size_t i = from; i < to; i++)
		add_proof(out, proofs, &s, i);
}

static int prove_all(const struct tree *t)
{
	struct proofs p = { .claims = &t->claims };
	char root[2 * MERKLE_HASH_BYTES + 1];
	int rc;

	claims_root(&t->claims, root);
	if (check_root(t, root) < 0)
		return -1;
	if (!t->claims.n)
		return err_set(EXIT_NO, "nobody is paid in this epoch");
	merkle_tree_build(&p.tree, t->claims.leaves, t->claims.n);
	rc = slices_write(t->claims.n, SLICE, format_proofs, &p);
	merkle_tree_release(&p.tree);
	return rc;
}

static int run(int n, char **args)
{
	struct tree t = { .reward = NULL };
	int rc = -1;

	if (!node == !all)
		err_set(EX_USAGE, "give --node or --all");
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
	.columns = "wallet,unlocked_base_units,locked_base_units,merkle_root",
	.opts = options,
	.run = run,
};
