/* address.h - the address of a node or wallet: base58btc of 32 bytes, as in Solana.
 *
 * Pure. Uses base58, err. */
#ifndef RNP_COMMON_BASE_ADDRESS_H
#define RNP_COMMON_BASE_ADDRESS_H

#define ADDRESS_BYTES 32
#define ADDRESS_MAX   45 /* base58 of 32 bytes and the NUL */

/* Writes the address of 32 bytes and a NUL. */
void address_format(const unsigned char bytes[ADDRESS_BYTES], char out[ADDRESS_MAX]);

/* Reads an address; what names the value in the error. Accepts only base58 of exactly 32 bytes;
 * whether they are a point of the curve shows when a signature is verified. Returns 0, or -1
 * with EX_DATAERR. */
int address_parse(const char *text, const char *what, unsigned char bytes[ADDRESS_BYTES]);

#endif
