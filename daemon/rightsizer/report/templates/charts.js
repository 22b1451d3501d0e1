"use strict";
// Timelines and flame graphs that are zoomed into; without scripts they are as they were made.
document.addEventListener("DOMContentLoaded", () => {
  for (const chart of document.querySelectorAll(".flame")) {
    const around = [], frames = [...chart.children].map((box) => {
      const [x, width, row] = [parseFloat(box.getAttribute("x")), parseFloat(box.getAttribute("width")), box.ariaLevel - 1];
      around.length = row;
      const frame = { box, x, width, parent: around[row - 1] };
      around.push(frame);
      return frame;
    });
    const holds = (outer, inner) => inner && (outer === inner || holds(outer, inner.parent));
    let focused = frames[0], middle;
    const focus = (frame) => {
      focused.box.setAttribute("tabindex", -1);
      focused = frame;
      focused.box.setAttribute("tabindex", 0);
    };
    const zoom = (target) => {
      middle = target;
      for (const frame of frames) {
        const scale = holds(frame, target) ? 0 : 100 / target.width, width = scale ? frame.width * scale : 100;
        frame.box.setAttribute("display", scale && !holds(target, frame) ? "none" : "inline");
        frame.box.setAttribute("x", `${scale && (frame.x - target.x) * scale}%`);
        frame.box.setAttribute("width", `${width}%`);
        frame.box.lastChild.setAttribute("visibility", width < 1.5 ? "hidden" : "inherit");
      }
    };
    const beside = (step) => {
      const shown = frames.filter((frame) => frame.box.getAttribute("display") !== "none");
      return shown[shown.indexOf(focused) + step];
    };
    const keys = {
      ArrowUp: () => focused.parent,
      ArrowDown: () => frames.find((frame) => frame.parent === focused),
      ArrowLeft: () => beside(-1),
      ArrowRight: () => beside(1),
      Home: () => frames[0],
      Enter: () => (zoom(focused), focused),
      " ": () => (zoom(focused), focused),
      Escape: () => (zoom(middle.parent ?? middle), middle),
    };
    chart.addEventListener("keydown", (event) => {
      if (!(event.key in keys)) return;
      event.preventDefault();
      const next = keys[event.key]();
      if (!next) return;
      if (next.box.getAttribute("display") === "none") zoom(next);
      focus(next);
      next.box.focus();
    });
    for (const frame of frames) {
      frame.box.setAttribute("tabindex", -1);
      frame.box.addEventListener("click", () => (focus(frame), zoom(frame)));
    }
    focus(focused);
    zoom(focused);
  }
  for (const chart of document.querySelectorAll(".lanes")) {
    const svg = chart.querySelector("svg"), [cells, axis] = svg.querySelectorAll("g"), moment = +chart.dataset.moment;
    const [left, width, tall, most, fewest] = [150, 570, 18, 200, 10];
    const rows = JSON.parse(chart.dataset.lanes).map(([words, part, isCurve, digits]) => ({ words, part, isCurve, shares: [...digits].map((digit) => parseInt(digit, 36) / 35) }));
    const whole = Math.max(...rows.map(({ shares }) => shares.length));
    let [from, to] = [0, whole];
    const add = (around, name, attributes, text) => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
      if (text) made.textContent = text;
      around.append(made);
      return made;
    };
    const time = (seconds) => {
      const [scale, unit] = seconds >= 1 ? [1, "s"] : seconds >= 1e-3 ? [1e-3, "ms"] : [1e-6, "µs"];
      return seconds ? `${+(seconds / scale).toPrecision(4)} ${unit}` : "0 s";
    };
    const box = (x, y, w, h) => `M${x.toFixed(2)} ${y.toFixed(2)}h${w.toFixed(2)}v${h.toFixed(2)}h-${w.toFixed(2)}z`;
    const draw = () => {
      const count = Math.min(to - from, most), step = width / count, tips = Array(count).fill("");
      cells.replaceChildren();
      cells.removeAttribute("transform");
      rows.forEach(({ words, part, isCurve, shares }, place) => {
        const paths = {};
        for (let at = 0; at < count; at++) {
          const within = shares.slice(from + Math.floor(((to - from) * at) / count), from + Math.floor(((to - from) * (at + 1)) / count));
          const share = isCurve ? Math.max(...within) : within.reduce((sum, each) => sum + each, 0) / within.length;
          if (!share) continue;
          tips[at] += `${tips[at] && ", "}${words} ${Math.round(100 * share)}%`;
          const level = isCurve ? 5 : Math.ceil(5 * share - 1e-9), height = (tall - 4) * (isCurve ? share : 1);
          paths[level] = (paths[level] ?? "") + box(left + at * step, (place + 1) * tall - 2 - height, step, height);
        }
        for (const [level, d] of Object.entries(paths)) add(cells, "path", { class: `g-${part}`, opacity: level / 5, d });
      });
      tips.forEach((tip, at) => {
        const cell = add(cells, "path", { class: "hover", d: box(left + at * step, 0, step, tall * rows.length) });
        add(cell, "title", {}, `${time((from + ((to - from) * at) / count) * moment)}: ${tip || "nothing"}`);
      });
      axis.querySelectorAll("text").forEach((label, place, every) => (label.textContent = time((from + ((to - from) * place) / (every.length - 1)) * moment)));
      for (const [button, isOf] of Object.values(buttons)) button.disabled = !isOf();
    };
    const show = (start, length) => {
      const span = Math.min(whole, Math.max(fewest, Math.round(length)));
      from = Math.min(whole - span, Math.max(0, Math.round(start)));
      to = from + span;
      draw();
    };
    const move = (shift, scale) => () => show(from + ((to - from) * (1 - scale)) / 2 + shift * (to - from), (to - from) * scale);
    const isPart = () => to - from < whole, buttons = {};
    const bar = document.createElement("div");
    for (const [name, act, isOf] of [
      ["earlier", move(-0.5, 1), () => from > 0],
      ["closer", move(0, 0.5), () => to - from > fewest],
      ["wider", move(0, 2), isPart],
      ["later", move(0.5, 1), () => to < whole],
      ["whole", () => show(0, whole), isPart],
    ]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = name;
      button.addEventListener("click", act);
      buttons[name] = [button, isOf];
      bar.append(button);
    }
    chart.append(bar);
    const place = (event) => {
      const { left: edge, width: wide } = svg.getBoundingClientRect();
      return Math.min(left + width, Math.max(left, ((event.clientX - edge) / wide) * (left + width)));
    };
    let begun, chosen;
    svg.addEventListener("pointerdown", (event) => {
      begun = place(event);
      chosen = add(svg, "path", { class: "chosen" });
      svg.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    svg.addEventListener("pointermove", (event) => {
      if (chosen) chosen.setAttribute("d", box(Math.min(begun, place(event)), 0, Math.abs(place(event) - begun), tall * rows.length));
    });
    svg.addEventListener("pointerup", (event) => {
      if (!chosen) return;
      const [start, end] = [begun, place(event)].sort((one, other) => one - other).map((x) => from + ((x - left) / width) * (to - from));
      chosen = void chosen.remove();
      if (end - start > (to - from) / 100) show(start, end - start);
    });
    svg.addEventListener("pointercancel", () => (chosen = void chosen?.remove()));
    draw();
  }
});
