/* page.c - a run in a browser: what the signed records say, as figures, curves and
 * tables, in one page without scripts. */
#include "cmd/rnp-train/coordinator/page.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-train/coordinator/db.h"
#include "cmd/rnp-train/coordinator/files.h"
#include "cmd/rnp-train/coordinator/parent.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/cli/html.h"
#include "common/cli/human.h"
#include "common/json/json.h"
#include "common/plot/plot.h"

#define ROUNDS_DRAWN   500
#define ROUNDS_SHOWN   10
#define MEMBERS_SHOWN  100
#define RECEIPTS_SHOWN 20
#define SHORT_ADDRESS  8
#define REFRESH_S      "10"

/* The last rounds, oldest first; x: their numbers. */
struct round_list {
	json_t *records[ROUNDS_DRAWN];
	size_t n;
	double x[ROUNDS_DRAWN];
};

static int read_rounds(struct coordinator *g, struct round_list *all)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&g->rounds.db, &q,
		"SELECT record FROM (SELECT round, record FROM rounds WHERE record IS NOT NULL"
		" ORDER BY round DESC LIMIT ?) ORDER BY round");

	all->n = 0;
	if (rc == 0) {
		store_bind(q, "i", (int64_t)ROUNDS_DRAWN);
		while ((rc = store_step(&g->rounds.db, q)) == 1) {
			const char *text = store_text(q, 0);
			json_t *r = json_parse_object(text, strlen(text), "round");

			if (!r)
				continue;
			all->x[all->n] = (double)json_integer_value(
				json_object_get(r, "round"));
			all->records[all->n++] = r;
		}
	}
	sqlite3_finalize(q);
	return rc;
}

static int64_t field(const json_t *r, const char *name)
{
	return (int64_t)json_integer_value(json_object_get(r, name));
}

/* --- curves ----------------------------------------------------------------------------------- */

/* A line of a field over the rounds, divided by unit; rounds without it are left out. */
static void take_line(const struct round_list *all, const char *name, double unit,
	double *x, double *y, struct plot_line *line)
{
	line->n = 0;
	for (size_t i = 0; i < all->n; i++)
		if (json_object_get(all->records[i], name)) {
			x[line->n] = all->x[i];
			y[line->n++] = (double)field(all->records[i], name) / unit;
		}
	line->x = x;
	line->y = y;
}

static void draw(struct plot *plot, const struct round_list *all, const char *title,
	const char *label, const char *unit_name, double unit,
	const char *const fields[2], const char *const names[2])
{
	double *numbers = xcalloc(4 * ROUNDS_DRAWN, sizeof *numbers);
	struct plot_line lines[2] = { { .name = names[0] }, { .name = names[1] } };
	struct plot_chart chart = { .title = title,
		.x = { .label = "round" },
		.y = { .label = label, .unit = unit_name },
		.lines = lines };

	for (int i = 0; i < 2 && fields[i]; i++) {
		take_line(all, fields[i], unit, numbers + (2 * i) * ROUNDS_DRAWN,
			numbers + (2 * i + 1) * ROUNDS_DRAWN, &lines[chart.n]);
		chart.n += lines[chart.n].n != 0;
	}
	plot_add_chart(plot, &chart);
	free(numbers);
}

/* A picture, which browsers show on screens of one kind. */
static void draw_all(struct buf *out, const struct round_list *all, const char *screen,
	double width)
{
	static const char *const loss[2] = { "loss_micronats",
		"validation_loss_micronats" };
	static const char *const loss_names[2] = { "training", "validation" };
	static const char *const bytes[2] = { "bytes_received", "bytes_sent" };
	static const char *const bytes_names[2] = { "received", "sent" };
	static const char *const workers[2] = { "workers", "dropped" };
	struct plot plot = PLOT_INIT;

	plot.width = width;
	draw(&plot, all, "Loss", "nats per token", NULL, 1e6, loss, loss_names);
	draw(&plot, all, "Workers", "deltas", NULL, 1, workers, workers);
	draw(&plot, all, "Bytes at the sockets", NULL, "B", 1, bytes, bytes_names);
	buf_addf(out, "<figure class=\"%s\">", screen);
	plot_write(out, &plot, NULL, NULL);
	buf_adds(out, "</figure>\n");
	plot_release(&plot);
}

/* --- tables ----------------------------------------------------------------------------------- */

