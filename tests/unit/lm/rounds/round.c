/* round.c - hand-computed rounds in virtual time; and whatever members do, in any order,
 * each sequence is in one place and is counted at most once, and no round hangs.
 *
 * long because rounds made by hand and random ones share what checks them. */
#include "common/lm/rounds/round.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "tests/unit/test.h"

static const struct round_policy three = { .quorum = 3,
	.steps = 10,
	.batch = 4,
	.length = 8 };

/* `n` members that wait for work, in a round that is open at time 0. */
static void opened(struct round *r, const struct round_policy *p, uint64_t n)
{
	struct round_assignment work;

	round_init(r, p, 1000, 0);
	for (uint64_t i = 0; i < n; i++) {
		CHECK(round_join(r, 100, 0) == (int64_t)i);
		CHECK(round_ask(r, i, 0, &work) == ROUND_WAIT);
	}
	CHECK(!round_tick(r, 0));
	CHECK(r->phase == ROUND_OPEN);
	for (uint64_t i = 0; i < n; i++) {
		CHECK(round_ask(r, i, 0, &work) == ROUND_WORK);
		CHECK(work.turn == r->number && work.steps == p->steps);
	}
}

static void next_round(struct round *r, int64_t now)
{
	struct round_assignment work;

	round_close(r, now);
	round_publish(r, now);
	for (uint64_t i = 0; i < r->nmembers; i++)
		if (!r->members[i].works)
			round_ask(r, i, now, &work);
	round_tick(r, now);
	for (uint64_t i = 0; i < r->nmembers; i++)
		if (!r->members[i].works)
			round_ask(r, i, now, &work);
}

/* Ranges follow one another; the round closes with its last delta. */
static void whole_round(void)
{
	struct round_assignment work, again;
	struct round r;

	opened(&r, &three, 3);
	CHECK(round_ask(&r, 1, 5, &work) == ROUND_WORK);
	CHECK(round_ask(&r, 1, 9, &again) == ROUND_WORK);
	CHECK(memcmp(&work, &again, sizeof work) == 0); /* an answer that got lost */
	CHECK_I64(1040, work.range.first);
	CHECK_I64(40, work.range.count);
	CHECK(round_deliver(&r, 2, 0, 10, 100) == ROUND_COUNTED);
	CHECK(round_deliver(&r, 2, 0, 10, 101) == ROUND_AGAIN);
	CHECK(round_deliver(&r, 2, 1, 10, 101) == ROUND_UNKNOWN);
	CHECK(round_deliver(&r, 7, 0, 10, 101) == ROUND_UNKNOWN);
	CHECK(round_deliver(&r, 0, 0, 11, 101) == ROUND_UNKNOWN);
	CHECK(round_deliver(&r, 0, 0, 0, 101) == ROUND_UNKNOWN);
	CHECK(!round_tick(&r, 102));
	CHECK_I64(300, round_deadline(&r)); /* three times the first */
	CHECK(round_next(&r) == ROUND_NEVER);
	CHECK(round_deliver(&r, 0, 0, 10, 120) == ROUND_COUNTED);
	CHECK(!round_tick(&r, 5000)); /* below the quorum */
	CHECK(round_ask(&r, 0, 5000, &work) == ROUND_WAIT);
	CHECK(round_deliver(&r, 1, 0, 10, 6000) == ROUND_COUNTED);
	CHECK(round_tick(&r, 6000));
	round_close(&r, 6000);
	CHECK(r.ndeltas == 3 && r.deltas[0].member == 0 && r.deltas[2].member == 2);
	CHECK_I64(320, (int64_t)r.deltas[1].weight_tokens);
	CHECK_I64(100, r.waited[1]);
	CHECK_I64(180, r.waited[2]);  /* from 120 to the deadline */
	CHECK_I64(5700, r.waited[3]); /* and from there for the quorum */
	CHECK_I64(1120, (int64_t)round_fresh(&r));
	round_publish(&r, 6100);
	CHECK(r.number == 1 && r.phase == ROUND_GATHERING);
	CHECK(round_deliver(&r, 1, 0, 10, 6200) == ROUND_AGAIN);
	/* a group that was given another range: what comes back is not of it */
	round_leave(&r, 0, 6300);
	round_move(&r, 7000);
	CHECK_I64(7000, (int64_t)round_fresh(&r));
	CHECK_I64(0, (int64_t)round_returned(&r));
	round_release(&r);
}

/* median + 3 MAD of the offsets of the rounds before. */
static void deadlines(void)
{
	static const int64_t offsets[] = { 100, 110, 120, 130, 400 };
	struct round_policy p = three;
	struct round r;

	opened(&r, &p, 5);
	for (uint64_t i = 0; i < 5; i++)
		CHECK(round_deliver(&r, i, 0, 10, offsets[i]) == ROUND_COUNTED);
	CHECK(round_tick(&r, 400));
	next_round(&r, 1000);
	CHECK(r.phase == ROUND_OPEN && r.expected == 5);
	CHECK_I64(1150, round_deadline(&r)); /* 120 + 3 * 10 */
	r.policy.slack_ms = 80;
	CHECK_I64(1200, round_deadline(&r));
	r.policy.slack_ms = 0;
	for (uint64_t i = 0; i < 3; i++)
		CHECK(round_deliver(&r, i, 1, 10, 1100) == ROUND_COUNTED);
	CHECK(!round_tick(&r, 1149));
	CHECK_I64(1150, round_next(&r));
	CHECK(round_tick(&r, 1150));
	round_close(&r, 1150);
	CHECK(round_absent(&r, 3) && round_absent(&r, 4) && !round_absent(&r, 0));
	CHECK_I64(50, r.waited[2]);
	CHECK_I64(0, r.waited[3]);
	round_release(&r);
}

