/* fuzz_httpsig.c - fuzz target: signed requests and structured fields from strangers.
 *
 * The input is "METHOD target", lines "name: value", an empty line and a body. It checks that
 * an accepted field is written in one form only; that a signature base has one line for each
 * component, whatever the message contains; and that our signature verifies, and fails once the
 * message is changed. */
#include <sodium.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/httpsig/content_digest.h"
#include "common/httpsig/httpsig.h"

#define FIELDS_MAX 32
#define NOW        1700000000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

static struct key *fuzz_key(void)
{
	static struct key k;
	static unsigned char seed[crypto_sign_SEEDBYTES] = { 1, 2, 3 };
	unsigned char public_key[KEY_PUBLIC_BYTES], secret[KEY_SECRET_BYTES];

	if (!k.secret) {
		must(sodium_init() >= 0);
		crypto_sign_seed_keypair(public_key, secret, seed);
		must(key_from_secret(&k, secret) == 0);
	}
	return &k;
}

static void check_form(const char *text, enum sf_kind kind)
{
	struct buf once = BUF_INIT, twice = BUF_INIT;
	struct sf f;

	if (sf_parse(&f, kind, text, strlen(text), "fuzz") == 0) {
		must(sf_write(&once, &f, kind) == 0);
		sf_release(&f);
		must(sf_parse(&f, kind, buf_text(&once), once.len, "fuzz") == 0);
		must(!f.repeated);
		must(sf_write(&twice, &f, kind) == 0);
		must(strcmp(buf_text(&once), buf_text(&twice)) == 0);
	} else {
		must(err_get()->code == EX_DATAERR && !f.members);
	}
	err_clear();
	sf_release(&f);
	buf_release(&once);
	buf_release(&twice);
}

static void check_digest(const char *text)
{
	struct content_digest d, again;
	struct buf out = BUF_INIT;

	if (content_digest_parse(&d, text) == 0) {
		content_digest_write(&out, &d);
		must(content_digest_parse(&again, out.data) == 0);
		must(memcmp(&d, &again, sizeof d) == 0);
	}
	err_clear();
	buf_release(&out);
}

static void check_base(const struct httpsig_message *m, const struct sf_member *covered)
{
	struct buf base = BUF_INIT;
	int lines = 0;

	if (httpsig_base(&base, m, covered) == 0) {
		for (size_t i = 0; i < base.len; i++) {
			char c = base.data[i];

			lines += c == '\n';
			must(c == '\n' || c == '\t' || (c >= 0x20 && c <= 0x7e));
		}
		must(lines == covered->nitems);
		must(base.len <= HTTPSIG_BASE_MAX + SF_TEXT_MAX);
	} else {
		must(base.len == 0);
	}
	err_clear();
	buf_release(&base);
}

/* Signs the message again with the components of a signature that it already has. */
static void check_signing(const struct httpsig_message *message, const char *components)
{
	struct httpsig_params params = { .label = "fuzz",
		.components = components,
		.created_s = NOW };
	struct httpsig_policy policy = { .label = "fuzz", .now_s = NOW, .max_age_s = 60 };
	struct buf input = BUF_INIT, signature = BUF_INIT;
	struct httpsig_field fields[FIELDS_MAX + 2];
	struct httpsig_message m = *message;
	struct httpsig_result result;

	m.body = NULL; /* its digest may be wrong */
	if (httpsig_sign(&input, &signature, &m, &params, fuzz_key()) == 0) {
		size_t n = 0;

		for (size_t i = 0; i < m.nfields; i++)
			if (strncasecmp(m.fields[i].name, "signature", 9) != 0)
				fields[n++] = m.fields[i];
		fields[n++] = (struct httpsig_field){ "signature-input",
			buf_text(&input) };
		fields[n++] = (struct httpsig_field){ "signature", buf_text(&signature) };
		m.fields = fields;
		m.nfields = n;
		/* a signature over the fields that were just replaced covers another message */
		if (!strstr(components, "\"signature")) {
			must(httpsig_verify(&m, &policy, &result) == HTTPSIG_GOOD);
			must(strcmp(result.address, fuzz_key()->address) == 0);
			signature.data[10] = signature.data[10] == 'A' ? 'B' : 'A';
			must(httpsig_verify(&m, &policy, &result) == HTTPSIG_BAD);
			must(result.reason[0] != '\0');
		}
	} else {
		must(input.len == 0 && signature.len == 0);
	}
	err_clear();
	buf_release(&input);
	buf_release(&signature);
}

static void check_inputs(const struct httpsig_message *m)
{
	struct buf value = BUF_INIT, inner = BUF_INIT;
	struct sf f = SF_INIT;

	if (httpsig_field_value(&value, m, "signature-input") > 0 &&
		sf_parse(&f, SF_DICTIONARY, buf_text(&value), value.len, "fuzz") == 0) {
		for (int i = 0; i < f.nmembers && i < 4; i++) {
			const struct sf_member *s = &f.members[i];

			check_base(m, s);
			if (!s->inner)
				continue;
			buf_reset(&inner);
			for (int j = 0; j < s->nitems; j++) {
				buf_adds(&inner, j ? " " : "");
				must(sf_write_item(&inner, &s->items[j]) == 0);
			}
			check_signing(m, buf_text(&inner));
		}
	}
	err_clear();
	sf_release(&f);
	buf_release(&value);
	buf_release(&inner);
}

/* Returns the next line of *text, or NULL at the end; the line break becomes a NUL. */
static char *next_line(char **text)
{
	char *line = *text, *end = line ? strchr(line, '\n') : NULL;

	*text = end ? end + 1 : NULL;
	if (end)
		*end = '\0';
	return line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = xstrndup((const char *)data, size), *rest = text, *line, *at;
	struct httpsig_field fields[FIELDS_MAX];
	struct httpsig_message m = { .scheme = "https",
		.authority = "Example.com:443",
		.fields = fields };
	struct httpsig_policy policy = { .now_s = NOW, .max_age_s = 1000000000 };
	struct httpsig_result result;

	line = next_line(&rest);
	at = strchr(line, ' ');
	m.method = line;
	m.target = at ? at + 1 : NULL;
	if (at)
		*at = '\0';
	while ((line = next_line(&rest)) && *line && m.nfields < FIELDS_MAX) {
		at = strstr(line, ": ");
		if (!at)
			continue;
		*at = '\0';
		fields[m.nfields++] = (struct httpsig_field){ line, at + 2 };
		for (int kind = SF_ITEM; kind <= SF_DICTIONARY; kind++)
			check_form(at + 2, kind);
		check_digest(at + 2);
	}
	m.body = rest ? rest : "";
	m.body_bytes = strlen(m.body);
	httpsig_verify(&m, &policy, &result);
	must(err_get()->code == 0);
	check_inputs(&m);
	free(text);
	return 0;
}
