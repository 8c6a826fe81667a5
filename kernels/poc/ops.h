/* ops.h - the operations of proof of compute: the table `poc` of a device.
 *
 * Reached as d->ops->poc. The rules of dev.h hold; formulas are in the header of each kernel. */
#ifndef RNP_KERNELS_POC_OPS_H
#define RNP_KERNELS_POC_OPS_H

#include "kernels/dev/ops.h"
#include "kernels/poc/int8.h"
#include "kernels/poc/memfill.h"
#include "kernels/crypto/sha256_rows.h"

/* memfill fills all lanes of a step. */
#define POC_OPS(OP, t)                                                              \
	OP(t, sha256,                                                               \
		(struct dev * d, unsigned char *out, const struct sha256_rows *in), \
		(d, out, in))                                                       \
	OP(t, memfill, (struct dev * d, const struct memfill *m), (d, m))           \
	OP(t, balance, (struct dev * d, int8_t * x, uint64_t count), (d, x, count)) \
	OP(t, mix, (struct dev * d, int8_t * out, const struct int8_mix *m), (d, out, m))

struct poc_ops {
	POC_OPS(DEV_SLOT, poc)
};

#endif
