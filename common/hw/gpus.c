/* gpus.c - see gpus.h. */
#include "common/hw/gpus.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/num.h"

#define DEVICES "/sys/bus/pci/devices"
/* less belongs to the picture of a processor, which computes with the system's memory */
#define MEMORY_MIN (INT64_C(2) << 30)

static bool read_text(struct buf *out, const char *pci, const char *file)
{
	bool read = hw_read(out, DEVICES "/%s/%s", pci, file) == 0 && out->len;

	err_clear();
	return read;
}

static int64_t read_number(struct buf *text, const char *pci, const char *file)
{
	int64_t v;

	if (!read_text(text, pci, file) ||
		num_i64(buf_text(text), file, 0, INT64_MAX, &v) < 0) {
		err_clear();
		return -1;
	}
	return v;
}

/* --- AMD ---------------------------------------------------------------------------------- */

/* Products by device and revision (pci.ids, amdgpu.ids); revision -1: any. Newer drivers name
 * most of them by themselves. */
static const struct {
	unsigned device;
	int revision;
	const char *name;
} amd_products[] = {
	{ 0x738c, -1, "AMD Instinct MI100" },
	{ 0x7408, -1, "AMD Instinct MI250X" },
	{ 0x740f, -1, "AMD Instinct MI210" },
	{ 0x74a0, -1, "AMD Instinct MI300A" },
	{ 0x74a1, -1, "AMD Instinct MI300X" },
	{ 0x74a5, -1, "AMD Instinct MI325X" },
	{ 0x74b5, -1, "AMD Instinct MI300X VF" },
	{ 0x75a0, -1, "AMD Instinct MI350X" },
	{ 0x75a3, -1, "AMD Instinct MI355X" },
	{ 0x744c, 0xc8, "AMD Radeon RX 7900 XTX" },
	{ 0x744c, 0xcc, "AMD Radeon RX 7900 XT" },
	{ 0x73bf, 0xc0, "AMD Radeon RX 6900 XT" },
	{ 0x73bf, 0xc1, "AMD Radeon RX 6800 XT" },
};

static void name_amd(struct nvml_gpu *g, const char *pci, struct buf *text)
{
	unsigned device = 0;
	int revision = -1;

	if (read_text(text, pci, "product_name")) {
		snprintf(g->model, sizeof g->model, "%s%.90s",
			strncmp(buf_text(text), "AMD", 3) == 0 ? "" : "AMD ",
			buf_text(text));
		return;
	}
	if (read_text(text, pci, "device"))
		device = (unsigned)strtoul(buf_text(text), NULL, 16);
	if (read_text(text, pci, "revision"))
		revision = (int)strtoul(buf_text(text), NULL, 16);
	for (size_t i = 0; i < sizeof amd_products / sizeof *amd_products; i++)
		if (amd_products[i].device == device &&
			(amd_products[i].revision < 0 ||
				amd_products[i].revision == revision)) {
			snprintf(g->model, sizeof g->model, "%s", amd_products[i].name);
			return;
		}
	snprintf(g->model, sizeof g->model, "AMD GPU 0x%04x rev %02x", device,
		revision & 0xff);
}

/* The highest of "0: 132Mhz\n1: 2100Mhz *". */
static int clock_of(const char *text)
{
	int best = 0;

	for (const char *at = text; at; at = strchr(at, '\n')) {
		int mhz;

		at += *at == '\n';
		if (sscanf(at, "%*d: %dMhz", &mhz) == 1 && mhz > best && mhz < 100000)
			best = mhz;
	}
	return best;
}

/* The limit of the board, microwatts in the first of its sensors that has one. */
static int64_t power_limit_mw(const char *pci)
{
	struct buf path = BUF_INIT, text = BUF_INIT;
	struct dirent *entry;
	int64_t mw = 0;
	DIR *dir;

	hw_path(&path, DEVICES);
	buf_addf(&path, "/%s/hwmon", pci);
	dir = opendir(path.data);
	while (dir && !mw && (entry = readdir(dir))) {
		char file[300];
		int64_t uw;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(file, sizeof file, "hwmon/%s/power1_cap", entry->d_name);
		uw = read_number(&text, pci, file);
		mw = uw > 0 ? uw / 1000 : 0;
	}
	if (dir)
		closedir(dir);
	buf_release(&path);
	buf_release(&text);
	return mw;
}

