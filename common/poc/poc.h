/* poc.h - proof of compute: what a verifier asks, what a node answers, and how the answer is
 * verified.
 *
 * Pure except for memory: no I/O, no clock. Uses kernels, libsodium, json, canon, signature. This
 * header and memfill.h define every byte; rnp-bench(1) explains. All whole numbers that are hashed
 * are little-endian, H is SHA-256, || concatenates.
 *
 * Randomness. Device seed = H("rnp-challenge-1" || nonce || key of the node || uuid of the device);
 * the uuid of the CPU is "cpu:" and H(key of the node) in hex. A sequence X is Philox-4x32-10 with
 * key and stream from the first 16 bytes of H(seed || "X") (philox.h).
 *
 * Trees. leaf = H(0x00 || u32 a || u32 b || bytes), node = H(0x01 || left || right); an odd last
 * node is promoted unchanged, which is the shape of RFC 6962. A proof of a set of leaves is one
 * list: level by level from the leaves, ascending, the hashes that cannot be computed from those
 * known. Its length follows from the set; a longer or shorter proof is refused.
 *
 * Indices. x = H("rnp-indices-1" || nonce || seed || test || root), hashed again 2^18 times; x, as
 * the seed of rng.h, draws numbers below the count of leaves until there are enough distinct ones;
 * they are used in ascending order. Trying another root costs these 2^18 sequential hashes, about
 * 10 ms.
 *
 * matmul. n x n matrices of int8: byte i of sequence A0, B0 .. B7, -128 replaced by 0, so that the
 * mean is 0; A0 row by row, the B's column by column, as products take them (product.h). Round t =
 * 1 .. rounds: C = A_{t-1} B_{(t-1) mod 8} exactly, and
 *     A_t[i][j] = int8(((uint32(C[i][j]) ^ r[t][i] ^ c[t][j]) x 0x9E3779B1) >> 24)
 * where r[t][i] and c[t][j] are words t n + i and t n + j of the sequences "rows" and "columns".
 * The two salts close a hole. Without them the zero row is a fixed point, rows once made equal stay
 * equal, and a row may be another row shifted by 8 rounds: one wrong step in a row then saves all
 * its later rounds, and with 2000 rounds nine in ten such answers would pass 264 openings
 * (simulated without salts: 350 of 400 answers of zeros passed, n = 64). With salts, a wrong step
 * makes at most the next product known as well: a prover that saves the fraction w of all products
 * passes with probability (1 - w/2)^264, one that merely skips the fraction p of the rows with (1 -
 * p)^264: 2^-40 for 10%. Leaves are the rows of A_1 .. A_rounds in order, a = t, b = row. 264 of
 * them are opened, each with the same row of round t - 1 (known for t = 1).
 *
 * memory. The fill of memfill.h in 4 passes steps. Step u has its own tree over its blocks, lane by
 * lane: a = lane, b = u per_slice + i. Its root gives x as above (test "memory" || u32 u), which
 * draws the blocks to be opened, each with its parents, and seeds the next step's sequence: H(x ||
 * "next"); the first step's seed is H(seed || "memory"). Each of the last four steps opens 160
 * blocks, because its blocks are the contents of memory at the end; each earlier step opens 64.
 *
 * Why so many. A prover that keeps the fraction 1 - w of the lanes and substitutes zeros for the
 * others passes a step with k openings with probability (1 - w)^k, and may grind: it changes one
 * block of the step until no missing block is drawn. A try costs a path and the 2^18 hashes, and
 * tries are independent: a GPU that does 10^10 SHA-256 a second makes 38,000 a second. With 8 to 11
 * openings per step, half of the memory passed in 2.5 times the honest time. Now saving a tenth
 * costs 0.9^-160 = 2.1 x 10^7 tries in each of the last four steps, 37 minutes in all on such a
 * GPU, where an H200 takes 7 s for all tests. In earlier steps it costs 850 tries, which gains
 * nothing, because the memory has to be filled in the end. tests/poc/grinder.h implements the
 * attack. The openings of the last steps cannot wait for one fold over all roots: the blocks from
 * which three of these steps were made are overwritten by then. That would take 264 openings; 4 x
 * 160 with their own folds are harder to grind (0.9^-160 four times is less only than 0.9^-264,
 * which nobody reaches either), and the parents of each are at hand.
 *
 * Two things keep a prover from saving memory:
 *   - Positions come from Philox, but the seed of a step is unknown until the previous step is
 *     complete. If all were known from the start, a prover could discard a block after its last
 *     reader: 28% of the memory were enough with one parent in a finished slice and one pass, 70%
 *     with four and two (counted, 256 lanes of 4 x 256), and nothing is computed twice. Attacks on
 *     positions that depend on contents need the choice of one block to steer what is read next;
 *     here trying another seed costs a whole root and 2^18 hashes, and moves all positions at once.
 *   - A block has eight parents in finished slices instead of one. A prover that keeps every second
 *     block and recomputes the others when they are read computes, with one parent, 1.5 times the
 *     blocks, which is less than a busy machine loses anyway; with eight, 12.3 times.
 *
 * The time cost of keeping only a part, measured with hashes and trees included (AVX-512, 2 vCPUs
 * of a Xeon at 2.1 GHz; tests/poc/miser.h, which gets for free what a later step overwrote):
 * keeping one of two blocks takes 4.2 times as long (256 MiB, 2 passes: 2.81 s against 0.67 s for
 * all), one of four, which computes 129 times the blocks, 4.2 times of that again (32 MiB). The
 * deadline is 5 s, plus the time for sending, plus twice the time of the claimed class: it excludes
 * both as soon as the fill takes the class 5 s, for a device that is no faster than its claim.
 * Without a claim it excludes only slow devices.
 *
 * chain. state = H(state) from H(seed || "chain"), segments times steps; the answer holds the state
 * after each segment, and the verifier computes all segments again.
 *
 * Time. A verifier signs the moment of issue into the challenge and later reads it back under its
 * own signature, on its own clock, so that nothing the node says affects it. All tests of all
 * devices share that time: each rate is a lower bound. An answer proves work within time on some
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
#include "common/record/gpus.h"
#include "kernels/crypto/sha256_chain.h"
#include "kernels/bulk/product.h"
#include "kernels/poc/int8.h"
#include "kernels/poc/memfill.h"
#include "kernels/crypto/sha256_rows.h"
#include "kernels/dev/philox.h"

#define POC_OPENINGS 264
/* Blocks opened per step of the memory test; see poc_step_openings. */
#define POC_STEP_OPENINGS 64
#define POC_LAST_OPENINGS 160
#define POC_HASH_BYTES    32
#define POC_MATRICES      8
#define POC_MULTIPLIER    0x9E3779B1u

