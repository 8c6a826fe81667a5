/* table.c - the table of nodes that the registry challenges: entries, and the open challenge of
 * each. */
#include "cmd/rnp-register/challenges/table.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/fnv.h"
#include "common/base/index.h"
#include "common/base/mem.h"
#include "common/json/json.h"

void challenged_close(struct registry_challenger *ch, struct challenged *a)
{
	if (a->c && a->record)
		ch->open_bytes -= poc_plan_answer_bytes(a->c);
	free(a->c);
	json_decref(a->record);
	a->c = NULL;
	a->record = NULL;
	a->signed_reads = 0;
	a->has_roots = false;
}

#define FAILED_FREE 3
#define FAILED_MAX  9

int64_t challenged_due_ns(const struct registry *g, const struct challenged *a)
{
	int failed = a->failed < FAILED_MAX ? a->failed : FAILED_MAX;
	uint64_t r, span = 2000000 * (uint64_t)g->config.challenge_every_ms + 1;

	span <<= failed > FAILED_FREE ? failed - FAILED_FREE : 0;
	randombytes_buf(&r, sizeof r);
	return clock_mono_ns() + (int64_t)(r % span);
}

bool challenged_at_once(const struct challenged *a)
{
	return a->failed < FAILED_FREE;
}

bool challenged_is_spared(struct registry *g, const struct challenged *a)
{
	return g->spared && g->spared(g, a->node);
}

struct challenged **challenged_place(struct registry_challenger *ch, const char *node)
{
	struct challenged **at;

	for (at = &ch->buckets[fnv1a_text(hash_seed(), node) % CHALLENGED_BUCKETS]; *at;
		at = &(*at)->next)
		if (strcmp((*at)->node, node) == 0)
			break;
	return at;
}

struct challenged *challenged_get(struct registry *g, const char *node)
{
	struct registry_challenger *ch = g->challenger;
	struct challenged **at = challenged_place(ch, node);

	if (!*at && ch->nodes < CHALLENGED_NODES_MAX) {
		ch->nodes++;
		*at = xcalloc(1, sizeof **at);
		snprintf((*at)->node, KEY_ADDRESS_MAX, "%s", node);
		(*at)->due_ns = challenged_due_ns(g, *at);
	}
	return *at;
}

void challenged_hex(char out[65], const struct poc_challenge *c)
{
	sodium_bin2hex(out, 65, c->sha256, sizeof c->sha256);
}

void challenged_describe(const struct challenged *a, json_t *reply)
{
	bool roots = a->c->roots_ms && !a->has_roots;
	int64_t passed_ms = (clock_mono_ns() - a->delivered_ns) / 1000000;
	int64_t left_ms = (roots ? a->c->roots_ms : a->c->deadline_ms) - passed_ms;
	char hex[65];

	challenged_hex(hex, a->c);
	json_set_text(reply, "challenge_sha256", hex);
	json_set_text(reply, "phase", roots ? "roots" : "openings");
	json_set_i64(reply, "due_in_ms", left_ms > 0 ? left_ms : 0);
}

struct challenged *challenged_find_open(struct registry_challenger *ch, const char *node,
	const char *id)
{
	struct challenged *a = *challenged_place(ch, node);
	char hex[2 * POC_HASH_BYTES + 1];

	if (!a || !a->c)
		return NULL;
	sodium_bin2hex(hex, sizeof hex, a->c->sha256, sizeof a->c->sha256);
	return strcmp(hex, id) == 0 ? a : NULL;
}

struct poc_challenge *registry_challenge_take(struct registry *g, const json_t *answer,
	struct httpd_reply *r, struct poc_conditions *j)
{
	const char *node = json_string_value(json_object_get(answer, "node"));
	unsigned char sha256[POC_HASH_BYTES];
	struct poc_challenge *c = NULL;
	struct challenged *a;

	if (!node || !poc_get_hash(json_object_get(answer, "challenge_sha256"), sha256)) {
		httpd_error(r, 400, "body: names no challenge");
		return NULL;
	}
	pthread_mutex_lock(&g->challenger->lock);
	a = *challenged_place(g->challenger, node);
	if (a && a->c && memcmp(a->c->sha256, sha256, sizeof sha256) == 0) {
		a->answered_ns = j->elapsed_ns;
		j->elapsed_ns -= a->delivered_ns;
		j->has_roots = a->has_roots;
		j->roots_ns = a->roots_ns;
		memcpy(j->roots, a->roots, sizeof j->roots);
		c = a->c;
		a->c = NULL;
		challenged_close(g->challenger, a);
	}
	pthread_mutex_unlock(&g->challenger->lock);
	if (!c)
		registry_challenge_none(r, node);
	return c;
}

enum httpd_when registry_challenge_none(struct httpd_reply *r, const char *node)
{
	return httpd_error(r, 409,
		"no such challenge to %s is open: it was answered, or its time was over",
		node);
}

void registry_challenge_verified(struct registry *g, const struct poc_challenge *c,
	bool passed, bool proven)
{
	struct challenged *a;

	pthread_mutex_lock(&g->challenger->lock);
	g->challenger->open_bytes -= poc_plan_answer_bytes(c);
	a = *challenged_place(g->challenger, c->node);
	if (a && proven)
		a->proven_ms = clock_now_ms();
	if (a && passed)
		a->failed = 0;
	else if (a && ++a->failed > FAILED_FREE)
		a->due_ns = challenged_due_ns(g, a);
	pthread_mutex_unlock(&g->challenger->lock);
}
