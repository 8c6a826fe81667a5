/* measured.c - merges the measurements of rnp.bench records into an rnp.node record. */
#include "cmd/rnp-register/node/measured.h"

#include <string.h>

#include "common/base/err.h"
#include "common/json/json.h"

static const char *text_of(const json_t *obj, const char *key)
{
	const char *text = json_string_value(json_object_get(obj, key));

	return text ? text : "";
}

/* A record that names its machine must name this one. */
static int check_same_machine(const json_t *node, const json_t *bench, const char *where)
{
	const char *mine = text_of(node, "node"), *theirs = text_of(bench, "node");
	const char *cpu = text_of(json_object_get(node, "cpu"), "model");
	const char *suite = text_of(bench, "suite"), *device = text_of(bench, "device");

	if (*mine && *theirs && strcmp(mine, theirs) != 0)
		return err_set(EX_DATAERR, "%s: measured by node %s, this is %s", where,
			theirs, mine);
	if ((strcmp(suite, "cpu") == 0 || strcmp(suite, "mem") == 0) && *cpu && *device &&
		strcmp(cpu, device) != 0)
		return err_set(EX_DATAERR, "%s: measured on '%s', this machine has '%s'",
			where, device, cpu);
	return 0;
}

static void set_known(json_t *obj, const char *key, int64_t value, json_t *node,
	const char *path)
{
	json_set_i64(obj, key, value);
	json_object_del(json_object_get(node, "unknown"), path);
}

static json_t *part(json_t *node, const char *key)
{
	json_t *v = json_object_get(node, key);

	if (!v) {
		v = json_object();
		json_set(node, key, v);
	}
	return v;
}

/* The field that a network test fills, its unit and the conversion to ours. */
static void take_network(json_t *node, const char *test, const char *unit, int64_t median)
{
	static const struct {
		const char *test, *unit, *field, *path;
		int64_t times, by;
	} rows[] = {
		{ "down", "B/s", "down_bps", "network.down_bps", 8, 1 },
		{ "up", "B/s", "up_bps", "network.up_bps", 8, 1 },
		{ "ping", "ns", "ping_us", "network.ping_us", 1, 1000 },
	};

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (strcmp(rows[i].test, test) == 0 && strcmp(rows[i].unit, unit) == 0 &&
			median <= JSON_SAFE_INTEGER_MAX / rows[i].times)
			set_known(part(node, "network"), rows[i].field,
				median * rows[i].times / rows[i].by, node, rows[i].path);
}

static void take_disk(json_t *node, const char *name, int64_t bytes_per_s)
{
	json_t *disk;
	size_t i;

	json_array_foreach(json_object_get(node, "disks"), i, disk)
		if (*name && strcmp(text_of(disk, "name"), name) == 0)
			json_set_i64(disk, "read_bps", bytes_per_s);
}

int measured_take(json_t *node, const json_t *bench, const char *where)
{
	const char *suite = text_of(bench, "suite"), *test = text_of(bench, "test");
	const char *unit = text_of(bench, "unit");
	json_t *cpu = json_object_get(node, "cpu");
	int64_t median = json_integer_value(json_object_get(bench, "median"));
	int64_t clock = json_integer_value(json_object_get(bench, "clock_mhz"));

	if (check_same_machine(node, bench, where) < 0)
		return -1;
	if (median <= 0)
		return 0;
	if (strcmp(suite, "net") == 0)
		take_network(node, test, unit, median);
	if (strcmp(suite, "mem") == 0 && strcmp(test, "triad") == 0 &&
		strcmp(unit, "B/s") == 0)
		set_known(node, "memory_bandwidth_bps", median, node,
			"memory_bandwidth_bps");
	if (strcmp(suite, "disk") == 0 && strcmp(test, "sequential_read") == 0 &&
		strcmp(unit, "B/s") == 0)
		take_disk(node, text_of(json_object_get(bench, "params"), "disk"),
			median);
	/* the highest of several, and never against what /sys says */
	if (strcmp(suite, "cpu") == 0 && clock > 0 && cpu &&
		clock > json_integer_value(json_object_get(cpu, "clock_max_mhz")) &&
		json_object_get(json_object_get(node, "unknown"), "cpu.clock_max_mhz"))
		json_set_i64(cpu, "clock_max_mhz", clock);
	return 0;
}

void measured_finish(json_t *node)
{
	if (json_object_get(json_object_get(node, "cpu"), "clock_max_mhz"))
		json_object_del(json_object_get(node, "unknown"), "cpu.clock_max_mhz");
}
