/* policy.h - reward policies: found by name or path, read with limits, and what they require
 * of a node. Uses json, schema, canon, io. The terms and what they pay are rnp-reward's. */
#ifndef RNP_COMMON_RECORD_POLICY_H
#define RNP_COMMON_RECORD_POLICY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define POLICY_BYTES_MAX  ((size_t)1 << 20)
#define POLICY_SHA256_MAX 65
#define POLICY_NEEDS_MAX  64
#define POLICY_TOKEN      "RENDER"

/* The names that come with the programs, as shells offer them; a test compares them with the
 * folder. */
#define POLICY_NAMES                                                        \
	"rnp-001|rnp-004|rnp-006|rnp-019|rnp-021|rnp-021-per-node|rnp-023|" \
	"rnp-023-gateway|testnet"

struct policy {
	json_t *doc;
	const char *name;               /* borrowed from doc */
	const char *token;              /* "RENDER" unless the file says otherwise */
	char sha256[POLICY_SHA256_MAX]; /* of the canonical bytes of doc, hex */
};
#define POLICY_INIT         \
	{                   \
		.doc = NULL \
	}

/* Loads a policy. A name ("rnp-021") is searched as cmd/rnp-reward/policies/NAME.json above the
 * running program (build tree), then as ../share/rnp/policies/NAME.json beside it; a name with
 * a '/' or ending in ".json" is a path. Returns 0, or -1: 66 not found (the hint lists the
 * names), 65 malformed, naming file, path and reason. */
int policy_load(struct policy *p, const char *name_or_path);

/* Reads a policy from text in the same way; where names it in errors. */
int policy_parse(struct policy *p, const char *text, size_t len, const char *where);

void policy_release(struct policy *p);

/* One entry of "requires" or "recommends". Texts are borrowed from the policy. */
enum policy_op {
	POLICY_KNOWN,
	POLICY_MORE_THAN,
	POLICY_MIN,
	POLICY_ONE_OF,
	POLICY_IN_TABLES
};
enum policy_when { POLICY_ALWAYS, POLICY_REGISTRATION, POLICY_EPOCH };

struct policy_need {
	const char *name, *field;
	enum policy_op op;
	int64_t value;       /* MORE_THAN, MIN */
	const json_t *names; /* ONE_OF: array of texts; IN_TABLES: array of table names */
	/* factor that makes the requirement count as met in an epoch, or NULL */
	const char *override;
	enum policy_when when;
	bool unknown_passes;       /* in an epoch */
	const char *unit, *remedy; /* or NULL */
};

/* Reads the requirements of list ("requires" or "recommends"); out has POLICY_NEEDS_MAX
 * entries. Returns how many, or -1 with EX_DATAERR. */
int policy_needs(const struct policy *p, const char *list, struct policy_need *out);

/* Whether a number, or a text, meets a requirement of that type. A value of the other type
 * never does. */
bool policy_met_i64(const struct policy_need *n, int64_t value);
bool policy_met_text(const struct policy *p, const struct policy_need *n,
	const char *text);

/* Appends what a requirement asks for, as sealed records say it: "more than 100000000 bit/s"; and
 * for people: "more than 100 Mbit/s". */
struct buf;
void policy_need_text(struct buf *out, const struct policy_need *n);
void policy_need_page(struct buf *out, const struct policy_need *n);

/* Appends an amount for people, exactly: bit/s and B with a decimal prefix ("940.5 Mbit/s"), ppm
 * as percent. unit may be NULL. */
void policy_amount_text(struct buf *out, int64_t v, const char *unit);

/* Returns P = b^4 t^3 m^2 c of RNP-004, or the product of the powers that the policy's "score"
 * names, in millionths, rounded down; saturates at 10^15. readings is an object of whole numbers,
 * as in rnp.verdict. -1: a reading is missing, or the policy has no score. */
int64_t policy_score_ppm(const struct policy *p, const json_t *readings);

#endif