/* Too late by one round: dropped and its range handed out again, or counted for half. */
static void late(bool count)
{
	struct round_policy p = three;
	struct round_assignment work;
	struct round r;
	struct round_range lost;

	p.late_count = count;
	opened(&r, &p, 4);
	lost = r.members[3].work.range;
	for (uint64_t i = 0; i < 3; i++)
		round_deliver(&r, i, 0, 10, 100);
	CHECK(round_tick(&r, 300));
	round_close(&r, 300);
	if (count) { /* between close and publish, too */
		CHECK(round_deliver(&r, 3, 0, 10, 310) == ROUND_LATE);
		CHECK(r.ndeltas == 3);
		round_publish(&r, 320);
		CHECK(r.ndeltas == 1 && r.deltas[0].late && r.deltas[0].turn == 0);
		CHECK_I64(160, (int64_t)r.deltas[0].weight_tokens);
		CHECK_I64(0, (int64_t)round_returned(&r));
		for (uint64_t i = 0; i < 4; i++)
			CHECK(round_ask(&r, i, 330, &work) == ROUND_WAIT);
		round_tick(&r, 330);
		for (uint64_t i = 0; i < 4; i++)
			CHECK(round_ask(&r, i, 330, &work) == ROUND_WORK);
		for (uint64_t i = 0; i < 2; i++)
			round_deliver(&r, i, 1, 10, 400);
		CHECK(!round_tick(&r, 9000)); /* a late one is not of the quorum */
		CHECK(round_deliver(&r, 3, 1, 10, 9000) == ROUND_COUNTED);
		CHECK(round_tick(&r, 9000));
		round_close(&r, 9000);
		CHECK(r.ndeltas == 4 && r.deltas[2].late && r.deltas[3].turn == 1);
	} else {
		round_publish(&r, 320);
		CHECK_I64(40, (int64_t)round_returned(&r));
		CHECK(round_deliver(&r, 3, 0, 10, 330) == ROUND_DROPPED);
		CHECK(round_deliver(&r, 3, 0, 10, 331) == ROUND_DROPPED);
		CHECK_I64(4, (int64_t)r.noffsets); /* three in time, one late: once */
		round_ask(&r, 3, 340, &work);
		round_ask(&r, 1, 340, &work);
		round_ask(&r, 2, 340, &work);
		round_tick(&r, 340);
		CHECK(round_ask(&r, 1, 340, &work) == ROUND_WORK);
		CHECK(work.range.first == lost.first && work.range.count == lost.count);
	}
	round_release(&r);
}

/* Two rounds behind is never counted. */
static void later(void)
{
	struct round_policy p = three;
	struct round r;

	p.late_count = true;
	opened(&r, &p, 4);
	for (int64_t turn = 0; turn < 2; turn++) {
		for (uint64_t i = 0; i < 3; i++)
			round_deliver(&r, i, (uint64_t)turn, 10, 1000 * turn + 100);
		CHECK(round_tick(&r, 1000 * turn + 900));
		CHECK_I64(0, (int64_t)round_returned(&r));
		next_round(&r, 1000 * (turn + 1));
	}
	CHECK_I64(0, (int64_t)round_returned(&r)); /* somebody has it again by now */
	CHECK(round_deliver(&r, 3, 0, 10, 2100) == ROUND_UNKNOWN ||
		round_deliver(&r, 3, 0, 10, 2100) == ROUND_DROPPED);
	round_release(&r);
}

/* A joiner has work at once, and the round that was open waits for it until its deadline. */
static void joiner(void)
{
	struct round_assignment work;
	struct round r;
	int64_t id;

	opened(&r, &three, 3);
	id = round_join(&r, 50, 50);
	CHECK(round_ask(&r, (uint64_t)id, 50, &work) == ROUND_WORK);
	for (uint64_t i = 0; i < 3; i++)
		round_deliver(&r, i, 0, 10, 100);
	CHECK(r.expected == 1 && !round_tick(&r, 100) && !round_tick(&r, 299));
	CHECK(round_tick(&r, 300));
	round_close(&r, 300);
	round_publish(&r, 310);
	CHECK(round_deliver(&r, (uint64_t)id, 0, 10, 320) == ROUND_DROPPED);
	for (uint64_t i = 0; i < 4; i++)
		round_ask(&r, i, 330, &work);
	round_tick(&r, 330);
	CHECK(r.expected == 4);
	r.policy.members_max = 4;
	CHECK_FAILS(EX_TEMPFAIL, (int)round_join(&r, 1, 331));
	round_leave(&r, 1, 340);
	CHECK(r.expected == 3);
	CHECK(round_ask(&r, 1, 340, &work) == ROUND_GONE);
	CHECK(round_join(&r, 1, 341) == 4);
	round_release(&r);
}

