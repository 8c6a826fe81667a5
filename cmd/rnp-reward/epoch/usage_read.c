/* usage_read.c - reads rnp.usage records on all cores into packed rows. */
#include "cmd/rnp-reward/epoch/usage_read.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-reward/policy/fields.h"
#include "cmd/rnp-reward/evidence/collect_item.h"
#include "common/json/canon.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/base/lines.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "common/json/schema.h"

#define GROUPS_MAX      15                        /* further ones, by the schema */
#define FACTOR_MAX_NANO INT64_C(1000000000000000) /* a million */

static void usage_init(struct usage *u)
{
	memset(u, 0, sizeof *u);
	u->model = RULES_NO_MODEL;
	u->from_ms = u->to_ms = -1;
}

/* Reads field i, if it is there. */
static int read_field(const json_t *record, const char *where, int i, uint32_t *known,
	int64_t *value)
{
	int64_t max = i == FIELD_SCORE_PPM ? INT64_C(1000000000000000) :
					     FIELD_READING_MAX;

	if (!json_object_get(record, field_names[i]))
		return 0;
	*known |= UINT32_C(1) << i;
	return json_get_i64(record, where, field_names[i], 0, max, value);
}

static int read_fields(struct usage *u, const json_t *record, const char *where)
{
	for (int i = 0; i < FIELD_USAGE; i++)
		if (read_field(record, where, i, &u->known, &u->value[i]) < 0)
			return -1;
	return 0;
}

/* A factor is a decimal: 1.7, 4, "1.33". A JSON number is a double; its shortest digits are
 * those that were written. */
static int read_factor(const json_t *v, const char *what, int64_t *nano)
{
	struct buf text = BUF_INIT;
	int rc;

	if (json_is_string(v))
		buf_adds(&text, json_string_value(v));
	else
		canon_number(&text, json_number_value(v));
	rc = num_decimal(text.data, what, 9, 0, nano);
	buf_release(&text);
	if (rc == 0 && (*nano < 0 || *nano > FACTOR_MAX_NANO))
		return err_set(EX_DATAERR, "%s: is not between 0 and 1000000", what);
	return rc;
}

static int read_factors(struct usage *u, const json_t *record, const char *where)
{
	const json_t *factors = json_object_get(record, "factors");
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)factors, name, v) {
		int i = factor_find(name);

		if (i < 0)
			return err_set(EX_DATAERR,
				"%s: factors.%.40s: there is no such factor", where,
				name);
		if (read_factor(v, factor_names[i], &u->factor_nano[i]) < 0)
			return err_add("%s: factors", where);
		u->overridden |= (uint8_t)(1u << i);
	}
	return 0;
}

int usage_from_json(struct usage *u, struct rules *r, const json_t *record,
	const char *where)
{
	const char *model = NULL, *wallet = NULL, *node = NULL;

	usage_init(u);
	if (schema_check(record, where, "rnp.usage") < 0 ||
		json_get_text(record, where, "node", &node) < 0 ||
		json_opt_text(record, where, "wallet", &wallet) < 0 ||
		json_opt_text(record, where, "gpu_model", &model) < 0 ||
		json_opt_time(record, where, "from", &u->from_ms) < 0 ||
		json_opt_time(record, where, "to", &u->to_ms) < 0 ||
		read_fields(u, record, where) < 0 || read_factors(u, record, where) < 0 ||
		address_parse(node, where, u->node) < 0)
		return -1;
	/* with only one of them it would be paid in any epoch, like a usage without times */
	if ((u->from_ms < 0) != (u->to_ms < 0))
		return err_set(EX_DATAERR, "%s: '%s' is there without '%s'", where,
			u->from_ms < 0 ? "to" : "from", u->from_ms < 0 ? "from" : "to");
	u->has_wallet = wallet != NULL;
	if (wallet && address_parse(wallet, where, u->wallet) < 0)
		return -1;
	if (model)
		u->model = rules_model(r, model, u->value[FIELD_GPU_MEMORY_BYTES]);
	return 0;
}

