/* facts.c - tests that each name is read from its place in a node record, that an unknown value
 * has a reason, and that a GPU's data sheet fills in figures that its driver does not report. */
#include "common/record/facts.h"

#include "common/json/json.h"
#include "common/record/gpu.h"
#include "tests/unit/test.h"

static json_t *parse(const char *text)
{
	json_t *v = json_parse_object(text, strlen(text), "test");

	CHECK(v != NULL);
	return v;
}

/* A node of which everything is known. */
static const char whole[] =
	"{\"wallet\":\"W\",\"os\":{\"name\":\"linux\"},\"memory_bytes\":64,"
	"\"cpu\":{\"cores\":8,\"threads\":16,\"clock_max_mhz\":5000},"
	"\"gpus\":[{\"model\":\"NVIDIA GeForce RTX 4090\",\"memory_bytes\":25757220864,"
	"\"clock_max_mhz\":3105,\"memory_bandwidth_bps\":900000000000},"
	"{\"model\":\"NVIDIA GeForce RTX 4090\"},{\"model\":\"Tesla T4\"}],"
	"\"disks\":[{\"name\":\"a\",\"type\":\"nvme\",\"size_bytes\":1000},"
	"{\"name\":\"b\",\"type\":\"hdd\",\"size_bytes\":7},"
	"{\"name\":\"c\",\"type\":\"nvme\",\"size_bytes\":500}],"
	"\"network\":{\"down_bps\":8000,\"up_bps\":4000}}";

static const char display_first[] =
	"{\"gpus\":[{\"model\":\"NVIDIA T400 4GB\",\"memory_bytes\":4294967296,"
	"\"clock_max_mhz\":2100},"
	"{\"model\":\"NVIDIA GeForce RTX 4090\",\"memory_bytes\":25757220864,"
	"\"clock_max_mhz\":2520},"
	"{\"model\":\"NVIDIA GeForce RTX 4090\",\"memory_bytes\":25700000000}]}";

static void number_is(int line, const char *node, const char *name, int64_t want,
	const char *source)
{
	json_t *v = parse(node);
	struct fact f;

	test_checks++;
	if (!fact_read(v, name, &f) || !f.known || f.text || f.value != want ||
		strcmp(f.source, source) != 0) {
		test_failures++;
		fprintf(stderr, "%s:%d: %s is %lld from %s, not %lld from %s (%s)\n",
			__FILE__, line, name, (long long)f.value, f.source,
			(long long)want, source, f.cause);
	}
	json_decref(v);
}

static void text_is(int line, const char *node, const char *name, const char *want)
{
	json_t *v = parse(node);
	struct fact f;

	test_checks++;
	if (!fact_read(v, name, &f) || !f.known || !f.text || strcmp(f.text, want) != 0) {
		test_failures++;
		fprintf(stderr, "%s:%d: %s is not %s\n", __FILE__, line, name, want);
	}
	json_decref(v);
}

static void unknown_is(int line, const char *node, const char *name, const char *cause)
{
	json_t *v = parse(node);
	struct fact f;

	test_checks++;
	if (!fact_read(v, name, &f) || f.known || strcmp(f.cause, cause) != 0) {
		test_failures++;
		fprintf(stderr, "%s:%d: %s is known, or not because '%s': '%s'\n",
			__FILE__, line, name, cause, f.cause);
	}
	json_decref(v);
}

#define NUMBER(node, name, want, source) number_is(__LINE__, node, name, want, source)
#define TEXT(node, name, want)           text_is(__LINE__, node, name, want)
#define UNKNOWN(node, name, cause)       unknown_is(__LINE__, node, name, cause)

static void check_places(void)
{
	TEXT(whole, "wallet", "W");
	TEXT(whole, "os", "linux");
	NUMBER(whole, "memory_bytes", 64, "memory_bytes");
	NUMBER(whole, "cpu_cores", 8, "cpu.cores");
	NUMBER(whole, "cpu_threads", 16, "cpu.threads");
	NUMBER(whole, "cpu_clock_mhz", 5000, "cpu.clock_max_mhz");
	NUMBER(whole, "gpu_count", 2, "gpus"); /* those of the first one's model */
	NUMBER(whole, "gpu_memory_bytes", 25757220864, "gpus[0].memory_bytes");
	NUMBER(whole, "gpu_clock_mhz", 3105, "gpus[0].clock_max_mhz");
	NUMBER(whole, "gpu_memory_bandwidth_bps", 900000000000,
		"gpus[0].memory_bandwidth_bps");
	NUMBER(whole, "nvme_bytes", 1500, "disks");
	NUMBER(whole, "down_bps", 8000, "network.down_bps");
	NUMBER(whole, "up_bps", 4000, "network.up_bps");
}

