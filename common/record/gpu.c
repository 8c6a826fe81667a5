/* gpu.c - the table of GPU models, and how a name from a driver or a market finds its row. */
#include "common/record/gpu.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"

#define GPU_NAME_MAX 96 /* no GPU has a longer name */
#define GPU_KEY_MAX  112

#define USD(n) ((int64_t)(n)*1000000)
#define GIB(n) ((int64_t)(n) << 30)

/* name, family, GiB, f32 and tensor 10^9 FLOP/s, memory 10^6 B/s, W, tensor cores, US$ */
#define NV(n, fam, gib, f32, tens, bw, w, tc, usd, also)                                \
	{                                                                               \
		n, fam, "NVIDIA", false, GIB(gib), f32, tens, bw, w, tc, USD(usd), also \
	}
#define AMD(n, gib, f32, tens, bw, w, tc, usd, also)                               \
	{                                                                          \
		n, n, "AMD", false, GIB(gib), f32, tens, bw, w, tc, USD(usd), also \
	}
/* the chip is known, the variant is not */
#define ANY(n, fam, gib, f32, tens, bw, w, tc, also)                            \
	{                                                                       \
		n, fam, "NVIDIA", true, GIB(gib), f32, tens, bw, w, tc, 0, also \
	}

/* of a card that only its name is known of; gib 0: with any memory */
#define BARE(n, gib, also) NV(n, n, gib, 0, 0, 0, 0, 0, 0, also)

/* Makers' data sheets and launch prices, held against a second collection of them. Figures of
 * RNP-004's own table that differ (RTX 4080: 48.80 TFLOPS; RTX 3060 Ti: 608 GB/s, 290 W) stay
 * in its policy file. Data-centre cards have no list price. Tensor figures are left out where
 * the maker states only sparse or 4-bit ones.
 *
 * Aliases are keys as key_of() makes them, without vendor words, memory and punctuation. */
