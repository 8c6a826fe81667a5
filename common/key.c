#include "common/key.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "common/base58.h"
#include "common/err.h"

void key_release(struct key *k)
{
	sodium_free(k->secret);
	*k = (struct key)KEY_INIT;
}

void key_address(const unsigned char public_key[KEY_PUBLIC_BYTES],
	char out[KEY_ADDRESS_MAX])
{
	base58_encode(out, public_key, KEY_PUBLIC_BYTES);
}

int key_parse_address(const char *text, const char *what,
	unsigned char public_key[KEY_PUBLIC_BYTES])
{
	if (strlen(text) >= KEY_ADDRESS_MAX ||
		base58_decode(public_key, KEY_PUBLIC_BYTES, text) != KEY_PUBLIC_BYTES)
		return err_set(EX_DATAERR,
			"%s: '%.60s' is not a base58 address of 32 bytes", what, text);
	return 0;
}
