/* names.c - the pre-tokenizers that have a name in tokenizer.ggml.pre, splitting as
 * llama.cpp (src/llama-vocab.cpp, src/unicode.cpp) does.
 *
 * Where llama.cpp runs a pattern differently from how its authors wrote it, this table follows
 * llama.cpp, since that is what a GGUF file's name promises:
 * - it tells upper from lower case in ASCII only: [\p{L}] without a-z stands for the upper ones,
 *   without A-Z for the lower;
 * - U+3000 and the other blanks beyond ASCII are never part of a class that lists its characters;
 * - the digits of afmoe and tiny_aya are split the same way, and stay with the text before them
 *   until the next step;
 * - kimi-k2 ignores case. */
#include "common/lm/token/names.h"

#define CONTRACTION   "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
#define BLANKS        "\\s+(?!\\S)|\\s+"
#define LINES         "\\s*[\\r\\n]+|" BLANKS
#define REST          " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" LINES
#define REST_SLASH    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" LINES
#define WORD          "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define GPT2          "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|" BLANKS
#define LLAMA(number) CONTRACTION "|" WORD "|" number "|" REST
#define QWEN2         LLAMA("\\p{N}")
/* a word in which upper case comes before lower case */
#define CASED(upper, lower, tail)                             \
	"[^\\r\\n\\p{L}\\p{N}]?" upper "*" lower "+" tail "|" \
	"[^\\r\\n\\p{L}\\p{N}]?" upper "+" lower "*" tail
#define UPPER       "[^\\P{L}a-z]"
#define LOWER       "[^\\P{L}A-Z]"
#define UPPER_MARK  "[^\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}a-z]"
#define LOWER_MARK  "[^\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}A-Z]"
#define PUNCT_ASCII "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]"
#define DEEPSEEK3_HEAD \
	PUNCT_ASCII    \
	"[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+"
#define DEEPSEEK3 DEEPSEEK3_HEAD "[\\r\\n]*|" LINES
#define CJK_KANA  "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+"
/* U+0800 to U+4E00 without the blanks there, Hangul, and the ideographs */
#define DEEPSEEK_CJK                                                                   \
	"[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}" \
	"\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{4e00}" \
	"\\x{ac00}-\\x{d7ff}]+"
#define HAN                                                                                \
	"\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{20000}-\\x{2a6df}\\x{2a700}-\\x{2ebef}" \
	"\\x{f900}-\\x{faff}\\x{2f800}-\\x{2fa1f}"
#define STOPS "(\\s|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c})"

/* the letters with case of DeepSeek LLM, as listed there */
#define DEEPSEEK_LETTERS                                                                 \
	"A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}"   \
	"\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}"            \
	"\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}"    \
	"\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}"           \
	"\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}"   \
	"\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}"   \
	"\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}"   \
	"\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}"              \
	"\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}"             \
	"\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}"   \
	"\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}"    \
	"\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}"     \
	"\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}"    \
	"\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}"    \
	"\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}"    \
	"\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}"   \
	"\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}" \
	"\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}"                \
	"\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"

/* In llama.cpp the block of compatibility ideographs begins at U+8C48, to which U+F900 is
 * normalised, and so holds much more. */
#define AFMOE_SCRIPTS                                                                   \
	"[\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{8c48}-\\x{faff}\\x{3040}-\\x{309f}" \
	"\\x{30a0}-\\x{30ff}\\x{ff65}-\\x{ff9f}\\x{2f00}-\\x{2fdf}\\x{e40}-\\x{e7f}"    \
	"\\x{e80}-\\x{eff}\\x{1780}-\\x{17ff}\\x{1000}-\\x{109f}\\x{aa60}-\\x{aa7f}"    \
	"\\x{a9e0}-\\x{a9ff}\\x{ac00}-\\x{d7af}\\x{1100}-\\x{11ff}]+"

