// Small parts that several pages are made of.
import { duration, exact, fullTime, time } from "./format.js";
import { useClock } from "./live.js";
import { groupOf, hasEnded } from "./states.js";
import { html, useEffect, useId, useRef, useState } from "./ui.js";

// ── states ──────────────────────────────────────────────────────────────────────────────────────
const SIGNS = {
  waiting: html`<circle cx="8" cy="8" r="5.2" fill="none" stroke="currentColor" stroke-width="2" stroke-dasharray="3 2.4" />`,
  running: html`<path d="M5 3.2v9.6L13 8z" fill="currentColor" />`,
  trouble: html`<path d="M8 2.2 14.4 13.6H1.6z" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linejoin="round" /><path d="M8 6.4v3.4M8 11.2v1" stroke="currentColor" stroke-width="1.6" />`,
  finished: html`<path d="m2.8 8.6 3.4 3.6 7-8" fill="none" stroke="currentColor" stroke-width="2.4" />`,
  failed: html`<path d="m3.4 3.4 9.2 9.2m0-9.2-9.2 9.2" fill="none" stroke="currentColor" stroke-width="2.4" />`,
  cancelled: html`<circle cx="8" cy="8" r="5.4" fill="none" stroke="currentColor" stroke-width="2" /><path d="m4.4 11.6 7.2-7.2" stroke="currentColor" stroke-width="2" />`,
};

export function Sign({ group }) {
  return html`<svg class="sign" viewBox="0 0 16 16" aria-hidden="true">${SIGNS[group]}</svg>`;
}

export function State({ state, group = groupOf(state) }) {
  const word = state.toLowerCase().replace("canceled", "cancelled");
  return html`<span class="state ${group}"><${Sign} group=${group} />${word}</span>`;
}

// ── figures ─────────────────────────────────────────────────────────────────────────────────────
export function Figure({ value }) {
  return value === null || value === undefined ? html`<span class="absent" title="not known">–</span>` : value;
}

export function Time({ ms }) {
  const text = time(ms);
  return text === null ? html`<${Figure} />` : html`<time datetime=${new Date(ms).toISOString()} title=${fullTime(ms)}>${text}</time>`;
}

// Time from a start to an end; counts on while there is no end.
export function Lasting({ start, end, state }) {
  const runs = start >= 0 && !(end >= 0) && !hasEnded(state ?? "");
  const now = useClock(runs);
  return html`<${Figure} value=${start >= 0 ? duration(Math.max(0, (end >= 0 ? end : now) - start)) : null} />`;
}

export function Meter({ part, whole, label }) {
  const share = whole > 0 ? Math.min(1, part / whole) : 0;
  return html`<span class="meter" role="img" aria-label=${label}><span style=${{ width: `${100 * share}%` }}></span></span>`;
}

// Subtasks by state, as parts of one bar.
export function TaskBar({ tasks }) {
  const by = (group) => Object.entries(tasks).filter(([name]) => name !== "total" && groupOf(name.toUpperCase()) === group).reduce((sum, [, n]) => sum + n, 0);
  const total = Object.entries(tasks).reduce((sum, [name, n]) => (name === "total" ? sum : sum + n), 0);
  if (!total) return html`<${Figure} />`;
  const parts = ["finished", "running", "trouble", "failed", "cancelled"].map((group) => [group, by(group)]).filter(([, n]) => n > 0);
  const words = parts.map(([group, n]) => `${n} ${group}`).join(", ") || "none begun";
  return html`<span class="taskbar" title=${`${words}, of ${total}`}>
    <span class="bar" role="img" aria-label=${`${words}, of ${total} subtasks`}>${parts.map(([group, n]) => html`<span class=${group} style=${{ width: `${(100 * n) / total}%` }}></span>`)}</span>
    <span class="of">${exact(by("finished"))}/${exact(total)}</span>
  </span>`;
}

// ── panels, errors, nothing ─────────────────────────────────────────────────────────────────────
export function Panel({ title, aside, children, id }) {
  const own = useId();
  return html`<section class="panel" aria-labelledby=${id ?? own}>
    <header><h2 id=${id ?? own}>${title}</h2>${aside && html`<div class="aside">${aside}</div>`}</header>
    ${children}
  </section>`;
}

export function Nothing({ children }) {
  return html`<p class="nothing">${children}</p>`;
}

export function Problem({ error, again }) {
  return html`<div class="problem" role="alert"><p>${error.message}</p>${again && html`<button onClick=${again}>Try again</button>`}</div>`;
}

// What is to be said while a view is not there: nothing for a moment, or what is wrong.
export function Awaited({ view, children }) {
  if (view.data) return html`${view.error && view.error.status !== 401 && html`<p class="stale" role="status">Not up to date: ${view.error.message}</p>`}${children(view.data)}`;
  if (view.error?.status === 401) return null;
  return view.error ? html`<${Problem} error=${view.error} again=${view.reload} />` : html`<p class="awaited" role="status">Loading …</p>`;
}

export function Facts({ facts }) {
  const shown = facts.filter((fact) => fact && fact[1] !== undefined);
  return html`<dl class="facts">${shown.map(([name, value]) => html`<div><dt>${name}</dt><dd><${Figure} value=${value} /></dd></div>`)}</dl>`;
}

export function Pairs({ pairs, name = "Option" }) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${`${name}s`}><table class="pairs">
    <thead><tr><th scope="col">${name}</th><th scope="col">Value</th></tr></thead>
    <tbody>${pairs.map(([key, value]) => html`<tr><th scope="row"><code>${key}</code></th><td><code>${value}</code></td></tr>`)}</tbody>
  </table></div>`;
}

export function Copy({ text, label }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1_500);
  };
  return html`<button class="quiet copy" onClick=${copy} title=${`Copy ${text}`} aria-label=${`Copy ${label} ${text}`}><code>${text.slice(0, 8)}</code> ${done ? "copied" : "copy"}</button>`;
}

export function Tabs({ label, tabs, current }) {
  return html`<nav class="tabs" aria-label=${label}>${tabs.filter(Boolean).map(([key, name, href]) => html`<a href=${href} aria-current=${key === current ? "page" : undefined}>${name}</a>`)}</nav>`;
}

// ── a question before something is done ─────────────────────────────────────────────────────────
// `act` is given the fields of the dialog, and a signal that says that the dialog is gone.
export function Confirm({ title, children, verb, act, close, danger = true }) {
  const dialog = useRef(null);
  const [state, setState] = useState({ busy: false, error: null });
  const control = useRef(null);
  useEffect(() => {
    dialog.current.showModal();
    control.current = new AbortController();
    return () => control.current.abort();
  }, []);
  const id = useId();
  const run = async (event) => {
    event.preventDefault();
    const { signal } = control.current;
    setState({ busy: true, error: null });
    try {
      await act({ signal, fields: new FormData(event.target) });
      if (!signal.aborted) close();
    } catch (error) {
      if (!signal.aborted) setState({ busy: false, error });
    }
  };
  return html`<dialog ref=${dialog} onClose=${close} aria-labelledby=${id}>
    <form method="dialog" onSubmit=${run}>
      <h2 id=${id}>${title}</h2>
      ${children}
      ${state.error && html`<${Problem} error=${state.error} />`}
      <div class="buttons">
        <button type="button" class="quiet" onClick=${() => dialog.current.close()}>Leave it</button>
        <button class=${danger ? "danger" : "primary"} disabled=${state.busy}>${state.busy ? "…" : verb}</button>
      </div>
    </form>
  </dialog>`;
}
