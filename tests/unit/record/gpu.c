/* gpu.c - many names, one model; what is not certain is NULL. */
#include "common/record/gpu.h"

#include "tests/unit/test.h"

#define MIB ((int64_t)1 << 20)

struct known {
	const char *name;
	int64_t memory_mib;    /* 0: unknown */
	const char *canonical; /* NULL: must not be found */
};

/* Names as drivers, marketplaces and the network's proposals write them. */
static const struct known cases[] = {
	/* nvidia-smi */
	{ "NVIDIA GeForce RTX 4090", 24564, "RTX 4090" },
	{ "NVIDIA GeForce RTX 4090 D", 24564, "RTX 4090D" },
	{ "NVIDIA GeForce RTX 3080", 10240, "RTX 3080" },
	{ "NVIDIA GeForce RTX 3080", 12288, "RTX 3080 12GB" },
	{ "NVIDIA GeForce RTX 3060 Laptop GPU", 6144, "RTX 3060 Laptop" },
	{ "NVIDIA GeForce RTX 3080 Laptop GPU", 16384, NULL },
	{ "NVIDIA GeForce RTX 4090 Laptop GPU", 16376, NULL },
	{ "NVIDIA GeForce RTX 2080 with Max-Q Design", 8192, NULL },
	{ "NVIDIA GeForce GTX 1660 SUPER", 6144, "GTX 1660 Super" },
	{ "NVIDIA A100-SXM4-80GB", 81920, "A100 80GB SXM" },
	{ "NVIDIA A100-SXM4-40GB", 40960, "A100 40GB SXM" },
	{ "NVIDIA A100 80GB PCIe", 81920, "A100 80GB PCIe" },
	{ "NVIDIA A100-PCIE-40GB", 40960, "A100 40GB PCIe" },
	{ "NVIDIA A100-SXM4-40GB", 4864, NULL }, /* a MIG slice */
	{ "NVIDIA A100X", 81920, NULL },
	{ "NVIDIA H100 80GB HBM3", 81559, "H100 SXM" },
	{ "NVIDIA H100 PCIe", 81559, "H100 PCIe" },
	{ "NVIDIA H100 NVL", 95830, "H100 NVL" },
	{ "NVIDIA H200", 143771, "H200" },
	{ "NVIDIA H200 NVL", 143771, "H200 NVL" },
	{ "NVIDIA GH200 480GB", 97871, "GH200" },
	{ "NVIDIA B200", 183359, "B200" },
	{ "NVIDIA RTX 6000 Ada Generation", 49140, "RTX 6000 Ada" },
	{ "NVIDIA RTX A6000", 49140, "RTX A6000" },
	{ "Quadro RTX 6000", 24576, "Quadro RTX 6000" },
	{ "NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887, "RTX PRO 6000 S" },
	{ "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 97887, "RTX PRO 6000 WS" },
	{ "NVIDIA L4", 23034, "L4" },
	{ "NVIDIA A10G", 23028, "A10G" },
	{ "Tesla T4", 15109, "T4" },
	{ "Tesla V100-SXM2-32GB", 32768, "V100 32GB SXM" },
	{ "Tesla V100-PCIE-16GB", 16384, "V100 16GB PCIe" },
	{ "Tesla P100-PCIE-16GB", 16280, "P100 PCIe" },
	{ "AMD Instinct MI300X", 196592, "MI300X" },
	/* Vast, its API and its SkyPilot catalogue */
	{ "RTX 5090", 32607, "RTX 5090" },
	{ "RTX_5090", 32607, "RTX 5090" },
	{ "RTX_4090", 24564, "RTX 4090" },
	{ "RTX_4090", 49140, "RTX 4090 48GB" },
	{ "RTX_4080S", 16376, "RTX 4080 Super" },
	{ "RTX_4070S_Ti", 16376, "RTX 4070 Ti Super" },
	{ "RTX_4060_Ti", 16380, "RTX 4060 Ti 16GB" },
	{ "RTX_3090", 24576, "RTX 3090" },
	{ "RTX_3080", 10240, "RTX 3080" },
	{ "RTX_3070", 8192, "RTX 3070" },
	{ "RTX_3060_Ti", 8192, "RTX 3060 Ti" },
	{ "RTX_3060", 12288, "RTX 3060" },
	{ "RTX_6000Ada", 49140, "RTX 6000 Ada" },
	{ "RTX_A6000", 49140, "RTX A6000" },
	{ "RTX_A5000", 24564, "RTX A5000" },
	{ "RTX_A4000", 16376, "RTX A4000" },
	{ "RTX_A2000", 6138, "RTX A2000 6GB" },
	{ "RTX_PRO_6000_S", 97887, "RTX PRO 6000 S" },
	{ "H100_SXM", 81559, "H100 SXM" },
	{ "H100_NVL", 95830, "H100 NVL" },
	{ "H200", 143771, "H200" },
	{ "B200", 183359, "B200" },
	{ "A100_SXM4", 40960, "A100 40GB SXM" },
	{ "A100_SXM4", 81920, "A100 80GB SXM" },
	{ "A100_PCIE", 81920, "A100 80GB PCIe" },
	{ "A40", 46068, "A40" },
	{ "A10", 23028, "A10" },
	{ "L40S", 46068, "L40S" },
	{ "Tesla_V100", 16384, "V100 16GB" },
	{ "Q RTX 8000", 46080, "Quadro RTX 8000" },
	{ "Imaginary RTX 9999", 24576, NULL },
	/* RunPod and Prime, theirs and their SkyPilot catalogues */
	{ "RTXA6000", 0, "RTX A6000" },
	{ "RTXA5000", 0, "RTX A5000" },
	{ "RTXA4000", 0, "RTX A4000" },
	{ "RTX6000-Ada", 0, "RTX 6000 Ada" },
	{ "RTX6000Ada", 49152, "RTX 6000 Ada" },
	{ "A6000", 49152, "RTX A6000" },
	{ "A4000", 16384, "RTX A4000" },
	{ "A100-80GB", 0, "A100 80GB" },
	{ "A100_80GB", 81920, "A100 80GB" },
	{ "A100", 40960, "A100 40GB" },
	{ "A100", 0, "A100" },
	{ "H100", 81920, "H100 80GB" },
	{ "H100", 0, "H100" },
	{ "H100_80GB_SXM5", 0, "H100 SXM" },
	{ "H100-80GB-HBM3", 0, "H100 SXM" },
	{ "H200", 144384, "H200" },
	{ "B200", 184320, "B200" },
	{ "B200_180GB", 0, "B200" },
	{ "GH200_96GB", 0, "GH200" },
	{ "V100", 16384, "V100 16GB" },
	{ "L40", 49152, "L40" },
	{ "A30", 0, "A30" },
	{ "RTX4090", 0, "RTX 4090" },
	/* the proposals and Akash */
	{ "4090", 0, "RTX 4090" },
	{ "rtx4090", 0, "RTX 4090" },
	{ "5090D", 0, "RTX 5090D" },
	{ "4070 Ti", 0, "RTX 4070 Ti" },
	{ "3080-12G", 0, "RTX 3080 12GB" },
	{ "3080", 12288, "RTX 3080 12GB" },
	{ "3080", 0, "RTX 3080" },
	{ "3060M", 0, "RTX 3060 Laptop" },
	{ "a100.80Gi.pcie", 0, "A100 80GB PCIe" },
	{ "MI300X", 0, "MI300X" },
	{ "T4", 0, "T4" },
	/* markets: the maker's word or the form joined to it */
	{ "InstinctMI250X", 131072, "MI250X" },
	{ "TeslaV100", 16384, "V100 16GB" },
	{ "RTX5090_PCIE", 32768, "RTX 5090" },
	{ "L40S_PCIE", 49152, "L40S" },
	{ "H100_PCIE_BAREMETAL", 81920, "H100 PCIe" },
	{ "H200_PCIE", 143771, NULL }, /* the H200 NVL is the card */
	{ "RTXPRO6000", 98304, "RTX PRO 6000" },
	{ "GB200", 196608, "GB200" },
	{ "GB200", 189471, "GB200" },
	/* one chip under a name of its own, and relatives that are none */
	{ "NVIDIA H20-3e", 143771, "H20" },
	{ "NVIDIA GH200 144G HBM3e", 146831, "GH200" },
	{ "NVIDIA A100-SXM-64GB", 65536, "A100" },
	{ "NVIDIA A100-SXM4-80GB MIG 1g.10gb", 9856, NULL },
	{ "NVIDIA A40-48Q", 49152, NULL },
	{ "GRID T4-16Q", 16384, NULL },
	{ "NVIDIA GeForce RTX 5090 D v2", 24463, "RTX 5090D v2" },
	{ "NVIDIA GeForce RTX 5090 D", 24463, NULL },
	{ "NVIDIA GB10", 0, "GB10" },
	{ "NVIDIA GB10", 125525, "GB10" },
	{ "NVIDIA RTX A4000 Laptop GPU", 8192, NULL },
	{ "Quadro RTX 3000 with Max-Q Design", 6144, NULL },
	{ "NVIDIA T1000", 8192, "T1000 8GB" },
	{ "NVIDIA T1000 8GB", 8192, "T1000 8GB" },
	{ "AMD Instinct MI300X VF", 196592, "MI300X" },
	{ "NVIDIA Graphics Device", 24576, NULL },
	/* nothing is guessed */
	{ "", 0, NULL },
	{ "NVIDIA", 0, NULL },
	{ "24GB", 0, NULL },
	{ "RTX 6000", 0, NULL }, /* Quadro RTX 6000, RTX 6000 Ada, RTX PRO 6000? */
	{ "RTX 4090", 16384, NULL },
	{ "RTX 3080", 14 * 1024, NULL },
	{ "A100 80GB", 40960, NULL }, /* name and report contradict each other */
	{ "A100 40GB 80GB", 0, NULL },
	{ "RTX 40900", 0, NULL },
	{ "RTX 409", 0, NULL },
	{ "RTX 4090 Ti", 0, NULL },
	{ "RTX 4090;", 0, NULL },
	{ "RTX 4090\xc2\xa0", 0, NULL },
};

static void check_names(void)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct known *c = &cases[i];
		const struct gpu_model *m = gpu_find(c->name, c->memory_mib * MIB);

		if (!m != !c->canonical || (m && strcmp(m->name, c->canonical) != 0)) {
			fprintf(stderr, "'%s' with %d MiB is %s, not %s\n", c->name,
				(int)c->memory_mib, m ? m->name : "not found",
				c->canonical ? c->canonical : "not to be found");
			test_failures++;
		}
		test_checks++;
	}
}

