/* Challenges of the registry: when each node is asked, and what is open (answers:
 * registry_verdict.c). long because all of it is about one table of nodes under one lock: joint
 * challenges, roots and uploads, too.
 *
 * What is open is in the database, too, until its verdict is: after a restart it is still open,
 * and its time has run on. What became due while no registry was there to take the answer is
 * forgotten. A node is asked for all that its newest rnp.node claims (poc_plan_node), at random
 * moments, on average every config.challenge_every_ms, with the answer to its heartbeat; the
 * same challenge is repeated with each heartbeat until it is answered or too late. */
#include "cmd/rnp-register/registry_challenge.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/registry_accept.h"
#include "cmd/rnp-register/registry_query.h"
#include "cmd/rnp-register/registry_verdict.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/net/bandwidth_test.h"
#include "common/net/http_sign.h"
#include "common/net/httpd_sign.h"
#include "common/json/canon.h"
#include "common/json/json.h"
#include "common/base/mem.h"
#include "common/cli/prog.h"
#include "common/poc/poc.h"
#include "common/record/signature.h"
#include "common/json/schema.h"
#include "common/store/store.h"

#define BUCKETS   16384
#define NODES_MAX 1000000
/* Signed requests about one challenge: an exchange each way, and retries while others exchange. */
#define NONCES_MAX       64
#define SIGNED_AGE_MAX_S 60

/* A node that sent a heartbeat. */
struct asked {
	struct asked *next;
	char node[KEY_ADDRESS_MAX];
	int64_t due_ns;          /* when the next challenge is, on the monotonic clock */
	int64_t asked_ns;        /* when the open one was first handed out */
	struct poc_challenge *c; /* the open one, or NULL */
	json_t *record;
	/* of the signed requests about the open one, by their first bytes; NULL: none came */
	uint64_t *nonces;
	int nnonces;
	bool has_roots; /* of the answer to it came already */
	unsigned char roots[POC_HASH_BYTES];
	int64_t roots_ns; /* and when, since asked_ns */
	/* The instant of a joint challenge that was announced, on the monotonic clock, or 0;
	 * and what the challenges of that instant have in common. */
	int64_t joint_ns;
	unsigned char joint[POC_HASH_BYTES];
	/* Of the last heartbeat: hashes of the wallet and of the block of addresses, 0: none;
	 * when it came, and its promise. */
	uint64_t wallet, block;
	int64_t seen_ns, interval_ms;
	char asked_record[65]; /* the node record that was last asked about, or "" */
	int uploads;           /* answers that are on their way */
};

struct registry_challenger {
	pthread_mutex_t lock;
	struct asked *buckets[BUCKETS];
	int64_t nodes;
	sqlite3_stmt *insert, *remove, *claims, *facts,
		*twins; /* of the writer's connection */
	struct bandwidth_tests
		*exchanges; /* the bandwidth test of those that are asked */
};

static void close_challenge(struct asked *a)
{
	free(a->c);
	json_decref(a->record);
	free(a->nonces);
	a->c = NULL;
	a->record = NULL;
	a->nonces = NULL;
	a->nnonces = 0;
	a->has_roots = false;
}

void registry_challenger_close(struct registry *g)
{
	struct registry_challenger *ch = g->challenger;

	if (!ch)
		return;
	for (int i = 0; i < BUCKETS; i++)
		while (ch->buckets[i]) {
			struct asked *a = ch->buckets[i];

			ch->buckets[i] = a->next;
			close_challenge(a);
			free(a);
		}
	sqlite3_finalize(ch->insert);
	sqlite3_finalize(ch->remove);
	sqlite3_finalize(ch->claims);
	sqlite3_finalize(ch->facts);
	sqlite3_finalize(ch->twins);
	pthread_mutex_destroy(&ch->lock);
	bandwidth_tests_free(ch->exchanges);
	free(ch);
	g->challenger = NULL;
}

/* Nobody can tell when: evenly between now and twice the mean. */
static int64_t random_due_ns(const struct registry *g)
{
	uint64_t r, span = 2000000 * (uint64_t)g->config.challenge_every_ms + 1;

	randombytes_buf(&r, sizeof r);
	return clock_mono_ns() + (int64_t)(r % span);
}

