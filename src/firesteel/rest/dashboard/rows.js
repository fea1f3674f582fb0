// A table of which only the rows in sight are there, so that ten thousand cost as much as twenty.
import { html, useLayoutEffect, useReducer, useRef } from "./ui.js";

const BEYOND = 6; // rows above and below what is in sight

export function Rows({ label, columns, rows, rowHeight, narrowHeight = rowHeight, keyOf, row, lines = 14, kind = "" }) {
  const box = useRef(null);
  const [, again] = useReducer((n) => n + 1, 0);
  useLayoutEffect(() => {
    const watcher = new ResizeObserver(again);
    watcher.observe(box.current);
    return () => watcher.disconnect();
  }, []);
  const height = matchMedia("(max-width: 700px)").matches ? narrowHeight : rowHeight;
  const seen = box.current?.clientHeight || lines * height;
  const first = Math.max(0, Math.floor((box.current?.scrollTop ?? 0) / height) - BEYOND);
  const last = Math.min(rows.length, first + Math.ceil(seen / height) + 2 * BEYOND);
  const frame = useRef(0);
  const scrolled = () => {
    cancelAnimationFrame(frame.current);
    frame.current = requestAnimationFrame(again);
  };
  return html`<div class="rows ${kind}" role="table" aria-label=${label} aria-rowcount=${rows.length + 1}>
    <div role="rowgroup" class="head"><div role="row" aria-rowindex="1">${columns.map(([name, style]) => html`<span role="columnheader" class=${style ?? ""}>${name}</span>`)}</div></div>
    <div role="rowgroup" class="body" tabindex="0" ref=${box} onScroll=${scrolled} style=${{ maxHeight: `${lines * height}px` }}>
      <div role="presentation" style=${{ height: `${first * height}px` }}></div>
      ${rows.slice(first, last).map((each, index) => html`<div role="row" key=${keyOf(each)} aria-rowindex=${first + index + 2} style=${{ height: `${height}px` }}>${row(each)}</div>`)}
      <div role="presentation" style=${{ height: `${(rows.length - last) * height}px` }}></div>
    </div>
  </div>`;
}

export function Cell({ style = "", children }) {
  return html`<span role="cell" class=${style}>${children}</span>`;
}
