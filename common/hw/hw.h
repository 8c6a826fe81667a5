/* hw.h - what this machine is, from /proc and /sys: CPU, memory, limits, disks, system.
 *
 * Uses io, num, err. The readers never fail: what cannot be read stays 0 or empty and leaves a
 * cause. RNP_SYSROOT, a directory, stands before every path (tests feed it captured trees of
 * other machines). The hw_parse_* are pure. */
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

/* Fields that are not known, each with its cause. */
struct hw_causes {
	struct {
		char field[64], cause[HW_TEXT_MAX];
	} at[HW_CAUSES_MAX];
	int n; /* those beyond HW_CAUSES_MAX are dropped */
};

/* Note why field is not known. */
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

/* What the control group of this process allows; 0: not limited. */
struct hw_limits {
	int cgroup; /* version, 0: none is mounted */
	int cpus;   /* logical processors that it may run on, when fewer than there are */
	int64_t cpu_milli, memory_bytes, pids;
};

void hw_cpu_read(struct hw_cpu *out, struct hw_causes *why);
int64_t hw_memory_read(struct hw_causes *why); /* bytes, 0: not known */
void hw_os_read(struct hw_os *out, struct hw_causes *why);
void hw_limits_read(struct hw_limits *out, struct hw_causes *why);

/* Real disks only: no loop, RAM, mapped or removable devices. Returns how many, at most max. */
int hw_disks_read(struct hw_disk *out, int max, struct hw_causes *why);

/* Bytes of all last-level caches together, 0: not known. */
int64_t hw_cache_read(void);

/* Memory that can be taken now: what the system has available and what the control group leaves
 * of its limit, whichever is less; 0: not known. */
int64_t hw_available_read(void);

/* How often CPUs were throttled since start: for heat, and this control group for its quota. Only
 * differences mean something. */
int64_t hw_throttle_count(void);
int64_t hw_quota_count(void); /* the second part of it */

/* Name of the disk ("nvme0n1") that holds a device number (stat's st_dev); false: none found. */
bool hw_disk_of(unsigned major, unsigned minor, char *out, size_t size);

/* Whether this process runs in a container. */
bool hw_in_container(void);

/* A small file below the root: its text without white space at the end. Returns 0, or -1 with
 * err_set. */
int hw_read(struct buf *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool hw_exists(const char *path);
void hw_path(struct buf *out, const char *path); /* path with the root before it */

/* model and isa from the text of /proc/cpuinfo (x86 and Arm). */
void hw_parse_cpuinfo(const char *text, struct hw_cpu *out);

/* Whether words with a character between them hold this one; "" is the word of an empty text. */
bool hw_has_word(const char *words, size_t len, char between, const char *word);

/* How many CPUs a list like "0-3,8" names, or -1: malformed. first: the lowest, may be NULL. */
int hw_parse_cpulist(const char *text, int *first);

/* Directory of the control group of a controller ("memory"; "" for version 2) from the texts of
 * /proc/self/cgroup and /proc/self/mountinfo: mount and group below it, either may be "". What
 * the mount does not show (a container's view) is left out. Returns false: not mounted. */
bool hw_parse_cgroup(const char *cgroup, const char *mountinfo, const char *controller,
	struct buf *mount, struct buf *group);

/* The number behind a word at the start of a line ("MemTotal:", "nr_throttled"), or -1. */
int64_t hw_parse_field(const char *text, const char *word);

/* One limit from its file: "max", "150000 100000" (cpu.max), a number; -1: malformed, 0: none. */
int64_t hw_parse_limit(const char *text);
int64_t hw_parse_cpu_max(const char *text); /* thousandths of a CPU */

#endif
