/* supply_silence.c - nodes that say nothing any more: their heartbeats, or their agents. */
#include <stdatomic.h>

#include "cmd/rnp-register/market/supply.h"
#include "cmd/rnp-register/market/supply_parts.h"

/* A node whose heartbeats were never seen here is given that long after a start. */
#define FIRST_BEAT_MS INT64_C(120000)
/* The agent asks every 25 s at least; a restart or an upgrade of it takes less. */
#define ASK_MS INT64_C(300000)

bool sale_is_silent(const struct sale *n, int64_t since_ms, int64_t now_ms)
{
	int64_t last_ms = n->received_ms > since_ms ? n->received_ms : since_ms;

	return now_ms > last_ms + 2 * (n->interval_ms ? n->interval_ms : FIRST_BEAT_MS);
}

void supply_asked(struct supply *s, const char *node, int64_t now_ms)
{
	struct sale *n;

	/* a reader's lock is enough: nothing but this number changes */
	pthread_rwlock_rdlock(&s->lock);
	n = (struct sale *)supply_find(s, node);
	if (n)
		atomic_store_explicit(&n->asked_ms, now_ms, memory_order_relaxed);
	pthread_rwlock_unlock(&s->lock);
}

const char *supply_silence(struct supply *s, const char *node, int64_t since_ms,
	int64_t now_ms)
{
	const char *why = NULL;
	const struct sale *n;
	int64_t asked_ms;

	pthread_rwlock_rdlock(&s->lock);
	n = supply_find(s, node);
	asked_ms = n ? atomic_load_explicit(&n->asked_ms, memory_order_relaxed) : 0;
	asked_ms = asked_ms > since_ms ? asked_ms : since_ms;
	if (!n || sale_is_silent(n, since_ms, now_ms))
		why = "two heartbeats that it promised did not come";
	else if (now_ms > asked_ms + ASK_MS)
		why = "its agent has not asked what to do for 5 min";
	pthread_rwlock_unlock(&s->lock);
	return why;
}
