/* buf.h - a growing buffer of bytes. Uses mem. The data always ends with a NUL that len does
 * not count. */
#ifndef RNP_COMMON_BASE_BUF_H
#define RNP_COMMON_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

struct buf {
	char *data; /* NULL until something is added; see buf_text */
	size_t len, cap;
};
/* clang-format off */
#define BUF_INIT { 0 }
/* clang-format on */

void buf_release(struct buf *b);
void buf_reset(struct buf *b); /* empty, memory kept */

/* Makes space for more_bytes more and returns where they go. Advance with b->len += n. */
char *buf_reserve(struct buf *b, size_t more_bytes);

void buf_add(struct buf *b, const void *data, size_t len);
void buf_adds(struct buf *b, const char *text);
void buf_add_i64(struct buf *b, int64_t v); /* decimal */
void buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Appends a word for a shell: as it is, or in single quotes where it has blanks or signs. */
void buf_add_shell(struct buf *b, const char *word);
void buf_add_hex(struct buf *b, const void *data, size_t len); /* lower case */

static inline void buf_addc(struct buf *b, char c)
{
	if (b->len + 1 < b->cap) {
		b->data[b->len++] = c;
		b->data[b->len] = '\0';
	} else {
		buf_add(b, &c, 1);
	}
}

/* The text as a C string, "" when empty. Borrowed, valid until the next change. */
const char *buf_text(const struct buf *b);

/* Gives the text to the caller, who frees it; b is empty afterwards. */
char *buf_take(struct buf *b);

#endif
