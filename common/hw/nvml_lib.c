/* nvml_lib.c - NVML: the library opened, and causes made out of its return codes. */
#include "common/hw/nvml_lib.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/hw/hw.h"

void nvml_look_around(struct nvml_scene *s)
{
	struct buf path = BUF_INIT, text = BUF_INIT;
	struct dirent *entry;
	DIR *dir;

	hw_path(&path, "/sys/bus/pci/devices");
	dir = opendir(path.data);
	s->pci_gpus = dir ? 0 : -1;
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.' ||
			hw_read(&text, "/sys/bus/pci/devices/%s/vendor", entry->d_name) <
				0 ||
			strcmp(buf_text(&text), "0x10de") != 0)
			continue;
		if (hw_read(&text, "/sys/bus/pci/devices/%s/class", entry->d_name) == 0 &&
			strncmp(buf_text(&text), "0x03", 4) == 0)
			s->pci_gpus++;
	}
	if (dir)
		closedir(dir);
	s->driver_loaded = hw_exists("/proc/driver/nvidia/version") ||
		hw_exists("/sys/module/nvidia");
	s->tegra = hw_exists("/etc/nv_tegra_release") || hw_exists("/sys/module/nvgpu") ||
		hw_exists("/dev/nvhost-gpu");
	s->nodes_there = hw_exists("/dev/nvidiactl") || hw_exists("/dev/dxg");
	buf_reset(&path);
	hw_path(&path, "/dev/nvidiactl");
	s->nodes_closed = s->nodes_there && access(path.data, R_OK | W_OK) < 0 &&
		(errno == EACCES || errno == EPERM);
	s->container = hw_in_container();
	err_clear();
	buf_release(&path);
	buf_release(&text);
}

int nvml_lib_open(struct nvml *n)
{
	memset(n, 0, sizeof *n);
	n->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!n->library)
		return err_set(EX_UNAVAILABLE, "library: %s", dlerror());
	n->error_text = (const char *(*)(int))dlsym(n->library, "nvmlErrorString");
#define LOAD(member, symbol, arguments) \
	n->member = (int(*) arguments)dlsym(n->library, symbol);
	NVML_FUNCTIONS(LOAD)
#undef LOAD
	if (n->init && n->shutdown && n->count && n->handle && n->name)
		return 0;
	dlclose(n->library);
	return err_set(EX_UNAVAILABLE,
		"library: libnvidia-ml.so.1 lacks functions of NVML 11");
}

/* Adds the party that can mend it: "driver: ...", "permission: ..." and so on. */
static const char *blame(int code, const struct nvml_scene *s)
{
	switch (code) {
	case NVML_NO_PERMISSION:
		return s->container ? "container" : "permission";
	case NVML_LIBRARY_NOT_FOUND:
	case NVML_VERSION_MISMATCH:
		return "library";
	default:
		return s->container && s->driver_loaded && !s->nodes_there ? "container" :
									     "driver";
	}
}

void nvml_describe(const struct nvml *n, int code, const struct nvml_scene *s, char *out,
	size_t size)
{
	const char *text = n->error_text ? n->error_text(code) : NULL;

	snprintf(out, size, "%s: NVML: %s (%d)%s", blame(code, s), text ? text : "error",
		code,
		code == NVML_VERSION_MISMATCH ?
			"; the driver was updated: restart, or reload its module" :
			"");
}

void nvml_uuid_text(char out[NVML_UUID_MAX], const unsigned char u[16])
{
	snprintf(out, NVML_UUID_MAX,
		"GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11],
		u[12], u[13], u[14], u[15]);
}
