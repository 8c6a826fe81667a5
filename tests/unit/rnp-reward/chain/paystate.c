/* paystate.c - the rules one by one, and a model checker: a chain, a payer that
 * follows the rules, and servers that answer anything; every order of events up to depth 16.
 * uses: cmd/rnp-reward */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd/rnp-reward/chain/paystate.h"
#include "tests/unit/test.h"

/* --- the rules ------------------------------------------------------------------------------- */

static struct pay_view view(enum pay_seen a, enum pay_seen b, enum pay_seen c,
	int64_t height)
{
	return (struct pay_view){ .servers = 3,
		.given = 3,
		.last_valid = 1000,
		.sent_to = 1,
		.final_height = { height, height, height },
		.seen = { a, b, c } };
}

static enum pay_status decide(struct pay_view v)
{
	return pay_decide(PAY_SENT, &v, NULL);
}

static void check_rules(void)
{
	struct pay_view v;
	int blame;

	CHECK(decide(view(PAY_NULL, PAY_NULL, PAY_NULL, 1000)) == PAY_SENT);
	CHECK(decide(view(PAY_NULL, PAY_NULL, PAY_NULL, 1001)) == PAY_EXPIRED);
	CHECK(decide(view(PAY_NO_ANSWER, PAY_NULL, PAY_NULL, 1001)) == PAY_EXPIRED);
	/* one is no quorum, and the sender's word is none */
	CHECK(decide(view(PAY_NULL, PAY_NULL, PAY_NO_ANSWER, 1001)) == PAY_SENT);
	/* any trace of it, by anybody */
	CHECK(decide(view(PAY_SEEN, PAY_NULL, PAY_NULL, 1001)) == PAY_SENT);
	CHECK(decide(view(PAY_SEEN_ERROR, PAY_NULL, PAY_NULL, 1001)) == PAY_SENT);
	CHECK(decide(view(PAY_SEEN_CONFIRMED, PAY_NULL, PAY_NULL, 1001)) ==
		PAY_CONFIRMED);
	CHECK(decide(view(PAY_SEEN_FINAL, PAY_NULL, PAY_NULL, 1001)) == PAY_CONFIRMED);
	CHECK(decide(view(PAY_SEEN_FINAL, PAY_SEEN_FINAL, PAY_NULL, 900)) ==
		PAY_FINALISED);
	/* final by a majority, whatever one says against it: its height does not matter either */
	for (enum pay_seen lie = PAY_NO_ANSWER; lie <= PAY_SEEN_FINAL_ERROR; lie++) {
		v = view(PAY_SEEN_FINAL, lie, PAY_SEEN_FINAL, 1001);
		CHECK(decide(v) == PAY_FINALISED);
		v.given_up = true;
		v.final_height[1] = lie % 2 ? 0 : 1000000;
		CHECK(decide(v) == PAY_FINALISED);
		/* one of two is none, nor one of three */
		v.final_height[1] = 1001;
		v.servers = v.given = 2;
		CHECK(decide(v) ==
			(lie == PAY_SEEN_FINAL ? PAY_FINALISED : PAY_CONFIRMED));
		v.given = 3;
		CHECK(decide(v) ==
			(lie == PAY_SEEN_FINAL ? PAY_FINALISED : PAY_CONFIRMED));
	}
	/* of those that were given: two of four are no majority, three of five are */
	v = view(PAY_SEEN_FINAL, PAY_SEEN_FINAL, PAY_NULL, 900);
	v.given = 4;
	CHECK(decide(v) == PAY_CONFIRMED);
	v.given = 5;
	v.seen[2] = PAY_SEEN_FINAL;
	CHECK(decide(v) == PAY_FINALISED);
	/* a height that is not above the last, from any server; its number */
	v = view(PAY_NULL, PAY_NULL, PAY_NULL, 1001);
	v.final_height[0] = 1000;
	CHECK(pay_decide(PAY_SENT, &v, &blame) == PAY_SENT);
	CHECK_I64(0, blame);
	/* a confirmation that is gone */
	v = view(PAY_NULL, PAY_NULL, PAY_NULL, 900);
	CHECK(pay_decide(PAY_CONFIRMED, &v, NULL) == PAY_SENT);
	CHECK(pay_decide(PAY_PLANNED, &v, NULL) == PAY_PLANNED);
	/* what is over stays so */
	v = view(PAY_SEEN_FINAL, PAY_SEEN_FINAL, PAY_SEEN_FINAL, 2000);
	CHECK(pay_decide(PAY_EXPIRED, &v, NULL) == PAY_EXPIRED);
	/* a server may have the bytes of what is only known to be signed */
	CHECK(pay_decide(PAY_SIGNED, &v, NULL) == PAY_FINALISED);
	/* the first block has height 0, which is one */
	CHECK(pay_is_near(0, (int64_t[]){ 0, -1 }, 2));
	CHECK(!pay_is_near(-1, (int64_t[]){ 0, -1 }, 2));
	/* one server alone: final by its word, never given up */
	v.servers = v.given = 1;
	CHECK(pay_decide(PAY_SENT, &v, NULL) == PAY_FINALISED);
	v.seen[0] = PAY_NULL;
	v.sent_to = 0;
	CHECK(pay_decide(PAY_SENT, &v, NULL) == PAY_SENT);
}

