/* fuzz_reward.c - fuzz target: the usages and policies that rnp-reward reads.
 *
 * uses: cmd/rnp-reward
 *
 * Input: 'u', then rnp.usage records, one per line, paid under the policy testnet; or 'p', then
 * a policy, under which three usages are paid; or 'r', then rnp.reward records, one per line; or
 * 'e', then rnp.uptime, rnp.verdict and rnp.receipt records, one per line, signed by the key of the
 * seed of zeros.
 *
 * It checks that the fast reader of usages accepts no line that the careful one refuses and
 * reads the same values, and the same of rewards and of signed records; and that computed amounts
 * are not negative and their parts add up. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-reward/epoch/claims.h"
#include "cmd/rnp-reward/epoch/core.h"
#include "cmd/rnp-reward/epoch/usage_read.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/json/schema.h"
#include "common/record/key.h"
#include "common/base/mem.h"
#include "tests/unit/rnp-reward/evidence/evidence_same.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define USAGES_MAX 64
#define POOL       INT64_C(1000000000000)

static void must(bool promise)
{
	if (!promise)
		abort();
}

static void same_usage(const struct usage *a, const struct usage *b)
{
	must(memcmp(a->node, b->node, sizeof a->node) == 0);
	must(a->has_wallet == b->has_wallet &&
		(!a->has_wallet || memcmp(a->wallet, b->wallet, sizeof a->wallet) == 0));
	must(a->known == b->known && a->overridden == b->overridden &&
		a->model == b->model);
	must(a->from_ms == b->from_ms && a->to_ms == b->to_ms);
	for (int i = 0; i < FIELD_USAGE; i++)
		must(!(a->known >> i & 1) || a->value[i] == b->value[i]);
	for (int i = 0; i < FACTOR_N; i++)
		must(!(a->overridden >> i & 1) || a->factor_nano[i] == b->factor_nano[i]);
}

/* What was packed comes back. */
static void pack(struct usage_rows *rows, const struct usage *u)
{
	struct usage back;

	usage_rows_add(rows, u);
	usage_rows_get(rows, rows->n - 1, &back);
	same_usage(u, &back);
	same_usage(&back, u);
}

static void pay(const struct rules *rules, const struct usage *usages, size_t n)
{
	struct usage_rows rows = USAGE_ROWS_INIT;
	struct epoch e;
	size_t bad = n, first, second;
	int64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		pack(&rows, &usages[i]);
	epoch_init(&e, rules, &rows);
	e.scheduled_base_units = POOL;
	if (usage_rows_duplicate(&rows, &first, &second)) {
		must(first < second && second < n);
	} else if (epoch_compute(&e, &bad) == 0) {
		for (size_t i = 0; i < n; i++)
			for (int part = 0; part < PAY_N; part++) {
				must(e.pay[i][part] >= 0);
				sum += e.pay[i][part];
			}
		must(sum == e.total_base_units);
	} else {
		must(err_get()->text[0] && bad <= n);
	}
	epoch_release(&e);
	usage_rows_release(&rows);
}

/* Reads one line with both readers. Returns whether it is a usage. */
static bool read_usage(struct rules *rules, const char *line, size_t len,
	struct usage *out)
{
	struct usage plain;
	bool fast = usage_from_plain(&plain, rules, line, len);
	json_t *record = json_parse_object(line, len, "fuzz");
	bool good = record && usage_from_json(out, rules, record, "fuzz") == 0;

	must(good || (err_get()->code == EX_DATAERR && !fast));
	if (fast)
		same_usage(&plain, out);
	json_decref(record);
	return good;
}

/* What the quick reader takes is a record, and both readers take the same from it. */
static void read_reward(struct claims *plain, struct claims *full, const char *line,
	size_t len)
{
	struct claim claim;
	bool fast = claims_scan(&claim, line, len);
	json_t *record = json_parse_object(line, len, "fuzz");
	bool good = record && schema_check(record, "fuzz", "rnp.reward") == 0;

	must(good || !fast);
	if (fast && claims_add_scanned(plain, &claim, "fuzz") == 0) {
		must(claims_add(full, record, "fuzz") == 0);
		must(plain->nodes == full->nodes && plain->qualified == full->qualified);
		must(plain->total_base_units == full->total_base_units);
		must(plain->n == full->n);
		must(!full->n ||
			memcmp(&plain->leaves[full->n - 1], &full->leaves[full->n - 1],
				sizeof *full->leaves) == 0);
	} else if (fast) {
		must(claims_add(full, record, "fuzz") < 0);
	}
	err_clear();
	json_decref(record);
}

