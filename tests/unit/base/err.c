/* err.c - one pending error of a thread, one line, a code that callers can act on. */
#include <errno.h>
#include <pthread.h>

#include "tests/unit/test.h"

static void check_set(void)
{
	CHECK_I64(0, err_get()->code);
	CHECK_I64(-1, err_set(EX_DATAERR, "%s: bad '%s'", "a:1", "x\ny\x7f"));
	CHECK_TEXT("a:1: bad 'x?y?'", err_get()->text);
	CHECK_I64(-1, err_hint("do %d", 7));
	CHECK_I64(-1, err_add("while %s", "testing"));
	CHECK_TEXT("while testing: a:1: bad 'x?y?'", err_get()->text);
	CHECK_TEXT("do 7", err_get()->hint);
	CHECK_I64(EX_DATAERR, err_get()->code);
	/* the arguments may be the pending text itself */
	err_set(EX_USAGE, "again: %s", err_get()->text);
	CHECK_TEXT("again: while testing: a:1: bad 'x?y?'", err_get()->text);
	CHECK_TEXT("", err_get()->hint);
	err_clear();
	CHECK_I64(0, err_get()->code);
	CHECK_TEXT("", err_get()->text);
}

static int code_for(int error)
{
	errno = error;
	err_sys(0, "cannot open '%s'", "f");
	return err_get()->code;
}

static void check_sys(void)
{
	CHECK_I64(EX_NOPERM, code_for(EACCES));
	CHECK_TEXT("cannot open 'f': Permission denied", err_get()->text);
	CHECK_I64(EX_NOINPUT, code_for(ENOENT));
	CHECK_I64(EX_NOINPUT, code_for(EISDIR));
	CHECK_I64(EX_TEMPFAIL, code_for(EAGAIN));
	CHECK_I64(EX_TEMPFAIL, code_for(ETIMEDOUT));
	CHECK_I64(EX_IOERR, code_for(ENOSPC));
	CHECK_I64(EX_IOERR, code_for(EIO));
	errno = ENOENT;
	err_sys(EX_UNAVAILABLE, "x");
	CHECK_I64(EX_UNAVAILABLE, err_get()->code);
	err_clear();
}

static void check_long(void)
{
	char text[2 * ERR_TEXT_MAX];

	memset(text, 'a', sizeof text);
	text[sizeof text - 1] = '\0';
	err_set(EX_DATAERR, "%s", text);
	CHECK_I64(ERR_TEXT_MAX - 1, (int64_t)strlen(err_get()->text));
	err_add("front");
	CHECK(strncmp(err_get()->text, "front: aaa", 10) == 0);
	CHECK_I64(ERR_TEXT_MAX - 1, (int64_t)strlen(err_get()->text));
	err_add("%s", text);
	err_hint("%s", text);
	errno = EIO;
	err_sys(0, "%s", text);
	CHECK_I64(ERR_TEXT_MAX - 1, (int64_t)strlen(err_get()->text));
	err_clear();
}

static void *in_a_thread(void *to)
{
	if (err_get()->code)
		return NULL;
	err_set(EX_NOHOST, "theirs");
	err_hint("take it");
	err_save(to);
	return to;
}

static void check_threads(void)
{
	struct err theirs;
	void *returned = NULL;
	pthread_t thread;

	err_set(EX_DATAERR, "mine");
	CHECK(pthread_create(&thread, NULL, in_a_thread, &theirs) == 0);
	pthread_join(thread, &returned);
	CHECK(returned == &theirs);
	CHECK_TEXT("mine", err_get()->text);
	CHECK_I64(-1, err_restore(&theirs));
	CHECK_TEXT("theirs", err_get()->text);
	CHECK_TEXT("take it", err_get()->hint);
	CHECK_I64(EX_NOHOST, err_get()->code);
	err_clear();
}

int main(void)
{
	check_set();
	check_sys();
	check_long();
	check_threads();
	TEST_END();
}