/* What becomes of these answers without a person's word, and with it. */
static const char *doubt(enum pay_seen a, enum pay_seen b, enum pay_seen c,
	int64_t height)
{
	struct pay_view v = view(a, b, c, height);
	static char text[40];
	enum pay_status before = pay_decide(PAY_SENT, &v, NULL);

	v.given_up = true;
	snprintf(text, sizeof text, "%s %s %s", pay_status_names[before],
		pay_is_doubtful(&v) ? "doubt" : "-",
		pay_status_names[pay_decide(PAY_SENT, &v, NULL)]);
	return text;
}

/* That it has failed is never taken from servers, however many say so. */
static void check_doubts(void)
{
	const enum pay_seen failed = PAY_SEEN_FINAL_ERROR, none = PAY_NO_ANSWER;
	struct pay_view v;

	CHECK_TEXT("sent doubt failed", doubt(failed, failed, failed, 2000));
	CHECK_TEXT("sent doubt failed", doubt(failed, none, failed, 900));
	CHECK_TEXT("sent doubt failed", doubt(failed, PAY_SEEN_ERROR, failed, 900));
	CHECK_TEXT("sent - sent", doubt(failed, none, none, 900));
	/* that it paid nothing is what one that calls it failed says, too */
	CHECK_TEXT("sent - expired", doubt(failed, PAY_NULL, PAY_NULL, 1001));
	CHECK_TEXT("sent - expired", doubt(failed, PAY_NULL, none, 1001));
	CHECK_TEXT("sent - sent", doubt(failed, PAY_NULL, PAY_NULL, 1000));
	/* one that knows nothing of it yet, or of no error; a person is contradicted, too */
	CHECK_TEXT("sent - sent", doubt(failed, PAY_NULL, failed, 1000));
	CHECK_TEXT("sent doubt failed", doubt(failed, PAY_NULL, failed, 1001));
	CHECK_TEXT("sent - sent", doubt(failed, PAY_SEEN, failed, 1001));
	CHECK_TEXT("confirmed - confirmed",
		doubt(failed, PAY_SEEN_CONFIRMED, failed, 1001));
	CHECK_TEXT("confirmed - confirmed", doubt(failed, PAY_SEEN_FINAL, failed, 1001));
	/* a person is needed where the third does not answer, or the sender alone agrees */
	CHECK_TEXT("sent - expired", doubt(PAY_NULL, PAY_NULL, none, 1001));
	CHECK_TEXT("sent - sent", doubt(PAY_NULL, PAY_NULL, none, 1000));
	CHECK_TEXT("sent - sent", doubt(PAY_NULL, none, none, 1001));
	CHECK_TEXT("sent - sent", doubt(PAY_NULL, PAY_NULL, PAY_SEEN_ERROR, 1001));
	CHECK_TEXT("sent - sent", doubt(none, none, none, 1001));
	/* two of five are no majority, three are; those that were left out count */
	v = view(none, PAY_NULL, PAY_NULL, 1001);
	v.given = 4;
	CHECK(decide(v) == PAY_SENT);
	v.given = v.servers = 5;
	v.final_height[3] = v.final_height[4] = -1;
	CHECK(decide(v) == PAY_SENT);
	v.final_height[3] = 1001;
	v.seen[3] = PAY_NULL;
	CHECK(decide(v) == PAY_EXPIRED);
	/* one server: two are needed for an end by itself, a person's word suffices with it */
	v = view(failed, none, none, 1001);
	v.servers = v.given = 1;
	CHECK(decide(v) == PAY_SENT && pay_is_doubtful(&v));
	v.given_up = true;
	CHECK(decide(v) == PAY_FAILED);
}