/* The unfinished part of an assignment, and refused parts, are handed to other workers. */
static void parts(void)
{
	struct round_assignment work;
	struct round r;

	opened(&r, &three, 4);
	CHECK(round_deliver(&r, 0, 0, 4, 100) == ROUND_COUNTED);
	CHECK_I64(24, (int64_t)round_returned(&r));
	CHECK_I64(16, (int64_t)r.deltas[0].range.count);
	CHECK_I64(128, (int64_t)r.deltas[0].weight_tokens);
	for (uint64_t i = 1; i < 4; i++)
		round_deliver(&r, i, 0, 10, 100);
	CHECK(round_tick(&r, 100));
	round_close(&r, 100);
	CHECK(round_refuse(&r, 2, 0));
	CHECK(!round_refuse(&r, 2, 0));
	CHECK_I64(64, (int64_t)round_returned(&r));
	round_publish(&r, 110);
	for (uint64_t i = 0; i < 4; i++)
		round_ask(&r, i, 110, &work);
	round_tick(&r, 110);
	CHECK(round_ask(&r, 3, 110, &work) == ROUND_WORK);
	CHECK(work.range.first == 1080 && work.range.count == 40); /* the refused one */
	CHECK(round_ask(&r, 2, 110, &work) == ROUND_WORK);
	CHECK(work.range.first == 1016 && work.steps == 6); /* the rest of a part */
	CHECK(round_ask(&r, 1, 110, &work) == ROUND_WORK);
	CHECK(work.range.first == 1160 && work.steps == 10);
	round_release(&r);
}

/* A round waits for who delivered in the last one, not for who has been silent since. */
static void silent(void)
{
	struct round_policy p = three;
	struct round_assignment work;
	struct round r;

	p.quorum = 2;
	opened(&r, &p, 3);
	for (uint64_t i = 0; i < 3; i++)
		CHECK(round_deliver(&r, i, 0, 10, 100) == ROUND_COUNTED);
	for (int64_t at = 100; at <= 2100; at += 1000) {
		CHECK(round_tick(&r, at));
		round_close(&r, at);
		round_publish(&r, at);
		for (uint64_t i = 0; i < 2; i++)
			round_ask(&r, i, at, &work);
		CHECK(!round_tick(&r, at) && r.phase == ROUND_OPEN);
		for (uint64_t i = 0; i < 2; i++) {
			CHECK(round_ask(&r, i, at, &work) == ROUND_WORK);
			CHECK(round_deliver(&r, i, r.number, 10, at + 50) ==
				ROUND_COUNTED);
		}
		/* the third may yet come in the first of them, and until the deadline */
		CHECK(round_tick(&r, at + 50) == (at > 100));
	}
	round_release(&r);
}

/* What was refused is not waited for, and the quorum lacks it; something better in its place
 * counts. */
static void excused(void)
{
	struct round_policy p = three;
	struct round_assignment work;
	struct round r;

	p.quorum = 2;
	opened(&r, &p, 3);
	round_excuse(&r, 2, 1); /* of no turn that there is */
	round_excuse(&r, 3, 0);
	for (uint64_t i = 0; i < 2; i++)
		CHECK(round_deliver(&r, i, 0, 10, 100) == ROUND_COUNTED);
	CHECK(!round_tick(&r, 100));
	round_excuse(&r, 2, 0);
	round_excuse(&r, 2, 0);
	CHECK(round_tick(&r, 100));
	CHECK(round_deliver(&r, 2, 0, 10, 101) == ROUND_COUNTED);
	round_close(&r, 101);
	CHECK(r.ndeltas == 3);
	round_release(&r);

	/* all are the quorum: it is waited for, and whoever comes in its place closes the round */
	opened(&r, &three, 3);
	for (uint64_t i = 0; i < 2; i++)
		CHECK(round_deliver(&r, i, 0, 10, 100) == ROUND_COUNTED);
	round_excuse(&r, 2, 0);
	CHECK(!round_tick(&r, 5000));
	CHECK(round_join(&r, 100, 5000) == 3);
	CHECK(round_ask(&r, 3, 5000, &work) == ROUND_WORK);
	CHECK(round_deliver(&r, 3, 0, 10, 5100) == ROUND_COUNTED);
	CHECK(round_tick(&r, 5100));
	round_release(&r);
}

/* Delayed Nesterov: members that finish within the grace go together; a slow one works on. */
static void asynchronous(void)
{
	struct round_policy p = three;
	struct round_assignment work;
	struct round r;

	p.asynchronous = true;
	p.grace_ms = 20;
	opened(&r, &p, 4);
	CHECK(round_deadline(&r) == ROUND_NEVER);
	round_deliver(&r, 1, 0, 10, 100);
	CHECK_I64(120, round_next(&r));
	CHECK(!round_tick(&r, 119));
	round_deliver(&r, 0, 0, 10, 115);
	CHECK(round_ask(&r, 0, 116, &work) == ROUND_WAIT);
	CHECK(round_tick(&r, 120));
	round_close(&r, 120);
	CHECK(r.ndeltas == 2 && !round_absent(&r, 2));
	CHECK(round_deliver(&r, 2, 0, 10, 121) == ROUND_COUNTED); /* while updating */
	round_publish(&r, 125);
	CHECK(r.ndeltas == 1 && r.deltas[0].member == 2 && !r.deltas[0].late);
	CHECK(!round_tick(&r, 125));
	CHECK(r.phase == ROUND_OPEN);
	CHECK(round_ask(&r, 0, 126, &work) == ROUND_WORK && work.turn == 1);
	CHECK(round_tick(&r, 145));
	round_close(&r, 145);
	round_publish(&r, 146);
	round_tick(&r, 146);
	CHECK(round_deliver(&r, 3, 0, 10, 500) ==
		ROUND_COUNTED); /* two versions behind */
	CHECK_I64(320, (int64_t)r.deltas[0].weight_tokens);
	round_release(&r);
}

