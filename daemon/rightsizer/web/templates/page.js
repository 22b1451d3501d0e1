"use strict";
// Keeps the page true: asks the API for figures, and for the page itself when more has changed.
(() => {
  const root = document.documentElement;
  const stored = {
    get: () => { try { return localStorage.getItem("rightsizer-theme"); } catch { return null; } },
    set: (theme) => { try { localStorage.setItem("rightsizer-theme", theme); } catch { /* Not allowed here: for this visit only. */ } },
  };
  const chosen = stored.get();
  if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;

  const find = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const percent = (ratio) => (ratio > 0 && ratio < 0.005 ? "<1" : ratio < 1 && ratio >= 0.995 ? ">99" : String(Math.round(ratio * 100))) + "%";
  const clock = (seconds) => new Date(seconds * 1000).toISOString().slice(11, 19) + " UTC";
  const put = (element, text) => { if (element && element.textContent !== text) element.textContent = text; };

  function theme() {
    const button = find("#theme");
    const isDark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
    const tell = () => { put(button, isDark() ? "Light" : "Dark"); button.setAttribute("aria-label", isDark() ? "Use light colors" : "Use dark colors"); };
    button.hidden = false;
    button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; stored.set(root.dataset.theme); tell(); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tell);
    tell();
  }

  function copyButtons(within) {
    // Without a socket a command needs the agent's address.
    const agent = new URL(".", location.href);
    const address = (agent.origin + agent.pathname).replace(/\/$/, "");
    if (agent.protocol !== "file:") for (const command of all("[data-command]", within)) command.textContent += " --url " + address;
    for (const box of all(".code", within)) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy quiet";
      button.textContent = "Copy";
      button.setAttribute("aria-label", "Copy: " + find("pre", box).getAttribute("aria-label"));
      button.addEventListener("click", () => copy(find("pre", box), button));
      box.append(button);
    }
  }

  // Claim, snooze and dismiss; without them the page names the commands.
  function acts(within) {
    for (const form of all(".acts", within)) {
      form.hidden = false;
      form.addEventListener("submit", (event) => { event.preventDefault(); act(form, event.submitter.value); });
    }
  }

  async function act(form, verb) {
    const buttons = all("button", form), why = form.elements.why.value.trim();
    for (const button of buttons) button.disabled = true;
    let refusal = "";
    try {
      const asked = { ...(why && { why }), ...(verb === "snooze" && { for: "7d" }) };
      const answer = await fetch(`api/v1/advice/${form.dataset.advice}/${verb}`, { method: "POST", body: JSON.stringify(asked), headers: { "Content-Type": "application/json" } });
      if (answer.ok) renewed(await (await fetch("./?" + document.body.dataset.query, { cache: "no-store" })).text());
      else refusal = await answer.text();
    } catch {
      refusal = "The agent does not answer; nothing was changed that is known of.";
    }
    put(find(".refusal", form), refusal);
    for (const button of buttons) button.disabled = false;
  }

  async function copy(source, button) {
    let copied = false;
    try {
      await navigator.clipboard.writeText(source.textContent);
      copied = true;
    } catch {
      // Without TLS browsers have no clipboard to write to; what is selected can be copied still.
      getSelection().selectAllChildren(source);
      copied = document.execCommand("copy");
    }
    put(button, copied ? "Copied" : "Selected");
    setTimeout(() => put(button, "Copy"), 2000);
  }

  // The sections as the server made them, so that what this script changed does not count as new.
  const made = new Map();
  const remember = (document_) => { for (const section of all("[data-section]", document_)) made.set(section.id, section.outerHTML); };

  function renewed(text) {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    const incoming = all("[data-section]", fresh);
    const ids = (sections) => sections.map((section) => section.id).join();
    if (ids(incoming) !== ids(all("[data-section]"))) { location.reload(); return; }
    const open = new Set(all("details[open]").map((each) => each.id));
    const focused = document.activeElement && document.activeElement.id;
    for (const section of incoming) {
      if (made.get(section.id) === section.outerHTML) continue;
      made.set(section.id, section.outerHTML);
      for (const details of all("details", section)) details.open = open.has(details.id);
      find("#" + section.id).replaceWith(section);
      copyButtons(section);
      acts(section);
      looks(section);
      if (section.id === "s-overview") table();
      if (section.id === "s-advice") put(find("#said"), "The recommendations have changed.");
    }
    if (focused && document.activeElement === document.body) { const again = document.getElementById(focused); if (again) again.focus(); }
    document.title = fresh.title;
    document.body.dataset.revision = fresh.body.dataset.revision;
  }

  // The table of GPUs: what was typed and how it is sorted outlives a renewal.
  let filter = "", sorted = null;
  function table() {
    const gpus = find("#gpus"), label = find("#filter-label");
    if (!gpus) return;
    if (label) {
      label.hidden = false;
      const field = find("#filter");
      field.value = filter;
      field.addEventListener("input", () => { filter = field.value; arrange(gpus); });
    }
    all("thead th", gpus).forEach((head, place) => {
      const key = find("tbody tr", gpus).children[place];
      if (!key || key.dataset.sort === undefined) return;
      const button = document.createElement("button");
      button.type = "button";
      button.id = "sort-" + place;
      button.append(...head.childNodes);
      button.addEventListener("click", () => { sorted = { place, falls: sorted && sorted.place === place ? !sorted.falls : place > 0 }; arrange(gpus); });
      head.append(button);
    });
    for (const fold of all(".fold", gpus)) {
      const inside = document.getElementById(fold.getAttribute("aria-controls"));
      fold.setAttribute("aria-expanded", String(!inside.hidden));
      fold.addEventListener("click", () => { inside.hidden = !inside.hidden; fold.setAttribute("aria-expanded", String(!inside.hidden)); });
    }
    arrange(gpus);
  }

  function arrange(gpus) {
    const boards = all("[data-board]", gpus), wanted = filter.trim().toLowerCase();
    const insideOf = (board) => (board.nextElementSibling && board.nextElementSibling.classList.contains("inside") ? board.nextElementSibling : null);
    const groups = boards.map((board) => [board, insideOf(board)]);
    if (sorted) {
      const value = ([board]) => board.rows[0].children[sorted.place].dataset.sort;
      const order = (one, other) => (isNaN(one) || isNaN(other) ? one.localeCompare(other, undefined, { numeric: true }) : one - other);
      groups.sort((one, other) => (sorted.falls ? -1 : 1) * order(value(one), value(other)));
      all("thead th", gpus).forEach((head, place) => { if (place === sorted.place) head.setAttribute("aria-sort", sorted.falls ? "descending" : "ascending"); else head.removeAttribute("aria-sort"); });
      for (const group of groups) gpus.append(...group.filter(Boolean));
    }
    for (const [board, inside] of groups) {
      const text = (board.textContent + (inside ? inside.textContent : "")).toLowerCase();
      board.hidden = wanted !== "" && !text.includes(wanted);
      if (board.hidden && inside) inside.hidden = true;
    }
  }

  // What all drawings of a time say at one moment, below the pointer or by the keys of a slider.
  function looks(within) {
    for (const field of all(".at input", within)) {
      const label = field.parentElement, time = label.previousElementSibling, line = find(".over u", time), said = find("output", label);
      const look = () => {
        const x = Number(field.value), values = [];
        let when = "";
        for (const drawing of all("svg", time)) {
          const spell = all(".spell", drawing).find(({ x: left, width }) => left.baseVal.value <= x && x < left.baseVal.value + width.baseVal.value);
          if (!spell) continue;
          const [from, ...rest] = spell.textContent.split(": "), chart = drawing.closest(".chart");
          when ||= from;
          values.push((chart ? find("span", chart).textContent + " " : "") + rest.join(": "));
        }
        const text = when ? `${when}: ${values.join("; ")}` : "nothing known";
        put(said, text);
        field.setAttribute("aria-valuetext", text);
        line.hidden = false;
        line.style.left = x / 14.4 + "%";
      };
      label.hidden = false;
      field.addEventListener("input", look);
      time.addEventListener("pointermove", (event) => {
        if (!event.target.closest("svg")) return;
        const frame = time.getBoundingClientRect();
        field.value = ((event.clientX - frame.left) / frame.width) * 1440;
        look();
      });
    }
  }

  // A stretch that is dragged across is shown alone, on the GPU's own page.
  function zooms() {
    for (const note of all("[data-script]")) note.hidden = false;
    let from = null, box = null;
    const place = (event) => { const frame = from.drawing.getBoundingClientRect(); return Math.min(1, Math.max(0, (event.clientX - frame.left) / frame.width)); };
    document.addEventListener("pointerdown", (event) => {
      const drawing = event.target.closest && event.target.closest(".time svg");
      if (!drawing || event.button !== 0 || event.pointerType === "touch") return;
      event.preventDefault();
      from = { drawing };
      from.share = place(event);
      box = document.createElement("div");
      box.className = "dragged";
    });
    document.addEventListener("pointermove", (event) => {
      if (!from) return;
      const frame = from.drawing.getBoundingClientRect(), shares = [from.share, place(event)].sort((one, other) => one - other);
      Object.assign(box.style, { left: frame.left + scrollX + shares[0] * frame.width + "px", top: frame.top + scrollY + "px", width: (shares[1] - shares[0]) * frame.width + "px", height: frame.height + "px" });
      if (!box.isConnected) document.body.append(box);
    });
    document.addEventListener("pointerup", (event) => {
      if (!from) return;
      const shares = [from.share, place(event)].sort((one, other) => one - other), { dataset } = document.body, gpu = from.drawing.closest(".time").dataset.zoom;
      from = null;
      box.remove();
      if (shares[1] - shares[0] < 0.01) return;
      const [start, end] = shares.map((share) => Math.round(Number(dataset.from) + share * (dataset.to - dataset.from)));
      location.search = `?from=${start}&to=${end}` + (dataset.selection || "&gpu=" + encodeURIComponent(gpu)) + (new URLSearchParams(dataset.query).has("span") ? "&span=" + new URLSearchParams(dataset.query).get("span") : "");
    });
    document.addEventListener("keydown", (event) => { if (event.key === "Escape" && from) { from = null; box.remove(); } });
  }

  function show(summary) {
    const names = Object.fromEntries(all("[data-name]").map((entry) => [entry.dataset.name, find("b", entry).textContent]));
    for (const device of summary.devices) {
      for (const place of all(`[data-device="${CSS.escape(device.uuid)}"]`)) {
        const state = find("[data-state]", place);
        if (state) {
          const [dot, name] = state.children;
          if (!dot.classList.contains("b-" + device.state)) dot.className = "dot b-" + device.state;
          put(name, names[device.state] || device.state);
        }
        for (const gauge of all("[data-gauge]", place)) showGauge(gauge, device.signals);
      }
    }
    const time = find("#time");
    if (time) { put(time, new Date(summary.time * 1000).toISOString().slice(0, 19).replace("T", " ") + " UTC"); time.dateTime = new Date(summary.time * 1000).toISOString(); }
    // What is looked at alone has figures of its own, which come with the page.
    if (document.body.dataset.selection) return;
    const now = summary.now;
    put(find("#tile-working .value"), `${now.working} of ${now.devices}`);
    const rest = [[now.idle, "idle"], [now.stalled, "stalled"], [now.unknown, "unknown"]].filter(([count]) => count).map(([count, word]) => `${count} ${word}`);
    if (now.power_watts !== null) rest.push((now.power_watts / 1000).toFixed(1) + "\u00a0kW");
    put(find("#tile-working .detail"), rest.join(", ") || "all of them");
  }

  function showGauge(gauge, signals) {
    const key = gauge.dataset.gauge, ratio = signals[key], bar = find(".bar span", gauge);
    put(find("b", gauge), ratio === undefined ? "not read" : percent(ratio));
    if (bar) bar.style.width = (ratio || 0) * 100 + "%";
    const [part, whole, unit, size] = key === "power" ? ["power_watts", "power_limit_watts", "W", 1] : ["memory_used_bytes", "memory_total_bytes", "GiB", 2 ** 30];
    const more = find(".more", gauge);
    if (more && part in signals && whole in signals) put(more, `${Math.round(signals[part] / size)} of ${Math.round(signals[whole] / size)} ${unit}`);
  }

  function live() {
    const body = document.body, every = Number(body.dataset.poll) * 1000, query = body.dataset.query;
    if (!every) return;
    let paused = body.hasAttribute("data-paused"), failures = 0, answered = null, timer = 0, asking = false;
    const button = find("#pause");
    const say = (kind, text, notice) => {
      body.dataset.live = kind;
      put(find("#live-text"), text);
      const place = find("#notice");
      place.hidden = !notice;
      put(place, notice || "");
    };
    const next = () => { clearTimeout(timer); if (!paused && !document.hidden) timer = setTimeout(ask, every * Math.min(2 ** failures, 12)); };
    async function get(address) {
      const answer = await fetch(address, { cache: "no-store", signal: AbortSignal.timeout(Math.max(10000, every)) });
      // The page of what is gone says so.
      if (!answer.ok && answer.status !== 404) throw new Error(`the agent answers ${answer.status}`);
      return answer;
    }
    async function ask() {
      if (asking) return;
      asking = true;
      try {
        const summary = await (await get("api/v1/summary?" + query.split("&").filter((part) => part.startsWith("span=")).join("&"))).json();
        if (summary && summary.revision !== body.dataset.revision) renewed(await (await get("./?" + query)).text());
        if (summary) show(summary);
        answered = summary ? summary.time : answered;
        failures = 0;
        if (paused) return;
        if (summary && summary.is_stale) say("stale", "stale", "No GPU has a recent reading: the sampling has stopped, and nothing here is the present.");
        else say("live", "live");
      } catch (error) {
        failures += 1;
        say("gone", "no answer", "The agent does not answer" + (answered ? `; what is shown is of ${clock(answered)}` : "") + ". Trying again.");
      } finally {
        asking = false;
        next();
      }
    }
    const settle = () => { put(button, paused ? "Go on" : "Pause"); if (paused) say("paused", "paused"); };
    button.addEventListener("click", () => { paused = !paused; settle(); clearTimeout(timer); if (!paused) ask(); });
    document.addEventListener("visibilitychange", () => { clearTimeout(timer); if (!document.hidden && !paused) ask(); });
    find("#live").hidden = false;
    settle();
    if (!paused) say("live", "live");
    next();
  }

  // What a link leads to may stand within what is folded.
  function reveal() {
    const target = document.getElementById(location.hash.slice(1));
    let isFolded = false;
    for (let fold = target && target.closest("details"); fold; fold = fold.parentElement.closest("details")) {
      isFolded ||= !fold.open;
      fold.open = true;
    }
    if (isFolded) target.scrollIntoView();
  }

  document.addEventListener("DOMContentLoaded", () => {
    theme();
    remember(document);
    copyButtons(document);
    acts(document);
    looks(document);
    table();
    zooms();
    addEventListener("hashchange", reveal);
    reveal();
    if (find("#live")) live();
    else if (document.body.dataset.poll !== "0") setTimeout(() => location.reload(), 3000);
  });
})();
