/* parts.h - what the market's files share. */
#ifndef RNP_CMD_REGISTER_MARKET_PARTS_H
#define RNP_CMD_REGISTER_MARKET_PARTS_H

#include <jansson.h>
#include <stdatomic.h>

#include "cmd/rnp-register/market/market.h"
#include "cmd/rnp-register/market/tables.h"
#include "cmd/rnp-register/storage/registry.h"
#include "common/httpd/httpd.h"

struct supply; /* supply.h */
struct watch;  /* watch.h */

struct market {
	struct registry *g;
	struct rows rows; /* the writer's */
	struct supply *supply;
	struct watch *watch;
	int64_t started_ms;
	_Atomic int64_t access_seq; /* grows with each change of leases and their keys */
	struct told *told; /* change.c: what the transaction has changed, the writer's */
	_Atomic bool sweeping; /* a job of market_tick is on its way */
	int64_t sweep_ns;
	uint64_t sweeps;
	_Atomic uint64_t plans, bookings, refused, taken, events;
};

/* The subject of news for gateways. */
#define MARKET_ACCESS "access"

/* A signed record that somebody has sent. */
struct market_record {
	json_t *json;
	char signer[KEY_ADDRESS_MAX], sha256[65];
	int64_t at_ms, now_ms;
};
#define MARKET_RECORD_INIT \
	{                  \
		0          \
	}

/* Reads the body as a record of that kind: syntax, schema, the signature of its author, whom the
 * field `who` names. Returns 0, or -1 with r filled. Whether its time is
 * near ours is for market_timely, which fills r, too. */
int market_read(struct registry *g, struct httpd_request *q, struct httpd_reply *r,
	const char *kind, const char *who, struct market_record *out);

/* The same for a record in which there is another, in the field `inner`: both signatures are
 * verified at once, which takes little more than one. inner_proof is that of the other. */
struct signature_result;
int market_read_both(struct registry *g, struct httpd_request *q, struct httpd_reply *r,
	const char *kind, const char *who, const char *inner, struct market_record *out,
	struct signature_result *inner_proof);
int market_timely(struct registry *g, struct httpd_reply *r,
	const struct market_record *record);
void market_record_release(struct market_record *record);

/* Whether the record's author may say more for now; what is said is kept. Returns 0, or -1 with r
 * filled. */
int market_may_say(struct registry *g, const struct httpd_request *q,
	struct httpd_reply *r, const struct market_record *record);

/* Whether the operator trusts that address (--trust). */
bool market_trusts(const struct registry *g, const char *address);

/* Fills r with an error: {"error": the sentence, "cause": one word for programs, "try": what to
 * do}. Returns HTTPD_NOW. */
enum httpd_when market_refuse(struct registry *g, struct httpd_reply *r, int status,
	const char *cause, const char *remedy, const char *fmt, ...)
	__attribute__((format(printf, 6, 7)));

/* Returns false, with r filled, where the registry has no market. */
bool market_is_here(struct registry *g, struct httpd_reply *r);

/* Writes a record that the registry signs: adds signer, at and proof. Takes record. */
void market_sign(struct registry *g, struct buf *out, json_t *record);

/* Puts a job into the writer's queue. done gets ctx after the commit, on the writer's thread; ok:
 * it is stored. job: returns 0, or -1 with err_set and nothing of the whole transaction is. */
typedef int (*market_job_fn)(struct market *m, void *ctx);
typedef void (*market_done_fn)(struct market *m, void *ctx, bool ok);
void market_write(struct market *m, market_job_fn job, market_done_fn done, void *ctx);

/* The node has proven its devices: whatever waits for that goes on (event.c). */
void event_proven(struct market *m, const char *node);

#endif
