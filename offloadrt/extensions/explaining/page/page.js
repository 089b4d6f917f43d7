// Draws the timelines, the flame graphs and the charts of a report from the JSON in #data.

const data = JSON.parse(document.getElementById("data").textContent);
const hint = document.getElementById("hint");
const ROW = 14, GAP = 6, LABEL = 190, AXIS = 22;
const COLOURS = ["#56B4E9", "#009E73", "#F0E442", "#E69F00", "#CC79A7", "#9AC8E8", "#7FCDB4", "#D9D2A0"];
const WAITING = "#D55E00", SHORT = "#999999";

function colour(name) {
  if (/^wait/.test(name)) return WAITING;
  if (/short slices$/.test(name)) return SHORT;
  let sum = 0;
  for (const letter of name.replace(/[\d.]+/g, "")) sum = (sum * 31 + letter.codePointAt(0)) >>> 0;
  return COLOURS[sum % COLOURS.length];
}

function time(ps) {
  for (const [unit, scale] of [["s", 1e12], ["ms", 1e9], ["µs", 1e6], ["ns", 1e3]])
    if (Math.abs(ps) >= scale) return `${+(ps / scale).toPrecision(5)} ${unit}`;
  return `${Math.round(ps)} ps`;
}

function say(text, event) {
  hint.hidden = !text;
  hint.textContent = text;
  if (!text || !event) return;
  hint.style.left = `${Math.min(event.clientX + 14, innerWidth - hint.offsetWidth - 8)}px`;
  hint.style.top = `${Math.min(event.clientY + 14, innerHeight - hint.offsetHeight - 8)}px`;
}

