/* protocol.c - records of a run over a network, written and read. */
#include "cmd/rnp-train/wire/protocol.h"

#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/grad/grad.h"
#include "common/json/canon.h"
#include "common/json/json.h"
#include "common/json/schema.h"
#include "common/record/signature.h"

bool protocol_is_hash(const char *text)
{
	return strlen(text) == 64 && strspn(text, "0123456789abcdef") == 64;
}

void protocol_hex(char out[PROTOCOL_HEX], const unsigned char bytes[32])
{
	sodium_bin2hex(out, PROTOCOL_HEX, bytes, 32);
}

int protocol_units(int64_t *out, double v, double units, double max, const char *option)
{
	if (!(v >= 0 && v <= max))
		return err_set(EX_USAGE, "--%s: not within 0 and %g", option, max);
	*out = llround(v * units);
	if (fabs((double)*out - v * units) > 1e-6 * (1 + v * units))
		return err_set(EX_USAGE, "--%s: more digits than %g of it", option,
			1 / units);
	return 0;
}

uint64_t protocol_id_bytes(uint32_t vocab)
{
	return vocab > 65536 ? 4 : 2;
}

void protocol_pack(struct buf *out, const uint32_t *ids, uint64_t n, uint32_t vocab)
{
	uint64_t size = protocol_id_bytes(vocab);
	unsigned char *to = (unsigned char *)buf_reserve(out, n * size);

	for (uint64_t i = 0; i < n; i++)
		for (uint64_t b = 0; b < size; b++)
			to[i * size + b] = (unsigned char)(ids[i] >> (8 * b));
	out->len += n * size;
}

bool protocol_unpack(uint32_t *ids, const void *from, uint64_t n, uint32_t vocab)
{
	uint64_t size = protocol_id_bytes(vocab);
	const unsigned char *bytes = from;

	for (uint64_t i = 0; i < n; i++) {
		ids[i] = 0;
		for (uint64_t b = 0; b < size; b++)
			ids[i] |= (uint32_t)bytes[i * size + b] << (8 * b);
		if (ids[i] >= vocab)
			return false;
	}
	return true;
}

uint64_t protocol_piece_bytes(uint64_t max)
{
	uint64_t bytes = PROTOCOL_PIECE_MIN;

	while (bytes < PROTOCOL_PIECE_BYTES && max / bytes >= PROTOCOL_PIECES)
		bytes *= 2;
	return bytes;
}

uint64_t protocol_pieces(uint64_t bytes, uint64_t piece_bytes)
{
	return bytes / piece_bytes + (bytes % piece_bytes != 0);
}

int protocol_check(const json_t *record, const char *where, const char *kind,
	const char *run)
{
	struct signature_result proof;
	const char *of = json_string_value(json_object_get(record, "run"));

	if (json_check_kind(record, where, kind) < 0 ||
		schema_check(record, where, kind) < 0)
		return -1;
	if (run && strcmp(of, run) != 0)
		return err_set(EX_DATAERR, "%s: is of another run", where);
	signature_verify(record, &proof);
	if (!proof.ok)
		return err_set(EX_NOPERM, "%s: %s", where, proof.reason);
	return 0;
}

/* --- fields --------------------------------------------------------------------------------- */

/* Whole numbers and texts of a record, as a table; the schema has checked types and bounds. */
struct field {
	const char *name;
	int64_t *number; /* one of the two */
	char *text;
	size_t text_max;
};

static int read_fields(const json_t *record, const struct field *f)
{
	for (; f->name; f++) {
		const json_t *v = json_object_get(record, f->name);
		const char *text = json_string_value(v);

		if (!v)
			continue; /* the schema says what is required */
		if (f->number &&
			json_get_i64(record, "record", f->name, 0, INT64_MAX, f->number) <
				0)
			return -1;
		if (f->text &&
			snprintf(f->text, f->text_max, "%s", text ? text : "") >=
				(int)f->text_max)
			return err_set(EX_DATAERR, "%s: is too long", f->name);
	}
	return 0;
}

#define NUMBER(s, field)                                         \
	{                                                        \
		.name = #field, .number = (int64_t *)&(s)->field \
	}
#define TEXT(s, field)                                                           \
	{                                                                        \
		.name = #field, .text = (s)->field, .text_max = sizeof(s)->field \
	}

static void write_fields(json_t *record, const struct field *f)
{
	for (; f->name; f++)
		if (f->number)
			json_set_i64(record, f->name, *f->number);
		else if (*f->text)
			json_set_text(record, f->name, f->text);
}

