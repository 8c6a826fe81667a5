/* coordinate_page.c - a run in a browser: what the signed records say, as figures, curves and
 * tables, in one page without scripts. */
#include "cmd/rnp-train/coordinate_page.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-train/coordinate_db.h"
#include "cmd/rnp-train/coordinate_parent.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/cli/html.h"
#include "common/cli/human.h"
#include "common/json/json.h"
#include "common/plot/plot.h"

#define ROUNDS_DRAWN   500
#define MEMBERS_SHOWN  100
#define RECEIPTS_SHOWN 20
#define SHORT_ADDRESS  8

/* The last rounds, oldest first; x: their numbers. */
struct rounds {
	json_t *records[ROUNDS_DRAWN];
	size_t n;
	double x[ROUNDS_DRAWN];
};

static int read_rounds(struct coordinator *g, struct rounds *all)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&g->db, &q,
		"SELECT record FROM (SELECT round, record FROM rounds WHERE record IS NOT NULL"
		" ORDER BY round DESC LIMIT ?) ORDER BY round");

	all->n = 0;
	if (rc == 0) {
		store_bind(q, "i", (int64_t)ROUNDS_DRAWN);
		while ((rc = store_step(&g->db, q)) == 1) {
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
static void take_line(const struct rounds *all, const char *name, double unit, double *x,
	double *y, struct plot_line *line)
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

static void draw(struct plot *plot, const struct rounds *all, const char *title,
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
static void draw_all(struct buf *out, const struct rounds *all, const char *screen,
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

static void write_rounds(struct buf *out, const struct rounds *all)
{
	size_t from = all->n > 20 ? all->n - 20 : 0;

	buf_adds(out, "<h2>Rounds</h2>\n");
	html_table(out,
		"Round|Workers|Dropped|Loss|Validation|Tokens|Received|Sent|Seconds|"
		"Model");
	for (size_t i = all->n; i-- > from;) {
		const json_t *r = all->records[i];

		buf_adds(out, "<tr>");
		number_cell(out, "Round", field(r, "round"));
		number_cell(out, "Workers", field(r, "workers"));
		number_cell(out, "Dropped", field(r, "dropped"));
		loss_cell(out, "Loss", r, "loss_micronats");
		loss_cell(out, "Validation", r, "validation_loss_micronats");
		number_cell(out, "Tokens", field(r, "tokens"));
		number_cell(out, "Received", field(r, "bytes_received"));
		number_cell(out, "Sent", field(r, "bytes_sent"));
		number_cell(out, "Seconds", field(r, "seconds"));
		address_cell(out, "Model",
			json_string_value(json_object_get(r, "model")));
		buf_adds(out, "</tr>\n");
	}
	html_table_end(out);
}

/* A member's present activity, in a word. */
static const char *doing(const struct coordinator *g, int64_t number)
{
	const struct round_member *m;

	if (number < 0 || (size_t)number >= g->r.nmembers || !g->r.members[number].here)
		return "left";
	m = &g->r.members[number];
	return m->works ? (m->work.turn == g->r.number ? "works" : "works, late") :
			  "waits";
}

static int write_members(struct coordinator *g, struct buf *out)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&g->db, &q,
		"SELECT m.node, m.number, m.score_ppm,"
		" (SELECT count(*) FROM turns t WHERE t.node = m.node AND t.state = 'counted'),"
		" (SELECT count(*) FROM turns t WHERE t.node = m.node AND t.state IN"
		"  ('refused', 'absent')),"
		" (SELECT coalesce(sum(tokens), 0) FROM turns t WHERE t.node = m.node"
		"  AND t.state = 'counted')"
		" FROM members m ORDER BY m.number < 0, m.node LIMIT ?");

	buf_adds(out, "<h2>Members</h2>\n");
	html_table(out, "Member|Now|Counted|Not counted|Tokens|Score");
	if (rc == 0)
		store_bind(q, "i", (int64_t)MEMBERS_SHOWN);
	while (rc >= 0 && (rc = store_step(&g->db, q)) == 1) {
		char score[32];

		snprintf(score, sizeof score, "%.2f",
			(double)sqlite3_column_int64(q, 2) / 1e6);
		buf_adds(out, "<tr>");
		address_cell(out, "Member", store_text(q, 0));
		html_cell(out, "Now", doing(g, sqlite3_column_int64(q, 1)));
		number_cell(out, "Counted", sqlite3_column_int64(q, 3));
		number_cell(out, "Not counted", sqlite3_column_int64(q, 4));
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
	int rc = store_prepare(&g->db, &q,
		"SELECT record FROM receipts ORDER BY id DESC LIMIT ?");

	buf_adds(out, "<h2>Receipts</h2>\n");
	html_table(out, "Member|To|Tokens|GPU seconds|USD");
	if (rc == 0)
		store_bind(q, "i", (int64_t)RECEIPTS_SHOWN);
	while (rc >= 0 && (rc = store_step(&g->db, q)) == 1) {
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
	buf_addf(out, "%" PRIu64 " bytes up and %" PRIu64 " down.</p>\n", f.sent,
		f.received);
}

static void write_summary(struct coordinator *g, struct buf *out)
{
	buf_addf(out,
		"<p>Run <code title=\"%s\">%.16s</code>: %" PRIu64
		" parameters, %s, %s up and %s down. ",
		g->run.name, g->run.name, g->run.parameters, update_names[g->run.outer],
		g->run.method, g->run.method_down);
	if (g->over)
		buf_adds(out, "It is over. ");
	else
		buf_addf(out, "Round %" PRIu64 "%s: %zu work, %zu wait, %zu delivered. ",
			g->round,
			g->r.phase == ROUND_GATHERING    ? " gathers" :
				g->r.phase == ROUND_OPEN ? " is open" :
							   " closes",
			g->r.working, g->r.asking, g->r.ndeltas);
	buf_addf(out, "%" PRIu64 " tokens counted.</p>\n", g->tokens);
	if (g->parent)
		write_parent(g, out);
	buf_addf(out,
		"<p>To take part: <code>rnp-train join URL</code>. Signed records: "
		"<a href=\"/v1/run\">run</a>, <a href=\"/v1/rounds\">rounds</a>; "
		"<a href=\"/openapi.json\">the API</a>.</p>\n");
}

enum httpd_when coordinate_get_page(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct coordinator *g = ctx;
	struct rounds *all = xcalloc(1, sizeof *all);
	int rc;

	(void)q;
	html_begin(&r->body, "Training");
	pthread_mutex_lock(&g->lock);
	rc = read_rounds(g, all);
	write_summary(g, &r->body);
	draw_all(&r->body, all, "wide", 0);
	draw_all(&r->body, all, "narrow", 360); /* scaled down, nobody could read it */
	write_rounds(&r->body, all);
	if (rc >= 0)
		rc = write_members(g, &r->body);
	if (rc >= 0)
		rc = write_receipts(g, &r->body);
	pthread_mutex_unlock(&g->lock);
	html_end(&r->body);
	for (size_t i = 0; i < all->n; i++)
		json_decref(all->records[i]);
	free(all);
	r->content_type = "text/html; charset=utf-8";
	httpd_add_header(r, "Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; img-src data:");
	return rc < 0 ? httpd_error(r, 503, "%s", err_get()->text) : HTTPD_NOW;
}

enum httpd_when coordinate_get_status(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	static const char *const phases[] = { "gathering", "open", "closed" };
	struct coordinator *g = ctx;

	(void)q;
	pthread_mutex_lock(&g->lock);
	buf_addf(&r->body,
		"{\"run\":\"%s\",\"round\":%" PRIu64 ",\"phase\":\"%s\",\"base\":\"%s\","
		"\"members\":%zu,\"working\":%zu,\"waiting\":%zu,\"delivered\":%zu,"
		"\"tokens\":%" PRIu64 ",\"over\":%s}\n",
		g->run.name, g->round, phases[g->r.phase], g->base, g->r.here,
		g->r.working, g->r.asking, g->r.ndeltas, g->tokens,
		g->over ? "true" : "false");
	pthread_mutex_unlock(&g->lock);
	return HTTPD_NOW;
}
