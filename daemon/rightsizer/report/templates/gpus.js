"use strict";
// Workloads, nodes and GPUs of a fleet, drawn as they are scrolled to; #workload/NAME, #node/NAME and #gpu/NODE/NAME show one alone.
document.addEventListener("DOMContentLoaded", async () => {
  const place = document.getElementById("gpus");
  if (!place) return;
  const packed = Uint8Array.from(atob(document.getElementById("holdings").textContent), (sign) => sign.charCodeAt(0));
  const data = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
  for (const words of Object.values(data.words)) {
    let at = 0;
    words.at = words.steps.map((step) => (at += step));
  }
  const rows = [...data.gpus.keys()], parts = Object.keys(data.colors);
  data.parts.headroom = rows.map((row) => Math.max(0, 100 - Object.values(data.parts).reduce((sum, part) => sum + part[row], 0)));
  const word = (row, column) => data.words[column].names[data.words[column].at[row]];
  const isSeveral = data.words.cluster.names.length > 1;
  const home = (row) => (isSeveral ? `${word(row, "cluster")}/${word(row, "node")}` : word(row, "node"));
  const ways = { workload: (row) => word(row, "workload"), node: home, gpu: (row) => [home(row), word(row, "name")].filter(Boolean).join("/") };
  const tall = 34, shown = 16, element = (name, text, ...inside) => {
    const found = document.createElement(name);
    found.append(...(text === "" ? [] : [text]), ...inside);
    return found;
  };
  const way = document.createElement("select"), field = document.createElement("input"), choices = {};
  const title = element("h3", ""), facts = element("p", ""), advice = element("p", "");
  const table = element("table", ""), body = element("tbody", ""), head = element("tr", ""), frame = element("div", "", table);
  let groups = [], sorted = "wasted", falls = true;
  const counted = (count, noun) => `${count.toLocaleString("en-US")} ${noun}${count === 1 ? "" : "s"}`;
  const money = (dollars) => `$${dollars.toLocaleString("en-US", { maximumFractionDigits: dollars < 10 ? 1 : 0 })}`;
  const linked = (at) => {
    const link = element("a", data.groups[at][1]);
    link.href = `#${data.groups[at][0]}`;
    return link;
  };
  const one = (members, column) => {
    const names = new Set(members.map((row) => word(row, column)));
    return names.size === 1 ? [...names][0] : `${names.size} of them`;
  };
  const summed = (name, members) => {
    const found = { name, members, gpus: 0, hours: 0, dollars: 0, wasted: 0, parts: parts.map(() => 0) };
    for (const row of members) {
      found.gpus += data.gpus[row];
      found.hours += data.hours[row];
      found.dollars += data.cents[row] / 100;
      found.wasted += data.wasted[row] / 100;
      parts.forEach((part, at) => (found.parts[at] += data.parts[part][row] * data.hours[row]));
    }
    found.todo = data.advice[members[0]] ?? -1;
    found.used = found.parts[parts.indexOf("used")] / (found.hours || 1);
    for (const column of ["cluster", "team", "pool", "workload"]) found[column] = one(members, column) || "-";
    return found;
  };
  const numbers = ["gpus", "used", "dollars", "wasted"], every = {
    name: ["name", (group) => group.name], workload: [data.headings.Holder, (group) => group.workload], cluster: ["cluster", (group) => group.cluster], team: ["team", (group) => group.team],
    pool: ["pool", (group) => group.pool], gpus: ["GPUs", (group) => Number(group.gpus.toFixed(2)).toLocaleString("en-US")], parts: ["time", strip],
    used: [data.headings.Used, (group) => `${Math.round(group.used)}%`], dollars: ["$ a day", (group) => money(group.dollars)], wasted: [data.headings.Wasted, (group) => money(group.wasted)],
    todo: [data.headings["To do"], (group) => (group.todo < 0 ? "-" : linked(group.todo))],
  };
  const columns = () => Object.keys(every).filter((key) => (["workload", "todo"].includes(key) ? way.value === "gpu" : key === "cluster" ? isSeveral && way.value === "workload" : key !== "pool" || way.value !== "gpu"));
  function strip(group) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    let left = 0;
    svg.setAttribute("viewBox", "0 0 100 10");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", parts.map((part, at) => `${Math.round(group.parts[at] / (group.hours || 1))}% ${data.names[part]}`).join(", "));
    svg.classList.add("split");
    parts.forEach((part, at) => {
      const wide = group.parts[at] / (group.hours || 1), path = document.createElementNS(svg.namespaceURI, "path");
      path.setAttribute("d", `M${left} 0h${wide}v10H${left}z`);
      path.classList.add(data.colors[part]);
      if (wide) svg.append(path);
      left += wide;
    });
    return svg;
  }
  const asked = () => {
    const [kind, ...rest] = location.hash.slice(1).split("/");
    return kind in ways ? { kind, name: decodeURIComponent(rest.join("/")) } : null;
  };
  const draw = () => {
    const first = Math.max(0, Math.min(Math.floor(frame.scrollTop / tall) - 4, groups.length - shown - 8)), last = Math.min(groups.length, first + shown + 8);
    const space = (count) => {
      const row = element("tr", "");
      row.style.height = `${count * tall}px`;
      return row;
    };
    body.replaceChildren(space(first), ...groups.slice(first, last).map((group, at) => {
      const row = element("tr", "");
      row.setAttribute("aria-rowindex", first + at + 2);
      for (const key of columns()) {
        const cell = element(key === "name" ? "th" : "td", "");
        if (key === "name") {
          const link = element("a", group.name || "(nobody)");
          link.href = `#${way.value}/${group.name.split("/").map(encodeURIComponent).join("/")}`;
          cell.scope = "row";
          cell.append(link);
        } else cell.append(every[key][1](group));
        if (numbers.includes(key)) cell.className = "n";
        row.append(cell);
      }
      return row;
    }), space(groups.length - last));
  };
  const show = () => {
    const only = asked(), wanted = field.value.trim().toLowerCase();
    if (only) way.value = "gpu";
    const kept = rows.filter((row) => (only
      ? ways[only.kind](row) === only.name
      : Object.entries(choices).every(([column, choice]) => !choice.value || word(row, column) === choice.value)));
    const by = new Map();
    for (const row of kept) {
      const name = ways[way.value](row);
      if (by.has(name)) by.get(name).push(row);
      else by.set(name, [row]);
    }
    groups = [...by].map(([name, members]) => summed(name, members));
    if (wanted) groups = groups.filter((group) => `${group.name} ${group.team} ${group.pool} ${group.cluster}`.toLowerCase().includes(wanted));
    const order = (left, right) => (typeof left === "number" ? left - right : String(left).localeCompare(String(right), undefined, { numeric: true }));
    groups.sort((left, right) => (falls ? -1 : 1) * order(left[sorted], right[sorted]));
    if (!columns().includes(sorted)) sorted = "wasted";
    head.replaceChildren(...columns().map(heading));
    const whole = summed("", groups.flatMap((group) => group.members));
    title.textContent = only ? `${{ workload: "Workload", node: "Node", gpu: "GPU" }[only.kind]} ${only.name || "(nobody)"}` : "All that is held, and what is free";
    facts.textContent = `${counted(groups.length, "row")}, ${counted(Number(whole.gpus.toFixed(2)), "GPU")}, ${money(whole.dollars)} a day, ${money(whole.wasted)} of it wasted, ${Math.round(whole.used)}% used. `;
    const found = only ? [...new Set(kept.map((row) => data.advice[row]).filter((at) => at >= 0))] : [];
    advice.replaceChildren(...found.flatMap((at) => [linked(at), " "]));
    if (only) {
      const back = element("a", "Show all");
      back.href = "#gpus";
      facts.append(back);
    }
    table.setAttribute("aria-rowcount", groups.length + 1);
    frame.scrollTop = 0;
    draw();
  };
  function heading(key) {
    const button = element("button", every[key][0]), cell = element("th", "", button);
    button.type = "button";
    cell.scope = "col";
    if (numbers.includes(key)) cell.className = "n";
    if (key === sorted) cell.setAttribute("aria-sort", falls ? "descending" : "ascending");
    button.addEventListener("click", () => {
      falls = sorted === key ? !falls : true;
      sorted = key === "parts" ? "used" : key;
      show();
      head.cells[columns().indexOf(key)].firstChild.focus();
    });
    return cell;
  }
  const label = (name, control) => {
    const found = element("label", `${name} `, control);
    found.className = "search";
    place.append(found);
    control.addEventListener("input", () => (asked() && control !== field ? (location.hash = "gpus") : show()));
  };
  for (const [value, name] of [["workload", "workloads"], ["node", "nodes"], ["gpu", "GPUs"]]) way.append(new Option(name, value));
  label("Show", way);
  for (const column of ["cluster", "team", "pool"]) {
    const names = data.words[column].names.filter(Boolean).toSorted();
    if (names.length < 2) continue;
    choices[column] = document.createElement("select");
    choices[column].append(new Option("all", ""), ...names.map((name) => new Option(name)));
    label(column[0].toUpperCase() + column.slice(1), choices[column]);
  }
  field.type = "search";
  field.placeholder = "a workload, a node, a team";
  label("Search", field);
  place.append(csvButton(() => [
    ["name", "workload", "cluster", "team", "pool", "gpus", "used_percent", "dollars_per_day", "wasted_dollars_per_day"],
    ...groups.map((group) => [group.name, group.workload, group.cluster, group.team, group.pool, group.gpus, group.used, group.dollars, group.wasted]),
  ]));
  table.className = "fleet sortable drawn";
  table.append(element("thead", "", head), body);
  frame.className = "scroll tall";
  frame.tabIndex = 0;
  frame.setAttribute("role", "region");
  frame.setAttribute("aria-label", "Workloads, nodes and GPUs");
  frame.addEventListener("scroll", draw, { passive: true });
  place.append(title, facts, advice, frame);
  window.addEventListener("hashchange", () => {
    show();
    if (asked()) place.scrollIntoView();
  });
  show();
  if (asked()) place.scrollIntoView();
});