static struct asked **place_of(struct registry_challenger *ch, const char *node)
{
	uint32_t h = 2166136261u; /* FNV-1a */
	struct asked **at;

	for (const char *c = node; *c; c++)
		h = (h ^ (unsigned char)*c) * 16777619u;
	for (at = &ch->buckets[h % BUCKETS]; *at; at = &(*at)->next)
		if (strcmp((*at)->node, node) == 0)
			break;
	return at;
}

/* The entry of a node, which is made when there is room; NULL: there is none. */
static struct asked *asked_of(struct registry *g, const char *node)
{
	struct registry_challenger *ch = g->challenger;
	struct asked **at = place_of(ch, node);

	if (!*at && ch->nodes < NODES_MAX) {
		ch->nodes++;
		*at = xcalloc(1, sizeof **at);
		snprintf((*at)->node, KEY_ADDRESS_MAX, "%s", node);
		(*at)->due_ns = random_due_ns(g);
	}
	return *at;
}

/* What the node says of itself; NULL: nothing that can be read. */
static json_t *claims_of(struct registry *g, const char *node)
{
	sqlite3_stmt *q = g->challenger->claims;
	json_t *record = NULL;

	store_bind(q, "t", node);
	if (store_step(&g->db.store, q) > 0)
		record = json_parse_object(store_text(q, 0), strlen(store_text(q, 0)),
			node);
	sqlite3_reset(q);
	if (!record)
		err_clear();
	return record;
}

static void hex_of(char out[65], const struct poc_challenge *c)
{
	sodium_bin2hex(out, 65, c->sha256, sizeof c->sha256);
}

/* Makes the challenge of a node and signs it: c and record of a. Returns 0, or -1: nothing can
 * be asked of what the node says of itself. */
static int plan_challenge(struct registry *g, struct asked *a)
{
	json_t *claims = claims_of(g, a->node);
	struct poc_challenge *c = a->c = xcalloc(1, sizeof *c);
	int rc = -1;

	memcpy(c->node, a->node, sizeof c->node);
	memcpy(c->signer, g->config.key->address, sizeof c->signer);
	randombytes_buf(c->nonce, sizeof c->nonce);
	c->issued_ms = clock_now_ms();
	c->of_joint = a->joint_ns != 0;
	memcpy(c->joint, a->joint, sizeof c->joint);
	if (!claims)
		err_set(EX_DATAERR, "its record cannot be read");
	else if (address_parse(a->node, "node", c->node_key) == 0 &&
		poc_plan_node(c, claims) == 0)
		a->record = poc_challenge_write(c);
	if (a->record)
		rc = signature_add(a->record, g->config.key, c->issued_ms / 1000 * 1000);
	json_decref(claims);
	return rc;
}

/* Returns 0, or -1: nothing is open. An error is this node's own, and everybody else's business
 * goes on. */
static int open_challenge(struct registry *g, struct asked *a)
{
	struct buf text = BUF_INIT;
	char hex[65];
	int rc = plan_challenge(g, a);

	if (rc == 0) {
		a->asked_ns = clock_mono_ns();
		hex_of(hex, a->c);
		json_write(&text, a->record);
		rc = store_run(&g->db.store, g->challenger->insert, "tt", hex,
			buf_text(&text));
		buf_release(&text);
	}
	if (rc < 0) {
		prog_warn("node %s cannot be challenged: %s", a->node, err_get()->text);
		err_clear();
		close_challenge(a);
	}
	return rc;
}

/* --- joint challenges: at one instant to all nodes that may be one device ---------------------- */

/* Addresses of the nodes that claim a device which this one claims, too. */
#define TWINS_SQL                                                                 \
	"SELECT DISTINCT m.address FROM nodes n JOIN devices d ON d.node = n.id " \
	"JOIN devices e ON e.uuid = d.uuid AND e.node <> d.node "                 \
	"JOIN nodes m ON m.id = e.node WHERE n.address = ?"

/* Nodes that are asked at one instant, at most; and how far ahead it is at most. */
#define JOINT_MAX      256
#define JOINT_AHEAD_MS 120000
/* A heartbeat's way, and the clocks' difference in speed. */
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