static const struct gpu_model table[] = {
	/* GeForce, Blackwell */
	NV("RTX 5090", "RTX 5090", 32, 104800, 209500, 1792000, 575, 680, 1999, "5090"),
	NV("RTX 5090D", "RTX 5090D", 32, 104800, 0, 1792000, 575, 680, 0, "5090D"),
	NV("RTX 5090D v2", "RTX 5090D v2", 24, 104800, 0, 1344000, 575, 680, 0, ""),
	NV("RTX 5080", "RTX 5080", 16, 56280, 112600, 960000, 360, 336, 999, "5080"),
	NV("RTX 5070 Ti", "RTX 5070 Ti", 16, 43940, 87900, 896000, 300, 280, 749,
		"5070TI"),
	NV("RTX 5070", "RTX 5070", 12, 30870, 61700, 672000, 250, 192, 549, "5070"),
	ANY("RTX 5060 Ti", "RTX 5060 Ti", 0, 23700, 47400, 448000, 180, 144, "5060TI"),
	NV("RTX 5060 Ti 16GB", "RTX 5060 Ti", 16, 23700, 47400, 448000, 180, 144, 429,
		"RTX5060TI|5060TI"),
	NV("RTX 5060 Ti 8GB", "RTX 5060 Ti", 8, 23700, 47400, 448000, 180, 144, 379,
		"RTX5060TI|5060TI"),
	NV("RTX 5060", "RTX 5060", 8, 19180, 38400, 448000, 145, 120, 299, "5060"),
	NV("RTX 5050", "RTX 5050", 8, 13170, 26300, 320000, 130, 80, 249, "5050"),
	/* GeForce, Ada */
	NV("RTX 4090", "RTX 4090", 24, 82580, 165200, 1008000, 450, 512, 1599, "4090"),
	NV("RTX 4090 48GB", "RTX 4090", 48, 82580, 165200, 1008000, 450, 512, 0,
		"RTX4090|4090"),
	NV("RTX 4090D", "RTX 4090D", 24, 73540, 147100, 1008000, 425, 456, 0, "4090D"),
	NV("RTX 4090D 48GB", "RTX 4090D", 48, 73540, 147100, 1008000, 425, 456, 0,
		"RTX4090D|4090D"),
	NV("RTX 4080 Super", "RTX 4080 Super", 16, 52220, 104400, 736300, 320, 320, 999,
		"RTX4080S|4080S|4080SUPER"),
	NV("RTX 4080", "RTX 4080", 16, 48740, 97500, 716800, 320, 304, 1199, "4080"),
	NV("RTX 4070 Ti Super", "RTX 4070 Ti Super", 16, 44100, 88200, 672300, 285, 264,
		799, "RTX4070STI|4070STI|RTX4070TIS|4070TIS|4070TISUPER|RTX4070SUPERTI"),
	NV("RTX 4070 Ti", "RTX 4070 Ti", 12, 40090, 80200, 504200, 285, 240, 799,
		"4070TI"),
	NV("RTX 4070 Super", "RTX 4070 Super", 12, 35480, 71000, 504200, 220, 224, 599,
		"RTX4070S|4070S|4070SUPER"),
	NV("RTX 4070", "RTX 4070", 12, 29150, 58300, 504200, 200, 184, 599, "4070"),
	NV("RTX 4060 Ti", "RTX 4060 Ti", 8, 22060, 44100, 288000, 160, 136, 399,
		"4060TI"),
	NV("RTX 4060 Ti 16GB", "RTX 4060 Ti", 16, 22060, 44100, 288000, 165, 136, 499,
		"RTX4060TI|4060TI"),
	NV("RTX 4060", "RTX 4060", 8, 15110, 30200, 272000, 115, 96, 299, "4060"),
	/* GeForce, Ampere */
	NV("RTX 3090 Ti", "RTX 3090 Ti", 24, 40000, 80000, 1008000, 450, 336, 1999,
		"3090TI"),
	NV("RTX 3090", "RTX 3090", 24, 35580, 71200, 935810, 350, 328, 1499, "3090"),
	NV("RTX 3080 Ti", "RTX 3080 Ti", 12, 34100, 68200, 912000, 350, 320, 1199,
		"3080TI"),
	NV("RTX 3080", "RTX 3080", 10, 29770, 59500, 760000, 320, 272, 699, "3080"),
	NV("RTX 3080 12GB", "RTX 3080 12GB", 12, 30640, 61300, 912000, 350, 280, 799,
		"RTX3080|3080"),
	NV("RTX 3070 Ti", "RTX 3070 Ti", 8, 21750, 43500, 608000, 290, 192, 599,
		"3070TI"),
	NV("RTX 3070", "RTX 3070", 8, 20310, 40600, 448000, 220, 184, 499, "3070"),
	NV("RTX 3060 Ti", "RTX 3060 Ti", 8, 16200, 32400, 448000, 200, 152, 399,
		"3060TI"),
	NV("RTX 3060", "RTX 3060", 12, 12740, 25500, 360000, 170, 112, 329, "3060"),
	NV("RTX 3060 8GB", "RTX 3060", 8, 12740, 25500, 240000, 170, 112, 0,
		"RTX3060|3060"),
	NV("RTX 3060 Laptop", "RTX 3060 Laptop", 6, 10940, 21900, 336000, 115, 120, 0,
		"RTX3060M|3060M|RTX3060MOBILE|3060MOBILE|3060LAPTOP"),
	NV("RTX 3050 OEM", "RTX 3050 OEM", 8, 8090, 0, 224000, 130, 72, 0, ""),
	NV("RTX 3050", "RTX 3050", 8, 9100, 18200, 224000, 130, 80, 249, "3050"),
	NV("RTX 3050 6GB", "RTX 3050", 6, 6770, 13500, 168000, 70, 72, 169,
		"RTX3050|3050"),
	/* GeForce and Titan, Turing and before */
	NV("RTX 2080 Ti", "RTX 2080 Ti", 11, 13450, 53800, 616000, 250, 544, 999,
		"2080TI"),
	NV("RTX 2080 Ti 22GB", "RTX 2080 Ti", 22, 13450, 53800, 616000, 250, 544, 0,
		"RTX2080TI|2080TI"),
	NV("RTX 2080 Super", "RTX 2080 Super", 8, 11150, 44600, 496000, 250, 384, 699,
		"RTX2080S|2080S|2080SUPER"),
	NV("RTX 2080", "RTX 2080", 8, 10070, 40300, 448000, 215, 368, 699, "2080"),
	NV("RTX 2070 Super", "RTX 2070 Super", 8, 9060, 36200, 448000, 215, 320, 499,
		"RTX2070S|2070S|2070SUPER"),
	NV("RTX 2070", "RTX 2070", 8, 7465, 29900, 448000, 175, 288, 499, "2070"),
	NV("RTX 2060 Super", "RTX 2060 Super", 8, 7180, 28700, 448000, 175, 272, 399,
		"RTX2060S|2060S|2060SUPER"),
	NV("RTX 2060", "RTX 2060", 6, 6450, 25800, 336000, 160, 240, 349, "2060"),
	NV("RTX 2060 12GB", "RTX 2060 12GB", 12, 7180, 28700, 336000, 185, 272, 0,
		"RTX2060|2060"),
	NV("GTX 1660 Ti", "GTX 1660 Ti", 6, 5437, 0, 288000, 120, 0, 279, "1660TI"),
	NV("GTX 1660 Super", "GTX 1660 Super", 6, 5027, 0, 336000, 125, 0, 229,
		"GTX1660S|1660S|1660SUPER"),
	NV("GTX 1660", "GTX 1660", 6, 5027, 0, 192000, 120, 0, 219, "1660"),
	NV("GTX 1650 Super", "GTX 1650 Super", 4, 4416, 0, 192000, 100, 0, 159,
		"GTX1650S|1650S|1650SUPER"),
	BARE("GTX 1650 Ti", 4, ""),
	NV("GTX 1630", "GTX 1630", 4, 1828, 0, 96000, 75, 0, 0, ""),
	NV("GTX 1650", "GTX 1650", 4, 2984, 0, 128000, 75, 0, 149, "1650"),
	NV("GTX 1080 Ti", "GTX 1080 Ti", 11, 11340, 0, 484000, 250, 0, 699, "1080TI"),
	NV("GTX 1080", "GTX 1080", 8, 8873, 0, 320000, 180, 0, 599, "1080"),
	NV("GTX 1070 Ti", "GTX 1070 Ti", 8, 8186, 0, 256000, 180, 0, 449, "1070TI"),
	NV("GTX 1070", "GTX 1070", 8, 6463, 0, 256000, 150, 0, 379, "1070"),
	ANY("GTX 1060", "GTX 1060", 0, 0, 0, 0, 120, 0, "1060"),
	NV("GTX 1060 3GB", "GTX 1060 3GB", 3, 3935, 0, 192000, 120, 0, 199,
		"GTX1060|1060"),
	NV("GTX 1060 6GB", "GTX 1060", 6, 4375, 0, 192000, 120, 0, 249, "GTX1060|1060"),
	NV("Titan RTX", "Titan RTX", 24, 16310, 130500, 672000, 280, 576, 2499, ""),
	NV("Titan V", "Titan V", 12, 14900, 0, 652800, 250, 640, 2999, ""),
	NV("Titan Xp", "Titan Xp", 12, 12150, 0, 547700, 250, 0, 1199,
		"TITANXPCOLLECTORS"),
	/* of laptops and of mines, without a word for it in their names */
	BARE("RTX 2050", 4, ""),
	BARE("MX450", 2, ""),
	BARE("MX550", 0, ""),
	BARE("MX570", 0, ""),
	BARE("MX570 A", 0, ""),
	BARE("P106-100", 6, ""),
	BARE("P104-100", 4, ""),
	BARE("P102-100", 5, ""),
	BARE("CMP 30HX", 6, ""),
	BARE("CMP 40HX", 8, ""),
	BARE("CMP 50HX", 10, ""),
	BARE("CMP 70HX", 8, ""),
	BARE("CMP 90HX", 10, ""),
	BARE("CMP 170HX", 8, ""),
	/* workstation, Blackwell */
	ANY("RTX PRO 6000", "RTX PRO 6000", 96, 0, 0, 0, 0, 752, "RTXPRO6000BLACKWELL"),
	NV("RTX PRO 6000 WS", "RTX PRO 6000 WS", 96, 126000, 0, 1792000, 600, 752, 8565,
		"RTXPRO6000BLACKWELLWORKSTATION|RTXPRO6000WORKSTATION|PRO6000WS"),
	NV("RTX PRO 6000 Max-Q", "RTX PRO 6000 Max-Q", 96, 110000, 0, 1792000, 300, 752,
		0,
		"RTXPRO6000BLACKWELLMAXQWORKSTATION|RTXPRO6000BLACKWELLMAXQ|PRO6000MAXQ"),
	NV("RTX PRO 6000 S", "RTX PRO 6000 S", 96, 120000, 0, 1597000, 600, 752, 0,
		"RTXPRO6000BLACKWELLSERVER|RTXPRO6000SERVER|RTXPRO6000SE|PRO6000S"),
	NV("RTX PRO 5000", "RTX PRO 5000", 48, 73690, 0, 1344000, 300, 440, 4569,
		"RTXPRO5000BLACKWELL"),
	NV("RTX PRO 5000 72GB", "RTX PRO 5000", 72, 73690, 0, 1344000, 300, 440, 0,
		"RTXPRO5000BLACKWELL"),
	NV("RTX PRO 4500", "RTX PRO 4500", 32, 54940, 0, 896000, 200, 328, 2623,
		"RTXPRO4500BLACKWELL"),
	NV("RTX PRO 4000", "RTX PRO 4000", 24, 46900, 0, 672000, 140, 280, 1546,
		"RTXPRO4000BLACKWELL"),
	NV("RTX PRO 4000 SFF", "RTX PRO 4000 SFF", 24, 24000, 0, 432000, 70, 280, 0,
		"RTXPRO4000BLACKWELLSFF"),
	NV("RTX PRO 2000", "RTX PRO 2000", 16, 17000, 0, 288000, 70, 136, 0,
		"RTXPRO2000BLACKWELL"),
	BARE("RTX 6000D", 84, ""),
	/* workstation, Ada */
	NV("RTX 6000 Ada", "RTX 6000 Ada", 48, 91060, 364200, 960000, 300, 568, 6799, ""),
	NV("RTX 5880 Ada", "RTX 5880 Ada", 48, 69270, 277100, 960000, 285, 440, 6999, ""),
	NV("RTX 5000 Ada", "RTX 5000 Ada", 32, 65280, 261100, 576000, 250, 400, 4000, ""),
	NV("RTX 4500 Ada", "RTX 4500 Ada", 24, 39630, 158500, 432000, 210, 240, 2250, ""),
	NV("RTX 4000 Ada", "RTX 4000 Ada", 20, 26730, 106900, 360000, 130, 192, 1250, ""),
	NV("RTX 4000 SFF Ada", "RTX 4000 SFF Ada", 20, 19170, 76700, 280000, 70, 192,
		1250, ""),
	NV("RTX 2000 Ada", "RTX 2000 Ada", 16, 12000, 48000, 224000, 70, 88, 649, ""),
	BARE("RTX 2000E Ada", 16, ""),
	/* workstation, Ampere, Volta, Turing and Pascal */
	NV("RTX A6000", "RTX A6000", 48, 38710, 154800, 768000, 300, 336, 4649, "A6000"),
	NV("RTX A5500", "RTX A5500", 24, 34100, 136400, 768000, 230, 320, 3600, "A5500"),
	NV("RTX A5000", "RTX A5000", 24, 27770, 111100, 768000, 230, 256, 2250, "A5000"),
	NV("RTX A4500", "RTX A4500", 20, 23660, 94600, 640000, 200, 224, 2250, "A4500"),
	NV("RTX A4000", "RTX A4000", 16, 19170, 76700, 448000, 140, 192, 1000, "A4000"),
	ANY("RTX A2000", "RTX A2000", 0, 7987, 31900, 288000, 70, 104, "A2000"),
	NV("RTX A2000 12GB", "RTX A2000", 12, 7987, 31900, 288000, 70, 104, 449,
		"RTXA2000|A2000"),
	NV("RTX A2000 6GB", "RTX A2000", 6, 7987, 31900, 288000, 70, 104, 449,
		"RTXA2000|A2000"),
	NV("RTX A1000", "RTX A1000", 8, 6740, 0, 192000, 50, 72, 0, ""),
	NV("RTX A400", "RTX A400", 4, 2700, 0, 96000, 50, 24, 0, ""),
	BARE("RTX A4000H", 16, ""),
	NV("T1000", "T1000", 4, 2500, 0, 160000, 50, 0, 0, ""),
	NV("T1000 8GB", "T1000", 8, 2500, 0, 160000, 50, 0, 0, "T1000"),
	NV("T600", "T600", 4, 1709, 0, 160000, 40, 0, 0, ""),
	NV("T400", "T400", 2, 1094, 0, 80000, 30, 0, 0, ""),
	NV("T400 4GB", "T400", 4, 1094, 0, 80000, 30, 0, 0, "T400"),
	BARE("T400E", 4, ""),
	BARE("T500", 0, ""),
	BARE("DGX Display", 4, ""),
	NV("Quadro GV100", "Quadro GV100", 32, 14800, 118500, 870000, 250, 640, 8999,
		"GV100"),
	NV("Quadro RTX 8000", "Quadro RTX 8000", 48, 16310, 130500, 672000, 260, 576,
		9999, "QRTX8000|RTX8000"),
	NV("Quadro RTX 6000", "Quadro RTX 6000", 24, 16310, 130500, 672000, 260, 576,
		6299, "QRTX6000"),
	NV("Quadro RTX 5000", "Quadro RTX 5000", 16, 11150, 89200, 448000, 230, 384, 2299,
		"QRTX5000"),
	NV("Quadro RTX 4000", "Quadro RTX 4000", 8, 7119, 57000, 416000, 160, 288, 899,
		"QRTX4000"),
	BARE("Quadro RTX 3000", 6, "QRTX3000"),
	BARE("Quadro T2000", 4, ""),
	BARE("Quadro T1000", 4, ""),
	NV("Quadro P6000", "Quadro P6000", 24, 12000, 0, 432000, 250, 0, 0, ""),
	NV("Quadro P5000", "Quadro P5000", 16, 8900, 0, 288000, 180, 0, 0, ""),
	NV("Quadro P4000", "Quadro P4000", 8, 5300, 0, 243000, 105, 0, 0, ""),
	/* data centre, Blackwell and Hopper */
	NV("B300", "B300", 288, 0, 0, 8000000, 0, 0, 0, "B300SXM|HGXB300|B300SXMAC"),
	NV("GB300", "GB300", 288, 0, 2500000, 8000000, 1400, 0, 0, ""),
	NV("B200", "B200", 180, 0, 2250000, 8000000, 1000, 0, 0,
		"B200SXM|HGXB200|B200192GB"),
	/* 186 GB of the 192 GB on the package are sold; catalogues say either */
	NV("GB200", "GB200", 186, 0, 2500000, 8000000, 1200, 0, 0, ""),
	NV("GB200", "GB200", 192, 0, 2500000, 8000000, 1200, 0, 0, "GB200192GB"),
	NV("GH200", "GH200", 96, 66900, 989400, 4000000, 0, 528, 0,
		"GH200SXM|GH200HBM3|GH200480GB|GH200120GB"),
	NV("GH200", "GH200", 144, 66900, 989400, 4900000, 0, 528, 0,
		"GH200HBM3E|GH200144GB|GH200144GBHBM3E"),
	NV("H200", "H200", 141, 66900, 989400, 4800000, 700, 528, 0, "H200SXM|H200HBM3E"),
	NV("H200 NVL", "H200", 141, 60300, 835500, 4800000, 600, 528, 0, ""),
	ANY("H100", "H100", 0, 0, 0, 0, 0, 0, ""),
	ANY("H100", "H100", 96, 0, 0, 0, 0, 0, ""),
	ANY("H100 80GB", "H100", 80, 0, 0, 0, 0, 0, "H100"),
	NV("H100 SXM", "H100", 80, 66900, 989400, 3350000, 700, 528, 0,
		"H100HBM3|H100SXMHBM3"),
	NV("H100 PCIe", "H100", 80, 51200, 756400, 2039000, 350, 456, 0, "H100HBM2E"),
	NV("H100 NVL", "H100", 94, 60300, 835500, 3900000, 400, 528, 0, ""),
	NV("H800 SXM", "H800", 80, 66900, 989400, 3350000, 700, 528, 0, "H800"),
	NV("H800 PCIe", "H800", 80, 51200, 756400, 2039000, 350, 456, 0, ""),
	NV("H800 NVL", "H800", 94, 60300, 835500, 3900000, 400, 528, 0, ""),
	NV("H20", "H20", 96, 44000, 148000, 4000000, 400, 0, 0, "H20SXM|H20NVL16"),
	NV("H20", "H20", 141, 44000, 148000, 4800000, 500, 0, 0, "H203E|H20NVL16"),
	/* data centre, Ada */
	NV("L40S", "L40S", 48, 91600, 362100, 864000, 350, 568, 0, ""),
	NV("L40", "L40", 48, 90520, 181100, 864000, 300, 568, 0, ""),
	NV("L20", "L20", 48, 59800, 119500, 864000, 275, 0, 0, ""),
	NV("L4", "L4", 24, 30300, 121000, 300000, 72, 240, 0, ""),
	BARE("L2", 24, ""),
	/* data centre, Ampere */
	ANY("A100", "A100", 0, 19500, 312000, 0, 0, 432, ""),
	ANY("A100", "A100", 64, 0, 0, 0, 0, 0, "A100SXM64GB"), /* of one customer */
	ANY("A100 80GB", "A100", 80, 19500, 312000, 0, 0, 432, "A100"),
	ANY("A100 40GB", "A100", 40, 19500, 312000, 1555000, 0, 432, "A100"),
	/* named by their boards; after the rows above, which a name without one means */
	ANY("A100", "A100", 40, 19500, 312000, 1555000, 0, 432, "A100PG509200"),
	ANY("A100", "A100", 80, 19500, 312000, 0, 0, 432, "PG509210"),
	ANY("A100 SXM", "A100", 0, 19500, 312000, 0, 400, 432, ""),
	NV("A100 80GB SXM", "A100", 80, 19500, 312000, 2039000, 400, 432, 0, "A100SXM"),
	NV("A100 40GB SXM", "A100", 40, 19500, 312000, 1555000, 400, 432, 0, "A100SXM"),
	ANY("A100 PCIe", "A100", 0, 19500, 312000, 0, 0, 432, ""),
	NV("A100 80GB PCIe", "A100", 80, 19500, 312000, 1935000, 300, 432, 0, "A100PCIE"),
	NV("A100 40GB PCIe", "A100", 40, 19500, 312000, 1555000, 250, 432, 0, "A100PCIE"),
	NV("A800 80GB PCIe", "A800", 80, 19500, 312000, 1935000, 300, 432, 0,
		"A800PCIE|A800PCIELC"),
	NV("A800 80GB SXM", "A800", 80, 19500, 312000, 2039000, 400, 432, 0, "A800SXM"),
	ANY("A800", "A800", 40, 19500, 312000, 1555000, 0, 432, "A800SXM|A800ACTIVE"),
	BARE("AX800", 80, ""),
	NV("A40", "A40", 48, 37420, 149700, 696000, 300, 336, 0, "A40PCIE"),
	NV("A30", "A30", 24, 10320, 165000, 933000, 165, 224, 0, "A30PCIE|PG506232"),
	NV("A16", "A16", 16, 4500, 17900, 200000, 0, 40, 0, ""),
	NV("A10G", "A10G", 24, 31520, 70000, 600000, 300, 320, 0, ""),
	NV("A10", "A10", 24, 31240, 125000, 600000, 150, 288, 0, "A10PCIE"),
	BARE("A10M", 0, ""),
	NV("A2", "A2", 16, 4500, 18000, 200000, 60, 40, 0, ""),
	/* data centre, before Ampere */
	ANY("V100", "V100", 0, 0, 0, 0, 0, 640, ""),
	ANY("V100 16GB", "V100", 16, 0, 0, 900000, 0, 640, "V100"),
	ANY("V100 32GB", "V100", 32, 0, 0, 900000, 0, 640, "V100"),
	ANY("V100", "V100", 32, 0, 0, 900000, 0, 640, "V100DGXS"),
	ANY("V100 SXM", "V100", 0, 15700, 125000, 900000, 300, 640, ""),
	ANY("V100 PCIe", "V100", 0, 14000, 112000, 900000, 250, 640, ""),
	NV("V100 16GB SXM", "V100", 16, 15700, 125000, 900000, 300, 640, 0, "V100SXM"),
	NV("V100 32GB SXM", "V100", 32, 15700, 125000, 900000, 300, 640, 0,
		"V100SXM|V100SXMH"),
	NV("V100 16GB PCIe", "V100", 16, 14000, 112000, 900000, 250, 640, 0, "V100PCIE"),
	NV("V100 32GB PCIe", "V100", 32, 14000, 112000, 900000, 250, 640, 0, "V100PCIE"),
	NV("V100S PCIe", "V100S", 32, 16400, 130000, 1134000, 250, 640, 0, "V100S"),
	BARE("V100 FHHL", 16, ""),
	NV("T4", "T4", 16, 8100, 65000, 320000, 70, 320, 0, ""),
	NV("P100 SXM", "P100", 16, 10600, 0, 732000, 300, 0, 0, ""),
	NV("P100 PCIe", "P100", 16, 9300, 0, 732000, 250, 0, 0, ""),
	ANY("P100", "P100", 16, 0, 0, 732000, 0, 0, ""),
	NV("P40", "P40", 24, 11760, 0, 346000, 250, 0, 0, ""),
	NV("P4", "P4", 8, 5500, 0, 192000, 75, 0, 0, ""),
	/* modules that share the processor's memory */
	NV("GB10", "GB10", 128, 0, 0, 273000, 0, 0, 0, ""),
	BARE("Orin", 0, "ORINNVGPU"),
	BARE("Thor", 0, "THORNVGPU"),
	BARE("DRIVE P2021", 0, ""),
	/* AMD */
	AMD("MI355X", 288, 157300, 2516600, 8000000, 1400, 1024, 0, "MI355XOAM|MI355XVF"),
	AMD("MI325X", 256, 163400, 1307400, 6000000, 1000, 1216, 0, "MI325XOAM|MI325XVF"),
	AMD("MI300X", 192, 163400, 1307400, 5300000, 750, 1216, 0, "MI300XOAM|MI300XVF"),
	AMD("MI250X", 128, 47900, 383000, 3277000, 560, 880, 0, ""),
	AMD("MI250", 128, 45300, 362100, 3277000, 560, 832, 0, ""),
	AMD("MI210", 64, 22600, 181000, 1638000, 300, 416, 0, ""),
	AMD("MI100", 32, 23100, 184600, 1229000, 300, 480, 0, ""),
	AMD("RX 7900 XTX", 24, 61400, 0, 960000, 355, 0, 999, "7900XTX"),
	AMD("RX 7900 XT", 20, 51600, 0, 800000, 315, 0, 899, "7900XT"),
	AMD("RX 6900 XT", 16, 23040, 0, 512000, 300, 0, 999, "6900XT"),
	AMD("RX 6800 XT", 16, 20740, 0, 512000, 300, 0, 649, "6800XT"),
};
#define ROWS (sizeof table / sizeof *table)

