/* base.c - makes the signature base of RFC 9421, section 2: the value of each
 * component. */
#include <string.h>
#include <strings.h>

#include "common/base/err.h"
#include "common/httpsig/httpsig.h"

/* Fields whose structure is known everywhere. */
static const struct httpsig_type known_types[] = {
	{ "accept-signature", SF_DICTIONARY },
	{ "cache-status", SF_LIST },
	{ "cdn-cache-control", SF_DICTIONARY },
	{ "client-cert", SF_ITEM },
	{ "client-cert-chain", SF_LIST },
	{ "content-digest", SF_DICTIONARY },
	{ "priority", SF_DICTIONARY },
	{ "proxy-status", SF_LIST },
	{ "repr-digest", SF_DICTIONARY },
	{ "signature", SF_DICTIONARY },
	{ "signature-input", SF_DICTIONARY },
	{ "want-content-digest", SF_DICTIONARY },
	{ "want-repr-digest", SF_DICTIONARY },
	{ 0 },
};

/* A component identifier, taken apart. */
struct component {
	const char *name;
	bool sf, bs, req;
	const char *key;         /* a member of a dictionary, or NULL */
	const char *query_param; /* its name in encoded form, or NULL */
};

static int fail(const struct component *c, const char *why)
{
	return err_set(EX_DATAERR, "component \"%.60s\": %s", c->name, why);
}

static const struct httpsig_type *find_type(const struct httpsig_type *types,
	const char *name)
{
	for (; types && types->name; types++)
		if (strcmp(types->name, name) == 0)
			return types;
	return NULL;
}

static const struct httpsig_type *type_of(const struct httpsig_message *m,
	const char *name)
{
	const struct httpsig_type *type = find_type(m->types, name);

	return type ? type : find_type(known_types, name);
}

/* --- fields -------------------------------------------------------------------------------- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Returns the length of a line break that folds the line, with the blanks around it; 0: there
 * is none. */
static size_t fold_length(const char *s)
{
	size_t blanks = strspn(s, " \t"), n = blanks;

	n += s[n] == '\r';
	if (s[n] != '\n' || !is_blank(s[n + 1]))
		return 0;
	n++;
	return n + strspn(s + n, " \t");
}

/* Appends one line's value: stripped, a fold as one space. Does not check its bytes. */
static void add_line(struct buf *out, const char *value)
{
	size_t start = out->len, fold;

	while ((fold = fold_length(value)) || is_blank(*value))
		value += fold ? fold : 1;
	while (*value) {
		fold = fold_length(value);
		buf_addc(out, fold ? ' ' : *value);
		value += fold ? fold : 1;
	}
	while (out->len > start && is_blank(out->data[out->len - 1]))
		out->data[--out->len] = '\0';
}

static bool is_text(const char *s)
{
	for (; *s; s++)
		if ((*s < 0x20 && *s != '\t') || *s > 0x7e)
			return false;
	return true;
}

int httpsig_field_value(struct buf *out, const struct httpsig_message *m,
	const char *name)
{
	size_t before = out->len;
	int n = 0;

	for (size_t i = 0; i < m->nfields; i++) {
		if (strcasecmp(m->fields[i].name, name) != 0)
			continue;
		if (n++)
			buf_adds(out, ", ");
		add_line(out, m->fields[i].value);
	}
	if (n && out->len > before && !is_text(out->data + before)) {
		out->len = before;
		out->data[before] = '\0';
		return err_set(EX_DATAERR, "field '%.60s' is not ASCII text", name);
	}
	return n > 0;
}

/* Appends each line as a byte sequence of its own. */
static int add_binary(struct buf *out, const struct httpsig_message *m,
	const struct component *c)
{
	struct buf line = BUF_INIT;
	int n = 0;

	for (size_t i = 0; i < m->nfields; i++) {
		struct sf_item item = { .value = { .type = SF_BYTES } };

		if (strcasecmp(m->fields[i].name, c->name) != 0)
			continue;
		buf_reset(&line);
		add_line(&line, m->fields[i].value);
		item.value.text = buf_text(&line);
		item.value.len = line.len;
		if (n++)
			buf_adds(out, ", ");
		if (sf_write_item(out, &item) < 0)
			bug("bytes can always be written");
	}
	buf_release(&line);
	return n ? 0 : fail(c, "the message has no such field");
}

