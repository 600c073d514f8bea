// Replaces the live part of the page after changes. Forms, focus and the scroll position stay.
(() => {
  "use strict";
  const status = document.getElementById("connection");
  const show = (text, state) => {
    status.textContent = text;
    status.dataset.state = state;
  };
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
      const response = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (!response.ok) {
        throw new Error(String(response.status));
      }
      const next = new DOMParser().parseFromString(await response.text(), "text/html");
      const fresh = next.querySelector("[data-live]");
      if (fresh && fresh.innerHTML !== part.innerHTML) {
        const focused = part.contains(document.activeElement)
          ? document.activeElement.getAttribute("href")
          : null;
        part.replaceChildren(...fresh.childNodes);
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
