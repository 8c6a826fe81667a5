/* fuzz_proof.c - fuzz target: records with signatures from strangers.
 *
 * It checks that any value gets a result, a good one only with signers and a bad one only with
 * a reason; and that a record that we sign is good, and no longer so once anything in it
 * changes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/json/json.h"
#include "common/record/signature.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

static void check_answer(const json_t *v)
{
	struct signature_result r;

	signature_verify(v, &r);
	must(r.ok == !r.reason[0]);
	must(!r.ok || (r.valid && r.nsigners > 0));
	must(r.nsigners >= 0 && r.nsigners <= PROOF_SIGNERS_MAX);
	must(err_get()->code == 0);
}

/* Signs it with a key of zeros, then changes it. */
static void check_sign(json_t *v)
{
	struct key k = KEY_INIT;
	struct signature_result r;
	unsigned char secret[KEY_SECRET_BYTES] = { 0 };
	static const unsigned char public_half[] = { 0x3b, 0x6a, 0x27, 0xbc, 0xce, 0xb6,
		0xa4, 0x2d, 0x62, 0xa3, 0xa8, 0xd0, 0x2a, 0x6f, 0x0d, 0x73, 0x65, 0x32,
		0x15, 0x77, 0x1d, 0xe2, 0x43, 0xa6, 0x3a, 0xc0, 0x48, 0xa1, 0x8b, 0x59,
		0xda, 0x29 };

	memcpy(secret + 32, public_half, 32);
	must(key_from_secret(&k, secret) == 0);
	json_object_del(v, "proof");
	if (signature_add(v, &k, INT64_C(1767323045000)) == 0) {
		signature_verify(v, &r);
		must(r.valid && r.nsigners == 1 && signature_is_by(&r, k.address));
		json_object_set_new(v, "added by the fuzzer", json_integer(1));
		signature_verify(v, &r);
		must(!r.valid || json_object_size(v) == 1);
	}
	err_clear();
	key_release(&k);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *v = json_parse((const char *)data, size, JSON_DEPTH_MAX, "fuzz");

	err_clear();
	if (!v)
		return 0;
	check_answer(v);
	if (json_is_object(v) && !json_object_get(v, "added by the fuzzer"))
		check_sign(v);
	json_decref(v);
	return 0;
}