/* Reads what the node is now. Returns whether its record is pending and was never asked about:
 * nobody should wait for chance to prove it. */
static bool read_facts(struct registry *g, struct asked *a, const struct registry_put *p)
{
	sqlite3_stmt *q = g->challenger->facts;
	bool is_new = false;

	a->seen_ns = clock_mono_ns();
	a->interval_ms = p->beat.interval_s * 1000;
	a->block = hash_of_text(p->from);
	a->wallet = 0;
	store_bind(q, "t", a->node);
	if (store_step(&g->db.store, q) == 1) {
		a->wallet = hash_of_text(store_text(q, 2));
		is_new = sqlite3_column_type(q, 1) == SQLITE_NULL &&
			strcmp(store_text(q, 0), a->asked_record) != 0;
	} else {
		err_clear();
	}
	if (is_new)
		snprintf(a->asked_record, sizeof a->asked_record, "%s", store_text(q, 0));
	sqlite3_reset(q);
	return is_new;
}

/* A node that is there: its last heartbeat's promise is not long over. */
static bool is_there(const struct asked *a, int64_t now_ns)
{
	return a->seen_ns &&
		now_ns - a->seen_ns <= (2 * a->interval_ms + LATE_MS) * 1000000;
}

static void add_member(struct asked **members, int *n, struct asked *a, int64_t now_ns)
{
	if (!a || a->c || a->joint_ns || *n == JOINT_MAX || !is_there(a, now_ns))
		return;
	for (int i = 0; i < *n; i++)
		if (members[i] == a)
			return;
	members[(*n)++] = a;
}

/* All nodes that are asked together with a, which is the first: of one wallet, of one block of
 * addresses, or with a device in common. Returns how many. */
static int find_members(struct registry *g, struct asked *a,
	struct asked *members[JOINT_MAX])
{
	struct registry_challenger *ch = g->challenger;
	int64_t now_ns = clock_mono_ns();
	int n = 0, rc;

	add_member(members, &n, a, now_ns);
	for (int i = 0; i < BUCKETS && (a->wallet || a->block); i++)
		for (struct asked *b = ch->buckets[i]; b; b = b->next)
			if ((a->wallet && b->wallet == a->wallet) ||
				(a->block && b->block == a->block))
				add_member(members, &n, b, now_ns);
	store_bind(ch->twins, "t", a->node);
	while ((rc = store_step(&g->db.store, ch->twins)) == 1)
		add_member(members, &n, *place_of(ch, store_text(ch->twins, 0)), now_ns);
	if (rc < 0)
		err_clear();
	return n;
}

/* Announces one instant to all of them, far enough ahead that each has heard of it with a
 * heartbeat. */
static void announce(struct registry *g, struct asked **members, int n)
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
		memcpy(members[i]->joint, joint, sizeof joint);
		members[i]->joint_ns = clock_mono_ns() +
			(ahead_ms + JOINT_MARGIN_MS) * 1000000;
		members[i]->due_ns = random_due_ns(g);
	}
}

/* Within the writer: the instants that have come. Whoever does not fetch his challenge has
 * failed it. */
static int open_joint(struct registry_put *p, struct registry_db *db)
{
	struct registry *g = p->done_ctx;
	int64_t now_ns = clock_mono_ns();

	(void)db;
	pthread_mutex_lock(&g->challenger->lock);
	for (int i = 0; i < BUCKETS; i++)
		for (struct asked *a = g->challenger->buckets[i]; a; a = a->next) {
			if (!a->joint_ns || a->joint_ns > now_ns)
				continue;
			if (!a->c)
				(void)open_challenge(g, a);
			a->joint_ns = 0;
		}
	pthread_mutex_unlock(&g->challenger->lock);
	return 0;
}

static void on_joint_open(struct registry_put *p, void *ctx)
{
	(void)p, (void)ctx;
}

static void put_joint_job(struct registry *g)
{
	struct registry_put *p = xcalloc(1, sizeof *p);

	p->what = PUT_JOB;
	p->job = open_joint;
	p->done = on_joint_open;
	p->done_ctx = g;
	registry_db_put(&g->db, p);
}

/* --- the hooks of the storage ----------------------------------------------------------------- */

