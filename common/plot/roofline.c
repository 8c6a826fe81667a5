/* roofline.c - draws a roofline chart: slopes of memories, peaks, and what each piece of
 * work reaches. */
#include <math.h>
#include <stdlib.h>

#include "common/base/mem.h"
#include "common/plot/plot.h"
#include "common/plot/axis.h"

/* A roof has three points: the left edge, the ridge, the right edge. */
#define ROOF_POINTS 3

struct picture {
	struct plot_line *lines;
	double *xs, *ys; /* points of the roofs */
	size_t n;
	double left, right; /* intensities shown */
};

static bool usable(double v)
{
	return axis_takes(PLOT_LOG, v);
}

static double fastest(const struct plot_roof *roofs, size_t n)
{
	double best = 0;

	for (size_t i = 0; i < n; i++)
		if (usable(roofs[i].rate))
			best = fmax(best, roofs[i].rate);
	return best;
}

static void widen(struct picture *p, double intensity)
{
	if (!usable(intensity))
		return;
	p->left = fmin(p->left, intensity / 4);
	p->right = fmax(p->right, intensity * 4);
}

/* Chooses the range of intensities: all work and all ridges, with a margin. */
static void choose_ends(struct picture *p, const struct plot_roofline *r)
{
	p->left = 0.1;
	p->right = 10;
	for (size_t i = 0; i < r->n; i++)
		widen(p, r->work[i].intensity);
	for (size_t m = 0; m < r->memories; m++)
		for (size_t k = 0; k < r->n_peaks; k++)
			if (usable(r->memory[m].rate) && usable(r->peaks[k].rate))
				widen(p, r->peaks[k].rate / r->memory[m].rate);
}

static void add_line(struct picture *p, const char *name,
	const double at[2 * ROOF_POINTS])
{
	double *x = p->xs + ROOF_POINTS * p->n, *y = p->ys + ROOF_POINTS * p->n;

	for (int i = 0; i < ROOF_POINTS; i++) {
		x[i] = at[2 * i];
		y[i] = at[2 * i + 1];
	}
	p->lines[p->n++] =
		(struct plot_line){ .name = name, .n = ROOF_POINTS, .x = x, .y = y };
}

/* The slope of a memory ends at the highest peak; without peaks it goes on. */
static void add_memory(struct picture *p, const struct plot_roof *memory, double peak)
{
	double ridge = peak > 0 ? peak / memory->rate : p->right;

	if (!usable(memory->rate))
		return;
	add_line(p, memory->name,
		(double[]){ p->left, p->left * memory->rate, sqrt(p->left * ridge),
			sqrt(p->left * ridge) * memory->rate, ridge,
			ridge * memory->rate });
}

/* A peak begins where the fastest memory feeds it. */
static void add_peak(struct picture *p, const struct plot_roof *peak, double memory)
{
	double ridge = memory > 0 ? peak->rate / memory : p->left;

	if (!usable(peak->rate))
		return;
	add_line(p, peak->name,
		(double[]){ ridge, peak->rate, sqrt(ridge * p->right), peak->rate,
			p->right, peak->rate });
}

/* All work is one more series, of points with labels. */
struct work {
	double *x, *y, *low, *high;
	const char **labels;
};

static void work_make(struct work *w, const struct plot_roofline *r)
{
	w->x = xcalloc(4 * r->n + 1, sizeof *w->x);
	w->y = w->x + r->n;
	w->low = w->y + r->n;
	w->high = w->low + r->n;
	w->labels = xcalloc(r->n + 1, sizeof *w->labels);
	for (size_t i = 0; i < r->n; i++) {
		w->x[i] = r->work[i].intensity;
		w->y[i] = r->work[i].rate;
		w->low[i] = r->work[i].low;
		w->high[i] = r->work[i].high;
		w->labels[i] = r->work[i].name;
	}
}

void plot_add_roofline(struct plot *plot, const struct plot_roofline *r)
{
	size_t roofs = r->memories + r->n_peaks;
	double memory = fastest(r->memory, r->memories);
	double peak = fastest(r->peaks, r->n_peaks);
	struct picture p = { 0 };
	struct work w;

	p.lines = xcalloc(roofs + 1, sizeof *p.lines);
	p.xs = xcalloc(ROOF_POINTS * roofs + 1, sizeof *p.xs);
	p.ys = xcalloc(ROOF_POINTS * roofs + 1, sizeof *p.ys);
	work_make(&w, r);
	choose_ends(&p, r);
	for (size_t i = 0; i < r->memories; i++)
		add_memory(&p, &r->memory[i], peak);
	for (size_t i = 0; i < r->n_peaks; i++)
		add_peak(&p, &r->peaks[i], memory);
	p.lines[p.n++] = (struct plot_line){ .style = PLOT_POINTS,
		.n = r->n,
		.x = w.x,
		.y = w.y,
		.low = w.low,
		.high = w.high,
		.labels = w.labels };
	plot_add_chart(plot,
		&(struct plot_chart){ .title = r->title,
			.x = { .label = "operations for each byte moved",
				.scale = PLOT_LOG,
				.min = p.left,
				.max = p.right },
			.y = { .label = "operations a second",
				.unit = "OP/s",
				.scale = PLOT_LOG },
			.lines = p.lines,
			.n = p.n });
	free(p.lines);
	free(p.xs);
	free(p.ys);
	free(w.x);
	free(w.labels);
}
