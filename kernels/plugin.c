#include "kernels/plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *open_beside_program(void)
{
	static const char *const places[] = { "../lib/librnp_cuda.so",
		"lib/librnp_cuda.so", "../lib/rnp/librnp_cuda.so" };
	char self[4096], path[4200];
	ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);

	if (len <= 0)
		return NULL;
	self[len] = '\0';
	*(strrchr(self, '/') + 1) = '\0';
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		snprintf(path, sizeof path, "%s%s", self, places[i]);
		if (access(path, F_OK) == 0)
			return dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	return NULL;
}

void *plugin_symbol(const char *name, char *why, int why_bytes)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static void *plugin;
	const char *path = getenv("RNP_CUDA_PLUGIN");
	void *symbol;

	pthread_mutex_lock(&lock);
	dlerror();
	if (!plugin)
		plugin = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) :
				open_beside_program();
	symbol = plugin ? dlsym(plugin, name) : NULL;
	if (!symbol) {
		const char *said = dlerror();

		snprintf(why, (size_t)why_bytes, "%s",
			said ? said : "librnp_cuda.so is not installed");
	}
	pthread_mutex_unlock(&lock);
	return symbol;
}
