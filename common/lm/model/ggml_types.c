/* ggml_types.c - the names and block sizes of all of ggml's types. */
#include "common/lm/model/ggml_types.h"

#include <stddef.h>

#include "common/base/err.h"

/* From ggml.h and ggml-common.h of llama.cpp; the sums list the sizes of a block's fields
 * there. Numbers 4 and 5 (Q4_2, Q4_3) left the format before GGUF; 31 to 33 and 36 to 38 are
 * Q4_0 and IQ4_NL with interleaved rows, which were written for a while in 2024. */
static const struct ggml_type types[] = {
	[0] = { "F32", 1, 4, LM_F32 },
	[1] = { "F16", 1, 2, LM_F16 },
	[2] = { "Q4_0", 32, LM_Q4_0_BYTES, LM_Q4_0 },
	[3] = { "Q4_1", 32, 2 + 2 + 16, LM_Q4_1 },
	[6] = { "Q5_0", 32, 2 + 4 + 16, LM_Q5_0 },
	[7] = { "Q5_1", 32, 2 + 2 + 4 + 16, LM_Q5_1 },
	[8] = { "Q8_0", 32, LM_Q8_0_BYTES, LM_Q8_0 },
	[9] = { "Q8_1", 32, 2 + 2 + 32, LM_OTHER },
	[10] = { "Q2_K", 256, 16 + 64 + 2 + 2, LM_OTHER },
	[11] = { "Q3_K", 256, 32 + 64 + 12 + 2, LM_OTHER },
	[12] = { "Q4_K", 256, 2 + 2 + 12 + 128, LM_Q4_K },
	[13] = { "Q5_K", 256, 2 + 2 + 12 + 32 + 128, LM_Q5_K },
	[14] = { "Q6_K", 256, 128 + 64 + 16 + 2, LM_Q6_K },
	[15] = { "Q8_K", 256, 4 + 256 + 32, LM_OTHER },
	[16] = { "IQ2_XXS", 256, 2 + 64, LM_OTHER },
	[17] = { "IQ2_XS", 256, 2 + 64 + 8, LM_OTHER },
	[18] = { "IQ3_XXS", 256, 2 + 96, LM_OTHER },
	[19] = { "IQ1_S", 256, 2 + 32 + 16, LM_OTHER },
	[20] = { "IQ4_NL", 32, 2 + 16, LM_OTHER },
	[21] = { "IQ3_S", 256, 2 + 64 + 8 + 32 + 4, LM_OTHER },
	[22] = { "IQ2_S", 256, 2 + 64 + 8 + 8, LM_OTHER },
	[23] = { "IQ4_XS", 256, 2 + 2 + 4 + 128, LM_OTHER },
	[24] = { "I8", 1, 1, LM_I8 },
	[25] = { "I16", 1, 2, LM_I16 },
	[26] = { "I32", 1, 4, LM_I32 },
	[27] = { "I64", 1, 8, LM_I64 },
	[28] = { "F64", 1, 8, LM_F64 },
	[29] = { "IQ1_M", 256, 32 + 16 + 8, LM_OTHER },
	[30] = { "BF16", 1, 2, LM_BF16 },
	[31] = { "Q4_0_4_4", 32, 2 + 16, LM_OTHER },
	[32] = { "Q4_0_4_8", 32, 2 + 16, LM_OTHER },
	[33] = { "Q4_0_8_8", 32, 2 + 16, LM_OTHER },
	[34] = { "TQ1_0", 256, 48 + 4 + 2, LM_OTHER },
	[35] = { "TQ2_0", 256, 64 + 2, LM_OTHER },
	[36] = { "IQ4_NL_4_4", 32, 2 + 16, LM_OTHER },
	[37] = { "IQ4_NL_4_8", 32, 2 + 16, LM_OTHER },
	[38] = { "IQ4_NL_8_8", 32, 2 + 16, LM_OTHER },
	[39] = { "MXFP4", 32, 1 + 16, LM_OTHER },
	[40] = { "NVFP4", 64, 4 + 32, LM_OTHER },
	[41] = { "Q1_0", 128, 2 + 16, LM_OTHER },
};

const struct ggml_type *ggml_type(uint32_t id)
{
	return id < sizeof types / sizeof *types && types[id].name ? &types[id] : NULL;
}

uint32_t ggml_type_id(enum lm_type type)
{
	for (uint32_t id = 0; id < sizeof types / sizeof *types; id++)
		if (types[id].name && types[id].type == type && type != LM_OTHER)
			return id;
	bug("ggml has no type %s", lm_type_name(type));
}
