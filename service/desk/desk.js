// The desk's keys. Each moves the focus, follows a link or chooses a category: what decides a case is always pressed.
// Without this script every page works the same, by its forms.
"use strict";

(() => {
  const KEPT = "tribunal-keys-off";
  const off = () => { try { return localStorage.getItem(KEPT) === "1"; } catch { return false; } };
  const typing = (element) => element && (/^(SELECT|TEXTAREA)$/.test(element.tagName)
    || (element.tagName === "INPUT" && !/^(checkbox|radio)$/.test(element.type)));
  const shown = (element) => element && element.getClientRects().length > 0;

  const move = (step) => {
    const rows = [...document.querySelectorAll("[data-row]")].filter(shown);
    if (!rows.length) return;
    const now = rows.indexOf(document.activeElement);
    const next = rows[now < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, now + step))];
    next.focus();
  };

  // A number chooses a category; Enter then presses the button that has the focus.
  const category = document.querySelector("select#category");
  const reason = document.querySelector("select#canned");
  const note = document.getElementById("note");
  const fill = (words) => {
    if (note.value !== "" && note.value !== note.dataset.canned) return; // their own words stay
    note.value = note.dataset.canned = words;
  };
  const choose = (number) => {
    if (!reason || !shown(category) || number >= category.options.length) return false;
    category.selectedIndex = number;
    category.dispatchEvent(new Event("change"));
    const accept = document.querySelector("button[value=accept]");
    const button = accept && accept.dataset.category === category.value ? accept : document.querySelector("button[value=change]");
    button.focus();
    button.scrollIntoView({ block: "nearest" });
    return true;
  };
  if (reason) {
    note.addEventListener("focus", () => { if (note.value === note.dataset.canned) note.select(); });
    category.addEventListener("change", () => {
      reason.value = "";
      fill("");
    });
    reason.addEventListener("change", () => fill(reason.value));
  }

  // How many similar posts are ticked.
  for (const box of document.querySelectorAll(".copies input")) {
    box.addEventListener("change", () => {
      document.querySelector("[data-ticked]").textContent = document.querySelectorAll(".copies input:checked").length;
    });
  }

  // Texts that are blurred by the reader's own choice: the key shows all, or blurs them again; a click shows one.
  const blurred = () => document.querySelectorAll(".blurred :is(.case-words, .searched, .clip, .copies [dir], .case-facts .words)");
  const showTexts = () => {
    const all = [...blurred()], show = !all.every((each) => each.classList.contains("shown-text"));
    for (const each of all) each.classList.toggle("shown-text", show);
  };
  for (const each of blurred()) each.addEventListener("click", () => each.classList.add("shown-text"));

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.key === "Escape" && typing(document.activeElement)) { document.activeElement.blur(); return; }
    if (off() || typing(document.activeElement)) return;
    if (/^[1-9]$/.test(event.key)) { if (choose(Number(event.key))) event.preventDefault(); return; }
    if (event.key === "j" || event.key === "k") { event.preventDefault(); move(event.key === "j" ? 1 : -1); return; }
    if (event.key.length !== 1) return;
    if (event.key === "b" && document.documentElement.classList.contains("blurred")) { showTexts(); return; }
    const box = event.key === "x" && document.activeElement.closest("tr")?.querySelector("input[type=checkbox]");
    if (box) { event.preventDefault(); box.click(); return; }
    if (event.key === "i") {
      const cover = document.querySelector(".ex-reveal");
      if (!cover) return;
      event.preventDefault();
      const folded = cover.closest("details");
      if (folded) folded.open = true;
      cover.focus();
      cover.click();
      return;
    }
    const found = [...document.querySelectorAll("[data-key]")].find((each) => each.dataset.key === event.key && shown(each));
    if (!found) return;
    event.preventDefault();
    if (found.tagName === "A") found.click();
    else if (found.type === "checkbox") { found.focus(); found.click(); }
    else found.focus();
    found.scrollIntoView({ block: "nearest" });
  });

  // Shift and a click tick all rows from the one that was last ticked.
  let last = null;
  for (const box of document.querySelectorAll("input[form=together]")) {
    box.addEventListener("click", (event) => {
      const all = [...document.querySelectorAll("input[form=together]")];
      if (event.shiftKey && last) {
        const [from, to] = [all.indexOf(last), all.indexOf(box)].sort((one, other) => one - other);
        for (const each of all.slice(from, to + 1)) each.checked = box.checked;
      }
      last = box;
    });
  }

  // A letter may be a shortcut only where it can be turned off (WCAG 2.1.4).
  const choice = document.getElementById("keys-off");
  if (choice) {
    choice.checked = off();
    choice.addEventListener("change", () => {
      try { localStorage.setItem(KEPT, choice.checked ? "1" : "0"); } catch { /* it holds for this page alone */ }
    });
  }

  // What can't be undone any more isn't offered any more.
  for (const form of document.querySelectorAll("form[data-left]")) {
    const over = Date.now() + 1000 * form.dataset.left;
    const words = form.querySelector("span");
    const tick = setInterval(() => {
      const left = Math.round((over - Date.now()) / 1000);
      if (left > 0) { words.textContent = words.textContent.replace(/\d+/, left); return; }
      clearInterval(tick);
      form.remove();
    }, 1000);
  }

  // Pressed twice, a button sends once; and nobody leaves a page with words on it by mistake.
  let sent = false;
  for (const form of document.querySelectorAll("form[method=post]")) {
    form.addEventListener("submit", (event) => {
      if (sent) event.preventDefault();
      sent = true;
    });
  }
  addEventListener("pageshow", () => { sent = false; });
  addEventListener("beforeunload", (event) => {
    if (sent) return;
    const typed = [...document.querySelectorAll("form[data-keep] textarea")].some((each) => each.value !== each.defaultValue && each.value !== each.dataset.canned);
    if (typed) event.preventDefault();
  });
})();
