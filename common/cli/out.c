/* out.c - writes the results of a command: a line of JSON each, or for people a table or cards
 * that fit the terminal. */
#include "common/cli/out.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/cli/human.h"
#include "common/cli/layout.h"
#include "common/cli/prog.h"
#include "common/cli/progress.h"
#include "common/cli/table.h"
#include "common/json/json.h"

#define HELD_ROWS_MAX 200
#define HELD_MS       150
#define KINDS_MAX     16 /* of records in one output */
#define BOLD          "\033[1m"
#define GREEN         "\033[32m"
#define RED           "\033[31m"
#define PLAIN         "\033[0m"

static struct {
	struct out_form form;
	size_t width; /* of the terminal; 0: no limit */
	bool terminal;
	int64_t now_ms;

	struct layout layouts[KINDS_MAX]; /* one for each kind so far */
	int nlayouts;
	const char *unnamed; /* the kind of the table without a kind; NULL: still free */
	const struct layout *at; /* of what was printed last */

	json_t **held; /* rows waiting until the column widths are known */
	size_t nheld, cap;
	bool laid_out;
	size_t printed;
	int failed; /* errno of a failed write by the flusher, 0: none */
} out;

/* The flusher prints the held rows if the command takes long. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done = PTHREAD_COND_INITIALIZER;
static pthread_t flusher;
static bool flushing, closing;

/* Open MPI's mpirun gives each rank a terminal of its own as standard output and forwards what
 * it reads there, to a file or a pipe as likely as to a person. */
bool out_is_terminal(void)
{
	return isatty(STDOUT_FILENO) && !getenv("OMPI_COMM_WORLD_SIZE");
}

bool out_wants_colour(const char *when, int fd)
{
	const char *none = getenv("NO_COLOR"), *term = getenv("TERM");

	if (when && strcmp(when, "auto"))
		return strcmp(when, "always") == 0;
	return isatty(fd) && !(none && *none) && term && strcmp(term, "dumb");
}

static size_t terminal_width(void)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size;
	long n;

	if (out.terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
		return size.ws_col;
	n = columns ? strtol(columns, NULL, 10) : 0;
	return n >= 20 && n <= 10000 ? (size_t)n : out.terminal ? 80 : 0;
}

void out_use(const struct out_form *form)
{
	out.form = *form;
	out.terminal = out_is_terminal();
	out.width = terminal_width();
	out.now_ms = form->people ? clock_now_ms() : 0;
}

void out_columns(const char *columns)
{
	out.form.columns = columns;
	out.form.card = false;
}

bool out_for_people(void)
{
	return out.form.people;
}

size_t out_width(void)
{
	return out.width;
}

static bool reader_left;

bool out_reader_left(void)
{
	return reader_left;
}

static int write_failed(void)
{
	reader_left |= errno == EPIPE;
	return err_sys(EX_IOERR, "cannot write to standard output");
}

int out_text(const char *data, size_t len)
{
	if (out.terminal)
		progress_wipe();
	return len && fwrite(data, 1, len, stdout) != len ? write_failed() : 0;
}

int out_flush(void)
{
	return fflush(stdout) ? write_failed() : 0;
}

static int put_buf(struct buf *text)
{
	int rc = out_text(buf_text(text), text->len);

	buf_release(text);
	return rc;
}

static int print_row(const struct layout *l, const json_t *record)
{
	struct buf text = BUF_INIT;

	out.printed++;
	layout_row(&text, l, record, out.now_ms);
	return put_buf(&text);
}

/* --- cards --------------------------------------------------------------------------------- */

static size_t label_width(const json_t *record)
{
	struct buf label = BUF_INIT;
	const char *key;
	json_t *v;
	size_t n = 0;

	json_object_foreach((json_t *)record, key, v) {
		buf_reset(&label);
		human_heading(&label, key);
		if (layout_shown(key) && table_width(buf_text(&label)) > n)
			n = table_width(buf_text(&label));
	}
	buf_release(&label);
	return n < 24 ? n : 24;
}

/* Writes yes or no of a check in its colour. */
static const char *colour_of(const char *key, const json_t *v)
{
	static const char *const names[] = { "ok", "passed", "qualified", "fits", NULL };

	for (int i = 0; out.form.colour && json_is_boolean(v) && names[i]; i++)
		if (strcmp(key, names[i]) == 0)
			return json_is_true(v) ? GREEN : RED;
	return "";
}

static void card_text(struct buf *text, const char *label, size_t labels,
	struct buf *value)
{
	table_card_line(text, label, labels, buf_text(value), out.width);
	buf_reset(value);
}

/* An object is one line while its values are short, else a line for each field. */
static bool is_short(const json_t *v)
{
	struct buf value = BUF_INIT;
	const char *key;
	json_t *item;
	size_t n = 0;

	json_object_foreach((json_t *)v, key, item) {
		buf_reset(&value);
		human_value(&value, key, item, NULL, out.now_ms);
		if (json_is_object(item) || value.len > n)
			n = json_is_object(item) ? SIZE_MAX : value.len;
	}
	buf_release(&value);
	return n <= 30;
}

