/* hw.c - what this machine is, read from /proc and /sys: CPU, memory, system and disks. */
#include "common/hw/hw.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/num.h"

#define FILE_BYTES_MAX ((size_t)16 << 20) /* /proc/cpuinfo has 1.5 KB a thread */

void hw_cause(struct hw_causes *why, const char *field, const char *fmt, ...)
{
	va_list args;

	int i = 0;
	size_t len;

	while (i < why->n && strcmp(why->at[i].field, field) != 0)
		i++;
	if (i == HW_CAUSES_MAX)
		return;
	if (i == why->n) {
		snprintf(why->at[i].field, sizeof why->at[0].field, "%s", field);
		why->at[i].cause[0] = '\0';
		why->n++;
	} else {
		strncat(why->at[i].cause, "; ",
			HW_TEXT_MAX - 1 - strlen(why->at[i].cause));
	}
	len = strlen(why->at[i].cause);
	va_start(args, fmt);
	vsnprintf(why->at[i].cause + len, HW_TEXT_MAX - len, fmt, args);
	va_end(args);
}

void hw_path(struct buf *out, const char *path)
{
	const char *root = getenv("RNP_SYSROOT");

	buf_adds(out, root ? root : "");
	buf_adds(out, path);
}

bool hw_exists(const char *path)
{
	struct buf full = BUF_INIT;
	bool there;

	hw_path(&full, path);
	there = access(full.data, F_OK) == 0;
	buf_release(&full);
	return there;
}

int hw_read(struct buf *out, const char *fmt, ...)
{
	struct buf full = BUF_INIT;
	char path[1024];
	va_list args;
	int rc;

	va_start(args, fmt);
	vsnprintf(path, sizeof path, fmt, args);
	va_end(args);
	hw_path(&full, path);
	buf_reset(out);
	rc = io_read(out, full.data, FILE_BYTES_MAX);
	buf_release(&full);
	while (out->len && strchr(" \t\r\n", out->data[out->len - 1]))
		out->data[--out->len] = '\0';
	return rc;
}

/* Records the pending error as the cause and clears it. */
static void cause_of_error(struct hw_causes *why, const char *field)
{
	hw_cause(why, field, "%s", err_get()->text);
	err_clear();
}

static int64_t read_number(struct buf *text, const char *fmt, const char *a,
	const char *b)
{
	char path[512];
	int64_t v;

	snprintf(path, sizeof path, fmt, a, b);
	if (hw_read(text, "%s", path) < 0 ||
		num_i64(buf_text(text), path, 0, INT64_MAX, &v) < 0)
		return -1;
	return v;
}

/* Copies printable ASCII and plausible UTF-8, truncated between characters. */
static void copy_text(char *out, size_t size, const char *from, size_t len)
{
	size_t n = 0;

	while (len && strchr(" \t\"", *from))
		from++, len--;
	while (len && strchr(" \t\"", from[len - 1]))
		len--;
	for (size_t i = 0; i < len && n + 1 < size; i++)
		if ((unsigned char)from[i] >= ' ' && from[i] != 0x7f)
			out[n++] = from[i];
	while (n && n + 1 >= size && ((unsigned char)out[n - 1] & 0x80))
		n--;
	out[n] = '\0';
}

/* --- CPU ---------------------------------------------------------------------------------- */

/* flags that kernels use; the others tell a buyer little */
static const char *const isa_names[] = { "sse4_2", "avx", "avx2", "fma", "f16c", "bmi2",
	"aes", "vaes", "pclmulqdq", "vpclmulqdq", "sha_ni", "gfni", "avx_vnni", "avx512f",
	"avx512bw", "avx512vl", "avx512dq", "avx512_vnni", "avx512_bf16", "avx512_fp16",
	"avx512_vbmi2", "amx_tile", "amx_int8", "amx_bf16", "asimd", "asimddp", "asimdhp",
	"bf16", "i8mm", "sve", "sve2", "sha2" };

bool hw_has_word(const char *words, size_t len, char between, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = words, *end = words + len; at <= end;) {
		const char *stop = memchr(at, between, (size_t)(end - at));

		if (!stop)
			stop = end;
		if ((size_t)(stop - at) == n && memcmp(at, word, n) == 0)
			return true;
		at = stop + 1;
	}
	return false;
}

