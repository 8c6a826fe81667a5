/* evidence_shape.c - the fields of rnp.uptime, rnp.verdict, rnp.receipt, rnp.node and of their
 * proofs. */
#include "cmd/rnp-reward/evidence_shape.h"

#include <string.h>

#include "common/json/json.h"
#include "common/json/plain.h"

/* of schemas that state no bound; with more, a record is left to JSON */
#define UNKNOWN_MAX 64
#define REASON_MAX  1000

#define KEY(name) .key = "\"" name "\":", .len = sizeof("\"" name "\":") - 1

/* clang-format off */
#define TEXT(name, least, most)  { KEY(name), .type = SHAPE_TEXT, .min = (least), .max = (most) }
#define WHOLE(name, least, most) { KEY(name), .type = SHAPE_WHOLE, .min = (least), .max = (most) }
#define COUNT(name)              WHOLE(name, 0, JSON_SAFE_INTEGER_MAX)
#define POSITIVE(name)           WHOLE(name, 1, JSON_SAFE_INTEGER_MAX)
#define OF_TYPE(name, which)     { KEY(name), .type = SHAPE_##which }
#define OBJECT(name, of)         { KEY(name), .type = SHAPE_OBJECT, .shape = &(of) }
#define LIST(name, most, of)     { KEY(name), .type = SHAPE_LIST, .max = (most), .item = &(of) }
#define TEXTS(name, most, of)    { KEY(name), .type = SHAPE_TEXTS, .max = (most), .item = &(of) }
#define ONE_OF(name, list)       { KEY(name), .type = SHAPE_ENUM, .words = (list) }

/* One for each shape: where its names are. */
static signed char guesses[SHAPES][SHAPE_GUESSES];

#define SHAPE(f, i, must) SHAPE_FACTS(f, i, must, 0)
#define SHAPE_FACTS(f, i, must, which)                                                      \
	{ .fields = (f), .n = (int)(sizeof(f) / sizeof *(f)), .required = (must), .facts = (which), \
		.guess = guesses[i], .number = (i) }
/* clang-format on */

/* --- verdicts --------------------------------------------------------------------------------- */

static const struct shape_field check_fields[] = { TEXT("check", 1, 100),
	TEXT("device", 0, 200), OF_TYPE("passed", BOOL), TEXT("reason", 0, 1000) };
static const struct shape check_shape = SHAPE(check_fields, 0,
	SHAPE_BIT(0) | SHAPE_BIT(2));
static const struct shape_field check = { .key = "",
	.type = SHAPE_OBJECT,
	.shape = &check_shape };

static const struct shape_field proven_fields[] = { TEXT("device", 1, 128),
	POSITIVE("memory_bytes") };
static const struct shape proven_shape = SHAPE(proven_fields, 1, SHAPE_BIT(0));
static const struct shape_field proven = { .key = "",
	.type = SHAPE_PROVEN,
	.shape = &proven_shape };

/* in the order of gather_readings */
static const struct shape_field reading_fields[GATHER_READINGS] = { COUNT("bandwidth"),
	COUNT("clock"), COUNT("memory"), COUNT("teraflops") };
static const struct shape reading_shape = SHAPE(reading_fields, 2, 0);

static const struct shape_field reason = { .key = "",
	.type = SHAPE_TEXT,
	.max = REASON_MAX };

/* --- nodes ------------------------------------------------------------------------------------ */

static const struct shape_field gpu_fields[] = {
	WHOLE("clock_max_mhz", 1, 100000),
	TEXT("compute_capability", 3, 8),
	TEXT("driver", 1, 64),
	OF_TYPE("ecc", BOOL),
	POSITIVE("memory_bandwidth_bps"),
	POSITIVE("memory_bytes"),
	OF_TYPE("mig", BOOL),
	TEXT("model", 1, 128),
	WHOLE("pcie_gen", 1, 16),
	WHOLE("pcie_width", 1, 32),
	WHOLE("power_limit_mw", 1, 100000000),
	WHOLE("sm_count", 1, 65536),
	TEXTS("unknown", 32, reason),
	{ KEY("uuid"), .type = SHAPE_UUID, .max = 128 },
	TEXT("vendor", 1, 64),
};
/* clock_max_mhz, memory_bandwidth_bps, memory_bytes, model, uuid */
static const struct shape gpu_shape = SHAPE_FACTS(gpu_fields, 3, SHAPE_BIT(7),
	SHAPE_BIT(0) | SHAPE_BIT(4) | SHAPE_BIT(5) | SHAPE_BIT(7) | SHAPE_BIT(13));