/* 2^18. Only the unit test, which verifies a thousand answers, and proofs that nobody sees lower
 * it. */
extern uint64_t poc_folds;
/* Computes these hashes; NULL: sha256_chain_fast(). The benchmark, which verifies a hundred
 * thousand answers at once, puts the hashes of many into the lanes of one call. */
extern sha256_chain_fn poc_sha256_chain;

/* Limits: a challenge or an answer that exceeds them is refused before any work is done. */
#define POC_DEVICES_MAX         16
#define POC_UUID_MAX            GPUS_UUID_MAX
#define POC_N_MIN               64 /* n is a multiple of it */
#define POC_N_MAX               16384
#define POC_LEAVES_MAX          ((int64_t)1 << 28) /* rows of all rounds; blocks of a step */
#define POC_LANES_MAX           65536
#define POC_PASSES_MAX          8
#define POC_SEGMENTS_MAX        65536
#define POC_STEPS_MAX           ((int64_t)1 << 24)
#define POC_HASHES_MAX          ((int64_t)1 << 30)
#define POC_DEADLINE_MS_MAX     86400000
#define POC_CHALLENGE_BYTES_MAX ((size_t)64 << 10)
#define POC_UNANSWERED_MAX      500                 /* bytes of a reason, with the NUL */
#define POC_ANSWER_BYTES_MAX    ((size_t)256 << 20) /* enough for a CPU and eight H200 */
/* JSON values in an answer: twice what 16 devices need. Parsed, each takes up to 200 bytes of
 * memory. */
#define POC_ANSWER_VALUES_MAX 262144

/* The work asked of one device; 0 in the first field of a test: the test is not asked. */
struct poc_device {
	char uuid[POC_UUID_MAX];
	int64_t n, rounds;
	int64_t lanes, per_slice, passes;
	int64_t segments, steps;
};

