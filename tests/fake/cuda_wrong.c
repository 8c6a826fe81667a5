/* cuda_wrong.c - a librnp_cuda.so for tests: that of WRONG_CUDA_PLUGIN with a GPU that is
 * broken. WRONG_CUDA: "bytes", the last byte that comes back from the GPU is another one;
 * "second", GPU 1 has fallen off the bus; "", all have. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "kernels/dev/dev.h"

static int (*get)(struct dev *d, void *host, const void *from, uint64_t bytes);
static struct dev_ops broken;

static void *real(const char *name)
{
	static void *plugin;

	if (!plugin)
		plugin = dlopen(getenv("WRONG_CUDA_PLUGIN"), RTLD_NOW);
	return plugin ? dlsym(plugin, name) : NULL;
}

static int wrong_get(struct dev *d, void *host, const void *from, uint64_t bytes)
{
	int rc = get(d, host, from, bytes);

	((unsigned char *)host)[bytes - 1] ^= 0x80;
	return rc;
}

int rnp_cuda_open(int version, struct dev *d, int n)
{
	const char *what = getenv("WRONG_CUDA");
	dev_cuda_open_fn open;

	*(void **)&open = real(DEV_CUDA_OPEN);
	if (!open || !what)
		return dev_fail(d, EX_SOFTWARE, "cuda_wrong: no plug-in or no scene");
	if (!*what)
		return dev_fail(d, EX_UNAVAILABLE, "cuda:%d: GPU has fallen off the bus",
			n);
	if (n == 1 && strcmp(what, "second") == 0)
		return dev_fail(d, EX_UNAVAILABLE, "cuda:1: GPU is lost");
	if (open(version, d, n) < 0)
		return -1;
	broken = *d->ops;
	get = broken.get;
	if (strcmp(what, "bytes") == 0)
		broken.get = wrong_get;
	d->ops = &broken;
	return 0;
}

int rnp_cuda_count(int version, struct dev *d)
{
	dev_cuda_count_fn count;

	*(void **)&count = real(DEV_CUDA_COUNT);
	return count ? count(version, d) : -1;
}
