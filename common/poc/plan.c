/* plan.c - how much work a challenge asks of a device, and how long it may take. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/record/gpu.h"
#include "common/json/canon.h"
#include "common/json/json.h"
#include "common/poc/poc.h"

/* The slowest device of each kind that is accepted: half the speed of two cores of 2015, a
 * tenth of a GPU of 2018. */
static const struct poc_class slowest_cpu = { 5e10, 2e8, 2e6 },
			      slowest_gpu = { 5e12, 2e10, 2e6 };

/* One CPU thread, about as measured on 2 vCPUs of a Xeon at 2.1 GHz (Sapphire Rapids). A node
 * that claims AVX-512 is held to it. */
static const struct poc_class avx512_thread = { 2.5e11, 3.5e8, 1.8e7 },
			      avx2_thread = { 5e10, 1.5e8, 4e6 },
			      any_thread = { 2e9, 4e7, 1.5e6 };

/* Fractions of a GPU's data sheet: int8 is twice the dense f16 rate, and a product including
 * its hashes gets a third of that; a block of the fill moves 10 times its size, at a quarter of
 * the bandwidth. Not measured, and generous on purpose. */
#define GPU_OPERATIONS (2.0 / 3)
#define GPU_FILL       (0.25 / 10)
/* The same for a GPU without tensor cores, from its f32 rate: not measured. */
#define GPU_PLAIN 0.5
/* Drivers report up to a tenth less memory than is advertised (gpu.h). */
#define GPU_REPORTED_PERCENT 90

/* Time to start a device of a known class, and of an unknown one; and the rate of sending. */
#define START_MS         5000
#define UNKNOWN_START_MS 30000
#define SEND_BPS         1e6

/* Least duration of a test if the claim says how fast the device is. */
#define TEST_S 2.0
/* Rows of all rounds: their tree is in the node's memory, 64 bytes each. */
#define ROWS_MAX (1 << 24)
/* Duration of the fill: long enough that a node that keeps half of the memory is late (poc.h),
 * and no longer, since each pass makes the answer larger. */
#define FILL_S 5.0

struct sizes {
	int64_t n, rounds, memory_bytes, lanes, hashes;
};

static const struct sizes cpu_quick = { 1024, 16, 64 << 20, 64, 1 << 20 };
static const struct sizes cpu_full = { 4096, 64, 1 << 30, 256, 1 << 25 };
static const struct sizes gpu_quick = { 2048, 64, 1 << 30, 1024, 0 };
static const struct sizes gpu_full = { 8192, 2048, (int64_t)16 << 30, 8192, 0 };

static bool is_cpu(const char *uuid)
{
	return strncmp(uuid, "cpu:", 4) == 0;
}

static double bytes_of(const struct poc_device *d)
{
	return (double)poc_step_leaves(d) * MEMFILL_SLICES * MEMFILL_BYTES;
}

static double operations_of(const struct poc_device *d)
{
	double n = (double)d->n;

	return 2 * n * n * n * (double)d->rounds;
}

/* Returns about how large an answer is, in bytes: its hashes, which several openings share, are
 * not counted one by one. */
static double answer_bytes(const struct poc_device *d)
{
	double rows = d->n ? 2 * POC_OPENINGS * (double)d->n : 0;
	double blocks = d->lanes ?
		(double)poc_openings_before(d, MEMFILL_SLICES * d->passes) *
			(2 + MEMFILL_REFS) * MEMFILL_BYTES :
		0;

	return (rows + blocks + 32.0 * (double)d->segments) * 4 / 3 + 2e6;
}

/* Returns the bytes of the hashes from a leaf to the root of so many. */
static double path_bytes(int64_t leaves)
{
	double bytes = 0;

	for (; leaves > 1; leaves = (leaves + 1) / 2)
		bytes += POC_HASH_BYTES;
	return bytes;
}

int64_t poc_plan_answer_bytes(const struct poc_challenge *c)
{
	double bytes = 0;

	for (int i = 0; i < c->ndevices; i++) {
		const struct poc_device *d = &c->devices[i];
		double blocks = d->lanes ?
			(double)poc_openings_before(d, MEMFILL_SLICES * d->passes) *
				(2 + MEMFILL_REFS) :
			0;

		/* base64, as if no two openings shared a hash */
		bytes += answer_bytes(d) +
			4.0 / 3 *
				(blocks * path_bytes(poc_step_leaves(d)) +
					2 * POC_OPENINGS *
						path_bytes(d->n * (d->rounds + 1)));
	}
	return bytes < (double)POC_ANSWER_BYTES_MAX ? (int64_t)bytes :
						      (int64_t)POC_ANSWER_BYTES_MAX;
}

