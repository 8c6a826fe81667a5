/* poc.h - proof of compute: what a verifier asks, what a node answers, and how that is
 * verified.
 *
 * Pure but for memory: no I/O, no clock. Uses kernels, libsodium, json, canon, proof. This
 * header and memfill.h define every byte; rnp-bench(1) explains. All whole numbers that are
 * hashed are little-endian, H is SHA-256, || joins.
 *
 * Randomness. Device seed = H("rnp-challenge-1" || nonce || key of the node || uuid of the
 * device); the uuid of the CPU is "cpu:" and H(key of the node) in hex. A sequence X is
 * Philox-4x32-10 with key and stream from the first 16 bytes of H(seed || "X") (philox.h).
 *
 * Trees. leaf = H(0x00 || u32 a || u32 b || bytes), node = H(0x01 || left || right); an odd
 * last node goes up unchanged, which is the shape of RFC 6962. A proof of a set of leaves is
 * one list: level by level from the leaves, ascending, the hashes that cannot be computed from
 * what is known. Its length follows from the set; a longer or shorter one is refused.
 *
 * Indices. x = H("rnp-indices-1" || nonce || seed || test || root), hashed again 2^18 times; x,
 * as the seed of rng.h, draws numbers below the count of leaves until there are enough distinct
 * ones; they are used in ascending order. A try at another root costs those 2^18 sequential
 * hashes, about 10 ms.
 *
 * matmul. n x n matrices of int8: byte i of sequence A0, B0 .. B7, -128 replaced by 0, so that the
 * mean is 0; A0 row by row, the B's column by column, as products take them (product.h). Round t = 1 .. rounds: C = A_{t-1} B_{(t-1) mod 8} exactly, and
 *     A_t[i][j] = int8(((uint32(C[i][j]) ^ r[t][i] ^ c[t][j]) x 0x9E3779B1) >> 24)
 * where r[t][i] and c[t][j] are words t n + i and t n + j of the sequences "rows" and "columns". The two
 * salts are not in the design's formula and close a hole in it: without them the zero row is a fixed
 * point, rows that are once made equal stay equal, and a row may be another row shifted by 8 rounds.
 * One wrong step a row then saves all its later rounds, and with 2000 rounds nine in ten such
 * answers would pass 264 openings (played without salts: 350 of 400 answers of zeros passed, n = 64). With salts a wrong step makes at most the next product known as
 * well: who saves the share w of all products passes with (1 - w/2)^264, who merely skips the
 * share p of the rows with (1 - p)^264: 2^-40 for 10%. Leaves are the rows of A_1 .. A_rounds in
 * order, a = t, b = row. 264 of them are opened, each with the same row of round t - 1 (known for
 * t = 1).
 *
 * memory. The fill of memfill.h in 4 passes steps. Step u has a tree of its own over its
 * blocks, lane by lane: a = lane, b = u per_slice + i. From its root comes x as above (test
 * "memory" || u32 u), which draws the blocks to be opened, each with its parents, and is the
 * seed of the next step's sequence: H(x || "next"), the first one's is H(seed || "memory").
 * They are 160 in each of the last four steps, whose blocks are what lies in memory at the end,
 * and 64 in each step before.
 *
 * Why so many. Who keeps the share 1 - w of the lanes and lets zeros stand for the others
 * passes a step with k openings with probability (1 - w)^k, and may grind: one block of the
 * step is changed until no block is drawn that is missing. A try costs a path and the 2^18
 * hashes, and tries are independent: a GPU that does 10^10 SHA-256 a second tries 38,000 a
 * second. With 8 to 11 openings a step half of the memory passed in 2.5 times the honest time.
 * Now a tenth less costs 0.9^-160 = 2.1 x 10^7 tries in each of the last four steps, 37 minutes
 * in all beside such a GPU, where an H200 takes 7 s for all tests; in the steps before it costs
 * 850 tries, which buys nothing, because the memory has to be there in the end.
 * tests/poc/grinder.h does it. The openings of the last steps cannot wait for one fold over all
 * roots: the blocks that three of these steps were made from are overwritten by then. It would
 * take 264 of them; 4 x 160 by their own folds are harder to grind (0.9^-160 four times beats
 * nothing but 0.9^-264, which nobody reaches either) and each has its parents beside it.
 *
 * In two things this is more than the design's fill, because each closes a hole in it:
 *   - Positions come from Philox, but the seed of a step is not known before the step before it is
 *     complete. With all known from the start, a block is thrown away after its last reader: 28%
 *     of the memory were enough with one parent in a finished slice and one pass, 70% with four and
 *     two (counted, 256 lanes of 4 x 256), and nothing is computed twice. The attacks on positions
 *     from contents need one block's choice to steer what is read next; here a try at another
 *     seed costs a whole root and 2^18 hashes, and moves all positions at once.
 *   - A block has eight parents in finished slices instead of one. Who keeps one of two blocks and
 *     computes the others again when they are read, computes with one parent 1.5 times the blocks,
 *     which is less than what a busy machine loses; with eight 12.3 times.
 *
 * What keeping a part costs in time, measured with hashes and trees included (AVX-512, 2 vCPUs
 * of a Xeon at 2.1 GHz; tests/poc/miser.h, which gets for free what a later step overwrote):
 * one of two blocks 4.2 times (256 MiB, 2 passes: 2.81 s, and 0.67 s for all), one of four,
 * which computes 129 times the blocks, 4.2 times of that again (32 MiB). The deadline is 5 s,
 * the sending, and twice the time of the claimed class: it excludes both as soon as the fill is
 * 5 s of what the class takes, for a device that is no faster than its claim. Without a claim
 * it excludes only the slow.
 *
 * chain. state = H(state) from H(seed || "chain"), segments times steps; the state after each
 * segment is in the answer and all segments are computed again.
 *
 * Time. A verifier signs the moment of issue into the challenge and later reads it back under
 * its own signature, on its own clock, so that nothing the node says enters. All tests of all
 * devices share that time: each rate is a lower bound. It proves work within time on some
 * device that the node controls: not which, nor where. */