/* Asks a node whose time has come, now or together with others. */
static void ask(struct registry *g, struct asked *a)
{
	struct asked *members[JOINT_MAX];
	int n = find_members(g, a, members);

	if (n > 1) {
		announce(g, members, n);
	} else {
		(void)open_challenge(g, a); /* it is not asked this time */
		a->due_ns = random_due_ns(g);
	}
}

json_t *registry_challenge_for(void *ctx, const struct registry_put *p)
{
	struct registry *g = ctx;
	struct registry_challenger *ch = g->challenger;
	json_t *extra = NULL;
	struct asked *a;
	bool is_new;

	if (!ch)
		return NULL;
	pthread_mutex_lock(&ch->lock);
	a = asked_of(g, p->node);
	is_new = a && read_facts(g, a, p);
	if (a && !a->c && !a->joint_ns && (a->due_ns <= clock_mono_ns() || is_new))
		ask(g, a);
	if (a && a->record) {
		extra = json_object();
		json_set(extra, "challenge", json_deep_copy(a->record));
	} else if (a && a->joint_ns) {
		int64_t in_ns = a->joint_ns - clock_mono_ns();

		extra = json_object();
		json_set_i64(extra, "challenge_in_ms", in_ns > 0 ? in_ns / 1000000 : 0);
	}
	pthread_mutex_unlock(&ch->lock);
	return extra;
}

int registry_challenge_closed(void *ctx, const char *sha256)
{
	struct registry *g = ctx;

	return store_run(&g->db.store, g->challenger->remove, "t", sha256);
}

/* One that was open when the registry stopped. */
static void reopen(struct registry *g, const char *text)
{
	struct poc_challenge *c = xcalloc(1, sizeof *c);
	json_t *record = json_parse_object(text, strlen(text), "challenge");
	int64_t passed_ms = 0;
	struct asked *a = NULL;

	if (record && poc_challenge_read(c, record, "challenge") == 0 &&
		strcmp(c->signer, g->config.key->address) == 0) {
		passed_ms = clock_now_ms() - c->issued_ms;
		if (passed_ms >= 0 && passed_ms <= c->deadline_ms)
			a = asked_of(g, c->node);
	}
	if (a && !a->c) {
		/* its roots may have come before the registry stopped, and are not known any
		 * more */
		c->roots_ms = 0;
		a->c = c;
		a->record = record;
		a->asked_ns = clock_mono_ns() - passed_ms * 1000000;
		return;
	}
	err_clear();
	json_decref(record);
	free(c);
}

/* What is still open, and nothing else, stays in the table. */
static int reopen_all(struct registry *g)
{
	sqlite3_stmt *all = NULL;
	int rc;

	if (store_prepare(&g->db.store, &all, "SELECT body FROM challenges") < 0)
		return -1;
	while ((rc = store_step(&g->db.store, all)) > 0)
		reopen(g, store_text(all, 0));
	sqlite3_finalize(all);
	if (rc < 0 || store_begin(&g->db.store) < 0)
		return -1;
	rc = store_exec(&g->db.store, "DELETE FROM challenges");
	for (int i = 0; i < BUCKETS && rc == 0; i++)
		for (struct asked *a = g->challenger->buckets[i]; a && rc == 0;
			a = a->next) {
			struct buf text = BUF_INIT;
			char hex[65];

			hex_of(hex, a->c);
			json_write(&text, a->record);
			rc = store_run(&g->db.store, g->challenger->insert, "tt", hex,
				buf_text(&text));
			buf_release(&text);
		}
	if (rc < 0) {
		store_rollback(&g->db.store);
		return -1;
	}
	return store_commit(&g->db.store);
}

