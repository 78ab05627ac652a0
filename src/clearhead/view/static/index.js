// The hosts: a page of its own (served or saved), and a notebook.

/** Fills a page that says where its answers are: <div data-source="http" | "embedded">. */
function startPage(element) {
  const { source, token } = element.dataset;
  const answers = source === "embedded" ? embeddedSource(document) : httpSource({ token });
  const said = (state) => {
    try {
      history.replaceState(null, "", `#${state}`);
    } catch {
      // a sandboxed frame owns no address
    }
  };
  const screen = mount(element, answers, { page: true, state: location.hash, said });
  addEventListener("hashchange", () => screen.set(location.hash.slice(1)));
  return screen;
}

/** A notebook's widget (anywidget): the state is a trait both ways; the return value takes the view down. */
function render({ model, el }) {
  el.dataset.lmSuppressShortcuts = "true"; // JupyterLab's own keys, such as "a" and "b", which add cells
  const screen = mount(el, widgetSource(model), {
    state: model.get("state") ?? "",
    said(state) {
      model.set("state", state);
      model.save_changes();
    },
  });
  const follow = () => screen.set(model.get("state") ?? "");
  model.on("change:state", follow);
  return () => {
    model.off("change:state", follow);
    screen.dispose();
  };
}

export default { render };
export { mount, startPage, httpSource, embeddedSource, widgetSource };
