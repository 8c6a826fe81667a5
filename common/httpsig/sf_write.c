/* sf_write.c - writes structured fields: the one form that each value has (RFC 9651, section
 * 4.1). */
#include <sodium.h>

#include "common/base/err.h"
#include "common/base/utf8.h"
#include "common/httpsig/sf.h"
#include "common/httpsig/sf_parts.h"

static int cannot_write(const char *what)
{
	return err_set(EX_DATAERR, "%s cannot be written in a structured field", what);
}

static int write_string(struct buf *out, const struct sf_value *v)
{
	buf_addc(out, '"');
	for (size_t i = 0; i < v->len; i++) {
		if (v->text[i] < 0x20 || v->text[i] > 0x7e)
			return cannot_write("a string of other than printable ASCII");
		if (v->text[i] == '"' || v->text[i] == '\\')
			buf_addc(out, '\\');
		buf_addc(out, v->text[i]);
	}
	buf_addc(out, '"');
	return 0;
}

static int write_display(struct buf *out, const struct sf_value *v)
{
	if (!utf8_valid(v->text, v->len))
		return cannot_write("a display string that is not UTF-8");
	buf_adds(out, "%\"");
	for (size_t i = 0; i < v->len; i++) {
		char c = v->text[i];

		if (c == '%' || c == '"' || c < 0x20 || c > 0x7e)
			buf_addf(out, "%%%02x", (unsigned char)c);
		else
			buf_addc(out, c);
	}
	buf_addc(out, '"');
	return 0;
}

static int write_token(struct buf *out, const struct sf_value *v)
{
	bool ok = v->len && (sf_is_alpha(v->text[0]) || v->text[0] == '*');

	for (size_t i = 1; ok && i < v->len; i++)
		ok = sf_is_token_char(v->text[i]);
	if (!ok)
		return cannot_write("a token of other characters");
	buf_add(out, v->text, v->len);
	return 0;
}

static void write_bytes(struct buf *out, const struct sf_value *v)
{
	size_t max = sodium_base64_ENCODED_LEN(v->len, sodium_base64_VARIANT_ORIGINAL);

	buf_addc(out, ':');
	sodium_bin2base64(buf_reserve(out, max), max, (const unsigned char *)v->text,
		v->len, sodium_base64_VARIANT_ORIGINAL);
	out->len += max - 1;
	buf_addc(out, ':');
}

static int write_decimal(struct buf *out, int64_t thousandths)
{
	int64_t whole = thousandths / 1000, part = thousandths % 1000;

	if (thousandths > SF_INTEGER_MAX || thousandths < -SF_INTEGER_MAX)
		return cannot_write("a number of that size");
	if (part < 0)
		part = -part;
	buf_addf(out, "%s%lld.%03d", thousandths < 0 && !whole ? "-" : "",
		(long long)whole, (int)part);
	while (out->data[out->len - 1] == '0' && out->data[out->len - 2] != '.')
		out->data[--out->len] = '\0';
	return 0;
}

static int write_value(struct buf *out, const struct sf_value *v)
{
	switch (v->type) {
	case SF_DECIMAL:
		return write_decimal(out, v->number);
	case SF_STRING:
		return write_string(out, v);
	case SF_TOKEN:
		return write_token(out, v);
	case SF_DISPLAY:
		return write_display(out, v);
	case SF_BYTES:
		write_bytes(out, v);
		return 0;
	case SF_BOOLEAN:
		buf_adds(out, v->number ? "?1" : "?0");
		return 0;
	case SF_DATE:
		buf_addc(out, '@');
		/* fall through */
	case SF_INTEGER:
		break;
	}
	if (v->number > SF_INTEGER_MAX || v->number < -SF_INTEGER_MAX)
		return cannot_write("a number of that size");
	buf_add_i64(out, v->number);
	return 0;
}

static int write_key(struct buf *out, const char *key)
{
	bool ok = sf_is_lower(key[0]) || key[0] == '*';

	for (size_t i = 0; ok && key[i]; i++)
		ok = sf_is_key_char(key[i]);
	if (!ok)
		return cannot_write("a key of other characters");
	buf_adds(out, key);
	return 0;
}

static int write_params(struct buf *out, const struct sf_param *params, int n)
{
	for (int i = 0; i < n; i++) {
		const struct sf_value *v = &params[i].value;

		buf_addc(out, ';');
		if (write_key(out, params[i].key) < 0)
			return -1;
		if (v->type == SF_BOOLEAN && v->number)
			continue;
		buf_addc(out, '=');
		if (write_value(out, v) < 0)
			return -1;
	}
	return 0;
}

static int write_item(struct buf *out, const struct sf_item *item)
{
	if (write_value(out, &item->value) < 0)
		return -1;
	return write_params(out, item->params, item->nparams);
}

static int write_member(struct buf *out, const struct sf_member *m)
{
	if (!m->inner)
		return write_item(out, &m->items[0]);
	buf_addc(out, '(');
	for (int i = 0; i < m->nitems; i++) {
		if (i)
			buf_addc(out, ' ');
		if (write_item(out, &m->items[i]) < 0)
			return -1;
	}
	buf_addc(out, ')');
	return write_params(out, m->params, m->nparams);
}

static int write_entry(struct buf *out, const struct sf_member *m)
{
	bool is_true = !m->inner && m->items[0].value.type == SF_BOOLEAN &&
		m->items[0].value.number;

	if (write_key(out, m->key) < 0)
		return -1;
	if (is_true)
		return write_params(out, m->params, m->nparams);
	buf_addc(out, '=');
	return write_member(out, m);
}

/* Removes the bytes appended after before, if rc is a failure. */
static int done(struct buf *out, size_t before, int rc)
{
	if (rc < 0 && out->data) {
		out->len = before;
		out->data[before] = '\0';
	}
	return rc;
}

int sf_write_item(struct buf *out, const struct sf_item *item)
{
	size_t before = out->len;

	return done(out, before, write_item(out, item));
}

int sf_write_member(struct buf *out, const struct sf_member *m)
{
	size_t before = out->len;

	return done(out, before, write_member(out, m));
}

int sf_write(struct buf *out, const struct sf *f, enum sf_kind kind)
{
	size_t before = out->len;
	int rc = 0;

	for (int i = 0; rc == 0 && i < f->nmembers; i++) {
		if (i)
			buf_adds(out, ", ");
		rc = kind == SF_DICTIONARY ? write_entry(out, &f->members[i]) :
					     write_member(out, &f->members[i]);
	}
	return done(out, before, rc);
}