static void dynamic_steps(void)
{
	static const uint64_t speeds[] = { 100, 400, 250, 1 };
	static const uint64_t want[] = { 25, 100, 62, 1 };
	struct round_policy p = { .quorum = 4,
		.steps = 100,
		.batch = 2,
		.length = 8,
		.dylu = true };
	struct round_assignment work;
	struct round r;

	round_init(&r, &p, 0, 0);
	for (uint64_t i = 0; i < 4; i++) {
		round_join(&r, speeds[i], 0);
		round_ask(&r, i, 0, &work);
	}
	round_tick(&r, 0);
	for (uint64_t i = 0; i < 4; i++) {
		CHECK(round_ask(&r, i, 0, &work) == ROUND_WORK);
		CHECK_I64((int64_t)want[i], (int64_t)work.steps);
		CHECK_I64((int64_t)(2 * want[i]), (int64_t)work.range.count);
	}
	round_release(&r);
}

/* Speeds are said, not measured: one that lies shortens the turns of others to a sixteenth at most,
 * when it is there first, comes later, or comes back, and in a round that is open then. */
static void absurd_speeds(void)
{
	static const uint64_t said[] = { UINT64_MAX, INT64_MAX, 100 * 16 };
	struct round_policy p = { .quorum = 1,
		.steps = 160,
		.batch = 1,
		.length = 8,
		.asynchronous = true,
		.dylu = true };
	struct round_assignment work;
	struct round r;

	for (int first = 0; first < 2; first++)
		for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
			uint64_t honest = first ? 0 : 1;

			round_init(&r, &p, 0, 0);
			round_join(&r, first ? 100 : said[i], 0);
			round_ask(&r, 0, 0, &work);
			if (first)
				round_tick(&r, 0);
			round_join(&r, first ? said[i] : 100, 0);
			round_ask(&r, 1, 0, &work);
			round_tick(&r, 0);
			CHECK(round_ask(&r, 1 - honest, 0, &work) == ROUND_WORK);
			CHECK_I64(160, (int64_t)work.steps);
			if (!first) {
				CHECK(round_ask(&r, honest, 0, &work) == ROUND_WORK);
				CHECK_I64(10, (int64_t)work.steps);
			}
			round_leave(&r, 1 - honest, 1);
			round_return(&r, 1 - honest, said[i]);
			CHECK(round_join(&r, 200, 0) == 2);
			round_ask(&r, 2, 0, &work);
			CHECK(round_ask(&r, 2, 0, &work) == ROUND_WORK);
			CHECK(work.steps >= 20);
			round_release(&r);
		}
}

/* Streaming: who works on a round has its work in the next one, and no round waits to be closed. */
static void ahead(void)
{
	struct round_assignment a, b, again;
	struct round_policy p = three;
	struct round r;

	p.quorum = 2;
	p.ahead = true;
	p.ahead_steps = 6;
	opened(&r, &p, 2);
	CHECK(round_ask_ahead(&r, 7, 1, &a) == ROUND_GONE);
	CHECK(round_ask_ahead(&r, 0, 1, &a) == ROUND_WORK);
	CHECK(a.turn == 1 && a.steps == 6 && a.range.first == 1080 &&
		a.range.count == 24);
	CHECK(round_ask_ahead(&r, 0, 2, &again) == ROUND_WORK);
	CHECK(memcmp(&a, &again, sizeof a) == 0);
	/* until it has delivered it works on the open round, then on the one after it */
	CHECK(round_ask(&r, 0, 3, &again) == ROUND_WORK && again.turn == 0);
	CHECK(round_deliver(&r, 0, 0, 10, 5) == ROUND_COUNTED);
	CHECK(r.members[0].works && r.members[0].work.turn == 1);
	CHECK(round_ask(&r, 0, 6, &again) == ROUND_WORK && again.turn == 1);
	CHECK(round_ask_ahead(&r, 0, 6, &again) == ROUND_WAIT);
	/* one that has delivered and has none gets it when it asks */
	CHECK(round_deliver(&r, 1, 0, 10, 7) == ROUND_COUNTED);
	CHECK(round_ask(&r, 1, 8, &b) == ROUND_WORK && b.turn == 1 && b.steps == 6);
	CHECK(round_tick(&r, 9));
	round_close(&r, 9);
	CHECK(round_ask(&r, 0, 9, &again) == ROUND_WORK && again.turn == 1);
	round_publish(&r, 10);
	/* it opens at once: both are at work on it; there is none after it */
	r.policy.steps = 6;
	r.policy.ahead_steps = 0;
	CHECK(!round_tick(&r, 10) && r.phase == ROUND_OPEN);
	CHECK(r.members[0].expected && r.members[1].expected);
	CHECK(round_ask_ahead(&r, 0, 10, &again) == ROUND_WAIT);
	CHECK(round_deliver(&r, 0, 1, 6, 12) == ROUND_COUNTED);
	CHECK(round_ask(&r, 0, 12, &again) == ROUND_WAIT);
	CHECK(round_deliver(&r, 1, 1, 6, 14) == ROUND_COUNTED);
	CHECK(round_tick(&r, 14));
	round_release(&r);
}

