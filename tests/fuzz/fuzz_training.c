/* fuzz_training.c - fuzz target: records of a training run over a network.
 *
 * uses: cmd/rnp-train
 *
 * Input: one byte that selects the record, then a JSON object, which gets the kind, `node`,
 * `run`, `member` and a good signature: an attacker has a key, too.
 *
 * It checks that an accepted record is within every bound that later code multiplies by, and is
 * written again as it was read; and that a refused one leaves an error of malformed data. */
#include <sodium.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-train/wire/protocol.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/record/signature.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct key key;
static struct training run;

static void must(bool promise)
{
	if (!promise)
		abort();
}

static json_t *shards(void)
{
	json_t *all = json_array();

	json_push_text(all,
		"00000000000000000000000000000000"
		"00000000000000000000000000000000");
	return all;
}

/* The run to which assignments and deltas belong. */
static void start(void)
{
	unsigned char seed[crypto_sign_SEEDBYTES] = { 4 }, secret[KEY_SECRET_BYTES];
	unsigned char public_key[KEY_PUBLIC_BYTES];
	json_t *all, *record;

	if (key.secret)
		return;
	must(sodium_init() >= 0);
	crypto_sign_seed_keypair(public_key, secret, seed);
	must(key_from_secret(&key, secret) == 0);
	must(lm_config_preset(&run.config, "nano", 300) == 0);
	run.parameters = lm_config_params(&run.config);
	run.tokens = 100000;
	run.batch = 4;
	run.inner_steps = 10;
	run.quorum = 1;
	run.fragments = 1;
	run.length = 32;
	run.lr_ppb = 400000;
	run.piece_bytes = PROTOCOL_PIECE_BYTES;
	strcpy(run.method, "q4");
	strcpy(run.method_down, "ecq:0.5");
	memset(run.digest, '0', 64);
	memset(run.tokenizer, '0', 64);
	memcpy(run.node, key.address, sizeof run.node);
	all = shards();
	record = training_write(&run, all, 1000);
	must(signature_add(record, &key, 1000) == 0);
	must(training_read(&run, record, "fuzz") == 0);
	json_decref(record);
	json_decref(all);
}

static json_t *signed_again(json_t *record, const char *kind)
{
	json_object_del(record, "proof");
	json_set_text(record, "kind", kind);
	json_set_i64(record, "v", 1);
	json_set_text(record, "node", key.address);
	if (strcmp(kind, "rnp.training") != 0)
		json_set_text(record, "run", run.name);
	if (strcmp(kind, "rnp.assignment") == 0)
		json_set_text(record, "member", key.address);
	err_clear();
	return signature_add(record, &key, 1000) == 0 ? record : NULL;
}

static void check_training(const json_t *record)
{
	struct training t, again;
	json_t *all, *copy;

	if (training_read(&t, record, "fuzz") < 0) {
		must(err_get()->code == EX_DATAERR || err_get()->code == EX_NOPERM);
		return;
	}
	must(t.batch * t.inner_steps * t.length <= (uint64_t)PROTOCOL_TOKENS_MAX);
	must(t.length && t.batch && t.inner_steps && t.tokens > t.length);
	must(t.parameters == lm_config_params(&t.config) && t.piece_bytes);
	must(strlen(t.name) == 64);
	all = shards();
	copy = training_write(&t, all, 1000);
	must(signature_add(copy, &key, 1000) == 0);
	must(training_read(&again, copy, "fuzz") == 0);
	must(again.parameters == t.parameters && again.lr_ppb == t.lr_ppb &&
		again.outer == t.outer && again.seed == t.seed &&
		strcmp(again.method, t.method) == 0);
	json_decref(copy);
	json_decref(all);
}

static void check_assignment(const json_t *record)
{
	struct assignment a;

	if (assignment_read(&a, record, &run, key.address, "fuzz") < 0) {
		must(err_get()->code == EX_DATAERR || err_get()->code == EX_NOPERM);
		return;
	}
	must(a.steps && a.steps <= run.inner_steps && a.sequences == a.steps * run.batch);
	must(a.first + a.sequences > a.first && protocol_is_hash(a.base));
}

static void check_delta(const json_t *record)
{
	struct delta d;

	if (delta_read(&d, record, &run, "fuzz") < 0) {
		must(err_get()->code == EX_DATAERR || err_get()->code == EX_NOPERM);
		return;
	}
	must(protocol_is_hash(d.sha256) && protocol_is_hash(d.base) && d.bytes);
	must(protocol_pieces(d.bytes, run.piece_bytes) * run.piece_bytes >= d.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const kinds[] = { "rnp.training", "rnp.assignment",
		"rnp.delta" };
	json_t *record;
	int which;

	start();
	err_clear();
	if (!size)
		return 0;
	which = data[0] % 3;
	record = json_parse_object((const char *)data + 1, size - 1, "fuzz");
	if (record && signed_again(record, kinds[which])) {
		if (which == 0)
			check_training(record);
		else if (which == 1)
			check_assignment(record);
		else
			check_delta(record);
	}
	json_decref(record);
	err_clear();
	return 0;
}
