#include "cmd/rnp-reward/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/json/canon.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/json/json.h"
#include "common/json/schema.h"

#define LEDGER_BYTES_MAX ((size_t)1 << 30)

static void hash_of(const json_t *entry, unsigned char out[32])
{
	struct buf text = BUF_INIT;

	if (canon_write(&text, entry) < 0)
		bug("%s", err_get()->text);
	crypto_hash_sha256(out, (const unsigned char *)text.data, text.len);
	buf_release(&text);
}

static int check_link(const json_t *entry, const char *where, int64_t sequence,
	const unsigned char before[32])
{
	struct buf expected = BUF_INIT;
	const char *previous;
	int64_t got;
	int rc = -1;

	buf_add_hex(&expected, before, 32);
	if (schema_check(entry, where, "rnp.epoch") < 0 ||
		json_get_i64(entry, where, "sequence", 0, INT64_MAX, &got) < 0 ||
		json_get_text(entry, where, "previous", &previous) < 0)
		goto out;
	if (got != sequence)
		err_set(EX_DATAERR, "%s: sequence: is %" PRId64 ", not %" PRId64, where,
			got, sequence);
	else if (strcmp(previous, expected.data) != 0)
		err_set(EX_DATAERR, "%s: previous: the entry before has another hash",
			where);
	else
		rc = 0;
out:
	buf_release(&expected);
	return rc;
}

static int walk_text(const char *path, char *text, size_t len, ledger_fn fn, void *ctx,
	int64_t *count, unsigned char last_hash[32])
{
	struct buf where = BUF_INIT;
	json_t *entry = NULL;
	char *end;
	int rc = 0;

	for (char *line = text; rc == 0 && (end = memchr(line, '\n', len)) != NULL;
		line = end + 1) {
		buf_reset(&where);
		buf_addf(&where, "%s:%" PRId64, path, *count + 1);
		len -= (size_t)(end + 1 - line);
		entry = json_parse_object(line, (size_t)(end - line), where.data);
		if (!entry || check_link(entry, where.data, *count, last_hash) < 0 ||
			(fn && fn(ctx, *count, entry) < 0)) {
			rc = -1;
		} else {
			hash_of(entry, last_hash);
			(*count)++;
		}
		json_decref(entry);
	}
	buf_release(&where);
	return rc;
}

int64_t ledger_walk(const char *path, ledger_fn fn, void *ctx,
	unsigned char last_hash[32], int64_t *good_bytes)
{
	struct buf text = BUF_INIT;
	int64_t count = 0;
	int rc = -1;

	memset(last_hash, 0, 32);
	if (io_read(&text, path, LEDGER_BYTES_MAX) < 0)
		goto out;
	/* what stands behind the last newline was cut off while it was written, and never
	 * acknowledged */
	while (text.len && text.data[text.len - 1] != '\n')
		text.len--;
	if (good_bytes)
		*good_bytes = (int64_t)text.len;
	rc = text.len ? walk_text(path, text.data, text.len, fn, ctx, &count, last_hash) :
			0;
out:
	buf_release(&text);
	return rc < 0 ? -1 : count;
}

struct search {
	json_t *record;
	bool same;
};

static bool same_text(const json_t *a, const json_t *b, const char *key)
{
	const json_t *x = json_object_get(a, key), *y = json_object_get(b, key);

	return x == y || (x && y && json_equal(x, y));
}

/* the same but for where it stands in the ledger */
static bool same_epoch(const json_t *entry, const json_t *record)
{
	json_t *plain = json_copy((json_t *)entry);
	bool same;

	json_object_del(plain, "sequence");
	json_object_del(plain, "previous");
	same = json_equal(plain, (json_t *)record);
	json_decref(plain);
	return same;
}

static int look(void *ctx, int64_t sequence, const json_t *entry)
{
	struct search *s = ctx;

	if (s->same)
		return 0;
	if (same_epoch(entry, s->record)) {
		s->same = true;
		json_object_update(s->record, (json_t *)entry);
		return 0;
	}
	if (json_object_get(entry, "from") && same_text(entry, s->record, "from") &&
		same_text(entry, s->record, "to") &&
		same_text(entry, s->record, "policy"))
		return err_set(EX_DATAERR,
			"the ledger's entry %" PRId64
			" closes this epoch already, with another result",
			sequence);
	return 0;
}

static int append_line(const char *path, int fd, const json_t *record, int64_t at)
{
	struct buf line = BUF_INIT;
	int rc = 0;

	json_write(&line, record);
	buf_addc(&line, '\n');
	if (ftruncate(fd, at) < 0 || lseek(fd, at, SEEK_SET) < 0 ||
		io_write_all(fd, line.data, line.len) < 0 || fsync(fd) < 0) {
		rc = err_sys(EX_IOERR, "cannot write '%s'", path);
		/* the part that did arrive, if any, has no newline and is no entry */
		if (ftruncate(fd, at) < 0)
			err_add("not undone");
	}
	buf_release(&line);
	return rc;
}

int ledger_append(const char *path, json_t *record, bool *there)
{
	struct search search = { record, false };
	unsigned char last_hash[32];
	struct buf previous = BUF_INIT;
	int64_t count, at = 0;
	int rc = -1, fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);

	*there = false;
	if (fd < 0)
		return err_sys(0, "cannot open '%s'", path);
	if (flock(fd, LOCK_EX) < 0) {
		err_sys(EX_OSERR, "cannot lock '%s'", path);
		goto out;
	}
	count = ledger_walk(path, look, &search, last_hash, &at);
	if (count < 0)
		goto out;
	*there = search.same;
	rc = 0;
	if (search.same)
		goto out;
	buf_add_hex(&previous, last_hash, sizeof last_hash);
	json_set_i64(record, "sequence", count);
	json_set_text(record, "previous", previous.data);
	rc = append_line(path, fd, record, at);
out:
	close(fd);
	buf_release(&previous);
	return rc;
}