static void check_gpus(void)
{
	const struct gpu_model *m = gpu_find("NVIDIA GeForce RTX 4090", 0);

	CHECK(m && m->bandwidth_mbytes);
	/* the name that we use, not the driver's; one that we do not know stays as it is */
	TEXT("{\"gpus\":[{\"model\":\"NVIDIA GeForce RTX 4090\"}]}", "gpu_model",
		m->name);
	TEXT("{\"gpus\":[{\"model\":\"Acme X1\"}]}", "gpu_model", "Acme X1");
	NUMBER("{\"gpus\":[{\"model\":\"NVIDIA GeForce RTX 4090\"}]}",
		"gpu_memory_bandwidth_bps", m->bandwidth_mbytes * 1000000,
		"data sheet of the model");
	UNKNOWN("{\"gpus\":[{\"model\":\"Acme X1\"}]}", "gpu_memory_bandwidth_bps", "");
	/* a display card in the first slot is not what the node is; the least of two counts */
	TEXT(display_first, "gpu_model", "RTX 4090");
	NUMBER(display_first, "gpu_count", 2, "gpus");
	NUMBER(display_first, "gpu_memory_bytes", 25700000000, "gpus[2].memory_bytes");
	NUMBER(display_first, "gpu_clock_mhz", 2520, "gpus[1].clock_max_mhz");
	UNKNOWN("{\"gpus\":[{\"model\":\"T400 4GB\",\"memory_bytes\":4294967296},"
		"{\"model\":\"RTX 4090\"}],\"unknown\":{\"gpus[1].memory_bytes\":\"lost\"}}",
		"gpu_memory_bytes", "lost");
}

static void check_none(void)
{
	json_t *v = parse("{\"gpus\":[],\"disks\":[]}");
	struct fact f;

	CHECK(fact_read(v, "gpu_model", &f) && f.known && f.none);
	CHECK(fact_read(v, "gpu_count", &f) && f.known && f.none && f.value == 0);
	CHECK(fact_read(v, "nvme_bytes", &f) && f.known && f.none);
	CHECK(fact_read(v, "wallet", &f) && !f.known && !f.none);
	CHECK(!fact_read(v, "shoe_size", &f));
	json_decref(v);
	/* disks that are no NVMe: 0 is known */
	NUMBER("{\"disks\":[{\"name\":\"a\",\"type\":\"ssd\",\"size_bytes\":5}]}",
		"nvme_bytes", 0, "disks");
}

static void check_causes(void)
{
	UNKNOWN("{}", "cpu_cores", "");
	UNKNOWN("{\"unknown\":{\"cpu\":\"no /proc\"}}", "cpu_cores", "no /proc");
	UNKNOWN("{\"unknown\":{\"cpu\":\"no /proc\",\"cpu.cores\":\"no cpuid\"}}",
		"cpu_cores", "no cpuid");
	UNKNOWN("{\"unknown\":{\"gpus\":\"no NVML\"},\"withheld\":[\"gpus\"]}",
		"gpu_model", "the operator does not share it");
	UNKNOWN("{\"withheld\":[\"disks\",5]}", "gpu_model", "");
	UNKNOWN("{\"disks\":[{\"name\":\"a\",\"size_bytes\":5}]}", "nvme_bytes",
		"the disks do not say their type");
	/* at least what is known to be NVMe */
	NUMBER("{\"disks\":[{\"name\":\"a\",\"size_bytes\":5},"
	       "{\"name\":\"b\",\"type\":\"nvme\",\"size_bytes\":9}]}",
		"nvme_bytes", 9, "disks");
	/* what has another type than it should is not known either */
	UNKNOWN("{\"memory_bytes\":-1}", "memory_bytes", "");
	UNKNOWN("{\"memory_bytes\":1.5}", "memory_bytes", "");
	UNKNOWN("{\"cpu\":[5],\"gpus\":{\"model\":\"x\"}}", "cpu_cores", "");
}

/* The name of one card and the memory of another, or of a slice. */
static void check_too_small(void)
{
	static const char form[] =
		"{\"gpus\":[{\"model\":\"%s\",\"memory_bytes\":%lld}]}";
	static const struct {
		const char *model;
		long long mib;
		bool known;
	} cases[] = {
		{ "NVIDIA GeForce RTX 4090", 12000, false },
		{ "NVIDIA GeForce RTX 4090", 24564, true },
		{ "NVIDIA GeForce RTX 4090", 49140, true },
		{ "NVIDIA GeForce RTX 3080", 8192, false },
		{ "NVIDIA GeForce RTX 3080", 12288, true },
		{ "NVIDIA A100-SXM4-80GB", 9728, false },
		{ "NVIDIA A10G", 23028, true },
		{ "Some new card", 512, true },
		{ "NVIDIA GeForce RTX 4090", 0, true },
	};
	char text[200];
	struct fact f;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		json_t *v;

		snprintf(text, sizeof text, form, cases[i].model, cases[i].mib << 20);
		v = parse(text);
		CHECK(fact_read(v, "gpu_model", &f));
		CHECK(f.known == cases[i].known);
		CHECK(f.known == !strstr(f.cause, "of memory, where such a GPU has"));
		json_decref(v);
	}
}

int main(void)
{
	check_too_small();
	check_places();
	check_gpus();
	check_none();
	check_causes();
	TEST_END();
}
