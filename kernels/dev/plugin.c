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

void *plugin_symbol(const char *name, char *why, int why_bytes)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static void *plugin;
	void *symbol = NULL;

	pthread_mutex_lock(&lock);
	if (!plugin)
		plugin = plugin_open("librnp_cuda.so", "RNP_CUDA_PLUGIN", 0, why,
			why_bytes);
	if (plugin) {
		symbol = dlsym(plugin, name);
		if (!symbol)
			snprintf(why, (size_t)why_bytes, "%s", dlerror());
	}
	pthread_mutex_unlock(&lock);
	return symbol;
}