static void number_cell(struct buf *out, const char *heading, int64_t v)
{
	char text[32];

	snprintf(text, sizeof text, "%" PRId64, v);
	html_cell(out, heading, text);
}

static void loss_cell(struct buf *out, const char *heading, const json_t *r,
	const char *name)
{
	char text[32] = "";

	if (json_object_get(r, name))
		snprintf(text, sizeof text, "%.4f", (double)field(r, name) / 1e6);
	html_cell(out, heading, text);
}

static void address_cell(struct buf *out, const char *heading, const char *address)
{
	html_open_cell(out, heading);
	buf_adds(out, "<code title=\"");
	html_text(out, address);
	buf_addf(out, "\">%.*s\xe2\x80\xa6</code></td>", SHORT_ADDRESS, address);
}

static void bytes_of(struct buf *out, const json_t *r, const char *name)
{
	buf_addf(out, "<span title=\"%" PRId64 " bytes\">", field(r, name));
	human_bytes(out, (double)field(r, name));
	buf_adds(out, "</span>");
}

/* Few cells: on a phone each is a line. */
static void write_round_row(struct buf *out, const json_t *r)
{
	struct buf text = BUF_INIT;
	const char *model = json_string_value(json_object_get(r, "model"));

	buf_adds(out, "<tr>");
	html_open_cell(out, "Round");
	buf_addf(out, "<span title=\"model %s\">%" PRId64 "</span></td>",
		model ? model : "", field(r, "round"));
	buf_addf(&text, "%" PRId64, field(r, "workers"));
	if (field(r, "dropped"))
		buf_addf(&text, ", %" PRId64 " not counted", field(r, "dropped"));
	html_cell(out, "Workers", buf_text(&text));
	loss_cell(out, "Loss", r, "loss_micronats");
	loss_cell(out, "Held-out loss", r, "validation_loss_micronats");
	number_cell(out, "Tokens", field(r, "tokens"));
	html_open_cell(out, "Bytes");
	bytes_of(out, r, "bytes_received");
	buf_adds(out, " in, ");
	bytes_of(out, r, "bytes_sent");
	buf_adds(out, " out</td>");
	buf_reset(&text);
	human_duration(&text, (double)field(r, "seconds"));
	html_cell(out, "Time", buf_text(&text));
	buf_adds(out, "</tr>\n");
	buf_release(&text);
}

static void write_rounds(struct buf *out, const struct round_list *all)
{
	size_t from = all->n > ROUNDS_SHOWN ? all->n - ROUNDS_SHOWN : 0;

	buf_adds(out, "<h2>Rounds</h2>\n");
	html_table(out, "Round|Workers|Loss|Held-out loss|Tokens|Bytes|Time");
	for (size_t i = all->n; i-- > from;)
		write_round_row(out, all->records[i]);
	html_table_end(out);
	if (from)
		buf_addf(out, "<p>The last %d of %" PRId64 ".</p>\n", ROUNDS_SHOWN,
			field(all->records[all->n - 1], "round"));
}

/* A member's present activity, in a word. */
static const char *doing(const struct coordinator *g, int64_t number)
{
	const struct round_member *m;

	if (number < 0 || (size_t)number >= g->rounds.r.nmembers ||
		!g->rounds.r.members[number].here)
		return "left";
	m = &g->rounds.r.members[number];
	return m->works ?
		(m->work.turn == g->rounds.r.number ? "at work" : "at work, late") :
		"waits for work";
}

static int write_members(struct coordinator *g, struct buf *out)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&g->rounds.db, &q,
		"SELECT m.node, m.number, m.score_ppm,"
		" (SELECT count(*) FROM turns t WHERE t.node = m.node AND t.state = 'counted'),"
		" (SELECT count(*) FROM turns t WHERE t.node = m.node AND t.state IN"
		"  ('refused', 'absent')),"
		" (SELECT coalesce(sum(tokens), 0) FROM turns t WHERE t.node = m.node"
		"  AND t.state = 'counted')"
		" FROM members m ORDER BY m.number < 0, m.node LIMIT ?");

	buf_adds(out, "<h2>Members</h2>\n");
	html_table(out, "Member|Now|Turns|Tokens|Score");
	if (rc == 0)
		store_bind(q, "i", (int64_t)MEMBERS_SHOWN);
	while (rc >= 0 && (rc = store_step(&g->rounds.db, q)) == 1) {
		char score[32], turns[64];

		snprintf(score, sizeof score, "%.2f",
			(double)sqlite3_column_int64(q, 2) / 1e6);
		snprintf(turns, sizeof turns, "%" PRId64 " counted, %" PRId64 " not",
			(int64_t)sqlite3_column_int64(q, 3),
			(int64_t)sqlite3_column_int64(q, 4));
		buf_adds(out, "<tr>");
		address_cell(out, "Member", store_text(q, 0));
		html_cell(out, "Now", doing(g, sqlite3_column_int64(q, 1)));
		html_cell(out, "Turns", turns);
		number_cell(out, "Tokens", sqlite3_column_int64(q, 5));
		html_cell(out, "Score", score);
		buf_adds(out, "</tr>\n");
	}
	html_table_end(out);
	sqlite3_finalize(q);
	return rc;
}