static const struct shape_field gpu = { .key = "",
	.type = SHAPE_OBJECT,
	.shape = &gpu_shape };

static const struct shape_field isa = { .key = "",
	.type = SHAPE_TEXT,
	.min = 1,
	.max = 32 };
static const struct shape_field cpu_fields[] = { WHOLE("clock_max_mhz", 1, 100000),
	WHOLE("cores", 1, 65536), LIST("isa", 64, isa), TEXT("model", 1, 256),
	WHOLE("threads", 1, 65536) };
/* clock_max_mhz, cores */
static const struct shape cpu_shape = SHAPE_FACTS(cpu_fields, 4, 0,
	SHAPE_BIT(0) | SHAPE_BIT(1));

static const char *const disk_types[] = { "nvme", "ssd", "hdd", NULL };
static const struct shape_field disk_fields[] = { TEXT("model", 1, 128),
	TEXT("name", 1, 64), POSITIVE("read_bps"), COUNT("size_bytes"),
	ONE_OF("type", disk_types) };
static const struct shape disk_shape = SHAPE(disk_fields, 5, SHAPE_BIT(1));
static const struct shape_field disk = { .key = "",
	.type = SHAPE_OBJECT,
	.shape = &disk_shape };

static const struct shape_field os_fields[] = { TEXT("distribution", 1, 128),
	TEXT("machine", 1, 64), TEXT("name", 1, 64), TEXT("release", 1, 128) };
static const struct shape os_shape = SHAPE(os_fields, 6, 0);

static const struct shape_field limit_fields[] = { WHOLE("cgroup", 1, 2),
	WHOLE("cpu_milli", 1, 65536000), WHOLE("cpus", 1, 65536), COUNT("memory_bytes"),
	POSITIVE("pids") };
static const struct shape limit_shape = SHAPE(limit_fields, 7, 0);

static const struct shape_field network_fields[] = { COUNT("down_bps"), COUNT("ping_us"),
	COUNT("up_bps") };
/* down_bps, up_bps */
static const struct shape network_shape = SHAPE_FACTS(network_fields, 8, 0,
	SHAPE_BIT(0) | SHAPE_BIT(2));

static const char *const host_types[] = { "data-center", "miner", "partner", NULL };
static const char *const rules[] = { "SOC2", "HIPAA", "GDPR", "confidential-computing",
	NULL };
static const struct shape_field rule = { .key = "", .type = SHAPE_ENUM, .words = rules };
static const struct shape_field label_fields[] = { LIST("compliance", 16, rule),
	OF_TYPE("country", COUNTRY), ONE_OF("host_type", host_types),
	OF_TYPE("peak_hours", HOURS), TEXT("region", 1, 64) };
static const struct shape label_shape = SHAPE(label_fields, 9, 0);
static const struct shape_field label = { .key = "", .type = SHAPE_TEXT, .max = 128 };

static const struct shape_field withheld = { .key = "", .type = SHAPE_TEXT, .max = 64 };

/* --- records ---------------------------------------------------------------------------------- */