static bool gone_after(const char *answers)
{
	struct pay_hash_seen s = { 0 };
	int64_t slot;
	char good;
	int used;

	for (; sscanf(answers, " %" SCNd64 "%c%n", &slot, &good, &used) == 2;
		answers += used)
		pay_hash_note(&s, slot, good == 'g');
	return s.gone;
}

/* slots, with g(ood) or n(ot) */
static void check_hash_note(void)
{
	CHECK(gone_after("100g 250n"));
	CHECK(gone_after("100g 101n"));
	/* never known there: the server is behind, or the hash is another fork's */
	CHECK(!gone_after("100n 101n 400n"));
	/* another server behind the same address is behind */
	CHECK(!gone_after("100g 99n"));
	CHECK(!gone_after("100g 100n"));
	CHECK(!gone_after("100g 150g 120n"));
	CHECK(!gone_after("150g 100g 120n"));
	/* the last answer counts */
	CHECK(!gone_after("100g 250n 251g"));
	CHECK(!gone_after("100g 250n 90n"));
}

/* What becomes of it when heights say that it can still land. */
static void check_hash_gone(void)
{
	struct pay_view v = view(PAY_NULL, PAY_NULL, PAY_NULL, 900);
	int blame;

	v.hash_gone[1] = v.hash_gone[2] = true;
	/* the sender does not say so, and has answered */
	CHECK(pay_decide(PAY_SENT, &v, &blame) == PAY_SENT);
	CHECK_I64(0, blame);
	v.hash_gone[0] = true;
	CHECK(decide(v) == PAY_EXPIRED);
	v.hash_gone[2] = false;
	CHECK(decide(v) == PAY_SENT);
	/* a height that is above says the same */
	v.final_height[2] = 1001;
	CHECK(decide(v) == PAY_EXPIRED);
	v = view(PAY_NULL, PAY_NULL, PAY_SEEN, 900);
	v.hash_gone[0] = v.hash_gone[1] = v.hash_gone[2] = true;
	CHECK(decide(v) == PAY_SENT);
	CHECK(!pay_is_far(700, 1000) && pay_is_far(699, 1000) && !pay_is_far(-1, 1000));
}

