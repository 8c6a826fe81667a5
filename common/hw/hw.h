/* hw.h - what this machine is, from /proc and /sys: CPU, memory, limits, disks, system.
 *
 * Uses io, num, err. The readers never fail: a value that cannot be read stays 0 or empty, and
 * its cause is recorded. RNP_SYSROOT, a directory, is put before every path (tests use captured
 * trees of other machines). The hw_parse_* are pure. */
#ifndef RNP_COMMON_HW_HW_H
#define RNP_COMMON_HW_HW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"

#define HW_TEXT_MAX   256
#define HW_ISA_MAX    48
#define HW_DISKS_MAX  256
#define HW_CAUSES_MAX 64

/* The unknown fields, each with its cause. */
struct hw_causes {
	struct {
		char field[64], cause[HW_TEXT_MAX];
	} at[HW_CAUSES_MAX];
	int n; /* those beyond HW_CAUSES_MAX are dropped */
};

/* Records why a field is unknown; several causes of one field follow each other. */
void hw_cause(struct hw_causes *why, const char *field, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

struct hw_cpu {
	char model[HW_TEXT_MAX];
	int cores, threads, clock_max_mhz; /* 0: not known */
	const char *isa[HW_ISA_MAX];       /* as Linux names them; static texts */
	int nisa;
};

struct hw_disk {
	char name[64], model[128]; /* model "": not known */
	const char *type;          /* "nvme", "ssd", "hdd", or NULL: not known */
	int64_t size_bytes;
};

struct hw_os {
	char name[64], release[128], distribution[128], machine[64];
};

/* The limits of the control group of this process; 0: not limited. */
struct hw_limits {
	int cgroup; /* version, 0: none is mounted */
	int cpus;   /* logical processors that it may run on, when fewer than there are */
	int64_t cpu_milli, memory_bytes, pids;
};

void hw_cpu_read(struct hw_cpu *out, struct hw_causes *why);
int64_t hw_memory_read(struct hw_causes *why); /* bytes, 0: not known */
void hw_os_read(struct hw_os *out, struct hw_causes *why);
void hw_limits_read(struct hw_limits *out, struct hw_causes *why);

/* Reads the real disks, without loop, RAM, mapped and removable devices. Returns how many, at most
 * max. */
int hw_disks_read(struct hw_disk *out, int max, struct hw_causes *why);

/* Returns the bytes of all last-level caches together; 0: not known. */
int64_t hw_cache_read(void);

/* Returns the memory that can be allocated now: what the system has available, or what the control
 * group leaves of its limit, whichever is less; 0: not known. */
int64_t hw_available_read(void);

/* How often CPUs were throttled since the start, for heat, and this control group for its quota.
 * Only differences mean something. */
int64_t hw_throttle_count(void);
int64_t hw_quota_count(void); /* the count for its quota alone */

/* Finds the name of the disk ("nvme0n1") with a device number (stat's st_dev). Returns false if
 * there is none. */
bool hw_disk_of(unsigned major, unsigned minor, char *out, size_t size);

/* Whether this process runs in a container. */
bool hw_in_container(void);

/* Reads a small file below the root, without trailing white space. Returns 0, or -1 with
 * err_set. */
int hw_read(struct buf *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool hw_exists(const char *path);
void hw_path(struct buf *out,
	const char *path); /* Appends the path with the root before it. */

/* Reads model and isa from the text of /proc/cpuinfo (x86 and Arm). */
void hw_parse_cpuinfo(const char *text, struct hw_cpu *out);

/* Whether this is one of the words, which are separated by one character. "" is the word of an
 * empty text. */
bool hw_has_word(const char *words, size_t len, char between, const char *word);

/* Counts the CPUs of a list like "0-3,8"; -1: malformed. *first is the lowest; may be NULL. */
int hw_parse_cpulist(const char *text, int *first);

/* Finds the directory of the control group of a controller ("memory"; "" for version 2) in the
 * texts of /proc/self/cgroup and /proc/self/mountinfo: the mount and the group below it, either
 * of which may be "". In a container, the part that the mount does not show is omitted. Returns
 * false if it is not mounted. */
bool hw_parse_cgroup(const char *cgroup, const char *mountinfo, const char *controller,
	struct buf *mount, struct buf *group);

/* Returns the number after a word at the start of a line ("MemTotal:", "nr_throttled"), or -1. */
int64_t hw_parse_field(const char *text, const char *word);

/* Reads one limit: "max", "150000 100000" (cpu.max) or a number; -1: malformed, 0: none. */
int64_t hw_parse_limit(const char *text);
int64_t hw_parse_cpu_max(const char *text); /* thousandths of a CPU */

#endif
