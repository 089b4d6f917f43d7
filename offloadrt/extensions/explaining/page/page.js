// Draws the timeline and the flame graphs of a report from the JSON in #data. A colour is a kind of work, everywhere.

const data = JSON.parse(document.getElementById("data").textContent);
const hint = document.getElementById("hint");
const PAPER = 1000;  // the width of the timeline on paper, in CSS pixels; the page scales it
const ROW = 14, GAP = 8, AXIS = 24, WIDE = 640, TALL = 64, FLAT = 24, COUNTER = 36;
const KINDS = data.kinds.map(([name, colour]) => ({ name, colour, ink: luminance(colour) > 0.36 ? "#000" : "#fff" }));

function luminance(colour) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255);
  return 0.299 * r + 0.587 * g + 0.114 * b;
}

const UNITS = [["s", 1e12], ["ms", 1e9], ["µs", 1e6], ["ns", 1e3]];

function time(ps) {
  for (const [unit, scale] of UNITS) if (Math.abs(ps) >= scale * 0.99995) return `${+(ps / scale).toPrecision(4)} ${unit}`;
  return ps ? `${+(ps / 1e3).toPrecision(3)} ns` : "0 s";
}

function amount(value, unit) {
  if (unit !== "bytes") return `${+value.toPrecision(4)}`;
  for (const [name, scale] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) if (value >= scale) return `${+(value / scale).toPrecision(4)} ${name}`;
  return `${+value.toPrecision(4)} B`;
}

function say(text, event) {
  hint.hidden = !text;
  hint.textContent = text;
  if (!text || !event) return;
  hint.style.left = `${Math.max(0, Math.min(event.clientX + 14, innerWidth - hint.offsetWidth - 8))}px`;
  hint.style.top = `${Math.max(0, Math.min(event.clientY + 14, innerHeight - hint.offsetHeight - 8))}px`;
}

function element(name, properties, ...inner) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...inner);
  return made;
}

// A text that fits into a width, with a mark where it is cut.
function fitted(pen, text, width) {
  const whole = pen.measureText(text).width;
  if (whole <= width) return text;
  const kept = Math.floor(text.length * width / whole) - 1;
  return kept > 1 ? `${text.slice(0, kept)}…` : "";
}

// The innermost slices of a track, one after the other: begin, end, kind and how much of it is filled, in a flat list.
function innermost(track) {
  const out = [], open = [];
  let at = 0;
  const until = (end) => {
    if (open.length && end > at) out.push(at, end, open.at(-1)[1], open.at(-1)[2]);
    at = Math.max(at, end);
  };
  track.begins.forEach((begin, i) => {
    while (open.length && open.at(-1)[0] <= begin) { until(open.at(-1)[0]); open.pop(); }
    until(begin);
    open.push([begin + track.lengths[i], track.kinds[i], track.fills[i] ?? 1]);
  });
  while (open.length) { until(open.at(-1)[0]); open.pop(); }
  return out;
}