#define TRAINING_FIELDS(t)                                                               \
	{                                                                                \
		TEXT(t, node), NUMBER(t, parameters), NUMBER(t, seed), NUMBER(t, batch), \
			NUMBER(t, inner_steps), NUMBER(t, rounds), NUMBER(t, quorum),    \
			NUMBER(t, warmup), NUMBER(t, fragments), NUMBER(t, overlap),     \
			NUMBER(t, warm), NUMBER(t, lr_ppb), NUMBER(t, lr_min_ppm),       \
			NUMBER(t, beta1_ppm), NUMBER(t, beta2_ppm),                      \
			NUMBER(t, decay_ppm), NUMBER(t, clip_ppm),                       \
			NUMBER(t, outer_rate_ppm), NUMBER(t, outer_momentum_ppm),        \
			TEXT(t, method), TEXT(t, method_down), NUMBER(t, piece_bytes),   \
			NUMBER(t, first_step), NUMBER(t, first_sequence),                \
			NUMBER(t, adam_steps), TEXT(t, state),                           \
			NUMBER(t, uusd_per_million_tokens),                              \
			NUMBER(t, credits_per_million_tokens),                           \
		{                                                                        \
			.name = NULL                                                     \
		}                                                                        \
	}

/* --- rnp.training --------------------------------------------------------------------------- */

json_t *training_write(const struct training *t, json_t *shards, int64_t now_ms)
{
	struct training copy = *t;
	const struct field fields[] = TRAINING_FIELDS(&copy);
	json_t *record = json_record("rnp.training"), *data = json_object();
	json_t *config = lm_config_write(&t->config, "float32");
	struct buf text = BUF_INIT;
	char rule[32];

	json_write(&text, config);
	json_decref(config);
	json_set_time(record, "at", now_ms);
	json_set_text(record, "config", buf_text(&text));
	json_set_i64(data, "tokens", (int64_t)t->tokens);
	json_set_text(data, "digest", t->digest);
	json_set_text(data, "tokenizer", t->tokenizer);
	json_set(data, "shards", json_incref(shards));
	json_set(record, "data", data);
	json_set_i64(record, "length", t->length);
	json_set_text(record, "precision", t->f32 ? "f32" : "bf16");
	json_set_text(record, "outer", update_names[t->outer]);
	aggregate_name(rule, &t->aggregate);
	json_set_text(record, "aggregate", rule);
	json_set_text(record, "late", t->late_count ? "count" : "drop");
	write_fields(record, fields);
	buf_release(&text);
	return record;
}

static int read_config(struct training *t, const json_t *record, const char *where)
{
	const char *text = json_string_value(json_object_get(record, "config"));
	json_t *config = json_parse_object(text, strlen(text), where);
	int rc = config ? lm_config_read(&t->config, config, NULL, where) : -1;

	json_decref(config);
	if (rc == 0 && lm_config_params(&t->config) != t->parameters)
		rc = err_set(EX_DATAERR, "%s: config: has %llu parameters, not %llu",
			where, (unsigned long long)lm_config_params(&t->config),
			(unsigned long long)t->parameters);
	return rc;
}

static int check_method(const char *method, const char *where)
{
	struct grad g;
	char name[PROTOCOL_METHOD_MAX];

	if (grad_parse(&g, method, 0) < 0)
		return err_set(EX_DATAERR, "%s: no method '%.60s'", where, method);
	grad_name(name, &g);
	return strcmp(name, method) == 0 ?
		0 :
		err_set(EX_DATAERR, "%s: method '%.60s' is written '%s'", where, method,
			name);
}

static const char *text_of(const json_t *record, const char *name, const char *absent)
{
	const char *text = json_string_value(json_object_get(record, name));

	return text ? text : absent;
}

static int read_choices(struct training *t, const json_t *record, const char *where)
{
	t->f32 = strcmp(text_of(record, "precision", ""), "f32") == 0;
	t->late_count = strcmp(text_of(record, "late", "drop"), "count") == 0;
	if (update_parse(&t->outer, text_of(record, "outer", "")) == 0 &&
		aggregate_parse(&t->aggregate, text_of(record, "aggregate", "mean")) == 0)
		return 0;
	return err_set(EX_DATAERR, "%s: no such outer rule, or aggregation", where);
}

static int read_data(struct training *t, const json_t *record)
{
	const json_t *data = json_object_get(record, "data");
	const struct field fields[] = { NUMBER(t, tokens), TEXT(t, digest),
		TEXT(t, tokenizer), { .name = NULL } };

	return read_fields(data, fields);
}

