/* library.c - opens a library on first use and looks up its functions, once, from any thread. */
#include "kernels/dev/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

bool library_open(const char *name, const struct library_symbol *symbols, size_t n,
	char *why, size_t bytes)
{
	void *so = dlopen(name, RTLD_NOW | RTLD_LOCAL);

	if (!so) {
		const char *reason = dlerror();

		if (why)
			snprintf(why, bytes, "%s", reason);
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		void *f = dlsym(so, symbols[i].name);

		if (!f) {
			if (why)
				snprintf(why, bytes, "%.*s lacks %s",
					(int)strcspn(name, "."), name, symbols[i].name);
			return false;
		}
		/* POSIX returns functions as data pointers */
		memcpy(symbols[i].to, &f, sizeof f);
	}
	return true;
}