bool poc_plan_fits(const struct poc_challenge *c)
{
	double bytes = 0;

	for (int i = 0; i < c->ndevices; i++)
		bytes += answer_bytes(&c->devices[i]);
	return bytes <= (double)POC_ANSWER_BYTES_MAX;
}

void poc_plan_device(struct poc_device *d, const struct poc_challenge *c,
	const char *name, const struct poc_work *w)
{
	const struct sizes *s;
	int64_t bytes, hashes;

	*d = (struct poc_device){ 0 };
	snprintf(d->uuid, sizeof d->uuid, "%s", name);
	if (strcmp(name, "cpu") == 0)
		poc_cpu_uuid(d->uuid, c->node_key);
	if (is_cpu(d->uuid))
		s = w->quick ? &cpu_quick : &cpu_full;
	else
		s = w->quick ? &gpu_quick : &gpu_full;
	d->n = w->n ? w->n : s->n;
	d->rounds = w->rounds ? w->rounds : s->rounds;
	bytes = w->memory_bytes ? w->memory_bytes : s->memory_bytes;
	d->lanes = s->lanes;
	/* lanes have at least 16 blocks a slice: shorter chains would prove little */
	while (d->lanes > 8 && bytes / (MEMFILL_SLICES * MEMFILL_BYTES) / d->lanes < 16)
		d->lanes /= 2;
	d->per_slice = bytes / (MEMFILL_SLICES * MEMFILL_BYTES) / d->lanes;
	d->passes = 2;
	hashes = w->hashes ? w->hashes : s->hashes;
	if (hashes && is_cpu(d->uuid)) {
		d->segments = hashes < 1024 ? 1 : hashes < (1 << 24) ? 256 : 1024;
		d->steps = hashes / d->segments;
	}
}

/* Returns how long a class takes for the work of d; NULL: the slowest class that is accepted. */
static int64_t poc_plan_time_ms(const struct poc_device *d, const struct poc_class *of)
{
	const struct poc_class *r = of ? of :
		is_cpu(d->uuid)        ? &slowest_cpu :
					 &slowest_gpu;
	double s = operations_of(d) / r->operations +
		bytes_of(d) * (double)d->passes / r->fill_bytes +
		(double)(d->segments * d->steps) / r->hashes;

	return s * 1000 < POC_DEADLINE_MS_MAX ? (int64_t)(s * 1000) : POC_DEADLINE_MS_MAX;
}

/* A round calls so many operations of a device, each of which costs something however small it
 * is; the memory test calls one a lane and step. */
#define ROUND_CALLS 6

void poc_plan_work_s(double out[3], const struct poc_device *d,
	const struct poc_speed *speed)
{
	const struct poc_class *r = &speed->class;
	double steps = (double)(MEMFILL_SLICES * d->passes);

	out[0] = (double)d->segments * (double)d->steps / r->hashes;
	out[1] = d->n ?
		(double)d->rounds / speed->rounds + operations_of(d) / r->operations :
		0;
	out[2] = d->lanes ? bytes_of(d) * (double)d->passes / r->fill_bytes +
			steps * (double)d->lanes / (ROUND_CALLS * speed->rounds) :
			    0;
	/* the folds of the roots, one after the other */
	out[1] += d->n ? (double)poc_folds / r->hashes : 0;
	out[2] += d->lanes ? steps * (double)poc_folds / r->hashes : 0;
}

void poc_slowest_speed(struct poc_speed *out, const struct poc_device *d)
{
	*out = (struct poc_speed){ is_cpu(d->uuid) ? any_thread : slowest_gpu, 1000 };
}

static int64_t bounded_ms(double ms)
{
	return ms < POC_DEADLINE_MS_MAX ? (int64_t)ms : POC_DEADLINE_MS_MAX;
}

/* Returns the deadline of the roots alone. They are small, so it limits the work and not the
 * network link. */
static int64_t poc_plan_roots_ms(const struct poc_challenge *c,
	const struct poc_class *of)
{
	double work = 0;

	/* devices work at the same time */
	for (int i = 0; i < c->ndevices; i++) {
		double ms = (double)poc_plan_time_ms(&c->devices[i], of ? &of[i] : NULL);

		work = ms > work ? ms : work;
	}
	return bounded_ms((of ? START_MS : UNKNOWN_START_MS) +
		(c->of_joint ? POC_JOINT_SLACK : POC_SLACK) * work);
}