#ifndef RNP_COMMON_POC_POC_H
#define RNP_COMMON_POC_POC_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/record/key.h"
#include "common/record/policy.h"
#include "kernels/poc/sha256_chain.h"
#include "kernels/bulk/product.h"
#include "kernels/poc/int8.h"
#include "kernels/poc/memfill.h"
#include "kernels/poc/sha256_rows.h"
#include "kernels/dev/philox.h"

#define POC_OPENINGS 264
/* Blocks opened of the memory test's steps; see poc_step_openings. */
#define POC_STEP_OPENINGS 64
#define POC_LAST_OPENINGS 160
#define POC_HASH_BYTES    32
#define POC_MATRICES      8
#define POC_MULTIPLIER    0x9E3779B1u

/* 2^18. Only the unit test, which verifies a thousand answers, makes it less. */
extern uint64_t poc_folds;
/* What does those hashes; NULL: sha256_chain_fast(). The benchmark, which verifies a hundred
 * thousand answers at once, puts those of many into the lanes of one call. */
extern sha256_chain_fn poc_sha256_chain;

/* Limits: a challenge or an answer beyond them is refused before any work is done. */
#define POC_DEVICES_MAX         16
#define POC_UUID_MAX            129
#define POC_N_MIN               64 /* a multiple of it */
#define POC_N_MAX               16384
#define POC_LEAVES_MAX          ((int64_t)1 << 28) /* rows of all rounds, blocks of a step */
#define POC_LANES_MAX           65536
#define POC_PASSES_MAX          8
#define POC_SEGMENTS_MAX        65536
#define POC_STEPS_MAX           ((int64_t)1 << 24)
#define POC_HASHES_MAX          ((int64_t)1 << 30)
#define POC_DEADLINE_MS_MAX     86400000
#define POC_CHALLENGE_BYTES_MAX ((size_t)64 << 10)
#define POC_ANSWER_BYTES_MAX    ((size_t)256 << 20) /* of a CPU and eight H200 */
/* Values in it: half of them are what 16 devices need. As JSON each takes up to 200 bytes of
 * memory. */
