/* nvml.c - NVIDIA GPUs: as NVML lists them, as CUDA lists them, and both joined. */
#include "common/hw/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/hw/cuda.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/hw/nvml_lib.h"
#include "kernels/dev/cuda_probe.h"

/* State of reading one GPU. */
struct reader {
	const struct nvml *nvml;
	const struct nvml_scene *scene;
	struct hw_causes *why;
	int gpu;
};

static void note(struct reader *r, const char *field, const char *cause)
{
	char path[64];

	snprintf(path, sizeof path, "gpus[%d].%s", r->gpu, field);
	hw_cause(r->why, path, "%s", cause);
}

/* Whether the call succeeded. If not, records its cause. */
static bool good(struct reader *r, const char *field, int code)
{
	char cause[HW_TEXT_MAX];

	if (code == NVML_SUCCESS)
		return true;
	nvml_describe(r->nvml, code, r->scene, cause, sizeof cause);
	note(r, field, cause);
	return false;
}

/* Records that this version of the library lacks the function. */
#define CALL(r, field, member, ...)                                                      \
	((r)->nvml->member ? good(r, field, (r)->nvml->member(__VA_ARGS__)) :            \
			     (note(r, field, "library: this NVML has no such function"), \
				     false))

static int positive(struct reader *r, const char *field, unsigned v)
{
	if (v == 0 || v > 1u << 30) {
		note(r, field, "driver: NVML says nothing sensible");
		return 0;
	}
	return (int)v;
}

/* Reads a mode, ECC or MIG, for which "not supported" means off. */
static int mode(struct reader *r, const char *field,
	int (*get)(nvml_device, unsigned *, unsigned *), nvml_device d)
{
	unsigned current = 0, pending = 0;
	int code = get ? get(d, &current, &pending) : NVML_NOT_SUPPORTED;

	if (code == NVML_NOT_SUPPORTED)
		return 0;
	return good(r, field, code) ? current == 1 : -1;
}