/* "32.0 GT/s PCIe": the generation that has this rate */
static int pcie_gen(const char *text)
{
	static const double rates[] = { 2.5, 5, 8, 16, 32, 64 };
	double rate = strtod(text, NULL);

	for (int i = 0; i < 6; i++)
		if (rate == rates[i])
			return i + 1;
	return 0;
}

/* Reads what amdgpu shows. Returns false if it is a processor's picture. */
static bool read_amd(struct nvml_gpu *g, const char *pci, int64_t memory,
	bool accelerator)
{
	struct buf text = BUF_INIT;
	bool is_gpu = accelerator || memory >= MEMORY_MIN;

	memset(g, 0, sizeof *g);
	snprintf(g->vendor, sizeof g->vendor, "AMD");
	snprintf(g->pci, sizeof g->pci, "%.31s", pci);
	g->ecc = g->mig = -1;
	g->memory_bytes = memory;
	name_amd(g, pci, &text);
	if (read_text(&text, pci, "pp_dpm_sclk"))
		g->clock_max_mhz = clock_of(buf_text(&text));
	if (read_text(&text, pci, "max_link_speed"))
		g->pcie_gen = pcie_gen(buf_text(&text));
	g->pcie_width = (int)read_number(&text, pci, "max_link_width");
	g->power_limit_mw = power_limit_mw(pci);
	buf_release(&text);
	return is_gpu;
}

/* --- the bus ------------------------------------------------------------------------------ */

struct bus {
	struct nvml_gpu *out;
	int n, max;
	bool unread; /* there is one that cannot be read */
	struct hw_causes *why;
};

static void leave_out(struct bus *b, const char *maker, const char *pci,
	const char *cause)
{
	b->unread = true;
	hw_cause(b->why, "gpus", "%s GPU at %.20s: not read, because %s", maker, pci,
		cause);
}

static void take_amd(struct bus *b, const char *pci, bool accelerator)
{
	struct buf text = BUF_INIT;
	int64_t memory = read_number(&text, pci, "mem_info_vram_total");
	char field[64];

	buf_release(&text);
	if (memory <= 0) {
		leave_out(b, "AMD", pci, "its driver amdgpu does not show it");
		return;
	}
	if (b->n == b->max || !read_amd(&b->out[b->n], pci, memory, accelerator))
		return;
	b->out[b->n].slot = b->n ? b->out[b->n - 1].slot + 1 : 0;
	/* with one it would be challenged, which nothing here can answer yet */
	snprintf(field, sizeof field, "gpus[%d].uuid", b->n);
	hw_cause(b->why, field, "challenges are computed on NVIDIA GPUs only");
	b->n++;
}

static void take_device(struct bus *b, const char *pci)
{
	struct buf text = BUF_INIT;
	unsigned vendor = 0, class = 0;

	if (read_text(&text, pci, "vendor"))
		vendor = (unsigned)strtoul(buf_text(&text), NULL, 16);
	if (read_text(&text, pci, "class"))
		class = (unsigned)strtoul(buf_text(&text), NULL, 16) >> 8;
	buf_release(&text);
	/* 03xx: display and 3D controllers; 1200: accelerators */
	if (class >> 8 != 0x03 && class != 0x1200)
		return;
	if (vendor == 0x1002)
		take_amd(b, pci, class == 0x1200);
	else if (vendor == 0x8086 && class >> 8 == 0x03 &&
		strncmp(pci, "0000:00:", 8) != 0)
		leave_out(b, "Intel", pci, "only NVIDIA's and AMD's are");
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void read_bus(struct bus *b)
{
	char(*names)[32] = NULL;
	struct buf path = BUF_INIT;
	size_t n = 0, cap = 0;
	struct dirent *entry;
	DIR *dir;

	hw_path(&path, DEVICES);
	dir = opendir(path.data);
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || strlen(entry->d_name) >= sizeof *names)
			continue;
		names = xgrow(names, &cap, n + 1, sizeof *names);
		strcpy(names[n++], entry->d_name);
	}
	if (dir)
		closedir(dir);
	if (n)
		qsort(names, n, sizeof *names, by_name);
	for (size_t i = 0; i < n; i++)
		take_device(b, names[i]);
	free(names);
	buf_release(&path);
}

int hw_gpus_read(struct nvml_gpu *out, int max, struct hw_causes *why)
{
	int nvidia = nvml_read(out, max, why);
	struct bus b = { out, nvidia > 0 ? nvidia : 0, max, false, why };

	read_bus(&b);
	return b.n || (nvidia == 0 && !b.unread) ? b.n : -1;
}
