/* claims_read.c - reads rewards on all cores: lines as reward_write writes them without building
 * objects, all others one by one. */
#include "cmd/rnp-reward/epoch/claims_read.h"

#include <string.h>

#include "common/base/lines.h"
#include "common/json/json.h"
#include "common/json/schema.h"

/* What a thread has found in a line. In its buffer this is followed by the line's place in the
 * input as a string, and by the note of a reward or, for any other line, the line itself. */
struct found {
	bool scanned;
	struct claim claim; /* if it was scanned */
	size_t where_bytes; /* with its NUL */
};

static int scan_line(void *ctx, char *line, size_t len, const char *where,
	struct buf *out)
{
	const struct claims_reader *r = ctx;
	struct found f = { .where_bytes = strlen(where) + 1 };

	f.scanned = claims_scan(&f.claim, line, len);
	buf_add(out, &f, sizeof f);
	buf_add(out, where, f.where_bytes);
	if (!f.scanned)
		buf_add(out, line, len);
	else if (r->note)
		r->note(r->ctx, line, len, out);
	return 0;
}

static int add_record(const struct claims_reader *r, const struct record *record)
{
	const char *kind;
	struct buf note = BUF_INIT;
	int rc;

	if (schema_check(record->json, record->where, NULL) < 0)
		return -1;
	kind = json_string_value(json_object_get(record->json, "kind"));
	if (strcmp(kind, "rnp.reward") != 0)
		return r->other(r->ctx, record);
	rc = claims_add(r->claims, record->json, record->where);
	if (rc == 0 && r->note) {
		r->note(r->ctx, record->text, record->len, &note);
		r->keep(r->ctx, buf_text(&note), note.len);
	}
	buf_release(&note);
	return rc;
}

static int add_found(void *ctx, const char *data, size_t len)
{
	const struct claims_reader *r = ctx;
	struct record record;
	struct found f;
	int rc;

	memcpy(&f, data, sizeof f);
	record = (struct record){ .where = data + sizeof f,
		.text = data + sizeof f + f.where_bytes,
		.len = len - sizeof f - f.where_bytes };
	if (f.scanned) {
		rc = claims_add_scanned(r->claims, &f.claim, record.where);
		if (rc == 0 && r->keep)
			r->keep(r->ctx, record.text, record.len);
		return rc;
	}
	record.json = json_parse_object(record.text, record.len, record.where);
	rc = record.json ? add_record(r, &record) : -1;
	json_decref(record.json);
	return rc;
}

int claims_read(const struct claims_reader *r, char **files, int n)
{
	struct lines in;
	int rc;

	lines_open(&in, files, n, JSON_RECORD_BYTES_MAX);
	rc = lines_map(&in, scan_line, add_found, (void *)r);
	lines_close(&in);
	return rc;
}