const struct gpu_model *gpu_table(size_t *n)
{
	*n = ROWS;
	return table;
}

/* --- keys --------------------------------------------------------------------------------- */

/* A name reduced to what distinguishes models: its words in capitals and joined, without vendor
 * words and size. */
struct key {
	char text[GPU_KEY_MAX];
	char with_size[GPU_KEY_MAX]; /* the same with its size: "GH200480GB" */
	int64_t memory_gib;          /* 0: the name has no size */
};

/* Words that only name the maker. The "Q" in Vast's "Q RTX 8000" is not among them. */
static bool is_noise(const char *word)
{
	static const char *const words[] = { "NVIDIA", "CORPORATION", "GEFORCE", "TESLA",
		"GPU", "GENERATION", "EDITION", "AMD", "RADEON", "INSTINCT", "BAREMETAL",
		NULL };

	for (int i = 0; words[i]; i++)
		if (strcmp(word, words[i]) == 0)
			return true;
	return false;
}

/* Returns the GiB of "80GB", "80GIB", "80GI", "12G"; 0 for any other word. */
static int64_t size_of_word(const char *word)
{
	static const char *const units[] = { "GB", "GIB", "GI", "G", NULL };
	char *end;
	long n = strtol(word, &end, 10);

	if (!isdigit((unsigned char)word[0]) || n < 1 || n > 4096)
		return 0;
	for (int i = 0; units[i]; i++)
		if (strcmp(end, units[i]) == 0)
			return n;
	return 0;
}

