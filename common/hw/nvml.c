/* nvml.c - NVIDIA GPUs: as NVML lists them, as CUDA lists them, and both joined. */
#include "common/hw/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/hw/apart.h"
#include "common/hw/cuda.h"
#include "common/base/err.h"
#include "common/hw/nvml_lib.h"
#include "kernels/backend/cuda_probe.h"

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

/* Whether a module of this name has no memory but the processor's: a DGX Spark, a Jetson. */
static bool shares_memory(const char *model)
{
	static const char *const names[] = { "GB10", "nvgpu", "Orin", "Thor", "Xavier",
		NULL };

	for (int i = 0; names[i]; i++)
		if (strstr(model, names[i]))
			return true;
	return false;
}

static void read_memory(struct reader *r, nvml_device d, struct nvml_gpu *g)
{
	struct nvml_memory_info memory = { 0 };
	struct hw_causes none = { .n = 0 };

	if (shares_memory(g->model) &&
		(!r->nvml->memory || r->nvml->memory(d, &memory) != NVML_SUCCESS ||
			!memory.total)) {
		g->memory_bytes = hw_memory_read(&none);
		if (!g->memory_bytes)
			note(r, "memory_bytes", none.at[0].cause);
		return;
	}
	if (CALL(r, "memory_bytes", memory, d, &memory)) {
		if (memory.total > 0 && memory.total < 1ull << 53)
			g->memory_bytes = (int64_t)memory.total;
		else
			note(r, "memory_bytes", "driver: NVML says nothing sensible");
	}
}

