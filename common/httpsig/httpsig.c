/* httpsig.c - signs a message, and looks for a signature that a policy accepts (RFC 9421,
 * section 3). */
#include "common/httpsig/httpsig.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "common/base/err.h"
#include "common/httpsig/content_digest.h"

#define NONCE_MAX 256

/* --- signing ------------------------------------------------------------------------------- */

static int add_text_param(struct buf *out, const char *key, const char *text)
{
	struct sf_item item = { .value = { .type = SF_STRING, .text = text } };

	if (!text)
		return 0;
	item.value.len = strlen(text);
	buf_addf(out, ";%s=", key);
	return sf_write_item(out, &item);
}

/* Appends the value of Signature-Input for these parameters, without the label. */
static int write_input(struct buf *out, const struct httpsig_params *params,
	const struct key *key)
{
	buf_addf(out, "(%s);created=%lld", params->components,
		(long long)params->created_s);
	if (params->expires_s)
		buf_addf(out, ";expires=%lld", (long long)params->expires_s);
	if (add_text_param(out, "nonce", params->nonce) < 0 ||
		add_text_param(out, "keyid",
			params->keyid ? params->keyid : key->address) < 0)
		return -1;
	return add_text_param(out, "tag", params->tag);
}

/* Appends a member to a dictionary's value. */
static int add_member(struct buf *out, const char *label, const struct sf_member *m)
{
	struct buf text = BUF_INIT;
	int rc = sf_write_member(&text, m);

	if (rc == 0)
		buf_addf(out, "%s%s=%s", out->len ? ", " : "", label, buf_text(&text));
	buf_release(&text);
	return rc;
}

static int sign_base(struct buf *input, struct buf *signature,
	const struct httpsig_message *m, const char *label,
	const struct sf_member *member, const struct key *key)
{
	unsigned char bytes[KEY_SIGNATURE_BYTES];
	struct sf_item item = { .value = { .type = SF_BYTES,
					.text = (const char *)bytes,
					.len = sizeof bytes } };
	struct sf_member value = { .items = &item, .nitems = 1 };
	struct buf base = BUF_INIT;
	int rc = httpsig_base(&base, m, member);

	if (rc == 0) {
		crypto_sign_detached(bytes, NULL, (const unsigned char *)base.data,
			base.len, key->secret);
		rc = add_member(input, label, member);
	}
	if (rc == 0)
		rc = add_member(signature, label, &value);
	buf_release(&base);
	return rc;
}

int httpsig_sign(struct buf *input, struct buf *signature,
	const struct httpsig_message *m, const struct httpsig_params *params,
	const struct key *key)
{
	struct buf text = BUF_INIT;
	struct sf f = SF_INIT;
	/* reads the written value again, so that signer and verifier see the same */
	int rc = write_input(&text, params, key);

	if (rc == 0)
		rc = sf_parse(&f, SF_LIST, text.data, text.len, "components to sign");
	if (rc == 0 && (f.nmembers != 1 || f.repeated))
		rc = err_set(EX_DATAERR, "the components to sign are not one list");
	if (rc == 0)
		rc = sign_base(input, signature, m, params->label, &f.members[0], key);
	sf_release(&f);
	buf_release(&text);
	return rc;
}

/* --- verifying ----------------------------------------------------------------------------- */

/* The parameters of one signature; texts are borrowed. */
struct claims {
	bool has_created, has_expires;
	int64_t created_s, expires_s;
	const char *nonce, *alg, *keyid, *tag;
};

static int no(const char *why)
{
	return err_set(EX_DATAERR, "%s", why);
}

static int read_claims(struct claims *c, const struct sf_member *m)
{
	*c = (struct claims){ .nonce = NULL };
	for (int i = 0; i < m->nparams; i++) {
		const struct sf_value *v = &m->params[i].value;
		const char *key = m->params[i].key;
		bool number = strcmp(key, "created") == 0 || strcmp(key, "expires") == 0;
		const char **text = strcmp(key, "nonce") == 0 ? &c->nonce :
			strcmp(key, "alg") == 0               ? &c->alg :
			strcmp(key, "keyid") == 0             ? &c->keyid :
			strcmp(key, "tag") == 0               ? &c->tag :
								NULL;

		if ((number && v->type != SF_INTEGER) || (text && v->type != SF_STRING))
			return err_set(EX_DATAERR, "%s has the wrong type", key);
		if (text)
			*text = v->text;
		else if (number && *key == 'c')
			c->has_created = true, c->created_s = v->number;
		else if (number)
			c->has_expires = true, c->expires_s = v->number;
	}
	return 0;
}