static void check_last_valid(void)
{
	CHECK_I64(1150, pay_last_valid(1100, (int64_t[]){ 1000, 998, 990 }, 3));
	CHECK_I64(1180, pay_last_valid(1180, (int64_t[]){ 1000, 998, -1 }, 3));
	/* a blockhash said to be dead already is not */
	CHECK_I64(1150, pay_last_valid(0, (int64_t[]){ 1000, 1000, 1000 }, 3));
	CHECK_I64(-1, pay_last_valid(100000, (int64_t[]){ 1000, 1000, 1000 }, 3));
	CHECK_I64(-1, pay_last_valid(1100, (int64_t[]){ 1000, -1, -1 }, 3));
	CHECK_I64(1150, pay_last_valid(1100, (int64_t[]){ 1000 }, 1));
	/* one far ahead could keep it in flight for ever; one behind or silent does nothing */
	CHECK_I64(-1, pay_last_valid(1100, (int64_t[]){ 1000, 5000, 1000 }, 3));
	CHECK_I64(5150, pay_last_valid(5100, (int64_t[]){ 5000, 0, 4990 }, 3));
	CHECK_I64(-1, pay_last_valid(5100, (int64_t[]){ 5000, 0, -1 }, 3));
	CHECK_I64(-1, pay_last_valid(5100, (int64_t[]){ 5000, 0 }, 2));
	CHECK_I64(-1, pay_last_valid(-1, (int64_t[]){ 1000, 1000 }, 2));
}

/* --- the model -------------------------------------------------------------------------------- */

#define DEPTH   16 /* events in a row */
#define STEP    15 /* blocks that pass at a time */
#define LAG     32 /* between what is processed and what is final */
#define SERVERS 3
#define STATES  200000

#define START 1000 /* height at which the transaction was signed */
#define DEAD  (START + PAY_VALID_BLOCKS)

/* The world and what the payer believes. The blockhash was made just when it was signed: it can
 * land up to height DEAD. */
struct world {
	int64_t height;     /* now */
	int64_t landed;     /* height at which it landed; -1: it has not */
	int64_t last_valid; /* as the payer has it */
	enum pay_status status;
	int depth;
};

/* lies: bit per server that lies; silent: bit per server that may fail to answer. */
struct setting {
	const char *name;
	unsigned liars, silent;
	int sender;
	bool final_is_true; /* few enough lie for that */
};

static struct world states[STATES];
static int nstates;
static long steps;

static bool can_land(const struct world *w)
{
	return w->landed < 0 && w->height <= DEAD;
}

static int64_t final_height(const struct world *w)
{
	return w->height - LAG;
}

static void add(struct world w)
{
	w.depth++;
	steps++;
	if (w.depth > DEPTH || w.height > START + 24 * STEP)
		return;
	for (int i = 0; i < nstates; i++)
		if (states[i].height == w.height && states[i].landed == w.landed &&
			states[i].last_valid == w.last_valid &&
			states[i].status == w.status)
			return;
	if (nstates == STATES)
		abort();
	states[nstates++] = w;
}

/* The two invariants: a transaction that is given up, or called failed (in this world none fails),
 * can never land, and has not; one that is called final is final. */
static void check_world(const struct setting *s, const struct world *w)
{
	if (w->status == PAY_EXPIRED || w->status == PAY_FAILED)
		CHECK(w->landed < 0 && final_height(w) > DEAD);
	if (w->status == PAY_FINALISED && s->final_is_true)
		CHECK(w->landed >= 0 && w->landed <= final_height(w));
}

static enum pay_seen truth(const struct world *w)
{
	if (w->landed < 0)
		return PAY_NULL;
	return w->landed <= final_height(w) ? PAY_SEEN_FINAL :
		w->landed < w->height       ? PAY_SEEN_CONFIRMED :
					      PAY_SEEN;
}

/* Every answer that a server may give in this setting: number `which` of answers(). */
static int answers(const struct setting *s, int server)
{
	if (s->liars >> server & 1)
		return 1 + 4 * 7 * 2;
	return s->silent >> server & 1 ? 2 : 1;
}

static void answer(const struct setting *s, const struct world *w, int server, int which,
	struct pay_view *v)
{
	const int64_t heights[4] = { -1, 0, final_height(w), 1000000 };