static void read_numbers(struct reader *r, nvml_device d, struct nvml_gpu *g)
{
	unsigned v = 0;
	int major = 0, minor = 0;

	read_memory(r, d, g);
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
	snprintf(g->vendor, sizeof g->vendor, "NVIDIA");
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

/* What the child that asks NVML tells, see apart.h. */
struct asked {
	const struct nvml_scene *scene;
	unsigned from;        /* the first GPU that it asks for */
	unsigned count;       /* of the driver; 0: not known yet */
	unsigned at;          /* the one it asks for now */
	int n;                /* of out that are whole */
	struct hw_causes why; /* of these, and of those that are left out */
	bool failed;          /* text says why there is none */
	char text[HW_TEXT_MAX];
	struct nvml_gpu out[NVML_GPUS_MAX];
};

static void ask_one(struct asked *a, const struct nvml *nvml, const char *driver)
{
	struct hw_causes why = a->why;
	struct reader r = { nvml, a->scene, &why, a->n };
	char cause[HW_TEXT_MAX];
	int code = read_gpu(&r, a->at, &a->out[a->n]);

	if (code == NVML_SUCCESS) {
		a->out[a->n].slot = (int)a->at;
		snprintf(a->out[a->n].driver, sizeof a->out->driver, "%s", driver);
		a->why = why;
		a->n++;
		return;
	}
	nvml_describe(nvml, code, a->scene, cause, sizeof cause);
	hw_cause(&a->why, "gpus", "GPU %u of %u: %.200s", a->at + 1, a->count, cause);
}

static void ask_all(struct asked *a, const struct nvml *nvml)
{
	char driver[80] = "";
	unsigned count = 0;
	int code = nvml->count(&count);

	if (code != NVML_SUCCESS) {
		nvml_describe(nvml, code, a->scene, a->text, sizeof a->text);
		a->failed = true;
		return;
	}
	if (nvml->driver && nvml->driver(driver, sizeof driver) != NVML_SUCCESS)
		driver[0] = '\0';
	tidy(driver, sizeof driver);
	a->count = count;
	for (a->at = a->from; a->at < count && a->n < NVML_GPUS_MAX; a->at++) {
		apart_beat();
		ask_one(a, nvml, driver);
	}
}

static void ask_nvml(void *shared)
{
	struct asked *a = shared;
	struct nvml nvml;
	int code;

	if (nvml_lib_open(&nvml) < 0) {
		snprintf(a->text, sizeof a->text, "%.160s%s", err_get()->text,
			a->scene->container && a->scene->driver_loaded ?
				"; this container is not given the driver's libraries" :
				"");
		err_clear();
		a->failed = true;
		return;
	}
	code = nvml.init();
	if (code == NVML_SUCCESS) {
		ask_all(a, &nvml);
		nvml.shutdown();
	} else {
		nvml_describe(&nvml, code, a->scene, a->text, sizeof a->text);
		a->failed = true;
	}
	dlclose(nvml.library);
}

/* --- CUDA -------------------------------------------------------------------------------- */

/* Compares PCI addresses without leading zeros: NVML writes domains with 8 digits, CUDA with 4. */
static bool same_pci(const char *a, const char *b)
{
	a += strspn(a, "0");
	b += strspn(b, "0");
	return *a && strcasecmp(a, b) == 0;
}

/* What the child that asks CUDA tells. */
struct probed {
	int n; /* -1: why says why not */
	char why[HW_TEXT_MAX];
	struct cuda_probe_gpu out[NVML_GPUS_MAX];
};

static void ask_cuda(void *shared)
{
	struct probed *p = shared;
	cuda_probe_fn fn = (cuda_probe_fn)cuda_symbol("rnp_cuda_probe");

	if (!fn) {
		snprintf(p->why, sizeof p->why, "%.250s", err_get()->text);
		err_clear();
		p->n = -1;
		return;
	}
	p->n = fn(CUDA_PROBE_VERSION, p->out, NVML_GPUS_MAX, p->why, sizeof p->why);
	if (p->n > NVML_GPUS_MAX)
		p->n = NVML_GPUS_MAX;
}

/* Lists the GPUs that CUDA sees; p->n: how many, or -1 with the cause. CUDA starts on all GPUs
 * first, seconds each. */
static void probe(struct probed *p, int gpus)
{
	enum apart how = apart_run(ask_cuda, p, APART_BOUND_MS * (2 + gpus), 0);

	if (how == APART_DONE)
		return;
	p->n = -1;
	snprintf(p->why, sizeof p->why, "driver: CUDA %s",
		how == APART_HANGS ? "does not answer" : apart_text(how));
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
	snprintf(g->vendor, sizeof g->vendor, "NVIDIA");
	snprintf(g->model, sizeof g->model, "%.95s", c->model);
	tidy(g->model, sizeof g->model);
	nvml_uuid_text(uuid, c->uuid);
	snprintf(g->uuid, sizeof g->uuid, "%s", uuid);
	snprintf(g->pci, sizeof g->pci, "%.31s", c->pci);
	g->memory_bytes = c->memory_bytes;
	snprintf(g->compute_capability, sizeof g->compute_capability, "%d.%d",
		c->capability_major % 100, c->capability_minor % 100);
	g->slot = index;
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

/* Asks NVML, again for the GPUs behind one that hangs. Returns how many answer, or -1; *hangs:
 * something did not return. */
static int by_nvml(struct asked *a, bool *hangs)
{
	enum apart how;
	int tries = 0;

	do {
		/* the first call wakes all GPUs, a second or two each */
		how = apart_run(ask_nvml, a,
			APART_BOUND_MS +
				2000 *
					(a->scene->pci_gpus > 1 ? a->scene->pci_gpus - 1 :
								  0),
			APART_BOUND_MS);
		if (how == APART_DONE)
			break;
		*hangs = true;
		/* without an answer for any it is the driver, and it is not asked again */
		if (a->at < a->from || !a->count || a->failed ||
			(tries && a->at == a->from))
			break;
		hw_cause(&a->why, "gpus", "GPU %u of %u: driver: NVML %s", a->at + 1,
			a->count, apart_text(how));
		a->from = a->at + 1;
	} while (++tries < 3 && a->from < a->count);
	if (how != APART_DONE && a->from < a->count && !a->failed)
		hw_cause(&a->why, "gpus",
			"GPU %u to %u of %u: not read, as NVML did not answer",
			a->from + 1, a->count, a->count);
	if (how != APART_DONE && !a->count) {
		snprintf(a->text, sizeof a->text, "driver: NVML %s", apart_text(how));
		a->failed = true;
	}
	/* none answers, but there are some */
	return a->failed || (!a->n && a->count) ? -1 : a->n;
}

/* Joins both lists into out. Returns how many, or -1. */
static int join_all(struct nvml_gpu *out, int max, struct asked *a, struct probed *p,
	struct hw_causes *why)
{
	const struct nvml_scene *s = a->scene;
	bool hangs = false;
	int n = by_nvml(a, &hangs);

	*why = a->why;
	p->n = -1;
	if (hangs)
		snprintf(p->why, sizeof p->why,
			"driver: NVML does not answer, so CUDA was not asked");
	else if (n > 0 || s->nodes_there || s->pci_gpus > 0 || s->tegra)
		probe(p, s->pci_gpus);
	for (int i = 0; i < n && i < max; i++) {
		out[i] = a->out[i];
		join(&out[i], i, p->out, p->n, p->why, why);
	}
	if (n < 0 && p->n > 0)
		for (n = 0; n < p->n && n < max; n++)
			from_cuda(&out[n], &p->out[n], n, a->text, why);
	/* without library, device on the bus and driver it is known that there is no GPU */
	if (n < 0 && !hangs && s->pci_gpus == 0 && !s->driver_loaded && !s->nodes_there &&
		!s->tegra)
		return 0;
	if (n < 0 && s->tegra && a->failed)
		hw_cause(why, "gpus",
			"a Jetson, whose GPU NVML tells from JetPack 6 on: %.150s",
			a->text);
	else if (n < 0 && a->failed)
		hw_cause(why, "gpus", "%s", a->text);
	return n;
}

int nvml_read(struct nvml_gpu *out, int max, struct hw_causes *why)
{
	struct asked *a = apart_memory(sizeof *a);
	struct probed *p = apart_memory(sizeof *p);
	struct nvml_scene s;
	int n = -1;

	nvml_look_around(&s);
	if (a && p) {
		a->scene = &s;
		a->why = *why;
		n = join_all(out, max, a, p, why);
	} else {
		hw_cause(why, "gpus", "%s", err_get()->text);
		err_clear();
	}
	apart_free(a, sizeof *a);
	apart_free(p, sizeof *p);
	return n;
}