/* Appends the field, or one member of it, in the strict serialisation. */
static int add_structured(struct buf *out, const struct httpsig_message *m,
	const struct component *c, const char *value)
{
	const struct httpsig_type *type = type_of(m, c->name);
	enum sf_kind kind = type ? type->kind : SF_DICTIONARY;
	const struct sf_member *member;
	struct sf f;
	int rc;

	if (!type && !c->key)
		return fail(c, "it is not known how the field is structured");
	if (c->key && kind != SF_DICTIONARY)
		return fail(c, "the field is no dictionary");
	if (sf_parse(&f, kind, value, strlen(value), c->name) < 0)
		return -1;
	if (c->key) {
		member = sf_find(&f, c->key);
		rc = member ? sf_write_member(out, member) :
			      fail(c, "the dictionary has no such key");
	} else {
		rc = sf_write(out, &f, kind);
	}
	sf_release(&f);
	return rc;
}

static int add_field(struct buf *out, const struct httpsig_message *m,
	const struct component *c)
{
	struct buf value = BUF_INIT;
	int rc;

	if (c->query_param)
		return fail(c, "a field has no parameter 'name'");
	if (c->bs)
		return add_binary(out, m, c);
	rc = httpsig_field_value(&value, m, c->name);
	if (rc == 0)
		rc = fail(c, "the message has no such field");
	else if (rc > 0)
		rc = 0;
	if (rc == 0 && (c->sf || c->key))
		rc = add_structured(out, m, c, buf_text(&value));
	else if (rc == 0)
		buf_add(out, buf_text(&value), value.len);
	buf_release(&value);
	return rc;
}

/* --- derived components -------------------------------------------------------------------- */

/* Returns where the path of a request target begins: after scheme and authority, if it has
 * them. */
static const char *path_of(const char *target)
{
	const char *colon = strstr(target, "://");

	if (*target == '/' || !colon)
		return target;
	colon += 3;
	return colon + strcspn(colon, "/?#");
}

static bool is_printable(const char *s)
{
	for (; *s; s++)
		if (*s < 0x21 || *s > 0x7e)
			return false;
	return true;
}

static void add_lower(struct buf *out, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_addc(out,
			s[i] >= 'A' && s[i] <= 'Z' ? (char)(s[i] - 'A' + 'a') : s[i]);
}

/* Appends the authority in lower case, without the scheme's default port. */
static int add_authority(struct buf *out, const struct httpsig_message *m,
	const struct component *c)
{
	const char *colon, *port;
	size_t n;

	if (!m->authority || !*m->authority || strpbrk(m->authority, "@/?#") ||
		!is_printable(m->authority))
		return fail(c, "the message has no proper authority");
	n = strlen(m->authority);
	colon = strrchr(m->authority, ':');
	if (colon && !strchr(colon, ']')) {
		port = m->scheme && strcasecmp(m->scheme, "http") == 0   ? ":80" :
			m->scheme && strcasecmp(m->scheme, "https") == 0 ? ":443" :
									   ":";
		if (strcmp(colon, ":") == 0 || strcmp(colon, port) == 0)
			n = (size_t)(colon - m->authority);
	}
	add_lower(out, m->authority, n);
	return 0;
}

static int add_scheme(struct buf *out, const struct httpsig_message *m,
	const struct component *c)
{
	if (!m->scheme || !*m->scheme || !is_printable(m->scheme))
		return fail(c, "the scheme is not known");
	add_lower(out, m->scheme, strlen(m->scheme));
	return 0;
}

static int add_target_uri(struct buf *out, const struct httpsig_message *m,
	const struct component *c)
{
	const char *path = path_of(m->target);

	if (path != m->target) {
		buf_adds(out, m->target);
		return 0;
	}
	if (add_scheme(out, m, c) < 0)
		return -1;
	buf_adds(out, "://");
	if (add_authority(out, m, c) < 0)
		return -1;
	if (strcmp(path, "*") != 0)
		buf_addf(out, "%s%s", *path == '/' ? "" : "/", path);
	return 0;
}

