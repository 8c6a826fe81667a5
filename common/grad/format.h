/* format.h - the byte layout of a container, for the modules of common/grad only. Uses
 * libsodium. */
#ifndef RNP_COMMON_GRAD_FORMAT_H
#define RNP_COMMON_GRAD_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#include "common/grad/grad.h"

#define GRAD_STEP_BYTES   20
#define GRAD_LENGTH_BYTES 3
#define GRAD_END_BYTES    12 /* length and "GPNR" */

void grad_put32(unsigned char *to, uint32_t v);
void grad_put64(unsigned char *to, uint64_t v);
uint32_t grad_get32(const unsigned char *from);
uint64_t grad_get64(const unsigned char *from);

void grad_step_write(unsigned char out[GRAD_STEP_BYTES], const struct quant_step *s);
/* Returns 0, or -1 (EX_DATAERR): a value is not finite or negative. */
int grad_step_read(struct quant_step *s, const unsigned char in[GRAD_STEP_BYTES]);

#endif
