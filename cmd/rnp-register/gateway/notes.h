/* notes.h - which connection of the gateway's sshd was let in for which key: a file a connection,
 * written before the key is answered, read by the gateway to end those whose right is gone. Uses
 * access, process, io, map, err. */
#ifndef RNP_CMD_REGISTER_GATEWAY_NOTES_H
#define RNP_CMD_REGISTER_GATEWAY_NOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "cmd/rnp-register/gateway/access.h"

/* Answers sshd: appends "OPTIONS TYPE BLOB\n" to out where the table in the directory has the key,
 * and notes the connection, of process pid, with these options before. Without the key out stays
 * empty. The note comes first and the table is read again after it, so that whoever replaces the
 * table and then looks at the notes sees this one, or we see the new table. Returns 0, or -1. */
int notes_answer(const char *directory, pid_t pid, const char *type, const char *blob,
	struct buf *out);

struct notes_swept {
	size_t open, ended;
};

/* Ends each connection one of whose keys may no longer do what it was let in for, by the table of
 * len bytes, and forgets those that are gone. Returns 0, or -1: the directory cannot be read. */
int notes_sweep(const char *directory, const char *table, size_t len,
	struct notes_swept *swept);

/* Replaces the table of the directory. Returns 0, or -1. */
int notes_put_table(const char *directory, const struct buf *table);

/* Makes the directory what the above expect. Returns 0, or -1. */
int notes_make_directory(const char *directory);

#endif
