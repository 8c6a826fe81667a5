/* settings.h - values of options that people give once: in the environment and in files. Uses
 * io, err.
 *
 * A setting has the name of the long option. It is looked for, in this order, in the
 * environment ($RNP_REGISTRY for --registry), in ~/.config/rnp/config ($XDG_CONFIG_HOME) and in
 * /etc/rnp/node.env, which systemd reads, too. Files hold lines `name = value` or
 * `RNP_NAME=value`; '#' begins a comment. */
#ifndef RNP_COMMON_CLI_SETTINGS_H
#define RNP_COMMON_CLI_SETTINGS_H

/* The names that a setting may have, NULL at the end: options whose value is the same every day. */
extern const char *const settings_names[];

/* Reads the files. Returns 0, or -1 with err_set(EX_DATAERR): file and line of a name that is
 * none; or 66, 74: a file that is there cannot be read (one in /etc that this user may not read
 * is passed over). */
int settings_load(void);

/* The value of a setting, borrowed until settings_release, or NULL. */
const char *settings_find(const char *name);

/* Where the value comes from: "$RNP_REGISTRY" or a file with its line; "" when there is none.
 * Borrowed. */
const char *settings_origin(const char *name);

void settings_release(void);

#endif