/* The factors of a later product. */
static int check_products(const struct training *t, const char *where)
{
	uint64_t turn;

	if (__builtin_mul_overflow(t->batch, t->inner_steps, &turn) ||
		__builtin_mul_overflow(turn, (uint64_t)t->length, &turn) ||
		turn > (uint64_t)PROTOCOL_TOKENS_MAX)
		return err_set(EX_DATAERR, "%s: a turn of more than 2^40 tokens", where);
	if (t->tokens <= t->length)
		return err_set(EX_DATAERR, "%s: a text shorter than one sequence", where);
	if (t->length > t->config.context)
		return err_set(EX_DATAERR, "%s: length %u is beyond the model's context",
			where, t->length);
	if (t->first_step > UINT64_C(1) << 40 || t->first_sequence > UINT64_C(1) << 50 ||
		t->rounds > (uint64_t)PROTOCOL_ROUNDS_MAX ||
		t->warmup > UINT64_C(1) << 40 || t->warm > PROTOCOL_WARM_MAX)
		return err_set(EX_DATAERR, "%s: more rounds than will ever be", where);
	return 0;
}

bool training_stream_fits(const struct training *t)
{
	if (t->fragments < 1 || t->fragments > t->config.layers ||
		t->fragments > t->inner_steps ||
		t->overlap >= t->inner_steps / t->fragments)
		return false;
	return !training_streams(t) ||
		(!t->warm && t->outer != UPDATE_DN && !t->late_count);
}

static int check_stream(const struct training *t, const char *where)
{
	return training_stream_fits(t) ?
		0 :
		err_set(EX_DATAERR,
			"%s: fragments and overlap that do not go with layers, steps or rules",
			where);
}

int training_read(struct training *t, const json_t *record, const char *where)
{
	const struct field fields[] = TRAINING_FIELDS(t);
	unsigned char hash[CANON_HASH_BYTES];
	int64_t length = 0;

	*t = (struct training){ 0 };
	if (protocol_check(record, where, "rnp.training", NULL) < 0 ||
		read_fields(record, fields) < 0 ||
		json_get_i64(record, where, "length", 1, LM_CONTEXT_MAX, &length) < 0)
		return -1;
	t->length = (uint32_t)length;
	if (!t->fragments)
		t->fragments = 1; /* absent */
	if (read_choices(t, record, where) < 0 || read_data(t, record) < 0 ||
		read_config(t, record, where) < 0 || check_stream(t, where) < 0 ||
		check_method(t->method, where) < 0 ||
		check_method(t->method_down, where) < 0 || check_products(t, where) < 0)
		return -1;
	if (canon_hash_record(hash, record) < 0)
		return -1;
	protocol_hex(t->name, hash);
	return 0;
}

bool training_streams(const struct training *t)
{
	return t->fragments > 1 || t->overlap;
}

double training_keep(const struct training *t)
{
	return t->overlap ? 0.5 : 0;
}

uint64_t training_rounds(const struct training *t)
{
	return t->rounds * t->fragments;
}

size_t training_ranges(const struct training *t, uint64_t round,
	struct update_range **ranges, uint64_t *elements)
{
	uint32_t fragments = (uint32_t)t->fragments;
	size_t n = update_fragment(&t->config, (uint32_t)((round + 1) % t->fragments),
		fragments, ranges);

	*elements = update_elements(*ranges, n);
	return n;
}

/* Round n ends where fragment n + 1 mod P is due. */
uint64_t training_steps_before(const struct training *t, uint64_t round)
{
	uint64_t done = 0, i = 0;

	if (t->fragments > 1)
		return round / t->fragments * t->inner_steps +
			round % t->fragments * t->inner_steps / t->fragments;
	while (i < round && done < t->warm) {
		done += outer_round_steps(t->inner_steps, t->warm, done);
		i++;
	}
	return done + (round - i) * t->inner_steps;
}

double training_norm_max(const struct training *t, uint64_t elements)
{
	/* m is at most so many times the root of v (Cauchy-Schwarz); neither bias correction nor
	 * decay makes of it what the hundred does not cover */
	double b1 = (double)t->beta1_ppm / 1e6, b2 = (double)t->beta2_ppm / 1e6;
	double rest = (1 - b2) * (1 - b1 * b1 / b2);
	double step = (1 - b1) / sqrt(rest > 1e-12 ? rest : 1e-12);

	return 100 * fmax(1, step) * (double)t->lr_ppb / 1e9 * (double)t->inner_steps *
		sqrt((double)elements);
}

uint64_t training_round_steps(const struct training *t, uint64_t round)
{
	uint64_t before = training_steps_before(t, round);

	if (t->fragments > 1)
		return training_steps_before(t, round + 1) - before;
	return outer_round_steps(t->inner_steps, t->warm, before);
}

/* The rounds that a turn of so many steps of the run above takes; *done: of the group's warm steps.
 */
static uint64_t rounds_of_turn(uint64_t steps, const struct training *above,
	const struct training *group, uint64_t *done)
{
	uint64_t sequences = steps * above->batch, step = group->quorum * group->batch;
	uint64_t rounds = 0, some;

	for (; sequences && *done < group->warm; rounds++) {
		some = outer_round_steps(group->inner_steps, group->warm, *done);
		*done += some;
		sequences -= some * step < sequences ? some * step : sequences;
	}
	some = group->inner_steps * step;
	return rounds + (sequences + some - 1) / some;
}

