// Replaces the live part of the page after changes. Forms, focus and the scroll position stay.
(() => {
  "use strict";
  const status = document.getElementById("connection");
  const show = (text, state) => {
    status.textContent = text;
    status.dataset.state = state;
  };
  const parse = async (address) => {
    const response = await fetch(address, { headers: { Accept: "text/html" } });
    if (!response.ok) {
      throw new Error(String(response.status));
    }
    return new DOMParser().parseFromString(await response.text(), "text/html");
  };

  // Loads the parts that take longer, in place of their links. A part whose address is the same stays.
  const load = (known) => {
    for (const later of document.querySelectorAll("[data-later]")) {
      const address = later.dataset.later;
      const [path] = address.split("?");
      const old = known.find((of) => of.dataset.later.split("?")[0] === path);
      if (old) {
        later.replaceChildren(...old.childNodes);
      }
      if (old?.dataset.loaded === address) {
        later.dataset.loaded = address;
        continue;
      }
      parse(address)
        .then((page) => {
          const content = page.querySelector("[data-part]");
          if (content) {
            later.replaceChildren(...content.childNodes);
            later.dataset.loaded = address;
          }
        })
        .catch(() => {});
    }
  };

  let last = document.querySelector("[data-live]")?.innerHTML;
  let running = false;
  let again = false;

  const refresh = async () => {
    const part = document.querySelector("[data-live]");
    if (!part || document.hidden) {
      again = !!part;
      return;
    }
    if (running) {
      again = true;
      return;
    }
    running = true;
    again = false;
    try {
      const fresh = (await parse(location.href)).querySelector("[data-live]");
      if (fresh && fresh.innerHTML !== last) {
        last = fresh.innerHTML;
        const known = [...part.querySelectorAll("[data-later]")];
        const focused = part.contains(document.activeElement)
          ? document.activeElement.getAttribute("href")
          : null;
        part.replaceChildren(...fresh.childNodes);
        load(known);
        if (focused) {
          const same = [...part.querySelectorAll("a")].find((a) => a.getAttribute("href") === focused);
          same?.focus({ preventScroll: true });
        }
      }
    } catch {
      show("update failed", "lost");
    }
    running = false;
    if (again) {
      refresh();
    }
  };

  load([]);
  const updates = new EventSource("/updates");
  updates.addEventListener("open", () => {
    show("live", "live");
    refresh();
  });
  updates.addEventListener("change", refresh);
  updates.addEventListener("error", () => show("not connected", "lost"));
  document.addEventListener("visibilitychange", () => {
    if (again) {
      refresh();
    }
  });
})();
