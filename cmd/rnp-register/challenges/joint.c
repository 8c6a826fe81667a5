/* joint.c - joint challenges: all nodes that may be one device are challenged at the same
 * instant. */
#include "cmd/rnp-register/challenges/table.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"

/* The most nodes that are challenged at one instant, because all their answers come at one instant,
 * too. An operator cannot know which of his nodes are among them. And how far ahead the instant
 * is at most. */
#define JOINT_MAX      16
#define JOINT_AHEAD_MS 120000
/* The most nodes with a device in common. One that is away when the instant comes is not
 * challenged, and fails nothing: anybody may claim its device. Those that have proven it
 * come first. */
#define TWINS_MAX 16
/* The most that answers of one instant may have together, besides those of the first node and of
 * those that have proven a device of it. */
#define BYTES_MAX   ((int64_t)POC_ANSWER_BYTES_MAX / 2)
#define MEMBERS_MAX (1 + TWINS_MAX + JOINT_MAX)
/* Nodes whose last answers came so close together may be one device that answers for both. Of
 * nodes that have nothing else in common at most this many are added: among thousands of nodes
 * some always coincide by chance, and each adds an answer at that instant. */
#define SECOND_NS  1000000000
#define SECOND_MAX 8
/* An estimate of the bytes of an answer for one device. */
#define ANSWER_BYTES ((int64_t)16 << 20)
/* Allows for a heartbeat's transfer, and the clocks' difference in speed. */
#define JOINT_MARGIN_MS 2000
#define LATE_MS         30000

static uint64_t hash_of_text(const char *text)
{
	unsigned char hash[crypto_generichash_BYTES];
	uint64_t h;

	if (!text || !*text)
		return 0;
	crypto_generichash(hash, sizeof hash, (const unsigned char *)text, strlen(text),
		NULL, 0);
	memcpy(&h, hash, sizeof h);
	return h | 1;
}

bool joint_note(struct registry *g, struct challenged *a, const struct registry_put *p)
{
	sqlite3_stmt *q = g->challenger->facts;
	bool is_new = false;

	a->seen_ns = clock_mono_ns();
	a->interval_ms = p->beat.interval_s * 1000;
	a->block = hash_of_text(p->from);
	a->wallet = 0;
	a->answer_bytes = 0;
	store_bind(q, "t", a->node);
	if (store_step(&g->db.store, q) == 1) {
		a->wallet = hash_of_text(store_text(q, 2));
		a->answer_bytes = ANSWER_BYTES * (1 + sqlite3_column_int64(q, 3));
		is_new = sqlite3_column_type(q, 1) == SQLITE_NULL &&
			strcmp(store_text(q, 0), a->challenged_record) != 0;
		snprintf(a->record_sha256, sizeof a->record_sha256, "%s",
			store_text(q, 0));
	} else {
		err_clear();
	}
	sqlite3_reset(q);
	return is_new;
}

/* Whether the node is online: its last heartbeat's promised interval is not long over. */
static bool joint_is_there(const struct challenged *a)
{
	int64_t now_ns = clock_mono_ns();

	return a->seen_ns &&
		now_ns - a->seen_ns <= (2 * a->interval_ms + LATE_MS) * 1000000;
}

static void add_member(struct challenged **members, int *n, struct challenged *a)
{
	if (!a || a->c || a->joint_ns)
		return;
	for (int i = 0; i < *n; i++)
		if (members[i] == a)
			return;
	members[(*n)++] = a;
}

static bool same_operator(const struct challenged *a, const struct challenged *b)
{
	return (a->wallet && b->wallet == a->wallet) ||
		(a->block && b->block == a->block);
}

static bool same_second(const struct challenged *a, const struct challenged *b)
{
	return a->answered_ns && b->answered_ns &&
		llabs(a->answered_ns - b->answered_ns) < SECOND_NS;
}

/* Adds nodes that also claim, or have proven, one of the node's devices. Returns false if one that
 * has proven it is there and has a challenge already: alone this one would prove nothing. One that
 * only claims it is not waited for, or it could keep this one from ever being challenged. */
static bool add_twins(struct registry *g, const struct challenged *a,
	struct challenged **members, int *n, int64_t *bytes)
{
	int64_t since_ms = clock_now_ms() - CHALLENGED_PAID_MS;
	sqlite3_stmt *q = g->challenger->twins;
	bool free = true;
	int rc;

