/* nvml.c - a libnvidia-ml.so.1 for tests: two GPUs, and what can go wrong, by FAKE_NVML.
 *
 * two (default), lost (the second does not answer), permission, notloaded, mismatch, mig,
 * hang (the first never answers), dead (nothing ever does), crash (the library faults),
 * shared (a module without memory of its own), garbage (names without an end, absurd
 * numbers), old (functions are missing: -DOLD); while one is measured: busy (two others
 * use it), hot (heat and power hold it back), gone (it falls off
 * the bus after a while), slice (it is known as part of a GPU only). */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int is(const char *what)
{
	const char *scene = getenv("FAKE_NVML");

	return scene && strcmp(scene, what) == 0;
}

static void hang_if(int it_does)
{
	while (it_does)
		pause();
}

int nvmlInit_v2(void)
{
	hang_if(is("dead"));
	if (is("crash"))
		abort();
	return is("notloaded") ? 9 : is("mismatch") ? 18 : 0;
}

int nvmlShutdown(void)
{
	return 0;
}

const char *nvmlErrorString(int code)
{
	switch (code) {
	case 3:
		return "Not Supported";
	case 4:
		return "Insufficient Permissions";
	case 9:
		return "Driver Not Loaded";
	case 15:
		return "GPU is lost";
	case 18:
		return "Driver/library version mismatch";
	default:
		return "Unknown Error";
	}
}

int nvmlSystemGetDriverVersion(char *out, unsigned size)
{
	strncpy(out, "580.95.05", size);
	return 0;
}

#ifndef OLD
int nvmlDeviceGetCount_v2(unsigned *n)
{
	*n = 2;
	return is("permission") ? 4 : 0;
}
#endif

int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **out)
{
	*out = (void *)(size_t)(i + 1);
	hang_if(i == 0 && is("hang"));
	return i == 1 && is("lost") ? 15 : 0;
}

static int first(void *d)
{
	return d == (void *)1;
}

int nvmlDeviceGetName(void *d, char *out, unsigned size)
{
	if (is("garbage"))
		memset(out, 0xc3, size);
	else
		strncpy(out,
			is("shared")     ? first(d) ? "NVIDIA GB10" : "Orin (nvgpu)" :
				first(d) ? "NVIDIA GeForce RTX 4090" :
					   "NVIDIA A100-SXM4-80GB",
			size);
	return 0;
}

int nvmlDeviceGetUUID(void *d, char *out, unsigned size)
{
	strncpy(out,
		first(d) ? "GPU-11111111-2222-3333-4444-555555555555" :
			   "GPU-66666666-7777-8888-9999-aaaaaaaaaaaa",
		size);
	return 0;
}

int nvmlDeviceGetPciInfo_v3(void *d, char *pci)
{
	strcpy(pci + 36, first(d) ? "00000000:01:00.0" : "00000000:41:00.0");
	return 0;
}

int nvmlDeviceGetMemoryInfo(void *d, unsigned long long *m)
{
	if (is("shared"))
		return 3;
	m[0] = is("garbage") ? ~0ull : first(d) ? 25757220864ull : 85899345920ull;
	return is("mig") && !first(d) ? 4 : 0;
}

int nvmlDeviceGetCudaComputeCapability(void *d, int *major, int *minor)
{
	*major = 8;
	*minor = first(d) ? 9 : 0;
	return 0;
}

int nvmlDeviceGetMaxClockInfo(void *d, int type, unsigned *mhz)
{
	*mhz = is("garbage") ? 0 : first(d) ? 3105 : 1410;
	return type == 1 ? 0 : 2;
}

int nvmlDeviceGetEnforcedPowerLimit(void *d, unsigned *mw)
{
	*mw = 450000;
	return first(d) ? 0 : 3;
}

/* The first has a counter of energy, at 300 W; the second only tells its 250 W of now. */
int nvmlDeviceGetTotalEnergyConsumption(void *d, unsigned long long *mj)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	*mj = 300ull *
		((unsigned long long)t.tv_sec * 1000 +
			(unsigned long long)t.tv_nsec / 1000000);
	return first(d) ? 0 : 3;
}

int nvmlDeviceGetPowerUsage(void *d, unsigned *mw)
{
	*mw = 250000;
	return first(d) || is("mig") ? 3 : 0;
}

int nvmlDeviceGetMaxPcieLinkGeneration(void *d, unsigned *gen)
{
	(void)d;
	*gen = 4;
	return 0;
}

int nvmlDeviceGetMaxPcieLinkWidth(void *d, unsigned *width)
{
	(void)d;
	*width = 16;
	return 0;
}

int nvmlDeviceGetEccMode(void *d, unsigned *current, unsigned *pending)
{
	*current = *pending = !first(d);
	return first(d) ? 3 : 0;
}

int nvmlDeviceGetMigMode(void *d, unsigned *current, unsigned *pending)
{
	*current = *pending = is("mig");
	return first(d) ? 3 : 0;
}

/* --- while it is measured: any GPU is known by its UUID -------------------------------------- */

int nvmlDeviceGetHandleByUUID(const char *uuid, void **out)
{
	*out = (void *)1;
	return strncmp(uuid, is("slice") ? "MIG-" : "GPU-", 4) == 0 ? 0 : 6;
}

int nvmlDeviceGetClockInfo(void *d, int type, unsigned *mhz)
{
	static int calls;

	(void)d;
	*mhz = 1980;
	if (is("gone") && ++calls > 2)
		return 15;
	return is("slice") ? 3 : type == 1 ? 0 : 2;
}

int nvmlDeviceGetTemperature(void *d, int sensor, unsigned *celsius)
{
	(void)d;
	*celsius = is("hot") ? 91 : 54;
	return sensor == 0 ? 0 : 2;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *d, unsigned long long *bits)
{
	(void)d;
	*bits = is("hot") ? 0x24 : 1; /* 1: idle */
	return 0;
}

struct process {
	unsigned pid;
	unsigned long long used;
	unsigned gpu_instance, compute_instance;
};

int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, struct process *out)
{
	unsigned found = is("busy") ? 3 : 1;

	(void)d;
	if (*n < found)
		return 7;
	memset(out, 0, found * sizeof *out);
	*n = found;
	out[0].pid = (unsigned)getpid();
	for (unsigned i = 1; i < found; i++)
		out[i].pid = 4000000 + i;
	return 0;
}
