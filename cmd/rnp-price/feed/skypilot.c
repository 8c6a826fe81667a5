/* skypilot.c - reads SkyPilot's catalogue: one CSV per cloud, one row per kind of machine
 * and region.
 *
 * Pitfalls, all of them in real files: the columns' order and number differ; Price and
 * SpotPrice are for the whole machine; a SpotPrice of 0.00 or nothing is no spot price;
 * AcceleratorCount is "8.0", or a fraction of a GPU; AcceleratorName drops what matters
 * ("RTX4060" for a 4060 Ti, "H100" for an H100 NVL), the machine's name keeps it; GpuInfo is a
 * Python literal, JSON, a bare name or nothing, and its "SizeInMiB" is per GPU, a total (Vast,
 * Prime) or GiB (RunPod). */
#include "cmd/rnp-price/feed/feed.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cmd/rnp-price/text/csv.h"
#include "cmd/rnp-price/text/pyliteral.h"
#include "common/base/err.h"
#include "common/base/num.h"

#define NAME_MAX_BYTES 128
#define MIB            ((int64_t)1 << 20)
#define GPUS_MAX       1024

enum column {
	INSTANCE_TYPE,
	ACCELERATOR_NAME,
	ACCELERATOR_COUNT,
	PRICE,
	SPOT_PRICE,
	REGION,
	REQUIRED, /* the columns above are required */
	VCPUS = REQUIRED,
	MEMORY_GIB,
	GPU_INFO,
	UPSTREAM,
	ZONE,
	COLUMNS
};

static const char *const column_names[COLUMNS] = { "InstanceType", "AcceleratorName",
	"AcceleratorCount", "Price", "SpotPrice", "Region", "vCPUs", "MemoryGiB",
	"GpuInfo", "UpstreamCloudId", "AvailabilityZone" };

struct row {
	const char *text[COLUMNS]; /* "" where the file lacks the column */
	char where[300];
	int64_t count_micro;
	char machine_gpu
		[NAME_MAX_BYTES];      /* the GPU named in InstanceType, "": none found */
	const char *info_name;         /* from GpuInfo, NULL: none */
	int64_t info_count, info_size; /* as GpuInfo states them; 0: not stated */
	int64_t info_total;
};

static int read_header(const struct csv *c, int at[COLUMNS])
{
	for (int k = 0; k < COLUMNS; k++) {
		at[k] = -1;
		for (int i = 0; i < c->nfields; i++) {
			if (strcmp(c->fields[i], column_names[k]) != 0)
				continue;
			if (at[k] >= 0)
				return err_set(EX_DATAERR,
					"%s:%ld: column '%s' is there twice", c->name,
					c->line, column_names[k]);
			at[k] = i;
		}
		if (at[k] < 0 && k < REQUIRED)
			return err_set(EX_DATAERR,
				"%s:%ld: no column '%s': not a SkyPilot "
				"catalogue",
				c->name, c->line, column_names[k]);
	}
	return 0;
}

/* --- the model ---------------------------------------------------------------------------- */

/* Returns where "-32-65536", cores and memory, begins at the end of a name; NULL: it has none. */
static const char *before_sizes(const char *name)
{
	const char *end = name + strlen(name);

	for (int i = 0; i < 2; i++) {
		const char *digits = end;

		while (digits > name && isdigit((unsigned char)digits[-1]))
			digits--;
		if (digits == end || digits == name || digits[-1] != '-')
			return NULL;
		end = digits - 1;
	}
	return end;
}

/* Finds the GPU in the machine's name, for the three known ways of writing it:
 * "2x-RTX_4060_Ti-32-65536" (Vast), "1x_RTXA6000_SECURE" (RunPod), and
 * "lambdalabs__8xA100_80GB__240__1800" (Prime). */
static void gpu_of_machine(const char *machine, char out[NAME_MAX_BYTES])
{
	const char *p = strstr(machine, "__"), *end;
	size_t n;

	out[0] = '\0';
	p = p ? p + 2 : machine;
	n = strspn(p, "0123456789");
	if (!n || p[n] != 'x')
		return;
	p += n + 1;
	if (p - machine == (ptrdiff_t)n + 1 && (*p == '-' || *p == '_')) {
		bool vast = *p++ == '-';

		end = vast ? before_sizes(p) : strrchr(p, '_');
		/* RunPod's names end with the kind of its cloud */
		if (!vast && end && strcmp(end, "_SECURE") != 0 &&
			strcmp(end, "_COMMUNITY") != 0)
			return;
	} else {
		end = strstr(p, "__");
	}
	if (!end || end == p || end - p >= NAME_MAX_BYTES)
		return;
	memcpy(out, p, (size_t)(end - p));
	out[end - p] = '\0';
}

/* Returns the MiB of one GPU as GpuInfo states it: SizeInMiB is for one, unless it is the total
 * of several. No GPU has less than 1 GiB: such a figure is in GiB. 0: not stated. */
static int64_t info_memory(const struct row *r)
{
	int64_t per = r->info_size;

	if (r->info_count > 1 && r->info_total == r->info_size)
		per /= r->info_count;
	return per && per < 1024 ? per * 1024 : per;
}

