/* open.c - opens devices by name, and closes them. */
#include "kernels/dev/dev.h"

#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "kernels/dev/plugin.h"

static int open_cuda(struct dev *d, int n)
{
	dev_cuda_open_fn open;
	char why[300];

	*(void **)&open = plugin_symbol(DEV_CUDA_OPEN, why, sizeof why);
	if (!open)
		return dev_fail(d, EX_UNAVAILABLE, "cuda:%d: %s", n, why);
	return open(DEV_VERSION, d, n);
}

static int open_chosen_cpu(struct dev *d)
{
	enum cpu_level level;

	if (cpu_level_chosen(&level) < 0)
		return dev_fail(d, EX_UNAVAILABLE,
			"RNP_ISA: no '%s' on this CPU (ref, avx2, avx512; the best here is %s)",
			getenv("RNP_ISA"), cpu_level_names[cpu_level_best()]);
	return dev_open_cpu(d, level);
}

int dev_cuda_count(struct dev *d)
{
	dev_cuda_count_fn count;
	char why[300];

	*d = (struct dev)DEV_INIT;
	*(void **)&count = plugin_symbol(DEV_CUDA_COUNT, why, sizeof why);
	if (!count)
		return dev_fail(d, EX_UNAVAILABLE, "cuda: %s", why);
	return count(DEV_VERSION, d);
}

/* "cuda" or "cuda:N": returns 0, 1, ... ; -1: neither. */
static int cuda_number(const char *spec)
{
	char *end;
	long n;

	if (strcmp(spec, "cuda") == 0)
		return 0;
	if (strncmp(spec, "cuda:", 5) != 0 || spec[5] < '0' || spec[5] > '9')
		return -1;
	n = strtol(spec + 5, &end, 10);
	return *end || n > 1023 ? -1 : (int)n;
}

/* Whether a GPU was to be expected: NVIDIA's driver is present (under WSL it is dxg), or the
 * plug-in was named. */
static bool gpu_expected(void)
{
	char why[8];

	return access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0 ||
		(getenv("RNP_CUDA_PLUGIN") &&
			plugin_symbol(DEV_CUDA_OPEN, why, sizeof why));
}

/* Opens the CPU instead of the GPU whose error d holds. */
static int open_instead(struct dev *d)
{
	char why[sizeof d->error];

	memcpy(why, d->error, sizeof why);
	if (open_chosen_cpu(d) < 0)
		return -1;
	if (gpu_expected())
		snprintf(d->note, sizeof d->note, "%.220s: using the CPU", why);
	return 0;
}

int dev_open(struct dev *d, const char *spec)
{
	int n;

	*d = (struct dev)DEV_INIT;
	if (!spec || !*spec)
		spec = getenv("RNP_DEVICE");
	if (!spec || !*spec)
		spec = "auto";
	if (strcmp(spec, "cpu") == 0)
		return open_chosen_cpu(d);
	if (strcmp(spec, "auto") == 0)
		return open_cuda(d, 0) == 0 ? 0 : open_instead(d);
	n = cuda_number(spec);
	if (n < 0)
		return dev_fail(d, EX_USAGE,
			"no such device '%.40s' (auto, cpu, cuda or cuda:N)", spec);
	return open_cuda(d, n);
}

void dev_close(struct dev *d)
{
	if (d->ops)
		d->ops->close(d);
	d->ops = NULL;
	d->state = NULL;
}
