/* fuzz_shard.c - fuzz target: a token shard from a stranger. It checks that an error has a
 * message and code 65; that returned ids are below the vocabulary size; and that a shard that
 * passes the whole check can be read anywhere. */
#include <stdint.h>
#include <stdlib.h>

#include "common/base/err.h"
#include "common/lm/token/shard.h"
#include "common/base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

static int refused(void)
{
	must(err_get()->code == EX_DATAERR && err_get()->text[0]);
	err_clear();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct lm_shard one;
	struct lm_shards set = { .shards = &one, .n = 1 };
	uint32_t *ids;
	bool sound;

	if (lm_shard_read(&one, data, size, "fuzz") < 0)
		return refused();
	set.count = one.count;
	set.vocab = one.vocab;
	must(set.count <= size);
	sound = lm_shards_check(&set, NULL, NULL) == 0;
	if (!sound)
		refused();
	ids = xmalloc((size_t)set.count * sizeof *ids);
	for (uint64_t at = 0; at <= set.count; at += 1 + set.count / 7) {
		uint64_t n = set.count - at;

		if (lm_shards_get(&set, at, n, ids) < 0) {
			must(!sound);
			refused();
			continue;
		}
		for (uint64_t i = 0; i < n; i++)
			must(ids[i] < set.vocab);
	}
	free(ids);
	return 0;
}
