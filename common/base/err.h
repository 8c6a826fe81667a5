/* err.h - the one pending error of a thread: an exit code, a sentence, and possibly a hint.
 *
 * Functions that can fail return -1 and leave the error here; callers pass -1 upward. Uses libc
 * only and never prints. */
#ifndef RNP_COMMON_BASE_ERR_H
#define RNP_COMMON_BASE_ERR_H

#include "common/base/exit.h"

/* longer sentences are shortened; bytes that are not one line of UTF-8 become '?' */
#define ERR_TEXT_MAX 1024

struct err {
	int code;
	char text[ERR_TEXT_MAX];
	char hint[256];
};

/* Sets this thread's error and returns -1, so that `return err_set(...)` reads well. code: an
 * exit code of exit.h. The sentence is lower case, without a full stop. */
int err_set(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* As err_set, with ": " and strerror(errno) appended. code 0 picks one by errno: EACCES and
 * EPERM 77, ENOENT and the like 66, EAGAIN and ETIMEDOUT 75, others 74. */
int err_sys(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Puts "context: " before the pending sentence. Returns -1. */
int err_add(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Adds what the user can do about the pending error. Returns -1. */
int err_hint(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Warns the user about something that does not end the work. A program prints it; a library
 * without a listener is silent. */
void err_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void err_listen(void (*hear)(const char *text));

/* Returns the pending error; code 0 if there is none. Valid until the thread's next err_*. */
const struct err *err_get(void);
void err_clear(void);

/* Copy an error from one thread to another. err_restore returns -1. */
void err_save(struct err *to);
int err_restore(const struct err *from);

/* Reports an impossible state: prints file and line, exits 70. Never for input, network or
 * disk. */
#define bug(...) err_bug(__FILE__, __LINE__, __VA_ARGS__)
void err_bug(const char *file, int line, const char *fmt, ...)
	__attribute__((noreturn, format(printf, 3, 4)));

#endif