int registry_challenger_open(struct registry *g)
{
	struct registry_challenger *ch;

	if (!g->config.challenge_every_ms)
		return 0;
	ch = g->challenger = xcalloc(1, sizeof *ch);
	pthread_mutex_init(&ch->lock, NULL);
	ch->exchanges = bandwidth_tests_new();
	if (store_prepare(&g->db.store, &ch->insert,
		    "INSERT OR REPLACE INTO challenges (sha256, body) VALUES (?, ?)") <
			0 ||
		store_prepare(&g->db.store, &ch->remove,
			"DELETE FROM challenges WHERE sha256 = ?") < 0 ||
		store_prepare(&g->db.store, &ch->claims,
			"SELECT body FROM records WHERE id = "
			"(SELECT record FROM nodes WHERE address = ?)") < 0 ||
		store_prepare(&g->db.store, &ch->facts,
			"SELECT n.sha256, n.proven_ms, CASE json_valid(r.body) "
			"WHEN 1 THEN json_extract(r.body, '$.wallet') END FROM nodes n "
			"JOIN records r ON r.id = n.record WHERE n.address = ?") < 0 ||
		store_prepare(&g->db.store, &ch->twins, TWINS_SQL) < 0)
		return -1;
	return reopen_all(g);
}

/* --- verdicts ----------------------------------------------------------------------------- */

/* Whether another node claims one of this one's devices. Where that cannot be read, it does. */
static bool has_twins(struct registry *g, const char *node)
{
	struct store *s = registry_db_reader(&g->db);
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(s, &q, TWINS_SQL);

	if (rc == 0) {
		store_bind(q, "t", node);
		rc = store_step(s, q);
	}
	if (rc < 0)
		err_clear();
	sqlite3_finalize(q);
	registry_db_reader_done(&g->db, s);
	return rc != 0;
}

/* A device that several nodes claim is proven by a joint challenge alone: any other one of them
 * could have been asked while this one was not. */
static void set_disputed(struct registry *g, json_t *verdict)
{
	json_t *unknown = json_object_get(verdict, "unknown");

	if (!json_object_get(verdict, "proven") || json_object_get(verdict, "joint") ||
		!has_twins(g, json_string_value(json_object_get(verdict, "node"))))
		return;
	json_object_del(verdict, "proven");
	if (!unknown) {
		unknown = json_object();
		json_set(verdict, "unknown", unknown);
	}
	json_set_text(unknown, "proven",
		"another node claims one of these devices: a joint challenge decides");
}

void registry_store_verdict(struct registry *g, json_t *verdict, struct httpd_request *q,
	struct httpd_reply *r)
{
	const char *node_record = json_string_value(
		json_object_get(verdict, "node_record"));
	struct registry_put *p = xcalloc(1, sizeof *p);
	unsigned char sha256[CANON_HASH_BYTES];

	p->what = PUT_RECORD;
	p->received_ms = clock_now_ms();
	p->at_ms = p->received_ms;
	p->by_trusted = true;
	strcpy(p->kind, "rnp.verdict");
	set_disputed(g, verdict);
	if (json_object_get(verdict, "proven") && node_record)
		snprintf(p->proves, sizeof p->proves, "%s", node_record);
	snprintf(p->closes, sizeof p->closes, "%s",
		json_string_value(json_object_get(verdict, "challenge_sha256")));
	snprintf(p->node, sizeof p->node, "%s",
		json_string_value(json_object_get(verdict, "node")));
	memcpy(p->signer, g->config.key->address, sizeof p->signer);
	if (canon_hash_record(sha256, verdict) < 0 ||
		signature_add(verdict, g->config.key, p->at_ms / 1000 * 1000) < 0) {
		prog_error("verdict on %s: %s", p->node, err_get()->text);
		err_clear();
		httpd_error(r, 503, "the verdict cannot be written");
		httpd_finish(q);
		free(p);
		return;
	}
	sodium_bin2hex(p->sha256, sizeof p->sha256, sha256, sizeof sha256);
	buf_reset(&q->body);
	json_write(&q->body, verdict);
	p->text = buf_text(&q->body);
	registry_store(g, p, q, r);
}

int64_t registry_challenge_bandwidth(struct registry *g, const struct poc_challenge *c)
{
	struct bandwidth_test_reading reading;
	char id[65];

	hex_of(id, c);
	return bandwidth_test_take(g->challenger->exchanges, id, &reading) ?
		reading.bytes_per_s :
		0;
}

struct poc_challenge *registry_challenge_take(struct registry *g, const json_t *answer,
	struct httpd_reply *r, struct poc_conditions *j)
{
	const char *node = json_string_value(json_object_get(answer, "node"));
	unsigned char sha256[POC_HASH_BYTES];
	struct poc_challenge *c = NULL;
	struct asked *a;

