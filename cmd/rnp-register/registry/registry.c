/* registry.c - assembles the registry's parts, and takes them apart in the opposite order. */
#include "cmd/rnp-register/storage/registry.h"

#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/challenges/challenge.h"
#include "cmd/rnp-register/challenges/verdict.h"
#include "cmd/rnp-register/market/blobs.h"
#include "cmd/rnp-register/market/logs.h"
#include "cmd/rnp-register/market/market.h"
#include "cmd/rnp-register/market/member.h"
#include "cmd/rnp-register/market/receipts.h"
#include "cmd/rnp-register/market/tables.h"
#include "cmd/rnp-register/storage/twins.h"
#include "common/httpd/nonces.h"

/* A read waits up to 25 s, and a nonce is kept for two minutes and the clocks' skew: that is 10,000
 * clients who all read all the time. */
#define NONCES 262144

/* Parts that bring tables of their own. */
static const struct store_module *const modules[] = { &market_tables, &blobs_tables,
	&receipts_tables, NULL };

static void on_stored(void *g, const struct registry_put *p)
{
	market_stored(g, p);
}

int registry_open(struct registry *g, const struct registry_config *config)
{
	struct registry_hooks hooks = { .ctx = g };

	memset(g, 0, sizeof *g);
	g->config = *config;
	g->limits = limits_new(&config->limits);
	g->twins = twins_new();
	g->nonces = nonces_new(NONCES, true);
	pthread_mutex_init(&g->pools_lock, NULL);
	if (config->challenge_every_ms) {
		hooks.heartbeat = registry_challenge_for;
		hooks.closed = registry_challenge_closed;
	}
	if (config->market) {
		hooks.stored = on_stored;
		g->spared = market_spares;
		g->knows = member_is_known;
	}
	if (registry_db_open(&g->db, config->db_path, config->bytes_max, modules) == 0 &&
		(!config->challenge_every_ms ||
			(registry_challenger_open(g) == 0 &&
				registry_verdicts_open(g) == 0)) &&
		market_open(g) == 0 && blobs_open(g) == 0 && logs_open(g) == 0 &&
		registry_db_start(&g->db, &hooks) == 0 && market_start(g) == 0)
		return 0;
	registry_close(g);
	return -1;
}

void registry_close(struct registry *g)
{
	registry_verdicts_close(g);
	market_stop(g);
	registry_db_stop(&g->db);
	registry_challenger_close(g);
	logs_close(g);
	blobs_close(g);
	market_close(g);
	registry_db_close(&g->db);
	limits_free(g->limits);
	twins_free(g->twins);
	nonces_free(g->nonces);
	free(g->pools);
	g->pools = NULL;
	pthread_mutex_destroy(&g->pools_lock);
}