static int write_receipts(struct coordinator *g, struct buf *out)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&g->rounds.db, &q,
		"SELECT record FROM receipts ORDER BY id DESC LIMIT ?");

	buf_adds(out, "<h2>Receipts</h2>\n");
	html_table(out, "Member|To|Tokens|GPU seconds|USD");
	if (rc == 0)
		store_bind(q, "i", (int64_t)RECEIPTS_SHOWN);
	while (rc >= 0 && (rc = store_step(&g->rounds.db, q)) == 1) {
		const char *text = store_text(q, 0);
		json_t *r = json_parse_object(text, strlen(text), "receipt");
		char usd[40];

		snprintf(usd, sizeof usd, "%.6f", (double)field(r, "earned_uusd") / 1e6);
		buf_adds(out, "<tr>");
		address_cell(out, "Member",
			json_string_value(json_object_get(r, "node")));
		html_cell(out, "To", json_string_value(json_object_get(r, "to")));
		number_cell(out, "Tokens", field(r, "tokens"));
		number_cell(out, "GPU seconds", field(r, "gpu_seconds"));
		html_cell(out, "USD", usd);
		buf_adds(out, "</tr>\n");
		json_decref(r);
	}
	html_table_end(out);
	sqlite3_finalize(q);
	return rc;
}

/* --- the page --------------------------------------------------------------------------------- */

/* A group's coordinator: what it knows of the one above. */
static void write_parent(struct coordinator *g, struct buf *out)
{
	struct parent_facts f;
	int64_t now_ms = clock_now_ms();

	coordinate_parent_facts(g, &f);
	buf_adds(out, "<p>A group of <code>");
	html_text(out, f.url);
	buf_addf(out, "</code>: works on turn %" PRIu64 " of its round %" PRIu64 ". ",
		f.turn, f.round);
	if (f.away_ms)
		buf_addf(out,
			"<strong>It has not answered for %" PRId64
			" s</strong>, and the group trains on. ",
			(now_ms - f.away_ms) / 1000);
	else if (f.answered_ms)
		buf_addf(out, "It answered %" PRId64 " s ago. ",
			(now_ms - f.answered_ms) / 1000);
	human_bytes(out, (double)f.sent);
	buf_adds(out, " went up and ");
	human_bytes(out, (double)f.received);
	buf_adds(out, " came down.</p>\n");
}

static void write_state(struct coordinator *g, struct buf *out)
{
	const struct round *r = &g->rounds.r;
	uint64_t rounds = training_rounds(&g->run);
	struct buf waits = BUF_INIT;

	if (g->rounds.over) {
		buf_addf(out,
			"<strong>The run is over</strong> after %" PRIu64 " rounds. ",
			g->rounds.round - 1);
		return;
	}
	buf_addf(out, "<strong>Round %" PRIu64, g->rounds.round);
	if (rounds)
		buf_addf(out, " of %" PRIu64, rounds);
	buf_adds(out, "</strong>: ");
	coordinate_waits(g, &waits);
	if (waits.len)
		html_text(out, waits.data);
	else if (r->phase == ROUND_CLOSED)
		buf_addf(out, "making one change of %zu", r->ndeltas);
	else
		buf_addf(out, "%zu at work, %zu delivered, %zu ready for more",
			r->working, r->ndeltas, r->asking);
	buf_adds(out, ". ");
	buf_release(&waits);
}

