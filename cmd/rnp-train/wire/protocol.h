/* protocol.h - what a coordinator and its workers say to each other: records as values, and every
 * bound that holds for what comes from the other side. Pure but for the clock of signatures. Uses
 * json, canon, schema, signature, config.h, schedule.h, grad.h.
 *
 * rnp-protocol(7) describes them. Hashes of parameters are BLAKE2b-256 in hex; the name of a run is
 * the SHA-256 of its canonical rnp.training record. */
#ifndef RNP_TRAIN_WIRE_PROTOCOL_H
#define RNP_TRAIN_WIRE_PROTOCOL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/lm/model/config.h"
#include "common/lm/train/schedule.h"
#include "common/lm/rounds/update.h"
#include "common/record/key.h"

#define PROTOCOL_HEX          65                   /* a hash in hex and the NUL */
#define PROTOCOL_PIECE_BYTES  ((uint64_t)4 << 20)  /* of a new run's pieces at most */
#define PROTOCOL_PIECE_MIN    ((uint64_t)64 << 10) /* and at least */
#define PROTOCOL_PIECES       1024 /* where pieces may have any size between */
#define PROTOCOL_BODY_BYTES   PROTOCOL_PIECE_BYTES /* of pieces in one request, at most */
#define PROTOCOL_PIECE_MAX    ((uint64_t)64 << 20)
#define PROTOCOL_POLL_MS      25000 /* a request for work waits so long at most */
#define PROTOCOL_ROUNDS_MAX   (INT64_C(1) << 40)
#define PROTOCOL_SKEW_MS      60000 /* that clocks may be apart */
#define PROTOCOL_SHARDS_MAX   8192
#define PROTOCOL_RECORD_BYTES ((size_t)1 << 20)
#define PROTOCOL_METHOD_MAX   64
#define PROTOCOL_TOKENS_MAX   (INT64_C(1) << 40) /* of a turn */
#define PROTOCOL_WARM_MAX     1000000            /* inner steps in shorter rounds */

/* rnp.training. Fractions are whole numbers of a unit, so that both sides have the same bits. */
struct training {
	char node[KEY_ADDRESS_MAX]; /* the coordinator */
	char name[PROTOCOL_HEX];    /* of the run; set by training_read */
	struct lm_config config;
	uint64_t parameters;
	uint64_t tokens; /* of the text */
	char digest[PROTOCOL_HEX], tokenizer[PROTOCOL_HEX];
	uint64_t seed, batch, inner_steps, rounds, quorum, warmup;
	/* Streaming: P fragments, each exchanged once in inner_steps, and tau steps until its
	 * update is applied; 1 and 0: what is exchanged is everything, and workers wait for it. A
	 * round is the exchange of one fragment. */
	uint64_t fragments, overlap;
	/* inner steps in shorter rounds at the beginning, see outer_round_steps */
	uint64_t warm;
	uint32_t length;
	bool f32;
	int64_t lr_ppb, lr_min_ppm, beta1_ppm, beta2_ppm, decay_ppm, clip_ppm;
	enum update_rule outer;
	struct aggregate_rule aggregate;
	bool late_count;
	int64_t outer_rate_ppm, outer_momentum_ppm;
	char method[PROTOCOL_METHOD_MAX], method_down[PROTOCOL_METHOD_MAX];
	uint64_t piece_bytes;
	/* Where it begins, after a run on one machine: inner step of the schedule, sequence, steps
	 * that AdamW has made, and its m and v as a container (BLAKE2b-256 of the file; "": zeros).
	 */
	uint64_t first_step, first_sequence, adam_steps;
	char state[PROTOCOL_HEX];
	int64_t uusd_per_million_tokens, credits_per_million_tokens;
};

/* A new record without its proof. shards: hex texts of the digests, borrowed. */
json_t *training_write(const struct training *t, json_t *shards, int64_t now_ms);

/* Reads and checks a signed record: schema, signature, model, methods, products that do not
 * overflow. Returns 0, or -1 with err_set(EX_DATAERR). */
int training_read(struct training *t, const json_t *record, const char *where);