/* Skips a maker's word that a market has joined to the model: "InstinctMI250X". */
static char *without_maker(char *word)
{
	static const char *const words[] = { "NVIDIA", "GEFORCE", "TESLA", "RADEON",
		"INSTINCT", NULL };

	for (int i = 0; words[i]; i++) {
		size_t n = strlen(words[i]);

		if (strncmp(word, words[i], n) == 0 && word[n])
			return word + n;
	}
	return word;
}

/* Adds one word of a name to the key. Returns false when the name has two different sizes. */
static bool add_word(struct key *k, char *word)
{
	int64_t gib = size_of_word(word);

	/* each chip comes with one kind of SXM2 ... SXM6 only */
	if (strncmp(word, "SXM", 3) == 0 && isdigit((unsigned char)word[3]) && !word[4])
		word[3] = '\0';
	if (is_noise(word))
		return true;
	word = without_maker(word);
	if (gib) {
		if (k->memory_gib && k->memory_gib != gib)
			return false;
		k->memory_gib = gib;
		snprintf(k->with_size + strlen(k->with_size),
			sizeof k->with_size - strlen(k->with_size), "%dGB", (int)gib);
		return true;
	}
	strcat(k->text, word);
	strcat(k->with_size, word);
	return true;
}

static bool is_separator(char c)
{
	return c == ' ' || c == '_' || c == '-' || c == '/' || c == '(' || c == ')' ||
		c == '.';
}

