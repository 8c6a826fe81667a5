/* fuzz_json.c - fuzz target: JSON from strangers - the bounded reader, both writers, and every
 * schema.
 *
 * It checks that a value that was read can be written, that written text reads back to the same
 * text, that the canonical form is its own canonical form, and that every schema copes with any
 * value. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/json/canon.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/json/read.h"
#include "common/json/schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

/* Any value that we write reads back as itself. */
static void check_write(const json_t *v)
{
	struct buf once = BUF_INIT, twice = BUF_INIT;
	json_t *again;

	json_write(&once, v);
	must(!memchr(once.data, '\n', once.len));
	again = json_parse(once.data, once.len, JSON_DEPTH_MAX_CANON, "again");
	must(again != NULL);
	json_write(&twice, again);
	must(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
	json_decref(again);
	buf_release(&once);
	buf_release(&twice);
}

static void check_canon(const json_t *v)
{
	struct buf once = BUF_INIT, twice = BUF_INIT;
	json_t *again;

	must(canon_write(&once, v) == 0);
	again = json_parse(once.data, once.len, JSON_DEPTH_MAX_CANON, "canonical");
	must(again != NULL);
	must(canon_write(&twice, again) == 0);
	must(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
	json_decref(again);
	buf_release(&once);
	buf_release(&twice);
}

/* Checks a record against its own schema, then against all others. */
static void check_schemas(json_t *v)
{
	(void)schema_check(v, "fuzz", NULL);
	if (!json_is_object(v))
		return;
	json_set_i64(v, "v", 1);
	for (const char *const *kind = schema_kinds(); *kind; kind++) {
		json_set_text(v, "kind", *kind);
		if (schema_check(v, "fuzz", *kind) < 0)
			must(err_get()->code == EX_DATAERR && err_get()->text[0]);
	}
}

/* Our reader and jansson's accept the same texts, except for a NUL at the end, and read the
 * same values. */
static void check_reader(const char *text, size_t size)
{
	const size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY;
	json_t *ours = json_read(text, size, JSON_DEPTH_MAX_CANON, false), *theirs;
	struct buf a = BUF_INIT, b = BUF_INIT;
	json_error_t error;

	theirs = json_loadb(text, size, flags, &error);
	if (!theirs && json_error_code(&error) == json_error_numeric_overflow)
		theirs = json_loadb(text, size, flags | JSON_DECODE_INT_AS_REAL, &error);
	must(!ours || theirs);
	must(ours || !theirs || size > JSON_DEPTH_MAX_CANON || memchr(text, '\0', size));
	if (ours) {
		must(canon_write(&a, ours) == 0 && canon_write(&b, theirs) == 0);
		must(a.len == b.len && memcmp(a.data, b.data, a.len) == 0);
	}
	json_decref(ours);
	json_decref(theirs);
	buf_release(&a);
	buf_release(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	json_t *v = json_parse(text, size, JSON_DEPTH_MAX_CANON, "fuzz");

	check_reader(text, size);
	if (v) {
		check_write(v);
		check_canon(v);
		json_decref(v);
	} else {
		must(err_get()->code == EX_DATAERR);
	}
	v = json_parse(text, size, JSON_DEPTH_MAX, "fuzz");
	if (v)
		check_schemas(v);
	json_decref(v);
	return 0;
}
