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
    var back = make('button', 'ms-back', '\u2039 Back', 'Back: previous step');
    var next = make('button', 'ms-next', 'Next \u203a', 'Next step');
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
