/* libcuda.c - NVIDIA's driver for tests: it only says which version of CUDA it supports, that of
 * FAKE_DRIVER. */
#include <stdlib.h>

int cuDriverGetVersion(int *version)
{
	const char *is = getenv("FAKE_DRIVER");

	*version = is ? atoi(is) : 0;
	return is ? 0 : 1;
}