	if (!node || !poc_get_hash(json_object_get(answer, "challenge_sha256"), sha256)) {
		httpd_error(r, 400, "body: names no challenge");
		return NULL;
	}
	pthread_mutex_lock(&g->challenger->lock);
	a = *place_of(g->challenger, node);
	if (a && a->c && memcmp(a->c->sha256, sha256, sizeof sha256) == 0) {
		j->elapsed_ns -= a->asked_ns;
		j->has_roots = a->has_roots;
		j->roots_ns = a->roots_ns;
		memcpy(j->roots, a->roots, sizeof j->roots);
		c = a->c;
		a->c = NULL;
		close_challenge(a);
	}
	pthread_mutex_unlock(&g->challenger->lock);
	if (!c)
		httpd_error(r, 409, "no such challenge to %s is open", node);
	return c;
}

/* The node's entry when the challenge of that hash is open for it, or NULL. Under the lock. */
static struct asked *find_open(struct registry_challenger *ch, const char *node,
	const char *id)
{
	struct asked *a = *place_of(ch, node);
	char hex[2 * POC_HASH_BYTES + 1];

	if (!a || !a->c)
		return NULL;
	sodium_bin2hex(hex, sizeof hex, a->c->sha256, sizeof a->c->sha256);
	return strcmp(hex, id) == 0 ? a : NULL;
}

/* --- roots -------------------------------------------------------------------------------- */

/* Notes the roots of an answer that will come. Only the first count. */
static void take_roots(struct registry *g, const json_t *record, struct httpd_reply *r,
	int64_t arrived_ns)
{
	const char *node = json_string_value(json_object_get(record, "node"));
	unsigned char sha256[POC_HASH_BYTES], roots[POC_HASH_BYTES];
	json_t *ack = json_record("rnp.stored");
	bool open, is_new = false;
	struct asked *a;

	open = poc_get_hash(json_object_get(record, "challenge_sha256"), sha256) &&
		poc_get_hash(json_object_get(record, "roots_sha256"), roots);
	pthread_mutex_lock(&g->challenger->lock);
	a = open ? *place_of(g->challenger, node) : NULL;
	open = a && a->c && memcmp(a->c->sha256, sha256, sizeof sha256) == 0;
	if (open && !a->has_roots) {
		is_new = a->has_roots = true;
		a->roots_ns = arrived_ns - a->asked_ns;
		memcpy(a->roots, roots, sizeof a->roots);
	}
	pthread_mutex_unlock(&g->challenger->lock);
	if (open) {
		json_set_text(ack, "of", "rnp.roots");
		json_set_text(ack, "node", node);
		json_set_time(ack, "at", clock_now_ms());
		json_set_bool(ack, "new", is_new);
		json_write(&r->body, ack);
		buf_addc(&r->body, '\n');
	} else {
		httpd_error(r, 409, "no such challenge to %s is open", node);
	}
	json_decref(ack);
}

enum httpd_when registry_post_roots(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	int64_t arrived_ns = clock_mono_ns();
	struct registry *g = ctx;
	struct signature_result signature;
	json_t *record = json_parse_object(buf_text(&q->body), q->body.len, "body");

	if (!g->challenger)
		httpd_error(r, 404, "this registry issues no challenges");
	else if (!record || schema_check(record, "body", "rnp.roots") < 0)
		httpd_error(r, 400, "%s", err_get()->text);
	else if (signature_verify(record, &signature), !signature.ok)
		httpd_error(r, 401, "%s", signature.reason);
	else
		take_roots(g, record, r, arrived_ns);
	err_clear();
	if (r->status >= 300)
		g->refused++;
	json_decref(record);
	return HTTPD_NOW;
}

/* --- answers on their way ----------------------------------------------------------------- */

/* An answer that breaks off may be sent again while the first is not given up yet. */
#define UPLOADS_MAX 2

/* What done has to undo. */
struct upload {
	char node[KEY_ADDRESS_MAX];
};

