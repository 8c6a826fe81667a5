/* seccomp.h - which calls of the kernel a container may make: the profile of Debian's containers
 * (/usr/share/containers/seccomp.json), without what leads to another kernel's worth of code. Uses
 * json, buf, err, io.
 *
 * That profile lets everybody make user namespaces, in which he is root with all capabilities, and
 * mount and configure networks there: most holes of the kernel of late were opened so. It lets
 * through every family of sockets, and some know no network namespace: by AF_VSOCK a guest's
 * container speaks to the machine below. */
#ifndef RNP_CMD_REGISTER_AGENT_SECCOMP_H
#define RNP_CMD_REGISTER_AGENT_SECCOMP_H

#include <jansson.h>

/* The narrower profile of a profile. Returns a new object, or NULL with err_set (65): it is none.
 * Pure. */
json_t *seccomp_narrow(const json_t *profile);

/* Writes it to path. Returns 0, or -1 with err_set: 69 the machine has no profile. */
int seccomp_write(const char *path);

#endif