/* What is behind goes by the board, what was given ahead stays. */
static void ahead_and_behind(void)
{
	struct round_assignment a, b;
	struct round_policy p = three;
	struct round r;

	p.quorum = 1;
	p.ahead = true;
	p.ahead_steps = 10;
	opened(&r, &p, 2);
	CHECK(round_ask_ahead(&r, 1, 1, &a) == ROUND_WORK && a.turn == 1);
	CHECK(round_deliver(&r, 0, 0, 10, 10) == ROUND_COUNTED);
	CHECK(round_tick(&r, 31));
	round_close(&r, 31);
	round_publish(&r, 32);
	CHECK_I64(40, (int64_t)round_returned(&r));
	CHECK(r.members[1].works && r.members[1].work.turn == 1);
	CHECK(round_deliver(&r, 1, 0, 10, 33) == ROUND_UNKNOWN);
	CHECK(round_ask(&r, 1, 34, &b) == ROUND_WORK && b.range.first == a.range.first);
	/* who leaves gives back both */
	CHECK(round_ask(&r, 0, 34, &b) == ROUND_WAIT || b.turn == 1);
	round_tick(&r, 35);
	CHECK(r.phase == ROUND_OPEN);
	CHECK(round_ask_ahead(&r, 1, 36, &b) == ROUND_WORK && b.turn == 2);
	{
		uint64_t before = round_returned(&r);

		round_leave(&r, 1, 37);
		CHECK_I64((int64_t)before + 80, (int64_t)round_returned(&r));
	}
	round_release(&r);
}

/* --- any order -------------------------------------------------------------------------------- */

enum { SEQUENCES = 200000 };
static unsigned char place_of[SEQUENCES]; /* 1: counted, 2: elsewhere */

static void mark(struct round_range range, unsigned char how)
{
	CHECK(range.first + range.count <= SEQUENCES);
	for (uint64_t i = range.first; i < range.first + range.count; i++) {
		CHECK(!place_of[i]);
		place_of[i] = how;
	}
}

static void unmark_elsewhere(void)
{
	for (int i = 0; i < SEQUENCES; i++)
		if (place_of[i] == 2)
			place_of[i] = 0;
}

/* Every sequence handed out so far is in exactly one place. */
static void check_places(const struct round *r)
{
	uint64_t known = 0;

	for (size_t i = 0; i < r->nfree; i++)
		mark(r->free[i], 2);
	for (size_t i = 0; i < r->nmembers; i++) {
		CHECK(r->members[i].works || !r->members[i].has_next);
		if (r->members[i].works)
			mark(r->members[i].work.range, 2);
		if (r->members[i].has_next)
			mark(r->members[i].next.range, 2);
	}
	for (size_t i = 0; i < r->ndeltas; i++)
		if (!r->deltas[i].refused)
			mark(r->deltas[i].range, 2);
	for (size_t i = 0; i < r->nlate; i++)
		mark(r->late[i].range, 2);
	for (int i = 0; i < SEQUENCES; i++)
		known += place_of[i] != 0;
	CHECK_I64((int64_t)round_fresh(r), (int64_t)known);
	unmark_elsewhere();
}

static void check_counts(const struct round *r)
{
	size_t here = 0, asking = 0, working = 0, expected = 0;

	for (size_t i = 0; i < r->nmembers; i++) {
		here += r->members[i].here;
		asking += r->members[i].asks;
		working += r->members[i].works;
		expected += r->members[i].expected;
		CHECK(!(r->members[i].asks && r->members[i].works));
	}
	CHECK(here == r->here && asking == r->asking && working == r->working &&
		expected == r->expected);
}

/* The rows that a keeper would have on disk. */
struct shelf {
	struct shelved {
		enum round_part part;
		uint64_t key;
		char text[400];
	} * at;
	size_t n, cap;
	uint64_t bytes; /* ever written */
};
static struct shelf shelf;

static int shelve(void *ctx, enum round_part part, uint64_t key, const char *row)
{
	struct shelf *s = ctx;
	size_t i = 0;

	if (key == ROUND_ALL) {
		for (size_t k = 0; k < s->n; k++)
			if (s->at[k].part != part)
				s->at[i++] = s->at[k];
		s->n = i;
		return 0;
	}
	while (i < s->n && (s->at[i].part != part || s->at[i].key != key))
		i++;
	if (row) {
		s->at = xgrow(s->at, &s->cap, i + 1, sizeof *s->at);
		s->at[i].part = part;
		s->at[i].key = key;
		snprintf(s->at[i].text, sizeof s->at[i].text, "%s", row);
		if (i == s->n)
			s->n++;
		s->bytes += strlen(row);
	} else if (i < s->n) {
		s->at[i] = s->at[--s->n];
	}
	return 0;
}

static int by_place(const void *a, const void *b)
{
	const struct shelved *x = a, *y = b;

	if (x->part != y->part)
		return x->part < y->part ? -1 : 1;
	return (x->key > y->key) - (x->key < y->key);
}