static const struct shape_field fields[RECORD_FIELDS] = {
	[RECORD_AT] = OF_TYPE("at", TIME),
	[RECORD_BEATS] = COUNT("beats"),
	[RECORD_BEATS_SHA256] = OF_TYPE("beats_sha256", SHA256),
	[RECORD_CHALLENGE_SHA256] = OF_TYPE("challenge_sha256", SHA256),
	[RECORD_CHECKS] = LIST("checks", 4096, check),
	[RECORD_CPU] = OBJECT("cpu", cpu_shape),
	[RECORD_CREDITS] = COUNT("credits"),
	[RECORD_DISKS] = LIST("disks", 128, disk),
	[RECORD_EARNED_UUSD] = COUNT("earned_uusd"),
	[RECORD_ELAPSED_NS] = COUNT("elapsed_ns"),
	[RECORD_FROM] = OF_TYPE("from", TIME),
	[RECORD_GPU_SECONDS] = COUNT("gpu_seconds"),
	[RECORD_GPUS] = { KEY("gpus"), .type = SHAPE_GPUS, .max = SHAPE_GPUS_MAX,
		.item = &gpu },
	[RECORD_JOB] = TEXT("job", 1, 200),
	[RECORD_JOINT] = OF_TYPE("joint", SHA256),
	[RECORD_KIND] = OF_TYPE("kind", KIND),
	[RECORD_LABELS] = { KEY("labels"), .type = SHAPE_TEXTS, .max = 32,
		.shape = &label_shape, .item = &label },
	[RECORD_LIMITS] = OBJECT("limits", limit_shape),
	[RECORD_MEMORY_BANDWIDTH] = POSITIVE("memory_bandwidth_bps"),
	[RECORD_MEMORY_BYTES] = POSITIVE("memory_bytes"),
	[RECORD_NAME] = TEXT("name", 1, 128),
	[RECORD_NETWORK] = OBJECT("network", network_shape),
	[RECORD_NODE] = OF_TYPE("node", ADDRESS),
	[RECORD_NODE_RECORD] = OF_TYPE("node_record", SHA256),
	[RECORD_NONCE] = OF_TYPE("nonce", SHA256),
	[RECORD_OS] = OBJECT("os", os_shape),
	[RECORD_PASSED] = OF_TYPE("passed", BOOL),
	[RECORD_POLICY] = TEXT("policy", 0, 200),
	[RECORD_PROOF] = OF_TYPE("proof", PROOF),
	[RECORD_PROVEN] = LIST("proven", GATHER_DEVICES_MAX, proven),
	[RECORD_PROVES] = TEXT("proves", 0, 1000),
	[RECORD_READINGS] = { KEY("readings"), .type = SHAPE_READINGS,
		.shape = &reading_shape },
	[RECORD_ROOTS_NS] = COUNT("roots_ns"),
	[RECORD_ROUNDTRIP_NS] = COUNT("roundtrip_ns"),
	[RECORD_SCORE_PPM] = WHOLE("score_ppm", 0, 1000000000000000),
	/* compared with the key */
	[RECORD_SIGNER] = TEXT("signer", 0, KEY_ADDRESS_MAX),
	[RECORD_SPANS] = OF_TYPE("spans", SPANS),
	[RECORD_TO] = OF_TYPE("to", TIME),
	[RECORD_TOKENS] = COUNT("tokens"),
	[RECORD_UNKNOWN] = TEXTS("unknown", UNKNOWN_MAX, reason),
	[RECORD_UP_MS] = WHOLE("up_ms", 0, 86400000),
	[RECORD_VERSION] = WHOLE("v", 1, 1),
	[RECORD_WALLET] = OF_TYPE("wallet", ADDRESS),
	[RECORD_WITHHELD] = LIST("withheld", 64, withheld),
};

const struct shape shape_record = SHAPE(fields, 10, 0);

static const struct shape_field proof_fields[PROOF_FIELDS] = {
	[PROOF_CREATED] = OF_TYPE("created", TIME),
	[PROOF_SUITE] = TEXT("cryptosuite", 0, 100),
	[PROOF_PURPOSE] = TEXT("proofPurpose", 0, 100),
	[PROOF_VALUE] = TEXT("proofValue", 0, 100),
	[PROOF_TYPE] = TEXT("type", 0, 100),
	[PROOF_METHOD] = TEXT("verificationMethod", 0, KEY_METHOD_MAX),
};

const struct shape shape_proof = SHAPE(proof_fields, 11, 0);