static int read_group(struct usage_group *g, struct rules *r, const json_t *group,
	const char *where)
{
	const char *model = NULL;
	int64_t memory_bytes = 0;

	memset(g, 0, sizeof *g);
	g->model = RULES_NO_MODEL;
	if (json_opt_text(group, where, "gpu_model", &model) < 0)
		return -1;
	for (int i = 0; i < FIELD_GROUP_N; i++) {
		if (read_field(group, where, field_of_group[i], &g->known, &g->value[i]) <
			0)
			return -1;
		if (field_of_group[i] == FIELD_GPU_MEMORY_BYTES)
			memory_bytes = g->value[i];
	}
	if (model)
		g->model = rules_model(r, model, memory_bytes);
	return 0;
}

/* Reads the further groups of a record that usage_from_json has taken. Returns how many there are,
 * or -1. */
static int read_groups(struct usage_group *groups, struct rules *r, const json_t *record,
	const char *where)
{
	const json_t *list = json_object_get(record, "more_gpus");
	size_t n = json_array_size(list);

	for (size_t i = 0; i < n; i++)
		if (read_group(&groups[i], r, json_array_get(list, i), where) < 0)
			return err_add("more_gpus[%zu]", i);
	return (int)n;
}

int usage_rows_add_json(struct usage_rows *rows, struct rules *r, const json_t *record,
	const char *where)
{
	struct usage_group groups[GROUPS_MAX];
	struct usage usage;
	int n = usage_from_json(&usage, r, record, where);

	if (n == 0)
		n = read_groups(groups, r, record, where);
	if (n < 0)
		return -1;
	usage_rows_add(rows, &usage);
	for (int k = 0; k < n; k++)
		usage_rows_add_group(rows, &groups[k]);
	return 0;
}

/* --- devices -------------------------------------------------------------------------------- */

/* Appends the keys of the devices of a record that fits its schema, or of one of its groups. */
static void add_devices(struct buf *out, const json_t *record)
{
	struct usage_device d = { 0 };
	json_t *one;
	size_t i;

	json_array_foreach(json_object_get(record, "devices"), i, one) {
		collect_device_key(json_string_value(one), &d.key);
		buf_add(out, &d, sizeof d);
	}
	json_array_foreach(json_object_get(record, "more_gpus"), i, one)
		add_devices(out, one);
}

static void keep_devices(struct usages *u, const char *data, size_t len)
{
	size_t n = len / sizeof *u->devices;

	if (!n)
		return;
	u->devices = xgrow(u->devices, &u->devices_cap, u->ndevices + n,
		sizeof *u->devices);
	memcpy(u->devices + u->ndevices, data, len);
	for (; n; n--)
		u->devices[u->ndevices++].row = (uint32_t)u->rows.n - 1;
}

static int by_key(const void *a, const void *b)
{
	const struct usage_device *x = a, *y = b;
	int order = memcmp(&x->key, &y->key, sizeof x->key);

	return order ? order : (x->row > y->row) - (x->row < y->row);
}

/* Refuses the first usage that names a device of an earlier one: a device is paid once. */
static int refuse_shared_devices(struct usages *u)
{
	char first[256], node[ADDRESS_MAX];
	uint32_t a = 0, b = UINT32_MAX;

	if (u->ndevices)
		qsort(u->devices, u->ndevices, sizeof *u->devices, by_key);
	for (size_t i = 1; i < u->ndevices; i++) {
		const struct usage_device *x = &u->devices[i - 1], *y = x + 1;

		if (memcmp(&x->key, &y->key, sizeof x->key) == 0 && x->row != y->row &&
			y->row < b) {
			a = x->row;
			b = y->row;
		}
	}
	if (b == UINT32_MAX)
		return 0;
	address_format(usage_rows_node(&u->rows, a), node);
	snprintf(first, sizeof first, "%s", usages_where(u, a));
	return err_set(EX_DATAERR,
		"%s: it names a device of node %s, in %s: a device is paid once",
		usages_where(u, b), node, first);
}

/* --- whole files --------------------------------------------------------------------------- */

struct reading {
	struct usages *usages;
	struct rules *rules;
};

