"use strict";
(() => {
  const tip = document.getElementById("tip");
  const make = (name, text, kind) => {
    const node = document.createElement(name);
    if (text !== undefined) node.textContent = text;
    if (kind) node.className = kind;
    return node;
  };
  const hideTip = () => { tip.hidden = true; };
  function showTip(nodes, x, y) {
    tip.replaceChildren(...nodes);
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = Math.max(8, Math.min(x + 14, innerWidth - box.width - 8));
    const top = y + 18 + box.height > innerHeight ? y - box.height - 12 : y + 18;
    tip.style.transform = `translate(${left}px, ${Math.max(8, top)}px)`;
  }

  for (const word of document.querySelectorAll("abbr[title]")) {
    const meaning = word.title;
    word.removeAttribute("title");
    word.setAttribute("aria-description", meaning);
    const show = () => {
      const box = word.getBoundingClientRect();
      showTip([document.createTextNode(meaning)], box.left - 14, box.bottom - 10);
    };
    word.addEventListener("pointerenter", show);
    word.addEventListener("focus", show);
    word.addEventListener("pointerleave", hideTip);
    word.addEventListener("blur", hideTip);
  }
  addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((details) => { details.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach((details) => { details.open = false; }));

  const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
  const two = (value) => String(value).padStart(2, "0");
  const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
  const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

  const classes = JSON.parse(document.querySelector("[data-classes]")?.dataset.classes ?? "[]");

  // Rows of days and the average day: the shares of the column at the pointer.
  for (const chart of document.querySelectorAll(".days")) {
    const bins = Number(chart.dataset.bins), minutes = Number(chart.dataset.minutes), first = Number(chart.dataset.from);
    const unit = chart.dataset.unit ? ` ${chart.dataset.unit}` : "";
    const time = (bin) => {
      const at = first + bin * minutes;
      return `${two(Math.floor(at / 60) % (unit || at === 1440 ? 100 : 24))}:${two(at % 60)}`;
    };
    for (const row of chart.querySelectorAll(".day[data-name]")) {
      const svg = row.querySelector("svg");
      const blocks = [...svg.querySelectorAll("path[data-k]")].flatMap((path) =>
        [...path.getAttribute("d").matchAll(/M(\d+) \d+h(\d+)v(\d+)/g)].map(([, first, count, height]) =>
          ({ k: Number(path.dataset.k), first: Number(first), end: Number(first) + Number(count), height: Number(height) })));
      svg.addEventListener("pointermove", (event) => {
        const box = svg.getBoundingClientRect();
        const bin = Math.max(0, Math.min(bins - 1, Math.floor((bins * (event.clientX - box.left)) / box.width)));
        const here = blocks.filter(({ first, end }) => first <= bin && bin < end).sort((a, b) => b.height - a.height);
        const lines = here.map(({ k, height }) => {
          const entry = make("span", undefined, "entry");
          const [kind, name] = k === -1 ? ["off", "not worn"] : k === -2 ? ["bed", "in bed"] : [`k${k}`, classes[k]];
          entry.append(make("i", undefined, `swatch ${kind}`), make("span", name));
          const line = make("span", undefined, "line share");
          line.append(make("span", `${height} %`), entry);
          return line;
        });
        if (!lines.length) lines.push(make("span", "no data"));
        showTip([make("strong", `${row.dataset.name}, ${time(bin)}\u2013${time(bin + 1)}${unit}`), ...lines], event.clientX, event.clientY);
      });
      svg.addEventListener("pointerleave", hideTip);
    }
  }

  for (const chart of document.querySelectorAll(".timeline")) {
    const span = Number(chart.dataset.span), unit = Number(chart.dataset.unit);
    const wallClock = chart.dataset.clock !== undefined;
    // Parts of the axis with an even scale: first unit, clock there, clock seconds per unit.
    const pieces = JSON.parse(chart.dataset.pieces);
    const momentAt = (x) => {
      const [first, clock, slope] = pieces.findLast(([first]) => first <= x) ?? pieces[0];
      return clock + (x - first) * slope;
    };
    const lanes = chart.querySelector(".lanes"), cursor = chart.querySelector(".cursor");
    const ticks = chart.querySelector(".ticks"), tools = chart.querySelector(".tools");
    const drawings = [...lanes.querySelectorAll("svg")];
    const narrowest = Math.min(span, 20);
    const changeMarks = lanes.querySelector(".change");
    let from = 0, width = span;

    const bands = [...lanes.querySelectorAll(".band")].map((lane) => {
      const runs = [];
      for (const path of lane.querySelectorAll("path[data-k]")) {
        let x = 0;
        for (const [, skip, length] of path.getAttribute("d").matchAll(/m(-?\d+) 0h(\d+)/g)) {
          const start = x + Number(skip);
          x = start + Number(length);
          runs.push([start, x, Number(path.dataset.k), path.classList.contains("off")]);
        }
      }
      return { name: lane.dataset.name, empty: lane.dataset.empty, runs: runs.sort((a, b) => a[0] - b[0]) };
    });
    function runAt(runs, x) {
      let low = 0, high = runs.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (runs[middle][0] <= x) low = middle + 1; else high = middle;
      }
      const run = runs[low - 1];
      return run && x < run[1] ? run : null;
    }

    function label(moment, step, full) {
      const whole = Math.round(moment);
      const seconds = step < 60 || full ? ":" + two(((whole % 60) + 60) % 60) : "";
      if (!wallClock) return `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)}${seconds}`;
      const at = new Date(whole * 1000);
      const day = `${DAYS[at.getUTCDay()]} ${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]}`;
      if (!full && whole % 86400 === 0) return day;
      return `${full ? day + ", " : ""}${two(at.getUTCHours())}:${two(at.getUTCMinutes())}${seconds}`;
    }
    function drawTicks() {
      const most = Math.max(2, Math.floor(ticks.clientWidth / 92));
      const length = width * unit;
      const step = STEPS.find((s) => length / s <= most) ?? 86400 * Math.ceil(length / 86400 / most);
      const nodes = [];
      pieces.forEach(([first, clock, slope], i) => {
        const low = Math.max(from, first), high = Math.min(from + width, pieces[i + 1]?.[0] ?? span);
        if (slope > 1.5 * unit || high <= low) return; // a shortened gap has no ticks
        const end = clock + (high - first) * slope + (i === pieces.length - 1 ? 1e-6 : -1e-6);
        for (let at = Math.ceil((clock + (low - first) * slope) / step) * step; at <= end; at += step) {
          const node = make("span", label(at, step, false));
          const share = (first + (at - clock) / slope - from) / width;
          node.style.left = `${100 * share}%`;
          if (share * ticks.clientWidth < 20) node.style.transform = "translateX(-4px)";
          if ((1 - share) * ticks.clientWidth < 20) node.style.transform = "translateX(calc(4px - 100%))";
          nodes.push(node);
        }
      });
      ticks.replaceChildren(...nodes);
    }
    function show(start, size) {
      width = Math.max(narrowest, Math.min(span, size));
      from = Math.max(0, Math.min(span - width, start));
      for (const svg of drawings) {
        const height = svg.getAttribute("viewBox").split(" ")[3];
        svg.setAttribute("viewBox", `${from} 0 ${width} ${height}`);
      }
      for (const button of tools.querySelectorAll("button")) {
        button.disabled = button.dataset.do === "in" ? width <= narrowest : width >= span;
      }
      drawTicks();
      drawChanges();
    }
    function drawChanges() {
      const runs = bands.at(-1).runs;
      const seen = runs.filter(([x, , k], i) => i > 0 && k !== runs[i - 1][2] && x >= from && x <= from + width);
      // Ticks that would touch each other show nothing.
      const drawn = seen.length <= 300 ? seen : [];
      changeMarks?.setAttribute("d", drawn.map(([x]) => `M${x} 0v9`).join(""));
    }

    const actions = {
      in: () => show(from + width / 4, width / 2),
      out: () => show(from - width / 2, width * 2),
      back: () => show(from - width / 2, width),
      on: () => show(from + width / 2, width),
      all: () => show(0, span),
    };
    tools.hidden = false;
    tools.addEventListener("click", (event) => actions[event.target.dataset.do]?.());

    const field = drawings[0].parentElement;
    let pressed = null;
    const within = (event) => {
      const box = field.getBoundingClientRect();
      return Math.max(0, Math.min(box.width, event.clientX - box.left));
    };
    function place(left, size) {
      cursor.hidden = false;
      cursor.classList.toggle("range", size > 0);
      const offset = field.getBoundingClientRect().left - lanes.getBoundingClientRect().left;
      cursor.style.left = `${offset + left}px`;
      cursor.style.width = `${size}px`;
    }
    function describe(event, x) {
      const unitAt = from + (x / field.clientWidth) * width;
      const nodes = [make("strong", label(momentAt(unitAt), 1, true))];
      for (const { name, empty, runs } of bands) {
        const run = runAt(runs, unitAt);
        const line = make("span", undefined, "line"), entry = make("span", undefined, "entry");
        if (run) entry.append(make("i", undefined, `swatch k${run[2]}`));
        entry.append(make("span", run ? classes[run[2]] + (run[3] ? " (not worn)" : "") : empty));
        line.append(make("span", name), entry);
        nodes.push(line);
      }
      showTip(nodes, event.clientX, event.clientY);
    }
    lanes.addEventListener("pointermove", (event) => {
      if (!event.target.closest(".field")) return;
      const x = within(event);
      if (pressed !== null) {
        place(Math.min(x, pressed), Math.abs(x - pressed));
        hideTip();
      } else if (!event.target.closest(".axis")) {
        place(x, 0);
        describe(event, x);
      }
    });
    lanes.addEventListener("pointerdown", (event) => {
      if (event.button === 0 && event.target.closest(".field")) {
        pressed = within(event);
        lanes.setPointerCapture?.(event.pointerId);
      }
    });
    lanes.addEventListener("pointerup", (event) => {
      if (pressed === null) return;
      const [low, high] = [pressed, within(event)].sort((a, b) => a - b);
      pressed = null;
      cursor.hidden = true;
      if (high - low > 6) show(from + (low / field.clientWidth) * width, ((high - low) / field.clientWidth) * width);
    });
    const leave = () => { pressed = null; cursor.hidden = true; hideTip(); };
    lanes.addEventListener("pointercancel", leave);
    lanes.addEventListener("pointerleave", leave);
    lanes.addEventListener("dblclick", actions.all);
    new ResizeObserver(drawTicks).observe(ticks);
    show(0, span);
  }
})();