#define BIT(i) SHAPE_BIT(i)
#define ALL \
	(BIT(RECORD_KIND) | BIT(RECORD_VERSION) | BIT(RECORD_NODE) | BIT(RECORD_PROOF))

const struct shape_kind shape_kinds[] = {
	[GATHER_UPTIME] = { ALL | BIT(RECORD_SIGNER) | BIT(RECORD_AT) | BIT(RECORD_FROM) |
			BIT(RECORD_TO) | BIT(RECORD_BEATS) | BIT(RECORD_UP_MS) |
			BIT(RECORD_SPANS),
		BIT(RECORD_BEATS_SHA256) },
	[GATHER_VERDICT] = { ALL | BIT(RECORD_SIGNER) | BIT(RECORD_AT) |
			BIT(RECORD_PASSED) | BIT(RECORD_CHECKS) | BIT(RECORD_READINGS),
		BIT(RECORD_CHALLENGE_SHA256) | BIT(RECORD_NONCE) |
			BIT(RECORD_NODE_RECORD) | BIT(RECORD_PROVEN) | BIT(RECORD_JOINT) |
			BIT(RECORD_ELAPSED_NS) | BIT(RECORD_ROOTS_NS) |
			BIT(RECORD_ROUNDTRIP_NS) | BIT(RECORD_PROVES) |
			BIT(RECORD_POLICY) | BIT(RECORD_SCORE_PPM) |
			BIT(RECORD_UNKNOWN) },
	[GATHER_RECEIPT] = { ALL | BIT(RECORD_SIGNER) | BIT(RECORD_JOB) |
			BIT(RECORD_FROM) | BIT(RECORD_TO),
		BIT(RECORD_AT) | BIT(RECORD_GPU_SECONDS) | BIT(RECORD_TOKENS) |
			BIT(RECORD_EARNED_UUSD) | BIT(RECORD_CREDITS) },
	[GATHER_NODE] = { ALL | BIT(RECORD_AT),
		BIT(RECORD_CPU) | BIT(RECORD_DISKS) | BIT(RECORD_GPUS) |
			BIT(RECORD_LABELS) | BIT(RECORD_LIMITS) |
			BIT(RECORD_MEMORY_BANDWIDTH) | BIT(RECORD_MEMORY_BYTES) |
			BIT(RECORD_NAME) | BIT(RECORD_NETWORK) | BIT(RECORD_OS) |
			BIT(RECORD_UNKNOWN) | BIT(RECORD_WALLET) | BIT(RECORD_WITHHELD) },
};

/* --- names ------------------------------------------------------------------------------------ */

static unsigned guess_at(const char *key, size_t len)
{
	return ((unsigned)(unsigned char)key[0] +
		       2 * (unsigned)(unsigned char)key[len - 1] + 10 * (unsigned)len) %
		SHAPE_GUESSES;
}

/* Quotes and colon of a field are not part of its name. */
static bool is_field(const struct shape_field *f, const char *key, size_t len)
{
	return f->len == len + 3 && json_plain_same(f->key + 1, key, len);
}

void shape_init(void)
{
	const struct shape *const shapes[] = { &shape_record, &shape_proof, &check_shape,
		&proven_shape, &reading_shape, &gpu_shape, &cpu_shape, &disk_shape,
		&os_shape, &limit_shape, &network_shape, &label_shape };

	for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
		memset(shapes[k]->guess, -1, SHAPE_GUESSES);
		for (int i = 0; i < shapes[k]->n; i++) {
			const struct shape_field *f = &shapes[k]->fields[i];

			shapes[k]->guess[guess_at(f->key + 1, f->len - 3)] = (signed char)
				i;
		}
	}
}

int shape_find(const struct shape *shape, const char *key, size_t len)
{
	/* two names of a shape may have one place: the other is then searched for */
	int guess = shape->guess[guess_at(key, len)];

	if (guess >= 0 && is_field(&shape->fields[guess], key, len))
		return guess;
	for (int i = 0; i < shape->n; i++)
		if (shape->fields[i].key[1] == key[0] &&
			is_field(&shape->fields[i], key, len))
			return i;
	return -1;
}