/* Keeps only printable ASCII of a name from the driver, and terminates it. */
static void tidy(char *text, size_t size)
{
	text[size - 1] = '\0';
	for (char *c = text; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
}

static void read_numbers(struct reader *r, nvml_device d, struct nvml_gpu *g)
{
	struct nvml_memory_info memory = { 0 };
	unsigned v = 0;
	int major = 0, minor = 0;

	if (CALL(r, "memory_bytes", memory, d, &memory)) {
		if (memory.total > 0 && memory.total < 1ull << 53)
			g->memory_bytes = (int64_t)memory.total;
		else
			note(r, "memory_bytes", "driver: NVML says nothing sensible");
	}
	if (CALL(r, "compute_capability", capability, d, &major, &minor))
		snprintf(g->compute_capability, sizeof g->compute_capability, "%d.%d",
			major % 100, minor % 100);
	if (CALL(r, "clock_max_mhz", clock, d, NVML_CLOCK_SM, &v))
		g->clock_max_mhz = positive(r, "clock_max_mhz", v);
	if (CALL(r, "power_limit_mw", power, d, &v))
		g->power_limit_mw = positive(r, "power_limit_mw", v);
	if (CALL(r, "pcie_gen", pcie_gen, d, &v))
		g->pcie_gen = positive(r, "pcie_gen", v);
	if (CALL(r, "pcie_width", pcie_width, d, &v))
		g->pcie_width = positive(r, "pcie_width", v);
	g->ecc = mode(r, "ecc", r->nvml->ecc, d);
	g->mig = mode(r, "mig", r->nvml->mig, d);
}

/* Reads one GPU. Returns 0, or NVML's code if the GPU does not even report its name. */
static int read_gpu(struct reader *r, unsigned index, struct nvml_gpu *g)
{
	struct nvml_pci_info pci;
	nvml_device d = NULL;
	int code = r->nvml->handle(index, &d);

	memset(g, 0, sizeof *g);
	memset(&pci, 0, sizeof pci);
	if (code == NVML_SUCCESS)
		code = r->nvml->name(d, g->model, sizeof g->model);
	if (code != NVML_SUCCESS)
		return code;
	tidy(g->model, sizeof g->model);
	if (CALL(r, "uuid", uuid, d, g->uuid, sizeof g->uuid))
		tidy(g->uuid, sizeof g->uuid);
	else
		g->uuid[0] = '\0';
	if (r->nvml->pci && r->nvml->pci(d, &pci) == NVML_SUCCESS)
		snprintf(g->pci, sizeof g->pci, "%.31s", pci.id);
	tidy(g->pci, sizeof g->pci);
	read_numbers(r, d, g);
	return 0;
}

static int read_all(const struct nvml *n, const struct nvml_scene *s,
	struct nvml_gpu *out, int max, struct hw_causes *why)
{
	struct reader r = { n, s, why, 0 };
	char driver[80] = "", cause[HW_TEXT_MAX];
	unsigned count = 0;
	int code = n->count(&count);

	if (code != NVML_SUCCESS) {
		nvml_describe(n, code, s, cause, sizeof cause);
		hw_cause(why, "gpus", "%s", cause);
		return -1;
	}
	if (n->driver && n->driver(driver, sizeof driver) != NVML_SUCCESS)
		driver[0] = '\0';
	tidy(driver, sizeof driver);
	for (unsigned i = 0; i < count && r.gpu < max; i++) {
		code = read_gpu(&r, i, &out[r.gpu]);
		if (code == NVML_SUCCESS) {
			memcpy(out[r.gpu].driver, driver, sizeof driver);
			r.gpu++;
			continue;
		}
		nvml_describe(n, code, s, cause, sizeof cause);
		hw_cause(why, "gpus", "GPU %u of %u: %.200s", i + 1, count, cause);
	}
	return r.gpu;
}

/* --- CUDA -------------------------------------------------------------------------------- */

/* Compares PCI addresses without leading zeros: NVML writes domains with 8 digits, CUDA with 4. */
static bool same_pci(const char *a, const char *b)
{
	a += strspn(a, "0");
	b += strspn(b, "0");
	return *a && strcasecmp(a, b) == 0;
}

/* Lists the GPUs that CUDA sees. Returns how many, or -1 with the cause in why. */
static int probe(struct cuda_probe_gpu *out, int max, char *why, int size)
{
	cuda_probe_fn fn = (cuda_probe_fn)cuda_symbol("rnp_cuda_probe");
	int n;

	if (!fn) {
		snprintf(why, (size_t)size, "%.250s", err_get()->text);
		err_clear();
		return -1;
	}
	why[0] = '\0';
	n = fn(CUDA_PROBE_VERSION, out, max, why, size);
	return n < max ? n : max;
}

static const struct cuda_probe_gpu *find_same(const struct cuda_probe_gpu *gpus, int n,
	const struct nvml_gpu *g)
{
	char uuid[NVML_UUID_MAX];

	for (int i = 0; i < n; i++) {
		nvml_uuid_text(uuid, gpus[i].uuid);
		if (strcasecmp(uuid, g->uuid) == 0 || same_pci(gpus[i].pci, g->pci))
			return &gpus[i];
	}
	return NULL;
}

/* Adds the number of multiprocessors, which NVML does not report. */
static void join(struct nvml_gpu *g, int index, const struct cuda_probe_gpu *cuda, int n,
	const char *why_not, struct hw_causes *why)
{
	const struct cuda_probe_gpu *same = n > 0 ? find_same(cuda, n, g) : NULL;
	char field[32];

	snprintf(field, sizeof field, "gpus[%d].sm_count", index);
	if (g->mig == 1)
		hw_cause(why, field, "multi-instance mode: CUDA sees slices only");
	else if (same)
		g->sm_count = same->sm_count;
	else if (n < 0)
		hw_cause(why, field, "%s", why_not);
	else
		hw_cause(why, field,
			"CUDA does not see this GPU (CUDA_VISIBLE_DEVICES?)");
}

/* Without NVML (WSL, some containers) there is only CUDA's list. */
static void from_cuda(struct nvml_gpu *g, const struct cuda_probe_gpu *c, int index,
	const char *cause, struct hw_causes *why)
{
	static const char *const lost[] = { "driver", "power_limit_mw", "pcie_gen",
		"pcie_width", "mig" };
	char uuid[NVML_UUID_MAX];

	memset(g, 0, sizeof *g);
	snprintf(g->model, sizeof g->model, "%.95s", c->model);
	tidy(g->model, sizeof g->model);
	nvml_uuid_text(uuid, c->uuid);
	snprintf(g->uuid, sizeof g->uuid, "%s", uuid);
	snprintf(g->pci, sizeof g->pci, "%.31s", c->pci);
	g->memory_bytes = c->memory_bytes;
	snprintf(g->compute_capability, sizeof g->compute_capability, "%d.%d",
		c->capability_major % 100, c->capability_minor % 100);
	g->sm_count = c->sm_count;
	g->clock_max_mhz = c->clock_max_mhz;
	g->ecc = c->ecc;
	g->mig = -1;
	for (size_t i = 0; i < sizeof lost / sizeof *lost; i++) {
		char field[64];

		snprintf(field, sizeof field, "gpus[%d].%s", index, lost[i]);
		hw_cause(why, field, "%s", cause);
	}
}

/* --- both -------------------------------------------------------------------------------- */

/* Lists NVML's GPUs. Returns how many, or -1 with the cause in text (not yet noted) or already in
 * why. */
static int by_nvml(struct nvml_gpu *out, int max, const struct nvml_scene *s,
	struct hw_causes *why, char *text, size_t size)
{
	struct nvml n;
	int found, code;

	if (nvml_lib_open(&n) < 0) {
		snprintf(text, size, "%.160s%s", err_get()->text,
			s->container && s->driver_loaded ?
				"; this container is not given the driver's libraries" :
				"");
		err_clear();
		return -1;
	}
	code = n.init();
	if (code == NVML_SUCCESS) {
		struct hw_causes notes = *why;

		found = read_all(&n, s, out, max, &notes);
		n.shutdown();
		if (found < 0)
			snprintf(text, size, "%s", notes.at[notes.n - 1].cause);
		else
			*why = notes;
	} else {
		nvml_describe(&n, code, s, text, size);
		found = -1;
	}
	dlclose(n.library);
	return found;
}

int nvml_read(struct nvml_gpu *out, int max, struct hw_causes *why)
{
	struct cuda_probe_gpu *cuda = xcalloc(NVML_GPUS_MAX, sizeof *cuda);
	char no_nvml[HW_TEXT_MAX] = "", no_cuda[HW_TEXT_MAX] = "";
	struct nvml_scene s;
	int n, seen = -1;

	nvml_look_around(&s);
	n = by_nvml(out, max, &s, why, no_nvml, sizeof no_nvml);
	if (n > 0 || s.nodes_there || s.pci_gpus > 0)
		seen = probe(cuda, NVML_GPUS_MAX, no_cuda, sizeof no_cuda);
	for (int i = 0; i < n; i++)
		join(&out[i], i, cuda, seen, no_cuda, why);
	if (n < 0 && seen > 0)
		for (n = 0; n < seen && n < max; n++)
			from_cuda(&out[n], &cuda[n], n, no_nvml, why);
	free(cuda);
	/* without library, device on the bus and driver it is known that there is no GPU */
	if (n < 0 && s.pci_gpus == 0 && !s.driver_loaded && !s.nodes_there)
		return 0;
	if (n < 0)
		hw_cause(why, "gpus", "%s", no_nvml);
	return n;
}