/* Whether workers go on while an update is under way, or exchange parts of the model. */
bool training_streams(const struct training *t);
/* Whether fragments and overlap go with the rest: fragments are of whole layers, each has more
 * steps of its own than the overlap; neither goes with warm, dn and late deltas that count. */
bool training_stream_fits(const struct training *t);
/* The part of its own parameters that a worker keeps when it applies an update. */
double training_keep(const struct training *t);
/* Rounds of the run; 0: no end. */
uint64_t training_rounds(const struct training *t);
/* The ranges of the parameters that a round, from 0, exchanges; *ranges: to be freed. Returns how
 * many, and *elements. */
size_t training_ranges(const struct training *t, uint64_t round,
	struct update_range **ranges, uint64_t *elements);

/* The inner steps of a round, from 0, and how many all rounds before it have. */
uint64_t training_round_steps(const struct training *t, uint64_t round);
uint64_t training_steps_before(const struct training *t, uint64_t round);

/* The largest norm of so many elements of a delta that is still taken: a hundred times what AdamW's
 * bound on a step makes of all inner steps. What earlier turns left out goes with a delta, and
 * groups have momentum. */
double training_norm_max(const struct training *t, uint64_t elements);

/* How many rounds of its own a group takes for all turns of the run above, with as many members as
 * its quorum, at most INT64_MAX; 0: that run has no end. */
uint64_t training_rounds_below(const struct training *above,
	const struct training *group);

/* The schedule of the inner steps. */
struct lm_schedule training_schedule(const struct training *t);

/* rnp.assignment */
struct assignment {
	char member[KEY_ADDRESS_MAX], base[PROTOCOL_HEX], method[PROTOCOL_METHOD_MAX];
	uint64_t turn, round, first, sequences, step, steps;
	int64_t deadline_s; /* -1: not known */
};

json_t *assignment_write(const struct assignment *a, const struct training *t,
	int64_t now_ms);
/* Reads a signed record of this run, for this member. Returns 0, or -1 with err_set(EX_DATAERR):
 * also where sequences, steps and batch do not go together. */
int assignment_read(struct assignment *a, const json_t *record, const struct training *t,
	const char *member, const char *where);

/* rnp.delta */
struct delta {
	char node[KEY_ADDRESS_MAX], base[PROTOCOL_HEX], sha256[PROTOCOL_HEX],
		root[PROTOCOL_HEX];
	uint64_t turn, bytes, tokens, steps;
	int64_t loss_first_micronats, loss_last_micronats, seconds;
};

json_t *delta_write(const struct delta *d, const struct training *t, int64_t now_ms);
int delta_read(struct delta *d, const json_t *record, const struct training *t,
	const char *where);

/* A record of the other side: kind, schema, that `node` signed it, and that it is of this run
 * (NULL: any). Returns 0, or -1 with err_set(): 65 not such a record, 77 the signature. */
int protocol_check(const json_t *record, const char *where, const char *kind,
	const char *run);

/* A text as a piece of a request's path: a hash in hex. */
bool protocol_is_hash(const char *text);

/* Writes 32 bytes in hex. */
void protocol_hex(char out[PROTOCOL_HEX], const unsigned char bytes[32]);

/* Whole numbers from a real: 0.0004 in 10^-9 is 400000. Returns 0, or -1 with err_set(EX_USAGE)
 * that names the option: it is not within 0 .. most, or not a whole number of units. */
int protocol_units(int64_t *out, double v, double units, double max, const char *option);

/* Appends ids as GET /v1/tokens has them: little-endian, of 2 bytes where the vocabulary has no
 * more than 65,536 tokens, else of 4. unpack takes n of them back; false: one is not of the
 * vocabulary. */
struct buf;
uint64_t protocol_id_bytes(uint32_t vocab);
void protocol_pack(struct buf *out, const uint32_t *ids, uint64_t n, uint32_t vocab);
bool protocol_unpack(uint32_t *ids, const void *from, uint64_t n, uint32_t vocab);

/* The piece_bytes of a new run whose containers have at most max bytes: small enough that the last
 * ones, each sent by itself, are not waited for long. */
uint64_t protocol_piece_bytes(uint64_t max);

/* The number of pieces of a container of that size. */
uint64_t protocol_pieces(uint64_t bytes, uint64_t piece_bytes);

#endif
