/* nvml_lib.h - opens libnvidia-ml.so.1 and explains its errors. Uses hw, err. */
#ifndef RNP_COMMON_HW_NVML_LIB_H
#define RNP_COMMON_HW_NVML_LIB_H

#include <stdbool.h>
#include <stddef.h>

/* Return codes and constants of NVML's stable interface. */
enum {
	NVML_SUCCESS = 0,
	NVML_NOT_SUPPORTED = 3,
	NVML_NO_PERMISSION = 4,
	NVML_NOT_FOUND = 6,
	NVML_INSUFFICIENT_SIZE = 7,
	NVML_DRIVER_NOT_LOADED = 9,
	NVML_LIBRARY_NOT_FOUND = 12,
	NVML_GPU_IS_LOST = 15,
	NVML_VERSION_MISMATCH = 18,
};
#define NVML_CLOCK_SM 1

typedef struct nvml_device *nvml_device; /* opaque to us */

struct nvml_pci_info {
	char legacy_id[16];
	unsigned domain, bus, device, pci_device, pci_subsystem;
	char id[32];
};

struct nvml_memory_info {
	unsigned long long total, free, used;
};

struct nvml_process {
	unsigned pid;
	unsigned long long used;
	unsigned gpu_instance, compute_instance;
};

/* One row per function that we call: the struct and the loader come from this list. */
#define NVML_FUNCTIONS(F)                                                                \
	F(init, "nvmlInit_v2", (void))                                                   \
	F(shutdown, "nvmlShutdown", (void))                                              \
	F(driver, "nvmlSystemGetDriverVersion", (char *, unsigned))                      \
	F(count, "nvmlDeviceGetCount_v2", (unsigned *))                                  \
	F(handle, "nvmlDeviceGetHandleByIndex_v2", (unsigned, nvml_device *))            \
	F(by_uuid, "nvmlDeviceGetHandleByUUID", (const char *, nvml_device *))           \
	F(name, "nvmlDeviceGetName", (nvml_device, char *, unsigned))                    \
	F(uuid, "nvmlDeviceGetUUID", (nvml_device, char *, unsigned))                    \
	F(pci, "nvmlDeviceGetPciInfo_v3", (nvml_device, struct nvml_pci_info *))         \
	F(memory, "nvmlDeviceGetMemoryInfo", (nvml_device, struct nvml_memory_info *))   \
	F(capability, "nvmlDeviceGetCudaComputeCapability", (nvml_device, int *, int *)) \
	F(clock, "nvmlDeviceGetMaxClockInfo", (nvml_device, int, unsigned *))            \
	F(clock_now, "nvmlDeviceGetClockInfo", (nvml_device, int, unsigned *))           \
	F(temperature, "nvmlDeviceGetTemperature", (nvml_device, int, unsigned *))       \
	F(throttle, "nvmlDeviceGetCurrentClocksThrottleReasons",                         \
		(nvml_device, unsigned long long *))                                     \
	F(processes, "nvmlDeviceGetComputeRunningProcesses_v3",                          \
		(nvml_device, unsigned *, struct nvml_process *))                        \
	F(power, "nvmlDeviceGetEnforcedPowerLimit", (nvml_device, unsigned *))           \
	F(power_now, "nvmlDeviceGetPowerUsage", (nvml_device, unsigned *))               \
	F(energy, "nvmlDeviceGetTotalEnergyConsumption",                                 \
		(nvml_device, unsigned long long *))                                     \
	F(pcie_gen, "nvmlDeviceGetMaxPcieLinkGeneration", (nvml_device, unsigned *))     \
	F(pcie_width, "nvmlDeviceGetMaxPcieLinkWidth", (nvml_device, unsigned *))        \
	F(ecc, "nvmlDeviceGetEccMode", (nvml_device, unsigned *, unsigned *))            \
	F(mig, "nvmlDeviceGetMigMode", (nvml_device, unsigned *, unsigned *))

struct nvml {
	void *library;
	const char *(*error_text)(int);
#define NVML_MEMBER(member, symbol, arguments) int(*member) arguments;
	NVML_FUNCTIONS(NVML_MEMBER)
#undef NVML_MEMBER
};

/* The reports of driver and bus beside those of the library; causes are derived from them. */
struct nvml_scene {
	int pci_gpus; /* NVIDIA display and 3D controllers on the bus; -1: not known */
	bool driver_loaded, nodes_there, nodes_closed, container;
	bool tegra; /* a Jetson, whose GPU is on no bus */
};

void nvml_look_around(struct nvml_scene *s);

/* Opens the library; functions that it lacks are NULL. Returns 0, or -1 with err_set (69). The
 * caller closes n->library with dlclose. */
int nvml_lib_open(struct nvml *n);

/* Writes the meaning of an NVML return code and the party that can mend it. */
void nvml_describe(const struct nvml *n, int code, const struct nvml_scene *s, char *out,
	size_t size);

/* Writes a UUID as NVML does: "GPU-xxxxxxxx-xxxx-...". */
#define NVML_UUID_MAX 48
void nvml_uuid_text(char out[NVML_UUID_MAX], const unsigned char uuid[16]);

#endif