uint64_t training_rounds_below(const struct training *above, const struct training *group)
{
	uint64_t rounds = 0, turn = 0, steps = 0, done = 0, some;

	/* while either is warm; both are bounded by PROTOCOL_WARM_MAX */
	for (; turn < above->rounds && (steps < above->warm || done < group->warm);
		turn++) {
		some = outer_round_steps(above->inner_steps, above->warm, steps);
		steps += some;
		rounds += rounds_of_turn(some, above, group, &done);
	}
	some = rounds_of_turn(above->inner_steps, above, group, &done);
	/* the run above may say what it likes */
	if (__builtin_mul_overflow(above->rounds - turn, some, &some) ||
		__builtin_add_overflow(rounds, some, &rounds) || rounds > INT64_MAX)
		return INT64_MAX;
	return rounds;
}

struct lm_schedule training_schedule(const struct training *t)
{
	return (struct lm_schedule){ .lr = (double)t->lr_ppb / 1e9,
		.lr_min = (double)t->lr_min_ppm / 1e6,
		.warmup = t->warmup,
		.steps = t->rounds ?
			t->first_step + training_steps_before(t, training_rounds(t)) :
			0 };
}

/* --- rnp.assignment ------------------------------------------------------------------------- */

json_t *assignment_write(const struct assignment *a, const struct training *t,
	int64_t now_ms)
{
	struct assignment copy = *a;
	const struct field fields[] = { TEXT(&copy, member), NUMBER(&copy, turn),
		NUMBER(&copy, round), TEXT(&copy, base), NUMBER(&copy, first),
		NUMBER(&copy, sequences), NUMBER(&copy, step), NUMBER(&copy, steps),
		TEXT(&copy, method), { .name = NULL } };
	json_t *record = json_record("rnp.assignment");

	json_set_text(record, "node", t->node);
	json_set_time(record, "at", now_ms);
	json_set_text(record, "run", t->name);
	write_fields(record, fields);
	if (a->deadline_s >= 0)
		json_set_i64(record, "deadline_s", a->deadline_s);
	return record;
}

int assignment_read(struct assignment *a, const json_t *record, const struct training *t,
	const char *member, const char *where)
{
	const struct field fields[] = { TEXT(a, member), NUMBER(a, turn),
		NUMBER(a, round), TEXT(a, base), NUMBER(a, first), NUMBER(a, sequences),
		NUMBER(a, step), NUMBER(a, steps), TEXT(a, method), NUMBER(a, deadline_s),
		{ .name = NULL } };
	const char *node = json_string_value(json_object_get(record, "node"));

	*a = (struct assignment){ .deadline_s = -1 };
	if (protocol_check(record, where, "rnp.assignment", t->name) < 0 ||
		read_fields(record, fields) < 0)
		return -1;
	if (strcmp(node, t->node) != 0)
		return err_set(EX_DATAERR, "%s: is not the coordinator's", where);
	if (strcmp(a->member, member) != 0)
		return err_set(EX_DATAERR, "%s: is for another member", where);
	if (strcmp(a->method, t->method) != 0)
		return err_set(EX_DATAERR, "%s: method '%s' is not the run's", where,
			a->method);
	if (!a->steps || a->steps > t->inner_steps ||
		a->sequences != a->steps * t->batch || a->first > UINT64_C(1) << 52 ||
		a->step > UINT64_C(1) << 52)
		return err_set(EX_DATAERR,
			"%s: sequences, steps and batch do not go together", where);
	return 0;
}

/* --- rnp.delta -------------------------------------------------------------------------------- */

#define DELTA_FIELDS(d)                                                         \
	{                                                                       \
		TEXT(d, node), NUMBER(d, turn), TEXT(d, base), TEXT(d, sha256), \
			TEXT(d, root), NUMBER(d, bytes), NUMBER(d, tokens),     \
			NUMBER(d, steps), NUMBER(d, loss_first_micronats),      \
			NUMBER(d, loss_last_micronats), NUMBER(d, seconds),     \
		{                                                               \
			.name = NULL                                            \
		}                                                               \
	}

json_t *delta_write(const struct delta *d, const struct training *t, int64_t now_ms)
{
	struct delta copy = *d;
	const struct field fields[] = DELTA_FIELDS(&copy);
	json_t *record = json_record("rnp.delta");

	write_fields(record, fields);
	json_set_time(record, "at", now_ms);
	json_set_text(record, "run", t->name);
	return record;
}

int delta_read(struct delta *d, const json_t *record, const struct training *t,
	const char *where)
{
	const struct field fields[] = DELTA_FIELDS(d);

	*d = (struct delta){ 0 };
	if (protocol_check(record, where, "rnp.delta", t->name) < 0)
		return -1;
	return read_fields(record, fields);
}
