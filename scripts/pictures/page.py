"""page.py FILE: draws the top of a run's page as SVG: its heading, its first lines and its plot of the loss."""
import html, re, sys, textwrap

page = open(sys.argv[1], encoding="utf-8").read()
body = re.sub(r"<style.*?</style>", "", page, flags=re.S)
plot = re.search(r"<svg.*?</svg>", body, flags=re.S).group(0)
size = re.search(r'viewBox="0 0 ([0-9.]+) ([0-9.]+)"', plot) or re.search(r'width="([0-9.]+)" height="([0-9.]+)"', plot)
wide, high = (float(x) for x in size.groups())
high = min(high, 446)  # of several plots below one another the first
heading = html.unescape(re.sub("<[^>]*>", "", re.search(r"<h1.*?</h1>", body, flags=re.S).group(0)))
first = html.unescape(re.sub("<[^>]*>", "", re.search(r"<p.*?</p>", body, flags=re.S).group(0)))
lines = textwrap.wrap(" ".join(first.split()), int(wide / 7.8))
top = 50 + 20 * len(lines)

# the page's own style, of which the plot needs no more
plot = re.sub(r"<svg[^>]*>", f'<svg y="{top}" overflow="hidden" width="{wide:.0f}" height="{high:.0f}" viewBox="0 0 {wide:.0f} {high:.0f}">', plot, count=1)
print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{top + high:.0f}" '
      'font-family="system-ui,sans-serif" font-size="14" color="#222">')
print(f'<title>{html.escape(heading)}</title>')
print('<rect width="100%" height="100%" rx="6" fill="#fff"/><g fill="#222">')
print(f'<text x="14" y="32" font-size="20" font-weight="600">{html.escape(heading)}</text>')
for i, text in enumerate(lines):
    print(f'<text x="14" y="{58 + 20 * i}">{html.escape(text)}</text>')
print("</g>" + plot + "</svg>")
