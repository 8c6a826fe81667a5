/* err.c - keeps the pending error of each thread: code, sentence, hint. */
#include "common/base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/utf8.h"

static _Thread_local struct err pending;

static int set_text(int code, const char *fmt, va_list args)
{
	/* The arguments may point into the pending text. */
	char text[ERR_TEXT_MAX];

	vsnprintf(text, sizeof text, fmt, args);
	utf8_clean_line(text);
	memcpy(pending.text, text, sizeof text);
	pending.code = code;
	pending.hint[0] = '\0';
	return -1;
}

int err_set(int code, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	set_text(code, fmt, args);
	va_end(args);
	return -1;
}

static void (*listener)(const char *text);

void err_listen(void (*hear)(const char *text))
{
	listener = hear;
}

void err_warn(const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	va_list args;

	if (!listener)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	utf8_clean_line(text);
	listener(text);
}

static int code_of_errno(int error)
{
	switch (error) {
	case EACCES:
	case EPERM:
	case EROFS:
		return EX_NOPERM;
	case ENOENT:
	case ENOTDIR:
	case EISDIR:
	case ELOOP:
	case ENAMETOOLONG:
		return EX_NOINPUT;
	case EAGAIN:
	case ETIMEDOUT:
		return EX_TEMPFAIL;
	default:
		return EX_IOERR;
	}
}

int err_sys(int code, const char *fmt, ...)
{
	int error = errno;
	va_list args;
	size_t n;

	va_start(args, fmt);
	set_text(code ? code : code_of_errno(error), fmt, args);
	va_end(args);
	n = strlen(pending.text);
	snprintf(pending.text + n, sizeof pending.text - n, ": %s", strerror(error));
	return -1;
}

int err_add(const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	va_list args;
	size_t n;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	n = strlen(text);
	snprintf(text + n, sizeof text - n, ": %.*s", (int)(sizeof text - n),
		pending.text);
	utf8_clean_line(text);
	memcpy(pending.text, text, sizeof text);
	return -1;
}

int err_hint(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(pending.hint, sizeof pending.hint, fmt, args);
	va_end(args);
	utf8_clean_line(pending.hint);
	return -1;
}

const struct err *err_get(void)
{
	return &pending;
}

void err_clear(void)
{
	pending.code = 0;
	pending.text[0] = '\0';
	pending.hint[0] = '\0';
}

void err_save(struct err *to)
{
	*to = pending;
}

int err_restore(const struct err *from)
{
	pending = *from;
	return -1;
}

void err_bug(const char *file, int line, const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "rnp: bug at %s:%d: ", file, line);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	exit(EX_SOFTWARE);
}
