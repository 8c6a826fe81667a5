/* fuzz_key.c - fuzz target: key files, files of market keys, addresses and did:key from
 * strangers.
 *
 * It checks that a file gives a complete key or an error, that a market's key is one word that
 * can stand in a header, and that an address or a DID is accepted in one form only, the one that
 * we write. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/record/key.h"
#include "common/base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

static void check_text(const char *text)
{
	unsigned char public_key[KEY_PUBLIC_BYTES];
	char address[KEY_ADDRESS_MAX], did[KEY_DID_MAX];

	if (address_parse(text, "fuzz", public_key) == 0) {
		address_format(public_key, address);
		must(strcmp(address, text) == 0);
	}
	if (key_parse_did(text, "fuzz", public_key) == 0) {
		key_did(public_key, did);
		must(strcmp(did, text) == 0);
	}
}

/* A key is whole and has no byte that would end its header. */
static void check_token(const char *text, size_t size)
{
	size_t n = key_token_length(text, size);

	must(n <= size);
	for (size_t i = 0; i < n; i++)
		must(text[i] > ' ' && text[i] <= '~');
	for (size_t i = n; i < size && n; i++)
		must(text[i] == ' ' || text[i] == '\r' || text[i] == '\n');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct key k = KEY_INIT;
	char *text = xstrndup((const char *)data, size);
	int rc = key_from_text(&k, (const char *)data, size, "fuzz", NULL);

	must((rc == 0) == (k.secret != NULL));
	must(rc == 0 || err_get()->code == EX_DATAERR || err_get()->code == EX_NOPERM);
	err_clear();
	key_release(&k);
	check_text(text);
	check_token((const char *)data, size);
	err_clear();
	free(text);
	return 0;
}
