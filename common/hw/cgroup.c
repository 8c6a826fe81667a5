/* cgroup.c - the limits in hw.h: which control group this process is in, and what it allows
 * (versions 1 and 2). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/hw/hw.h"
#include "common/base/num.h"

/* version 1 writes about 2^63 where there is no limit */
#define NO_LIMIT (INT64_C(1) << 60)

int64_t hw_parse_limit(const char *text)
{
	int64_t v;

	if (strcmp(text, "max") == 0 || strcmp(text, "-1") == 0)
		return 0;
	if (num_i64(text, "limit", 0, INT64_MAX, &v) < 0) {
		err_clear();
		return -1;
	}
	return v >= NO_LIMIT ? 0 : v;
}

static int64_t milli(int64_t quota, int64_t period)
{
	__int128 v = (__int128)quota * 1000 / period;

	return v < 1 ? 1 : v > INT64_MAX ? 0 : (int64_t)v;
}

int64_t hw_parse_cpu_max(const char *text)
{
	size_t len = strcspn(text, " ");
	char quota[32];
	int64_t q, period;

	if (len >= sizeof quota || !text[len])
		return -1;
	memcpy(quota, text, len);
	quota[len] = '\0';
	q = hw_parse_limit(quota);
	period = hw_parse_limit(text + len + 1);
	if (q < 0 || period <= 0)
		return -1;
	return q ? milli(q, period) : 0;
}

/* Finds the group's path in /proc/self/cgroup: "4:memory:/a/b", "0::/a/b" for version 2. */
static bool find_group(const char *text, const char *controller, struct buf *out)
{
	while (*text) {
		size_t len = strcspn(text, "\n");
		const char *first = memchr(text, ':', len);
		const char *second = first ?
			memchr(first + 1, ':', len - (size_t)(first + 1 - text)) :
			NULL;

		if (second &&
			hw_has_word(first + 1, (size_t)(second - first - 1), ',',
				controller)) {
			buf_add(out, second + 1, len - (size_t)(second + 1 - text));
			return true;
		}
		text += len + (text[len] == '\n');
	}
	return false;
}

/* Reads a field of mountinfo, where white space and backslash are \040 and so on. */
static void add_unescaped(struct buf *out, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '\\' && i + 3 < len && text[i + 1] >= '0' &&
			text[i + 1] <= '3' && strspn(text + i + 1, "01234567") >= 3) {
			int c = (text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
				(text[i + 3] - '0');

			if (c)
				buf_addc(out, (char)c);
			i += 3;
		} else {
			buf_addc(out, text[i]);
		}
	}
}

/* Reads one line of mountinfo: "31 23 0:28 ROOT MOUNT options ... - TYPE source options". */
static bool parse_mount(const char *line, size_t len, const char *controller,
	struct buf *root, struct buf *mount)
{
	const char *field[6], *end = line + len, *dash;
	size_t size[6];

	for (int i = 0; i < 6; i++) {
		field[i] = line;
		line = memchr(line, ' ', (size_t)(end - line));
		if (!line)
			return false;
		size[i] = (size_t)(line - field[i]);
		line++;
	}
	dash = memmem(field[5], (size_t)(end - field[5]), " - ", 3);
	if (!dash)
		return false;
	dash += 3;
	if (controller[0]) {
		const char *options = end;

		if (end - dash < 7 || memcmp(dash, "cgroup ", 7) != 0)
			return false;
		while (options > dash && options[-1] != ' ')
			options--;
		if (!hw_has_word(options, (size_t)(end - options), ',', controller))
			return false;
	} else if (end - dash < 8 || memcmp(dash, "cgroup2 ", 8) != 0) {
		return false;
	}
	buf_reset(root);
	buf_reset(mount);
	add_unescaped(root, field[3], size[3]);
	add_unescaped(mount, field[4], size[4]);
	return true;
}

bool hw_parse_cgroup(const char *cgroup, const char *mountinfo, const char *controller,
	struct buf *mount, struct buf *group)
{
	struct buf root = BUF_INIT;
	bool found = false;

	buf_reset(mount);
	buf_reset(group);
	while (*mountinfo && !found) {
		size_t len = strcspn(mountinfo, "\n");

		found = parse_mount(mountinfo, len, controller, &root, mount);
		mountinfo += len + (mountinfo[len] == '\n');
	}
	found = found && find_group(cgroup, controller, group);
	if (strcmp(buf_text(&root), "/") == 0)
		buf_reset(&root);
	/* in a container the mount's root is the own group, whose path outside may be known */
	if (found && root.len && strncmp(buf_text(group), root.data, root.len) == 0) {
		memmove(group->data, group->data + root.len, group->len - root.len + 1);
		group->len -= root.len;
	} else if (root.len) {
		buf_reset(group);
	}
	/* a path that leaves the namespace ("/../x") leads outside of what is visible */
	if (strstr(buf_text(group), "/.."))
		buf_reset(group);
	buf_release(&root);
	return found;
}

struct search {
	struct buf cgroup, mountinfo, mount, group, text;
};

/* Returns a limit of the current directory of the search; 0: none, or it cannot be read. */
typedef int64_t (*limit_fn)(struct search *s, const char *file);

static int64_t read_with(struct search *s, const char *file,
	int64_t (*parse)(const char *))
{
	int64_t v = 0;

	if (hw_read(&s->text, "%s%s/%s", buf_text(&s->mount), buf_text(&s->group),
		    file) == 0)
		v = parse(buf_text(&s->text));
	err_clear();
	return v;
}

static int64_t plain_limit(struct search *s, const char *file)
{
	return read_with(s, file, hw_parse_limit);
}