enum httpd_when registry_begin_answer(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;
	const char *node = httpd_query(q, "node"), *id = httpd_query(q, "challenge");
	struct upload *u;
	struct asked *a;
	bool busy;

	if (!g->challenger)
		return httpd_error(r, 404, "this registry issues no challenges");
	if (registry_query_known(q, r, "node challenge") < 0 ||
		registry_query_address(q, r, "node") < 0)
		return HTTPD_NOW;
	if (!node || !id)
		return httpd_error(r, 400, "which node's challenge?");
	pthread_mutex_lock(&g->challenger->lock);
	a = find_open(g->challenger, node, id);
	busy = a && a->uploads >= UPLOADS_MAX;
	if (a && !busy)
		a->uploads++;
	pthread_mutex_unlock(&g->challenger->lock);
	if (!a)
		return httpd_error(r, 409, "no such challenge to %s is open", node);
	if (busy) {
		r->retry_after_s = 1;
		return httpd_error(r, 429, "%d answers to this challenge arrive already",
			UPLOADS_MAX);
	}
	u = xcalloc(1, sizeof *u);
	snprintf(u->node, sizeof u->node, "%s", node);
	q->state = u;
	return HTTPD_GO_ON;
}

void registry_done_answer(void *ctx, struct httpd_request *q)
{
	struct registry *g = ctx;
	struct upload *u = q->state;
	struct asked *a;

	if (!u)
		return;
	q->state = NULL;
	pthread_mutex_lock(&g->challenger->lock);
	a = *place_of(g->challenger, u->node);
	if (a)
		a->uploads--;
	pthread_mutex_unlock(&g->challenger->lock);
	free(u);
}

/* --- the bandwidth test ------------------------------------------------------------------- */

static bool is_open(struct registry *g, const char *node, const char *id)
{
	bool open;

	pthread_mutex_lock(&g->challenger->lock);
	open = find_open(g->challenger, node, id) != NULL;
	pthread_mutex_unlock(&g->challenger->lock);
	return open;
}

/* What a signed request is about. */
struct signed_read {
	struct registry *g;
	const char *node, *id;
};

static bool find_node_key(void *ctx, const char *keyid,
	unsigned char public_key[KEY_PUBLIC_BYTES])
{
	const struct signed_read *s = ctx;

	return strcmp(keyid, s->node) == 0 &&
		address_parse(keyid, "keyid", public_key) == 0;
}

/* A request that somebody has overheard is not answered a second time. */
static bool nonce_seen(void *ctx, const char *address, const char *nonce, int64_t until_s)
{
	const struct signed_read *s = ctx;
	unsigned char hash[crypto_hash_sha256_BYTES];
	bool seen = true;
	struct asked *a;
	uint64_t first;

	(void)until_s; /* the challenge is closed before */
	crypto_hash_sha256(hash, (const unsigned char *)nonce, strlen(nonce));
	memcpy(&first, hash, sizeof first);
	pthread_mutex_lock(&s->g->challenger->lock);
	a = find_open(s->g->challenger, address, s->id);
	if (a && a->nnonces < NONCES_MAX) {
		seen = false;
		for (int i = 0; i < a->nnonces; i++)
			seen = seen || a->nonces[i] == first;
		if (!a->nonces)
			a->nonces = xcalloc(NONCES_MAX, sizeof *a->nonces);
		if (!seen)
			a->nonces[a->nnonces++] = first;
	}
	pthread_mutex_unlock(&s->g->challenger->lock);
	return seen;
}

/* Only the node itself may exchange for its challenge. False: r is filled. */
static bool is_signed(struct registry *g, struct httpd_request *q, struct httpd_reply *r,
	const char *node)
{
	struct signed_read s = { g, node, q->arg };
	struct httpsig_policy policy = { .required = HTTP_SIGN_COMPONENTS,
		.tag = HTTP_SIGN_TAG,
		.now_s = clock_now_ms() / 1000,
		.max_age_s = SIGNED_AGE_MAX_S,
		.skew_s = REGISTRY_SKEW_MS / 1000,
		.nonce_required = true,
		.nonce_seen = nonce_seen,
		.find_key = find_node_key,
		.ctx = &s };
	struct httpsig_result result;
	char text[400];

	if (httpd_verify(q, false, &policy, &result) == HTTPSIG_GOOD)
		return true;
	snprintf(text, sizeof text,
		"only node %s may ask this, by requests that its key signed (RFC 9421): %s",
		node, result.reason);
	httpd_ask_signature(r, text);
	return false;
}

