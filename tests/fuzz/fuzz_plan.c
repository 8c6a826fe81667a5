/* fuzz_plan.c - fuzz target: a node's record as a stranger sends it, and the challenge planned
 * for it.
 *
 * Input: one byte of the nonce, then a JSON object, which need not match any schema: the
 * planner must be safe against anything that an earlier version of the registry, or anybody
 * with access to the disk, has stored.
 *
 * It checks that for any record the challenge can be written, signed and read again; that no
 * device is asked twice, no device is asked that cannot be, and the answer fits its limits. If
 * the record matches the schema of rnp.node, all GPUs that can be asked are among the devices,
 * up to the maximum. */
#include <sodium.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/json/json.h"
#include "common/json/schema.h"
#include "common/poc/poc.h"
#include "common/record/signature.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct key key;

static void must(bool promise)
{
	if (!promise)
		abort();
}

static void start(void)
{
	unsigned char seed[crypto_sign_SEEDBYTES] = { 9 }, secret[KEY_SECRET_BYTES];
	unsigned char public_key[KEY_PUBLIC_BYTES];

	if (key.secret)
		return;
	must(sodium_init() >= 0);
	crypto_sign_seed_keypair(public_key, secret, seed);
	must(key_from_secret(&key, secret) == 0);
}

static void check_devices(const struct poc_challenge *c, const json_t *node)
{
	const json_t *gpu;
	size_t i;

	must(c->ndevices >= 1 && c->ndevices <= POC_DEVICES_MAX && poc_plan_fits(c));
	json_array_foreach(json_object_get(node, "gpus"), i, gpu) {
		const char *uuid = json_string_value(json_object_get(gpu, "uuid"));
		int asked = 0;

		for (int k = 1; k < c->ndevices; k++)
			asked += uuid && strcmp(c->devices[k].uuid, uuid) == 0;
		must(asked <= 1);
		/* identical GPUs may differ in what prevents one of them from being asked */
		if (schema_check(node, "fuzz", "rnp.node") == 0 && gpus_why_unpaid(gpu))
			must(asked == 0);
		err_clear();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct poc_challenge c = { .issued_ms = 1000 }, again;
	json_t *node, *record;

	start();
	if (size < 1)
		return 0;
	node = json_parse_object((const char *)data + 1, size - 1, "fuzz");
	err_clear();
	if (!node)
		return 0;
	c.nonce[0] = data[0];
	memcpy(c.node_key, key.public_key, sizeof c.node_key);
	memcpy(c.node, key.address, sizeof c.node);
	memcpy(c.signer, key.address, sizeof c.signer);
	if (poc_plan_node(&c, node) == 0) {
		check_devices(&c, node);
		record = poc_challenge_write(&c);
		must(record && signature_add(record, &key, 1000) == 0);
		must(poc_challenge_read(&again, record, "fuzz") == 0);
		must(again.ndevices == c.ndevices && again.of_record &&
			memcmp(again.node_record, c.node_record, 32) == 0);
		json_decref(record);
	}
	err_clear();
	json_decref(node);
	return 0;
}
