/* power.c - measures power: energy of GPUs by NVML, of CPUs by RAPL, over the same time. */
#include "common/hw/power.h"

#include <dirent.h>
#include <dlfcn.h>
#include <string.h>
#include <time.h>

#include "common/hw/apart.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/num.h"
#include "common/hw/nvml.h"
#include "common/hw/nvml_lib.h"

#define ZONES_MAX 64
/* a RAPL counter of 262 kJ begins anew after minutes at the earliest */
#define SAMPLE_MS 200

struct zone {
	char name[64]; /* "intel-rapl:0:2" */
	int64_t last_uj, range_uj, sum_uj;
};

struct gpu {
	nvml_device device;
	unsigned long long first_mj;
	bool counts; /* has a counter of energy */
	double sum_mw;
};

struct meters {
	struct zone zones[ZONES_MAX];
	int nzones;
	struct nvml nvml;
	bool open;
	struct gpu gpus[NVML_GPUS_MAX];
	int ngpus;
	int samples;
};

int64_t power_since(int64_t before, int64_t now, int64_t range)
{
	if (now >= before)
		return now - before;
	return range >= before ? range - before + now : 0;
}

/* --- CPUs --------------------------------------------------------------------------------- */

static int zone_number(const char *zone, const char *file, int64_t *out)
{
	struct buf text = BUF_INIT;
	int rc = hw_read(&text, "/sys/class/powercap/%s/%s", zone, file);

	if (rc == 0)
		rc = num_i64(buf_text(&text), file, 0, INT64_MAX, out);
	buf_release(&text);
	return rc;
}

/* Whether a zone's energy is in no other one's: a package holds its cores, and its memory is
 * apart. */
static bool zone_counts(const char *zone)
{
	struct buf text = BUF_INIT;
	bool counts = hw_read(&text, "/sys/class/powercap/%s/name", zone) == 0 &&
		(strncmp(buf_text(&text), "package", 7) == 0 ||
			strcmp(buf_text(&text), "dram") == 0);

	err_clear();
	buf_release(&text);
	return counts;
}

static void open_zones(struct meters *m, struct hw_causes *why)
{
	struct buf path = BUF_INIT;
	struct dirent *entry;
	DIR *dir;

	hw_path(&path, "/sys/class/powercap");
	dir = opendir(path.data);
	while (dir && (entry = readdir(dir)) && m->nzones < ZONES_MAX) {
		struct zone *z = &m->zones[m->nzones];

		/* intel-rapl-mmio tells of the same packages by another way */
		if (strncmp(entry->d_name, "intel-rapl:", 11) != 0 ||
			strlen(entry->d_name) >= sizeof z->name ||
			!zone_counts(entry->d_name))
			continue;
		memset(z, 0, sizeof *z);
		memcpy(z->name, entry->d_name, strlen(entry->d_name) + 1);
		if (zone_number(z->name, "energy_uj", &z->last_uj) == 0) {
			if (zone_number(z->name, "max_energy_range_uj", &z->range_uj) < 0)
				z->range_uj = 0;
			m->nzones++;
		} else {
			hw_cause(why, "cpu", "%s", err_get()->text);
		}
		err_clear();
	}
	if (!m->nzones && !why->n)
		hw_cause(why, "cpu", "no RAPL counter below /sys/class/powercap");
	if (dir)
		closedir(dir);
	buf_release(&path);
}

/* --- GPUs --------------------------------------------------------------------------------- */

static int no_meter(const struct meters *m, unsigned i, int code)
{
	struct nvml_scene scene;
	char text[256];

	nvml_look_around(&scene);
	nvml_describe(&m->nvml, code, &scene, text, sizeof text);
	return err_set(EX_UNAVAILABLE,
		"GPU %u does not tell its power, so that the sum would be too low: %s", i,
		text);
}

static int open_gpu(struct meters *m, unsigned i)
{
	struct gpu *g = &m->gpus[m->ngpus];
	unsigned mw;
	int code = m->nvml.handle(i, &g->device);

	if (code != NVML_SUCCESS)
		return no_meter(m, i, code);
	g->counts = m->nvml.energy &&
		m->nvml.energy(g->device, &g->first_mj) == NVML_SUCCESS;
	code = m->nvml.power_now ? m->nvml.power_now(g->device, &mw) : NVML_NOT_SUPPORTED;
	if (!g->counts && code != NVML_SUCCESS)
		return no_meter(m, i, code);
	m->ngpus++;
	return 0;
}