/* Finds the model by name, with the memory of GpuInfo taken literally, or else (Prime: a total
 * labelled as the size of one) divided by the number, whichever a card of that name has. Sets
 * *memory_mib to the value used. */
static const struct gpu_model *find_by(const struct row *r, const char *name,
	int64_t *memory_mib)
{
	int64_t mib = info_memory(r);
	const struct gpu_model *m = gpu_find(name, mib * MIB);

	if (!m && r->info_count > 1) {
		int64_t share = r->info_size / r->info_count;

		if (share && gpu_find(name, share * MIB)) {
			mib = share;
			m = gpu_find(name, mib * MIB);
		}
	}
	if (m)
		*memory_mib = mib;
	return m;
}

/* If a model leaves the variant open, another name of the same chip makes it specific. */
static const struct gpu_model *refine(const struct row *r, const struct gpu_model *m,
	const char *other, int64_t *memory_mib)
{
	int64_t mib = 0;
	const struct gpu_model *better;

	if (!m->unspecific || !other || !*other)
		return m;
	better = find_by(r, other, &mib);
	if (!better || better->unspecific || strcmp(better->family, m->family) != 0)
		return m;
	if (m->memory_bytes && better->memory_bytes != m->memory_bytes)
		return m;
	*memory_mib = mib;
	return better;
}

/* The machine's name is the most specific; AcceleratorName is used only if there is nothing
 * else. */
static void set_model(struct feed *f, struct offer *o, const struct row *r)
{
	const char *name = r->machine_gpu[0] ? r->machine_gpu : r->text[ACCELERATOR_NAME];
	int64_t mib = info_memory(r);
	const struct gpu_model *m;

	m = find_by(r, name, &mib);
	if (m) {
		m = refine(r, m, r->info_name, &mib);
		m = refine(r, m, r->text[ACCELERATOR_NAME], &mib);
		m = refine(r, m, r->text[UPSTREAM], &mib);
	}
	if (mib)
		o->gpu_memory_bytes = mib * MIB;
	else if (m && m->memory_bytes)
		o->gpu_memory_bytes = m->memory_bytes;
	feed_name_model(f, o, m, name, r->where);
}

/* --- one row ------------------------------------------------------------------------------ */

static int64_t whole(const json_t *obj, const char *key)
{
	const json_t *v = json_object_get(obj, key);
	double d = json_number_value(v);

	return json_is_number(v) && d >= 0 && d < 1e12 ? (int64_t)d : 0;
}

/* Takes name, count and sizes from GpuInfo. Text that is not a literal is a bare name. */
static int read_gpu_info(struct row *r, json_t **info)
{
	char what[400];
	const char *text = r->text[GPU_INFO] + strspn(r->text[GPU_INFO], " ");
	const json_t *gpu;

	*info = NULL;
	if (*text != '{' && *text != '[') {
		if (*text)
			r->info_name = text;
		return 0;
	}
	snprintf(what, sizeof what, "%s: GpuInfo", r->where);
	*info = pyliteral_parse(text, what);
	if (!*info)
		return -1;
	gpu = json_array_get(json_object_get(*info, "Gpus"), 0);
	r->info_name = json_string_value(json_object_get(gpu, "Name"));
	r->info_count = whole(gpu, "Count");
	r->info_size = whole(json_object_get(gpu, "MemoryInfo"), "SizeInMiB");
	r->info_total = whole(*info, "TotalGpuMemoryInMiB");
	if (r->info_count > GPUS_MAX || r->info_size > (int64_t)1 << 30)
		return err_set(EX_DATAERR, "%s: a count or size beyond every machine",
			what);
	return 0;
}

/* "8.0" gives 8000000, an empty text 0. */
static int read_count(struct row *r)
{
	char what[400];
	const char *text = r->text[ACCELERATOR_COUNT];

	r->count_micro = 0;
	if (!*text)
		return 0;
	snprintf(what, sizeof what, "%s: AcceleratorCount", r->where);
	if (num_decimal(text, what, 6, 0, &r->count_micro) < 0)
		return -1;
	if (r->count_micro < 0 || r->count_micro > (int64_t)GPUS_MAX * 1000000)
		return err_set(EX_DATAERR, "%s: %s is not between 0 and %d", what, text,
			GPUS_MAX);
	return 0;
}

/* Reads a quantity of the whole machine, which may be missing: the number times `unit`. */
static int read_quantity(const struct row *r, enum column k, int64_t unit, int64_t *out)
{
	char what[400];
	int64_t milli;

	if (!*r->text[k])
		return 0;
	snprintf(what, sizeof what, "%s: %s", r->where, column_names[k]);
	if (num_decimal(r->text[k], what, 3, 1, &milli) < 0)
		return -1;
	if (milli < 0 || milli > (int64_t)1000000000)
		return err_set(EX_DATAERR, "%s: %.60s is out of range", what, r->text[k]);
	*out = (int64_t)((__int128)milli * unit / 1000);
	return 0;
}