void hw_parse_cpuinfo(const char *text, struct hw_cpu *out)
{
	for (const char *line = text; *line;) {
		size_t len = strcspn(line, "\n");
		const char *colon = memchr(line, ':', len);
		size_t key = colon ? (size_t)(colon - line) : 0;

		while (key && (line[key - 1] == '\t' || line[key - 1] == ' '))
			key--;
		if (!out->model[0] && key == 10 && memcmp(line, "model name", 10) == 0)
			copy_text(out->model, sizeof out->model, colon + 1,
				len - (size_t)(colon + 1 - line));
		if (!out->nisa &&
			((key == 5 && memcmp(line, "flags", 5) == 0) ||
				(key == 8 && memcmp(line, "Features", 8) == 0)))
			for (size_t i = 0; i < sizeof isa_names / sizeof *isa_names; i++)
				if (hw_has_word(colon + 1,
					    len - (size_t)(colon + 1 - line), ' ',
					    isa_names[i]))
					out->isa[out->nisa++] = isa_names[i];
		line += len + (line[len] == '\n');
	}
}

int hw_parse_cpulist(const char *text, int *first)
{
	long count = 0;

	if (first)
		*first = -1;
	if (!*text)
		return 0;
	for (;;) {
		char *end;
		long from, to;

		if (*text < '0' || *text > '9')
			return -1;
		from = to = strtol(text, &end, 10);
		if (*end == '-') {
			if (end[1] < '0' || end[1] > '9')
				return -1;
			to = strtol(end + 1, &end, 10);
		}
		if (to < from || to >= 1 << 20)
			return -1;
		if (first && *first < 0)
			*first = (int)from;
		count += to - from + 1;
		if (count > 1 << 20)
			return -1;
		if (!*end)
			return (int)count;
		if (*end != ',')
			return -1;
		text = end + 1;
	}
}

/* Counts physical cores: CPUs that are the first of their siblings. */
static int count_cores(struct buf *text)
{
	int cores = 0;

	for (int i = 0, misses = 0; misses < 64; i++) {
		int first;

		/* where CPUs are switched off the numbers have gaps */
		if (hw_read(text,
			    "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
			    i) < 0) {
			misses++;
			continue;
		}
		misses = 0;
		if (hw_parse_cpulist(buf_text(text), &first) > 0 && first == i)
			cores++;
	}
	err_clear();
	return cores;
}

static int clock_max_mhz(int threads, struct buf *text)
{
	int64_t best = 0;

	/* the cores of one CPU may differ */
	for (int i = 0; i < threads || i == 0; i++) {
		char number[16];
		int64_t khz;

		snprintf(number, sizeof number, "%d", i);
		khz = read_number(text, "/sys/devices/system/cpu/cpu%s/cpufreq/%s",
			number, "cpuinfo_max_freq");
		if (khz < 0 && i == 0)
			return 0;
		if (khz > best && khz < 100000000)
			best = khz;
	}
	err_clear();
	return (int)((best + 500) / 1000);
}

void hw_cpu_read(struct hw_cpu *out, struct hw_causes *why)
{
	struct buf text = BUF_INIT;

	memset(out, 0, sizeof *out);
	if (hw_read(&text, "/proc/cpuinfo") < 0) {
		cause_of_error(why, "cpu.model");
	} else {
		hw_parse_cpuinfo(buf_text(&text), out);
		if (!out->model[0])
			hw_cause(why, "cpu.model", "/proc/cpuinfo does not name it");
	}
	if (hw_read(&text, "/sys/devices/system/cpu/online") < 0)
		cause_of_error(why, "cpu.threads");
	else if ((out->threads = hw_parse_cpulist(buf_text(&text), NULL)) <= 0)
		hw_cause(why, "cpu.threads",
			"/sys/devices/system/cpu/online is malformed");
	if (out->threads < 0)
		out->threads = 0;
	out->cores = count_cores(&text);
	if (!out->cores)
		hw_cause(why, "cpu.cores", "/sys/devices/system/cpu shows no topology");
	out->clock_max_mhz = clock_max_mhz(out->threads, &text);
	if (!out->clock_max_mhz)
		cause_of_error(why, "cpu.clock_max_mhz");
	buf_release(&text);
}

/* --- memory, system ----------------------------------------------------------------------- */