	v->final_height[server] = final_height(w);
	v->seen[server] = truth(w);
	v->hash_gone[server] = final_height(w) > DEAD;
	if (s->liars >> server & 1 && which) {
		v->hash_gone[server] = (which - 1) / 28;
		v->final_height[server] = heights[(which - 1) / 7 % 4];
		v->seen[server] = (enum pay_seen)((which - 1) % 7);
	} else if (which) {
		v->final_height[server] = -1;
		v->seen[server] = PAY_NO_ANSWER;
		v->hash_gone[server] = false;
	}
}

static void poll(const struct setting *s, struct world w)
{
	struct world next;

	for (int a = 0; a < answers(s, 0); a++)
		for (int b = 0; b < answers(s, 1); b++)
			for (int c = 0; c < answers(s, 2); c++) {
				struct pay_view v = { .servers = SERVERS,
					.given = SERVERS,
					.last_valid = w.last_valid,
					.sent_to = 1u << s->sender };

				answer(s, &w, 0, a, &v);
				answer(s, &w, 1, b, &v);
				answer(s, &w, 2, c, &v);
				next = w;
				next.status = pay_decide(w.status, &v, NULL);
				check_world(s, &next);
				add(next);
			}
}

/* All ways of signing: liars say any height, and anything of the blockhash. */
static void sign(const struct setting *s)
{
	const int64_t said[7] = { -1, 0, START - 151, START - 149, START, START + 149,
		100000 };
	const int64_t claims[5] = { 0, START + 20, DEAD, DEAD + 100, 1000000 };

	for (int a = 0; a < 7; a++)
		for (int b = 0; b < 7; b++)
			for (int c = 0; c < 7; c++)
				for (int k = 0; k < 5; k++) {
					int64_t heights[3] = { said[a], said[b],
						said[c] },
						last;

					for (int i = 0; i < SERVERS; i++)
						if (!(s->liars >> i & 1) &&
							(!(s->silent >> i & 1) ||
								heights[i] >= 0))
							heights[i] = START;
					last = pay_last_valid(claims[k], heights,
						SERVERS);
					if (last < 0)
						continue;
					CHECK(last >= DEAD);
					add((struct world){ .height = START,
						.landed = -1,
						.last_valid = last,
						.status = PAY_SENT,
						.depth = -1 });
				}
}

static void explore(const struct setting *s)
{
	bool ends = false, given_up = false;

	nstates = 0;
	sign(s);
	for (int i = 0; i < nstates; i++) {
		struct world w = states[i], next = w;

		ends = ends || w.status == PAY_FINALISED;
		given_up = given_up || w.status == PAY_EXPIRED;
		if (pay_is_over(w.status)) /* time goes on, and nothing may come of it */
			CHECK(w.status == PAY_FINALISED || !can_land(&w));
		next.height += STEP;
		add(next);
		next = w;
		next.landed = w.height;
		if (can_land(&w))
			add(next);
		next.landed =
			-1; /* a fork: what is not final is gone, and may land again */
		if (w.landed > final_height(&w))
			add(next);
		if (!pay_is_over(w.status))
			poll(s, w);
	}
	/* a model in which nothing ends would hold anything */
	CHECK(ends && given_up);
	fprintf(stderr, "%s: %d states, %ld steps\n", s->name, nstates, steps);
}

static void check_model(void)
{
	static const struct setting settings[] = {
		{ "two liars, the honest one is not the sender", 3, 0, 0, false },
		{ "two liars, the honest one is the sender", 3, 0, 2, false },
		{ "one liar, who sends; the others may be silent", 1, 6, 0, true },
		{ "one liar; the sender and another may be silent", 1, 6, 1, true },
		{ "nobody lies, all may be silent", 0, 7, 0, true },
	};

	for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
		explore(&settings[i]);
	CHECK(steps > 1000000);
}

int main(void)
{
	check_rules();
	check_doubts();
	check_hash_note();
	check_hash_gone();
	check_last_valid();
	check_model();
	TEST_END();
}
