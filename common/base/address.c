/* address.c - addresses: 32 bytes to base58 and back, in one form only. */
#include "common/base/address.h"

#include <string.h>

#include "common/base/base58.h"
#include "common/base/err.h"

void address_format(const unsigned char bytes[ADDRESS_BYTES], char out[ADDRESS_MAX])
{
	base58_encode(out, bytes, ADDRESS_BYTES);
}

int address_parse(const char *text, const char *what, unsigned char bytes[ADDRESS_BYTES])
{
	if (strlen(text) >= ADDRESS_MAX ||
		base58_decode(bytes, ADDRESS_BYTES, text) != ADDRESS_BYTES)
		return err_set(EX_DATAERR,
			"%s: '%.60s' is not a base58 address of 32 bytes", what, text);
	return 0;
}