int64_t hw_parse_field(const char *text, const char *word)
{
	size_t len = strlen(word);
	char *end;
	long long v;

	while (strncmp(text, word, len) != 0) {
		text = strchr(text, '\n');
		if (!text)
			return -1;
		text++;
	}
	v = strtoll(text + len, &end, 10);
	/* strtoll would look for a number in the next line, too */
	if (end == text + len || v < 0 || memchr(text, '\n', (size_t)(end - text)))
		return -1;
	return v;
}

int64_t hw_memory_read(struct hw_causes *why)
{
	struct buf text = BUF_INIT;
	int64_t kib = 0;

	if (hw_read(&text, "/proc/meminfo") < 0) {
		cause_of_error(why, "memory_bytes");
	} else {
		kib = hw_parse_field(buf_text(&text), "MemTotal:");
		if (kib <= 0 || kib > INT64_MAX / 1024) {
			hw_cause(why, "memory_bytes", "/proc/meminfo has no MemTotal");
			kib = 0;
		}
	}
	buf_release(&text);
	return kib * 1024;
}

/* "32768K", "96M" */
static int64_t cache_size(const char *text)
{
	char *end;
	long long v = strtoll(text, &end, 10);

	if (v <= 0 || v > 1 << 30)
		return 0;
	return *end == 'K' ? v << 10 : *end == 'M' ? v << 20 : v;
}

int64_t hw_cache_read(void)
{
	struct buf text = BUF_INIT;
	int64_t size = 0, level_max = 0, level;
	int threads = 0, sharing = 0;
	char index[16];

	if (hw_read(&text, "/sys/devices/system/cpu/online") == 0)
		threads = hw_parse_cpulist(buf_text(&text), NULL);
	for (int i = 0; i < 8; i++) {
		snprintf(index, sizeof index, "%d", i);
		level = read_number(&text,
			"/sys/devices/system/cpu/cpu0/cache/index%s/%s", index, "level");
		if (level <= level_max ||
			hw_read(&text, "/sys/devices/system/cpu/cpu0/cache/index%d/size",
				i) < 0)
			continue;
		level_max = level;
		size = cache_size(buf_text(&text));
		sharing = 0;
		if (hw_read(&text,
			    "/sys/devices/system/cpu/cpu0/cache/index%d/shared_cpu_list",
			    i) == 0)
			sharing = hw_parse_cpulist(buf_text(&text), NULL);
	}
	err_clear();
	buf_release(&text);
	/* each group of CPUs that share one counts once */
	return sharing > 0 && threads > sharing ?
		size * ((threads + sharing - 1) / sharing) :
		size;
}

int64_t hw_throttle_count(void)
{
	struct buf text = BUF_INIT;
	int64_t sum = hw_quota_count(), v;
	char number[16];

	for (int i = 0; i < 1024; i++) {
		snprintf(number, sizeof number, "%d", i);
		v = read_number(&text,
			"/sys/devices/system/cpu/cpu%s/thermal_throttle/%s", number,
			"core_throttle_count");
		if (v < 0)
			break; /* the maker is not Intel, or there are no more CPUs */
		sum += v;
	}
	err_clear();
	buf_release(&text);
	return sum;
}

static void read_into(char *out, size_t size, const char *path, struct buf *text)
{
	if (hw_read(text, "%s", path) == 0)
		copy_text(out, size, buf_text(text), text->len);
	err_clear();
}

void hw_os_read(struct hw_os *out, struct hw_causes *why)
{
	struct buf text = BUF_INIT;
	struct utsname self;
	const char *at;

	memset(out, 0, sizeof *out);
	read_into(out->name, sizeof out->name, "/proc/sys/kernel/ostype", &text);
	read_into(out->release, sizeof out->release, "/proc/sys/kernel/osrelease", &text);
	if (!getenv("RNP_SYSROOT") && uname(&self) == 0)
		copy_text(out->machine, sizeof out->machine, self.machine,
			strlen(self.machine));
	else
		read_into(out->machine, sizeof out->machine, "/proc/sys/kernel/arch",
			&text);
	if (!out->name[0])
		hw_cause(why, "os.name", "/proc/sys/kernel/ostype cannot be read");
	if (hw_read(&text, "/etc/os-release") < 0 &&
		hw_read(&text, "/usr/lib/os-release") < 0) {
		cause_of_error(why, "os.distribution");
	} else {
		err_clear();
		at = strstr(buf_text(&text), "PRETTY_NAME=");
		if (at)
			copy_text(out->distribution, sizeof out->distribution, at + 12,
				strcspn(at + 12, "\n"));
		else
			hw_cause(why, "os.distribution",
				"/etc/os-release has no PRETTY_NAME");
	}
	buf_release(&text);
}