/* Writes "model: NVIDIA H200" for each field; first marks the first line, the others are
 * aligned below it. */
static void card_object(struct buf *text, const char *label, size_t labels,
	const json_t *v, const char *mark)
{
	struct buf value = BUF_INIT;
	const char *key;
	json_t *item;
	bool first = true;

	json_object_foreach((json_t *)v, key, item) {
		buf_adds(&value, first || !*mark ? mark : "  ");
		human_heading(&value, key);
		buf_adds(&value, ": ");
		human_value(&value, key, item, NULL, out.now_ms);
		card_text(text, first ? label : "", labels, &value);
		first = false;
	}
	buf_release(&value);
}

static void card_list(struct buf *text, const char *label, size_t labels,
	const json_t *list)
{
	struct buf value = BUF_INIT;
	json_t *item;
	size_t i;

	json_array_foreach((json_t *)list, i, item) {
		if (json_is_object(item) && !is_short(item)) {
			card_object(text, i ? "" : label, labels, item, "- ");
			continue;
		}
		human_value(&value, "", item, NULL, out.now_ms);
		card_text(text, i ? "" : label, labels, &value);
	}
	buf_release(&value);
}

/* What a person should do: numbered, where it is more than one thing. */
static void card_advice(struct buf *text, const json_t *v, size_t labels)
{
	size_t n = json_is_array(v) ? json_array_size(v) : 1;

	for (size_t i = 0; i < n; i++) {
		const json_t *item = json_is_array(v) ? json_array_get(v, i) : v;
		struct buf line = BUF_INIT;

		if (n > 1)
			buf_addf(&line, "%zu. ", i + 1);
		buf_adds(&line, json_string_value(item));
		table_card_advice(text, i ? "" : "next", labels, line.data, out.width);
		buf_release(&line);
	}
}

/* Whether a record's field is advice, and not the name of something. */
static bool is_advice(const char *key, const json_t *v)
{
	return strcmp(key, "next") == 0 &&
		json_is_string(json_is_array(v) ? json_array_get(v, 0) : v);
}

static void card_field(struct buf *text, const char *key, const json_t *v,
	const char *unit, size_t labels)
{
	struct buf label = BUF_INIT, value = BUF_INIT;
	const char *colour = colour_of(key, v);

	human_heading(&label, key);
	if (json_is_array(v) && json_array_size(v) &&
		!json_is_number(json_array_get(v, 0))) {
		card_list(text, buf_text(&label), labels, v);
	} else if (json_is_object(v) && json_object_size(v) && !is_short(v)) {
		card_object(text, buf_text(&label), labels, v, "");
	} else {
		buf_adds(&value, colour);
		human_value(&value, key, v, unit, out.now_ms);
		buf_adds(&value, *colour ? PLAIN : "");
		table_card_line(text, buf_text(&label), labels, buf_text(&value),
			*colour ? 0 : out.width);
	}
	buf_release(&label);
	buf_release(&value);
}

static int print_card(const json_t *record)
{
	const char *unit = json_string_value(json_object_get(record, "unit")), *key;
	struct buf text = BUF_INIT;
	size_t labels = label_width(record);
	json_t *v;

	if (out.printed++)
		buf_addc(&text, '\n');
	human_use_token_of(record);
	json_object_foreach((json_t *)record, key, v)
		if (is_advice(key, v))
			card_advice(&text, v, labels);
		else if (layout_shown(key))
			card_field(&text, key, v, unit, labels);
	return put_buf(&text);
}

/* --- the layout, chosen when the first rows are there -------------------------------------- */

/* Returns the layout of a record's kind, a new one where this is the first. */
static struct layout *layout_of(const json_t *record)
{
	int i = 0;

	while (i < out.nlayouts && !layout_takes(&out.layouts[i], record, out.now_ms))
		i++;
	if (i == KINDS_MAX)
		return &out.layouts[KINDS_MAX - 1];
	if (i == out.nlayouts)
		layout_init(&out.layouts[out.nlayouts++], out.form.columns, record,
			&out.unnamed);
	return &out.layouts[i];
}

static int print_headings(const struct layout *l)
{
	struct buf text = BUF_INIT;

	if (out.printed)
		buf_addc(&text, '\n');
	layout_headings(&text, l, out.form.colour ? BOLD : "",
		out.form.colour ? PLAIN : "");
	return put_buf(&text);
}

/* Prints a record; one of another kind than the one before begins a table. */
static int print_record(const json_t *record)
{
	struct layout *l = layout_of(record);

	if (layout_measure(l, record, out.now_ms) || !l->fitted) {
		layout_fit(l, out.width);
		out.at = NULL;
	}
	if (l->cards) {
		out.at = l;
		return print_card(record);
	}
	if (l != out.at && print_headings(l) < 0)
		return -1;
	out.at = l;
	return print_row(l, record);
}

