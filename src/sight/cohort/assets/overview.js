"use strict";
(() => {
  const list = document.getElementById("list");
  if (!list) return;
  const [name, flag, order, count, none] = ["name", "flag", "order", "count", "none"].map((id) => document.getElementById(id));
  const rows = [...list.children].map((node, place) => ({
    node,
    place,
    text: node.querySelector("b").textContent.toLowerCase(),
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
  function sort() {
    const key = order.value;
    const sorted = rows.slice();
    // Largest first; equal values keep the order of names.
    if (key !== "name") sorted.sort((a, b) => b.node.dataset[key] - a.node.dataset[key] || a.place - b.place);
    list.append(...sorted.map((row) => row.node));
  }
  if (location.protocol === "file:") {
    const folder = decodeURIComponent(location.pathname).replace(/\/[^/]*$/, "");
    document.getElementById("folder").textContent = /^[\w./-]+$/.test(folder) ? folder : `"${folder}"`;
  }
  name.addEventListener("input", show);
  flag.addEventListener("change", show);
  order.addEventListener("change", sort);
  name.form.addEventListener("submit", (event) => event.preventDefault());
})();
