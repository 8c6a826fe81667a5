/* cuda.c - the CUDA plug-in: opened once, its functions by name. */
#include "common/hw/cuda.h"

#include "common/base/err.h"
#include "kernels/dev/plugin.h"

void *cuda_symbol(const char *name)
{
	char why[300];
	void *symbol = plugin_symbol(name, why, sizeof why);

	if (!symbol)
		err_set(EX_UNAVAILABLE, "CUDA plug-in: %s", why);
	return symbol;
}
