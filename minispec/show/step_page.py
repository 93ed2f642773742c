"""What surrounds the steps: their style sheet, the script that goes from one to the next, and a whole page.

Rules name `.minispec-stepper` twice, to be stronger than those of the page around it.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

ROOT = ".minispec-stepper.minispec-stepper"
RULES = """
& {max-width:60rem;margin:0.8em 0;padding:0.9em 1.1em 1em;border:1px solid #c8c8c8;border-radius:10px;
  font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;box-sizing:border-box}
&:focus {outline:none} &:focus-visible {outline:3px solid #0072B2;outline-offset:2px}
& p {margin:0 0 0.6em;color:inherit} & i {font-style:normal} & b {font-weight:inherit}
& .ms-name {font-size:0.95em;color:#595959}
& .ms-controls {display:flex;flex-wrap:wrap;align-items:center;gap:0.4em;margin:0 0 0.8em}
& button {font:inherit;min-width:2.6em;padding:0.3em 0.8em;border:1px solid #767676;border-radius:6px;
  background:#f5f5f5;color:#1b1b1b;cursor:pointer}
& button:hover:not(:disabled) {background:#e6eff6} & button:disabled {color:#767676;cursor:default}
& button.ms-next {background:#0072B2;border-color:#0072B2;color:#ffffff;font-weight:600}
& button.ms-next:hover:not(:disabled) {background:#005a8d}
& button.ms-next:disabled {background:#dddddd;border-color:#bbbbbb;color:#595959}
& button:focus-visible, & input:focus-visible, & .ms-scroll:focus-visible {outline:3px solid #0072B2;
  outline-offset:2px}
& input[type=range] {flex:1 1 10em;min-width:6em;margin:0 0.3em;accent-color:#0072B2}
& .ms-at {min-width:5.5em;text-align:right;font-variant-numeric:tabular-nums;color:#595959}
& .ms-status {position:absolute;width:1px;height:1px;margin:-1px;overflow:hidden;clip-path:inset(50%);
  white-space:nowrap}
& details {margin:0 0 1.2em;border-top:1px solid #dddddd;padding:0.7em 0 0;background:none}
& summary {margin:0 0 0.5em;padding:0;cursor:default;background:none}
& .ms-where {color:#595959;font-size:0.9em;font-variant-numeric:tabular-nums}
& .ms-title {display:block;font-size:1.35em;line-height:1.3;font-weight:650}
& .ms-rail {font-size:0.88em;color:#595959}
& .ms-rail b {padding:0.1em 0.6em;border-radius:4px;font-weight:600}
& .ms-say {max-width:46em;min-height:3em}
& .ms-text {padding:0.6em 0.8em;border-left:4px solid #c8c8c8;background:#fafafa;line-height:2;
  white-space:pre-wrap;overflow-wrap:anywhere;font-size:1.05em}
& .ms-run {border-radius:3px 3px 0 0;padding:0.1em 0.15em 0}
& .ms-sign {font-size:0.8em;margin:0 0.15em 0 0.1em}
& .ms-pending {font-weight:700;margin-left:0.15em}
& .ms-scroll {overflow-x:auto;margin:0 0 0.9em}
& table {border-collapse:collapse;margin:0;font-size:0.88em;color:inherit;border:0;display:table;
  table-layout:auto;width:auto}
& td, & th {border:0;background:none;color:inherit;text-align:center;font-weight:400;padding:0.2em 0.25em;
  white-space:nowrap;max-width:none;vertical-align:middle}
& thead, & tr, & tbody tr:nth-child(odd), & tbody tr:nth-child(even), & tbody tr:hover {border:0;
  background:#ffffff}
& .ms-round {min-width:100%}
& .ms-round td, & .ms-round th {height:1.9em;min-width:3.1em}
& .ms-round tbody td {border:1px solid #e3e3e3} & .ms-round thead th {color:#595959;font-size:0.9em}
& .ms-round th[scope=row] {text-align:right;line-height:1.2;white-space:normal;
  padding-right:0.6em;color:#404040}
& .ms-round td b[data-state] {display:inline-block;padding:0 0.35em;border-radius:3px 3px 0 0}
& .ms-round .ms-here {background:#fff6cc} & .ms-round td.ms-here {border-color:#d9c766}
& .ms-round thead th.ms-here {font-weight:700;color:#1b1b1b}
& .ms-verdict {font-weight:700;font-size:1.1em}
& .ms-chart {display:flex;flex-wrap:wrap;gap:0.6em 2.2em;align-items:flex-start}
& .ms-bars {flex:1 1 22em} & .ms-bars caption {caption-side:top;text-align:left;color:#404040;
  padding:0 0 0.3em;font-size:1em;white-space:normal}
& .ms-bars th[scope=row] {text-align:right;padding-right:0.7em} & .ms-bars td {width:100%;text-align:left}
& .ms-bar {display:flex;align-items:center;gap:0.5em;line-height:1.25}
& .ms-bar > i {min-width:var(--name);text-align:right;color:#404040}
& .ms-bar > span:last-child {min-width:3.6em}
& .ms-track {flex:1 1 auto;min-width:4em;background:#f0f0f0;line-height:0}
& .ms-draw {flex:1 1 16em;max-width:26em;font-size:0.88em} & .ms-draw p {margin:0 0 0.2em}
& .ms-line {position:relative;height:1.1em;margin-top:1.1em;background:#ececec;border:1px solid #767676}
& .ms-zone {position:absolute;top:0;bottom:0;opacity:0.75}
& .ms-needle {position:absolute;top:-1.15em;transform:translateX(-50%);line-height:1;font-size:1em}
& .ms-ends {display:flex;justify-content:space-between;color:#595959}
& .ms-legend {margin:0.9em 0 0;font-size:0.85em;line-height:2.1}
& .ms-legend span {display:inline-block;padding:0 0.4em;margin-right:0.4em;line-height:1.6;white-space:nowrap}
&.ms-live details {margin:0} &.ms-live summary {list-style:none;pointer-events:none}
&.ms-live summary::-webkit-details-marker {display:none}
&.ms-live details[hidden] {display:none}
@media (max-width:620px) {& {padding:0.7em 0.6em;font-size:14px} & .ms-round {font-size:0.8em}
  & .ms-round td, & .ms-round th {padding:0.1em;min-width:2em} & .ms-round td b[data-state] {padding:0 0.15em}
  & .ms-round th[scope=row] {max-width:5.5em;padding-right:0.3em}}
"""
STYLE = RULES.replace("&", ROOT).replace("\n  ", " ").strip()

SCRIPT = """
(function () {
  function make(tag, name, text, label) {
    var e = document.createElement(tag);
    if (name) e.className = name;
    if (text) e.textContent = text;
    if (label) e.setAttribute('aria-label', label);
    if (tag === 'button') e.type = 'button';
    return e;
  }
  function quiet(e) { e.setAttribute('data-lm-suppress-shortcuts', 'true'); }
  function start(root) {
    root.setAttribute('data-ready', '');
    root.classList.add('ms-live');
    var steps = Array.prototype.slice.call(root.querySelectorAll('.ms-step'));
    var last = steps.length - 1, at = 0;
    var bar = make('div', 'ms-controls'), status = make('p', 'ms-status');
    bar.setAttribute('role', 'toolbar');
    bar.setAttribute('aria-label', 'Go through the steps');
    var first = make('button', 'ms-first', 'Start', 'Start: first step');
    var back = make('button', 'ms-back', '\\u2039 Back', 'Back: previous step');
    var next = make('button', 'ms-next', 'Next \\u203a', 'Next step');
    var round = make('button', 'ms-round-next', 'Next round', 'First step of the next round');
    var slider = make('input', 'ms-slider', '', 'Step');
    slider.type = 'range'; slider.min = 1; slider.max = steps.length; slider.step = 1;
    var where = make('span', 'ms-at');
    status.setAttribute('aria-live', 'polite');
    [first, back, next, slider, where, round].forEach(function (e) { bar.appendChild(e); });
    root.insertBefore(bar, steps[0]);
    root.insertBefore(status, steps[0]);
    function title(i) { return steps[i].querySelector('.ms-title').textContent; }
    function show(i, unsaid) {
      var held = document.activeElement;
      at = Math.max(0, Math.min(last, i));
      steps.forEach(function (s, j) { s.hidden = j !== at; s.open = true; });
      slider.value = at + 1;
      slider.setAttribute('aria-valuetext', 'step ' + (at + 1) + ' of ' + steps.length + ': ' + title(at));
      where.textContent = (at + 1) + ' / ' + steps.length;
      first.disabled = back.disabled = at === 0;
      next.disabled = round.disabled = at === last;
      if (root.contains(held) && held.disabled) slider.focus();  // else keys would go nowhere
      if (!unsaid) {
        status.textContent = 'Step ' + (at + 1) + ' of ' + steps.length + '. ' + title(at) + '. ' +
          steps[at].querySelector('.ms-say').textContent;
      }
    }
    function jump(way) {
      var here = steps[at].getAttribute('data-round'), i = at;
      while (i + way >= 0 && i + way <= last && steps[i].getAttribute('data-round') === here) i += way;
      if (way < 0) {
        here = steps[i].getAttribute('data-round');
        while (i > 0 && steps[i - 1].getAttribute('data-round') === here) i -= 1;
      }
      show(i);
    }
    first.addEventListener('click', function () { show(0); });
    back.addEventListener('click', function () { show(at - 1); });
    next.addEventListener('click', function () { show(at + 1); });
    round.addEventListener('click', function () { jump(1); });
    slider.addEventListener('input', function () { show(Number(slider.value) - 1); });
    // JupyterLab's one-letter commands must not act on a cell while somebody steps through its output.
    root.querySelectorAll('button, input, .ms-scroll').forEach(quiet);
    quiet(root);
    root.querySelectorAll('summary').forEach(function (s) { s.tabIndex = -1; });
    root.addEventListener('keydown', function (event) {
      if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
      if (event.target.classList.contains('ms-scroll') &&
          event.target.scrollWidth > event.target.clientWidth && event.key.indexOf('Arrow') === 0) {
        event.stopPropagation();
        return;
      }
      var to = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: last}[event.key];
      if (to !== undefined) show(to);
      else if (event.key === 'PageDown') jump(1);
      else if (event.key === 'PageUp') jump(-1);
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    show(0, true);
  }
  document.querySelectorAll('.minispec-stepper:not([data-ready])').forEach(start);
})();
"""


def page(title: str, pieces: Sequence[str]) -> str:
    """Returns a whole HTML document.

    Args:
        title: of the document.
        pieces: HTML to stand in it, such as `Stepper.html()`.
    """
    name = html.escape(title)
    how = (
        "Go on with the button, the slider, or the arrow keys; Home and End lead to the first and the last "
        "step, Page Up and Page Down from round to round."
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{name}</title>\n</head>\n"
        '<body style="margin:0 auto;max-width:62rem;padding:1rem;background:#ffffff;color:#1b1b1b;'
        'font-family:system-ui,sans-serif">\n'
        f'<main>\n<h1 style="font-size:1.4rem">{name}</h1>\n'
        f'<p style="max-width:46em">{how}</p>\n'
        f"{''.join(pieces)}\n</main>\n</body>\n</html>\n"
    )
