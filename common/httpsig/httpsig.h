/* httpsig.h - HTTP Message Signatures (RFC 9421) with Ed25519 keys.
 *
 * Pure: values in, values out; time, nonces and keys come from the caller. Uses sf,
 * content_digest, key, buf, err, libsodium. */
#ifndef RNP_COMMON_HTTPSIG_HTTPSIG_H
#define RNP_COMMON_HTTPSIG_HTTPSIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/httpsig/sf.h"
#include "common/record/key.h"

#define HTTPSIG_COMPONENTS_MAX 64 /* of one signature */
#define HTTPSIG_SIGNATURES_MAX 8  /* of one message */
#define HTTPSIG_BASE_MAX       ((size_t)256 << 10)
#define HTTPSIG_LABEL_MAX      64

struct httpsig_field {
	const char *name, *value; /* the name in any case */
};

/* A structured field that the application defines, for the parameter `sf`. Those that RFCs
 * define for signatures, digests, caches, proxies and client certificates are known already. */
struct httpsig_type {
	const char *name; /* in lower case */
	enum sf_kind kind;
};

/* A request, or a response when status is not 0. A NULL part is unknown, and a signature that
 * covers it cannot be made or verified. */
struct httpsig_message {
	int status;
	const char *method;
	const char *scheme;    /* "http" or "https" */
	const char *authority; /* as in Host: "example.com:8080" */
	const char *target;    /* as in the request line: "/v1/nodes?limit=5" */
	const struct httpsig_field *fields;
	size_t nfields;
	/* compared with a Content-Digest that is covered; "" when empty */
	const void *body;
	size_t body_bytes;
	/* of a response, for the parameter `req` */
	const struct httpsig_message *request;
	const struct httpsig_type *types; /* ends with a NULL name; may be NULL */
};

/* Appends the signature base (section 2.5): a line for each covered component and the line of
 * "@signature-params". covered is a member of Signature-Input. Supports the derived components
 * of section 2.2 and fields with `sf`, `bs`, `key` and `req`, but not trailers (`tr`). Returns
 * 0, or -1 with EX_DATAERR and out as before: a component is unknown, missing, named twice or
 * cannot be written on one line. */
int httpsig_base(struct buf *out, const struct httpsig_message *m,
	const struct sf_member *covered);

struct httpsig_params {
	const char *label; /* of this signature within the message: "sig1" */
	/* "\"@method\" \"@query-param\";name=\"id\"", may be "" */
	const char *components;
	int64_t created_s, expires_s; /* since 1970; expires_s 0: none */
	const char *nonce, *tag;      /* NULL: none */
	const char *keyid;            /* NULL: the key's address */
};

/* Signs m and appends a member to the values of Signature-Input and Signature, after a comma if
 * they are not empty. Returns 0, or -1 as httpsig_base with both as before. */
int httpsig_sign(struct buf *input, struct buf *signature,
	const struct httpsig_message *m, const struct httpsig_params *params,
	const struct key *key);

/* A verifier's requirements besides a valid signature. */
struct httpsig_policy {
	/* components that the signature has to cover, as in httpsig_params; NULL: none */
	const char *required;
	const char *label, *tag; /* which of the message's signatures; NULL: any */
	int64_t now_s;
	int64_t max_age_s;   /* since `created`, which must be present */
	int64_t skew_s;      /* how far clocks may be apart, both ways */
	bool nonce_required; /* set it wherever nonce_seen is set */
	/* Called last, for a signature that is valid otherwise: whether this key has used the
	 * nonce before. The nonce must be remembered until until_s. NULL: not checked. */
	bool (*nonce_seen)(void *ctx, const char *address, const char *nonce,
		int64_t until_s);
	/* Gives the public key of a keyid; returns false when it is unknown. NULL: the keyid is
	 * an address or a did:key. */
	bool (*find_key)(void *ctx, const char *keyid,
		unsigned char public_key[KEY_PUBLIC_BYTES]);
	void *ctx;
};

enum httpsig_outcome { HTTPSIG_GOOD, HTTPSIG_ABSENT, HTTPSIG_BAD };

struct httpsig_result {
	char label[HTTPSIG_LABEL_MAX + 1];
	unsigned char public_key[KEY_PUBLIC_BYTES];
	char address[KEY_ADDRESS_MAX];
	int64_t created_s;
	/* refused as it does not fit these bytes: by another key, or changed on the way */
	bool mismatched;
	char reason[256]; /* one line, why it was refused; "" when it is valid */
};

/* Looks for a signature that the policy accepts, in the order of Signature-Input. An algorithm,
 * where one is given, must be ed25519. A covered Content-Digest must be the body's.
 * HTTPSIG_ABSENT: the message has no signature at all. Never fails otherwise; sets no error. */
enum httpsig_outcome httpsig_verify(const struct httpsig_message *m,
	const struct httpsig_policy *policy, struct httpsig_result *out);

/* Appends the value of a field: its lines joined with ", ", stripped and unfolded. Returns 1, 0
 * when the message has none, or -1 with EX_DATAERR: it has a byte that is not text. */
int httpsig_field_value(struct buf *out, const struct httpsig_message *m,
	const char *name);

/* Whether two component identifiers are the same, whatever the order of their parameters. */
bool httpsig_same_component(const struct sf_item *a, const struct sf_item *b);

#endif
