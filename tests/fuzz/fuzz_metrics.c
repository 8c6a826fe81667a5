/* fuzz_metrics.c - fuzz target: a server's /metrics. Each record that is read has the form of its
 * kind, and what was refused is an error of data. */
#include <stdint.h>
#include <stdlib.h>

#include "common/base/err.h"
#include "common/json/schema.h"
#include "common/registry/metrics_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int check(void *ctx, const json_t *record)
{
	(void)ctx;
	if (schema_check(record, "record", "rnp.metric") < 0)
		abort();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	err_clear();
	if (metrics_parse((const char *)data, size, "metrics", check, NULL) < 0 &&
		err_get()->code != EX_DATAERR)
		abort();
	return 0;
}
