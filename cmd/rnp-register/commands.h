/* commands.h - the subcommands of rnp-register, one file each. */
#ifndef RNP_REGISTER_COMMANDS_H
#define RNP_REGISTER_COMMANDS_H

#include <stddef.h>
#include <stdint.h>

#include "common/net/http.h"
#include "common/cli/opt.h"

extern const struct command command_address;
extern const struct command command_canon;
extern const struct command command_check;
extern const struct command command_detect;
extern const struct command command_heartbeat;
extern const struct command command_keygen;
extern const struct command command_list;
extern const struct command command_serve;
extern const struct command command_sign;
extern const struct command command_submit;
extern const struct command command_verify;

/* The path of a registry's API that takes records of this kind. */
const char *registry_path_for(const char *kind);

/* Send a signed record to the registry at base. ca: certificates to trust, or NULL; per_try_ms
 * 0: the default. Returns as http_fetch does. */
int registry_post(struct http *http, const char *base, const char *ca, int64_t per_try_ms,
	const char *kind, const void *body, size_t bytes, struct http_response *r);

/* Rows that every client of a registry has in its table of options. */
/* clang-format off */
#define OPT_REGISTRY(to_url)                                                                   \
	{ .name = "registry", .kind = OPT_TEXT, .required = true, .to = (to_url),              \
		.metavar = "URL", .help = "the registry" }
#define OPT_CA(to_path)                                                                        \
	{ .name = "ca", .kind = OPT_TEXT, .to = (to_path), .metavar = "F",                     \
		.help = "trust these certificates (PEM), not the system's" }
/* clang-format on */

#endif