int64_t poc_plan_deadline_ms(const struct poc_challenge *c, const struct poc_class *of)
{
	double send = 0;

	/* answers are sent one after the other */
	for (int i = 0; i < c->ndevices; i++)
		send += answer_bytes(&c->devices[i]) / SEND_BPS * 1000;
	return bounded_ms((double)poc_plan_roots_ms(c, of) + send);
}

/* --- by what a node claims ---------------------------------------------------------------- */

static bool has_isa(const json_t *cpu, const char *isa)
{
	const json_t *v;
	size_t i;

	json_array_foreach(json_object_get(cpu, "isa"), i, v)
		if (json_is_string(v) &&
			strncmp(json_string_value(v), isa, strlen(isa)) == 0)
			return true;
	return false;
}

/* Least number of threads to assume: a smaller claim would only buy time. */
#define THREADS_MIN 0.25

/* Returns v, or the record's limit if there is one and it is smaller. */
static double limited(double v, const json_t *node, const char *limit, double unit)
{
	const json_t *limits = json_object_get(node, "limits");
	double max = json_number_value(json_object_get(limits, limit)) * unit;

	return max > 0 && max < v ? max : v;
}

static void class_of_cpu(struct poc_class *out, const json_t *node)
{
	const json_t *cpu = json_object_get(node, "cpu");
	double threads = json_number_value(json_object_get(cpu, "threads"));
	const struct poc_class *one = has_isa(cpu, "avx512vnni") ||
			has_isa(cpu, "avx512_vnni") ?
		&avx512_thread :
		has_isa(cpu, "avx2") ? &avx2_thread :
				       &any_thread;

	if (threads < 1)
		threads = 1;
	threads = limited(threads, node, "cpus", 1);
	threads = limited(threads, node, "cpu_milli", 1e-3);
	if (threads < THREADS_MIN)
		threads = THREADS_MIN;
	/* the hash chain runs on one thread */
	*out = (struct poc_class){ one->operations * threads, one->fill_bytes * threads,
		one->hashes * (threads < 1 ? threads : 1) };
}

/* Returns the model that a name means, whatever memory is claimed beside it. */
static const struct gpu_model *model_of(const json_t *gpu)
{
	const char *name = json_string_value(json_object_get(gpu, "model"));
	int64_t memory = json_integer_value(json_object_get(gpu, "memory_bytes"));
	const struct gpu_model *m = name ? gpu_find(name, memory) : NULL;

	return m || !name ? m : gpu_find(name, 0);
}

/* Returns the smallest value of a figure among all variants of a model's family; 0: none has
 * it. If a name leaves the variant open, everybody who uses the name has to reach the slowest
 * variant. */
static int64_t family_min(const struct gpu_model *m,
	int64_t (*figure)(const struct gpu_model *))
{
	int64_t min = 0;
	size_t n;
	const struct gpu_model *rows = gpu_table(&n);

	if (figure(m))
		return figure(m);
	for (size_t i = 0; i < n; i++) {
		int64_t v = figure(&rows[i]);

		if (strcmp(rows[i].family, m->family) == 0 && v && (!min || v < min))
			min = v;
	}
	return min;
}

static int64_t figure_tensor(const struct gpu_model *m)
{
	return m->tensor_gflops;
}

static int64_t figure_f32(const struct gpu_model *m)
{
	return m->f32_gflops;
}

static int64_t figure_bandwidth(const struct gpu_model *m)
{
	return m->bandwidth_mbytes;
}

static int64_t figure_memory(const struct gpu_model *m)
{
	return m->memory_bytes;
}

static void class_of_gpu(struct poc_class *out, const json_t *gpu)
{
	const struct gpu_model *m = model_of(gpu);

	*out = slowest_gpu;
	if (!m)
		return;
	/* a GPU without tensor cores multiplies int8 four at a time in its ordinary cores */
	if (family_min(m, figure_tensor))
		out->operations = (double)family_min(m, figure_tensor) * 1e9 *
			GPU_OPERATIONS;
	else if (family_min(m, figure_f32))
		out->operations = (double)family_min(m, figure_f32) * 1e9 * GPU_PLAIN;
	if (family_min(m, figure_bandwidth))
		out->fill_bytes = (double)family_min(m, figure_bandwidth) * 1e6 *
			GPU_FILL;
}

/* Returns the memory to ask of a GPU: what it claims, or if larger, what its model has at
 * least, minus the margin. A node that names a large model and a small memory is paid by the
 * model. */
static int64_t memory_of_gpu(const json_t *gpu)
{
	int64_t claimed = json_integer_value(json_object_get(gpu, "memory_bytes"));
	const struct gpu_model *m = model_of(gpu);
	int64_t sold = m ? family_min(m, figure_memory) / 100 * GPU_REPORTED_PERCENT : 0;
	int64_t bytes = claimed > sold ? claimed : sold;

	return bytes - bytes / 100 * POC_GPU_MARGIN_PERCENT;
}