static void write_summary(struct coordinator *g, struct buf *out)
{
	buf_addf(out, "<p>Run <code title=\"%s\">%.16s</code>: ", g->run.name,
		g->run.name);
	human_number(out, (double)g->run.parameters, "");
	buf_addf(out, " parameters. The outer rule is %s; changes are compressed with %s",
		update_names[g->run.outer], g->run.method);
	if (strcmp(g->run.method, g->run.method_down) != 0)
		buf_addf(out, ", and updates with %s", g->run.method_down);
	buf_adds(out, ". ");
	write_state(g, out);
	human_number(out, (double)g->rounds.tokens, "");
	buf_adds(out, " tokens counted.</p>\n");
	if (g->parent)
		write_parent(g, out);
}

/* As the browser reached it. */
static void write_join(struct buf *out, const struct httpd_request *q)
{
	struct buf url = BUF_INIT;

	httpd_own_url(&url, q);
	buf_adds(out, "<p>To take part:</p>\n<pre>rnp-train join ");
	html_text(out, buf_text(&url));
	buf_adds(out,
		"</pre>\n<p>A second worker on one machine needs its own --key and "
		"--state.</p>\n<p>Signed records: <a href=\"v1/run\">the run</a>, "
		"<a href=\"v1/rounds\">its rounds</a>. For programs: "
		"<a href=\"openapi.json\">the API</a>.</p>\n");
	buf_release(&url);
}

/* q: who asks; NULL: it is for a file. Returns 0, or -1 with err_set(). */
static int write_page(struct coordinator *g, struct buf *out,
	const struct httpd_request *q)
{
	struct round_list *all = xcalloc(1, sizeof *all);
	int rc;

	html_begin(out, "Training");
	pthread_mutex_lock(&g->rounds.lock);
	rc = read_rounds(g, all);
	write_summary(g, out);
	if (q && !g->rounds.over)
		write_join(out, q);
	draw_all(out, all, "wide", 0);
	draw_all(out, all, "narrow", 360); /* scaled down, nobody could read it */
	if (rc >= 0)
		rc = write_members(g, out);
	write_rounds(out, all);
	if (rc >= 0)
		rc = write_receipts(g, out);
	pthread_mutex_unlock(&g->rounds.lock);
	html_end(out);
	for (size_t i = 0; i < all->n; i++)
		json_decref(all->records[i]);
	free(all);
	return rc < 0 ? -1 : 0;
}

int coordinate_keep_page(struct coordinator *g)
{
	struct buf page = BUF_INIT;
	char *path = coordinate_path(g, COORDINATE_PAGE);
	int rc = write_page(g, &page, NULL);

	if (rc == 0)
		rc = io_replace(path, page.data, page.len, 0644);
	free(path);
	buf_release(&page);
	return rc;
}

enum httpd_when coordinate_get_page(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct coordinator *g = ctx;
	bool over;

	if (write_page(g, &r->body, q) < 0)
		return httpd_error(r, 503, "%s", err_get()->text);
	pthread_mutex_lock(&g->rounds.lock);
	over = g->rounds.over;
	pthread_mutex_unlock(&g->rounds.lock);
	r->content_type = "text/html; charset=utf-8";
	if (!over)
		httpd_add_header(r, "Refresh", REFRESH_S);
	httpd_add_header(r, "Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; img-src data:");
	return HTTPD_NOW;
}

enum httpd_when coordinate_get_status(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	static const char *const phases[] = { "gathering", "open", "closed" };
	struct coordinator *g = ctx;
	struct buf waits = BUF_INIT;

	(void)q;
	pthread_mutex_lock(&g->rounds.lock);
	coordinate_waits(g, &waits);
	buf_addf(&r->body,
		"{\"run\":\"%s\",\"round\":%" PRIu64 ",\"phase\":\"%s\",\"base\":\"%s\","
		"\"members\":%zu,\"working\":%zu,\"waiting\":%zu,\"delivered\":%zu,"
		"\"quorum\":%" PRIu64 ",\"waits_for\":\"%s\",\"tokens\":%" PRIu64
		",\"over\":%s}\n",
		g->run.name, g->rounds.round, phases[g->rounds.r.phase],
		g->rounds.params_hash, g->rounds.r.here, g->rounds.r.working,
		g->rounds.r.asking, g->rounds.r.ndeltas, g->run.quorum, buf_text(&waits),
		g->rounds.tokens, g->rounds.over ? "true" : "false");
	pthread_mutex_unlock(&g->rounds.lock);
	buf_release(&waits);
	return HTTPD_NOW;
}