static int check_times(const struct claims *c, const struct httpsig_policy *p)
{
	if (!c->has_created)
		return no("the time of its creation is missing");
	if (c->created_s > p->now_s + p->skew_s)
		return no("it was created in the future");
	if (c->created_s < p->now_s - p->max_age_s - p->skew_s)
		return no("it is too old");
	if (c->has_expires && c->expires_s < p->now_s - p->skew_s)
		return no("it has expired");
	return 0;
}

static bool covers(const struct sf_member *m, const struct sf_item *id)
{
	for (int i = 0; i < m->nitems; i++)
		if (httpsig_same_component(&m->items[i], id))
			return true;
	return false;
}

static int check_required(const struct sf_member *m, const char *required)
{
	struct buf text = BUF_INIT;
	struct sf want;
	int rc = 0;

	if (!required)
		return 0;
	buf_addf(&text, "(%s)", required);
	if (sf_parse(&want, SF_LIST, text.data, text.len, "required") < 0 ||
		want.nmembers != 1)
		bug("required components '%s'", required);
	for (int i = 0; rc == 0 && i < want.members[0].nitems; i++)
		if (!covers(m, &want.members[0].items[i]))
			rc = err_set(EX_DATAERR, "it does not cover \"%s\"",
				want.members[0].items[i].value.text);
	sf_release(&want);
	buf_release(&text);
	return rc;
}

static bool find_key(const struct httpsig_policy *p, const char *keyid,
	unsigned char public_key[KEY_PUBLIC_BYTES])
{
	if (p->find_key)
		return p->find_key(p->ctx, keyid, public_key);
	if (strncmp(keyid, KEY_DID_PREFIX, strlen(KEY_DID_PREFIX)) == 0)
		return key_parse_did(keyid, "keyid", public_key) == 0;
	return address_parse(keyid, "keyid", public_key) == 0;
}

static int check_claims(const struct claims *c, const struct httpsig_policy *p,
	unsigned char public_key[KEY_PUBLIC_BYTES])
{
	if (c->alg && strcmp(c->alg, "ed25519") != 0)
		return no("its algorithm is not ed25519");
	if (check_times(c, p) < 0)
		return -1;
	if (p->nonce_required && !c->nonce)
		return no("the nonce is missing");
	if (c->nonce && (!*c->nonce || strlen(c->nonce) > NONCE_MAX))
		return no("the nonce is empty or too long");
	if (!c->keyid || !find_key(p, c->keyid, public_key))
		return no("keyid names no key that is known here");
	return 0;
}

static int check_signature(const struct httpsig_message *m, const struct sf_member *input,
	const struct sf_member *signature, struct httpsig_result *out)
{
	const struct sf_value *v = signature ? &signature->items[0].value : NULL;
	struct buf base = BUF_INIT;
	int rc;

	if (!v || signature->inner || v->type != SF_BYTES ||
		v->len != KEY_SIGNATURE_BYTES)
		return no("the field Signature has no 64 bytes for it");
	rc = httpsig_base(&base, m, input);
	if (rc == 0 &&
		crypto_sign_verify_detached((const unsigned char *)v->text,
			(const unsigned char *)base.data, base.len,
			out->public_key) != 0) {
		out->mismatched = true;
		rc = no("it is not by that key, or the message was changed");
	}
	buf_release(&base);
	return rc;
}

/* Whether the components include the Content-Digest of this message itself, not of its request. */
static bool covers_digest(const struct sf_member *m)
{
	for (int i = 0; i < m->nitems; i++)
		if (strcmp(m->items[i].value.text, "content-digest") == 0 &&
			!sf_param(m->items[i].params, m->items[i].nparams, "req"))
			return true;
	return false;
}

static int check_digest(const struct httpsig_message *m, const struct sf_member *input)
{
	struct content_digest d;
	struct buf value = BUF_INIT;
	int rc = 0;

	if (!m->body || !covers_digest(input))
		return 0;
	if (httpsig_field_value(&value, m, "content-digest") <= 0 ||
		content_digest_parse(&d, buf_text(&value)) < 0)
		rc = no("the field Content-Digest is malformed");
	else if (!content_digest_fits(&d, m->body, m->body_bytes))
		rc = no("Content-Digest is not that of the body");
	buf_release(&value);
	return rc;
}

