/* talk.c - the customer's words go to the shell of the container and to none of ours. */
#include "cmd/rnp-register/agent/talk.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/json/json.h"

#define PIECE      ((size_t)65536)
#define SIZE_MAX_C 4096 /* rows, columns */

/* What an image has of a shell, and of the programs that scp and sftp start. */
#define BASH \
	"for b in /bin/bash /usr/bin/bash /usr/local/bin/bash; do [ ! -x $b ] || exec $b "
#define LOGIN  BASH "-l; done; exec sh -l"
#define SINGLE BASH "-c \"$0\"; done; exec sh -c \"$0\""
#define SFTP                                                                                     \
	"for p in /usr/lib/openssh /usr/libexec/openssh /usr/lib/ssh /usr/libexec /usr/bin; do " \
	"[ ! -x $p/sftp-server ] || exec $p/sftp-server; done; "                                 \
	"echo 'this image has no sftp-server: use scp -O, rsync, or tar through ssh' >&2; "      \
	"exit 127"

int talk_read(struct talk *t, const json_t *message)
{
	int64_t rows = 0, columns = 0;

	*t = (struct talk){ 0 };
	if (json_opt_text(message, "session", "command", &t->command) < 0 ||
		json_opt_text(message, "session", "term", &t->term) < 0 ||
		json_opt_bool(message, "session", "terminal", &t->terminal) < 0 ||
		json_opt_i64(message, "session", "rows", 0, SIZE_MAX_C, &rows) < 0 ||
		json_opt_i64(message, "session", "columns", 0, SIZE_MAX_C, &columns) < 0)
		return -1;
	t->rows = (int)rows;
	t->columns = (int)columns;
	return 0;
}

int talk_frames_take(struct talk_frames *f, const unsigned char *data, size_t len,
	struct buf *out, struct buf *err)
{
	while (len) {
		size_t n;

		if (!f->left) {
			f->head[f->nhead++] = *data++;
			len--;
			if (f->nhead < sizeof f->head)
				continue;
			f->nhead = 0;
			if (f->head[0] > 3 || f->head[1] || f->head[2] || f->head[3])
				return err_set(EX_UNAVAILABLE,
					"what podman sends of a session is no session");
			f->left = (size_t)f->head[4] << 24 | (size_t)f->head[5] << 16 |
				(size_t)f->head[6] << 8 | f->head[7];
			continue;
		}
		n = len < f->left ? len : f->left;
		buf_add(f->head[0] < 2 ? out : err, data, n);
		f->left -= n;
		data += n;
		len -= n;
	}
	return 0;
}

/* One that goes on. */
struct hold {
	struct engine *engine;
	struct engine_talk talk;
	struct talk_frames frames;
	struct buf up, down[2]; /* to the command; to the customer's out and err */
	size_t up_from, down_from[2];
	int in, out[2], control; /* -1: ended */
	bool conn_ended, told_end;
};

static void do_not_block(int fd)
{
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/* Writes what a buffer holds. Returns 0, or -1: nobody reads it any more. */
static int flush(struct buf *b, size_t *from, int fd)
{
	ssize_t n = write(fd, b->data + *from, b->len - *from);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	*from += (size_t)n;
	if (*from == b->len) {
		buf_reset(b);
		*from = 0;
	}
	return 0;
}

/* Reads a piece. Returns how much, 0 at the end, -1: nothing at present. */
static ssize_t take(int fd, unsigned char piece[PIECE])
{
	ssize_t n = read(fd, piece, PIECE);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -1;
	return n < 0 ? 0 : n;
}

static int from_command(struct hold *h)
{
	unsigned char piece[PIECE];
	ssize_t n = take(h->talk.fd, piece);

	if (n == 0)
		h->conn_ended = true;
	if (n <= 0)
		return 0;
	if (!h->talk.terminal)
		return talk_frames_take(&h->frames, piece, (size_t)n, &h->down[0],
			&h->down[1]);
	buf_add(&h->down[0], piece, (size_t)n);
	return 0;
}

static void from_customer(struct hold *h)
{
	unsigned char piece[PIECE];
	ssize_t n = take(h->in, piece);

	if (n > 0)
		buf_add(&h->up, piece, (size_t)n);
	else if (n == 0)
		h->in = -1;
}

static void take_size(struct hold *h)
{
	char text[256];
	ssize_t n = recv(h->control, text, sizeof text, MSG_DONTWAIT);
	json_t *size;
	int64_t rows = 0, columns = 0;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		h->control = -1;
		return;
	}
	size = json_parse_object(text, (size_t)n, "session");
	if (size && h->talk.terminal &&
		json_get_i64(size, "session", "rows", 1, SIZE_MAX_C, &rows) == 0 &&
		json_get_i64(size, "session", "columns", 1, SIZE_MAX_C, &columns) == 0) {
		h->talk.rows = (int)rows;
		h->talk.columns = (int)columns;
		h->engine->ops->talk_size(h->engine, &h->talk);
	}
	err_clear();
	json_decref(size);
}

