"use strict";
// Flame graphs that are zoomed into by a click or by keys; without scripts they are as they were made.
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
});
