/* import.c - imports the rows of another ledger into an empty one, and checks how rows are
 * linked. */
#include <inttypes.h>
#include <string.h>

#include "cmd/rnp-reward/ledger/ledger.h"
#include "cmd/rnp-reward/ledger/parts.h"
#include "common/base/err.h"
#include "common/base/lines.h"
#include "common/json/json.h"
#include "common/json/schema.h"

int ledger_check_link(const json_t *row, const char *where, int64_t sequence,
	const unsigned char before[LEDGER_HASH_BYTES])
{
	struct buf expected = BUF_INIT;
	const char *previous;
	int64_t got;
	int rc = -1;

	buf_add_hex(&expected, before, LEDGER_HASH_BYTES);
	if (schema_check(row, where, NULL) < 0 ||
		json_get_i64(row, where, "sequence", 0, INT64_MAX, &got) < 0 ||
		json_get_text(row, where, "previous", &previous) < 0)
		goto out;
	if (got != sequence)
		err_set(EX_DATAERR, "%s: sequence: is %" PRId64 ", not %" PRId64, where,
			got, sequence);
	else if (strcmp(previous, expected.data) != 0)
		err_set(EX_DATAERR, "%s: previous: the row before has another hash",
			where);
	else
		rc = 0;
out:
	buf_release(&expected);
	return rc;
}

static int import_line(struct ledger *l, const char *line, size_t len, const char *where,
	int64_t sequence, unsigned char last[LEDGER_HASH_BYTES])
{
	json_t *row = json_parse_object(line, len, where);
	const char *kind = json_string_value(json_object_get(row, "kind"));
	int rc = -1;

	if (!row || ledger_check_link(row, where, sequence, last) < 0)
		goto out;
	if (strcmp(kind, "rnp.epoch") != 0 && strcmp(kind, "rnp.cosign") != 0) {
		err_set(EX_DATAERR, "%s: kind '%.40s' cannot be imported", where, kind);
		goto out;
	}
	ledger_hash(row, last);
	if (ledger_store_row(l, row, sequence) < 0)
		goto out;
	rc = strcmp(kind, "rnp.epoch") == 0 ?
		ledger_store_epoch(l, row, where, sequence, false) :
		0;
out:
	json_decref(row);
	return rc;
}

int64_t ledger_import(struct ledger *l, const char *path)
{
	unsigned char last[LEDGER_HASH_BYTES];
	char *files[1] = { (char *)path };
	struct lines lines;
	int64_t n = 0;
	size_t len;
	char *line;
	int rc;

	if (store_begin(&l->store) < 0)
		return -1;
	rc = ledger_head(l, &n, last);
	if (rc == 0 && n)
		rc = err_set(EX_DATAERR,
			"'%s' has rows already: import into a new ledger", l->store.path);
	lines_open(&lines, files, 1, JSON_RECORD_BYTES_MAX);
	while (rc == 0 && (rc = lines_next(&lines, &line, &len)) == 1) {
		rc = import_line(l, line, len, lines_where(&lines), n, last);
		n++;
	}
	lines_close(&lines);
	if (rc < 0) {
		store_rollback(&l->store);
		return -1;
	}
	return store_commit(&l->store) < 0 ? -1 : n;
}