	store_bind(q, "t", a->node);
	while ((rc = store_step(&g->db.store, q)) == 1 && *n < 1 + TWINS_MAX) {
		bool proven = sqlite3_column_int64(q, 1) > since_ms;
		struct challenged *twin = *challenged_place(g->challenger,
			store_text(q, 0));

		if (!twin || (!proven && *bytes + twin->answer_bytes > BYTES_MAX))
			continue;
		/* the device is a customer's now, by whatever name */
		if (challenged_is_spared(g, twin)) {
			free = false;
			continue;
		}
		free = free &&
			!(proven && joint_is_there(twin) && (twin->c || twin->joint_ns));
		add_member(members, n, twin);
		*bytes += proven ? 0 : twin->answer_bytes;
	}
	sqlite3_reset(q);
	if (rc < 0)
		err_clear();
	return free;
}

/* Finds all nodes that are challenged together with a, which is the first: those with a device in
 * common, of one wallet, of one block of addresses, or that answered within one second. Returns
 * how many; 0: it is to be challenged later. */
static int find_members(struct registry *g, struct challenged *a,
	struct challenged *members[MEMBERS_MAX])
{
	struct registry_challenger *ch = g->challenger;
	/* starts anywhere, so that no choice of keys is always beyond JOINT_MAX */
	uint32_t first = randombytes_uniform(CHALLENGED_BUCKETS);
	int n = 0, by_second = 0, max;
	int64_t bytes = 0;

	add_member(members, &n, a);
	if (!add_twins(g, a, members, &n, &bytes))
		return 0;
	max = n + JOINT_MAX - 1;
	for (uint32_t i = 0; i < CHALLENGED_BUCKETS; i++)
		for (struct challenged *b = ch->buckets[(first + i) % CHALLENGED_BUCKETS];
			b && n < max; b = b->next) {
			int before = n;
			bool second = by_second < SECOND_MAX && same_second(a, b);

			if (!joint_is_there(b) || challenged_is_spared(g, b) ||
				bytes + b->answer_bytes > BYTES_MAX)
				continue;
			if (same_operator(a, b)) {
				add_member(members, &n, b);
			} else if (second) {
				add_member(members, &n, b);
				by_second += n - before;
			}
			bytes += n > before ? b->answer_bytes : 0;
		}
	return n;
}

/* Announces one instant to all of them, far enough ahead that each hears of it with a
 * heartbeat. */
static void announce(struct registry *g, struct challenged **members, int n)
{
	unsigned char joint[POC_HASH_BYTES];
	int64_t ahead_ms = 0;

	randombytes_buf(joint, sizeof joint);
	for (int i = 0; i < n; i++)
		if (members[i]->interval_ms > ahead_ms)
			ahead_ms = members[i]->interval_ms;
	if (ahead_ms > JOINT_AHEAD_MS)
		ahead_ms = JOINT_AHEAD_MS;
	for (int i = 0; i < n; i++) {
		memcpy(members[i]->joint_before, members[i]->joint, sizeof joint);
		memcpy(members[i]->joint, joint, sizeof joint);
		members[i]->joint_ns = clock_mono_ns() +
			(ahead_ms + JOINT_MARGIN_MS) * 1000000;
		members[i]->due_ns = challenged_due_ns(g, members[i]);
	}
}

/* Within the writer: opens those whose instant has come. A node that is there and does not fetch
 * its challenge fails it. */
static int open_joint(struct registry_put *p, struct registry_db *db)
{
	struct registry *g = p->done_ctx;
	int64_t now_ns = clock_mono_ns();

	(void)db;
	/* other requests may run in between, as each one is planned and signed under the lock */
	for (int i = 0; i < CHALLENGED_BUCKETS; i++) {
		pthread_mutex_lock(&g->challenger->lock);
		for (struct challenged *a = g->challenger->buckets[i]; a; a = a->next) {
			if (!a->joint_ns || a->joint_ns > now_ns)
				continue;
			if (!a->c && joint_is_there(a) && !challenged_is_spared(g, a))
				(void)challenged_open(g, a);
			else
				memset(a->joint, 0, sizeof a->joint);
			a->joint_ns = 0;
		}
		pthread_mutex_unlock(&g->challenger->lock);
	}
	return 0;
}

static void on_joint_open(struct registry_put *p, void *ctx)
{
	(void)p, (void)ctx;
}

void joint_open_soon(struct registry *g)
{
	struct registry_put *p = xcalloc(1, sizeof *p);

	p->what = PUT_JOB;
	p->job = open_joint;
	p->done = on_joint_open;
	p->done_ctx = g;
	registry_db_put(&g->db, p);
}

int joint_ask(struct registry *g, struct challenged *a)
{
	struct challenged *members[MEMBERS_MAX];
	int n = find_members(g, a, members);

	if (!n)
		return 0;
	if (n > 1) {
		announce(g, members, n);
	} else {
		(void)challenged_open(g,
			a); /* if it fails, the node is not challenged this time */
		a->due_ns = challenged_due_ns(g, a);
	}
	snprintf(a->challenged_record, sizeof a->challenged_record, "%s",
		a->record_sha256);
	return n;
}
