// Keeps a page up to date: only what changed is replaced, so focus, selection and scroll position stay.
"use strict";

const EVERY_MS = 2000;
const SLOW_MS = 15000;

const main = document.querySelector("main[data-live]");
const connection = document.getElementById("connection");
let failures = 0;

function patch(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  const sameShape =
    old.nodeType === Node.ELEMENT_NODE &&
    fresh.nodeType === Node.ELEMENT_NODE &&
    old.tagName === fresh.tagName &&
    old.id === fresh.id;
  if (!sameShape) {
    old.replaceWith(document.importNode(fresh, true));
    return;
  }
  if (old.matches("input, select, textarea")) return;
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !(old.tagName === "DETAILS" && name === "open")) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  const olds = [...old.childNodes];
  const freshes = [...fresh.childNodes];
  freshes.forEach((child, at) => {
    if (at < olds.length) patch(olds[at], child);
    else old.append(document.importNode(child, true));
  });
  for (const child of olds.slice(freshes.length)) child.remove();
}

async function refresh() {
  try {
    const response = await fetch(location.href, {
      headers: { Accept: "text/html" },
      cache: "no-store",
      signal: AbortSignal.timeout(10000),
    });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const fresh = page.querySelector("main");
    const live = response.ok || fresh.hasAttribute("data-live-anyway");
    if (!live) throw new Error(page.querySelector(".lead")?.textContent ?? `HTTP ${response.status}`);
    patch(main, fresh);
    patch(document.getElementById("as-of"), page.getElementById("as-of"));
    failures = 0;
    connection.textContent = "";
  } catch (error) {
    failures += 1;
    connection.textContent = `Not refreshed since then: ${error.message}`;
  }
}

async function keepFresh() {
  for (;;) {
    await new Promise((done) => setTimeout(done, Math.min(EVERY_MS * 2 ** Math.min(failures, 3), SLOW_MS)));
    if (!document.hidden && document.getSelection()?.isCollapsed !== false) await refresh();
  }
}

if (main) keepFresh();
