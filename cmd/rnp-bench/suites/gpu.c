/* gpu.c - opens the GPU to be measured, and reads its clock, temperature and users through
 * NVML. */
#include "cmd/rnp-bench/suites/gpu.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/hw/device.h"
#include "common/hw/gpuwatch.h"
#include "common/hw/nvml_lib.h"
#include "kernels/dev/plugin.h"

/* NVML takes some milliseconds to answer: calling it after each sample would let the GPU idle. */
#define WATCH_EVERY_NS INT64_C(100000000)

static struct {
	struct dev dev, other;
	struct gpuwatch *watch;
	char unwatched[256]; /* why run conditions are unknown */
	struct run_conditions seen;
	uint64_t held_back;
	int64_t read_ns;
	double mhz;
} gpu;

bool gpu_is(const struct dev *d)
{
	return strncmp(d->name, "cuda", 4) == 0;
}

int gpu_wrong(const struct dev *d, const char *fmt, ...)
{
	char what[300];
	va_list args;

	va_start(args, fmt);
	vsnprintf(what, sizeof what, fmt, args);
	va_end(args);
	err_set(EX_IOERR, "%s: %s", d->name, what);
	return err_hint(
		"a faulty GPU, link or driver, unless build/kcheck finds fault with our kernels, too");
}

/* Finds out what a person can do about it, which CUDA's error does not say. */
static int explain(const char *what)
{
	struct nvml_scene s;
	char why[300];

	nvml_look_around(&s);
	if (s.nodes_closed)
		return err_set(EX_NOPERM,
			"%s; permission: this user may not open /dev/nvidiactl", what);
	if (s.container && s.driver_loaded && !s.nodes_there)
		return err_set(EX_UNAVAILABLE,
			"%s; container: it is not given the GPU's device files", what);
	if (!s.driver_loaded && s.pci_gpus > 0)
		return err_set(EX_UNAVAILABLE,
			"%s; driver: a GPU is on the bus, its driver is not loaded",
			what);
	if (!s.driver_loaded && !s.nodes_there)
		return err_set(EX_UNAVAILABLE, "%s; no GPU and no driver are here", what);
	if (!plugin_symbol(DEV_CUDA_OPEN, why, sizeof why))
		return err_set(EX_UNAVAILABLE,
			"%s; the driver is here, our CUDA plug-in is not: build it with nvcc",
			what);
	return err_set(EX_UNAVAILABLE, "%s", what);
}

/* Returns "cuda:N" of the device asked for; NULL: it is not one of CUDA's. */
static const char *spec_of(const struct settings *s)
{
	const char *spec = s->device;

	if (!spec || !*spec)
		spec = getenv("RNP_DEVICE");
	if (!spec || !*spec || strcmp(spec, "auto") == 0)
		return "cuda:0";
	return strcmp(spec, "cpu") == 0 ? NULL : spec;
}

struct dev *gpu_open(const struct settings *s)
{
	const char *spec = spec_of(s);

	if (gpu.dev.ops)
		return &gpu.dev;
	if (!spec) {
		err_set(EX_UNAVAILABLE, "it needs a GPU, the device asked for is 'cpu'");
		return NULL;
	}
	if (device_open(&gpu.dev, spec) < 0) {
		if (gpu.dev.code == EX_UNAVAILABLE || gpu.dev.code == EX_NOPERM)
			explain(gpu.dev.error);
		return NULL;
	}
	gpu.watch = gpuwatch_open(gpu.dev.uuid);
	gpu.unwatched[0] = '\0';
	if (!gpu.watch)
		snprintf(gpu.unwatched, sizeof gpu.unwatched, "%.255s", err_get()->text);
	err_clear();
	return &gpu.dev;
}

struct dev *gpu_open_other(const struct settings *s, bool *none)
{
	struct dev counting;
	char spec[16];
	int n;

	*none = false;
	if (!gpu_open(s))
		return NULL;
	if (gpu.other.ops)
		return &gpu.other;
	n = dev_cuda_count(&counting);
	if (n < 0) {
		device_failed(&counting);
		return NULL;
	}
	if (n < 2) {
		*none = true;
		err_set(EX_UNAVAILABLE, "there is no second GPU");
		return NULL;
	}
	snprintf(spec, sizeof spec, "cuda:%d", strcmp(gpu.dev.name, "cuda:0") == 0);
	return device_open(&gpu.other, spec) < 0 ? NULL : &gpu.other;
}

void gpu_close(void)
{
	dev_close(&gpu.other);
	dev_close(&gpu.dev);
	gpuwatch_close(gpu.watch);
	memset(&gpu, 0, sizeof gpu);
}

const char *gpu_model(void)
{
	return gpu.dev.ops ? gpu.dev.model : "";
}

/* --- watching ------------------------------------------------------------------------------ */

static void begin(void)
{
	gpu.seen = (struct run_conditions)RUN_CONDITIONS_INIT;
	snprintf(gpu.seen.unknown, sizeof gpu.seen.unknown, "%.255s", gpu.unwatched);
	gpu.held_back = 0;
	gpu.read_ns = 0;
	gpu.mhz = 0;
}

static int look(double *mhz)
{
	struct gpuwatch_reading r;
	int64_t now = clock_mono_ns();

	*mhz = gpu.mhz;
	if (!gpu.watch || (gpu.read_ns && now - gpu.read_ns < WATCH_EVERY_NS))
		return 0;
	if (gpuwatch_read(gpu.watch, &r) < 0)
		return err_add("%s", gpu.dev.name);
	gpu.read_ns = now;
	*mhz = gpu.mhz = r.clock_mhz;
	gpu.held_back |= r.held_back;
	if (r.temperature_c > gpu.seen.temperature_c)
		gpu.seen.temperature_c = r.temperature_c;
	if (r.others > gpu.seen.others)
		gpu.seen.others = r.others;
	if (!r.clock_mhz)
		snprintf(gpu.seen.unknown, sizeof gpu.seen.unknown,
			"NVML does not tell it for this GPU");
	return 0;
}

static void end(struct run_conditions *out)
{
	*out = gpu.seen;
	out->throttled = gpu.held_back != 0;
	gpuwatch_text(gpu.held_back, out->cause, sizeof out->cause);
}

const struct watch gpu_watch = { begin, look, end };
