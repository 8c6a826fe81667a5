/* gpuwatch.c - one GPU during a measurement, as NVML reports it. */
#include "common/hw/gpuwatch.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/hw/nvml_lib.h"

#define PROCESSES_MAX 64
#define CELSIUS       0 /* NVML_TEMPERATURE_GPU */

struct gpuwatch {
	struct nvml nvml;
	struct nvml_scene scene;
	nvml_device device;
};

static int failed(const struct gpuwatch *w, int code)
{
	char text[256];

	nvml_describe(&w->nvml, code, &w->scene, text, sizeof text);
	return err_set(EX_UNAVAILABLE, "%s", text);
}

static int find(struct gpuwatch *w, const unsigned char uuid[16])
{
	char text[NVML_UUID_MAX], slice[NVML_UUID_MAX];
	int code;

	if (!w->nvml.by_uuid)
		return err_set(EX_UNAVAILABLE,
			"library: this NVML has no nvmlDeviceGetHandleByUUID");
	nvml_uuid_text(text, uuid);
	code = w->nvml.by_uuid(text, &w->device);
	if (code == NVML_SUCCESS)
		return 0;
	/* to CUDA a slice of a GPU has a UUID of its own */
	snprintf(slice, sizeof slice, "MIG-%s", text + strlen("GPU-"));
	if (code == NVML_NOT_FOUND && w->nvml.by_uuid(slice, &w->device) == NVML_SUCCESS)
		return 0;
	return failed(w, code);
}

struct gpuwatch *gpuwatch_open(const unsigned char uuid[16])
{
	struct gpuwatch *w = xcalloc(1, sizeof *w);
	int code;

	nvml_look_around(&w->scene);
	if (nvml_lib_open(&w->nvml) < 0) {
		free(w);
		return NULL;
	}
	code = w->nvml.init();
	if (code != NVML_SUCCESS) {
		failed(w, code);
		dlclose(w->nvml.library);
		free(w);
		return NULL;
	}
	if (find(w, uuid) < 0) {
		gpuwatch_close(w);
		return NULL;
	}
	return w;
}

void gpuwatch_close(struct gpuwatch *w)
{
	if (!w)
		return;
	w->nvml.shutdown();
	dlclose(w->nvml.library);
	free(w);
}

/* Counts the other processes that compute there; those of another container have no process id. */
static int count_others(const struct gpuwatch *w)
{
	struct nvml_process all[PROCESSES_MAX];
	unsigned n = PROCESSES_MAX, others = 0;
	int code = w->nvml.processes ? w->nvml.processes(w->device, &n, all) :
				       NVML_NOT_SUPPORTED;

	if (code == NVML_INSUFFICIENT_SIZE)
		return PROCESSES_MAX;
	if (code != NVML_SUCCESS)
		return -1;
	for (unsigned i = 0; i < n && i < PROCESSES_MAX; i++)
		others += all[i].pid != (unsigned)getpid();
	return (int)others;
}

int gpuwatch_read(struct gpuwatch *w, struct gpuwatch_reading *out)
{
	const struct nvml *n = &w->nvml;
	unsigned long long bits = 0;
	unsigned v = 0;
	int code = n->clock_now ? n->clock_now(w->device, NVML_CLOCK_SM, &v) :
				  NVML_NOT_SUPPORTED;

	*out = (struct gpuwatch_reading){ 0, -1, -1, 0 };
	if (code == NVML_GPU_IS_LOST)
		return failed(w, code);
	if (code == NVML_SUCCESS && v > 0 && v < 100000)
		out->clock_mhz = (int)v;
	if (n->temperature && n->temperature(w->device, CELSIUS, &v) == NVML_SUCCESS &&
		v < 1000)
		out->temperature_c = (int)v;
	if (n->throttle && n->throttle(w->device, &bits) == NVML_SUCCESS)
		out->held_back = bits & GPUWATCH_ALL;
	out->others = count_others(w);
	return 0;
}

void gpuwatch_text(uint64_t held_back, char *out, int size)
{
	static const struct {
		uint64_t bits;
		const char *text;
	} causes[] = { { GPUWATCH_POWER, "power limit" },
		{ GPUWATCH_SLOWDOWN, "hardware slowdown" }, { GPUWATCH_THERMAL, "heat" },
		{ GPUWATCH_BRAKE, "power brake" } };
	int len = 0;

	out[0] = '\0';
	for (size_t i = 0; i < sizeof causes / sizeof *causes && len < size; i++)
		if (held_back & causes[i].bits)
			len += snprintf(out + len, (size_t)(size - len), "%s%s",
				len ? ", " : "", causes[i].text);
}