/* Adds the offer at one of the two prices if it has it, which *had reports. */
static int add_at_price(struct feed *f, struct offer *o, const struct row *r, bool spot,
	bool *had)
{
	enum column k = spot ? SPOT_PRICE : PRICE;
	char what[400];

	if (!*r->text[k])
		return 0;
	snprintf(what, sizeof what, "%s: %s", r->where, column_names[k]);
	if (feed_price(r->text[k], r->count_micro, what, &o->uusd_per_gpu_hour) < 0)
		return -1;
	if (!o->uusd_per_gpu_hour)
		return 0;
	o->spot = spot;
	feed_add(f, o, r->where);
	*had = true;
	return 0;
}

/* In RunPod's catalogue the machine's name states whether it is in a data centre; in Prime's it
 * begins with the provider, which counts as one host however many rows it has. */
static void read_seller(struct offer *o, const struct row *r, char *seller, size_t size)
{
	const char *name = r->text[INSTANCE_TYPE], *end = strstr(name, "__");
	const char *tier = strrchr(name, '_');

	if (tier && strcmp(tier, "_SECURE") == 0)
		o->secure = 1;
	else if (tier && strcmp(tier, "_COMMUNITY") == 0)
		o->secure = 0;
	if (end && end > name && (size_t)(end - name) < size) {
		snprintf(seller, size, "%.*s", (int)(end - name), name);
		o->host = seller;
	}
}

static int add_row(struct feed *f, const struct row *r)
{
	struct offer o;
	char id[512], country[3], region[200], seller[64];
	bool had = false;

	offer_init(&o);
	o.market = "skypilot";
	snprintf(id, sizeof id, "%s@%s%s%s", r->text[INSTANCE_TYPE], r->text[REGION],
		*r->text[ZONE] ? "/" : "", r->text[ZONE]);
	o.id = id;
	if (*r->text[REGION]) {
		snprintf(region, sizeof region, "%s", r->text[REGION]);
		o.region = region;
	}
	if (feed_country(r->text[REGION], country))
		o.country = country;
	if (r->count_micro < 1000000)
		o.gpu_share_ppm = r->count_micro;
	else
		o.gpu_count = r->count_micro / 1000000;
	if (read_quantity(r, VCPUS, 1, &o.cpu_cores) < 0 ||
		read_quantity(r, MEMORY_GIB, (int64_t)1 << 30, &o.memory_bytes) < 0)
		return -1;
	read_seller(&o, r, seller, sizeof seller);
	set_model(f, &o, r);
	if (add_at_price(f, &o, r, false, &had) < 0 ||
		add_at_price(f, &o, r, true, &had) < 0)
		return -1;
	if (!had)
		feed_note(f, r->where, "a row without a price, left out");
	return 0;
}

static int read_row(struct feed *f, const struct csv *c, const int at[COLUMNS])
{
	struct row r = { 0 };
	json_t *info = NULL;
	int rc = -1;

	f->rows++;
	snprintf(r.where, sizeof r.where, "%.250s:%ld", c->name, c->line);
	for (int k = 0; k < COLUMNS; k++)
		r.text[k] = at[k] < 0 ? "" : c->fields[at[k]];
	for (int k = 0; k < REQUIRED; k++)
		if (strlen(r.text[k]) > 200)
			return err_set(EX_DATAERR, "%s: %s: longer than 200 bytes",
				r.where, column_names[k]);
	if (strlen(r.text[ZONE]) > 100)
		return err_set(EX_DATAERR, "%s: AvailabilityZone: longer than 100 bytes",
			r.where);
	if (read_count(&r) < 0 || read_gpu_info(&r, &info) < 0)
		goto out;
	gpu_of_machine(r.text[INSTANCE_TYPE], r.machine_gpu);
	rc = 0;
	if (!*r.text[INSTANCE_TYPE] && r.count_micro && *r.text[ACCELERATOR_NAME])
		feed_note(f, r.where,
			"a GPU that is sold without its machine (Google), left out");
	else if (!*r.text[INSTANCE_TYPE])
		rc = err_set(EX_DATAERR, "%s: InstanceType is empty", r.where);
	else if (r.count_micro == 0)
		feed_note(f, r.where, "a machine without a GPU, left out");
	else if (!r.machine_gpu[0] && !*r.text[ACCELERATOR_NAME])
		rc = err_set(EX_DATAERR, "%s: AcceleratorName is empty", r.where);
	else if (r.count_micro > 1000000 && r.count_micro % 1000000)
		feed_note(f, r.where, "%s GPUs: neither whole nor part of one, left out",
			r.text[ACCELERATOR_COUNT]);
	else
		rc = add_row(f, &r);
out:
	json_decref(info);
	return rc;
}

int feed_skypilot(struct feed *f, const char *text, size_t len, const char *name)
{
	struct csv c;
	int at[COLUMNS], rc;

	csv_open(&c, text, len, name);
	rc = csv_next(&c);
	if (rc == 0)
		rc = err_set(EX_DATAERR, "%s: the feed is empty", name);
	if (rc > 0)
		rc = read_header(&c, at) < 0 ? -1 : 1;
	while (rc > 0 && (rc = csv_next(&c)) > 0)
		if (read_row(f, &c, at) < 0)
			rc = -1;
	csv_close(&c);
	return rc;
}