class Timeline {
  constructor(box, source) {
    [this.first, this.last] = source.window;
    [this.from, this.to] = source.window;
    this.texts = source.texts;
    this.matches = [];
    this.current = -1;
    this.tracks = this.placed(source.tracks);
    this.search = Object.assign(document.createElement("input"), { type: "search", placeholder: "search slices ( / )", ariaLabel: "search the slices of the timeline" });
    this.count = document.createElement("span");
    this.canvas = Object.assign(document.createElement("canvas"), { tabIndex: 0 });
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", "timeline of host threads, locks and the device");
    const scroll = Object.assign(document.createElement("div"), { className: "tracks" });
    scroll.append(this.canvas);
    box.append(this.search, this.button("+", 0.5), this.button("−", 2), this.button("all", 0), " ", this.count, scroll);
    this.listen();
    new ResizeObserver(() => this.draw()).observe(box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    this.draw();
  }

  placed(sources) {
    let y = AXIS, group = "";
    const tracks = [];
    for (const source of sources) {
      let begin = this.first;
      const begins = source.begins.map((step) => (begin += step));
      if (source.group !== group) y += GAP;
      group = source.group;
      const levels = 1 + source.levels.reduce((most, level) => Math.max(most, level), 0);
      const label = source.group === source.name ? source.name : `${source.group}: ${source.name}`;
      tracks.push({ ...source, begins, label, y, height: levels * ROW });
      y += levels * ROW + 2;
    }
    this.height = y + 4;
    return tracks;
  }

  button(text, factor) {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: text });
    button.addEventListener("click", () => (factor ? this.zoom(factor, 0.5) : this.show(this.first, this.last)));
    return button;
  }

  listen() {
    const canvas = this.canvas;
    let drag = null;
    canvas.addEventListener("wheel", (event) => {
      if (event.shiftKey) return;
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 0.8 : 1.25, this.part(event));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => { drag = { x: event.clientX, from: this.from, to: this.to }; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointerup", () => (drag = null));
    canvas.addEventListener("pointermove", (event) => {
      if (drag) {
        const by = ((drag.x - event.clientX) / this.width()) * (drag.to - drag.from);
        this.show(drag.from + by, drag.to + by);
      } else say(this.described(this.at(event)), event);
    });
    canvas.addEventListener("pointerleave", () => say(""));
    canvas.addEventListener("keydown", (event) => {
      const step = (this.to - this.from) / 8;
      const moves = { ArrowLeft: () => this.show(this.from - step, this.to - step), ArrowRight: () => this.show(this.from + step, this.to + step),
        "+": () => this.zoom(0.5, 0.5), "=": () => this.zoom(0.5, 0.5), "-": () => this.zoom(2, 0.5), Home: () => this.show(this.first, this.last),
        "/": () => this.search.focus(), Enter: () => this.next() };
      if (!moves[event.key]) return;
      event.preventDefault();
      moves[event.key]();
    });
    this.search.addEventListener("input", () => this.find(this.search.value.toLowerCase()));
    this.search.addEventListener("keydown", (event) => { if (event.key === "Enter") this.next(); });
  }

  width() { return Math.max(1, this.canvas.clientWidth - LABEL); }
  part(event) { return Math.min(1, Math.max(0, (event.offsetX - LABEL) / this.width())); }
  x(ps) { return LABEL + ((ps - this.from) / (this.to - this.from)) * this.width(); }

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

  find(text) {
    this.matches = [];
    this.current = -1;
    if (text) for (const track of this.tracks) track.names.forEach((name, i) => {
      if (`${this.texts[name]} ${this.texts[track.notes[i]]}`.toLowerCase().includes(text)) this.matches.push([track, i]);
    });
    this.matches.sort((a, b) => a[0].begins[a[1]] - b[0].begins[b[1]]);
    this.count.textContent = text ? `${this.matches.length} slices` : "";
    this.draw();
  }

  next() {
    if (!this.matches.length) return;
    this.current = (this.current + 1) % this.matches.length;
    const [track, i] = this.matches[this.current], length = Math.max(track.lengths[i] * 4, 1000);
    const middle = track.begins[i] + track.lengths[i] / 2;
    this.show(middle - length / 2, middle + length / 2);
    this.canvas.parentElement.scrollTop = track.y - 60;
    this.count.textContent = `${this.current + 1} of ${this.matches.length} slices: ${this.described([track, i]).replaceAll("\n", ", ")}`;
  }

  at(event) {
    const ps = this.from + ((event.offsetX - LABEL) / this.width()) * (this.to - this.from);
    const track = this.tracks.find((one) => event.offsetY >= one.y && event.offsetY < one.y + one.height);
    if (!track || event.offsetX < LABEL) return null;
    const level = Math.floor((event.offsetY - track.y) / ROW), pixel = (this.to - this.from) / this.width();
    for (let i = 0; i < track.begins.length && track.begins[i] <= ps + pixel; i++)
      if (track.levels[i] === level && track.begins[i] + Math.max(track.lengths[i], pixel) >= ps) return [track, i];
    return null;
  }

  described(found) {
    if (!found) return "";
    const [track, i] = found;
    const held = track.group === "locks" ? `held by ${this.texts[track.names[i]]}` : this.texts[track.names[i]];
    return [`${track.label}`, held, this.texts[track.notes[i]], `${time(track.lengths[i])} from ${time(track.begins[i])}`].filter(Boolean).join("\n");
  }

  draw() {
    const ratio = devicePixelRatio || 1, wide = this.canvas.clientWidth;
    this.canvas.style.height = `${this.height}px`;
    this.canvas.width = wide * ratio;
    this.canvas.height = this.height * ratio;
    const pen = this.canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue("--ink"), faint = style.getPropertyValue("--faint");
    pen.scale(ratio, ratio);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    this.axis(pen, ink, faint);
    const matching = new Set(this.matches.map(([track, i]) => `${track.y}:${i}`));
    for (const track of this.tracks) {
      pen.fillStyle = ink;
      pen.fillText(track.label, 4, track.y + ROW / 2, LABEL - 8);
      let right = {};
      for (let i = 0; i < track.begins.length; i++) {
        const begin = track.begins[i], end = begin + track.lengths[i];
        if (end < this.from || begin > this.to) continue;
        const left = Math.max(LABEL, this.x(begin)), until = Math.min(wide, this.x(end)), level = track.levels[i];
        const marked = matching.size && matching.has(`${track.y}:${i}`);
        if (until - left < 0.4 && right[level] > left && !marked) continue;
        const name = this.texts[track.names[i]], y = track.y + level * ROW, width = Math.max(0.7, until - left);
        right[level] = left + width;
        pen.globalAlpha = matching.size && !marked ? 0.25 : 1;
        pen.fillStyle = colour(name);
        pen.fillRect(left, y, width, ROW - 1);
        if (width > 30) {
          pen.fillStyle = "#000";
          pen.save();
          pen.beginPath();
          pen.rect(left, y, width - 2, ROW);
          pen.clip();
          pen.fillText(name, left + 3, y + ROW / 2);
          pen.restore();
        }
      }
      pen.globalAlpha = 1;
    }
  }

  axis(pen, ink, faint) {
    const wide = this.width(), length = this.to - this.from;
    const rough = length / Math.max(2, wide / 120), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
    for (let ps = Math.ceil(this.from / step) * step; ps <= this.to; ps += step) {
      pen.fillStyle = faint;
      pen.fillRect(this.x(ps), 0, 1, this.height);
      pen.fillStyle = ink;
      pen.fillText(time(ps), this.x(ps) + 3, AXIS / 2);
    }
  }
}

function flame(box, root) {
  const frame = (node, of) => {
    const part = Object.assign(document.createElement("div"), { className: "frame" });
    part.style.width = `${(100 * node.ps) / of.ps}%`;
    const label = Object.assign(document.createElement("div"), { className: "label", textContent: node.name, tabIndex: 0 });
    label.style.background = colour(node.name);
    const text = `${node.name}\n${time(node.ps)}, ${((100 * node.ps) / root.ps).toFixed(1)} % of the host threads' time in directives`;
    label.addEventListener("pointermove", (event) => say(text, event));
    label.addEventListener("pointerleave", () => say(""));
    label.addEventListener("focus", () => { const at = label.getBoundingClientRect(); say(text, { clientX: at.left, clientY: at.bottom }); });
    label.addEventListener("blur", () => say(""));
    part.append(label);
    const row = Object.assign(document.createElement("div"), { className: "row" });
    for (const inner of node.inner) if (inner.ps / root.ps > 0.002) row.append(frame(inner, node));
    part.append(row);
    return part;
  };
  if (root.ps) box.append(frame(root, root));
  else box.textContent = "No directive was run.";
}

document.querySelectorAll(".timeline").forEach((box) => (box.timeline = new Timeline(box, data.timelines[+box.dataset.number])));
document.querySelectorAll(".flame").forEach((box) => flame(box, data.flames[+box.dataset.number]));
const dark = matchMedia("(prefers-color-scheme: dark)").matches;
for (const [id, spec] of Object.entries(data.charts))
  await vegaEmbed(`#${id}`, spec, { actions: false, renderer: "svg", ast: false, theme: dark ? "dark" : undefined, config: { background: "transparent" } });
document.body.dataset.ready = "yes";