/* Reduces a name. Returns false when no GPU can have it. */
static bool key_of(struct key *k, const char *name)
{
	char words[GPU_NAME_MAX + 1];
	size_t n = strlen(name);

	k->text[0] = k->with_size[0] = '\0';
	k->memory_gib = 0;
	if (n == 0 || n > GPU_NAME_MAX)
		return false;
	for (size_t i = 0; i <= n; i++) {
		unsigned char c = (unsigned char)name[i];

		if (c && !is_separator((char)c) && !(isalnum(c) && c < 128))
			return false;
		words[i] = is_separator((char)c) ? '\0' : (char)toupper(c);
	}
	for (size_t i = 0; i < n; i += strlen(words + i) + 1)
		if (words[i] && !add_word(k, words + i))
			return false;
	return k->text[0];
}

/* --- index -------------------------------------------------------------------------------- */

struct entry {
	char key[GPU_KEY_MAX];
	const struct gpu_model *model;
};

#define ENTRIES_MAX (ROWS * 5)
static struct entry entries[ENTRIES_MAX];
static size_t nentries;
static pthread_once_t indexed = PTHREAD_ONCE_INIT;

static int by_key(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int c = strcmp(x->key, y->key);

	/* rows of one key stay in the order of the table */
	return c ? c : (x->model > y->model) - (x->model < y->model);
}

