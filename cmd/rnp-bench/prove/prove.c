/* prove.c - runs all devices of a challenge at once, one thread each; also the chain, and what
 * the tests share. */
#include "cmd/rnp-bench/prove/prove.h"

#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/hw/device.h"
#include "common/json/json.h"
#include "common/base/mem.h"
#include "kernels/dev/dev.h"
#include "kernels/crypto/sha256_chain.h"

#define GPUS_MAX 64

int prove_failed(const struct dev *dev)
{
	return err_set(dev->code ? dev->code : EX_UNAVAILABLE, "%s: %s", dev->name,
		dev->error);
}

int prove_part(const struct prove_hooks *hooks, const struct poc_device *d,
	enum prove_test test, int64_t done, int64_t all)
{
	return hooks && hooks->part ? hooks->part(hooks->ctx, d, test, done, all) : 0;
}

json_t *prove_tuple(const int64_t *v, int n)
{
	json_t *list = json_array();

	for (int i = 0; i < n; i++)
		json_push(list, json_integer(v[i]));
	return list;
}

/* --- chain -------------------------------------------------------------------------------- */

json_t *prove_chain(const struct poc_challenge *c, const struct poc_device *d,
	const struct prove_hooks *hooks)
{
	size_t bytes = (size_t)d->segments * POC_HASH_BYTES;
	unsigned char seed[POC_HASH_BYTES], state[POC_HASH_BYTES], *ends = xmalloc(bytes);
	json_t *part = NULL;
	int rc = prove_part(hooks, d, PROVE_CHAIN, 0, d->segments);

	poc_seed(seed, c, d->uuid);
	poc_derive(state, seed, "chain");
	for (int64_t s = 0; s < d->segments && rc == 0; s++) {
		sha256_chain_fast()(state, 1, (uint64_t)d->steps);
		if (hooks && hooks->segment)
			hooks->segment(hooks->ctx, s, state);
		memcpy(ends + POC_HASH_BYTES * s, state, POC_HASH_BYTES);
		rc = prove_part(hooks, d, PROVE_CHAIN, s + 1, d->segments);
	}
	if (rc == 0) {
		part = json_object();
		poc_set_bytes(part, "checkpoints", ends, bytes);
	}
	free(ends);
	return part;
}

/* --- devices ------------------------------------------------------------------------------ */

struct worker {
	const struct poc_challenge *c;
	const struct poc_device *d;
	const struct prove_hooks *hooks;
	int64_t memory_bytes;
	struct dev dev;
	json_t *out; /* NULL: error */
	struct err error;
};

/* Writes a UUID as NVML does: GPU- and the 16 bytes in groups of 4, 2, 2, 2 and 6. */
static void uuid_text(char out[POC_UUID_MAX], const unsigned char uuid[16])
{
	char *p = out + snprintf(out, POC_UUID_MAX, "GPU-");

	for (int i = 0; i < 16; i++)
		p += sprintf(p, "%s%02x",
			i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

static int open_cpu(struct worker *w)
{
	return device_open(&w->dev, "cpu");
}

static int open_gpu(struct worker *w)
{
	char name[24], uuid[POC_UUID_MAX], why[512] = "there is no GPU";

	for (int n = 0; n < GPUS_MAX; n++) {
		snprintf(name, sizeof name, "cuda:%d", n);
		if (device_open(&w->dev, name) < 0) {
			if (n == 0)
				snprintf(why, sizeof why, "%s", w->dev.error);
			break;
		}
		uuid_text(uuid, w->dev.uuid);
		if (strcmp(uuid, w->d->uuid) == 0)
			return 0;
		dev_close(&w->dev);
		snprintf(why, sizeof why, "no GPU has that uuid");
	}
	w->dev = (struct dev)DEV_INIT;
	return err_set(EX_UNAVAILABLE, "device '%s' is not here: %s", w->d->uuid, why);
}

/* Adds the result of a test; returns false if there is none. */
static bool add(struct worker *w, const char *test, json_t *takes_part)
{
	if (takes_part)
		json_set(w->out, test, takes_part);
	return takes_part;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	const struct poc_device *d = w->d;
	bool good = true;

	w->out = json_object();
	json_set_text(w->out, "device", d->uuid);
	if (d->segments)
		good = add(w, "chain", prove_chain(w->c, d, w->hooks));
	if (good && d->n)
		good = add(w, "matmul",
			prove_matmul(w->c, d, &w->dev, w->memory_bytes, w->hooks));
	if (good && d->lanes)
		good = add(w, "memory", prove_memory(w->c, d, &w->dev, w->hooks));
	if (!good) {
		err_save(&w->error);
		json_decref(w->out);
		w->out = NULL;
	}
	return NULL;
}

/* Returns 0, or -1 if a device is missing or the challenge is refused; then nothing was done. */
static int open_all(struct worker *w, const struct poc_challenge *c, int64_t memory_bytes,
	const struct prove_hooks *hooks)
{
	char cpu[POC_UUID_MAX];

	poc_cpu_uuid(cpu, c->node_key);
	for (int i = 0; i < c->ndevices; i++) {
		w[i].c = c;
		w[i].d = &c->devices[i];
		w[i].hooks = hooks;
		w[i].memory_bytes = memory_bytes / c->ndevices;
		if (strcmp(w[i].d->uuid, cpu) == 0) {
			if (open_cpu(&w[i]) < 0)
				return -1;
		} else if (open_gpu(&w[i]) < 0) {
			return -1;
		}
	}
	for (int i = 0; hooks && hooks->begin && i < c->ndevices; i++)
		if (hooks->begin(hooks->ctx, w[i].d, &w[i].dev) < 0)
			return -1;
	if (hooks && hooks->begun)
		hooks->begun(hooks->ctx);
	return 0;
}

static void run_all(struct worker *w, int n)
{
	pthread_t threads[POC_DEVICES_MAX];
	bool started[POC_DEVICES_MAX] = { false };

	for (int i = 1; i < n; i++) {
		started[i] = pthread_create(&threads[i], NULL, work, &w[i]) == 0;
		if (!started[i])
			work(&w[i]);
	}
	work(&w[0]);
	for (int i = 1; i < n; i++)
		if (started[i])
			pthread_join(threads[i], NULL);
}

json_t *prove(const struct poc_challenge *c, int64_t memory_bytes,
	const struct prove_hooks *hooks)
{
	struct worker w[POC_DEVICES_MAX] = { 0 };
	json_t *answer = NULL, *devices = json_array();
	char hex[2 * POC_HASH_BYTES + 1];
	bool good = false;

	if (open_all(w, c, memory_bytes, hooks) == 0) {
		run_all(w, c->ndevices);
		good = true;
	}
	for (int i = 0; i < c->ndevices; i++) {
		dev_close(&w[i].dev);
		if (w[i].out)
			json_push(devices, w[i].out);
		else if (w[i].error.code && good) {
			err_restore(&w[i].error);
			good = false;
		}
	}
	if (good) {
		answer = json_record("rnp.answer");
		json_set_text(answer, "node", c->node);
		sodium_bin2hex(hex, sizeof hex, c->sha256, sizeof c->sha256);
		json_set_text(answer, "challenge_sha256", hex);
		json_set(answer, "devices", devices);
	} else {
		json_decref(devices);
	}
	return answer;
}
