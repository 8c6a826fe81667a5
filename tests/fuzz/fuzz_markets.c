/* fuzz_markets.c - fuzz target: files of markets, which rnp-price feed --market all reads.
 *
 * It checks that a refused file has its reason, and that in an accepted one every market is one
 * that we read, at one place, under a name of its own, with no state or key that is another's. */
/* uses: cmd/rnp-price */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/feed/config.h"
#include "common/base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

static void check_job(const struct feed_config *c, int i)
{
	const struct feed_job *job = &c->jobs[i];
	const char *label = feed_job_label(job);

	must(job->source.market && feed_market_find(job->source.market->name));
	must(job->source.place && *job->source.place);
	must(!job->source.key_file || feed_is_url(job->source.place));
	must(label && *label && strlen(label) <= FEED_NAME_MAX);
	must(job->max_age_ms >= 0 && job->max_move == 3);
	for (int k = 0; k < job->nown; k++)
		must(job->own[k] != NULL);
	for (int k = 0; k < i; k++) {
		const char *state = c->jobs[k].state_path;

		must(strcmp(feed_job_label(&c->jobs[k]), label) != 0);
		must(!state || !job->state_path || strcmp(state, job->state_path) != 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct feed_job defaults = { .max_move = 3 };
	struct feed_config c;
	char *text = malloc(size + 1); /* exactly so long: a byte too far is seen */

	memcpy(text, data, size);
	text[size] = '\0';
	if (size < FEED_CONFIG_BYTES_MAX) {
		if (feed_config_parse(&c, text, size, "fuzz", &defaults) < 0) {
			must(err_get()->code == EX_DATAERR && *err_get()->text);
		} else {
			must(c.n >= 1 && c.n <= FEED_CONFIG_MAX);
			for (int i = 0; i < c.n; i++)
				check_job(&c, i);
		}
		feed_config_release(&c);
	}
	err_clear();
	free(text);
	return 0;
}