static int open_gpus(struct meters *m, struct hw_causes *why)
{
	struct nvml_scene scene;
	unsigned n = 0;
	int code;

	nvml_look_around(&scene);
	if (nvml_lib_open(&m->nvml) < 0) {
		if (scene.pci_gpus > 0)
			return -1;
		hw_cause(why, "gpus", "%s", err_get()->text);
		err_clear();
		return 0;
	}
	code = m->nvml.init();
	m->open = code == NVML_SUCCESS;
	if (m->open)
		code = m->nvml.count(&n);
	if (code != NVML_SUCCESS && scene.pci_gpus > 0)
		return no_meter(m, 0, code);
	if (code != NVML_SUCCESS)
		hw_cause(why, "gpus", "NVML answers with error %d", code);
	for (unsigned i = 0; code == NVML_SUCCESS && i < n && i < NVML_GPUS_MAX; i++)
		if (open_gpu(m, i) < 0)
			return -1;
	return 0;
}

/* --- both --------------------------------------------------------------------------------- */

static int sample(struct meters *m)
{
	for (int i = 0; i < m->nzones; i++) {
		struct zone *z = &m->zones[i];
		int64_t now;

		if (zone_number(z->name, "energy_uj", &now) < 0)
			return -1;
		z->sum_uj += power_since(z->last_uj, now, z->range_uj);
		z->last_uj = now;
	}
	for (int i = 0; i < m->ngpus; i++) {
		unsigned mw = 0;
		int code;

		if (m->gpus[i].counts)
			continue;
		code = m->nvml.power_now(m->gpus[i].device, &mw);
		if (code != NVML_SUCCESS)
			return no_meter(m, (unsigned)i, code);
		m->gpus[i].sum_mw += mw;
	}
	m->samples++;
	return 0;
}

static int finish(struct meters *m, double seconds, struct power_reading *out)
{
	double gpu_mw = 0, cpu_uj = 0;

	for (int i = 0; i < m->ngpus; i++) {
		struct gpu *g = &m->gpus[i];
		unsigned long long now = 0;

		if (!g->counts) {
			gpu_mw += g->sum_mw / m->samples;
			continue;
		}
		if (m->nvml.energy(g->device, &now) != NVML_SUCCESS || now < g->first_mj)
			return err_set(EX_UNAVAILABLE,
				"GPU %d: its counter of energy went back: the driver was loaded anew",
				i);
		gpu_mw += (double)(now - g->first_mj) / seconds;
	}
	for (int i = 0; i < m->nzones; i++)
		cpu_uj += (double)m->zones[i].sum_uj;
	out->gpus = m->ngpus;
	out->cpus = m->nzones;
	out->gpu_mw = m->ngpus ? (int64_t)(gpu_mw + 0.5) : -1;
	out->cpu_mw = m->nzones ? (int64_t)(cpu_uj / seconds / 1000 + 0.5) : -1;
	out->ms = (int64_t)(seconds * 1000 + 0.5);
	return 0;
}

static int measure(struct meters *m, int64_t ms, struct power_reading *out)
{
	int64_t begin = clock_mono_ns(), now = begin;

	while (now < begin + ms * 1000000) {
		int64_t left = begin + ms * 1000000 - now;
		struct timespec nap = { 0, SAMPLE_MS * 1000000L };

		if (left < nap.tv_nsec)
			nap.tv_nsec = (long)left;
		nanosleep(&nap, NULL);
		apart_beat();
		if (sample(m) < 0)
			return -1;
		now = clock_mono_ns();
	}
	return finish(m, (double)(now - begin) / 1e9, out);
}

static int measure_all(int64_t ms, struct power_reading *out, struct hw_causes *why)
{
	struct meters m = { .nzones = 0 };
	int rc;

	open_zones(&m, why);
	rc = open_gpus(&m, why);
	if (rc == 0 && !m.nzones && !m.ngpus)
		rc = err_set(EX_UNAVAILABLE, "nothing here meters power: %s",
			why->n ? why->at[0].cause : "no GPU");
	if (rc == 0)
		rc = measure(&m, ms, out);
	apart_beat();
	if (m.open)
		m.nvml.shutdown();
	if (m.nvml.library)
		dlclose(m.nvml.library);
	return rc;
}

/* What the child that measures tells, see apart.h. */
struct measured {
	int64_t ms;
	int rc;
	struct power_reading reading;
	struct hw_causes why;
	struct err err;
};

static void measure_apart(void *shared)
{
	struct measured *m = shared;

	m->rc = measure_all(m->ms, &m->reading, &m->why);
	err_save(&m->err);
}

int power_measure(int64_t ms, struct power_reading *out, struct hw_causes *why)
{
	struct measured *m = apart_memory(sizeof *m);
	enum apart how;
	int rc;

	if (!m)
		return -1;
	m->ms = ms;
	m->why = *why;
	how = apart_run(measure_apart, m, 3 * APART_BOUND_MS, APART_BOUND_MS);
	rc = how != APART_DONE ?
		err_set(EX_UNAVAILABLE, "driver: NVML %s",
			how == APART_HANGS ? "does not answer" : apart_text(how)) :
		m->rc < 0 ? err_restore(&m->err) :
			    0;
	*out = m->reading;
	*why = m->why;
	apart_free(m, sizeof *m);
	return rc;
}
