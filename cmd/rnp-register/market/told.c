/* told.c - what a transaction has changed, until it is known whether it is stored. */
#include "cmd/rnp-register/market/told.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/challenges/challenge.h"
#include "cmd/rnp-register/market/change.h"
#include "cmd/rnp-register/market/supply.h"
#include "cmd/rnp-register/market/watch.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"

/* Devices that were leased are challenged that soon. */
#define AFTER_LEASE_MS 3600000

struct told {
	char (*subjects)[WATCH_SUBJECT_MAX];
	size_t n, cap;
	struct told_lease {
		char node[KEY_ADDRESS_MAX];
		char *gpus;
		bool leased;
	} * leases;
	size_t nleases, leases_cap;
};

struct told *told_new(void)
{
	return xcalloc(1, sizeof(struct told));
}

void told_free(struct told *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->nleases; i++)
		free(t->leases[i].gpus);
	free(t->leases);
	free(t->subjects);
	free(t);
}

void told_news(struct market *m, const char *subject)
{
	struct told *t = m->told;

	/* most often the same few */
	for (size_t i = t->n; i-- > 0 && t->n - i < 8;)
		if (strcmp(t->subjects[i], subject) == 0)
			return;
	t->subjects = xgrow(t->subjects, &t->cap, t->n + 1, sizeof *t->subjects);
	snprintf(t->subjects[t->n++], WATCH_SUBJECT_MAX, "%s", subject);
}

void told_lease(struct market *m, const char *node, const char *gpus, bool leased)
{
	struct told *t = m->told;
	struct told_lease *l;

	t->leases = xgrow(t->leases, &t->leases_cap, t->nleases + 1, sizeof *t->leases);
	l = &t->leases[t->nleases++];
	snprintf(l->node, sizeof l->node, "%s", node);
	l->gpus = xstrdup(gpus);
	l->leased = leased;
	told_access(m);
}

void told_access(struct market *m)
{
	told_news(m, MARKET_ACCESS);
}

static void tell_lease(struct market *m, const struct told_lease *l)
{
	json_t *gpus = json_parse(l->gpus, strlen(l->gpus), JSON_DEPTH_MAX, "gpus");

	if (gpus)
		supply_lease(m->supply, l->node, gpus, l->leased);
	else
		err_clear();
	/* whoever stays away from a challenge after a lease was never what it sold */
	if (!l->leased)
		registry_challenge_within(m->g, l->node, AFTER_LEASE_MS);
	json_decref(gpus);
}

void change_tell(struct market *m)
{
	struct told *t = m->told;

	for (size_t i = 0; i < t->nleases; i++)
		tell_lease(m, &t->leases[i]);
	for (size_t i = 0; i < t->n; i++) {
		if (strcmp(t->subjects[i], MARKET_ACCESS) == 0)
			m->access_seq++;
		watch_news(m->watch, t->subjects[i]);
	}
	change_forget(m);
}

struct told_mark told_now(const struct market *m)
{
	return (struct told_mark){ m->told->n, m->told->nleases };
}

void told_back(struct market *m, struct told_mark to)
{
	struct told *t = m->told;

	while (t->nleases > to.nleases)
		free(t->leases[--t->nleases].gpus);
	t->n = to.n;
}

void change_forget(struct market *m)
{
	told_back(m, (struct told_mark){ 0 });
}