static void add_entry(const char *key, size_t len, const struct gpu_model *m)
{
	if (nentries == ENTRIES_MAX || len >= GPU_KEY_MAX)
		bug("the table of GPUs is wrong: alias '%.40s'", key);
	memcpy(entries[nentries].key, key, len);
	entries[nentries].key[len] = '\0';
	entries[nentries++].model = m;
}

static void index_rows(void)
{
	for (size_t i = 0; i < ROWS; i++) {
		const struct gpu_model *m = &table[i];
		struct key k;
		const char *a = m->aliases;

		key_of(&k, m->name);
		add_entry(k.with_size, strlen(k.with_size), m);
		while (*a) {
			size_t n = strcspn(a, "|");

			add_entry(a, n, m);
			a += n + (a[n] == '|');
		}
	}
	qsort(entries, nentries, sizeof *entries, by_key);
}

/* Returns the first entry of a key, or NULL. */
static const struct entry *first_of(const char *key)
{
	size_t low = 0, high = nentries;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (strcmp(entries[mid].key, key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low < nentries && strcmp(entries[low].key, key) == 0 ? &entries[low] :
								      NULL;
}

/* Drops a last word "PCIE" where the chip comes on such cards alone: a market may say it of any,
 * but of an H200 it is another product. */
static void drop_form(struct key *k)
{
	static const char *const only[] = { "RTX", "GTX", "QUADRO", "TITAN", "RX", "L",
		"T", "A2", "A16", "P4", NULL };
	size_t n = strlen(k->text), m = strlen(k->with_size);

	if (n < 5 || strcmp(k->text + n - 4, "PCIE") != 0 ||
		strcmp(k->with_size + m - 4, "PCIE") != 0)
		return;
	for (int i = 0; only[i]; i++)
		if (strncmp(k->text, only[i], strlen(only[i])) == 0) {
			k->text[n - 4] = k->with_size[m - 4] = '\0';
			return;
		}
}

/* --- matching ----------------------------------------------------------------------------- */

/* Drivers report up to a tenth less than is sold (ECC, reserved, GB for GiB), and a little
 * more for the H200. Returns the distance in millionths, or -1 when it is another size. */
static int64_t memory_distance(int64_t sold, int64_t reported)
{
	int64_t ppm = reported / (sold / 1000000);

	if (ppm < 900000 || ppm > 1020000)
		return -1;
	return ppm > 1000000 ? ppm - 1000000 : 1000000 - ppm;
}

/* Returns the row of a key with this size; size 0: the first one, which the plain name means. */
static const struct gpu_model *pick(const struct entry *e, int64_t memory_bytes)
{
	const struct gpu_model *best = NULL;
	int64_t best_distance = INT64_MAX;
	const char *key;

	if (!e)
		return NULL;
	if (memory_bytes == 0)
		return e->model;
	for (key = e->key; e < entries + nentries && strcmp(e->key, key) == 0; e++) {
		const struct gpu_model *m = e->model;
		/* a row that only has a name takes any memory; of variants one has to fit */
		int64_t d = m->memory_bytes ?
			memory_distance(m->memory_bytes, memory_bytes) :
			m->unspecific ? -1 :
					1000000;

		if (d >= 0 && d < best_distance) {
			best = e->model;
			best_distance = d;
		}
	}
	return best;
}

const struct gpu_model *gpu_find(const char *any_name, int64_t memory_bytes)
{
	const struct gpu_model *m = NULL;
	struct key k;

	if (!any_name || memory_bytes < 0 || memory_bytes > ((int64_t)1 << 50) ||
		!key_of(&k, any_name))
		return NULL;
	pthread_once(&indexed, index_rows);
	drop_form(&k);
	/* a size that is part of the name ("GH200 480GB") is looked for first */
	if (k.memory_gib) {
		m = pick(first_of(k.with_size), memory_bytes);
		if (!m && !first_of(k.with_size))
			m = pick(first_of(k.text), GIB(k.memory_gib));
	} else {
		m = pick(first_of(k.text), memory_bytes);
	}
	/* the size in the name and the reported size must agree */
	if (m && memory_bytes && m->memory_bytes &&
		memory_distance(m->memory_bytes, memory_bytes) < 0)
		return NULL;
	return m;
}
