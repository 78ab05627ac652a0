// Light or dark: asked of the host (JupyterLab, VS Code, Colab), else of the system; a choice by hand wins.

const THEMES = ["auto", "light", "dark"];

/** @returns {"light" | "dark"} */
function hostTheme() {
  const body = document.body?.dataset ?? {};
  if (body.jpThemeLight) return body.jpThemeLight === "false" ? "dark" : "light";
  if (body.vscodeThemeKind) return /dark|high-contrast$/.test(body.vscodeThemeKind) ? "dark" : "light";
  const colab = document.documentElement.getAttribute("theme");
  if (colab) return colab === "dark" ? "dark" : "light";
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** Calls `changed` whenever the host's theme may have changed. @returns {() => void} stops it */
function watchTheme(changed) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const observer = new MutationObserver(changed);
  const attributeFilter = ["data-jp-theme-light", "data-vscode-theme-kind", "theme"];
  system.addEventListener("change", changed);
  observer.observe(document.documentElement, { attributes: true, attributeFilter });
  if (document.body) observer.observe(document.body, { attributes: true, attributeFilter });
  return () => {
    system.removeEventListener("change", changed);
    observer.disconnect();
  };
}

const COLOUR_NAMES = ["page", "panel", "ink", "soft", "faint", "line", "query", "key", "value", "good", "bad", "focus"];

/** The theme's colours for canvas and SVG, read once a theme: reading them inside a drawing would force a layout. */
function readColours(root) {
  const style = getComputedStyle(root);
  return Object.fromEntries(COLOUR_NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}