#define POC_ANSWER_VALUES_MAX 262144

/* What one device has to do; 0 in the first field of a test: not asked. */
struct poc_device {
	char uuid[POC_UUID_MAX];
	int64_t n, rounds;
	int64_t lanes, per_slice, passes;
	int64_t segments, steps;
};

struct poc_challenge {
	unsigned char nonce[POC_HASH_BYTES], node_key[KEY_PUBLIC_BYTES];
	unsigned char sha256[POC_HASH_BYTES]; /* of the canonical record without proof */
	/* The rnp.node whose claims are asked for, by its hash, and what challenges of one
	 * instant have in common; each only where it is said to be there. */
	bool of_record, of_joint;
	unsigned char node_record[POC_HASH_BYTES], joint[POC_HASH_BYTES];
	char node[KEY_ADDRESS_MAX], signer[KEY_ADDRESS_MAX];
	/* From issued_ms: when the roots have to be there, 0: with the answer; and the answer. */
	int64_t issued_ms, roots_ms, deadline_ms;
	int ndevices;
	struct poc_device devices[POC_DEVICES_MAX];
};

/* Check a record and its signature; where names it in errors. Returns 0, or -1 with EX_DATAERR. */
int poc_challenge_read(struct poc_challenge *c, const json_t *record, const char *where);

/* The record of a challenge, without proof; sets c->sha256. The caller owns it. Returns NULL with
 * EX_DATAERR when sizes are beyond the limits. */
json_t *poc_challenge_write(struct poc_challenge *c);

/* Parse an answer of anybody: an object with no more values than an answer can have, which is
 * looked at before memory is taken for them. The caller owns it. Returns NULL with EX_DATAERR. */
json_t *poc_answer_parse(const char *text, size_t len, const char *where);

#define POC_ROUNDTRIP_PART 50

/* Under which conditions an answer is verified. */
struct poc_conditions {
	int64_t received_ms; /* when the answer was there, on the clock that signed issued_at */
	int64_t elapsed_ns; /* measured better than by the two times; 0: by them */
	/* The rnp.roots that came before, as they were signed, and when after the challenge; of
	 * a challenge with roots_ms an answer without them is refused. */
	bool has_roots;
	unsigned char roots[POC_HASH_BYTES];
	int64_t roots_ns;
	/* the verifier's own probe of the way. It is taken off, but no more than elapsed_ns /
	 * POC_ROUNDTRIP_PART: who is probed can always make the way seem longer */
	int64_t roundtrip_ns;
	int64_t bandwidth_bps;    /* bytes a second, the lower direction; 0: not taken */
	const char *no_bandwidth; /* why not */
	const struct policy *policy; /* whose reference scores, or NULL */
};

/* The hash of what an answer of any shape commits to, as rnp.roots has it. */
void poc_roots_hash(unsigned char out[POC_HASH_BYTES], const json_t *answer);

/* The rnp.roots of an answer, without proof; the caller owns it. */
json_t *poc_roots_write(const struct poc_challenge *c, const json_t *answer);

/* Verify an answer of any shape. Returns the verdict record without proof, which the caller owns;
 * *passed says what it holds. Never fails: what is wrong is a check that did not pass. */
json_t *poc_verify(const struct poc_challenge *c, const json_t *answer,
	const struct poc_conditions *j, bool *passed);

/* How much to ask; 0: as much as is usual for the device. */
struct poc_work {
	bool quick;
	int64_t n, rounds, memory_bytes, hashes;
};

/* The sizes for a device of the challenge's node: name is its uuid, or "cpu". poc_challenge_write
 * refuses what is beyond the limits. */
void poc_plan_device(struct poc_device *d, const struct poc_challenge *c,
	const char *name, const struct poc_work *w);

/* How fast a device of a class is: operations of matmul, bytes of the fill in all passes with their
 * hashes, and hashes of the chain, a second. */
struct poc_class {
	double operations, fill_bytes, hashes;
};

/* A device may take so many times as long as its class: it may be as busy with something else. */
#define POC_SLACK 2
/* Of a joint challenge, which asks for twice the work: what two nodes have on one device takes
 * it twice as long, which is too late as soon as the work of the class is longer than 10 s. */