/* All rows of a shelf, or of a round as if all had changed, as one text. */
static char *rows_of(struct shelf *s)
{
	struct buf out = BUF_INIT;

	qsort(s->at, s->n, sizeof *s->at, by_place);
	for (size_t i = 0; i < s->n; i++)
		buf_addf(&out, "%d %llu %s\n", (int)s->at[i].part,
			(unsigned long long)s->at[i].key, s->at[i].text);
	return buf_take(&out);
}

static char *whole_of(const struct round *r, int64_t now)
{
	struct round all = *r;
	struct shelf s = { 0 };
	char *text;

	for (int i = 0; i < ROUND_PARTS; i++)
		all.touched[i].all = true;
	CHECK(round_keep(&all, now, shelve, &s) == 0);
	text = rows_of(&s);
	free(s.at);
	return text;
}

/* What was kept after each event is the whole. */
static void check_kept(struct round *r, int64_t now)
{
	char *kept, *whole;

	CHECK(round_keep(r, now, shelve, &shelf) == 0);
	round_kept(r);
	kept = rows_of(&shelf);
	whole = whole_of(r, now);
	CHECK_TEXT(whole, kept);
	free(kept);
	free(whole);
}

static void read_shelf(struct round *r, int64_t now)
{
	free(rows_of(&shelf)); /* sorts */
	round_read(r);
	for (size_t i = 0; i < shelf.n; i++)
		CHECK(round_read_row(r, shelf.at[i].part, shelf.at[i].key,
			      shelf.at[i].text, "shelf") == 0);
	CHECK(round_read_end(r, now, "shelf") == 0);
}

/* No row is missing unnoticed. */
static void lack_rows(struct round *r, size_t lost)
{
	int rc = 0;

	round_read(r);
	for (size_t i = 0; i < shelf.n && rc == 0; i++)
		if (i != lost)
			rc = round_read_row(r, shelf.at[i].part, shelf.at[i].key,
				shelf.at[i].text, "shelf");
	CHECK_FAILS(EX_DATAERR, rc < 0 ? rc : round_read_end(r, 0, "shelf"));
}

/* The round is read back in the middle of everything: the same, and then with another clock. */
static void save_and_load(struct round *r, int64_t *now)
{
	struct round other;
	char *is, *was;

	check_kept(r, *now);
	round_init(&other, &r->policy, 0, 0);
	read_shelf(&other, *now);
	was = whole_of(r, *now);
	is = whole_of(&other, *now);
	CHECK_TEXT(was, is);
	free(was);
	free(is);
	lack_rows(&other, (size_t)*now % shelf.n);
	for (size_t i = 0; i < 2; i++)
		lack_rows(&other, i);
	*now += 12345;
	read_shelf(&other, *now);
	CHECK(other.began - r->began == 12345);
	round_release(r);
	*r = other;
}

static void step(struct round *r, struct rng *rng, int64_t *now)
{
	uint64_t m = rng_below(rng, r->nmembers + 1);
	struct round_assignment work;

	*now += (int64_t)rng_below(rng, 30);
	switch (rng_below(rng, 16)) {
	case 0:
		if (r->here < 12)
			round_join(r, 1 + rng_below(rng, 9), *now);
		break;
	case 1:
		if (rng_below(rng, 4) == 0)
			round_leave(r, m, *now);
		break;
	case 2:
		if (rng_below(rng, 20) == 0)
			save_and_load(r, now);
		break;
	case 3:
		if (r->ndeltas && rng_below(rng, 4) == 0)
			round_refuse(r, r->deltas[0].member, r->deltas[0].turn);
		break;
	case 4:
		round_ask_ahead(r, m, *now, &work);
		break;
	case 5:
	case 6:
	case 7:
	case 8:
		if (m < r->nmembers && !r->members[m].works)
			round_ask(r, m, *now, &work);
		else if (rng_below(rng, 30) == 0)
			round_ask(r, m, *now, &work); /* has given its work up */
		break;
	default:
		if (m < r->nmembers)
			round_deliver(r, m, r->members[m].work.turn,
				rng_below(rng, 6) ? r->members[m].work.steps :
						    rng_below(rng, 12),
				*now);
	}
	if (rng_below(rng, 4) == 0)
		check_kept(r, *now);
}

static void finish_round(struct round *r, struct rng *rng, int64_t *now)
{
	round_close(r, *now);
	for (uint64_t i = rng_below(rng, 6); i; i--)
		step(r, rng, now);
	for (size_t i = 1; i < r->ndeltas; i++)
		CHECK(r->deltas[i - 1].member < r->deltas[i].member ||
			(r->deltas[i - 1].member == r->deltas[i].member &&
				r->deltas[i - 1].turn < r->deltas[i].turn));
	for (size_t i = 0; i < r->ndeltas; i++)
		if (!r->deltas[i].refused)
			mark(r->deltas[i].range, 1);
	r->ndeltas = r->on_time = 0; /* counted now */
	round_publish(r, *now);
}

/* Wherever it stands: when members do what they should, rounds come to an end at once. */
static void goes_on(struct round *r, struct rng *rng, int64_t now)
{
	struct round_assignment work;
	uint64_t before = r->number;

	while (r->here < r->policy.quorum)
		round_join(r, 1, now);
	for (int turn = 0; turn < 6; turn++, now++) {
		for (uint64_t i = 0; i < r->nmembers; i++)
			if (!r->members[i].works)
				round_ask(r, i, now, &work);
		if (round_tick(r, now))
			finish_round(r, rng, &now);
		for (uint64_t i = 0; i < r->nmembers; i++)
			if (r->members[i].works)
				round_deliver(r, i, r->members[i].work.turn,
					r->members[i].work.steps, now);
		if (round_tick(r, now))
			finish_round(r, rng, &now);
	}
	CHECK(r->number >= before + 2);
}