/* Stores the place of a usage, "file:line", as two numbers. */
static void remember_where(const struct usages *u, const char *where, struct usage *one)
{
	const char *colon = strrchr(where, ':');
	size_t len = (size_t)(colon - where);

	one->line = (uint32_t)strtoul(colon + 1, NULL, 10);
	for (int i = 0; i < u->nfiles; i++)
		if (strncmp(u->files[i], where, len) == 0 && !u->files[i][len])
			one->file = (uint16_t)i;
}

static void keep_wanted(struct usages *u, const struct usage *one, const char *line,
	size_t len, const char *where)
{
	if (!u->wanted || memcmp(one->node, u->wanted, sizeof one->node) != 0)
		return;
#pragma omp critical(wanted)
	if (!u->wanted_record)
		u->wanted_record = json_parse_object(line, len, where);
}

static int read_line(void *ctx, char *line, size_t len, const char *where,
	struct buf *out)
{
	struct reading *r = ctx;
	struct usage_group groups[GROUPS_MAX];
	json_t *record = NULL;
	struct usage one;
	int n = 0;

	if (!usage_from_plain(&one, r->rules, line, len)) {
		record = json_parse_object(line, len, where);
		if (!record || usage_from_json(&one, r->rules, record, where) < 0 ||
			(n = read_groups(groups, r->rules, record, where)) < 0) {
			json_decref(record);
			return -1;
		}
	}
	remember_where(r->usages, where, &one);
	keep_wanted(r->usages, &one, line, len, where);
	buf_add(out, &one, sizeof one);
	buf_add(out, &n, sizeof n);
	buf_add(out, groups, (size_t)n * sizeof *groups);
	add_devices(out, record);
	json_decref(record);
	return 0;
}

static int keep(void *ctx, const char *data, size_t len)
{
	struct usages *u = ((struct reading *)ctx)->usages;
	const char *end = data + len;
	struct usage_group group;
	struct usage one;
	int n;

	if (u->rows.n == UINT32_MAX - 1)
		return err_set(EX_DATAERR, "more than %" PRIu32 " usages",
			UINT32_MAX - 1);
	memcpy(&one, data, sizeof one);
	data += sizeof one;
	usage_rows_add(&u->rows, &one);
	memcpy(&n, data, sizeof n);
	data += sizeof n;
	for (; n > 0; n--, data += sizeof group) {
		memcpy(&group, data, sizeof group);
		usage_rows_add_group(&u->rows, &group);
	}
	keep_devices(u, data, (size_t)(end - data));
	return 0;
}

const char *usages_where(const struct usages *u, size_t i)
{
	static _Thread_local char text[256];
	struct usage one;

	usage_rows_get(&u->rows, i, &one);
	snprintf(text, sizeof text, "%.200s:%" PRIu32,
		u->nfiles ? u->files[one.file] : "stdin", one.line);
	return text;
}

static int refuse_duplicates(const struct usages *u)
{
	char first[256], node[ADDRESS_MAX];
	size_t a, b;

	if (!usage_rows_duplicate(&u->rows, &a, &b))
		return 0;
	address_format(usage_rows_node(&u->rows, b), node);
	snprintf(first, sizeof first, "%s", usages_where(u, a));
	return err_set(EX_DATAERR, "%s: node %s has a usage already, in %s",
		usages_where(u, b), node, first);
}

int usages_read(struct usages *u, struct rules *r, char **files, int nfiles)
{
	struct reading ctx = { u, r };
	struct lines lines;
	int rc;

	if (nfiles > UINT16_MAX)
		return err_set(EX_USAGE, "more than %d files", UINT16_MAX);
	u->files = (const char *const *)files;
	u->nfiles = nfiles;
	lines_open(&lines, files, nfiles, USAGE_BYTES_MAX);
	rc = lines_map(&lines, read_line, keep, &ctx);
	lines_close(&lines);
	return rc < 0 || refuse_duplicates(u) < 0 ? -1 : refuse_shared_devices(u);
}

void usages_release(struct usages *u)
{
	usage_rows_release(&u->rows);
	json_decref(u->wanted_record);
	free(u->devices);
	*u = (struct usages)USAGES_INIT;
}
