// Replaces the live part of the page after changes. Forms, focus and the scroll position stay.
(() => {
  "use strict";
  // The server knows whether the data are current, and this script whether the server can be reached.
  const link = { text: "", state: "" };
  const render = () => {
    const status = document.getElementById("connection");
    if (link.state === "live" && status.dataset.source) {
      return;
    }
    status.textContent = link.text;
    status.dataset.state = link.state;
  };
  const show = (text, state) => {
    link.text = text;
    link.state = state;
    render();
  };
  const parse = async (address) => {
    const response = await fetch(address, { headers: { Accept: "text/html" } });
    // The pages about a missing control plane and about a deleted object have the status 503 and 404.
    if (!response.ok && response.status !== 503 && response.status !== 404) {
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

  // The parts of the frame that change, as the server sent them.
  const frame = new Map(
    ["connection", "alert"].map((id) => [id, document.getElementById(id).outerHTML]),
  );
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
      const page = await parse(location.href);
      for (const id of frame.keys()) {
        const replacement = page.getElementById(id);
        if (replacement && frame.get(id) !== replacement.outerHTML) {
          frame.set(id, replacement.outerHTML);
          document.getElementById(id).replaceWith(replacement);
        }
      }
      if (updates.readyState === EventSource.OPEN) {
        show("live", "live");
      }
      render();
      const fresh = page.querySelector("[data-live]");
      if (fresh?.dataset.live !== part.dataset.live) {
        location.reload();
        return;
      }
      if (fresh && fresh.innerHTML !== last) {
        last = fresh.innerHTML;
        const known = [...part.querySelectorAll("[data-later]")];
        const focused = part.contains(document.activeElement)
          ? document.activeElement.getAttribute("href")
          : null;
        const open = [...part.querySelectorAll("details[open]")].map((of) => of.id);
        part.replaceChildren(...fresh.childNodes);
        for (const details of part.querySelectorAll("details")) {
          details.open ||= open.includes(details.id);
        }
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