#define POC_JOINT_SLACK 1.5

/* What is asked of a claimed memory: of a GPU's all but so much, which the driver, the matrices
 * and the hashes need; of a machine's a fourth, up to 4 GiB. */
#define POC_GPU_MARGIN_PERCENT 15
#define POC_CPU_SHARE          4
#define POC_CPU_BYTES          ((int64_t)4 << 30)

/* How long a class takes for what is asked of d; of NULL: the slowest that we accept. */
int64_t poc_plan_time_ms(const struct poc_device *d, const struct poc_class *of);

/* The deadline: 5 s for starting, the answer at a megabyte a second, and POC_SLACK times what the
 * slowest device takes. of: the classes of the devices; NULL: not known, half a minute for
 * starting, and the slowest that we accept. */
int64_t poc_plan_deadline_ms(const struct poc_challenge *c, const struct poc_class *of);

/* The same for the roots alone, which are small: what is over then is the work, and nobody's
 * line. */
int64_t poc_plan_roots_ms(const struct poc_challenge *c, const struct poc_class *of);

/* Whether the answer will fit into POC_ANSWER_BYTES_MAX. */
bool poc_plan_fits(const struct poc_challenge *c);

/* Asks a node for all that its rnp.node claims: the CPU, and each GPU that can be asked (as
 * many as an answer has room for), at sizes and with a deadline of their classes: the model
 * that is named decides both, whatever memory is claimed. A uuid that is there twice is asked
 * once. Sets devices, node_record, roots_ms and deadline_ms of c, whose node_key is known;
 * of_joint says whether it is a joint one. The record may be anybody's and of any shape;
 * whatever it holds, poc_challenge_write takes what comes of it. Returns 0, or -1 with
 * EX_DATAERR: the record has no canonical form. */
int poc_plan_node(struct poc_challenge *c, const json_t *node);

/* Why a GPU of an rnp.node cannot be challenged, and is not paid, or NULL. */
const char *poc_plan_why_not(const json_t *gpu);

/* --- what prover and verifier share ------------------------------------------------------- */

void poc_cpu_uuid(char out[POC_UUID_MAX], const unsigned char key[KEY_PUBLIC_BYTES]);
void poc_seed(unsigned char out[POC_HASH_BYTES], const struct poc_challenge *c,
	const char *uuid);
void poc_derive(unsigned char out[POC_HASH_BYTES],
	const unsigned char seed[POC_HASH_BYTES], const char *name);
void poc_sequence(struct philox *out, const unsigned char seed[POC_HASH_BYTES],
	const char *name);

/* x of a root: the expensive hash that indices come from. */
void poc_fold(unsigned char x[POC_HASH_BYTES], const struct poc_challenge *c,
	const unsigned char seed[POC_HASH_BYTES], const char *test,
	const unsigned char root[POC_HASH_BYTES]);

/* The same for step u of the memory test. */
void poc_fold_step(unsigned char x[POC_HASH_BYTES], const struct poc_challenge *c,
	const unsigned char seed[POC_HASH_BYTES], int64_t u,
	const unsigned char root[POC_HASH_BYTES]);

/* count distinct numbers below total, ascending; count <= total. */
void poc_draw(uint64_t *out, int count, uint64_t total,
	const unsigned char x[POC_HASH_BYTES]);

/* Sort ascending and drop what is there twice; returns how many are left. */
size_t poc_sort(uint64_t *at, size_t n);

/* The place of v in a sorted list that holds it. */
size_t poc_find(const uint64_t *at, size_t n, uint64_t v);

/* The kernels for this CPU at the level of RNP_ISA, each for one thread. */
struct poc_kernels {
	philox_fill_fn philox;
	sha256_rows_fn sha256;
	int8_balance_fn balance;
	product_fn product; /* int8 */
};
const struct poc_kernels *poc_kernels(void);

/* Bytes from the start of block p->block, by all threads. */
void poc_fill(void *out, uint64_t bytes, const struct philox *p);

