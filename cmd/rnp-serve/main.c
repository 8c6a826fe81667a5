/* main.c - rnp-serve: serve a language model as an OpenAI-compatible chat. */
#include "cmd/rnp-serve/commands.h"
#include "common/cli/prog.h"

static const struct command *const commands[] = { &command_ask, &command_batch,
	&command_bench, &command_inspect, &command_key, &command_metrics, &command_plan,
	&command_run, NULL };

static const char *const kinds[] = { "rnp.api_key", "rnp.bench", "rnp.completion",
	"rnp.error", "rnp.metadata", "rnp.metric", "rnp.model", "rnp.plan", "rnp.tensor",
	NULL };

/* llama.cpp's, vLLM's */
static const struct opt_elsewhere elsewhere[] = {
	{ "-m", "--model M" },
	{ "model-path", "--model M" },
	{ "alias", "--model NAME=M" },
	{ "served-model-name", "--model NAME=M" },
	{ "port", "--listen HOST:PORT" },
	{ "-c", "--context N" },
	{ "ctx-size", "--context N" },
	{ "max-model-len", "--context N" },
	{ "parallel", "--streams N" },
	{ "max-num-seqs", "--streams N" },
	{ "n-gpu-layers", "--device D" },
	{ "gpu-layers", "--device D" },
	{ "-t", "--threads N" },
	{ "-s", "--seed S" },
	{ "n-predict", "--tokens N" },
	{ "predict", "--tokens N" },
	{ "max-tokens", "--tokens N" },
	{ "temp", "--temperature T" },
	{ "repeat-penalty", "--repetition-penalty R" },
	{ "system-prompt", "--system TEXT" },
	{ "-p", "TEXT alone" },
	{ "prompt", "TEXT alone" },
	{ "cache-type-k", "--cache-type T" },
	{ "cache-type-v", "--cache-type T" },
	{ "kv-cache-dtype", "--cache-type T" },
	{ "gpu-memory-utilization", "--memory SIZE" },
	{ "quantization", "--type q8_0|q4_0" },
	{ "model-draft", "--draft M" },
	{ "draft-max", "--speculate N" },
	{ "lora-modules", "--lora NAME=DIR" },
	{ "api-key", "--api-keys F" },
	{ "api-key", "--api-key-file F" },
	{ "ssl-cert-file", "--cert F" },
	{ "ssl-certfile", "--cert F" },
	{ "ssl-key-file", "--cert-key F" },
	{ "ssl-keyfile", "--cert-key F" },
	{ "base-url", "--url U" },
	{ "max-concurrency", "--clients N" },
	{ "request-rate", "--rate R" },
	{ "num-prompts", "--requests N" },
	{ NULL, NULL },
};

static const struct program program = {
	.name = "rnp-serve",
	.summary = "Serve a language model as an OpenAI-compatible chat.",
	.commands = commands,
	.kinds = kinds,
	.elsewhere = elsewhere,
};

int main(int argc, char **argv)
{
	return prog_main(&program, argc, argv);
}
