/* prog.h - the common start and end of all programs.
 *
 * For cmd/ only: this module prints for people and decides exit codes. */
#ifndef RNP_COMMON_CLI_PROG_H
#define RNP_COMMON_CLI_PROG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cli/opt.h"

struct program {
	const char *name;                      /* "rnp-price" */
	const char *summary;                   /* one sentence */
	const struct command *const *commands; /* ends with NULL */
	const char *const *kinds; /* record kinds that it reads or writes, for --schema */
	const struct opt_elsewhere *elsewhere; /* options of its like; or NULL */
};

/* Parses, runs the subcommand, closes standard output; returns the value for main(). Handles
 * help [SUBCOMMAND], --help, --version, --schema [KIND], --completion SHELL, -q, -v, --log
 * json, --json, --table, --color. */
int prog_main(const struct program *p, int argc, char **argv);

/* Prints the pending error once ("rnp-price: cannot read ..."; one JSON object with --log json)
 * and returns its exit code. */
int err_report(void);

/* Lines for people on standard error. info, warn: suppressed by -q. detail: only with -v.
 * error: also with -q; for an error that does not end the program, such as a server's, since
 * err_report prints the final one. With --log json each is an object with "level". */
void prog_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void prog_detail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void prog_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void prog_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

bool prog_quiet(void);

/* See OPT_WATCH and OPT_EXAMPLE. */
extern int64_t prog_watch_ms;
extern bool prog_example;

/* The row `--key F` for commands that sign; key_path NULL after parsing means the default. */
/* clang-format off */
#define OPT_KEY(to_path) \
	OPT(TEXT, "key", (to_path), "F", \
		"key file (default $XDG_CONFIG_HOME/rnp/key.json)", .setting = true)

/* The row `--passphrase-file F` beside OPT_KEY. */
#define OPT_PASSPHRASE(to_path) \
	OPT(TEXT, "passphrase-file", (to_path), "F", \
		"opens the key file if it is encrypted", .setting = true)

/* The row `--node A`, required, of commands about one node. */
#define OPT_NODE(to_text) \
	OPT(TEXT, "node", (to_text), "A", \
		"address of the node", .required = true, .address = true)

/* The row `--watch D` for commands whose answer people look at again and again; prog_main does the
 * rest. 0: once. */
#define OPT_WATCH \
	OPT_IN(DURATION, "watch", &prog_watch_ms, "D", 1000, 86400000, \
		"again every D until Ctrl-C, such as 10s")

/* The row `--example` for commands that read a file that people write. prog_main prints the
 * command's .example, also where required options are missing. */
#define OPT_EXAMPLE(of_what) \
	OPT_SWITCH("example", &prog_example, \
		"print a file of " of_what " to begin with, and nothing else")

/* The row `--device D` for commands that compute; NULL after parsing means $RNP_DEVICE, or
 * auto: as dev_open takes it. */
#define OPT_DEVICE(to_text) \
	OPT(TEXT, "device", (to_text), "D", \
		"auto, cpu, cuda or cuda:N (default $RNP_DEVICE, else auto)")

/* The rows `--model M`, required, and `--tokenizer F` of commands that load a language model;
 * NULL after parsing means the model's own tokenizer. */
#define OPT_MODEL(to_text) \
	OPT(TEXT, "model", (to_text), "M", \
		"GGUF file, directory with safetensors, or llama2.c .bin", .required = true)
#define OPT_TOKENIZER(to_text) \
	OPT(TEXT, "tokenizer", (to_text), "F", \
		"tokenizer.json, GGUF file or tok*.bin (default: the model's own)")

/* The rows of servers: the addresses to listen on, and the file of the request log. */
#define OPT_LISTEN(to_text) \
	OPT(TEXT, "listen", (to_text), "ADDR", \
		"HOST:PORT; port 0 is any free one", .required = true)
#define OPT_PORT_FILE(to_text) \
	OPT(TEXT, "port-file", (to_text), "F", \
		"write the port there once connections are accepted")
#define OPT_CERT(to_text) \
	OPT(TEXT, "cert", (to_text), "F", "serve HTTPS with this certificate (PEM)")
#define OPT_CERT_KEY(to_text) \
	OPT(TEXT, "cert-key", (to_text), "F", "the certificate's key (PEM)")
#define OPT_LOG_FILE(to_text) \
	OPT(TEXT, "log-file", (to_text), "F", \
		"append the request log there (default standard error)")
#define OPTS_PROXIED(to_url, to_list, to_header) \
	OPT(TEXT, "external-url", (to_url), "URL", \
		"what clients ask for, where a proxy takes a path off"), \
	OPT(LIST, "trusted-proxy", (to_list), "CIDR", \
		"a proxy whose X-Forwarded-For or Forwarded is believed; several"), \
	OPT(CHOICE, "proxy-header", (to_header), "H", \
		"which of the two counts, the one that the proxy sets", \
		.choices = "x-forwarded-for|forwarded")
/* clang-format on */

#endif