static void add_path(struct buf *out, const char *target)
{
	const char *path = path_of(target);
	size_t n = strcspn(path, "?#");

	if (n)
		buf_add(out, path, n);
	else
		buf_addc(out, '/');
}

static const char *query_of(const char *target)
{
	const char *q = strchr(target, '?');

	return q ? q + 1 : "";
}

static int hex_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Decodes n bytes of a form's query and encodes them again in the one canonical way. */
static void add_encoded(struct buf *out, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = s[i] == '+' ? ' ' : (unsigned char)s[i];

		if (c == '%' && i + 2 < n && hex_of(s[i + 1]) >= 0 &&
			hex_of(s[i + 2]) >= 0) {
			c = (unsigned char)(hex_of(s[i + 1]) * 16 + hex_of(s[i + 2]));
			i += 2;
		}
		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			(c >= '0' && c <= '9') || (c && strchr("*-._", c)))
			buf_addc(out, (char)c);
		else
			buf_addf(out, "%%%02X", c);
	}
}

static int add_query_param(struct buf *out, const struct httpsig_message *m,
	const struct component *c)
{
	struct buf name = BUF_INIT, value = BUF_INIT;
	int found = 0;

	if (!c->query_param)
		return fail(c, "the parameter 'name' is missing");
	for (const char *s = query_of(m->target); *s; s += *s == '&') {
		size_t n = strcspn(s, "&");
		const char *equals = memchr(s, '=', n);
		size_t name_len = equals ? (size_t)(equals - s) : n;

		buf_reset(&name);
		add_encoded(&name, s, name_len);
		if (n && strcmp(buf_text(&name), c->query_param) == 0 && !found++ &&
			equals)
			add_encoded(&value, equals + 1, n - name_len - 1);
		s += n;
	}
	if (found == 1)
		buf_adds(out, buf_text(&value));
	buf_release(&name);
	buf_release(&value);
	if (found > 1)
		return fail(c, "the query has the parameter more than once");
	return found ? 0 : fail(c, "the query has no such parameter");
}

static int add_of_request(struct buf *out, const struct httpsig_message *m,
	const struct component *c)
{
	if (strcmp(c->name, "@method") == 0) {
		if (!m->method || !*m->method || !is_printable(m->method))
			return fail(c, "the method is not known");
		buf_adds(out, m->method);
		return 0;
	}
	if (strcmp(c->name, "@authority") == 0)
		return add_authority(out, m, c);
	if (strcmp(c->name, "@scheme") == 0)
		return add_scheme(out, m, c);
	if (!m->target || !*m->target || !is_printable(m->target) ||
		strchr(m->target, '#'))
		return fail(c, "the request target is not known");
	if (strcmp(c->name, "@target-uri") == 0)
		return add_target_uri(out, m, c);
	if (strcmp(c->name, "@request-target") == 0)
		buf_adds(out, m->target);
	else if (strcmp(c->name, "@path") == 0)
		add_path(out, m->target);
	else if (strcmp(c->name, "@query") == 0)
		buf_addf(out, "?%s", query_of(m->target));
	else if (strcmp(c->name, "@query-param") == 0)
		return add_query_param(out, m, c);
	else
		return fail(c, "it is not known");
	return 0;
}

static int add_derived(struct buf *out, const struct httpsig_message *m,
	const struct component *c)
{
	if (c->sf || c->bs || c->key)
		return fail(c, "a parameter does not go with it");
	if (c->query_param && strcmp(c->name, "@query-param") != 0)
		return fail(c, "a parameter does not go with it");
	if (strcmp(c->name, "@status") == 0) {
		if (m->status < 100 || m->status > 999)
			return fail(c, "only a response has it");
		buf_add_i64(out, m->status);
		return 0;
	}
	if (m->status)
		return fail(c, "only a request has it");
	return add_of_request(out, m, c);
}

/* --- the base ------------------------------------------------------------------------------ */

