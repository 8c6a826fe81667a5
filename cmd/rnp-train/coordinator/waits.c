/* waits.c - which workers a run waits for: who looks at a run that stands still wants to know that
 * first, here, on the page and where the others work. */
#include <stdio.h>
#include <string.h>

#include "cmd/rnp-train/coordinator/coordinator.h"
#include "cmd/rnp-train/coordinator/files.h"
#include "common/base/buf.h"
#include "common/cli/prog.h"

/* members that ask between two rounds need a moment */
#define PATIENCE_MS 15000

/* For how long the one that works has been silent that was heard of last, in ms; -1: none works. */
static int64_t silent_ms(const struct coordinator *g)
{
	int64_t now = coordinate_now(g), least = -1;

	for (size_t i = 0; i < g->rounds.r.nmembers && i < g->activity.cap; i++) {
		const struct round_member *m = &g->rounds.r.members[i];
		int64_t ms = now - g->activity.heard[i].at;

		if (m->here && m->works && (least < 0 || ms < least))
			least = ms;
	}
	return least;
}

/* A round is open, lacks deltas, and its deadline is over. */
static void wait_open(const struct coordinator *g, struct buf *out)
{
	const struct round *r = &g->rounds.r;
	int64_t silent = silent_ms(g);

	buf_addf(out, "waiting for changes: %zu of %llu %s here, and ", r->on_time,
		(unsigned long long)r->policy.quorum, r->on_time == 1 ? "is" : "are");
	if (silent < 0)
		buf_adds(out, "nobody is at work");
	else
		/* not by seconds, or each would be news */
		buf_addf(out, "%zu at work, last heard of %s", r->working,
			silent < 60000 ? "within a minute" : "over a minute ago");
}

void coordinate_waits(struct coordinator *g, struct buf *out)
{
	const struct round *r = &g->rounds.r;
	uint64_t quorum = r->policy.quorum;
	int64_t now = coordinate_now(g), deadline = round_deadline(r);

	if (g->rounds.over)
		return;
	if (r->phase == ROUND_CLOSED || r->on_time >= quorum)
		return;
	if (r->here + r->on_time < quorum ||
		(r->phase == ROUND_GATHERING && now - r->began > PATIENCE_MS)) {
		size_t there = r->here + r->on_time < quorum ? r->here : r->asking;

		buf_addf(out, "waiting for workers: %zu of %llu %s", there,
			(unsigned long long)quorum, there == 1 ? "is here" : "are here");
	} else if (r->phase == ROUND_OPEN && !r->policy.asynchronous &&
		(!r->working || now > deadline)) {
		wait_open(g, out);
	}
}

void coordinate_say_waits(struct coordinator *g)
{
	struct buf text = BUF_INIT;

	coordinate_waits(g, &text);
	if (strcmp(buf_text(&text), g->activity.said) != 0) {
		snprintf(g->activity.said, sizeof g->activity.said, "%s",
			buf_text(&text));
		/* standard error may have a reader that does not read */
		pthread_mutex_unlock(&g->rounds.lock);
		if (text.len)
			prog_info("%s", text.data);
		pthread_mutex_lock(&g->rounds.lock);
	}
	buf_release(&text);
}
