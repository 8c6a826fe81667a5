/* gpus.c - tests that a node's GPUs are grouped by model, whichever slots they are in. */
#include "common/record/gpus.h"

#include "common/json/json.h"
#include "tests/unit/test.h"

#define GIB (INT64_C(1) << 30)

/* The groups of a record's gpus as "2 RTX 4090 at 1 2, 24 GiB; ..." */
static void groups_are(const char *want, const char *gpus)
{
	struct gpu_group groups[GPUS_MAX];
	struct buf text = BUF_INIT;
	json_t *node;
	int n;

	buf_addf(&text, "{\"gpus\":[%s]}", gpus);
	node = json_parse_object(buf_text(&text), text.len, "test");
	CHECK(node != NULL);
	buf_reset(&text);
	n = gpus_group(node, groups);
	for (int i = 0; i < n; i++) {
		buf_addf(&text, "%s%lld %s at", i ? "; " : "", (long long)groups[i].count,
			groups[i].model);
		for (int64_t k = 0; k < groups[i].count; k++)
			buf_addf(&text, " %d", groups[i].at[k]);
		if (groups[i].memory_bytes)
			buf_addf(&text, ", %lld GiB",
				(long long)(groups[i].memory_bytes / GIB));
	}
	CHECK_TEXT(want, buf_text(&text));
	buf_release(&text);
	json_decref(node);
}

#define R4090 "{\"model\":\"NVIDIA GeForce RTX 4090\",\"memory_bytes\":25769803776}"
#define R3090 "{\"model\":\"NVIDIA GeForce RTX 3090\",\"memory_bytes\":25769803776}"
#define T400  "{\"model\":\"NVIDIA T400 4GB\",\"memory_bytes\":4294967296}"
#define NEW32 "{\"model\":\"NVIDIA X 9000\",\"memory_bytes\":34359738368}"

int main(void)
{
	struct buf text = BUF_INIT;

	groups_are("", "");
	groups_are("2 RTX 4090 at 1 2, 24 GiB; 1 T400 4GB at 0, 4 GiB",
		T400 "," R4090 "," R4090);
	groups_are("2 RTX 4090 at 0 1, 24 GiB; 1 T400 4GB at 2, 4 GiB",
		R4090 "," R4090 "," T400);
	groups_are("2 RTX 4090 at 0 2, 24 GiB; 1 RTX 3090 at 1, 24 GiB",
		R4090 "," R3090 "," R4090);
	/* three of the older chip do more than one of the newer */
	groups_are("3 RTX 3090 at 0 1 3, 24 GiB; 1 RTX 4090 at 2, 24 GiB",
		R3090 "," R3090 "," R4090 "," R3090);
	/* a chip that the table lacks is judged by its memory */
	groups_are("1 NVIDIA X 9000 at 1, 32 GiB; 1 T400 4GB at 0, 4 GiB",
		T400 "," NEW32);
	/* two names of one chip are one group, whose least memory counts */
	groups_are("2 A100 80GB SXM at 0 1, 79 GiB",
		"{\"model\":\"NVIDIA A100-SXM4-80GB\",\"memory_bytes\":85899345920},"
		"{\"model\":\"A100 SXM4 80GB\",\"memory_bytes\":84899345920}");
	/* without a name it is not known what it is */
	groups_are("1 L4 at 1", "{\"uuid\":\"GPU-1\"},{\"model\":\"L4\"}");
	gpus_others(&text, NULL, 0, 0);
	CHECK(text.len == 0);
	buf_release(&text);
	TEST_END();
}