/* Leaf hashes of count rows that lie one after the other, b = first .., by all threads. */
void poc_leaves(unsigned char *out, const void *rows, uint64_t row_bytes, uint64_t count,
	uint32_t a, uint64_t first);

/* A tree in memory: 2 x 32 bytes a leaf. Fill nodes[0 .. 32 leaves), then build. */
struct poc_tree {
	uint64_t leaves;
	unsigned char *nodes;
};

void poc_tree_init(struct poc_tree *t, uint64_t leaves);
void poc_tree_release(struct poc_tree *t);
void poc_tree_build(struct poc_tree *t, unsigned char root[POC_HASH_BYTES]);

/* Append the proof of the leaves at (sorted, distinct). */
void poc_tree_open(const struct poc_tree *t, const uint64_t *at, size_t n,
	struct buf *out);

/* Whether the leaves at, with these hashes (used up), stand in the tree under root. */
bool poc_tree_check(const unsigned char root[POC_HASH_BYTES], uint64_t leaves,
	const uint64_t *at, unsigned char *hashes, size_t n, const unsigned char *proof,
	size_t proof_bytes);

/* matmul: rows of the first matrix (which: -1) or columns of a B (0 .. 7), count of them from first
 * on, n bytes each, by all threads. */
void poc_matrix(int8_t *out, const unsigned char seed[POC_HASH_BYTES], int which,
	int64_t n, int64_t first, int64_t count);

/* matmul: the salts of round t, n words each. */
void poc_salts(uint32_t *rows, uint32_t *columns,
	const unsigned char seed[POC_HASH_BYTES], int64_t n, int64_t t);

/* matmul: one row of the next matrix from one row of C. */
void poc_next_row(int8_t *out, const int32_t *c, int64_t n, uint32_t row_salt,
	const uint32_t *column_salts);

/* memory: the blocks opened in step u, of all steps before u, and all blocks that have to be in
 * the answer for a step: with their parents, as numbers u * leaves of a step + leaf. */
#define POC_MEMORY_OPENINGS_MAX \
	(MEMFILL_SLICES * ((POC_PASSES_MAX - 1) * POC_STEP_OPENINGS + POC_LAST_OPENINGS))
#define POC_NEEDED_MAX ((2 + MEMFILL_REFS) * POC_MEMORY_OPENINGS_MAX)
int64_t poc_step_openings(const struct poc_device *d, int64_t u);
int64_t poc_openings_before(const struct poc_device *d, int64_t u);
int64_t poc_step_leaves(const struct poc_device *d);
size_t poc_needed(uint64_t *out, const struct poc_device *d, const struct memfill *m,
	const uint64_t *drawn, int count);

/* The philox of step 0 and of the step after one with that x. */
void poc_first_key(struct philox *out, const unsigned char seed[POC_HASH_BYTES]);
void poc_next_key(struct philox *out, const unsigned char x[POC_HASH_BYTES]);

/* The tests verified alone: part is the test's object in the answer. On false, reason says why. */
#define POC_REASON_MAX 200
bool poc_verify_matmul(const struct poc_challenge *c, const struct poc_device *d,
	const json_t *part, char reason[POC_REASON_MAX]);
bool poc_verify_memory(const struct poc_challenge *c, const struct poc_device *d,
	const json_t *part, char reason[POC_REASON_MAX]);
bool poc_verify_chain(const struct poc_challenge *c, const struct poc_device *d,
	const json_t *part, char reason[POC_REASON_MAX]);

/* Bytes as base64url without padding, set as a field; and back, exactly want bytes or NULL. */
void poc_set_bytes(json_t *obj, const char *key, const void *data, size_t len);
unsigned char *poc_get_bytes(const json_t *obj, const char *key, size_t want);
/* Any number up to max; *len is set. */
unsigned char *poc_get_some(const json_t *obj, const char *key, size_t max, size_t *len);

/* 32 bytes as hex, set as a field and read. */
void poc_set_hash(json_t *obj, const char *key, const unsigned char hash[POC_HASH_BYTES]);
bool poc_get_hash(const json_t *v, unsigned char out[POC_HASH_BYTES]);

#endif