struct poc_challenge {
	unsigned char nonce[POC_HASH_BYTES], node_key[KEY_PUBLIC_BYTES];
	unsigned char sha256
		[POC_HASH_BYTES]; /* of the canonical record without its signature */
	/* The hash of the rnp.node whose claims are challenged, and the value that challenges
	 * of one instant have in common; each only if its flag says so. */
	bool of_record, of_joint;
	unsigned char node_record[POC_HASH_BYTES], joint[POC_HASH_BYTES];
	char node[KEY_ADDRESS_MAX], signer[KEY_ADDRESS_MAX];
	/* Deadlines from issued_ms on: of the roots, 0: with the answer; and of the answer. */
	int64_t issued_ms, roots_ms, deadline_ms;
	int ndevices;
	struct poc_device devices[POC_DEVICES_MAX];
};

/* Check a record and its signature; `where` names it in errors. Return 0, or -1 with
 * EX_DATAERR. */
int poc_challenge_read(struct poc_challenge *c, const json_t *record, const char *where);

/* Returns the record of a challenge, without signature, and sets c->sha256. The caller owns it.
 * Returns NULL with EX_DATAERR if sizes are beyond the limits. */
json_t *poc_challenge_write(struct poc_challenge *c);

/* Parses an untrusted answer: an object with no more values than an answer can have, which is
 * checked before memory for them is allocated. The caller owns it. Returns NULL with
 * EX_DATAERR. */
json_t *poc_answer_parse(const char *text, size_t len, const char *where);

#define POC_ROUNDTRIP_PART 50

/* The conditions under which an answer is verified. */
struct poc_conditions {
	/* The result of signature_verify, for an answer that the caller has checked against its
	 * schema already; NULL: both are done here. An answer has megabytes, and is hashed
	 * once. */
	const struct signature_result *signature;
	int64_t received_ms; /* when the answer arrived, on the clock that signed issued_at */
	/* a better measurement than the difference of the two times; 0: use the difference */
	int64_t elapsed_ns;
	/* The rnp.roots that arrived earlier, as they were signed, and how long after the
	 * challenge. If the challenge has roots_ms, an answer without them is refused. */
	bool has_roots;
	unsigned char roots[POC_HASH_BYTES];
	int64_t roots_ns;
	/* The verifier's own measurement of the round trip. It is subtracted, but at most
	 * elapsed_ns / POC_ROUNDTRIP_PART: the probed node can always make the way seem longer. */
	int64_t roundtrip_ns;
	int64_t bandwidth_bps; /* bytes a second, the slower direction; 0: not measured */
	const char *no_bandwidth;    /* reason why it was not measured */
	const struct policy *policy; /* the policy with reference scores, or NULL */
};

/* Hashes what an answer of any shape commits to, as rnp.roots holds it. */
void poc_roots_hash(unsigned char out[POC_HASH_BYTES], const json_t *answer);

/* Returns the rnp.roots of an answer, without signature; the caller owns it. */
json_t *poc_roots_write(const struct poc_challenge *c, const json_t *answer);

/* Returns the rnp.unanswered of a node that does not answer c, without signature; the caller owns
 * it. */
json_t *poc_unanswered_write(const struct poc_challenge *c, const char *reason);

/* Checks an rnp.unanswered of anybody: its form, and the node's signature. Returns its reason,
 * borrowed, and the hash of the challenge; NULL with err_set(): 65, 77 the signature. */
const char *poc_unanswered_read(const json_t *record, const char *where,
	unsigned char challenge[POC_HASH_BYTES]);

/* Returns the verdict on a challenge that was not answered, without signature: not passed, for this
 * reason. The caller owns it. elapsed_ns: since its issue; 0: received_ms less that. */
json_t *poc_verify_nothing(const struct poc_challenge *c, const struct poc_conditions *j,
	const char *reason);

/* Verifies an answer of any shape. Returns the verdict record without signature, which the
 * caller owns; *passed is its result. Never fails: faults of the answer are checks that did not
 * pass. */
json_t *poc_verify(const struct poc_challenge *c, const json_t *answer,
	const struct poc_conditions *j, bool *passed);

/* How much work to ask for; 0: the usual amount for the device. */
struct poc_work {
	bool quick;
	int64_t n, rounds, memory_bytes, hashes;
};

/* Chooses the sizes for a device of the challenge's node: name is its uuid, or "cpu".
 * poc_challenge_write refuses sizes beyond the limits. */
