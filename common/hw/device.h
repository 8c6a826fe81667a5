/* device.h - opens a device and reports its errors as all errors are reported. Uses dev.h, err. */
#ifndef RNP_COMMON_HW_DEVICE_H
#define RNP_COMMON_HW_DEVICE_H

#include "kernels/dev/dev.h"

/* Opens a device as dev_open, which describes spec. If auto found a GPU that cannot be used,
 * warns why, once per process (err_warn). Returns 0, or -1 with err_set() and nothing to close. */
int device_open(struct dev *d, const char *spec);

/* Copies the last error of a device to err. Returns -1. */
int device_failed(const struct dev *d);

/* Warns the user, once per process, of what the device does less well than it could: d->note. */
void device_warn(const struct dev *d);

#endif
