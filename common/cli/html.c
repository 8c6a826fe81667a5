/* html.c - writes pages for browsers: escaped text, one style for all, tables that fold on a
 * phone. */
#include "common/cli/html.h"

#include <string.h>

/* A longer name may be broken within a word. */
#define LONG_NAME 20

static const char style[] =
	":root{color-scheme:light dark;--line:#8885;--soft:#888;--good:#0a7d33;--bad:#c22}\n"
	"@media(prefers-color-scheme:dark){:root{--good:#5c6;--bad:#f77}}\n"
	"body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:1.5rem auto;padding:0 1rem;"
	"overflow-wrap:break-word}\n"
	"h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2rem}\n"
	"a{color:LinkText}small,.soft{color:var(--soft)}\n"
	".good{color:var(--good)}.bad{color:var(--bad)}\n"
	"pre{white-space:pre-wrap;padding:.6rem;border:1px solid var(--line);border-radius:.3rem}\n"
	"table{border-collapse:collapse;width:100%}\n"
	"th,td{padding:.3rem .6rem;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}\n"
	"th{font-weight:600}.long,pre{overflow-wrap:anywhere}\n"
	"svg{max-width:100%;height:auto}.plot{overflow-x:auto}.plot svg{max-width:none}figure{margin:1rem 0}.narrow{display:none}\n"
	"@media(max-width:45rem){thead,.wide{display:none}.narrow{display:block}\n"
	"table,tbody,tr,td{display:block}tr{padding:.5rem 0;border-bottom:1px solid var(--line)}\n"
	"td{overflow-wrap:anywhere;border:0;padding:.1rem 0 .1rem 8rem;position:relative;min-height:1.5em}\n"
	"td::before{content:attr(data-l);position:absolute;left:0;width:7.5rem;color:var(--soft)}}\n";

void html_text(struct buf *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '<')
			buf_adds(out, "&lt;");
		else if (*text == '>')
			buf_adds(out, "&gt;");
		else if (*text == '&')
			buf_adds(out, "&amp;");
		else if (*text == '"')
			buf_adds(out, "&quot;");
		else
			buf_addc(out, (unsigned char)*text < ' ' ? ' ' : *text);
	}
}

void html_name(struct buf *out, const char *text)
{
	buf_addf(out, "<bdi%s>", strlen(text) > LONG_NAME ? " class=\"long\"" : "");
	html_text(out, text);
	buf_adds(out, "</bdi>");
}

void html_begin(struct buf *out, const char *title)
{
	buf_adds(out,
		"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
		"<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>");
	html_text(out, title);
	buf_addf(out, "</title>\n<style>\n%s</style></head>\n<body><h1>", style);
	html_text(out, title);
	buf_adds(out, "</h1>\n");
}

void html_end(struct buf *out)
{
	buf_adds(out, "</body></html>\n");
}

void html_table(struct buf *out, const char *headings)
{
	buf_adds(out, "<table><thead><tr>");
	while (*headings) {
		size_t n = strcspn(headings, "|");

		buf_adds(out, "<th>");
		buf_add(out, headings, n);
		buf_adds(out, "</th>");
		headings += n + (headings[n] == '|');
	}
	buf_adds(out, "</tr></thead><tbody>\n");
}

void html_open_cell(struct buf *out, const char *heading)
{
	buf_adds(out, "<td data-l=\"");
	html_text(out, heading);
	buf_adds(out, "\">");
}

void html_cell(struct buf *out, const char *heading, const char *text)
{
	html_open_cell(out, heading);
	html_text(out, text);
	buf_adds(out, "</td>");
}

void html_table_end(struct buf *out)
{
	buf_adds(out, "</tbody></table>\n");
}
