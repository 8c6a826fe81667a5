/* buf.c - grows a buffer of bytes that always ends with a NUL. */
#include "common/base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"

void buf_release(struct buf *b)
{
	free(b->data);
	*b = (struct buf)BUF_INIT;
}

void buf_reset(struct buf *b)
{
	b->len = 0;
	if (b->data)
		b->data[0] = '\0';
}

char *buf_reserve(struct buf *b, size_t more_bytes)
{
	if (more_bytes > SIZE_MAX / 2 - b->len)
		bug("buffer of %zu bytes asked for", more_bytes);
	b->data = xgrow(b->data, &b->cap, b->len + more_bytes + 1, 1);
	b->data[b->len] = '\0'; /* the contents of a new block are undefined */
	return b->data + b->len;
}

void buf_add(struct buf *b, const void *data, size_t len)
{
	char *to = buf_reserve(b, len);

	if (len)
		memcpy(to, data, len);
	b->len += len;
	b->data[b->len] = '\0';
}

void buf_adds(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text));
}

void buf_add_i64(struct buf *b, int64_t v)
{
	char text[20], *at = text + sizeof text;
	uint64_t rest = v < 0 ? -(uint64_t)v : (uint64_t)v;

	do
		*--at = (char)('0' + rest % 10);
	while (rest /= 10);
	if (v < 0)
		*--at = '-';
	buf_add(b, at, (size_t)(text + sizeof text - at));
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
	va_list args, again;
	int n;

	va_start(args, fmt);
	va_copy(again, args);
	n = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	if (n < 0)
		bug("format '%s'", fmt);
	vsnprintf(buf_reserve(b, (size_t)n), (size_t)n + 1, fmt, again);
	va_end(again);
	b->len += (size_t)n;
}

void buf_add_shell(struct buf *b, const char *word)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
		"-_./:=@%+,";

	if (*word && !word[strspn(word, plain)]) {
		buf_adds(b, word);
		return;
	}
	buf_addc(b, '\'');
	for (; *word; word++) {
		if (*word == '\'')
			buf_adds(b, "'\\'");
		buf_addc(b, *word);
	}
	buf_addc(b, '\'');
}

void buf_add_hex(struct buf *b, const void *data, size_t len)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *from = data;
	char *to = buf_reserve(b, 2 * len);

	for (size_t i = 0; i < len; i++) {
		to[2 * i] = digits[from[i] >> 4];
		to[2 * i + 1] = digits[from[i] & 15];
	}
	b->len += 2 * len;
	b->data[b->len] = '\0';
}

const char *buf_text(const struct buf *b)
{
	return b->data ? b->data : "";
}

char *buf_take(struct buf *b)
{
	char *text = b->data ? b->data : xstrdup("");

	*b = (struct buf)BUF_INIT;
	return text;
}