class Timeline {
  constructor(box, runs) {
    this.runs = runs;
    this.matches = [];
    this.matching = new Map();
    this.current = -1;
    this.chosen = null;
    this.focus = -1;
    this.only = -1;
    this.read();
    this.align("");
    this.canvas = element("canvas", { tabIndex: 0 });
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", "timeline of host threads, locks and the device, and numbers over time");
    box.append(this.tools(), this.canvas);
    this.details = document.querySelector(".chosen");
    this.legend(document.querySelector(".legend"));
    this.listen();
    this.place();
    new ResizeObserver(() => { if (!this.printing && this.canvas.clientWidth !== this.drawnAt) { this.place(); this.draw(); } }).observe(box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    addEventListener("beforeprint", () => { this.printing = true; this.place(PAPER); this.place(Math.max(PAPER, this.height / 0.58)); this.draw(true); document.querySelectorAll("details.source").forEach((one) => (one.open = true)); });
    addEventListener("afterprint", () => { this.printing = false; this.place(); this.draw(); });
    this.draw();
  }

  // Rows: families of tracks, which fold, and counters.
  read() {
    this.families = [];
    this.tracks = [];
    for (const run of this.runs) {
      const families = new Map();
      for (const source of run.tracks) {
        let at = run.window[0];
        const begins = source.begins.map((step) => (at += step));
        const levels = 1 + source.levels.reduce((most, level) => Math.max(most, level), 0);
        const prefix = source.group === "host" || source.name.startsWith(source.group) ? "" : source.group === "locks" ? "lock: " : `${source.group}: `;
        const track = { ...source, run, begins, levelCount: levels, label: prefix + source.name };
        const key = `${source.group}\n${source.family}`;
        if (!families.has(key)) families.set(key, { run, group: source.group, label: prefix + source.family, tracks: [] });
        track.family = families.get(key);
        track.family.tracks.push(track);
        this.tracks.push(track);
      }
      const many = this.runs.length > 1 ? 2 : 4;
      for (const family of families.values()) {
        family.folded = family.tracks.length > many;
        this.families.push(family);
      }
      for (const source of run.counters) {
        let at = run.window[0];
        const begins = source.begins.map((step) => (at += step));
        if (begins.length) this.families.push({ run, group: "over time", counter: { ...source, begins, top: Math.max(...source.most, 1e-9) }, label: source.name, tracks: [] });
      }
    }
  }

  // Put the begin of a phase of each run at 0; without a name, of one run the time is its own, of several the begin.
  align(phase) {
    for (const run of this.runs) run.origin = phase ? (run.phases[phase] ?? run.window[0]) : this.runs.length > 1 ? run.window[0] : 0;
    this.first = Math.min(...this.runs.map((run) => run.window[0] - run.origin));
    this.last = Math.max(...this.runs.map((run) => run.window[1] - run.origin));
    [this.from, this.to] = [this.first, this.last];
  }

  tools() {
    this.search = element("input", { type: "search", placeholder: "search slices ( / )", ariaLabel: "search the slices of the timeline" });
    this.count = element("span", {});
    const button = (text, label, act) => {
      const made = element("button", { type: "button", textContent: text, ariaLabel: label, title: label });
      made.addEventListener("click", act);
      return made;
    };
    const bar = element("div", { className: "tools" }, this.search,
      button("+", "zoom in", () => this.zoom(0.5, 0.5)), button("−", "zoom out", () => this.zoom(2, 0.5)),
      button("all", "show all of the time", () => this.show(this.first, this.last)),
      button("fold", "fold every group of tracks", () => this.fold(true)), button("unfold", "unfold every group of tracks", () => this.fold(false)));
    const phases = this.runs.length > 1 ? Object.keys(this.runs[0].phases).filter((name) => this.runs.every((run) => name in run.phases)) : [];
    if (phases.length) {
      const select = element("select", { ariaLabel: "align the runs" }, element("option", { value: "", textContent: "aligned at the begin" }),
        ...phases.map((name) => element("option", { value: name, textContent: `aligned at ${name}` })));
      select.addEventListener("change", () => { this.align(select.value); this.draw(); });
      bar.append(select);
    }
    bar.append(this.count);
    return bar;
  }

  legend(box) {
    const used = new Set(this.tracks.flatMap((track) => track.kinds));
    KINDS.forEach((kind, number) => {
      if (!used.has(number)) return;
      const swatch = element("i", {});
      swatch.style.background = kind.colour;
      const button = element("button", { type: "button", title: "mark this kind of work" }, swatch, kind.name);
      button.setAttribute("aria-pressed", "false");
      button.addEventListener("click", () => {
        this.only = this.only === number ? -1 : number;
        for (const other of box.children) other.setAttribute("aria-pressed", String(other === button && this.only === number));
        this.draw();
      });
      box.append(button);
    });
  }

  place(width = this.canvas.clientWidth) {
    this.drawnAt = width;
    this.narrow = width < WIDE;
    this.labels = this.narrow ? 0 : 200;
    const above = this.narrow ? 13 : 0;
    let y = AXIS, group = "", run = null;
    this.rows = [];
    const add = (row, height) => {
      row.y = y + above;
      row.height = height;
      this.rows.push(row);
      y += above + height + 2;
    };
    for (const track of this.tracks) track.y = -1;
    for (const family of this.families) {
      if (family.run !== run && this.runs.length > 1) { y += GAP; add({ title: family.run.name, run: family.run }, ROW); }
      if (family.group !== group || family.run !== run) y += GAP;
      [group, run] = [family.group, family.run];
      if (family.counter) add({ counter: family.counter, label: family.label, run }, COUNTER);
      else if (family.folded) add({ family, label: `▸ ${family.label} (${family.tracks.length})`, run }, family.group === "host" ? TALL : FLAT);
      else {
        if (family.tracks.length > 1) add({ family, open: true, label: `▾ ${family.label} (${family.tracks.length})`, run }, this.narrow ? 0 : 12);
        for (const track of family.tracks) {
          add({ track, label: track.label, run }, track.levelCount * ROW);
          track.y = this.rows.at(-1).y;
        }
      }
    }
    this.height = y + 4;
  }

  fold(folded) {
    for (const family of this.families) if (family.tracks.length > 1) family.folded = folded;
    this.place();
    this.draw();
  }

  listen() {
    const canvas = this.canvas;
    let drag = null;
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 0.8 : 1.25, this.part(event));
    }, { passive: false });
    canvas.addEventListener("dblclick", (event) => this.zoom(0.4, this.part(event)));
    canvas.addEventListener("pointerdown", (event) => { drag = { x: event.clientX, from: this.from, to: this.to, moved: false }; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointerup", (event) => { if (drag && !drag.moved) this.click(event); drag = null; });
    canvas.addEventListener("pointercancel", () => (drag = null));
    canvas.addEventListener("pointermove", (event) => {
      if (!drag) return say(this.under(event), event);
      drag.moved ||= Math.abs(drag.x - event.clientX) > 3;
      const by = ((drag.x - event.clientX) / this.width()) * (drag.to - drag.from);
      this.show(drag.from + by, drag.to + by);
    });
    canvas.addEventListener("pointerleave", () => say(""));
    canvas.addEventListener("keydown", (event) => {
      const step = (this.to - this.from) / 8;
      const left = () => this.show(this.from - step, this.to - step), right = () => this.show(this.from + step, this.to + step);
      const nearer = () => this.zoom(0.5, 0.5), further = () => this.zoom(2, 0.5), all = () => this.show(this.first, this.last);
      const moves = { ArrowLeft: left, a: left, ArrowRight: right, d: right, "+": nearer, "=": nearer, w: nearer, "-": further, s: further, Home: all, 0: all,
        ArrowDown: () => this.choose(1), ArrowUp: () => this.choose(-1), " ": () => this.toggle(this.rows[this.focus]), "/": () => this.search.focus(),
        Enter: () => this.next(), Escape: () => this.find("") };
      if (!moves[event.key] || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      moves[event.key]();
    });
    canvas.addEventListener("blur", () => { this.focus = -1; this.draw(); });
    this.search.addEventListener("input", () => this.find(this.search.value.toLowerCase()));
    this.search.addEventListener("keydown", (event) => { if (event.key === "Enter") this.next(); });
    document.querySelectorAll(".to-slices").forEach((button) => button.addEventListener("click", () => this.mark(button.dataset.place)));
  }

  width() { return Math.max(1, this.drawnAt - this.labels); }
  part(event) { return Math.min(1, Math.max(0, (event.offsetX - this.labels) / this.width())); }
  x(ps, run = this.runs[0]) { return this.labels + ((ps - run.origin - this.from) / (this.to - this.from)) * this.width(); }
  ps(x, run) { return this.from + run.origin + ((x - this.labels) / this.width()) * (this.to - this.from); }
  row(event) { return this.rows.find((row) => event.offsetY >= row.y - (this.narrow ? 13 : 0) && event.offsetY < row.y + row.height); }

  zoom(factor, part) {
    const length = Math.min(this.last - this.first, Math.max(100, (this.to - this.from) * factor));
    const from = this.from + part * (this.to - this.from - length);
    this.show(from, from + length);
  }

  show(from, to) {
    const length = Math.min(to - from, this.last - this.first);
    this.from = Math.max(this.first, Math.min(from, this.last - length));
    this.to = this.from + length;
    this.draw();
  }

  choose(step) {
    const can = this.rows.map((row, at) => at).filter((at) => this.rows[at].family);
    if (!can.length) return;
    const now = can.indexOf(this.focus);
    this.focus = can[now < 0 ? (step > 0 ? 0 : can.length - 1) : Math.max(0, Math.min(can.length - 1, now + step))];
    this.draw();
  }

  toggle(row) {
    if (!row?.family) return;
    row.family.folded = !row.family.folded;
    this.place();
    this.focus = this.rows.findIndex((one) => one.family === row.family);
    this.draw();
  }

  click(event) {
    const row = this.row(event);
    if (row?.family && (event.offsetX < this.labels || row.open || row.family.folded)) return this.toggle(row);
    const found = this.at(event);
    this.chosen = found;
    this.details.replaceChildren();
    if (found) {
      this.details.append(this.described(found).replaceAll("\n", " · ") + " ");
      const place = /at: ([^,]+)/.exec(found[0].run.texts[found[0].notes[found[1]]])?.[1];
      const target = place && [...document.querySelectorAll(".to-slices")].find((button) => button.dataset.place === place);
      if (target) {
        const link = element("button", { type: "button", className: "to-source", textContent: "to its line" });
        link.addEventListener("click", () => { target.scrollIntoView({ block: "center" }); target.focus(); });
        this.details.append(link);
      }
    }
    this.draw();
  }

  find(text) {
    this.matched(text, (words) => words.toLowerCase().includes(text), text ? "slices" : "");
  }

  // Mark the slices of the directives of one line, and of what they caused.
  mark(place) {
    this.search.value = "";
    this.matched(place, (words) => words.split(", ").includes(`at: ${place}`), `slices of ${place}`);
    this.canvas.parentElement.scrollIntoView({ block: "start" });
    this.canvas.focus({ preventScroll: true });
  }

  matched(wanted, is, what) {
    this.matches = [];
    this.current = -1;
    if (wanted) for (const track of this.tracks) {
      const known = track.run.matched ??= new Map();
      track.names.forEach((name, i) => {
        const words = `${track.run.texts[name]}, ${track.run.texts[track.notes[i]]}`;
        if (!known.has(words)) known.set(words, is(words));
        if (known.get(words)) this.matches.push([track, i]);
      });
    }
    for (const run of this.runs) run.matched = null;
    this.matches.sort((a, b) => a[0].begins[a[1]] - a[0].run.origin - b[0].begins[b[1]] + b[0].run.origin);
    this.matching = new Map();
    for (const [track, i] of this.matches) {
      if (!this.matching.has(track)) this.matching.set(track, new Set());
      this.matching.get(track).add(i);
    }
    this.count.textContent = what ? `${this.matches.length} ${what}` : "";
    this.draw();
  }

  next() {
    if (!this.matches.length) return;
    this.current = (this.current + 1) % this.matches.length;
    const [track, i] = this.matches[this.current], length = Math.max(track.lengths[i] * 4, 1000);
    const middle = track.begins[i] - track.run.origin + track.lengths[i] / 2;
    if (track.family.folded) { track.family.folded = false; this.place(); }
    this.chosen = [track, i];
    this.show(middle - length / 2, middle + length / 2);
    const top = this.canvas.getBoundingClientRect().top + track.y;
    if (top < 60 || top > innerHeight - 60) scrollBy(0, top - innerHeight / 3);
    this.count.textContent = `${this.current + 1} of ${this.matches.length} slices: ${this.described([track, i]).replaceAll("\n", ", ")}`;
  }

  at(event) {
    const row = this.row(event);
    if (!row?.track || event.offsetX < this.labels || event.offsetY < row.y) return null;
    const track = row.track, ps = this.ps(event.offsetX, row.run);
    const level = Math.floor((event.offsetY - row.y) / ROW), pixel = (this.to - this.from) / this.width();
    for (let i = 0; i < track.begins.length && track.begins[i] <= ps + pixel; i++)
      if (track.levels[i] === level && track.begins[i] + Math.max(track.lengths[i], pixel) >= ps) return [track, i];
    return null;
  }

  // What is under the pointer, in words.
  under(event) {
    const row = this.row(event);
    if (!row || event.offsetX < this.labels) return row?.family ? `${row.label}: click to ${row.family.folded ? "unfold" : "fold"}` : "";
    const pixel = Math.floor(event.offsetX - this.labels), when = time(this.ps(event.offsetX, row.run));
    if (row.counter && row.drawn) {
      const { means, most } = row.drawn;
      return `${row.label} at ${when}\nmean ${amount(means[pixel] ?? 0, row.counter.unit)}, most ${amount(most[pixel] ?? 0, row.counter.unit)}`;
    }
    if (row.family?.folded && row.drawn) {
      const parts = KINDS.map((kind, k) => [row.drawn[k]?.[pixel] ?? 0, kind.name]).filter(([part]) => part > 0.005).sort((a, b) => b[0] - a[0]);
      return [`${row.family.label} at ${when}: of ${row.family.tracks.length}`, ...parts.map(([part, name]) => `${+part.toFixed(2)} ${name}`)].join("\n");
    }
    return this.described(this.at(event));
  }

  described(found) {
    if (!found) return "";
    const [track, i] = found, texts = track.run.texts;
    const held = track.group === "locks" && !/short slices$/.test(texts[track.names[i]]) ? `held by ${texts[track.names[i]]}` : texts[track.names[i]];
    const name = this.runs.length > 1 ? `${track.run.name}: ${track.label}` : track.label;
    return [name, held, texts[track.notes[i]], `${time(track.lengths[i])} from ${time(track.begins[i])}`].filter(Boolean).join("\n");
  }

  draw(onPaper = false) {
    const ratio = onPaper ? 3 : devicePixelRatio || 1, wide = this.drawnAt;
    this.canvas.style.height = onPaper ? "auto" : `${this.height}px`;
    this.canvas.width = wide * ratio;
    this.canvas.height = this.height * ratio;
    const pen = this.canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
    this.ink = onPaper ? "#000" : style.getPropertyValue("--ink");
    this.faint = onPaper ? "#ddd" : style.getPropertyValue("--faint");
    pen.scale(ratio, ratio);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    this.axis(pen);
    this.rows.forEach((row, number) => {
      pen.fillStyle = this.ink;
      const middle = this.narrow ? row.y - 7 : row.y + (row.counter || row.family?.folded ? row.height : ROW) / 2;
      pen.font = `${row.title || row.family ? "600 " : ""}11px system-ui, sans-serif`;
      pen.fillText(row.title ?? row.label, 4 + (row.track && row.track.family.tracks.length > 1 ? 10 : 0), middle, this.narrow ? wide - 8 : this.labels - 18);
      pen.font = "11px system-ui, sans-serif";
      if (number === this.focus) { pen.strokeStyle = this.ink; pen.strokeRect(1.5, row.y - 0.5, wide - 3, Math.max(row.height, 4)); }
      if (row.counter) this.drawCounter(pen, row);
      else if (row.family?.folded) this.drawFolded(pen, row);
      else if (row.track) this.drawTrack(pen, row, wide);
    });
  }

  alpha(kind, marked) {
    if (this.matches.length) return marked ? 1 : 0.18;
    return this.only >= 0 && kind !== this.only ? 0.15 : 1;
  }

  drawTrack(pen, row, wide) {
    const track = row.track, texts = row.run.texts, right = {}, marks = this.matching.get(track);
    for (let i = 0; i < track.begins.length; i++) {
      const left = Math.max(this.labels, this.x(track.begins[i], row.run)), end = this.x(track.begins[i] + track.lengths[i], row.run);
      if (end < this.labels || left > wide) continue;
      const until = Math.min(wide, end), level = track.levels[i], marked = marks?.has(i);
      if (until - left < 0.4 && right[level] > left && !marked) continue;
      const y = row.y + level * ROW, width = Math.max(0.7, until - left), kind = KINDS[track.kinds[i]];
      right[level] = left + width;
      pen.globalAlpha = this.alpha(track.kinds[i], marked);
      pen.fillStyle = kind.colour;
      const fill = track.fills[i] ?? 1;
      pen.fillRect(left, y + (1 - fill) * (ROW - 1), width > 4 ? width - 0.5 : width, fill * (ROW - 1));
      if (width > 30) {
        pen.fillStyle = pen.globalAlpha < 1 || fill < 0.8 ? this.ink : kind.ink;
        pen.fillText(fitted(pen, texts[track.names[i]], width - 6), left + 3, y + ROW / 2);
      }
    }
    pen.globalAlpha = 1;
    if (this.chosen?.[0] === track) {
      const i = this.chosen[1], left = this.x(track.begins[i], row.run);
      pen.strokeStyle = this.ink;
      pen.lineWidth = 2;
      pen.strokeRect(left, row.y + track.levels[i] * ROW, Math.max(2, this.x(track.begins[i] + track.lengths[i], row.run) - left), ROW - 1);
      pen.lineWidth = 1;
    }
  }

  // How many tracks of a family did each kind of work, in the mean of each pixel, stacked.
  drawFolded(pen, row) {
    const width = Math.floor(this.width()), sums = KINDS.map(() => null), scale = width / (this.to - this.from);
    for (const track of row.family.tracks) {
      const pieces = (track.flat ??= innermost(track));
      for (let p = 0; p < pieces.length; p += 4) {
        const begin = (pieces[p] - row.run.origin - this.from) * scale, end = (pieces[p + 1] - row.run.origin - this.from) * scale;
        if (end <= 0 || begin >= width) continue;
        const sum = (sums[pieces[p + 2]] ??= new Float32Array(width));
        for (let x = Math.max(0, Math.floor(begin)); x < Math.min(width, end); x++) sum[x] += pieces[p + 3] * (Math.min(end, x + 1) - Math.max(begin, x));
      }
    }
    row.drawn = sums;
    const each = row.height / row.family.tracks.length, tops = new Float32Array(width).fill(row.y + row.height);
    pen.fillStyle = this.faint;
    pen.fillRect(this.labels, row.y + row.height, width, 1);
    sums.forEach((sum, kind) => {
      if (!sum) return;
      pen.fillStyle = KINDS[kind].colour;
      pen.globalAlpha = this.alpha(kind, false);
      for (let x = 0; x < width; x++) if (sum[x]) {
        const height = sum[x] * each;
        tops[x] -= height;
        pen.fillRect(this.labels + x, tops[x], 1, height);
      }
    });
    pen.globalAlpha = 1;
  }

  // A counter's mean in each pixel as an area, its maximum as a line.
  drawCounter(pen, row) {
    const { begins, means, most, top, unit, kind } = row.counter, width = Math.floor(this.width()), scale = width / (this.to - this.from);
    const areas = new Float64Array(width), highest = new Float64Array(width);
    for (let i = 0; i < begins.length; i++) {
      const begin = (begins[i] - row.run.origin - this.from) * scale, until = ((begins[i + 1] ?? row.run.window[1]) - row.run.origin - this.from) * scale;
      if (until < 0 || begin >= width || !most[i]) continue;
      for (let x = Math.max(0, Math.floor(begin)); x < Math.min(width, until || 1e-9); x++) {
        areas[x] += means[i] * (Math.min(until, x + 1) - Math.max(begin, x));
        highest[x] = Math.max(highest[x], most[i]);
      }
    }
    row.drawn = { means: areas, most: highest };
    const y = (value) => row.y + row.height - (value / top) * (row.height - 3);
    pen.fillStyle = this.faint;
    pen.fillRect(this.labels, row.y + row.height, width, 1);
    pen.fillStyle = KINDS[kind].colour;
    for (let x = 0; x < width; x++) if (areas[x]) pen.fillRect(this.labels + x, y(areas[x]), 1, row.y + row.height - y(areas[x]));
    pen.strokeStyle = this.ink;
    pen.globalAlpha = 0.55;
    pen.lineWidth = 0.7;
    pen.beginPath();
    for (let x = 0; x < width; x++) if (x && highest[x] + highest[x - 1]) { pen.moveTo(this.labels + x - 0.5, y(highest[x - 1])); pen.lineTo(this.labels + x + 0.5, y(highest[x])); }
    pen.stroke();
    pen.globalAlpha = 1;
    pen.lineWidth = 1;
    pen.fillStyle = this.ink;
    if (!this.narrow) pen.fillText(`most ${amount(top, unit)}`, 4, row.y + row.height / 2 + 13, this.labels - 8);
  }

  // One unit on the whole axis, and as many digits as its steps need.
  axis(pen) {
    const wide = this.width(), length = this.to - this.from;
    const rough = length / Math.max(2, wide / 110), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
    const [unit, scale] = UNITS.find(([, one]) => Math.max(Math.abs(this.from), Math.abs(this.to)) >= one) ?? UNITS.at(-1);
    const digits = Math.max(0, Math.ceil(-Math.log10(step / scale) - 1e-9));
    this.ticks = [];
    for (let n = Math.ceil(this.from / step); n * step <= this.to; n++) {
      const x = this.labels + ((n * step - this.from) / length) * wide, text = n ? `${((n * step) / scale).toFixed(digits)} ${unit}` : "0";
      this.ticks.push(text);
      pen.fillStyle = this.faint;
      pen.fillRect(x, 0, 1, this.height);
      pen.fillStyle = this.ink;
      if (x + pen.measureText(text).width + 4 < this.labels + wide) pen.fillText(text, x + 3, AXIS / 2);
    }
  }
}

function flame(box, root) {
  const frame = (node, of) => {
    const part = element("div", { className: "frame" });
    part.style.width = `${(100 * node.ps) / of.ps}%`;
    const label = element("div", { className: "label", textContent: node.name, tabIndex: 0 });
    if (KINDS[node.kind]) { label.style.background = KINDS[node.kind].colour; label.style.color = KINDS[node.kind].ink; } else label.style.color = "inherit";
    const text = `${node.name}\n${time(node.ps)}, ${((100 * node.ps) / root.ps).toFixed(1)} % of the host threads' time in directives`;
    label.addEventListener("pointermove", (event) => say(text, event));
    label.addEventListener("pointerleave", () => say(""));
    label.addEventListener("focus", () => { const at = label.getBoundingClientRect(); say(text, { clientX: at.left, clientY: at.bottom }); });
    label.addEventListener("blur", () => say(""));
    const row = element("div", { className: "row" });
    for (const inner of node.inner) if (inner.ps / root.ps > 0.002) row.append(frame(inner, node));
    part.append(label, row);
    return part;
  };
  if (root.ps) box.append(frame(root, root));
  else box.textContent = "No directive was run.";
}

const box = document.querySelector(".timeline");
box.timeline = new Timeline(box, data.runs);
document.querySelectorAll(".flame").forEach((one, number) => flame(one, data.runs[number].flame));
document.body.dataset.ready = "yes";