static int lay_out(void)
{
	int rc = 0;

	if (out.laid_out || !out.nheld)
		return 0;
	out.laid_out = true;
	for (size_t i = 0; i < out.nheld; i++)
		layout_measure(layout_of(out.held[i]), out.held[i], out.now_ms);
	/* if all columns do not fit, a few of them may: as cards */
	for (int i = 0; i < out.nlayouts; i++)
		layout_fit(&out.layouts[i], out.width);
	for (size_t i = 0; i < out.nheld; i++) {
		if (rc == 0)
			rc = print_record(out.held[i]);
		json_decref(out.held[i]);
	}
	out.nheld = 0;
	return rc < 0 ? -1 : out_flush();
}

static void *flush_later(void *arg)
{
	struct timespec until;

	(void)arg;
	clock_after(&until, CLOCK_REALTIME, HELD_MS * INT64_C(1000000));
	pthread_mutex_lock(&lock);
	while (!closing && pthread_cond_timedwait(&done, &lock, &until) == 0)
		;
	errno = 0;
	if (!closing && lay_out() < 0) {
		out.failed = errno ? errno : EIO;
		err_clear();
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

static int show(const json_t *record)
{
	int rc = 0;

	pthread_mutex_lock(&lock);
	out.now_ms = clock_now_ms(); /* times are relative to it */
	if (out.failed) {
		errno = out.failed;
		rc = write_failed();
	} else if (out.form.card) {
		rc = print_card(record);
		rc = rc < 0 ? -1 : out_flush();
	} else if (out.laid_out) {
		rc = print_record(record);
		rc = rc < 0 ? -1 : out_flush();
	} else {
		out.held = xgrow(out.held, &out.cap, out.nheld + 1, sizeof *out.held);
		out.held[out.nheld++] = json_deep_copy(record);
		if (out.terminal && !flushing)
			flushing = pthread_create(&flusher, NULL, flush_later, NULL) == 0;
		if (out.terminal && (out.nheld == HELD_ROWS_MAX || !flushing))
			rc = lay_out();
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

int out_record(const json_t *record)
{
	struct buf line = BUF_INIT;
	int rc;

	if (out.form.people)
		return show(record);
	json_write(&line, record);
	buf_addc(&line, '\n');
	rc = put_buf(&line);
	return rc < 0 ? -1 : out_flush();
}

int out_lines(void *ctx, const char *data, size_t len)
{
	(void)ctx;
	if (!out.form.people)
		return out_text(data, len) < 0 ? -1 : out_flush();
	while (len) {
		const char *end = memchr(data, '\n', len);
		size_t n = end ? (size_t)(end - data) : len;
		json_t *record = json_parse_object(data, n, "output");
		int rc;

		if (!record)
			bug("%s", err_get()->text);
		rc = show(record);
		json_decref(record);
		if (rc < 0)
			return -1;
		data += n + (end != NULL);
		len -= n + (end != NULL);
	}
	return 0;
}

static void release(void)
{
	for (size_t i = 0; i < out.nheld; i++)
		json_decref(out.held[i]);
	free(out.held);
	for (int i = 0; i < out.nlayouts; i++)
		layout_release(&out.layouts[i]);
	memset(&out, 0, sizeof out);
}

int out_close(void)
{
	int rc;

	pthread_mutex_lock(&lock);
	rc = lay_out();
	if (rc == 0 && out.failed) {
		errno = out.failed;
		rc = write_failed();
	}
	closing = true;
	pthread_cond_signal(&done);
	pthread_mutex_unlock(&lock);
	if (flushing)
		pthread_join(flusher, NULL);
	flushing = closing = false;
	release();
	/* a full disk may show only now; closing twice would hide it */
	if (fflush(stdout) || ferror(stdout) ||
		(close(STDOUT_FILENO) < 0 && errno != EBADF))
		rc = rc < 0 ? rc : write_failed();
	return rc;
}

/* --- an end that waits for nobody ------------------------------------------------------------ */

#define BLOCKED_MS      5000
#define BLOCKED_TICK_MS 100

static bool takes_nothing(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	return poll(&p, 1, 0) == 0;
}

static void *end_where_blocked(void *stops)
{
	const struct timespec pause = { 0, BLOCKED_TICK_MS * 1000000L };
	int blocked_ms = 0;

	while (!(*(bool (**)(void))stops)())
		;
	while (blocked_ms < BLOCKED_MS) {
		nanosleep(&pause, NULL);
		blocked_ms = takes_nothing(STDOUT_FILENO) ||
				takes_nothing(STDERR_FILENO) ?
			blocked_ms + BLOCKED_TICK_MS :
			0;
	}
	if (!takes_nothing(STDERR_FILENO)) {
		err_set(EX_IOERR,
			"nobody reads standard output: ended without writing the rest");
		err_report();
	}
	_exit(EX_IOERR);
}

int out_end_where_blocked(bool (*stops)(void))
{
	static bool (*asked)(void);
	pthread_t thread;

	asked = stops;
	if (pthread_create(&thread, NULL, end_where_blocked, &asked) != 0)
		return err_sys(EX_OSERR, "cannot start a thread");
	pthread_detach(thread);
	return 0;
}
