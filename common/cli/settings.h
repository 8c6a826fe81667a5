/* settings.h - values of options that people set once: in the environment and in files. Uses
 * io, err.
 *
 * A setting has the name of the long option. It is searched, in this order, in the environment
 * ($RNP_REGISTRY for --registry), in ~/.config/rnp/config ($XDG_CONFIG_HOME) and in
 * /etc/rnp/node.env, which systemd reads, too. Files hold lines `name = value` or
 * `RNP_NAME=value`; '#' begins a comment. */
#ifndef RNP_COMMON_CLI_SETTINGS_H
#define RNP_COMMON_CLI_SETTINGS_H

#include <stddef.h>

/* The names of settings, ending with NULL: options whose value is the same every day. */
extern const char *const settings_names[];

/* Writes the environment's name of a setting: RNP_REGISTRY, RNP_PASSPHRASE_FILE. */
void settings_variable(const char *name, char *out, size_t size);

/* Reads the environment and the files; may be called again when another file is to be read. Returns
 * 0, or -1 with err_set(EX_DATAERR): file and line of an unknown name; or 66, 74: an existing file
 * cannot be read (one in /etc that this user may not read is skipped). */
int settings_load(void);

/* Returns the value of a setting, borrowed until settings_release (also past another
 * settings_load), or NULL. */
const char *settings_find(const char *name);

/* Returns the source of the value: "$RNP_REGISTRY" or a file with its line; "" if there is
 * none. Borrowed until the next settings_load. */
const char *settings_origin(const char *name);

void settings_release(void);

#endif