static void any_order(uint64_t seed)
{
	struct round_policy p = { .quorum = 2,
		.steps = 10,
		.batch = 3,
		.length = 8,
		.late_count = seed % 2,
		.asynchronous = seed % 5 == 4,
		.grace_ms = 25,
		.dylu = seed % 3 == 0,
		.ahead = seed % 4 == 1 && seed % 5 != 4,
		.ahead_steps = seed % 4 == 1 ? 7 : 0 };
	struct rng rng;
	struct round r;
	int64_t now = 0;

	memset(place_of, 0, sizeof place_of);
	rng_seed(&rng, seed, 1);
	round_init(&r, &p, 0, now);
	for (int i = 0; i < 1500; i++) {
		step(&r, &rng, &now);
		if (round_tick(&r, now))
			finish_round(&r, &rng, &now);
		check_counts(&r);
		if (i % 50 == 0)
			check_places(&r);
	}
	check_places(&r);
	CHECK(r.number > 5);
	goes_on(&r, &rng, now);
	round_release(&r);
}

/* A member that leaves and returns keeps its number, and is counted once. */
static void returning(void)
{
	struct round_policy p = three;
	struct round_assignment a, b;
	struct round r;

	p.quorum = 1;
	p.members_max = 2;
	round_init(&r, &p, 0, 0);
	CHECK_I64(0, round_join(&r, 5, 0));
	CHECK_I64(1, round_join(&r, 7, 0));
	CHECK(round_ask(&r, 0, 1, &a) == ROUND_WAIT);
	round_tick(&r, 1);
	CHECK(round_ask(&r, 0, 1, &a) == ROUND_WORK);
	round_leave(&r, 0, 2);
	CHECK(round_ask(&r, 0, 3, &b) == ROUND_GONE);
	CHECK(round_return(&r, 0, 9) == 0 && round_return(&r, 0, 9) == 0);
	CHECK(r.here == 2 && r.nmembers == 2 && r.members[0].speed == 9);
	/* its text was given back, and it is the first to get it */
	CHECK(round_ask(&r, 0, 4, &b) == ROUND_WORK && b.range.first == a.range.first);
	CHECK(round_deliver(&r, 0, b.turn, b.steps, 5) == ROUND_COUNTED);
	round_leave(&r, 1, 6);
	CHECK_I64(2, round_join(&r, 1, 7));
	CHECK_FAILS(EX_TEMPFAIL, round_return(&r, 1, 7));
	round_release(&r);
}

static void refused_saves(void)
{
	static const char *const bad[] = { "{}", "{\"phase\":9}", "{\"phase\":0}",
		"{\"phase\":0,\"round\":[1]}",
		"{\"phase\":0,\"round\":[0,0,0,0,0,0,0,0,0,-1],\"offsets\":[]}" };
	static const struct {
		enum round_part part;
		uint64_t key;
		const char *row;
	} rows[] = { { ROUND_WHOLE, 0, "[0,9,0,0,0,0,0,0,0,0,0,0]" },
		{ ROUND_WHOLE, 0, "[0,0]" }, { ROUND_WHOLE, 0, "{}" },
		{ ROUND_MEMBERS, 0, "[1]" },
		{ ROUND_MEMBERS, 1, "[1,0,0,0,0,0,1,1,1,1,1,1,1,null]" },
		{ ROUND_MEMBERS, 0, "[2,0,0,0,0,0,1,1,1,1,1,1,1,null]" },
		{ ROUND_MEMBERS, 0, "[1,0,0,0,0,0,null,1,1,1,1,1,1,1]" },
		{ ROUND_DELTAS, 0, "[]" }, { ROUND_FREE, 5, "[5,-1]" },
		{ ROUND_FREE, 5, "[6,1]" },
		{ ROUND_WHOLE, 1, "[0,0,0,0,0,0,0,0,0,0,0,0]" }, { ROUND_FREE, 5, "[5" },
		{ ROUND_PARTS, 0, "[]" } };
	struct round r;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		json_t *doc = json_loads(bad[i], 0, NULL);

		round_init(&r, &three, 0, 0);
		CHECK_FAILS(EX_DATAERR, round_load(&r, doc, 0, "test"));
		round_release(&r);
		json_decref(doc);
	}
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		round_init(&r, &three, 0, 0);
		round_read(&r);
		CHECK_FAILS(EX_DATAERR,
			round_read_row(&r, rows[i].part, rows[i].key, rows[i].row, "t"));
		round_release(&r);
	}
	round_init(&r, &three, 0, 0);
	round_read(&r);
	CHECK_FAILS(EX_DATAERR, round_read_end(&r, 0, "t")); /* no row of the whole */
	round_release(&r);
}