/* Every canonical name finds its own row with its memory, and without it the first of that name;
 * no two rows share both. */
static void check_table(void)
{
	size_t n;
	const struct gpu_model *t = gpu_table(&n);

	for (size_t i = 0; i < n; i++) {
		const struct gpu_model *m = gpu_find(t[i].name, 0);

		CHECK(m && strcmp(m->name, t[i].name) == 0 && m <= &t[i]);
		if (t[i].memory_bytes && !t[i].unspecific)
			CHECK(gpu_find(t[i].name, t[i].memory_bytes) == &t[i]);
		for (size_t j = 0; j < i; j++)
			CHECK(strcmp(t[i].name, t[j].name) != 0 ||
				t[i].memory_bytes != t[j].memory_bytes);
		CHECK(t[i].f32_gflops >= 0 && t[i].f32_gflops < 1000000);
		/* without a memory only names stand there */
		CHECK(t[i].unspecific || t[i].memory_bytes || !t[i].f32_gflops);
	}
	fprintf(stderr, "%zu models\n", n);
}

/* RNP-004's table, section 3.1, where the maker's figures are the same */
static void check_facts(void)
{
	const struct gpu_model *m = gpu_find("RTX 4090", 0);

	CHECK(m && m->memory_bytes == 24576 * MIB && m->f32_gflops == 82580 &&
		m->bandwidth_mbytes == 1008000 && m->power_w == 450 &&
		m->tensor_cores == 512 && m->msrp_uusd == 1599000000);
	m = gpu_find("GTX 1660", 0);
	CHECK(m && m->memory_bytes == 6144 * MIB && m->tensor_cores == 0 &&
		m->power_w == 120 && m->msrp_uusd == 219000000);
	CHECK_TEXT("H100", gpu_find("H100 NVL", 0)->family);
	CHECK_TEXT("RTX 3080 12GB", gpu_find("3080", 12288 * MIB)->family);
	CHECK(gpu_find(NULL, 0) == NULL);
	CHECK(gpu_find("RTX 4090", -1) == NULL);
	CHECK(gpu_find("RTX 4090", INT64_MAX) == NULL);
}

int main(void)
{
	char longest[400];

	check_names();
	check_table();
	check_facts();
	memset(longest, 'A', sizeof longest);
	longest[sizeof longest - 1] = '\0';
	CHECK(gpu_find(longest, 0) == NULL);
	for (int i = 0; i < 399; i++) { /* many words, each of them noise or size */
		longest[i] = " G9"[i % 3];
	}
	CHECK(gpu_find(longest, 0) == NULL);
	longest[96] = '\0';
	CHECK(gpu_find(longest, 0) == NULL);
	TEST_END();
}