void poc_plan_device(struct poc_device *d, const struct poc_challenge *c,
	const char *name, const struct poc_work *w);

/* The speed of a class of devices, a second: operations of matmul, bytes of the fill in all
 * passes including their hashes, and hashes of the chain. */
struct poc_class {
	double operations, fill_bytes, hashes;
};

/* What a device was measured to do a second: a class, and rounds of matmul that hold next to no
 * work. */
struct poc_speed {
	struct poc_class class;
	double rounds;
};

/* Computes how long the work of d takes at that speed at least, in seconds: of each test, in the
 * order chain, matmul, memory. Left out are filling the matrices, the trees and sending, which are
 * small where the challenge is none that poc_plan_node would make. Pure; sizes within the limits
 * give finite numbers. */
void poc_plan_work_s(double out[3], const struct poc_device *d,
	const struct poc_speed *speed);

/* Sets a speed below that of every machine that can answer a challenge in time. */
void poc_slowest_speed(struct poc_speed *out, const struct poc_device *d);

/* A device may take this many times as long as its class, because it may also be busy with
 * something else. */
#define POC_SLACK 2
/* The same for a joint challenge, which asks for twice the work. If two nodes share one device
 * it takes twice as long, which is too late once the work of the class exceeds 10 s. */
#define POC_JOINT_SLACK 1.5

/* How much of a claimed memory is asked for: of a GPU's, all but this margin for the driver,
 * the matrices and the hashes; of a machine's, a fourth, up to 4 GiB. */
#define POC_GPU_MARGIN_PERCENT 15
#define POC_CPU_SHARE          4
#define POC_CPU_BYTES          ((int64_t)4 << 30)

/* Returns the deadline: 5 s for starting, the answer at a megabyte a second, and POC_SLACK
 * times the time of the slowest device. of: the classes of the devices; NULL: unknown, then
 * half a minute for starting, and the slowest class that is accepted. */
int64_t poc_plan_deadline_ms(const struct poc_challenge *c, const struct poc_class *of);

/* Returns an upper bound of the answer's size as JSON without white space. */
int64_t poc_plan_answer_bytes(const struct poc_challenge *c);

/* Whether the answer will fit into POC_ANSWER_BYTES_MAX. */
bool poc_plan_fits(const struct poc_challenge *c);

/* Plans a challenge of everything that a node's rnp.node claims: the CPU, and each GPU that can
 * be challenged (as many as fit into an answer), with sizes and a deadline by their classes.
 * The model's name decides both, whatever memory is claimed. A uuid that occurs twice is asked
 * once. Sets devices, node_record, roots_ms and deadline_ms of c, whose node_key is set;
 * c->of_joint says whether the challenge is a joint one. The record may come from anybody and
 * have any shape; poc_challenge_write accepts what this makes of it. Returns 0, or -1 with
 * EX_DATAERR: the record has no canonical form. */
int poc_plan_node(struct poc_challenge *c, const json_t *node);

/* --- what prover and verifier share ------------------------------------------------------- */

void poc_cpu_uuid(char out[POC_UUID_MAX], const unsigned char key[KEY_PUBLIC_BYTES]);
void poc_seed(unsigned char out[POC_HASH_BYTES], const struct poc_challenge *c,
	const char *uuid);
void poc_derive(unsigned char out[POC_HASH_BYTES],
	const unsigned char seed[POC_HASH_BYTES], const char *name);
void poc_sequence(struct philox *out, const unsigned char seed[POC_HASH_BYTES],
	const char *name);

/* Computes x of a root: the expensive hash from which indices are drawn. */
void poc_fold(unsigned char x[POC_HASH_BYTES], const struct poc_challenge *c,
	const unsigned char seed[POC_HASH_BYTES], const char *test,
	const unsigned char root[POC_HASH_BYTES]);

/* Computes the same for step u of the memory test. */
void poc_fold_step(unsigned char x[POC_HASH_BYTES], const struct poc_challenge *c,
	const unsigned char seed[POC_HASH_BYTES], int64_t u,
	const unsigned char root[POC_HASH_BYTES]);

/* Draws count distinct numbers below total, ascending; count <= total. */
void poc_draw(uint64_t *out, int count, uint64_t total,
	const unsigned char x[POC_HASH_BYTES]);

/* Sorts ascending and removes duplicates; returns how many remain. */
size_t poc_sort(uint64_t *at, size_t n);