bool hw_in_container(void)
{
	return hw_exists("/.dockerenv") || hw_exists("/run/.containerenv") ||
		hw_exists("/run/systemd/container");
}

/* --- disks -------------------------------------------------------------------------------- */

static bool starts_with(const char *text, const char *const *words)
{
	for (; *words; words++)
		if (strncmp(text, *words, strlen(*words)) == 0)
			return true;
	return false;
}

static bool is_real_disk(const char *name, struct buf *text)
{
	static const char *const others[] = { "loop", "ram", "zram", "dm-", "md", "sr",
		"fd", "nbd", "zd", "rbd", "drbd", "mtdblock", NULL };
	bool real = name[0] != '.' && !starts_with(name, others) &&
		read_number(text, "/sys/block/%s/%s", name, "hidden") <= 0 &&
		read_number(text, "/sys/block/%s/%s", name, "removable") <= 0;

	err_clear();
	return real;
}

/* Hypervisors call every disk rotating, so that virtual disks have no type. */
static bool is_virtual_disk(const struct hw_disk *d)
{
	static const char *const names[] = { "vd", "xvd", "pmem", NULL };
	static const char *const models[] = { "QEMU", "VBOX", "Virtual", "VMware",
		"PersistentDisk", "Msft", "BlockVolume", NULL };

	return starts_with(d->name, names) || starts_with(d->model, models);
}

static void read_disk(struct hw_disk *d, const char *name, int index, struct buf *text,
	struct hw_causes *why)
{
	char field[32];
	int64_t rotating, sectors;

	memset(d, 0, sizeof *d);
	copy_text(d->name, sizeof d->name, name, strlen(name));
	snprintf(field, sizeof field, "disks[%d].type", index);
	if (hw_read(text, "/sys/block/%s/device/model", name) == 0)
		copy_text(d->model, sizeof d->model, buf_text(text), text->len);
	sectors = read_number(text, "/sys/block/%s/%s", name, "size");
	d->size_bytes = sectors > 0 && sectors < INT64_MAX / 512 ? sectors * 512 : 0;
	rotating = read_number(text, "/sys/block/%s/%s", name, "queue/rotational");
	if (is_virtual_disk(d))
		hw_cause(why, field, "%s is a virtual disk", d->name);
	else if (strncmp(name, "nvme", 4) == 0)
		d->type = "nvme";
	else if (rotating < 0)
		cause_of_error(why, field);
	else
		d->type = rotating ? "hdd" : "ssd";
	err_clear();
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

int hw_disks_read(struct hw_disk *out, int max, struct hw_causes *why)
{
	struct buf path = BUF_INIT, text = BUF_INIT;
	struct dirent **names = NULL;
	int n = 0, found;

	hw_path(&path, "/sys/block");
	found = scandir(path.data, &names, NULL, compare_names);
	if (found < 0) {
		err_sys(0, "cannot open '%s'", path.data);
		cause_of_error(why, "disks");
	}
	for (int i = 0; i < found; i++) {
		if (n < max && is_real_disk(names[i]->d_name, &text)) {
			read_disk(&out[n], names[i]->d_name, n, &text, why);
			n += out[n].size_bytes > 0; /* an empty slot is not a disk */
		}
		free(names[i]);
	}
	free(names);
	buf_release(&text);
	buf_release(&path);
	return n;
}

bool hw_disk_of(unsigned major, unsigned minor, char *out, size_t size)
{
	struct buf path = BUF_INIT;
	char link[512], number[48];
	ssize_t len;
	char *block, *end;

	snprintf(number, sizeof number, "/sys/dev/block/%u:%u", major, minor);
	hw_path(&path, number);
	len = readlink(path.data, link, sizeof link - 1);
	buf_release(&path);
	if (len <= 0)
		return false;
	link[len] = '\0';
	/* the word after "block" in .../block/nvme0n1/nvme0n1p2 or .../block/vda */
	block = strstr(link, "/block/");
	if (!block)
		return false;
	block += 7;
	end = strchr(block, '/');
	copy_text(out, size, block, end ? (size_t)(end - block) : strlen(block));
	return true;
}