static int64_t cpu_max(struct search *s, const char *file)
{
	return read_with(s, file, hw_parse_cpu_max);
}

static int64_t cpu_quota(struct search *s, const char *file)
{
	int64_t quota = read_with(s, file, hw_parse_limit);
	int64_t period = read_with(s, "cpu.cfs_period_us", hw_parse_limit);

	return quota > 0 && period > 0 ? milli(quota, period) : 0;
}

/* Returns the smallest limit from the group up to the mount, since every ancestor's holds. */
static int64_t smallest(struct search *s, const char *controller, const char *file,
	limit_fn read)
{
	int64_t best = 0;

	if (!hw_parse_cgroup(buf_text(&s->cgroup), buf_text(&s->mountinfo), controller,
		    &s->mount, &s->group))
		return 0;
	for (;;) {
		int64_t v = read(s, file);
		char *slash;

		if (v > 0 && (!best || v < best))
			best = v;
		slash = s->group.len ? strrchr(s->group.data, '/') : NULL;
		if (!slash)
			return best;
		*slash = '\0';
		s->group.len = (size_t)(slash - s->group.data);
	}
}

static bool is_mounted(struct search *s, const char *controller)
{
	return hw_parse_cgroup(buf_text(&s->cgroup), buf_text(&s->mountinfo), controller,
		&s->mount, &s->group);
}

/* Finds out which version there is. Some machines mount both; the controllers are in version 1
 * then. */
static void read_limits(struct hw_limits *out, struct search *s)
{
	if (is_mounted(s, "memory") || is_mounted(s, "cpu")) {
		out->cgroup = 1;
		out->memory_bytes = smallest(s, "memory", "memory.limit_in_bytes",
			plain_limit);
		out->pids = smallest(s, "pids", "pids.max", plain_limit);
		out->cpu_milli = smallest(s, "cpu", "cpu.cfs_quota_us", cpu_quota);
	} else if (is_mounted(s, "")) {
		out->cgroup = 2;
		out->memory_bytes = smallest(s, "", "memory.max", plain_limit);
		out->pids = smallest(s, "", "pids.max", plain_limit);
		out->cpu_milli = smallest(s, "", "cpu.max", cpu_max);
	}
}

static void search_release(struct search *s)
{
	buf_release(&s->cgroup);
	buf_release(&s->mountinfo);
	buf_release(&s->mount);
	buf_release(&s->group);
	buf_release(&s->text);
}

static int search_begin(struct search *s)
{
	return hw_read(&s->cgroup, "/proc/self/cgroup") < 0 ||
			hw_read(&s->mountinfo, "/proc/self/mountinfo") < 0 ?
		-1 :
		0;
}

int64_t hw_quota_count(void)
{
	struct search s = { BUF_INIT, BUF_INIT, BUF_INIT, BUF_INIT, BUF_INIT };
	int64_t count = -1;

	if (search_begin(&s) == 0 && (is_mounted(&s, "cpu") || is_mounted(&s, "")) &&
		hw_read(&s.text, "%s%s/cpu.stat", buf_text(&s.mount),
			buf_text(&s.group)) == 0)
		count = hw_parse_field(buf_text(&s.text), "nr_throttled");
	err_clear();
	search_release(&s);
	return count < 0 ? 0 : count;
}

int64_t hw_available_read(void)
{
	struct search s = { BUF_INIT, BUF_INIT, BUF_INIT, BUF_INIT, BUF_INIT };
	int64_t kib, bytes = 0, limit = 0, used = 0;

	if (hw_read(&s.text, "/proc/meminfo") == 0) {
		kib = hw_parse_field(buf_text(&s.text), "MemAvailable:");
		bytes = kib > 0 && kib < INT64_MAX / 1024 ? kib * 1024 : 0;
	}
	if (search_begin(&s) == 0 && is_mounted(&s, "memory")) {
		used = read_with(&s, "memory.usage_in_bytes", hw_parse_limit);
		limit = smallest(&s, "memory", "memory.limit_in_bytes", plain_limit);
	} else if (s.mountinfo.len && is_mounted(&s, "")) {
		used = read_with(&s, "memory.current", hw_parse_limit);
		limit = smallest(&s, "", "memory.max", plain_limit);
	}
	err_clear();
	search_release(&s);
	if (limit > 0 && used >= 0 && limit - used < bytes)
		bytes = limit > used ? limit - used : 1;
	return bytes;
}

static int allowed_cpus(struct buf *text)
{
	const char *at;

	if (hw_read(text, "/proc/self/status") < 0 ||
		!(at = strstr(buf_text(text), "Cpus_allowed_list:"))) {
		err_clear();
		return 0;
	}
	at += 18;
	at += strspn(at, " \t");
	text->data[(at - text->data) + (ptrdiff_t)strcspn(at, "\n")] = '\0';
	return hw_parse_cpulist(at, NULL);
}

void hw_limits_read(struct hw_limits *out, struct hw_causes *why)
{
	struct search s = { BUF_INIT, BUF_INIT, BUF_INIT, BUF_INIT, BUF_INIT };
	int online = 0;

	memset(out, 0, sizeof *out);
	if (search_begin(&s) < 0) {
		hw_cause(why, "limits", "%s", err_get()->text);
		err_clear();
	} else {
		read_limits(out, &s);
	}
	if (hw_read(&s.text, "/sys/devices/system/cpu/online") == 0)
		online = hw_parse_cpulist(buf_text(&s.text), NULL);
	err_clear();
	out->cpus = allowed_cpus(&s.text);
	if (out->cpus < 0 || out->cpus >= online)
		out->cpus = 0;
	search_release(&s);
}
