/* plugin.c - finds plug-ins beside the programs or in the installation directory, and opens
 * them. */
#include "kernels/dev/plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *open_beside_program(const char *file, int mode)
{
	static const char *const places[] = { "../lib/", "lib/", "../lib/rnp/" };
	char self[4096], path[4400];
	ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);

	if (len <= 0)
		return NULL;
	self[len] = '\0';
	*(strrchr(self, '/') + 1) = '\0';
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		snprintf(path, sizeof path, "%s%s%s", self, places[i], file);
		if (access(path, F_OK) == 0)
			return dlopen(path, mode);
	}
	return NULL;
}

void *plugin_open(const char *file, const char *variable, int global, char *why,
	int why_bytes)
{
	const char *path = getenv(variable);
	int mode = RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL);
	void *plugin;

	dlerror();
	plugin = path ? dlopen(path, mode) : open_beside_program(file, mode);
	if (!plugin) {
		const char *error = dlerror();

		if (error)
			snprintf(why, (size_t)why_bytes, "%s", error);
		else
			snprintf(why, (size_t)why_bytes, "%s is not installed", file);
	}
	return plugin;
}

/* The newest version of CUDA that the installed driver supports, as 1000 major + 10 minor; 0: there
 * is no driver, or it does not say. */
static int driver_version(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	int (*get)(int *) = NULL, version = 0;

	if (driver)
		*(void **)&get = dlsym(driver, "cuDriverGetVersion");
	return get && get(&version) == 0 ? version : 0;
}

/* Whether the driver is too old for the toolkit that a plug-in was built with, which it states. */
static int is_too_new(void *plugin)
{
	const int *needs = (const int *)dlsym(plugin, "rnp_cuda_needs");
	int version = needs ? driver_version() : 0;

	return version && version < *needs;
}

/* Opens the plug-in for the installed driver: that of CUDA 12 where it is too old for the other. */
static void *open_cuda(char *why, int why_bytes)
{
	void *plugin = plugin_open("librnp_cuda.so", "RNP_CUDA_PLUGIN", 0, why,
		why_bytes);
	char ignored[8];
	void *older;

	if (getenv("RNP_CUDA_PLUGIN") || (plugin && !is_too_new(plugin)))
		return plugin;
	older = plugin_open("librnp_cuda12.so", "RNP_CUDA_PLUGIN", 0, ignored,
		sizeof ignored);
	if (!older || (plugin && is_too_new(older))) {
		if (older)
			dlclose(older);
		return plugin;
	}
	if (plugin)
		dlclose(plugin);
	return older;
}

void *plugin_symbol(const char *name, char *why, int why_bytes)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static void *plugin;
	void *symbol = NULL;

	pthread_mutex_lock(&lock);
	if (!plugin)
		plugin = open_cuda(why, why_bytes);
	if (plugin) {
		symbol = dlsym(plugin, name);
		if (!symbol)
			snprintf(why, (size_t)why_bytes, "%s", dlerror());
	}
	pthread_mutex_unlock(&lock);
	return symbol;
}