static int64_t at_least_one(double v, double max)
{
	return v < 1 ? 1 : v > max ? (int64_t)max : (int64_t)v;
}

/* Chooses sizes by class: each test long enough to measure, the fill over the claimed memory. */
static void size_by_class(struct poc_device *d, const struct poc_class *of,
	int64_t memory_bytes, bool joint)
{
	double factor = joint ? 2 : 1;
	int64_t leaves = memory_bytes / (MEMFILL_SLICES * MEMFILL_BYTES);
	double n, passes;

	if (leaves > POC_LEAVES_MAX)
		leaves = POC_LEAVES_MAX;
	if (leaves / d->lanes > d->per_slice)
		d->per_slice = leaves / d->lanes;
	if (of->operations > 1e12)
		d->n = of->operations > 3e14 ? 8192 : 4096;
	n = (double)d->n;
	d->rounds = at_least_one(factor * TEST_S * of->operations / (2 * n * n * n),
		(double)(ROWS_MAX / d->n));
	passes = factor * FILL_S * of->fill_bytes / bytes_of(d);
	d->passes = passes < 2          ? 2 :
		passes > POC_PASSES_MAX ? POC_PASSES_MAX :
					  (int64_t)passes;
	if (d->segments)
		d->steps = at_least_one(factor * TEST_S * of->hashes /
				(double)d->segments,
			(double)(POC_HASHES_MAX / d->segments));
}

static bool is_asked(const struct poc_challenge *c, const char *uuid)
{
	for (int i = 0; i < c->ndevices; i++)
		if (strcmp(c->devices[i].uuid, uuid) == 0)
			return true;
	return false;
}

static void plan_cpu(struct poc_challenge *c, struct poc_class *of, const json_t *node)
{
	const struct poc_work quick = { .quick = true };
	double memory = limited(json_number_value(json_object_get(node, "memory_bytes")),
				node, "memory_bytes", 1) /
		POC_CPU_SHARE;

	c->ndevices = 1;
	poc_plan_device(&c->devices[0], c, "cpu", &quick);
	*of = slowest_cpu;
	if (!json_object_get(node, "cpu"))
		return;
	class_of_cpu(of, node);
	/* a whole number, and not negative: the record may have any shape */
	size_by_class(&c->devices[0], of,
		memory > 0 && memory < (double)POC_CPU_BYTES ? (int64_t)memory :
			memory > 0                           ? POC_CPU_BYTES :
							       0,
		c->of_joint);
}

/* Adds the GPU as the next device if the answer has space for it; *bytes is the size of the
 * answer so far. */
static bool plan_gpu(struct poc_challenge *c, struct poc_class *of, const json_t *gpu,
	double *bytes)
{
	const struct poc_work quick = { .quick = true };
	struct poc_device *d = &c->devices[c->ndevices];

	poc_plan_device(d, c, json_string_value(json_object_get(gpu, "uuid")), &quick);
	class_of_gpu(of, gpu);
	size_by_class(d, of, memory_of_gpu(gpu), c->of_joint);
	*bytes += answer_bytes(d);
	if (*bytes > (double)POC_ANSWER_BYTES_MAX)
		return false;
	c->ndevices++;
	return true;
}

int poc_plan_node(struct poc_challenge *c, const json_t *node)
{
	const json_t *gpus = json_object_get(node, "gpus");
	size_t count = json_array_size(gpus);
	struct poc_class of[POC_DEVICES_MAX];
	bool known = json_object_get(node, "cpu") != NULL, fits = true;
	double bytes;

	if (canon_hash_record(c->node_record, node) < 0)
		return -1;
	c->of_record = true;
	plan_cpu(c, &of[0], node);
	bytes = answer_bytes(&c->devices[0]);
	for (size_t i = 0; i < count && fits && c->ndevices < POC_DEVICES_MAX; i++) {
		/* starts at another GPU for each challenge, in case there are too many for one
		 * answer */
		const json_t *gpu = json_array_get(gpus, (c->nonce[0] + i) % count);

		if (gpus_why_unpaid(gpu) ||
			is_asked(c, json_string_value(json_object_get(gpu, "uuid"))))
			continue;
		fits = plan_gpu(c, &of[c->ndevices], gpu, &bytes);
	}
	c->roots_ms = poc_plan_roots_ms(c, known || c->ndevices > 1 ? of : NULL);
	c->deadline_ms = poc_plan_deadline_ms(c, known || c->ndevices > 1 ? of : NULL);
	return 0;
}
