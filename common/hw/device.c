/* device.c - opens devices for programs, reports their errors, and warns once of limitations. */
#include "common/hw/device.h"

#include <stdatomic.h>

#include "common/base/err.h"

int device_failed(const struct dev *d)
{
	return err_set(d->code ? d->code : EX_UNAVAILABLE, "%s", d->error);
}

void device_warn(const struct dev *d)
{
	static atomic_flag told = ATOMIC_FLAG_INIT;

	if (*d->note && !atomic_flag_test_and_set(&told))
		err_warn("%s", d->note);
}

int device_open(struct dev *d, const char *spec)
{
	if (dev_open(d, spec) < 0)
		return device_failed(d);
	device_warn(d);
	return 0;
}