/* Returns the index of v in a sorted list that contains it. */
size_t poc_find(const uint64_t *at, size_t n, uint64_t v);

/* Returns the kernels for this CPU at the level of RNP_ISA, each for one thread. */
struct poc_kernels {
	philox_fill_fn philox;
	sha256_rows_fn sha256;
	int8_balance_fn balance;
	product_fn product; /* int8 */
};
const struct poc_kernels *poc_kernels(void);

/* Generates bytes from the start of block p->block, on all threads. */
void poc_fill(void *out, uint64_t bytes, const struct philox *p);

/* Computes leaf hashes of count adjacent rows, b = first .., on all threads. */
void poc_leaves(unsigned char *out, const void *rows, uint64_t row_bytes, uint64_t count,
	uint32_t a, uint64_t first);

/* A hash tree in memory: 2 x 32 bytes per leaf. Fill nodes[0 .. 32 leaves), then call build. */
struct poc_tree {
	uint64_t leaves;
	unsigned char *nodes;
};

void poc_tree_init(struct poc_tree *t, uint64_t leaves);
void poc_tree_release(struct poc_tree *t);
void poc_tree_build(struct poc_tree *t, unsigned char root[POC_HASH_BYTES]);

/* Appends the proof of the leaves with indices `at` (sorted, distinct). */
void poc_tree_open(const struct poc_tree *t, const uint64_t *at, size_t n,
	struct buf *out);

/* Whether the leaves with indices `at` and these hashes (overwritten) are in the tree with this
 * root. */
bool poc_tree_check(const unsigned char root[POC_HASH_BYTES], uint64_t leaves,
	const uint64_t *at, unsigned char *hashes, size_t n, const unsigned char *proof,
	size_t proof_bytes);

/* matmul: generates rows of the first matrix (which: -1) or columns of a B (0 .. 7), count of
 * them from first on, n bytes each, on all threads. */
void poc_matrix(int8_t *out, const unsigned char seed[POC_HASH_BYTES], int which,
	int64_t n, int64_t first, int64_t count);

/* matmul: generates the salts of round t, n words each. */
void poc_salts(uint32_t *rows, uint32_t *columns,
	const unsigned char seed[POC_HASH_BYTES], int64_t n, int64_t t);

/* memory: return the number of blocks opened in step u, in all steps before u, and of all
 * blocks that an answer holds for a step. These include the parents, as numbers u * leaves of a
 * step + leaf. */
#define POC_MEMORY_OPENINGS_MAX \
	(MEMFILL_SLICES * ((POC_PASSES_MAX - 1) * POC_STEP_OPENINGS + POC_LAST_OPENINGS))
#define POC_NEEDED_MAX ((2 + MEMFILL_REFS) * POC_MEMORY_OPENINGS_MAX)
int64_t poc_step_openings(const struct poc_device *d, int64_t u);
int64_t poc_openings_before(const struct poc_device *d, int64_t u);
int64_t poc_step_leaves(const struct poc_device *d);
size_t poc_needed(uint64_t *out, const struct poc_device *d, const struct memfill *m,
	const uint64_t *drawn, int count);

/* Return the philox of step 0, and of the step after one with this x. */
void poc_first_key(struct philox *out, const unsigned char seed[POC_HASH_BYTES]);
void poc_next_key(struct philox *out, const unsigned char x[POC_HASH_BYTES]);

/* Verify one test each: part is the test's object in the answer. On false, reason says why. */
#define POC_REASON_MAX 200
bool poc_verify_matmul(const struct poc_challenge *c, const struct poc_device *d,
	const json_t *part, char reason[POC_REASON_MAX]);
bool poc_verify_memory(const struct poc_challenge *c, const struct poc_device *d,
	const json_t *part, char reason[POC_REASON_MAX]);
bool poc_verify_chain(const struct poc_challenge *c, const struct poc_device *d,
	const json_t *part, char reason[POC_REASON_MAX]);

/* Sets bytes as a field, in base64url without padding. */
void poc_set_bytes(json_t *obj, const char *key, const void *data, size_t len);

/* Set and read 32 bytes as hex. */
void poc_set_hash(json_t *obj, const char *key, const unsigned char hash[POC_HASH_BYTES]);
bool poc_get_hash(const json_t *v, unsigned char out[POC_HASH_BYTES]);

#endif
