"use strict";
(() => {
  const list = document.getElementById("list");
  if (!list) return;
  const [name, flag, order, count, none] = ["name", "flag", "order", "count", "none"].map((id) => document.getElementById(id));
  const rows = [...list.children].map((node, place) => ({
    node,
    place,
    text: node.querySelector(".recording").textContent.toLowerCase(),
    flags: node.dataset.flags.split(" "),
  }));
  function show() {
    const wanted = name.value.trim().toLowerCase();
    let seen = 0;
    for (const row of rows) {
      const match = row.text.includes(wanted) && (!flag.value || row.flags.includes(flag.value));
      row.node.hidden = !match;
      seen += match;
    }
    count.textContent = `${seen.toLocaleString("en")} shown`;
    none.hidden = seen > 0;
  }
  const heads = [...document.querySelectorAll("[data-order]")];
  const collator = new Intl.Collator("en", { numeric: true });
  const compare = (x, y) => (Number.isNaN(x - y) ? collator.compare(x, y) : x - y);
  let descending = false;
  // Numbers start with the largest; equal values keep the order of names, missing ones come last.
  function sort() {
    const key = order.value, sign = descending ? -1 : 1;
    const value = (row) => (key === "name" ? "" : row.node.dataset[key]);
    const sorted = rows.slice().sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (!x !== !y) return x ? -1 : 1;
      return sign * (key === "name" ? a.place - b.place : compare(x, y)) || a.place - b.place;
    });
    list.append(...sorted.map((row) => row.node));
    for (const head of heads) {
      head.dataset.sorted = head.dataset.order !== key ? "" : descending ? "down" : "up";
    }
  }
  const choose = (key, reverse) => {
    order.value = key;
    descending = reverse ?? (key !== "name" && rows.some((row) => Number(row.node.dataset[key]) > 0));
    sort();
  };
  for (const head of heads) {
    const key = head.dataset.order;
    head.addEventListener("click", () => choose(key, order.value === key ? !descending : undefined));
  }
  if (location.protocol === "file:") {
    const folder = decodeURIComponent(location.pathname).replace(/\/[^/]*$/, "");
    const place = document.getElementById("folder");
    if (place) place.textContent = /^[\w./-]+$/.test(folder) ? folder : `"${folder}"`;
  }
  name.addEventListener("input", show);
  flag.addEventListener("change", show);
  order.addEventListener("change", () => choose(order.value));
  name.form.addEventListener("submit", (event) => event.preventDefault());
})();
