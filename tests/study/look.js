// Looks at a report's page as a reader does, and writes what there was into #said.
const wait = () => document.body.dataset.ready ? look() : setTimeout(wait, 20);
const press = (timeline, key) => timeline.canvas.dispatchEvent(new KeyboardEvent("keydown", { key }));
function look() {
  const timeline = document.querySelector(".timeline").timeline, said = {};
  const lock = timeline.tracks.find((track) => track.group === "locks" && track.name === "device table");
  said.holder = timeline.described([lock, 0]);
  press(timeline, "+");
  said.zoomed = (timeline.to - timeline.from) / (timeline.last - timeline.first);
  press(timeline, "Home");
  said.whole = timeline.from === timeline.first && timeline.to === timeline.last;
  timeline.find("cumemfree");
  said.found = timeline.matches.length;
  timeline.find("");
  said.frames = document.querySelectorAll(".flame .frame").length;
  const box = timeline.canvas.getBoundingClientRect();
  const over = (x, y) => {
    timeline.canvas.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + x, clientY: box.top + y, bubbles: true }));
    return document.getElementById("hint").textContent;
  };
  said.hint = over(timeline.x(lock.begins[0] + lock.lengths[0] / 2), lock.y + 5);
  said.ticks = timeline.ticks;
  said.lowest = timeline.rows.filter((row) => row.track?.group === "locks" || row.family?.group === "locks").map((row) => row.y + row.height);
  const host = timeline.families.find((family) => family.group === "host");
  said.folded = host.folded;
  const row = timeline.rows.find((row) => row.family === host);
  said.ofThreads = over(timeline.labels + 300, row.y + 5);
  timeline.focus = timeline.rows.indexOf(row);
  const before = timeline.height;
  press(timeline, " ");
  said.unfolds = timeline.height / before;
  press(timeline, " ");
  const button = document.querySelector(".to-slices");
  button.click();
  said.marked = timeline.matches.length;
  said.kindsMarked = [...new Set(timeline.matches.map(([track]) => track.group))];
  said.colours = [...new Set([...document.querySelectorAll(".bar span[title]")].map((part) => part.title.split(":")[0] + part.style.background))].length;
  said.kinds = new Set([...document.querySelectorAll(".bar span[title]")].map((part) => part.title.split(":")[0])).size;
  said.overflow = document.documentElement.scrollWidth - innerWidth;
  said.legend = [...document.querySelectorAll(".legend button")].map((one) => one.textContent);
  const shown = Object.assign(document.createElement("pre"), { id: "said", textContent: JSON.stringify(said) });
  document.body.append(shown);
}
wait();