/* Only who has a challenge to answer may use the registry's line. False: r is filled. */
static bool may_exchange(struct registry *g, struct httpd_request *q,
	struct httpd_reply *r, const char *fields)
{
	const char *node = httpd_query(q, "node");

	if (!g->challenger)
		httpd_error(r, 404, "this registry issues no challenges");
	else if (registry_query_known(q, r, fields) < 0 ||
		registry_query_address(q, r, "node") < 0)
		return false;
	else if (!node || !q->arg)
		httpd_error(r, 400, "which node's challenge?");
	else if (!is_open(g, node, q->arg))
		httpd_error(r, 409, "no such challenge to %s is open", node);
	else
		return is_signed(g, q, r, node);
	return false;
}

enum httpd_when registry_get_bandwidth_test(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;

	return may_exchange(g, q, r, "node bytes") ?
		bandwidth_test_get(g->challenger->exchanges, q, r) :
		HTTPD_NOW;
}

enum httpd_when registry_begin_bandwidth_test(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	return may_exchange(ctx, q, r, "node token") ? HTTPD_GO_ON : HTTPD_NOW;
}

enum httpd_when registry_post_bandwidth_test(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;
	struct bandwidth_test_reading reading;

	return bandwidth_test_post(g->challenger->exchanges, q, r, &reading);
}

/* A request that nobody waits for. */
struct unasked {
	struct httpd_request q; /* first: httpd_finish gets its address */
	struct httpd_reply r;
};

static void unasked_free(struct httpd_request *q)
{
	struct unasked *u = (struct unasked *)q;

	buf_release(&u->q.body);
	buf_release(&u->r.body);
	free(u);
}

/* Who did not answer in time has failed. */
static void fail_unanswered(struct registry *g, const struct poc_challenge *c,
	int64_t elapsed_ns, const char *reason)
{
	struct poc_conditions j = { .received_ms = clock_now_ms(),
		.elapsed_ns = elapsed_ns };
	json_t *nothing = json_object(), *check = json_object(), *checks = json_array();
	struct unasked *u = xcalloc(1, sizeof *u);
	bool passed;
	json_t *verdict = poc_verify(c, nothing, &j, &passed);

	json_set_text(check, "check", "answer");
	json_set_bool(check, "passed", false);
	json_set_text(check, "reason", reason);
	json_push(checks, check);
	json_set(verdict, "checks", checks);
	u->r.status = 200;
	u->q.finish = unasked_free;
	registry_store_verdict(g, verdict, &u->q, &u->r);
	json_decref(verdict);
	json_decref(nothing);
}

/* Why the node of an open challenge has failed by now, or NULL. now_ns: as
 * registry_verdicts_now_ns; who answered in time and waits to be verified is not late. */
static const char *why_failed(const struct asked *a, int64_t now_ns)
{
	int64_t now_ms = (now_ns - a->asked_ns) / 1000000;

	if (now_ms > a->c->deadline_ms)
		return "no answer came within the deadline";
	if (a->c->roots_ms && !a->has_roots && now_ms > a->c->roots_ms)
		return "no answer came: its roots were due before";
	return NULL;
}

void registry_challenges_tick(struct registry *g)
{
	struct registry_challenger *ch = g->challenger;
	int64_t now_ns = registry_verdicts_now_ns(g), mono_ns = clock_mono_ns();
	bool joint = false;

	for (int i = 0; i < BUCKETS; i++) {
		pthread_mutex_lock(&ch->lock);
		for (struct asked *a = ch->buckets[i]; a; a = a->next) {
			const char *why = a->c ? why_failed(a, now_ns) : NULL;

			joint = joint || (a->joint_ns && a->joint_ns <= mono_ns);
			if (!why)
				continue;
			fail_unanswered(g, a->c, now_ns - a->asked_ns, why);
			close_challenge(a);
		}
		pthread_mutex_unlock(&ch->lock);
	}
	if (joint)
		put_joint_job(g);
}