/* clang-format off */
const struct pre_family pre_families[] = {
	{ .names = "gpt-2|phi-2|jina-es|jina-de|gigachat|jina-v2-es|jina-v2-de|a.x-4.0|mellum|modern-bert|jina-v1-en|"
		"jina-v2-code|roberta-bpe|exaone4|mpt|olmo|jais|trillion|granite-docling",
	  .patterns = { GPT2 }, .ascii = PRE_ASCII_GPT2 },
	{ .names = "llama-bpe|llama3|llama-v3|falcon3|falcon-h1|pixtral|midm-2.0|lfm2|jina-v5-nano",
	  .habits = { .ignore_merges = true, .adds_bos = true },
	  .patterns = { LLAMA("\\p{N}{1,3}") }, .ascii = PRE_ASCII_LLAMA, .digits = 3 },
	{ .names = "dbrx|smaug-bpe|glm4|chatglm-bpe",
	  .patterns = { LLAMA("\\p{N}{1,3}") }, .ascii = PRE_ASCII_LLAMA, .digits = 3 },
	{ .names = "qwen2|deepseek-r1-qwen|kormo|f2llmv2|stablelm2|megrez|hunyuan|solar-open|grok-2",
	  .patterns = { QWEN2 }, .ascii = PRE_ASCII_LLAMA, .digits = 1 },
	{ .names = "qwen35",
	  .patterns = { CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINES } },
	{ .names = "minicpm5", .habits = { .ignore_merges = true },
	  .patterns = { "\\p{N}{1,3}", LLAMA("\\p{N}+") }, .ascii = PRE_ASCII_LLAMA, .digits = 0 },
	{ .names = "jais-2",
	  .patterns = { CONTRACTION "|" WORD "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s{512}(?!\\S)|"
		"\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|"
		"\\s{1,2}(?!\\S)|\\s{1}" } },
	{ .names = "deepseek-llm",
	  .patterns = { "[\\r\\n]", "\\s?[" DEEPSEEK_LETTERS "]+",
		"\\s?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3001}\\x{3002}]+",
		"(?<!\\s)\\s+\\z", DEEPSEEK_CJK, "\\p{N}+" } },
	{ .names = "deepseek-coder",
	  .patterns = { "[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", DEEPSEEK_CJK, "\\p{N}" } },
	{ .names = "deepseek-v3|hunyuan-dense|joyai-llm|hy_v4",
	  .patterns = { "\\p{N}{1,3}", CJK_KANA, DEEPSEEK3 } },
	{ .names = "spark2_5",
	  .patterns = { "\\p{N}{1,3}", CJK_KANA, DEEPSEEK3_HEAD "|[\\r\\n]|" BLANKS, "\\p{N}" } },
	{ .names = "falcon",
	  .patterns = { "[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]" } },
	{ .names = "starcoder|refact|command-r|smollm|codeshell|exaone|minerva-7b|mellum2",
	  .patterns = { "\\p{N}", GPT2 }, .ascii = PRE_ASCII_GPT2 },
	{ .names = "poro-chat|bloom|gpt3-finnish", .patterns = { " ?[^" STOPS "]+" } },
	{ .names = "viking", .patterns = { " ?[^" STOPS "]+", "\\p{N}" } },
	{ .names = "tekken", .habits = { .ignore_merges = true, .adds_bos = true },
	  .patterns = { CASED(UPPER, LOWER, "") "|\\p{N}|" REST_SLASH } },
	{ .names = "gpt-4o|llama4|kanana2|talkie|minimax-m2",
	  .patterns = { CASED(UPPER, LOWER, CONTRACTION "?") "|\\p{N}{1,3}|" REST_SLASH } },
	{ .names = "granite-embed-multi-97m", .habits = { .ignore_merges = true },
	  .patterns = { CASED(UPPER_MARK, LOWER_MARK, CONTRACTION "?") "|\\p{N}{1,3}|" REST_SLASH } },
	{ .names = "tiny_aya|cohere2moe", .hand = PRE_TRIPLES_ENDS,
	  .patterns = { "\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))",
		"[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+" CONTRACTION "?|\\p{N}{1,3}|" REST_SLASH } },
	{ .names = "youtu", .habits = { .ignore_merges = true },
	  .patterns = { "[\\x{ac00}-\\x{d7a3}\\x{3131}-\\x{318e}]+|[\\x{ff01}\\x{2026}\\x{201c}\\x{201d}\\x{2018}\\x{2019}"
		"\\x{2014}\\x{ff1a}\\x{ff1b}\\x{ff0c}\\x{3001}-\\x{303f}\\x{fe30}-\\x{fe4f}]+|[\\x{3105}-\\x{312f}]+|" CJK_KANA,
		"[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+" CONTRACTION "?|\\p{N}|" REST_SLASH } },
	{ .names = "kimi-k2",
	  .patterns = { "[" HAN "]+|[^\\r\\n\\p{L}\\p{N}]?[^\\P{L}" HAN "]+" CONTRACTION "?|\\p{N}{1,3}|" REST } },
	{ .names = "superbpe", .hand = PRE_TRIPLES, .hand_at = 1, .lines_together = true,
	  .patterns = { "\\p{N}+", "(?=([0-9]{3})+(?![0-9]))" } },
	{ .names = "bailingmoe|bailingmoe2|llada-moe",
	  .patterns = { CONTRACTION "|" WORD "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]|" BLANKS } },
	{ .names = "seed-coder",
	  .patterns = { CONTRACTION "|" WORD "|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" LINES } },
	{ .names = "ufakzeka", .patterns = { WORD "|\\p{N}|" REST } },
	{ .names = "afmoe", .hand = PRE_TRIPLES_ENDS,
	  .patterns = { "\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))", AFMOE_SCRIPTS, DEEPSEEK3 } },
	{ .names = "laguna", .patterns = { "[^\\n]+|[\\n]+", QWEN2 } },
	{ .names = "exaone-moe",
	  .patterns = { CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*+)++|\\p{N}|"
		" ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|" BLANKS } },
	{ .names = "chameleon", .habits = { .adds_bos = true },
	  .patterns = { "<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", "[\\t\\n]|    |  ", "\\p{N}",
		"[\\p{P}!-/:-@\\[-`{-~]", GPT2 } },
	{ .names = "gemma4|granite-embed-multi-311m", .habits = { .adds_bos = true, .no_bytes = true },
	  .patterns = { "[^\\n]+|[\\n]+" } },
	{ .names = "sarvam-moe", .habits = { .no_bytes = true }, .patterns = { "[^\\n]+|[\\n]+" } },
	{ .names = "default",
	  .patterns = { "[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]" } },
	{ 0 },
};

/* The same pre-tokenizers as their authors' tokenizer.json has them; for such a file the
 * authors' patterns run. */
const struct pre_alias pre_aliases[] = {
	{ "llama-bpe", LLAMA("\\p{N}{1,3}") },
	{ "qwen2", QWEN2 },
	{ "tekken", "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"
		"[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}|" REST_SLASH },
	{ "gpt-4o", "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" CONTRACTION "?|"
		"[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" CONTRACTION
		"?|\\p{N}{1,3}|" REST_SLASH },
	{ 0 },
};
/* clang-format on */
const char pre_contraction[] = CONTRACTION;