/* Verifies one signature. Returns 0, or -1 with the reason as the pending error. */
static int verify_one(const struct httpsig_message *m, const struct sf_member *input,
	const struct sf_member *signature, const struct httpsig_policy *p,
	struct httpsig_result *out)
{
	struct claims c;

	if (!input->inner)
		return no("its components are not a list");
	if (read_claims(&c, input) < 0 || check_claims(&c, p, out->public_key) < 0 ||
		check_required(input, p->required) < 0 ||
		check_signature(m, input, signature, out) < 0 ||
		check_digest(m, input) < 0)
		return -1;
	address_format(out->public_key, out->address);
	out->created_s = c.created_s;
	if (c.nonce && p->nonce_seen &&
		p->nonce_seen(p->ctx, out->address, c.nonce,
			c.created_s + p->max_age_s + p->skew_s))
		return no("its nonce was used before");
	return 0;
}

static bool is_candidate(const struct sf_member *input, const struct httpsig_policy *p)
{
	const struct sf_value *tag = sf_param(input->params, input->nparams, "tag");

	if (p->label && strcmp(input->key, p->label) != 0)
		return false;
	return !p->tag ||
		(tag && tag->type == SF_STRING && strcmp(tag->text, p->tag) == 0);
}

static void reject(struct httpsig_result *out, const char *label)
{
	*out = (struct httpsig_result){ .created_s = 0 };
	snprintf(out->reason, sizeof out->reason, "%s%.40s%s%.180s",
		label ? "signature '" : "", label ? label : "", label ? "': " : "",
		err_get()->text);
	err_clear();
}

static enum httpsig_outcome verify_all(const struct httpsig_message *m,
	const struct sf *inputs, const struct sf *signatures,
	const struct httpsig_policy *p, struct httpsig_result *out)
{
	struct httpsig_result one;
	bool tried = false;

	if (inputs->repeated || signatures->repeated ||
		inputs->nmembers > HTTPSIG_SIGNATURES_MAX) {
		no("a label or parameter is there twice, or there are too many signatures");
		reject(out, NULL);
		return HTTPSIG_BAD;
	}
	for (int i = 0; i < inputs->nmembers; i++) {
		const struct sf_member *input = &inputs->members[i];

		if (!is_candidate(input, p))
			continue;
		one = (struct httpsig_result){ .created_s = 0 };
		if (verify_one(m, input, sf_find(signatures, input->key), p, &one) == 0) {
			snprintf(one.label, sizeof one.label, "%s", input->key);
			*out = one;
			return HTTPSIG_GOOD;
		}
		if (!tried) {
			reject(out, input->key);
			out->mismatched = one.mismatched;
		}
		tried = true;
	}
	err_clear();
	if (!tried) {
		no("no signature has the label or tag that is asked for");
		reject(out, NULL);
	}
	return HTTPSIG_BAD;
}

enum httpsig_outcome httpsig_verify(const struct httpsig_message *m,
	const struct httpsig_policy *policy, struct httpsig_result *out)
{
	struct buf input_text = BUF_INIT, signature_text = BUF_INIT;
	struct sf inputs = SF_INIT, signatures = SF_INIT;
	int has_input = httpsig_field_value(&input_text, m, "signature-input");
	int has_signature = httpsig_field_value(&signature_text, m, "signature");
	enum httpsig_outcome outcome = HTTPSIG_BAD;

	*out = (struct httpsig_result){ .created_s = 0 };
	if (!has_input && !has_signature) {
		snprintf(out->reason, sizeof out->reason, "the message is not signed");
		outcome = HTTPSIG_ABSENT;
	} else if (has_input < 0 || has_signature < 0 ||
		sf_parse(&inputs, SF_DICTIONARY, buf_text(&input_text), input_text.len,
			"Signature-Input") < 0 ||
		sf_parse(&signatures, SF_DICTIONARY, buf_text(&signature_text),
			signature_text.len, "Signature") < 0) {
		reject(out, NULL);
	} else {
		outcome = verify_all(m, &inputs, &signatures, policy, out);
	}
	err_clear();
	sf_release(&inputs);
	sf_release(&signatures);
	buf_release(&input_text);
	buf_release(&signature_text);
	return outcome;
}