/* What the version before kept, one object with times as what is left, is read. */
static void older_save(void)
{
	static const char text[] =
		"{\"phase\":1,\"round\":[3,-50,-40,9223372036854775807,9223372036854775807,-900,5000,4,0,7],"
		"\"offsets\":[10,20,30,40,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],"
		"\"members\":[[1,0,1,1,0,0,100,0,3,10,4000,40,-40,9223372036854775807],[0,0,0,0,0,0,0,0,0,0,0,0,0,0]],"
		"\"ahead\":[],\"deltas\":[[1,3,10,4040,40,320,-5,0,0]],\"late\":[],\"free\":[[4900,8]]}";
	json_t *doc = json_loads(text, 0, NULL);
	struct round r;

	round_init(&r, &three, 0, 0);
	CHECK(round_load(&r, doc, 1000, "t") == 0);
	CHECK(r.phase == ROUND_OPEN && r.number == 3 && r.began == 950 && r.next == 5000);
	CHECK(r.nmembers == 2 && r.working == 1 && r.members[0].work.at == 960 &&
		r.members[0].work.deadline == ROUND_NEVER);
	CHECK(r.ndeltas == 1 && r.deltas[0].at == 995 && r.on_time == 1);
	CHECK(r.nfree == 1 && r.free[0].first == 4900);
	check_kept(&r, 1000); /* all of it counts as changed */
	round_release(&r);
	json_decref(doc);
}

static int count_bytes(void *ctx, enum round_part part, uint64_t key, const char *row)
{
	(void)part, (void)key;
	*(uint64_t *)ctx += row ? strlen(row) : 0;
	return 0;
}

/* What a round of 10,000 members writes, each change kept as it comes: megabytes, not each time the
 * whole. */
static void bytes_of_many(void)
{
	struct round_policy p = { .quorum = 10000,
		.steps = 50,
		.batch = 8,
		.length = 64 };
	struct round_assignment work;
	struct round r;
	uint64_t bytes = 0;
	int64_t now = 1000000;

	round_init(&r, &p, 0, now);
	for (int i = 0; i < 10000; i++)
		round_join(&r, 100, now);
	for (int turn = 0; turn < 2; turn++) {
		bytes = 0;
		for (uint64_t i = 0; i < 10000; i++, now++) {
			round_ask(&r, i, now, &work);
			CHECK(round_keep(&r, now, count_bytes, &bytes) == 0);
			round_kept(&r);
		}
		round_tick(&r, now);
		for (uint64_t i = 0; i < 10000; i++, now++) {
			CHECK(round_ask(&r, i, now, &work) == ROUND_WORK);
			CHECK(round_keep(&r, now, count_bytes, &bytes) == 0);
			round_kept(&r);
			CHECK(round_deliver(&r, i, work.turn, work.steps, now) ==
				ROUND_COUNTED);
			CHECK(round_keep(&r, now, count_bytes, &bytes) == 0);
			round_kept(&r);
		}
		CHECK(round_tick(&r, now));
		round_close(&r, now);
		CHECK(round_keep(&r, now, count_bytes, &bytes) == 0);
		round_publish(&r, now);
		CHECK(round_keep(&r, now, count_bytes, &bytes) == 0);
		round_kept(&r);
	}
	printf("# a round of 10,000 members writes %llu bytes of rows\n",
		(unsigned long long)bytes);
	CHECK(bytes < 20000000);
	round_release(&r);
}

/* Who registered and no more is none that delayed Nesterov's momentum reckons with; and a number
 * that was left behind is another's. */
static void registered_only(void)
{
	const struct round_policy p = { .quorum = 1,
		.members_max = 3,
		.steps = 1,
		.batch = 1,
		.length = 1,
		.asynchronous = true };
	struct round_assignment a;
	struct round r;

	round_init(&r, &p, 0, 0);
	for (int i = 0; i < 3; i++)
		CHECK_I64(i, round_join(&r, 1, 0));
	CHECK_I64(0, (int64_t)round_live(&r));
	CHECK(round_ask(&r, 1, 1, &a) == ROUND_WAIT);
	CHECK_I64(1, (int64_t)round_live(&r));
	round_tick(&r, 1);
	CHECK(round_ask(&r, 1, 2, &a) == ROUND_WORK);
	CHECK_I64(1, (int64_t)round_live(&r));
	CHECK(round_deliver(&r, 1, a.turn, a.steps, 3) == ROUND_COUNTED);
	CHECK_I64(1, (int64_t)round_live(&r));
	round_leave(&r, 1, 4);
	CHECK_I64(0, (int64_t)round_live(&r));
	CHECK_I64(0, round_replace(&r, 1, 7));
	CHECK(r.here == 3 && r.members[1].speed == 7 && !r.members[1].done);
	round_leave(&r, 2, 5);
	CHECK_I64(0, round_replace(&r, 2, 7));
	round_leave(&r, 2, 5);
	CHECK_I64(3, round_join(&r, 1, 6));
	/* no place */
	CHECK_FAILS(EX_TEMPFAIL, round_replace(&r, 2, 7));
	CHECK(!r.members[2].here);
	round_release(&r);
}

int main(void)
{
	registered_only();
	whole_round();
	deadlines();
	late(false);
	late(true);
	later();
	joiner();
	parts();
	silent();
	excused();
	asynchronous();
	dynamic_steps();
	absurd_speeds();
	ahead();
	ahead_and_behind();
	for (uint64_t seed = 0; seed < 30; seed++)
		any_order(seed);
	returning();
	refused_saves();
	older_save();
	bytes_of_many();
	free(shelf.at);
	TEST_END();
}