/* What can be moved at present; a side whose buffer is full is not read. */
static void set_polls(const struct hold *h, struct pollfd p[6])
{
	bool room = h->up.len - h->up_from < PIECE;
	bool space = h->down[0].len + h->down[1].len < 2 * PIECE;

	p[0] = (struct pollfd){ room ? h->in : -1, POLLIN, 0 };
	p[1] = (struct pollfd){ h->conn_ended || !space ? -1 : h->talk.fd, POLLIN, 0 };
	p[2] = (struct pollfd){ h->up.len && !h->conn_ended ? h->talk.fd : -1, POLLOUT,
		0 };
	/* also without anything to write: whoever went away reads no more */
	p[3] = (struct pollfd){ h->out[0], h->down[0].len ? POLLOUT : 0, 0 };
	p[4] = (struct pollfd){ h->down[1].len ? h->out[1] : -1, POLLOUT, 0 };
	p[5] = (struct pollfd){ h->control, POLLIN, 0 };
}

/* Moves what there is. Returns 1 to go on, 0 at the end, -1 with err_set. */
static int step(struct hold *h)
{
	struct pollfd p[6];

	set_polls(h, p);
	if (poll(p, 6, -1) < 0)
		return errno == EINTR ? 1 : err_sys(EX_OSERR, "cannot wait");
	if (p[0].revents)
		from_customer(h);
	if (p[1].revents && from_command(h) < 0)
		return -1;
	if (p[2].revents && flush(&h->up, &h->up_from, h->talk.fd) < 0)
		buf_reset(&h->up), h->up_from = 0;
	if (p[3].revents & (POLLERR | POLLHUP))
		return 0;
	for (int i = 0; i < 2; i++)
		/* nobody reads: as with a pipe, the command learns of it when its connection
		 * ends */
		if (p[3 + i].revents &&
			flush(&h->down[i], &h->down_from[i], h->out[i]) < 0)
			return 0;
	if (p[5].revents)
		take_size(h);
	if (h->in < 0 && !h->up.len && !h->told_end) {
		shutdown(h->talk.fd, SHUT_WR);
		h->told_end = true;
	}
	if (h->control < 0)
		return 0;
	return h->conn_ended && !h->down[0].len && !h->down[1].len ? 0 : 1;
}

int talk_hold(struct engine *e, const char *container, const struct talk *t, int in,
	int out, int err, int control)
{
	const char *command[] = { "sh", "-c", t->command ? SINGLE : LOGIN, t->command,
		NULL };
	char term[128] = "TERM=xterm";
	const char *env[] = { t->terminal ? term : NULL, NULL };
	struct hold h = { .engine = e,
		.talk = { .command = command,
			.env = env,
			.terminal = t->terminal,
			.rows = t->rows,
			.columns = t->columns },
		.in = in,
		.out = { out, err },
		.control = control };
	int rc, code = -1;

	/* scp and sftp ask for a subsystem, which is no word of a shell */
	if (t->command && strcmp(t->command, "sftp-server") == 0)
		command[2] = SFTP;
	if (t->term)
		snprintf(term, sizeof term, "TERM=%.100s", t->term);
	if (e->ops->talk(e, container, &h.talk) < 0)
		return -1;
	do_not_block(h.talk.fd);
	do_not_block(in);
	do_not_block(out);
	do_not_block(err);
	do
		rc = step(&h);
	while (rc > 0);
	close(h.talk.fd);
	if (rc == 0)
		rc = e->ops->talk_end(e, &h.talk, &code);
	buf_release(&h.up);
	buf_release(&h.down[0]);
	buf_release(&h.down[1]);
	return rc < 0 ? -1 : code & 255;
}