static bool is_flag(const struct sf_value *v)
{
	return v->type == SF_BOOLEAN && v->number;
}

static bool is_field_name(const char *s)
{
	for (const char *c = s; *c; c++)
		if (!((*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') ||
			    strchr("!#$%&'*+-.^_`|~", *c)))
			return false;
	return *s;
}

/* Reads an identifier. Returns 0, or -1: it is not a string, or has an unknown parameter. */
static int component_read(struct component *c, const struct sf_item *id)
{
	*c = (struct component){ .name = "" };
	if (id->value.type != SF_STRING)
		return err_set(EX_DATAERR, "a component is not a string");
	c->name = id->value.text;
	for (int i = 0; i < id->nparams; i++) {
		const struct sf_value *v = &id->params[i].value;
		const char *key = id->params[i].key;

		if (strcmp(key, "sf") == 0 && is_flag(v))
			c->sf = true;
		else if (strcmp(key, "bs") == 0 && is_flag(v))
			c->bs = true;
		else if (strcmp(key, "req") == 0 && is_flag(v))
			c->req = true;
		else if (strcmp(key, "key") == 0 && v->type == SF_STRING)
			c->key = v->text;
		else if (strcmp(key, "name") == 0 && v->type == SF_STRING)
			c->query_param = v->text;
		else
			return fail(c, "a parameter is not known");
	}
	if (c->bs && (c->sf || c->key))
		return fail(c, "'bs' does not go with 'sf' or 'key'");
	if (c->name[0] != '@' && !is_field_name(c->name))
		return fail(c, "it is no name of a field in lower case");
	return 0;
}

static bool same_value(const struct sf_value *a, const struct sf_value *b)
{
	if (a->type != b->type || a->number != b->number || a->len != b->len)
		return false;
	return !a->len || memcmp(a->text, b->text, a->len) == 0;
}

bool httpsig_same_component(const struct sf_item *a, const struct sf_item *b)
{
	if (a->nparams != b->nparams || !same_value(&a->value, &b->value))
		return false;
	for (int i = 0; i < a->nparams; i++) {
		const struct sf_value *v = sf_param(b->params, b->nparams,
			a->params[i].key);

		if (!v || !same_value(v, &a->params[i].value))
			return false;
	}
	return true;
}

static int add_component(struct buf *out, const struct httpsig_message *m,
	const struct sf_item *id)
{
	struct component c;

	if (component_read(&c, id) < 0)
		return -1;
	if (c.req && (!m->status || !m->request))
		return fail(&c, "only a response has a request");
	if (c.req)
		m = m->request;
	if (sf_write_item(out, id) < 0)
		return -1;
	buf_adds(out, ": ");
	if ((c.name[0] == '@' ? add_derived(out, m, &c) : add_field(out, m, &c)) < 0)
		return -1;
	buf_addc(out, '\n');
	return out->len <= HTTPSIG_BASE_MAX ? 0 : fail(&c, "it is too long");
}

static int add_components(struct buf *out, const struct httpsig_message *m,
	const struct sf_member *covered)
{
	if (!covered->inner)
		return err_set(EX_DATAERR, "the components are not a list");
	if (covered->nitems > HTTPSIG_COMPONENTS_MAX)
		return err_set(EX_DATAERR, "more than %d components",
			HTTPSIG_COMPONENTS_MAX);
	for (int i = 0; i < covered->nitems; i++) {
		for (int j = 0; j < i; j++)
			if (httpsig_same_component(&covered->items[i],
				    &covered->items[j]))
				return err_set(EX_DATAERR,
					"component \"%.60s\" is covered twice",
					covered->items[i].value.text);
		if (add_component(out, m, &covered->items[i]) < 0)
			return -1;
	}
	buf_adds(out, "\"@signature-params\": ");
	return sf_write_member(out, covered);
}

int httpsig_base(struct buf *out, const struct httpsig_message *m,
	const struct sf_member *covered)
{
	size_t before = out->len;

	if (add_components(out, m, covered) == 0)
		return 0;
	if (out->data) {
		out->len = before;
		out->data[before] = '\0';
	}
	return -1;
}
