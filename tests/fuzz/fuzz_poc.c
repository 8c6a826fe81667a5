/* fuzz_poc.c - fuzz target: challenges and answers of the proof of compute from strangers.
 *
 * uses: cmd/rnp-bench */
/* The input is one JSON object. As a challenge it is read, with its limits. As an answer it is
 * verified against a small fixed challenge, as a whole and each test alone; missing fields are
 * taken from an honest answer, so that a mutation of one field is enough to get past the
 * others. It checks that only the honest answer's own parts pass, and that an accepted
 * challenge is written as it was read. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-bench/prove/prove.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/poc/poc.h"
#include "kernels/dev/dev.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct poc_challenge small;
static json_t *right[3];
static const char *const tests[3] = { "matmul", "memory", "chain" };

static void must(bool promise)
{
	if (!promise)
		abort();
}

static void start(void)
{
	struct poc_device *d = &small.devices[0];
	struct dev dev = DEV_INIT;

	if (small.ndevices)
		return;
	poc_folds = 4;
	memcpy(small.node, "11111111111111111111111111111111", 33);
	memcpy(small.signer, small.node, 33);
	small.ndevices = 1;
	small.deadline_ms = 1000;
	*d = (struct poc_device){ .n = 64,
		.rounds = 5,
		.lanes = 4,
		.per_slice = 66,
		.passes = 1,
		.segments = 3,
		.steps = 2 };
	poc_cpu_uuid(d->uuid, small.node_key);
	json_decref(poc_challenge_write(&small));
	must(dev_open_cpu(&dev, CPU_REF) == 0);
	right[0] = prove_matmul(&small, d, &dev, 1 << 30, NULL);
	right[1] = prove_memory(&small, d, &dev, NULL);
	right[2] = prove_chain(&small, d, NULL);
	dev_close(&dev);
	must(right[0] && right[1] && right[2]);
}

static bool verify(int test, const json_t *part)
{
	const struct poc_device *d = &small.devices[0];
	char reason[POC_REASON_MAX] = "";
	bool good = test == 0 ? poc_verify_matmul(&small, d, part, reason) :
		test == 1     ? poc_verify_memory(&small, d, part, reason) :
				poc_verify_chain(&small, d, part, reason);

	must(good || reason[0]);
	return good;
}

/* The honest part with its fields replaced by those of the input. */
static void verify_mixed(int test, const json_t *input)
{
	json_t *part = json_copy(right[test]);
	bool same = true;
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)input, key, v)
		if (json_object_get(part, key)) {
			same = same && json_equal(v, json_object_get(part, key));
			json_object_set(part, key, v);
		}
	must(verify(test, part) == same);
	json_decref(part);
}

static void verify_whole(const json_t *answer)
{
	struct poc_conditions j = { .received_ms = small.issued_ms + 1,
		.no_bandwidth = "fuzz" };
	bool passed;
	json_t *verdict = poc_verify(&small, answer, &j, &passed);

	must(!passed && json_is_false(json_object_get(verdict, "passed")));
	json_decref(verdict);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *v = json_parse_object((const char *)data, size, "fuzz");
	struct poc_challenge c;

	start();
	if (!v)
		return 0;
	if (poc_challenge_read(&c, v, "fuzz") == 0) {
		json_t *again = poc_challenge_write(&c);

		must(again != NULL);
		json_decref(again);
	} else {
		must(err_get()->code == EX_DATAERR);
	}
	verify_whole(v);
	for (int i = 0; i < 3; i++) {
		const json_t *part = json_object_get(v, tests[i]);

		verify_mixed(i, json_is_object(part) ? part : v);
	}
	json_decref(v);
	return 0;
}