static void fuzz_rewards(const char *text, size_t len)
{
	struct claims plain = CLAIMS_INIT, full = CLAIMS_INIT;

	while (len) {
		const char *end = memchr(text, '\n', len);
		size_t n = end ? (size_t)(end - text) : len;

		char *line = xstrndup(text, n);

		read_reward(&plain, &full, line, n);
		free(line);
		text += n + (end != NULL);
		len -= n + (end != NULL);
	}
	claims_release(&plain);
	claims_release(&full);
}

static void fuzz_usages(const char *text, size_t len)
{
	static struct usage usages[USAGES_MAX];
	struct rules rules;
	size_t n = 0;

	must(rules_load(&rules, "testnet") == 0);
	while (len && n < USAGES_MAX) {
		const char *end = memchr(text, '\n', len);
		size_t one = end ? (size_t)(end - text) : len;
		char *line = xstrndup(text, one);

		n += read_usage(&rules, line, one, &usages[n]);
		free(line);
		text += one + (end != NULL);
		len -= one + (end != NULL);
	}
	pay(&rules, usages, n);
	rules_release(&rules);
}

static void fuzz_policy(const char *text, size_t len)
{
	static const char *const fields[3] = { "\"up_s\":3600",
		"\"up_s\":604800,\"worked_s\":360000,\"gpu_model\":\"RTX 4090\",\"gpu_count\":2,"
		"\"gpu_memory_bytes\":25757220864,\"down_bps\":940000000,\"earned_uusd\":5000000",
		"\"worked_s\":1,\"cpu_cores\":64,\"score_ppm\":9000000,\"credits\":7,"
		"\"factors\":{\"gpu\":1.7,\"network\":0.25}" };
	struct policy policy;
	struct usage usages[3];
	struct rules rules;

	if (policy_parse(&policy, text, len, "fuzz") < 0 ||
		rules_compile(&rules, &policy) < 0) {
		must(err_get()->code == EX_DATAERR && err_get()->text[0]);
		return;
	}
	for (int i = 0; i < 3; i++) {
		unsigned char bytes[32] = { (unsigned char)(i + 1) };
		char address[KEY_ADDRESS_MAX];
		struct buf line = BUF_INIT;

		address_format(bytes, address);
		buf_addf(&line, "{\"kind\":\"rnp.usage\",\"v\":1,\"node\":\"%s\",%s}",
			address, fields[i]);
		must(read_usage(&rules, line.data, line.len, &usages[i]));
		buf_release(&line);
	}
	pay(&rules, usages, 3);
	rules_release(&rules);
}

static void fuzz_evidence(const char *text, size_t len)
{
	unsigned char seed[crypto_sign_SEEDBYTES] = { 0 };
	unsigned char public_key[KEY_PUBLIC_BYTES], secret[crypto_sign_SECRETKEYBYTES];
	/* kept: its table takes longer than most inputs */
	static struct evidence_key key;
	bool plain;

	if (!key.address[0]) {
		crypto_sign_seed_keypair(public_key, secret, seed);
		evidence_key_init(&key, public_key);
	}
	while (len) {
		const char *end = memchr(text, '\n', len);
		size_t n = end ? (size_t)(end - text) : len;
		char *line = xstrndup(text, n);

		must(!evidence_same(&key, line, n, &plain));
		free(line);
		text += n + (end != NULL);
		len -= n + (end != NULL);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size && data[0] == 'u')
		fuzz_usages((const char *)data + 1, size - 1);
	else if (size && data[0] == 'p')
		fuzz_policy((const char *)data + 1, size - 1);
	else if (size && data[0] == 'r')
		fuzz_rewards((const char *)data + 1, size - 1);
	else if (size && data[0] == 'e')
		fuzz_evidence((const char *)data + 1, size - 1);
	return 0;
}
