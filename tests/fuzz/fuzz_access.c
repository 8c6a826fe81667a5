/* fuzz_access.c - fuzz target: who may do what on a gateway, the table that is made of it, and
 * keys of SSH.
 *
 * uses: cmd/rnp-register
 *
 * The input is an rnp.access record, and after a byte 0 the line of a key. It checks that what
 * is refused has exit code 65 and a message; that each key of a table is found in it, with
 * options that cover themselves; and that an accepted key is read again as what it was. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/gateway/access.h"
#include "cmd/rnp-register/market/sshkey.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

static void refused(void)
{
	must(err_get()->code == EX_DATAERR && err_get()->text[0]);
	err_clear();
}

/* Each line of a table is found by its key. */
static void search(const struct buf *table)
{
	for (char *line = table->data; line && *line;) {
		size_t len = strcspn(line, "\n"), blob = strcspn(line, " ");
		size_t type = strcspn(line + blob + 1, " ");
		char *words = xstrndup(line, blob + 1 + type);
		struct access_span s;

		must(line[len] == '\n' && blob + 1 + type < len);
		words[blob] = '\0';
		must(access_find(table->data, table->len, words + blob + 1, words, &s));
		must(s.text > line && s.text + s.len == line + len);
		must(access_covers(s, s));
		must(!access_find(table->data, table->len, "ssh-rsa", words, &s));
		free(words);
		line += len + 1;
	}
}

static void read_key(const char *text)
{
	char again[SSHKEY_TEXT_MAX], hash[SSHKEY_HASH_MAX];
	struct sshkey k, second;

	if (sshkey_parse(text, "key", &k) < 0) {
		refused();
		return;
	}
	snprintf(again, sizeof again, "%s %s", k.type, k.blob);
	must(sshkey_parse(again, "key", &second) == 0);
	must(strcmp(k.type, second.type) == 0 && strcmp(k.blob, second.blob) == 0);
	sshkey_fingerprint(&k, hash);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = xstrndup((const char *)data, size);
	struct access_counts counts;
	struct buf table = BUF_INIT;
	size_t len = strlen(text);
	json_t *record = json_parse_object(text, len, "input");

	if (!record || access_compile(record, "input", &table, &counts) < 0)
		refused();
	else
		search(&table);
	if (len < size) {
		char *key = xstrndup((const char *)data + len + 1, size - len - 1);

		read_key(key);
		free(key);
	}
	json_decref(record);
	buf_release(&table);
	free(text);
	return 0;
}
